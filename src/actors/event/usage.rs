//! Usage over time: what the events of the log do not tell is kept as points.

use std::sync::Arc;

use actix::prelude::*;

use super::{EventActor, durable::UsageSource, log::from_disk, now, ring::Ring};
use crate::{
    domain::{
        event::Event,
        event_block::{EventGap, EventPiece, EventSlice, GapReason},
        resources::Resource,
        types::Nanos,
        usage::{PointReason, Usage, UsageKey, UsagePiece, UsagePoint},
    },
    messages::event::{ReadError, ReadUsage, Stands, UsagePage},
};

/// Changes of usage without events.
pub struct UsageGaps {
    /// Events are off since then, and usage has changed by so much.
    off: Option<(Nanos, Usage)>,
    /// Events of logs are counted.
    counts: bool,
}

impl UsageGaps {
    /// No gap so far.
    pub fn new(tracking: bool, now: Nanos) -> UsageGaps {
        UsageGaps { off: (!tracking).then(|| (now, Usage::default())), counts: false }
    }

    /// Events that are not recorded.
    pub fn pass(&mut self, events: &[Event]) {
        if let Some((_, usage)) = &mut self.off {
            events.iter().for_each(|event| usage.apply(event));
        }
    }

    /// Events are turned on or off. Gives the point for a time without them.
    pub fn switch(&mut self, on: bool, now: Nanos) -> Option<UsagePoint> {
        let point = self.open(0, now);
        self.off = (!on).then(|| (now, Usage::counting(self.counts)));
        point
    }

    /// The time without events that lasts.
    fn open(&self, id: u64, now: Nanos) -> Option<UsagePoint> {
        let (from, usage) = self.off.as_ref()?;
        let rows = usage.rows();
        Some(UsagePoint { id, reason: PointReason::Off, from: *from, to: now, rows, relative: true })
    }

    /// A page of the ring.
    fn read(&self, ring: &mut Ring, from: Option<u64>, events: usize) -> (Vec<UsagePiece>, bool) {
        let lowest = ring.lowest();
        let mut pieces = Vec::new();
        if from.is_none_or(|from| from < lowest) {
            if let Some(from) = from {
                let gap = EventGap { from, end: lowest, reason: GapReason::Retention };
                pieces.push(UsagePiece::Log(EventPiece::Gap(gap)));
            }
            let rows = ring.usage_before().map(|usage| usage.rows()).unwrap_or_default();
            let at = ring.range(lowest, 1).first().and_then(|slice| Some(slice.events().first()?.at)).unwrap_or(now());
            let (reason, relative) = (PointReason::Begin, false);
            pieces.push(UsagePiece::Point(Arc::new(UsagePoint {
                id: lowest,
                reason,
                from: at,
                to: at,
                rows,
                relative,
            })));
        }
        let from = from.unwrap_or(lowest).max(lowest);
        let slices = ring.range(from, events as u64);
        let end = slices.last().map_or(from, EventSlice::end);
        let mut points = ring.points().filter(|point| (from..=end).contains(&point.id)).peekable();
        for slice in slices {
            let mut first = slice.first();
            // A block may have been filled on both sides of a point.
            while let Some(point) = points.next_if(|point| point.id < slice.end()) {
                let before = slice.part(first, (point.id - first) as usize);
                pieces.extend(before.map(|part| UsagePiece::Log(EventPiece::Events(part))));
                pieces.push(UsagePiece::Point(point.clone()));
                first = point.id;
            }
            pieces.extend(slice.part(first, usize::MAX).map(|part| UsagePiece::Log(EventPiece::Events(part))));
        }
        pieces.extend(points.cloned().map(UsagePiece::Point));
        (pieces, end == ring.next())
    }
}

/// A point with what something uses that was there before this process.
pub fn begin(rows: Vec<(UsageKey, Resource)>, at: Nanos) -> UsagePoint {
    UsagePoint { id: 0, reason: PointReason::Begin, from: at, to: at, rows, relative: true }
}

impl EventActor {
    /// A partition goes on that was there before this process: what it uses is used from now on.
    pub(super) fn used(&mut self, rows: Vec<(UsageKey, Resource)>) {
        self.point(begin(rows, now()));
    }

    /// This is what the partitions of a resource manager use where its log has had so many events (see [`Stands`]), in an event
    /// system of logs.
    pub(super) fn stands(&mut self, Stands { rm, next, at, used }: Stands) {
        // What is here already tells of it.
        let is_behind = self.numbers.next(&rm).is_some_and(|known| known > next);
        if self.numbers.is_once() && !self.stopping && !is_behind {
            self.point_of_log(UsagePoint::of_log(&rm, Some(next), at, used));
        }
    }

    /// The log of a resource manager is gone.
    pub(super) fn gone(&mut self, rm: &str) {
        if self.numbers.is_once() && self.numbers.next(rm).is_some() {
            self.point_of_log(UsagePoint::of_log(rm, None, now(), Vec::new()));
        }
    }

    fn point_of_log(&mut self, point: UsagePoint) {
        self.gaps.counts = true;
        if let Some(point) = self.gaps.switch(self.settings.tracking, now()) {
            self.point(point);
        }
        self.point(point);
    }

    /// Remembers a point behind the last event.
    pub(super) fn point(&mut self, point: UsagePoint) {
        match &mut self.durable {
            Some(durable) => durable.point(point),
            None => self.ring.point(point),
        }
    }
}

impl Handler<ReadUsage> for EventActor {
    type Result = ResponseFuture<Result<UsagePage, ReadError>>;

    fn handle(&mut self, msg: ReadUsage, ctx: &mut Self::Context) -> Self::Result {
        self.take_in(ctx);
        let source = match &mut self.durable {
            Some(durable) => durable.read_usage(msg.from, msg.since, msg.events),
            None => {
                let (pieces, last) = self.gaps.read(&mut self.ring, msg.from, msg.events);
                UsageSource::Here(pieces, last)
            }
        };
        match source {
            UsageSource::Here(mut pieces, last) => {
                if last && let Some(point) = self.gaps.open(self.ring.next(), now()) {
                    pieces.push(UsagePiece::Point(Arc::new(point)));
                }
                Box::pin(std::future::ready(Ok(UsagePage { pieces, last })))
            }
            UsageSource::Disk(read) => {
                Box::pin(async move { Ok(UsagePage { pieces: from_disk(read).await?, last: false }) })
            }
        }
    }
}
