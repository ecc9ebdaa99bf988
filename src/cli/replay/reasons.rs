//! Why an ask waits, in a few words, so that asks that wait for the same are counted together. The scheduler says why; of an
//! ask that waits for nodes the shim's books tell what the nodes are short of.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::{
    books::Books,
    trace::{Amounts, Trace},
    wire::{self, PARTITION},
};
use crate::{
    cli::client::{
        Error,
        http::{Api, segment},
    },
    http::api::board::why::{Reason, title},
};

/// What the scheduler says of why asks wait.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Cause {
    code: String,
    queue: Option<String>,
    node: Option<String>,
    #[serde(default)]
    short: Vec<Short>,
}

/// A resource of which there is not enough.
#[derive(Clone, Debug, Deserialize)]
struct Short {
    resource: String,
}

impl From<&Reason> for Cause {
    fn from(reason: &Reason) -> Cause {
        Cause {
            code: reason.code.to_owned(),
            queue: reason.queue.clone(),
            node: reason.node.clone(),
            short: reason.short.iter().map(|short| Short { resource: short.resource.clone().into_owned() }).collect(),
        }
    }
}

/// Reason of an ask that waits for others of its gang.
pub const GANG: &str = "its gang is not complete";

/// The reason of an ask in words.
pub fn words(trace: &Trace, books: &Books<'_>, ask: usize, cause: &Cause) -> String {
    let queue = cause.queue.as_deref().unwrap_or("its queue");
    match cause.code.as_str() {
        "queueQuota" => {
            let short = cause.short.first().map_or("what it needs", |short| &short.resource);
            format!("queue {queue} is at its max of {short}")
        }
        "userQuota" => format!("a user or group limit holds it back in {queue}"),
        "runningApps" => format!("queue {queue} runs as many applications as it may"),
        "userApps" => format!("its user or group runs as many applications as it may in {queue}"),
        "gang" => GANG.to_owned(),
        "placeholder" => "it waits for the placeholder that it replaces".to_owned(),
        "gangRoom" => "its queues have no room for the whole gang".to_owned(),
        "backOff" => "it backs off after failures".to_owned(),
        "preempting" => "those who are to go for it have not ended yet".to_owned(),
        "requiredNode" => format!("its required node {} cannot take it", cause.node.as_deref().unwrap_or("")),
        "refused" => "the nodes with room for it were refused by the shim".to_owned(),
        // Where the whole cluster is full no node is tried.
        "turn" => on_the_nodes(trace, books, &trace.asks[ask].needs).unwrap_or_else(|| "it is next in turn".to_owned()),
        "tooLarge" | "nodes" => on_the_nodes(trace, books, &trace.asks[ask].needs)
            // R5.36: what is reserved of a node is closed to all other asks.
            .unwrap_or_else(|| "the nodes with room for it are reserved for other asks".to_owned()),
        code => title(code).to_owned(),
    }
}

/// An application as it is explained.
#[derive(Clone, Debug, Deserialize)]
struct Explained {
    waiting: Vec<Group>,
}

/// Asks of an application that wait for one reason: they agree in all of this.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Group {
    resource: BTreeMap<String, i64>,
    #[serde(default)]
    priority: i32,
    #[serde(default)]
    placeholder: bool,
    #[serde(default)]
    task_group: String,
    reason: Cause,
}

/// A queue as REST shows it.
#[derive(Clone, Debug, Default, Deserialize)]
struct Queue {
    #[serde(default, rename = "allocatedResource")]
    allocated: BTreeMap<String, i64>,
}

/// Asks a server why.
pub struct Explainer {
    api: Api,
    partition: String,
}

impl Explainer {
    /// For the partition of a resource manager.
    pub fn new(api: Api, rm: &str) -> Explainer {
        Explainer { api, partition: segment(&format!("[{rm}]{PARTITION}")) }
    }

    /// The reason for each of these waiting asks. An ask that was placed in between has none.
    pub async fn explain(&mut self, trace: &Trace, books: &Books<'_>, asks: &[usize]) -> Vec<String> {
        let mut apps: BTreeMap<usize, Result<Explained, String>> = BTreeMap::new();
        let mut reasons = Vec::new();
        for ask in asks {
            if books.waits_for_gang(*ask) {
                reasons.push(GANG.to_owned());
                continue;
            }
            let app = trace.asks[*ask].app;
            if let std::collections::btree_map::Entry::Vacant(entry) = apps.entry(app) {
                let id = segment(&trace.apps[app].id);
                // Without what would help, which takes the server ten times as long, and for which nobody looks here.
                let path = format!("/api/v1/partition/{}/application/{id}/explain?remedies=false", self.partition);
                entry.insert(self.api.get::<Explained>(&path).await.map_err(|error| unknown(&error)));
            }
            match &apps[&app] {
                Ok(explained) => {
                    let group = explained.waiting.iter().find(|group| is_of(group, trace, &books.ask(*ask)));
                    reasons.extend(group.map(|group| words(trace, books, *ask, &group.reason)));
                }
                Err(unknown) => reasons.push(unknown.clone()),
            }
        }
        reasons
    }

    /// What the server says is used in the partition, by resource name.
    pub async fn used(&self) -> crate::cli::client::Result<BTreeMap<String, i64>> {
        let root: Queue = self.api.get(&format!("/ws/v1/partition/{}/queues", self.partition)).await?;
        Ok(root.allocated.into_iter().filter(|(_, amount)| *amount != 0).collect())
    }
}

/// The ask waits in this group.
fn is_of(group: &Group, trace: &Trace, asked: &wire::Ask) -> bool {
    let ask = &trace.asks[asked.at];
    let plan = trace.gangs.as_ref();
    let wanted = trace.types.iter().zip(&ask.needs).filter(|(_, need)| **need != 0);
    group.placeholder == asked.placeholder
        && group.priority == ask.priority
        && group.task_group == plan.map_or("", |plan| &plan.groups[asked.at])
        && group.resource == wanted.map(|(kind, need)| (kind.name().to_owned(), *need)).collect()
}

/// One text for all asks, so that they are counted together; the paths differ by application.
fn unknown(error: &Error) -> String {
    match error {
        Error::Refused { status, .. } => format!("unknown: the server's REST does not tell ({status})"),
        error => format!("unknown: {error}"),
    }
}

/// What the nodes are short of; `None` where one has room.
pub fn on_the_nodes(trace: &Trace, books: &Books<'_>, needs: &Amounts) -> Option<String> {
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
    use crate::cli::replay::trace::testing;

    fn trace() -> Trace {
        testing::trace(&["n1", "n2"], 40, vec![testing::ask("a", 30, 0, None)])
    }

    fn told(free: [i64; 2], cause: &str) -> String {
        let trace = trace();
        let mut books = Books::new(&trace);
        books.node_free = free.iter().map(|amount| vec![*amount]).collect();
        books.used = vec![80 - free[0] - free[1]];
        words(&trace, &books, 0, &serde_json::from_str(cause).unwrap())
    }

    #[test]
    fn reasons_are_told_in_words() {
        let nodes = r#"{"code":"nodes","text":"…","nodes":{"open":0}}"#;
        assert_eq!(told([5, 5], nodes), "the cluster is out of vcore");
        assert_eq!(told([25, 25], nodes), "no single node has enough vcore left");
        assert_eq!(told([40, 5], nodes), "the nodes with room for it are reserved for other asks");
        let queue = r#"{"code":"queueQuota","queue":"root.q","short":[{"resource":"vcore","wanted":30}]}"#;
        assert_eq!(told([40, 40], queue), "queue root.q is at its max of vcore");
        let user = r#"{"code":"userQuota","queue":"root.q","user":"u"}"#;
        assert_eq!(told([40, 40], user), "a user or group limit holds it back in root.q");
        let apps = r#"{"code":"runningApps","queue":"root.q"}"#;
        assert_eq!(told([40, 40], apps), "queue root.q runs as many applications as it may");
        assert_eq!(told([40, 40], r#"{"code":"ending"}"#), "application is ending");
    }

    #[test]
    fn every_code_of_the_scheduler_has_its_words() {
        for code in crate::http::api::board::why::CODES {
            let told = told([5, 5], &format!(r#"{{"code":"{code}"}}"#));
            assert!(!told.is_empty() && told != "next in turn", "{code}: {told}");
        }
    }

    #[test]
    fn an_ask_larger_than_every_node_is_told_so() {
        let mut trace = trace();
        trace.asks[0].needs = vec![50];
        let books = Books::new(&trace);
        assert_eq!(on_the_nodes(&trace, &books, &trace.asks[0].needs).unwrap(), "it is larger than every node");
    }
}
