//! A server with tokens for each test, and a client that sends them.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use callboard::access::{Digest, Secret};
use reqwest::{Client, Response};
use serde_json::{Value, json};
use tempfile::TempDir;

/// Longest time that anything may take.
pub const LIMIT: Duration = Duration::from_secs(10);

pub const CONFIG: &str = "partitions:\n  - name: default\n    queues:\n      - name: root\n        submitacl: '*'\n        queues:\n          - name: a\n";

/// Who sends a request: a token of each role, one that is not known, none at all.
pub const CALLERS: [&str; 5] = ["none", "unknown", "viewer", "shim", "operator"];

/// The program, untouched by the environment of the test.
pub fn program(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_callboard"));
    command.args(args).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    for name in ["RUST_LOG", "CALLBOARD_TOKEN", "CALLBOARD_TOKENS", "CALLBOARD_CA", "CALLBOARD_INSECURE"] {
        command.env_remove(name);
    }
    command
}

/// A running server with a token for each role; its files go with it.
pub struct Server {
    pub child: Child,
    pub ready: String,
    pub http: Client,
    pub dir: TempDir,
    pub log: PathBuf,
}

impl Server {
    /// With tokens.
    pub fn start(more: &[&str]) -> Server {
        let dir = tempfile::tempdir().expect("a directory");
        let tokens = dir.path().join("tokens");
        fs::write(&tokens, standard()).expect("written");
        Server::start_in(dir, &[&["--tokens", &tokens.display().to_string()], more].concat())
    }

    /// With these options, and a directory for its log.
    pub fn start_in(dir: TempDir, more: &[&str]) -> Server {
        let log = dir.path().join("log");
        let file = fs::File::create(&log).expect("made");
        let args = [&["serve", "--ephemeral", "--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0"], more].concat();
        let mut child = program(&args).stderr(file).env("RUST_LOG", "debug").spawn().expect("starts");
        let mut ready = String::new();
        BufReader::new(child.stdout.take().expect("piped")).read_line(&mut ready).expect("a line");
        assert!(ready.starts_with("callboard ready http="), "{}", fs::read_to_string(&log).unwrap_or_default());
        Server { child, ready: ready.trim().to_owned(), http: Client::new(), dir, log }
    }

    /// Address of a door: of `http` or `grpc`.
    pub fn address(&self, door: &str) -> String {
        let found = self.ready.split(' ').find_map(|word| word.strip_prefix(&format!("{door}=")));
        let found = found.expect("the door is open");
        if found.contains("://") { found.to_owned() } else { format!("http://{found}") }
    }

    pub async fn send(&self, caller: &str, method: &str, path: &str, body: Option<&Value>) -> Response {
        let url = format!("{}{path}", self.address("http"));
        let mut request = self.http.request(method.parse().expect("a method"), url).timeout(LIMIT);
        if caller != "none" {
            request = request.header("authorization", format!("Bearer {}", token(caller)));
        }
        if let Some(body) = body {
            request = request.json(body);
        }
        request.send().await.expect("an answer")
    }

    pub async fn status(&self, caller: &str, method: &str, path: &str) -> u16 {
        self.send(caller, method, path, None).await.status().as_u16()
    }

    /// Registers `rm-1`.
    pub async fn register(&self) {
        let body = json!({"rmID": "rm-1", "config": CONFIG});
        let response = self.send("operator", "POST", "/si/v1/rm", Some(&body)).await;
        assert_eq!(response.status(), 200, "{}", response.text().await.unwrap_or_default());
    }

    pub fn tokens(&self) -> PathBuf {
        self.dir.path().join("tokens")
    }

    /// Everything it logged.
    pub fn log(&self) -> String {
        fs::read_to_string(&self.log).expect("a log")
    }

    pub fn signal(&self, name: &str) {
        let sent = Command::new("kill").args([&format!("-{name}"), &self.child.id().to_string()]).status();
        assert!(sent.expect("kill runs").success());
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The token of a caller, the same in every test.
pub fn token(caller: &str) -> String {
    format!("cbt_secret-of-{caller}")
}

/// A line of the tokens file.
pub fn line(role: &str, caller: &str, more: &str) -> String {
    format!("{role} {} name={caller} {more}\n", Digest::of(&token(caller)))
}

/// One token for each role, and a shim's for `rm-2` alone.
pub fn standard() -> String {
    ["viewer", "shim", "operator"].map(|role| line(role, role, "")).concat()
        + &line("shim", "second", "rms=rm-2")
        + &line("shim", "configurer", "configures")
}

/// A file that holds the token of a caller.
pub fn token_file(dir: &Path, caller: &str) -> String {
    let file = dir.join(format!("token-{caller}"));
    fs::write(&file, Secret::given(&token(caller)).expect("a token").reveal()).expect("written");
    file.display().to_string()
}

/// Makes a certificate for this machine, and gives the files of certificate and key.
pub fn certificate(dir: &Path) -> [String; 2] {
    let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
    let made = rcgen::generate_simple_self_signed(names).expect("made");
    let files = ["tls.crt", "tls.key"].map(|name| dir.join(name).display().to_string());
    fs::write(&files[0], made.cert.pem()).expect("written");
    fs::write(&files[1], made.signing_key.serialize_pem()).expect("written");
    files
}

/// Asks until it is so.
pub async fn until<F: Future<Output = bool>>(mut so: impl FnMut() -> F) {
    let asked = async {
        while !so().await {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(LIMIT, asked).await.expect("in time");
}
