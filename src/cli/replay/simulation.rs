//! Plays a trace in process: the scheduler's own core on a clock that is the trace's. Every delay of the scheduler – of
//! reservations, preemption, back-off, time-outs – runs in trace time, nothing is waited for, and the same trace gives the
//! same result to the byte on every machine, whatever else runs there.

use std::{collections::BTreeMap, sync::Arc};

use anyhow::{Result, anyhow, bail};

use super::{
    books::FollowUp,
    calibration::Estimates,
    leftovers,
    reasons::{self, Cause},
    record::Record,
    trace::{Millis, Step, Trace},
    wire,
};
use crate::{
    actors::rm::lines,
    config,
    domain::{Partition, command::Command, effect::Effect, partition::Explainer, types::Nanos},
    http::api::board::why::Reason,
    messages::rm::{Line, Outgoing, Payload, Predicates},
    si::{intake::Request, inward::Names, outward},
};

/// Resource manager that a trace is played as.
const RM: &str = "callboard-replay";
/// Decisions between two looks at what came of them.
const CHUNK: usize = 1024;
/// Rounds of decisions and answers in one moment; more means that shim and scheduler answer each other for ever.
const MOST_ROUNDS: usize = 100_000;

/// See the module.
pub struct Simulation<'t> {
    names: Names,
    partition: Partition,
    now: Nanos,
    effects: Vec<Effect>,
    /// Asks of some that wait when they will be placed.
    pub estimates: Option<Estimates>,
    /// What came of it so far.
    pub record: Record<'t>,
}

impl<'t> Simulation<'t> {
    /// Nothing played yet. The configuration is checked as at a registration.
    pub fn new(trace: &'t Trace, config: &str) -> Result<Simulation<'t>> {
        let loaded = config::load(config).map_err(|refused| anyhow!("{}", refused.message))?;
        let conf = loaded.partitions.iter().find(|conf| *conf.name == *wire::PARTITION).cloned();
        let Some(conf) = conf else { bail!("the configuration has no partition {}", wire::PARTITION) };
        let names = Names::new(RM, Arc::default());
        let internal = names.internal(wire::PARTITION);
        let now = nanos(trace.steps().first().map_or(Millis(0), |step| step.at));
        let mut effects = Vec::new();
        let partition = Partition::new(RM.into(), internal, conf, now, &mut effects);
        Ok(Simulation { names, partition, now, effects, estimates: None, record: Record::new(trace, RM.to_owned()) })
    }

    /// Nothing is reserved for asks that wait for room, as with `rm.reservations: false`.
    pub fn reserve_nothing(&mut self) {
        self.apply(Command::Reservations(false));
    }

    /// Plays the whole trace. May be dropped at any await: what was booked so far stays.
    pub async fn play(&mut self) -> Result<()> {
        let trace = self.record.trace;
        for request in wire::nodes(trace, RM) {
            self.send(Request::Nodes, &request)?;
        }
        self.settle()?;
        let steps = trace.steps();
        self.record.begin(&steps);
        for step in &steps {
            self.run_until(nanos(step.at))?;
            self.record.clock = step.at;
            self.step(step)?;
            let new = self.record.books.quiet();
            self.explain(&new, false);
            if let Some(estimates) = &mut self.estimates {
                estimates.ask(trace, &self.record.books, &self.partition, &new, self.record.clock);
            }
            self.record.played(step);
            // Ctrl-C has its turn.
            tokio::task::yield_now().await;
        }
        let waiting: Vec<usize> = self.record.books.waiting.iter().copied().collect();
        self.explain(&waiting, true);
        if let Some(estimates) = &mut self.estimates {
            estimates.finish();
        }
        self.record.finish();
        Ok(())
    }

    /// What the scheduler says is used; compared with the books by the summary.
    pub fn used(&self) -> BTreeMap<String, i64> {
        let root = &self.partition.queues[self.partition.root];
        let used = root.allocated().named().into_iter().filter(|(_, amount)| *amount != 0);
        used.map(|(name, amount)| (name.to_owned(), amount)).collect()
    }

    /// After the trace: all that is still there ends, and with it every application. Gives what the scheduler holds all the
    /// same.
    pub fn leave(&mut self) -> Result<Vec<String>> {
        let ends = self.record.books.unfinished();
        self.step(&Step { at: self.record.clock, ends, starts: Vec::new() })?;
        Ok(leftovers::in_partition(&self.partition))
    }

    /// What falls due until then happens, each thing at its time.
    fn run_until(&mut self, at: Nanos) -> Result<()> {
        while let Some(due) = self.partition.next_deadline().filter(|due| *due <= at) {
            self.now = self.now.max(due);
            self.record.clock = Millis(self.now.0 / 1_000_000);
            while self.partition.is_due(self.now) {
                self.apply(Command::Tick);
            }
            if self.settle()? {
                self.record.sample();
            }
        }
        self.now = at;
        Ok(())
    }

    fn step(&mut self, step: &Step) -> Result<()> {
        let withdrawn = self.record.withdrawn(step);
        self.explain(&withdrawn, true);
        let moment = self.record.moment(step);
        for request in moment.submit {
            self.send(Request::Applications, &request)?;
        }
        if let Some(request) = moment.change {
            self.send(Request::Allocations, &request)?;
        }
        for request in moment.remove {
            self.send(Request::Applications, &request)?;
        }
        self.settle()?;
        Ok(())
    }

    /// A request goes in as from the wire.
    fn send(&mut self, kind: Request, message: &impl prost::Message) -> Result<()> {
        let request = kind.read(&message.encode_to_vec(), &self.names, usize::MAX);
        let request = request.map_err(|fault| anyhow!("{fault:?}"))?;
        for part in request.parts {
            self.apply(part.command);
        }
        let rejected = request.rejected.into_iter().map(Outgoing::Callback).collect();
        let answer = self.take(rejected)?;
        debug_assert_eq!(answer, FollowUp::default(), "a rejection asks for nothing");
        Ok(())
    }

    fn apply(&mut self, command: Command) {
        let told = self.effects.len();
        self.partition.apply(command, self.now, &mut self.effects);
        self.observe(told);
    }

    /// Effects from this one on are new.
    fn observe(&mut self, from: usize) {
        if let Some(estimates) = &mut self.estimates {
            estimates.observe(&self.partition, &self.effects[from..]);
        }
    }

    /// Scheduler and shim answer each other until both are done. True where the shim was told anything.
    fn settle(&mut self) -> Result<bool> {
        let mut any = false;
        for _ in 0..MOST_ROUNDS {
            let told = self.effects.len();
            while self.partition.schedule_at_once(CHUNK, self.now, &mut self.effects) == CHUNK {}
            self.observe(told);
            let mut items = Vec::new();
            for effect in self.effects.drain(..) {
                if let Effect::Callback(callback) = effect {
                    items.push(Outgoing::Callback(callback));
                }
            }
            if items.is_empty() {
                if let Some(estimates) = &mut self.estimates {
                    estimates.judge(&self.record.books, self.record.clock);
                }
                return Ok(any);
            }
            any = true;
            let follow_up = self.take(items)?;
            if let Some(request) = self.record.follow_up(&follow_up) {
                self.send(Request::Allocations, &request)?;
            }
        }
        bail!("at {} shim and scheduler answer each other without end", self.record.clock)
    }

    /// Callbacks go into the books as they would through a door.
    fn take(&mut self, items: Vec<Outgoing>) -> Result<FollowUp> {
        let mut all = FollowUp::default();
        for payload in lines::group(items, Predicates::Off) {
            let line = Line { seq: 0, partition: self.partition.internal.clone(), payload };
            let books = &mut self.record.books;
            match &line.payload {
                Payload::New(_) | Payload::Released(_) | Payload::RejectedAllocations(_) => {
                    let FollowUp { confirm, asks } =
                        books.allocations(outward::allocation(&line), self.record.clock)?;
                    all.confirm.extend(confirm);
                    all.asks.extend(asks);
                }
                Payload::Applications { .. } => books.applications(outward::application(&line)),
                Payload::Nodes { .. } => books.nodes(outward::node(&line))?,
                _ => {}
            }
        }
        Ok(all)
    }

    fn explain(&mut self, asks: &[usize], for_good: bool) {
        if asks.is_empty() {
            return;
        }
        let (trace, books) = (self.record.trace, &self.record.books);
        let mut explainer = Explainer::brief(&self.partition);
        let mut reason = |ask: &usize| {
            if books.waits_for_gang(*ask) {
                return reasons::GANG.to_owned();
            }
            let app = self.partition.app_by_id.get(trace.apps[trace.asks[*ask].app].id.as_str());
            let waiting = app.and_then(|app| explainer.ask(*app, &books.key(*ask), self.now));
            match waiting {
                Some(waiting) => reasons::words(trace, books, *ask, &Cause::from(&Reason::of(&waiting, None))),
                None => "the scheduler does not have it".to_owned(),
            }
        };
        let reasons = asks.iter().map(&mut reason).collect();
        self.record.count(reasons, for_good);
    }
}

fn nanos(at: Millis) -> Nanos {
    Nanos(at.0.saturating_mul(1_000_000))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::replay::{
        config,
        trace::{GangPlan, testing},
    };

    /// Two of three placeholders have a place: the asks that these stand for wait for the third, which no node can take.
    #[tokio::test]
    async fn estimates_are_judged_by_what_came() {
        // One after the other on the only node, for 60 to 99 s each; new ones come faster than that.
        let ask = |n: i64| {
            let starts = n * 50_000;
            testing::ask(&format!("k{n}"), 9, starts, Some(starts + 1000 * (140 + (n * 37) % 40)))
        };
        let trace = testing::trace(&["n1"], 27, (0..200).map(ask).collect());
        let mut simulation = Simulation::new(&trace, &config::of(&trace)).unwrap();
        simulation.estimates = Some(Estimates::new(&trace, 50));
        simulation.play().await.unwrap();
        let found = simulation.estimates.unwrap().result;
        assert!(found.asked > 10 && found.judged > 5, "{found}");
        assert_eq!(found.asked, found.not_known + found.cut_short + found.judged, "{found}");
        assert!(found.within_p50 <= found.within_p90 && found.within_p90 * 2 > found.judged, "{found}");
    }

    #[tokio::test]
    async fn nine_of_ten_starts_of_the_small_trace_come_within_p90() {
        let trace = crate::cli::replay::shipped().unwrap();
        let mut simulation = Simulation::new(&trace, &config::of(&trace)).unwrap();
        simulation.estimates = Some(Estimates::new(&trace, 400));
        simulation.play().await.unwrap();
        let found = simulation.estimates.unwrap().result;
        let percent = 100 * found.within_p90 / found.judged.max(1);
        assert!(found.judged >= 20 && (85..=95).contains(&percent), "{found}");
    }

    #[tokio::test]
    async fn members_of_a_gang_wait_for_the_one_without_a_place() {
        let asks = ["a", "b", "c"].map(|key| testing::ask(key, 6, 0, None)).into();
        let gangs = Some(GangPlan { groups: vec!["g".into(); 3], sizes: vec![vec![18]] });
        let trace = Trace { gangs, ..testing::trace(&["n1", "n2"], 9, asks) };
        let mut simulation = Simulation::new(&trace, &config::of(&trace)).unwrap();
        simulation.play().await.unwrap();
        let reasons = [(reasons::GANG.to_owned(), 2), ("no single node has enough vcore left".to_owned(), 1)];
        assert_eq!(simulation.record.never_placed, BTreeMap::from(reasons));
    }
}
