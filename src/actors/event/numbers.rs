//! Where the events of a resource manager are by the ids that its log gives them (see [`crate::messages::event`]): ranges of
//! the server's log in which they are counted. A range begins where counting on from the one before would be wrong, and after
//! [`EACH`] events or a part of the server's log ([`PARTS`]), so that a reader need not count many, and few go when its beginning
//! does. A range that begins with an id which was there before replaces all from that id on: a log that is replayed gives the same
//! events again, and one that was set back gives others.

use std::{collections::HashMap, sync::Arc};

use crate::{
    domain::event::Event,
    messages::event::{Look, NumberRange as Range, Numbered},
    store::events::numbers::Row,
};

/// Events that are counted at most.
const EACH: u64 = 1_024;
/// A range spans at most this part of what is kept of the log of the server, or [`EACH`] places of it. When the first event of a
/// range is no longer kept the others cannot be counted: of one that does little beside others that would be all it did.
const PARTS: u64 = 64;
/// Lines that are no longer needed before the file is written anew.
const OLD: usize = 1_024;

/// See the module.
#[derive(Debug, Default)]
pub struct Numbers {
    of: HashMap<Arc<str>, Known>,
    /// Events that were there before are not taken again.
    once: bool,
    /// Ranges that began before this are over.
    round: u64,
    unwritten: Vec<Row>,
    /// In the file.
    written: usize,
    /// Some of the lines were damaged.
    damaged: bool,
    /// What was before this place in the log of the server was gone when that was last looked at.
    lowest: u64,
}

#[derive(Debug, Default)]
struct Known {
    ranges: Vec<Range>,
    /// `None`: it may begin anew.
    next: Option<u64>,
    /// Events of the last range; `None`: it is over.
    counted: Option<u64>,
    round: u64,
}

impl Known {
    fn begin(&mut self, id: u64, at: u64) {
        self.end(at);
        while self.ranges.last().is_some_and(|last| last.id >= id) {
            self.ranges.pop();
        }
        self.ranges.push(Range { id, at, until: None });
        self.counted = Some(0);
    }

    fn end(&mut self, at: u64) {
        if let Some(last) = self.ranges.last_mut() {
            last.until.get_or_insert(at);
        }
        self.counted = None;
    }
}

impl Numbers {
    /// As the process before left it, in a log that goes on with this id.
    pub fn of(rows: Vec<Option<Row>>, next: u64) -> Numbers {
        let (damaged, mut place) = (rows.contains(&None), 0);
        let mut numbers = Numbers { written: rows.len(), damaged, ..Numbers::default() };
        for row in rows {
            let Some(Row { rm, id, at }) = row else {
                // A damaged line may have ended or begun any range: none goes on over it.
                numbers.of.values_mut().for_each(|known| known.end(place));
                continue;
            };
            if at > next {
                continue;
            }
            place = at;
            let known = numbers.of.entry(rm).or_default();
            match id {
                Some(id) => known.begin(id, at),
                None => known.end(at),
            }
        }
        numbers.of.values_mut().for_each(|known| known.end(next));
        numbers
    }

    /// Events that were there before come again, and are not taken.
    pub fn once(self) -> Numbers {
        Numbers { once: true, ..self }
    }

    /// See [`Numbers::once`].
    pub fn is_once(&self) -> bool {
        self.once
    }

    /// Sets the next id of a resource manager; `None`: it is not known.
    pub fn stands(&mut self, rm: &Arc<str>, next: Option<u64>) {
        let once = self.once;
        let known = self.of.entry(rm.clone()).or_default();
        let before = known.next;
        known.next = if once { next.map(|next| next.max(before.unwrap_or(0))) } else { next };
        if known.next != before {
            known.counted = None;
        }
    }

    /// What of these events is new, and the id of the first of that.
    pub fn new_of(&self, rm: &Arc<str>, first: Option<u64>, mut events: Vec<Event>) -> (Option<u64>, Vec<Event>) {
        let next = self.of.get(rm).and_then(|known| known.next).filter(|_| self.once);
        match first.zip(next) {
            Some((first, next)) if first < next => {
                let known = usize::try_from(next - first).unwrap_or(usize::MAX).min(events.len());
                events.drain(..known);
                (Some(next), events)
            }
            _ => (first, events),
        }
    }

    /// So many events, the first with this id, are in the log of the server from this place on.
    pub fn note(&mut self, rm: &Arc<str>, first: Option<u64>, count: u64, at: u64) {
        let Some(first) = first else {
            if let Some(known) = self.of.get_mut(rm)
                && known.counted.is_some()
            {
                known.end(at);
                self.unwritten.push(Row { rm: rm.clone(), id: None, at });
            }
            return;
        };
        let known = self.of.entry(rm.clone()).or_default();
        let far = EACH.max(at.saturating_sub(self.lowest) / PARTS);
        let is_near = known.ranges.last().is_some_and(|last| at.saturating_sub(last.at) < far);
        let goes_on = known.next == Some(first) && known.round == self.round && is_near;
        if !(goes_on && known.counted.is_some_and(|counted| counted < EACH)) {
            known.begin(first, at);
            known.round = self.round;
            self.unwritten.push(Row { rm: rm.clone(), id: Some(first), at });
        }
        known.next = Some(first + count);
        known.counted = known.counted.map(|counted| counted + count);
    }

    /// These events are in the log of no server.
    pub fn missed(&mut self, rm: &Arc<str>, first: Option<u64>, count: u64) {
        if let Some(first) = first {
            self.stands(rm, Some(first + count));
        }
    }

    /// Some events were lost, of whichever resource manager.
    pub fn lost(&mut self) {
        self.round += 1;
    }

    /// What is not in the file yet.
    pub fn unwritten(&mut self) -> Vec<Row> {
        self.written += self.unwritten.len();
        std::mem::take(&mut self.unwritten)
    }

    /// What is before this place in the log of the server is gone. Gives what the file should have instead of what it has.
    pub fn prune(&mut self, lowest: u64) -> Option<Vec<Row>> {
        self.lowest = lowest;
        self.of.retain(|_, known| {
            known.ranges.drain(..known.ranges.partition_point(|range| range.at < lowest));
            // What comes next is counted from where it is.
            known.counted = known.counted.filter(|_| !known.ranges.is_empty());
            known.next.is_some() || !known.ranges.is_empty()
        });
        let needed: usize = self.of.values().map(|known| known.ranges.len()).sum();
        if self.written < OLD + 4 * needed {
            return None;
        }
        let mut rows = Vec::with_capacity(needed);
        for (rm, known) in &self.of {
            let begins = known.ranges.iter().skip(1).map(|range| Some(range.at)).chain([None]);
            for (range, begins) in known.ranges.iter().zip(begins) {
                rows.push(Row { rm: rm.clone(), id: Some(range.id), at: range.at });
                let ends = range.until.filter(|until| Some(*until) != begins);
                rows.extend(ends.map(|at| Row { rm: rm.clone(), id: None, at }));
            }
        }
        self.unwritten.clear();
        self.written = rows.len();
        Some(rows)
    }

    /// The next id of a resource manager.
    pub fn next(&self, rm: &str) -> Option<u64> {
        self.of.get(rm)?.next
    }

    /// Looks for an event, in a log whose lowest id is this one.
    pub fn find(&self, rm: &str, look: Look, lowest: u64) -> Option<Numbered> {
        let known = self.of.get(rm)?;
        let next = known.next?;
        // What lies beyond the end of a log that was set back is gone.
        let kept = known.ranges.partition_point(|range| range.at < lowest)
            ..known.ranges.partition_point(|range| range.id < next);
        let kept = known.ranges.get(kept).unwrap_or_default();
        let lowest = kept.first().map_or(next, |range| range.id);
        let from = match look {
            Look::Lowest => lowest,
            Look::Id(id) => id,
            Look::Place(at) => {
                let before = kept[..kept.partition_point(|range| range.at <= at)].last();
                before.map_or(lowest, |range| range.id)
            }
        };
        let behind = kept.partition_point(|range| range.id <= from);
        let range = kept[..behind].last().filter(|_| from < next).copied();
        let then = kept.get(behind).map_or(next, |range| range.id);
        Some(Numbered { lowest, next, from, range, then, damaged: self.damaged })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::actors::event::testing::events;

    fn rm() -> Arc<str> {
        "rm-1".into()
    }

    fn found(numbers: &Numbers, id: u64) -> (Option<(u64, u64, Option<u64>)>, u64) {
        let found = numbers.find("rm-1", Look::Id(id), 0).expect("known");
        (found.range.map(|range| (range.id, range.at, range.until)), found.then)
    }

    #[test]
    fn a_range_goes_on_while_events_follow_each_other() {
        let mut numbers = Numbers::default();
        assert_eq!(numbers.find("rm-1", Look::Lowest, 0), None);
        numbers.note(&rm(), Some(0), 5, 100);
        numbers.note(&"rm-2".into(), Some(0), 7, 105);
        numbers.note(&rm(), Some(5), 5, 112);
        assert_eq!((numbers.next("rm-1"), numbers.unwritten().len()), (Some(10), 2));
        assert_eq!(found(&numbers, 7), (Some((0, 100, None)), 10));
        // No record tells of some; others were lost, here or before they came.
        numbers.note(&rm(), None, 3, 117);
        numbers.note(&rm(), None, 3, 120);
        numbers.note(&rm(), Some(10), 2, 123);
        numbers.lost();
        numbers.note(&rm(), Some(12), 2, 130);
        numbers.note(&rm(), Some(20), 2, 132);
        assert_eq!(found(&numbers, 9), (Some((0, 100, Some(117))), 10));
        assert_eq!(found(&numbers, 11), (Some((10, 123, Some(130))), 12));
        assert_eq!(found(&numbers, 14), (Some((12, 130, Some(132))), 20));
        assert_eq!(found(&numbers, 21), (Some((20, 132, None)), 22));
        assert_eq!(found(&numbers, 22), (None, 22));
        // The next process finds the same, and counts on from none of them.
        let rows = numbers.unwritten();
        assert_eq!(rows.len(), 4);
        let mut before = vec![Some(Row { rm: rm(), id: Some(0), at: 100 })];
        before.extend(rows.into_iter().map(Some));
        let mut numbers = Numbers::of(before, 140);
        assert_eq!(numbers.find("rm-1", Look::Lowest, 0), None, "its log says how far it is");
        numbers.stands(&rm(), Some(24));
        assert_eq!(found(&numbers, 21), (Some((20, 132, Some(140))), 24));
        numbers.note(&rm(), Some(24), 1, 140);
        assert_eq!(found(&numbers, 24), (Some((24, 140, None)), 25));
    }

    #[test]
    fn what_comes_again_is_left_out_or_takes_the_place_of_what_was() {
        let mut numbers = Numbers::default().once();
        numbers.note(&rm(), Some(0), 10, 0);
        let (first, new) = numbers.new_of(&rm(), Some(4), events(4..12));
        assert_eq!((first, new.len(), new[0].at.0), (Some(10), 2, 10));
        assert!(numbers.new_of(&rm(), Some(4), events(4..8)).1.is_empty());
        numbers.note(&rm(), first, 2, 10);
        assert_eq!(found(&numbers, 11), (Some((0, 0, None)), 12));
        numbers.stands(&rm(), Some(7));
        assert_eq!(numbers.next("rm-1"), Some(12), "it is read once more");
        // It begins anew.
        numbers.stands(&rm(), None);
        assert_eq!(numbers.find("rm-1", Look::Lowest, 0), None);
        numbers.stands(&rm(), Some(5));
        assert_eq!(found(&numbers, 4), (Some((0, 0, None)), 5));
        assert_eq!(found(&numbers, 5), (None, 5));
        assert_eq!(numbers.new_of(&rm(), Some(5), events(0..3)).1.len(), 3);
        numbers.note(&rm(), Some(5), 3, 12);
        assert_eq!(found(&numbers, 4), (Some((0, 0, Some(12))), 5));
        assert_eq!(found(&numbers, 7), (Some((5, 12, None)), 8));
    }

    #[test]
    fn behind_a_damaged_line_nothing_is_counted_on() {
        let row = |rm: &str, id, at| Some(Row { rm: rm.into(), id, at });
        let rows = vec![row("rm-1", Some(0), 0), row("rm-2", Some(0), 50), None, row("rm-1", Some(90), 200)];
        let mut numbers = Numbers::of(rows, 300);
        numbers.stands(&rm(), Some(120));
        assert_eq!(found(&numbers, 7), (Some((0, 0, Some(50))), 90));
        assert_eq!(found(&numbers, 95), (Some((90, 200, Some(300))), 120));
        assert!(numbers.find("rm-1", Look::Id(7), 0).is_some_and(|found| found.damaged));
    }

    #[test]
    fn what_is_gone_needs_no_line() {
        let mut numbers = Numbers::default();
        for nth in 0..3_000 {
            numbers.note(&rm(), Some(nth * EACH), EACH, nth * EACH);
        }
        numbers.note(&rm(), None, 1, 3_000 * EACH);
        numbers.unwritten();
        assert_eq!(numbers.prune(0), None);
        let rows = numbers.prune(2_999 * EACH).expect("most are gone");
        let left = [(Some(2_999 * EACH), 2_999 * EACH), (None, 3_000 * EACH)];
        assert_eq!(rows, left.map(|(id, at)| Row { rm: rm(), id, at }));
        assert_eq!(numbers.find("rm-1", Look::Id(0), 0).map(|found| found.then), Some(2_999 * EACH));
        assert_eq!(numbers.find("rm-1", Look::Place(u64::MAX), 0).map(|found| found.from), Some(2_999 * EACH));
        assert_eq!(numbers.find("rm-1", Look::Lowest, 3_000 * EACH).map(|found| found.from), Some(3_000 * EACH));
        // The range of one that does little goes as a whole, while it goes on.
        numbers.note(&rm(), Some(3_000 * EACH), 1, 4_000 * EACH);
        numbers.prune(5_000 * EACH);
        numbers.note(&rm(), Some(3_000 * EACH + 1), 1, 5_000 * EACH);
        assert_eq!(found(&numbers, 3_000 * EACH), (None, 3_000 * EACH + 1));
        assert!(found(&numbers, 3_000 * EACH + 1).0.is_some());
    }

    #[test]
    fn what_one_that_does_little_did_last_stays_when_its_first_event_goes() {
        let mut numbers = Numbers::default();
        numbers.note(&rm(), Some(0), 1, 0);
        numbers.note(&rm(), Some(1), 1, EACH - 1);
        numbers.note(&rm(), Some(2), 1, 2 * EACH);
        assert_eq!(found(&numbers, 1), (Some((0, 0, Some(2 * EACH))), 2));
        assert_eq!(found(&numbers, 2), (Some((2, 2 * EACH, None)), 3));
        numbers.prune(EACH);
        assert_eq!(numbers.find("rm-1", Look::Lowest, EACH).map(|found| found.from), Some(2));
        // In a log that keeps much a range spans more.
        numbers.note(&rm(), Some(3), 1, 1_000 * EACH);
        numbers.note(&rm(), Some(4), 1, 1_010 * EACH);
        assert_eq!(found(&numbers, 4), (Some((3, 1_000 * EACH, None)), 5));
    }
}
