//! A server of a cluster, asked about what another one leads: reads are answered from what has reached it, and say how fresh that
//! is. What only the leader can answer is sent on, or its sender is.

use std::{borrow::Cow, fmt::Write as _};

use actix_web::{
    Error, HttpMessage as _, HttpRequest, HttpResponse, ResponseError as _,
    body::{BoxBody, MessageBody},
    dev::{ServiceRequest, ServiceResponse},
    http::{
        Method, StatusCode,
        header::{HeaderName, HeaderValue},
    },
    middleware::Next,
    web::{Bytes, Data, Payload},
};

use super::{doors::Doors, forward, guard, problem::Problem, routes, shim::body, ws_v1::url};
use crate::actors::directory::Listing;
use crate::messages::{
    leaders::{Fresh, Leader},
    rm::{Refusal, RefusalKind},
};

/// In answers about what another server leads: the last record that is in them, by resource manager.
pub const INDEX: &str = "callboard-index";
/// And for how many seconds there may have been others, at most.
pub const LAG: &str = "callboard-lag";
/// Most bytes of [`INDEX`]: clients and proxies refuse answers whose headers are longer than they expect.
const LONGEST: usize = 4 << 10;

/// All partitions that there are: whoever reads it takes what is not in it for gone.
const PARTITIONS: &str = "/ws/v1/partitions";

/// What a server says of itself, whoever leads what.
const OWN: [&str; 3] = ["/api/v1/cluster", "/api/v1/events", "/ws/v1/events"];

/// What is told of a partition by its conversations, its journal and what its events led to: the leader has them.
const LEADERS: [&str; 5] = ["queue", "resource", "releases", "usage", "trends"];

/// What a request is about.
enum About<'a> {
    /// All that is there, for readers.
    All,
    /// A partition, by its name; what is wanted of it.
    Partition(&'a str, &'a str),
    /// A resource manager, which its shim talks to.
    Shim(&'a str),
    /// None of it.
    Other,
}

fn about(path: &str) -> About<'_> {
    let below = |base: &str| path.strip_prefix(base).filter(|rest| rest.is_empty() || rest.starts_with('/'));
    if let Some(rest) = below("/si/v1/rm") {
        return rest.split('/').nth(1).filter(|rm| !rm.is_empty()).map_or(About::Other, About::Shim);
    }
    let Some(rest) = below("/ws/v1").or_else(|| below("/api/v1")) else { return About::Other };
    match rest.strip_prefix("/partition/") {
        Some(rest) => {
            let (name, rest) = rest.split_once('/').unwrap_or((rest, ""));
            About::Partition(name, rest)
        }
        None if OWN.into_iter().any(|own| below(own).is_some()) => About::Other,
        None => About::All,
    }
}

fn is_change(method: &Method, path: &str) -> bool {
    !matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS) && !routes::is_trial(method, path)
}

/// Only the leader answers it.
fn is_leaders(method: &Method, path: &str, rest: &str) -> bool {
    // A queue of `/ws/v1` is read from the tree.
    let own = path.starts_with("/api/v1/");
    is_change(method, path)
        || (own && (LEADERS.contains(&rest.split('/').next().unwrap_or("")) || rest.ends_with("/wait")))
}

/// Middleware: see the module.
pub async fn gate(
    mut request: ServiceRequest,
    next: Next<impl MessageBody + 'static>,
) -> Result<ServiceResponse<BoxBody>, Error> {
    let doors = request.app_data::<Data<Doors>>().cloned();
    let Some((doors, leaders)) = doors.as_ref().and_then(|doors| Some((doors, doors.topology.leaders()?))) else {
        return next.call(request).await.map(ServiceResponse::map_into_boxed_body);
    };
    let raw = url::plain(request.uri().path()).into_owned();
    let decoded = |text: &str| url::decode_path(text).unwrap_or(Cow::Borrowed(text)).into_owned();
    let mut only = None;
    match about(&raw) {
        About::Other => return next.call(request).await.map(ServiceResponse::map_into_boxed_body),
        About::Shim(rm) => {
            let sent_on = doors.forward.as_ref().is_some_and(|forward| forward.takes(request.request()));
            let elsewhere = match doors.topology.look_up(&decoded(rm)).await {
                Ok(handle) => handle.and_then(|handle| handle.is_here().err()).filter(|_| sent_on),
                Err(refusal) => Some(refusal),
            };
            let Some(refusal) = elsewhere else {
                return next.call(request).await.map(ServiceResponse::map_into_boxed_body);
            };
            let answer = refer(doors, &mut request, refusal).await;
            return Ok(request.into_response(answer));
        }
        About::Partition(name, rest) => {
            let (name, directory) = (decoded(name), &doors.topology.directory);
            let mut listing = directory.get();
            let is_plain = !name.starts_with('[');
            let whose = |listing: &Listing| {
                listing.partition(&name).is_some_and(|entry| !is_plain || doors.topology.came_first(entry, listing))
            };
            if !whose(&listing) {
                // Before it is looked for: what is read by then is found.
                let reads = doors.topology.reads();
                // It may have come just now, or nobody asked before. Whose a plain name is depends on all that came before.
                leaders.freshen().await;
                listing = directory.get();
                let is_open =
                    listing.partition(&name).is_none() || (is_change(request.method(), &raw) && !whose(&listing));
                if let Some(reads) = reads.filter(|_| is_open) {
                    let what = if is_plain { "is not known yet, or whose it is" } else { "is not known yet" };
                    let (payload, why) = (request.take_payload(), format!("partition '{name}' {what}: {reads}"));
                    let status = StatusCode::SERVICE_UNAVAILABLE;
                    let answer = guard::refused(request.request(), payload, status, why).await;
                    return Ok(request.into_response(answer));
                }
            }
            let Some(entry) = listing.partition(&name).filter(|entry| entry.followed) else {
                return next.call(request).await.map(ServiceResponse::map_into_boxed_body);
            };
            if is_leaders(request.method(), &raw, rest) {
                if listing.partitions.iter().filter(|other| other.name() == entry.name()).count() > 1 {
                    name_in_full(&mut request, &entry.internal);
                }
                let told = doors.topology.find(&entry.rm).and_then(|handle| handle.is_here().err());
                // It became the leader just now.
                let refusal =
                    told.unwrap_or_else(|| Refusal::new(RefusalKind::Closing, "the leader changes: try again"));
                let answer = refer(doors, &mut request, refusal).await;
                return Ok(request.into_response(answer));
            }
            only = Some(entry.rm.clone());
        }
        About::All => {}
    }
    let reads = doors.topology.reads().filter(|_| raw == PARTITIONS);
    let mut fresh = leaders.freshen().await;
    if let Some(reads) = reads {
        let (payload, why) = (request.take_payload(), format!("not all partitions are known yet: {reads}"));
        let answer = guard::refused(request.request(), payload, StatusCode::SERVICE_UNAVAILABLE, why).await;
        return Ok(request.into_response(answer));
    }
    if let Some(rm) = only {
        fresh.retain(|fresh| fresh.rm == rm);
    }
    let mut answer = next.call(request).await?.map_into_boxed_body();
    mark(&mut answer, &fresh);
    Ok(answer)
}

/// The partition of a path by its full name, where several have the short one: it may be that of another where it is sent on to.
fn name_in_full(request: &mut ServiceRequest, internal: &str) {
    let uri = request.uri();
    let mut parts: Vec<&str> = uri.path().splitn(6, '/').collect();
    let name = url::segment(internal).to_string();
    // As `about` has found it: `/api/v1/partition/{name}/…`, or `/ws/…`.
    let Some(part) = parts.get_mut(4) else { return };
    *part = &name;
    let query = uri.query().map_or(String::new(), |query| format!("?{query}"));
    // A path that was one with another name in it.
    if let Ok(uri) = format!("{}{query}", parts.join("/")).parse() {
        request.head_mut().uri = uri;
    }
}

fn mark(answer: &mut ServiceResponse<BoxBody>, fresh: &[Fresh]) {
    let Some(lag) = fresh.iter().map(|fresh| fresh.lag).max() else { return };
    let mut put = |name: &'static str, value: String| {
        if let Ok(value) = HeaderValue::from_str(&value) {
            answer.headers_mut().insert(HeaderName::from_static(name), value);
        }
    };
    if let Some(indices) = indices(fresh) {
        put(INDEX, indices);
    }
    put(LAG, format!("{:.3}", lag.as_secs_f64()));
}

/// The value of [`INDEX`]; `None`: it would be too long.
fn indices(fresh: &[Fresh]) -> Option<String> {
    let mut all = String::new();
    for Fresh { rm, index, .. } in fresh {
        let comma = if all.is_empty() { "" } else { ", " };
        // A text takes whatever is written to it.
        let _ = write!(all, "{comma}{}={index}", url::segment(rm));
        if all.len() > LONGEST {
            return None;
        }
    }
    Some(all)
}

/// Sends a request to the leader, or its sender.
async fn refer(doors: &Doors, request: &mut ServiceRequest, refusal: Refusal) -> HttpResponse {
    let payload = match request.extract::<Payload>().await {
        Ok(payload) => payload,
        Err(error) => return error.error_response(),
    };
    let leader = refusal.leader.clone().filter(|leader| !leader.http.is_empty());
    let forward = doors.forward.as_ref().filter(|forward| forward.takes(request.request()));
    let (Some(leader), Some(forward)) = (leader, forward) else {
        body::discard(payload).await;
        return Problem::from(refusal).error_response();
    };
    guard::note(request.request(), sent_on(&leader));
    if forward::is_websocket(request.request()) {
        return forward.tunnel(&doors.topology, &leader, request.request(), payload).await;
    }
    match body::bytes(request.request(), payload, doors.limits().body()).await {
        Ok(body) => forward.send(&doors.topology, &leader, request.request(), body).await,
        Err(unread) => Problem::from(unread).error_response(),
    }
}

/// What the audit log has here of a change that another server makes: there it is told with all that matters, but for the address
/// that it came from.
fn sent_on(leader: &Leader) -> String {
    format!("sent on to {}", leader.http)
}

/// A call that another server takes, answered by that server where its sender would not follow a redirect.
pub async fn elsewhere(
    doors: &Doors,
    request: &HttpRequest,
    sent: Bytes,
    problem: Problem,
) -> Result<HttpResponse, Problem> {
    let leader = problem.leader.clone().filter(|_| problem.status == StatusCode::TEMPORARY_REDIRECT);
    match (leader, doors.forward.as_ref().filter(|forward| forward.takes(request))) {
        (Some(leader), Some(forward)) => {
            guard::note(request, sent_on(&leader));
            Ok(forward.send(&doors.topology, &leader, request, sent).await)
        }
        _ => Err(problem),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn there_is_a_bound_to_what_is_told_of_indices() {
        let fresh = |count: usize| {
            let rm = |n: usize| format!("é{n:03}").into();
            (0..count).map(|n| Fresh { rm: rm(n), index: 7, lag: Duration::ZERO }).collect::<Vec<_>>()
        };
        assert_eq!(indices(&fresh(2)).as_deref(), Some("%C3%A9000=7, %C3%A9001=7"));
        assert_eq!(indices(&fresh(300)).map(|all| all.len()), Some(300 * 13 - 2));
        assert_eq!(indices(&fresh(400)), None);
    }

    #[test]
    fn what_only_the_leader_knows_is_told_apart() {
        let of = |method: Method, path: &str| match about(path) {
            About::Partition(_, rest) => Some(is_leaders(&method, path, rest)),
            _ => None,
        };
        for (path, leaders) in [
            ("/ws/v1/partition/default/queue/root.a", false),
            ("/ws/v1/partition/default/usage/users", false),
            ("/api/v1/partition/default/queue/root.a", true),
            ("/api/v1/partition/default/resource/status", true),
            ("/api/v1/partition/default/application/a/wait", true),
            ("/api/v1/partition/default/application/a/explain", false),
            ("/api/v1/partition/default/trends", true),
        ] {
            assert_eq!(of(Method::GET, path), Some(leaders), "{path}");
        }
        assert_eq!(of(Method::POST, "/api/v1/partition/default/resource/drain"), Some(true));
        assert!(matches!(about("/si/v1/rm/rm-1/ws"), About::Shim("rm-1")));
        for path in ["/api/v1/overview", "/ws/v1/clusters", "/ws/v1/partitions"] {
            assert!(matches!(about(path), About::All), "{path}");
        }
        for path in ["/", "/si/v1/rm", "/api/v1/cluster", "/api/v1/cluster/config", "/ws/v1/events/batch", "/apix"] {
            assert!(matches!(about(path), About::Other), "{path}");
        }
    }
}
