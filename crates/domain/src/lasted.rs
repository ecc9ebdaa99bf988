//! How long allocations lasted, as events tell it, by kind: queue, user, tags and size of what they were. What is still to come of one
//! that runs is drawn from those of its kind that lasted longer than it has so far.
//!
//! Only allocations that the resource manager ended count: what was preempted, replaced, timed out or went with its node might have lasted
//! longer.

use std::{
    collections::{BTreeMap, VecDeque},
    hash::{Hash as _, Hasher as _},
    sync::Arc,
};

use rustc_hash::{FxHashMap, FxHasher};

use super::{
    event::{Change, Detail, Event, EventKind},
    resources::Resource,
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

/// What is known of the application of an allocation.
#[derive(Clone, Copy, Debug)]
pub struct About<'a> {
    /// Its id.
    pub id: &'a str,
    /// Path of its leaf queue.
    pub queue: &'a str,
    /// Owner.
    pub user: &'a str,
    /// Tags as submitted.
    pub tags: &'a BTreeMap<String, String>,
}

/// The kinds of an allocation, the closest first; 0 for one that cannot be told.
pub type Kinds = [u64; 4];

/// See the module. Of one partition.
#[derive(Clone, Debug, Default)]
pub struct Lasted {
    /// Since when allocations run, by application and key.
    open: FxHashMap<(Arc<str>, Arc<str>), Nanos>,
    /// Leaf queues of applications that are there.
    queues: FxHashMap<Arc<str>, Arc<str>>,
    kinds: FxHashMap<u64, Samples>,
    /// All that ended.
    ended: u64,
}

/// The last of a kind.
#[derive(Clone, Debug, Default)]
struct Samples {
    recent: VecDeque<i64>,
    sorted: Vec<i64>,
}

impl Samples {
    fn add(&mut self, length: i64) {
        if self.recent.len() == REMEMBERED
            && let Some(oldest) = self.recent.pop_front()
        {
            let at = self.sorted.partition_point(|other| *other < oldest);
            self.sorted.remove(at);
        }
        self.recent.push_back(length);
        let at = self.sorted.partition_point(|other| *other < length);
        self.sorted.insert(at, length);
    }
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

/// The kinds of an allocation of this size: by application, user, size and queue; user, size and queue; size and queue; queue.
pub fn kinds(about: &About<'_>, size: &Resource) -> Kinds {
    let About { id, queue, user, tags } = *about;
    if user.is_empty() {
        return [0, 0, hash(2, &[queue], Some(size)), hash(3, &[queue], None)];
    }
    let own = tags.iter().map(|(key, value)| format!("{key}={}", stem(value))).collect::<Vec<_>>().join("\n");
    [
        hash(0, &[queue, user, &stem(id), &own], Some(size)),
        hash(1, &[queue, user], Some(size)),
        hash(2, &[queue], Some(size)),
        hash(3, &[queue], None),
    ]
}

impl Lasted {
    /// Takes an event into account. `tell` says what is known of the user and tags of an application.
    pub fn apply<'a>(&mut self, event: &Event, tell: impl Fn(&str) -> Option<About<'a>>) {
        match (event.kind, event.change, event.detail) {
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
                self.open.insert((event.object.clone(), event.reference.clone()), event.at);
            }
            (EventKind::App, Change::Remove, detail) if !event.reference.is_empty() => {
                let since = self.open.remove(&(event.object.clone(), event.reference.clone()));
                let (Some(since), Detail::AllocCancel, Some(size)) = (since, detail, &event.resource) else { return };
                let length = event.at.minus(since);
                if let Some(about) = tell(&event.object) {
                    self.add(&kinds(&about, size), length);
                } else if let Some(queue) = self.queues.get(&event.object) {
                    let none = BTreeMap::new();
                    let about = About { id: &event.object, queue, user: "", tags: &none };
                    self.add(&kinds(&about, size), length);
                }
            }
            _ => {}
        }
    }

    /// Events are missing: what was thought to run may have ended.
    pub fn forget_running(&mut self) {
        self.open.clear();
    }

    fn add(&mut self, kinds: &Kinds, length: Nanos) {
        if self.kinds.len() >= KINDS {
            self.kinds.clear();
        }
        self.ended += 1;
        for kind in kinds.iter().filter(|kind| **kind != 0) {
            self.kinds.entry(*kind).or_default().add(length.0.max(0));
        }
    }

    /// Allocations that ended.
    pub fn ended(&self) -> u64 {
        self.ended
    }

    /// Lengths of allocations of the closest kind of which enough have ended, the shortest first; `None` where there is none.
    pub fn of(&self, kinds: &Kinds) -> Option<&[i64]> {
        let known = kinds.iter().filter_map(|kind| self.kinds.get(kind));
        known.map(|samples| &*samples.sorted).find(|sorted| sorted.len() >= ENOUGH)
    }
}

/// What is to come of an allocation that has lasted so long, where others lasted as long as these: the part of those that lasted longer
/// which `share` (from 0 to 1) names. One that has outlived all of them is taken to last as long again.
pub fn rest(sorted: &[i64], age: Nanos, share: f64) -> Nanos {
    let longer = &sorted[sorted.partition_point(|length| *length <= age.0)..];
    let at = ((longer.len() as f64 * share) as usize).min(longer.len().saturating_sub(1));
    longer.get(at).map_or(Nanos(age.0.max(0)), |length| Nanos(length - age.0))
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

    fn about<'a>(id: &'a str, user: &'a str, tags: &'a BTreeMap<String, String>) -> About<'a> {
        About { id, queue: "root.a", user, tags }
    }

    #[test]
    fn the_closest_kind_with_enough_is_asked() {
        let (none, mut lasted) = (BTreeMap::new(), Lasted::default());
        let size = Resource::of(&[("vcore", 1000)]);
        for n in 0..12_i64 {
            let (app, user) = (format!("etl-{n}"), if n < 10 { "alice" } else { "bob" });
            lasted.apply(&event(&app, "k", Change::Add, Detail::AppAlloc, 0), |_| None);
            let tell = |id: &str| (id == app).then(|| about("etl-1", user, &none));
            lasted.apply(&event(&app, "k", Change::Remove, Detail::AllocCancel, 60 + n), tell);
        }
        let of =
            |id: &str, user: &str, size: &Resource| lasted.of(&kinds(&about(id, user, &none), size)).map(<[i64]>::len);
        assert_eq!(of("etl-2026-11-22", "alice", &size), Some(10));
        // Bob has too few of his own.
        assert_eq!(of("etl-9", "bob", &size), Some(12));
        assert_eq!(of("other", "carol", &Resource::of(&[("vcore", 9)])), Some(12));
        let elsewhere = About { queue: "root.b", ..about("etl", "alice", &none) };
        assert_eq!((lasted.of(&kinds(&elsewhere, &size)), lasted.ended()), (None, 12));
    }

    #[test]
    fn only_what_was_ended_by_its_owner_counts() {
        let mut lasted = Lasted::default();
        let none = BTreeMap::new();
        for detail in [Detail::AllocPreempt, Detail::AllocTimeout, Detail::AllocReplaced, Detail::AllocNodeRemoved] {
            lasted.apply(&event("a", "k", Change::Add, Detail::AppAlloc, 0), |_| None);
            lasted.apply(&event("a", "k", Change::Remove, detail, 9), |_| Some(about("a", "u", &none)));
        }
        // Of one that began before the log nothing is known, nor of one that nobody knows.
        lasted.apply(&event("a", "k", Change::Remove, Detail::AllocCancel, 9), |_| Some(about("a", "u", &none)));
        lasted.apply(&event("b", "k", Change::Add, Detail::AppAlloc, 0), |_| None);
        lasted.forget_running();
        lasted.apply(&event("b", "k", Change::Remove, Detail::AllocCancel, 9), |_| Some(about("a", "u", &none)));
        assert_eq!(lasted.ended(), 0);
        // Its queue is known by the events themselves.
        let entered = Event { kind: EventKind::Queue, ..event("root.a", "c", Change::Add, Detail::QueueApp, 0) };
        lasted.apply(&entered, |_| None);
        for n in 0..10 {
            lasted.apply(&event("c", &n.to_string(), Change::Add, Detail::AppAlloc, 0), |_| None);
            lasted.apply(&event("c", &n.to_string(), Change::Remove, Detail::AllocCancel, 9), |_| None);
        }
        assert_eq!(lasted.of(&kinds(&about("x", "y", &none), &Resource::new())).map(<[i64]>::len), Some(10));
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut samples = Samples::default();
        (0..1000).for_each(|length| samples.add(length % 500));
        assert_eq!((samples.recent.len(), samples.sorted.len()), (REMEMBERED, REMEMBERED));
        assert!(samples.sorted.is_sorted() && samples.sorted[0] == 244);
    }

    #[test]
    fn what_has_lasted_goes_on_as_those_that_lasted_longer() {
        let sorted = [10, 20, 30, 40];
        let left = |age: i64, share: f64| rest(&sorted, Nanos(age), share).0;
        assert_eq!([left(0, 0.0), left(0, 0.5), left(0, 1.0)], [10, 30, 40]);
        assert_eq!([left(20, 0.0), left(25, 0.99)], [10, 15]);
        assert_eq!(left(50, 0.5), 50, "it has outlived all");
    }

    #[test]
    fn names_are_compared_without_what_differs_each_time() {
        assert_eq!(stem("etl-2026-11-22T10"), stem("etl-7"));
        // A part with a digit in it is left out.
        assert_eq!((stem("spark.8f3a_driver"), stem("42")), ("spark-driver".to_owned(), String::new()));
    }
}
