//! For those who wait until something holds of an application, a queue or a node: the conversation of that thing keeps
//! them, and `PartitionActor` keeps those who wait for what is not there yet.

use std::{fmt, sync::Arc};

use actix::prelude::*;
use tokio::sync::oneshot;

use crate::domain::types::AppState;

/// The state of what is not there.
pub const ABSENT: &str = "absent";

/// A kind of things that are waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// An application.
    Application,
    /// A queue.
    Queue,
    /// A node.
    Node,
}

/// What is to hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Condition {
    /// The application is, or was, Running: something real of it runs, or the placeholders that have places add up to its gang.
    Running,
    /// The application is Completed.
    Completed,
    /// The application has something, placeholders count, and nothing of it waits.
    Placed,
    /// No application is in the queue or below it; nothing is allocated on the node, by other schedulers neither.
    Empty,
    /// An application that comes to the queue now could begin to run: it is let in, and no limit on the way is used up.
    Room,
    /// The node is registered and not torpid.
    Online,
    /// Nothing new goes to the node, and nothing that was placed here is left on it.
    Drained,
}

impl Kind {
    /// Its name in paths.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Application => "application",
            Kind::Queue => "queue",
            Kind::Node => "node",
        }
    }

    /// What can be waited for.
    pub fn conditions(self) -> &'static [Condition] {
        match self {
            Kind::Application => &[Condition::Running, Condition::Completed, Condition::Placed],
            Kind::Queue => &[Condition::Empty, Condition::Room],
            Kind::Node => &[Condition::Empty, Condition::Online, Condition::Drained],
        }
    }

    /// The condition of this name; the error lists those that there are.
    ///
    /// # Errors
    /// There is none of this name for such a thing.
    pub fn condition(self, name: &str) -> Result<Condition, String> {
        let known = self.conditions();
        known.iter().copied().find(|condition| condition.name() == name).ok_or_else(|| {
            let names: Vec<&str> = known.iter().map(|condition| condition.name()).collect();
            let name: String = name.chars().take(100).collect();
            let article = if self == Kind::Application { "an" } else { "a" };
            format!("'{name}' cannot be waited for of {article} {}; there are: {}", self.name(), names.join(", "))
        })
    }
}

impl Condition {
    /// Its name in queries.
    pub fn name(self) -> &'static str {
        match self {
            Condition::Running => "running",
            Condition::Completed => "completed",
            Condition::Placed => "placed",
            Condition::Empty => "empty",
            Condition::Room => "room",
            Condition::Online => "online",
            Condition::Drained => "drained",
        }
    }
}

/// What is waited for, by name: application id, path of a queue in lowercase, node id.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Target {
    /// Its kind.
    pub kind: Kind,
    /// Its name.
    pub name: Arc<str>,
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind.name(), self.name)
    }
}

/// Somebody waits. Answered through `answer`; dropped without an answer where the session ends.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct Wait {
    /// Unique in the process.
    pub id: u64,
    /// For what.
    pub target: Target,
    /// What is to hold of it.
    pub condition: Condition,
    /// Takes the answer.
    pub answer: oneshot::Sender<Answer>,
}

/// The time of a [`Wait`] is over, or its caller is gone: it is answered where it was not. Sent once for each [`Wait`], also for
/// those that were answered.
#[derive(Clone, Debug, Message)]
#[rtype(result = "()")]
pub struct Withdraw {
    /// Which wait.
    pub id: u64,
    /// For what.
    pub target: Target,
}

/// The answer to a [`Wait`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It holds.
    Met {
        /// How the thing is.
        state: String,
    },
    /// It does not, and will not.
    Never {
        /// How the thing is.
        state: String,
        /// Why not.
        why: String,
    },
    /// It was withdrawn before it held.
    NotYet {
        /// How the thing is.
        state: String,
        /// Why not, as far as its conversation knows.
        why: String,
    },
    /// The thing is gone, which does not decide it: whoever still waits asks again.
    Gone,
}

/// How an application is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AppStatus {
    /// Its state.
    pub state: AppState,
    /// It was Running.
    pub began: bool,
    /// It has allocations, placeholders count.
    pub allocated: bool,
    /// Something of it waits.
    pub waits: bool,
    /// Why it was refused.
    pub refused: Option<Arc<str>>,
}

/// How a queue is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueStatus {
    /// Its state.
    pub state: &'static str,
    /// No application is in it or below it.
    pub empty: bool,
    /// Why an application that comes now could not begin to run; `None`: it could.
    pub no_room: Option<String>,
}

/// How a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeStatus {
    /// It takes something new.
    pub schedulable: bool,
    /// Allocations on it.
    pub allocations: usize,
    /// Allocations of other schedulers on it that may go: without static ones.
    pub foreign: usize,
}

/// The session ends, or the server: nobody waits any longer.
#[derive(Clone, Copy, Debug, Message)]
#[rtype(result = "()")]
pub struct EndWaits;

/// The partition looks at the queues for which somebody waits.
#[derive(Clone, Copy, Debug, Message)]
#[rtype(result = "()")]
pub struct LookAtQueues;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_are_those_of_the_kind() {
        assert_eq!(Kind::Queue.condition("room"), Ok(Condition::Room));
        let refused = Kind::Application.condition("ready").expect_err("no such condition");
        assert_eq!(refused, "'ready' cannot be waited for of an application; there are: running, completed, placed");
        assert!(Kind::Node.condition("running").expect_err("not of a node").ends_with("empty, online, drained"));
    }
}
