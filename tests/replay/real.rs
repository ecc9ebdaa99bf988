//! The real server in a thread of the test: its actors, its HTTP and its gRPC door.

use std::{
    net::SocketAddr,
    sync::{Arc, mpsc},
};

use actix::prelude::*;
use callboard::{
    actors::{event::EventActor, topology::Topology},
    config, grpc,
    http::server::{Doors, Listen, bind, nothing_else},
};

/// Addresses of a running server.
#[derive(Clone, Copy)]
pub struct Real {
    /// HTTP door.
    pub http: SocketAddr,
    /// gRPC door.
    pub grpc: SocketAddr,
}

/// Starts one for the life of the test process.
pub fn start() -> Real {
    const MESSAGE: usize = 64 << 20;
    let (sender, addresses) = mpsc::channel();
    std::thread::spawn(move || {
        actix::System::new().block_on(async move {
            let (control, pool) = (Arbiter::new(), Arbiter::new());
            let events = EventActor::start_in_arbiter(&control.handle(), |_| EventActor::default());
            let default = config::load("").unwrap();
            let topology = Topology::new(control.handle(), vec![pool.handle()], Topology::launcher(), events, default);
            let doors = Arc::new(Doors { topology: topology.clone(), max_body: MESSAGE });
            let listen = Listen { addr: "127.0.0.1:0".parse().unwrap(), workers: 1 };
            let (server, http) = bind(listen, doors, nothing_else).unwrap();
            let grpc = grpc::server::start("127.0.0.1:0".parse().unwrap(), topology, MESSAGE).unwrap();
            sender.send(Real { http, grpc: grpc.addr }).unwrap();
            server.await.unwrap();
        });
    });
    addresses.recv().unwrap()
}
