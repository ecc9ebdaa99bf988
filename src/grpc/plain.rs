//! A plain `si.v1` stream: requests of one kind in, callbacks of that kind out.

use std::{future::poll_fn, pin::Pin, sync::Arc};

use futures::{Stream, StreamExt as _, stream};
use tokio::sync::{
    mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel},
    oneshot,
};
use tonic::{Status, Streaming};

use super::{
    paced::{Arrived, Busy},
    status,
};
use crate::{
    access::Caller,
    actors::{
        rm::{
            handle::{Gate, RmHandle, not_registered},
            open::OpenStream,
        },
        topology::Topology,
    },
    messages::rm::{Kind, Line, ToStream, Want},
    si::{
        codec::Wire,
        intake::Request,
        inward::{Inward, Names},
        outward, v1,
    },
    trace,
};

/// What goes out of a gRPC stream.
pub type Outgoing<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

/// The kind of a plain stream.
pub struct Plain<T> {
    /// Which lines it carries.
    kind: Kind,
    /// What comes in.
    request: Request,
    /// A line as a message.
    response: fn(&Line) -> T,
}

/// `UpdateAllocation`.
pub const ALLOCATIONS: Plain<v1::AllocationResponse> =
    Plain { kind: Kind::Allocation, request: Request::Allocations, response: outward::allocation };
/// `UpdateApplication`.
pub const APPLICATIONS: Plain<v1::ApplicationResponse> =
    Plain { kind: Kind::Application, request: Request::Applications, response: outward::application };
/// `UpdateNode`.
pub const NODES: Plain<v1::NodeResponse> = Plain { kind: Kind::Node, request: Request::Nodes, response: outward::node };

/// Serves a stream: one task reads, the returned stream writes.
pub fn serve<T: Send + 'static>(
    Plain { kind, request, response }: Plain<T>,
    topology: Arc<Topology>,
    caller: Caller,
    arrived: Arc<Arrived>,
    traced: trace::Stream,
    incoming: Streaming<Wire>,
) -> Outgoing<T> {
    // From here on, so that what other streams of the connection carry waits until this one is attached.
    let incoming = Ordered { incoming, busy: Some(arrived.busy()), arrived };
    let (to, words) = unbounded_channel();
    let (attached, attach) = oneshot::channel();
    let (end, ended) = oneshot::channel();
    tokio::spawn(async move {
        let _ =
            end.send(status::guarded(read((kind, request), topology, caller, traced, incoming, to, attached)).await);
    });
    let writer = Writer { words, attach: Some(attach), ended: Some(ended), open: None, lines: Vec::new().into_iter() };
    Box::pin(stream::unfold(Some(writer), move |writer| async move {
        let mut writer = writer?;
        match writer.next().await? {
            Ok(line) => Some((Ok(response(&line)), Some(writer))),
            Err(status) => Some((Err(status), None)),
        }
    }))
}

/// The requests of a stream. While one of them is being handed in, nothing of another stream of the connection is looked at.
struct Ordered {
    incoming: Streaming<Wire>,
    arrived: Arc<Arrived>,
    busy: Option<Busy>,
}

impl Ordered {
    async fn message(&mut self) -> Result<Option<Wire>, Status> {
        let Ordered { incoming, arrived, busy } = self;
        let next = poll_fn(|context| {
            let next = incoming.poll_next_unpin(context);
            *busy = if next.is_ready() { busy.take().or_else(|| Some(arrived.busy())) } else { None };
            next
        });
        next.await.transpose()
    }
}

/// Reads requests until the peer ends, or something is wrong with the stream itself.
async fn read(
    (kind, requests): (Kind, Request),
    topology: Arc<Topology>,
    caller: Caller,
    traced: trace::Stream,
    mut incoming: Ordered,
    to: UnboundedSender<ToStream>,
    attached: oneshot::Sender<OpenStream>,
) -> Result<(), Status> {
    let name = requests.name();
    let Some(first) = incoming.message().await? else {
        return Err(Status::invalid_argument(format!("the first {name} has to name the resource manager")));
    };
    let rm = requests.rm(&first.0).map_err(status::fault)?;
    if rm.is_empty() {
        return Err(Status::invalid_argument(format!("rmID of the first {name} is empty")));
    }
    caller.acts_for(&rm)?;
    let handle = status::registered(&topology, name, &rm).await?;
    let gone = || status::refusal(not_registered(name, &rm));
    let open = OpenStream::attach(&handle.addr, "grpc", Want::Plain(kind), to).await;
    let open = open.map_err(|_| gone())?.map_err(status::refusal)?;
    let epoch = open.epoch();
    let _ = attached.send(open);
    let mut next = Some(first);
    while let Some(request) = next {
        let span = traced.message(&topology.traces, None, name);
        let given = requests.rm(&request.0).map_err(status::fault)?;
        if !given.is_empty() && given != rm {
            return Err(status::other_rm(&given, &rm));
        }
        let gate = handle.gate(name).map_err(status::refusal)?;
        if gate.epoch != epoch {
            return Err(Status::aborted("the resource manager registered again"));
        }
        let inward =
            convert(requests, request, Names::new(&rm, gate.shared.types.clone()), gate.shared.max_items).await?;
        submit(&handle, &gate, inward, span).await?;
        next = incoming.message().await?;
    }
    Ok(())
}

/// Longer messages are read on a blocking thread, so that other streams do not wait.
const LONG: usize = 256 << 10;

/// The commands of a request.
pub(super) async fn convert(kind: Request, message: Wire, names: Names, limit: usize) -> Result<Inward, Status> {
    let read = if message.0.len() < LONG {
        kind.read(&message.0, &names, limit)
    } else {
        let read = tokio::task::spawn_blocking(move || kind.read(&message.0, &names, limit)).await;
        read.map_err(|_| Status::internal("an internal fault: the request was not handled"))?
    };
    read.map_err(status::fault)
}

/// Hands a request in. While the budget is spent, nothing more is read.
async fn submit(handle: &RmHandle, gate: &Gate, inward: Inward, span: Option<trace::Span>) -> Result<(), Status> {
    if inward.parts.is_empty() && inward.rejected.is_empty() {
        return Ok(());
    }
    handle.room(&inward.parts).await.map_err(status::refusal)?;
    let permit = gate.shared.budget.taken(inward.items).await;
    let permit = handle.traced(gate, permit, span.as_ref().map(trace::Span::point), inward.items);
    handle.submit(gate, inward.parts, inward.rejected, permit).map_err(status::refusal)
}

struct Writer {
    words: UnboundedReceiver<ToStream>,
    attach: Option<oneshot::Receiver<OpenStream>>,
    ended: Option<oneshot::Receiver<Result<(), Status>>>,
    open: Option<OpenStream>,
    lines: std::vec::IntoIter<Arc<Line>>,
}

impl Writer {
    async fn next(&mut self) -> Option<Result<Arc<Line>, Status>> {
        loop {
            if let Some(line) = self.lines.next() {
                // At most once: it counts as handed over before it is written.
                if let Some(open) = &self.open {
                    open.handed(line.seq);
                }
                return Some(Ok(line));
            }
            tokio::select! {
                biased;
                open = wait(&mut self.attach) => {
                    self.attach = None;
                    self.open = open;
                }
                word = self.words.recv(), if self.open.is_some() => match word {
                    Some(ToStream::Lines(lines)) => self.lines = lines.into_iter(),
                    Some(ToStream::Close(closing)) => return Some(Err(status::closing(&closing))),
                    Some(ToStream::Begin { .. }) => {}
                    None => return None,
                },
                end = wait(&mut self.ended) => {
                    self.ended = None;
                    // Without one the peer has nothing more to say, and still listens.
                    if let Err(status) = end.unwrap_or_else(unhandled) {
                        return Some(Err(status));
                    }
                }
            }
        }
    }
}

/// How a stream ends whose task does not say.
pub(super) fn unhandled<T>() -> Result<T, Status> {
    Err(Status::internal("the stream was not handled"))
}

/// The value, `None` where it never comes; pends for ever where nothing is waited for.
pub(super) async fn wait<T>(receiver: &mut Option<oneshot::Receiver<T>>) -> Option<T> {
    match receiver {
        Some(receiver) => receiver.await.ok(),
        None => std::future::pending().await,
    }
}
