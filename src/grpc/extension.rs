//! `callboard.v1.SchedulerExtension`: one ordered stream of all callbacks, predicates, configuration, shutdown.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use futures::stream;
use tokio::sync::{
    Notify,
    mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel},
    oneshot,
};
use tonic::{Request, Response, Status, Streaming};

use super::{
    guard, keyed,
    order::{Order, wants_done},
    plain::{Outgoing, unhandled},
    requests, status,
};
use crate::{
    access::Caller,
    actors::{
        rm::{EXTENSION, handle::not_registered, open::OpenStream},
        topology::Topology,
    },
    domain::names::shorten,
    messages::{
        rm::{Answer, AnswerBody, Line, Predicates, ToStream, Unregister, Want, verdict},
        sparing::Sparing,
    },
    si::{
        codec::Wire,
        ext::{self, call, reply},
        intake::MAX_ENTRIES,
        outward,
        service::SchedulerExtension,
        v1,
    },
};

/// So many failed callbacks of a resource manager are logged in a minute.
const FAILURES: u32 = 10;
/// Longest error of a shim that is logged, in bytes.
const WORDS: usize = 1_024;

/// The service.
pub struct Extension {
    topology: Arc<Topology>,
    failures: Arc<Mutex<Sparing>>,
}

impl Extension {
    /// With this wiring.
    pub fn new(topology: Arc<Topology>) -> Extension {
        Extension { topology, failures: Arc::new(Mutex::new(Sparing::new(FAILURES))) }
    }
}

#[tonic::async_trait]
impl SchedulerExtension for Extension {
    async fn update_configuration(
        &self,
        request: Request<Wire>,
    ) -> Result<Response<ext::UpdateConfigurationResponse>, Status> {
        let caller = guard::caller(request.extensions())?;
        let (detail, sender) = (guard::detail(request.extensions()), guard::sender(request.extensions()));
        let metadata = request.metadata().clone();
        let message = request.into_inner();
        let bytes = message.0.clone();
        let request: v1::UpdateConfigurationRequest =
            message.message("UpdateConfigurationRequest", &[], MAX_ENTRIES).map_err(status::fault)?;
        detail.tell(format!("resource manager {}", request.rm_id));
        caller.acts_for(&request.rm_id)?;
        caller.configures()?;
        let (rm, group) = (request.rm_id, request.policy_group);
        let turn = keyed::turn(&self.topology, &rm, &metadata, "UpdateConfigurationRequest", &bytes).await?;
        if let Some(None) = turn {
            return Ok(Response::new(ext::UpdateConfigurationResponse {}));
        }
        let turn = turn.flatten();
        let epoch = turn.as_ref().map(keyed::Now::epoch);
        let done = self.topology.configure(&rm, epoch, &group, request.config, request.extra_config, sender);
        let notes = status::guarded(async { done.await.map_err(status::refusals) }).await?;
        detail.tell(notes.audited());
        if let Some(now) = turn {
            now.done();
        }
        Ok(status::noted(ext::UpdateConfigurationResponse {}, &notes))
    }

    async fn unregister(&self, request: Request<Wire>) -> Result<Response<ext::UnregisterResponse>, Status> {
        let caller = guard::caller(request.extensions())?;
        let detail = guard::detail(request.extensions());
        let asked = keyed::asked(request.metadata(), "UnregisterRequest", &request.get_ref().0)?;
        let request = request.into_inner().message("UnregisterRequest", &[], MAX_ENTRIES).map_err(status::fault)?;
        let ext::UnregisterRequest { rm_id: rm } = request;
        detail.tell(format!("resource manager {rm}"));
        caller.acts_for(&rm)?;
        let unknown = || status::refusal(not_registered("UnregisterRequest", &rm));
        let handle = status::registered(&self.topology, "UnregisterRequest", &rm).await?;
        handle.addr.send(Unregister { asked }).await.map_err(|_| unknown())?.map_err(status::refusal)?;
        Ok(Response::new(ext::UnregisterResponse {}))
    }

    type CallbacksStream = Outgoing<ext::Call>;

    async fn callbacks(&self, request: Request<Streaming<Wire>>) -> Result<Response<Self::CallbacksStream>, Status> {
        let caller = guard::caller(request.extensions())?;
        let incoming = request.into_inner();
        let (to, words) = unbounded_channel();
        let (opened, open) = oneshot::channel();
        let (end, ended) = oneshot::channel();
        let (topology, failures) = (self.topology.clone(), self.failures.clone());
        tokio::spawn(async move {
            let _ = end.send(status::guarded(read(topology, failures, caller, incoming, to, opened)).await);
        });
        let writer = Writer { words, opening: Some(open), open: None, ended, calls: VecDeque::new() };
        Ok(Response::new(Box::pin(stream::unfold(Some(writer), async |writer| {
            let mut writer = writer?;
            match writer.next().await {
                Some(Ok(call)) => Some((Ok(call), Some(writer))),
                Some(Err(status)) => Some((Err(status), None)),
                None => None,
            }
        }))))
    }

    type RequestsStream = Outgoing<ext::Ack>;

    async fn requests(&self, request: Request<Streaming<Wire>>) -> Result<Response<Self::RequestsStream>, Status> {
        let caller = guard::caller(request.extensions())?;
        let (traced, changes) = (guard::traced(request.extensions()), guard::changes(request.extensions()));
        let caller = (caller, guard::sender(request.extensions()));
        Ok(Response::new(requests::serve(self.topology.clone(), caller, traced, changes, request.into_inner())))
    }
}

/// The stream as reader and writer share it.
struct Open {
    stream: OpenStream,
    order: Mutex<Order>,
    released: Notify,
    rm: String,
    /// Shared by all streams: one that is opened again is not counted anew.
    failures: Arc<Mutex<Sparing>>,
}

impl Open {
    /// R1.26: logged, and nothing else changes. A shim does not write as much as it likes into the log of those who run the server.
    fn failed(&self, call: u64, mut error: String) {
        let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(more) = failures.say(&self.rm, Instant::now()) else { return };
        drop(failures);
        shorten(&mut error, WORDS);
        tracing::warn!(
            code = "callback-failed",
            rm = self.rm,
            call,
            error,
            unsaid = (more > 0).then_some(more),
            "the shim could not handle a callback"
        );
    }

    fn order(&self) -> MutexGuard<'_, Order> {
        // Whole after a panic elsewhere: no change of it can panic half way.
        self.order.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reads replies until the peer ends. The stream goes with it: without replies nothing could go on.
async fn read(
    topology: Arc<Topology>,
    failures: Arc<Mutex<Sparing>>,
    caller: Caller,
    mut incoming: Streaming<Wire>,
    to: UnboundedSender<ToStream>,
    opened: oneshot::Sender<Arc<Open>>,
) -> Result<(), Status> {
    let limit = topology.limits.items();
    let first = incoming.message().await?.map(|message| reply(message, limit)).transpose()?;
    let Some(reply::Reply::Hello(hello)) = first.and_then(|reply| reply.reply) else {
        return Err(Status::invalid_argument("the first reply has to be a Hello"));
    };
    caller.acts_for(&hello.rm_id)?;
    let predicates = match (hello.several_predicates, hello.batch_predicates) {
        (true, _) => Predicates::Several,
        (false, true) => Predicates::Batch,
        (false, false) => Predicates::Single,
    };
    let stream = if hello.resume {
        let handle = status::registered(&topology, "Hello", &hello.rm_id).await?;
        let want = Want::All { after: Some(hello.resume_after), predicates: Some(predicates) };
        let stream = OpenStream::attach(&handle.addr, EXTENSION, want, to).await;
        stream.unwrap_or_else(|_| Err(not_registered("Hello", &hello.rm_id)))
    } else {
        topology.wait_for_registration(&hello.rm_id, EXTENSION, predicates, to).await
    };
    let stream = stream.map_err(status::refusal)?;
    let (order, released) = (Mutex::default(), Notify::new());
    let open = Arc::new(Open { stream, order, released, rm: hello.rm_id, failures });
    let reader = Arc::downgrade(&open);
    if opened.send(open).is_err() {
        return Ok(());
    }
    while let Some(message) = incoming.message().await? {
        let reply = reply(message, limit)?;
        // The writer holds the stream; when it is dropped, the peer has gone.
        let Some(open) = reader.upgrade() else { return Ok(()) };
        on_reply(&open, reply)?;
    }
    Ok(())
}

/// A reply; answers about many nodes are one for each, and count as items.
fn reply(message: Wire, limit: usize) -> Result<ext::Reply, Status> {
    const BATCH: (u32, u32) = (7, 1);
    const SEVERAL: (u32, u32) = (8, 2);
    message.message("Reply", &[BATCH, SEVERAL], limit).map_err(status::fault)
}

fn on_reply(open: &Open, reply: ext::Reply) -> Result<(), Status> {
    let id = reply.id;
    match reply.reply {
        Some(reply::Reply::Done(done)) => {
            let (was_open, handed) = {
                let mut order = open.order();
                (order.done(id), order.handed())
            };
            if was_open && !done.error.is_empty() {
                open.failed(id, done.error);
            }
            open.stream.handed(handed);
            open.released.notify_one();
        }
        Some(reply::Reply::Hello(_)) => return Err(Status::invalid_argument("a second Hello on the same stream")),
        None => return Err(Status::invalid_argument(format!("the reply to call {id} is empty"))),
        Some(reply) => open.stream.answer(Answer { id, body: body(reply) }),
    }
    Ok(())
}

/// What a reply to a question says.
fn body(reply: reply::Reply) -> AnswerBody {
    let batch = |batch: ext::PredicatesBatchReply| batch.errors.into_iter().map(verdict).collect();
    match reply {
        reply::Reply::Predicates(reply) => AnswerBody::Single { result: verdict(reply.error), index: 0 },
        reply::Reply::PreemptionPredicates(reply) => {
            let refused = || Err(Arc::from("the preemption predicates of the shim failed"));
            AnswerBody::Single { result: if reply.success { Ok(()) } else { refused() }, index: reply.index }
        }
        reply::Reply::PredicatesBatch(reply) => AnswerBody::Batch(batch(reply)),
        reply::Reply::PredicatesSeveral(reply) => AnswerBody::Several(reply.answers.into_iter().map(batch).collect()),
        reply::Reply::StateDump(reply) => {
            AnswerBody::Dump(if reply.error.is_empty() { Ok(reply.json) } else { Err(reply.error) })
        }
        // They answer no question.
        reply::Reply::Done(_) | reply::Reply::Hello(_) => AnswerBody::Batch(Vec::new()),
    }
}

struct Writer {
    words: UnboundedReceiver<ToStream>,
    opening: Option<oneshot::Receiver<Arc<Open>>>,
    open: Option<Arc<Open>>,
    ended: oneshot::Receiver<Result<(), Status>>,
    calls: VecDeque<ext::Call>,
}

impl Writer {
    async fn next(&mut self) -> Option<Result<ext::Call, Status>> {
        loop {
            if let Some(call) = self.calls.pop_front() {
                return Some(Ok(call));
            }
            let Some(open) = self.open.clone() else {
                match self.opened().await {
                    Ok(()) => continue,
                    Err(status) => return Some(Err(status)),
                }
            };
            tokio::select! {
                biased;
                word = self.words.recv() => match word {
                    Some(ToStream::Lines(lines)) => self.take(&open, lines),
                    Some(ToStream::Begin { epoch }) => {
                        open.stream.begun(epoch);
                        self.calls.push_back(ready(0, epoch));
                    }
                    Some(ToStream::Close(closing)) => return Some(Err(status::closing(&closing))),
                    None => return None,
                },
                () = open.released.notified() => self.release(&open),
                end = &mut self.ended => return end.unwrap_or_else(|_| unhandled()).err().map(Err),
            }
        }
    }

    /// Waits for the Hello, and answers it.
    async fn opened(&mut self) -> Result<(), Status> {
        if let Some(opening) = self.opening.take()
            && let Ok(open) = opening.await
        {
            self.calls.push_back(ready(open.stream.sequence(), open.stream.epoch()));
            self.open = Some(open);
            return Ok(());
        }
        match (&mut self.ended).await {
            Ok(Err(status)) => Err(status),
            _ => unhandled(),
        }
    }

    fn take(&mut self, open: &Open, lines: Vec<Arc<Line>>) {
        let mut order = open.order();
        for line in lines {
            let number = line.seq;
            match order.next(line) {
                Some(line) => self.calls.push_back(call(&line)),
                None => open.stream.hold(number),
            }
        }
        let handed = order.handed();
        drop(order);
        open.stream.handed(handed);
    }

    fn release(&mut self, open: &Open) {
        let mut order = open.order();
        let released = order.release();
        // The number of a question that is over is left out.
        self.calls.extend(released.iter().filter(|line| open.stream.release(line.seq)).map(|line| call(line)));
        let handed = order.handed();
        drop(order);
        open.stream.handed(handed);
    }
}

/// The number of a line is the id of its call, so that a shim knows after which to resume.
fn call(line: &Line) -> ext::Call {
    let id = if wants_done(line) || line.payload.wants_answer() { line.seq } else { 0 };
    ext::Call { id, sequence: line.seq, call: Some(outward::call(line)) }
}

fn ready(sequence: u64, epoch: u64) -> ext::Call {
    ext::Call { id: 0, sequence: 0, call: Some(call::Call::Ready(ext::Ready { sequence, epoch })) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_reasons_are_cut_as_at_the_other_door() {
        let reply = ext::PredicatesBatchReply { errors: vec!["x".repeat(100_000), String::new()] };
        let several = ext::PredicatesSeveralReply { answers: vec![reply.clone()] };
        let single = ext::PredicatesReply { error: "x".repeat(100_000) };
        for reply in [
            reply::Reply::PredicatesBatch(reply),
            reply::Reply::PredicatesSeveral(several),
            reply::Reply::Predicates(single),
        ] {
            let told = format!("{:?}", body(reply));
            assert!(told.len() < 1_000 && told.contains("Err("), "{} bytes", told.len());
        }
    }
}
