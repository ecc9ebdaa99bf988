//! The log that is read: that of the server, or that of a resource manager, whose events are found in it.

use std::{net::IpAddr, ops::Range, sync::Arc};

use actix::Addr;
use actix_web::http::StatusCode;

use super::failed;
use crate::{
    actors::{event::EventActor, rm::handle::RmHandle, topology::Topology},
    domain::{
        event::Event,
        event_block::{EventBlock, EventGap, EventPiece, EventSlice, GapReason},
        types::Nanos,
    },
    http::{api::events::back, problem::Problem},
    messages::{
        event::{
            BeginToFollow, FindGap, FindInLog, FindNumber, FollowError, FollowLog, Followed, Follower, GetEventStatus,
            LogPage, Look, NumberRange, Numbered, ReadError, ReadLog, TooManyStreams,
        },
        rm::{Refusal, RefusalKind},
    },
};

/// Events that are looked at, at least, for those of a resource manager.
const LEAST: usize = 512;

/// See the module. A `None` among the errors says that the server stops.
#[derive(Clone)]
pub struct Log {
    events: Addr<EventActor>,
    of: Option<Of>,
}

/// Of a resource manager.
#[derive(Clone)]
struct Of {
    rm: Arc<str>,
    handle: Arc<RmHandle>,
    /// Where reading goes on: a range, an id, and its place in the log of the server.
    place: Option<(NumberRange, u64, u64)>,
}

impl Log {
    /// That of the server.
    pub fn of_server(events: &Addr<EventActor>) -> Log {
        Log { events: events.clone(), of: None }
    }

    /// That of a resource manager.
    ///
    /// # Errors
    /// It is not known, or has no log.
    pub async fn of(topology: &Topology, rm: &str) -> Result<Log, Problem> {
        let handle = topology.look_up(rm).await?.ok_or_else(|| unknown(topology, rm))?;
        let log = Log {
            events: topology.events_of_logs().clone(),
            of: Some(Of { rm: handle.id.clone(), handle, place: None }),
        };
        if log.number(Look::Lowest).await.map_err(failed)?.is_some() {
            return Ok(log);
        }
        if topology.logs().is_some_and(|logs| logs.shared) {
            let detail = format!("the log of resource manager \"{rm}\" is not read yet: try again");
            return Err(Refusal::new(RefusalKind::Closing, detail).into());
        }
        let detail = format!(
            "resource manager \"{rm}\" keeps no log (--ephemeral, or log.sync: off): its events have the ids of the server \
             only, so leave out rm"
        );
        Err(Problem::field("rm", detail))
    }

    async fn number(&self, look: Look) -> Result<Option<Numbered>, Option<ReadError>> {
        let Some(Of { rm, .. }) = &self.of else { return Ok(None) };
        self.events.send(FindNumber { rm: rm.clone(), look }).await.map_err(|_| None)
    }

    /// Why it cannot be read from an id on. What another server writes may be there soon.
    pub fn refused(&self, error: Option<ReadError>) -> Problem {
        match (&self.of, &error) {
            (Some(of), Some(ReadError::Beyond { .. })) if of.handle.is_here().is_err() => {
                let problem = failed(error);
                Refusal::new(RefusalKind::Closing, format!("{}; another server leads: try again", problem.detail))
                    .into()
            }
            _ => failed(error),
        }
    }

    /// Counts one more follower, unless there are too many.
    ///
    /// # Errors
    /// The server stops.
    pub async fn begin_to_follow(&self, host: IpAddr) -> Result<Result<Follower, TooManyStreams>, Option<ReadError>> {
        self.events.send(BeginToFollow { host }).await.map_err(|_| None)
    }

    /// The lowest id that is kept, and the next one.
    ///
    /// # Errors
    /// The server stops.
    pub async fn extent(&self) -> Result<(u64, u64), Option<ReadError>> {
        if self.of.is_some() {
            return Ok(self.number(Look::Lowest).await?.map_or((0, 0), |found| (found.lowest, found.next)));
        }
        let status = self.events.send(GetEventStatus).await.map_err(|_| None)?;
        Ok((back::lowest(&status), status.next))
    }

    /// An id before which all events are older than a time.
    ///
    /// # Errors
    /// It cannot be read.
    pub async fn find(&self, at: Nanos) -> Result<u64, Option<ReadError>> {
        let place = self.events.send(FindInLog { at }).await.map_err(|_| None)?.map_err(Some)?;
        match &self.of {
            Some(_) => Ok(self.number(Look::Place(place)).await?.map_or(0, |found| found.from)),
            None => Ok(place),
        }
    }

    /// The gap in which an id lies, where it is known.
    ///
    /// # Errors
    /// It cannot be read.
    pub async fn gap(&self, at: u64) -> Result<Option<Range<u64>>, Option<ReadError>> {
        match &self.of {
            Some(_) => Ok(None),
            None => self.events.send(FindGap { at }).await.map_err(|_| None)?.map_err(Some),
        }
    }

    /// Follows it from an id that is the next one, or in memory.
    ///
    /// # Errors
    /// What is before is to be read first.
    pub async fn follow(
        &self,
        host: IpAddr,
        name: Arc<str>,
        from: u64,
    ) -> Result<Result<Followed, FollowError>, Option<ReadError>> {
        let rm = self.of.as_ref().map(|of| of.rm.clone());
        self.events.send(FollowLog { host, name, rm, from: Some(from) }).await.map_err(|_| None)
    }

    /// What begins at an id: see [`ReadLog`].
    ///
    /// # Errors
    /// It cannot be read.
    pub async fn read(&mut self, from: Option<u64>, events: usize) -> Result<LogPage, Option<ReadError>> {
        if self.of.is_none() {
            return self.events.send(ReadLog { from, events }).await.map_err(|_| None)?.map_err(Some);
        }
        let look = from.map_or(Look::Lowest, Look::Id);
        let beyond = |next| Some(ReadError::Beyond { from: from.unwrap_or_default(), next });
        let found = self.number(look).await?.ok_or_else(|| beyond(0))?;
        if found.from > found.next {
            return Err(beyond(found.next));
        }
        let pieces = match found.range {
            _ if found.from == found.next => Vec::new(),
            Some(range) => {
                let piece = self.in_range(range, found.from, found.then, events).await?;
                vec![if found.damaged { blamed(piece) } else { piece }]
            }
            None if found.damaged => vec![blamed(missing(found.from, found.then, GapReason::Retention))],
            None => vec![missing(found.from, found.then, GapReason::Retention)],
        };
        Ok(LogPage { pieces, next: found.next })
    }

    /// Events of a range from an id on, or the gap that begins there.
    async fn in_range(
        &mut self,
        range: NumberRange,
        from: u64,
        then: u64,
        events: usize,
    ) -> Result<EventPiece, Option<ReadError>> {
        let Some(Of { rm, place, .. }) = self.of.clone() else { return Ok(missing(from, then, GapReason::NotStored)) };
        let known = place.filter(|(of, id, _)| (of.id, of.at) == (range.id, range.at) && *id <= from);
        let (mut id, mut at) = known.map_or((range.id, range.at), |(_, id, at)| (id, at));
        let until = range.until.unwrap_or(u64::MAX);
        let mut block = EventBlock { first: from, events: Vec::new() };
        let mut ends = None;
        while block.events.is_empty() && ends.is_none() {
            if at >= until || id >= then {
                ends = Some(GapReason::NotStored);
                break;
            }
            let page = match self
                .events
                .send(ReadLog { from: Some(at), events: events.max(LEAST) })
                .await
                .map_err(|_| None)?
            {
                Ok(page) => page,
                Err(ReadError::Beyond { .. }) => LogPage { pieces: Vec::new(), next: at },
                Err(error) => return Err(Some(error)),
            };
            if page.pieces.is_empty() {
                // What came before the log did is not in it.
                ends = Some(GapReason::NotStored);
            }
            for piece in page.pieces {
                match piece {
                    EventPiece::Gap(gap) => {
                        ends = Some(gap.reason);
                        break;
                    }
                    EventPiece::Events(slice) => {
                        let mut all = (slice.first()..until).zip(slice.events());
                        while id < then
                            && block.events.len() < events
                            && let Some((place, event)) = all.next()
                        {
                            at = place + 1;
                            if is_of(event, &rm) {
                                if id >= from {
                                    block.events.push(event.clone());
                                }
                                id += 1;
                            }
                        }
                        if all.next().is_some() {
                            break;
                        }
                        at = slice.end().min(until);
                    }
                }
            }
        }
        if let Some(of) = &mut self.of {
            of.place = Some((range, id, at));
        }
        let (block, end) = (Arc::new(block), u64::MAX);
        let events = EventSlice::of(&block, from, end).map(EventPiece::Events);
        Ok(events.unwrap_or_else(|| missing(id.max(from).min(then - 1), then, ends.unwrap_or(GapReason::NotStored))))
    }
}

fn unknown(topology: &Topology, rm: &str) -> Problem {
    let names = topology.heard_of();
    let known = if names.is_empty() { "there are none".to_owned() } else { format!("there are: {}", names.join(", ")) };
    Problem::new(StatusCode::NOT_FOUND, format!("resource manager '{rm}' not found; {known}"))
}

fn missing(from: u64, end: u64, reason: GapReason) -> EventPiece {
    EventPiece::Gap(EventGap { from, end, reason })
}

/// A gap of which the files do not tell, where what told of it is damaged.
fn blamed(piece: EventPiece) -> EventPiece {
    match piece {
        EventPiece::Gap(EventGap { from, end, reason: GapReason::NotStored | GapReason::Retention }) => {
            missing(from, end, GapReason::Damage("numbers: damaged".into()))
        }
        piece => piece,
    }
}

/// It happened in a partition of this resource manager.
fn is_of(event: &Event, rm: &str) -> bool {
    let rest = event.partition.strip_prefix('[').and_then(|rest| rest.strip_prefix(rm));
    rest.is_some_and(|rest| rest.starts_with(']'))
}
