//! Who is not let in is counted (`docs/access.md`).

use callboard::si::{
    ext::{UnregisterRequest, scheduler_extension_client::SchedulerExtensionClient},
    v1::{NodeRequest, scheduler_client::SchedulerClient},
};
use serde_json::json;
use tonic::{Code, Request, transport::Channel};

use crate::access::rig::{CONFIG, Server, token};

/// The counts, by door and reason in the order of the names.
async fn refused(server: &Server) -> Vec<(String, u64)> {
    let text = server.send("viewer", "GET", "/ws/v1/metrics", None).await.text().await.unwrap();
    let rows = text.lines().filter_map(|line| line.strip_prefix("callboard_requests_refused_total"));
    let mut rows: Vec<(String, u64)> = rows
        .map(|row| row.rsplit_once(' ').unwrap())
        .map(|(labels, count)| (labels.split('"').skip(1).step_by(2).collect::<Vec<_>>().join(" "), count))
        .map(|(labels, count)| (labels, count.parse().unwrap()))
        .collect();
    rows.sort();
    rows
}

fn counts(rows: [(&str, u64); 12]) -> Vec<(String, u64)> {
    rows.map(|(labels, count)| (labels.to_owned(), count)).into()
}

fn from<T>(caller: &str, message: T) -> Request<T> {
    let mut request = Request::new(message);
    request.metadata_mut().insert("authorization", format!("Bearer {}", token(caller)).parse().unwrap());
    request
}

#[tokio::test]
async fn by_door_and_reason() {
    let server = Server::start(&[]);
    server.register().await;
    assert!(refused(&server).await.iter().all(|(_, count)| *count == 0));
    for (caller, method, path) in [
        ("none", "GET", "/ws/v1/clusters"),
        ("none", "GET", "/nowhere"),
        ("unknown", "GET", "/ws/v1/clusters"),
        ("viewer", "GET", "/debug/stack"),
        ("shim", "PUT", "/si/v1/rm/rm-1/configuration"),
        ("second", "DELETE", "/si/v1/rm/rm-1"),
        // Let in, and then answered with an error.
        ("viewer", "GET", "/ws/v1/partition/nope/queues"),
    ] {
        server.status(caller, method, path).await;
    }
    // Only the body tells for whom a registration is.
    let body = json!({"rmID": "rm-1", "config": CONFIG});
    assert_eq!(server.send("second", "POST", "/si/v1/rm", Some(&body)).await.status(), 403);
    let channel = Channel::from_shared(server.address("grpc")).unwrap().connect().await.unwrap();
    let mut extension = SchedulerExtensionClient::new(channel.clone());
    let unregister = || UnregisterRequest { rm_id: "rm-1".into() };
    for (caller, code) in
        [("unknown", Code::Unauthenticated), ("viewer", Code::PermissionDenied), ("second", Code::PermissionDenied)]
    {
        assert_eq!(extension.unregister(from(caller, unregister())).await.unwrap_err().code(), code);
    }
    assert_eq!(extension.unregister(unregister()).await.unwrap_err().code(), Code::Unauthenticated);
    // A stream names its resource manager in its first message.
    let first = NodeRequest { rm_id: "rm-1".into(), ..Default::default() };
    let requests = from("second", tokio_stream::iter([first]));
    let answer = SchedulerClient::new(channel).update_node(requests).await.unwrap();
    assert_eq!(answer.into_inner().message().await.unwrap_err().code(), Code::PermissionDenied);
    let expected = [
        ("grpc no_token", 1),
        ("grpc origin", 0),
        ("grpc rate", 0),
        ("grpc resource_manager", 2),
        ("grpc role", 1),
        ("grpc unknown_token", 1),
        ("http no_token", 2),
        ("http origin", 0),
        ("http rate", 0),
        ("http resource_manager", 2),
        ("http role", 2),
        ("http unknown_token", 1),
    ];
    assert_eq!(refused(&server).await, counts(expected));
}

#[tokio::test]
async fn who_shows_no_token_keeps_no_connection() {
    let server = Server::start(&[]);
    for (caller, path, kept) in [
        ("none", "/healthz", false),
        ("none", "/api/v1/overview", false),
        ("viewer", "/api/v1/overview", true),
        ("viewer", "/api/v1/audit", true),
    ] {
        let answer = server.send(caller, "GET", path, None).await;
        let closes = answer.headers().get("connection").is_some_and(|value| value == "close");
        assert_eq!(!closes, kept, "{caller} {path}");
    }
}
