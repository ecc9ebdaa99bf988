//! A shim in a few lines: registers a resource manager, sends its requests, reads its callbacks, over HTTP/JSON or gRPC.
//!
//! [`Shim::register`] opens a session and gives the end at which its callbacks arrive. Over HTTP/JSON a stream of callbacks that
//! breaks is taken up again where it broke, without a gap and without a repetition; requests that are answered 429 are sent again
//! after the pause that the server asks for. Where several servers are named, separated by commas, the one that leads the resource
//! manager is found, and found again.
//!
//! ```no_run
//! use callboard_client::{DoorKind, Incoming, Message, Shim, trust::Trust};
//! use callboard_si::v1::{NodeRequest, RegisterResourceManagerRequest};
//!
//! # async fn run() -> callboard_client::Result<()> {
//! let me = RegisterResourceManagerRequest { rm_id: "rm-1".to_owned(), ..Default::default() };
//! let (shim, mut callbacks) = Shim::register(DoorKind::Http, "http://127.0.0.1:9080", &Trust::default(), me).await?;
//! shim.nodes(NodeRequest { rm_id: "rm-1".to_owned(), ..Default::default() }).await?;
//! while let Some(Incoming::Message { message, .. }) = callbacks.recv().await {
//!     if let Message::Allocation(answer) = message {
//!         println!("{} new allocations", answer.new.len());
//!     }
//! }
//! # Ok(())
//! # }
//! ```
//!
//! Below that, [`http::Api`] sends single requests, and [`net::Client`] speaks plain or encrypted HTTP with a token.

pub mod certificate;
pub mod extension;
pub mod grpc;
pub mod http;
pub mod net;
mod numbered;
pub mod secret;
pub mod server;
pub mod stream;
pub mod trust;

use std::time::Instant;

use callboard_si::v1::{
    AllocationRequest, AllocationResponse, ApplicationRequest, ApplicationResponse, NodeRequest, NodeResponse,
    PredicatesArgs, RegisterResourceManagerRequest,
};
use tokio::sync::mpsc;

use self::trust::Trust;

/// What can go wrong between a shim and its scheduler. Every text names the request and what the server said.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Nobody answers at this address, or the connection broke.
    #[error("{request}: no answer from {url}: {reason}")]
    Unreachable {
        /// The request.
        request: String,
        /// Where it went.
        url: String,
        /// Why, as it is shown to people.
        reason: String,
    },
    /// The scheduler refused the request.
    #[error("{request} was refused ({status}): {detail}")]
    Refused {
        /// The request.
        request: String,
        /// HTTP status or gRPC code.
        status: String,
        /// The scheduler's own words.
        detail: String,
    },
    /// A numbered request was sent, and no answer tells what became of it. It is sent again, under its number, before any other.
    #[error("{request}: it is not known whether it was applied, and it is sent again before any other: {reason}")]
    Unknown {
        /// The request.
        request: String,
        /// Why no answer came, as it is shown to people.
        reason: String,
    },
    /// A request was not sent: what became of the one before it is not known, or was not told to anybody.
    #[error("{request} was not sent, for {first} comes before it: {reason}")]
    Behind {
        /// The request.
        request: String,
        /// The one before it.
        first: String,
        /// What is known of that, as it is shown to people.
        reason: String,
    },
    /// The scheduler sent something that the interface does not have.
    #[error("the scheduler sent something that cannot be read ({reason}): {line}")]
    Malformed {
        /// What is wrong.
        reason: String,
        /// The beginning of what it sent.
        line: String,
    },
    /// The child server did not start, or ended.
    #[error("{0}")]
    Server(String),
}

impl Error {
    /// While another server takes over it is so, and it passes.
    fn may_pass(&self) -> bool {
        match self {
            Error::Unreachable { .. } => true,
            Error::Refused { status, .. } => status == "503" || status == "307" || status == "Unavailable",
            Error::Unknown { .. } | Error::Behind { .. } | Error::Malformed { .. } | Error::Server(_) => false,
        }
    }
}

/// Result of a client call.
pub type Result<T> = std::result::Result<T, Error>;

/// Which door to go through.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
pub enum DoorKind {
    /// HTTP/JSON under `/si/v1`.
    #[default]
    Http,
    /// gRPC, plain `si.v1.Scheduler`.
    Grpc,
}

impl DoorKind {
    /// The name on the command line and in reports.
    pub const fn name(self) -> &'static str {
        match self {
            DoorKind::Http => "http",
            DoorKind::Grpc => "grpc",
        }
    }
}

/// A callback message.
#[derive(Debug)]
pub enum Message {
    /// New, released and rejected allocations.
    Allocation(AllocationResponse),
    /// Accepted, rejected and updated applications.
    Application(ApplicationResponse),
    /// Accepted and rejected nodes.
    Node(NodeResponse),
    /// A question whether an ask fits a node, to be answered under its id.
    Predicates {
        /// Number of the question.
        id: u64,
        /// What is asked.
        question: PredicatesArgs,
    },
    /// Anything else: events, container states.
    Other,
}

/// What the reader of the callbacks hands on.
#[derive(Debug)]
pub enum Incoming {
    /// A callback; `seq` is its number in the session, 0 where the door has none.
    Message {
        /// Number of the line.
        seq: u64,
        /// When it was read.
        at: Instant,
        /// What the line tells.
        message: Message,
    },
    /// The stream broke and was taken up again where it broke.
    Resumed,
    /// The stream is over and cannot be taken up again.
    Ended(Error),
}

/// The reading end of a session's callbacks.
pub type Callbacks = mpsc::UnboundedReceiver<Incoming>;

/// A registered resource manager.
pub enum Shim {
    /// Over HTTP/JSON.
    Http(Box<http::HttpShim>),
    /// Over gRPC.
    Grpc(grpc::GrpcShim),
}

impl Shim {
    /// Registers and attaches to the callbacks. `url` is the base of the HTTP door or the address of the gRPC door.
    pub async fn register(
        door: DoorKind,
        url: &str,
        trust: &Trust,
        request: RegisterResourceManagerRequest,
    ) -> Result<(Shim, Callbacks)> {
        match door {
            DoorKind::Http => {
                let (shim, callbacks) = http::HttpShim::register(url, trust, request).await?;
                Ok((Shim::Http(Box::new(shim)), callbacks))
            }
            DoorKind::Grpc => {
                let (shim, callbacks) = grpc::GrpcShim::register(url, trust, request).await?;
                Ok((Shim::Grpc(shim), callbacks))
            }
        }
    }

    /// Requests of all kinds take effect in the order in which they were sent. Otherwise (three independent streams)
    /// an application has to be accepted before its asks are sent.
    pub const fn ordered(&self) -> bool {
        matches!(self, Shim::Http(_))
    }

    /// Sends a node request.
    pub async fn nodes(&self, request: NodeRequest) -> Result<()> {
        match self {
            Shim::Http(shim) => shim.nodes(request).await,
            Shim::Grpc(shim) => shim.nodes(request).await,
        }
    }

    /// Sends an application request.
    pub async fn applications(&self, request: ApplicationRequest) -> Result<()> {
        match self {
            Shim::Http(shim) => shim.applications(request).await,
            Shim::Grpc(shim) => shim.applications(request).await,
        }
    }

    /// Sends an allocation request.
    pub async fn allocations(&self, request: AllocationRequest) -> Result<()> {
        match self {
            Shim::Http(shim) => shim.allocations(request).await,
            Shim::Grpc(shim) => shim.allocations(request).await,
        }
    }

    /// Ends the session: voluntary shutdown of the resource manager.
    pub async fn unregister(&self) -> Result<()> {
        match self {
            Shim::Http(shim) => shim.unregister().await,
            Shim::Grpc(shim) => shim.unregister().await,
        }
    }
}
