//! The HTTP doors: they only translate.

pub mod api;
pub mod doors;
pub mod forward;
pub mod guard;
mod long;
pub mod openapi;
mod operation;
pub mod origins;
pub mod paced;
pub mod page;
pub mod past;
pub mod problem;
mod room;
pub mod route;
mod routes;
pub mod server;
pub mod shim;
mod standby;
mod turns;
mod untaken;
pub mod ws_v1;
