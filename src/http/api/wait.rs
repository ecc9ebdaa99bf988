//! `GET /api/v1/partition/{p}/application|queue|node/{name}/wait?for=…&timeout=…`: the answer comes when something holds, or
//! when the time is over.
//!
//! The conversation of the thing keeps who waits; here are the time-out, the limits, and the reasons that are found in a
//! snapshot when the time is over.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use actix::Addr;
use actix_web::{
    HttpRequest, HttpResponse,
    http::StatusCode,
    web::{Data, Path},
};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;
use tokio::{
    sync::oneshot,
    time::{sleep, timeout},
};

use super::{
    board::{BoardApi, explain},
    time,
};
use crate::{
    access::Caller,
    actors::{
        directory::{PATIENCE, PartitionEntry},
        partition::PartitionActor,
    },
    domain::{
        alloc::Phase,
        types::Nanos,
        words::{either, plural},
    },
    http::{
        operation::one_of,
        problem::Problem,
        route::{Access, Route},
        shim::query,
        ws_v1::{
            View,
            reply::{self, Reply},
        },
    },
    messages::{
        receipts::Receipt,
        rm::{CarriedOut, Halt},
        wait::{ABSENT, Answer, Condition, Kind, Target, Wait, Withdraw},
    },
};

/// How long is waited where nothing is said, and at most.
const TIMEOUT: Nanos = Nanos::from_secs(30);
const LONGEST: Nanos = Nanos::from_secs(3_600);
/// Who may wait at a time: one caller, and all. An open connection stays for others in any case.
const OF_ONE: usize = 10_000;
const OF_ALL: usize = 20_000;
/// Between two looks whether a log is written again.
const AGAIN: Duration = Duration::from_millis(100);
/// Longest name, in bytes: names of what is not there are kept.
const LONGEST_NAME: usize = 1_024;
/// Applications that a reason names at most.
const NAMED: usize = 5;

/// Who waits.
#[derive(Debug, Default)]
pub struct Waiting {
    callers: Mutex<Callers>,
    next: AtomicU64,
}

#[derive(Debug, Default)]
struct Callers {
    by_name: HashMap<String, usize>,
    /// Of all together.
    all: usize,
}

/// The right to wait, given back at the end.
struct Permit {
    waiting: Data<Waiting>,
    caller: String,
}

/// The answer.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Waited")]
#[serde(rename_all = "camelCase")]
pub struct Shown<'a> {
    partition: &'a str,
    /// application, queue or node.
    kind: &'static str,
    name: &'a str,
    /// What was waited for.
    r#for: &'static str,
    /// It holds.
    met: bool,
    /// How the thing is now.
    state: String,
    /// Why it does not hold.
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<String>,
    /// It will not hold any more: waiting on is in vain.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    never: bool,
    waited_milliseconds: u64,
}

/// The application's data has to hold a [`BoardApi`] and a [`Waiting`].
pub(super) fn routes() -> Vec<Route> {
    // Who tries the door from this document is answered soon.
    let brief = json!({"type": "string", "example": "100ms"});
    let route = |(kind, path, what): (Kind, _, _)| {
        let conditions: Vec<&str> = kind.conditions().iter().map(|condition| condition.name()).collect();
        let handler = move |api, waiting, caller, path, request| wait(api, waiting, caller, kind, path, request);
        Access::Viewer
            .get(path)
            .to(handler, what)
            .required_query("for", one_of(&conditions), "what is to hold")
            .query("timeout", brief.clone(), "how long at most, from 0 to 1h; left out: 30s")
            .gives::<Shown>(200)
            .problems(&[400, 404, 429, 503])
    };
    let places = [
        (
            Kind::Application,
            "/api/v1/partition/{partition}/application/{application}/wait",
            "Waits until something holds of an application",
        ),
        (Kind::Queue, "/api/v1/partition/{partition}/queue/{queue}/wait", "Waits until something holds of a queue"),
        (Kind::Node, "/api/v1/partition/{partition}/node/{node}/wait", "Waits until something holds of a node"),
    ];
    places.map(route).into()
}

/// What of a request is wanted.
fn parse(kind: Kind, query: &str) -> Result<(Condition, Duration), Problem> {
    let given = query::read(query, &["for", "timeout"], &[])?;
    let longest = match query::one(&given, "timeout") {
        Some(text) => time::length(text).filter(|length| *length <= LONGEST).ok_or_else(|| {
            let most = "a duration from 0 to 1h, such as 60s or 5m";
            Problem::field("timeout", format!("timeout is '{text}', but may be {most} only"))
        })?,
        None => TIMEOUT,
    };
    let name = query::one(&given, "for").ok_or_else(|| {
        let names: Vec<&str> = kind.conditions().iter().map(|condition| condition.name()).collect();
        Problem::field("for", format!("for is missing: say what to wait for; there are: {}", names.join(", ")))
    })?;
    let condition = kind.condition(name).map_err(|detail| Problem::field("for", detail))?;
    Ok((condition, Duration::from_nanos(longest.0.unsigned_abs())))
}

/// Withdraws a wait when it is over, in whatever way: also where the caller is gone, and this with it.
struct Guard {
    addr: Addr<PartitionActor>,
    withdraw: Option<Withdraw>,
}

impl Guard {
    fn withdraw(&mut self) {
        if let Some(withdraw) = self.withdraw.take() {
            self.addr.do_send(withdraw);
        }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.withdraw();
    }
}

async fn wait(
    api: Data<BoardApi>,
    waiting: Data<Waiting>,
    caller: Caller,
    kind: Kind,
    path: Path<(String, String)>,
    request: HttpRequest,
) -> Result<HttpResponse, Problem> {
    let (condition, longest) = parse(kind, request.query_string())?;
    let (partition, name) = path.into_inner();
    // Queues go by lowercase names.
    let name = if kind == Kind::Queue { name.to_lowercase() } else { name };
    if name.len() > LONGEST_NAME {
        let detail = format!("the name has {} bytes; no {} has more than {LONGEST_NAME}", name.len(), kind.name());
        return Err(Problem::new(StatusCode::BAD_REQUEST, detail));
    }
    let entry = api.entry(&partition)?;
    let _permit = permit(waiting.clone(), &caller, &request)?;
    let began = Instant::now();
    let target = Target { kind, name: name.into() };
    let mut went = false;
    let answer = loop {
        let left = if went { Duration::ZERO } else { longest.saturating_sub(began.elapsed()) };
        match ask(&api, &entry, &waiting, &target, condition, left).await? {
            // An application may be among those that ended; a node or a queue may come again.
            Answer::Gone if began.elapsed() < longest => went = kind == Kind::Application,
            Answer::NotYet { state, .. } if went && state == ABSENT => {
                break Answer::Never { state: "removed".to_owned(), why: format!("{target} was removed") };
            }
            // Another one of its id came.
            Answer::NotYet { .. } if went && began.elapsed() < longest => went = false,
            Answer::Met { state } => break told_when_recorded(&api, &entry.rm, state, longest, began).await,
            answer => break answer,
        }
    };
    let (met, never, state, why) = match answer {
        Answer::Met { state } => (true, false, state, None),
        Answer::Never { state, why } => (false, true, state, Some(why)),
        Answer::NotYet { state, why } => (false, false, state, Some(why)),
        Answer::Gone => (false, false, "gone".to_owned(), Some(format!("{target} went away"))),
    };
    let why = match why {
        Some(why) if !never => Some(reason(&api, &entry, &target, condition, why).await),
        why => why,
    };
    let waited = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
    let shown = Shown {
        partition: &entry.shown,
        kind: kind.name(),
        name: &target.name,
        r#for: condition.name(),
        met,
        state,
        why,
        never,
        waited_milliseconds: waited,
    };
    Ok(reply::send(&request, Reply::json(&shown)))
}

/// A condition holds: that counts when what it rests on is recorded, so that no restart takes back what was told.
async fn told_when_recorded(api: &BoardApi, rm: &str, state: String, longest: Duration, began: Instant) -> Answer {
    let Some(handle) = api.topology.find(rm) else { return Answer::Met { state } };
    let recorded = async {
        loop {
            // A change of the configuration waits until nobody holds the view before it: nothing is waited for with it.
            let (shared, epoch, fails) = {
                let view = handle.view.load();
                let shared = view.shared.clone().filter(|shared| shared.recorded && view.elsewhere.is_none());
                (shared, view.epoch, view.failing.is_some())
            };
            let Some(shared) = shared else { return };
            if !fails {
                let (tell, told) = oneshot::channel();
                let permit = shared.budget.nothing().with(Receipt::Awaited(tell));
                handle.addr.do_send(CarriedOut { epoch, permit });
                // Dropped when it is recorded, or with the session.
                let _ = told.await;
                return;
            }
            sleep(AGAIN).await;
        }
    };
    match timeout(longest.saturating_sub(began.elapsed()).max(AGAIN), recorded).await {
        Ok(()) => Answer::Met { state },
        Err(_) => {
            let failing = handle.view.load().failing.clone();
            let why = failing.map_or_else(|| "its log is behind".to_owned(), |why| why.to_string());
            Answer::NotYet { state, why: format!("it holds, and is not recorded: {why}") }
        }
    }
}

/// One wait at the conversation of the thing.
async fn ask(
    api: &BoardApi,
    entry: &PartitionEntry,
    waiting: &Waiting,
    target: &Target,
    condition: Condition,
    longest: Duration,
) -> Result<Answer, Problem> {
    let id = waiting.next.fetch_add(1, Relaxed);
    let (answer, mut answered) = oneshot::channel();
    let addr = Addr::clone(&entry.addr);
    addr.do_send(Wait { id, target: target.clone(), condition, answer });
    let mut guard = Guard { addr, withdraw: Some(Withdraw { id, target: target.clone() }) };
    let ends =
        || Problem::new(StatusCode::SERVICE_UNAVAILABLE, "the server is shutting down: ask again when it is back");
    // After it was handed in: what comes later than the end of all waits finds this.
    if api.topology.is_closing() {
        return Err(ends());
    }
    let answer = match timeout(longest, &mut answered).await {
        Ok(answer) => answer,
        Err(_) => {
            guard.withdraw();
            // It is answered at once, unless something holds up the partition.
            let detail =
                || format!("partition '{}' has not answered within {PATIENCE:?}: ask again when it does", entry.shown);
            timeout(PATIENCE, answered).await.map_err(|_| Problem::new(StatusCode::SERVICE_UNAVAILABLE, detail()))?
        }
    };
    answer.map_err(|_| {
        if api.topology.is_closing() {
            return ends();
        }
        let detail = format!("the session of resource manager {} ended while {target} was waited for", entry.rm);
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, format!("{detail}; ask again when it is registered"))
    })
}

/// Why it does not hold, from a snapshot; else what the conversation said.
async fn reason(api: &BoardApi, entry: &PartitionEntry, target: &Target, condition: Condition, said: String) -> String {
    let found = match (target.kind, condition) {
        (Kind::Application, _)
        | (Kind::Queue, Condition::Empty)
        | (Kind::Node, Condition::Empty | Condition::Drained) => api.reason(&entry.shown, target, found_in).await,
        _ => None,
    };
    match found {
        Some(found) if target.kind == Kind::Application => format!("{said}: {found}"),
        Some(found) if target.kind == Kind::Node && !said.starts_with(char::is_numeric) => format!("{said}; {found}"),
        Some(found) => found,
        None => said,
    }
}

fn found_in(view: &View, target: &Target, halt: Option<&Halt>) -> Option<String> {
    match target.kind {
        Kind::Application => explain::first_reason(view, &target.name, halt),
        Kind::Queue | Kind::Node => what_is_there(view, target),
    }
}

/// What is in a queue or on a node.
fn what_is_there(view: &View, target: &Target) -> Option<String> {
    let partition = view.partition();
    if target.kind == Kind::Queue {
        let (mut below, mut count, mut apps) = (vec![*partition.queue_by_path.get(&*target.name)?], 0, Vec::new());
        while let Some(ix) = below.pop() {
            let row = &partition.queues[ix];
            count += row.apps.len();
            apps.extend(row.apps.iter().take(NAMED - apps.len()).map(|ix| partition.apps[*ix].id.to_string()));
            below.extend(row.children.values());
        }
        let (what, verb) = (plural(count, "application"), either(&count, "is", "are"));
        return (count > 0).then(|| format!("{what} {verb} in it: {}", named(&apps, count)));
    }
    let node = &partition.nodes[*partition.node_by_id.get(&*target.name)?];
    let mut by_app: std::collections::BTreeMap<Arc<str>, usize> = std::collections::BTreeMap::new();
    // What the shim is still asked about may be refused.
    let placed = node.allocs.iter().map(|ix| &partition.allocs[*ix]).filter(|row| row.phase != Phase::AwaitingShim);
    for alloc in placed {
        *by_app.entry(partition.apps[alloc.app].id.clone()).or_default() += 1;
    }
    let (count, all) = (node.placements() as usize, by_app.len());
    let apps = by_app.into_iter().take(NAMED);
    let apps = apps.map(|(app, count)| if count == 1 { app.to_string() } else { format!("{app} ({count})") });
    let foreign: Vec<String> = node.foreign_to_go().take(NAMED).map(|key| key.to_string()).collect();
    let others = node.foreign_to_go().count();
    let run = |count: usize, whose: &str, names: String| {
        let (what, verb) = (plural(count, "allocation"), either(&count, "runs", "run"));
        (count > 0).then(|| format!("{what}{whose} {verb} on it: {names}"))
    };
    let own = run(count, "", named(&apps.collect::<Vec<_>>(), all));
    let parts: Vec<String> =
        own.into_iter().chain(run(others, " of other schedulers", named(&foreign, others))).collect();
    (!parts.is_empty()).then(|| parts.join("; "))
}

/// The first of so many, and how many more.
fn named(first: &[String], all: usize) -> String {
    let list = first.join(", ");
    let more = all - first.len();
    if more > 0 { format!("{list} and {more} more") } else { list }
}

/// Lets a caller wait, as long as neither it nor all together wait for too much.
fn permit(waiting: Data<Waiting>, caller: &Caller, request: &HttpRequest) -> Result<Permit, Problem> {
    let address = request.peer_addr().map(|peer| peer.ip());
    let (who, caller) = (|| caller.identity(address), caller.key(address));
    let mut callers = waiting.callers.lock().unwrap_or_else(PoisonError::into_inner);
    let all = callers.all;
    let own = callers.by_name.get(&caller).copied().unwrap_or_default();
    let too_many = |detail: String| Err(Problem::new(StatusCode::TOO_MANY_REQUESTS, detail));
    if own >= OF_ONE {
        let who = who();
        return too_many(format!("{own} requests of {who} wait already, which is the limit of one caller"));
    }
    if all >= OF_ALL {
        return too_many(format!("{all} requests wait already, which is the limit of this server"));
    }
    *callers.by_name.entry(caller.clone()).or_default() += 1;
    callers.all += 1;
    drop(callers);
    Ok(Permit { waiting, caller })
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut callers = self.waiting.callers.lock().unwrap_or_else(PoisonError::into_inner);
        callers.all -= 1;
        if let Some(count) = callers.by_name.get_mut(&self.caller) {
            *count -= 1;
            if *count == 0 {
                callers.by_name.remove(&self.caller);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_names_a_condition_of_the_kind_and_a_time() {
        let parsed = |query| parse(Kind::Application, query).map_err(|problem| problem.detail);
        assert_eq!(parsed("for=running"), Ok((Condition::Running, Duration::from_secs(30))));
        assert_eq!(parsed("for=placed&timeout=5m"), Ok((Condition::Placed, Duration::from_secs(300))));
        for (query, part) in [
            ("", "there are: running, completed, placed"),
            ("for=empty", "'empty' cannot be waited for of an application; there are: running, completed, placed"),
            ("for=running&timeout=2h", "timeout is '2h', but may be a duration from 0 to 1h"),
            ("for=running&timeout=-1s", "timeout is '-1s'"),
            ("for=running&until=5m", "unknown query parameter until=5m; known: for, timeout"),
            ("for=completed&for=running", "for is given twice, as 'completed' and 'running'"),
        ] {
            let error = parsed(query).unwrap_err();
            assert!(error.contains(part), "{query}: {error}");
        }
    }

    #[test]
    fn one_caller_leaves_room_for_others() {
        let waiting = Data::new(Waiting::default());
        let request =
            actix_web::test::TestRequest::default().peer_addr("10.0.0.1:1".parse().unwrap()).to_http_request();
        let other = actix_web::test::TestRequest::default().peer_addr("10.0.0.2:1".parse().unwrap()).to_http_request();
        let own: Vec<Permit> =
            (0..OF_ONE).map(|_| permit(waiting.clone(), &Caller::Anyone, &request).expect("below the limit")).collect();
        let refused = permit(waiting.clone(), &Caller::Anyone, &request).err().expect("at the limit");
        assert_eq!(refused.status, StatusCode::TOO_MANY_REQUESTS);
        assert!(refused.detail.contains("10.0.0.1"), "{}", refused.detail);
        assert!(permit(waiting.clone(), &Caller::Anyone, &other).is_ok());
        drop(own);
        let left = waiting.callers.lock().unwrap();
        assert!(left.by_name.is_empty() && left.all == 0, "nothing is left of who has gone");
    }
}
