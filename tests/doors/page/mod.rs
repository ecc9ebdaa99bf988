//! The web page and what it reads, on the built program.

mod axe;
mod board;
mod charts;
pub mod chromium;
mod cluster;
mod commands;
mod dump;
mod fits;
mod history;
mod interfaces;
mod looks;
mod monitoring;
mod operate;
mod past;
mod picture;
mod reference_ui;
mod server;
mod several;
mod stays;
mod walk;
mod whatif;
