//! What the running server connects: the journal, the durable events, demand, metrics. Real processes, real sockets.

mod api;
mod drain;
mod events;
mod kill;
mod kill_log;
mod metrics;
mod orders;
mod overdue;
mod releases;
mod restart;
pub mod rig;
mod settings;
mod usage;
mod waits;
