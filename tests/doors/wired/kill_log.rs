//! `kill -9` of the server at any moment, under load: the session goes on each time. No acknowledged request is lost, no line comes
//! twice or is missing, nothing is allocated twice, and the books are balanced. `CALLBOARD_TEST_KILLS=300` for more kills.

use std::{path::Path, sync::Mutex, time::Duration};

use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use serde_json::{Value, json};

use crate::{
    common::{self, Program},
    shim::server::{Lines, Server},
    wired::books::Books,
};

async fn post(server: &Server, body: Value) -> Option<bool> {
    let sent = server.http.post(server.url("/si/v1/rm/rm-1/allocations")).json(&body).send().await.ok()?;
    Some(sent.status().as_u16() == 202)
}

/// Asks and releases, until the server is gone.
async fn load(server: &Server, shim: &Mutex<Books>) -> Option<()> {
    loop {
        Books::turn(shim, async |body| post(server, body).await).await?;
    }
}

async fn follow(lines: &mut Lines, shim: &Mutex<Books>) -> Option<()> {
    loop {
        let text = lines.text().await?;
        if let Ok(line) = serde_json::from_str::<Value>(&text) {
            shim.lock().expect("no panic").read(&line);
        }
    }
}

/// A server that takes a snapshot after so many bytes of log.
fn start(data: &Path, snapshot: &str) -> Server {
    let mut command = common::serve(&["--grpc", "off", "--data", &data.display().to_string()]);
    command.env("CALLBOARD_TEST_SNAPSHOT_BYTES", snapshot);
    let program = Program::try_start(command).unwrap_or_else(|why| panic!("{why}"));
    Server { program, http: reqwest::Client::new() }
}

async fn survives(sync: &str, snapshot: &str) {
    let kills: u32 = std::env::var("CALLBOARD_TEST_KILLS").map_or(6, |kills| kills.parse().expect("a number"));
    let seed: u64 = rand::random();
    println!("seed {seed}");
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let dir = tempfile::tempdir().expect("a directory");
    let mut server = start(dir.path(), snapshot);
    server.register("rm-1", &[("log.sync", sync), ("event.trackingEnabled", "true")]).await;
    let nodes = (0..4).map(|n| {
        json!({"nodeID": format!("n{n}"), "action": "CREATE", "schedulableResource": {"resources": {"memory": {"value": 100_000_000}}}})
    });
    let nodes = json!({"nodes": nodes.collect::<Vec<_>>()});
    assert_eq!(server.send("POST", "/si/v1/rm/rm-1/nodes", &nodes).await.0, 202);
    let app = json!({"applicationID": "app", "queueName": "root.a", "partitionName": "default", "ugi": {"user": "u", "groups": ["g"]}});
    assert_eq!(server.send("POST", "/si/v1/rm/rm-1/applications", &json!({"new": [app]})).await.0, 202);
    let shim = Mutex::new(Books::default());
    for kill in 0..kills {
        let after = shim.lock().expect("no panic").last;
        let mut lines = server.stream(&format!("?after={after}")).await;
        let life = Duration::from_millis(random.random_range(1..400));
        let died = tokio::select! {
            _ = load(&server, &shim) => true,
            _ = follow(&mut lines, &shim) => true,
            () = tokio::time::sleep(life) => false,
        };
        assert!(!died, "the server ended by itself:\n{}", server.program.log_tail());
        server.program.kill();
        server = start(dir.path(), snapshot);
        let info = server.get("/si/v1/rm/rm-1").await.1;
        assert_eq!(info["state"], "Paused", "kill {kill}: {info}\n{}", server.program.log_tail());
    }
    // All that was ever acknowledged is answered, by the last server at the latest.
    let after = shim.lock().expect("no panic").last;
    let mut lines = server.stream(&format!("?after={after}")).await;
    let settled = async {
        while !shim.lock().expect("no panic").is_settled() {
            let line = lines.next().await;
            shim.lock().expect("no panic").read(&line);
        }
    };
    tokio::time::timeout(common::LIMIT, settled).await.expect("everything that was acknowledged is answered");
    // To the last line: what was not acknowledged may have been taken all the same.
    let last = server.get("/si/v1/rm/rm-1").await.1["lastSequence"].as_u64().expect("a number");
    while shim.lock().expect("no panic").last < last {
        let line = lines.next().await;
        shim.lock().expect("no panic").read(&line);
    }
    let shim = shim.into_inner().expect("no panic");
    shim.agree(&server, "default").await;
    println!(
        "{sync}: {kills} kills, {} lines, {} asks acknowledged and placed, {} allocations held",
        shim.last,
        shim.asked.len(),
        shim.held.len()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn kills_lose_no_acknowledged_request_with_interval() {
    survives("interval", "67108864").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn kills_lose_no_acknowledged_request_where_snapshots_are_taken_all_the_time() {
    survives("interval", "20000").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn kills_lose_no_acknowledged_request_with_batch() {
    survives("batch", "67108864").await;
}
