//! What the teams of the demo submit, from a seed: services, jobs of many tasks, gangs, notebooks.

use rand_chacha::{
    ChaCha8Rng,
    rand_core::{Rng as _, SeedableRng as _},
};

const MINUTE: u64 = 60_000;
const HOUR: u64 = 60 * MINUTE;
const GIB: i64 = 1 << 30;
/// The user whose limit in the configuration is less than what he wants.
pub const LIMITED: &str = "dan";
/// Tasks of one of his backfills; at his limit 64 of them run.
pub const BACKFILL: usize = 60;

/// An application to be submitted.
#[derive(Clone, Debug)]
pub struct Job {
    /// Its id.
    pub id: String,
    /// Its queue.
    pub queue: &'static str,
    /// Its user, who is also a group.
    pub user: &'static str,
    /// Milli-cores, bytes and GPUs of a task.
    pub needs: (i64, i64, i64),
    /// How long each task runs, in milliseconds of the cluster.
    pub tasks: Vec<u64>,
    /// All tasks start together or not at all.
    pub gang: bool,
}

/// Makes jobs in the order of their time.
pub struct Teams {
    random: ChaCha8Rng,
    /// The next job of each kind: when, and which it is.
    next: [(u64, u32); 5],
    /// Of backfills, which are made when they are wanted and must not change the other jobs.
    backfills: (ChaCha8Rng, u32),
}

#[derive(Clone, Copy)]
enum Kind {
    Web,
    Etl,
    Training,
    Notebook,
    Adhoc,
}

const KINDS: [Kind; 5] = [Kind::Web, Kind::Etl, Kind::Training, Kind::Notebook, Kind::Adhoc];

impl Teams {
    /// The same seed makes the same jobs.
    pub fn new(seed: u64) -> Teams {
        let random = ChaCha8Rng::seed_from_u64(seed);
        let mut other = random.clone();
        other.set_stream(1);
        Teams { random, next: [(0, 1); 5], backfills: (other, 1) }
    }

    /// What is there when the demo begins: enough of everything that the cluster is busy, one ask that no node can take,
    /// and one user who wants more than his limit.
    pub fn first(&mut self) -> Vec<Job> {
        let mut jobs = Vec::new();
        for (kind, count) in
            [(Kind::Web, 24), (Kind::Etl, 14), (Kind::Training, 7), (Kind::Notebook, 30), (Kind::Adhoc, 12)]
        {
            for _ in 0..count {
                let mut job = self.job(kind);
                // Those that run already have part of their time behind them.
                for lasts in &mut job.tasks {
                    *lasts = self.random.next_u64() % *lasts + 1;
                }
                jobs.push(job);
            }
        }
        for _ in 0..3 {
            jobs.push(self.backfill());
        }
        jobs.push(Job {
            id: "adhoc-giant".to_owned(),
            queue: "root.adhoc",
            user: "judy",
            needs: (128_000, 64 * GIB, 0),
            tasks: vec![HOUR],
            gang: false,
        });
        jobs
    }

    /// More work of the user who is at his limit.
    pub fn backfill(&mut self) -> Job {
        let (random, number) = &mut self.backfills;
        let id = format!("etl-{LIMITED}-backfill-{number}");
        *number += 1;
        let tasks = (0..BACKFILL).map(|_| between(random, 20, 90) * MINUTE).collect();
        Job { id, queue: "root.etl", user: LIMITED, needs: (4000, 32 * GIB, 0), tasks, gang: false }
    }

    /// What was submitted up to `now`, in milliseconds of the cluster. The first call begins the clock.
    pub fn until(&mut self, now: u64) -> Vec<Job> {
        let mut jobs = Vec::new();
        for (at, kind) in KINDS.into_iter().enumerate() {
            if self.next[at].0 == 0 {
                self.next[at].0 = now + self.pause(kind);
            }
            while self.next[at].0 <= now {
                jobs.push(self.job(kind));
                self.next[at].0 += self.pause(kind);
            }
        }
        jobs
    }

    /// Until the next job of a kind: from nearly nothing to twice the mean.
    fn pause(&mut self, kind: Kind) -> u64 {
        let mean = match kind {
            Kind::Web => 25 * MINUTE,
            Kind::Etl => 3 * MINUTE,
            Kind::Training => 32 * MINUTE,
            Kind::Notebook => 4 * MINUTE,
            Kind::Adhoc => 5 * MINUTE,
        };
        self.random.next_u64() % (2 * mean) + 1
    }

    fn job(&mut self, kind: Kind) -> Job {
        let number = {
            let next = &mut self.next[kind as usize].1;
            *next += 1;
            *next - 1
        };
        match kind {
            Kind::Web => {
                let cores = self.one_of(&[1, 2, 4]);
                let needs = (cores * 1000, cores * 4 * GIB, 0);
                let lasts = self.between(4, 20) * HOUR;
                let tasks = vec![lasts; self.between(6, 60) as usize];
                let user = self.one_of(&["ann", "ben"]);
                Job { id: format!("web-{number}"), queue: "root.web", user, needs, tasks, gang: false }
            }
            Kind::Etl => {
                let cores = self.one_of(&[2, 4, 8]);
                let needs = (cores * 1000, cores * self.one_of(&[4, 8]) * GIB, 0);
                let tasks = (0..self.between(20, 160)).map(|_| self.between(8, 50) * MINUTE).collect();
                let user = if self.between(1, 16) == 1 { LIMITED } else { self.one_of(&["cleo", "eve"]) };
                Job { id: format!("etl-{number}"), queue: "root.etl", user, needs, tasks, gang: false }
            }
            Kind::Training => {
                let gpus = self.one_of(&[2, 4, 8, 8]);
                let needs = (gpus * 10_000, gpus * 96 * GIB, gpus);
                let lasts = self.between(60, 300) * MINUTE;
                let tasks = vec![lasts; self.one_of(&[2, 4, 4, 8, 12])];
                let user = self.one_of(&["fay", "gus"]);
                Job { id: format!("train-{number}"), queue: "root.research.training", user, needs, tasks, gang: true }
            }
            Kind::Notebook => {
                let needs = (8000, 64 * GIB, self.one_of(&[0, 1, 1, 2]));
                let tasks = vec![self.between(60, 240) * MINUTE];
                let user = self.one_of(&["fay", "gus", "hana", "ivo"]);
                Job {
                    id: format!("notebook-{number}"),
                    queue: "root.research.notebooks",
                    user,
                    needs,
                    tasks,
                    gang: false,
                }
            }
            Kind::Adhoc => {
                let needs = (self.one_of(&[1000, 4000, 16_000]), self.one_of(&[4, 16, 64]) * GIB, 0);
                let tasks = (0..self.between(1, 20)).map(|_| self.between(3, 60) * MINUTE).collect();
                let user = self.one_of(&["ann", "eve", "gus", "hana", "ivo"]);
                Job { id: format!("adhoc-{number}"), queue: "root.adhoc", user, needs, tasks, gang: false }
            }
        }
    }

    /// From `low` to `high`, both included.
    fn between(&mut self, low: u64, high: u64) -> u64 {
        between(&mut self.random, low, high)
    }

    fn one_of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[(self.random.next_u64() % choices.len() as u64) as usize]
    }
}

fn between(random: &mut ChaCha8Rng, low: u64, high: u64) -> u64 {
    low + random.next_u64() % (high - low + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_makes_the_same_jobs_and_time_brings_more() {
        let day = |seed| {
            let mut teams = Teams::new(seed);
            let mut jobs = teams.first();
            jobs.extend(teams.until(HOUR));
            jobs.extend(teams.until(25 * HOUR));
            jobs.iter().map(|job| format!("{job:?}")).collect::<Vec<_>>()
        };
        assert_eq!(day(1), day(1));
        assert_ne!(day(1), day(2));
        assert!(day(1).len() > 500, "{}", day(1).len());
        let others = |backfills| {
            let mut teams = Teams::new(1);
            (0..backfills).for_each(|_| drop(teams.backfill()));
            teams.until(HOUR);
            teams.until(5 * HOUR).iter().map(|job| format!("{job:?}")).collect::<Vec<_>>()
        };
        assert_eq!(others(0), others(7), "backfills come when they are wanted");
    }
}
