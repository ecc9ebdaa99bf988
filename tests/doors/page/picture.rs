//! The picture of the page in the README is one of `callboard demo`, and is made anew when the page says other things:
//! `WRITE_DOCS=1 cargo test --test doors picture` writes it, and beside it the words that stand in every picture.

use std::{env, fs, path::Path};

use serde_json::{Value, json};

use super::chromium::Browser;
use crate::demo::Demo;

/// What of the page does not change with the cluster: its views, filters and columns.
const WORDS: &str = "return [...document.querySelectorAll('nav a, thead th, .filters label')]
  .map((part) => part.innerText.trim().split('\\n')[0].replace(/ \\(\\d+\\)$/, '')).filter((text) => text).join('\\n')";

/// Parts of the panel that scroll to the side.
const SIDEWAYS: &str = "return [...document.querySelectorAll('#detail, #detail *')]
  .filter((part) => getComputedStyle(part).overflowX === 'auto' && part.scrollWidth > part.clientWidth).map((part) => part.className)";

/// What the README says of the demo, and what of it the picture shows.
const SAID: [(&str, &str); 6] = [
    ("200 nodes", "200 nodes"),
    ("teams", "root.adhoc"),
    ("GPUs", "nvidia.com/gpu"),
    ("a rack that is drained", "20 drained"),
    ("a user who wants more than his limit", "user or group limit"),
    // Of one that waits, which is explained.
    ("gangs", "placeholders of"),
];

#[tokio::test]
async fn the_picture_of_the_readme_is_true() {
    let Some(browser) = Browser::start("the_picture_of_the_readme_is_true").await else { return };
    let demo = Demo::start();
    browser.open(&demo.address).await;
    browser.until("document.querySelector('#live')?.innerText === 'Live'").await;
    browser.until("document.querySelectorAll('.chip').length > 1").await;
    browser.until("document.querySelectorAll('tbody tr[data-key]').length > 8").await;
    let readme = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md")).expect("it is there");
    for (said, shown) in SAID {
        assert!(readme.contains(said), "the README says of the demo: {said}");
        if said == "gangs" {
            let gang = "[...document.querySelectorAll('tbody tr[data-key^=train-]')]\
                .find((row) => row.innerText.includes('Accepted'))";
            browser.until(gang).await;
            browser.run(&format!("({gang}).click()")).await;
        }
        // The rack is drained, and the limit reached, a while after the begin.
        browser.shows(shown).await;
    }
    assert_eq!(browser.run(SIDEWAYS).await, json!([]), "nothing of the panel is cut");
    let words = browser.run(WORDS).await;
    let shown = SAID.map(|(_, shown)| shown).join("\n");
    let words = format!("{}\n{shown}", words.as_str().expect("words"));
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/pictures");
    if env::var_os("WRITE_DOCS").is_some() {
        let picture = browser.tool("Page.captureScreenshot", json!({"format": "webp", "quality": 70})).await;
        let Value::String(picture) = &picture["data"] else { panic!("no picture: {picture}") };
        fs::write(folder.join("page.webp"), decoded(picture)).expect("the picture can be written");
        fs::write(folder.join("page.txt"), format!("{words}\n")).expect("its words can be written");
    }
    let there = fs::read_to_string(folder.join("page.txt")).unwrap_or_default();
    assert_eq!(there.trim_end(), words, "make it anew: WRITE_DOCS=1 cargo test --test doors picture");
    assert!(fs::read(folder.join("page.webp")).is_ok_and(|picture| picture.starts_with(b"RIFF")), "there is a picture");
    assert_eq!(browser.faults().await, Vec::<String>::new());
    browser.close().await;
}

/// Base 64 as the browser writes it.
fn decoded(text: &str) -> Vec<u8> {
    const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut bits = 0u32;
    let mut bytes = Vec::with_capacity(text.len() * 3 / 4);
    for (count, letter) in (1u32..).zip(text.bytes().take_while(|letter| *letter != b'=')) {
        let value = LETTERS.iter().position(|known| *known == letter).expect("base 64");
        bits = (bits << 6 | u32::try_from(value).expect("six bits")) & 0xff_ffff;
        if count % 4 != 1 {
            bytes.push((bits >> (6 - 2 * ((count - 1) % 4))) as u8);
        }
    }
    bytes
}

#[test]
fn base_64_is_read() {
    assert_eq!(
        (decoded("aGVsbG8="), decoded("aGk="), decoded("YWJj")),
        (b"hello".to_vec(), b"hi".to_vec(), b"abc".to_vec())
    );
}
