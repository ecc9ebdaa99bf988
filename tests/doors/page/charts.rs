//! Charts, and the trends that they are made of.

use serde_json::{Value, json};

use super::{
    chromium::Browser,
    cluster::{GIB, busy},
    server::{RM, Server, node, resource},
};

const TRENDS: &str = "/api/v1/partition/default/trends";

/// The last value.
fn last(values: &Value) -> Option<i64> {
    values.as_array()?.last()?.as_i64()
}

#[tokio::test]
async fn trends_of_everything() {
    let mut server = Server::start();
    busy(&mut server).await;
    // Steps of one length, a value each.
    let prod = format!("{TRENDS}?of=queue&name=root.prod&since=10m");
    let prod = server.until(&prod, |all| last(&all["waiting"]["queueQuota"]) == Some(2)).await;
    assert_eq!(last(&prod["used"]["memory"]), Some(16 * GIB));
    assert_eq!(last(&prod["max"]["memory"]), Some(16 * GIB));
    assert_eq!(last(&prod["guaranteed"]["memory"]), Some(8 * GIB));
    assert_eq!(last(&prod["pending"]["memory"]), Some(4 * GIB));
    assert_eq!(prod["times"].as_array().unwrap().len(), prod["used"]["memory"].as_array().unwrap().len() + 1);
    // Nothing is told of the time before the server started.
    assert_eq!(prod["used"]["memory"][0], Value::Null);
    let all = server.json(TRENDS).await;
    assert_eq!(last(&all["max"]["memory"]), Some(64 * GIB));
    assert!(last(&all["waiting"]["tooLarge"]) == Some(2) && last(&all["waiting"]["userQuota"]) == Some(2), "{all}");
    let eve = server.json(&format!("{TRENDS}?of=user&name=eve&queue=root.science")).await;
    assert_eq!((last(&eve["used"]["memory"]), last(&eve["max"]["memory"])), (Some(4 * GIB), Some(4 * GIB)));
    assert_eq!(last(&eve["waiting"]["userQuota"]), Some(2));
    let node = server.json(&format!("{TRENDS}?of=node&name=node-0")).await;
    let now = server.json("/ws/v1/partition/default/node/node-0").await;
    assert_eq!(last(&node["used"]["memory"]), now["allocated"]["memory"].as_i64());
    assert_eq!(last(&node["max"]["memory"]), Some(8 * GIB));
    assert_eq!(node["used"]["memory"][0], Value::Null, "it was not there");
    for (query, status) in [
        ("of=app", 400),
        ("of=queue", 400),
        ("of=node&name=nope", 404),
        ("of=queue&name=root.nope", 404),
        ("of=user&name=eve&queue=root.nope", 404),
        ("of=group&name=staff&queue=root.nope", 404),
        ("since=7d&step=1s", 400),
    ] {
        assert_eq!(server.get(&format!("{TRENDS}?{query}")).await.status(), status, "{query}");
    }
    assert_eq!(server.get("/api/v1/partition/nope/trends").await.status(), 404);
}

#[tokio::test]
async fn a_node_is_not_said_to_have_had_what_it_had_not() {
    let mut server = Server::start();
    server.register("partitions: [{name: default, queues: [{name: root, submitacl: '*', queues: [{name: a}]}]}]").await;
    server.nodes(vec![node("n1", [8 * GIB, 4000])]).await;
    let path = format!("/si/v1/rm/{RM}/allocations");
    let foreign = async |size: i64| {
        let one = json!({"allocationKey": "f", "nodeID": "n1", "allocationTags": {"foreign": "default"}, "resourcePerAlloc": resource([size, 0])});
        server.post(&path, &json!({"rmID": RM, "allocations": [one]})).await;
    };
    let used = |all: &Value| all["used"]["memory"].as_array().into_iter().flatten().filter_map(Value::as_i64).max();
    let trends = format!("{TRENDS}?of=node&name=n1&since=1m");
    foreign(5 * GIB).await;
    server.until(&trends, |all| used(all) == Some(5 * GIB)).await;
    foreign(3 * GIB).await;
    let all = server.until(&trends, |all| last(&all["used"]["memory"]) == Some(3 * GIB)).await;
    assert_eq!(used(&all), Some(5 * GIB), "{all}");
    // No event tells when an allocation became larger: its node does (EVT-037).
    server.app("app", "root.a", "ann", json!({})).await;
    server.asks("app", "k", 1, [GIB, 100], json!({})).await;
    server.until(&trends, |all| last(&all["used"]["memory"]) == Some(4 * GIB)).await;
    server.asks("app", "k", 1, [2 * GIB, 100], json!({"nodeID": "n1"})).await;
    let all = server.until(&trends, |all| last(&all["used"]["memory"]) == Some(5 * GIB)).await;
    assert!(used(&all) == Some(5 * GIB) && last(&all["max"]["memory"]) == Some(8 * GIB), "{all}");
}

#[tokio::test]
async fn charts_tell_their_values() {
    let Some(browser) = Browser::start("charts_tell_their_values").await else { return };
    let mut server = Server::start();
    busy(&mut server).await;
    server
        .until(&format!("{TRENDS}?of=queue&name=root.prod"), |all| last(&all["waiting"]["queueQuota"]) == Some(2))
        .await;
    let plots = "[...document.querySelectorAll('.plot')].map((one) => one.ariaLabel)";
    for (address, says) in [
        ("trends?since=15m", "memory: used "),
        ("trends?of=queue&name=root.prod&since=15m", "guaranteed 8 GiB at the end, 8 GiB at most; max 16 GiB"),
        ("trends?of=queue&name=root.prod&since=15m", "asks that waited, by reason: queue at its max 2 at the end"),
        ("trends?of=user&name=eve&since=15m&queue=root.science", "used 4 GiB at the end"),
        ("trends?of=node&name=node-0&since=15m", "max 8 GiB at the end"),
    ] {
        browser.open("about:blank").await;
        browser.open(&format!("{}/#/default/{address}", server.url)).await;
        browser.until(&format!("{plots}.some((text) => text?.includes('{says}'))")).await;
    }
    // From the panel of a queue; and what the pointer is on is told in figures.
    browser.run("location.hash = '#/default/queues?open=queue:root.prod'").await;
    browser.until("[...document.querySelectorAll('#detail a')].some((one) => one.innerText === 'Over time')").await;
    browser
        .run("[...document.querySelectorAll('#detail a')].find((one) => one.innerText === 'Over time').click()")
        .await;
    browser.until("document.querySelector('.u-over')").await;
    let point = "const over = document.querySelector('.u-over'); const box = over.getBoundingClientRect(); \
        for (const type of ['mouseenter', 'mousemove']) over.dispatchEvent(new MouseEvent(type, {clientX: box.right - 0.1, clientY: box.top + 20, bubbles: true})); \
        return new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(document.querySelector('.u-legend').innerText))))";
    let told = browser.run(point).await;
    assert!(told.as_str().unwrap().contains("16 GiB"), "{told}");
    // A span is marked with the pointer, and in the address.
    browser.run("const pick = document.querySelector('select[aria-label=Time]'); pick.value = 'between'; pick.dispatchEvent(new Event('change'))").await;
    browser.until("location.hash.includes('until=') && !document.querySelector('input[aria-label=From]').hidden").await;
    assert_eq!(browser.faults().await, Vec::<String>::new());
    browser.close().await;
}
