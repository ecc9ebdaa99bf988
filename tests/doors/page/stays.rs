//! What the reader did stays, and what is shown is what the page says that it is.

use serde_json::json;

use super::{
    chromium::Browser,
    cluster::busy,
    server::{RM, Server, VIEWER},
};

const ROW: &str = "[...document.querySelectorAll('tbody tr[data-key]')]";

/// Presses a button of the view.
fn press(title: &str) -> String {
    format!("[...document.querySelectorAll('.tools button')].find((one) => one.innerText === '{title}').click()")
}

#[tokio::test]
async fn a_token_is_asked_for_until_there_is_one() {
    let Some(browser) = Browser::start("a_token_is_asked_for_until_there_is_one").await else { return };
    let server = Server::guarded();
    browser.open(&server.url).await;
    for _ in 0..3 {
        browser.until("document.querySelector('#login').open").await;
        browser.press(&["Escape"]).await;
    }
    browser.until("document.querySelector('#login').open && document.activeElement.id === 'token'").await;
    // What no header takes was pasted with its quotes.
    let give = |token: &str| {
        format!(
            "document.querySelector('#token').value = {}; document.querySelector('#login form').requestSubmit()",
            json!(token)
        )
    };
    browser.run(&give("\u{201c}open-sesame\u{201d}")).await;
    browser.until("document.querySelector('#login').open && !document.querySelector('#login-fault').hidden").await;
    browser.run(&give(VIEWER)).await;
    browser.until("document.querySelector('#live').innerText === 'Live'").await;
    browser.close().await;
}

#[tokio::test]
async fn what_was_typed_stays_when_a_partition_comes() {
    let Some(browser) = Browser::start("what_was_typed_stays_when_a_partition_comes").await else { return };
    let mut server = Server::start();
    let one = "partitions:\n- {name: default, queues: [{name: root, submitacl: '*', queues: [{name: a}]}]}\n";
    server.register(one).await;
    browser.open(&format!("{}/#/default/whatif", server.url)).await;
    browser.until("document.querySelector('textarea')").await;
    browser
        .run("document.querySelector('textarea').value = 'partitions: []'; document.querySelector('[name=drain]').value = 'n1'")
        .await;
    let two = format!("{one}- {{name: second, queues: [{{name: root, queues: [{{name: a}}]}}]}}\n");
    server.put(&format!("/si/v1/rm/{RM}/configuration"), &json!({"rmID": RM, "config": two})).await;
    browser.until("document.querySelector('#partition').options.length === 2").await;
    let typed =
        browser.run("return [document.querySelector('textarea').value, document.querySelector('[name=drain]').value]");
    assert_eq!(typed.await, json!(["partitions: []", "n1"]));
    // What a shell would run stands in quotes, and what lacks something is not tried.
    browser.run("location.hash = '#/default/whatif?count=2&like=' + encodeURIComponent('$(touch x)')").await;
    browser
        .until("document.querySelector('.whatif code').innerText.includes(\"--node-add '2:like=$(touch x)'\")")
        .await;
    browser.run("location.hash = '#/default/whatif?app=root.a'").await;
    browser.until("document.querySelector('[name=app]').value === 'root.a'").await;
    browser.run("document.querySelector('.whatif [type=submit]').click()").await;
    browser.shows("The size of each ask is missing.").await;
    assert_eq!(browser.faults().await, Vec::<String>::new());
    browser.close().await;
}

#[tokio::test]
async fn events_that_are_paused_are_still_those_that_are_chosen() {
    let Some(browser) = Browser::start("events_that_are_paused_are_still_those_that_are_chosen").await else { return };
    let mut server = Server::start();
    busy(&mut server).await;
    browser.open(&format!("{}/#/default/events", server.url)).await;
    browser.until(&format!("{ROW}.length > 10")).await;
    browser.run(&press("Pause")).await;
    server.app("latecomer", "root.spare", "zoe", json!({})).await;
    browser.shows("new since you paused").await;
    assert_eq!(browser.run(&format!("return {ROW}.some((row) => row.innerText.includes('latecomer'))")).await, false);
    browser.run("location.hash = '#/default/events?type=node'").await;
    browser.until(&format!("{ROW}.length > 0 && {ROW}.every((row) => row.children[1].innerText === 'NODE')")).await;
    browser.run("location.hash = '#/default/events'").await;
    browser.until(&format!("{ROW}[0]?.innerText.includes('latecomer')")).await;
    server.app("later", "root.spare", "zoe", json!({})).await;
    browser.shows("new since you paused").await;
    browser.run(&press("Go on")).await;
    browser.until(&format!("{ROW}.slice(0, 4).some((row) => row.innerText.includes('later'))")).await;
    // A time that ends before it begins is no time without events.
    browser.run("location.hash = '#/default/events?since=2026-11-30T00:00:00Z&until=2026-11-29T00:00:00Z'").await;
    browser.shows("is later than until").await;
    browser.close().await;
}

#[tokio::test]
async fn charts_are_of_what_is_chosen() {
    let Some(browser) = Browser::start("charts_are_of_what_is_chosen").await else { return };
    let mut server = Server::start();
    busy(&mut server).await;
    browser.open(&format!("{}/#/default/trends", server.url)).await;
    browser.until("document.querySelector('figure')").await;
    browser.run("location.hash = '#/default/trends?of=queue'").await;
    browser.until("!document.querySelector('figure') && document.body.innerText.includes('Choose a name')").await;
    browser.run("location.hash = '#/default/trends?of=queue&name=root.prod'").await;
    browser.until("document.querySelector('figure')").await;
    browser.run("location.hash = '#/default/trends?of=queue&name=root.nowhere'").await;
    browser.until("!document.querySelector('figure') && document.body.innerText.includes('not found')").await;
    browser.close().await;
}

#[tokio::test]
async fn a_panel_that_closes_takes_no_filter_along() {
    let Some(browser) = Browser::start("a_panel_that_closes_takes_no_filter_along").await else { return };
    let mut server = Server::start();
    busy(&mut server).await;
    browser.open(&format!("{}/#/default/applications", server.url)).await;
    browser.until(&format!("{ROW}.length >= 7")).await;
    browser.run(&format!("{ROW}.find((row) => row.innerText.includes('huge')).click()")).await;
    browser.until("!document.querySelector('#detail').hidden").await;
    browser.run("document.querySelector('#view input[type=search]').focus()").await;
    browser.press(&["h", "u", "g"]).await;
    browser.until("location.hash.includes('text=hug')").await;
    browser.run("document.querySelector('#detail .close').click()").await;
    browser.until("document.querySelector('#detail').hidden && location.hash.endsWith('applications?text=hug')").await;
    // Enter at once is of what was typed.
    browser.press(&["/"]).await;
    browser
        .until("document.querySelector('#search').open && document.querySelectorAll('[role=option]').length > 10")
        .await;
    browser.press(&["n", "o", "d", "e", "-", "3", "Enter"]).await;
    browser.until("location.hash.includes('open=node%3Anode-3')").await;
    // Names that every object has are names of no view.
    browser.run("location.hash = '#/default/constructor?open=toString:x'").await;
    browser.until("document.querySelector('[data-view=applications]').ariaCurrent === 'page'").await;
    assert_eq!(browser.faults().await, Vec::<String>::new());
    browser.close().await;
}
