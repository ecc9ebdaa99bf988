//! Credits of one resource manager, counted in items: how much may be on its way in and out.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, Ordering::SeqCst},
};

use tokio::sync::Notify;

use super::{
    keys::Keyed,
    receipts::{PartsOf, Receipt, Refused},
};
use crate::trace::{Point, Span};

/// What callbacks and events take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Size {
    /// Number of entries: allocations, releases, answers and the like.
    pub entries: usize,
    /// Bytes, as estimated.
    pub bytes: usize,
}

/// Placements that had to wait go on once one part in so many of what may be undelivered is free again.
const FREE_AGAIN: i64 = 16;

/// Credits of one session of a resource manager, shared by its doors, its actor and its partitions.
#[derive(Debug)]
pub struct Budget {
    /// See [`Budget::whole`].
    whole: [i64; 2],
    inward: AtomicI64,
    outward: AtomicI64,
    /// The weight of all that may be undelivered. A weight is bytes plus `part` for each entry: one sum bounds both.
    most: i64,
    part: i64,
    /// The weight of what is undelivered.
    load: AtomicI64,
    /// How much of `load` is in the buffer.
    held: AtomicI64,
    /// The weight of the callbacks that requests which are not applied yet will make at once.
    ahead: AtomicI64,
    paused: AtomicBool,
    full: AtomicBool,
    handed: AtomicU64,
    room: Notify,
}

impl Budget {
    /// `inward` items of requests may be in flight, `outward` callbacks undelivered.
    pub fn new(inward: i64, outward: i64) -> Arc<Budget> {
        Budget::within(inward, outward, Size { entries: usize::MAX, bytes: usize::MAX })
    }

    /// The same, of a session whose buffer has bounds.
    pub fn within(inward: i64, outward: i64, bounds: Size) -> Arc<Budget> {
        let most = signed(bounds.bytes);
        Arc::new(Budget {
            whole: [inward, outward],
            inward: inward.into(),
            outward: outward.into(),
            most,
            part: most / signed(bounds.entries).max(1),
            load: 0.into(),
            held: 0.into(),
            ahead: 0.into(),
            paused: false.into(),
            full: false.into(),
            handed: u64::MAX.into(),
            room: Notify::new(),
        })
    }

    /// How many items of requests may be in flight, and how many callbacks undelivered.
    pub fn whole(&self) -> [i64; 2] {
        self.whole
    }

    /// Items of requests that were taken and are not applied yet.
    pub fn in_flight(&self) -> u64 {
        u64::try_from(self.whole[0] - self.inward.load(SeqCst)).unwrap_or(0)
    }

    /// Items that may be taken now.
    pub fn left(&self) -> u64 {
        u64::try_from(self.inward.load(SeqCst)).unwrap_or(0)
    }

    /// Callbacks that were made and not delivered yet.
    pub fn undelivered(&self) -> u64 {
        u64::try_from(self.whole[1] - self.outward.load(SeqCst)).unwrap_or(0)
    }

    /// Takes `items` for a request, as long as anything is left, so that no request is too large for ever.
    pub fn take(self: &Arc<Budget>, items: usize) -> Option<Permit> {
        let items = i64::try_from(items).unwrap_or(i64::MAX / 2);
        let taken = self.inward.fetch_update(SeqCst, SeqCst, |left| (left > 0).then_some(left - items));
        taken.is_ok().then(|| self.permit(items))
    }

    fn permit(self: &Arc<Budget>, items: i64) -> Permit {
        Permit(Arc::new(Taken {
            budget: self.clone(),
            items,
            ahead: 0,
            receipt: None,
            parts: AtomicU32::new(0),
            span: None,
        }))
    }

    /// A permit for a request without items, for its receipt.
    pub fn nothing(self: &Arc<Budget>) -> Permit {
        self.permit(0)
    }

    /// As [`Budget::take`], waiting until something is left: how a stream is not read while the budget is spent.
    pub async fn taken(self: &Arc<Budget>, items: usize) -> Permit {
        loop {
            let room = self.room.notified();
            tokio::pin!(room);
            // Registered before looking, so that credits given back in between are not missed.
            room.as_mut().enable();
            if let Some(permit) = self.take(items) {
                return permit;
            }
            room.await;
        }
    }

    /// The weight of this.
    pub fn weigh(&self, size: Size) -> i64 {
        signed(size.entries).saturating_mul(self.part).saturating_add(signed(size.bytes))
    }

    /// `callbacks` were made, and are not delivered yet: `PartitionActor` counts the items of a `Deliver` before it sends it, and
    /// their weight until they are in the buffer.
    pub fn made(&self, callbacks: usize, weight: i64) {
        self.outward.fetch_sub(callbacks as i64, SeqCst);
        self.load.fetch_add(weight, SeqCst);
    }

    /// The buffer holds `waiting` now, with what was counted as `arrived` when it was made. True: see [`Budget::delivered`].
    #[must_use]
    pub fn holds(&self, waiting: Size, arrived: i64) -> bool {
        let now = self.weigh(waiting);
        let more = now - self.held.swap(now, SeqCst) - arrived;
        let (some, before) = (self.half() - self.half() / FREE_AGAIN, self.load.fetch_add(more, SeqCst));
        before >= some && before + more < some
    }

    fn half(&self) -> i64 {
        self.most / 2
    }

    /// `callbacks` were delivered or dropped. True: placements had to wait for that, and are to be woken.
    #[must_use]
    pub fn delivered(&self, callbacks: usize) -> bool {
        // Only the call that crosses the mark says so: placements are woken once. Not at the first free credit, or lines
        // would become as short as what made room for them.
        let (some, before) = (self.whole[1] / FREE_AGAIN, self.outward.fetch_add(callbacks as i64, SeqCst));
        before <= some && before + callbacks as i64 > some
    }

    /// How much is undelivered.
    pub fn pressure(&self) -> Pressure {
        let (left, load) = (self.outward.load(SeqCst), self.load.load(SeqCst));
        if left <= 0 || load >= self.half() {
            Pressure::Spent
        } else if left <= self.whole[1] / 2 || load >= self.half() / 2 {
            Pressure::High
        } else {
            Pressure::Low
        }
    }

    /// With the callbacks of this size a quarter of what may be undelivered stays free, for those that cannot wait. A request too
    /// large for that is taken when nothing is undelivered; any is while the session is paused, since nobody could make room.
    pub fn leaves_room(&self, size: Size) -> bool {
        let mark = self.most / 4 * 3;
        let taken = self.load.load(SeqCst).saturating_add(self.ahead.load(SeqCst));
        self.paused.load(SeqCst) || taken <= mark - self.weigh(size).min(mark)
    }

    /// Every line with releases up to this one was handed to a connection of the shim.
    pub fn handed(&self) -> u64 {
        self.handed.load(SeqCst)
    }

    /// See [`Budget::handed`]; until it is first said, all were.
    pub fn set_handed(&self, line: u64) {
        self.handed.store(line, SeqCst);
    }

    /// Pauses or resumes new placements.
    pub fn pause(&self, paused: bool) {
        self.paused.store(paused, SeqCst);
    }

    /// The log of the session has no room for new placements, or has again. True where that changed.
    pub fn fill(&self, full: bool) -> bool {
        self.full.swap(full, SeqCst) != full
    }

    /// New placements may be made: the session is not paused, its log has room, and the shim keeps up.
    pub fn may_place(&self) -> bool {
        !self.paused.load(SeqCst)
            && !self.full.load(SeqCst)
            && self.outward.load(SeqCst) > 0
            && self.load.load(SeqCst) < self.half()
    }
}

fn signed(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// See [`Budget::pressure`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pressure {
    /// Less than half of what may be.
    Low,
    /// Half or more.
    High,
    /// As much as may be: placements wait.
    Spent,
}

/// One request in flight. Each part of it carries a clone, dropped when that part was applied: with the last clone its credits
/// come back, and its receipt is dropped. A log keeps a clone until the record counts, so that nothing is acknowledged before.
#[derive(Clone, Debug)]
pub struct Permit(Arc<Taken>);

#[derive(Debug)]
struct Taken {
    budget: Arc<Budget>,
    items: i64,
    /// The weight of the callbacks that it makes at once.
    ahead: i64,
    receipt: Option<Receipt>,
    /// Parts of the request that are on their way; 0: not known.
    parts: AtomicU32,
    /// Its part of a trace, which ends with it.
    span: Option<Span>,
}

impl Permit {
    /// Its sender learns that it was applied.
    ///
    /// Before it is cloned: a part that is on its way already would not count.
    #[must_use]
    pub fn with(mut self, receipt: Receipt) -> Permit {
        if let Some(taken) = Arc::get_mut(&mut self.0) {
            taken.receipt = Some(receipt);
        }
        self
    }

    /// Keeps room for the callbacks that the request makes at once, until it is applied. Before the permit is cloned, as well.
    #[must_use]
    pub fn leading_to(mut self, size: Size) -> Permit {
        if let Some(taken) = Arc::get_mut(&mut self.0) {
            taken.ahead = taken.budget.weigh(size);
            taken.budget.ahead.fetch_add(taken.ahead, SeqCst);
        }
        self
    }

    /// The request was refused before any part of it was on its way: it was not taken.
    pub fn give_back(mut self) {
        let receipt = Arc::get_mut(&mut self.0).and_then(|taken| taken.receipt.take());
        receipt.into_iter().for_each(Receipt::give_back);
    }

    /// The request is traced. Before it is cloned, as well.
    #[must_use]
    pub fn traced(mut self, span: Option<Span>) -> Permit {
        if let Some(taken) = Arc::get_mut(&mut self.0) {
            taken.span = span;
        }
        self
    }

    /// The place for spans of what the request leads to, where it is traced.
    pub fn point(&self) -> Option<Point> {
        self.0.span.as_ref().map(Span::point)
    }

    /// The request is handed in as so many parts.
    pub fn in_parts(&self, parts: usize) {
        self.0.parts.store(u32::try_from(parts).unwrap_or(u32::MAX), SeqCst);
    }

    /// The number of the request in its session, where it has one, and of how many parts it is.
    pub fn request(&self) -> Option<(u64, u32)> {
        match &self.0.receipt {
            Some(Receipt::Numbered { number, .. }) => Some((*number, self.parts())),
            _ => None,
        }
    }

    /// Whose parts of it were recorded before the server was started again: they are not handed in once more.
    pub fn recorded(&self) -> PartsOf {
        match &self.0.receipt {
            Some(Receipt::Numbered { receipts, number }) => receipts.recorded(*number),
            Some(Receipt::Keyed(taken, _)) => taken.recorded(),
            _ => PartsOf::new(),
        }
    }

    /// Why it was refused, where it is a numbered configuration that was.
    pub fn refused(&self) -> Option<Refused> {
        match &self.0.receipt {
            Some(Receipt::Numbered { receipts, number }) => receipts.refused(number - 1, *number).pop(),
            _ => None,
        }
    }

    /// As [`Permit::request`], of its key.
    pub fn keyed(&self) -> Option<Keyed> {
        match &self.0.receipt {
            Some(Receipt::Keyed(taken, _)) => Some(taken.keyed(self.parts())),
            _ => None,
        }
    }

    /// It has a number or a key: that it was taken is recorded.
    pub fn is_taken_once(&self) -> bool {
        matches!(&self.0.receipt, Some(Receipt::Numbered { .. } | Receipt::Keyed(..)))
    }

    fn parts(&self) -> u32 {
        self.0.parts.load(SeqCst).max(1)
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.budget.ahead.fetch_sub(self.ahead, SeqCst);
        let before = self.budget.inward.fetch_add(self.items, SeqCst);
        if before <= 0 && before + self.items > 0 {
            self.budget.room.notify_waiters();
        }
        // After the credits: whoever is told finds them there.
        drop(self.receipt.take());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::messages::receipts::Receipts;

    #[test]
    fn a_request_is_taken_whole_as_long_as_anything_is_left() {
        let budget = Budget::new(10, 1);
        let large = budget.take(1_000).expect("something is left");
        assert!(budget.take(1).is_none());
        assert_eq!(budget.in_flight(), 1_000);
        drop(large);
        assert_eq!(budget.in_flight(), 0);
        assert!(budget.take(1).is_some());
    }

    #[test]
    fn credits_and_receipt_come_back_with_the_last_part() {
        let (budget, receipts) = (Budget::new(10, 1), Receipts::after(0, Default::default()));
        let permit = budget.take(4).expect("credits").with(receipts.take(1, 4));
        let part = permit.clone();
        drop(permit);
        assert_eq!((budget.left(), receipts.applied()), (6, 0));
        drop(part);
        assert_eq!((budget.left(), receipts.applied()), (10, 1));
    }

    #[test]
    fn placements_stop_while_callbacks_are_undelivered_or_the_session_is_paused() {
        let budget = Budget::new(1, 2);
        assert!(budget.may_place());
        budget.made(2, 0);
        assert!(!budget.may_place());
        assert_eq!(budget.undelivered(), 2);
        assert_eq!(budget.pressure(), Pressure::Spent);
        assert!(budget.delivered(1), "placements are to be woken");
        assert_eq!(budget.pressure(), Pressure::High);
        assert!(budget.may_place() && !budget.delivered(1), "once");
        assert_eq!(budget.pressure(), Pressure::Low);
        budget.pause(true);
        assert!(!budget.may_place());
    }

    #[test]
    fn placements_stop_while_half_of_what_the_buffer_may_hold_is_undelivered() {
        let size = |entries, bytes| Size { entries, bytes };
        for half in [size(50, 0), size(0, 500), size(30, 200)] {
            let budget = Budget::within(1, 1_000, size(100, 1_000));
            let weight = budget.weigh(half);
            budget.made(0, weight - 1);
            assert!(budget.may_place() && budget.pressure() == Pressure::High, "{half:?}");
            budget.made(0, 1);
            assert!(!budget.may_place() && budget.pressure() == Pressure::Spent);
            assert!(!budget.holds(half, weight), "as much, in another place");
            assert!(!budget.may_place());
            assert!(budget.holds(size(0, 0), 0), "placements are to be woken");
            assert!(budget.may_place() && !budget.holds(size(0, 0), 0), "once");
        }
    }

    #[test]
    fn what_can_wait_leaves_room_for_what_cannot() {
        // R1.23
        let size = |entries| Size { entries, bytes: 0 };
        let budget = Budget::within(1, 1_000, Size { entries: 100, bytes: 1_000 });
        assert!(budget.leaves_room(size(1_000)), "as long as nothing is undelivered");
        let _ = budget.holds(size(75), 0);
        assert!(budget.leaves_room(size(0)) && !budget.leaves_room(size(1)));
        let _ = budget.holds(size(70), 0);
        let permit = budget.nothing().leading_to(size(5));
        assert!(!budget.leaves_room(size(1)), "what is on its way takes its room");
        drop(permit);
        assert!(budget.leaves_room(size(5)) && !budget.leaves_room(size(6)));
        let _ = budget.holds(size(76), 0);
        assert!(!budget.leaves_room(size(0)));
        budget.pause(true);
        assert!(budget.leaves_room(size(1_000)));
    }

    #[tokio::test]
    async fn a_waiter_gets_on_when_credits_come_back() {
        let budget = Budget::new(1, 1);
        let permit = budget.take(1);
        let waiting = tokio::spawn({
            let budget = budget.clone();
            async move { budget.taken(1).await }
        });
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        drop(permit);
        assert_eq!(waiting.await.expect("no panic").0.items, 1);
    }
}
