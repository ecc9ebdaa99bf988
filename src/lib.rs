//! Callboard: an actor-system resource scheduler. `ARCHITECTURE.md` explains how it is built.

pub mod access;
pub mod actors;
pub mod cli;
pub mod config;
pub mod domain;
pub mod grpc;
pub mod http;
pub mod messages;
pub mod metrics;
pub mod si;
pub mod store;
