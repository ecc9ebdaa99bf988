//! The view that tries a change: what would be is told, the address keeps what was asked, and nothing is touched.

use super::{chromium::Browser, cluster::busy, server::Server};

#[tokio::test]
async fn a_change_is_tried_and_a_configuration_planned() {
    let Some(browser) = Browser::start("a_change_is_tried_and_a_configuration_planned").await else { return };
    let mut server = Server::start();
    busy(&mut server).await;
    let before = server.json("/ws/v1/partition/default/nodes").await.as_array().map(Vec::len);
    browser.open(&format!("{}/#/default/whatif?count=50&like=node-1&for=10s", server.url)).await;
    browser
        .until("document.querySelector('.whatif code')?.textContent.includes('--node-add 50:like=node-1 --for 10s')")
        .await;
    browser.run("document.querySelector('.whatif button[type=submit]').click()").await;
    browser.shows("more placed").await;
    browser.shows("10 s ahead.").await;
    // What is wrong is said, and takes nothing away.
    browser.run("document.querySelector('.whatif [name=like]').value = 'node-none'; document.querySelector('.whatif button[type=submit]').click()").await;
    browser.shows("node 'node-none' is not registered").await;
    browser.shows("more placed").await;
    browser.run("document.querySelector('.whatif [name=config]').value = 'partitions: [{queues: [{name: root, submitacl: nobody}]}]'").await;
    browser
        .run("[...document.querySelectorAll('.whatif button')].find((one) => one.textContent === 'Plan').click()")
        .await;
    browser.shows("no placement rule matched").await;
    assert_eq!(server.json("/ws/v1/partition/default/nodes").await.as_array().map(Vec::len), before);
    browser.close().await;
}
