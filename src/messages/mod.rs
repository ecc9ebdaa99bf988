//! Messages between actors: plain data, one file per receiving actor.

pub mod application;
pub mod budget;
pub mod clock;
pub mod event;
mod event_batch;
mod event_intake;
mod event_numbers;
mod event_queue;
mod event_status;
pub mod held;
pub mod journal;
pub mod keys;
pub mod leaders;
pub mod limits;
pub mod node;
pub mod partition;
pub mod progress;
pub mod queue;
pub mod ready;
pub mod receipts;
pub mod recorded;
pub mod rm;
pub mod settings;
pub mod sparing;
pub mod ugm;
pub mod underway;
pub mod wait;
