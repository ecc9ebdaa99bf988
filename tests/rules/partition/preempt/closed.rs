//! A closed world: nobody leaves by itself, and every victim comes back at once with the same wish. The measure of the
//! module's documentation is recomputed from outside after every step.

use std::sync::Arc;

use callboard::domain::{
    Partition,
    alloc::Phase,
    command::{AllocationItem, Command, ReleaseItem},
    types::{Nanos, Termination},
};

use super::super::{env::Env, twin};

/// What required-node asks hold or claim; then Φ by depth, the deepest first.
pub fn measure(partition: &Partition) -> Vec<i128> {
    let mut required = 0;
    for row in partition.allocs.values().filter(|row| row.spec.required_node.is_some()) {
        let holds = row.phase == Phase::Allocated || row.triggered_preemption && row.reserved.is_some();
        required += if holds { row.resource.total() } else { 0 };
    }
    let mut measure = vec![required];
    let deepest = partition.queues.values().map(|queue| queue.depth).max().unwrap_or(0);
    for depth in (0..=deepest).rev() {
        let mut phi = 0;
        for queue in partition.queues.values().filter(|queue| queue.depth == depth) {
            for (kind, guaranteed) in queue.guaranteed.iter().flat_map(|g| g.iter().collect::<Vec<_>>()) {
                let used =
                    queue.allocated().amount(kind) - queue.preempting.amount(kind) + queue.claimed().amount(kind);
                phi += used.min(guaranteed);
            }
        }
        measure.push(phi);
    }
    measure
}

/// Lets time pass in steps of 16 s until nothing is preempted any more; gives the number of victims.
pub fn settle(env: &mut Env) -> usize {
    let (mut victims, mut quiet, mut names) = (0, 0, 0);
    for _ in 0..200 {
        env.now = env.now.plus(Nanos::from_secs(16));
        let before = measure(&env.partition);
        env.apply(Command::Tick);
        loop {
            let mut effects = Vec::new();
            let before = measure(&env.partition);
            let made = env.made(twin::schedule(1), &mut effects);
            let preempted = effects.iter().any(is_preemption);
            let after = measure(&env.partition);
            assert!(after >= before, "{before:?} became {after:?}");
            assert!(!preempted || after > before, "a preemption left {before:?} as it was");
            env.take(effects);
            env.check();
            if made == 0 {
                break;
            }
        }
        let gone = std::mem::take(&mut env.unconfirmed);
        quiet = if gone.is_empty() { quiet + 1 } else { 0 };
        victims += gone.len();
        // All confirmed, and back at once.
        let mut back = Vec::new();
        let mut releases = Vec::new();
        for release in gone {
            let mut spec = (*env.partition.alloc(&release.app, &release.key).expect("a row").spec).clone();
            names += 1;
            spec.key = format!("{}+{names}", release.key.split('+').next().unwrap_or_default()).into();
            spec.created = None;
            back.push(AllocationItem { app: release.app.clone(), node: None, spec: Arc::new(spec) });
            releases.push(ReleaseItem { app: release.app, key: release.key, termination: Termination::Preempted });
        }
        env.apply(Command::Allocations { allocations: back, releases });
        env.run();
        assert!(measure(&env.partition) >= before, "confirmations and what comes back lower nothing");
        if quiet == 3 {
            let waiting = env.partition.allocs.values().find(|row| {
                !row.is_free() && row.phase == Phase::Pending && row.reserved.is_some() && row.triggered_preemption
            });
            assert!(waiting.is_none(), "preempted for, and not placed: {:?}", waiting.map(|row| &row.spec.key));
            return victims;
        }
    }
    panic!("preemption does not end: {:#?}", env.told);
}

fn is_preemption(effect: &callboard::domain::effect::Effect) -> bool {
    use callboard::domain::effect::{Callback, Effect};
    matches!(effect, Effect::Callback(Callback::Released(release)) if release.termination == Termination::Preempted)
}
