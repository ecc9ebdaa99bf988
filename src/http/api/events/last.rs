//! The last events before a place of the log: it is read backwards, so that what is shown first is found first.

use std::sync::Arc;

use bytes::Bytes;

use super::{Filter, back::Back, failed, gap_line, log::Log};
use crate::{
    domain::{
        event_block::{EventGap, EventPiece, EventSlice},
        types::Nanos,
    },
    http::{long::Asker, problem::Problem, ws_v1::events::records::Encoder},
};

/// Events that are asked for at a time.
const PAGE: usize = 4_096;
/// Events that one answer looks at, so that a rare object does not make it read a whole log; it says where to go on.
const LOOKED_AT: u64 = 1 << 18;

/// The lines of an answer: `count` events in their order, the gaps between them and behind them, and as the last one `next` and `previous`: the
/// first id that was not looked at on the way back, null where nothing is older.
///
/// # Errors
/// As [`super::events`].
pub async fn last(
    log: &mut Log,
    filter: &Arc<Filter>,
    before: Option<u64>,
    count: usize,
    asker: &Asker,
) -> Result<Vec<Bytes>, Problem> {
    let (mut lowest, upto) = log.extent().await.map_err(failed)?;
    if let Some(since) = filter.since {
        lowest = lowest.max(log.find(since).await.map_err(failed)?);
    }
    let mut end = before.unwrap_or(upto).min(upto);
    if let Some(until) = filter.until {
        let _turn = asker.wait().await;
        end = end.min(after(log, filter, until, upto).await?);
    }
    let next = end.max(lowest);
    let mut back = Back::new(log.clone(), lowest, end);
    // The latest step first, each in its order.
    let mut steps: Vec<Vec<Found>> = Vec::new();
    let mut found = 0;
    while found < count && back.looked() < LOOKED_AT {
        let turn = asker.wait().await;
        let step = back.step().await.map_err(failed)?;
        let Some(pieces) = step else { break };
        let step = turn.make({
            let filter = filter.clone();
            move || wanted(pieces, &filter)
        });
        let step = step.await?;
        found += step.iter().filter(|found| matches!(found, Found::Event(..))).count();
        steps.push(step);
    }
    let mut all: Vec<Found> = Vec::new();
    for found in steps.into_iter().rev().flatten() {
        join(&mut all, found);
    }
    let mut end = back.end();
    // What is before the oldest one that is wanted belongs to the page before, also a gap, which may begin in a step that was not taken.
    let mut events = all.iter().enumerate().filter_map(|(at, found)| Some((at, found.event()?)));
    let oldest = found.checked_sub(count).and_then(|beyond| events.nth(beyond));
    if let Some((at, id)) = oldest.filter(|(at, _)| *at > 0) {
        end = id;
        all.drain(..at);
    }
    let previous = if end > lowest { end.to_string() } else { "null".to_owned() };
    let mut lines: Vec<Bytes> = all.into_iter().map(Found::line).collect();
    lines.push(format!("{{\"next\":{next},\"previous\":{previous}}}\n").into());
    Ok(lines)
}

/// What an answer has.
enum Found {
    /// An event with its line.
    Event(u64, Bytes),
    /// What is missing.
    Gap(EventGap),
}

impl Found {
    fn event(&self) -> Option<u64> {
        match self {
            Found::Event(id, _) => Some(*id),
            Found::Gap(_) => None,
        }
    }

    fn line(self) -> Bytes {
        match self {
            Found::Event(_, line) => line,
            Found::Gap(gap) => gap_line(&gap),
        }
    }
}

/// Adds what comes next. A gap that goes on is one.
fn join(all: &mut Vec<Found>, next: Found) {
    match (all.last_mut(), &next) {
        (Some(Found::Gap(last)), Found::Gap(gap)) if last.end == gap.from && last.reason == gap.reason => {
            last.end = gap.end;
        }
        _ => all.push(next),
    }
}

/// An id that no event of this time or earlier comes after. To be looked for in a turn.
pub async fn after(log: &mut Log, filter: &Filter, until: Nanos, next: u64) -> Result<u64, Problem> {
    let mut from = log.find(until).await.map_err(failed)?;
    while from < next {
        let page = log.read(Some(from), PAGE).await.map_err(failed)?;
        for piece in &page.pieces {
            if let EventPiece::Events(slice) = piece
                && let Some(at) = slice.events().iter().position(|event| filter.is_over(event))
            {
                return Ok(slice.first() + at as u64);
            }
        }
        match page.pieces.last() {
            Some(piece) => from = piece.end(),
            None => break,
        }
    }
    Ok(next)
}

fn wanted(pieces: Vec<EventPiece>, filter: &Filter) -> Vec<Found> {
    let mut found = Vec::new();
    for piece in pieces {
        match piece {
            EventPiece::Gap(gap) => found.push(Found::Gap(gap)),
            EventPiece::Events(slice) => found.extend(events_of(&slice, filter)),
        }
    }
    found
}

fn events_of(slice: &EventSlice, filter: &Filter) -> impl Iterator<Item = Found> {
    let wanted = (slice.first()..).zip(slice.events()).filter(|(_, event)| filter.wants(event));
    wanted.map(|(id, event)| {
        let mut line = Encoder::default();
        line.numbered(id, event);
        line.raw("\n");
        Found::Event(id, line.finish())
    })
}
