//! The HTTP doors: they only translate.

pub mod api;
pub mod events;
pub mod forward;
pub mod guard;
pub mod openapi;
pub mod origins;
pub mod page;
pub mod past;
pub mod problem;
pub mod server;
pub mod shim;
mod standby;
pub mod ws_v1;
