//! The web page and what it reads, on the built program.

mod board;
mod cluster;
mod server;
