//! What the running server connects: the journal, the durable events, demand, metrics. Real processes, real sockets.

mod api;
mod drain;
mod events;
mod kill;
mod metrics;
mod releases;
mod rig;
#[allow(dead_code)] // of what the door tests have, not all is needed here
#[path = "../shim/server.rs"]
mod server;
mod usage;
