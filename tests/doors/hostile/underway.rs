//! Messages that have begun to come and are not whole: what all of them take together.

use std::{future::poll_fn, time::Duration};

use bytes::Bytes;
use callboard::si::v1::{NodeInfo, NodeRequest, scheduler_client::SchedulerClient};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use http_body::Frame;
use http_body_util::{BodyExt as _, StreamBody};
use serde_json::json;
use tokio::task::JoinSet;
use tonic::{
    Code, Request, Status,
    body::Body,
    codegen::{Service as _, http},
    transport::Channel,
};

use crate::access::rig::{CONFIG, LIMIT, Server, token, until};

/// Of a message of 8 MiB: 7.5, so that nine are below 72 MiB, and ten are not.
const COME: usize = 15 << 19;
const PIECE: usize = 1 << 16;

/// The beginning of what comes, and then a byte each second.
fn drops(head: &'static [u8]) -> impl futures::Stream<Item = Result<Bytes, Status>> + Send + use<> {
    let begun = stream::iter([Bytes::from_static(head)]);
    let pieces = stream::repeat(Bytes::from(vec![b'x'; PIECE])).take(COME / PIECE);
    let drops = stream::repeat(Bytes::from_static(b"x")).then(|byte| async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        byte
    });
    begun.chain(pieces).chain(drops).map(Ok)
}

async fn channel(server: &Server) -> Channel {
    Channel::from_shared(server.address("grpc")).unwrap().connect().await.unwrap()
}

/// Begins a message that is never whole; gives how its call ends.
async fn begin(mut channel: Channel, caller: &str) -> Status {
    let body = Body::new(StreamBody::new(Box::pin(drops(&[0, 0, 0x80, 0, 0]).map_ok(Frame::data))));
    let request = http::Request::post("http://here/si.v1.Scheduler/UpdateNode")
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .header("authorization", format!("Bearer {}", token(caller)))
        .body(body)
        .unwrap();
    poll_fn(|context| channel.poll_ready(context)).await.unwrap();
    let answer = channel.call(request).await.unwrap();
    if let Some(status) = Status::from_header_map(answer.headers()) {
        return status;
    }
    let trailers = answer.into_body().collect().await.unwrap().trailers().cloned();
    Status::from_header_map(&trailers.expect("trailers")).expect("a status")
}

/// Begins twelve messages, of which nine have room; gives them, when the others were refused. `None`: more were.
async fn twelve(channel: &Channel) -> Option<JoinSet<Status>> {
    let mut calls = JoinSet::new();
    for _ in 0..12 {
        let channel = channel.clone();
        calls.spawn(async move { begin(channel, "shim").await });
    }
    for _ in 0..3 {
        let status = tokio::time::timeout(LIMIT, calls.join_next()).await.expect("in time").unwrap().unwrap();
        assert_eq!(status.code(), Code::ResourceExhausted, "{status}");
        assert!(status.message().contains("bytes of your requests are under way, more than 75497472"), "{status}");
    }
    calls.try_join_next().is_none().then_some(calls)
}

/// A whole message of 8 MiB is taken; its only item has a name that is too long.
async fn whole(channel: &Channel, caller: &str, rm: &str) {
    let node = NodeInfo { node_id: "x".repeat((8 << 20) - 100), action: 1, ..Default::default() };
    let messages = stream::iter([NodeRequest { rm_id: rm.into(), nodes: vec![node] }]).chain(stream::pending());
    let mut request = Request::new(messages);
    request.metadata_mut().insert("authorization", format!("Bearer {}", token(caller)).parse().unwrap());
    // The answer repeats the name.
    let mut client = SchedulerClient::new(channel.clone()).max_decoding_message_size(usize::MAX);
    let mut answer = client.update_node(request).await.unwrap().into_inner();
    let line = tokio::time::timeout(LIMIT, answer.message()).await.expect("in time").unwrap().expect("a line");
    assert!(line.rejected[0].reason.contains("at most 1024 are allowed"), "{}", line.rejected[0].reason);
}

#[tokio::test]
async fn a_caller_has_so_many_bytes_under_way_and_takes_nothing_from_the_others() {
    let server = Server::start(&[]);
    for rm in ["rm-1", "rm-2", "rm-3"] {
        let body = json!({"rmID": rm, "config": CONFIG, "extraConfig": {"rm.gracePeriod": "10m"}});
        assert_eq!(server.send("operator", "POST", "/si/v1/rm", Some(&body)).await.status(), 200);
    }
    let evil = channel(&server).await;
    // The same account at the other door. On a busy machine those that are held may have ended by then: once more.
    let mut held = None;
    let post = async || {
        let post = server.http.post(format!("{}/si/v1/rm/rm-1/nodes", server.address("http")));
        let post = post.bearer_auth(token("shim")).header("content-type", "application/json");
        post.body(reqwest::Body::wrap_stream(drops(b"{"))).timeout(LIMIT).send().await.unwrap()
    };
    until(async || {
        held = twelve(&evil).await;
        let refused = post().await;
        let crowded = refused.status() == 429;
        crowded && refused.text().await.unwrap().contains("bytes of your requests are under way")
    })
    .await;
    whole(&channel(&server).await, "second", "rm-2").await;
    // What is not there any more is given back, whether the calls end or their connection does.
    drop(held);
    until(async || twelve(&evil).await.is_some()).await;
    drop(evil);
    let fresh = channel(&server).await;
    until(async || twelve(&fresh).await.is_some()).await;
    // Honest work: some large messages at once.
    let (a, b, c) = (channel(&server).await, channel(&server).await, channel(&server).await);
    tokio::join!(whole(&a, "operator", "rm-1"), whole(&b, "operator", "rm-2"), whole(&c, "operator", "rm-3"));
}
