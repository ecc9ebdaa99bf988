//! The page of the interfaces (`/api/docs`) in a real browser: everything is there, and what it sends is answered.

use serde_json::json;

use super::{chromium::Browser, cluster::busy, server::Server};

/// Opens an operation and gives a script that finds an element of it.
async fn opened(browser: &Browser, method: &str, path: &str) -> String {
    let found = format!(
        "[...document.querySelectorAll('details')].find(one => one.querySelector('.method').textContent === '{method}' \
         && one.querySelector('code').textContent === '{path}')"
    );
    browser.until(&found).await;
    browser.run(&format!("{found}.querySelector('summary').click()")).await;
    browser.until(&format!("{found}.open && {found}.querySelector('form').getClientRects().length > 0")).await;
    found
}

async fn send(browser: &Browser, operation: &str, expected: &str) {
    browser.run(&format!("{operation}.querySelector('form').requestSubmit()")).await;
    let shown = format!("{operation}.querySelector('pre').textContent");
    browser.until(&format!("{shown}.includes('{expected}')")).await;
}

#[tokio::test]
async fn tries_what_it_describes() {
    let Some(browser) = Browser::start("tries_what_it_describes").await else { return };
    let mut server = Server::guarded();
    busy(&mut server).await;
    browser.open(&format!("{}/api/docs", server.url)).await;
    let queues = opened(&browser, "GET", "/ws/v1/partition/{partition}/queues").await;
    send(&browser, &queues, "401 Unauthorized").await;
    browser.run("document.querySelector('#token').value = 'all-of-it'").await;
    send(&browser, &queues, "200 OK").await;
    browser.until(&format!("{queues}.querySelector('pre').textContent.includes('\"queuename\": \"root\"')")).await;
    // Numbers that JavaScript cannot hold are shown as they are.
    let clusters = opened(&browser, "GET", "/ws/v1/clusters").await;
    let started = server.json("/ws/v1/clusters").await[0]["startTime"].to_string();
    send(&browser, &clusters, &format!("\"startTime\": {started},")).await;
    // A body, a parameter that must be given, and an answer that goes on until it is stopped.
    let plan = opened(&browser, "POST", "/ws/v1/validate-conf").await;
    browser.run(&format!("{plan}.querySelector('textarea').value = 'partitions: ['")).await;
    send(&browser, &plan, "\"allowed\": false").await;
    let history = opened(&browser, "GET", "/api/v1/partition/{partition}/usage/history").await;
    browser.run(&format!("{history}.querySelector('form').requestSubmit()")).await;
    assert_eq!(browser.run(&format!("return {history}.querySelector('pre').hidden")).await, true, "by is missing");
    browser.run(&format!("{history}.querySelectorAll('input')[1].value = 'user'")).await;
    send(&browser, &history, "\"complete\":").await;
    let stream = opened(&browser, "GET", "/ws/v1/events/stream").await;
    send(&browser, &stream, "InstanceUUID").await;
    browser
        .run(&format!("[...{stream}.querySelectorAll('button')].find(one => one.textContent === 'Stop').click()"))
        .await;
    browser.until(&format!("{stream}.querySelector('pre').textContent.includes('(stopped)')")).await;
    // It fits a phone.
    let phone = json!({"width": 390, "height": 844, "deviceScaleFactor": 1, "mobile": false});
    browser.tool("Emulation.setDeviceMetricsOverride", phone).await;
    let wide = browser.run("return document.documentElement.scrollWidth").await.as_u64().unwrap();
    assert!(wide <= 390, "{wide}");
    // Answers with errors are told by the browser as well; nothing else may be.
    let faults: Vec<String> = browser.faults().await.into_iter().filter(|text| !text.contains("401")).collect();
    assert_eq!(faults, Vec::<String>::new());
    browser.close().await;
}
