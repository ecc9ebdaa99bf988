//! Callboard: an actor-system resource scheduler. `ARCHITECTURE.md` explains how it is built.

pub use callboard_domain as domain;
pub use callboard_domain::config;
pub use callboard_si as si;

pub mod access;
pub mod actors;
pub mod cli;
pub mod cluster;
pub mod grpc;
pub mod http;
pub mod messages;
pub mod metrics;
pub mod store;
pub mod trace;
