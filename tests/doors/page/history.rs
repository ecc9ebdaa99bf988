//! The address holds all that is chosen, Back undoes it, and what changes is changed in place.

use serde_json::json;

use super::{chromium::Browser, cluster::busy, server::Server};

const ROW: &str = "[...document.querySelectorAll('tbody tr[data-key]')]";

#[tokio::test]
async fn back_closes_a_panel_and_undoes_a_choice() {
    let Some(browser) = Browser::start("back_closes_a_panel_and_undoes_a_choice").await else { return };
    let mut server = Server::start();
    busy(&mut server).await;
    browser.open(&server.url).await;
    browser.until(&format!("{ROW}.length >= 7")).await;

    // One panel after the other is one step.
    for id in ["full", "eve"] {
        browser.run(&format!("{ROW}.find((row) => row.dataset.key === '{id}').click()")).await;
        browser.until(&format!("document.querySelector('#detail h2')?.innerText === '{id}'")).await;
    }
    browser.until("location.hash.includes('open=app%3Aeve')").await;
    browser.run("history.back()").await;
    browser.until("document.querySelector('#detail').hidden && !location.hash.includes('open=')").await;
    browser.until("document.activeElement.dataset.key === 'eve'").await;

    // A filter, then another one; Back takes one after the other away.
    browser.run("document.querySelector('.chip.Running').click()").await;
    browser
        .until(&format!(
            "location.hash.includes('state=Running') && {ROW}.every((row) => row.innerText.includes('Running'))"
        ))
        .await;
    browser.run("[...document.querySelectorAll('th button')].find((one) => one.innerText === 'Asks').click()").await;
    browser.until("document.querySelector('th[aria-sort=descending]')?.innerText === 'Asks'").await;
    browser.run("history.back()").await;
    browser.until("!document.querySelector('th[aria-sort]') && location.hash.includes('state=Running')").await;
    browser.run("history.back()").await;
    browser.until(&format!("!location.hash.includes('state') && {ROW}.length >= 7")).await;
    assert_eq!(browser.faults().await, Vec::<String>::new());
    browser.close().await;
}

#[tokio::test]
async fn an_address_brings_everything_back() {
    let Some(browser) = Browser::start("an_address_brings_everything_back").await else { return };
    let mut server = Server::start();
    busy(&mut server).await;
    for (address, there) in [
        (
            "default/applications?list=waiting&user=eve&sort=-Asks&open=app:eve",
            "document.querySelector('#detail h2')?.innerText === 'eve' && document.querySelector('th[aria-sort=descending]') && document.querySelector('.filters')?.innerText.includes('eve')",
        ),
        (
            "default/queues?text=prod&busy=yes&open=queue:root.prod",
            "document.querySelector('input[type=checkbox]')?.checked && document.querySelectorAll('tbody tr[data-key]').length === 3 && document.querySelector('#detail h2')?.innerText === 'root.prod'",
        ),
        (
            "default/nodes?by=vcore&text=node-1&sort=Node",
            "document.querySelector('select[aria-label=\"Colour by\"]')?.value === 'vcore' && document.querySelectorAll('tbody tr[data-key]').length === 1",
        ),
        (
            "default/people?which=user&limited=yes&text=eve",
            "document.querySelectorAll('tbody tr[data-key]').length === 1 && document.querySelector('tbody')?.innerText.includes('eve')",
        ),
        (
            "default/events?type=app&object=full&since=1h&text=alloc",
            "document.querySelector('select[aria-label=Time]')?.value === '1h' && [...document.querySelectorAll('tbody tr[data-key]')].length > 5 && [...document.querySelectorAll('tbody tr[data-key]')].every((row) => row.innerText.includes('full'))",
        ),
        (
            "default/trends?of=queue&name=root.prod&since=15m",
            "document.querySelector('select[aria-label=\"Of what\"]')?.value === 'queue' && document.querySelector('input[aria-label=\"Its name\"]')?.value === 'root.prod'",
        ),
        (
            "other/queues",
            "document.querySelector('#partition')?.value === 'other' && document.querySelectorAll('tbody tr[data-key]').length === 2",
        ),
    ] {
        browser.open("about:blank").await;
        browser.open(&format!("{}/#/{address}", server.url)).await;
        browser.until(there).await;
    }
    assert_eq!(browser.faults().await, Vec::<String>::new());
    browser.close().await;
}

#[tokio::test]
async fn rows_are_changed_in_place() {
    let Some(browser) = Browser::start("rows_are_changed_in_place").await else { return };
    let mut server = Server::start();
    busy(&mut server).await;
    browser.open(&server.url).await;
    browser.until(&format!("{ROW}.length >= 7")).await;
    // Somebody marks the name of one, to copy it, and has a panel open.
    browser.run(&format!("{ROW}.find((row) => row.dataset.key === 'eve').click()")).await;
    browser.until("document.querySelector('#detail .because')").await;
    browser
        .run(&format!(
            "window.seen = {ROW}.find((row) => row.dataset.key === 'full'); window.panel = document.querySelector('#detail .because'); \
             getSelection().selectAllChildren(window.seen.cells[0]); window.gone = 0; \
             new MutationObserver((all) => all.forEach((one) => window.gone += one.removedNodes.length)).observe(document.querySelector('tbody'), {{childList: true}})"
        ))
        .await;
    server.release("full", "full-a0").await;
    browser.until("window.seen.cells[3].innerText === '1'").await;
    let kept = browser
        .run(
            "return [window.seen.isConnected, window.panel.isConnected, getSelection().toString().trim(), window.gone]",
        )
        .await;
    assert_eq!(kept, json!([true, true, "full", 0]));
    browser.close().await;
}
