//! A server with tokens for each test, and a client that sends them.

use std::{
    fs,
    path::{Path, PathBuf},
};

use callboard::access::{Digest, Secret};
use reqwest::{Client, Response};
use serde_json::{Value, json};
use sha2::Digest as _;
use tempfile::TempDir;

pub use crate::common::{LIMIT, command as program, until};
use crate::common::{Program, serve};

pub const CONFIG: &str = "partitions:\n  - name: default\n    queues:\n      - name: root\n        submitacl: '*'\n        queues:\n          - name: a\n";

/// Who sends a request: a token of each role, one that is not known, none at all.
pub const CALLERS: [&str; 5] = ["none", "unknown", "viewer", "shim", "operator"];

/// A running server with a token for each role; its files go with it.
pub struct Server {
    pub program: Program,
    pub http: Client,
    pub dir: TempDir,
}

impl Server {
    /// With tokens.
    pub fn start(more: &[&str]) -> Server {
        let dir = tempfile::tempdir().expect("a directory");
        let tokens = dir.path().join("tokens");
        fs::write(&tokens, standard()).expect("written");
        Server::start_in(dir, &[&["--tokens", &tokens.display().to_string()], more].concat())
    }

    /// With these options, and a directory for its files.
    pub fn start_in(dir: TempDir, more: &[&str]) -> Server {
        let mut command = serve(more);
        command.env("RUST_LOG", "debug");
        let program = Program::try_start(command).unwrap_or_else(|why| panic!("{why}"));
        Server { program, http: Client::new(), dir }
    }

    /// Address of a door: of `http` or `grpc`.
    pub fn address(&self, door: &str) -> String {
        self.program.address(door)
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
        self.program.log()
    }

    pub fn signal(&self, name: &str) {
        self.program.signal(name);
    }
}

/// The token of a caller, the same in every test.
pub fn token(caller: &str) -> String {
    format!("cbt_secret-of-{caller}")
}

/// The checksum of [`CONFIG`].
pub fn checksum() -> String {
    sha2::Sha256::digest(CONFIG).iter().map(|byte| format!("{byte:02X}")).collect()
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
