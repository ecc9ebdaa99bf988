//! What a server goes by, as it is shown.

use serde_json::{Value, json};

use crate::{common, shim::server::Server};

fn row<'a>(rows: &'a Value, key: &str) -> &'a Value {
    rows.as_array().and_then(|rows| rows.iter().find(|row| row["key"] == key)).unwrap_or(&Value::Null)
}

#[tokio::test]
async fn settings_are_shown_with_their_present_values() {
    let server = Server::start(&["--grpc", "off", "--set", "log.core.rest.level=warn"]);
    server.register("rm-1", &[("rm.pauseTimeout", "7m"), ("event.maxStreams", "many"), ("other.key", "x")]).await;
    let (status, shown) = server.get("/api/v1/settings").await;
    assert_eq!(status, 200);
    assert_eq!((&shown["options"]["grpc"], &shown["options"]["ephemeral"]), (&json!("off"), &json!("true")));
    let streams = row(&shown["server"], "event.maxStreams");
    assert_eq!((&streams["value"], &streams["unreadable"]), (&json!("100"), &json!("many")));
    assert_eq!(row(&shown["server"], "log.core.rest.level")["value"], "warn");
    let manager = &shown["resourceManagers"][0];
    let pause = row(&manager["settings"], "rm.pauseTimeout");
    assert_eq!((&manager["rmID"], &pause["value"], &pause["default"]), (&json!("rm-1"), &json!("7m"), &json!("5m")));
    assert!(row(&manager["settings"], "other.key").is_null());
    let mut command = common::command(&["settings", "--changed", "--server", &server.url("")]);
    let output = tokio::task::spawn_blocking(move || command.output().expect("it runs")).await.expect("waited for");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        text.contains("RESOURCE MANAGER rm-1\nrm.gracePeriod         10m  default 30s\nrm.pauseTimeout")
            && text.contains("\"many\" cannot be read"),
        "{text}"
    );
}
