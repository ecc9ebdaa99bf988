//! Releases that the shim does not confirm: sent again, summed up, and listed over a real socket.

use std::{sync::Arc, time::Duration};

use actix_web::{App, HttpServer, web::Data};
use callboard::{
    actors::directory::{Asked, Directory, Listing, PartitionEntry},
    domain::types::{Nanos, Termination},
    http::{api::releases, route::register},
    messages::partition::{Observe, Patience, UnconfirmedSums},
};
use serde_json::Value;

use super::shim::{Shim, release};

async fn get(address: std::net::SocketAddr, path: &str) -> (u16, Value) {
    let answer = reqwest::get(format!("http://{address}{path}")).await.unwrap();
    (answer.status().as_u16(), serde_json::from_str(&answer.text().await.unwrap()).unwrap())
}

#[actix::test]
async fn unconfirmed_releases_are_listed_with_their_age() {
    let shim = Shim::with(Patience::default()).begin(20, "Soft").await;
    shim.pass(90).await;
    tokio::time::resume();
    let directory = Arc::new(Directory::default());
    let entry = PartitionEntry {
        rm: "rm-1".into(),
        internal: "[rm-1]default".into(),
        shown: "default".into(),
        addr: Asked::new("default", shim.partition.clone()),
        followed: false,
    };
    directory.set(Listing { rms: Vec::new(), partitions: vec![entry] });
    let api = Data::from(directory);
    let server = HttpServer::new(move || {
        App::new().app_data(api.clone()).configure(|config| register(config, &releases::routes()))
    })
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
    assert_eq!((row["message"].as_str(), row["sent"].as_u64()), (Some("replacing allocationKey: r1"), Some(4)));
    assert!(row["ageMilliseconds"].as_i64().unwrap() >= 90_000, "{row}");
    assert!(row["since"].as_str().unwrap().ends_with('Z'));
    assert_eq!(rows[1]["terminationType"], "TIMEOUT");
    let (status, body) = get(address, "/api/v1/partition/nowhere/releases").await;
    assert_eq!((status, body["detail"].as_str()), (404, Some("partition 'nowhere' not found; there are: default")));
    handle.stop(false).await;
}

async fn sums(shim: &Shim) -> UnconfirmedSums {
    shim.partition.send(Observe).await.unwrap().unconfirmed
}

#[actix::test]
async fn what_is_not_confirmed_is_sent_again_and_counted() {
    // R4.30, the other way round: after 10 s, and after twice that time each.
    let shim = Shim::with(Patience::default()).begin(20, "Soft").await;
    let told = "released ph1 PlaceholderReplaced";
    for (seconds, times) in [(9, 0), (3, 1), (15, 0), (8, 1), (5, 0)] {
        shim.pass(seconds).await;
        assert_eq!(shim.heard(), vec![told; times]);
    }
    let waits = sums(&shim).await;
    assert_eq!((waits.by_type, waits.overdue), ([(Termination::PlaceholderReplaced, 1)].into(), 0));
    assert!(waits.oldest.is_some());
    // A shim that hears again confirms as often as it heard.
    shim.send(vec![release("ph1", Termination::PlaceholderReplaced); 3]).await;
    assert_eq!(shim.heard(), ["new r1 on n1"]);
    let waits = sums(&shim).await;
    assert!(waits.by_type.is_empty() && waits.oldest.is_none());
    shim.ends_empty().await;
}

#[actix::test]
async fn operators_are_told_of_what_is_overdue() {
    let (resend_after, warn_after) = (Duration::from_secs(5), Duration::from_secs(20));
    let shim = Shim::with(Patience { resend_after, warn_after, ..Patience::default() }).begin(20, "Soft").await;
    shim.pass(30).await;
    let waits = sums(&shim).await;
    assert_eq!((waits.overdue, waits.named.len()), (1, 1));
    let row = &waits.named[0];
    assert_eq!((&*row.release.app, &*row.release.key), ("app-1", "ph1"));
    assert!(row.age >= Nanos::from_secs(30) && row.sent >= 2, "{row:?}");
    // The one that is undone has nothing to wait for any more.
    shim.send(vec![release("r1", Termination::StoppedByRm)]).await;
    assert_eq!(sums(&shim).await.overdue, 0);
    shim.ends_empty().await;
}
