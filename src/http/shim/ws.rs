//! The WebSocket: the same callbacks out, and requests and answers in.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use actix_web::{
    HttpRequest, HttpResponse,
    http::StatusCode,
    rt,
    web::{Data, Path, Payload},
};
use actix_ws::{AggregatedMessage, AggregatedMessageStream, CloseCode, CloseReason, Session};
use futures::StreamExt as _;
use serde_json::{Value, value::RawValue};
use tokio::{
    sync::oneshot,
    time::{MissedTickBehavior, interval},
};

use super::{
    answers, query,
    requests::{Request, convert, enter},
    stream::{Open, find, number},
};
use crate::{
    actors::rm::handle::RmHandle,
    http::{problem::Problem, server::Doors},
    messages::rm::{Answers, ToStream},
    si::{decode, line, v1},
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
    let upgrade = actix_ws::handle_with_protocols(&request, payload, &[PROTOCOL]);
    let (response, session, messages) =
        upgrade.map_err(|error| Problem::field("Upgrade", format!("this path speaks WebSocket: {error}")))?;
    let (open, _) = Open::attach(&handle, "http-ws", after).await?;
    let messages = messages.max_frame_size(doors.max_body).aggregate_continuations();
    let messages = messages.max_continuation_size(doors.max_body);
    let (reads, gone) = oneshot::channel();
    rt::spawn(write(open, session.clone(), gone));
    rt::spawn(async move {
        read(messages, session, doors, handle).await;
        drop(reads);
    });
    Ok(response)
}

/// Lines out, until the session or the peer ends.
async fn write(mut open: Open, mut session: Session, mut gone: oneshot::Receiver<()>) {
    let mut beat = interval(KEEP_ALIVE);
    beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
    beat.reset();
    let mut text = Vec::new();
    loop {
        let word = tokio::select! {
            biased;
            word = open.words.recv() => word,
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
    let mut end = detail.len().min(123);
    while !detail.is_char_boundary(end) {
        end -= 1;
    }
    detail[..end].to_owned()
}

/// Requests in, until the peer ends. While the budget is spent nothing is read.
async fn read(mut messages: AggregatedMessageStream, mut session: Session, doors: Data<Doors>, handle: Arc<RmHandle>) {
    while let Some(message) = messages.next().await {
        let done = match message {
            Ok(AggregatedMessage::Text(text)) => take(text.as_bytes(), &doors, &handle).await,
            Ok(AggregatedMessage::Binary(bytes)) => take(&bytes, &doors, &handle).await,
            Ok(AggregatedMessage::Ping(bytes)) => {
                let _ = session.pong(&bytes).await;
                Ok(())
            }
            Ok(AggregatedMessage::Pong(_)) => Ok(()),
            Ok(AggregatedMessage::Close(_)) => break,
            Err(error) => {
                tracing::debug!(rm = &*handle.id, %error, "WebSocket ended");
                break;
            }
        };
        if let Err(problem) = done
            && session.text(format!("{{\"error\":{}}}", problem.json())).await.is_err()
        {
            break;
        }
    }
    let _ = session.close(None).await;
}

async fn take(text: &[u8], doors: &Doors, handle: &RmHandle) -> Result<(), Problem> {
    const ONE: &str = "a message is an object with one of nodes, applications, allocations, answer";
    let fields: BTreeMap<String, &RawValue> = match serde_json::from_slice(text) {
        Ok(fields) => fields,
        Err(_) => {
            // Says what is wrong with it.
            decode::message::<BTreeMap<String, Value>>(text)?;
            return Err(Problem::new(StatusCode::BAD_REQUEST, ONE));
        }
    };
    let mut fields = fields.into_iter();
    let (Some((name, value)), None) = (fields.next(), fields.next()) else {
        return Err(Problem::new(StatusCode::BAD_REQUEST, ONE));
    };
    let value = value.get().as_bytes();
    match name.as_str() {
        "nodes" => submit::<v1::NodeRequest>(value, doors, handle).await,
        "applications" => submit::<v1::ApplicationRequest>(value, doors, handle).await,
        "allocations" => submit::<v1::AllocationRequest>(value, doors, handle).await,
        "answer" => {
            handle.addr.do_send(Answers(answers::read(&decode::message(value)?)?));
            Ok(())
        }
        other => Err(Problem::field(other, format!("unknown field {other}: {ONE}"))),
    }
}

async fn submit<R: Request>(value: &[u8], doors: &Doors, handle: &RmHandle) -> Result<(), Problem> {
    let (_, gate) = enter(doors, &handle.id, R::NAME)?;
    let message: R = decode::message(value)?;
    let inward = convert(message, &handle.id, &gate)?;
    let permit = gate.budget.taken(inward.items).await;
    Ok(handle.submit(&gate, inward.parts, inward.rejected, permit).await?)
}
