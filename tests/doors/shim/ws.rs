//! The WebSocket door.

use futures::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::{
    MaybeTlsStream, WebSocketStream, connect_async,
    tungstenite::{Message, protocol::CloseFrame},
};

use crate::shim::server::{LIMIT, Server};

type Socket = WebSocketStream<MaybeTlsStream<TcpStream>>;

async fn open(server: &Server, query: &str) -> Socket {
    let url = server.url(&format!("/si/v1/rm/rm-1/ws{query}")).replace("http:", "ws:");
    connect_async(url).await.expect("upgraded").0
}

async fn send(socket: &mut Socket, value: Value) {
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

async fn line(socket: &mut Socket) -> Value {
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
