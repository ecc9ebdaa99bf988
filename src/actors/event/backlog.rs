//! What the durable store is still to be given: bounded, so that a slow or full disk costs history and not memory.

use std::{collections::VecDeque, ops::Range, sync::Arc};

use crate::domain::{
    event::Event,
    event_block::{EventBlock, EventGap, EventPiece, EventSlice, GapReason},
    types::Nanos,
    usage::{PointReason, Usage, UsagePiece, UsagePoint},
};

/// Events that may wait. What comes beyond becomes a gap.
pub const LIMIT: usize = 1_000_000;
/// Batches below this are copied, so that the ring can go on filling its last block.
const COPY: usize = 64;
/// Copied events are gathered up to this number.
const GATHER: usize = 512;

/// See the module.
pub struct Backlog {
    pieces: VecDeque<EventPiece>,
    /// Copies of the newest events, which follow `pieces`.
    gathered: Vec<Event>,
    /// First id.
    first: u64,
    /// The id after the last one.
    end: u64,
    events: usize,
    limit: usize,
    /// Points of usage, numbered.
    points: VecDeque<(u64, Arc<UsagePoint>)>,
    /// Number of the last point.
    number: u64,
    /// Changes of usage by the events that were lost last, up to `end`, while nothing comes after them.
    lost: Option<(UsagePoint, Usage)>,
    /// Events of logs are counted.
    counts: bool,
}

impl Backlog {
    /// Nothing waits, and the next event has the id `next`.
    pub fn new(next: u64, limit: usize) -> Backlog {
        Backlog {
            pieces: VecDeque::new(),
            gathered: Vec::new(),
            first: next,
            end: next,
            events: 0,
            limit,
            points: VecDeque::new(),
            number: 0,
            lost: None,
            counts: false,
        }
    }

    /// First id that waits; the next one where none does.
    pub fn first(&self) -> u64 {
        self.first
    }

    /// Events that wait.
    pub fn events(&self) -> usize {
        self.events
    }

    /// Nothing waits.
    pub fn is_empty(&self) -> bool {
        self.first == self.end
    }

    /// Adds a gap behind what waits.
    pub fn gap(&mut self, end: u64, reason: GapReason) {
        self.seal();
        if let Some(EventPiece::Gap(last)) = self.pieces.back_mut()
            && last.reason == reason
        {
            last.end = end;
        } else {
            self.pieces.push_back(EventPiece::Gap(EventGap { from: self.end, end, reason }));
        }
        self.end = end;
    }

    /// Adds the next events; returns how many are lost because too many wait.
    pub fn push(&mut self, slice: &EventSlice) -> usize {
        let count = slice.len();
        if self.events + count > self.limit {
            self.gap(slice.end(), GapReason::NotStored);
            self.lose(slice);
            return count;
        }
        self.seal_lost();
        self.events += count;
        if count < COPY {
            self.gathered.extend_from_slice(slice.events());
            self.end = slice.end();
            if self.gathered.len() >= GATHER {
                self.seal();
            }
        } else {
            self.seal();
            self.pieces.push_back(EventPiece::Events(slice.clone()));
            self.end = slice.end();
        }
        0
    }

    /// Adds a point behind what waits. Its id is set here.
    pub fn point(&mut self, point: UsagePoint) {
        self.seal_lost();
        // So that it lies between two pieces.
        self.seal();
        self.counts |= point.log().is_some();
        self.number += 1;
        self.points.push_back((self.number, Arc::new(UsagePoint { id: self.end, ..point })));
    }

    /// The points that wait, with their numbers.
    pub fn points(&mut self) -> Vec<(u64, Arc<UsagePoint>)> {
        self.seal_lost();
        self.points.iter().cloned().collect()
    }

    /// Keeps usage known although its events are lost.
    fn lose(&mut self, slice: &EventSlice) {
        let times = || slice.events().iter().map(|event| event.at);
        let (from, to) = (times().min().unwrap_or(Nanos::ZERO), times().max().unwrap_or(Nanos::ZERO));
        let point = UsagePoint { id: 0, reason: PointReason::NotStored, from, to, rows: Vec::new(), relative: true };
        let (point, usage) = self.lost.get_or_insert_with(|| (point, Usage::counting(self.counts)));
        point.to = point.to.max(to);
        slice.events().iter().for_each(|event| usage.apply(event));
    }

    fn seal_lost(&mut self) {
        if let Some((point, usage)) = self.lost.take() {
            self.point(UsagePoint { rows: usage.rows(), ..point });
        }
    }

    fn seal(&mut self) {
        let events = std::mem::take(&mut self.gathered);
        let block = Arc::new(EventBlock { first: self.end - events.len() as u64, events });
        self.pieces.extend(EventSlice::of(&block, block.first, self.end).map(EventPiece::Events));
    }

    /// Everything that waits; it goes on waiting until it is [`Backlog::written`].
    pub fn all(&mut self) -> Vec<EventPiece> {
        self.seal();
        self.pieces.iter().cloned().collect()
    }

    /// Everything below an id is stored, and so are points up to a number.
    pub fn written(&mut self, next: u64, points: u64) {
        while self.points.front().is_some_and(|(number, _)| *number <= points) {
            self.points.pop_front();
        }
        while let Some(piece) = self.pieces.front_mut()
            && piece.first() < next
        {
            let done = piece.end() <= next;
            let kept = match piece {
                EventPiece::Events(slice) if !done => slice.part(next, usize::MAX).map(EventPiece::Events),
                EventPiece::Gap(gap) if !done => {
                    gap.from = next;
                    Some(EventPiece::Gap(gap.clone()))
                }
                _ => None,
            };
            let before = events_of(piece);
            self.events -= before - kept.as_ref().map_or(0, events_of);
            match kept {
                Some(kept) => *piece = kept,
                None => drop(self.pieces.pop_front()),
            }
        }
        self.first = self.first.max(next).min(self.end);
    }

    /// As [`Backlog::read`], with the points from before the first to behind the last event, and whether that is all that
    /// waits. Those between two pages are in both.
    pub fn read_usage(&mut self, from: u64, events: usize) -> (Vec<UsagePiece>, bool) {
        self.seal_lost();
        let pieces = self.read(from, events);
        let end = pieces.last().map_or(from, EventPiece::end);
        let mut points = self.points.iter().filter(|(_, point)| (from..=end).contains(&point.id)).peekable();
        let mut found = Vec::new();
        for piece in pieces {
            while let Some((_, point)) = points.next_if(|(_, point)| point.id <= piece.first()) {
                found.push(UsagePiece::Point(point.clone()));
            }
            found.push(UsagePiece::Log(piece));
        }
        found.extend(points.map(|(_, point)| UsagePiece::Point(point.clone())));
        (found, end == self.end)
    }

    /// The ids of the gap in which an id lies, where it lies in one.
    pub fn gap_at(&self, id: u64) -> Option<Range<u64>> {
        let at = self.pieces.partition_point(|piece| piece.end() <= id);
        match self.pieces.get(at)? {
            EventPiece::Gap(gap) if gap.from <= id => Some(gap.from..gap.end),
            _ => None,
        }
    }

    /// What waits from id `from` on, up to about `events` events.
    pub fn read(&mut self, from: u64, events: usize) -> Vec<EventPiece> {
        self.seal();
        let mut left = events;
        let mut found = Vec::new();
        let at = self.pieces.partition_point(|piece| piece.end() <= from);
        for piece in self.pieces.range(at..) {
            if left == 0 {
                break;
            }
            match piece {
                EventPiece::Events(slice) => {
                    let Some(part) = slice.part(from, left) else { break };
                    left -= part.len();
                    found.push(EventPiece::Events(part));
                }
                EventPiece::Gap(gap) => {
                    found.push(EventPiece::Gap(EventGap { from: gap.from.max(from), ..gap.clone() }));
                }
            }
        }
        found
    }
}

fn events_of(piece: &EventPiece) -> usize {
    match piece {
        EventPiece::Events(slice) => slice.len(),
        EventPiece::Gap(_) => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::actors::event::{ring::Ring, testing::events};

    fn shown(pieces: &[EventPiece]) -> Vec<String> {
        let what = |piece: &EventPiece| if matches!(piece, EventPiece::Gap(_)) { "gap " } else { "" };
        pieces.iter().map(|piece| format!("{}{}..{}", what(piece), piece.first(), piece.end())).collect()
    }

    fn push(backlog: &mut Backlog, ring: &mut Ring, count: u64) -> usize {
        let first = ring.next();
        ring.push(events(first..first + count)).iter().map(|slice| backlog.push(slice)).sum()
    }

    #[test]
    fn what_waits_goes_when_it_is_written() {
        let (mut backlog, mut ring) = (Backlog::new(0, 10_000), Ring::new(0, 1));
        assert!(backlog.is_empty());
        for count in [1, 2, 3, 100, 4, 5] {
            assert_eq!(push(&mut backlog, &mut ring, count), 0);
        }
        assert_eq!(shown(&backlog.all()), ["0..6", "6..106", "106..115"]);
        backlog.written(50, 0);
        assert_eq!((shown(&backlog.all()), backlog.events()), (vec!["50..106".into(), "106..115".into()], 65));
        assert_eq!(shown(&backlog.read(60, 50)), ["60..106", "106..110"]);
        backlog.written(115, 0);
        assert!(backlog.is_empty() && backlog.events() == 0 && backlog.all().is_empty());
        assert_eq!(backlog.first(), 115);
        push(&mut backlog, &mut ring, 1);
        assert_eq!(shown(&backlog.read(115, 50)), ["115..116"]);
    }

    #[test]
    fn what_is_too_much_becomes_one_gap() {
        let (mut backlog, mut ring) = (Backlog::new(0, 250), Ring::new(0, 1));
        push(&mut backlog, &mut ring, 200);
        assert_eq!(push(&mut backlog, &mut ring, 100), 100);
        assert_eq!(push(&mut backlog, &mut ring, 70), 70);
        push(&mut backlog, &mut ring, 10);
        assert_eq!(shown(&backlog.all()), ["0..200", "gap 200..370", "370..380"]);
        assert_eq!(shown(&backlog.read(300, 9)), ["gap 300..370", "370..379"]);
        assert_eq!([199, 200, 369, 370].map(|id| backlog.gap_at(id)), [None, Some(200..370), Some(200..370), None]);
        backlog.written(210, 0);
        assert_eq!(shown(&backlog.all()), ["gap 210..370", "370..380"]);
        assert_eq!(push(&mut backlog, &mut ring, 200), 0);
        assert_eq!(backlog.events(), 210);
    }
}
