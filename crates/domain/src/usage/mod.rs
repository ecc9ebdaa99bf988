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
        let name = if here { HERE } else { ELSEWHERE };
        UsageKey { partition: format!("[{rm}]").into(), who: Who::User, name: name.into(), queue: Arc::default() }
    }

    /// It is one of [`UsageKey::lead`].
    pub fn is_lead(&self) -> bool {
        self.queue.is_empty() && self.partition.ends_with(']')
    }

    /// What it says about a partition.
    fn leads(&self, partition: &str) -> Option<bool> {
        (self.is_lead() && partition.starts_with(&*self.partition)).then(|| *self.name == *HERE)
    }
}

const HERE: &str = "led here";
const ELSEWHERE: &str = "led elsewhere";

/// What is used, or by how much that changed.
#[derive(Clone, Debug, Default)]
pub struct Usage {
    rows: FxHashMap<UsageKey, Resource>,
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
    /// Takes an event into account.
    pub fn apply(&mut self, event: &Event) {
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
        if !point.relative {
            self.rows.clear();
        }
        for (key, amount) in &point.rows {
            self.change(key.clone(), |row| row.add(amount));
        }
    }

    /// All of it, in order.
    pub fn rows(&self) -> Vec<(UsageKey, Resource)> {
        let mut rows: Vec<_> = self.rows.iter().map(|(key, amount)| (key.clone(), amount.clone())).collect();
        rows.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
        rows
    }

    /// Nothing is used by anybody.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
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
