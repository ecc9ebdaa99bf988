//! The numbers: a deterministic state machine per partition. It knows no actor, no I/O, no clock, no randomness.

pub mod acl;
pub mod alloc;
pub mod app;
pub mod command;
pub mod conf;
pub mod cow;
pub mod effect;
pub mod event;
pub mod node;
pub mod partition;
pub mod placement;
pub mod queue;
pub mod resources;
pub mod types;
pub mod ugm;

pub use partition::Partition;
