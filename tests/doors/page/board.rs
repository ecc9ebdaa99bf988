//! The reads of the page: an overview, applications with the reason why they wait, one explained, nodes in short.

use serde_json::{Value, json};

use super::{
    cluster::{GIB, busy},
    server::Server,
};
use crate::common;

fn app<'a>(list: &'a Value, id: &str) -> &'a Value {
    let rows = list["applications"].as_array().unwrap();
    rows.iter().find(|row| row["applicationID"] == id).unwrap_or_else(|| panic!("{id} is not in {list:#}"))
}

const APPS: &str = "/api/v1/partition/default/applications";

#[tokio::test]
async fn applications_tell_why_they_wait() {
    let mut server = Server::start();
    busy(&mut server).await;
    let all = server.json(APPS).await;
    let reason = |id: &str| (app(&all, id)["reason"]["code"].clone(), app(&all, id)["reason"]["text"].clone());
    let text = "Queue root.prod is at its max: 16 GiB of 16 GiB memory used, 2 GiB more wanted; 8 of 8 cores used, 1 more wanted.";
    assert_eq!(reason("full"), (json!("queueQuota"), json!(text)));
    let text = "User eve is at the limit in queue root.science: 4 GiB of 4 GiB memory used, 2 GiB more wanted; 2 of 2 cores used, 1 more wanted.";
    assert_eq!(reason("eve"), (json!("userQuota"), json!(text)));
    let text = "It is larger than every node: 100 GiB memory wanted, and the largest has 8 GiB.";
    assert_eq!(reason("huge"), (json!("tooLarge"), json!(text)));
    assert_eq!(reason("gang").0, "nodes");
    assert_eq!(app(&all, "calm")["reason"], Value::Null);
    // Those that wait come first.
    let rows = all["applications"].as_array().unwrap();
    let waits: Vec<bool> = rows.iter().map(|row| row["asks"].as_u64() > Some(0)).collect();
    assert!(waits.is_sorted_by(|a, b| a >= b), "{waits:?}");

    let only = server.json(&format!("{APPS}?reason=tooLarge&waiting=true")).await;
    assert_eq!((only["matched"].as_u64(), &only["applications"][0]["applicationID"]), (Some(1), &json!("huge")));
    let below = server.json(&format!("{APPS}?queue=root.prod&limit=1")).await;
    assert_eq!((below["matched"].as_u64(), below["applications"].as_array().unwrap().len()), (Some(3), 1));
    // What the limit leaves out goes by the order.
    let rows = all["applications"].as_array().unwrap();
    let most = rows.iter().map(|row| row["asks"].as_u64()).max().unwrap();
    let first = server.json(&format!("{APPS}?sort=-asks&limit=1")).await;
    assert_eq!(first["applications"][0]["asks"].as_u64(), most, "{first:#}");
    let mut ids: Vec<&str> = rows.iter().filter_map(|row| row["applicationID"].as_str()).collect();
    ids.sort_unstable();
    let last = server.json(&format!("{APPS}?sort=-Application&limit=1")).await;
    assert_eq!(last["applications"][0]["applicationID"].as_str(), ids.last().copied(), "{last:#}");
    let longest = server.json(&format!("{APPS}?sort=-waits&limit=1")).await;
    let since = |row: &Value| row["waitingSince"].as_str().map(str::to_owned);
    assert_eq!(since(&longest["applications"][0]), rows.iter().filter_map(since).min(), "{longest:#}");
    let running = server.json(&format!("{APPS}?state=running")).await;
    let rows = running["applications"].as_array().unwrap();
    assert!(!rows.is_empty() && rows.iter().all(|row| row["state"] == "Running"), "{running:#}");
    for bad in
        ["limit=0", "limit=x", "waiting=perhaps", "list=nope", "state=nope", "reason=nope", "sort=size", "colour=red"]
    {
        let answer = server.get(&format!("{APPS}?{bad}")).await;
        assert_eq!(answer.status(), 400, "{bad}");
        let body: Value = answer.json().await.unwrap();
        assert_eq!(body["field"], bad.split('=').next().unwrap(), "{body}");
    }
}

#[tokio::test]
async fn one_application_is_explained() {
    let mut server = Server::start();
    busy(&mut server).await;
    let path = "/api/v1/partition/default/application/full/explain";
    let full = server.json(path).await;
    assert_eq!(full["waiting"][0]["asks"], 2);
    let short = &full["waiting"][0]["reason"]["short"][0];
    assert_eq!(
        short,
        &json!({"resource": "memory", "wanted": 2 * GIB, "available": 0, "limit": 16 * GIB, "used": 16 * GIB})
    );
    let queues: Vec<&str> = full["queues"].as_array().unwrap().iter().filter_map(|row| row["queue"].as_str()).collect();
    assert_eq!(queues, ["root.prod.web", "root.prod", "root"]);
    // The gang: real asks wait for the placeholders, these for nodes.
    let gang = server.json("/api/v1/partition/default/application/gang/explain").await;
    let codes: Vec<&str> =
        gang["waiting"].as_array().unwrap().iter().filter_map(|row| row["reason"]["code"].as_str()).collect();
    assert_eq!(codes, ["nodes", "gang"], "{gang:#}");
    assert_eq!(gang["taskGroups"][0]["placeholders"], 30);

    let ask = async |key: &str| server.get(&format!("{path}?ask={key}")).await;
    assert_eq!(ask("full-a0").await.json::<serde_json::Value>().await.unwrap()["ask"]["state"], "allocated");
    let missing = ask("zz").await;
    assert_eq!(missing.status(), 404);
    let missing: serde_json::Value = missing.json().await.unwrap();
    let text = "application 'full' has no ask 'zz'; without it all that wait are explained";
    assert_eq!(missing["detail"], text, "{missing:#}");

    // R3.25: a rejected application is explained by its message.
    server.app("stray", "root.nope", "dan", json!({})).await;
    let path = "/api/v1/partition/default/application/stray/explain";
    common::until(async || server.get(path).await.status() != 404).await;
    let stray = server.json(path).await;
    assert!(
        stray["state"] == "Rejected" && stray["message"].as_str().is_some_and(|text| !text.is_empty()),
        "{stray:#}"
    );
    assert_eq!(server.get("/api/v1/partition/default/application/nobody/explain").await.status(), 404);
    assert_eq!(server.get("/api/v1/partition/nope/application/full/explain").await.status(), 404);
}

#[tokio::test]
async fn the_overview_counts() {
    let mut server = Server::start();
    assert_eq!(server.json("/api/v1/overview").await["partitions"], json!([]));
    busy(&mut server).await;
    let all = server.json("/api/v1/overview").await;
    assert_eq!(all["partitions"][0]["waiting"]["applications"], 4);
    // Without tokens everybody may do everything.
    assert_eq!(all["role"], "operator");
    assert_eq!(
        (&all["resourceManagers"][0]["rmID"], &all["resourceManagers"][0]["state"]),
        (&json!("rm-1"), &json!("Running"))
    );
    let [default, other] = &all["partitions"].as_array().unwrap()[..] else { panic!("{all:#}") };
    assert_eq!((&default["rmState"], &default["nodes"]["total"]), (&json!("Running"), &json!(8)));
    assert_eq!((&other["name"], &other["waiting"]["asks"]), (&json!("other"), &json!(0)));
    let reasons = default["waiting"]["reasons"].as_array().unwrap();
    let sum: u64 = reasons.iter().filter_map(|row| row["asks"].as_u64()).sum();
    assert_eq!(Some(sum), default["waiting"]["asks"].as_u64());
    let codes: Vec<&str> = reasons.iter().filter_map(|row| row["code"].as_str()).collect();
    for code in ["queueQuota", "userQuota", "tooLarge", "nodes", "gang"] {
        assert!(codes.contains(&code), "{code} is not in {codes:?}");
    }
}

#[tokio::test]
async fn nodes_are_told_in_short() {
    let mut server = Server::start();
    busy(&mut server).await;
    let drain = json!({"targets": "2-3", "reason": "smoke"});
    server.post("/api/v1/partition/default/resource/drain", &drain).await;
    let path = "/api/v1/partition/default/nodes";
    let all = server.until(path, |all| all["nodes"][2]["drained"] == "by an operator: smoke").await;
    assert_eq!(all["types"], json!(["memory", "vcore"]));
    let nodes = all["nodes"].as_array().unwrap();
    assert_eq!((nodes.len(), nodes.iter().filter(|node| node["drained"].is_string()).count()), (8, 2));
    assert!(nodes.iter().any(|node| node["used"][0].as_i64() > Some(0)), "{all:#}");
    let away = json!({"rmID": "rm-1", "nodes": [{"nodeID": "node-7", "action": "DECOMISSION"}]});
    server.post("/si/v1/rm/rm-1/nodes", &away).await;
    let all = server.until(path, |all| all["nodes"][7]["offline"] == true).await;
    assert_eq!(all["nodes"][7]["id"], "node-7");
}

#[tokio::test]
async fn files_of_the_page_come_with_their_headers() {
    let server = Server::start();
    let page = server.get("/").await;
    let header =
        |name: &str| page.headers().get(name).map(|value| value.to_str().unwrap().to_owned()).unwrap_or_default();
    assert_eq!(header("content-type"), "text/html; charset=utf-8");
    let policy = header("content-security-policy");
    assert!(policy.contains("default-src 'none'") && policy.contains("script-src 'self'"), "{policy}");
    assert!(!policy.contains("unsafe"), "{policy}");
    let (tag, text) = (header("etag"), page.text().await.unwrap());
    for name in text.split('"').filter(|name| name.starts_with("/page/")) {
        assert_eq!(server.get(name).await.status(), 200, "{name}");
    }
    let again = reqwest::Client::new().get(&server.url).header("If-None-Match", tag).send().await.unwrap();
    assert_eq!(again.status(), 304);
    assert_eq!(reqwest::Client::new().post(&server.url).send().await.unwrap().status(), 405);
    assert_eq!(server.get("/page/nope.js").await.status(), 404);
}
