//! Every view, in light and dark, on a desk and on a phone, as axe-core judges it. Its script is fetched from the npm registry.

use std::{path::PathBuf, process::Command};

use serde_json::json;

use super::{chromium::Browser, cluster::busy, server::Server};
use crate::common::skip;

/// The release that is asked for.
const AXE: &str = "axe-core@4.14.1";

/// The script, kept beside what is built.
fn script() -> Option<String> {
    let place = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(AXE);
    let file = place.join("node_modules/axe-core/axe.min.js");
    if !file.exists() {
        let npm = Command::new("npm")
            .args(["install", "--ignore-scripts", "--no-save", "--no-audit", "--no-fund", "--prefix"])
            .arg(&place)
            .arg(AXE)
            .output();
        npm.ok().filter(|npm| npm.status.success())?;
    }
    std::fs::read_to_string(file).ok()
}

#[tokio::test]
async fn axe_finds_nothing() {
    let test = "axe_finds_nothing";
    let Some(browser) = Browser::start(test).await else { return };
    let Some(axe) = script() else { return skip(test, "npm cannot fetch axe-core") };
    let mut server = Server::start();
    busy(&mut server).await;
    browser.open(&server.url).await;
    browser.until("document.querySelectorAll('tbody tr[data-key]').length >= 7").await;
    browser.run(&axe).await;
    let mut found = Vec::new();
    let look = "return axe.run(document).then((all) => all.violations.map((one) => `${one.id}: ${one.nodes[0].html}`))";
    for (width, scheme) in [(1440, "light"), (1440, "dark"), (400, "light"), (400, "dark")] {
        let size = json!({"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": false});
        browser.tool("Emulation.setDeviceMetricsOverride", size).await;
        let feature = json!({"features": [{"name": "prefers-color-scheme", "value": scheme}]});
        browser.tool("Emulation.setEmulatedMedia", feature).await;
        for (view, there) in [
            ("applications", "document.querySelector('[aria-label=Applications] tbody tr[data-key]')"),
            ("applications?open=app:full", "document.querySelector('#detail .because')"),
            ("queues", "document.querySelector('[role=treegrid] tr[data-key]')"),
            ("queues?open=queue:root.prod", "document.querySelector('#detail .bar')"),
            ("nodes", "document.querySelector('canvas')?.ariaLabel"),
            ("nodes?open=node:node-1", "document.querySelector('#detail .operations')"),
            ("people", "document.querySelector('[aria-label=\"Users and groups\"] tr[data-key]')"),
            ("whatif", "document.querySelector('.whatif button')"),
            ("trends", "document.querySelector('.plot canvas')"),
            ("events", "document.querySelector('[aria-label=Events] tr[data-key]')"),
        ] {
            browser.run(&format!("location.hash = '#/default/{view}'")).await;
            browser.until(there).await;
            found.push((view, browser.run(look).await));
        }
        for (dialog, there) in [
            ("find", "document.querySelector('[role=option]')"),
            ("health", "document.querySelector('#log-level')?.value"),
        ] {
            browser.run(&format!("document.querySelector('#{dialog}').click()")).await;
            browser.until(there).await;
            found.push((dialog, browser.run(look).await));
            browser.run("document.querySelector('dialog[open]').close()").await;
        }
    }
    found.retain(|(_, violations)| *violations != json!([]));
    assert!(found.is_empty(), "{found:#?}");
    browser.close().await;
}
