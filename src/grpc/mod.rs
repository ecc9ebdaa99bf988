//! The gRPC doors: `si.v1.Scheduler`, `callboard.v1.SchedulerExtension`, health and reflection. They only translate.

mod arrival;
mod extension;
mod guard;
mod incoming;
mod keyed;
mod order;
mod paced;
mod plain;
mod requests;
mod room;
mod scheduler;
pub mod server;
mod status;
