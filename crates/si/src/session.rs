//! What a session carries, before it is encoded and after it was decoded: commands inward, numbered lines outward.

use std::sync::Arc;

use callboard_domain::{
    command::Command,
    effect::{ContainerState, NewAllocation, Question, Released},
    event::Event,
    types::{AppState, Nanos},
};

/// Commands of one partition.
#[derive(Debug)]
pub struct Part {
    /// Internal name of the partition, known or not.
    pub partition: Arc<str>,
    /// The command.
    pub command: Command,
}

/// One numbered line of the stream: entries of one kind. Encoded by the doors.
#[derive(Debug)]
pub struct Line {
    /// Dense from 1 in a session; also the id of a question.
    pub seq: u64,
    /// Internal name of the partition.
    pub partition: Arc<str>,
    /// The entries.
    pub payload: Payload,
}

/// What a line carries.
#[derive(Debug)]
pub enum Payload {
    /// New allocations.
    New(Vec<Box<NewAllocation>>),
    /// Allocations and asks that are to go, or are gone.
    Released(Vec<Box<Released>>),
    /// Refused asks and allocations.
    RejectedAllocations(Vec<Rejected>),
    /// Answers to submissions (R1.30: one response with both).
    Applications {
        /// Ids of accepted ones.
        accepted: Vec<Arc<str>>,
        /// Refused ones; `app` is the id, `key` is empty.
        rejected: Vec<Rejected>,
    },
    /// Applications that changed their state.
    UpdatedApplications(Vec<Updated>),
    /// Answers to node registrations (R1.31).
    Nodes {
        /// Ids of accepted ones.
        accepted: Vec<Arc<str>>,
        /// Refused ones; `key` is the node id, `app` is empty.
        rejected: Vec<Rejected>,
    },
    /// A container scheduling state.
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
    /// Events for the shim, in the order of their ids.
    Events(Vec<Event>),
    /// One question.
    Ask(Question),
    /// One question about several nodes.
    AskBatch(Question),
    /// Several such questions.
    AskSeveral(Vec<Question>),
    /// The state of the shim is wanted.
    StateDump,
}

/// A refused object.
#[derive(Clone, Debug)]
pub struct Rejected {
    /// Allocation key or node id.
    pub key: Arc<str>,
    /// Id of the application.
    pub app: Arc<str>,
    /// Why, as it is shown to people.
    pub reason: Arc<str>,
}

/// A change of an application's state.
#[derive(Clone, Debug)]
pub struct Updated {
    /// Id of the application.
    pub app: Arc<str>,
    /// New state.
    pub state: AppState,
    /// When it happened, in ns since the Unix epoch.
    pub at: Nanos,
    /// The event, or the reason (R3.3).
    pub message: Arc<str>,
}

/// Which plain `si.v1` stream carries a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Kind {
    /// `UpdateAllocation`.
    Allocation,
    /// `UpdateApplication`.
    Application,
    /// `UpdateNode`.
    Node,
    /// None of them: only streams that carry everything.
    Other,
}

impl Kind {
    /// All of them.
    pub const ALL: [Kind; 4] = [Kind::Allocation, Kind::Application, Kind::Node, Kind::Other];

    /// The name that is shown.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Allocation => "allocation",
            Kind::Application => "application",
            Kind::Node => "node",
            Kind::Other => "other",
        }
    }
}

impl Payload {
    /// The plain stream that carries it.
    pub fn kind(&self) -> Kind {
        match self {
            Payload::New(_) | Payload::Released(_) | Payload::RejectedAllocations(_) => Kind::Allocation,
            Payload::Applications { .. } | Payload::UpdatedApplications(_) => Kind::Application,
            Payload::Nodes { .. } => Kind::Node,
            _ => Kind::Other,
        }
    }

    /// Number of entries.
    pub fn entries(&self) -> usize {
        match self {
            Payload::New(list) => list.len(),
            Payload::Released(list) => list.len(),
            Payload::RejectedAllocations(list) => list.len(),
            Payload::Applications { accepted, rejected } | Payload::Nodes { accepted, rejected } => {
                accepted.len() + rejected.len()
            }
            Payload::UpdatedApplications(list) => list.len(),
            Payload::Events(list) => list.len(),
            Payload::AskBatch(_) | Payload::AskSeveral(_) => self.questions().iter().map(Question::nodes).sum(),
            Payload::ContainerState { .. } | Payload::Ask(_) | Payload::StateDump => 1,
        }
    }

    /// Callbacks that count against the outward budget until they are handed out: all but events, and questions, whose
    /// credits come back at once.
    pub fn credits(&self) -> usize {
        match self {
            Payload::Events(_) | Payload::StateDump => 0,
            _ if !self.questions().is_empty() => 0,
            _ => self.entries(),
        }
    }

    /// The line wants an answer that carries its number.
    pub fn wants_answer(&self) -> bool {
        matches!(self, Payload::StateDump) || !self.questions().is_empty()
    }

    /// What it asks the shim; nothing where it carries something else.
    pub fn questions(&self) -> &[Question] {
        match self {
            Payload::Ask(question) | Payload::AskBatch(question) => std::slice::from_ref(question),
            Payload::AskSeveral(questions) => questions,
            _ => &[],
        }
    }
}

/// Why a stream ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Closing {
    /// What ended it, which decides the status that the shim sees.
    pub kind: ClosingKind,
    /// Text for the shim.
    pub detail: Arc<str>,
    /// The server that goes on, where it is another one.
    pub leader: Option<Arc<Leader>>,
}

/// See [`Closing`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClosingKind {
    /// Another stream took its place, or the session is over (409).
    Replaced,
    /// The resource manager was stopped (409, `FAILED_PRECONDITION`).
    Stopped,
    /// The server ends (503).
    Shutdown,
    /// Another server leads the resource manager (307, `UNAVAILABLE`).
    Moved,
}

impl ClosingKind {
    /// The HTTP status of the closing line.
    pub const fn status(self) -> u16 {
        match self {
            ClosingKind::Replaced | ClosingKind::Stopped => 409,
            ClosingKind::Shutdown => 503,
            ClosingKind::Moved => 307,
        }
    }
}

/// Where a server is reached that leads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Leader {
    /// Base URL of its HTTP door; empty where there is none.
    pub http: String,
    /// Host and port of its gRPC door; empty where there is none.
    pub grpc: String,
}

impl Leader {
    /// For texts.
    pub fn name(&self) -> &str {
        if self.http.is_empty() { &self.grpc } else { &self.http }
    }
}
