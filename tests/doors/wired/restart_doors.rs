//! A server is killed while a placeholder is being replaced and victims of a preemption are being ended: whatever door the shim
//! comes back through, it hears of both, confirms, and both end well.

use std::{path::Path, time::Duration};

use callboard::si::{
    ext::{self, Call, Reply, reply, scheduler_extension_client::SchedulerExtensionClient},
    v1::{self, scheduler_client::SchedulerClient},
};
use futures::StreamExt as _;
use serde_json::{Value, json};
use tokio::{
    net::TcpStream,
    sync::mpsc::{Sender, channel},
};
use tokio_stream::wrappers::ReceiverStream;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async, tungstenite::Message};
use tonic::{Streaming, transport::Channel};

use crate::{
    shim::server::{LIMIT, Lines, Server},
    wired::rig::{send, until},
};

const LISTED: &str = "/api/v1/partition/default/releases";
const CONFIG: &str = "
partitions:
  - name: default
    preemption: {enabled: true}
    queues:
      - name: root
        submitacl: '*'
        queues:
          - {name: high, resources: {guaranteed: {memory: 100}}, properties: {preemption.delay: 1s}}
          - {name: low}
";

/// A way in for callbacks.
enum Door {
    Lines(Lines),
    Sse(Lines),
    Socket(Box<WebSocketStream<MaybeTlsStream<TcpStream>>>),
    Extension(Sender<Reply>, Box<Streaming<Call>>),
    Plain { _requests: Sender<v1::AllocationRequest>, answers: Box<Streaming<v1::AllocationResponse>> },
}

const DOORS: [&str; 5] = ["ndjson", "sse", "websocket", "extension", "plain"];

fn start(data: &Path) -> Server {
    Server::start(&["--data", &data.display().to_string()])
}

async fn channel_to(server: &Server) -> Channel {
    Channel::from_shared(server.grpc()).expect("an address").connect().await.expect("connected")
}

impl Door {
    /// Behind this line, where the door knows of lines.
    async fn open(server: &Server, door: &str, after: u64) -> Door {
        match door {
            "ndjson" => Door::Lines(server.stream(&format!("?after={after}")).await),
            "sse" => {
                // As a browser comes back.
                let request = server.http.get(server.url("/si/v1/rm/rm-1/stream"));
                let request = request.header("accept", "text/event-stream").header("last-event-id", after);
                Door::Sse(Lines::of(request.send().await.expect("an answer")))
            }
            "websocket" => {
                let url = server.url(&format!("/si/v1/rm/rm-1/ws?after={after}")).replace("http:", "ws:");
                Door::Socket(Box::new(connect_async(url).await.expect("upgraded").0))
            }
            "extension" => {
                let hello =
                    ext::Hello { rm_id: "rm-1".into(), resume: true, resume_after: after, ..Default::default() };
                let (replies, outgoing) = channel(16);
                let first = Reply { id: 0, reply: Some(reply::Reply::Hello(hello)) };
                replies.send(first).await.expect("room");
                let mut client = SchedulerExtensionClient::new(channel_to(server).await);
                let calls = client.callbacks(ReceiverStream::new(outgoing)).await.expect("opened").into_inner();
                Door::Extension(replies, Box::new(calls))
            }
            _ => {
                let (requests, outgoing) = channel(16);
                let attach = v1::AllocationRequest { rm_id: "rm-1".into(), ..Default::default() };
                requests.send(attach).await.expect("room");
                let mut client = SchedulerClient::new(channel_to(server).await);
                let answers = client.update_allocation(ReceiverStream::new(outgoing)).await.expect("opened");
                Door::Plain { _requests: requests, answers: Box::new(answers.into_inner()) }
            }
        }
    }

    /// The number of the next line, where the door tells, and what it says of allocations.
    async fn next(&mut self) -> (u64, Value) {
        let line = match self {
            Door::Lines(lines) => lines.next().await,
            Door::Sse(lines) => loop {
                let text = lines.text().await.expect("a line");
                if let Some(data) = text.strip_prefix("data:") {
                    break serde_json::from_str(data).expect("JSON");
                }
            },
            Door::Socket(socket) => loop {
                let message = tokio::time::timeout(LIMIT, socket.next()).await.expect("in time");
                if let Message::Text(text) = message.expect("a message").expect("no fault") {
                    break serde_json::from_str(&text).expect("JSON");
                }
            },
            Door::Extension(replies, calls) => {
                let call = tokio::time::timeout(LIMIT, calls.message()).await.expect("in time").expect("no fault");
                let call = call.expect("a call");
                let answer = match &call.call {
                    Some(ext::call::Call::Predicates(_)) => reply::Reply::Predicates(ext::PredicatesReply::default()),
                    Some(ext::call::Call::PreemptionPredicates(asked)) => {
                        // As soon as enough of them are gone.
                        let index = asked.start_index.max(0);
                        reply::Reply::PreemptionPredicates(v1::PreemptionPredicatesResponse { success: true, index })
                    }
                    _ => reply::Reply::Done(ext::Done::default()),
                };
                if call.id > 0 {
                    replies.send(Reply { id: call.id, reply: Some(answer) }).await.expect("open");
                }
                match call.call {
                    Some(ext::call::Call::Allocation(response)) => {
                        json!({"seq": call.id, "allocation": serde_json::to_value(response).expect("JSON")})
                    }
                    // A question is held until what came before it is done, and what is behind it does not wait.
                    _ => json!({"seq": 0}),
                }
            }
            Door::Plain { answers, .. } => {
                let answer = tokio::time::timeout(LIMIT, answers.message()).await.expect("in time").expect("no fault");
                json!({"seq": 0, "allocation": serde_json::to_value(answer.expect("one")).expect("JSON")})
            }
        };
        (line["seq"].as_u64().unwrap_or(0), line["allocation"].clone())
    }

    /// Reads until all these words were said, and gives the last number; `new KEY` or `released KEY TYPE`.
    async fn until(&mut self, words: &[&str]) -> (u64, Vec<String>) {
        let (mut heard, mut last): (Vec<String>, u64) = (Vec::new(), 0);
        while !words.iter().all(|word| heard.iter().any(|heard| heard == word)) {
            let (seq, allocation) = self.next().await;
            assert!(seq == 0 || seq > last, "line {seq} after {last}");
            last = last.max(seq);
            let list = |name: &str| allocation[name].as_array().cloned().unwrap_or_default();
            let text = |row: &Value, name: &str| row[name].as_str().unwrap_or_default().to_owned();
            heard.extend(list("new").iter().map(|new| format!("new {}", text(new, "allocationKey"))));
            heard.extend(
                list("released")
                    .iter()
                    .map(|gone| format!("released {} {}", text(gone, "allocationKey"), text(gone, "terminationType"))),
            );
        }
        (last, heard)
    }
}

fn memory(amount: u64) -> Value {
    json!({"resources": {"memory": {"value": amount.to_string()}}})
}

async fn node(server: &Server, id: &str, amount: u64) {
    let node = json!({"nodeID": id, "action": "CREATE", "schedulableResource": memory(amount)});
    send(server, "nodes", json!({"nodes": [node]})).await;
}

async fn application(server: &Server, id: &str, queue: &str, more: Value) {
    let mut app = json!({"applicationID": id, "queueName": queue, "partitionName": "default", "ugi": {"user": "u", "groups": ["g"]}});
    app.as_object_mut().expect("an object").extend(more.as_object().cloned().unwrap_or_default());
    send(server, "applications", json!({"new": [app]})).await;
}

async fn ask(server: &Server, app: &str, key: &str, amount: u64, more: Value) {
    let mut ask = json!({"allocationKey": key, "applicationID": app, "partitionName": "default",
        "resourcePerAlloc": memory(amount), "preemptionPolicy": {"allowPreemptSelf": true, "allowPreemptOther": true}});
    ask.as_object_mut().expect("an object").extend(more.as_object().cloned().unwrap_or_default());
    send(server, "allocations", json!({"allocations": [ask]})).await;
}

fn rows(listed: &Value, kind: &str) -> Vec<Value> {
    let rows = listed["releases"].as_array().cloned().unwrap_or_default();
    rows.into_iter().filter(|row| row["terminationType"] == kind).collect()
}

/// Both are in flight: a placeholder is to be replaced, and victims are to go. Gives the line behind which neither was told.
async fn in_flight(server: &Server, door: &mut Door) -> u64 {
    node(server, "n1", 100).await;
    application(server, "batch", "root.low", json!({})).await;
    let tasks: Vec<String> = (0..5).map(|n| format!("task-{n}")).collect();
    for key in &tasks {
        ask(server, "batch", key, 20, json!({})).await;
    }
    let placed: Vec<String> = tasks.iter().map(|key| format!("new {key}")).collect();
    door.until(&placed.iter().map(String::as_str).collect::<Vec<_>>()).await;
    node(server, "n2", 10).await;
    application(server, "gang", "root.low", json!({"placeholderAsk": memory(10)})).await;
    ask(server, "gang", "ph", 10, json!({"placeholder": true, "taskGroupName": "tg"})).await;
    let (before, _) = door.until(&["new ph"]).await;
    application(server, "urgent", "root.high", json!({})).await;
    ask(server, "urgent", "big", 40, json!({})).await;
    ask(server, "gang", "real", 10, json!({"taskGroupName": "tg"})).await;
    let both = |listed: &Value| {
        rows(listed, "PREEMPTED_BY_SCHEDULER").len() == 2 && rows(listed, "PLACEHOLDER_REPLACED").len() == 1
    };
    // Questions are answered meanwhile, through the door that puts them.
    let answering = async {
        loop {
            door.next().await;
        }
    };
    tokio::select! {
        _ = until(server, LISTED, both) => {}
        () = answering => {}
    }
    before
}

#[tokio::test]
async fn a_swap_and_a_preemption_in_flight_go_on_behind_every_door() {
    for door in DOORS {
        let dir = tempfile::tempdir().expect("a directory");
        let mut server = start(dir.path());
        let register = json!({"rmID": "rm-1", "config": CONFIG, "extraConfig": {"rm.resendAfter": "10m"}});
        assert_eq!(server.send("POST", "/si/v1/rm", &register).await.0, 200);
        let mut before = Door::open(&server, door, 0).await;
        let after = in_flight(&server, &mut before).await;
        let listed = server.get(LISTED).await.1;
        server.program.kill();
        drop(before);

        let server = start(dir.path());
        let again = server.get(LISTED).await.1;
        let keys = |listed: &Value, kind: &str| {
            let rows = rows(listed, kind).into_iter();
            let mut keys: Vec<_> = rows.map(|row| row["allocationKey"].as_str().expect("a key").to_owned()).collect();
            keys.sort();
            keys
        };
        for kind in ["PREEMPTED_BY_SCHEDULER", "PLACEHOLDER_REPLACED"] {
            assert_eq!(keys(&again, kind), keys(&listed, kind), "{door}");
        }
        let mut back = Door::open(&server, door, after).await;
        let victims = keys(&listed, "PREEMPTED_BY_SCHEDULER");
        let mut told: Vec<String> =
            victims.iter().map(|key| format!("released {key} PREEMPTED_BY_SCHEDULER")).collect();
        told.push("released ph PLACEHOLDER_REPLACED".to_owned());
        let (_, heard) = back.until(&told.iter().map(String::as_str).collect::<Vec<_>>()).await;
        assert!(!heard.iter().any(|word| word.starts_with("new ")), "{door}: nothing is placed before: {heard:?}");
        let mut confirmed: Vec<Value> = victims.iter().map(|key| json!({"partitionName": "default", "applicationID": "batch", "allocationKey": key, "terminationType": "PREEMPTED_BY_SCHEDULER"})).collect();
        confirmed.push(json!({"partitionName": "default", "applicationID": "gang", "allocationKey": "ph", "terminationType": "PLACEHOLDER_REPLACED"}));
        send(&server, "allocations", json!({"releases": {"allocationsToRelease": confirmed}})).await;
        back.until(&["new real", "new big"]).await;
        until(&server, LISTED, |listed| listed["releases"] == json!([])).await;
        let app = server.get("/ws/v1/partition/default/application/urgent").await.1;
        assert_eq!(app["allocations"][0]["nodeId"], "n1", "{door}: {app}");
        assert_eq!(server.get("/ws/v1/scheduler/healthcheck").await.1["Healthy"], true, "{door}");
        // Beyond what the log tells: register again, through every door that has numbers.
        if door == "ndjson" || door == "sse" {
            let (status, gone) = server.get("/si/v1/rm/rm-1/stream?after=99999").await;
            assert_eq!(status, 410, "{gone}");
        }
        if let Door::Extension(..) = &back {
            let mut beyond = Door::open(&server, door, 99_999).await;
            let Door::Extension(_, calls) = &mut beyond else { panic!("an extension stream") };
            let status = tokio::time::timeout(Duration::from_secs(30), calls.message()).await.expect("in time");
            assert_eq!(status.expect_err("refused").code(), tonic::Code::OutOfRange);
        }
    }
}
