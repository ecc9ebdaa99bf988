//! Deadlines that scheduling depends on: rows in the domain, ordered by time. `PartitionActor` arms one timer for the first.

use std::sync::Arc;

use super::{Cx, Partition};
use crate::app::App;
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
/// Of what is due one [`Command::Tick`] does so many at most: what one request changed falls due in one moment, however much it was.
///
/// [`Command::Tick`]: crate::command::Command::Tick
pub const DUE: usize = 64;
/// Queues that one of them cleans away at most.
const CLEANED: usize = 500;

impl Partition {
    pub(super) fn start_periodic(&mut self, now: Nanos) {
        self.deadlines.add(now.plus(SWEEP), Deadline::Sweep);
    }

    /// Of what has fallen due there is something left to do: another [`Command::Tick`] does it.
    ///
    /// [`Command::Tick`]: crate::command::Command::Tick
    pub fn is_due(&self, now: Nanos) -> bool {
        self.next_deadline().is_some_and(|next| next <= due_at(now))
    }

    /// Does what has fallen due, [`DUE`] of it at most.
    pub(super) fn tick(&mut self, cx: &mut Cx) {
        self.tick_some(DUE, cx);
    }

    fn tick_some(&mut self, most: usize, cx: &mut Cx) {
        let due = due_at(cx.now);
        let mut left = self.expire_ended(due, most, cx);
        while left > 0
            && let Some(deadline) = self.deadlines.pop(due)
        {
            left -= 1;
            match deadline {
                Deadline::State { app, timer } => self.state_timer(app, timer, cx),
                Deadline::Placeholder { app, timer } => self.placeholder_timer(app, timer, cx),
                Deadline::GangWait { app, timer } => self.gang_wait_timer(app, timer),
                Deadline::Execution { app, timer } => self.execution_timer(app, timer, cx),
                Deadline::Wake { app, serial } => self.wake(app, serial, cx.now),
                Deadline::CleanQueues => {
                    let mut more = CLEANED;
                    self.clean_below(self.root, &mut more, cx);
                    if more == 0 {
                        self.deadlines.add(cx.now, Deadline::CleanQueues);
                        left = 0;
                    } else {
                        self.cleaning = false;
                        if self.queues.values().any(|queue| queue.is_removable()) {
                            self.plan_cleaning(cx.now);
                        }
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
        forget_expired(&mut self.terminated);
        forget_expired(&mut self.rejected);
    }
}

fn forget_expired<K: Ord + Clone>(ended: &mut imbl::OrdMap<K, Arc<App>>) {
    let kept = ended.iter().filter(|(_, app)| app.state != AppState::Expired);
    *ended = kept.map(|(key, app)| (key.clone(), app.clone())).collect();
}

/// What is due by then.
fn due_at(now: Nanos) -> Nanos {
    if crate::planted!("timer-late") { now.minus(Nanos(1)) } else { now }
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{
        alloc::AskSpec,
        command::{AddApplication, AllocationItem, Command, NodeAction, NodeItem, ReleaseItem},
        config,
        effect::Effect,
        partition::states::TERMINATED,
        resources::Resource,
        types::Termination,
    };

    const CONFIG: &str = "partitions: [{name: default, queues: [{name: root, submitacl: '*', queues: [{name: a}]}]}]";
    const APPS: usize = 3 * DUE - 10;

    fn callbacks(effects: &[Effect]) -> Vec<String> {
        let callbacks = effects.iter().filter(|effect| matches!(effect, Effect::Callback(_)));
        callbacks.map(|effect| format!("{effect:?}")).collect()
    }

    /// Applications each of which had one allocation: gone with one request, or a placeholder of a gang that is not complete.
    fn partition(gangs: bool, now: Nanos) -> Partition {
        let mut fx = Vec::new();
        let conf = config::load(CONFIG).expect("valid").partitions[0].clone();
        let mut partition = Partition::new("rm-1".into(), "[rm-1]default".into(), conf, now, &mut fx);
        let node = NodeItem {
            id: "n1".into(),
            action: NodeAction::Create,
            capacity: Some(Resource::of(&[("memory", 1_000_000)])),
            attributes: Default::default(),
        };
        partition.apply(Command::Nodes(vec![node]), now, &mut fx);
        let size = |n| Resource::of(&[("memory", n)]);
        let app = |n: usize| AddApplication {
            id: format!("app-{n}").into(),
            queue: "root.a".into(),
            user: "alice".into(),
            groups: Some(Arc::from([])),
            placeholder_ask: gangs.then(|| size(2)),
            timeout_millis: if gangs { 30_000 } else { 0 },
            ..AddApplication::default()
        };
        partition.apply(Command::Applications { new: (0..APPS).map(app).collect(), remove: Vec::new() }, now, &mut fx);
        let ask = |n: usize| {
            let task_group = if gangs { "workers".into() } else { Arc::default() };
            let resource = Arc::new(size(1));
            let spec = AskSpec { key: "k".into(), resource, task_group, placeholder: gangs, ..AskSpec::default() };
            AllocationItem { app: format!("app-{n}").into(), node: None, spec: Arc::new(spec) }
        };
        let allocations = (0..APPS).map(ask).collect();
        partition.apply(Command::Allocations { allocations, releases: Vec::new() }, now, &mut fx);
        while partition.schedule_at_once(64, now, &mut fx) > 0 {}
        assert_eq!(partition.allocations, APPS as u64);
        if !gangs {
            let release = |n: usize| ReleaseItem {
                app: format!("app-{n}").into(),
                key: "k".into(),
                termination: Termination::StoppedByRm,
            };
            let releases = (0..APPS).map(release).collect();
            partition.apply(Command::Allocations { allocations: Vec::new(), releases }, now, &mut fx);
        }
        partition
    }

    /// What is due is done in parts, and comes to the same as all of it at once. Gives what one part tells at most.
    fn in_parts(partition: &mut Partition, now: Nanos) -> usize {
        let (mut whole, mut told) = (partition.clone(), Vec::new());
        let internal = whole.internal.clone();
        let cx = &mut Cx::new(now, &mut told, &internal);
        whole.tick_some(usize::MAX, cx);
        whole.tell_changes(cx);
        whole.settle();
        whole.tell_allocated(cx);
        whole.plan_inspection(now);
        let (mut in_parts, mut most) = (Vec::new(), 0);
        while partition.is_due(now) {
            let mut part = Vec::new();
            partition.apply(Command::Tick, now, &mut part);
            let part = callbacks(&part);
            most = most.max(part.len());
            in_parts.extend(part);
        }
        assert_eq!(in_parts, callbacks(&told));
        assert!(partition.save() == whole.save(), "the partitions differ");
        assert_eq!(partition.audit(), []);
        most
    }

    #[test]
    fn what_falls_due_in_one_moment_is_done_in_parts() {
        let began = Nanos::from_secs(1_000_000);
        let mut completing = partition(false, began);
        let now = began.plus(Nanos::from_secs(30));
        assert!(completing.is_due(now));
        assert_eq!(in_parts(&mut completing, now), DUE);
        assert_eq!(completing.terminated.len(), APPS);
        let now = now.plus(TERMINATED);
        // The daily sweep is due before them.
        assert!(in_parts(&mut completing, now) <= DUE);
        assert!(completing.terminated.values().all(|app| app.state == AppState::Expired));

        let mut gangs = partition(true, began);
        let now = began.plus(Nanos::from_secs(30));
        // A release and a change of the state of each.
        assert!((DUE..=2 * DUE).contains(&in_parts(&mut gangs, now)));
        assert!(gangs.apps.values().all(|app| app.state == AppState::Resuming));
    }

    #[test]
    fn queues_are_cleaned_away_in_parts() {
        const CONFIG: &str = "partitions: [{name: default, placementrules: [{name: user, create: true}], \
                              queues: [{name: root, submitacl: '*'}]}]";
        let (mut fx, now) = (Vec::new(), Nanos::from_secs(1_000_000));
        let conf = config::load(CONFIG).expect("valid").partitions[0].clone();
        let mut partition = Partition::new("rm-1".into(), "[rm-1]default".into(), conf, now, &mut fx);
        let ids: Vec<Arc<str>> = (0..2 * CLEANED + 10).map(|n| format!("u{n}").into()).collect();
        let app = |id: &Arc<str>| AddApplication {
            id: id.clone(),
            user: id.clone(),
            groups: Some(Arc::from([])),
            ..AddApplication::default()
        };
        partition.apply(Command::Applications { new: ids.iter().map(app).collect(), remove: Vec::new() }, now, &mut fx);
        partition.apply(Command::Applications { new: Vec::new(), remove: ids.clone() }, now, &mut fx);
        assert_eq!(partition.queues.values().count(), ids.len() + 1);
        let now = now.plus(CLEAN);
        let mut parts = Vec::new();
        while partition.is_due(now) {
            let mut part = Vec::new();
            partition.apply(Command::Tick, now, &mut part);
            parts.push(part.iter().filter(|effect| matches!(effect, Effect::Queue(_))).count());
        }
        assert_eq!(parts, [CLEANED, CLEANED, 10]);
        assert_eq!((partition.queues.values().count(), partition.audit()), (1, Vec::new()));
    }
}
