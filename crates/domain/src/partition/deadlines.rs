//! Deadlines that scheduling depends on: rows in the domain, ordered by time. `PartitionActor` arms one timer for the first.

use super::{Cx, Partition};
use crate::coded::{list, variants};
use crate::types::{AppIx, AppState, Nanos};

/// What falls due. Rows of applications name the timer that they belong to; one that was stopped or replaced is ignored.
#[derive(Clone, Debug)]
pub(super) enum Deadline {
    /// Completing is over (R3.5).
    State { app: AppIx, timer: u64 },
    /// The gang took too long (R3.39).
    Placeholder { app: AppIx, timer: u64 },
    /// Real asks have waited long enough for the first placeholder of their gang (SEEDS S10).
    GangWait { app: AppIx, timer: u64 },
    /// The application ran too long (SEEDS S6).
    Execution { app: AppIx, timer: u64 },
    /// Waiting asks of an application are looked at again: a reservation, preemption or back-off delay, or a pause after failures,
    /// is over.
    Wake { app: AppIx, serial: u64 },
    /// Empty dynamic and draining queues go (R1.17); only while there are such queues.
    CleanQueues,
    /// Asks that wait for nodes are told to the shim (R4.38); only while there may be one that was not told.
    Inspect,
    /// Reservations are looked at again; only while there are some.
    Reservations,
    /// Expired applications go (R3.48).
    Sweep,
    /// Queues above a lowered max are looked at (R7.42); only while one has a start time.
    Quotas,
    /// Blocked asks are looked at that have less headroom now.
    Review,
}

/// All deadlines: by time, and those of one moment in the order in which they were set, as everything in one request has one
/// time.
#[derive(Clone, Debug, Default)]
pub(crate) struct Deadlines {
    rows: imbl::OrdMap<(Nanos, u64), Deadline>,
    set: u64,
}

impl Deadlines {
    pub(super) fn add(&mut self, at: Nanos, deadline: Deadline) {
        self.set += 1;
        self.rows.insert((at, self.set), deadline);
    }

    pub(super) fn next(&self) -> Option<Nanos> {
        self.rows.get_min().map(|((at, _), _)| *at)
    }

    fn pop(&mut self, now: Nanos) -> Option<Deadline> {
        let first = self.rows.get_min().map(|(at, _)| *at).filter(|(at, _)| *at <= now)?;
        self.rows.remove(&first)
    }
}

/// What the rules call a cycle, where nothing happens (R5.1).
pub(super) const CYCLE: Nanos = Nanos::from_millis(100);
/// From the moment at which a first queue may go until all that may are cleaned away (QUE-010).
const CLEAN: Nanos = Nanos::from_secs(10);
const SWEEP: Nanos = Nanos::from_secs(24 * 3600);

impl Partition {
    pub(super) fn start_periodic(&mut self, now: Nanos) {
        self.deadlines.add(now.plus(SWEEP), Deadline::Sweep);
    }

    /// Does everything that has fallen due.
    pub(super) fn tick(&mut self, cx: &mut Cx) {
        let due = if crate::planted!("timer-late") { cx.now.minus(Nanos(1)) } else { cx.now };
        self.expire_ended(due, cx);
        while let Some(deadline) = self.deadlines.pop(due) {
            match deadline {
                Deadline::State { app, timer } => self.state_timer(app, timer, cx),
                Deadline::Placeholder { app, timer } => self.placeholder_timer(app, timer, cx),
                Deadline::GangWait { app, timer } => self.gang_wait_timer(app, timer),
                Deadline::Execution { app, timer } => self.execution_timer(app, timer, cx),
                Deadline::Wake { app, serial } => self.wake(app, serial, cx.now),
                Deadline::CleanQueues => {
                    self.cleaning = false;
                    self.clean_queues(cx);
                    if self.queues.values().any(|queue| queue.is_removable()) {
                        self.plan_cleaning(cx.now);
                    }
                }
                Deadline::Inspect => self.inspect(cx),
                Deadline::Reservations => self.review_reservations(cx),
                Deadline::Quotas => self.check_quotas(cx),
                Deadline::Review => self.review(cx),
                Deadline::Sweep => {
                    self.sweep();
                    self.deadlines.add(cx.now.plus(SWEEP), Deadline::Sweep);
                }
            }
            self.settle();
        }
    }

    /// There is a queue that goes when it is empty.
    pub(super) fn plan_cleaning(&mut self, now: Nanos) {
        if !self.cleaning {
            self.cleaning = true;
            self.deadlines.add(now.plus(CLEAN), Deadline::CleanQueues);
        }
    }

    /// Looks at an application again at a later moment, unless an earlier one is set.
    pub(super) fn wake_at(&mut self, app: AppIx, at: Nanos) {
        let row = &mut self.apps[app];
        if row.wake_at.is_none_or(|set| at < set) {
            row.wake_at = Some(at);
            let serial = row.serial;
            self.deadlines.add(at, Deadline::Wake { app, serial });
        }
    }

    fn wake(&mut self, app: AppIx, serial: u64, now: Nanos) {
        let row = &mut self.apps[app];
        if row.is_free() || row.serial != serial {
            return;
        }
        if row.wake_at.is_some_and(|at| at <= now) {
            row.wake_at = None;
        }
        match row.backoff_until {
            Some(until) if until <= now => row.backoff_until = None,
            // Nothing of it is tried before, so nothing else would wake it then.
            Some(until) => self.wake_at(app, until),
            None => {}
        }
        self.end_pauses(app, now);
        self.ripen_all_of(app);
        self.rouse_groups(app);
    }

    /// Expired applications are forgotten (R3.48).
    fn sweep(&mut self) {
        self.terminated = self
            .terminated
            .iter()
            .filter(|(_, app)| app.state != AppState::Expired)
            .map(|(key, app)| (key.clone(), app.clone()))
            .collect();
        self.rejected = self
            .rejected
            .iter()
            .filter(|(_, app)| app.state != AppState::Expired)
            .map(|(key, app)| (key.clone(), app.clone()))
            .collect();
    }
}

list!(Deadlines { rows, set });
variants!(Deadline {
    1 State { app, timer },
    2 Placeholder { app, timer },
    3 GangWait { app, timer },
    4 Execution { app, timer },
    5 Wake { app, serial },
    8 CleanQueues,
    9 Inspect,
    10 Reservations,
    11 Sweep,
    12 Quotas,
    13 Review,
});
