//! Makes traces from a seed: a day of three teams on a small cluster. The same seed gives the same trace everywhere,
//! so only whole numbers are used, and of the generator only its raw output.

use rand_chacha::{
    ChaCha8Rng,
    rand_core::{Rng, SeedableRng},
};

use super::trace::{Millis, ResourceKind, Trace, TraceApp, TraceAsk, TraceNode};

const MIB: i64 = 1 << 20;
const GIB_IN_MIB: i64 = 1024;
const HOUR: i64 = 3600;
const DAY: i64 = 24 * HOUR;

/// Seed of the trace that comes with the program.
pub const SHIPPED_SEED: u64 = 2024;

/// A trace of one day. `size` scales nodes and applications; 1 is the trace that comes with the program.
pub fn generate(seed: u64, size: u32) -> Trace {
    let types = vec![ResourceKind::Memory, ResourceKind::Vcore, ResourceKind::Gpu];
    let trace = Trace { name: format!("generated from seed {seed}"), types, ..Trace::default() };
    let mut made = Maker { random: ChaCha8Rng::seed_from_u64(seed), trace };
    let size = i64::from(size.max(1));
    for at in 0..8 * size {
        made.node(format!("node-{at:03}"), 32_000, 128, 0);
    }
    for at in 0..3 * size {
        made.node(format!("gpu-node-{at:03}"), 48_000, 256, 8000);
    }
    (0..10 * size).for_each(|at| made.service(at));
    (0..48 * size).for_each(|at| made.batch(at));
    (0..24 * size).for_each(|at| made.research(at));
    made.trace
}

struct Maker {
    random: ChaCha8Rng,
    trace: Trace,
}

/// What an ask needs: cores in milli-units, memory in GiB, devices in thousandths.
struct Needs(i64, i64, i64);

impl Maker {
    /// A number from `low` to `high`, both included.
    fn between(&mut self, low: i64, high: i64) -> i64 {
        let span = (high - low + 1).unsigned_abs();
        // The bias of a remainder of 64 random bits is far below anything that a trace could show.
        low + (self.random.next_u64() % span) as i64
    }

    fn one_of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[(self.random.next_u64() % choices.len() as u64) as usize]
    }

    fn node(&mut self, id: String, cpu: i64, gib: i64, gpu: i64) {
        self.trace.nodes.push(TraceNode { id, capacity: vec![gib * GIB_IN_MIB * MIB, cpu, gpu] });
    }

    fn app(&mut self, id: String, queue: &str, user: &str) -> usize {
        self.trace.apps.push(TraceApp { id, queue: queue.to_owned(), user: user.to_owned() });
        self.trace.apps.len() - 1
    }

    fn ask(&mut self, app: usize, number: i64, needs: &Needs, priority: i32, starts: i64, lasts: i64) {
        let key = format!("{}-{number}", self.trace.apps[app].id);
        let needs = vec![needs.1 * GIB_IN_MIB * MIB, needs.0, needs.2];
        // What would last beyond the day stays.
        let end = starts + lasts.max(1);
        let ends = (end < DAY).then_some(Millis::from_secs(end));
        self.trace.asks.push(TraceAsk { key, app, needs, priority, starts: Millis::from_secs(starts), ends });
    }

    /// A service: replicas that stay, more of them in the day.
    fn service(&mut self, at: i64) {
        let user = self.one_of(&["ann", "ben"]);
        let app = self.app(format!("web-{at:02}"), "web", user);
        let needs = Needs(self.one_of(&[500, 1000, 2000, 4000]), self.one_of(&[1, 2, 4, 8]), 0);
        let starts = self.between(0, 1800);
        let replicas = self.between(3, 8);
        (0..replicas).for_each(|number| self.ask(app, number, &needs, 10, starts, DAY));
        let (more, morning, length) = (self.between(2, 8), self.between(7, 9) * HOUR, self.between(8, 11) * HOUR);
        (replicas..replicas + more).for_each(|number| self.ask(app, number, &needs, 10, morning, length));
    }

    /// A job of many equal tasks; most start in two waves.
    fn batch(&mut self, at: i64) {
        let user = self.one_of(&["cleo", "dan", "eve"]);
        let app = self.app(format!("batch-{at:02}"), "batch", user);
        let needs = Needs(self.one_of(&[1000, 2000, 4000, 8000]), self.one_of(&[2, 4, 8, 16]), 0);
        let wave = self.one_of(&[1, 1, 12, 12, 18]);
        let starts = wave * HOUR + self.between(0, 2 * HOUR);
        let priority = self.one_of(&[0, 0, 0, 5]);
        for number in 0..self.between(4, 16) {
            let lasts = self.between(10 * 60, 90 * 60);
            self.ask(app, number, &needs, priority, starts, lasts);
        }
    }

    /// A training run on shared or whole devices.
    fn research(&mut self, at: i64) {
        let user = self.one_of(&["fay", "gus"]);
        let app = self.app(format!("train-{at:02}"), "research", user);
        let devices = self.one_of(&[250, 500, 1000, 1000, 2000, 4000, 8000]);
        let needs = Needs(2000 + devices * 2, 8 + devices / 100, devices);
        let starts = self.between(0, 20 * HOUR);
        let lasts = self.between(HOUR, 6 * HOUR);
        for number in 0..self.between(1, 3) {
            self.ask(app, number, &needs, 0, starts, lasts);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_trace() {
        assert_eq!(generate(7, 1), generate(7, 1));
        assert_ne!(generate(7, 1).asks, generate(8, 1).asks);
        assert_eq!(generate(7, 3).nodes.len(), 33);
    }

    #[test]
    fn every_ask_fits_an_empty_node() {
        let trace = generate(SHIPPED_SEED, 1);
        let fits = |ask: &TraceAsk| {
            trace.nodes.iter().any(|node| node.capacity.iter().zip(&ask.needs).all(|(has, need)| has >= need))
        };
        assert!(trace.asks.iter().all(fits));
        assert!((500..1000).contains(&trace.asks.len()), "{}", trace.asks.len());
    }
}
