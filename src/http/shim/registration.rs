//! Registration, configuration, and the end of a session.

use actix_web::{
    HttpRequest, HttpResponse, ResponseError as _,
    web::{Bytes, Data, Path, Payload},
};
use schemars::JsonSchema;
use serde::{Serialize, de::DeserializeOwned};

use super::{
    body,
    once::{Once, Turn, acknowledged},
    query,
    requests::{enter, same_rm},
};
use crate::{
    access::Caller,
    actors::{
        rm::{handle::not_registered, no_partitions},
        topology::{Notes, Refusals, Registration, Sender},
    },
    http::{api::plan::view::Warning, doors::Doors, guard, problem::Problem, standby},
    messages::rm::{Predicates, Refusal, RefusalKind, Unregister},
    si::{
        decode,
        intake::{self, Fault},
        v1,
    },
};

/// POST `/si/v1/rm`.
pub async fn register(
    request: HttpRequest,
    caller: Caller,
    payload: Payload,
    doors: Data<Doors>,
) -> Result<HttpResponse, Problem> {
    let text = body::read(&request, payload, doors.limits().body()).await?;
    let parameters = query::parameters(&request, &["predicates", "stateDump"])?;
    let predicates = match query::one(&parameters, "predicates") {
        None | Some("false") => Predicates::Off,
        Some("true") => Predicates::Single,
        Some("batch") => Predicates::Batch,
        Some("several") => Predicates::Several,
        Some(other) => {
            return Err(Problem::field(
                "predicates",
                format!("predicates={other} is not one of true, false, batch, several"),
            ));
        }
    };
    let state_dump = query::yes(&parameters, "stateDump")?;
    let query = request.query_string().as_bytes();
    let asked = Once::asked(&request, "RegisterResourceManagerRequest", &[&text, query])?;
    // Where another server may take it.
    let sent = doors.topology.leaders().map(|_| text.clone());
    let message: v1::RegisterResourceManagerRequest = read(text).await?;
    caller.acts_for(&message.rm_id)?;
    guard::note(&request, format!("resource manager {}", message.rm_id));
    let registration = Registration {
        rm: message.rm_id,
        version: message.version,
        policy_group: message.policy_group,
        build_info: message.build_info,
        config: message.config,
        extra: message.extra_config,
        predicates,
        state_dump,
        sender: sender(&request, &caller),
        asked,
    };
    let registered = match (doors.topology.register(registration).await, sent) {
        (Err(refused), Some(sent)) => return standby::elsewhere(&doors, &request, sent, refused.into()).await,
        (registered, _) => registered?,
    };
    guard::note(&request, registered.notes.audited());
    Ok(taken(&registered.notes))
}

fn sender(request: &HttpRequest, caller: &Caller) -> Sender {
    let name = caller.identity(request.peer_addr().map(|peer| peer.ip()));
    Sender { name, tenant: caller.is_tenant() }
}

async fn read<T: DeserializeOwned + Send + 'static>(text: Bytes) -> Result<T, Problem> {
    let read = |text: &[u8]| {
        intake::bounded_maps(text)?;
        Ok::<T, Fault>(decode::message(text)?)
    };
    body::said(text, read).await
}

/// PUT `/si/v1/rm/{rmID}/configuration`.
pub async fn configure(
    request: HttpRequest,
    rm: Path<String>,
    caller: Caller,
    payload: Payload,
    doors: Data<Doors>,
) -> Result<HttpResponse, Problem> {
    let entered = enter(&doors, &rm, "UpdateConfigurationRequest").map_err(|problem| {
        // R1.12; but where another server leads it, or it cannot be told, that is said.
        let detail = if problem.status.is_client_error() { no_partitions(&rm) } else { problem.detail };
        Problem { detail, ..problem }
    });
    let entered = entered.and_then(|(handle, gate)| Once::of(&request, &rm, &gate).map(|once| (handle, gate, once)));
    let ((handle, gate, once), payload) = body::unless(entered, payload).await?;
    let numbered = matches!(once, Once::Numbered(_));
    let text = body::read(&request, payload, doors.limits().body()).await?;
    let mut handing = match once.turn(&handle, &gate, "UpdateConfigurationRequest", &text).await? {
        Turn::Before(answered) => {
            let answer = answered.map_or_else(|refused| refused.error_response(), |()| done());
            return Ok(acknowledged(answer, numbered, &gate));
        }
        Turn::Now(handing) => handing,
    };
    let message: v1::UpdateConfigurationRequest = read(text).await?;
    same_rm(&message.rm_id, &rm)?;
    let sender = sender(&request, &caller);
    let (group, extra) = (message.policy_group, message.extra_config);
    handing.alone().await?;
    // Its body may have come when the session had ended.
    let epoch = Some(gate.epoch);
    let (answer, refused) = match doors.topology.configure(&rm, epoch, &group, message.config, extra, sender).await {
        Ok(notes) => {
            guard::note(&request, notes.audited());
            (taken(&notes), None)
        }
        Err(refused) => {
            let reason = match &refused {
                Refusals::Config(refused) => refused.message.clone(),
                Refusals::Other(refusal) if refusal.kind == RefusalKind::Invalid => refusal.detail.clone(),
                Refusals::Other(_) => return Err(refused.into()),
            };
            guard::note(&request, reason.clone());
            (Problem::from(refused).error_response(), Some(reason))
        }
    };
    handing.done(refused.as_deref());
    handing.applied().await?;
    Ok(acknowledged(answer, numbered, &gate))
}

/// DELETE `/si/v1/rm/{rmID}`.
pub async fn unregister(request: HttpRequest, rm: Path<String>, doors: Data<Doors>) -> Result<HttpResponse, Problem> {
    let asked = Once::asked(&request, "UnregisterRequest", &[])?;
    let handle = doors.topology.find(&rm).ok_or_else(|| not_registered("UnregisterRequest", &rm))?;
    let gone = || Refusal::new(RefusalKind::Unknown, format!("resource manager \"{rm}\" is no longer known"));
    handle.addr.send(Unregister { asked }).await.unwrap_or_else(|_| Err(gone()))?;
    Ok(done())
}

/// The answer to a registration and to an update: the message of the interface, which is empty, and beside it what is to be
/// told about the configuration, and what was not taken over.
#[derive(Debug, Default, Serialize, JsonSchema)]
#[schemars(rename = "Taken")]
pub struct Taken {
    /// What of the configuration and its settings is accepted and does not do what it looks like.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<Warning>,
    /// Settings of the whole process that were ignored: they take the role operator.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    ignored: Vec<String>,
}

/// Warnings in one answer: a large configuration may have one at each queue.
const WARNINGS: usize = 100;

fn taken(notes: &Notes) -> HttpResponse {
    let mut warnings: Vec<Warning> = notes.iter().take(WARNINGS).map(Warning::from).collect();
    let more = notes.iter().count() - warnings.len();
    if more > 0 {
        let message = format!("{more} more of these; callboard validate lists all");
        warnings.push(Warning { line: 0, column: 0, rule: String::new(), message });
    }
    HttpResponse::Ok().json(Taken { warnings, ignored: notes.ignored().to_vec() })
}

fn done() -> HttpResponse {
    HttpResponse::Ok().content_type("application/json").body("{}")
}
