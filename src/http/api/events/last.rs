//! The last events before a place of the log: it is read backwards, so that what is shown first is found first.

use actix::Addr;
use bytes::Bytes;

use super::{Filter, gap_line, problem, stopping};
use crate::{
    actors::event::EventActor,
    domain::{
        event_block::{EventPiece, EventSlice},
        types::Nanos,
    },
    http::{problem::Problem, ws_v1::events::records::Encoder},
    messages::event::{FindInLog, GetEventStatus, ReadLog},
};

/// Events that are looked at in one step back.
const STEP: u64 = 4_096;
/// Events that one answer looks at, so that a rare object does not make it read a whole log; it says where to go on.
const LOOKED_AT: u64 = 1 << 18;

/// The lines of an answer: events in their order, gaps, and as the last one `next` and `previous`: the first id that was
/// not looked at on the way back, null where nothing is older.
///
/// # Errors
/// As [`super::events`].
pub async fn last(
    events: &Addr<EventActor>,
    filter: &Filter,
    before: Option<u64>,
    count: usize,
) -> Result<Vec<Bytes>, Problem> {
    let status = events.send(GetEventStatus).await.map_err(|_| stopping())?;
    let stored = status.store.as_ref().map(|store| store.lowest).filter(|lowest| *lowest <= status.lowest);
    let mut lowest = stored.unwrap_or(status.lowest);
    if let Some(since) = filter.since {
        lowest = lowest.max(find(events, since).await?);
    }
    let mut end = before.unwrap_or(status.next).min(status.next);
    if let Some(until) = filter.until {
        end = end.min(after(events, filter, until, status.next).await?);
    }
    let next = end.max(lowest);
    // The latest step first, each in its order.
    let mut steps: Vec<Vec<(u64, Bytes)>> = Vec::new();
    let mut found = 0;
    let furthest = end.saturating_sub(LOOKED_AT);
    while end > lowest.max(furthest) && found < count {
        let from = end.saturating_sub(STEP).max(lowest);
        let step = step(events, filter, from, end).await?;
        found += step.len();
        steps.push(step);
        end = from;
    }
    let mut lines: Vec<(u64, Bytes)> = steps.into_iter().rev().flatten().collect();
    let beyond = lines.len().saturating_sub(count);
    if let Some((id, _)) = lines.get(beyond).filter(|_| beyond > 0) {
        end = *id;
    }
    let previous = if end > lowest { end.to_string() } else { "null".to_owned() };
    let mut lines: Vec<Bytes> = lines.drain(beyond..).map(|(_, line)| line).collect();
    lines.push(format!("{{\"next\":{next},\"previous\":{previous}}}\n").into());
    Ok(lines)
}

async fn find(events: &Addr<EventActor>, at: Nanos) -> Result<u64, Problem> {
    events.send(FindInLog { at }).await.map_err(|_| stopping())?.map_err(problem)
}

/// An id that no event of this time or earlier comes after.
pub async fn after(events: &Addr<EventActor>, filter: &Filter, until: Nanos, next: u64) -> Result<u64, Problem> {
    let mut from = find(events, until).await?;
    while from < next {
        let page = events.send(ReadLog { from: Some(from), events: STEP as usize }).await;
        let page = page.map_err(|_| stopping())?.map_err(problem)?;
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

/// What is wanted of these ids.
async fn step(
    events: &Addr<EventActor>,
    filter: &Filter,
    mut from: u64,
    end: u64,
) -> Result<Vec<(u64, Bytes)>, Problem> {
    let mut lines = Vec::new();
    while from < end {
        let page = events.send(ReadLog { from: Some(from), events: (end - from) as usize }).await;
        let page = page.map_err(|_| stopping())?.map_err(problem)?;
        let Some(reached) = page.pieces.last().map(EventPiece::end) else { break };
        for piece in &page.pieces {
            match piece {
                EventPiece::Gap(gap) if gap.from < end => lines.push((gap.from, gap_line(gap))),
                EventPiece::Gap(_) => {}
                EventPiece::Events(slice) => wanted(slice, filter, end, &mut lines),
            }
        }
        from = reached;
    }
    Ok(lines)
}

fn wanted(slice: &EventSlice, filter: &Filter, end: u64, lines: &mut Vec<(u64, Bytes)>) {
    for (id, event) in (slice.first()..end).zip(slice.events()).filter(|(_, event)| filter.wants(event)) {
        let mut line = Encoder::default();
        line.numbered(id, event);
        line.raw("\n");
        lines.push((id, line.finish()));
    }
}
