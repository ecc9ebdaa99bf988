//! Who is let in: tokens, roles and certificates, over real sockets of the program itself.

mod audit;
mod cli;
mod grpc;
mod identities;
mod refused;
mod reload;
pub mod rig;
mod roles;
mod start;
pub mod tls;
mod traced;
mod ws;
