//! The description of the HTTP doors against the program: what is described is there, and nothing else is.

use reqwest::{Client, redirect::Policy};
use serde_json::{Value, json};

use crate::common::Program;

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
    let server = Program::start(&["--grpc", "off"]);
    let address = server.address("http");
    let client = Client::builder().redirect(Policy::none()).build().unwrap();
    let register = json!({"rmID": "rm-1"});
    let registered = client.post(format!("{address}/si/v1/rm")).json(&register).send().await.unwrap();
    assert_eq!(registered.status(), 200);
    let document = client.get(format!("{address}/api/v1/openapi.json")).send().await.unwrap();
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
            let mut url = format!("{address}{path}");
            for parameter in described.and_then(|one| one["parameters"].as_array()).into_iter().flatten() {
                let name = parameter["name"].as_str().unwrap();
                let example = parameter["example"].as_str().unwrap_or_default();
                url = url.replace(&format!("{{{name}}}"), example);
            }
            let url = url.replace(['{', '}'], "x");
            // What nobody can mean is answered as described too.
            if let Some(described) = described.filter(|_| method == "get" && !url.ends_with("/ws")) {
                let answered = client.get(format!("{url}?no-such=1")).send().await.unwrap().status();
                assert!(described["responses"].get(answered.as_str()).is_some(), "{method} {path}: {answered}");
            }
            let request = client.request(method.to_uppercase().parse().unwrap(), url);
            let response = request.header("content-type", "application/json").send().await.unwrap();
            assert_eq!(is_missing(response).await, described.is_none(), "{method} {path}");
            asked += 1;
        }
    }
    assert!(asked > 250, "{asked}");
}

#[tokio::test]
async fn the_page_is_there() {
    let server = Program::start(&["--grpc", "off"]);
    let page = reqwest::get(format!("{}/api/docs", server.address("http"))).await.unwrap();
    assert_eq!(page.headers()["content-type"], "text/html; charset=utf-8");
    let policy = page.headers()["content-security-policy"].to_str().unwrap().to_owned();
    assert!(policy.starts_with("default-src 'none'") && policy.contains("connect-src 'self'"), "{policy}");
    assert!(page.text().await.unwrap().contains("/api/v1/openapi.json"));
}
