//! The scheduler interface `si.v1` and the extension `callboard.v1`: generated messages, services and JSON mapping, requests as
//! commands, and answers as numbered lines.

pub mod codec;
pub mod constants;
pub mod decode;
pub mod intake;
pub mod inward;
pub mod line;
pub mod numbered;
pub mod outward;
pub mod service;
pub mod session;
pub mod wire;

pub use generated::{callboard::v1 as ext, si::v1};

/// As the packages nest: what one of them uses of the other is named that way.
mod generated {
    pub mod si {
        /// The scheduler interface.
        #[allow(clippy::all, missing_docs)]
        pub mod v1 {
            tonic::include_proto!("si.v1");
            include!(concat!(env!("OUT_DIR"), "/si.v1.serde.rs"));
        }
    }

    pub mod callboard {
        /// The extension service: what the scheduler interface has and its RPC service lacks.
        #[allow(clippy::all, missing_docs)]
        pub mod v1 {
            tonic::include_proto!("callboard.v1");
            include!(concat!(env!("OUT_DIR"), "/callboard.v1.serde.rs"));
        }
    }
}

/// Encoded descriptors of both packages, for gRPC reflection.
pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/callboard_descriptor.bin"));
