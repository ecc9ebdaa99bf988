//! When asks that wait will be placed: clones are run forward, in which allocations end as those of their kind did before. Each run draws
//! other lengths, always the same ones for the same run; from the runs comes a range.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::{
    Partition, Unfit, Waiting, Why,
    forward::{AskName, Bounds, Forward},
    remedies::{Advice, Change},
};
use crate::{
    alloc::Alloc,
    app::App,
    lasted::{self, About, Kinds, Lasted},
    survival::Curve,
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
    /// Number of past runs that it rests on.
    pub runs: usize,
    /// Allocations that run now.
    pub running: usize,
    /// Those of which is known how long such ones last.
    pub known: usize,
    /// Those that have lasted longer than all of their kinds that ended: how long they go on is a guess from their age.
    pub outlasting: usize,
    /// Allocations that ended and are remembered.
    pub ended: u64,
    /// Asks of its kind that were placed after they had waited; 0 where they were not looked at.
    pub waited: usize,
    /// It is placed then whatever ends by itself, and so many allocations are preempted for it.
    pub preempts: Option<usize>,
}

impl When {
    /// The estimate, or where there is none, for how long it waits if nothing is changed, as the search for remedies saw it: a
    /// delay or a back-off is over then, or it has preempted others.
    pub fn or_waits(mut self, advice: &Advice) -> When {
        let Some(Unknown::Never | Unknown::TooLittle | Unknown::NoTime) = self.unknown else { return self };
        if let Some(wait) = advice.remedies.iter().find(|remedy| remedy.change == Change::Wait) {
            self.unknown = None;
            (self.p50, self.p90) = (Some(wait.after), Some(wait.after));
            self.preempts = Some(wait.preempts);
        }
        self
    }
}

/// Why there is no estimate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unknown {
    /// It is placed only if somebody does something: nothing that ends makes room for it.
    Never,
    /// The nodes that it may use are too small for it, even when they are empty.
    TooLarge,
    /// It is larger than a queue, its user or its group may use in all.
    AboveLimit,
    /// The resource manager has to confirm that others have ended, and they may take their time.
    ResourceManager,
    /// The resource manager refused it on every node that it may use.
    Refused,
    /// Too little is known of how long what runs lasts.
    TooLittle,
    /// There was not enough time to find out.
    NoTime,
}

/// How long others of its kind lasted, for each allocation that runs or may come to run.
pub struct Lengths {
    /// Which of the curves is that of an allocation.
    by_row: Vec<Option<usize>>,
    curves: Vec<Curve>,
    /// Allocations that run.
    pub running: usize,
    /// Those of which it is known.
    pub known: usize,
    /// And of these those that have lasted longer than all that ended of the kinds that they are of.
    pub outlasting: usize,
}

impl Lengths {
    /// It is known of half of what runs at least.
    pub fn suffice(&self) -> bool {
        self.known > 0 && self.known * 2 >= self.running
    }

    /// For how long an allocation that has lasted so long goes on, as one run draws it; `None`: that is not known.
    pub fn rest(&self, partition: &Partition, ix: AllocIx, age: Nanos, run: u64) -> Option<Nanos> {
        let curve = self.curves.get(self.by_row.get(ix.ix()).copied().flatten()?)?;
        let row = partition.allocs.get(ix)?;
        // Beyond all that ended it is not chance that is unknown but the kind: it is the same for all of them in a run, or the first of many
        // would always be taken to end soon.
        let drawn = if curve.longest() <= age.0 { spread(run) } else { share(row.seq, run) };
        Some(lasted::rest(curve, age, drawn))
    }
}

impl Waiting {
    /// More is wanted than the limit that holds it back allows in all: whatever ends, there is no room.
    pub fn is_above_limit(&self) -> bool {
        let max = match &self.why {
            // That of root are the nodes.
            Why::QueueQuota { queue, .. } if &**queue == "root" => return false,
            Why::QueueQuota { max, .. } | Why::GangRoom { max, .. } => max,
            Why::UserQuota(refusal) => match &refusal.limit.resources {
                Some(max) => max,
                None => return false,
            },
            _ => return false,
        };
        !max.fits_or_unlimited(&self.wanted)
    }
}

impl Partition {
    /// How long what runs and what waits may last.
    pub fn lengths(&self, lasted: &Lasted, now: Nanos) -> Lengths {
        let kinds: Vec<Option<Kinds>> = self.allocs.places().map(|row| self.kinds_of(row)).collect();
        let mut places: FxHashMap<u64, usize> = FxHashMap::default();
        let mut by_row = Vec::with_capacity(kinds.len());
        let age = |row: &Alloc| if row.is_allocated() { now.minus(row.bound) } else { Nanos::ZERO };
        for (row, kinds) in self.allocs.places().zip(&kinds) {
            let known = kinds.as_ref().and_then(|kinds| lasted.of(kinds, age(row)));
            let next = places.len();
            by_row.push(known.map(|(kind, _)| *places.entry(kind).or_insert(next)));
        }
        // Since when allocations of each of these kinds run.
        let mut since: Vec<Vec<Nanos>> = vec![Vec::new(); places.len()];
        let (mut running, mut known, mut outlasting) = (0, 0, 0);
        for ((row, of), kinds) in self.allocs.places().zip(&by_row).zip(&kinds) {
            let Some(kinds) = kinds.as_ref().filter(|_| row.is_allocated() && !row.is_placeholder()) else { continue };
            running += 1;
            known += usize::from(of.is_some());
            for place in kinds.iter().filter_map(|kind| places.get(kind)) {
                since[*place].push(row.bound);
            }
        }
        let mut curves = vec![Curve::default(); places.len()];
        for (kind, place) in &places {
            curves[*place] = lasted.lengths(*kind, &since[*place], now);
        }
        for (row, of) in
            self.allocs.places().zip(&by_row).filter(|(row, _)| row.is_allocated() && !row.is_placeholder())
        {
            outlasting += usize::from(of.is_some_and(|of| curves[of].longest() <= age(row).0));
        }
        Lengths { by_row, curves, running, known, outlasting }
    }

    fn kinds_of(&self, row: &Alloc) -> Option<Kinds> {
        let app = self.apps.get(row.app).filter(|_| !row.is_free() && row.spec.foreign.is_none())?;
        Some(lasted::kinds(&About::from(app), &row.resource))
    }

    /// How long asks of the kind of this one waited, how long it has, and how many of them were placed.
    fn waits(&self, ask: AllocIx, lasted: &Lasted, now: Nanos) -> Option<(Curve, Nanos, usize)> {
        let own = self.allocs.get(ask)?;
        let own_kinds = self.kinds_of(own)?;
        let (kind, placed) = lasted.waits_of(&own_kinds)?;
        let level = own_kinds.iter().position(|own| *own == kind)?;
        let waiting = self.allocs.values().filter(|row| {
            // Kinds that name a size are compared only where that is the same.
            row.is_pending()
                && (level > 2 || row.resource == own.resource)
                && self.kinds_of(row).is_some_and(|kinds| kinds[level] == kind)
        });
        let waiting: Vec<Nanos> = waiting.map(|row| row.created).collect();
        Some((lasted.waits(kind, &waiting, now), now.minus(own.created), placed))
    }

    /// What is known of an application, live or ended.
    pub fn about(&self, id: &str) -> Option<About<'_>> {
        let live = self.app_by_id.get(id).and_then(|ix| self.apps.get(*ix));
        let of = |app| About::from(app);
        live.map(of).or_else(|| {
            let (first, last) = ((Arc::from(id), Nanos(i64::MIN)), (Arc::from(id), Nanos(i64::MAX)));
            self.terminated.range(first..=last).next_back().map(|(_, app)| About::from(&**app))
        })
    }

    /// The asks that have to be placed for this one, by their names: of a gang all placeholders that wait.
    pub fn awaited(&self, app: AppIx, waiting: &Waiting) -> Vec<AskName> {
        let row = &self.apps[app];
        let name = |ask: AllocIx| (row.id.clone(), self.allocs[ask].spec.key.clone());
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
        when.unknown = match waiting.why {
            Why::Stopped | Why::Ending(_) | Why::NotALeaf | Why::NoNodes => Some(Unknown::Never),
            Why::RequiredNode { why: Unfit::Unknown, .. } => Some(Unknown::Never),
            Why::Replacing { .. } => Some(Unknown::ResourceManager),
            Why::Preempting { ref lacks, .. } if lacks.is_empty() => Some(Unknown::ResourceManager),
            _ if self.is_too_large(waiting) => Some(Unknown::TooLarge),
            _ if self.is_refused_on_all(app, waiting) => Some(Unknown::Refused),
            _ if waiting.is_above_limit() => Some(Unknown::AboveLimit),
            _ => None,
        };
        if when.unknown.is_some() {
            return when;
        }
        let lengths = self.lengths(lasted, now);
        (when.running, when.known, when.outlasting) = (lengths.running, lengths.known, lengths.outlasting);
        let asks = self.awaited(app, waiting);
        let mut waits: Vec<Option<Nanos>> = Vec::new();
        // Where too little is known nothing is said but what is placed at once, and one run shows that.
        let (runs, until) = if lengths.suffice() { (RUNS, now.plus(horizon)) } else { (1, now) };
        for run in 0..runs {
            let lasts = |partition: &Partition, ix: AllocIx, age: Nanos| lengths.rest(partition, ix, age, run as u64);
            let mut forward = Forward::new(self, now, &asks, bounds).ending(Some(&lasts));
            let placed = forward.pass(until);
            if forward.cut {
                break;
            }
            waits.push(placed.then(|| forward.now.minus(now)));
            // What is placed without anything that ends needs no further runs.
            if run == 0 && placed && forward.now == now {
                when.preempts = Some(forward.preempted.len()).filter(|preempts| *preempts > 0);
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
        if !at_once && asks.len() == 1 {
            self.widen(&mut when, waiting.first, (lasted, now, horizon));
        }
        when
    }

    /// Whatever holds these asks back, no node that there is could hold one of them.
    fn is_too_large(&self, waiting: &Waiting) -> bool {
        match waiting.why {
            Why::RequiredNode { why, .. } => why == Unfit::TooSmall,
            _ => !self.nodes.values().any(|node| node.capacity.fits(&waiting.resource)),
        }
    }

    /// In a run it would be agreed to everywhere.
    fn is_refused_on_all(&self, app: AppIx, waiting: &Waiting) -> bool {
        match &waiting.why {
            Why::Refused { .. } | Why::RequiredNode { why: Unfit::Refused, .. } => true,
            Why::Nodes(nodes) | Why::GangNodes(nodes) if nodes.is_refused() => true,
            _ => {
                self.ask_shim && self.awaited_with(app, waiting).into_iter().any(|ask| self.is_refused_everywhere(ask))
            }
        }
    }

    /// Who comes later, and may be placed first, is in no run; how long others had to wait tells of them, too. The later of the two counts.
    fn widen(&self, when: &mut When, ask: AllocIx, (lasted, now, horizon): (&Lasted, Nanos, Nanos)) {
        let forward = match when.unknown {
            None => true,
            Some(Unknown::TooLittle) => false,
            Some(_) => return,
        };
        let Some((curve, age, placed)) = self.waits(ask, lasted, now) else { return };
        let at = |share| curve.quantile(age.0, share).map(|at| Nanos(at - age.0)).filter(|wait| *wait <= horizon);
        let (p50, p90) = (at(0.5), at(0.9));
        if !forward && p90.is_none() {
            return;
        }
        let later = |one: Option<Nanos>, other: Option<Nanos>| if forward { Some(one?.max(other?)) } else { other };
        when.waited = placed;
        when.unknown = None;
        (when.p50, when.p90) = (later(when.p50, p50), later(when.p90, p90));
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

/// Numbers from 0 to 1, evenly spread over all runs; about the middle for the first.
fn spread(run: u64) -> f64 {
    let runs = RUNS as u64;
    ((run * 7 + runs / 2) % runs) as f64 / runs as f64 + 0.5 / runs as f64
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
