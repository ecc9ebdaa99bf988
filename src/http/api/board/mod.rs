//! What the web page reads, and scripts that ask "why is this pending?": an overview of all partitions, their applications
//! with the reason of each that waits, one application explained, and nodes in short.
//!
//! Everything is computed from snapshots, and small: no list of allocations is in any of it.

pub mod advice;
pub mod applications;
pub mod explain;
pub mod lasted;
pub mod nodes;
pub mod overview;
pub mod timeline;
pub mod when;
pub mod why;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use actix_web::{
    HttpRequest, HttpResponse,
    http::StatusCode,
    web::{self, Data, Path},
};
use bytes::Bytes;
use serde_json::json;
use tokio::sync::Mutex;

use self::{applications::Wanted, lasted::Histories, timeline::Subject};
use super::{find_partition, unanswered};
use crate::{
    access::Caller,
    actors::{directory::PartitionEntry, journal::Journals, topology::Topology},
    http::{
        long::{self, Asker, SharedBy, Turn},
        operation::{one_of, text, yes_or_no},
        problem::Problem,
        route::{Access, Route},
        shim::query::{one, parameters},
        ws_v1::{
            View,
            reply::{self, Reply},
        },
    },
    messages::{places::Places, rm::Halt, wait::Target},
};

/// What the handlers read.
pub struct BoardApi {
    /// The wiring.
    pub topology: Arc<Topology>,
    /// Journals of the partitions: which nodes are torpid, and why others are drained.
    pub journals: Arc<Journals>,
    /// Who looks for remedies.
    pub remedies: Places,
    /// Who looks at all nodes or through the events, without looking for remedies.
    pub looks: Places,
    /// How long allocations lasted.
    pub histories: Histories,
    /// Why waits end unmet.
    pub reasons: Reasons,
    /// Overviews that are made, by caller and role.
    overviews: SharedBy<(Arc<str>, &'static str), overview::Overview>,
    /// Long lists of nodes that several wait for, by partition and the node that is wanted alone.
    nodes: SharedBy<(Arc<str>, Option<String>), Bytes>,
}

/// Found once for all who wait for the same thing, and one after another, so that many waits that end together do not take all
/// turns.
#[derive(Debug, Default)]
pub struct Reasons {
    shared: SharedBy<(Arc<str>, Target), Option<String>>,
    one: Mutex<()>,
}

/// How many look for remedies at a time, and how many of one caller: each tries changes on copies.
const REMEDIES: (usize, usize) = (2, 1);
/// How many explain without that, or tell what happened so far: the workers and the events are there for others, too.
const LOOKS: (usize, usize) = (4, 2);
/// How long one may look for remedies, and as long again for when asks will be placed.
const TRIALS: Duration = Duration::from_secs(1);

/// The application's data has to hold a [`BoardApi`].
pub(super) fn routes() -> Vec<Route> {
    let remedies = "look for changes that would place it, and when it will be, which takes up to two seconds; else not";
    vec![
        Access::Viewer
            .get("/api/v1/overview")
            .to(get_overview, "All partitions: what waits, and why")
            .gives::<overview::Overview>(200),
        Access::Viewer
            .get("/api/v1/partition/{partition}/applications")
            .to(get_applications, "Applications with the reason of each that waits")
            .query("list", one_of(&["active", "completed", "rejected"]), "which")
            .query("queue", text(), "of this queue and those below")
            .query("user", text(), "of this user")
            .query("state", text(), "in this state")
            .query("reason", text(), "that wait for this reason")
            .query("text", text(), "with this in id, queue or user")
            .query("waiting", yes_or_no(), "only those that wait")
            .query(
                "sort",
                text(),
                "by this column of `callboard apps`; with a - before it from the largest; else as they wait",
            )
            .query("limit", json!({"type": "integer", "minimum": 1}), "how many at most")
            .gives::<applications::ListView>(200)
            .problems(&[400, 404, 503]),
        Access::Viewer
            .get("/api/v1/partition/{partition}/application/{application}/explain")
            .to(explain_one, "Why an application waits, and what would help")
            .query("ask", text(), "only this ask")
            .query("remedies", yes_or_no(), remedies)
            .query("timeline", yes_or_no(), "tell what happened to it so far")
            .gives::<explain::Explained>(200)
            .problems(&[400, 404, 503]),
        Access::Viewer
            .get("/api/v1/partition/{partition}/nodes")
            .to(get_nodes, "Nodes in short")
            .query("node", text(), "this one only")
            .gives::<nodes::NodesView>(200)
            .problems(&[400, 404, 503]),
    ]
}

impl BoardApi {
    /// Nobody has asked yet.
    pub fn new(topology: Arc<Topology>, journals: Arc<Journals>) -> BoardApi {
        let places = |(all, each)| Places::new(all, each, "have applications explained");
        let (remedies, looks) = (places(REMEDIES), places(LOOKS));
        BoardApi {
            topology,
            journals,
            remedies,
            looks,
            histories: Histories::default(),
            reasons: Reasons::default(),
            overviews: SharedBy::default(),
            nodes: SharedBy::default(),
        }
    }

    /// The partition of this name; 404 where there is none.
    pub(super) fn entry(&self, partition: &str) -> Result<PartitionEntry, Problem> {
        find_partition(&self.topology.directory.get(), partition)
    }

    /// A partition as it is when this caller has its turn.
    async fn view_in_turn(&self, partition: &str, asker: &Asker) -> Result<(View, Turn), Problem> {
        asker.turn(async || self.view(partition).await, View::rows).await
    }

    pub(super) async fn view(&self, partition: &str) -> Result<View, Problem> {
        View::of(&self.entry(partition)?).await.map_err(unanswered)
    }

    /// What `find` finds out about a thing in its partition as it is now.
    pub(super) async fn reason(
        &self,
        partition: &Arc<str>,
        target: &Target,
        find: fn(&View, &Target, Option<&Halt>) -> Option<String>,
    ) -> Option<String> {
        let key = (partition.clone(), target.clone());
        let found = self.reasons.shared.get(key, async || {
            let _one = self.reasons.one.lock().await;
            let (view, turn) = self.view_in_turn(partition, &Asker::itself("why waits end")).await?;
            let (halt, target) = (self.halt(&view.rm), target.clone());
            Ok::<_, Problem>(turn.make(move || find(&view, &target, halt.as_ref())).await?)
        });
        found.await.ok()?.as_ref().clone()
    }

    /// Why nothing new is placed for this resource manager. Of one that another server leads this one does not know.
    pub(super) fn halt(&self, rm: &str) -> Option<Halt> {
        self.topology.find(rm).filter(|handle| handle.is_here().is_ok())?.view.load().halt()
    }
}

async fn get_overview(
    api: Data<BoardApi>,
    caller: Caller,
    asker: Asker,
    request: HttpRequest,
) -> Result<HttpResponse, Problem> {
    let make = async || overview::overview(&api, &caller, &asker).await;
    let overview = api.overviews.get((asker.name(), caller.role().name()), make).await?;
    Ok(reply::send(&request, Reply::json(&*overview)))
}

async fn get_applications(
    api: Data<BoardApi>,
    partition: Path<String>,
    asker: Asker,
    request: HttpRequest,
) -> Result<HttpResponse, Problem> {
    let wanted = Wanted::read(request.query_string())?;
    let (view, turn) = api.view_in_turn(&partition, &asker).await?;
    let halt = api.halt(&view.rm);
    let made = turn.make(move || Reply::json(&applications::list(&view, &wanted, halt.as_ref()))).await?;
    Ok(reply::send_any(&request, made).await)
}

async fn explain_one(
    api: Data<BoardApi>,
    caller: Caller,
    path: Path<(String, String)>,
    request: HttpRequest,
) -> Result<HttpResponse, Problem> {
    let (partition, application) = path.into_inner();
    let given = parameters(&request, &["ask", "remedies", "timeline"])?;
    let ask = one(&given, "ask").map(str::to_owned);
    let yes = |field: &str, other: bool| match one(&given, field) {
        None => Ok(other),
        Some("true") => Ok(true),
        Some("false") => Ok(false),
        Some(text) => Err(Problem::field(field, format!("{field} is '{text}'; it may be true or false"))),
    };
    let (remedies, wants_timeline) = (yes("remedies", true)?, yes("timeline", false)?);
    let entry = api.entry(&partition)?;
    let listing = api.topology.directory.get();
    let config = listing.rms.iter().find(|rm| rm.id == entry.rm).filter(|_| remedies).map(|rm| rm.config.clone());
    // Trials take their time: a few at once, beside the workers, and on a snapshot, so that the partition does not notice.
    let places = if config.is_some() { &api.remedies } else { &api.looks };
    let place = places.take(caller.identity(request.peer_addr().map(|peer| peer.ip()))).await?;
    let view = api.view(&partition).await?;
    let halt = api.halt(&view.rm);
    let subject = Subject::of(view.partition(), &application).filter(|_| wants_timeline);
    let timeline = match subject {
        Some(subject) => Some(timeline::timeline(&api.topology.events, &subject).await),
        None => None,
    };
    let lasted = match &config {
        Some(_) => Some(api.histories.of(&api.topology.events, view.partition()).await),
        None => None,
    };
    let computed = web::block(move || {
        // It takes its time, though nobody may wait for it any more.
        let _place = place;
        let begun = Instant::now();
        let (stop, stop_when) = (|| begun.elapsed() >= TRIALS, || begun.elapsed() >= 2 * TRIALS);
        let wanted = explain::Wanted {
            ask: ask.as_deref(),
            config: config.as_deref(),
            halt,
            timeline,
            lasted,
            stop: &stop,
            stop_when: &stop_when,
        };
        let missing = |detail: String| Problem::new(StatusCode::NOT_FOUND, detail);
        let explained = explain::explain(&view, &application, &wanted)
            .ok_or_else(|| missing(format!("application '{application}' not found in partition '{}'", view.shown)))?;
        if let Some(ask) = ask.as_deref().filter(|ask| !explain::has_ask(&view, &application, ask)) {
            let detail =
                format!("application '{application}' has no ask '{ask}'; without it all that wait are explained");
            return Err(missing(detail));
        }
        Ok(Reply::json(&explained))
    });
    Ok(reply::send_any(&request, computed.await??).await)
}

async fn get_nodes(
    api: Data<BoardApi>,
    partition: Path<String>,
    asker: Asker,
    request: HttpRequest,
) -> Result<HttpResponse, Problem> {
    let given = parameters(&request, &["node"])?;
    let entry = api.entry(&partition)?;
    let only = one(&given, "node").map(str::to_owned);
    let rows = api.view(&partition).await?.rows();
    let key = (entry.shown.clone(), only.clone());
    let make = async |turn: Turn| {
        let view = api.view(&partition).await?;
        let status = nodes::status(&api, &entry).await;
        // Hosts that are away have no rows.
        let turn = turn.of(&asker, status.as_ref().map_or(0, |status| status.targets.len())).await;
        let made = turn.make(move || Reply::json(&nodes::list(&view, status.as_ref(), only.as_deref())));
        Ok::<_, Problem>(made.await?.body)
    };
    let made = api.nodes.get_long(key, rows, &asker, make).await?;
    Ok(reply::send_any(&request, Reply::data(reply::JSON, long::body(made))).await)
}
