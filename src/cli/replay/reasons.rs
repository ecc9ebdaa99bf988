//! Why an ask waits, in words: from the queues and the ask's own log as the server's REST shows them, and from what is
//! free on the nodes.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    time::{Duration, Instant},
};

use serde::Deserialize;

use super::{
    books::Books,
    trace::{Amounts, Trace},
    wire::PARTITION,
};
use crate::cli::client::{
    Error,
    http::{Api, segment},
};

/// Up to this many applications are asked for one by one; more come as one list.
const SINGLE_LOOKUPS: usize = 8;

/// So long the list of reserved nodes is taken as it was; reservations are made after 2 s at the earliest.
const RESERVATIONS_HOLD: Duration = Duration::from_secs(1);

/// A queue as REST shows it.
#[derive(Clone, Debug, Default, Deserialize)]
struct Queue {
    queuename: String,
    #[serde(default, rename = "maxResource")]
    max: BTreeMap<String, i64>,
    #[serde(default, rename = "allocatedResource")]
    allocated: BTreeMap<String, i64>,
    #[serde(default, rename = "maxRunningApps")]
    max_running: u64,
    #[serde(default, rename = "runningApps")]
    running: u64,
    #[serde(default, rename = "allocatingAcceptedApps")]
    starting: Vec<String>,
    #[serde(default)]
    children: Vec<Queue>,
}

/// An application as REST shows it.
#[derive(Clone, Debug, Default, Deserialize)]
struct App {
    #[serde(rename = "applicationID")]
    id: String,
    #[serde(default, rename = "queueName")]
    queue: String,
    #[serde(default)]
    requests: Vec<Request>,
}

#[derive(Clone, Debug, Default, Deserialize)]
struct Request {
    #[serde(rename = "allocationKey")]
    key: String,
    #[serde(default, rename = "allocationLog")]
    log: Vec<Entry>,
    #[serde(default, rename = "schedulingAttempted")]
    attempted: bool,
}

#[derive(Clone, Debug, Default, Deserialize)]
struct Entry {
    #[serde(default)]
    message: String,
}

/// A node as REST shows it.
#[derive(Clone, Debug, Default, Deserialize)]
struct Node {
    #[serde(rename = "nodeID")]
    id: String,
    #[serde(default, rename = "isReserved")]
    reserved: bool,
}

/// Ids of the nodes that are reserved for some ask.
type Reserved = HashSet<String>;

/// Asks the server why.
pub struct Explainer {
    api: Api,
    partition: String,
    reserved: Option<(Instant, Reserved)>,
}

impl Explainer {
    /// For the partition of a resource manager.
    pub fn new(api: Api, rm: &str) -> Explainer {
        let partition = format!("/ws/v1/partition/{}", segment(&format!("[{rm}]{PARTITION}")));
        Explainer { api, partition, reserved: None }
    }

    /// The reason for each of these waiting asks. An ask that was placed in between has none.
    pub async fn explain(&mut self, trace: &Trace, books: &Books<'_>, asks: &[usize]) -> Vec<String> {
        let apps = match self.apps(trace, asks).await {
            Ok(apps) => apps,
            Err(error) => return vec![unknown(&error); asks.len()],
        };
        let root: Queue = match self.api.get(&format!("{}/queues", self.partition)).await {
            Ok(root) => root,
            Err(error) => return vec![unknown(&error); asks.len()],
        };
        if let Err(error) = self.look_at_reservations().await {
            return vec![unknown(&error); asks.len()];
        }
        let none = Reserved::new();
        let reserved = self.reserved.as_ref().map_or(&none, |(_, reserved)| reserved);
        let reason = |ask: &usize| {
            let app = apps.get(&trace.apps[trace.asks[*ask].app].id)?;
            let request = app.requests.iter().find(|request| request.key == books.key(*ask))?;
            Some(reason(trace, books, *ask, &root, &app.queue, request, reserved))
        };
        asks.iter().filter_map(reason).collect()
    }

    /// The list of nodes is long, and asks are explained in every moment of a trace.
    async fn look_at_reservations(&mut self) -> crate::cli::client::Result<()> {
        if self.reserved.as_ref().is_some_and(|(at, _)| at.elapsed() < RESERVATIONS_HOLD) {
            return Ok(());
        }
        let nodes: Vec<Node> = self.api.get(&format!("{}/nodes", self.partition)).await?;
        let reserved = nodes.into_iter().filter(|node| node.reserved).map(|node| node.id).collect();
        self.reserved = Some((Instant::now(), reserved));
        Ok(())
    }

    async fn apps(&self, trace: &Trace, asks: &[usize]) -> crate::cli::client::Result<HashMap<String, App>> {
        let mut ids: Vec<usize> = asks.iter().map(|ask| trace.asks[*ask].app).collect();
        ids.sort_unstable();
        ids.dedup();
        let mut apps = Vec::new();
        if ids.len() <= SINGLE_LOOKUPS {
            for app in ids {
                let path = format!("{}/application/{}", self.partition, segment(&trace.apps[app].id));
                apps.push(self.api.get::<App>(&path).await?);
            }
        } else {
            apps = self.api.get(&format!("{}/applications/active", self.partition)).await?;
        }
        Ok(apps.into_iter().map(|app| (app.id.clone(), app)).collect())
    }

    /// What the server says is used in the partition, by resource name.
    pub async fn used(&self) -> crate::cli::client::Result<BTreeMap<String, i64>> {
        let root: Queue = self.api.get(&format!("{}/queues", self.partition)).await?;
        Ok(root.allocated.into_iter().filter(|(_, amount)| *amount != 0).collect())
    }
}

/// One text for all asks, so that they are counted together; the paths differ by application.
fn unknown(error: &Error) -> String {
    match error {
        Error::Refused { status, .. } => format!("unknown: the server's REST does not tell ({status})"),
        error => format!("unknown: {error}"),
    }
}

fn reason(
    trace: &Trace,
    books: &Books<'_>,
    ask: usize,
    root: &Queue,
    queue: &str,
    request: &Request,
    reserved: &Reserved,
) -> String {
    let needs = &trace.asks[ask].needs;
    let path = path_of(root, queue);
    // Root's max is the size of the cluster, which is told below.
    for queue in path.iter().filter(|queue| queue.queuename != root.queuename) {
        if let Some(short) = short_in(trace, needs, queue) {
            return format!("queue {} is at its max of {short}", queue.queuename);
        }
    }
    let last = request.log.iter().map(|entry| entry.message.as_str()).rfind(|m| !about_preemption(m));
    if last == Some("Not enough user quota") {
        return format!("a user or group limit holds it back in {queue}");
    }
    let full =
        |queue: &&Queue| queue.max_running > 0 && queue.running + queue.starting.len() as u64 >= queue.max_running;
    if !request.attempted
        && let Some(queue) = path.iter().copied().find(full)
    {
        return format!("queue {} runs its {} applications", queue.queuename, queue.max_running);
    }
    if let Some(reason) = on_the_nodes(trace, books, needs) {
        return reason;
    }
    match last {
        Some(message) if message != "Not enough queue quota" => message.to_owned(),
        _ if only_reserved(trace, books, needs, reserved) => {
            "the nodes with room for it are reserved for other asks".to_owned()
        }
        // Queue and nodes have room: what it waits for does not show, and is not guessed.
        _ => "no reason is visible".to_owned(),
    }
}

/// Every node with room for it is reserved (R5.36: such nodes are closed to all other asks).
fn only_reserved(trace: &Trace, books: &Books<'_>, needs: &Amounts, reserved: &Reserved) -> bool {
    let fits = |free: &Amounts| free.iter().zip(needs).all(|(free, need)| free >= need);
    let mut roomy = trace.nodes.iter().zip(&books.node_free).filter(|(_, free)| fits(free)).peekable();
    roomy.peek().is_some() && roomy.all(|(node, _)| reserved.contains(&node.id))
}

/// Preemption is tried for every ask that waits; that it did not help is no reason of its own.
fn about_preemption(message: &str) -> bool {
    ["Preemption", "No fit on required node", "Victims picked"].iter().any(|start| message.starts_with(start))
}

/// The queue and its ancestors, root first.
fn path_of<'q>(root: &'q Queue, queue: &str) -> Vec<&'q Queue> {
    let mut path = vec![root];
    let mut at = root;
    let below = |at: &Queue, queue: &str| queue == at.queuename || queue.starts_with(&format!("{}.", at.queuename));
    while let Some(child) = at.children.iter().find(|child| below(child, queue)) {
        path.push(child);
        at = child;
    }
    path
}

/// The first resource of which the queue has not enough left.
fn short_in(trace: &Trace, needs: &Amounts, queue: &Queue) -> Option<&'static str> {
    let short = |name: &str, need: i64| {
        let max = queue.max.get(name).copied()?;
        (need > 0 && queue.allocated.get(name).copied().unwrap_or(0) + need > max).then_some(())
    };
    trace.types.iter().zip(needs).find(|(kind, need)| short(kind.name(), **need).is_some()).map(|(kind, _)| kind.name())
}

fn on_the_nodes(trace: &Trace, books: &Books<'_>, needs: &Amounts) -> Option<String> {
    let fits = |room: &Amounts| room.iter().zip(needs).all(|(room, need)| room >= need);
    if !trace.nodes.iter().any(|node| fits(&node.capacity)) {
        return Some("it is larger than every node".to_owned());
    }
    if books.node_free.iter().any(fits) {
        return None;
    }
    let capacity = trace.capacity();
    let free: Vec<i64> = capacity.iter().zip(&books.used).map(|(capacity, used)| capacity - used).collect();
    let short = trace.types.iter().zip(needs).zip(&free).find(|((_, need), free)| need > free);
    Some(match short {
        Some(((kind, _), _)) => format!("the cluster is out of {}", kind.name()),
        None => {
            // The scarcest resource: the one that the fewest nodes could give.
            let nodes = |at: usize| books.node_free.iter().filter(|free| free[at] >= needs[at]).count();
            let needed = (0..needs.len()).filter(|at| needs[*at] > 0);
            let name = needed.min_by_key(|at| nodes(*at)).map_or("resources", |at| trace.types[at].name());
            format!("no single node has enough {name} left")
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::replay::trace::{Millis, ResourceKind, TraceApp, TraceAsk, TraceNode};

    fn trace() -> Trace {
        let node = |id: &str, amount| TraceNode { id: id.into(), capacity: vec![amount] };
        let ask = TraceAsk { key: "a".into(), app: 0, needs: vec![30], priority: 0, starts: Millis(0), ends: None };
        Trace {
            types: vec![ResourceKind::Vcore],
            nodes: vec![node("n1", 40), node("n2", 40)],
            apps: vec![TraceApp { id: "app".into(), queue: "q".into(), user: "u".into() }],
            asks: vec![ask],
            ..Trace::default()
        }
    }

    fn tree(text: &str) -> Queue {
        serde_json::from_str(text).unwrap()
    }

    fn told(free: [i64; 2], root: &str, request: &str) -> String {
        told_with(free, root, request, &[])
    }

    fn told_with(free: [i64; 2], root: &str, request: &str, reserved: &[&str]) -> String {
        let trace = trace();
        let mut books = Books::new(&trace);
        books.node_free = free.iter().map(|amount| vec![*amount]).collect();
        books.used = vec![80 - free[0] - free[1]];
        reason(
            &trace,
            &books,
            0,
            &tree(root),
            "root.q",
            &serde_json::from_str(request).unwrap(),
            &reserved.iter().map(|id| (*id).to_owned()).collect(),
        )
    }

    const PLAIN: &str = r#"{"queuename":"root","maxResource":{"vcore":80},"children":[{"queuename":"root.q"}]}"#;
    const ASK: &str = r#"{"allocationKey":"a","schedulingAttempted":true}"#;

    #[test]
    fn reasons_are_told_in_words() {
        assert_eq!(told([5, 5], PLAIN, ASK), "the cluster is out of vcore");
        assert_eq!(told([25, 25], PLAIN, ASK), "no single node has enough vcore left");
        // R5.36. A reason is told only where it shows: one node with room that is not reserved, and there is none.
        let reserved = "the nodes with room for it are reserved for other asks";
        assert_eq!(told_with([40, 5], PLAIN, ASK, &["n1"]), reserved);
        assert_eq!(told_with([40, 40], PLAIN, ASK, &["n1", "n2"]), reserved);
        assert_eq!(told_with([40, 40], PLAIN, ASK, &["n1"]), "no reason is visible");
        assert_eq!(told([40, 40], PLAIN, ASK), "no reason is visible");
        let limited = r#"{"queuename":"root","children":[{"queuename":"root.q","maxResource":{"vcore":50},"allocatedResource":{"vcore":25}}]}"#;
        assert_eq!(told([40, 40], limited, ASK), "queue root.q is at its max of vcore");
        let user = r#"{"allocationKey":"a","allocationLog":[{"message":"Not enough user quota"},{"message":"Preemption does not help"}]}"#;
        assert_eq!(told([40, 40], PLAIN, user), "a user or group limit holds it back in root.q");
        let apps = r#"{"queuename":"root","children":[{"queuename":"root.q","maxRunningApps":2,"runningApps":1,"allocatingAcceptedApps":["x"]}]}"#;
        assert_eq!(told([40, 40], apps, r#"{"allocationKey":"a"}"#), "queue root.q runs its 2 applications");
        let refused =
            r#"{"allocationKey":"a","schedulingAttempted":true,"allocationLog":[{"message":"node has a taint"}]}"#;
        assert_eq!(told([40, 40], PLAIN, refused), "node has a taint");
    }

    #[test]
    fn an_ask_larger_than_every_node_is_told_so() {
        let mut trace = trace();
        trace.asks[0].needs = vec![50];
        let books = Books::new(&trace);
        assert_eq!(on_the_nodes(&trace, &books, &trace.asks[0].needs).unwrap(), "it is larger than every node");
    }
}
