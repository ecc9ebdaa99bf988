//! Every view from a phone to a wall: nothing is wider than the window, and no figure is cut or printed over another.

use serde_json::{Value, json};

use super::{
    chromium::Browser,
    cluster::{GIB, busy},
    server::{Server, node},
};

/// What is cut, wider than its place, or over something else.
const FAULTS: &str = r"
const faults = [];
const wide = document.documentElement.scrollWidth;
if (wide > innerWidth) faults.push(`the page is ${wide} wide`);
const seen = (node) => node.checkVisibility() && node.getBoundingClientRect().width > 0;
for (const node of [...document.querySelectorAll('.scroll, .panel .body, td.num, td.bars, .bar, .words, .figure, .state, dd')].filter(seen)) {
  if (node.scrollWidth > node.clientWidth + 1 && getComputedStyle(node).display !== 'inline') faults.push(`${node.className} cut: ${node.innerText.slice(0, 60)}`);
}
for (const words of [...document.querySelectorAll('.words')].filter(seen)) {
  const boxes = [...words.children].map((child) => child.getBoundingClientRect());
  for (let at = 1; at < boxes.length; at += 1) {
    const [a, b] = [boxes[at - 1], boxes[at]];
    if (a.right > b.left + 1 && a.left < b.right - 1 && a.bottom > b.top + 2 && b.bottom > a.top + 2) faults.push(`printed over: ${words.innerText}`);
  }
}
for (const box of document.querySelectorAll('.scroll')) {
  const edge = box.getBoundingClientRect().right;
  for (const figure of [...box.querySelectorAll('.figure, td.num')].filter(seen)) if (figure.getBoundingClientRect().right > edge + 1) faults.push(`beyond the edge: ${figure.innerText}`);
}
return faults;";

#[tokio::test]
async fn nothing_is_cut_from_360_to_2560() {
    let Some(browser) = Browser::start("nothing_is_cut_from_360_to_2560").await else { return };
    let mut server = Server::start();
    busy(&mut server).await;
    // A type with a long name, large figures, and much that waits for it.
    let mut large = node("gpu-node-with-a-rather-long-name-01", [1_000 * GIB, 96_000]);
    large["schedulableResource"]["resources"]["nvidia.com/gpu"] = json!({"value": "128"});
    large["schedulableResource"]["resources"]["accelerators.example.com/one-with-a-name-that-goes-on-and-on"] =
        json!({"value": "1"});
    server.nodes(vec![large]).await;
    let size = json!({"resources": {"memory": {"value": (428 * GIB).to_string()}, "nvidia.com/gpu": {"value": "96"}}});
    server.app("an-application-with-a-long-name", "root.spare", "a-user-with-a-long-name", json!({})).await;
    server.asks("an-application-with-a-long-name", "a", 30, [0, 0], json!({"resourcePerAlloc": size})).await;
    let pending = |all: &Value| all["partitions"][0]["pending"]["nvidia.com/gpu"].as_i64() >= Some(29 * 96);
    server.until("/api/v1/overview", pending).await;
    browser.open(&server.url).await;
    browser.until("document.querySelectorAll('tbody tr[data-key]').length >= 7").await;
    let mut faults = Vec::new();
    for view in [
        "applications",
        "queues",
        "nodes",
        "people",
        "events",
        "trends",
        "applications?open=app:an-application-with-a-long-name",
        "queues?open=queue:root.prod",
        "nodes?open=node:gpu-node-with-a-rather-long-name-01",
    ] {
        browser.run(&format!("location.hash = '#/default/{view}'")).await;
        let there = if view == "trends" {
            "document.querySelector('.plot canvas')"
        } else {
            "document.querySelectorAll('tbody tr[data-key]').length > 0"
        };
        browser.until(there).await;
        if view.contains("open=") {
            browser.until("document.querySelectorAll('#detail .bar').length > 1").await;
        }
        for width in [360, 400, 768, 1280, 1440, 2560] {
            let size = json!({"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": false});
            browser.tool("Emulation.setDeviceMetricsOverride", size).await;
            // Two frames: one that sees the width, one that draws for it.
            browser.run("return new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => requestAnimationFrame(done))))").await;
            let found = browser.run(FAULTS).await;
            if found != json!([]) {
                faults.push(format!("{view} at {width}: {found}"));
            }
            // What a phone shows above the tables leaves room for them.
            let strip = browser.run("return document.querySelector('#summary').offsetHeight").await.as_u64().unwrap();
            assert!(width > 400 || strip < 280, "{view} at {width}: the summary is {strip} high");
        }
    }
    assert_eq!(faults, Vec::<String>::new());
    assert_eq!(browser.faults().await, Vec::<String>::new());
    browser.close().await;
}
