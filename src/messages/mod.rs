//! Messages between actors: plain data, one file per receiving actor.

pub mod application;
pub mod budget;
pub mod event;
pub mod node;
mod event_batch;
mod event_queue;
mod event_settings;
mod event_status;
pub mod partition;
pub mod queue;
pub mod rm;
pub mod ugm;
