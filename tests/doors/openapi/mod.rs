//! The description of the HTTP doors against the program: what is described is there, and nothing else is.

use std::{
    io::{BufRead as _, BufReader},
    process::{Child, Command, Stdio},
};

use reqwest::{Client, redirect::Policy};
use serde_json::{Value, json};

struct Server(Child, String, tempfile::NamedTempFile);

impl Server {
    fn start() -> Server {
        let mut command = Command::new(env!("CARGO_BIN_EXE_callboard"));
        command.args(["serve", "--ephemeral", "--http", "127.0.0.1:0", "--grpc", "off"]);
        command.env_remove("CALLBOARD_TOKENS").stdout(Stdio::piped());
        let log = tempfile::NamedTempFile::new().expect("a file");
        command.stderr(log.reopen().expect("the file")).env_remove("RUST_LOG");
        let mut child = command.spawn().expect("starts");
        let mut ready = String::new();
        BufReader::new(child.stdout.take().expect("piped")).read_line(&mut ready).expect("a line");
        let address = ready.split(' ').find_map(|word| word.strip_prefix("http=")).expect("an address");
        Server(child, format!("http://{address}"), log)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

const METHODS: [&str; 5] = ["get", "post", "put", "delete", "patch"];

/// Nothing is at the path, or not for this method, in the words of either part of the doors.
async fn is_missing(response: reqwest::Response) -> bool {
    let status = response.status();
    if status == 405 {
        return true;
    }
    // Answers that go on for ever are there.
    if status != 404 {
        return false;
    }
    let text = response.text().await.expect("a body");
    text == "404 page not found\n" || text.contains("there is nothing at")
}

#[tokio::test]
async fn what_is_described_is_there_and_nothing_else() {
    let server = Server::start();
    let client = Client::builder().redirect(Policy::none()).build().unwrap();
    let register = json!({"rmID": "rm-1"});
    let registered = client.post(format!("{}/si/v1/rm", server.1)).json(&register).send().await.unwrap();
    assert_eq!(registered.status(), 200);
    let document = client.get(format!("{}/api/v1/openapi.json", server.1)).send().await.unwrap();
    assert_eq!(document.headers()["content-type"], "application/json");
    let document: Value = document.json().await.unwrap();
    assert_eq!(document["openapi"], "3.1.0");
    let mut asked = 0;
    for (path, described) in document["paths"].as_object().unwrap() {
        for method in METHODS {
            let described = described.get(method);
            // The end of the session would be the end of the test.
            if described.is_some() && method == "delete" {
                continue;
            }
            let mut url = format!("{}{path}", server.1);
            for parameter in described.and_then(|one| one["parameters"].as_array()).into_iter().flatten() {
                let name = parameter["name"].as_str().unwrap();
                let example = parameter["example"].as_str().unwrap_or_default();
                url = url.replace(&format!("{{{name}}}"), example);
            }
            let url = url.replace(['{', '}'], "x");
            let request = client.request(method.to_uppercase().parse().unwrap(), url);
            let response = request.header("content-type", "application/json").send().await.unwrap();
            assert_eq!(is_missing(response).await, described.is_none(), "{method} {path}");
            asked += 1;
        }
    }
    assert!(asked > 250, "{asked}");
    // Paths that were registered without being described.
    let log = std::fs::read_to_string(server.2.path()).unwrap();
    assert!(!log.contains("is not described"), "{log}");
}

#[tokio::test]
async fn the_page_is_there() {
    let server = Server::start();
    let page = reqwest::get(format!("{}/api/docs", server.1)).await.unwrap();
    assert_eq!(page.headers()["content-type"], "text/html; charset=utf-8");
    let policy = page.headers()["content-security-policy"].to_str().unwrap().to_owned();
    assert!(policy.starts_with("default-src 'none'") && policy.contains("connect-src 'self'"), "{policy}");
    assert!(page.text().await.unwrap().contains("/api/v1/openapi.json"));
}
