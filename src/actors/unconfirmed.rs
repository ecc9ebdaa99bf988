//! What the shim has not confirmed, summed up over the applications of a partition: their conversations keep it up to date
//! as they wait and hear, so that a reader need not ask all of them.

use std::{
    cell::{Cell, RefCell},
    collections::BTreeMap,
    sync::Arc,
};

use actix::Addr;

use super::application::ApplicationActor;
use crate::{
    domain::types::{Nanos, Termination},
    messages::{
        application::UnconfirmedRelease,
        budget::Budget,
        clock::Clock,
        partition::{Patience, UnconfirmedSums},
    },
};

/// See the module. Shared by the conversations of one partition, which live on one thread.
pub struct Unconfirmed {
    partition: Arc<str>,
    /// Their clock.
    pub clock: Clock,
    /// Credits of the session, which know how far the shim has what was sent.
    pub budget: Arc<Budget>,
    /// How long the shim may take.
    pub patience: Cell<Patience>,
    sums: RefCell<Sums>,
}

#[derive(Default)]
struct Sums {
    by_type: BTreeMap<Termination, u64>,
    /// How many were first sent at this time.
    since: BTreeMap<Nanos, u64>,
    /// Conversations that wait.
    waiting: BTreeMap<Arc<str>, Addr<ApplicationActor>>,
    overdue: BTreeMap<Overdue, UnconfirmedRelease>,
}

/// The oldest first; then application, key and type.
type Overdue = (Nanos, Arc<str>, Arc<str>, Termination);

fn overdue(row: &UnconfirmedRelease) -> Overdue {
    (row.since, row.release.app.clone(), row.release.key.clone(), row.release.termination)
}

fn one_less<K: Ord>(counts: &mut BTreeMap<K, u64>, of: &K) {
    if let Some(count) = counts.get_mut(of) {
        *count -= 1;
        if *count == 0 {
            counts.remove(of);
        }
    }
}

impl Unconfirmed {
    /// Nothing waits.
    pub fn new(partition: Arc<str>, clock: Clock, budget: Arc<Budget>, patience: Patience) -> Unconfirmed {
        Unconfirmed { partition, clock, budget, patience: Cell::new(patience), sums: RefCell::default() }
    }

    /// A release waits from now on.
    pub fn add(&self, row: &UnconfirmedRelease) {
        let mut sums = self.sums.borrow_mut();
        *sums.by_type.entry(row.release.termination).or_default() += 1;
        *sums.since.entry(row.since).or_default() += 1;
    }

    /// It waits no more.
    pub fn remove(&self, row: &UnconfirmedRelease) {
        let mut sums = self.sums.borrow_mut();
        one_less(&mut sums.by_type, &row.release.termination);
        one_less(&mut sums.since, &row.since);
        sums.overdue.remove(&overdue(row));
    }

    /// It has waited for too long, or was sent again since it was first overdue.
    pub fn overdue(&self, row: &UnconfirmedRelease) {
        let overdue_before = &mut self.sums.borrow_mut().overdue;
        if overdue_before.is_empty() {
            // One line for all of them: a shim that does not confirm leaves many.
            let (release, after) = (&row.release, self.patience.get().warn_after);
            tracing::warn!(
                code = "release-unconfirmed",
                partition = &*self.partition, application = &*release.app, allocation = &*release.key,
                kind = ?release.termination, sent = row.sent,
                "the shim has not confirmed a release for {after:?}: what it holds stays charged; \
                 /api/v1/partition/{}/releases lists what is not confirmed", self.partition
            );
        }
        overdue_before.insert(overdue(row), row.clone());
    }

    /// `rm.unconfirmedWarning` is longer now: it is not overdue yet.
    pub fn in_time(&self, row: &UnconfirmedRelease) {
        self.sums.borrow_mut().overdue.remove(&overdue(row));
    }

    /// An application begins to wait.
    pub fn waits(&self, app: Arc<str>, addr: Addr<ApplicationActor>) {
        self.sums.borrow_mut().waiting.insert(app, addr);
    }

    /// Nothing of it waits any more.
    pub fn heard_all(&self, app: &Arc<str>) {
        self.sums.borrow_mut().waiting.remove(app);
    }

    /// The conversations of applications that wait.
    pub fn waiting(&self) -> Vec<Addr<ApplicationActor>> {
        self.sums.borrow().waiting.values().cloned().collect()
    }

    /// The numbers.
    pub fn sums(&self) -> UnconfirmedSums {
        let (sums, now) = (self.sums.borrow(), self.clock.now());
        let aged = |row: &UnconfirmedRelease| UnconfirmedRelease { age: now.minus(row.since), ..row.clone() };
        UnconfirmedSums {
            by_type: sums.by_type.clone(),
            oldest: sums.since.first_key_value().map(|(since, _)| *since),
            overdue: sums.overdue.len() as u64,
            named: sums.overdue.values().take(UnconfirmedSums::NAMED).map(aged).collect(),
        }
    }
}
