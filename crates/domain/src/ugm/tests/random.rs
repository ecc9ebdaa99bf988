//! Random sequences: the books hold after every step.

use std::sync::Arc;

use proptest::{collection::vec, prelude::*};

use super::*;

const USERS: [&str; 4] = ["alice", "bob", "carol", "dave"];
const GROUPS: [&str; 3] = ["dev", "ops", "*"];
const QUEUES: [&str; 5] = ["root.a", "root.b", "root.b.c", "root.b.d", "root.e-f.g"];
const LIMITED: [&str; 6] = ["root", "root.a", "root.b", "root.b.c", "root.e-f", "root.zz"];

#[derive(Clone, Debug)]
enum Step {
    Open { user: usize, groups: usize, queue: usize },
    Resolve(usize),
    Add(usize, i64, i64),
    Release(usize, usize),
    Resize(usize, usize, i64, i64),
    Promise(usize, i64),
    Leave(usize),
    Close(usize),
    Remove(usize),
    Reload(Vec<(usize, usize, usize, i64, u64)>),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (0..4usize, 0..4usize, 0..5usize).prop_map(|(user, groups, queue)| Step::Open { user, groups, queue }),
        1 => (0..9usize).prop_map(Step::Resolve),
        6 => (0..9usize, 0..9i64, 0..3i64).prop_map(|(app, memory, vcore)| Step::Add(app, memory, vcore)),
        5 => (0..9usize, 0..9usize).prop_map(|(app, alloc)| Step::Release(app, alloc)),
        2 => (0..9usize, 0..9usize, 0..9i64, 0..3i64).prop_map(|(app, alloc, memory, vcore)| Step::Resize(app, alloc, memory, vcore)),
        3 => (0..9usize, 0..9i64).prop_map(|(app, memory)| Step::Promise(app, memory)),
        1 => (0..9usize).prop_map(Step::Leave),
        1 => (0..9usize).prop_map(Step::Close),
        1 => (0..9usize).prop_map(Step::Remove),
        2 => vec((0..6usize, 0..6usize, 0..4usize, 0..40i64, 0..3u64), 0..4).prop_map(Step::Reload),
    ]
}

/// The manager, for each live application its allocations, and the limits; from these alone follows what may be used.
#[derive(Default)]
struct Model {
    bench: Bench,
    apps: Vec<(Tracked, Vec<Resource>)>,
    /// Those that count.
    counted: Vec<Tracked>,
    limits: Vec<(&'static str, Vec<LimitConf>)>,
    opened: usize,
}

/// A limit of a queue by its name, or the wildcard's; the first in the configuration counts.
fn find<'a>(
    limits: &'a [(&'static str, Vec<LimitConf>)],
    path: &str,
    names: fn(&LimitConf) -> &[Arc<str>],
    name: &str,
) -> Option<&'a LimitConf> {
    let here = || limits.iter().filter(|(at, _)| *at == path).flat_map(|(_, entries)| entries);
    let of = |name: &str| here().find(|entry| names(entry).iter().any(|other| **other == *name));
    of(name).or_else(|| of("*"))
}

fn users_of(limit: &LimitConf) -> &[Arc<str>] {
    &limit.users
}

fn groups_of(limit: &LimitConf) -> &[Arc<str>] {
    &limit.groups
}

impl Model {
    /// What the limits of one queue leave to a user or group there, beside what is promised to some, and whether one more application
    /// may run.
    fn left(
        &self,
        limit: &LimitConf,
        path: &str,
        belongs: impl Fn(&Known) -> bool,
        promised: impl Fn(&Known) -> bool,
    ) -> (Option<Resource>, bool) {
        let below = |known: &&Known| known.queue == path || known.queue.starts_with(&format!("{path}."));
        let mut used = Resource::new();
        let mut running = 0;
        for known in self.bench.live.iter().filter(below).filter(|known| belongs(known)) {
            used.add(&known.usage);
            running += u64::from(self.counted.contains(&known.track));
        }
        self.bench
            .live
            .iter()
            .filter(below)
            .filter(|known| promised(known))
            .for_each(|known| used.add(&known.promised));
        let left = limit.max_resources.as_ref().map(|max| max.minus_known(&used));
        (left, limit.max_applications == 0 || running < limit.max_applications)
    }

    /// The rules once more, without any book: SEEDS S29 and S30, UGM-021, UGM-030, UGM-033.
    fn expected(&self, track: Tracked, beside: bool) -> (Option<Resource>, bool) {
        let Some(known) = self.bench.live.iter().find(|known| known.track == track) else { return (None, true) };
        let group = self.bench.ugm.group(track).cloned();
        let (mut least, mut may_run) = (None::<Resource>, true);
        let mut note = |(left, runs): (Option<Resource>, bool)| {
            if let Some(left) = left {
                least = Some(least.as_ref().map_or_else(|| left.clone(), |least| least.min(&left)));
            }
            may_run &= runs;
        };
        for path in chain(&known.queue).iter() {
            if let Some(limit) = find(&self.limits, path, users_of, &known.user) {
                let same = |other: &Known| other.user == known.user;
                note(self.left(limit, path, same, |other| beside && same(other)));
            }
            let named = |(at, entries): &(&str, Vec<LimitConf>)| {
                *at == &**path && entries.iter().any(|entry| entry.users.iter().any(|user| **user == *known.user))
            };
            if let Some(group) = &group
                && !self.limits.iter().any(named)
                && let Some(limit) = find(&self.limits, path, groups_of, group)
            {
                let promised = |other: &Known| beside && other.promised_group.as_ref() == Some(group);
                note(self.left(limit, path, |other| self.bench.ugm.group(other.track) == Some(group), promised));
            }
        }
        (least, may_run || self.counted.contains(&track))
    }
}

impl Model {
    fn pick(&self, at: usize) -> Option<usize> {
        (!self.apps.is_empty()).then(|| at % self.apps.len())
    }

    fn apply(&mut self, step: &Step) {
        match *step {
            Step::Open { user, groups, queue } => {
                self.opened += 1;
                let id = format!("app-{}", self.opened);
                let track = self.bench.open(&id, USERS[user], &GROUPS[..groups.min(3)], QUEUES[queue]);
                self.apps.push((track, Vec::new()));
            }
            Step::Resolve(at) => {
                if let Some(at) = self.pick(at) {
                    self.bench.ugm.resolve(self.apps[at].0);
                }
            }
            Step::Add(at, memory, vcore) => {
                let Some(at) = self.pick(at) else { return };
                let amount = Resource::of(&[("memory", memory), ("vcore", vcore)]);
                let track = self.apps[at].0;
                self.agree(track, &amount);
                self.bench.known(track).usage.add(&amount);
                self.bench.ugm.increase(track, &Arc::new(amount.clone()), &mut self.bench.events);
                self.apps[at].1.push(amount);
                if !self.counted.contains(&track) {
                    self.counted.push(track);
                }
            }
            Step::Release(at, alloc) => {
                let Some(at) = self.pick(at) else { return };
                let (track, allocs) = &mut self.apps[at];
                if allocs.is_empty() {
                    return;
                }
                let amount = Arc::new(allocs.swap_remove(alloc % allocs.len()));
                let last = allocs.is_empty() && amount.amount(&crate::resources::VCORE) > 0;
                self.bench.known(*track).usage.sub(&amount);
                self.bench.ugm.decrease(*track, &amount, last, &mut self.bench.events);
                if last {
                    self.counted.retain(|other| other != track);
                }
            }
            Step::Promise(at, memory) => {
                let Some(at) = self.pick(at) else { return };
                let track = self.apps[at].0;
                let (more, promised) = (memory > 2, self.bench.known(track).promised.clone());
                let amount = if more { Resource::of(&[("memory", memory)]) } else { promised };
                self.bench.promise(track, &amount, more);
            }
            Step::Leave(at) => {
                let Some(at) = self.pick(at) else { return };
                let (track, allocs) = &self.apps[at];
                if allocs.is_empty() {
                    self.bench.ugm.leave(*track, &mut self.bench.events);
                    self.counted.retain(|other| other != track);
                }
            }
            Step::Resize(at, alloc, memory, vcore) => {
                let Some(at) = self.pick(at) else { return };
                let (track, allocs) = &mut self.apps[at];
                if allocs.is_empty() {
                    return;
                }
                let which = alloc % allocs.len();
                let new = Resource::of(&[("memory", memory), ("vcore", vcore)]);
                let delta = new.minus(&allocs[which]);
                allocs[which] = new;
                self.bench.known(*track).usage.add(&delta);
                self.bench.ugm.resize(*track, &delta, &mut self.bench.events);
            }
            Step::Close(at) | Step::Remove(at) => {
                let Some(at) = self.pick(at) else { return };
                let (track, _) = self.apps.swap_remove(at);
                self.counted.retain(|other| *other != track);
                if matches!(step, Step::Close(_)) { self.bench.close(track) } else { self.bench.remove(track) }
            }
            Step::Reload(ref entries) => {
                let users = [&["alice"][..], &["bob", "carol"], &["*"], &["alice", "*"], &[], &["dave"]];
                let groups = [&[][..], &["dev"], &["ops", "dev"], &["dev", "*"]];
                let entry = |(_, user, group, memory, apps): &(usize, usize, usize, i64, u64)| {
                    limit(users[*user], groups[*group], *memory, *apps)
                };
                let conf: Vec<_> = entries.iter().map(|at| (LIMITED[at.0], vec![entry(at)])).collect();
                self.bench.limits(&conf);
                self.limits = conf;
            }
        }
        self.bench.check();
        for (track, _) in self.apps.clone() {
            if self.bench.ugm.apps[track].counted {
                let ugm = &self.bench.ugm;
                let can_run = ugm.can_run(track);
                assert_eq!((ugm.headroom(track), can_run), self.expected(track, false), "{:?}", self.limits);
                let beside = (ugm.headroom_beside(track), can_run);
                assert_eq!(beside, self.expected(track, true), "{:?}", self.limits);
            }
        }
    }

    /// All checks say the same, and the same before the application is linked to its user as after.
    fn agree(&mut self, track: Tracked, request: &Resource) {
        let ask = |ugm: &Ugm| {
            let plain = (ugm.headroom(track), ugm.fits(track, request));
            (plain, (ugm.headroom_beside(track), ugm.fits_beside(track, request)), ugm.can_run(track))
        };
        let before = ask(&self.bench.ugm);
        self.bench.ugm.resolve(track);
        let after = ask(&self.bench.ugm);
        assert_eq!(before, after);
        let (plain, beside, can_run) = after;
        assert_eq!(beside.1, self.bench.ugm.exceeded(track, request).is_none());
        for (headroom, fits) in [plain, beside] {
            assert_eq!(fits, headroom.is_none_or(|headroom| headroom.fits_or_unlimited(request)));
        }
        assert_eq!(can_run, self.bench.ugm.held(track).is_none());
    }

    /// With nothing live and no limits left, nothing is left at all.
    fn end(&mut self) {
        for (track, _) in std::mem::take(&mut self.apps) {
            self.bench.remove(track);
        }
        self.bench.limits(&[]);
        let ugm = &self.bench.ugm;
        let left = (ugm.trackers.iter().count(), ugm.levels.iter().count(), ugm.apps.iter().count());
        assert_eq!(left, (0, 0, 0));
        assert!(ugm.tracker_by_name.is_empty() && ugm.level_by_path.is_empty() && ugm.promises_nothing());
    }

    /// The events alone lead to the usage that is shown.
    fn replay(&self) {
        let mut sums = std::collections::BTreeMap::<(bool, Arc<str>), Resource>::new();
        for event in &self.bench.events {
            let user = match event.detail {
                Detail::UserResource => true,
                Detail::GroupResource => false,
                _ => continue,
            };
            let sum = sums.entry((user, event.object.clone())).or_default();
            let amount = event.resource.as_ref().expect("an amount");
            assert!(!amount.has_negative());
            if event.change == Change::Add { sum.add(amount) } else { sum.sub(amount) }
        }
        let mut shown = std::collections::BTreeMap::new();
        shown.extend(self.bench.ugm.users().map(|user| ((true, user.name), user.root.usage)));
        shown.extend(self.bench.ugm.groups().map(|group| ((false, group.name), group.root.usage)));
        sums.retain(|_, sum| !sum.is_zero());
        shown.retain(|_, usage| !usage.is_zero());
        assert_eq!(shown, sums);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(10_000))]

    // UGM-018, section 12 item 7: usage is always that of the live applications.
    #[test]
    fn the_books_hold(steps in vec(step(), 1..24)) {
        let mut model = Model::default();
        for step in &steps {
            model.apply(step);
        }
        model.replay();
        let snapshot = model.bench.clone();
        model.end();
        snapshot.check();
    }
}
