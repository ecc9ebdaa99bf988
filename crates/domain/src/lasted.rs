//! How long allocations lasted, and how long asks waited, as events tell it, by kind: queue, user, tags and size of what they were. What is
//! still to come of one that runs is drawn from those of its kind that lasted longer than it has so far; those that still run count, too, or
//! whatever lasts long would be missing.
//!
//! Only allocations that the resource manager ended count: what was preempted, replaced, timed out or went with its node might have lasted
//! longer. One that the resource manager could not carry out has not lasted at all: its ask stays, and only an allocation that goes with its
//! ask has ended.

use std::{
    collections::VecDeque,
    hash::{Hash as _, Hasher as _},
    sync::Arc,
};

use rustc_hash::{FxHashMap, FxHasher};

use super::{
    event::{Change, Detail, Event, EventKind},
    partition::PARTITION_REMOVED,
    resources::Resource,
    sorted::Texts,
    survival::{Curve, Span},
    types::Nanos,
};

/// Ended allocations of a kind that are remembered: the last ones.
const REMEMBERED: usize = 256;
/// A kind of which fewer have ended says nothing.
const ENOUGH: usize = 10;
/// Kinds that are kept; with more all begin anew.
const KINDS: usize = 20_000;
/// Allocations whose end is waited for; with more all begin anew.
const OPEN: usize = 1_000_000;
/// Asks that were placed sooner did not wait.
const WAITED: Nanos = Nanos::from_secs(1);

/// What is known of the application of an allocation.
#[derive(Clone, Copy, Debug)]
pub struct About<'a> {
    /// Its id.
    pub id: &'a str,
    /// Path of its leaf queue.
    pub queue: &'a str,
    /// Name of the user who submitted it.
    pub user: &'a str,
    /// Tags as submitted.
    pub tags: &'a Texts,
}

/// The kinds of an allocation, the closest first; 0 for one that cannot be told.
pub type Kinds = [u64; 5];

/// Application and allocation key.
type Name = (Arc<str>, Arc<str>);

/// See the module. Of one partition.
#[derive(Clone, Debug, Default)]
pub struct Lasted {
    /// Since when allocations run, by application and key.
    open: FxHashMap<Name, Nanos>,
    /// Leaf queues of applications that are there.
    queues: FxHashMap<Arc<str>, Arc<str>>,
    kinds: FxHashMap<u64, Samples>,
    /// Since when asks wait, and how long others of their kinds did.
    asked: FxHashMap<Name, Nanos>,
    waits: FxHashMap<u64, Samples>,
    /// Since when all is known.
    since: Option<Nanos>,
    /// All that ended.
    ended: u64,
    /// What went at this time, by application and allocation key, with its kinds and length: it has ended if its ask goes in the same moment.
    going: (Nanos, FxHashMap<Name, (Kinds, Nanos)>),
}

/// The last of a kind: for how long each went on, when that was, and whether it ended then or was only seen no more.
#[derive(Clone, Debug, Default)]
struct Samples {
    recent: VecDeque<(i64, Nanos, bool)>,
    ended: usize,
    /// The greatest length of those that ended.
    longest: i64,
}

impl Samples {
    fn add(&mut self, length: i64, at: Nanos, ended: bool) {
        if self.recent.len() == REMEMBERED
            && let Some((gone, _, oldest)) = self.recent.pop_front()
        {
            self.ended -= usize::from(oldest);
            if oldest && gone == self.longest {
                let ended = self.recent.iter().filter(|(.., ended)| *ended);
                self.longest = ended.map(|(length, ..)| *length).max().unwrap_or(0);
            }
        }
        self.recent.push_back((length, at, ended));
        self.ended += usize::from(ended);
        if ended {
            self.longest = self.longest.max(length);
        }
    }

    /// With those that still go on since these times. What was before the oldest that is remembered is not looked at, of any.
    fn curve(&self, since: Nanos, going: &[Nanos], now: Nanos) -> Curve {
        let oldest = self.recent.front().filter(|_| self.recent.len() == REMEMBERED);
        let begin = oldest.map_or(since, |(_, at, _)| since.max(*at));
        let seen = |start: Nanos| begin.minus(start).0.max(0);
        let gone = self.recent.iter().map(|(length, at, ended)| Span {
            from: seen(Nanos(at.0 - length)),
            to: *length,
            ended: *ended,
        });
        let going = going.iter().map(|start| Span { from: seen(*start), to: now.minus(*start).0.max(0), ended: false });
        let spans: Vec<Span> = gone.chain(going).filter(|span| span.from < span.to.max(1)).collect();
        Curve::of(&spans)
    }
}

fn name(event: &Event) -> Name {
    (event.object.clone(), event.reference.clone())
}

fn hash(level: u8, parts: &[&str], size: Option<&Resource>) -> u64 {
    let mut hasher = FxHasher::default();
    level.hash(&mut hasher);
    parts.hash(&mut hasher);
    for (kind, amount) in size.map(Resource::named).unwrap_or_default().iter().filter(|(_, amount)| *amount != 0) {
        (kind, amount).hash(&mut hasher);
    }
    hasher.finish().max(1)
}

/// A name without the parts that differ from one run to the next: those with a digit in them.
fn stem(name: &str) -> String {
    let words = name.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.chars().any(|c| c.is_ascii_digit()));
    words.collect::<Vec<_>>().join("-")
}

/// The kinds of an allocation of this size: by application, user, size and queue; user, size and queue; size and queue; queue; all.
pub fn kinds(about: &About<'_>, size: &Resource) -> Kinds {
    let About { id, queue, user, tags } = *about;
    if user.is_empty() {
        return [0, 0, hash(2, &[queue], Some(size)), hash(3, &[queue], None), hash(4, &[], None)];
    }
    let own = tags.iter().map(|(key, value)| format!("{key}={}", stem(value))).collect::<Vec<_>>().join("\n");
    [
        hash(0, &[queue, user, &stem(id), &own], Some(size)),
        hash(1, &[queue, user], Some(size)),
        hash(2, &[queue], Some(size)),
        hash(3, &[queue], None),
        hash(4, &[], None),
    ]
}

impl Lasted {
    /// Takes an event into account. `tell` says what is known of the user and tags of an application.
    pub fn apply<'a>(&mut self, event: &Event, tell: impl Fn(&str) -> Option<About<'a>>) {
        self.since.get_or_insert(event.at);
        match (event.kind, event.change, event.detail) {
            (EventKind::App, Change::Add, Detail::AppRequest) => {
                if self.asked.len() >= OPEN {
                    self.asked.clear();
                }
                self.asked.insert(name(event), event.at);
            }
            (EventKind::App, Change::Remove, Detail::RequestCancel | Detail::RequestTimeout) => {
                self.waited(event, false, tell);
                self.went(event);
            }
            (EventKind::Queue, Change::Add, Detail::QueueApp) => {
                self.queues.insert(event.reference.clone(), event.object.clone());
            }
            (EventKind::App, Change::Remove, Detail::None) => {
                self.queues.remove(&event.object);
            }
            (EventKind::App, Change::Add, Detail::AppAlloc) => {
                if self.open.len() >= OPEN {
                    self.forget_running();
                }
                self.open.insert(name(event), event.at);
                self.waited(event, true, tell);
            }
            (EventKind::App, Change::Set, _) if *event.message == *PARTITION_REMOVED => self.forget_running(),
            (EventKind::App, Change::Remove, detail) if !event.reference.is_empty() => {
                let since = self.open.remove(&name(event));
                let (Some(since), Detail::AllocCancel, Some(size)) = (since, detail, &event.resource) else { return };
                if let Some(kinds) = self.kinds_of(event, size, tell) {
                    if self.going.0 != event.at {
                        self.going = (event.at, FxHashMap::default());
                    }
                    self.going.1.insert(name(event), (kinds, event.at.minus(since)));
                }
            }
            _ => {}
        }
    }

    /// Its application is known by what is told of it, else its queue by the events themselves.
    fn kinds_of<'a>(&self, event: &Event, size: &Resource, tell: impl Fn(&str) -> Option<About<'a>>) -> Option<Kinds> {
        if let Some(about) = tell(&event.object) {
            return Some(kinds(&about, size));
        }
        let none = Texts::new();
        let queue = self.queues.get(&event.object)?;
        Some(kinds(&About { id: &event.object, queue, user: "", tags: &none }, size))
    }

    /// An ask went: if its allocation did in the same moment, that had ended.
    fn went(&mut self, event: &Event) {
        let (at, going) = &mut self.going;
        let at = *at;
        if let Some((kinds, length)) = going.remove(&name(event))
            && at == event.at
        {
            self.add(&kinds, length, event.at);
        }
    }

    /// An ask waits no more: it was placed, or went.
    fn waited<'a>(&mut self, event: &Event, placed: bool, tell: impl Fn(&str) -> Option<About<'a>>) {
        let since = self.asked.remove(&name(event));
        let (Some(since), Some(size)) = (since, &event.resource) else { return };
        let length = event.at.minus(since);
        if length < WAITED {
            return;
        }
        let Some(kinds) = self.kinds_of(event, size, tell) else { return };
        if self.waits.len() >= KINDS {
            self.waits.clear();
        }
        for kind in kinds.iter().filter(|kind| **kind != 0) {
            self.waits.entry(*kind).or_default().add(length.0, event.at, placed);
        }
    }

    /// Events are missing, and what was thought to run may have ended, and what was thought to wait may have been placed; or the session
    /// ends, and what goes with it may run on.
    pub fn forget_running(&mut self) {
        self.going.1.clear();
        self.open.clear();
        self.asked.clear();
        self.queues.clear();
    }

    fn add(&mut self, kinds: &Kinds, length: Nanos, at: Nanos) {
        if self.kinds.len() >= KINDS {
            self.kinds.clear();
        }
        self.ended += 1;
        for kind in kinds.iter().filter(|kind| **kind != 0) {
            self.kinds.entry(*kind).or_default().add(length.0.max(0), at, true);
        }
    }

    /// Allocations that ended.
    pub fn ended(&self) -> u64 {
        self.ended
    }

    /// The closest kind of allocations of which enough have ended, and how many, for one that has lasted so long: of those kinds of which one
    /// lasted longer, where there is one. `None` where there is none at all.
    pub fn of(&self, kinds: &Kinds, age: Nanos) -> Option<(u64, usize)> {
        let longer = |samples: &Samples| samples.longest > age.0;
        closest(&self.kinds, kinds, longer).or_else(|| closest(&self.kinds, kinds, |_| true))
    }

    /// How long allocations of a kind last, where others of it run since these times.
    pub fn lengths(&self, kind: u64, running: &[Nanos], now: Nanos) -> Curve {
        self.kinds.get(&kind).map(|samples| samples.curve(self.since.unwrap_or(now), running, now)).unwrap_or_default()
    }

    /// The closest kind of asks of which enough were placed after they had waited, and how many.
    pub fn waits_of(&self, kinds: &Kinds) -> Option<(u64, usize)> {
        closest(&self.waits, kinds, |_| true)
    }

    /// How long asks of a kind wait, where others of it wait since these times.
    pub fn waits(&self, kind: u64, waiting: &[Nanos], now: Nanos) -> Curve {
        self.waits.get(&kind).map(|samples| samples.curve(self.since.unwrap_or(now), waiting, now)).unwrap_or_default()
    }
}

fn closest(all: &FxHashMap<u64, Samples>, kinds: &Kinds, may: impl Fn(&Samples) -> bool) -> Option<(u64, usize)> {
    let known = kinds.iter().filter_map(|kind| Some((*kind, all.get(kind).filter(|samples| may(samples))?.ended)));
    known.into_iter().find(|(_, ended)| *ended >= ENOUGH)
}

/// What is to come of an allocation that has lasted so long: the part of those that lasted longer which `share` (from 0 to 1) names. Beyond
/// all that ended nothing is known but that age: half of what got there is taken to last as long again, the other half longer, a tenth ten times as long in all.
pub fn rest(curve: &Curve, age: Nanos, share: f64) -> Nanos {
    let known = curve.quantile(age.0, share);
    let at = known.unwrap_or_else(|| {
        let longest = curve.longest().max(age.0).max(1);
        // The part of all that is left when it ends, of which `longest` times its share of those beyond is the age then.
        // Less than as long again was told too often of what went on for longer.
        let left = (curve.beyond(age.0) * (1.0 - share).min(0.5)).max(f64::MIN_POSITIVE);
        // Floats that are too large become the largest number.
        (longest as f64 * curve.beyond(longest) / left) as i64
    });
    Nanos(at.saturating_sub(age.0).max(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(app: &str, key: &str, change: Change, detail: Detail, at: i64) -> Event {
        Event {
            kind: EventKind::App,
            object: app.into(),
            reference: key.into(),
            change,
            detail,
            message: "".into(),
            resource: Some(Arc::new(Resource::of(&[("vcore", 1000)]))),
            at: Nanos::from_secs(at),
            partition: "".into(),
        }
    }

    fn about<'a>(id: &'a str, user: &'a str, tags: &'a Texts) -> About<'a> {
        About { id, queue: "root.a", user, tags }
    }

    /// An allocation ends, and its ask with it.
    fn end(lasted: &mut Lasted, app: &str, key: &str, at: i64, user: &str) {
        let none = Texts::new();
        for detail in [Detail::AllocCancel, Detail::RequestCancel] {
            lasted.apply(&event(app, key, Change::Remove, detail, at), |_| Some(about(app, user, &none)));
        }
    }

    #[test]
    fn the_closest_kind_with_enough_is_asked() {
        let (none, mut lasted) = (Texts::new(), Lasted::default());
        let size = Resource::of(&[("vcore", 1000)]);
        for n in 0..12_i64 {
            let (app, user) = (format!("etl-{n}"), if n < 10 { "alice" } else { "bob" });
            lasted.apply(&event(&app, "k", Change::Add, Detail::AppAlloc, 0), |_| None);
            end(&mut lasted, &app, "k", 60 + n, user);
        }
        let of = |id: &str, user: &str, size: &Resource| {
            lasted.of(&kinds(&about(id, user, &none), size), Nanos::ZERO).map(|known| known.1)
        };
        assert_eq!(of("etl-2026-11-22", "alice", &size), Some(10));
        // Bob has too few of his own.
        assert_eq!(of("etl-9", "bob", &size), Some(12));
        assert_eq!(of("other", "carol", &Resource::of(&[("vcore", 9)])), Some(12));
        let elsewhere = About { queue: "root.b", ..about("etl", "alice", &none) };
        // Of another queue nothing is known but how long all last.
        let of_all = kinds(&elsewhere, &size)[4];
        assert_eq!((lasted.of(&kinds(&elsewhere, &size), Nanos::ZERO), lasted.ended()), (Some((of_all, 12)), 12));
    }

    #[test]
    fn only_what_was_ended_by_its_owner_counts() {
        let mut lasted = Lasted::default();
        let none = Texts::new();
        for detail in [Detail::AllocPreempt, Detail::AllocTimeout, Detail::AllocReplaced, Detail::AllocNodeRemoved] {
            lasted.apply(&event("a", "k", Change::Add, Detail::AppAlloc, 0), |_| None);
            lasted.apply(&event("a", "k", Change::Remove, detail, 9), |_| Some(about("a", "u", &none)));
        }
        // Of one that began before the log nothing is known, nor of one that nobody knows.
        end(&mut lasted, "a", "k", 9, "u");
        lasted.apply(&event("b", "k", Change::Add, Detail::AppAlloc, 0), |_| None);
        lasted.forget_running();
        end(&mut lasted, "b", "k", 9, "u");
        assert_eq!(lasted.ended(), 0);
        // Its queue is known by the events themselves.
        let entered = Event { kind: EventKind::Queue, ..event("root.a", "c", Change::Add, Detail::QueueApp, 0) };
        lasted.apply(&entered, |_| None);
        for n in 0..10 {
            lasted.apply(&event("c", &n.to_string(), Change::Add, Detail::AppAlloc, 0), |_| None);
            lasted.apply(&event("c", &n.to_string(), Change::Remove, Detail::AllocCancel, 9), |_| None);
            lasted.apply(&event("c", &n.to_string(), Change::Remove, Detail::RequestCancel, 9), |_| None);
        }
        let of_queue = lasted.of(&kinds(&about("x", "y", &none), &Resource::new()), Nanos::ZERO);
        assert_eq!(of_queue.map(|known| known.1), Some(10));
    }

    #[test]
    fn what_has_outlived_its_kind_is_told_by_what_lasted_longer() {
        let (none, mut lasted) = (Texts::new(), Lasted::default());
        let size = Resource::of(&[("vcore", 1000)]);
        for n in 0..20_i64 {
            let (key, user) = (n.to_string(), if n < 10 { "alice" } else { "bob" });
            let tell = |_: &str| Some(about("app", user, &none));
            lasted.apply(&event("app", &key, Change::Add, Detail::AppAlloc, 0), tell);
            end(&mut lasted, "app", &key, if n < 10 { 60 } else { 600 + n }, user);
        }
        let kinds = kinds(&about("app", "alice", &none), &size);
        let of = |age: i64| lasted.of(&kinds, Nanos::from_secs(age));
        assert_eq!([of(0), of(59)], [Some((kinds[0], 10)); 2]);
        // Of those of all users in its queue some lasted longer.
        assert_eq!(of(60), Some((kinds[2], 20)));
        assert_eq!(of(9_000), Some((kinds[0], 10)), "nothing lasted as long");
    }

    #[test]
    fn what_the_resource_manager_could_not_carry_out_did_not_last() {
        let (none, mut lasted) = (Texts::new(), Lasted::default());
        let tell = |_: &str| Some(about("a", "u", &none));
        lasted.apply(&event("a", "k", Change::Add, Detail::AppAlloc, 0), tell);
        // The ask stays, and is placed again; later it is withdrawn while it waits once more.
        lasted.apply(&event("a", "k", Change::Remove, Detail::AllocCancel, 9), tell);
        lasted.apply(&event("a", "k", Change::Add, Detail::AppAlloc, 20), tell);
        lasted.apply(&event("a", "k", Change::Remove, Detail::AllocCancel, 29), tell);
        lasted.apply(&event("a", "k", Change::Remove, Detail::RequestCancel, 40), tell);
        assert_eq!(lasted.ended(), 0);
        lasted.apply(&event("a", "k", Change::Add, Detail::AppAlloc, 50), tell);
        end(&mut lasted, "a", "k", 60, "u");
        assert_eq!(lasted.ended(), 1);
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut samples = Samples::default();
        (0..1000).for_each(|n| samples.add(n, Nanos(n), n % 2 == 0));
        assert_eq!((samples.recent.len(), samples.ended), (REMEMBERED, REMEMBERED / 2));
        assert_eq!(samples.recent.front(), Some(&(744, Nanos(744), true)));
    }

    #[test]
    fn what_has_lasted_goes_on_as_those_that_lasted_longer() {
        let mut samples = Samples::default();
        [10, 20, 30, 40].into_iter().for_each(|length| samples.add(length, Nanos(1000), true));
        let curve = samples.curve(Nanos::ZERO, &[], Nanos(1000));
        let left = |age: i64, share: f64| rest(&curve, Nanos(age), share).0;
        assert_eq!([left(0, 0.1), left(0, 0.4), left(0, 0.8)], [10, 20, 40]);
        assert_eq!([left(20, 0.1), left(25, 0.6)], [10, 15]);
        // It has outlived all: as long again at least, and nine times as long for one of ten.
        assert_eq!([left(50, 0.1), left(50, 0.5), left(50, 0.9)], [50, 50, 450]);
        assert_eq!((left(0, 0.9999) > 40, rest(&curve, Nanos(i64::MAX / 2), 0.9).0 > 0), (true, true));
        // Four that run for longer: half of all do, and go on for who knows how long.
        let curve = samples.curve(Nanos::ZERO, &[Nanos::ZERO; 4], Nanos(1000));
        assert_eq!(rest(&curve, Nanos(0), 0.4).0, 40);
        assert!(rest(&curve, Nanos(0), 0.9).0 > 4 * 40, "{:?}", rest(&curve, Nanos(0), 0.9));
        assert!(curve.beyond(40) > 0.4);
    }

    #[test]
    fn waits_count_until_an_ask_is_placed_or_goes() {
        let none = Texts::new();
        let mut lasted = Lasted::default();
        for n in 0..40_i64 {
            let key = n.to_string();
            let tell = |_: &str| Some(about("app", "u", &none));
            lasted.apply(&event("app", &key, Change::Add, Detail::AppRequest, 100), tell);
            // Ten at once, ten after a minute, ten go, ten wait on.
            match n / 10 {
                0 => lasted.apply(&event("app", &key, Change::Add, Detail::AppAlloc, 100), tell),
                1 => lasted.apply(&event("app", &key, Change::Add, Detail::AppAlloc, 160), tell),
                2 => lasted.apply(&event("app", &key, Change::Remove, Detail::RequestCancel, 130), tell),
                _ => {}
            }
        }
        let kinds = kinds(&about("app", "u", &none), &Resource::of(&[("vcore", 1000)]));
        let (kind, placed) = lasted.waits_of(&kinds).unwrap();
        assert_eq!(placed, 10);
        let curve = lasted.waits(kind, &[Nanos::from_secs(100); 10], Nanos::from_secs(200));
        let minute = Nanos::from_secs(60).0;
        assert_eq!((curve.quantile(0, 0.4), curve.quantile(0, 0.9)), (Some(minute), None));
        assert!((curve.beyond(minute) - 0.5).abs() < 0.05, "{curve:?}");
    }

    #[test]
    fn names_are_compared_without_what_differs_each_time() {
        assert_eq!(stem("etl-2026-11-22T10"), stem("etl-7"));
        // A part with a digit in it is left out.
        assert_eq!((stem("spark.8f3a_driver"), stem("42")), ("spark-driver".to_owned(), String::new()));
    }
}
