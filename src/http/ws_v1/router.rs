//! Which handler a request goes to, and what answers it when there is none (REST 1.2).
//!
//! Paths are matched decoded, case sensitive, segment by segment; a parameter is one segment, and only the last one must
//! not be empty. What almost matches is redirected.

use std::borrow::Cow;

use actix_web::http::Method;

use super::{described, url};
use crate::http::route::{Access, Route};

/// The handlers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Endpoint {
    Clusters,
    Metrics,
    Config,
    ValidateConf,
    HistoryApps,
    HistoryContainers,
    Partitions,
    PlacementRules,
    Queues,
    Queue,
    Nodes,
    Node,
    QueueApplications,
    QueueApplicationsByState,
    QueueApplication,
    Application,
    ApplicationsByState,
    Users,
    User,
    Groups,
    Group,
    EventsBatch,
    EventsStream,
    HealthCheck,
    NodeUtilizations,
    Stack,
    StateDump,
    Profiles,
    Profile,
    /// Moved below `/debug`.
    Moved,
}

/// A segment of a pattern that takes any text.
fn is_param(segment: &str) -> bool {
    segment.starts_with('{')
}

/// The routes, which this router finds itself.
pub(in crate::http) fn routes() -> Vec<Route> {
    let of = |method: Method, endpoints: &'static [(&'static str, Endpoint)]| {
        endpoints.iter().map(move |(path, endpoint)| {
            let place = endpoint.access().at(method.clone(), path);
            described::describe(place.routed(described::summary(*endpoint)), *endpoint)
        })
    };
    of(Method::GET, GET).chain(of(Method::POST, POST)).collect()
}

impl Endpoint {
    fn access(self) -> Access {
        match self {
            Endpoint::Stack | Endpoint::StateDump | Endpoint::Profiles | Endpoint::Profile => Access::Operator,
            _ => Access::Viewer,
        }
    }
}

/// Pattern and handler of every GET route; a segment in braces is a parameter.
const GET: &[(&str, Endpoint)] = &[
    ("/ws/v1/clusters", Endpoint::Clusters),
    ("/ws/v1/metrics", Endpoint::Metrics),
    ("/metrics", Endpoint::Metrics),
    ("/ws/v1/config", Endpoint::Config),
    ("/ws/v1/history/apps", Endpoint::HistoryApps),
    ("/ws/v1/history/containers", Endpoint::HistoryContainers),
    ("/ws/v1/partitions", Endpoint::Partitions),
    ("/ws/v1/partition/{partition}/placementrules", Endpoint::PlacementRules),
    ("/ws/v1/partition/{partition}/queues", Endpoint::Queues),
    ("/ws/v1/partition/{partition}/queue/{queue}", Endpoint::Queue),
    ("/ws/v1/partition/{partition}/nodes", Endpoint::Nodes),
    ("/ws/v1/partition/{partition}/node/{node}", Endpoint::Node),
    ("/ws/v1/partition/{partition}/queue/{queue}/applications", Endpoint::QueueApplications),
    ("/ws/v1/partition/{partition}/queue/{queue}/applications/{state}", Endpoint::QueueApplicationsByState),
    ("/ws/v1/partition/{partition}/queue/{queue}/application/{application}", Endpoint::QueueApplication),
    ("/ws/v1/partition/{partition}/application/{application}", Endpoint::Application),
    ("/ws/v1/partition/{partition}/applications/{state}", Endpoint::ApplicationsByState),
    ("/ws/v1/partition/{partition}/usage/users", Endpoint::Users),
    ("/ws/v1/partition/{partition}/usage/user/{user}", Endpoint::User),
    ("/ws/v1/partition/{partition}/usage/groups", Endpoint::Groups),
    ("/ws/v1/partition/{partition}/usage/group/{group}", Endpoint::Group),
    ("/ws/v1/events/batch", Endpoint::EventsBatch),
    ("/ws/v1/events/stream", Endpoint::EventsStream),
    ("/ws/v1/scheduler/healthcheck", Endpoint::HealthCheck),
    ("/ws/v1/scheduler/node-utilizations", Endpoint::NodeUtilizations),
    ("/ws/v1/stack", Endpoint::Moved),
    ("/ws/v1/fullstatedump", Endpoint::Moved),
    ("/debug/stack", Endpoint::Stack),
    ("/debug/fullstatedump", Endpoint::StateDump),
    ("/debug/pprof/", Endpoint::Profiles),
    ("/debug/pprof/heap", Endpoint::Profile),
    ("/debug/pprof/threadcreate", Endpoint::Profile),
    ("/debug/pprof/goroutine", Endpoint::Profile),
    ("/debug/pprof/allocs", Endpoint::Profile),
    ("/debug/pprof/block", Endpoint::Profile),
    ("/debug/pprof/mutex", Endpoint::Profile),
    ("/debug/pprof/cmdline", Endpoint::Profile),
    ("/debug/pprof/profile", Endpoint::Profile),
    ("/debug/pprof/symbol", Endpoint::Profile),
    ("/debug/pprof/trace", Endpoint::Profile),
];

const POST: &[(&str, Endpoint)] = &[("/ws/v1/validate-conf", Endpoint::ValidateConf)];

/// What becomes of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// A handler, with the decoded parameters of the path in order.
    Handle(Endpoint, Vec<String>),
    /// 301 for GET, 307 for POST, to this encoded path (the query is kept).
    Redirect(String),
    /// OPTIONS of an existing path: the value of `Allow`.
    Options(&'static str),
    /// The path exists for other methods: the value of `Allow`.
    NotAllowed(&'static str),
    /// 404 in plain text.
    NotFound,
    /// The path has an invalid escape.
    BadPath,
}

/// Decides on a method and a path as it came, without the query.
pub fn decide(method: &Method, raw_path: &str) -> Decision {
    let Ok(path) = url::decode_path(raw_path) else { return Decision::BadPath };
    let own = match *method {
        Method::GET => GET,
        Method::POST => POST,
        _ => &[],
    };
    if let Some((route, params)) = find(own, &path) {
        return Decision::Handle(route, params);
    }
    if let Some(target) = redirect(own, &path) {
        return Decision::Redirect(url::encode_path(&target));
    }
    let allow = if find(GET, &path).is_some() {
        "GET, OPTIONS"
    } else if find(POST, &path).is_some() {
        "OPTIONS, POST"
    } else {
        return Decision::NotFound;
    };
    if method == Method::OPTIONS { Decision::Options(allow) } else { Decision::NotAllowed(allow) }
}

fn find(routes: &[(&str, Endpoint)], path: &str) -> Option<(Endpoint, Vec<String>)> {
    routes.iter().find_map(|(pattern, route)| Some((*route, matched(pattern, path)?)))
}

/// The parameters, where the path is one of this pattern.
pub(in crate::http) fn matched(pattern: &str, path: &str) -> Option<Vec<String>> {
    let mut params = Vec::new();
    let (mut wanted, mut given) = (pattern.split('/'), path.split('/').peekable());
    loop {
        match (wanted.next(), given.next()) {
            (None, None) => return Some(params),
            (Some(fixed), Some(segment)) if is_param(fixed) && !(segment.is_empty() && given.peek().is_none()) => {
                params.push(segment.to_owned());
            }
            (Some(fixed), Some(segment)) if fixed == segment && !is_param(fixed) => {}
            _ => return None,
        }
    }
}

/// Where a path that no route matches is sent: without or with its trailing slash, cleaned, in the right letter case.
fn redirect(routes: &[(&str, Endpoint)], path: &str) -> Option<String> {
    if let Some(shorter) = path.strip_suffix('/')
        && (find(routes, shorter).is_some() || is_bare(routes, shorter))
    {
        return Some(shorter.to_owned());
    }
    let longer = format!("{path}/");
    if find(routes, &longer).is_some() {
        return Some(longer);
    }
    let clean = url::clean_path(path);
    let other_end = match clean.strip_suffix('/') {
        Some(shorter) => Cow::Borrowed(shorter),
        None => Cow::Owned(format!("{clean}/")),
    };
    [&*clean, &*other_end]
        .iter()
        .find_map(|candidate| routes.iter().find_map(|(pattern, _)| in_right_case(pattern, candidate)))
}

/// The path with the fixed segments in the letter case of the pattern, where it matches apart from that.
fn in_right_case(pattern: &str, path: &str) -> Option<String> {
    let segments: Vec<(&str, &str)> = pattern.split('/').zip(path.split('/')).collect();
    if pattern.split('/').count() != path.split('/').count() {
        return None;
    }
    let fits = |(fixed, given): &(&str, &str)| {
        if is_param(fixed) { !given.is_empty() } else { fixed.eq_ignore_ascii_case(given) }
    };
    segments.iter().all(fits).then(|| {
        let right: Vec<&str> =
            segments.iter().map(|(fixed, given)| if is_param(fixed) { *given } else { *fixed }).collect();
        right.join("/")
    })
}

/// A route is this path and one parameter more, and the plural of its last segment (`queue`, `queues`) is a route
/// beside it. Clients see a redirect to this path, which then is not found (REST 1.2, errors 13 and 60).
fn is_bare(routes: &[(&str, Endpoint)], path: &str) -> bool {
    // The pattern has these segments at its beginning; `more` says what has to come after them.
    let begins = |wanted: &str, more: fn(Option<&str>) -> bool| {
        routes.iter().any(|(pattern, _)| {
            let mut fixed = pattern.split('/');
            wanted.split('/').all(|given| fixed.next().is_some_and(|f| is_param(f) || f == given)) && more(fixed.next())
        })
    };
    begins(path, |next| next.is_some_and(is_param)) && begins(&format!("{path}s"), |_| true)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn get(path: &str) -> Decision {
        decide(&Method::GET, path)
    }

    fn handled(route: Endpoint, params: &[&str]) -> Decision {
        Decision::Handle(route, params.iter().map(|p| (*p).to_owned()).collect())
    }

    fn to(path: &str) -> Decision {
        Decision::Redirect(path.to_owned())
    }

    // REST 1.2: parameters are decoded segments, empty only in the middle; an escaped slash splits them.
    #[test]
    fn matches_decoded_segments() {
        assert_eq!(get("/ws/v1/clusters"), handled(Endpoint::Clusters, &[]));
        assert_eq!(get("/ws/v1/partition//queues"), handled(Endpoint::Queues, &[""]));
        assert_eq!(
            get("/ws/v1/partition/p/queue//application/x"),
            handled(Endpoint::QueueApplication, &["p", "", "x"])
        );
        assert_eq!(get("/ws/v1/partition/p/queue/root%2Ea"), handled(Endpoint::Queue, &["p", "root.a"]));
        assert_eq!(get("/ws/v1/partition/p/queue/root.a%252Fb"), handled(Endpoint::Queue, &["p", "root.a%2Fb"]));
        assert_eq!(get("/ws/v1/partition/p/queue/root.a%2Fb"), Decision::NotFound);
        assert_eq!(get("/ws/v1/partition/../queues"), handled(Endpoint::Queues, &[".."]));
        assert_eq!(get("/debug/pprof/"), handled(Endpoint::Profiles, &[]));
        assert_eq!(get("/ws/v1/partition/p/queue/root%zz"), Decision::BadPath);
        assert_eq!(decide(&Method::POST, "/ws/v1/validate-conf"), handled(Endpoint::ValidateConf, &[]));
    }

    // REST 1.2: slashes, letter case, doubled slashes and dots.
    #[test]
    fn redirects_what_almost_matches() {
        assert_eq!(get("/ws/v1/clusters/"), to("/ws/v1/clusters"));
        assert_eq!(get("/debug/pprof"), to("/debug/pprof/"));
        assert_eq!(get("/WS/V1/Clusters"), to("/ws/v1/clusters"));
        assert_eq!(get("/WS/V1/Clusters/"), to("/ws/v1/clusters"));
        assert_eq!(get("/ws/v1/Partition/A%20b/QUEUE/Root.X"), to("/ws/v1/partition/A%20b/queue/Root.X"));
        assert_eq!(get("/ws//v1/clusters"), to("/ws/v1/clusters"));
        assert_eq!(get("/ws/v1/partition/./../clusters"), to("/ws/v1/clusters"));
        assert_eq!(decide(&Method::POST, "/ws/v1/validate-conf/"), to("/ws/v1/validate-conf"));
        assert_eq!(get("/ws/v1/partition/p/queue/q/applications/"), to("/ws/v1/partition/p/queue/q/applications"));
    }

    // REST 1.2, errors 13, 42, 43, 60: an empty last parameter.
    #[test]
    fn empty_last_parameter() {
        assert_eq!(get("/ws/v1/partition/default/queue/"), to("/ws/v1/partition/default/queue"));
        assert_eq!(get("/ws/v1/partition/default/node/"), to("/ws/v1/partition/default/node"));
        assert_eq!(get("/ws/v1/partition/default/usage/user/"), to("/ws/v1/partition/default/usage/user"));
        assert_eq!(get("/ws/v1/partition/default/application/"), to("/ws/v1/partition/default/application"));
        assert_eq!(get("/ws/v1/partition/default/applications/"), Decision::NotFound);
        assert_eq!(get("/ws/v1/partition/default/applications"), Decision::NotFound);
        assert_eq!(get("/ws/v1/partition/default/queue"), Decision::NotFound);
    }

    // REST 1.2: other methods, also on what would be redirected.
    #[test]
    fn other_methods() {
        for method in [Method::HEAD, Method::POST, Method::PUT, Method::DELETE] {
            assert_eq!(decide(&method, "/ws/v1/clusters"), Decision::NotAllowed("GET, OPTIONS"));
        }
        assert_eq!(get("/ws/v1/validate-conf"), Decision::NotAllowed("OPTIONS, POST"));
        assert_eq!(decide(&Method::OPTIONS, "/ws/v1/validate-conf"), Decision::Options("OPTIONS, POST"));
        assert_eq!(decide(&Method::OPTIONS, "/ws/v1/clusters"), Decision::Options("GET, OPTIONS"));
        assert_eq!(decide(&Method::OPTIONS, "/ws/v1/nope"), Decision::NotFound);
        assert_eq!(decide(&Method::POST, "/ws/v1/clusters/"), Decision::NotFound);
        assert_eq!(decide(&Method::HEAD, "/ws/v1/clusters/"), Decision::NotFound);
    }

    // REST 3: routes that are not there any more.
    #[test]
    fn unknown_paths() {
        for path in [
            "/",
            "/ws/v1/loggers",
            "/ws/v1/queues",
            "/ws/v1/scheduler/node-utilization",
            "/debug/",
            "/debug/pprof/nope",
        ] {
            assert_eq!(get(path), Decision::NotFound, "{path}");
        }
    }
}
