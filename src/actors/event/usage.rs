//! What tells usage over time: the log, and what happened while events were off.

use std::{collections::VecDeque, sync::Arc};

use actix::prelude::*;

use super::{EventActor, durable::UsageSource, now, ring::Ring};
use crate::{
    domain::{
        event::Event,
        event_block::{EventGap, EventPiece, EventSlice, GapReason},
        resources::Resource,
        types::Nanos,
        usage::{PointReason, Usage, UsageKey, UsagePiece, UsagePoint},
    },
    messages::event::{ReadError, ReadUsage, UsagePage},
};

/// Changes of usage without events.
pub struct UsageGaps {
    /// Events are off since then, and usage has changed by so much.
    off: Option<(Nanos, Usage)>,
    /// Where there is no store: earlier ones that are still among the events of the ring.
    past: VecDeque<Arc<UsagePoint>>,
}

impl UsageGaps {
    /// No gap so far.
    pub fn new(tracking: bool, now: Nanos) -> UsageGaps {
        UsageGaps { off: (!tracking).then(|| (now, Usage::default())), past: VecDeque::new() }
    }

    /// Events that are not recorded.
    pub fn pass(&mut self, events: &[Event]) {
        if let Some((_, usage)) = &mut self.off {
            events.iter().for_each(|event| usage.apply(event));
        }
    }

    /// Events are turned on or off; what to remember of the time without.
    pub fn switch(&mut self, on: bool, now: Nanos) -> Option<UsagePoint> {
        let point = self.open(0, now);
        self.off = (!on).then(|| (now, Usage::default()));
        point
    }

    /// The time without events that lasts.
    fn open(&self, id: u64, now: Nanos) -> Option<UsagePoint> {
        let (from, usage) = self.off.as_ref()?;
        let rows = usage.rows();
        Some(UsagePoint { id, reason: PointReason::Off, from: *from, to: now, rows, relative: true })
    }

    /// Remembers a point where there is no store that does.
    pub fn keep(&mut self, point: UsagePoint, id: u64) {
        self.past.push_back(Arc::new(UsagePoint { id, ..point }));
    }

    /// Points before the oldest event of the ring count as what was used before it.
    pub fn forget(&mut self, ring: &mut Ring) {
        while let Some(point) = self.past.front()
            && point.id < ring.lowest()
            && let Some(usage) = ring.usage_before()
        {
            usage.pass(point);
            self.past.pop_front();
        }
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
        let mut points = self.past.iter().filter(|point| (from..=end).contains(&point.id)).peekable();
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

/// What is used when something begins that was there before.
pub fn begin(rows: Vec<(UsageKey, Resource)>, at: Nanos) -> UsagePoint {
    UsagePoint { id: 0, reason: PointReason::Begin, from: at, to: at, rows, relative: true }
}

impl EventActor {
    /// A partition goes on that was there before this process: what it uses is used from now on.
    pub(super) fn used(&mut self, rows: Vec<(UsageKey, Resource)>) {
        let point = begin(rows, now());
        match &mut self.durable {
            Some(durable) => durable.point(point),
            None => self.gaps.keep(point, self.ring.next()),
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
            UsageSource::Disk(read) => Box::pin(async move {
                let failed = |text: String| ReadError::Failed(Arc::from(text));
                let pieces = tokio::task::spawn_blocking(read).await.map_err(|error| failed(error.to_string()))?;
                Ok(UsagePage { pieces: pieces.map_err(|error| failed(error.to_string()))?, last: false })
            }),
        }
    }
}
