//! Pages that a browser shows beside Callboard's own: without tokens they read what dashboards read, and change nothing.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    net::TcpListener,
    thread,
};

use serde_json::Value;

use crate::{page::chromium::Browser, shim::server::Server};

const DRAIN: &str = "/api/v1/partition/default/resource/drain";

/// Sends a request with these headers; gives its status, its text and who may read it.
async fn ask(
    server: &Server,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> (u16, String, Option<String>) {
    let mut request = server.http.request(method.parse().expect("a method"), server.url(path)).body(body.to_owned());
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let answer = request.send().await.expect("an answer");
    let shared = answer.headers().get("access-control-allow-origin").map(|value| value.to_str().unwrap().to_owned());
    (answer.status().as_u16(), answer.text().await.expect("a text"), shared)
}

#[tokio::test]
async fn without_tokens_only_own_names_pages_and_json_are_taken() {
    let server = Server::registered(&[]).await;
    server.nodes(&["n1"]).await;
    let port = server.url("").rsplit_once(':').expect("a port").1.to_owned();
    let json = ("content-type", "application/json");
    let drain = r#"{"targets":"n1"}"#;
    // A name that was turned to this machine.
    for host in ["evil.example", "evil.example:80", "192.0.2.7"] {
        for path in ["/", "/ws/v1/clusters", "/api/v1/overview", "/si/v1/rm", "/debug/stack"] {
            let (status, text, shared) = ask(&server, "GET", path, &[("host", host)], "").await;
            assert_eq!((status, shared.filter(|_| !path.starts_with("/ws"))), (403, None), "{host} {path}");
            assert!(text.contains(&format!("not to \\\"{host}\\\"")) && text.contains("--allow-origin"), "{text}");
        }
    }
    let named = format!("localhost:{port}");
    assert_eq!(ask(&server, "GET", "/api/v1/overview", &[("host", &named)], "").await.0, 200);
    // A page of elsewhere.
    for origin in ["https://evil.example", "http://localhost:1", "null"] {
        let from = ("origin", origin);
        let (status, text, shared) = ask(&server, "POST", DRAIN, &[from, json], drain).await;
        assert_eq!((status, shared), (403, None), "{text}");
        assert!(text.contains(&format!("nothing from pages of \\\"{origin}\\\"")), "{text}");
        for path in ["/api/v1/overview", "/debug/fullstatedump", "/si/v1/rm/rm-1/stream", "/si/v1/rm/rm-1/ws"] {
            assert_eq!(ask(&server, "GET", path, &[from], "").await.0, 403, "{path}");
        }
        let asks =
            [from, ("access-control-request-method", "POST"), ("access-control-request-headers", "content-type")];
        let (status, _, shared) = ask(&server, "OPTIONS", DRAIN, &asks, "").await;
        assert_eq!((status, shared), (403, None));
        assert_eq!(ask(&server, "GET", "/ws/v1/clusters", &[from], "").await.2.as_deref(), Some("*"));
    }
    let own = server.url("");
    assert_eq!(ask(&server, "GET", "/api/v1/overview", &[("origin", &own)], "").await.0, 200);
    // What any page may send without being asked first.
    for kind in ["text/plain", "application/x-www-form-urlencoded"] {
        for (path, body) in [(DRAIN, drain), ("/si/v1/rm", r#"{"rmID":"rm-1"}"#)] {
            let (status, text, _) = ask(&server, "POST", path, &[("content-type", kind)], body).await;
            assert_eq!(status, 415, "{path} {text}");
        }
    }
    assert_eq!(ask(&server, "POST", "/api/v1/partition/default/resource/journal/1/cancel", &[], "").await.0, 415);
    // Trials change nothing.
    assert_eq!(ask(&server, "POST", "/ws/v1/validate-conf", &[("content-type", "text/plain")], "").await.0, 200);
    assert_ne!(ask(&server, "POST", "/api/v1/plan", &[], "partitions: []").await.0, 415);
    let (_, status) = server.get("/api/v1/partition/default/resource/status").await;
    assert!(!status.to_string().contains("\"drain\":\"0\""), "{status}");
    assert_eq!(ask(&server, "POST", DRAIN, &[json], drain).await.0, 200);
    let (_, metrics, shared) = ask(&server, "GET", "/ws/v1/metrics", &[], "").await;
    assert!(metrics.contains("callboard_requests_refused_total{door=\"http\",reason=\"origin\"}") && shared.is_none());
    // Changes alone.
    let (_, audit, _) = ask(&server, "GET", "/api/v1/audit", &[], "").await;
    let rows = audit.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    let refused: Vec<Value> = rows.filter(|row| row["outcome"] == "refused").collect();
    let of = |action: &str| refused.iter().find(|row| row["action"] == action && row["who"] == "anyone");
    let drains = of("POST /api/v1/partition/{partition}/resource/drain").unwrap_or_else(|| panic!("{refused:?}"));
    assert!(drains["count"].as_u64() >= Some(3) && drains["address"] == "127.0.0.1", "{drains}");
    assert!(of("GET /si/v1/rm/{rm}/ws").is_some() && of("GET /api/v1/overview").is_none(), "{refused:?}");
}

#[tokio::test]
async fn nobody_elsewhere_reads_but_what_dashboards_read() {
    let server = Server::registered(&[]).await;
    for (path, wanted) in [
        ("/ws/v1/clusters", Some("*")),
        ("/ws/v1/events/batch", Some("*")),
        ("/ws/v1/partition/nope/queues", Some("*")),
        ("/debug/stack", None),
        ("/debug/fullstatedump", None),
        ("/api/v1/overview", None),
        ("/api/v1/partition/default/usage/history?by=queue", None),
        ("/si/v1/rm", None),
    ] {
        assert_eq!(ask(&server, "GET", path, &[], "").await.2.as_deref(), wanted, "{path}");
    }
    assert_eq!(ask(&server, "POST", "/ws/v1/validate-conf", &[], "").await.2, None);
}

#[tokio::test]
async fn a_listed_origin_may_do_what_the_own_page_may() {
    let server = Server::start(&["--allow-origin", "https://board.example"]);
    server.register("rm-1", &[]).await;
    let from = ("origin", "https://board.example");
    let asks = [from, ("access-control-request-method", "POST")];
    let (status, _, shared) = ask(&server, "OPTIONS", DRAIN, &asks, "").await;
    assert_eq!((status, shared.as_deref()), (204, Some("https://board.example")));
    let json = ("content-type", "application/json");
    let (status, _, shared) = ask(&server, "POST", DRAIN, &[from, json], r#"{"targets":"n1"}"#).await;
    assert!(status != 403 && shared.as_deref() == Some("https://board.example"), "{status}");
    assert_eq!(ask(&server, "GET", "/api/v1/overview", &[("host", "board.example")], "").await.0, 200);
    assert_eq!(ask(&server, "GET", "/api/v1/overview", &[("origin", "https://evil.example")], "").await.0, 403);
    let refused = crate::access::rig::program(&["serve", "--ephemeral", "--allow-origin", "*"]).output().expect("runs");
    assert!(String::from_utf8_lossy(&refused.stderr).contains("is not an origin such as"), "{refused:?}");
    let named = ["serve", "--ephemeral", "--allow-origin", "ftp://us3r:pazz@h"];
    let refused = crate::access::rig::program(&named).output().expect("runs");
    let told = String::from_utf8_lossy(&refused.stderr);
    assert!(told.contains("is not an origin such as") && !told.contains("pazz"), "{told}");
}

/// A page of nothing, on a port of its own, for as long as the test runs.
fn elsewhere() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
    let url = format!("http://127.0.0.1:{}/", listener.local_addr().expect("an address").port());
    thread::spawn(move || {
        for connection in listener.incoming().map_while(Result::ok) {
            let lines = BufReader::new(&connection).lines().map_while(Result::ok);
            lines.take_while(|line| !line.is_empty()).count();
            let page = "<!doctype html><title>elsewhere</title><p>elsewhere";
            let length = page.len();
            let _ = write!(
                &connection,
                "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{page}"
            );
        }
    });
    url
}

/// What a page tries: `text` is what it read, `sent` that it could send without reading, `no` that it could not.
async fn tries(browser: &Browser, what: &str) -> Value {
    browser.run(&format!("return ({what}).catch(() => 'no')")).await
}

#[tokio::test]
async fn in_a_browser_another_page_controls_nothing() {
    let Some(browser) =
        Browser::start_with("another_page_controls_nothing", &["--host-resolver-rules=MAP evil.example 127.0.0.1"])
            .await
    else {
        return;
    };
    let page = elsewhere();
    let listed = Server::start(&["--allow-origin", page.trim_end_matches('/')]);
    listed.register("rm-1", &[]).await;
    let server = Server::registered(&[]).await;
    let mut stream = server.stream("?after=0").await;
    server.nodes(&["n1"]).await;
    assert_eq!(stream.told().await["node"]["accepted"][0]["nodeID"], "n1");
    let epoch = server.get("/si/v1/rm/rm-1").await.1["epoch"].clone();
    // Another port, and another host altogether.
    for host in ["127.0.0.1", "localhost"] {
        browser.open(&page.replace("127.0.0.1", host)).await;
        browser.shows("elsewhere").await;
        let get = |path: &str| format!("fetch('{}').then(a => a.text())", server.url(path));
        let post = |path: &str, kind: &str, body: &str| {
            format!(
                "fetch('{}', {{method: 'POST', mode: '{kind}', headers: {{'Content-Type': '{}'}}, body: '{body}'}}).then(() => 'sent')",
                server.url(path),
                if kind == "cors" { "application/json" } else { "text/plain" }
            )
        };
        let clusters = tries(&browser, &get("/ws/v1/clusters")).await;
        assert!(clusters.as_str().is_some_and(|text| text.starts_with("[{")), "{clusters}");
        for path in ["/api/v1/overview", "/debug/stack", "/debug/fullstatedump", "/ws/v1/fullstatedump", "/si/v1/rm"] {
            assert_eq!(tries(&browser, &get(path)).await, "no", "{host} {path}");
        }
        for kind in ["no-cors", "cors"] {
            let sent = if kind == "cors" { "no" } else { "sent" };
            assert_eq!(tries(&browser, &post(DRAIN, kind, r#"{"targets":"n1"}"#)).await, sent);
            assert_eq!(tries(&browser, &post("/si/v1/rm", kind, r#"{"rmID":"rm-1"}"#)).await, sent);
        }
        let end = format!("fetch('{}', {{method: 'DELETE'}}).then(() => 'sent')", server.url("/si/v1/rm/rm-1"));
        assert_eq!(tries(&browser, &end).await, "no");
        let socket = server.url("/si/v1/rm/rm-1/ws").replace("http:", "ws:");
        let open = format!(
            "new Promise((y, n) => {{ const s = new WebSocket('{socket}'); s.onopen = () => y('open'); s.onerror = n; }})"
        );
        assert_eq!(tries(&browser, &open).await, "no");
        // The kind of request that a browser sends without naming the page.
        for path in ["/si/v1/rm/rm-1/stream", "/si/v1/rm/rm-1/ws"] {
            let image = format!(
                "new Promise(y => {{ const i = new Image(); i.onload = i.onerror = () => y('sent'); i.src = '{}'; }})",
                server.url(path)
            );
            assert_eq!(tries(&browser, &image).await, "sent");
            let read = format!("fetch('{}', {{mode: 'no-cors'}}).then(() => 'sent')", server.url(path));
            assert_eq!(tries(&browser, &read).await, "sent");
        }
    }
    assert_eq!(server.get("/si/v1/rm/rm-1").await.1["epoch"], epoch, "nobody registered again");
    let (_, status) = server.get("/api/v1/partition/default/resource/status").await;
    assert!(!status.to_string().contains("elsewhere"), "{status}");
    server.nodes(&["n2"]).await;
    // The shim's stream is its own still, and n1 is not drained.
    loop {
        let line = stream.next().await;
        if line.get("node").is_some() {
            assert_eq!(line["node"]["accepted"][0]["nodeID"], "n2", "{line}");
            break;
        }
        assert!(line.get("closing").is_none(), "{line}");
    }
    // A name that is turned to this machine is no way in.
    browser.open(&server.url("/").replace("127.0.0.1", "evil.example")).await;
    browser.shows("answers to localhost and its own address only").await;
    // A listed origin.
    browser.open(&page).await;
    let drain = format!(
        "fetch('{}', {{method: 'POST', headers: {{'Content-Type': 'application/json'}}, body: '{{\"targets\":\"n1\"}}'}}).then(a => a.text())",
        listed.url(DRAIN)
    );
    assert_ne!(tries(&browser, &drain).await, "no");
    let overview = tries(&browser, &format!("fetch('{}').then(a => a.text())", listed.url("/api/v1/overview"))).await;
    assert!(overview.as_str().is_some_and(|text| text.starts_with('{')), "{overview}");
    browser.close().await;
}
