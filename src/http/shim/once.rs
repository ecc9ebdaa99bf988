//! Requests that are taken once, however often they are sent: by their number in the session (`X-Callboard-Seq`), or by a key of
//! the sender's own (`Idempotency-Key`). Answered when they were applied.

use actix_web::{
    HttpRequest, HttpResponse,
    http::{
        StatusCode,
        header::{HeaderName, HeaderValue},
    },
};
use tokio::sync::{MutexGuard, oneshot};

use crate::{
    actors::rm::handle::{Gate, RmHandle, another_epoch},
    http::problem::Problem,
    messages::{
        budget::Permit,
        keys::{Asked, Claim, Digest, Known, LONGEST, digest},
        receipts::{Place, Receipt},
    },
};

/// The number of a request in its session.
pub const SEQUENCE: &str = "x-callboard-seq";
/// The session that it is for.
pub const EPOCH: &str = "x-callboard-epoch";
/// In answers to numbered requests: everything up to this number was applied.
pub const ACK: &str = "x-callboard-ack";
/// The key of a request.
pub const KEY: &str = "idempotency-key";

/// A header; `None` where it is not there.
fn text<'a>(request: &'a HttpRequest, name: &str) -> Result<Option<&'a str>, Problem> {
    let mut given = request.headers().get_all(name);
    let first = given.next();
    if given.any(|other| Some(other) != first) {
        return Err(Problem::field(name, format!("{name} is given twice: give it once")));
    }
    match first.map(HeaderValue::to_str) {
        None => Ok(None),
        Some(Ok(text)) => Ok(Some(text.trim())),
        Some(Err(_)) => Err(Problem::field(name, format!("{name} is not a text of visible ASCII characters"))),
    }
}

fn number(request: &HttpRequest, name: &str) -> Result<Option<u64>, Problem> {
    let read = |given: &str| {
        let wrong = || Problem::field(name, format!("{name}: {given} is not a whole number above zero"));
        given.parse().ok().filter(|number| *number > 0).ok_or_else(wrong)
    };
    text(request, name)?.map(read).transpose()
}

fn key(request: &HttpRequest) -> Result<Option<&str>, Problem> {
    match text(request, KEY)? {
        Some(key) if key.is_empty() || key.len() > LONGEST => {
            Err(Problem::field(KEY, format!("{KEY} has {} bytes: 1 to {LONGEST} are allowed", key.len())))
        }
        key => Ok(key),
    }
}

/// The session that a request names, where it does, is the one that runs.
pub fn same_epoch(request: &HttpRequest, rm: &str, gate: &Gate) -> Result<(), Problem> {
    match number(request, EPOCH)? {
        Some(epoch) if epoch != gate.epoch => Err(another_epoch(rm, epoch, gate.epoch).into()),
        _ => Ok(()),
    }
}

/// How a request wants to be told from others.
#[derive(Debug, PartialEq, Eq)]
pub enum Once {
    /// Not at all: it is answered when it was handed in, or recorded where there is a log.
    Plain,
    /// By its number.
    Numbered(u64),
    /// By its key.
    Keyed(String),
}

/// A request that is handed in now, or was before.
pub enum Turn<'a> {
    /// Nobody has handed it in yet: the caller does it now.
    Now(Handing<'a>),
    /// Before: so it was answered.
    Before(Result<(), Problem>),
}

/// What is being handed in. Nobody else hands in a number meanwhile.
pub struct Handing<'a> {
    gate: &'a Gate,
    handle: &'a RmHandle,
    how: How<'a>,
}

enum How<'a> {
    /// With what it waits for where it is recorded.
    Plain(Option<oneshot::Receiver<()>>),
    Numbered(u64, Digest, Option<MutexGuard<'a, ()>>),
    Keyed(Claim, Option<oneshot::Receiver<()>>),
}

impl Once {
    /// The key of a call that goes by no session, with the name of the call and what it says.
    pub fn asked(request: &HttpRequest, what: &str, says: &[&[u8]]) -> Result<Option<Asked>, Problem> {
        Ok(key(request)?.map(|key| Asked::new(key, what, says)))
    }

    /// As the headers of a request say.
    pub fn of(request: &HttpRequest, rm: &str, gate: &Gate) -> Result<Once, Problem> {
        same_epoch(request, rm, gate)?;
        match (number(request, SEQUENCE)?, key(request)?) {
            (None, None) => Ok(Once::Plain),
            (Some(number), None) => Ok(Once::Numbered(number)),
            (None, Some(key)) => Ok(Once::Keyed(key.to_owned())),
            (Some(_), Some(_)) => {
                Err(Problem::field(KEY, format!("{KEY} and {SEQUENCE} are two ways to say the same: send one")))
            }
        }
    }

    /// Waits for its turn. `what` names the request, `body` is what it says.
    pub async fn turn<'a>(
        self,
        handle: &'a RmHandle,
        gate: &'a Gate,
        what: &str,
        body: &[u8],
    ) -> Result<Turn<'a>, Problem> {
        let how = match self {
            Once::Plain => How::Plain(None),
            Once::Numbered(number) => {
                // What is around a text says nothing, and a WebSocket message has none of it.
                let digest = digest(what, &[body.trim_ascii()]);
                let turn = gate.shared.receipts.turn().await;
                match gate.shared.receipts.place(number) {
                    Place::Next => How::Numbered(number, digest, Some(turn)),
                    Place::Gap(next) => {
                        let detail = format!("request {number} came where {next} is the next");
                        return Err(Problem { status: StatusCode::CONFLICT, ..Problem::field(SEQUENCE, detail) });
                    }
                    // A client that lost count would take what was never taken for applied.
                    Place::Before if gate.shared.receipts.is_another(number, digest) => {
                        let detail = format!("another request had number {number}: a new request takes a new number");
                        return Err(Problem {
                            status: StatusCode::UNPROCESSABLE_ENTITY,
                            ..Problem::field(SEQUENCE, detail)
                        });
                    }
                    Place::Before => {
                        drop(turn);
                        applied(handle, gate, number).await?;
                        let refused = gate.shared.receipts.refused(number - 1, number);
                        if let Some((_, reason)) = refused.first() {
                            return Ok(Turn::Before(Err(Problem::new(StatusCode::BAD_REQUEST, &**reason))));
                        }
                        return Ok(Turn::Before(Ok(())));
                    }
                }
            }
            Once::Keyed(key) => {
                match gate.shared.keys.claim(&key, digest(what, &[body])) {
                    Known::New(claim) => How::Keyed(claim, None),
                    Known::Taken => return Ok(Turn::Before(Ok(()))),
                    Known::Waits(key) => {
                        // It is acknowledged when the first one is.
                        let applied = handle.recorded(gate.shared.keys.applied(key)).await?;
                        handle.is_here()?;
                        if !applied {
                            return Err(handle.over(gate.epoch).into());
                        }
                        return Ok(Turn::Before(Ok(())));
                    }
                    Known::Busy => {
                        let detail = format!("{KEY}: a request with this key is being handed in: wait for its answer");
                        return Err(Problem { status: StatusCode::CONFLICT, ..Problem::field(KEY, detail) });
                    }
                    Known::Other => {
                        let detail = format!("{KEY}: another request had this key: a new request takes a new key");
                        return Err(Problem {
                            status: StatusCode::UNPROCESSABLE_ENTITY,
                            ..Problem::field(KEY, detail)
                        });
                    }
                }
            }
        };
        Ok(Turn::Now(Handing { gate, handle, how }))
    }
}

/// Waits until this number was applied.
pub async fn applied(handle: &RmHandle, gate: &Gate, number: u64) -> Result<(), Problem> {
    if !handle.recorded(gate.shared.receipts.until(number)).await? {
        return Err(handle.over(gate.epoch).into());
    }
    Ok(handle.is_here()?)
}

/// The number is taken, and stands for this request from here on.
fn numbered(gate: &Gate, number: u64, digest: Digest, items: usize) -> Receipt {
    let receipt = gate.shared.receipts.take(number, items);
    gate.shared.receipts.say(number, digest);
    receipt
}

impl Handing<'_> {
    /// Waits until all before it is applied: a registration or a configuration goes by no partition.
    pub async fn alone(&self) -> Result<(), Problem> {
        match self.how {
            How::Numbered(number, ..) => applied(self.handle, self.gate, number - 1).await,
            _ => Ok(()),
        }
    }

    /// From here on it counts as taken: it is handed in with this permit and without waiting for anything.
    pub fn take(&mut self, permit: Permit, items: usize) -> Permit {
        match &mut self.how {
            How::Plain(waiting) if self.gate.shared.recorded => {
                let (tell, told) = oneshot::channel();
                *waiting = Some(told);
                permit.with(Receipt::Awaited(tell))
            }
            How::Plain(_) => permit,
            How::Numbered(number, digest, _) => permit.with(numbered(self.gate, *number, *digest, items)),
            How::Keyed(claim, waiting) => {
                let (tell, told) = oneshot::channel();
                *waiting = Some(told);
                permit.with(match claim.taken() {
                    Some(taken) => Receipt::Keyed(taken, Some(tell)),
                    None => Receipt::Awaited(tell),
                })
            }
        }
    }

    /// It was carried out, or refused as a configuration is: to be waited for as what was handed in.
    pub fn done(&mut self, refused: Option<&str>) {
        match &mut self.how {
            How::Plain(_) => {}
            How::Numbered(number, digest, _) => {
                if let Some(reason) = refused {
                    self.gate.shared.receipts.refuse(*number, reason);
                }
                self.handle.carried_out(self.gate, numbered(self.gate, *number, *digest, 0));
            }
            // One that was refused may come again.
            How::Keyed(claim, waiting) if refused.is_none() => {
                if let Some(taken) = claim.taken() {
                    let (tell, told) = oneshot::channel();
                    *waiting = Some(told);
                    self.handle.carried_out(self.gate, Receipt::Keyed(taken, Some(tell)));
                }
            }
            How::Keyed(..) => {}
        }
    }

    /// Waits until it was applied.
    pub async fn applied(mut self) -> Result<(), Problem> {
        match &mut self.how {
            How::Numbered(number, _, turn) => {
                // The next one may come.
                *turn = None;
                applied(self.handle, self.gate, *number).await
            }
            How::Plain(waiting) | How::Keyed(_, waiting) => {
                if let Some(waiting) = waiting.take() {
                    // Dropped with its last part.
                    let _ = self.handle.recorded(waiting).await?;
                }
                // Of what a server hands over or has lost, nothing is acknowledged that may not be recorded.
                Ok(self.handle.is_here()?)
            }
        }
    }
}

/// An answer that tells the session and, to a numbered request, how far its requests are.
pub fn acknowledged(mut answer: HttpResponse, numbered: bool, gate: &Gate) -> HttpResponse {
    if numbered {
        let mut put = |name: &'static str, value: u64| {
            answer.headers_mut().insert(HeaderName::from_static(name), HeaderValue::from(value));
        };
        put(ACK, gate.shared.receipts.applied());
        put(EPOCH, gate.epoch);
    }
    answer
}
