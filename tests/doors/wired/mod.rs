//! What the running server connects: the journal, the durable events, demand, metrics. Real processes, real sockets.

mod api;
pub mod books;
mod drain;
mod events;
mod flight;
mod followers;
mod kill;
mod kill_log;
mod metrics;
mod orders;
mod overdue;
mod releases;
mod restart;
mod restart_damage;
mod restart_doors;
mod restart_faults;
mod restart_open;
mod restart_snapshot;
pub mod rig;
mod settings;
mod usage;
mod waits;
