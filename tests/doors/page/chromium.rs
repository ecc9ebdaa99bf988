//! A real Chromium, driven over WebDriver. Where chromedriver or chromium is not installed, tests say so and end, or fail where
//! `CI` is `true`.

use std::{
    io::{BufRead, BufReader},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::common::{LIMIT, skip};

/// What the browser is started with: nothing of the desktop, and no connections of its own.
const ARGS: [&str; 9] = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--window-size=1440,900",
];

pub struct Browser {
    driver: Child,
    client: reqwest::Client,
    session: String,
    // Removed after the browser has ended.
    _profile: tempfile::TempDir,
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}

fn installed(program: &str) -> bool {
    Command::new(program)
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|s| s.success())
}

/// A chromedriver with its port. It takes a free port of IPv4 and ends where the same one of IPv6 is not free, which happens
/// beside tests that open many: then another is started.
fn started() -> (Child, String) {
    const TRIES: usize = 20;
    let mut said = Vec::new();
    for _ in 0..TRIES {
        let mut driver =
            Command::new("chromedriver").arg("--port=0").stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut lines = BufReader::new(driver.stdout.take().unwrap()).lines();
        for line in lines.by_ref().map_while(Result::ok) {
            if let Some((_, port)) = line.split_once("successfully on port ") {
                // It must be able to go on writing.
                std::thread::spawn(move || lines.count());
                return (driver, port.trim_end_matches('.').to_owned());
            }
            said.push(line);
        }
        let _ = driver.kill();
        let _ = driver.wait();
    }
    panic!("chromedriver told no port in {TRIES} starts: {said:#?}");
}

impl Browser {
    /// A fresh browser; `None`, with a word about it, where there is none on this machine.
    pub async fn start(test: &str) -> Option<Browser> {
        Browser::start_with(test, &[]).await
    }

    /// With more arguments.
    pub async fn start_with(test: &str, more: &[&str]) -> Option<Browser> {
        if !installed("chromedriver") || !installed("chromium") {
            skip(test, "chromium and chromedriver (Debian: chromium, chromium-driver) are not installed");
            return None;
        }
        let (driver, port) = started();
        let profile = tempfile::tempdir().unwrap();
        let mut args: Vec<String> = ARGS.map(str::to_owned).into();
        args.extend(more.iter().map(|arg| (*arg).to_owned()));
        args.push(format!("--user-data-dir={}", profile.path().display()));
        // A script runs as long as a busy machine needs for it.
        let wanted = json!({"capabilities": {"alwaysMatch": {"timeouts": {"script": 300_000},
            "goog:chromeOptions": {"args": args}, "goog:loggingPrefs": {"browser": "ALL"}}}});
        let client = reqwest::Client::new();
        let base = format!("http://127.0.0.1:{port}/session");
        let mut browser = Browser { driver, client, session: base, _profile: profile };
        let session = browser.call("", wanted).await;
        browser.session = format!("{}/{}", browser.session, session["sessionId"].as_str().unwrap());
        Some(browser)
    }

    async fn call(&self, path: &str, body: Value) -> Value {
        let answer = self.client.post(format!("{}{path}", self.session)).json(&body).send().await.unwrap();
        let mut answer: Value = answer.json().await.unwrap();
        assert!(answer["value"]["error"].is_null(), "{path} {body}: {answer:#}");
        answer["value"].take()
    }

    /// Ends the session, so that the browser ends in good order.
    pub async fn close(self) {
        let _ = self.client.delete(&self.session).send().await;
    }

    pub async fn open(&self, url: &str) {
        self.call("/url", json!({"url": url})).await;
    }

    /// The value of a script's `return`.
    pub async fn run(&self, script: &str) -> Value {
        self.call("/execute/sync", json!({"script": script, "args": []})).await
    }

    /// Runs an expression until it is true.
    pub async fn until(&self, expression: &str) {
        let end = Instant::now() + LIMIT;
        while self.run(&format!("return Boolean({expression})")).await != true {
            let seen = self.run("return document.body.innerText.slice(0, 1500)").await;
            assert!(Instant::now() < end, "never true: {expression}\n{}", seen.as_str().unwrap_or(""));
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Waits until the page shows a text.
    pub async fn shows(&self, text: &str) {
        self.until(&format!("document.body.innerText.includes({})", json!(text))).await;
    }

    /// Waits until the page shows it no more.
    pub async fn hides(&self, text: &str) {
        self.until(&format!("!document.body.innerText.includes({})", json!(text))).await;
    }

    /// Presses keys, each a character or a name such as `Enter`.
    pub async fn press(&self, keys: &[&str]) {
        let value = |key: &str| match key {
            "Enter" => "\u{e007}".to_owned(),
            "Escape" => "\u{e00c}".to_owned(),
            "Tab" => "\u{e004}".to_owned(),
            "Left" => "\u{e012}".to_owned(),
            "Right" => "\u{e014}".to_owned(),
            "Down" => "\u{e015}".to_owned(),
            "End" => "\u{e010}".to_owned(),
            text => text.to_owned(),
        };
        let actions: Vec<Value> = keys
            .iter()
            .flat_map(|key| ["keyDown", "keyUp"].map(|kind| json!({"type": kind, "value": value(key)})))
            .collect();
        self.call("/actions", json!({"actions": [{"type": "key", "id": "keyboard", "actions": actions}]})).await;
    }

    /// What a command of the development tools gives.
    pub async fn tool(&self, command: &str, parameters: Value) -> Value {
        self.call("/goog/cdp/execute", json!({"cmd": command, "params": parameters})).await
    }

    /// What the console was told since the last call, apart from connections that failed.
    pub async fn faults(&self) -> Vec<String> {
        let log = self.call("/se/log", json!({"type": "browser"})).await;
        let rows = log.as_array().unwrap().iter().filter(|row| row["level"] == "SEVERE" || row["level"] == "WARNING");
        rows.filter_map(|row| row["message"].as_str())
            .filter(|text| !text.contains("net::ERR_"))
            .map(str::to_owned)
            .collect()
    }
}
