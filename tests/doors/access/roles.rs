//! Every role at every kind of endpoint.

use serde_json::{Value, json};

use crate::access::rig::{CALLERS, CONFIG, Server};

/// What the callers are answered: 401 for nobody known, 403 below the role, else the number given.
fn expected(role: &str, answer: u16) -> [u16; 5] {
    let least = CALLERS.iter().position(|caller| *caller == role).expect("a role");
    std::array::from_fn(|caller| match caller {
        0 | 1 if least > 1 => 401,
        _ if caller < least => 403,
        _ => answer,
    })
}

#[tokio::test]
async fn every_role_at_every_kind_of_endpoint() {
    let server = Server::start(&[]);
    server.register().await;
    for (role, method, path, answer) in [
        ("none", "GET", "/healthz", 200),
        ("none", "HEAD", "/healthz", 200),
        ("none", "OPTIONS", "/ws/v1/clusters", 200),
        ("viewer", "GET", "/ws/v1/clusters", 200),
        ("viewer", "GET", "/ws/v1/metrics", 200),
        ("viewer", "GET", "/ws/v1/partition/nope/queues", 404),
        ("viewer", "GET", "/ws/v1/scheduler/healthcheck", 200),
        ("viewer", "POST", "/ws/v1/validate-conf", 200),
        ("viewer", "POST", "/api/v1/plan", 200),
        ("viewer", "POST", "/api/v1/whatif", 400),
        ("viewer", "DELETE", "/ws/v1/clusters", 405),
        ("viewer", "GET", "/WS/v1/clusters", 301),
        ("viewer", "GET", "/nowhere", 404),
        ("viewer", "GET", "/api/v1/events", 200),
        ("viewer", "GET", "/api/v1/partition/default/resource/status", 200),
        ("viewer", "GET", "/api/v1/partition/default/demand", 200),
        ("operator", "POST", "/api/v1/partition/default/resource/drain", 400),
        ("operator", "POST", "/api/v1/partition/default/resource/undrain", 400),
        ("operator", "POST", "/api/v1/partition/default/resource/journal/7/cancel", 404),
        ("operator", "GET", "/debug/stack", 200),
        ("operator", "GET", "/%64ebug/fullstatedump", 200),
        ("operator", "GET", "/debug/pprof/", 200),
        ("shim", "GET", "/si/v1/rm", 200),
        ("shim", "GET", "/si/v1/rm/rm-1", 200),
        ("shim", "POST", "/si/v1/rm", 400),
        ("shim", "POST", "/si/v1/rm/rm-1/nodes", 400),
        ("shim", "POST", "/si/v1/rm/rm-1/answers", 400),
        ("shim", "GET", "/si/v1/rm/rm-1/ws", 400),
        ("shim", "GET", "/si/v1/rm/rm-1/stream?after=9", 400),
        ("operator", "PUT", "/si/v1/rm/rm-1/configuration", 400),
        ("shim", "DELETE", "/si/v1/rm/nope", 404),
    ] {
        for (caller, status) in CALLERS.into_iter().zip(expected(role, answer)) {
            let client = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).build().unwrap();
            let server = &server;
            let sent = client.request(method.parse().unwrap(), format!("{}{path}", server.address("http")));
            let sent = if caller == "none" { sent } else { sent.bearer_auth(crate::access::rig::token(caller)) };
            let response = sent.send().await.unwrap();
            assert_eq!(response.status().as_u16(), status, "{caller} {method} {path}");
            refusal(response, path, role).await;
        }
    }
    let dump = server.send("operator", "GET", "/debug/fullstatedump", None).await.text().await.unwrap();
    assert!(dump.contains("\"partitions\"") && !dump.contains("secret-of") && !dump.contains("sha256"));
    // Nothing that was sent is anywhere in the log.
    let log = server.log();
    assert!(log.contains("this needs the role operator") && !log.contains("secret-of"), "{log}");
}

/// A refusal says so in the words of its door.
async fn refusal(response: reqwest::Response, path: &str, role: &str) {
    let status = response.status().as_u16();
    if ![401, 403].contains(&status) {
        assert!(!response.headers().contains_key("www-authenticate"));
        return;
    }
    let challenge = response.headers()["www-authenticate"].to_str().unwrap().to_owned();
    assert!(challenge.starts_with("Bearer realm=\"callboard\""), "{challenge}");
    let kind = response.headers()["content-type"].to_str().unwrap().to_owned();
    let body: Value = response.json().await.unwrap();
    let text = if path.starts_with("/ws/v1") || path.starts_with("/debug") || path.starts_with("/%64ebug") {
        assert_eq!((&*kind, &body["status_code"]), ("application/json; charset=UTF-8", &json!(status)));
        body["message"].as_str().unwrap()
    } else {
        assert_eq!((&*kind, &body["status"]), ("application/problem+json", &json!(status)));
        body["detail"].as_str().unwrap()
    };
    if status == 403 {
        assert!(text.contains(role) && challenge.contains(&format!("scope=\"{role}\"")), "{text} {challenge}");
    } else {
        assert!(text.contains("token"), "{text}");
    }
}

#[tokio::test]
async fn other_forms_of_authorization_are_none() {
    let server = Server::start(&[]);
    let url = format!("{}/ws/v1/clusters", server.address("http"));
    let operator = crate::access::rig::token("operator");
    for header in ["", "Bearer", "Bearer ", "Basic b3A6", &operator, "Bearer cbt_secret-of-operator x", "Token x"] {
        let sent = server.http.get(&url).header("authorization", header).send().await.unwrap();
        assert_eq!(sent.status(), 401, "{header:?}");
    }
    let lower = server.http.get(&url).header("authorization", format!("bearer  {operator}")).send().await.unwrap();
    assert_eq!(lower.status(), 200);
    let query = server.http.get(format!("{url}?access_token={operator}")).send().await.unwrap();
    assert_eq!(query.status(), 401, "addresses end up in logs");
}

#[tokio::test]
async fn a_shim_acts_for_its_own_resource_managers_only() {
    let server = Server::start(&[]);
    server.register().await;
    let other = json!({"rmID": "rm-1", "config": CONFIG});
    let own = json!({"rmID": "rm-2", "config": CONFIG});
    assert_eq!(server.send("second", "POST", "/si/v1/rm", Some(&own)).await.status(), 200);
    for (method, path, body) in [
        ("POST", "/si/v1/rm", Some(&other)),
        ("POST", "/si/v1/rm/rm-1/nodes", Some(&own)),
        ("POST", "/si/v1/rm/rm%2D1/nodes", None),
        ("GET", "/si/v1/rm/rm-1", None),
        ("GET", "/si/v1/rm/rm-1/stream", None),
        ("DELETE", "/si/v1/rm/rm-1", None),
    ] {
        let refused = server.send("second", method, path, body).await;
        assert_eq!(refused.status(), 403, "{method} {path}");
        let body: Value = refused.json().await.unwrap();
        let expected = "the token \"second\" may not act for resource manager \"rm-1\", only for rm-2";
        assert_eq!(body["detail"], expected, "{method} {path}");
    }
    let known: Value = server.send("second", "GET", "/si/v1/rm", None).await.json().await.unwrap();
    assert_eq!((known.as_array().unwrap().len(), &known[0]["rmID"]), (1, &json!("rm-2")));
    assert_eq!(server.status("second", "GET", "/si/v1/rm/rm-2").await, 200);
    assert_eq!(server.status("second", "DELETE", "/si/v1/rm/rm-2").await, 200);
}

#[tokio::test]
async fn a_shim_that_may_configure_does() {
    let server = Server::start(&[]);
    server.register().await;
    let body = json!({"rmID": "rm-1", "config": CONFIG});
    let put = async |caller| server.send(caller, "PUT", "/si/v1/rm/rm-1/configuration", Some(&body)).await;
    assert_eq!(put("configurer").await.status(), 200);
    assert_eq!(put("operator").await.status(), 200);
    let refused: Value = put("shim").await.json().await.unwrap();
    assert!(refused["detail"].as_str().unwrap().contains("\"configures\""), "{refused}");
}

#[tokio::test]
async fn without_tokens_nobody_is_asked() {
    let server = Server::start_in(tempfile::tempdir().unwrap(), &[]);
    server.register().await;
    for (method, path) in [("GET", "/debug/stack"), ("GET", "/si/v1/rm/rm-1"), ("GET", "/ws/v1/clusters")] {
        for caller in CALLERS {
            assert_eq!(server.status(caller, method, path).await, 200, "{caller} {path}");
        }
    }
}
