//! What goes into a partition: every input of `Partition::apply`, in the order in which it is to take effect.

use std::sync::Arc;

use super::coded::{Once, list, map, variants};
use super::{
    alloc::AskSpec, conf::PartitionConf, journal::DrainNote, queue_order::QueueOrder, resources::Resource,
    sorted::Texts, types::Termination,
};

/// One input. Items of one request stay together, so that its answers do (R1.29–R1.31).
#[derive(Clone, Debug)]
pub enum Command {
    /// A node request.
    Nodes(Vec<NodeItem>),
    /// An application request: all of `new`, the answer to them, then all of `remove` (R1.30).
    Applications {
        /// Applications that are submitted.
        new: Vec<AddApplication>,
        /// Application ids to remove.
        remove: Vec<Arc<str>>,
    },
    /// An allocation request: all of `allocations`, their rejections, then all of `releases` (R1.29).
    Allocations {
        /// Asks, placed allocations, updates.
        allocations: Vec<AllocationItem>,
        /// Releases and confirmations.
        releases: Vec<ReleaseItem>,
    },
    /// A new configuration, which was checked when it was read: all of it is taken over.
    Configure(Arc<PartitionConf>),
    /// Time has come to `now`: deadlines fall due, so many of them at once ([`DUE`](crate::partition::DUE)) while any is left
    /// ([`Partition::is_due`](crate::Partition::is_due)).
    Tick,
    /// The shim answered a predicate question, or did not in time.
    Predicate(PredicateAnswer),
    /// Nobody will answer this question: the stream to the shim was lost, or the server was started again. It says nothing of the
    /// node: the ask waits as before, and is asked about again.
    Unanswered(u64),
    /// Whether the shim wants to be asked for predicates. On switching off, an ask that awaits its answer counts as fitting.
    AskPredicates(bool),
    /// How it is asked, from the next question on.
    PredicateTerms(PredicateTerms),
    /// Turns of constrained asks among the partitions of a resource manager.
    Turn(Turn),
    /// Whether the shim wants to hear of every container state (SEEDS S7); at first it does not.
    ContainerStates(bool),
    /// Whether asks that wait long enough reserve nodes (R5.37); at first they do. Those of preemption and of required nodes
    /// are made in any case.
    Reservations(bool),
    /// An operator drains or undrains nodes; remembered for nodes that are not registered.
    OperatorDrain {
        /// Node ids.
        nodes: Vec<Arc<str>>,
        /// Drain or undrain.
        drained: bool,
    },
    /// Nodes of these hosts are drained from their registration on, or no longer: an operator drained something there. What
    /// holds for the very node is said by [`Command::OperatorDrain`] afterwards, where it differs.
    HoldHosts {
        /// Host names as the journal has them.
        hosts: Vec<Arc<str>>,
        /// Hold or not.
        held: bool,
    },
    /// What operators said of drains, by host: for the journal of whoever goes on with the partition. It goes with the hold on the
    /// host.
    NoteDrains(Vec<(Arc<str>, DrainNote)>),
    /// Operators told these queues to become something, or (`None`) take that back. By path in lowercase; checked before
    /// ([`Partition::check_order`](crate::Partition::check_order)).
    OrderQueues(Vec<(Arc<str>, Option<Arc<QueueOrder>>)>),
    /// The deadline of the drain of these nodes has passed: an event says of each what still runs there.
    DrainOverdue(Vec<Arc<str>>),
    /// The partition ends: it takes nothing any more, and [`Partition::dismantle`](crate::Partition::dismantle) takes it apart.
    Stop,
}

/// One entry of a node request.
#[derive(Clone, Debug)]
pub struct NodeItem {
    /// Id of the node.
    pub id: Arc<str>,
    /// What to do.
    pub action: NodeAction,
    /// Capacity, where given.
    pub capacity: Option<Resource>,
    /// Attributes with `si/node-partition` in its internal form; empty where none were given.
    pub attributes: Texts,
}

/// `NodeInfo.ActionFromRM`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeAction {
    /// Not set: rejected (SEEDS S3).
    Unknown,
    /// A new node that takes allocations.
    Create,
    /// A new node that does not yet.
    CreateDrain,
    /// New capacity and attributes.
    Update,
    /// Nothing new on it.
    Drain,
    /// Takes allocations again.
    DrainToSchedulable,
    /// The node goes for good: what is on it ends.
    Decommission,
}

/// One submission.
#[derive(Clone, Debug, Default)]
pub struct AddApplication {
    /// Application id.
    pub id: Arc<str>,
    /// Queue as submitted: input of the `provided` rule.
    pub queue: Arc<str>,
    /// User, empty where none was given.
    pub user: Arc<str>,
    /// Groups; `None` where they are to be resolved.
    pub groups: Option<Arc<[Arc<str>]>>,
    /// Why the groups could not be resolved: rejects the application, unless it is forced.
    pub unresolved: Option<Arc<str>>,
    /// Tags of the application, by name.
    pub tags: Arc<Texts>,
    /// `executionTimeoutMilliSeconds`.
    pub timeout_millis: i64,
    /// `placeholderAsk`, where it is not zero.
    pub placeholder_ask: Option<Resource>,
    /// `gangSchedulingStyle` as given: Hard, Soft or empty, whatever the capitals; anything else is rejected (SEEDS S33).
    pub gang_style: String,
}

/// One entry of an allocation request.
#[derive(Clone, Debug)]
pub struct AllocationItem {
    /// Application; not used for foreign allocations.
    pub app: Arc<str>,
    /// Node: placed there by the shim. `None`: an ask.
    pub node: Option<Arc<str>>,
    /// The ask.
    pub spec: Arc<AskSpec>,
}

/// One release or confirmation.
#[derive(Clone, Debug)]
pub struct ReleaseItem {
    /// Application; empty for a foreign allocation (R2.18).
    pub app: Arc<str>,
    /// Allocation key; empty for all of the application (R4.23).
    pub key: Arc<str>,
    /// Why it is released.
    pub termination: Termination,
}

/// Answer to an `Effect::Ask`.
#[derive(Clone, Debug)]
pub struct PredicateAnswer {
    /// The question.
    pub question: u64,
    /// It fits; else why not.
    pub result: Result<(), Arc<str>>,
    /// Index of the last victim that was removed before it fitted (preemption only).
    pub index: i32,
    /// What the shim said of the first nodes of a question that names several, which it refused; the result is that of the
    /// next one. Where nothing fits it stands for all that are left.
    pub refused: Vec<Arc<str>>,
}

/// How the shim is asked (R5.27).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PredicateTerms {
    /// Allocations that do not say otherwise constrain others or are constrained by them: they are asked about one after the
    /// other.
    pub constrained: bool,
    /// Nodes that a question may name at most.
    pub nodes: usize,
    /// Constrained asks of other partitions take turns with them.
    pub shared: bool,
}

/// A word on turns, where they are shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// Here one constrained ask may be asked about, or one gang.
    Yours,
    /// No partition has one; what is asked about now was not asked about in one.
    Nobodys,
    /// Something constrained came or went in another partition.
    Elsewhere,
    /// What was applied up to here is to be told; answered with the same number.
    Seen(u64),
}

impl Default for PredicateTerms {
    fn default() -> PredicateTerms {
        PredicateTerms { constrained: true, nodes: 1, shared: false }
    }
}

impl PredicateAnswer {
    /// The node is taken; of victims, as many go as were asked about first.
    pub fn fits(question: u64) -> PredicateAnswer {
        PredicateAnswer { question, result: Ok(()), index: 0, refused: Vec::new() }
    }
}

impl Command {
    /// The question that is over with it, answered or not.
    pub fn ends_question(&self) -> Option<u64> {
        match self {
            Command::Predicate(answer) => Some(answer.question),
            Command::Unanswered(question) => Some(*question),
            _ => None,
        }
    }
}

variants!(Command {
    1 Nodes(items),
    2 Applications { new, remove },
    3 Allocations { allocations, releases },
    4 Configure(conf),
    5 Tick,
    6 Predicate(answer),
    7 AskPredicates(on),
    8 PredicateTerms(terms),
    9 ContainerStates(all),
    10 Reservations(on),
    11 OperatorDrain { nodes, drained },
    12 HoldHosts { hosts, held },
    13 Stop,
    14 OrderQueues(orders),
    15 DrainOverdue(nodes),
    16 Turn(turn),
    17 NoteDrains(notes),
    18 Unanswered(question),
});
map!(NodeItem { 1 id as Once, 2 action, 3 capacity, 4 attributes });
variants!(NodeAction { 0 Unknown, 1 Create, 2 CreateDrain, 3 Update, 4 Drain, 5 DrainToSchedulable, 6 Decommission });
map!(AddApplication {
    1 id,
    2 queue,
    3 user,
    4 groups,
    5 unresolved,
    6 tags,
    7 timeout_millis,
    8 placeholder_ask,
    9 gang_style,
});
list!(AllocationItem { app, node, spec });
list!(ReleaseItem { app, key as Once, termination });
map!(PredicateAnswer { 1 question, 2 result, 3 index, 4 refused });
list!(PredicateTerms { constrained, nodes, shared });
variants!(Turn { 1 Yours, 2 Nobodys, 3 Elsewhere, 4 Seen(number) });
