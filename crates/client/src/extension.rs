//! The extension stream of the gRPC shim: callbacks of all kinds in one order, and questions whether asks fit nodes.

use std::time::Instant;

use callboard_si::ext::{
    Call, Done, Hello, PredicatesReply, Reply, call, reply, scheduler_extension_client::SchedulerExtensionClient,
};
use tokio::{
    sync::mpsc::{self, UnboundedSender},
    task::JoinHandle,
};
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::{Code, Streaming};

use super::{
    Error, Incoming, Message, Result,
    grpc::{Connection, closed, refused},
};

/// Name of the call in texts.
const RPC: &str = "Callbacks";

/// The way back for answers.
#[derive(Clone)]
pub struct Answers(UnboundedSender<Reply>);

impl Answers {
    /// Answers the question of this number; an empty text means that it fits. The session may be over already.
    pub fn send(&self, id: u64, error: &str) {
        let reply = reply::Reply::Predicates(PredicatesReply { error: error.to_owned() });
        let _ = self.0.send(Reply { id, reply: Some(reply) });
    }
}

/// Opens the stream for the next registration of a resource manager, and reads it until it ends.
pub(super) async fn open(
    channel: Connection,
    rm: &str,
    out: UnboundedSender<Incoming>,
) -> Result<(Answers, JoinHandle<()>)> {
    let (replies, sent) = mpsc::unbounded_channel();
    let hello = Hello { rm_id: rm.to_owned(), ..Default::default() };
    // The receiver is right here.
    let _ = replies.send(Reply { id: 0, reply: Some(reply::Reply::Hello(hello)) });
    let mut client = SchedulerExtensionClient::new(channel).max_decoding_message_size(usize::MAX);
    let opened = client.callbacks(UnboundedReceiverStream::new(sent)).await;
    let mut calls = opened.map_err(|status| match status.code() {
        Code::Unimplemented => {
            Error::Server("the server has no callboard.v1.SchedulerExtension, over which it would ask".into())
        }
        _ => refused(RPC, &status),
    })?;
    // The first Ready answers the Hello: from now on the stream waits for the registration.
    match calls.get_mut().message().await.map_err(|status| refused(RPC, &status))? {
        Some(Call { call: Some(call::Call::Ready(_)), .. }) => {}
        Some(_) => return Err(Error::Server(format!("{RPC}: the server answered Hello with something else"))),
        None => return Err(closed(RPC)),
    }
    let answers = Answers(replies);
    let reader = tokio::spawn(read(calls.into_inner(), answers.clone(), out));
    Ok((answers, reader))
}

async fn read(mut calls: Streaming<Call>, answers: Answers, out: UnboundedSender<Incoming>) {
    let end = loop {
        let call = match calls.message().await {
            Ok(Some(call)) => call,
            Ok(None) => break closed(RPC),
            Err(status) => break refused(RPC, &status),
        };
        let (message, done) = match call.call {
            Some(call::Call::Allocation(response)) => (Message::Allocation(response), true),
            Some(call::Call::Application(response)) => (Message::Application(response), true),
            Some(call::Call::Node(response)) => (Message::Node(response), true),
            Some(call::Call::Predicates(question)) => (Message::Predicates { id: call.id, question }, false),
            _ => (Message::Other, false),
        };
        if out.send(Incoming::Message { seq: 0, at: Instant::now(), message }).is_err() {
            return;
        }
        if done {
            // It is in the hands of whoever listens.
            let _ = answers.0.send(Reply { id: call.id, reply: Some(reply::Reply::Done(Done::default())) });
        }
    };
    // Nobody listens any more: nothing to tell.
    let _ = out.send(Incoming::Ended(end));
}
