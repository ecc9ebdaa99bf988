//! Router, headers and compression (REST 1), on a server without partitions.

use std::{io::Read, sync::Arc, time::Duration};

use callboard::actors::{directory::Listing, topology::Registration};

use super::server::{Answer, Server};

fn empty() -> Server {
    Server::start(Listing::default())
}

fn cors(answer: &Answer) -> bool {
    answer.header("access-control-allow-origin") == Some("*")
        && answer.header("access-control-allow-headers") == Some("X-Requested-With,Content-Type,Accept,Origin")
}

#[actix::test]
async fn json_headers() {
    // REST 1.3: on answers and on errors.
    let server = empty();
    for (path, status, body) in [
        ("/ws/v1/clusters", 200, "[]\n"),
        ("/ws/v1/partitions", 200, "[]\n"),
        ("/ws/v1/scheduler/node-utilizations", 200, "null\n"),
        ("/ws/v1/history/apps", 200, "[]\n"),
        ("/ws/v1/history/containers", 200, "[]\n"),
        (
            "/ws/v1/partition/nope/queues",
            404,
            "{\"status_code\":404,\"message\":\"Partition not found\",\"description\":\"Partition not found\"}\n",
        ),
        (
            "/ws/v1/scheduler/healthcheck",
            404,
            "{\"status_code\":404,\"message\":\"Health check is not available\",\"description\":\"Health check is not available\"}\n",
        ),
    ] {
        let answer = server.get(path).await;
        assert_eq!((answer.status, answer.text()), (status, body), "{path}");
        assert!(cors(&answer), "{path}");
        assert_eq!(answer.header("content-type"), Some("application/json; charset=UTF-8"));
        assert_eq!(answer.header("access-control-allow-methods"), Some("GET, OPTIONS"));
        assert_eq!(answer.header("content-length"), Some(body.len().to_string().as_str()));
    }
    server.stop().await;
}

#[actix::test]
async fn other_methods() {
    // REST 1.2
    let server = empty();
    for method in ["POST", "PUT", "DELETE", "PATCH"] {
        let answer = server.request(method, "/ws/v1/clusters", &[], "").await;
        assert_eq!((answer.status, answer.text()), (405, "Method Not Allowed\n"), "{method}");
        assert_eq!(answer.header("allow"), Some("GET, OPTIONS"));
        assert_eq!(answer.header("content-type"), Some("text/plain; charset=utf-8"));
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
        assert!(!cors(&answer));
    }
    let head = server.request("HEAD", "/ws/v1/clusters", &[], "").await;
    assert_eq!((head.status, head.text(), head.header("content-length")), (405, "", Some("19")));
    let options = server.request("OPTIONS", "/ws/v1/validate-conf", &[], "").await;
    assert_eq!((options.status, options.text(), options.header("allow")), (200, "", Some("OPTIONS, POST")));
    let unknown = server.request("OPTIONS", "/ws/v1/nope", &[], "").await;
    assert_eq!((unknown.status, unknown.text()), (404, "404 page not found\n"));
    server.stop().await;
}

#[actix::test]
async fn preflights() {
    // REST quirk M: a page of another origin may ask, with a token too, as it may read the answer.
    let server = empty();
    for (path, methods) in [("/ws/v1/clusters", "GET, OPTIONS"), ("/ws/v1/partitions", "GET, OPTIONS")] {
        let asked = ["Origin: http://elsewhere", "Access-Control-Request-Headers: authorization"];
        let answer = server.request("OPTIONS", path, &asked, "").await;
        assert_eq!((answer.status, answer.text(), answer.header("allow")), (200, "", Some(methods)));
        assert_eq!(answer.header("access-control-allow-origin"), Some("*"));
        assert_eq!(answer.header("access-control-allow-methods"), Some(methods));
        let headers = "X-Requested-With,Content-Type,Accept,Origin,Authorization";
        assert_eq!(answer.header("access-control-allow-headers"), Some(headers));
    }
    for path in ["/ws/v1/nope", "/ws/v1/validate-conf", "/debug/stack"] {
        assert!(!cors(&server.request("OPTIONS", path, &[], "").await), "{path}");
    }
    server.stop().await;
}

#[actix::test]
async fn redirects() {
    // REST 1.2 and route 29
    let server = empty();
    for (path, location) in [
        ("/ws/v1/clusters/", "/ws/v1/clusters"),
        ("/ws/v1/clusters/?x=1&y=%3c", "/ws/v1/clusters?x=1&y=%3c"),
        ("/WS/V1/Clusters", "/ws/v1/clusters"),
        ("//ws/v1//clusters", "/ws/v1/clusters"),
        ("/debug/pprof", "/debug/pprof/"),
        ("/ws/v1/stack", "/debug/stack"),
        ("/%77s/v1/stack", "/debug/stack"),
        ("/ws/v1/fullstatedump?x=1", "/debug/fullstatedump?x=1"),
    ] {
        let answer = server.get(path).await;
        assert_eq!((answer.status, answer.header("location")), (301, Some(location)), "{path}");
        let shown = location.replace('&', "&amp;");
        assert_eq!(answer.text(), format!("<a href=\"{shown}\">Moved Permanently</a>.\n\n"));
        assert_eq!(answer.header("content-type"), Some("text/html; charset=utf-8"));
        assert!(!cors(&answer));
    }
    let post = server.request("POST", "/ws/v1/validate-conf/", &[], "").await;
    assert_eq!((post.status, post.header("location"), post.text()), (307, Some("/ws/v1/validate-conf"), ""));
    assert_eq!((post.header("content-length"), post.header("content-type")), (Some("0"), None));
    server.stop().await;
}

#[actix::test]
async fn invalid_escape_in_the_path() {
    // REST 1.2: the connection is closed.
    let server = empty();
    let answer = server.get("/ws/v1/partition/default/queue/root%zz").await;
    assert_eq!((answer.status, answer.text()), (400, "400 Bad Request"));
    assert_eq!(answer.header("content-type"), Some("text/plain; charset=utf-8"));
    assert_eq!(answer.header("connection"), Some("close"));
    assert!(!cors(&answer));
    server.stop().await;
}

#[actix::test]
async fn compression() {
    // REST 1.4: from 1,400 bytes on; quirk A: once, also for metrics.
    let server = empty();
    let gzip = ["Accept-Encoding: br, GZIP;q=0.5"];
    let small = server.request("GET", "/ws/v1/clusters", &gzip, "").await;
    assert_eq!((small.header("content-encoding"), small.header("vary"), small.text()), (None, None, "[]\n"));
    let plain = server.get("/ws/v1/metrics").await;
    assert!(plain.body.len() >= 1400);
    assert_eq!(plain.header("content-encoding"), None);
    assert_eq!(plain.header("content-type"), Some("text/plain; version=0.0.4; charset=utf-8; escaping=underscores"));
    assert!(!cors(&plain) && plain.header("x-content-type-options").is_none());
    let packed = server.request("GET", "/ws/v1/metrics", &gzip, "").await;
    assert_eq!((packed.header("content-encoding"), packed.header("vary")), (Some("gzip"), Some("Accept-Encoding")));
    let mut text = String::new();
    flate2::read::GzDecoder::new(&packed.body[..]).read_to_string(&mut text).unwrap();
    assert!(text.contains("# TYPE yunikorn_scheduler_node gauge\n"), "{text}");
    let refused = server.request("GET", "/ws/v1/metrics", &["Accept-Encoding: gzip;q=0"], "").await;
    assert_eq!(refused.header("content-encoding"), None);
    server.stop().await;
}

#[actix::test]
async fn configuration_without_a_resource_manager() {
    // REST 5.14, routes 3 and 4
    let server = empty();
    let json = server.request("GET", "/ws/v1/config", &["Accept: application/json"], "").await;
    assert_eq!(json.text(), "{\"DeadlockDetectionEnabled\":false,\"DeadlockTimeoutSeconds\":60}");
    assert_eq!(json.header("content-type"), Some("application/json; charset=UTF-8"));
    for accept in ["Accept: application/json, */*", "Accept: */*"] {
        let yaml = server.request("GET", "/ws/v1/config", &[accept], "").await;
        assert_eq!(yaml.text(), "deadlockdetectionenabled: false\ndeadlocktimeoutseconds: 60\n");
        assert_eq!(yaml.header("content-type"), Some("application/x-yaml; charset=UTF-8"));
        assert!(cors(&yaml));
    }
    assert_eq!(server.get("/ws/v1/config?rm=nobody").await.status, 404);
    server.stop().await;
}

#[actix::test]
async fn validates_configurations() {
    // REST 4, route 4; section 8, row 40
    let server = empty();
    for (body, allowed, reason) in [
        ("", true, None),
        ("partitions: []", true, None),
        (
            "partitions:\n  - name: default\n    queues:\n      - name: root\n        queues:\n          - name: a!b\n",
            false,
            Some(
                "invalid queue name, max 64 characters consisting of alphanumeric characters and '-', '_', '#', '@', '/', ':' allowed",
            ),
        ),
        (
            "partitions:\n  - name: default\n    bogus: 1\n",
            false,
            Some("yaml: unmarshal errors:\n  line 3: field bogus not found in type configs.PartitionConfig"),
        ),
    ] {
        let answer = server.request("POST", "/ws/v1/validate-conf", &["Content-Type: whatever/it-is"], body).await;
        assert_eq!(answer.status, 200);
        assert_eq!(answer.header("access-control-allow-origin"), None, "only GET is for pages of other origins");
        let expected = match reason {
            None => serde_json::json!({ "allowed": allowed }),
            Some(reason) => serde_json::json!({ "allowed": allowed, "reason": reason }),
        };
        assert_eq!(answer.json(), expected, "{body}");
    }
    server.stop().await;
}

#[actix::test]
async fn events_are_reachable() {
    // REST 6: the batch has the common headers; rows 30 and 44.
    let server = empty();
    let answer = server.get("/ws/v1/events/batch").await;
    assert_eq!(answer.json()["EventRecords"], serde_json::Value::Null);
    assert!(cors(&answer));
    let bad = server.get("/ws/v1/events/batch?count=+5").await;
    assert_eq!(bad.status, 400);
    assert_eq!(bad.json()["message"], "strconv.ParseUint: parsing \" 5\": invalid syntax");
    assert_eq!(server.get("/ws/v1/events/batch?count=%zz").await.status, 200);
    assert_eq!(server.get("/ws/v1/events/stream?count=abc").await.status, 400);
    server.stop().await;
}

#[actix::test]
async fn debugging() {
    // REST 4, routes 26 to 28
    let server = empty();
    let stack = server.get("/debug/stack").await;
    assert!(stack.text().contains("thread "), "{}", stack.text());
    assert!(!cors(&stack), "only GET of /ws/v1 is for pages of other origins");
    assert_eq!(server.get("/debug/pprof/").await.header("content-type"), Some("text/html; charset=utf-8"));
    assert_eq!(server.get("/debug/pprof/cmdline").await.status, 200);
    assert_eq!(server.get("/debug/pprof/heap").await.status, 404);
    let dump = server.get("/debug/fullstatedump").await;
    assert!(dump.text().starts_with("{\n  \"timestamp\": ") && dump.text().ends_with("}\n"), "{}", dump.text());
    assert_eq!(dump.json()["rmDiagnostics"]["empty"], "Resource Manager did not register callback");
    assert_eq!(dump.json()["logLevel"], "info");
    server.stop().await;
}

#[actix::test]
async fn the_clock() {
    // OPS-010: the first check at once; OPS-001: the first sample after a minute.
    let server = empty();
    tokio::time::pause();
    let _watch = callboard::http::ws_v1::watch::start(server.state.clone()).await;
    assert!(server.state.health.last().is_some());
    tokio::time::sleep(Duration::from_secs(59)).await;
    assert_eq!(server.state.history.apps().len(), 0);
    tokio::time::sleep(Duration::from_secs(61)).await;
    assert_eq!(server.state.history.containers().len(), 2);
    server.stop().await;
}

#[actix::test]
async fn the_check_interval() {
    // OPS-010: a changed interval starts anew; zero and less switch the checks off, and the last result stays.
    let server = empty();
    let register = async |interval: &str| {
        let extra = [("health.checkInterval".to_owned(), interval.to_owned())].into();
        let registration = Registration { rm: "rm-1".into(), extra, ..Registration::default() };
        server.state.topology.register(registration).await.unwrap();
    };
    register("5s").await;
    tokio::time::pause();
    let _watch = callboard::http::ws_v1::watch::start(server.state.clone()).await;
    let mut runs = Vec::new();
    let mut pass = async |seconds: u64| {
        for _ in 0..seconds * 10 {
            tokio::time::sleep(Duration::from_millis(100)).await;
            let result = server.state.health.last().unwrap();
            if runs.last().is_none_or(|last| !Arc::ptr_eq(last, &result)) {
                runs.push(result);
            }
        }
        runs.len()
    };
    assert_eq!(pass(4).await, 1);
    assert_eq!(pass(7).await, 3);
    register("0s").await;
    assert_eq!(pass(60).await, 3);
    register("20s").await;
    assert_eq!(pass(19).await, 3);
    assert_eq!(pass(3).await, 4);
    server.stop().await;
}
