//! What servers are made of that run in the process of a test.

use std::{net::SocketAddr, sync::Arc};

use actix::prelude::*;
use actix_web::{App, HttpServer, dev::ServerHandle, web::ServiceConfig};
use callboard::{
    actors::{
        directory::{Asked, PartitionEntry},
        partition::PartitionActor,
    },
    domain::conf::PartitionConf,
    messages::{budget::Budget, clock::Clock, event::Publish, partition::PartitionSetup, rm::Deliver},
};

/// Serves on a free port.
pub fn serve(services: impl Fn(&mut ServiceConfig) + Clone + Send + 'static) -> (SocketAddr, ServerHandle) {
    let server = HttpServer::new(move || App::new().configure(services.clone()))
        .workers(1)
        .disable_signals()
        .h1_allow_half_closed(false)
        .shutdown_timeout(0)
        .bind("127.0.0.1:0")
        .unwrap();
    let address = server.addrs()[0];
    let server = server.run();
    let handle = server.handle();
    actix::spawn(server);
    (address, handle)
}

/// Takes what a resource manager would be sent.
struct Nobody;

impl Actor for Nobody {
    type Context = Context<Self>;
}

impl Handler<Deliver> for Nobody {
    type Result = ();

    fn handle(&mut self, _: Deliver, _: &mut Self::Context) {}
}

impl Handler<Publish> for Nobody {
    type Result = ();

    fn handle(&mut self, _: Publish, _: &mut Self::Context) {}
}

/// A partition of a resource manager, and how it is found.
pub fn partition(rm: &str, shown: &str, conf: Arc<PartitionConf>) -> (PartitionEntry, Addr<PartitionActor>) {
    let nobody = Nobody.start();
    let internal: Arc<str> = format!("[{rm}]default").into();
    let actor = PartitionActor::start_here(PartitionSetup {
        clock: Clock::default(),
        rm: rm.into(),
        epoch: 1,
        internal: internal.clone(),
        conf,
        budget: Budget::new(1_000_000, 1_000_000),
        patience: Default::default(),
        callbacks: nobody.clone().recipient(),
        events: nobody.recipient().into(),
        recorded: None,
    });
    let addr = Asked::new(shown, actor.clone());
    (PartitionEntry { rm: rm.into(), internal, shown: shown.into(), addr, followed: false }, actor)
}
