//! The doors over real sockets: the program itself on free ports of the loopback.

mod alike;
mod bad_input;
mod budget;
mod connections;
mod constrained;
mod gangs;
mod grpc;
mod http;
mod once;
mod ordered;
mod plan;
mod program;
mod reload;
pub mod server;
mod told;
mod whatif;
pub mod ws;
