//! Messages between actors: plain data, one file per receiving actor.

pub mod application;
pub mod budget;
pub mod event;
pub mod node;
pub mod partition;
pub mod queue;
pub mod rm;
pub mod ugm;
