//! `/ws/v1` and `/debug` over real sockets, compared with what clients of YuniKorn are used to.

mod asked;
mod bodies;
mod cluster;
mod health;
mod history;
mod ordered;
mod requests;
mod routes;
mod rows;
mod scenario;
mod server;
mod timers;
mod transport;
