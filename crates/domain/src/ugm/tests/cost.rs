//! What a charge costs: `cargo test --release --lib ugm::tests::cost -- --ignored --nocapture`.

use std::{hint::black_box, sync::Arc, time::Instant};

use super::*;

fn filled(users: usize, groups: usize, depth: usize) -> (Ugm, Vec<Tracked>) {
    let mut ugm = Ugm::default();
    let mut out = Vec::<Told>::new();
    let queues: Vec<String> =
        (0..10).map(|q| (1..depth).fold("root".to_owned(), |path, level| format!("{path}.q{q}l{level}"))).collect();
    let names: Vec<String> = (0..groups).map(|group| format!("g{group}")).collect();
    let named: Vec<&str> = names.iter().map(String::as_str).collect();
    let limits = [(Arc::from("root"), vec![limit(&["*"], &named, i64::MAX, 1_000_000)])];
    ugm.set_limits(limits.iter().map(|(path, limits): &(Arc<str>, _)| (path, &limits[..])), &mut out);
    let apps = (0..users)
        .map(|user| {
            let groups: Arc<[Arc<str>]> = [Arc::from(&*names[user % names.len()])].into();
            let track =
                ugm.open(format!("a{user}").into(), format!("u{user}").into(), groups, chain(&queues[user % 10]));
            ugm.increase(track, &Arc::new(Resource::of(&[("memory", 1), ("vcore", 1)])), &mut out);
            track
        })
        .collect();
    (ugm, apps)
}

fn time(what: &str, users: usize, rounds: usize, mut run: impl FnMut(usize)) {
    let start = Instant::now();
    for round in 0..rounds {
        run(round);
    }
    println!("{users:>7} users: {what:<28} {:>6} ns", start.elapsed().as_nanos() as usize / rounds);
}

#[test]
#[ignore = "a measurement"]
fn nanoseconds_per_call() {
    const ROUNDS: usize = 1_000_000;
    let amount = Arc::new(Resource::of(&[("memory", 10), ("vcore", 1)]));
    for users in [10, 1_000, 10_000, 100_000] {
        let (mut ugm, apps) = filled(users, 100, 3);
        let mut out = Vec::<Told>::new();
        let at = |round: usize| apps[round.wrapping_mul(7919) % apps.len()];
        time("fits", users, ROUNDS, |round| {
            black_box(ugm.fits(at(round), &amount));
        });
        time("headroom", users, ROUNDS, |round| {
            black_box(ugm.headroom(at(round)));
        });
        time("can_run", users, ROUNDS, |round| {
            black_box(ugm.can_run(at(round)));
        });
        time("increase, with its events", users, ROUNDS, |round| {
            out.clear();
            ugm.increase(at(round), &amount, &mut out);
        });
        time("decrease, with its events", users, ROUNDS, |round| {
            out.clear();
            ugm.decrease(at(round), &amount, false, &mut out);
        });
        time("clone", users, 1_000, |_| {
            black_box(ugm.clone());
        });
        let mut snapshot = ugm.clone();
        time("increase, snapshot per 10,000", users, ROUNDS, |round| {
            if round % 10_000 == 0 {
                snapshot = ugm.clone();
            }
            out.clear();
            ugm.increase(at(round), &amount, &mut out);
        });
        time("open, resolve, count, remove", users, ROUNDS / 10, |round| {
            out.clear();
            let old = &ugm.apps[at(round)];
            let (id, user, groups, chain) = (old.id.clone(), old.user.clone(), old.groups.clone(), old.chain.clone());
            let track = ugm.open(id, user, groups, chain);
            ugm.increase(track, &amount, &mut out);
            ugm.remove(track, &mut out);
        });
    }
}
