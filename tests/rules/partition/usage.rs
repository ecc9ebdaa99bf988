//! Usage over time: what events tell is exactly the sum over allocations of their resource times their life.

use std::{collections::BTreeMap, sync::Arc};

use callboard::domain::{
    Partition,
    alloc::Phase,
    event_block::{EventBlock, EventPiece, EventSlice},
    resources::Resource,
    types::Nanos,
    usage::{By, History, Line, Question, UsagePiece},
};
use proptest::prelude::*;

use super::{
    env::Env,
    random::{self, YAML},
};

/// Of an allocation, as long as its resource stays the same.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Who {
    app: Arc<str>,
    key: Arc<str>,
    seq: u64,
    user: Arc<str>,
    group: Option<Arc<str>>,
    queue: Arc<str>,
}

/// What the tables of a partition tell of allocations: when they were there.
#[derive(Default)]
pub struct Lives {
    now: BTreeMap<Who, (Arc<Resource>, Nanos)>,
    past: Vec<(Who, Arc<Resource>, Nanos, Nanos)>,
}

impl Lives {
    pub fn observe(&mut self, partition: &Partition, now: Nanos) {
        let mut seen = BTreeMap::new();
        for ix in partition.app_by_id.values() {
            let app = &partition.apps[*ix];
            for alloc in app.allocs.keys().map(|ix| &partition.allocs[*ix]) {
                // While the shim is asked there is no allocation yet.
                if alloc.phase == Phase::AwaitingShim {
                    continue;
                }
                let who = Who {
                    app: app.id.clone(),
                    key: alloc.spec.key.clone(),
                    seq: alloc.seq,
                    user: app.user.clone(),
                    group: app.track.and_then(|track| partition.ugm.group(track)).cloned(),
                    queue: partition.queues[app.queue].path.clone(),
                };
                seen.insert(who, alloc.resource.clone());
            }
        }
        for (who, (resource, begun)) in std::mem::take(&mut self.now) {
            if seen.get(&who) == Some(&resource) {
                seen.remove(&who);
                self.now.insert(who, (resource, begun));
            } else {
                self.past.push((who, resource, begun, now));
            }
        }
        self.now.extend(seen.into_iter().map(|(who, resource)| (who, (resource, now))));
    }

    /// Resource × lifetime, within a while.
    fn sums(&self, by: By, since: Nanos, until: Nanos) -> BTreeMap<Arc<str>, Resource> {
        let open = self.now.iter().map(|(who, (resource, begun))| (who, resource, *begun, until));
        let past = self.past.iter().map(|(who, resource, begun, ended)| (who, resource, *begun, *ended));
        let mut sums = BTreeMap::<Arc<str>, Resource>::new();
        for (who, resource, begun, ended) in past.chain(open) {
            let nanos = i128::from(ended.min(until).0) - i128::from(begun.max(since).0);
            let names = match by {
                By::User => vec![who.user.clone()],
                By::Group => who.group.iter().cloned().collect(),
                By::Queue => {
                    let ends = who.queue.match_indices('.').map(|(at, _)| at).chain([who.queue.len()]);
                    ends.map(|end| Arc::from(&who.queue[..end])).collect()
                }
            };
            for name in names {
                let sum = sums.entry(name).or_default();
                for (kind, amount) in resource.iter().filter(|_| nanos > 0) {
                    sum.set(kind.clone(), sum.amount(kind) + amount * nanos);
                }
            }
        }
        sums.values_mut().for_each(Resource::prune);
        sums.retain(|_, sum| !sum.is_empty());
        sums
    }
}

fn told(env: &Env, by: By, since: Nanos, until: Nanos, step: Option<Nanos>) -> BTreeMap<Arc<str>, Resource> {
    let partition = env.partition.internal.clone();
    let mut history =
        History::new(Question { partition, by, queue: None, since: Some(since), until, step, of_logs: false });
    // Pieces of any size.
    let block = Arc::new(EventBlock { first: 0, events: env.events.clone() });
    for first in (0..block.events.len() as u64).step_by(7) {
        let slice = EventSlice::of(&block, first, first + 7).expect("some");
        history.take(&UsagePiece::Log(EventPiece::Events(slice)));
    }
    history.finish();
    // As many as there are, and not many at a time.
    let mut lines = Vec::new();
    loop {
        let some = history.lines(3);
        let all = some.len() < 3;
        lines.extend(some);
        if all {
            break;
        }
    }
    assert!(history.is_complete());
    let mut sums = BTreeMap::<Arc<str>, Resource>::new();
    for line in lines {
        let Line::Share(share) = line else { panic!("{line:?}") };
        assert!(share.from < share.to && step.is_none_or(|step| share.to.minus(share.from) <= step), "{share:?}");
        sums.entry(share.name).or_default().add(&share.used);
    }
    sums
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    // UGM-040, UGM-041, EVT-050
    #[test]
    fn the_integral_is_the_sum_of_resource_times_lifetime(
        steps in prop::collection::vec(random::step(), 20..80), window in (0.0..1.0f64, 0.0..1.0f64), step in 1i64..40,
        asks in any::<bool>(),
    ) {
        let yaml = YAML.replace("users: ['*']", "users: ['*']\n            groups: [staff]");
        let mut env = Env::new(&yaml);
        env.lives = Some(Lives::default());
        let begun = env.now;
        random::begin(&mut env, asks);
        for (at, step) in steps.into_iter().enumerate() {
            random::run(&mut env, step);
            if asks && at % 3 == 2 {
                env.answer_all();
            }
            // Moments of the most different kinds, not only whole seconds.
            env.now = Nanos(env.now.0 + 1 + env.now.0 % 977);
        }
        let ended = env.now;
        let length = (ended.0 - begun.0) as f64;
        let (a, b) = (window.0.min(window.1), window.0.max(window.1));
        let part = (Nanos(begun.0 + (length * a) as i64), Nanos(begun.0 + (length * b) as i64));
        for (since, until) in [(begun, ended), part] {
            for by in By::ALL {
                let lives = env.lives.as_ref().expect("watched").sums(by, since, until);
                prop_assert_eq!(&told(&env, by, since, until, None), &lives);
                prop_assert_eq!(&told(&env, by, since, until, Some(Nanos::from_secs(step))), &lives);
            }
        }
        // A partition that ends takes its usage with it.
        env.stop(1);
        env.now = env.now.plus(Nanos::from_secs(1_000));
        let later = env.now;
        for by in By::ALL {
            prop_assert!(told(&env, by, ended, later, None).is_empty());
        }
    }
}
