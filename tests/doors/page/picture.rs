//! The picture of the page in the README is one of `callboard demo`, and is made anew when the page says other things:
//! `WRITE_DOCS=1 cargo test --test doors picture` writes it, and beside it the words that stand in every picture.

use std::{
    env, fs,
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Child, Stdio},
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde_json::{Value, json};

use super::chromium::Browser;
use crate::common::command;

/// What of the page does not change with the cluster: its views, filters and columns.
const WORDS: &str = "return [...document.querySelectorAll('nav a, thead th, .filters label')]
  .map((part) => part.innerText.trim().split('\\n')[0].replace(/ \\(\\d+\\)$/, '')).filter((text) => text).join('\\n')";

/// A running demo. It is told to end, so that it ends its server; should that fail, it ends by itself.
struct Demo(Child, String);

impl Demo {
    fn start() -> Demo {
        let mut demo = command(&["demo", "--http", "127.0.0.1:0", "--seconds", "120"]);
        let mut child = demo.stderr(Stdio::null()).spawn().expect("the demo starts");
        let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines().map_while(Result::ok);
        let address = lines.find_map(|line| {
            let at = line.find("http://127.0.0.1:")?;
            Some(line[at..].split_whitespace().next()?.trim_end_matches(['/', '.', ',']).to_owned())
        });
        std::thread::spawn(move || lines.count());
        Demo(child, address.expect("the demo says where its page is"))
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        let pid = i32::try_from(self.0.id()).map(Pid::from_raw).expect("a process");
        let _ = kill(pid, Signal::SIGINT);
        let _ = self.0.wait();
    }
}

#[tokio::test]
async fn the_picture_of_the_readme_is_true() {
    let Some(browser) = Browser::start("the_picture_of_the_readme_is_true").await else { return };
    let demo = Demo::start();
    browser.open(&demo.1).await;
    browser.until("document.querySelector('#live')?.innerText === 'Live'").await;
    browser.until("document.querySelectorAll('.chip').length > 1").await;
    browser.until("document.querySelectorAll('tbody tr[data-key]').length > 8").await;
    let words = browser.run(WORDS).await;
    let words = words.as_str().expect("words");
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/pictures");
    if env::var_os("WRITE_DOCS").is_some() {
        let row = "document.querySelector('tbody tr[data-key]').click()";
        browser.run(row).await;
        browser.until("document.querySelectorAll('#detail .level').length > 0").await;
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
