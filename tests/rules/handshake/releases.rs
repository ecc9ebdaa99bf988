//! `GET /api/v1/partition/{p}/releases` over a real socket.

use std::sync::Arc;

use actix_web::{App, HttpServer, web::Data};
use callboard::{
    actors::directory::{Directory, Listing, PartitionEntry},
    http::api::releases::{ReleasesApi, configure},
};
use serde_json::Value;

use super::shim::Shim;

async fn get(address: std::net::SocketAddr, path: &str) -> (u16, Value) {
    let answer = reqwest::get(format!("http://{address}{path}")).await.unwrap();
    (answer.status().as_u16(), serde_json::from_str(&answer.text().await.unwrap()).unwrap())
}

#[actix::test]
async fn unconfirmed_releases_are_listed_with_their_age() {
    let shim = Shim::in_flight("Soft").await;
    shim.pass(90).await;
    tokio::time::resume();
    let directory = Arc::new(Directory::default());
    let entry = PartitionEntry {
        rm: "rm-1".into(),
        epoch: 1,
        internal: "[rm-1]default".into(),
        shown: "default".into(),
        addr: shim.partition.clone(),
    };
    directory.set(Listing { rms: Vec::new(), partitions: vec![entry] });
    let api = Data::new(ReleasesApi { directory });
    let server = HttpServer::new(move || App::new().app_data(api.clone()).configure(configure))
        .workers(1)
        .disable_signals()
        .bind("127.0.0.1:0")
        .unwrap();
    let address = server.addrs()[0];
    let server = server.run();
    let handle = server.handle();
    actix::spawn(server);
    let (status, body) = get(address, "/api/v1/partition/default/releases").await;
    assert_eq!((status, &body["partition"]), (200, &Value::from("default")));
    let rows = body["releases"].as_array().unwrap();
    // The time-out has released the other placeholder 30 s ago.
    assert_eq!(rows.len(), 2);
    let row = &rows[0];
    assert_eq!((&row["applicationID"], &row["allocationKey"]), (&"app-1".into(), &"ph1".into()));
    assert_eq!(row["terminationType"], "PLACEHOLDER_REPLACED");
    assert_eq!((row["message"].as_str(), row["sent"].as_u64()), (Some("replacing allocationKey: r1"), Some(1)));
    assert!(row["ageMilliseconds"].as_i64().unwrap() >= 90_000, "{row}");
    assert!(row["since"].as_str().unwrap().ends_with('Z'));
    assert_eq!(rows[1]["terminationType"], "TIMEOUT");
    let (status, body) = get(address, "/api/v1/partition/nowhere/releases").await;
    assert_eq!((status, body["detail"].as_str()), (404, Some("partition 'nowhere' not found; there are: default")));
    handle.stop(false).await;
}
