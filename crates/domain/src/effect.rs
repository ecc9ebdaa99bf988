//! What comes out of a partition: callbacks to the shim, events, and messages for the conversations, in order.

use std::sync::Arc;

use super::coded::{list, variants};
use super::{
    alloc::AskSpec,
    event::Event,
    resources::Resource,
    summary::AppSummary,
    types::{AppState, Nanos, Termination},
};

/// One output of `Partition::apply` or `Partition::schedule`.
#[derive(Clone, Debug)]
pub enum Effect {
    /// For the shim.
    Callback(Callback),
    /// For the event system.
    Event(Event),
    /// The shim is asked; the answer comes back as `Command::Predicate`.
    Ask(Question),
    /// For the conversation of an application.
    App(AppEffect),
    /// For the conversation of a queue.
    Queue(QueueEffect),
    /// For the conversation of a node.
    Node(NodeEffect),
    /// For those who take turns with the partition.
    Turn(TurnEffect),
}

/// How many of them are events.
pub fn events_of(effects: &[Effect]) -> u64 {
    effects.iter().filter(|effect| matches!(effect, Effect::Event(_))).count() as u64
}

/// What a partition says about turns of constrained asks, where they are shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TurnEffect {
    /// It waits for one.
    Wanted,
    /// The one that it had is over.
    Over,
    /// Something constrained came or went in it.
    Changed,
    /// The answer to [`Turn::Seen`](crate::command::Turn::Seen).
    Seen(u64),
}

/// A callback, in the order in which the shim gets them (R1.24).
#[derive(Clone, Debug)]
pub enum Callback {
    /// A new allocation.
    New(Box<NewAllocation>),
    /// An allocation was, or is to be, released.
    Released(Box<Released>),
    /// An ask or allocation was refused.
    RejectedAllocation {
        /// Allocation key.
        key: Arc<str>,
        /// Id of the application.
        app: Arc<str>,
        /// Why, as it is shown to people.
        reason: Arc<str>,
    },
    /// Accepted submissions of one request.
    AcceptedApplication(Arc<str>),
    /// A refused submission.
    RejectedApplication {
        /// Id of the application.
        app: Arc<str>,
        /// Why, as it is shown to people.
        reason: Arc<str>,
    },
    /// An application changed its state.
    UpdatedApplication {
        /// Id of the application.
        app: Arc<str>,
        /// New state.
        state: AppState,
        /// When it happened, in ns since the Unix epoch.
        at: Nanos,
        /// The event, or the reason (R3.3).
        message: Arc<str>,
    },
    /// An accepted node.
    AcceptedNode(Arc<str>),
    /// A refused node or node update.
    RejectedNode {
        /// Id of the node.
        node: Arc<str>,
        /// Why, as it is shown to people.
        reason: Arc<str>,
    },
    /// A container scheduling state (R4.39, SEEDS S7).
    ContainerState {
        /// Id of the application.
        app: Arc<str>,
        /// Allocation key.
        key: Arc<str>,
        /// What the shim is to show for the container.
        state: ContainerState,
        /// Why, as it is shown to people.
        reason: Arc<str>,
    },
}

/// See [`Callback::New`].
#[derive(Clone, Debug)]
pub struct NewAllocation {
    /// What the shim said of it; the callback repeats all of it (SEEDS S36).
    pub spec: Arc<AskSpec>,
    /// Id of the application.
    pub app: Arc<str>,
    /// Id of the node.
    pub node: Arc<str>,
    /// Present resource.
    pub resource: Arc<Resource>,
}

/// See [`Callback::Released`].
#[derive(Clone, Debug)]
pub struct Released {
    /// Allocation key.
    pub key: Arc<str>,
    /// Id of the application.
    pub app: Arc<str>,
    /// Why it is released.
    pub termination: Termination,
    /// Text (R4.29).
    pub message: Arc<str>,
    /// The shim has to confirm it by a release of the same key and type.
    pub confirm: bool,
}

/// `UpdateContainerSchedulingStateRequest.SchedulingState`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum ContainerState {
    /// Held back by a limit.
    Skipped = 1,
    /// Assigned to a node.
    Scheduled = 2,
    /// Reserved on a node.
    Reserved = 3,
    /// Waiting for nodes.
    Failed = 4,
}

/// A question to the shim.
#[derive(Clone, Debug)]
pub struct Question {
    /// Unique in the partition.
    pub id: u64,
    /// The ask.
    pub key: Arc<str>,
    /// The node.
    pub node: Arc<str>,
    /// Nodes to be tried after it: the first that fits is wanted.
    pub more: Vec<Arc<str>>,
    /// What is asked.
    pub kind: QuestionKind,
    /// Others may be asked in the same call: the ask is unconstrained.
    pub together: bool,
}

impl Question {
    /// How many nodes it names.
    pub fn nodes(&self) -> usize {
        1 + self.more.len()
    }
}

/// See [`Question`].
#[derive(Clone, Debug)]
pub enum QuestionKind {
    /// Does it fit, for an allocation (true) or a reservation (false)?
    Fits {
        /// For an allocation.
        allocate: bool,
    },
    /// Does it fit after these victims are gone, tried one by one from `start`?
    FitsWithout {
        /// Victims in order.
        victims: Vec<Arc<str>>,
        /// Index up to which all are gone at the first try; −1: none.
        start: i32,
    },
}

/// For `ApplicationActor`.
#[derive(Clone, Debug)]
pub enum AppEffect {
    /// It exists.
    Added {
        /// Id of the application.
        app: Arc<str>,
    },
    /// It is gone.
    Removed {
        /// Id of the application.
        app: Arc<str>,
    },
    /// It ended after it had run (OPS-076).
    Ended {
        /// What it used.
        summary: Arc<AppSummary>,
    },
    /// A release that the core originated waits for its confirmation.
    Unconfirmed {
        /// The release as it was sent.
        release: Released,
    },
    /// It was confirmed, or there is nothing left to confirm.
    Confirmed {
        /// Id of the application.
        app: Arc<str>,
        /// Allocation key.
        key: Arc<str>,
        /// Why it is released.
        termination: Termination,
    },
}

/// For `QueueActor`.
#[derive(Clone, Debug)]
pub enum QueueEffect {
    /// It exists.
    Added {
        /// Full path of the queue.
        queue: Arc<str>,
    },
    /// It is gone.
    Removed {
        /// Full path of the queue.
        queue: Arc<str>,
    },
    /// An application entered it.
    Admitted {
        /// Full path of the queue.
        queue: Arc<str>,
        /// Id of the application.
        app: Arc<str>,
    },
    /// An application was refused at its door.
    Refused {
        /// Full path of the queue.
        queue: Arc<str>,
        /// Id of the application.
        app: Arc<str>,
        /// Why, as it is shown to people.
        reason: Arc<str>,
    },
}

/// For `NodeActor`.
#[derive(Clone, Debug)]
pub enum NodeEffect {
    /// It was registered.
    Registered {
        /// Id of the node.
        node: Arc<str>,
        /// Attribute `si/hostname`, or the id where there is none.
        host: Arc<str>,
        /// All that the node offers.
        capacity: Arc<Resource>,
        /// It takes allocations.
        schedulable: bool,
    },
    /// It was registered just now, and is held back for what an operator drained before.
    Held {
        /// Id of the node.
        node: Arc<str>,
    },
    /// Any sign of life.
    Seen {
        /// Id of the node.
        node: Arc<str>,
    },
    /// Its capacity changed.
    Capacity {
        /// Id of the node.
        node: Arc<str>,
        /// New capacity.
        capacity: Arc<Resource>,
    },
    /// The shim drained or undrained it.
    Schedulable {
        /// Id of the node.
        node: Arc<str>,
        /// It takes allocations.
        schedulable: bool,
    },
    /// It has another host name.
    Renamed {
        /// Id of the node.
        node: Arc<str>,
        /// As in [`NodeEffect::Registered`].
        host: Arc<str>,
    },
    /// It is gone.
    Removed {
        /// Id of the node.
        node: Arc<str>,
    },
}

variants!(Effect { 1 Callback(callback), 2 Event(event), 3 Ask(question), 4 App(effect), 5 Queue(effect), 6 Node(effect), 7 Turn(effect) });
variants!(TurnEffect { 1 Wanted, 2 Over, 3 Changed, 4 Seen(number) });
variants!(Callback {
    1 New(new),
    2 Released(released),
    3 RejectedAllocation { key, app, reason },
    4 AcceptedApplication(app),
    5 RejectedApplication { app, reason },
    6 UpdatedApplication { app, state, at, message },
    7 AcceptedNode(node),
    8 RejectedNode { node, reason },
    9 ContainerState { app, key, state, reason },
});
list!(NewAllocation { spec, app, node, resource });
list!(Released { key, app, termination, message, confirm });
variants!(ContainerState { 1 Skipped, 2 Scheduled, 3 Reserved, 4 Failed });
list!(Question { id, key, node, more, kind, together });
variants!(QuestionKind { 1 Fits { allocate }, 2 FitsWithout { victims, start } });
variants!(AppEffect {
    1 Added { app },
    2 Removed { app },
    3 Ended { summary },
    4 Unconfirmed { release },
    5 Confirmed { app, key, termination },
});
variants!(QueueEffect {
    1 Added { queue },
    2 Removed { queue },
    4 Admitted { queue, app },
    5 Refused { queue, app, reason },
});
variants!(NodeEffect {
    1 Registered { node, host, capacity, schedulable },
    2 Held { node },
    3 Seen { node },
    4 Capacity { node, capacity },
    5 Schedulable { node, schedulable },
    7 Removed { node },
    8 Renamed { node, host },
});
