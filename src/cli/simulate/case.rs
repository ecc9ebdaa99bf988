//! A case: a small world and what happens in it, as it is drawn from a seed, shortened, kept in a file and run again.
//!
//! Steps name things by small numbers and never depend on what came before: whatever is left out, the rest can still be run.

use std::{collections::BTreeMap, path::Path};

use serde::{Deserialize, Serialize};

use crate::{
    actors::rm::log::LogSync,
    domain::{command::NodeAction, queue_order::OrderKind, types::Termination},
    http::ws_v1::json::unset,
};

/// Version of the files.
pub const FORMAT: u32 = 1;

/// See the module.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// See [`FORMAT`].
    pub format: u32,
    /// What it shows, for the reader.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub about: String,
    /// The release that drew it.
    pub version: String,
    /// What it was drawn from; what the shims do by chance follows from it too.
    pub seed: u64,
    /// Where it happens.
    pub world: World,
    /// What happens, in order.
    pub steps: Vec<Step>,
}

/// A resource manager, how its shim behaves, and how its server is set up.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct World {
    /// Configurations; the first is in force at the beginning.
    pub configs: Vec<String>,
    /// Queues that applications are submitted to, by their number.
    pub queues: Vec<String>,
    /// Partitions by name; things are spread over them by their number.
    pub partitions: Vec<String>,
    /// Extra configuration.
    #[serde(default)]
    pub extra: BTreeMap<String, String>,
    /// When records count.
    pub sync: LogSync,
    /// Decisions of one call at most.
    pub chunk: usize,
    /// Requests carry numbers, so that each is taken once.
    pub numbered: bool,
    /// How the shim behaves.
    pub shim: Shim,
    /// How the directory behaves that knows groups of users, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub directory: Option<Directory>,
    /// How the etcd answers that has the log, where it is one of several servers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub etcd: Option<Doubts>,
}

/// How an etcd answers; chances are in hundredths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Doubts {
    /// Not at all, and nothing is done.
    pub lost: u8,
    /// Not at all, and it is done.
    pub doubtful: u8,
    /// Not at all, and it is done later.
    pub late: u8,
}

/// How a directory behaves; chances are in hundredths.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Directory {
    /// Users whose groups the shim does not send, by their numbers.
    pub users: Vec<u8>,
    /// Milliseconds that an answer takes at most.
    pub delay: i64,
    /// It does not know a user.
    pub fails: u8,
    /// It cannot be asked.
    pub away: u8,
}

/// How a shim behaves; chances are in hundredths.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shim {
    /// Milliseconds that a line or a request is under way at most.
    pub delay: i64,
    /// It confirms a release late.
    pub late: u8,
    /// It confirms a release twice.
    pub twice: u8,
    /// It does not confirm a release until that is sent again.
    pub never: u8,
    /// It confirms a release by another type.
    pub lies: u8,
    /// An allocation cannot be carried out.
    pub fails: u8,
    /// An allocation ends by itself after a while.
    pub ends: u8,
    /// 0: it is not asked for predicates, 1: one by one, 2: for several nodes at once, 3: and for several asks.
    pub asked: u8,
    /// It refuses a node.
    pub refuses: u8,
    /// It refuses a node for an ask however often it is asked.
    #[serde(default, skip_serializing_if = "unset")]
    pub insists: u8,
    /// It does not answer.
    pub silent: u8,
    /// A request is sent twice.
    pub doubles: u8,
}

/// Something that happens.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Step {
    /// A node request of the shim.
    Node { node: u8, action: Action, size: i64, gpus: i64 },
    /// A submission.
    App { app: u8, queue: u8, user: u8, seconds: i64, tags: bool },
    /// A submission with a gang of so many placeholders, which come with it.
    Gang {
        app: u8,
        queue: u8,
        user: u8,
        count: u8,
        size: i64,
        hard: bool,
        seconds: i64,
        #[serde(default, skip_serializing_if = "unset")]
        parts: Parts,
    },
    /// The real asks of a gang.
    Reals {
        app: u8,
        count: u8,
        size: i64,
        #[serde(default, skip_serializing_if = "unset")]
        parts: Parts,
    },
    /// An application is removed.
    Remove { app: u8 },
    /// An ask; with a node: what runs there already. Of two partitions, every fourth is made in one request with the same ask of
    /// the next application, which is in the other.
    Ask { app: u8, key: u8, size: i64, gpus: i64, kind: Kind, node: Option<u8> },
    /// A release; without a key: of all.
    Release { app: u8, key: Option<u8>, by: By },
    /// An allocation of another scheduler; size 0: it goes.
    Foreign { key: u8, node: u8, size: i64 },
    /// So many milliseconds pass.
    Pass(i64),
    /// Another configuration.
    Configure(u8),
    /// An operator drains or undrains a node.
    Drain { node: u8, on: bool },
    /// An operator drains a node, drained or not, and wants to know of what still runs after a while, or undrains it.
    Hold { node: u8, on: bool },
    /// An operator stops or drains a queue, or takes that back.
    Order { queue: u8, order: Option<Order> },
    /// The connection breaks, and comes back after so many milliseconds. Half open: the server does not notice.
    Cut { half: bool, back: i64 },
    /// The shim registers again, and reports what it runs.
    Register,
    /// A snapshot is taken; its second half after the next step.
    Snapshot,
    /// For so many milliseconds the disk is full, or does not flush.
    Disk { flushes: bool, millis: i64 },
    /// The process is killed and started again.
    Kill(Kill),
}

/// How the parts of a gang differ. By default they do not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Parts {
    /// They belong to so many further task groups in turn.
    #[serde(default, skip_serializing_if = "unset")]
    pub groups: u8,
    /// Each is so much larger than the one before it.
    #[serde(default, skip_serializing_if = "unset")]
    pub grows: i64,
    /// What is special about the first, the third and so on, and about the others.
    #[serde(default, skip_serializing_if = "unset")]
    pub kinds: [Kind; 2],
}

/// See [`Step::Kill`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Kill {
    /// The machine stops too: what was not flushed is gone.
    #[serde(default)]
    pub machine: bool,
    /// The next process begins so many milliseconds later.
    #[serde(default, skip_serializing_if = "unset")]
    pub down: i64,
    /// So many hundredths of a further record are there.
    #[serde(default)]
    pub torn: u8,
    /// Of the newest snapshot so many hundredths are there.
    #[serde(default)]
    pub snapshot: Option<u8>,
}

/// Mirrors [`NodeAction`].
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Action {
    Create,
    CreateDrain,
    Update,
    Drain,
    Undrain,
    Remove,
}

impl From<Action> for NodeAction {
    fn from(action: Action) -> NodeAction {
        match action {
            Action::Create => NodeAction::Create,
            Action::CreateDrain => NodeAction::CreateDrain,
            Action::Update => NodeAction::Update,
            Action::Drain => NodeAction::Drain,
            Action::Undrain => NodeAction::DrainToSchedulable,
            Action::Remove => NodeAction::Decommission,
        }
    }
}

/// What is special about an ask.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Kind {
    #[default]
    Plain,
    /// Of the task group of the gang.
    Grouped,
    Placeholder,
    /// The same two, and they require a node.
    GroupedOn(u8),
    PlaceholderOn(u8),
    High,
    /// It may preempt, and be preempted.
    Preempts,
    HighPreempts,
    /// It may preempt, and does not want to be.
    OptedOut,
    /// It may neither preempt nor be preempted.
    Fixed,
    Originator,
    /// It requires a node.
    Required(u8),
}

/// Mirrors [`Termination`].
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum By {
    Unknown,
    Stopped,
    Timeout,
    Preempted,
    Replaced,
    Failed,
}

impl From<By> for Termination {
    fn from(by: By) -> Termination {
        match by {
            By::Unknown => Termination::Unknown,
            By::Stopped => Termination::StoppedByRm,
            By::Timeout => Termination::Timeout,
            By::Preempted => Termination::Preempted,
            By::Replaced => Termination::PlaceholderReplaced,
            By::Failed => Termination::FailedOnRm,
        }
    }
}

/// Mirrors [`OrderKind`].
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Order {
    Stop,
    Drain,
}

impl From<Order> for OrderKind {
    fn from(order: Order) -> OrderKind {
        match order {
            Order::Stop => OrderKind::Stop,
            Order::Drain => OrderKind::Drain,
        }
    }
}

impl Case {
    /// Reads a file.
    ///
    /// # Errors
    /// It cannot be read, or is of a later release.
    pub fn read(path: &Path) -> Result<Case, String> {
        let named = |why: String| format!("case {}: {why}", path.display());
        let text = std::fs::read_to_string(path).map_err(|error| named(format!("it cannot be read: {error}")))?;
        let case: Case = serde_json::from_str(&text).map_err(|error| named(error.to_string()))?;
        if case.format > FORMAT {
            return Err(named(format!("it has format {}, and this release reads up to {FORMAT}", case.format)));
        }
        if case.world.configs.is_empty() || case.world.queues.is_empty() || case.world.partitions.is_empty() {
            return Err(named("a world has configurations, queues and partitions".to_owned()));
        }
        Ok(case)
    }

    /// As a file has it.
    pub fn text(&self) -> String {
        // A structure of texts and numbers has a JSON text.
        serde_json::to_string_pretty(self).unwrap_or_default() + "\n"
    }
}

/// A number that follows from a seed and what it is about: what a shim does "by chance" is the same whatever else is left out.
pub fn chance(seed: u64, about: &[&str]) -> u64 {
    let mut sum = seed ^ 0x9e37_79b9_7f4a_7c15;
    for byte in about.iter().flat_map(|text| text.bytes().chain([0xff])) {
        sum = (sum ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    }
    sum = (sum ^ (sum >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    sum = (sum ^ (sum >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    sum ^ (sum >> 31)
}

/// It happens in so many of a hundred cases.
pub fn happens(hundredths: u8, seed: u64, about: &[&str]) -> bool {
    chance(seed, about) % 100 < u64::from(hundredths)
}
