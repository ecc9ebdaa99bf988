//! API sections 1 and 3 over HTTP.

use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
    time::{Duration, Instant},
};

use serde_json::json;

use crate::{
    common,
    shim::server::{Lines, Server, command},
};

#[tokio::test]
async fn a_session_from_registration_to_its_end() {
    let server = Server::registered(&[]).await;
    let mut stream = server.stream("?after=0").await;
    server.nodes(&["n1", "n2"]).await;
    assert_eq!(stream.next().await, json!({"seq": 1, "node": {"accepted": [{"nodeID": "n1"}, {"nodeID": "n2"}]}}));

    let app = json!({"rmID": "rm-1", "new": [
        {"applicationID": "app-1", "queueName": "root.a", "ugi": {"user": "u", "groups": ["g"]}}
    ]});
    assert_eq!(server.send("POST", "/si/v1/rm/rm-1/applications", &app).await.0, 202);
    assert_eq!(stream.told().await["application"]["accepted"][0]["applicationID"], "app-1");
    let ask = json!({"allocations": [{"allocationKey": "k1", "applicationID": "app-1",
        "resourcePerAlloc": {"resources": {"memory": {"value": 10}}}}]});
    assert_eq!(server.send("POST", "/si/v1/rm/rm-1/allocations", &ask).await.0, 202);
    let mut new = stream.next().await;
    while new["allocation"]["new"].is_null() {
        new = stream.next().await;
    }
    let new = &new["allocation"]["new"][0];
    assert_eq!(new["allocationKey"], "k1");
    assert_eq!(new["resourcePerAlloc"], json!({"resources": {"memory": {"value": "10"}}}));
    assert_eq!(new["partitionName"], "[rm-1]default", "R4.6, SEEDS S36");

    let (status, info) = server.get("/si/v1/rm/rm-1").await;
    assert_eq!(status, 200);
    assert_eq!((&info["state"], &info["epoch"]), (&json!("Running"), &json!(1)));
    assert_eq!(info["partitions"], json!(["[rm-1]default"]));
    assert_eq!(info["streams"][0]["door"], "http");
    assert_eq!(server.get("/si/v1/rm").await.1[0]["rmID"], "rm-1");

    for _ in 0..2 {
        assert_eq!(server.delete("/si/v1/rm/rm-1").await, (200, json!({})), "DELETE is idempotent");
    }
    let mut last = stream.next().await;
    while last["closing"].is_null() {
        last = stream.next().await;
    }
    assert_eq!(last["closing"]["status"], 409);
    assert!(stream.ended().await);
    let (status, refused) = server.send("POST", "/si/v1/rm/rm-1/nodes", &json!({})).await;
    assert_eq!(status, 409, "{refused}");
    let (status, info) = server.get("/si/v1/rm/rm-1").await;
    assert_eq!((status, &info["state"]), (200, &json!("Stopped")));
    server.register("rm-1", &[]).await;
    assert_eq!(server.get("/si/v1/rm/rm-1").await.1["epoch"], 2);
}

#[tokio::test]
async fn a_stream_resumes_and_a_second_one_replaces_it() {
    let server = Server::registered(&[]).await;
    server.nodes_in_turn(&["n1", "n2", "n3"]).await;
    let mut first = server.stream("").await;
    assert_eq!(first.up_to(3).await.len(), 3, "without after: from the oldest");
    let mut second = server.stream("?after=1").await;
    assert_eq!(second.up_to(3).await[0]["seq"], 2);
    let closing = first.told().await;
    assert_eq!(closing["closing"]["status"], 409);
    assert!(closing["closing"]["detail"].as_str().is_some_and(|detail| detail.contains("another stream")));
    assert!(first.ended().await);
}

#[tokio::test]
async fn server_sent_events_carry_numbers() {
    let server = Server::registered(&[]).await;
    server.nodes_in_turn(&["n1", "n2"]).await;
    let open = || server.http.get(server.url("/si/v1/rm/rm-1/stream?after=0")).header("accept", "text/event-stream");
    let response = open().send().await.expect("an answer");
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    let mut lines = Lines::of(response);
    assert_eq!(lines.text().await.as_deref(), Some("id: 1"));
    assert!(lines.text().await.is_some_and(|line| line.starts_with("data: {\"seq\":1,")));
    // The client comes back to the same address with what it has.
    let mut resumed = Lines::of(open().header("last-event-id", "1").send().await.expect("an answer"));
    assert_eq!(resumed.text().await.as_deref(), Some("id: 2"));
    while lines.text().await.expect("the last word") != "event: closing" {}
    assert!(lines.text().await.is_some_and(|line| line.starts_with("data: {\"closing\":{\"status\":409")));
}

#[tokio::test]
async fn a_peer_that_closed_its_connection_is_noticed_at_once() {
    let server = Server::registered(&[("rm.gracePeriod", "1ms")]).await;
    let address = server.url("").trim_start_matches("http://").to_owned();
    let mut peer = TcpStream::connect(&address).expect("connected");
    write!(peer, "GET /si/v1/rm/rm-1/stream?after=0 HTTP/1.1\r\nHost: {address}\r\n\r\n").expect("sent");
    let mut head = [0; 12];
    peer.read_exact(&mut head).expect("an answer");
    assert_eq!(&head, b"HTTP/1.1 200");
    server.until(|info| info["state"] == "Running" && info["streams"][0]["door"] == "http").await;
    drop(peer);
    let lost = Instant::now();
    server.until(|info| info["state"] == "Paused").await;
    // Long before the next sign of life, which comes each 10 s, finds nobody.
    assert!(lost.elapsed() < Duration::from_secs(8), "{:?}", lost.elapsed());
    // It comes back where it was.
    server.nodes(&["n1"]).await;
    let mut stream = server.stream("?after=0").await;
    assert_eq!(stream.next().await["seq"], 1);
    assert_eq!(server.until(|info| info["state"] == "Running").await["streams"][0]["door"], "http");
}

#[tokio::test]
async fn what_was_dropped_is_gone_and_what_never_was_is_invalid() {
    // Events would be lines of their own, each second.
    let server = Server::start(&["--set", "event.trackingEnabled=false"]);
    server.register("rm-1", &[("rm.bufferedCallbacks", "2")]).await;
    let mut stream = server.stream("?after=0").await;
    for (n, id) in ["n1", "n2", "n3", "n4"].iter().enumerate() {
        server.nodes(&[id]).await;
        stream.up_to(n as u64 + 1).await;
        server.until(|info| info["deliveredSequence"] == n + 1).await;
    }
    let (status, gone) = server.get("/si/v1/rm/rm-1/stream?after=0").await;
    assert_eq!(status, 410, "{gone}");
    let (status, beyond) = server.get("/si/v1/rm/rm-1/stream?after=9").await;
    assert_eq!(status, 400, "{beyond}");
    server.nodes(&["n5"]).await;
    assert_eq!(stream.next().await["seq"], 5, "refused streams replace nothing");
}

#[tokio::test]
async fn what_is_not_read_holds_up_placements_and_requests_and_ends_no_session() {
    // R1.23, R1.25
    let server = Server::registered(&[("rm.bufferedCallbacks", "100")]).await;
    let room = json!({"resources": {"memory": {"value": "100000"}}});
    let body = json!({"nodes": [{"nodeID": "n1", "action": "CREATE", "schedulableResource": room}]});
    assert_eq!(server.send("POST", "/si/v1/rm/rm-1/nodes", &body).await.0, 202);
    let body =
        json!({"new": [{"applicationID": "app-1", "queueName": "root.a", "ugi": {"user": "u", "groups": ["g"]}}]});
    assert_eq!(server.send("POST", "/si/v1/rm/rm-1/applications", &body).await.0, 202);
    let send = async |from: usize, to: usize, node: &str| {
        let one = |n: usize| {
            json!({"allocationKey": format!("k{n}"), "applicationID": "app-1", "nodeID": node,
                "resourcePerAlloc": {"resources": {"memory": {"value": 1}}}})
        };
        let body = json!({"allocations": (from..to).map(one).collect::<Vec<_>>()});
        server.send("POST", "/si/v1/rm/rm-1/allocations", &body).await
    };
    // Placements stop at half.
    assert_eq!(send(0, 500, "").await.0, 202);
    server.until(|info| info["unread"].is_string()).await;
    // What comes back stops at three quarters.
    let mut next = 500;
    let refused = loop {
        let before = server.until(|_| true).await["buffered"].as_u64();
        match send(next, next + 5, "n1").await {
            (202, _) => next += 5,
            refused => break refused,
        }
        assert!(next < 600, "more than the buffer has room for");
        server.until(|info| info["buffered"].as_u64() > before).await;
    };
    assert_eq!(refused.0, 429, "{}", refused.1);
    assert_eq!(server.until(|info| info["unread"].is_string()).await["state"], "Running");
    let mut stream = server.stream("?after=0").await;
    let mut placed = 0;
    while placed < next {
        let line = stream.told().await;
        placed += line["allocation"]["new"].as_array().map_or(0, Vec::len);
    }
    assert_eq!(send(next, next + 5, "n1").await.0, 202);
}

#[tokio::test]
async fn registering_again_begins_anew() {
    // SEEDS S1
    let server = Server::registered(&[]).await;
    server.nodes(&["n1"]).await;
    let mut old = server.stream("?after=0").await;
    old.up_to(1).await;
    server.register("rm-1", &[]).await;
    assert_eq!(old.told().await["closing"]["status"], 409);
    let mut stream = server.stream("?after=0").await;
    server.nodes(&["n1"]).await;
    let accepted = stream.told().await;
    assert_eq!(accepted, json!({"seq": 1, "node": {"accepted": [{"nodeID": "n1"}]}}), "the old node is gone");
}

#[tokio::test]
async fn several_resource_managers_do_not_touch_each_other() {
    // SEEDS S21
    let server = Server::registered(&[]).await;
    server.register("rm-2", &[]).await;
    let mut stream = server.stream("?after=0").await;
    server.nodes(&["n1"]).await;
    stream.up_to(1).await;
    assert_eq!(server.get("/si/v1/rm/rm-2").await.1["lastSequence"], 0);
    assert_eq!(server.delete("/si/v1/rm/rm-2").await.0, 200);
    assert_eq!(server.get("/si/v1/rm/rm-1").await.1["state"], "Running");
}

#[tokio::test]
async fn predicates_are_asked_and_answered() {
    let server = Server::start(&[]);
    let body = json!({"rmID": "rm-1", "config": crate::shim::server::CONFIG});
    assert_eq!(server.send("POST", "/si/v1/rm?predicates=true", &body).await.0, 200);
    assert_eq!(server.get("/si/v1/rm/rm-1").await.1["predicates"], "single");
    let mut stream = server.stream("?after=0").await;
    server.nodes(&["n1", "n2"]).await;
    let app = json!({"new": [{"applicationID": "app-1", "queueName": "root.a", "ugi": {"user": "u"}}]});
    server.send("POST", "/si/v1/rm/rm-1/applications", &app).await;
    let ask = json!({"allocations": [{"allocationKey": "k1", "applicationID": "app-1",
        "resourcePerAlloc": {"resources": {"memory": {"value": "10"}}}}]});
    server.send("POST", "/si/v1/rm/rm-1/allocations", &ask).await;
    let mut refused = None;
    let placed = loop {
        let line = stream.next().await;
        if let Some(question) = line.get("predicates") {
            assert_eq!(question["allocationKey"], "k1");
            let first = refused.get_or_insert(question["nodeID"].clone());
            let fits = *first != question["nodeID"];
            let answer = json!({"id": line["id"], "success": fits, "message": "taint"});
            assert_eq!(server.send("POST", "/si/v1/rm/rm-1/answers", &answer).await.0, 202);
        } else if !line["allocation"]["new"].is_null() {
            break line["allocation"]["new"][0]["nodeID"].clone();
        }
    };
    assert_ne!(Some(placed), refused);
}

#[tokio::test]
async fn a_resource_manager_that_was_given_up_is_missed_until_it_is_back() {
    let (data, short) =
        (tempfile::tempdir().expect("a directory"), [("rm.gracePeriod", "1ms"), ("rm.pauseTimeout", "1ms")]);
    let start = || Server::start(&["--data", &data.path().display().to_string()]);
    let mut server = start();
    server.register("rm-1", &short).await;
    server.until(|info| info["state"] == "Stopped").await;
    server.program.kill();
    server = start();
    let running = async |server: &Server| {
        let text =
            server.http.get(server.url("/metrics")).send().await.expect("an answer").text().await.expect("a text");
        let line = text.lines().find_map(|line| line.strip_prefix("callboard_rm_running{rm=\"rm-1\"} "));
        line.map(str::to_owned)
    };
    assert_eq!(running(&server).await.as_deref(), Some("0"));
    let status = |server: &Server| {
        let shown = command(&["status", "--server", &server.url("")]).output().expect("it runs");
        String::from_utf8(shown.stdout).expect("text")
    };
    let shown = status(&server);
    assert!(shown.contains("there are no partitions.\nResource manager rm-1 stopped "), "{shown}");
    let (status_code, gone) = server.get("/api/v1/partition/default/application/a/explain").await;
    assert_eq!(status_code, 404);
    assert!(gone["detail"].as_str().is_some_and(|text| text.contains("no resource manager is registered")), "{gone}");
    server.register("rm-1", &[]).await;
    assert_eq!(running(&server).await.as_deref(), Some("1"));
    // One that ends itself is not missed.
    assert_eq!(server.delete("/si/v1/rm/rm-1").await.0, 200);
    assert_eq!(running(&server).await, None);
    // Nor is one that somebody ends who knows that it does not come back, also after a restart.
    server.register("rm-1", &short).await;
    server.until(|info| info["state"] == "Stopped").await;
    assert_eq!(running(&server).await.as_deref(), Some("0"));
    assert_eq!(server.delete("/si/v1/rm/rm-1").await.0, 200);
    assert_eq!(running(&server).await, None);
    server.program.kill();
    assert_eq!(running(&start()).await, None);
}

// REST 1.2
#[tokio::test]
async fn what_has_a_slash_in_its_name_can_be_asked_for() {
    let server = Server::start(&[]);
    let config = "partitions: [{name: default, queues: [{name: root, submitacl: '*', queues: [{name: a, limits: [{limit: some, groups: [x], maxapplications: 5}, {limit: each, groups: ['*'], maxapplications: 5}]}]}]}]";
    let (status, told) = server.send("POST", "/si/v1/rm", &json!({"rmID": "team/a", "config": config})).await;
    assert_eq!(status, 200, "{told}");
    let node = json!({"nodes": [{"nodeID": "rack/1", "action": "CREATE", "schedulableResource": {"resources": {"memory": {"value": "100"}}}}]});
    assert_eq!(server.send("POST", "/si/v1/rm/team%2Fa/nodes", &node).await.0, 202);
    // What has no name is no group: the first of the others by name is charged (UGM-021).
    let app =
        json!({"new": [{"applicationID": "x/y", "queueName": "root.a", "ugi": {"user": "u/1", "groups": ["", "g"]}}]});
    assert_eq!(server.send("POST", "/si/v1/rm/team%2Fa/applications", &app).await.0, 202);
    let ask = json!({"allocations": [{"allocationKey": "k", "applicationID": "x/y", "resourcePerAlloc": {"resources": {"memory": {"value": 10}}}}]});
    assert_eq!(server.send("POST", "/si/v1/rm/team%2Fa/allocations", &ask).await.0, 202);
    let partition = "/ws/v1/partition/%5Bteam%252Fa%5Ddefault";
    let wanted = ["application/x%252Fy", "queue/root.a/application/x%252Fy", "node/rack%252F1", "usage/user/u%252F1"];
    for path in wanted.map(|rest| format!("{partition}/{rest}")) {
        common::answer(&path, async || server.get(&path).await.0, |status| *status == 200).await;
    }
    let groups = server.get(&format!("{partition}/usage/groups")).await.1;
    let names: Vec<_> = groups.as_array().into_iter().flatten().map(|group| &group["groupName"]).collect();
    assert_eq!(names, ["g"]);
}
