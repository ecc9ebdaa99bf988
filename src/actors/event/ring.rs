//! The ring: the newest events, in the blocks in which they came (EVT-070 to EVT-072).
//!
//! The events of a slice of scheduling arrive as one vector of thousands and stay in it: recording them moves a pointer, forgetting
//! them drops whole blocks, and whoever reads or stores them shares the block. Small batches are gathered in the last block,
//! so that an idle scheduler does not keep a block per event. What a front block holds beyond the capacity is not
//! shown; it is less than [`BLOCK`] events.

use std::{collections::VecDeque, sync::Arc};

use crate::domain::{
    event::Event,
    event_block::{EventBlock, EventSlice},
    usage::{Usage, UsagePoint},
};

/// Largest number of events in a block; longer batches are divided.
pub const BLOCK: usize = 8_192;
/// Batches below this are gathered, and this is how large such a block may grow.
const GATHER: usize = 512;
/// Points that are kept: without events, with which they would go, nothing else bounds them.
const POINTS: usize = 10_000;

/// See the module.
pub struct Ring {
    /// In order and without holes, none of them empty.
    blocks: VecDeque<Arc<EventBlock>>,
    /// Id of the next event.
    next: u64,
    /// Lowest id that is shown.
    lowest: u64,
    capacity: u64,
    /// What was used before `lowest`, where that is kept.
    before: Option<Usage>,
    /// Points of usage from `lowest` on, in the order of their ids.
    points: VecDeque<Arc<UsagePoint>>,
}

impl Ring {
    /// An empty ring whose first event gets the id `next`.
    pub fn new(next: u64, capacity: u64) -> Ring {
        Ring { blocks: VecDeque::new(), next, lowest: next, capacity, before: None, points: VecDeque::new() }
    }

    /// The ring remembers what is used from now on.
    pub fn keep_usage(&mut self) {
        self.before = Some(Usage::default());
    }

    /// What was used before [`Ring::lowest`].
    pub fn usage_before(&mut self) -> Option<&mut Usage> {
        self.before.as_mut()
    }

    /// Remembers a point before the next event, where usage is kept. Of more than [`POINTS`] the oldest goes, with the events before
    /// it.
    pub fn point(&mut self, point: UsagePoint) {
        if self.before.is_some() {
            self.points.push_back(Arc::new(UsagePoint { id: self.next, ..point }));
            if self.points.len() > POINTS {
                self.pass_point();
            }
        }
    }

    /// The points from [`Ring::lowest`] on.
    pub fn points(&self) -> impl Iterator<Item = &Arc<UsagePoint>> {
        self.points.iter()
    }

    /// Id of the next event.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// Lowest id that is shown; [`Ring::next`] where there is none.
    pub fn lowest(&self) -> u64 {
        self.lowest
    }

    /// Numbers and keeps events, and forgets the oldest beyond the capacity. Returns the events with their ids, all of
    /// them, also where there are more than the capacity.
    pub fn push(&mut self, events: Vec<Event>) -> Vec<EventSlice> {
        let mut added = Vec::with_capacity(1);
        if events.len() > BLOCK {
            // Each moves once: what a block is split off from would be moved again with every block, and a node that goes with a
            // million allocations makes millions.
            let mut rest = events.into_iter();
            while rest.len() > 0 {
                let block = rest.by_ref().take(BLOCK).collect();
                added.extend(self.add(block));
            }
        } else {
            added.extend(self.add(events));
        }
        self.trim();
        added
    }

    fn add(&mut self, mut events: Vec<Event>) -> Option<EventSlice> {
        let first = self.next;
        self.next += events.len() as u64;
        if events.len() < GATHER {
            // A block that a reader or the store holds is left as it is.
            if let Some(last) = self.blocks.back_mut()
                && let Some(block) = Arc::get_mut(last)
                && block.events.len() + events.len() <= GATHER
            {
                block.events.append(&mut events);
                return EventSlice::of(last, first, self.next);
            }
            events.shrink_to_fit();
        }
        let block = Arc::new(EventBlock { first, events });
        let added = EventSlice::of(&block, first, self.next)?;
        self.blocks.push_back(block);
        Some(added)
    }

    /// Changes the capacity: the newest events that fit stay, with their ids (EVT-072).
    pub fn resize(&mut self, capacity: u64) {
        self.capacity = capacity;
        self.trim();
    }

    fn trim(&mut self) {
        let lowest = self.lowest.max(self.next.saturating_sub(self.capacity));
        while self.points.front().is_some_and(|point| point.id < lowest) {
            self.pass_point();
        }
        self.forget(lowest);
    }

    /// The oldest point, and the events before it, are of before.
    fn pass_point(&mut self) {
        let Some(point) = self.points.pop_front() else { return };
        self.forget(point.id);
        if let Some(usage) = &mut self.before {
            usage.pass(&point);
        }
    }

    /// Shows no event below this id any more.
    fn forget(&mut self, lowest: u64) {
        if let Some(usage) = &mut self.before {
            let gone = self.blocks.iter().take_while(|block| block.first < lowest);
            let gone = gone.filter_map(|block| EventSlice::of(block, self.lowest, lowest));
            gone.for_each(|slice| slice.events().iter().for_each(|event| usage.apply(event)));
        }
        self.lowest = lowest;
        while self.blocks.front().is_some_and(|block| block.end() <= lowest) {
            self.blocks.pop_front();
        }
    }

    /// Up to `count` consecutive events from id `from` on; nothing where `from` is not shown (EVT-071).
    pub fn range(&self, from: u64, count: u64) -> Vec<EventSlice> {
        if from < self.lowest {
            return Vec::new();
        }
        let to = from.saturating_add(count);
        let at = self.blocks.partition_point(|block| block.end() <= from);
        self.blocks.range(at..).map_while(|block| EventSlice::of(block, from, to)).collect()
    }

    /// The newest `count` events, oldest first, or all that are shown (EVT-081).
    pub fn newest(&self, count: u64) -> Vec<EventSlice> {
        self.range(self.lowest.max(self.next.saturating_sub(count)), count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        actors::event::{
            testing::{event, ids, numbers},
            usage::begin,
        },
        domain::{resources::Resource, types::Nanos, ugm::Who, usage::UsageKey},
    };

    fn ring(capacity: u64, batches: &[usize]) -> Ring {
        let mut ring = Ring::new(0, capacity);
        for count in batches {
            let first = ring.next();
            ring.push((first..first + *count as u64).map(event).collect());
        }
        ring
    }

    fn held(ring: &Ring, from: u64, count: u64) -> Vec<u64> {
        let slices = ring.range(from, count);
        // The events are made from their ids, so both must agree.
        assert_eq!(ids(&slices), numbers(&slices));
        ids(&slices)
    }

    // EVT-070, EVT-071
    #[test]
    fn an_empty_ring_has_nothing() {
        let ring = Ring::new(0, 10);
        assert_eq!((ring.lowest(), ring.next()), (0, 0));
        assert!(ring.range(0, 10).is_empty());
        assert!(ring.newest(10).is_empty());
    }

    // EVT-071, EVT-071a, scenarios 135 and 153 of the test list
    #[test]
    fn a_range_is_exactly_the_consecutive_records() {
        for batches in [&[15][..], &[1; 15], &[4, 4, 4, 3], &[0, 14, 0, 1]] {
            let ring = ring(10, batches);
            assert_eq!((ring.lowest(), ring.next()), (5, 15), "{batches:?}");
            for from in 0..17 {
                for count in 0..13 {
                    let expected: Vec<u64> =
                        if (5..15).contains(&from) { (from..15.min(from + count)).collect() } else { Vec::new() };
                    assert_eq!(held(&ring, from, count), expected, "{batches:?} from {from} count {count}");
                }
            }
            assert_eq!(held(&ring, 5, u64::MAX), (5..15).collect::<Vec<_>>());
            assert!(ring.range(u64::MAX, u64::MAX).is_empty());
        }
    }

    // EVT-072, scenario 136 of the test list
    #[test]
    fn resizing_keeps_the_newest_with_their_ids() {
        let mut ring = ring(10, &[7, 8]);
        ring.resize(6);
        assert_eq!(held(&ring, 9, 100), (9..15).collect::<Vec<_>>());
        assert!(ring.range(8, 1).is_empty());
        ring.push((15..17).map(event).collect());
        ring.resize(2);
        assert_eq!(held(&ring, 15, 100), [15, 16]);
        ring.resize(20);
        assert_eq!((ring.lowest(), ring.next()), (15, 17), "growing brings nothing back");
        ring.push((17..40).map(event).collect());
        assert_eq!(held(&ring, 20, 100), (20..40).collect::<Vec<_>>());
        assert_eq!(ring.lowest(), 20);
    }

    // EVT-081
    #[test]
    fn the_newest_are_all_there_are_at_most() {
        let ring = ring(10, &[25]);
        assert_eq!(ids(&ring.newest(11)), (15..25).collect::<Vec<_>>());
        assert_eq!(ids(&ring.newest(10)), (15..25).collect::<Vec<_>>());
        assert_eq!(ids(&ring.newest(3)), [22, 23, 24]);
        assert!(ring.newest(0).is_empty());
        assert_eq!(ids(&ring.newest(u64::MAX)).len(), 10);
    }

    #[test]
    fn small_batches_share_blocks_and_large_ones_are_divided() {
        let small = ring(100_000, &[1; 2_000]);
        assert_eq!(small.blocks.len(), 2_000usize.div_ceil(GATHER));
        let large = ring(100_000, &[3 * BLOCK + 1]);
        assert_eq!(large.blocks.len(), 4);
        assert_eq!(ids(&large.range(0, u64::MAX)).len(), 3 * BLOCK + 1);
    }

    #[test]
    fn points_without_events_are_bounded() {
        let mut ring = ring(100, &[3]);
        ring.keep_usage();
        let key = |n: usize| UsageKey {
            partition: "[rm-1]default".into(),
            who: Who::User,
            name: format!("u{n}").into(),
            queue: "root.a".into(),
        };
        let size = Resource::of(&[("memory", 5)]);
        for n in 0..POINTS + 2 {
            ring.point(begin(vec![(key(n), size.clone())], Nanos(1)));
        }
        let first = ring.points().next().map(|point| point.rows.clone());
        assert_eq!((ring.points().count(), first), (POINTS, Some(vec![(key(2), size.clone())])));
        // What went is still counted, and so would be the events before it.
        assert_eq!(ring.usage_before().unwrap().rows(), [(key(0), size.clone()), (key(1), size)]);
        assert_eq!((ring.lowest(), ring.next()), (3, 3));
        ring.push((3..5).map(event).collect());
        assert_eq!(held(&ring, 3, 10), [3, 4]);
        ring.resize(1);
        assert_eq!((ring.points().count(), held(&ring, 4, 10)), (0, vec![4]));
        assert_eq!(ring.usage_before().unwrap().rows().len(), POINTS + 2);
    }

    #[test]
    fn a_block_that_is_read_does_not_change() {
        let mut ring = ring(100, &[3]);
        let read = ring.newest(3);
        ring.push((3..5).map(event).collect());
        assert_eq!(ids(&read), [0, 1, 2]);
        assert_eq!(ids(&ring.newest(10)), [0, 1, 2, 3, 4]);
    }
}
