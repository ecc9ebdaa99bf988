//! The HTTP doors in this process: back-pressure of a partition that never gets round to its requests, and a panic.

use std::{net::Ipv4Addr, sync::Arc, time::Duration};

use actix::prelude::*;
use actix_web::{
    HttpResponse,
    web::{self, ServiceConfig},
};
use callboard::{
    actors::{
        event::EventActor,
        partition::PartitionActor,
        topology::{PartitionHandle, Topology},
    },
    config,
    http::{
        doors::Doors,
        origins::Origins,
        server::{Listen, bind, not_found},
    },
    messages::partition::{Commands, PartitionSetup},
};
use serde_json::json;

/// Keeps requests with their credits.
struct Busy(Vec<Commands>);

impl Actor for Busy {
    type Context = Context<Self>;
}

impl Handler<Commands> for Busy {
    type Result = ();

    fn handle(&mut self, msg: Commands, _ctx: &mut Self::Context) {
        self.0.push(msg);
    }
}

async fn panics() -> HttpResponse {
    panic!("a handler with a fault")
}

#[actix::test]
async fn a_spent_budget_is_429_and_a_closing_server_503() {
    let here = Arbiter::current();
    let launcher = |_: &ArbiterHandle, setup: PartitionSetup| {
        let (internal, conf) = (setup.internal.clone(), setup.conf.clone());
        let addr = PartitionActor::start_here(setup);
        PartitionHandle {
            number: 0,
            internal,
            conf,
            commands: Busy(Vec::new()).start().recipient(),
            wake: addr.clone().recipient(),
            stop: addr.clone().recipient(),
            snapshot: addr.clone().recipient(),
            configure: addr.clone().recipient(),
            patience: addr.clone().recipient(),
            carries: addr.clone().recipient(),
            resend: addr.clone().recipient(),
            journal: None,
            alive: addr.clone().recipient(),
            addr,
        }
    };
    let events = EventActor::default().start();
    let topology = Topology::new(vec![here], Arc::new(launcher), events, config::load("").expect("valid"));
    let refused = callboard::metrics::Metrics::new().unwrap().refused();
    let origins = Origins::new(true, Ipv4Addr::LOCALHOST.into(), Vec::new());
    let doors = Arc::new(Doors {
        topology: topology.clone(),
        tokens: None,
        origins,
        refused,
        audit: Arc::default(),
        rates: Arc::default(),
        forward: None,
    });
    let listen =
        Listen { addr: (Ipv4Addr::LOCALHOST, 0).into(), workers: 1, patience: Duration::from_secs(10), tls: None };
    let others = |config: &mut ServiceConfig| {
        config.route("/panics", web::get().to(panics));
        config.default_service(web::to(not_found));
    };
    let (server, bound) = bind(listen, doors, others).expect("a free port");
    let handle = server.handle();
    actix::spawn(server);

    let client = reqwest::Client::new();
    // A panic costs one request.
    for _ in 0..3 {
        let answer = client.get(format!("http://{bound}/panics")).send().await.expect("an answer");
        assert_eq!(
            (answer.status().as_u16(), &answer.headers()["content-type"]),
            (500, &"application/problem+json".parse().expect("a value"))
        );
    }
    let post = async |path: &str, body: serde_json::Value| {
        let request = client.post(format!("http://{bound}/si/v1/rm{path}")).header("content-type", "application/json");
        let response = request.body(body.to_string()).send().await.expect("an answer");
        let retry = response.headers().get("retry-after").is_some();
        (response.status().as_u16(), retry)
    };
    let extra = json!({"rm.itemsInFlight": "3"});
    assert_eq!(post("", json!({"rmID": "rm-1", "extraConfig": extra})).await.0, 200);
    let nodes = json!({"nodes": [{"nodeID": "n1", "action": 1}, {"nodeID": "n2", "action": 1}]});
    assert_eq!(post("/rm-1/nodes", nodes.clone()).await, (202, false));
    assert_eq!(post("/rm-1/nodes", nodes.clone()).await, (202, false), "whole, as long as anything is left");
    assert_eq!(post("/rm-1/nodes", nodes.clone()).await, (429, true));
    topology.close();
    assert_eq!(post("/rm-1/nodes", nodes).await, (503, true));
    assert_eq!(post("", json!({"rmID": "rm-2"})).await, (503, true));
    handle.stop(false).await;
}
