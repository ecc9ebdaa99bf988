//! Usage over time, as events tell it: what each user and group has in each queue, and what that makes over a while.
//!
//! Every change of usage is a `USERGROUP` event with its amount (EVT-052), so usage at any place of the log is the sum of
//! the changes before it. A log does not reach back for ever, and may have holes: [`UsagePoint`]s in it say what usage is
//! where the events before do not.

mod history;

use std::sync::Arc;

use rustc_hash::FxHashMap;

pub use self::history::{By, Gap, History, Line, Question, Share};
use super::{
    event::{Change, Detail, Event, EventKind},
    event_block::EventPiece,
    resources::Resource,
    types::Nanos,
    ugm::Who,
};

/// Whose usage, and where.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UsageKey {
    /// Internal name of the partition.
    pub partition: Arc<str>,
    /// User or group. What groups use is used by their users too.
    pub who: Who,
    /// Name of the user or group.
    pub name: Arc<str>,
    /// Path of the leaf queue.
    pub queue: Arc<str>,
}

impl UsageKey {
    /// A key of nothing that is used: where it is in a point, this server leads the resource manager from there on, or another.
    pub fn lead(rm: &str, here: bool) -> UsageKey {
        UsageKey::mark(format!("[{rm}]").into(), if here { HERE } else { ELSEWHERE })
    }

    /// It is one of [`UsageKey::lead`].
    pub fn is_lead(&self) -> bool {
        self.is_mark(HERE) || self.is_mark(ELSEWHERE)
    }

    /// What it says about a partition.
    fn leads(&self, partition: &str) -> Option<bool> {
        (self.is_lead() && partition.starts_with(&*self.partition)).then(|| *self.name == *HERE)
    }

    /// A key of nothing that is used, of all partitions whose names begin like this.
    fn mark(prefix: Arc<str>, name: &str) -> UsageKey {
        UsageKey { partition: prefix, who: Who::User, name: name.into(), queue: Arc::default() }
    }

    fn is_mark(&self, name: &str) -> bool {
        self.queue.is_empty() && self.partition.ends_with(']') && *self.name == *name
    }
}

const HERE: &str = "led here";
const ELSEWHERE: &str = "led elsewhere";
/// The log of a resource manager has had so many events.
const EVENTS: &str = "events";
/// So many, and what follows is all that its partitions use.
const STANDS: &str = "stands";
/// There is no such log any more.
const GONE: &str = "gone";

/// How the names of all partitions of a resource manager begin.
fn prefix_of(partition: &str) -> &str {
    partition.split_inclusive(']').next().unwrap_or(partition)
}

fn counted(events: u64) -> Resource {
    Resource::of(&[(EVENTS, i64::try_from(events).unwrap_or(i64::MAX))])
}

fn count_of(amount: &Resource) -> u64 {
    amount.iter().next().map_or(0, |(_, events)| u64::try_from(events).unwrap_or_default())
}

/// What is used, or by how much that changed.
#[derive(Clone, Debug, Default)]
pub struct Usage {
    rows: FxHashMap<UsageKey, Resource>,
    /// Where events are those of logs: how many there were of each, by how the names of its partitions begin.
    told: Option<FxHashMap<Arc<str>, u64>>,
}

/// A change of usage.
struct Charge<'a> {
    who: Who,
    added: bool,
    amount: &'a Resource,
}

impl Charge<'_> {
    fn of(event: &Event) -> Option<Charge<'_>> {
        if event.kind != EventKind::UserGroup {
            return None;
        }
        let who = match event.detail {
            Detail::UserResource => Who::User,
            Detail::GroupResource => Who::Group,
            _ => return None,
        };
        let added = match event.change {
            Change::Add => true,
            Change::Remove => false,
            Change::None | Change::Set => return None,
        };
        Some(Charge { who, added, amount: event.resource.as_ref()? })
    }
}

impl Usage {
    /// Nothing is used; events of logs are counted too, where that is so.
    pub fn counting(counts: bool) -> Usage {
        Usage { rows: FxHashMap::default(), told: counts.then(FxHashMap::default) }
    }

    /// Events of logs are counted, see [`UsagePoint::of_log`].
    pub fn counts(&self) -> bool {
        self.told.is_some()
    }

    /// Takes an event into account.
    pub fn apply(&mut self, event: &Event) {
        if let Some(told) = &mut self.told {
            let prefix = prefix_of(&event.partition);
            match told.get_mut(prefix) {
                Some(count) => *count += 1,
                None => drop(told.insert(prefix.into(), 1)),
            }
        }
        let Some(Charge { who, added, amount }) = Charge::of(event) else { return };
        let key = UsageKey {
            partition: event.partition.clone(),
            who,
            name: event.object.clone(),
            queue: event.reference.clone(),
        };
        self.change(key, |row| if added { row.add(amount) } else { row.sub(amount) });
    }

    fn change(&mut self, key: UsageKey, change: impl FnOnce(&mut Resource)) {
        use std::collections::hash_map::Entry;
        match self.rows.entry(key) {
            Entry::Occupied(mut row) => {
                change(row.get_mut());
                row.get_mut().prune();
                if row.get().is_empty() {
                    row.remove();
                }
            }
            Entry::Vacant(free) => {
                let mut row = Resource::new();
                change(&mut row);
                row.prune();
                if !row.is_empty() {
                    free.insert(row);
                }
            }
        }
    }

    /// Takes a point into account.
    pub fn pass(&mut self, point: &UsagePoint) {
        if let Some((prefix, next)) = point.log() {
            self.rows.retain(|key, _| !key.partition.starts_with(&**prefix));
            let told = self.told.get_or_insert_default();
            match next {
                Some(next) => told.insert(prefix.clone(), next),
                None => told.remove(prefix),
            };
        } else if !point.relative {
            self.rows.clear();
            self.told.iter_mut().for_each(FxHashMap::clear);
        }
        for (key, amount) in &point.rows {
            if key.is_mark(EVENTS) {
                *self.told.get_or_insert_default().entry(key.partition.clone()).or_default() += count_of(amount);
            } else if !key.is_mark(STANDS) && !key.is_mark(GONE) {
                self.change(key.clone(), |row| row.add(amount));
            }
        }
    }

    /// All of it, in order.
    pub fn rows(&self) -> Vec<(UsageKey, Resource)> {
        let mut rows: Vec<_> = self.rows.iter().map(|(key, amount)| (key.clone(), amount.clone())).collect();
        let told = self.told.iter().flatten();
        rows.extend(told.map(|(prefix, events)| (UsageKey::mark(prefix.clone(), EVENTS), counted(*events))));
        rows.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
        rows
    }
}

/// What is used at a place of the log, because the events before it do not tell.
#[derive(Clone, Debug, PartialEq)]
pub struct UsagePoint {
    /// The event that comes next.
    pub id: u64,
    /// Why it is there.
    pub reason: PointReason,
    /// From when on events do not tell.
    pub from: Nanos,
    /// Until when.
    pub to: Nanos,
    /// What is used from `to` on, or by how much that differs from what was used before.
    pub rows: Vec<(UsageKey, Resource)>,
    /// `rows` are changes.
    pub relative: bool,
}

impl UsagePoint {
    /// The log of a resource manager has had so many events, and this is all that its partitions use then; `None`: it is gone.
    /// Of other resource managers nothing is said.
    pub fn of_log(rm: &str, next: Option<u64>, at: Nanos, used: Vec<(UsageKey, Resource)>) -> UsagePoint {
        let mark = UsageKey::mark(format!("[{rm}]").into(), if next.is_some() { STANDS } else { GONE });
        let rows = std::iter::once((mark, counted(next.unwrap_or_default()))).chain(used).collect();
        UsagePoint { id: 0, reason: PointReason::Begin, from: at, to: at, rows, relative: false }
    }

    /// Where it is an [`UsagePoint::of_log`]: how the names of the partitions begin, and how many events there were.
    pub fn log(&self) -> Option<(&Arc<str>, Option<u64>)> {
        let (key, amount) = self.rows.first()?;
        if key.is_mark(GONE) {
            return Some((&key.partition, None));
        }
        key.is_mark(STANDS).then(|| (&key.partition, Some(count_of(amount))))
    }

    /// How many events of a log there were, or how many are missing, as far as it says so.
    fn told(&self, prefix: &str) -> Option<u64> {
        let of = |(key, _): &&(UsageKey, Resource)| key.is_mark(EVENTS) && *key.partition == *prefix;
        self.rows.iter().find(of).map(|(_, amount)| count_of(amount))
    }
}

/// Why there is a [`UsagePoint`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PointReason {
    /// Events before may be dropped some day. Nothing is missing.
    Begin,
    /// The server was stopped and started: allocations of an ended server are not counted, new ones begin with nothing.
    Stopped,
    /// As [`PointReason::Stopped`], but the server was killed; `from` is its last sign of life.
    Killed,
    /// Events were not stored.
    NotStored,
    /// Events were turned off.
    Off,
}

impl PointReason {
    /// All reasons.
    pub const ALL: [PointReason; 5] =
        [PointReason::Begin, PointReason::Stopped, PointReason::Killed, PointReason::NotStored, PointReason::Off];

    /// The name that readers see.
    pub fn name(self) -> &'static str {
        match self {
            PointReason::Begin => "retention",
            PointReason::Stopped => "stopped",
            PointReason::Killed => "crash",
            PointReason::NotStored => "not-stored",
            PointReason::Off => "tracking-off",
        }
    }
}

/// A part of the log, as far as usage is concerned.
#[derive(Clone, Debug)]
pub enum UsagePiece {
    /// Events, or where there are none.
    Log(EventPiece),
    /// What is used.
    Point(Arc<UsagePoint>),
}
