//! What outlives the process.

pub mod events;
