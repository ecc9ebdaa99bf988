//! The web page and what it reads, on the built program.

mod board;
pub mod chromium;
mod cluster;
mod dump;
mod interfaces;
mod looks;
mod monitoring;
mod picture;
mod reference_ui;
mod server;
