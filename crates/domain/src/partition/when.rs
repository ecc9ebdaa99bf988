//! When asks that wait will be placed: clones are run forward, in which allocations end as those of their kind did before. Each run draws
//! other lengths, always the same ones for the same run; from the runs comes a range.

use std::sync::Arc;

use super::{
    Partition, Waiting, Why,
    forward::{AskName, Bounds, Forward},
};
use crate::{
    alloc::Alloc,
    app::App,
    lasted::{self, About, Lasted},
    types::{AllocIx, AppIx, Nanos},
};

/// Runs of an estimate at most, and at least.
const RUNS: usize = 20;
const LEAST: usize = 5;

/// An estimate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct When {
    /// Half of the runs place it within this time; `None`: not within the time that was looked at.
    pub p50: Option<Nanos>,
    /// And nine of ten.
    pub p90: Option<Nanos>,
    /// Why there is none.
    pub unknown: Option<Unknown>,
    /// Runs.
    pub runs: usize,
    /// Allocations that run now.
    pub running: usize,
    /// Those of which is known how long such ones last.
    pub known: usize,
    /// Allocations that ended and are remembered.
    pub ended: u64,
}

/// Why there is no estimate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unknown {
    /// It is placed only if somebody does something: nothing that ends makes room for it.
    Never,
    /// Too little is known of how long what runs lasts.
    TooLittle,
    /// There was not enough time to find out.
    NoTime,
}

/// How long others of its kind lasted, for each allocation that runs or may come to run.
pub struct Lengths<'a> {
    by_row: Vec<Option<&'a [i64]>>,
    /// Allocations that run.
    pub running: usize,
    /// Those of which it is known.
    pub known: usize,
}

impl Lengths<'_> {
    /// It is known of half of what runs at least.
    pub fn suffice(&self) -> bool {
        self.known > 0 && self.known * 2 >= self.running
    }

    /// For how long an allocation that has lasted so long goes on, as one run draws it; `None`: that is not known.
    pub fn rest(&self, partition: &Partition, ix: AllocIx, age: Nanos, run: u64) -> Option<Nanos> {
        let sorted = self.by_row.get(ix.ix()).copied().flatten()?;
        let row = partition.allocs.get(ix.ix())?;
        Some(lasted::rest(sorted, age, share(row.seq, run)))
    }
}

impl Partition {
    /// How long what runs and what waits may last.
    pub fn lengths<'a>(&self, lasted: &'a Lasted) -> Lengths<'a> {
        let of = |row: &Alloc| {
            let app = self.apps.get(row.app.ix()).filter(|_| !row.free && row.spec.foreign.is_none())?;
            lasted.of(&lasted::kinds(&About::from(app), &row.resource))
        };
        let mut lengths = Lengths { by_row: self.allocs.iter().map(of).collect(), running: 0, known: 0 };
        for (row, sorted) in self.allocs.iter().zip(&lengths.by_row) {
            if !row.free && row.is_allocated() && !row.is_placeholder() && row.spec.foreign.is_none() {
                lengths.running += 1;
                lengths.known += usize::from(sorted.is_some());
            }
        }
        lengths
    }

    /// What is known of an application, live or ended.
    pub fn about(&self, id: &str) -> Option<About<'_>> {
        let live = self.app_by_id.get(id).and_then(|ix| self.apps.get(ix.ix()));
        let of = |app| About::from(app);
        live.map(of).or_else(|| {
            let (first, last) = ((Arc::from(id), Nanos(i64::MIN)), (Arc::from(id), Nanos(i64::MAX)));
            self.terminated.range(first..=last).next_back().map(|(_, app)| About::from(&**app))
        })
    }

    /// The asks that have to be placed for this one, by their names: of a gang all placeholders that wait.
    pub fn awaited(&self, app: AppIx, waiting: &Waiting) -> Vec<AskName> {
        let row = &self.apps[app.ix()];
        let name = |ask: AllocIx| (row.id.clone(), self.allocs[ask.ix()].spec.key.clone());
        self.awaited_with(app, waiting).into_iter().map(name).collect()
    }

    /// When the first of these asks of an application will be placed, of a gang all that wait. `now` is the time; as far as
    /// `horizon` is looked ahead.
    pub fn when(
        &self,
        app: AppIx,
        waiting: &Waiting,
        lasted: &Lasted,
        now: Nanos,
        horizon: Nanos,
        bounds: Bounds<'_>,
    ) -> When {
        let mut when = When { ended: lasted.ended(), ..When::default() };
        if matches!(waiting.why, Why::Stopped | Why::Ending(_) | Why::NotALeaf | Why::NoNodes) {
            when.unknown = Some(Unknown::Never);
            return when;
        }
        let lengths = self.lengths(lasted);
        (when.running, when.known) = (lengths.running, lengths.known);
        let asks = self.awaited(app, waiting);
        let mut waits: Vec<Option<Nanos>> = Vec::new();
        for run in 0..RUNS {
            let lasts = |partition: &Partition, ix: AllocIx, age: Nanos| lengths.rest(partition, ix, age, run as u64);
            let mut forward = Forward::new(self, now, &asks, bounds).ending(Some(&lasts));
            let placed = forward.pass(now.plus(horizon));
            if forward.cut {
                break;
            }
            waits.push(placed.then(|| forward.now.minus(now)));
            // What is placed without anything that ends needs no further runs.
            if run == 0 && placed && forward.now == now {
                break;
            }
        }
        when.runs = waits.len();
        waits.sort_by_key(|wait| wait.unwrap_or(Nanos(i64::MAX)));
        let at_once = waits.first() == Some(&Some(Nanos::ZERO));
        when.unknown = if at_once {
            None
        } else if !lengths.suffice() {
            Some(Unknown::TooLittle)
        } else if waits.len() < LEAST {
            Some(Unknown::NoTime)
        } else if waits.iter().all(Option::is_none) {
            Some(Unknown::Never)
        } else {
            None
        };
        if when.unknown.is_none() {
            when.p50 = quantile(&waits, 0.5);
            when.p90 = quantile(&waits, 0.9);
        }
        when
    }
}

impl<'a> From<&'a App> for About<'a> {
    fn from(app: &'a App) -> About<'a> {
        About { id: &app.id, queue: &app.queue_path, user: &app.user, tags: &app.tags }
    }
}

/// The smallest value that such a part of all does not exceed.
fn quantile(sorted: &[Option<Nanos>], share: f64) -> Option<Nanos> {
    let rank = (sorted.len() as f64 * share).ceil() as usize;
    sorted.get(rank.max(1) - 1).copied().flatten()
}

/// A number from 0 to 1 that looks drawn, the same for the same allocation and run.
fn share(seq: u64, run: u64) -> f64 {
    // SplitMix64.
    let mut mixed = seq.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(run.wrapping_mul(0xd1b5_4a32_d192_ed03));
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^= mixed >> 31;
    (mixed >> 11) as f64 / (1_u64 << 53) as f64
}
