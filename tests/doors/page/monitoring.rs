//! Metrics, the dashboard and the alert rules agree, and Prometheus' own tool takes them.

use std::{
    collections::BTreeSet,
    fs,
    io::Write,
    process::{Command, Stdio},
};

use serde_json::{Value, json};

use super::{cluster::busy, server::Server};
use crate::{cluster::rig, common::skip};

const DASHBOARD: &str = include_str!("../../../deploy/grafana-dashboard.json");
const RULES: &str = include_str!("../../../deploy/prometheus-rules.yml");

/// The exposition of a server that keeps its events, after a little of everything has happened.
async fn exposition() -> String {
    let data = tempfile::tempdir().unwrap();
    let mut server = Server::start_with(&["--http", "127.0.0.1:0", "--data", data.path().to_str().unwrap()]);
    busy(&mut server).await;
    server.until("/ws/v1/partitions", |all| all[0]["totalContainers"].as_u64() >= Some(10)).await;
    server.release("calm", "calm-a0").await;
    server.asks("nobody", "a", 1, [1, 1], json!({})).await;
    server.until("/ws/v1/partitions", |all| all[0]["applications"]["Completing"] == 1).await;
    let answer = server.get("/ws/v1/metrics").await;
    assert_eq!(answer.headers()["content-type"], "text/plain; version=0.0.4; charset=utf-8; escaping=underscores");
    answer.text().await.unwrap()
}

/// That of a server of a cluster which follows; `None` where there is no etcd.
async fn exposition_of_cluster() -> Option<String> {
    let etcd = rig::etcd("every_metric_that_is_named_exists")?;
    let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (leader, other) = (rig::start(&etcd, one.path(), rig::NEVER), rig::start(&etcd, two.path(), rig::NEVER));
    rig::session(&leader).await;
    let scrape = async || other.http.get(other.url("/ws/v1/metrics")).send().await.unwrap().text().await.unwrap();
    let has = |text: &String| text.contains("callboard_cluster_lag_records{") && text.contains("_etcd_bytes ");
    Some(crate::common::answer("the metrics", scrape, has).await)
}

/// Names of metrics in an expression.
fn names(text: &str) -> impl Iterator<Item = &str> {
    let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == ':'));
    words.filter(|word| ["yunikorn_", "callboard_", "process_"].iter().any(|start| word.starts_with(start)))
}

fn expressions(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                match value {
                    Value::String(text) if key == "expr" || key == "query" => found.push(text.clone()),
                    value => expressions(value, found),
                }
            }
        }
        Value::Array(list) => list.iter().for_each(|value| expressions(value, found)),
        _ => {}
    }
}

#[tokio::test]
async fn every_metric_that_is_named_exists() {
    let text = exposition().await;
    let Some(of_cluster) = exposition_of_cluster().await else { return };
    let all = text.lines().chain(of_cluster.lines());
    let there: BTreeSet<&str> =
        all.filter(|line| !line.starts_with('#')).filter_map(|line| line.split([' ', '{']).next()).collect();
    let dashboard: Value = serde_json::from_str(DASHBOARD).unwrap();
    let mut found = Vec::new();
    expressions(&dashboard, &mut found);
    assert!(found.len() > 30, "{found:?}");
    let rules: String = RULES.lines().filter(|line| !line.trim_start().starts_with('#')).collect::<Vec<_>>().join("\n");
    let named: BTreeSet<&str> = found.iter().flat_map(|text| names(text)).chain(names(&rules)).collect();
    let missing: Vec<&&str> = named.difference(&there).collect();
    assert!(missing.is_empty(), "{missing:?} are not in\n{text}");

    let value = |line: &str| {
        let row = text.lines().find_map(|row| row.strip_prefix(line)).unwrap_or_else(|| panic!("no {line} in\n{text}"));
        row.trim().parse::<f64>().unwrap()
    };
    // Callboard's own figures are those of the cluster.
    assert_eq!(value("callboard_asks_waiting{partition=\"default\",reason=\"tooLarge\"}"), 2.0);
    assert_eq!(value("callboard_asks_waiting{partition=\"default\",reason=\"userQuota\"}"), 2.0);
    let of_queues = |reason: &str| -> f64 {
        let rows = text.lines().filter(|row| row.starts_with("callboard_queue_asks_waiting{") && row.contains(reason));
        rows.filter_map(|row| row.rsplit(' ').next()?.parse::<f64>().ok()).sum()
    };
    assert_eq!([of_queues("\"tooLarge\""), of_queues("\"userQuota\"")], [2.0, 2.0]);
    assert!(text.contains("callboard_user_resource{partition=\"default\""), "{text}");
    assert_eq!(value("callboard_rm_running{rm=\"rm-1\"}"), 1.0);
    assert_eq!(value("callboard_rm_streams{rm=\"rm-1\"}"), 1.0);
    assert_eq!(value("callboard_mailbox_items{rm=\"rm-1\"}"), 0.0);
    assert_eq!(value("callboard_conversations{kind=\"node\",partition=\"default\"}"), 8.0);
    assert!(value("callboard_decisions_total{partition=\"default\"}") >= 10.0);
    assert!(value("callboard_slice_seconds_count") > 0.0);
    assert_eq!(value("callboard_healthy"), 1.0);
    assert_eq!(value("yunikorn_scheduler_container_allocation_attempt_total{state=\"error\"}"), 1.0);
}

/// Runs promtool; `None`, with a word about it, where it is not installed.
fn promtool(test: &str, arguments: &[&str], input: &str) -> Option<(Option<i32>, String)> {
    let started = Command::new("promtool")
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let Ok(mut child) = started else {
        skip(test, "promtool (Debian: prometheus) is not installed");
        return None;
    };
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let text = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
    Some((output.status.code(), text))
}

#[tokio::test]
async fn promtool_takes_the_exposition() {
    let text = exposition().await;
    let Some((code, said)) = promtool("promtool_takes_the_exposition", &["check", "metrics"], &text) else { return };
    // 3: it would have named some metrics otherwise. Those are the reference's names, never our own.
    assert!(matches!(code, Some(0 | 3)), "{code:?}: {said}");
    let own: Vec<&str> =
        said.lines().filter(|line| !line.starts_with("yunikorn_") && !line.starts_with("promhttp_")).collect();
    assert!(own.is_empty(), "{own:?}");
}

#[test]
fn promtool_takes_the_rules() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("rules.yml");
    fs::write(&file, RULES).unwrap();
    let arguments = ["check", "rules", file.to_str().unwrap()];
    let Some((code, said)) = promtool("promtool_takes_the_rules", &arguments, "") else { return };
    assert_eq!(code, Some(0), "{said}");
}
