//! `/ws/v1` and `/debug` over real sockets, compared with what clients of YuniKorn are used to.

mod bodies;
mod cluster;
mod health;
mod ordered;
mod requests;
mod routes;
mod scenario;
mod server;
mod transport;
