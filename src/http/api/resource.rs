//! `/api/v1/partition/{p}/resource`: the resource journal (RFC 44), the state of targets, drain and undrain.

mod query;
pub mod status;
mod stream;

use std::sync::Arc;

use actix::Addr;
use actix_web::{
    HttpRequest, HttpResponse,
    http::StatusCode,
    web::{self, Bytes, Data, Path, Payload},
};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{
    actors::{
        directory::{Asked, Directory, PartitionEntry},
        journal::{JournalActor, Journals},
        topology::Topology,
    },
    domain::{
        hostlist::HostList,
        idset::IdSet,
        journal::{DrainRefusal, DrainRequest, Overwrite, UndrainRequest},
        types::Nanos,
    },
    http::{
        api::{counts::counts, find_partition, gone, note, overdue::OverdueDrains, time::length, unanswered},
        long::{self, Asker, SharedBy, Turn},
        operation::{nothing, yes_or_no},
        problem::Problem,
        route::{Access, Route},
        shim::body,
        ws_v1::state::now,
    },
    messages::{
        journal::{Cancel, Drain, GetOverdue, GetStatus, SetExpiration, Undrain},
        partition::{GetSnapshot, Snapshot},
    },
};

/// Longest body of a drain or undrain, bytes.
const LONGEST: usize = 1 << 20;

/// Where the handlers find partitions and journals.
pub struct ResourceApi {
    /// Partitions by the name that REST shows.
    pub directory: Arc<Directory>,
    /// The wiring, where other servers may lead partitions.
    pub topology: Option<Arc<Topology>>,
    /// Their journals.
    pub journals: Arc<Journals>,
    /// Long answers that several wait for, by partition.
    pub statuses: SharedBy<Arc<str>, String>,
}

/// Partitions that are named, of those that are not there, at most.
const NAMED: usize = 20;

/// What a name stands for.
struct Found {
    internal: Arc<str>,
    journal: Asked<JournalActor>,
    /// `None`: no registered resource manager has it. What operators say then holds from its next session on.
    partition: Option<PartitionEntry>,
}

/// The application's data has to hold a [`ResourceApi`].
pub fn routes() -> Vec<Route> {
    let object = |properties: &Value, required: &str| json!({"type": "object", "required": [required], "additionalProperties": false, "properties": properties});
    let mut targets = json!({
        "targets": {"type": "string", "description": "idset of ranks, or hostlist, in which a node's id may stand for its host"},
        "reason": {"type": ["string", "null"]},
        "overwrite": {"type": ["integer", "null"], "minimum": 0, "maximum": 2},
    });
    let undrained = object(&targets, "targets");
    let what = "when operators are told of what still runs there: a duration from now, or a time to come";
    targets["deadline"] = json!({"type": ["string", "null"], "description": what, "example": "30m"});
    let drained = object(&targets, "targets");
    let what = "seconds since 1970-01-01 UTC; 0: never";
    let seconds = json!({"type": "number", "minimum": 0, "maximum": LAST_SECOND, "description": what});
    let expires = object(&json!({"expiration": seconds}), "expiration");
    vec![
        Access::Viewer
            .get("/api/v1/partition/{partition}/resource/journal")
            .to(journal, "The resource journal (RFC 44): history, sentinel, new events")
            .query("historical", yes_or_no(), "the events so far; left out: true")
            .query("follow", yes_or_no(), "those to come, for ever; left out: true")
            .lines("Responses with events and resources, one in a line")
            .problems(&[400, 404, 503]),
        Access::Operator
            .post("/api/v1/partition/{partition}/resource/journal/{stream}/cancel")
            .to(
                cancel,
                "Ends a reader of the journal (without tokens: with Content-Type: application/json, but no body)",
            )
            .json(200, nothing())
            .problems(&[404, 415, 503]),
        Access::Viewer
            .get("/api/v1/partition/{partition}/resource/status")
            .to(get_status, "Targets by state")
            .gives::<status::Body>(200)
            .problems(&[404, 503]),
        Access::Operator
            .post("/api/v1/partition/{partition}/resource/drain")
            .to(drain, "Takes targets out of service")
            .body("application/json", drained)
            .json(200, nothing())
            .problems(&[400, 404, 408, 409, 413, 415, 503]),
        Access::Operator
            .post("/api/v1/partition/{partition}/resource/undrain")
            .to(undrain, "Puts targets back into service")
            .body("application/json", undrained)
            .json(200, nothing())
            .problems(&[400, 404, 408, 409, 413, 415, 503]),
        Access::Operator
            .post("/api/v1/partition/{partition}/resource/expiration")
            .to(expiration, "Sets when the resource set expires")
            .body("application/json", expires)
            .json(200, nothing())
            .problems(&[400, 404, 408, 413, 415, 503]),
    ]
}

impl ResourceApi {
    fn find(&self, name: &str) -> Result<Found, Problem> {
        let listing = self.directory.get();
        let problem = match find_partition(&listing, name) {
            Ok(entry) => {
                let journal = self.journals.asked(&entry.internal);
                return Ok(Found { internal: entry.internal.clone(), journal, partition: Some(entry) });
            }
            Err(problem) => problem,
        };
        // Where servers share the logs, a session begins with what its log says.
        if self.topology.as_ref().is_some_and(|topology| topology.leaders().is_some()) {
            return Err(problem);
        }
        let there = |internal: &str| listing.partitions.iter().any(|entry| *entry.internal == *internal);
        let internal = self.journals.absent(name, there).map_err(|others| match others.is_empty() {
            true => problem,
            false => {
                let names = others.get(..NAMED).unwrap_or(&others).join(", ");
                let detail = format!("{}; only the journal is there of: {names}", problem.detail);
                Problem { detail, ..problem }
            }
        })?;
        Ok(Found { journal: self.journals.asked(&internal), internal, partition: None })
    }

    /// Finds it for what an operator is about to say. A server that has just taken the lead answers only when its journal has heard
    /// from the partition what held before: what is said earlier would be undone by that.
    async fn led(&self, name: &str) -> Result<Found, Problem> {
        let found = self.find(name)?;
        self.counts(&found).await?;
        Ok(found)
    }

    /// Waits until what an operator said holds for whichever server leads.
    async fn counts(&self, found: &Found) -> Result<(), Problem> {
        match (&self.topology, &found.partition) {
            (Some(topology), Some(partition)) => counts(topology, partition).await,
            _ => Ok(()),
        }
    }

    /// Finds out whether an operator has settled what was damaged.
    async fn look(&self, internal: &str) {
        if let Some(faults) = self.journals.faults_of(internal).filter(|faults| faults.count() > 0) {
            // Where it cannot be found out, it is told as it was.
            let _ = web::block(move || faults.look()).await;
        }
    }
}

async fn journal(api: Data<ResourceApi>, path: Path<String>, request: HttpRequest) -> Result<HttpResponse, Problem> {
    let Found { journal, .. } = api.find(&path)?;
    let attached = journal.send(query::parse(request.query_string())?).await.map_err(unanswered)?;
    Ok(stream::respond(attached, Addr::clone(&journal), api.topology.clone()))
}

async fn cancel(api: Data<ResourceApi>, path: Path<(String, String)>) -> Result<HttpResponse, Problem> {
    let (partition, stream) = path.into_inner();
    let Found { journal, .. } = api.find(&partition)?;
    let cancelled = match stream.parse() {
        Ok(number) => journal.send(Cancel(number)).await.map_err(unanswered)?,
        Err(_) => false,
    };
    if !cancelled {
        let detail = format!("journal stream '{stream}' not found; the header {} of a stream names it", stream::HEADER);
        return Err(Problem::new(StatusCode::NOT_FOUND, detail));
    }
    Ok(empty())
}

async fn get_status(api: Data<ResourceApi>, path: Path<String>, asker: Asker) -> Result<HttpResponse, Problem> {
    let Found { internal, journal, partition } = api.find(&path)?;
    api.look(&internal).await;
    let targets = |snapshot: &Option<Arc<Snapshot>>| snapshot.as_ref().map_or(0, |all| all.partition.nodes.len());
    let take = async || match &partition {
        Some(entry) => entry.addr.send(GetSnapshot).await.map(Some).map_err(unanswered),
        None => Ok(None),
    };
    let make = async |turn: Turn| {
        let snapshot = take().await?;
        let state = journal.send(GetStatus).await.map_err(unanswered)?;
        let passed = journal.send(GetOverdue).await.map_err(unanswered)?;
        // Hosts that are away have no rows.
        let turn = turn.of(&asker, state.targets.len()).await;
        let make = move || {
            let Some(rows) = snapshot.as_ref().map(|snapshot| &snapshot.partition) else {
                return status::text(&state, &OverdueDrains::default(), |_| false);
            };
            let allocated = |node: &str| rows.node_by_id.get(node).is_some_and(|ix| rows.nodes[*ix].placements() > 0);
            status::text(&state, &OverdueDrains::of(rows, passed), allocated)
        };
        Ok::<_, Problem>(turn.make(make).await?)
    };
    let rows = targets(&take().await?);
    let made = api.statuses.get_long(internal, rows, &asker, make).await?;
    Ok(HttpResponse::Ok().content_type("application/json").body(long::body(made)))
}

/// Longest reason, bytes: the journal keeps it for each order, and shims are told it.
const LONGEST_REASON: usize = 16 << 10;

/// Characters of a text of a request in the audit log.
const SHOWN: usize = 200;
/// Hosts that are sorted for it.
const SORTED: u64 = 10_000;

/// Targets as a list in which neighbours share a pair of brackets.
fn short(targets: &str) -> String {
    match (IdSet::parse(targets), HostList::parse(targets)) {
        (Err(_), Ok(hosts)) if hosts.len() <= SORTED => {
            let mut names: Vec<String> = hosts.iter().collect();
            // So that `n10` comes behind `n9`.
            names.sort_by(|one, other| (one.len(), one).cmp(&(other.len(), other)));
            names.dedup();
            let list = names.into_iter().collect::<HostList>().to_string();
            if IdSet::parse(&list).is_ok() { list + "," } else { list }
        }
        _ => targets.to_owned(),
    }
}

/// Body of drain and undrain.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Body {
    targets: String,
    #[serde(default)]
    reason: Option<String>,
    #[serde(default)]
    overwrite: Option<i64>,
    /// Of a drain.
    #[serde(default)]
    deadline: Option<String>,
}

/// The last moment that a deadline may be, in nanoseconds from now.
const LATEST: Nanos = Nanos::from_secs(10 * 365 * 86_400);

/// A time to come, or a duration from now.
fn deadline(text: &str) -> Result<Nanos, Problem> {
    let now = now();
    let time = || text.parse::<jiff::Timestamp>().ok().and_then(|time| i64::try_from(time.as_nanosecond()).ok());
    let at = length(text).map(|length| now.plus(length)).or_else(|| time().map(Nanos));
    at.filter(|at| (now..=now.plus(LATEST)).contains(at)).ok_or_else(|| {
        let forms =
            "a duration from now such as 30m or 2d, or a time to come such as 2026-11-20T19:00:00Z, within 10 years";
        Problem::field("deadline", format!("deadline '{}' is not {forms}", text.chars().take(100).collect::<String>()))
    })
}

impl Body {
    /// What the audit log says of it. What is short comes first, since a long text is cut.
    fn told(&self) -> String {
        let mut told: String = self.reason.as_deref().unwrap_or("no reason").chars().take(SHOWN).collect();
        if let Some(deadline) = &self.deadline {
            told.push_str(", deadline ");
            told.extend(deadline.chars().take(SHOWN));
        }
        if let Some(overwrite) = self.overwrite {
            told.push_str(&format!(", overwrite {overwrite}"));
        }
        told + ": " + &short(&self.targets)
    }

    fn parse(bytes: &Bytes) -> Result<(Body, Option<Overwrite>), Problem> {
        let body: Body = body::json(
            bytes,
            r#"{"targets": "IDSET or HOSTLIST", "reason": "…", "overwrite": 0, 1 or 2, "deadline": "30m"}"#,
        )?;
        Problem::check_length("reason", body.reason.as_deref().unwrap_or_default(), LONGEST_REASON)?;
        let overwrite = match body.overwrite {
            None => None,
            Some(number) => Some(Overwrite::from_number(number).ok_or_else(|| {
                let detail = format!("overwrite is {number}, but may be 0, 1 or 2 only");
                Problem::field("overwrite", detail)
            })?),
        };
        Ok((body, overwrite))
    }
}

async fn drain(
    api: Data<ResourceApi>,
    path: Path<String>,
    request: HttpRequest,
    payload: Payload,
) -> Result<HttpResponse, Problem> {
    let bytes = body::short(&request, payload, LONGEST).await?;
    let found = api.led(&path).await?;
    let (body, overwrite) = Body::parse(&bytes)?;
    note(&request, body.told());
    let deadline = body.deadline.as_deref().map(deadline).transpose()?;
    let request = DrainRequest { targets: body.targets, reason: body.reason.map(Into::into), overwrite, deadline };
    // It is not certain whether it holds before it is answered.
    Addr::send(&found.journal, Drain(request)).await.map_err(gone)?.map_err(refused)?;
    api.counts(&found).await?;
    Ok(empty())
}

async fn undrain(
    api: Data<ResourceApi>,
    path: Path<String>,
    request: HttpRequest,
    payload: Payload,
) -> Result<HttpResponse, Problem> {
    let bytes = body::short(&request, payload, LONGEST).await?;
    let found = api.led(&path).await?;
    let (body, overwrite) = Body::parse(&bytes)?;
    note(&request, body.told());
    if body.deadline.is_some() {
        return Err(Problem::field("deadline", "deadline is given, but an undrain has none"));
    }
    let lenient = overwrite.is_some();
    let request = UndrainRequest { targets: body.targets, reason: body.reason.map(Into::into), lenient };
    Addr::send(&found.journal, Undrain(request)).await.map_err(gone)?.map_err(refused)?;
    api.counts(&found).await?;
    Ok(empty())
}

/// Body of a new expiration.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ExpirationBody {
    expiration: serde_json::Number,
}

/// The last second that a clock of four-digit years can show.
const LAST_SECOND: i64 = 253_402_300_799;

async fn expiration(
    api: Data<ResourceApi>,
    path: Path<String>,
    request: HttpRequest,
    payload: Payload,
) -> Result<HttpResponse, Problem> {
    let bytes = body::short(&request, payload, LONGEST).await?;
    let Found { journal, .. } = api.find(&path)?;
    let ExpirationBody { expiration } =
        body::json(&bytes, r#"{"expiration": seconds since 1970-01-01 UTC, or 0 for none}"#)?;
    // A real is taken as from other writers of the RFC, and its fraction cut (SEEDS S19); what that would make 0 is not meant to.
    let whole = |real: &f64| *real == 0.0 || real.abs() >= 1.0;
    let seconds = expiration.as_i64().or_else(|| expiration.as_f64().filter(whole).map(|real| real as i64));
    let seconds = seconds.filter(|seconds| (0..=LAST_SECOND).contains(seconds)).ok_or_else(|| {
        let range = format!("0 (none) to {LAST_SECOND}, in seconds since 1970-01-01 UTC");
        Problem::field("expiration", format!("expiration is {expiration}, but may be {range}"))
    })?;
    note(&request, time_of(seconds));
    Addr::send(&journal, SetExpiration(seconds)).await.map_err(gone)?.map_err(refused)?;
    Ok(empty())
}

/// An expiration for people.
fn time_of(seconds: i64) -> String {
    match seconds {
        0 => "none".to_owned(),
        _ => jiff::Timestamp::from_second(seconds).map_or_else(|_| seconds.to_string(), |time| time.to_string()),
    }
}

fn empty() -> HttpResponse {
    HttpResponse::Ok().content_type("application/json").body("{}")
}

fn refused(refusal: DrainRefusal) -> Problem {
    let detail = refusal.to_string();
    match refusal {
        DrainRefusal::Targets(_) => Problem::field("targets", detail),
        DrainRefusal::Ambiguous(_)
        | DrainRefusal::Drained(_)
        | DrainRefusal::NotDrained(_)
        | DrainRefusal::RmDrained(_) => {
            Problem { field: Some("targets".to_owned()), ..Problem::new(StatusCode::CONFLICT, detail) }
        }
        DrainRefusal::Disk(_) => Problem::new(StatusCode::SERVICE_UNAVAILABLE, detail),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_matters_of_a_drain_is_told_however_many_hosts_it_names() {
        let hosts: Vec<String> = (1..=100).map(|n| format!("node-with-a-long-name-{n}")).collect();
        let body = |targets: &str| Body {
            targets: targets.to_owned(),
            reason: Some("disk".to_owned()),
            overwrite: Some(1),
            deadline: Some("30m".to_owned()),
        };
        let told = body(&hosts.join(",")).told();
        assert_eq!(told, "disk, deadline 30m, overwrite 1: node-with-a-long-name-[1-100]");
        let told = |targets: &str| Body { overwrite: None, deadline: None, ..body(targets) }.told();
        assert_eq!(["0-3,7", "1,", "b,a", "a["].map(told), ["disk: 0-3,7", "disk: 1,", "disk: a,b", "disk: a["]);
        let long = Body { reason: Some("ö".repeat(5_000)), ..body("n1") }.told();
        assert!(long.ends_with(", deadline 30m, overwrite 1: n1") && long.len() < 1_000);
    }
}
