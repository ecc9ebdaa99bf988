//! What holds for all servers: those that run, and those that start later.

use std::fs;

use serde_json::{Value, json};

use crate::{
    cluster::rig::{self, NEVER, follows, leads, run, start, start_with},
    common,
    shim::server::{CONFIG, Server},
};

fn with_queue(name: &str) -> String {
    format!("# for all of them\n{CONFIG}          - name: {name}\n")
}

/// Waits until a server shows a queue of a partition, or no such queue.
async fn has(server: &Server, partition: &str, queue: &str, wanted: bool) {
    let path = format!("/ws/v1/partition/{partition}/queue/{queue}");
    let ask = async || server.http.get(server.url(&path)).send().await.expect("an answer").status().as_u16();
    common::answer(&path, ask, |status| (*status == 200) == wanted).await;
}

async fn setting(server: &Server, key: &str, wanted: Option<&str>) {
    let ask = async || {
        let rows = server.get("/api/v1/settings").await.1["server"].clone();
        rows.as_array().into_iter().flatten().find(|row| row["key"] == key).map(|row| row["value"].clone())
    };
    let wanted = wanted.map_or(Value::Null, Value::from);
    common::answer(key, ask, |value| value.as_ref() == Some(&wanted)).await;
}

#[tokio::test]
async fn what_holds_for_all_is_planned_taken_by_all_and_goes_with_the_lead() {
    let Some(etcd) = rig::etcd("what_holds_for_all_is_planned_taken_by_all_and_goes_with_the_lead") else { return };
    let dirs: Vec<_> = (0..3).map(|_| tempfile::tempdir().expect("a directory")).collect();
    let own = dirs[0].path().join("own.yaml");
    fs::write(&own, CONFIG).expect("written");
    let own = own.display().to_string();
    let begin = |at: usize| {
        start_with(&etcd.url(), dirs[at].path(), NEVER, &["--config", &own, "--set", "health.checkInterval=9s"])
    };
    let (mut first, second) = (begin(0), begin(1));
    // One that brings no configuration, and one that does.
    assert_eq!(first.send("POST", "/si/v1/rm", &json!({"rmID": "rm-1"})).await.0, 200);
    first.register("rm-2", &[]).await;
    follows(&second).await;
    let servers = format!("{},{}", second.url(""), first.url(""));
    let config = |args: &[&str]| run(&[&["cluster", "--server", &servers, "config"], args].concat());
    assert_eq!(config(&["get"]), "");
    let file = dirs[0].path().join("shared.yaml").display().to_string();
    fs::write(&file, with_queue("b")).expect("written");
    // Planned, and nothing else.
    let planned = config(&["set", &file, "--plan"]);
    assert!(planned.contains("added     root.b") && !planned.contains("rm-2"), "{planned}");
    assert_eq!(config(&["get"]), "");
    let told = config(&["set", &file, "--set", "health.checkInterval=11s"]);
    assert!(
        told.ends_with(&format!("for all servers: a configuration of {} bytes, 1 setting\n", with_queue("b").len())),
        "{told}"
    );
    assert_eq!(
        (config(&["get"]), config(&["get", "--settings"])),
        (with_queue("b"), "health.checkInterval=11s\n".to_owned())
    );
    has(&first, "%5Brm-1%5Ddefault", "root.b", true).await;
    has(&first, "%5Brm-2%5Ddefault", "root.b", false).await;
    for server in [&first, &second] {
        setting(server, "health.checkInterval", Some("11s")).await;
    }
    // Who did it is known, as with all that operators do.
    let audit =
        second.http.get(second.url("/api/v1/audit")).send().await.expect("an answer").text().await.expect("text");
    assert!(audit.contains("health.checkInterval=11s"), "{audit}");
    // A registration at a server that starts later, and whoever goes on with what the first led.
    let third = begin(2);
    setting(&third, "health.checkInterval", Some("11s")).await;
    assert_eq!(third.send("POST", "/si/v1/rm", &json!({"rmID": "rm-3"})).await.0, 200);
    has(&third, "%5Brm-3%5Ddefault", "root.b", true).await;
    first.program.kill();
    let ask = async || (second.get("/si/v1/rm/rm-1").await.0, third.get("/si/v1/rm/rm-1").await.0);
    let led = common::answer("who leads", ask, |(one, two)| *one == 200 || *two == 200).await;
    let (leader, other) = if led.0 == 200 { (&second, &third) } else { (&third, &second) };
    fs::write(&file, with_queue("c")).expect("written");
    let servers = other.url("");
    let config = |args: &[&str]| run(&[&["cluster", "--server", &servers, "config"], args].concat());
    config(&["set", &file]);
    has(leader, "%5Brm-1%5Ddefault", "root.c", true).await;
    // What would hurt is refused, unless it is meant.
    let app = json!({"applicationID": "app", "queueName": "root.c", "partitionName": "default", "ugi": {"user": "u", "groups": ["g"]}});
    assert_eq!(leader.send("POST", "/si/v1/rm/rm-1/applications", &json!({"new": [app]})).await.0, 202);
    has(leader, "%5Brm-1%5Ddefault", "root.c", true).await;
    let app = leader.url("/ws/v1/partition/%5Brm-1%5Ddefault/application/app");
    let listed = async || leader.http.get(&app).send().await.expect("an answer").status().as_u16();
    common::answer("the application", listed, |status| *status == 200).await;
    fs::write(&file, CONFIG).expect("written");
    let refused =
        common::command(&["cluster", "--server", &leader.url(""), "config", "set", &file]).output().expect("runs");
    assert!(!refused.status.success(), "{refused:?}");
    let why = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(why.contains("nothing was changed: --force"), "{why}");
    has(leader, "%5Brm-1%5Ddefault", "root.c", true).await;
    for (body, part) in [
        (json!({"settings": {"rm.pauseTimeout": "1s"}}), "is no setting of the whole server"),
        (json!({"settings": {"health.checkInterval": "soon"}}), "is not"),
        (json!({"config": "partitions: nonsense"}), "update of configuration failed"),
        (json!({}), "nothing is to be changed"),
    ] {
        let (status, told) = other.send("POST", "/api/v1/cluster/config", &body).await;
        assert!(status == 400 && told["detail"].as_str().is_some_and(|text| text.contains(part)), "{body}: {told}");
    }
    // And none again.
    config(&["set", "--no-config", "--unset", "health.checkInterval", "--force"]);
    setting(leader, "health.checkInterval", Some("9s")).await;
    has(leader, "%5Brm-3%5Ddefault", "root.b", false).await;
}

#[tokio::test]
async fn a_server_without_a_cluster_has_nothing_that_holds_for_all() {
    let Some(etcd) = rig::etcd("a_server_without_a_cluster_has_nothing_that_holds_for_all") else { return };
    let alone = Server::start(&[]);
    assert_eq!(alone.get("/api/v1/cluster/config").await.0, 404);
    // One with a cluster says that nothing does yet.
    let dir = tempfile::tempdir().expect("a directory");
    let server = start(&etcd, dir.path(), NEVER);
    assert_eq!(server.send("POST", "/si/v1/rm", &json!({"rmID": "rm-1"})).await.0, 200);
    leads(&server).await;
    let (status, told) = server.get("/api/v1/cluster/config").await;
    assert_eq!((status, &told["settings"], &told["config"]), (200, &json!({}), &Value::Null), "{told}");
}

#[tokio::test]
async fn what_a_server_cannot_read_it_does_not_replace() {
    let Some(etcd) = rig::etcd("what_a_server_cannot_read_it_does_not_replace") else { return };
    let dir = tempfile::tempdir().expect("a directory");
    let server = start(&etcd, dir.path(), NEVER);
    let url = server.url("");
    let set = |value: &str| {
        let value = format!("health.checkInterval={value}");
        common::command(&["cluster", "--server", &url, "config", "set", "--set", &value]).output().expect("runs")
    };
    assert!(set("11s").status.success());
    // As a later release might write it.
    etcd.ctl(&["put", "/callboard/config", r#"{"settings": ["health.checkInterval", "12s"]}"#]);
    common::answer("its log", async || server.program.log(), |log| log.contains("configuration-refused")).await;
    let refused = set("13s");
    let why = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success(), "{refused:?}");
    assert!(why.contains("cannot be read by this one") && why.contains("etcdctl del /callboard/config"), "{why}");
    // What it knew still holds here.
    setting(&server, "health.checkInterval", Some("11s")).await;
    etcd.ctl(&["del", "/callboard/config"]);
    // It hears of that a little later.
    common::answer("the command", async || set("14s"), |told| told.status.success()).await;
    setting(&server, "health.checkInterval", Some("14s")).await;
}
