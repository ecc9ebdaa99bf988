//! What operators do to a cluster from the page.

use serde_json::Value;

use super::chromium::Browser;
use crate::{
    cluster::rig::{self, NEVER, follows, sees, start},
    common,
};

#[tokio::test]
async fn a_button_of_the_cluster_does_what_it_says_when_it_is_pressed() {
    let test = "a_button_of_the_cluster_does_what_it_says_when_it_is_pressed";
    let Some(etcd) = rig::etcd(test) else { return };
    let Some(browser) = Browser::start(test).await else { return };
    let (one, two) = (tempfile::tempdir().expect("a directory"), tempfile::tempdir().expect("a directory"));
    let (first, second) = (start(&etcd, one.path(), NEVER), start(&etcd, two.path(), NEVER));
    first.register("rm-1", &[]).await;
    follows(&second).await;
    sees(&first, 2).await;
    let other = second.url("");
    let status = async || first.get("/api/v1/cluster").await.1;
    let button = |label: &str| format!("document.querySelector('#cluster button[aria-label=\"{label}\"]')");
    let press = async |label: &str| {
        browser.until(&button(label)).await;
        browser.run(&format!("{}.click()", button(label))).await;
    };
    browser.open(&first.url("")).await;
    browser.until("document.querySelector('#health').innerText").await;
    browser.run("document.querySelector('#health').click()").await;
    let drained = |status: &Value| {
        let mut rows = status["servers"].as_array().into_iter().flatten();
        rows.any(|row| row["http"] == *other && !row["drained"].is_null())
    };
    press(&format!("Have {other} lead nothing")).await;
    common::answer("drained", status, &drained).await;
    // The same element now, with other words.
    press(&format!("Let {other} lead again")).await;
    common::answer("not drained", status, |status| !drained(status)).await;
    // With one of its own, the other leads as many as it should: none is handed over by itself.
    second.register("rm-2", &[]).await;
    // One comes before the other, and its row takes the place of that one's.
    browser.until(&button(&format!("Have {other} lead rm-1"))).await;
    first.register("rm-0", &[]).await;
    press(&format!("Have {other} lead rm-0")).await;
    let leads = |status: &Value, rm: &str| {
        let servers = status["servers"].as_array().into_iter().flatten();
        let id = servers.filter(|row| row["http"] == *other).map(|row| row["id"].clone()).next();
        let mut groups = status["resourceManagers"].as_array().into_iter().flatten();
        groups.any(|row| row["rmID"] == rm && Some(&row["leader"]) == id.as_ref())
    };
    let moved = common::answer("moved", status, |status| leads(status, "rm-0") || leads(status, "rm-1")).await;
    assert!(leads(&moved, "rm-0") && !leads(&moved, "rm-1"), "{moved:#}");
    assert_eq!(browser.faults().await, Vec::<String>::new());
    browser.close().await;
}
