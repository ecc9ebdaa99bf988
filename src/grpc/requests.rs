//! The one ordered stream of requests: each has its number, is taken once and in order, and acknowledged when it was applied.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use futures::stream;
use tokio::{
    sync::{Notify, oneshot, watch},
    time::{Instant, sleep_until},
};
use tonic::{Code, Status, Streaming};

use super::{
    guard::Changes,
    plain::{Outgoing, convert, unhandled, wait},
    status,
};
use crate::{
    access::Caller,
    actors::{
        rm::handle::{Gate, RmHandle, another_epoch},
        topology::{Refusals, Sender, Topology},
    },
    messages::{
        receipts::{Place, Position},
        rm::{Refusal, RefusalKind},
    },
    si::{
        codec::Wire,
        ext,
        intake::MAX_ENTRIES,
        inward::Names,
        numbered::{Holds, Numbered},
        v1,
        wire::Fields,
    },
    trace,
};

/// Between two acknowledgements, so that many requests share one.
const PAUSE: Duration = Duration::from_millis(1);

/// How the audit log calls a configuration that comes over the stream.
const CONFIGURATION: &str = "UpdateConfigurationRequest";

/// What reader and writer of a stream share.
struct Open {
    topology: Arc<Topology>,
    caller: (Caller, Sender),
    traced: trace::Stream,
    changes: Changes,
    handle: Arc<RmHandle>,
    /// The session as it was when the stream was opened.
    gate: Gate,
    /// Its number among the streams of the session.
    stream: u64,
    /// The peer asks how far it is.
    asked: Notify,
}

/// Serves a stream: one task reads, the returned stream acknowledges.
pub fn serve(
    topology: Arc<Topology>,
    caller: (Caller, Sender),
    traced: trace::Stream,
    changes: Changes,
    incoming: Streaming<Wire>,
) -> Outgoing<ext::Ack> {
    let (opened, opening) = oneshot::channel();
    let (end, ended) = oneshot::channel();
    tokio::spawn(async move {
        let _ = end.send(status::guarded(read(topology, caller, traced, changes, incoming, opened)).await);
    });
    let writer = Writer { opening: Some(opening), ended: Some(ended), open: None };
    Box::pin(stream::unfold(Some(writer), async |writer| {
        let mut writer = writer?;
        match writer.next().await? {
            Ok(ack) => Some((Ok(ack), Some(writer))),
            Err(status) => Some((Err(status), None)),
        }
    }))
}

/// Reads requests until the peer ends, or something is wrong with one.
async fn read(
    topology: Arc<Topology>,
    caller: (Caller, Sender),
    traced: trace::Stream,
    changes: Changes,
    mut incoming: Streaming<Wire>,
    opened: oneshot::Sender<Arc<Open>>,
) -> Result<(), Status> {
    let nameless = || Status::invalid_argument("the first Request has to name the resource manager (rm_id)");
    let first = incoming.message().await?.ok_or_else(nameless)?;
    let head = Numbered::read(&first.0).map_err(status::fault)?;
    if head.rm.is_empty() {
        return Err(nameless());
    }
    caller.0.acts_for(&head.rm)?;
    let handle = status::registered(&topology, "Request", &head.rm).await?;
    let gate = handle.gate("Request").map_err(status::refusal)?;
    if head.epoch != 0 && head.epoch != gate.epoch {
        return Err(status::refusal(another_epoch(&head.rm, head.epoch, gate.epoch)));
    }
    let stream = gate.shared.receipts.open();
    let open = Arc::new(Open { topology, caller, traced, changes, handle, gate, stream, asked: Notify::new() });
    if opened.send(open.clone()).is_err() {
        return Ok(());
    }
    let mut next = Some(first);
    while let Some(message) = next {
        open.take(&message.0).await?;
        next = incoming.message().await?;
    }
    Ok(())
}

impl Open {
    /// Takes a request in its turn; one that was taken before has no effect.
    async fn take(&self, message: &Bytes) -> Result<(), Status> {
        let request = Numbered::read(message).map_err(status::fault)?;
        let (rm, epoch) = (&*self.handle.id, self.gate.epoch);
        if !request.rm.is_empty() && request.rm != rm {
            return Err(status::other_rm(&request.rm, rm));
        }
        if request.epoch != 0 && request.epoch != epoch {
            return Err(status::refusal(another_epoch(rm, request.epoch, epoch)));
        }
        let Some((holds, bytes)) = request.holds else {
            self.asked.notify_one();
            return Ok(());
        };
        let bytes = message.slice_ref(bytes);
        // Held until the request is handed in: a stream that is replaced may still have some.
        let receipts = &self.gate.shared.receipts;
        let _turn = receipts.turn().await;
        match receipts.place(request.sequence) {
            Place::Before => {
                self.asked.notify_one();
                return Ok(());
            }
            Place::Gap(next) => {
                let sequence = request.sequence;
                return Err(Status::out_of_range(format!("request {sequence} came where {next} is the next")));
            }
            Place::Next => {}
        }
        let gate = self.handle.gate("Request").map_err(status::refusal)?;
        if gate.epoch != epoch {
            return Err(status::refusal(self.handle.over(epoch)));
        }
        let handed = self.hand_in(&gate, request.sequence, request.trace, holds, bytes).await;
        handed.map_err(|fault| match fault.code() {
            Code::InvalidArgument | Code::ResourceExhausted => {
                Status::new(fault.code(), format!("request {}: {}", request.sequence, fault.message()))
            }
            _ => fault,
        })
    }

    async fn hand_in(&self, gate: &Gate, sequence: u64, trace: &str, holds: Holds, bytes: Bytes) -> Result<(), Status> {
        let rm = &*self.handle.id;
        match holds {
            Holds::Request(kind) => {
                let given = kind.rm(&bytes).map_err(status::fault)?;
                if !given.is_empty() && given != rm {
                    return Err(status::other_rm(&given, rm));
                }
                let names = Names::new(rm, gate.shared.types.clone());
                let inward = convert(kind, Wire(bytes), names, gate.shared.max_items).await?;
                // Clients leave out what is refused as too much, and this one is to come again.
                let again = |refusal: Refusal| Status::unavailable(refusal.detail);
                self.handle.room(&inward.parts).await.map_err(again)?;
                let span = self.traced.message(&self.topology.traces, Some(trace), kind.name());
                let permit = gate.shared.budget.taken(inward.items).await;
                let permit = self.handle.traced(gate, permit, span.as_ref().map(trace::Span::point), inward.items);
                let permit = permit.with(gate.shared.receipts.take(sequence, inward.items));
                self.handle.submit(gate, inward.parts, inward.rejected, permit).map_err(status::refusal)
            }
            Holds::Heartbeat => {
                if Fields::of(&bytes).count() > gate.shared.max_items {
                    let detail = format!("the heartbeat names more than {} nodes", gate.shared.max_items);
                    return Err(Status::resource_exhausted(detail));
                }
                let heartbeat = Wire(bytes).message("Heartbeat", &[], gate.shared.max_items).map_err(status::fault)?;
                let ext::Heartbeat { node_ids } = heartbeat;
                let items = node_ids.len();
                let permit = gate.shared.budget.taken(items).await.with(gate.shared.receipts.take(sequence, items));
                let nodes: Vec<Arc<str>> = node_ids.into_iter().map(Arc::from).collect();
                self.handle.heartbeat(gate, nodes.into(), permit).await.map_err(status::refusal)
            }
            Holds::Configuration => self.configure(gate, sequence, bytes).await,
        }
    }

    /// What came before is applied under the old configuration, what comes after under the new one.
    async fn configure(&self, gate: &Gate, sequence: u64, bytes: Bytes) -> Result<(), Status> {
        let message = Wire(bytes).message("UpdateConfigurationRequest", &[], MAX_ENTRIES).map_err(status::fault)?;
        let message: v1::UpdateConfigurationRequest = message;
        let rm = &*self.handle.id;
        if !message.rm_id.is_empty() && message.rm_id != rm {
            return Err(status::other_rm(&message.rm_id, rm));
        }
        if !gate.shared.receipts.until(sequence - 1).await {
            return Err(status::refusal(self.handle.over(gate.epoch)));
        }
        let receipts = &gate.shared.receipts;
        let (caller, sender) = &self.caller;
        let refused = match caller.configures() {
            Err(denied) => {
                self.changes.refuse(CONFIGURATION, &denied);
                Some(denied.to_string())
            }
            Ok(()) => {
                let sender = sender.clone();
                let detail = format!("resource manager {rm}: request {sequence}");
                let pending = self.changes.begin(CONFIGURATION, detail);
                let (group, extra, epoch) = (&message.policy_group, message.extra_config, Some(gate.epoch));
                let mut came = String::new();
                let done = match self.topology.configure(rm, epoch, group, message.config, extra, sender).await {
                    Ok(notes) => {
                        came = notes.audited();
                        receipts.ignore(sequence, notes.ignored().to_vec());
                        Ok(None)
                    }
                    Err(Refusals::Config(refused)) => Ok(Some(refused.message)),
                    Err(Refusals::Other(refusal)) if refusal.kind == RefusalKind::Invalid => Ok(Some(refusal.detail)),
                    Err(Refusals::Other(refusal)) => Err(status::refusal(refusal)),
                };
                let code = match &done {
                    Ok(None) => Code::Ok,
                    Ok(Some(reason)) => {
                        came.clone_from(reason);
                        Code::InvalidArgument
                    }
                    Err(status) => {
                        came = status.message().to_owned();
                        status.code()
                    }
                };
                self.changes.note(pending, code, came).await;
                done?
            }
        };
        if let Some(reason) = refused {
            receipts.refuse(sequence, &reason);
        }
        self.handle.carried_out(gate, gate.shared.receipts.take(sequence, 0));
        Ok(())
    }

    fn ack(&self, position: &Position, told: u64) -> ext::Ack {
        let budget = &self.gate.shared.budget;
        let max_items = self.handle.gate("Request").map_or(self.gate.shared.max_items, |gate| gate.shared.max_items);
        let refused = self.gate.shared.receipts.refused(told, position.applied);
        let ignored = self.gate.shared.receipts.ignored(told, position.applied);
        ext::Ack {
            epoch: self.gate.epoch,
            sequence: position.applied,
            credits: budget.left() + position.items,
            max_items: max_items as u64,
            max_bytes: self.topology.limits.body() as u64,
            refused: refused
                .into_iter()
                .map(|(sequence, reason)| ext::Refused { sequence, reason: reason.to_string() })
                .collect(),
            ignored: ignored
                .into_iter()
                .map(|(sequence, keys)| ext::Ignored { sequence, keys: keys.to_vec() })
                .collect(),
        }
    }
}

struct Writer {
    opening: Option<oneshot::Receiver<Arc<Open>>>,
    /// `None` once the peer has nothing more to say.
    ended: Option<oneshot::Receiver<Result<(), Status>>>,
    open: Option<Acks>,
}

/// What was acknowledged.
struct Acks {
    open: Arc<Open>,
    news: watch::Receiver<()>,
    told: u64,
    /// No other acknowledgement before.
    next: Instant,
}

impl Writer {
    /// The next acknowledgement. After the peer has ended, as long as something of it is not applied.
    async fn next(&mut self) -> Option<Result<ext::Ack, Status>> {
        let Some(acks) = &mut self.open else { return Some(self.opened().await) };
        let mut asked = false;
        loop {
            let position = acks.open.gate.shared.receipts.position();
            if position.ended {
                return Some(Err(status::refusal(acks.open.handle.over(acks.open.gate.epoch))));
            }
            if position.stream != acks.open.stream {
                return Some(Err(Status::aborted(format!(
                    "resource manager \"{}\": another stream of requests took its place",
                    acks.open.handle.id
                ))));
            }
            // What counts as applied while another server is to go on is told by that one.
            if let Err(refusal) = acks.open.handle.is_here() {
                return Some(Err(status::refusal(refusal)));
            }
            let news = asked || position.applied > acks.told;
            if news && Instant::now() >= acks.next {
                let ack = acks.open.ack(&position, acks.told);
                acks.told = position.applied;
                acks.next = Instant::now() + PAUSE;
                return Some(Ok(ack));
            }
            if self.ended.is_none() && !news && position.applied == position.taken {
                return None;
            }
            tokio::select! {
                biased;
                end = wait(&mut self.ended) => {
                    self.ended = None;
                    if let Err(status) = end.unwrap_or_else(unhandled) {
                        return Some(Err(status));
                    }
                }
                () = sleep_until(acks.next), if news => {}
                () = acks.open.asked.notified() => asked = true,
                changed = acks.news.changed(), if !news => changed.ok()?,
            }
        }
    }

    /// Waits for the first request, and tells how far the session is.
    async fn opened(&mut self) -> Result<ext::Ack, Status> {
        if let Some(opening) = self.opening.take()
            && let Ok(open) = opening.await
        {
            let news = open.gate.shared.receipts.news();
            let position = open.gate.shared.receipts.position();
            let ack = open.ack(&position, 0);
            self.open = Some(Acks { open, news, told: position.applied, next: Instant::now() });
            return Ok(ack);
        }
        match wait(&mut self.ended).await {
            Some(Err(status)) => Err(status),
            _ => unhandled(),
        }
    }
}
