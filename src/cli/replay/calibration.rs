//! How good estimates of waits are: some asks that wait are asked when they will be placed, and what was said is compared with what came.

use std::{collections::BTreeMap, fmt};

use serde::Serialize;

use super::{
    books::{AskState, Books},
    trace::{Millis, Trace},
};
use crate::domain::words::plural;
use crate::domain::{
    Partition,
    effect::Effect,
    lasted::Lasted,
    partition::{Explainer, forward::Bounds},
    types::Nanos,
};

/// How far ahead an estimate looks, as that of `explain` does.
const HORIZON: Nanos = Nanos::from_secs(86_400);
/// Decisions of a run at most; time does not count, so that the result is the same on every machine.
const DECISIONS: usize = 200_000;

/// What came of the estimates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Calibration {
    /// Asks that were asked.
    pub asked: usize,
    /// Those of which nothing was known, or nothing within a day.
    pub not_known: usize,
    /// Those that ended, or still waited at the end, without having been placed.
    pub cut_short: usize,
    /// The others, which were placed at some time.
    pub judged: usize,
    /// Those of them that were placed within the first half of it.
    pub within_p50: usize,
    /// Those that were placed within the range.
    pub within_p90: usize,
}

impl fmt::Display for Calibration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = |count: usize| if self.judged > 0 { 100.0 * count as f64 / self.judged as f64 } else { 0.0 };
        write!(
            f,
            "When they would be placed was asked of {}: {} not known, {} never placed; of the other {} {:.1} % were placed within p50, {:.1} % within p90",
            plural(self.asked, "ask"),
            self.not_known,
            self.cut_short,
            self.judged,
            percent(self.within_p50),
            percent(self.within_p90)
        )
    }
}

/// What was said of an ask.
struct Said {
    at: Millis,
    p50: Option<Nanos>,
    p90: Nanos,
}

/// See the module.
pub struct Estimates {
    lasted: Lasted,
    /// Between two asks that are asked.
    every: Millis,
    next: Millis,
    open: BTreeMap<usize, Said>,
    /// What came of it so far.
    pub result: Calibration,
}

impl Estimates {
    /// About so many over the whole trace.
    pub fn new(trace: &Trace, count: u32) -> Estimates {
        let steps = trace.steps();
        let ends = [steps.first(), steps.last()].map(|step| step.map_or(0, |step| step.at.0));
        let every = Millis((ends[1] - ends[0]) / i64::from(count.max(1)));
        Estimates {
            lasted: Lasted::default(),
            every,
            next: Millis(ends[0]),
            open: BTreeMap::new(),
            result: Calibration::default(),
        }
    }

    /// What a partition told.
    pub fn observe(&mut self, partition: &Partition, effects: &[Effect]) {
        for effect in effects {
            if let Effect::Event(event) = effect {
                self.lasted.apply(event, |app| partition.about(app));
            }
        }
    }

    /// Now and then one that waits is asked: one that began to do so just now, or else another.
    pub fn ask(&mut self, trace: &Trace, books: &Books<'_>, partition: &Partition, new: &[usize], clock: Millis) {
        if clock.0 < self.next.0 {
            return;
        }
        let may = |ask: &usize| !books.waits_for_gang(*ask) && !self.open.contains_key(ask);
        let others: Vec<usize> = books.waiting.iter().copied().filter(may).collect();
        let other = || others.get(self.result.asked.checked_rem(others.len())?).copied();
        let Some(ask) = new.iter().copied().find(may).or_else(other) else { return };
        self.next = Millis(clock.0 + self.every.0);
        let now = Nanos(clock.0.saturating_mul(1_000_000));
        let Some(app) = partition.app_by_id.get(trace.apps[trace.asks[ask].app].id.as_str()) else { return };
        let Some(waiting) = Explainer::brief(partition).ask(*app, &books.key(ask), now) else { return };
        let Some(first) = partition.by_key(*app, &books.key(ask)) else { return };
        let waiting = crate::domain::partition::Waiting { first, ..waiting };
        let never = || false;
        let bounds = Bounds { decisions: DECISIONS, stop: &never };
        let when = partition.when(*app, &waiting, &self.lasted, now, HORIZON, bounds);
        self.result.asked += 1;
        match when.p90 {
            Some(p90) => drop(self.open.insert(ask, Said { at: clock, p50: when.p50, p90 })),
            None => self.result.not_known += 1,
        }
    }

    /// Compares with what came meanwhile.
    pub fn judge(&mut self, books: &Books<'_>, clock: Millis) {
        let result = &mut self.result;
        self.open.retain(|ask, said| {
            let waited = Nanos((clock.0 - said.at.0).saturating_mul(1_000_000));
            match books.state(*ask) {
                AskState::Placed(_) => {
                    result.judged += 1;
                    result.within_p50 += usize::from(said.p50.is_some_and(|p50| waited <= p50));
                    result.within_p90 += usize::from(waited <= said.p90);
                }
                AskState::Done => result.cut_short += 1,
                AskState::Future | AskState::Waiting => return true,
            }
            false
        });
    }

    /// The trace is over.
    pub fn finish(&mut self) {
        self.result.cut_short += self.open.len();
        self.open.clear();
    }
}
