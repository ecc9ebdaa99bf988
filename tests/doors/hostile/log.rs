//! What a shim says of itself does not fill the log of those who run the server.

use callboard::si::ext::{self, Hello, Reply, call, reply, scheduler_extension_client::SchedulerExtensionClient};
use tokio::sync::mpsc::channel;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, transport::Channel};

use crate::{common::LIMIT, shim::server::Server};

#[tokio::test]
async fn failed_callbacks_are_told_shortly_and_a_few_times_a_minute() {
    let server = Server::registered(&[]).await;
    let channel_to = Channel::from_shared(server.grpc()).expect("an address").connect().await.expect("connected");
    let (replies, outgoing) = channel(64);
    let reply = async |id: u64, reply: reply::Reply| {
        replies.send(Reply { id, reply: Some(reply) }).await.expect("open");
    };
    let failed = |error: String| reply::Reply::Done(ext::Done { error });
    let hello = || reply::Reply::Hello(Hello { rm_id: "rm-1".into(), resume: true, ..Default::default() });
    reply(0, hello()).await;
    let calls = SchedulerExtensionClient::new(channel_to).callbacks(ReceiverStream::new(outgoing)).await;
    let mut calls = calls.expect("opened").into_inner();
    let mut next = async || tokio::time::timeout(LIMIT, calls.message()).await.expect("in time");
    let begun = next().await.expect("no fault").expect("a call").call;
    assert!(matches!(begun, Some(call::Call::Ready(_))), "{begun:?}");
    // Nobody asked for these.
    for id in 1_000..1_005 {
        reply(id, failed("made up".repeat(200_000))).await;
    }
    let names: Vec<String> = (0..15).map(|n| format!("n{n}")).collect();
    server.nodes_in_turn(&names.iter().map(String::as_str).collect::<Vec<_>>()).await;
    for _ in &names {
        let call = next().await.expect("no fault").expect("a call");
        reply(call.id, failed("no room".repeat(200_000))).await;
    }
    reply(0, hello()).await;
    // What came before it was looked at by then. There may be more calls than nodes.
    let refused = loop {
        match next().await {
            Ok(call) => assert!(call.is_some(), "a second Hello is refused"),
            Err(refused) => break refused,
        }
    };
    assert_eq!(refused.code(), Code::InvalidArgument);
    let log = server.program.log();
    assert_eq!(log.matches("callback-failed").count(), 10, "{} bytes", log.len());
    assert!(!log.contains("made up") && log.contains("no room") && log.len() < 64 << 10, "{} bytes", log.len());
}
