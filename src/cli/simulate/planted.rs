//! Faults that are put in on purpose: each has to be found, and its case to become short.

use std::process::ExitCode;

use super::{Case, Seeds, SimulateArgs, worlds};
use crate::domain::words::plural;
use crate::{
    cli::{out, process::cores},
    domain::planted,
};

/// A shortened case has so many steps at most.
const MOST: usize = 40;
/// Seeds that are tried where no others are given. Nearly all are found among the first hundred.
const SEEDS: std::ops::Range<u64> = 0..10_000;

/// Looks for one, or for each in turn: 0 where all were found, and made short.
pub fn run(name: &str, args: &SimulateArgs, drawn: impl Fn(u64) -> Case + Sync) -> anyhow::Result<ExitCode> {
    let all = planted::ALL.iter().map(|(name, _)| *name);
    let wanted: Vec<&str> = if name == "all" { all.collect() } else { vec![name] };
    let seeds = args.seeds.clone().map_or(SEEDS, |Seeds(seeds)| seeds);
    let jobs = args.jobs.unwrap_or_else(cores);
    let args = SimulateArgs { first: true, ..args.clone() };
    // Some faults end in panics, which break a rule: what they say is told with it.
    std::panic::set_hook(Box::new(|_| {}));
    let mut missed = 0;
    for name in &wanted {
        planted::plant(name).map_err(anyhow::Error::msg)?;
        let sum = worlds(seeds.clone(), jobs, &drawn, &args)?;
        let least = sum.broken.iter().min_by_key(|broken| broken.least.steps.len());
        planted::unplant();
        let also = least.map(|found| super::check(&found.least)).transpose()?.flatten();
        let told = match least {
            Some(found) if also.is_some() => {
                missed += 1;
                format!("seed {} breaks a rule without it, too: {}", found.least.seed, also.unwrap_or_default())
            }
            Some(found) => {
                let (steps, seed) = (found.least.steps.len(), found.least.seed);
                missed += usize::from(steps > MOST);
                format!("seed {seed}, {}: {}: {}", plural(steps, "step"), found.fault.rule, found.fault.text)
            }
            None => {
                missed += 1;
                format!("not found in {}", plural(sum.worlds, "world"))
            }
        };
        out::print(format!("{name}: {told}\n"))?;
    }
    out::print(format!("{} of {} were found, each with at most {MOST} steps\n", wanted.len() - missed, wanted.len()))?;
    Ok(if missed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
