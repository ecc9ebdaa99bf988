//! Requests over HTTP that are taken once: `X-Callboard-Seq` and `Idempotency-Key`.

use std::path::Path;

use callboard::{
    si::{
        ext::{UnregisterRequest, scheduler_extension_client::SchedulerExtensionClient},
        v1::{RegisterResourceManagerRequest, scheduler_client::SchedulerClient},
    },
    store::log,
};
use reqwest::Response;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use crate::{
    cluster::rig::{self as cluster, NEVER, follows, leads},
    shim::server::{CONFIG, LIMIT, Server},
    wired::rig,
};

async fn send(server: &Server, method: &str, path: &str, headers: &[(&str, &str)], body: &Value) -> Response {
    let url = server.url(&format!("/si/v1/rm/rm-1/{path}"));
    let mut request = server.http.request(method.parse().expect("a method"), url);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = request.header("content-type", "application/json").body(body.to_string()).timeout(LIMIT);
    request.send().await.expect("an answer")
}

fn node(id: &str) -> Value {
    let resource = json!({"resources": {"memory": {"value": "100"}}});
    json!({"nodes": [{"nodeID": id, "action": "CREATE", "schedulableResource": resource}]})
}

/// Status, acknowledged number, and what is told.
async fn told(response: Response) -> (u16, Option<u64>, String) {
    let ack =
        response.headers().get("x-callboard-ack").map(|ack| ack.to_str().expect("text").parse().expect("a number"));
    (response.status().as_u16(), ack, response.text().await.expect("a body"))
}

async fn nodes(server: &Server) -> usize {
    server.get("/ws/v1/partition/default/nodes").await.1.as_array().map_or(0, Vec::len)
}

#[tokio::test]
async fn numbered_requests_are_taken_once_and_in_order() {
    let server = Server::registered(&[]).await;
    let mut lines = server.stream("").await;
    let post = async |number: &str, id: &str| {
        told(send(&server, "POST", "nodes", &[("X-Callboard-Seq", number)], &node(id)).await).await
    };
    assert_eq!(post("1", "n1").await, (202, Some(1), "{}".to_owned()));
    assert_eq!(nodes(&server).await, 1, "answered when it was applied");
    let (status, _, text) = post("3", "n3").await;
    assert!(status == 409 && text.contains("request 3 came where 2 is the next"), "{text}");
    assert_eq!(post("1", "n1").await, (202, Some(1), "{}".to_owned()), "sent again");
    assert_eq!(post("2", "n2").await, (202, Some(2), "{}".to_owned()));
    // A number stands for one request, which its path is part of.
    let (status, _, text) = post("2", "n3").await;
    assert!(status == 422 && text.contains("another request had number 2"), "{text}");
    let elsewhere = send(&server, "POST", "allocations", &[("X-Callboard-Seq", "2")], &node("n2")).await;
    assert_eq!(told(elsewhere).await.0, 422);
    assert_eq!(nodes(&server).await, 2);
    for (headers, status, wanted) in [
        (&[("X-Callboard-Seq", "x")][..], 400, "is not a whole number above zero"),
        (&[("X-Callboard-Seq", "0")], 400, "is not a whole number above zero"),
        (&[("X-Callboard-Seq", "3"), ("X-Callboard-Epoch", "9")], 409, "epoch 9 is not that of resource manager"),
        (&[("X-Callboard-Seq", "3"), ("Idempotency-Key", "k")], 400, "two ways to say the same"),
        (&[("Idempotency-Key", "")], 400, "has 0 bytes"),
        (&[("Idempotency-Key", "k"), ("Idempotency-Key", "l")], 400, "idempotency-key is given twice"),
    ] {
        let (given, _, text) = told(send(&server, "POST", "nodes", headers, &node("n3")).await).await;
        assert!(given == status && text.contains(wanted), "{headers:?}: {given} {text}");
    }
    // What is malformed uses up no number.
    let broken = send(&server, "POST", "nodes", &[("X-Callboard-Seq", "3")], &json!({"nodes": 7})).await;
    assert_eq!(told(broken).await.0, 400);
    // Configurations and heartbeats have numbers too; what was refused stays so.
    let refused = json!({"config": "partitions: nonsense"});
    for _ in 0..2 {
        let answer = told(send(&server, "PUT", "configuration", &[("X-Callboard-Seq", "3")], &refused).await).await;
        assert_eq!((answer.0, answer.1), (400, Some(3)), "{answer:?}");
    }
    let config = json!({"config": CONFIG});
    let headers = [("X-Callboard-Seq", "4"), ("X-Callboard-Epoch", "1")];
    for _ in 0..2 {
        let answer = told(send(&server, "PUT", "configuration", &headers, &config).await).await;
        assert_eq!((answer.0, answer.1), (200, Some(4)), "{answer:?}");
    }
    for _ in 0..2 {
        let beat = send(&server, "POST", "heartbeat", &[("X-Callboard-Seq", "5")], &json!({"nodes": ["n1"]})).await;
        assert_eq!(told(beat).await, (202, Some(5), "{}".to_owned()));
    }
    assert_eq!(nodes(&server).await, 2);
    let line = lines.told().await;
    assert_eq!((line["seq"].clone(), line["node"]["accepted"][0]["nodeID"].clone()), (json!(1), json!("n1")));
    assert_eq!(lines.told().await["node"]["accepted"][0]["nodeID"], "n2", "and no rejection in between");
    server.register("rm-1", &[]).await;
    let (status, _, text) = told(send(&server, "POST", "nodes", &headers, &node("n1")).await).await;
    assert!(status == 409 && text.contains("which is 2: it was registered again"), "{text}");
    assert_eq!(post("1", "n1").await, (202, Some(1), "{}".to_owned()), "anew");
}

#[tokio::test]
async fn a_key_stands_for_one_request() {
    let server = Server::registered(&[]).await;
    let mut lines = server.stream("").await;
    let post = async |key: &str, id: &str| {
        told(send(&server, "POST", "nodes", &[("Idempotency-Key", key)], &node(id)).await).await
    };
    for _ in 0..3 {
        assert_eq!(post("a", "n1").await, (202, None, "{}".to_owned()));
        assert_eq!(nodes(&server).await, 1);
    }
    let (status, _, text) = post("a", "n2").await;
    assert!(status == 422 && text.contains("another request had this key"), "{text}");
    // A request that was refused leaves its key free.
    let broken = send(&server, "POST", "nodes", &[("Idempotency-Key", "b")], &json!({"nodes": 7})).await;
    assert_eq!(told(broken).await.0, 400);
    assert_eq!(post("b", "n2").await.0, 202);
    let long = "k".repeat(256);
    assert_eq!(post(&long, "n3").await.0, 400);
    for id in ["n1", "n2"] {
        let line = lines.next().await;
        assert_eq!(line["node"]["accepted"][0]["nodeID"], id, "{line}");
    }
}

/// The key was taken for this node before, and is still.
async fn taken(server: &Server, key: &str, id: &str) {
    let post = async |id: &str| told(send(server, "POST", "nodes", &[("Idempotency-Key", key)], &node(id)).await).await;
    assert_eq!(post(id).await, (202, None, "{}".to_owned()));
    assert_eq!(post("other").await.0, 422, "it stands for another request");
    let mut lines = server.stream("?after=0").await;
    let last = server.get("/si/v1/rm/rm-1").await.1["lastSequence"].as_u64().expect("a number");
    let lines = lines.up_to(last).await;
    assert!(lines.iter().all(|line| line["node"]["rejected"].is_null()), "nothing came twice: {lines:?}");
}

/// Takes the record that names this, and what is behind it, from the log, as if the server had been killed before it wrote that.
fn cut_before(log: &Path, name: &str) -> bool {
    let title = log::title_of(log).expect("a title");
    let (mut behind, mut found) = (0, false);
    log::read(log, &title, 0, |record| {
        found |= record.payload.windows(name.len()).any(|bytes| bytes == name.as_bytes());
        behind += if found { log::total(record.payload) as u64 } else { 0 };
        Ok(())
    })
    .expect("readable");
    let (_, segment) = log::segments(log).expect("a log").remove(0);
    let file = std::fs::File::options().write(true).open(segment).expect("writable");
    file.set_len(file.metadata().expect("a file").len() - behind).expect("cut");
    found
}

/// Where nodes were accepted and refused, in the order of the lines.
async fn answers(server: &Server) -> Vec<String> {
    let last = server.get("/si/v1/rm/rm-1").await.1["lastSequence"].as_u64().expect("a number");
    let lines = server.stream("?after=0").await.up_to(last).await;
    let of = |line: &Value, what: &str| {
        let nodes = line["node"][what].as_array().cloned().unwrap_or_default();
        nodes
            .into_iter()
            .map(|node| format!("{what} {}", node["nodeID"].as_str().unwrap_or_default()))
            .collect::<Vec<_>>()
    };
    lines.iter().flat_map(|line| [of(line, "accepted"), of(line, "rejected")].concat()).collect()
}

#[tokio::test]
async fn what_was_taken_in_part_is_taken_once_all_the_same() {
    // Two partitions, and an item that none of them takes; the server is killed before one of the three is written.
    let two = CONFIG.to_owned() + &CONFIG.replace("partitions:\n", "").replace("name: default", "name: other");
    let nodes = |ids: &[(&str, &str)]| {
        let node = |(id, partition): &(&str, &str)| {
            let resource = json!({"resources": {"memory": {"value": "100"}}});
            json!({"nodeID": id, "action": "CREATE", "schedulableResource": resource, "attributes": {"si/node-partition": partition}})
        };
        json!({"nodes": ids.iter().map(node).collect::<Vec<_>>()})
    };
    let all = nodes(&[("left", "[rm-1]default"), ("right", "[rm-1]other"), ("nowhere", "[rm-1]none")]);
    for header in [("X-Callboard-Seq", "1"), ("Idempotency-Key", "k")] {
        for missing in ["left", "right", "nowhere"] {
            let dir = tempfile::tempdir().expect("a directory");
            let mut server = rig::with_data(dir.path());
            let body = json!({"rmID": "rm-1", "config": two, "extraConfig": {"rm.gracePeriod": "10m"}});
            assert_eq!(server.send("POST", "/si/v1/rm", &body).await.0, 200);
            assert_eq!(told(send(&server, "POST", "nodes", &[header], &all).await).await.0, 202);
            server.program.kill();
            assert!(cut_before(&dir.path().join("log/rm-1"), missing));
            let mut server = rig::with_data(dir.path());
            for again in 0..2 {
                let (status, _, text) = told(send(&server, "POST", "nodes", &[header], &all).await).await;
                assert_eq!(status, 202, "{header:?} {missing} {again}: {text}");
                let mut answers = answers(&server).await;
                answers.sort();
                assert_eq!(
                    answers,
                    ["accepted left", "accepted right", "rejected nowhere"],
                    "{header:?} {missing} {again}"
                );
                server.program.kill();
                server = rig::with_data(dir.path());
            }
        }
    }
}

#[tokio::test]
async fn a_key_outlives_the_process() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut server = rig::with_data(dir.path());
    server.register("rm-1", &[]).await;
    let sent = send(&server, "POST", "nodes", &[("Idempotency-Key", "a")], &node("n1")).await;
    assert_eq!(told(sent).await.0, 202);
    // By the log alone, and by a snapshot.
    server.program.kill();
    let server = rig::with_data(dir.path());
    taken(&server, "a", "n1").await;
    let sent = send(&server, "PUT", "configuration", &[("Idempotency-Key", "c")], &json!({"config": CONFIG})).await;
    assert_eq!(told(sent).await.0, 200);
    assert_eq!(rig::end(server).await, Some(0));
    let server = rig::with_data(dir.path());
    taken(&server, "a", "n1").await;
    let other = json!({"config": format!("{CONFIG}          - name: b\n")});
    let sent = send(&server, "PUT", "configuration", &[("Idempotency-Key", "c")], &other).await;
    assert_eq!(told(sent).await.0, 422);
    // A registration begins anew.
    server.register("rm-1", &[]).await;
    let sent = send(&server, "POST", "nodes", &[("Idempotency-Key", "a")], &node("n2")).await;
    assert_eq!(told(sent).await.0, 202);
}

#[tokio::test]
async fn a_session_begins_and_ends_once_with_a_key() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut server = rig::with_data(dir.path());
    let register = async |server: &Server, key: &str, rm: &Value| {
        let sent = server.http.post(server.url("/si/v1/rm")).header("idempotency-key", key).json(rm).send().await;
        told(sent.expect("an answer")).await
    };
    let end = async |server: &Server| {
        let url = server.url("/si/v1/rm/rm-1");
        told(server.http.delete(url).header("idempotency-key", "D").send().await.expect("an answer")).await
    };
    let session = async |server: &Server| {
        let info = server.get("/si/v1/rm/rm-1").await.1;
        (info["epoch"].as_u64().expect("a number"), info["state"].as_str().expect("a text").to_owned())
    };
    let rm = json!({"rmID": "rm-1", "config": CONFIG, "extraConfig": {"event.nonsense": "1"}});
    let first = register(&server, "R", &rm).await;
    assert!(first.0 == 200 && first.2.contains("event.nonsense"), "{first:?}");
    assert_eq!(send(&server, "POST", "nodes", &[], &node("n1")).await.status().as_u16(), 202);
    assert_eq!(register(&server, "R", &rm).await, first);
    assert_eq!((nodes(&server).await, session(&server).await), (1, (1, "Running".to_owned())));
    let other = register(&server, "R", &json!({"rmID": "rm-1"})).await;
    assert!(other.0 == 422 && other.2.contains("another request had this key"), "{other:?}");
    assert_eq!(register(&server, "", &rm).await.0, 400);
    // One that was refused may come again.
    let wrong = json!({"rmID": "rm-1", "config": "partitions: nonsense"});
    assert_eq!(register(&server, "W", &wrong).await.0, 400);
    // By the log alone, and by a snapshot.
    server.program.kill();
    let server = rig::with_data(dir.path());
    assert_eq!(register(&server, "R", &rm).await, first);
    assert_eq!(rig::end(server).await, Some(0));
    let server = rig::with_data(dir.path());
    assert_eq!(register(&server, "R", &rm).await, first);
    assert_eq!((nodes(&server).await, session(&server).await.0), (1, 1));
    // The end of one session is not that of the next.
    let done = (200, None, "{}".to_owned());
    assert_eq!(end(&server).await, done);
    assert_eq!(end(&server).await, done);
    assert_eq!(register(&server, "R", &rm).await.0, 200);
    assert_eq!(session(&server).await, (1, "Stopped".to_owned()), "it was carried out before");
    assert_eq!(rig::end(server).await, Some(0));
    let server = Server::start(&["--data", &dir.path().display().to_string()]);
    assert_eq!(register(&server, "W", &rm).await.0, 200);
    assert_eq!(end(&server).await, done);
    assert_eq!(session(&server).await, (2, "Running".to_owned()));
    // Over gRPC it is the same.
    let mut door = SchedulerClient::connect(server.grpc()).await.expect("connected");
    for _ in 0..2 {
        let request = RegisterResourceManagerRequest { rm_id: "rm-1".into(), ..Default::default() };
        let mut request = tonic::Request::new(request);
        request.metadata_mut().insert("idempotency-key", "G".parse().expect("a value"));
        door.register_resource_manager(request).await.expect("registered");
        assert_eq!(session(&server).await.0, 3);
    }
    let mut door = SchedulerExtensionClient::connect(server.grpc()).await.expect("connected");
    for register in [false, true, true] {
        let mut request = tonic::Request::new(UnregisterRequest { rm_id: "rm-1".into() });
        request.metadata_mut().insert("idempotency-key", "U".parse().expect("a value"));
        door.unregister(request).await.expect("ended");
        let state = session(&server).await.1;
        assert_eq!(state, if register { "Running" } else { "Stopped" });
        if !register {
            server.register("rm-1", &[]).await;
        }
    }
}

#[tokio::test]
async fn a_key_goes_with_the_lead() {
    let Some(etcd) = cluster::etcd("a_key_goes_with_the_lead") else { return };
    let (one, two) = (tempfile::tempdir().expect("a directory"), tempfile::tempdir().expect("a directory"));
    let (mut first, second) = (cluster::start(&etcd, one.path(), NEVER), cluster::start(&etcd, two.path(), NEVER));
    first.register("rm-1", &[]).await;
    follows(&second).await;
    let sent = send(&first, "POST", "nodes", &[("Idempotency-Key", "a")], &node("n1")).await;
    assert_eq!(told(sent).await.0, 202);
    first.program.kill();
    leads(&second).await;
    taken(&second, "a", "n1").await;
}

#[tokio::test]
async fn a_request_of_nothing_has_a_number_and_a_key_too() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut server = rig::with_data(dir.path());
    server.register("rm-1", &[]).await;
    let nothing = json!({"allocations": []});
    let post = async |server: &Server, path: &str, headers: &[(&str, &str)], body: &Value| {
        told(send(server, "POST", path, headers, body).await).await
    };
    assert_eq!(post(&server, "nodes", &[("X-Callboard-Seq", "1")], &node("n1")).await.1, Some(1));
    for (number, body) in [("2", &nothing), ("3", &json!({})), ("4", &json!({"releases": {}}))] {
        let answer = post(&server, "allocations", &[("X-Callboard-Seq", number)], body).await;
        assert_eq!((answer.0, answer.1), (202, number.parse().ok()), "{answer:?}");
    }
    assert_eq!(post(&server, "nodes", &[("X-Callboard-Seq", "5")], &node("n5")).await.1, Some(5));
    assert_eq!(post(&server, "allocations", &[("Idempotency-Key", "a")], &nothing).await.0, 202);
    let beat = json!({"nodes": ["n1"]});
    assert_eq!(post(&server, "heartbeat", &[("Idempotency-Key", "b")], &beat).await.0, 202);
    for orderly in [false, true] {
        if orderly {
            assert_eq!(rig::end(server).await, Some(0));
        } else {
            // What was answered is recorded; that a key was taken is, a moment later at most.
            server.program.kill();
        }
        server = rig::with_data(dir.path());
        let answer = post(&server, "nodes", &[("X-Callboard-Seq", "7")], &node("n7")).await;
        assert!(answer.0 == 409 && answer.2.contains("where 6 is the next"), "{answer:?}");
        for number in ["2", "5"] {
            assert_eq!(post(&server, "nodes", &[("X-Callboard-Seq", number)], &node("n9")).await.0, 202);
        }
        assert_eq!(nodes(&server).await, 2, "those numbers were taken before");
        assert_eq!(post(&server, "allocations", &[("Idempotency-Key", "a")], &json!({"releases": {}})).await.0, 422);
        assert_eq!(post(&server, "heartbeat", &[("Idempotency-Key", "b")], &json!({"nodes": ["n5"]})).await.0, 422);
    }
}

#[tokio::test]
async fn a_refused_configuration_stays_refused_over_restarts() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut server = rig::with_data(dir.path());
    server.register("rm-1", &[]).await;
    let refused = json!({"config": "partitions: nonsense"});
    let put = async |server: &Server, number: &str, body: &Value| {
        told(send(server, "PUT", "configuration", &[("X-Callboard-Seq", number)], body).await).await
    };
    let first = put(&server, "1", &refused).await;
    assert_eq!((first.0, first.1), (400, Some(1)), "{first:?}");
    let detail = |text: &str| serde_json::from_str::<Value>(text).expect("a problem")["detail"].clone();
    for orderly in [false, true] {
        if orderly {
            assert_eq!(rig::end(server).await, Some(0));
        } else {
            // What was answered is recorded.
            server.program.kill();
        }
        server = rig::with_data(dir.path());
        let again = put(&server, "1", &refused).await;
        assert_eq!((again.0, again.1, detail(&again.2)), (400, Some(1), detail(&first.2)), "{again:?}");
    }
    let taken = put(&server, "2", &json!({"config": CONFIG})).await;
    assert_eq!((taken.0, taken.1), (200, Some(2)), "{taken:?}");
}

#[tokio::test]
async fn a_configuration_whose_session_ended_while_it_came_is_refused() {
    let server = Server::registered(&[]).await;
    let address = server.url("").trim_start_matches("http://").to_owned();
    let config = CONFIG.to_owned() + "          - name: late\n";
    for (epoch, headers) in [(1, ""), (2, "x-callboard-epoch: 2\r\n"), (3, "idempotency-key: k\r\n")] {
        let body = json!({"rmID": "rm-1", "config": config}).to_string();
        let mut socket = TcpStream::connect(&address).await.expect("connected");
        let head = format!(
            "PUT /si/v1/rm/rm-1/configuration HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\n\
             content-length: {}\r\nexpect: 100-continue\r\nconnection: close\r\n{headers}\r\n",
            body.len()
        );
        socket.write_all(head.as_bytes()).await.expect("sent");
        let mut goes_on = [0; 25];
        tokio::time::timeout(LIMIT, socket.read_exact(&mut goes_on)).await.expect("in time").expect("read");
        assert!(goes_on.starts_with(b"HTTP/1.1 100"), "{goes_on:?}");
        server.register("rm-1", &[]).await;
        socket.write_all(body.as_bytes()).await.expect("sent");
        let mut answer = String::new();
        tokio::time::timeout(LIMIT, socket.read_to_string(&mut answer)).await.expect("in time").expect("read");
        let wanted = format!("epoch {epoch} is not that of resource manager");
        assert!(answer.starts_with("HTTP/1.1 409") && answer.contains(&wanted), "{headers}: {answer}");
        let queues = server.get("/ws/v1/partition/default/queues").await.1.to_string();
        assert!(queues.contains("root.a") && !queues.contains("late"), "{queues}");
    }
}

#[tokio::test]
async fn answers_name_their_session_too() {
    let server = Server::registered(&[]).await;
    let answer = json!({"id": 1, "success": true});
    for (epoch, status) in [("1", 202), ("7", 409), ("x", 400)] {
        let response = send(&server, "POST", "answers", &[("X-Callboard-Epoch", epoch)], &answer).await;
        assert_eq!(response.status(), status, "{epoch}");
    }
}
