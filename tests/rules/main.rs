//! The rules without sockets: `domain::Partition` from outside, the handshakes of the actors on a paused clock, formats
//! against recorded vectors, and what the source may not do.

mod arbitrary_bytes;
mod architecture;
mod cluster_model;
mod determinism;
mod documents;
mod guide;
mod handshake;
mod journal_replay;
mod partition;
mod simulated;
mod vectors;
