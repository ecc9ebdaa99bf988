//! The WebSocket door.

use futures::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::{
    MaybeTlsStream, WebSocketStream, connect_async,
    tungstenite::{Message, protocol::CloseFrame},
};

use crate::shim::server::{LIMIT, Server};

pub type Socket = WebSocketStream<MaybeTlsStream<TcpStream>>;

pub async fn open(server: &Server, query: &str) -> Socket {
    let url = server.url(&format!("/si/v1/rm/rm-1/ws{query}")).replace("http:", "ws:");
    connect_async(url).await.expect("upgraded").0
}

pub async fn send(socket: &mut Socket, value: Value) {
    socket.send(Message::text(value.to_string())).await.expect("sent");
}

async fn next(socket: &mut Socket) -> Message {
    loop {
        let message = tokio::time::timeout(LIMIT, socket.next()).await.expect("in time");
        match message.expect("a message").expect("no fault") {
            Message::Ping(_) | Message::Pong(_) => {}
            other => return other,
        }
    }
}

pub async fn line(socket: &mut Socket) -> Value {
    match next(socket).await {
        Message::Text(text) => serde_json::from_str(&text).expect("JSON"),
        other => panic!("{other:?}"),
    }
}

async fn closing(socket: &mut Socket) -> CloseFrame {
    loop {
        if let Message::Close(frame) = next(socket).await {
            return frame.expect("a reason");
        }
    }
}

#[tokio::test]
async fn requests_in_and_callbacks_out() {
    let server = Server::registered(&[]).await;
    let mut socket = open(&server, "").await;
    send(&mut socket, json!({"nodes": {"nodes": [{"nodeID": "n1", "action": "CREATE"}]}})).await;
    assert_eq!(line(&mut socket).await, json!({"seq": 1, "node": {"accepted": [{"nodeID": "n1"}]}}));
    let app = json!({"applicationID": "app-1", "queueName": "root.a", "ugi": {"user": "u"}});
    send(&mut socket, json!({"applications": {"new": [app]}})).await;
    assert_eq!(line(&mut socket).await["application"]["accepted"][0]["applicationID"], "app-1");
    send(&mut socket, json!({"allocations": {"allocations": [{"allocationKey": "k", "applicationID": "ghost"}]}}))
        .await;
    assert_eq!(line(&mut socket).await["allocation"]["rejectedAllocations"][0]["allocationKey"], "k");
    send(&mut socket, json!({"answer": [{"id": 99, "success": true}]})).await;
    // What is wrong is answered, and the connection goes on.
    for (bad, text) in [
        (json!({"colour": {}}), "colour"),
        (json!({"nodes": {}, "answer": {}}), "one of"),
        (json!([1]), "sequence"),
        (json!({"nodes": {"rmID": "rm-9"}}), "rm-9"),
        (json!({"nodes": {"nodes": [{"action": "EXPLODE"}]}}), "EXPLODE"),
    ] {
        send(&mut socket, bad).await;
        let error = line(&mut socket).await;
        assert_eq!(error["error"]["status"], 400, "{error}");
        assert!(error["error"]["detail"].as_str().is_some_and(|detail| detail.contains(text)), "{error}");
    }
    assert_eq!(server.get("/si/v1/rm/rm-1").await.1["streams"][0]["door"], "http-ws");
}

#[tokio::test]
async fn numbered_requests_are_taken_once_and_acknowledged() {
    let server = Server::registered(&[]).await;
    let mut socket = open(&server, "").await;
    let node = |id: &str| json!({"nodes": [{"nodeID": id, "action": "CREATE"}]});
    // Lines and acknowledgements come in any order.
    async fn told(socket: &mut Socket, acknowledged: &mut u64, nodes: &mut Vec<Value>) -> Option<Value> {
        let line = line(socket).await;
        if let Some(ack) = line.get("ack") {
            assert_eq!(ack["epoch"], 1);
            *acknowledged = ack["sequence"].as_u64().expect("a number");
        } else if line.get("node").is_some() {
            // What comes together is answered together.
            let accepted = line["node"]["accepted"].as_array().expect("a list");
            nodes.extend(accepted.iter().map(|accepted| accepted["nodeID"].clone()));
        } else if line.get("error").is_some() {
            return Some(line);
        }
        None
    }
    let (mut acknowledged, mut nodes) = (0, Vec::new());
    send(&mut socket, json!({"seq": 1, "nodes": node("n1")})).await;
    send(&mut socket, json!({"epoch": "1", "nodes": node("n2"), "seq": "2"})).await;
    while acknowledged < 2 || nodes.len() < 2 {
        assert_eq!(told(&mut socket, &mut acknowledged, &mut nodes).await, None);
    }
    // Over HTTP the numbers go on.
    let url = server.url("/si/v1/rm/rm-1/nodes");
    let request = server.http.post(url).header("X-Callboard-Seq", "3").header("content-type", "application/json");
    assert_eq!(request.body(node("n3").to_string()).send().await.expect("an answer").status(), 202);
    for (bad, status, text) in [
        (json!({"seq": 5, "nodes": node("n5")}), 409, "request 5 came where 4 is the next"),
        (json!({"seq": 4, "epoch": 9, "nodes": node("n4")}), 409, "epoch 9 is not that of"),
        (json!({"seq": 4, "nodes": {"nodes": 7}}), 400, "nodes"),
        (json!({"seq": 4, "answer": {"id": 1, "success": true}}), 400, "answers have no number"),
        (json!({"seq": 0, "nodes": node("n4")}), 400, "above zero"),
    ] {
        send(&mut socket, bad.clone()).await;
        let error = loop {
            if let Some(error) = told(&mut socket, &mut acknowledged, &mut nodes).await {
                break error;
            }
        };
        assert_eq!((&error["error"]["status"], &error["seq"]), (&json!(status), &bad["seq"]), "{error}");
        assert!(error["error"]["detail"].as_str().is_some_and(|detail| detail.contains(text)), "{error}");
        assert!(!error.to_string().contains("x-callboard"), "nothing is said of headers: {error}");
    }
    // What was taken before is acknowledged, and changes nothing; over another connection too.
    drop(socket);
    let mut socket = open(&server, "?after=0").await;
    (acknowledged, nodes) = (0, Vec::new());
    send(&mut socket, json!({"seq": 2, "nodes": node("n2")})).await;
    send(&mut socket, json!({"seq": 4, "nodes": node("n4")})).await;
    while acknowledged < 4 || nodes.len() < 4 {
        assert_eq!(told(&mut socket, &mut acknowledged, &mut nodes).await, None);
    }
    assert_eq!(nodes, ["n1", "n2", "n3", "n4"]);
}

#[tokio::test]
async fn it_resumes_is_replaced_and_lost() {
    let server = Server::registered(&[("rm.gracePeriod", "1ms")]).await;
    // The answers are there before the stream asks for what comes after the first.
    server.nodes_in_turn(&["n1", "n2"]).await;
    let mut first = open(&server, "?after=1").await;
    assert_eq!(line(&mut first).await["seq"], 2);
    let mut second = open(&server, "?after=2").await;
    let frame = closing(&mut first).await;
    assert_eq!(u16::from(frame.code), 4409, "{frame:?}");
    assert!(frame.reason.contains("another stream"), "{frame:?}");
    server.nodes(&["n3"]).await;
    assert_eq!(line(&mut second).await["seq"], 3);
    drop(second);
    server.until(|info| info["state"] == "Paused").await;
    let refused = connect_async(server.url("/si/v1/rm/rm-1/ws?after=77").replace("http:", "ws:")).await;
    assert!(refused.is_err_and(|error| error.to_string().contains("400")));
}

#[tokio::test]
async fn an_answer_names_its_session_too() {
    let server = Server::registered(&[]).await;
    let mut socket = open(&server, "").await;
    send(&mut socket, json!({"epoch": 7, "answer": {"id": 1, "success": true}})).await;
    let told = line(&mut socket).await;
    assert!(told["error"]["detail"].as_str().is_some_and(|text| text.starts_with("epoch 7 is not")), "{told}");
}
