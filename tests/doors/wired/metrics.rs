//! Counters that partitions feed, as a scrape shows them.

use serde_json::json;

use crate::{
    common,
    shim::server::Server,
    wired::rig::{application, asks},
};

async fn metrics(server: &Server) -> String {
    reqwest::get(server.url("/ws/v1/metrics")).await.expect("an answer").text().await.expect("text")
}

/// Scrapes until all these lines are there.
pub async fn until_there(server: &Server, lines: &[&str]) {
    let there = |text: &String| lines.iter().all(|wanted| text.lines().any(|line| line == *wanted));
    common::answer(&format!("what lacks one of {lines:#?}"), async || metrics(server).await, there).await;
}

#[tokio::test]
async fn a_scrape_shows_what_partitions_counted() {
    // REST 7.1, 7.2
    let server = Server::registered(&[]).await;
    server.nodes(&["n1"]).await;
    application(&server, "app-1").await;
    asks(&server, "app-1", &["k1", "k2"], 10).await;
    let container = "yunikorn_scheduler_container_allocation_attempt_total";
    let lines = [
        format!("{container}{{state=\"allocated\"}} 2"),
        format!("{container}{{state=\"error\"}} 0"),
        "yunikorn_root_a_queue_container{state=\"allocated\"} 2".to_owned(),
        "yunikorn_scheduler_application_submission_total{result=\"new\"} 1".to_owned(),
        "yunikorn_scheduler_application_submission_total{result=\"accepted\"} 1".to_owned(),
    ];
    until_there(&server, &lines.each_ref().map(String::as_str)).await;
    assert!(!metrics(&server).await.contains("scheduler_scheduling_latency_milliseconds_count 0"));
    // What is for a partition that does not exist is refused before any partition sees it.
    let node = json!({"nodeID": "n2", "action": "CREATE", "attributes": {"si/node-partition": "nowhere"}});
    let (status, body) = server.send("POST", "/si/v1/rm/rm-1/nodes", &json!({"nodes": [node]})).await;
    assert_eq!(status, 202, "{body}");
    let node = json!({"nodeID": "n1", "action": "DECOMISSION"});
    let (status, body) = server.send("POST", "/si/v1/rm/rm-1/nodes", &json!({"nodes": [node]})).await;
    assert_eq!(status, 202, "{body}");
    let released = format!("{container}{{state=\"released\"}} 2");
    let ends = [
        released.as_str(),
        "yunikorn_scheduler_node{state=\"failed\"} 1",
        "yunikorn_scheduler_node{state=\"decommissioned\"} 1",
    ];
    until_there(&server, &ends).await;
}
