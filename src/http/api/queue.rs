//! `/api/v1/partition/{p}/queue/{q}`: a queue's door: what operators told it to become, and whom it refused; stop, drain,
//! resume. `/api/v1/partition/{p}/orders`: all that holds of what operators told queues.

use std::sync::Arc;

use actix::Addr;
use actix_web::{
    HttpRequest, HttpResponse,
    http::StatusCode,
    web::{Data, Path, Payload},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{board::BoardApi, counts::counts, gone, note, unanswered};
use crate::{
    access::Caller,
    domain::{
        Partition,
        queue_order::{OrderKind, OrderRefusal, QueueOrder},
        types::Nanos,
    },
    http::{
        problem::Problem,
        route::{Access, Route},
        shim::body,
        ws_v1::{
            reply::{self, Reply},
            state::now,
            time_text,
        },
    },
    messages::partition::{OrderQueue, ShowAdmissions},
};

/// Longest body, bytes.
const LONGEST: usize = 64 << 10;
/// Longest reason, bytes: it is repeated in each rejection.
const LONGEST_REASON: usize = 1_024;

/// The answer.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "QueueDoor")]
#[serde(rename_all = "camelCase")]
pub struct Shown<'a> {
    partition: &'a str,
    queue: &'a str,
    /// Active, Stopped or Draining.
    state: &'static str,
    /// What operators told it, or a queue above it, to become.
    #[serde(skip_serializing_if = "Option::is_none")]
    order: Option<Order<'a>>,
    /// No application is in it or below it.
    empty: bool,
    /// It comes from the configuration; else placement made it.
    managed: bool,
    /// Applications that it took since it came.
    admitted: u64,
    /// Applications that it refused since then.
    refused: u64,
    /// The latest refusals, the newest first.
    refusals: Vec<Refused>,
}

/// See [`Shown::order`].
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "QueueOrder")]
pub struct Order<'a> {
    /// stop or drain.
    order: &'static str,
    /// The queue that it was given for.
    queue: &'a str,
    by: &'a str,
    /// RFC 3339.
    since: &'a str,
    reason: &'a str,
}

/// All orders of a partition.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "QueueOrders")]
struct Orders<'a> {
    partition: &'a str,
    /// By path, also those for queues that are not there: they come back as the operator left them.
    orders: Vec<Given<'a>>,
}

/// An order that holds.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "GivenOrder")]
struct Given<'a> {
    /// The queue that it was given for.
    queue: &'a str,
    /// Active, Stopped or Draining; absent where it is not there.
    state: &'static str,
    /// stop or drain.
    order: &'static str,
    by: &'a str,
    /// RFC 3339.
    since: &'a str,
    reason: &'a str,
}

/// How a queue is after an order was carried out.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "QueueOrdered")]
pub struct Ordered<'a> {
    queue: &'a str,
    /// Active, Stopped or Draining; absent where it is not there.
    state: &'static str,
    /// Why it takes no application: after a resume, an order to a queue above it, or the configuration.
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<String>,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "AppRefusal")]
struct Refused {
    #[serde(rename = "applicationID")]
    application: Arc<str>,
    /// RFC 3339.
    time: String,
    reason: Arc<str>,
}

/// The application's data has to hold a [`BoardApi`].
pub(super) fn routes() -> Vec<Route> {
    let reason = json!({
        "type": ["string", "null"],
        "maxLength": LONGEST_REASON,
        "description": "each refused application is told",
    });
    let overwrite =
        json!({"type": "boolean", "description": "replaces reason and time of an order that holds already"});
    let order = json!({
        "type": "object",
        "additionalProperties": false,
        "properties": {"reason": reason, "overwrite": overwrite},
    });
    let ordered = |path, kind, what| {
        let handler = move |api, caller, path, request, payload| self::order(api, caller, kind, path, request, payload);
        let route = Access::Operator.post(path).to(handler, what).body("application/json", order.clone()).or_nothing();
        route.gives::<Ordered>(200).problems(&[400, 404, 408, 409, 413, 415, 503])
    };
    vec![
        Access::Viewer
            .get("/api/v1/partition/{partition}/orders")
            .to(list, "What operators told queues, those that are not there too")
            .gives::<Orders>(200)
            .problems(&[404, 503]),
        Access::Viewer
            .get("/api/v1/partition/{partition}/queue/{queue}")
            .to(show, "A queue's state, what operators told it, and whom it refused")
            .gives::<Shown>(200)
            .problems(&[404, 503]),
        ordered(
            "/api/v1/partition/{partition}/queue/{queue}/stop",
            Some(OrderKind::Stop),
            "Lets a queue take no new application",
        ),
        ordered(
            "/api/v1/partition/{partition}/queue/{queue}/drain",
            Some(OrderKind::Drain),
            "Lets a queue take no new application, and tells when it is empty",
        ),
        ordered("/api/v1/partition/{partition}/queue/{queue}/resume", None, "Lets a queue take applications again"),
    ]
}

type Parts = Path<(String, String)>;
type Answered = Result<HttpResponse, Problem>;

async fn list(api: Data<BoardApi>, partition: Path<String>, request: HttpRequest) -> Answered {
    let view = api.view(&partition).await?;
    let rows = view.partition();
    let mut orders = Vec::new();
    for (queue, order) in rows.queue_orders() {
        let Order { order, queue, by, since, reason } = Order::of(queue, order);
        orders.push(Given { queue, state: shown_state(rows, queue), order, by, since, reason });
    }
    Ok(reply::send(&request, Reply::json(&Orders { partition: &view.shown, orders })))
}

async fn show(api: Data<BoardApi>, path: Parts, request: HttpRequest) -> Answered {
    let (partition, queue) = path.into_inner();
    let path: Arc<str> = queue.to_lowercase().into();
    let entry = api.entry(&partition)?;
    let admissions = entry.addr.send(ShowAdmissions(path.clone())).await.map_err(unanswered)?;
    let view = api.view(&partition).await?;
    let rows = view.partition();
    let missing = || {
        let detail = format!("queue '{path}' not found in partition '{}'", view.shown);
        Problem::new(StatusCode::NOT_FOUND, detail)
    };
    // An order stays where its queue went.
    let ix = rows.queue_by_path.get(&*path).copied();
    let order = rows.order_for(&path).map(|(queue, order)| Order::of(queue, order));
    if ix.is_none() && order.as_ref().is_none_or(|order| order.queue != &*path) {
        return Err(missing());
    }
    let admissions = admissions.unwrap_or_default();
    let refusals = admissions.refusals.iter().rev().map(|refusal| Refused {
        application: refusal.app.clone(),
        time: time_text(refusal.at),
        reason: refusal.reason.clone(),
    });
    let shown = Shown {
        partition: &view.shown,
        queue: &path,
        state: shown_state(rows, &path),
        order,
        empty: ix.is_none_or(|ix| rows.is_queue_empty(ix)),
        managed: ix.is_some_and(|ix| rows.queues[ix].managed),
        admitted: admissions.admitted,
        refused: admissions.refused,
        refusals: refusals.collect(),
    };
    Ok(reply::send(&request, Reply::json(&shown)))
}

impl<'a> Order<'a> {
    /// An order for the queue of this path.
    pub fn of(queue: &'a str, order: &'a QueueOrder) -> Order<'a> {
        Order { order: order.kind.name(), queue, by: &order.by, since: &order.when, reason: &order.reason }
    }
}

/// Body of an order. All of it may be left out.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Body {
    #[serde(default)]
    reason: Option<String>,
    #[serde(default)]
    overwrite: bool,
}

async fn order(
    api: Data<BoardApi>,
    caller: Caller,
    kind: Option<OrderKind>,
    path: Parts,
    request: HttpRequest,
    payload: Payload,
) -> Answered {
    let bytes = body::short(&request, payload, LONGEST).await?;
    let (partition, queue) = path.into_inner();
    let entry = api.entry(&partition)?;
    let body: Body = match bytes.is_empty() {
        true => Body::default(),
        false => body::json(&bytes, r#"{"reason": "…", "overwrite": true or false}"#)?,
    };
    let reason = body.reason.unwrap_or_default();
    Problem::check_length("reason", &reason, LONGEST_REASON)?;
    note(&request, if reason.is_empty() { "no reason" } else { &reason });
    let by: Arc<str> = match &caller {
        Caller::Holder(grant) => grant.name.clone(),
        Caller::Anyone => "an operator".into(),
    };
    let at: Nanos = now();
    let order = kind.map(|kind| {
        Arc::new(QueueOrder { kind, by: by.clone(), at, when: seconds(at).into(), reason: reason.clone().into() })
    });
    let queue: Arc<str> = queue.to_lowercase().into();
    let message = OrderQueue { queue: queue.clone(), order, overwrite: body.overwrite };
    // It is not certain whether it holds before it is answered.
    Addr::send(&entry.addr, message).await.map_err(gone)?.map_err(refused)?;
    counts(&api.topology, &entry).await?;
    let what = kind.map_or("resume", OrderKind::name);
    tracing::info!(partition = &*entry.internal, queue = &*queue, by = &*by, reason, "queue: {what}");
    let view = api.view(&partition).await?;
    let rows = view.partition();
    let state = shown_state(rows, &queue);
    let ordered = rows.order_for(&queue).map(|(above, order)| order.told_of(above));
    let why = ordered.or_else(|| (state == "Draining").then(|| "the configuration does not have it".to_owned()));
    Ok(reply::send(&request, Reply::json(&Ordered { queue: &queue, state, why })))
}

fn shown_state(rows: &Partition, queue: &str) -> &'static str {
    rows.queue_by_path.get(queue).map_or("absent", |ix| rows.shown_state(*ix).name())
}

/// RFC 3339 in whole seconds: people read it in rejections.
fn seconds(at: Nanos) -> String {
    jiff::Timestamp::from_second(at.as_secs()).map_or_else(|_| at.as_secs().to_string(), |time| time.to_string())
}

fn refused(refusal: OrderRefusal) -> Problem {
    let status = match refusal {
        OrderRefusal::Unknown(_) => StatusCode::NOT_FOUND,
        OrderRefusal::Conflict(_) => StatusCode::CONFLICT,
        OrderRefusal::Disk(_) => StatusCode::SERVICE_UNAVAILABLE,
    };
    Problem::new(status, refusal.to_string())
}
