//! What a server goes by, as it is shown.

use serde_json::{Value, json};

use crate::{
    common,
    shim::server::{CONFIG, Server},
    wired::rig::{end, with_data},
};

fn row<'a>(rows: &'a Value, key: &str) -> &'a Value {
    rows.as_array().and_then(|rows| rows.iter().find(|row| row["key"] == key)).unwrap_or(&Value::Null)
}

#[tokio::test]
async fn settings_are_shown_with_their_present_values() {
    let server = Server::start(&["--grpc", "off", "--set", "log.core.rest.level=warn"]);
    server
        .register(
            "rm-1",
            &[
                ("rm.pauseTimeout", "7m"),
                ("event.maxStreams", "many"),
                ("other.key", "x"),
                ("rm.bufferedCallbacks", "2000"),
            ],
        )
        .await;
    let (status, shown) = server.get("/api/v1/settings").await;
    assert_eq!(status, 200);
    let option = |name: &str| {
        let rows = shown["options"].as_array().expect("rows");
        rows.iter().find(|row| row["name"] == name).expect("shown").clone()
    };
    let grpc = option("grpc");
    assert_eq!((&grpc["value"], &grpc["type"], &grpc["set"]), (&json!("off"), &json!("ADDR|off"), &json!(true)));
    assert_eq!((&option("ephemeral")["value"], &option("log-format")["set"]), (&json!("true"), &json!(false)));
    let streams = row(&shown["server"], "event.maxStreams");
    assert_eq!((&streams["value"], &streams["unreadable"]), (&json!("100"), &json!("many")));
    assert_eq!(row(&shown["server"], "log.core.rest.level")["value"], "warn");
    let manager = &shown["resourceManagers"][0];
    let pause = row(&manager["settings"], "rm.pauseTimeout");
    assert_eq!((&manager["rmID"], &pause["value"], &pause["default"]), (&json!("rm-1"), &json!("7m"), &json!("5m")));
    assert!(row(&manager["settings"], "other.key").is_null());
    let undelivered = row(&manager["settings"], "rm.undeliveredCallbacks");
    assert_eq!(
        (&undelivered["value"], &undelivered["set"]),
        (&json!("1000"), &json!(false)),
        "half of what is buffered"
    );
    // Read at registration: what is sent later is not in force.
    let extra = json!({"rm.pauseTimeout": "7m", "rm.gracePeriod": "10m", "rm.bufferedCallbacks": "2000", "rm.itemsInFlight": "7"});
    let update = json!({"config": CONFIG, "extraConfig": extra});
    let (status, body) = server.send("PUT", "/si/v1/rm/rm-1/configuration", &update).await;
    let warned = json!([{"line": 0, "column": 0, "rule": "CFG-116", "message":
        "rm.itemsInFlight: it is read at registration alone: until the next one 1000000 stays in force (extraConfig)"}]);
    assert_eq!((status, &body["warnings"]), (200, &warned), "of what has changed");
    let log = server.program.log();
    assert!(log.contains("configuration-note") && log.contains("rm.itemsInFlight: it is read at"), "{log}");
    let (_, updated) = server.get("/api/v1/settings").await;
    let items = row(&updated["resourceManagers"][0]["settings"], "rm.itemsInFlight");
    assert_eq!((&items["value"], &items["set"]), (&json!("1000000"), &json!(true)));
    let mut command = common::command(&["settings", "--changed", "--server", &server.url("")]);
    let output = tokio::task::spawn_blocking(move || command.output().expect("it runs")).await.expect("waited for");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        text.contains("RESOURCE MANAGER rm-1\n")
            && text.contains("rm.gracePeriod           10m   default 30s\n")
            && text.contains("rm.undeliveredCallbacks  1000  default 100000\n")
            && !text.contains("--data"),
        "{text}"
    );
}

#[tokio::test]
async fn settings_of_the_process_are_in_force_after_a_restart() {
    // Api.md, 3: of each key the last writer wins, also one that only updates, while it is registered.
    let dir = tempfile::tempdir().expect("a directory");
    let mut server = with_data(dir.path());
    let present = async |server: &Server| {
        let (_, shown) = server.get("/api/v1/settings").await;
        row(&shown["server"], "event.ringBufferCapacity")["value"].as_str().map(str::to_owned)
    };
    server.register("rm-1", &[]).await;
    server.register("rm-2", &[("event.ringBufferCapacity", "111")]).await;
    server.register("rm-4", &[]).await;
    assert_eq!(present(&server).await.as_deref(), Some("111"), "who says nothing of it leaves it");
    let extra = json!({"rm.gracePeriod": "10m", "event.ringBufferCapacity": "222"});
    let update = json!({"config": CONFIG, "extraConfig": extra});
    assert_eq!(server.send("PUT", "/si/v1/rm/rm-1/configuration", &update).await.0, 200);
    assert_eq!(present(&server).await.as_deref(), Some("222"));
    server.program.kill();
    server = with_data(dir.path());
    assert_eq!(present(&server).await.as_deref(), Some("222"));
    server.register("rm-3", &[("event.ringBufferCapacity", "333")]).await;
    assert_eq!(present(&server).await.as_deref(), Some("333"));
    assert_eq!(server.send("DELETE", "/si/v1/rm/rm-3", &Value::Null).await.0 / 100, 2);
    assert_eq!(present(&server).await.as_deref(), Some("222"));
    assert_eq!(end(server).await, Some(0));
    let server = with_data(dir.path());
    assert_eq!(present(&server).await.as_deref(), Some("222"));
    let update = json!({"config": CONFIG});
    assert_eq!(server.send("PUT", "/si/v1/rm/rm-1/configuration", &update).await.0, 200);
    assert_eq!(present(&server).await.as_deref(), Some("111"), "that of rm-2 again");
}
