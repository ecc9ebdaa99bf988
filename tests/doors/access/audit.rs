//! What somebody fails at, or is not let in for, does not push out of the audit log what others did.

use std::{io::Write as _, net::TcpStream};

use callboard::si::{
    ext::{self, Hello, Reply, reply, scheduler_extension_client::SchedulerExtensionClient},
    v1::{
        AllocationRequest, ApplicationRequest, NodeRequest, RegisterResourceManagerRequest,
        scheduler_client::SchedulerClient,
    },
};
use serde_json::{Value, json};
use tonic::{
    Code, Request,
    body::Body,
    codegen::{Service as _, http},
    transport::Channel,
};

use crate::{
    access::rig::{CONFIG, LIMIT, Server, checksum, line, program, standard, token, until},
    common::Program,
};

async fn register(channel: &Channel, caller: &str) -> Code {
    let message = RegisterResourceManagerRequest { rm_id: "rm-2".into(), config: "[".into(), ..Default::default() };
    let mut request = Request::new(message);
    request.metadata_mut().insert("authorization", format!("Bearer {}", token(caller)).parse().unwrap());
    let answer = SchedulerClient::new(channel.clone()).register_resource_manager(request).await;
    answer.map_or_else(|status| status.code(), |_| Code::Ok)
}

#[tokio::test]
async fn what_fails_again_and_again_and_what_nobody_knows_is_summed_up() {
    let server = Server::start(&[]);
    let drain = json!({"targets": "n1", "reason": "disk"});
    server.send("operator", "POST", "/api/v1/partition/default/resource/drain", Some(&drain)).await;
    let mut channel = Channel::from_shared(server.address("grpc")).unwrap().connect().await.unwrap();
    for _ in 0..30 {
        assert_eq!(register(&channel, "second").await, Code::InvalidArgument);
    }
    assert_eq!(register(&channel, "viewer").await, Code::PermissionDenied);
    for n in 0..100 {
        let path = format!("http://here/{n}/{}", "x".repeat(500));
        let request = http::Request::post(path).header("content-type", "application/grpc").body(Body::empty());
        std::future::poll_fn(|context| channel.poll_ready(context)).await.unwrap();
        let answer = channel.call(request.unwrap()).await.unwrap();
        assert_eq!(answer.headers()["grpc-status"], "16");
        let path = format!("/api/v1/partition/p{n}/resource/drain");
        assert_eq!(server.send("none", "POST", &path, Some(&drain)).await.status(), 401);
    }
    let records = server.send("operator", "GET", "/api/v1/audit", None).await.text().await.unwrap();
    let records: Vec<Value> = records.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of = |who: &str| {
        let own = records.iter().filter(move |record| record["who"] == who);
        own.map(|it| json!([it["door"], it["action"], it["outcome"], it["count"]])).collect::<Vec<_>>()
    };
    let action = "/si.v1.Scheduler/RegisterResourceManager";
    let failed = of("second");
    assert_eq!(failed.len(), 21, "{failed:?}");
    assert_eq!(failed[20], json!(["grpc", action, "failed", 10]));
    assert_eq!(of("viewer"), [json!(["grpc", action, "refused", 1])], "by name");
    let route = "POST /api/v1/partition/{partition}/resource/drain";
    assert_eq!(of("unknown"), [json!(["grpc", "others", "refused", 100]), json!(["http", route, "refused", 100])]);
    assert_eq!(of("operator").len(), 1);
}

/// The rows of the audit log.
async fn rows(server: &Server) -> Vec<Value> {
    let text = server.send("operator", "GET", "/api/v1/audit", None).await.text().await.unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[tokio::test]
async fn a_change_whose_client_goes_before_the_answer_is_in_the_log() {
    let server = Server::start(&[]);
    server.register().await;
    let nodes: Vec<Value> = (0..20).map(|n| json!({"nodeID": format!("n{n}"), "action": "CREATE"})).collect();
    let nodes = json!({"rmID": "rm-1", "nodes": nodes});
    assert_eq!(server.send("shim", "POST", "/si/v1/rm/rm-1/nodes", Some(&nodes)).await.status(), 202);
    let path = "/api/v1/partition/default/resource";
    let status =
        || async { server.send("operator", "GET", &format!("{path}/status"), None).await.text().await.unwrap() };
    until(|| async { status().await.contains("n[0-19]") }).await;
    let address = server.address("http").replace("http://", "");
    for n in 0..20 {
        let body = json!({"targets": format!("n{n}"), "reason": "gone"}).to_string();
        let head = format!("Authorization: Bearer {}\r\nContent-Type: application/json", token("operator"));
        let length = body.len();
        let request = format!(
            "POST {path}/drain HTTP/1.1\r\nHost: localhost\r\n{head}\r\nContent-Length: {length}\r\n\r\n{body}"
        );
        TcpStream::connect(&address).unwrap().write_all(request.as_bytes()).unwrap();
    }
    // Each of them has a row, whatever came of it, and so each that is drained.
    until(|| async {
        let rows = rows(&server).await;
        let of_drains =
            rows.iter().filter(|row| row["action"].as_str().is_some_and(|action| action.ends_with("/drain")));
        let outcomes: Vec<_> = of_drains.filter_map(|row| row["outcome"].as_str()).collect();
        outcomes.len() == 20 && outcomes.iter().all(|outcome| matches!(*outcome, "done" | "unknown"))
    })
    .await;
}

#[tokio::test]
async fn a_tokens_file_that_changes_is_in_the_log() {
    let server = Server::start(&[]);
    let told = |outcome: &'static str, what: &'static str| {
        let server = &server;
        until(move || async move {
            let rows = rows(server).await;
            let is_it = |row: &Value| row["door"] == "file" && row["outcome"] == outcome;
            rows.iter().any(|row| is_it(row) && row["detail"].as_str().is_some_and(|detail| detail.contains(what)))
        })
    };
    std::fs::write(server.tokens(), standard() + &line("viewer", "new", "")).unwrap();
    told("done", "6 tokens; added new").await;
    let renamed = standard().replace("name=viewer", "name=reader") + &line("operator", "new", "");
    std::fs::write(server.tokens(), renamed).unwrap();
    told("done", "6 tokens; added reader; removed viewer; changed new").await;
    std::fs::write(server.tokens(), "king x").unwrap();
    told("failed", "line 1").await;
}

#[tokio::test]
async fn a_signal_is_told_with_all_that_came_of_it() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).display().to_string();
    let (config, tokens) = (path("queues.yaml"), path("tokens"));
    std::fs::write(&config, CONFIG).unwrap();
    std::fs::write(&tokens, standard()).unwrap();
    let server = Server::start_in(dir, &["--config", &config, "--tokens", &tokens]);
    let told = async |outcome: &'static str, parts: &[&str]| {
        server.signal("HUP");
        let is_it = |row: &Value| {
            let detail = row["detail"].as_str().unwrap_or_default();
            row["who"] == "SIGHUP" && row["outcome"] == outcome && parts.iter().all(|part| detail.contains(part))
        };
        until(|| async { rows(&server).await.iter().any(is_it) }).await;
    };
    let checksum = format!("checksum {}", checksum());
    told("done", &[&checksum, "5 tokens"]).await;
    std::fs::write(&tokens, "king x").unwrap();
    told("failed", &[&checksum, "line 1"]).await;
    std::fs::write(&tokens, standard()).unwrap();
    std::fs::write(&config, "partitions: 7").unwrap();
    told("failed", &["cannot unmarshal", "5 tokens"]).await;
}

#[tokio::test]
async fn changes_of_those_who_send_too_many_are_counted() {
    let server = Server::start(&["--set", "http.requestsPerSecond=1"]);
    let body = json!({"rmID": "rm-1", "config": CONFIG});
    let channel = Channel::from_shared(server.address("grpc")).unwrap().connect().await.unwrap();
    let (mut http, mut grpc) = (0, 0);
    for _ in 0..6 {
        http += u64::from(server.send("shim", "POST", "/si/v1/rm", Some(&body)).await.status() == 429);
        grpc += u64::from(register(&channel, "second").await == Code::ResourceExhausted);
    }
    assert!(http > 0 && grpc > 0, "{http} {grpc}");
    // Reading is not told of, turned away or not.
    for _ in 0..4 {
        server.status("viewer", "GET", "/ws/v1/clusters").await;
    }
    let rows = rows(&server).await;
    let of = |who: &str| {
        let own = rows.iter().filter(|row| row["who"] == who && row["outcome"] == "refused");
        own.map(|row| json!([row["action"], row["count"]])).collect::<Vec<_>>()
    };
    assert_eq!(of("shim"), [json!(["POST /si/v1/rm", http])]);
    assert_eq!(of("second"), [json!(["/si.v1.Scheduler/RegisterResourceManager", grpc])]);
    assert!(of("viewer").is_empty());
}

#[tokio::test]
async fn a_configuration_has_its_checksum_and_a_failure_its_reason() {
    let server = Server::start(&[]);
    server.register().await;
    let path = "/si/v1/rm/rm-1/configuration";
    assert_eq!(server.send("operator", "PUT", path, Some(&json!({"config": CONFIG}))).await.status(), 200);
    let extra = json!({"http.requestsPerSecond": "900", "event.store.maxAge": "1h", "rm.resendAfter": "9s"});
    let update = json!({"config": CONFIG, "extraConfig": extra});
    assert_eq!(server.send("operator", "PUT", path, Some(&update)).await.status(), 200);
    assert_eq!(server.send("operator", "PUT", path, Some(&json!({"config": "partitions: 7"}))).await.status(), 400);
    let none = "/api/v1/partition/nope/resource/drain";
    let drain = json!({"targets": "n1", "reason": "disk"});
    assert_eq!(server.send("operator", "POST", none, Some(&drain)).await.status(), 404);
    let level = json!({"level": "loud"});
    assert_eq!(server.send("operator", "POST", "/api/v1/log/level", Some(&level)).await.status(), 400);
    let channel = Channel::from_shared(server.address("grpc")).unwrap().connect().await.unwrap();
    assert_eq!(register(&channel, "second").await, Code::InvalidArgument);
    let rows = rows(&server).await;
    let told = |status: &str, action: &str| {
        let is_it =
            |row: &&Value| row["status"] == status && row["action"].as_str().is_some_and(|it| it.contains(action));
        rows.iter().find(is_it).unwrap_or_else(|| panic!("{status} {action} in {rows:?}"))["detail"].to_string()
    };
    assert_eq!(told("200", "/configuration"), format!("\"checksum {}\"", checksum()));
    // What concerns the whole process is told as it was set.
    let set = format!("checksum {}; event.store.maxAge=1h, http.requestsPerSecond=900", checksum());
    assert!(rows.iter().any(|row| row["detail"] == *set), "{rows:?}");
    assert!(told("400", "/configuration").contains("cannot unmarshal"));
    assert!(told("404", "/nope/").contains("partition 'nope' not found"));
    assert!(told("400", "/log/level").contains("loud"));
    let registration = told("InvalidArgument", "RegisterResourceManager");
    assert!(registration.starts_with("\"resource manager rm-2; ") && registration.len() > 40, "{registration}");
}

/// The first message of a stream that stays open.
fn stream<T: Send + 'static>(caller: &str, first: T) -> Request<impl futures::Stream<Item = T> + Send + 'static> {
    let first = futures::StreamExt::chain(tokio_stream::iter([first]), tokio_stream::pending());
    let mut request = Request::new(first);
    request.metadata_mut().insert("authorization", format!("Bearer {}", token(caller)).parse().unwrap());
    request
}

/// How a stream ended, or that it has begun to answer.
async fn end<T>(stream: Result<tonic::Response<tonic::Streaming<T>>, tonic::Status>) -> Code {
    let mut answers = stream.unwrap().into_inner();
    let first = tokio::time::timeout(LIMIT, answers.message()).await.expect("in time");
    first.map_or_else(|status| status.code(), |_| Code::Ok)
}

#[tokio::test]
async fn what_came_of_a_stream_is_in_the_log() {
    let server = Server::start(&[]);
    server.register().await;
    let channel = Channel::from_shared(server.address("grpc")).unwrap().connect().await.unwrap();
    let (mut plain, mut extension) =
        (SchedulerClient::new(channel.clone()), SchedulerExtensionClient::new(channel.clone()));
    let rm = |id: &str| id.to_owned();
    for (name, expected) in [("rm-1", Code::PermissionDenied), ("rm-2", Code::NotFound)] {
        let nodes = NodeRequest { rm_id: rm(name), ..Default::default() };
        assert_eq!(end(plain.update_node(stream("second", nodes)).await).await, expected);
        let applications = ApplicationRequest { rm_id: rm(name), ..Default::default() };
        assert_eq!(end(plain.update_application(stream("second", applications)).await).await, expected);
        let allocations = AllocationRequest { rm_id: rm(name), ..Default::default() };
        assert_eq!(end(plain.update_allocation(stream("second", allocations)).await).await, expected);
        let requests = ext::Request { rm_id: rm(name), ..Default::default() };
        assert_eq!(end(extension.requests(stream("second", requests)).await).await, expected);
    }
    let hello = reply::Reply::Hello(Hello { rm_id: rm("rm-1"), ..Default::default() });
    let hello = Reply { reply: Some(hello), ..Default::default() };
    assert_eq!(end(extension.callbacks(stream("second", hello)).await).await, Code::PermissionDenied);
    // One that goes on is told of as soon as it answers.
    let requests = ext::Request { rm_id: rm("rm-1"), ..Default::default() };
    let open = extension.requests(stream("shim", requests)).await;
    let mut open = open.unwrap().into_inner();
    assert!(open.message().await.unwrap().is_some());
    let rows = rows(&server).await;
    let of = |who: &str| {
        let own = rows.iter().filter(|row| row["who"] == who);
        let mut told: Vec<_> =
            own.map(|row| format!("{} {} {}", row["action"], row["outcome"], row["count"]).replace('"', "")).collect();
        told.sort();
        told
    };
    let streams = [
        "/callboard.v1.SchedulerExtension/Requests",
        "/si.v1.Scheduler/UpdateAllocation",
        "/si.v1.Scheduler/UpdateApplication",
        "/si.v1.Scheduler/UpdateNode",
    ];
    let expected = streams.map(|stream| [format!("{stream} failed 1"), format!("{stream} refused 1")]);
    let callbacks = "/callboard.v1.SchedulerExtension/Callbacks refused 1".to_owned();
    assert_eq!(of("second"), [&[callbacks], &expected.concat()[..]].concat());
    assert_eq!(of("shim"), ["/callboard.v1.SchedulerExtension/Requests done 1"]);
}

#[tokio::test]
async fn records_that_are_in_files_only_are_read_from_there() {
    let dir = tempfile::tempdir().unwrap();
    let audit = dir.path().join("audit");
    std::fs::create_dir(&audit).unwrap();
    let many = 10_600;
    let record = |id: u64| {
        let (time, who) = (
            format!("2026-01-01T{:02}:{:02}:00Z", id / 600, id / 10 % 60),
            if id % 1_000 == 7 { "alice" } else { "k8s" },
        );
        json!({"id": id, "time": time, "door": "http", "who": who, "action": "POST /x", "outcome": "done"}).to_string()
            + "\n"
    };
    std::fs::write(audit.join("000000000011.jsonl"), (11..=300).map(record).collect::<String>()).unwrap();
    let rest = (301..=many).filter(|id| *id != 500).map(record).collect::<String>();
    std::fs::write(audit.join("000000000301.jsonl"), rest).unwrap();
    let server = Program::start(&["--data", &dir.path().display().to_string()]);
    let url = format!("{}/api/v1/audit", server.address("http"));
    let read = async |query: &str| {
        let text = reqwest::get(format!("{url}{query}")).await.unwrap().text().await.unwrap();
        text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()).collect::<Vec<_>>()
    };
    let all = read("?from=1").await;
    assert_eq!(all[0], json!({"gap": {"from": 1, "to": 10, "reason": "retention"}}));
    let gaps: Vec<_> = all[1..].iter().filter(|line| !line["gap"].is_null()).collect();
    assert_eq!(gaps, [&json!({"gap": {"from": 500, "to": 500, "reason": "damage"}})]);
    let ids: Vec<u64> = all.iter().filter_map(|line| line["id"].as_u64()).collect();
    assert_eq!(ids, (11..=many).filter(|id| *id != 500).collect::<Vec<_>>());
    assert_eq!(all.last().unwrap(), &json!({"next": many + 1}));
    let newer = read("").await;
    assert_eq!(newer[0]["gap"]["reason"], "retention", "what is in memory, where no id is named");
    assert_eq!(newer.len(), 10_002);

    let shown = |more: &[&str]| {
        let done =
            program(&[&["audit", "--json", "--server", &server.address("http")], more].concat()).output().unwrap();
        let text = String::from_utf8(done.stdout).unwrap();
        let ids = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).unwrap()["id"].as_u64());
        (done.status.success(), ids.collect::<Vec<_>>())
    };
    assert_eq!(shown(&["--who", "alice", "--until", "2026-01-01T04:00:00Z"]), (true, vec![1_007, 2_007]));
    assert_eq!(shown(&["--since", "2026-01-01T17:39:00Z", "-n", "3"]), (true, vec![10_598, 10_599, 10_600]));
    assert_eq!(shown(&["-n", "1"]), (true, vec![10_600]));
    assert_eq!(shown(&["--who", "alice", "-n", "1"]), (true, vec![10_007]));
    assert_eq!(shown(&["--since", "soon"]), (false, vec![]));
}

#[tokio::test]
async fn records_that_are_missing_are_told() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().display().to_string();
    let read = async |server: &Program, query: &str| {
        let answer = reqwest::get(format!("{}/api/v1/audit{query}", server.address("http"))).await.unwrap();
        let text = answer.error_for_status().unwrap().text().await.unwrap();
        let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        // Of a record, its id.
        lines.map(|line| line.get("id").cloned().unwrap_or(line)).collect::<Vec<_>>()
    };
    let change = async |server: &Program| {
        let url = format!("{}/api/v1/log/level", server.address("http"));
        reqwest::Client::new()
            .post(url)
            .json(&json!({"level": "info"}))
            .send()
            .await
            .unwrap()
            .error_for_status()
            .unwrap();
    };
    let server = Program::start(&["--data", &data]);
    for _ in 0..5 {
        change(&server).await;
    }
    assert_eq!(read(&server, "").await.len(), 6);
    server.signal("TERM");
    assert_eq!(server.ended().await, Some(0));
    let file = dir.path().join("audit/000000000001.jsonl");
    let text = std::fs::read_to_string(&file).unwrap();
    let two: usize = text.split_inclusive('\n').take(2).map(str::len).sum();
    let gap = |from: u64, to: u64| json!({"gap": {"from": from, "to": to, "reason": "damage"}});
    for left in [vec![1, 2], vec![]] {
        match left.is_empty() {
            false => std::fs::write(&file, &text[..two + 20]).unwrap(),
            true => std::fs::remove_file(&file).unwrap(),
        }
        let server = Program::start(&["--data", &data]);
        let next = if left.is_empty() { 7 } else { 6 };
        let lost = [left.iter().map(|id| json!(id)).collect(), vec![gap(left.len() as u64 + 1, next - 1)]].concat();
        for query in ["", "?from=1"] {
            assert_eq!(read(&server, query).await, [&lost[..], &[json!({"next": next})]].concat(), "{query}");
        }
        let from = |id: u64| format!("?from={id}");
        assert_eq!(read(&server, &from(4)).await, [gap(4, next - 1), json!({"next": next})]);
        assert_eq!(read(&server, &from(next)).await, [json!({"next": next})], "who goes on there is not refused");
        let health = format!("{}/ws/v1/scheduler/healthcheck", server.address("http"));
        let health: Value = reqwest::get(health).await.unwrap().json().await.unwrap();
        let checks = health["HealthChecks"].as_array().unwrap();
        let failed: Vec<_> =
            checks.iter().filter(|check| check["Succeeded"] == false).map(|check| &check["Name"]).collect();
        assert_eq!(failed, ["Audit log"]);
        change(&server).await;
        assert_eq!(read(&server, "").await, [&lost[..], &[json!(next), json!({"next": next + 1})]].concat());
        server.signal("TERM");
        assert_eq!(server.ended().await, Some(0));
    }
}
