//! What users, groups and queues used over a while, as a server tells it: over a restart, and by the command.

use serde_json::{Value, json};

use crate::{
    common,
    shim::server::{Server, command},
    wired::rig::{application, asks, end, until, with_data},
};

async fn lines(server: &Server, query: &str) -> Vec<Value> {
    let (status, text) = server.get(&format!("/api/v1/partition/{query}")).await;
    assert_eq!(status, 200, "{text}");
    match text {
        Value::String(text) => text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect(),
        // One line alone is JSON already.
        line => vec![line],
    }
}

/// Resource-seconds of a name in an answer.
fn memory(lines: &[Value], by: &str, name: &str) -> Option<f64> {
    let line = lines.iter().find(|line| line[by] == name)?;
    line["resourceSeconds"]["memory"].as_str()?.parse().ok()
}

fn printed(server: &Server, args: &[&str]) -> (bool, String, String) {
    let address = server.url("");
    let output = command(&[&["usage", "--server", &address], args].concat()).output().expect("starts");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
    (output.status.success(), text(output.stdout), text(output.stderr))
}

/// Nothing of its sessions goes on.
fn without_log(data: &std::path::Path) -> Server {
    Server::start(&["--grpc", "off", "--log-sync", "off", "--data", &data.display().to_string()])
}

#[tokio::test]
async fn usage_goes_on_with_the_session_over_a_restart() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = with_data(dir.path());
    server.register("rm-1", &[]).await;
    server.nodes(&["n1"]).await;
    application(&server, "app-1").await;
    asks(&server, "app-1", &["k1", "k2"], 10).await;
    let full = |users: &Value| users[0]["queues"]["resourceUsage"]["memory"] == 20;
    until(&server, "/ws/v1/partition/default/usage/users", full).await;
    assert_eq!(end(server).await, Some(0));
    let server = with_data(dir.path());
    until(&server, "/ws/v1/partition/default/usage/users", full).await;
    let ask = async || lines(&server, "default/usage/history?by=user&since=1h").await;
    let before = memory(&ask().await, "user", "u").expect("used");
    common::answer("usage", ask, |lines| memory(lines, "user", "u") > Some(before + 2.0)).await;
}

#[tokio::test]
async fn usage_is_told_until_the_server_ended_and_from_then_on_anew() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = without_log(dir.path());
    server.register("rm-1", &[]).await;
    server.nodes(&["n1"]).await;
    application(&server, "app-1").await;
    let begun = std::time::Instant::now();
    asks(&server, "app-1", &["k1", "k2"], 10).await;
    let full = |users: &Value| users[0]["queues"]["resourceUsage"]["memory"] == 20;
    until(&server, "/ws/v1/partition/default/usage/users", full).await;
    // It grows with the time that passes.
    let ask = async || lines(&server, "default/usage/history?by=user").await;
    let by_user = common::answer("usage", ask, |lines| memory(lines, "user", "u") > Some(20.0 * 0.3)).await;
    let used = memory(&by_user, "user", "u").expect("used");
    assert!(used <= 20.0 * begun.elapsed().as_secs_f64(), "{by_user:?}");
    assert_eq!(by_user.last().expect("a last line")["complete"], true);
    let by_queue = lines(&server, "%5Brm-1%5Ddefault/usage/history?by=queue&since=1h&step=10m").await;
    assert!(memory(&by_queue, "queue", "root").expect("used") >= used, "{by_queue:?}");
    assert_eq!(memory(&by_queue, "queue", "root"), memory(&by_queue, "queue", "root.a"));
    let none = lines(&server, "default/usage/history?by=user&queue=root.b").await;
    assert_eq!(none.len(), 1, "{none:?}");
    assert_eq!(end(server).await, Some(0));

    let server = without_log(dir.path());
    // Not registered: by its full name only.
    assert_eq!(server.get("/api/v1/partition/default/usage/history?by=user").await.0, 404);
    let ended = lines(&server, "%5Brm-1%5Ddefault/usage/history?by=user").await;
    let total = memory(&ended, "user", "u").expect("used");
    assert!(total >= used, "{ended:?}");
    server.register("rm-1", &[]).await;
    until(&server, "/ws/v1/partition/default/nodes", Value::is_array).await;
    let later = lines(&server, "default/usage/history?by=user&since=1h").await;
    assert_eq!(memory(&later, "user", "u"), Some(total), "it goes on no longer: {later:?}");
    let gaps: Vec<_> = later.iter().filter_map(|line| line["gap"]["reason"].as_str()).collect();
    assert_eq!((gaps, &later.last().expect("a last line")["complete"]), (vec!["stopped"], &json!(false)));

    let (good, out, _) = printed(&server, &["--by", "user", "--since", "1h"]);
    assert!(good && out.starts_with("USER  MEMORY (GiB h)\nu ") && out.contains("not certain (stopped)"), "{out}");
    let (good, out, _) = printed(&server, &["--by", "queue", "--json"]);
    assert!(good && out.lines().count() >= 3 && out.contains("\"queue\":\"root.a\""), "{out}");
    let (good, _, error) = printed(&server, &["--since", "yesterday"]);
    assert!(!good && error.contains("since \"yesterday\" is not a time such as"), "{error}");
    for since in [&[][..], &["--since", "1h"]] {
        let (good, out, error) = printed(&server, &[&["--partition", "[no-such]x"], since].concat());
        assert!(!good && out.is_empty(), "{out}");
        assert!(error.contains("partition '[no-such]x' is not registered, and no event of the log"), "{error}");
    }
    let (good, _, error) = printed(&server, &["--partition", "p2"]);
    assert!(!good && error.contains("partition 'p2' not found; there are: default"), "{error}");
}
