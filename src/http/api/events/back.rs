//! Steps back through the log of events, for those who look for what happened last.

use actix::Addr;

use super::log::Log;
use crate::{
    actors::event::EventActor,
    domain::event_block::{EventGap, EventPiece},
    messages::event::{EventStatus, FindGap, ReadError},
};

/// Ids of one step.
const STEP: u64 = 4_096;
/// What a step counts at least.
const LEAST: u64 = 256;

/// A place in the log from which it is read backwards.
pub struct Back {
    log: Log,
    lowest: u64,
    end: u64,
    looked: u64,
}

impl Back {
    /// Back from an id to another one.
    pub fn new(log: Log, lowest: u64, end: u64) -> Back {
        Back { log, lowest, end, looked: 0 }
    }

    /// Back from the end of the log to its beginning; `None` while the server stops.
    pub async fn from_end(events: &Addr<EventActor>) -> Option<Back> {
        let log = Log::of_server(events);
        let (lowest, next) = log.extent().await.ok()?;
        Some(Back::new(log, lowest, next))
    }

    /// Everything from here on was looked at.
    pub fn end(&self) -> u64 {
        self.end
    }

    /// How many events were looked at, about. A gap is as quickly passed as a few events, however many ids it has.
    pub fn looked(&self) -> u64 {
        self.looked
    }

    /// What is before, in its order; `None` at the beginning.
    ///
    /// # Errors
    /// The log cannot be read; `None`: the server stops.
    pub async fn step(&mut self) -> Result<Option<Vec<EventPiece>>, Option<ReadError>> {
        if self.end <= self.lowest {
            return Ok(None);
        }
        let mut from = self.end.saturating_sub(STEP).max(self.lowest);
        let mut pieces = Vec::new();
        let mut at = from;
        while at < self.end {
            let page = self.log.read(Some(at), (self.end - at) as usize).await?;
            let Some(reached) = page.pieces.last().map(EventPiece::end) else { break };
            pieces.extend(page.pieces.into_iter().filter_map(|piece| before(piece, self.end)));
            at = reached;
        }
        if let Some(EventPiece::Gap(gap)) = pieces.first_mut() {
            // It may begin long before.
            let whole = self.log.gap(gap.from).await?;
            from = whole.map_or(gap.from, |whole| whole.start.min(gap.from)).max(self.lowest);
            gap.from = from;
        }
        self.looked += pieces.iter().map(events_of).sum::<u64>().max(LEAST);
        self.end = from;
        Ok(Some(pieces))
    }
}

/// The first id that is kept.
pub fn lowest(status: &EventStatus) -> u64 {
    let stored = status.store.as_ref().map(|store| store.lowest).filter(|lowest| *lowest <= status.lowest);
    stored.unwrap_or(status.lowest)
}

/// Where the last `count` events before `end` begin, about. Gaps do not count.
///
/// # Errors
/// The log cannot be read; `None`: the server stops.
pub async fn begin_of_last(
    events: &Addr<EventActor>,
    count: u64,
    lowest: u64,
    mut end: u64,
) -> Result<u64, Option<ReadError>> {
    let mut left = count;
    loop {
        let from = end.saturating_sub(left).max(lowest);
        let gap = events.send(FindGap { at: from }).await.map_err(|_| None)?.map_err(Some)?;
        match gap.filter(|gap| gap.start > lowest && gap.end <= end) {
            Some(gap) => {
                left -= (end - gap.end).min(left);
                end = gap.start;
            }
            None => return Ok(from),
        }
    }
}

fn before(piece: EventPiece, end: u64) -> Option<EventPiece> {
    match piece {
        EventPiece::Events(slice) => {
            let count = end.saturating_sub(slice.first());
            slice.part(slice.first(), usize::try_from(count).unwrap_or(usize::MAX)).map(EventPiece::Events)
        }
        EventPiece::Gap(gap) => (gap.from < end).then(|| EventPiece::Gap(EventGap { end: gap.end.min(end), ..gap })),
    }
}

fn events_of(piece: &EventPiece) -> u64 {
    match piece {
        EventPiece::Events(slice) => slice.len() as u64,
        EventPiece::Gap(_) => 0,
    }
}
