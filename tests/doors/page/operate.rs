//! What operators do from the page, and what others see in its place.

use std::process::Command;

use serde_json::{Value, json};

use super::{
    chromium::Browser,
    cluster::{GIB, busy},
    server::{OPERATOR, RM, Server, node},
};

fn press(title: &str) -> String {
    format!("[...document.querySelectorAll('#detail button')].find((one) => one.innerText === '{title}')")
}

#[tokio::test]
async fn an_operator_drains_and_undrains_from_the_panel_of_a_node() {
    let test = "an_operator_drains_and_undrains_from_the_panel_of_a_node";
    let Some(browser) = Browser::start(test).await else { return };
    let mut server = Server::start();
    busy(&mut server).await;
    browser.open(&format!("{}/#/default/nodes?open=node:node-2", server.url)).await;
    browser.until(&press("Drain")).await;
    browser.until("document.querySelector('#detail code').innerText.startsWith('callboard resource drain host-node-2 REASON --server http://')").await;
    browser
        .run(&format!(
            "document.querySelector('#detail [name=reason]').value = 'a fan is loud'; {}.click()",
            press("Drain")
        ))
        .await;
    browser
        .until("document.querySelector('#detail').innerText.includes('Drained by an operator: a fan is loud')")
        .await;
    let all = server.json("/api/v1/partition/default/nodes?node=node-2").await;
    assert_eq!(all["nodes"].as_array().unwrap().len(), 1);
    assert_eq!(all["nodes"][0]["drained"], "by an operator: a fan is loud");
    browser.run(&format!("{}.click()", press("Undrain"))).await;
    browser.until(&press("Drain")).await;
    assert_eq!(server.json("/api/v1/partition/default/nodes?node=node-2").await["nodes"][0]["drained"], Value::Null);
    // An application leads to its allocations, their nodes, and what happened.
    browser.run("location.hash = '#/default/applications?open=app:full'").await;
    browser
        .until(
            "[...document.querySelectorAll('#detail table a')].some((one) => one.hash.includes('open=node%3Anode-'))",
        )
        .await;
    browser
        .run("[...document.querySelectorAll('#detail a')].find((one) => one.innerText === 'Timeline').click()")
        .await;
    browser
        .until("location.hash.includes('object=full') && document.querySelectorAll('tbody tr[data-key]').length > 10")
        .await;
    assert_eq!(browser.faults().await, Vec::<String>::new());
    browser.close().await;
}

#[tokio::test]
async fn the_panel_of_a_node_drains_that_node_whatever_it_is_called() {
    let test = "the_panel_of_a_node_drains_that_node_whatever_it_is_called";
    let Some(browser) = Browser::start(test).await else { return };
    let mut server = Server::start();
    server.register("partitions: [{name: default, queues: [{name: root, submitacl: '*', queues: [{name: a}]}]}]").await;
    let of = |id: &str, host: &str| {
        let mut node = node(id, [GIB, 1000]);
        node["attributes"]["si/hostname"] = json!(host);
        node
    };
    server.nodes(vec![of("1", ""), of("x", "y"), of("z", "y"), of("n[2-3]", ""), of("a,b", "")]).await;
    server.until("/api/v1/partition/default/nodes", |all| all["nodes"][4]["rank"].is_u64()).await;
    for (id, command) in [("1", "1,"), ("x", "y"), ("n[2-3]", "n%5B2-3%5D"), ("a,b", "a%2Cb")] {
        let open =
            format!("location.hash = '#/default/nodes?open=' + encodeURIComponent({})", json!(format!("node:{id}")));
        browser.open(&server.url).await;
        browser.run(&open).await;
        let words = format!("callboard resource drain {command} REASON --server");
        browser.until(&format!("document.querySelector('#detail code')?.innerText.startsWith({})", json!(words))).await;
        browser.run(&format!("{}.click()", press("Drain"))).await;
        browser.until(&press("Undrain")).await;
        let all = server.json("/api/v1/partition/default/nodes").await;
        let drained = |row: &&Value| !row["drained"].is_null();
        let drained: Vec<&Value> =
            all["nodes"].as_array().unwrap().iter().filter(drained).map(|row| &row["id"]).collect();
        assert_eq!(drained, [id]);
        browser.run(&format!("{}.click()", press("Undrain"))).await;
        browser.until(&press("Drain")).await;
    }
    assert_eq!(browser.faults().await, Vec::<String>::new());
    browser.close().await;
}

#[tokio::test]
async fn an_operator_stops_and_resumes_a_queue_from_its_panel() {
    let test = "an_operator_stops_and_resumes_a_queue_from_its_panel";
    let Some(browser) = Browser::start(test).await else { return };
    let mut server = Server::start();
    busy(&mut server).await;
    browser.open(&format!("{}/#/default/queues?open=queue:root.spare", server.url)).await;
    browser.until(&press("Stop")).await;
    browser
        .until("document.querySelector('#detail code').innerText.startsWith('callboard queue stop root.spare --reason REASON --server http://')")
        .await;
    browser
        .run(&format!("document.querySelector('#detail [name=reason]').value = 'a move'; {}.click()", press("Stop")))
        .await;
    browser.shows("root.spare was stopped by an operator at").await;
    browser.until("document.querySelector('#detail').innerText.includes(': a move')").await;
    let order = server.json("/api/v1/partition/default/queue/root.spare").await["order"].clone();
    assert_eq!((&order["order"], &order["reason"]), (&json!("stop"), &json!("a move")));
    browser.run(&format!("{}.click()", press("Resume"))).await;
    browser.until(&press("Drain")).await;
    assert_eq!(server.json("/api/v1/partition/default/queue/root.spare").await["order"], Value::Null);
    assert_eq!(browser.faults().await, Vec::<String>::new());
    browser.close().await;
}

#[tokio::test]
async fn the_health_pill_opens_a_list_and_the_log_level() {
    let Some(browser) = Browser::start("the_health_pill_opens_a_list_and_the_log_level").await else { return };
    let mut server = Server::start();
    busy(&mut server).await;
    browser.open(&server.url).await;
    browser.until("document.querySelector('#health').innerText === 'Healthy'").await;
    browser.run("document.querySelector('#health').click()").await;
    browser.shows("9 checks passed").await;
    browser.shows("rm-1 Running for").await;
    browser.until("document.querySelector('#log-level')?.value").await;
    browser.run("const pick = document.querySelector('#log-level'); pick.value = 'debug'; pick.dispatchEvent(new Event('change', {bubbles: true}))").await;
    server.until("/api/v1/log/level", |level| level["level"] == "debug" && level["operator"] == true).await;
    browser.until("!document.querySelector('#server [data-do=reset]').hidden").await;
    browser.run("document.querySelector('#server [data-do=reset]').click()").await;
    server.until("/api/v1/log/level", |level| level["operator"] == false).await;
    browser.close().await;
}

#[tokio::test]
async fn the_log_level_is_an_operators() {
    let server = Server::guarded();
    assert_eq!(server.json("/api/v1/overview").await["role"], "operator");
    let path = "/api/v1/log/level";
    server.post(path, &json!({"level": "debug"})).await;
    assert_eq!(server.json(path).await["level"], "debug");
    let viewer = reqwest::Client::new();
    let url = format!("{}{path}", server.url);
    let send = |body: Value, token: &str| viewer.post(&url).bearer_auth(token).json(&body).send();
    assert_eq!(send(json!({"level": "error"}), "open-sesame").await.unwrap().status(), 403);
    let bad = send(json!({"level": "loud"}), "all-of-it").await.unwrap();
    assert_eq!(bad.status(), 400);
    assert!(bad.text().await.unwrap().contains("level is 'loud'; it may be debug, info, warn, error"));
    assert_eq!(send(json!({"volume": 11}), "all-of-it").await.unwrap().status(), 400);
    let nothing = send(json!({}), "all-of-it").await.unwrap();
    assert_eq!(nothing.status(), 400);
    assert!(nothing.text().await.unwrap().contains("missing field `level`"));
    assert_eq!(server.json(path).await["level"], "debug", "what an operator said holds");
    let files = tempfile::tempdir().unwrap();
    let token = files.path().join("token");
    std::fs::write(&token, OPERATOR).unwrap();
    let command = |level: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_callboard"));
        command.args(["log-level", "--server", &server.url, "--token-file"]).arg(&token).args(level);
        let output = command.output().unwrap();
        String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap()
    };
    assert_eq!(command(&[]), "debug (set by an operator)\n");
    assert_eq!(command(&["warn"]), "warn (set by an operator)\n");
    assert_eq!(command(&["reset"]), "info\n");
    assert_eq!(server.json(path).await["operator"], false);
}

#[tokio::test]
async fn who_may_not_is_told_what_it_takes() {
    let Some(browser) = Browser::start("who_may_not_is_told_what_it_takes").await else { return };
    let mut server = Server::guarded();
    busy(&mut server).await;
    browser.open(&format!("{}/#/default/nodes?open=node:node-2", server.url)).await;
    browser.until("document.querySelector('#login').open").await;
    browser.run("document.querySelector('#token').value = 'open-sesame'; document.querySelector('#login form').requestSubmit()").await;
    browser.shows("Drain: takes a token with the role operator.").await;
    assert_eq!(browser.run(&format!("return {} === undefined", press("Drain"))).await, true);
    browser.close().await;
}

#[tokio::test]
async fn a_partition_that_has_gone_is_not_mistaken_for_another() {
    let test = "a_partition_that_has_gone_is_not_mistaken_for_another";
    let Some(browser) = Browser::start(test).await else { return };
    let mut server = Server::start();
    let partition = |name: &str| {
        format!(
            "  - name: {name}\n    queues:\n      - name: root\n        submitacl: '*'\n        queues:\n          - name: a\n"
        )
    };
    let one = format!("partitions:\n{}", partition("default"));
    server.register(&(one.clone() + &partition("second"))).await;
    browser.open(&format!("{}/#/second/queues?open=queue:root.a", server.url)).await;
    browser.until(&press("Stop")).await;
    server.put(&format!("/si/v1/rm/{RM}/configuration"), &json!({"rmID": RM, "config": one})).await;
    browser.shows("Partition second is not there").await;
    assert_eq!(
        browser.run(&format!("return Boolean({})", press("Stop"))).await,
        false,
        "of the queue of another partition"
    );
    browser.until("document.querySelector('#partition').value === 'second'").await;
    // What nobody encoded is taken as it stands.
    browser.run("location.hash = '#/100%/queues'").await;
    browser.shows("Partition 100% is not there").await;
    browser
        .run("const pick = document.querySelector('#partition'); pick.value = 'default'; pick.dispatchEvent(new Event('change', {bubbles: true}))")
        .await;
    browser.hides("is not there").await;
    browser.until("document.querySelector('[data-key=\"root.a\"]')").await;
    assert_eq!(browser.faults().await, Vec::<String>::new());
    browser.close().await;
}
