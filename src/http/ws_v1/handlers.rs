//! One entry for all requests: decides on the route, checks parameters in the order that clients know (REST 4), answers.

use actix_web::{
    HttpRequest, HttpResponse, body,
    http::{StatusCode, header},
    web::{Data, Payload},
};
use serde::Serialize;

use super::{
    View, applications, checks, config, debug, dump, nodes, partitions, queues,
    reply::{self, Failure, Reply},
    router::{self, Decision, Endpoint},
    rules, scrape,
    state::{RestState, Wanted},
    url, usage,
};
use crate::{
    domain::types::{AppState, QueueIx},
    http::long::Asker,
};

/// Answers every request to `/ws/v1` and `/debug`, and what no service knows.
pub async fn handle(req: HttpRequest, payload: Payload, state: Data<RestState>) -> HttpResponse {
    match router::decide(req.method(), req.uri().path()) {
        Decision::Handle(Endpoint::EventsStream, _) => super::events::stream(&req, &state.topology.events).await,
        Decision::Handle(Endpoint::StateDump, _) => dump::dump(&req, &state).await,
        Decision::Handle(Endpoint::Metrics, _) => scrape::answer(&req, &state).await,
        Decision::Handle(Endpoint::Moved, _) => {
            reply::redirect(&req, &url::plain(req.path()).replacen("/ws/v1", "/debug", 1))
        }
        Decision::Handle(route, params) => {
            let params: Vec<&str> = params.iter().map(String::as_str).collect();
            let answer = answer(route, &params, &req, payload, &state).await.map_err(|failure| {
                let name = params.first().copied().unwrap_or_default();
                let missing = Some(failure.status).filter(|status| *status == StatusCode::NOT_FOUND);
                missing.and_then(|_| silent(&state, name)).unwrap_or(failure)
            });
            reply::send_any(&req, answer.into()).await
        }
        Decision::Redirect(path) => reply::redirect(&req, &path),
        Decision::Options(allow) => reply::preflight(&req, allow),
        Decision::NotAllowed(allow) => {
            let mut response = reply::send(&req, Reply::plain(StatusCode::METHOD_NOT_ALLOWED, "Method Not Allowed\n"));
            response.headers_mut().insert(header::ALLOW, header::HeaderValue::from_static(allow));
            response
        }
        Decision::NotFound => reply::send(&req, Reply::plain(StatusCode::NOT_FOUND, "404 page not found\n")),
        Decision::BadPath => HttpResponse::BadRequest()
            .insert_header((header::CONTENT_TYPE, "text/plain; charset=utf-8"))
            .force_close()
            .body("400 Bad Request"),
    }
}

async fn answer(
    route: Endpoint,
    params: &[&str],
    req: &HttpRequest,
    payload: Payload,
    state: &RestState,
) -> Result<Reply, Failure> {
    // The router gives a handler as many parameters as its pattern has.
    let param = |at: usize| params.get(at).copied().unwrap_or("");
    let query = req.query_string();
    let view = || state.view(param(0));
    let (asker, wanted) = (Asker::of(req), wanted(route, params, query));
    match route {
        Endpoint::Clusters => Ok(Reply::json(&partitions::clusters(&state.listing(), state.started))),
        Endpoint::Config => config::config(req, state),
        Endpoint::ValidateConf => config::validate(req, payload, state).await,
        Endpoint::HistoryApps => Ok(Reply::json(&state.history.apps())),
        Endpoint::HistoryContainers => Ok(Reply::json(&state.history.containers())),
        Endpoint::Partitions => {
            let make = |views: &[View]| Reply::json(&views.iter().map(partitions::partition).collect::<Vec<_>>());
            all(state.about_all(&asker, make).await?, state)
        }
        Endpoint::PlacementRules => Ok(Reply::json(&rules::rules(&view().await?))),
        Endpoint::Queues => {
            state.about(&asker, wanted, param(0), |view| found(queues::tree(view), "Queue not found")).await
        }
        Endpoint::Queue => {
            let name = param(1).to_owned();
            let subtree = url::query_value(query, "subtree").is_some();
            let make = move |view: &View| {
                let queue = queue(view, &checks::unescape(&name)?)?;
                found(queues::one(view, queue, subtree), "Queue not found")
            };
            state.about(&asker, wanted, param(0), make).await
        }
        Endpoint::Nodes => {
            let lists = state.nodes.clone();
            let make = move |view: &View| Ok(Reply::data(reply::JSON, lists.of(view)));
            state.about(&asker, wanted, param(0), make).await
        }
        Endpoint::Node => {
            let id = param(1).to_owned();
            let make = move |view: &View| found(url::named(&id, |id| nodes::node(view, id)), "Node not found");
            state.about(&asker, wanted, param(0), make).await
        }
        Endpoint::QueueApplications => {
            let name = checks::unescape(param(1))?;
            checks::queue_name(&name)?;
            let make = move |view: &View| Ok(Reply::list(applications::of_queue(view, queue(view, &name)?, None)));
            state.about(&asker, wanted, param(0), make).await
        }
        Endpoint::QueueApplicationsByState => {
            let (name, list) = (param(1).to_owned(), param(2).to_owned());
            let status = checks::active_status(query);
            let make = move |view: &View| {
                let queue = queue(view, &checks::unescape(&name)?)?;
                checks::queue_app_list(&list)?;
                Ok(Reply::list(applications::of_queue(view, queue, status?)))
            };
            state.about(&asker, wanted, param(0), make).await
        }
        Endpoint::QueueApplication => {
            let (name, id) = (checks::unescape(param(1))?, param(2).to_owned());
            let make = move |view: &View| {
                let queue = if name.is_empty() { None } else { Some(queue(view, &name)?) };
                found(url::named(&id, |id| applications::find(view, queue, id)), "Application not found")
            };
            state.about(&asker, wanted, param(0), make).await
        }
        Endpoint::Application => {
            let id = param(1).to_owned();
            let make = move |view: &View| {
                found(url::named(&id, |id| applications::find(view, None, id)), "Application not found")
            };
            state.about(&asker, wanted, param(0), make).await
        }
        Endpoint::ApplicationsByState => {
            let list = param(1).to_owned();
            let status = checks::active_status(query);
            let make = move |view: &View| {
                let list = checks::app_list(&list)?;
                let status = if list == checks::AppList::Active { status? } else { None };
                Ok(Reply::list(applications::each(view, list, status)))
            };
            state.about(&asker, wanted, param(0), make).await
        }
        Endpoint::Users => state.about(&asker, wanted, param(0), |view| Ok(Reply::json(&usage::users(view)))).await,
        Endpoint::User => {
            let view = view().await?;
            let name = checks::unescape(param(1))?;
            checks::user_name(&name)?;
            found(usage::user(&view, &name), "User not found")
        }
        Endpoint::Groups => state.about(&asker, wanted, param(0), |view| Ok(Reply::json(&usage::groups(view)))).await,
        Endpoint::Group => {
            let view = view().await?;
            let name = checks::unescape(param(1))?;
            checks::group_name(&name)?;
            found(usage::group(&view, &name), "Group not found")
        }
        Endpoint::EventsBatch => buffered(super::events::batch(req, &state.topology.events).await).await,
        Endpoint::HealthCheck => found(state.health.last().as_deref(), "Health check is not available"),
        Endpoint::NodeUtilizations => {
            let make = |views: &[View]| {
                let all: Vec<_> = views.iter().map(nodes::utilization).collect();
                // Without partitions this list alone is null (REST quirk 1).
                Reply::json(&Some(all).filter(|all| !all.is_empty()))
            };
            all(state.about_all(&asker, make).await?, state)
        }
        Endpoint::Stack => Ok(debug::stack()),
        Endpoint::Profiles => Ok(debug::profiles()),
        Endpoint::Profile => Ok(debug::profile(req.uri().path())),
        Endpoint::EventsStream | Endpoint::StateDump | Endpoint::Metrics | Endpoint::Moved => {
            Err(Failure::not_found("404 page not found"))
        }
    }
}

/// A partition that is there and does not answer is not missing.
fn silent(state: &RestState, name: &str) -> Option<Failure> {
    let listing = state.listing();
    url::named(name, |name| listing.partition(name).cloned())?.addr.silent().map(Failure::from)
}

/// An answer about all partitions: whoever reads it takes what is not in it for gone.
fn all(reply: Reply, state: &RestState) -> Result<Reply, Failure> {
    let silent = state.listing().silent().next();
    silent.map_or(Ok(reply), |silent| Err(silent.into()))
}

/// What decides an answer about a partition, however it is spelled; the partition itself is the first parameter.
fn wanted(route: Endpoint, params: &[&str], query: &str) -> Wanted {
    let queue = |name: &str| checks::unescape(name).unwrap_or_else(|_| name.to_owned()).to_lowercase();
    // What is refused is no other's answer.
    let status = || match checks::active_status(query) {
        Ok(status) => status.map_or("", AppState::name).to_owned(),
        Err(_) => query.to_owned(),
    };
    let of = match (route, params.get(1..).unwrap_or_default()) {
        (Endpoint::Queue, [name]) => vec![queue(name), url::query_value(query, "subtree").is_some().to_string()],
        (Endpoint::QueueApplications, [name]) => vec![queue(name)],
        (Endpoint::QueueApplicationsByState, [name, list]) => vec![queue(name), list.to_lowercase(), status()],
        (Endpoint::QueueApplication, [name, id]) => vec![queue(name), (*id).to_owned()],
        (Endpoint::ApplicationsByState, [list]) => match checks::app_list(list) {
            Ok(checks::AppList::Active) => vec![list.to_lowercase(), status()],
            _ => vec![list.to_lowercase()],
        },
        (_, of) => of.iter().map(|name| (*name).to_owned()).collect(),
    };
    (route, of)
}

/// A queue whose name is well formed and that exists.
fn queue(view: &View, name: &str) -> Result<QueueIx, Failure> {
    checks::queue_name(name)?;
    queues::find(view, name).ok_or_else(|| Failure::not_found("Queue not found"))
}

fn found<T: Serialize>(value: Option<T>, missing: &str) -> Result<Reply, Failure> {
    value.map(|value| Reply::json(&value)).ok_or_else(|| Failure::not_found(missing))
}

/// An answer of another module, so that it is compressed like all others.
async fn buffered(response: HttpResponse) -> Result<Reply, Failure> {
    let status = response.status();
    let body = body::to_bytes(response.into_body()).await.unwrap_or_default();
    Ok(Reply { status, body, ..Reply::json(&()) })
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, mpsc};

    use actix::prelude::*;
    use actix_web::{FromRequest as _, test::TestRequest};
    use tokio::time::Instant;

    use super::*;
    use crate::{
        actors::{
            directory::PATIENCE,
            event::EventActor,
            topology::{Registration, Topology},
        },
        metrics::Metrics,
    };

    #[actix::test]
    async fn a_partition_that_hangs_holds_up_no_other_reader() {
        let other = Arbiter::new();
        let pool = vec![Arbiter::current(), other.handle()];
        let default = crate::config::load("").expect("valid");
        let topology = Topology::new(pool, Topology::launcher(), EventActor::default().start(), default);
        for rm in ["rm-1", "rm-2"] {
            let registration = Registration { rm: rm.into(), ..Registration::default() };
            topology.register(registration).await.expect("registered");
        }
        let (go_on, until) = mpsc::channel();
        other.spawn_fn(move || until.recv().unwrap_or_default());
        tokio::time::pause();
        let state = Data::new(RestState::new(topology, Arc::new(Metrics::new().expect("metrics"))));
        let began = Instant::now();
        let get = async |path: &str| {
            let request = TestRequest::with_uri(path).to_http_request();
            let payload = Payload::extract(&request).await.expect("none");
            let answer = handle(request, payload, state.clone()).await;
            let status = answer.status().as_u16();
            let body = body::to_bytes(answer.into_body()).await.expect("a body");
            (status, String::from_utf8_lossy(&body).into_owned())
        };
        assert_eq!(get("/ws/v1/partition/default/queues").await.0, 200);
        assert_eq!(began.elapsed().as_secs(), 0);
        let told = "partition '[rm-2]default' has not answered within 10s";
        for path in ["/ws/v1/partition/[rm-2]default/queues", "/ws/v1/partitions", "/ws/v1/scheduler/node-utilizations"]
        {
            let (status, text) = get(path).await;
            assert!(status == 503 && text.contains(told), "{path}: {status} {text}");
        }
        let (status, text) = get("/ws/v1/metrics").await;
        assert!(status == 200 && text.contains("callboard_slices_total{partition=\"default\"}"), "{text}");
        super::super::watch::check(&state).await;
        let (_, text) = get("/ws/v1/scheduler/healthcheck").await;
        assert!(text.contains(told), "{text}");
        // All of it together waited for it once, and once for its resource manager.
        assert_eq!(began.elapsed().as_secs(), 2 * PATIENCE.as_secs());
        go_on.send(()).expect("it hangs");
        tokio::time::resume();
        while get("/ws/v1/partitions").await.0 != 200 {
            tokio::task::yield_now().await;
        }
    }

    #[test]
    fn what_changes_no_answer_makes_none_of_its_own() {
        let active = |list: &str, query: &str| wanted(Endpoint::ApplicationsByState, &["default", list], query);
        let all = active("active", "");
        for same in ["x=1", "x=2&y", "status=", "statuses=running", "status=%zz"] {
            assert_eq!(active("ACTIVE", same), all, "{same}");
        }
        assert_eq!(active("active", "status=RUNNING&x=3"), active("active", "status=running"));
        for other in ["status=running", "status=new", "status=bogus"] {
            assert_ne!(active("active", other), all, "{other}");
        }
        assert_eq!(active("completed", "status=running"), active("completed", ""));
        let queue = |name: &str, query: &str| wanted(Endpoint::Queue, &["default", name], query);
        assert_eq!(queue("Root.%41", "x"), queue("root.a", ""));
        assert_eq!(queue("root.a", "subtree=1&x"), queue("root.a", "subtree"));
        assert_ne!(queue("root.a", "subtree"), queue("root.a", ""));
        assert_ne!(queue("root.a", ""), queue("root.b", ""));
    }
}
