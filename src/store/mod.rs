//! What outlives the process.

pub mod eventlog;
pub mod events;
pub mod files;
pub mod journal;
pub mod log;
pub mod queue_orders;
pub mod resource_set;
