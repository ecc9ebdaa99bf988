//! Messages between actors: plain data, one file per receiving actor.

pub mod budget;
pub mod event;
pub mod partition;
pub mod rm;
