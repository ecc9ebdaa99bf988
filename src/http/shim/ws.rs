//! The WebSocket: the same callbacks out, and requests and answers in. Numbered requests are acknowledged.

use std::{fmt, sync::Arc, task::Poll, time::Duration};

use actix_web::{
    FromRequest as _, HttpMessage as _, HttpRequest, HttpResponse, dev,
    http::StatusCode,
    rt,
    web::{Bytes, Data, Path, Payload},
};
use actix_ws::{CloseCode, CloseReason, Session};
use futures::{StreamExt as _, stream};
use serde::{
    Deserialize, Deserializer,
    de::{Error as _, MapAccess, Visitor},
};
use serde_json::value::RawValue;
use tokio::{
    sync::{mpsc::UnboundedReceiver, oneshot, watch},
    time::{MissedTickBehavior, interval},
};

use super::{
    answers, body,
    frames::{Frames, Message, Refused},
    once::{self, Once, Turn},
    pace::{Pace, TooSlow},
    query,
    requests::{self, enter},
    stream::{attach, find, number},
};
use crate::{
    actors::rm::{
        handle::{Gate, RmHandle, another_epoch},
        open::OpenStream,
    },
    http::{
        doors::Doors,
        problem::Problem,
        turns::{MESSAGE, give_way},
    },
    messages::rm::{Answers, ToStream},
    si::{decode::Malformed, intake::Request, line},
    trace::{self, Point, Span, Stream},
};

/// The protocol that is chosen where a client offers some, as browsers do that send a token that way.
const PROTOCOL: &str = "callboard";
/// An idle connection gets a ping this often.
const KEEP_ALIVE: Duration = Duration::from_secs(10);

/// GET `/si/v1/rm/{rmID}/ws`.
pub async fn ws(
    request: HttpRequest,
    rm: Path<String>,
    payload: Payload,
    doors: Data<Doors>,
) -> Result<HttpResponse, Problem> {
    let handle = find(&doors, &rm)?;
    let parameters = query::parameters(&request, &["after"])?;
    let after = query::one(&parameters, "after").map(|after| number("after", after)).transpose()?;
    // What comes in is read here; `ended` says when the connection is over.
    let mut silent: dev::Payload = dev::Payload::Stream { payload: Box::pin(stream::pending()) };
    let silent = Payload::from_request(&request, &mut silent).await;
    let silent = silent.map_err(|error| Problem::new(StatusCode::BAD_REQUEST, error.to_string()))?;
    let upgrade = actix_ws::handle_with_protocols(&request, silent, &[PROTOCOL]);
    let (response, session, mut ended) =
        upgrade.map_err(|error| Problem::field("Upgrade", format!("this path speaks WebSocket: {error}")))?;
    let (open, words) = attach(&handle, "http-ws", after).await?;
    let (pace, epoch) = (Pace::default(), open.epoch());
    let limits = doors.topology.limits.clone();
    let mut frames = Frames::new(pace.watch(payload), move || limits.body(), body::coming(&request));
    let messages = stream::poll_fn(move |cx| match frames.poll_next_unpin(cx) {
        Poll::Pending => ended.poll_next_unpin(cx).map(|_| None),
        message => message,
    });
    let (reads, gone) = oneshot::channel();
    rt::spawn(write(open, words, session.clone(), gone));
    let stream = Stream(request.extensions().get::<Point>().cloned());
    rt::spawn(async move {
        let socket = Socket { doors, handle, epoch, stream };
        read(messages, pace, session, socket).await;
        drop(reads);
    });
    Ok(response)
}

/// Lines out, until the session or the peer ends.
async fn write(
    open: OpenStream,
    mut words: UnboundedReceiver<ToStream>,
    mut session: Session,
    mut gone: oneshot::Receiver<()>,
) {
    let mut beat = interval(KEEP_ALIVE);
    beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
    beat.reset();
    let mut text = Vec::new();
    loop {
        let word = tokio::select! {
            biased;
            word = words.recv() => word,
            _ = &mut gone => return,
            _ = beat.tick() => match session.ping(b"").await {
                Ok(()) => continue,
                Err(_) => return,
            },
        };
        beat.reset();
        match word {
            Some(ToStream::Lines(lines)) => {
                for entry in lines {
                    text.clear();
                    line::write(&entry, &mut text);
                    // Lines are written as UTF-8 from texts that are.
                    let Ok(line) = std::str::from_utf8(&text) else { return };
                    if session.text(line.to_owned()).await.is_err() {
                        return;
                    }
                    open.handed(entry.seq);
                }
            }
            Some(ToStream::Close(closing)) => {
                let code = CloseCode::from(4000 + closing.kind.status());
                let _ = session.close(Some(CloseReason { code, description: Some(cut(&closing.detail)) })).await;
                return;
            }
            Some(ToStream::Begin { .. }) => {}
            None => return,
        }
    }
}

/// A close reason holds 123 bytes.
fn cut(detail: &str) -> String {
    detail[..detail.floor_char_boundary(123)].to_owned()
}

/// Requests in, until the peer ends. While the budget is spent nothing is read.
async fn read(
    mut messages: impl futures::Stream<Item = Result<Message, Refused>> + Unpin,
    pace: Pace,
    mut session: Session,
    socket: Socket,
) {
    let (taken, latest) = watch::channel(None);
    rt::spawn(acknowledge(socket.handle.clone(), latest, session.clone()));
    loop {
        give_way(MESSAGE).await;
        let message = match pace.next(&mut messages).await {
            Ok(Some(message)) => message,
            Ok(None) => break,
            Err(TooSlow) => {
                let slow = body::Unread::Slow.to_string();
                let reason = CloseReason { code: CloseCode::Policy, description: Some(cut(&slow)) };
                let _ = session.close(Some(reason)).await;
                return;
            }
        };
        let done = match message {
            Ok(Message::Content(content)) => socket.take(content, &taken).await,
            Ok(Message::Ping(bytes)) => {
                let _ = session.pong(&bytes).await;
                Ok(())
            }
            Ok(Message::Pong(_)) => Ok(()),
            Ok(Message::Close) => break,
            Err(refused) => {
                tracing::debug!(rm = &*socket.handle.id, error = %refused, "WebSocket ended");
                let Some(reason) = refused.reason() else { break };
                let _ = session.close(Some(reason)).await;
                return;
            }
        };
        if let Err((number, problem)) = done
            && session.text(fault(&problem, number)).await.is_err()
        {
            break;
        }
    }
    let _ = session.close(None).await;
}

/// What is told of a request that was refused.
fn fault(problem: &Problem, number: Option<u64>) -> String {
    let number = number.map_or(String::new(), |number| format!(",\"seq\":{number}"));
    format!("{{\"error\":{}{number}}}", problem.json())
}

/// The last numbered request that was handed in.
type Taken = Option<(Gate, u64)>;

/// Tells how far numbered requests were applied: after each, or after several at once.
async fn acknowledge(handle: Arc<RmHandle>, mut taken: watch::Receiver<Taken>, mut session: Session) {
    while taken.changed().await.is_ok() {
        let Some((gate, number)) = taken.borrow_and_update().clone() else { continue };
        let text = match once::applied(&handle, &gate, number).await {
            Ok(()) => {
                format!("{{\"ack\":{{\"sequence\":{},\"epoch\":{}}}}}", gate.shared.receipts.applied(), gate.epoch)
            }
            Err(problem) => fault(&problem, Some(number)),
        };
        if session.text(text).await.is_err() {
            return;
        }
    }
}

const ONE: &str = "a message is an object with one of nodes, applications, allocations, answer, and seq and epoch where \
                   it is numbered, and traceparent where it is part of a trace";

/// What the messages of a connection go by.
struct Socket {
    doors: Data<Doors>,
    handle: Arc<RmHandle>,
    /// The session that it was opened for. What comes when that is over is not for the next one.
    epoch: u64,
    stream: Stream,
}

impl Socket {
    /// A message; what is wrong with it, and its number.
    async fn take(&self, text: Bytes, taken: &watch::Sender<Taken>) -> Result<(), (Option<u64>, Problem)> {
        let fields: Fields = serde_json::from_slice(&text).map_err(|error| {
            let detail =
                if error.is_data() { format!("{error}: {ONE}") } else { format!("the message is not JSON: {error}") };
            (None, Malformed { field: None, detail }.cut().into())
        })?;
        let number = fields.seq;
        self.carry_out(&text, fields, taken).await.map_err(|problem| (number, problem))
    }

    /// The way into the session that a message is for.
    fn enter(&self, epoch: Option<u64>, name: &str) -> Result<(Arc<RmHandle>, Gate), Problem> {
        let (handle, gate) = enter(&self.doors, &self.handle.id, name)?;
        let mut named = [epoch, Some(self.epoch)].into_iter().flatten();
        match named.find(|epoch| *epoch != gate.epoch) {
            Some(other) => Err(another_epoch(&handle.id, other, gate.epoch).into()),
            None => Ok((handle, gate)),
        }
    }

    async fn carry_out(&self, text: &Bytes, fields: Fields<'_>, taken: &watch::Sender<Taken>) -> Result<(), Problem> {
        let Some((name, value)) = fields.one else { return Err(Problem::new(StatusCode::BAD_REQUEST, ONE)) };
        let value = text.slice_ref(value.get().as_bytes());
        let kind = match name.as_str() {
            "nodes" => Request::Nodes,
            "applications" => Request::Applications,
            "allocations" => Request::Allocations,
            "answer" if fields.seq.is_some() => return Err(Problem::field("seq", "answers have no number")),
            "answer" => {
                let (handle, gate) = self.enter(fields.epoch, "an answer")?;
                let answers = answers::read(value, gate.shared.max_items).await?;
                handle.addr.do_send(Answers { epoch: gate.epoch, answers });
                return Ok(());
            }
            other => {
                let detail = format!("unknown field {other}: {ONE}");
                return Err(Malformed { field: Some(other.to_owned()), detail }.cut().into());
            }
        };
        let span = self.stream.message(&self.doors.topology.traces, fields.trace.as_deref(), kind.name());
        let (handle, gate) = self.enter(fields.epoch, kind.name())?;
        match fields.seq {
            None => {
                let inward = requests::read(kind, value, &handle.id, &gate).await?;
                handle.room(&inward.parts).await?;
                let permit = gate.shared.budget.taken(inward.items).await;
                let permit = handle.traced(&gate, permit, span.as_ref().map(Span::point), inward.items);
                handle.submit(&gate, inward.parts, inward.rejected, permit)?;
            }
            Some(0) => return Err(Problem::field("seq", "seq: 0 is not a whole number above zero")),
            Some(number) => {
                let turn = Once::Numbered(number).turn(&handle, &gate, kind.name(), &value).await;
                match turn.map_err(|gap| Problem { field: gap.field.map(|_| "seq".to_owned()), ..gap })? {
                    Turn::Before(answered) => answered?,
                    Turn::Now(mut handing) => {
                        let inward = requests::read(kind, value, &handle.id, &gate).await?;
                        handle.room(&inward.parts).await?;
                        let permit = gate.shared.budget.taken(inward.items).await;
                        let permit = handle.traced(&gate, permit, span.as_ref().map(Span::point), inward.items);
                        let permit = handing.take(permit, inward.items);
                        handle.submit(&gate, inward.parts, inward.rejected, permit)?;
                    }
                }
                taken.send_replace(Some((gate, number)));
            }
        }
        Ok(())
    }
}

/// A message: one field of its own, and its number.
#[derive(Default)]
struct Fields<'a> {
    seq: Option<u64>,
    epoch: Option<u64>,
    /// The trace that it is part of.
    trace: Option<String>,
    one: Option<(String, &'a RawValue)>,
}

impl<'de> Deserialize<'de> for Fields<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct One;
        impl<'de> Visitor<'de> for One {
            type Value = Fields<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields<'de>, A::Error> {
                let mut fields = Fields::default();
                while let Some((name, value)) = map.next_entry::<String, &'de RawValue>()? {
                    let number = || {
                        let wrong = || A::Error::custom(format!("{name}: {value} is not a whole number"));
                        value.get().trim_matches('"').parse().map_err(|_| wrong())
                    };
                    match name.as_str() {
                        "seq" if fields.seq.is_none() => fields.seq = Some(number()?),
                        "epoch" if fields.epoch.is_none() => fields.epoch = Some(number()?),
                        // One that cannot be read counts as missing, as a header does.
                        trace::HEADER if fields.trace.is_none() => {
                            fields.trace = Some(serde_json::from_str(value.get()).unwrap_or_default());
                        }
                        _ if fields.one.is_none() => fields.one = Some((name, value)),
                        _ => return Err(A::Error::custom("there are several fields")),
                    }
                }
                Ok(fields)
            }
        }
        deserializer.deserialize_map(One)
    }
}
