//! Leaves out of a case what its fault does not need: pieces of its steps, larger ones first, then what is special about its
//! world, as long as the same rule is broken.

use super::case::{Case, Doubts, Kind, Parts, Step, World};

/// Runs that may be made for it at most.
const RUNS: usize = 1_500;

/// The shortest case that was found. `breaks` says whether a case breaks the same rule.
pub fn shrink(case: &Case, mut breaks: impl FnMut(&Case) -> bool) -> Case {
    let mut runs = 0;
    let mut best = case.clone();
    let mut holds = |case: &Case| {
        runs += 1;
        runs <= RUNS && breaks(case)
    };
    loop {
        let before = best.clone();
        best = with_fewer_steps(best, &mut holds);
        best = with_simpler_steps(best, &mut holds);
        best = with_simpler_world(best, &mut holds);
        if best == before {
            return best;
        }
    }
}

/// Pieces go, from halves down to single steps, from the end.
fn with_fewer_steps(mut best: Case, holds: &mut impl FnMut(&Case) -> bool) -> Case {
    let mut piece = (best.steps.len() / 2).max(1);
    loop {
        let mut end = best.steps.len();
        let mut went = false;
        while end > 0 {
            let start = end.saturating_sub(piece);
            let mut shorter = best.clone();
            shorter.steps.drain(start..end);
            if holds(&shorter) {
                best = shorter;
                went = true;
            }
            end = start.min(best.steps.len());
        }
        if piece == 1 && !went {
            return best;
        }
        if !went || piece > 1 {
            piece = (piece / 2).max(1);
        }
    }
}

fn with_simpler_steps(mut best: Case, holds: &mut impl FnMut(&Case) -> bool) -> Case {
    for at in 0..best.steps.len() {
        for simpler in simpler(&best.steps[at]) {
            let mut other = best.clone();
            other.steps[at] = simpler;
            if other != best && holds(&other) {
                best = other;
            }
        }
    }
    best
}

fn simpler(step: &Step) -> Vec<Step> {
    match step.clone() {
        Step::Ask { app, key, size, gpus, kind, node } => vec![
            Step::Ask { app, key, size, gpus: 0, kind, node },
            Step::Ask { app, key, size, gpus, kind: Kind::Plain, node },
            Step::Ask { app, key, size, gpus, kind, node: None },
        ],
        Step::Gang { app, queue, user, count, size, hard, seconds, parts } => {
            let with = |count, seconds, parts| Step::Gang { app, queue, user, count, size, hard, seconds, parts };
            let alike = more_alike(parts).map(|parts| with(count, seconds, parts));
            [with(1.min(count), 0, parts), with(count, 0, parts)].into_iter().chain(alike).collect()
        }
        Step::Reals { app, count, size, parts } => {
            let alike = more_alike(parts).map(|parts| Step::Reals { app, count, size, parts });
            [Step::Reals { app, count: 1.min(count), size, parts }].into_iter().chain(alike).collect()
        }
        Step::App { app, queue, user, .. } => vec![Step::App { app, queue, user, seconds: 0, tags: false }],
        Step::Disk { flushes, .. } => vec![Step::Disk { flushes, millis: 50 }],
        Step::Kill(kill) => vec![Step::Kill(Default::default()), Step::Kill(super::case::Kill { torn: 0, ..kill })],
        _ => Vec::new(),
    }
}

/// Parts of a gang that differ less.
fn more_alike(parts: Parts) -> impl Iterator<Item = Parts> {
    let [first, second] = parts.kinds;
    let kinds = |first, second| Parts { kinds: [first, second], ..parts };
    let some = [kinds(Kind::Plain, second), kinds(first, Kind::Plain), kinds(Kind::Plain, Kind::Plain)];
    let others = [Parts { groups: 0, ..parts }, Parts { grows: 0, ..parts }, Parts::default()];
    some.into_iter().chain(others)
}

fn with_simpler_world(mut best: Case, holds: &mut impl FnMut(&Case) -> bool) -> Case {
    let plain: [fn(&mut World); 19] = [
        |world| world.extra.clear(),
        |world| world.shim.delay = 0,
        |world| world.shim.late = 0,
        |world| world.shim.twice = 0,
        |world| world.shim.never = 0,
        |world| world.shim.lies = 0,
        |world| world.shim.fails = 0,
        |world| world.shim.ends = 0,
        |world| world.shim.asked = 0,
        |world| world.shim.refuses = 0,
        |world| world.shim.insists = 0,
        |world| world.shim.silent = 0,
        |world| world.shim.doubles = 0,
        |world| world.chunk = 64,
        |world| world.directory = None,
        |world| world.etcd = None,
        |world| world.etcd = world.etcd.map(|doubts| Doubts { late: 0, ..doubts }),
        |world| world.etcd = world.etcd.map(|doubts| Doubts { lost: 0, ..doubts }),
        |world| world.configs.truncate(1),
    ];
    for change in plain {
        let mut other = best.clone();
        change(&mut other.world);
        if other != best && holds(&other) {
            best = other;
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_fault_does_not_need_is_left_out() {
        // It takes two steps of these kinds, in this order.
        let breaks = |case: &Case| {
            let ask = case.steps.iter().position(|step| matches!(step, Step::Ask { .. }));
            ask.is_some_and(|at| case.steps[at..].iter().any(|step| matches!(step, Step::Pass(_))))
        };
        let case = (0..100).map(|seed| super::super::draw::case(seed, 60)).find(breaks).expect("some world has both");
        let least = shrink(&case, breaks);
        assert!(matches!(least.steps[..], [Step::Ask { .. }, Step::Pass(_)]), "{:?}", least.steps);
        assert_eq!(least.world.shim, super::super::case::Shim::default());
    }
}
