//! `callboard simulate`: small worlds drawn from seeds, run in simulated time against the real partitions and the real parts of the
//! session, with crashes, and held against rules after every step.

pub mod case;
mod cluster;
mod disk;
pub mod draw;
mod groups;
mod journal;
mod parts;
#[cfg(feature = "planted")]
mod planted;
mod questions;
mod restart;
mod rules;
mod run;
mod scratch;
mod server;
mod session;
mod shim;
mod shrink;
mod steps;

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
    str::FromStr,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering::SeqCst},
    },
    time::{Duration, Instant},
};

use anyhow::{Context as _, bail};
use clap::{Args, ValueEnum};
use serde_json::json;

pub use self::server::Counts;
use self::{case::Case, rules::Fault, run::Outcome, scratch::Scratch, server::RM};
use super::{Misused, out, process::cores};
use crate::domain::words::{either, plural};
use crate::{
    actors::rm::record::kind,
    store::log::{self, flight::Flight},
};

/// Steps of a world.
const STEPS: usize = 80;

/// Options of `callboard simulate`.
#[derive(Args, Clone, Debug)]
pub struct SimulateArgs {
    /// The seed of one world
    #[arg(long, conflicts_with_all = ["seeds", "case"])]
    seed: Option<u64>,
    /// Seeds from A up to, but not with, B
    #[arg(long, value_name = "A..B", conflicts_with = "case")]
    seeds: Option<Seeds>,
    /// A file that an earlier run wrote with --keep
    #[arg(long, value_name = "FILE")]
    case: Option<PathBuf>,
    /// Things that happen in each world
    #[arg(long, value_name = "M", default_value_t = STEPS)]
    commands: usize,
    /// Worlds at a time; by default as many as there are processors
    #[arg(long, value_name = "J")]
    jobs: Option<usize>,
    /// Write the shortened case of each fault, and its flight, into this directory; of --seed and --case also where every rule
    /// holds
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
    /// Stop at the first fault
    #[arg(long)]
    first: bool,
    /// Put this fault in first, or each of them in turn (all): every one has to be found
    #[cfg(feature = "planted")]
    #[arg(long, value_name = "NAME", conflicts_with = "case")]
    planted: Option<String>,
    /// How to print what came of it
    #[arg(long, short, value_enum, default_value_t = Format::Text)]
    output: Format,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Format {
    /// For people
    Text,
    /// One object
    Json,
}

/// A range of seeds.
#[derive(Clone, Debug)]
pub struct Seeds(std::ops::Range<u64>);

impl FromStr for Seeds {
    type Err = String;

    fn from_str(text: &str) -> Result<Seeds, String> {
        let ends = text.split_once("..").and_then(|(from, to)| Some((from.parse().ok()?, to.parse().ok()?)));
        match ends {
            Some((from, to)) if from < to => Ok(Seeds(from..to)),
            _ => Err(format!("\"{text}\" is no range of seeds such as 0..2000")),
        }
    }
}

/// A rule that was broken.
#[derive(Clone, Debug)]
pub struct Broken {
    /// What should hold, and what was found.
    pub fault: Fault,
    /// After so many steps.
    pub after: usize,
    /// The case, shortened.
    pub least: Case,
}

/// Runs it: 0 where every rule held.
pub fn run(args: &SimulateArgs) -> anyhow::Result<ExitCode> {
    let began = Instant::now();
    let drawn = |seed| draw::case(seed, args.commands.clamp(1, 100_000));
    #[cfg(feature = "planted")]
    if let Some(name) = &args.planted {
        return planted::run(name, args, drawn);
    }
    let jobs = args.jobs.unwrap_or_else(cores);
    let sum = match (&args.case, args.seed, &args.seeds) {
        (Some(file), ..) => {
            let case = Case::read(file).map_err(anyhow::Error::msg)?;
            worlds(0..1, 1, |_| case.clone(), args)?
        }
        (None, Some(seed), _) => worlds(seed..seed.checked_add(1).context("--seed is too large")?, 1, drawn, args)?,
        (None, None, Some(Seeds(seeds))) => worlds(seeds.clone(), jobs.clamp(1, 256), drawn, args)?,
        (None, None, None) => bail!(Misused("--seed, --seeds or --case is wanted, such as --seeds 0..2000".into())),
    };
    match args.output {
        Format::Text => out::print(text(&sum, began.elapsed(), args))?,
        Format::Json => out::print(format!("{}\n", of_json(&sum, began.elapsed())))?,
    }
    Ok(if sum.broken.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// What came of many worlds.
#[derive(Debug, Default)]
struct Sum {
    worlds: u64,
    counts: Counts,
    /// Over all of them, in whatever order they ran.
    digest: u64,
    broken: Vec<Broken>,
}

fn worlds(
    seeds: std::ops::Range<u64>,
    jobs: usize,
    case: impl Fn(u64) -> Case + Sync,
    args: &SimulateArgs,
) -> anyhow::Result<Sum> {
    let (next, sum) = (AtomicU64::new(seeds.start), Mutex::new(Sum::default()));
    let work = || -> anyhow::Result<()> {
        let scratch = Scratch::new()?;
        loop {
            // Not beyond the end: that of the largest seeds is the largest number, behind which it would begin with 0.
            let taken = next.fetch_update(SeqCst, SeqCst, |seed| (seed < seeds.end).then(|| seed + 1));
            let Ok(seed) = taken else { return Ok(()) };
            let case = case(seed);
            let (outcome, broken) = world(&case, &scratch, args.keep.as_deref())?;
            if let (None, None, Some(dir)) = (&broken, &args.seeds, &args.keep) {
                keep_case(dir, &case, &scratch)?;
            }
            let mut sum = sum.lock().unwrap_or_else(PoisonError::into_inner);
            sum.worlds += 1;
            sum.counts.add(outcome.counts);
            sum.digest = sum.digest.wrapping_add(outcome.digest);
            if let Some(broken) = broken {
                sum.broken.push(broken);
                if args.first {
                    next.store(seeds.end, SeqCst);
                }
            }
        }
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (1..jobs).map(|_| scope.spawn(work)).collect();
        let own = work();
        let others = workers.into_iter().map(|worker| worker.join().unwrap_or_else(|_| bail!("a world broke down")));
        others.fold(own, |all, one| all.and(one))
    })?;
    let mut sum = sum.into_inner().unwrap_or_else(PoisonError::into_inner);
    sum.broken.sort_by_key(|broken| broken.least.seed);
    Ok(sum)
}

/// Runs a case; where it breaks a rule, finds the shortest that does.
fn world(case: &Case, scratch: &Scratch, keep: Option<&Path>) -> anyhow::Result<(Outcome, Option<Broken>)> {
    let outcome = once(case, scratch);
    let Some((fault, after)) = outcome.fault.clone() else {
        return Ok((outcome, None));
    };
    let mut begun = case.clone();
    begun.steps.truncate(after);
    let breaks = |case: &Case| once(case, scratch).fault.is_some_and(|(other, _)| other.rule == fault.rule);
    let mut least = shrink::shrink(&begun, breaks);
    // What it shows in its shortest form; the run also leaves the log of it behind.
    let shown = once(&least, scratch).fault.map_or_else(|| fault.clone(), |(fault, _)| fault);
    least.about = format!("{}: {}", shown.rule, shown.text);
    if let Some(dir) = keep {
        keep_case(dir, &least, scratch)?;
    }
    Ok((outcome, Some(Broken { fault: shown, after, least })))
}

/// Writes a case that was run just now, and its flight.
fn keep_case(dir: &Path, case: &Case, scratch: &Scratch) -> anyhow::Result<()> {
    crate::store::files::make_dir(dir).with_context(|| format!("--keep {}", dir.display()))?;
    let file = dir.join(format!("seed-{}.json", case.seed));
    crate::store::files::replace(&file, case.text().as_bytes()).with_context(|| file.display().to_string())?;
    let begins = |of: u32| matches!(of, kind::REGISTERED | kind::ENDED);
    let log = log::directory(&scratch.path.join("log"), RM);
    // Where the fault is that the log is gone there is no flight.
    if let Ok(flight) = Flight::of_directory(&log, None, &begins) {
        flight.write(&file.with_extension("flight"))?;
    }
    Ok(())
}

/// Runs a case in an empty directory. A panic is a broken rule.
fn once(case: &Case, scratch: &Scratch) -> Outcome {
    scratch.clear();
    let ran = std::panic::catch_unwind(|| run::run(case, &scratch.path));
    let nothing = |rule, text: String| {
        let fault = Some((Fault { rule, text }, case.steps.len()));
        Outcome { fault, digest: 0, counts: Counts::default() }
    };
    match ran {
        Ok(Ok(outcome)) => outcome,
        Ok(Err(why)) => nothing("a world can be", why),
        Err(panic) => {
            let said = panic.downcast_ref::<String>().cloned();
            let said = said.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
            nothing("nothing panics", said.unwrap_or_default())
        }
    }
}

/// Runs a case that is kept: the rule that it breaks.
///
/// # Errors
/// There is nowhere to run it.
pub fn check(case: &Case) -> anyhow::Result<Option<String>> {
    let outcome = once(case, &Scratch::new()?);
    Ok(outcome.fault.map(|(fault, after)| format!("after {}: {}: {}", plural(after, "step"), fault.rule, fault.text)))
}

/// Runs the worlds of seeds; gives the broken rules, the digest over all, and how much happened.
///
/// # Errors
/// There is nowhere to run them.
pub fn check_seeds(seeds: std::ops::Range<u64>, commands: usize) -> anyhow::Result<(Vec<Broken>, u64, Counts)> {
    let jobs = cores();
    let args = SimulateArgs {
        seed: None,
        seeds: None,
        case: None,
        commands,
        jobs: None,
        keep: None,
        first: false,
        #[cfg(feature = "planted")]
        planted: None,
        output: Format::Text,
    };
    let sum = worlds(seeds, jobs, |seed| draw::case(seed, commands), &args)?;
    Ok((sum.broken, sum.digest, sum.counts))
}

fn text(sum: &Sum, took: Duration, args: &SimulateArgs) -> String {
    let mut text = String::new();
    for Broken { fault, after, least } in &sum.broken {
        text += &format!("seed {}: {}\n  {}\n", least.seed, fault.rule, fault.text);
        text += &format!(
            "  after {}; {} {} enough:\n",
            plural(*after, "step"),
            least.steps.len(),
            either(&least.steps.len(), "is", "are")
        );
        for step in &least.steps {
            text += &format!("    {}\n", serde_json::to_string(step).unwrap_or_default());
        }
        let again = match &args.case {
            Some(file) => format!("--case {}", file.display()),
            None => format!("--seed {} --commands {}", least.seed, args.commands),
        };
        text += &format!("  again: callboard simulate {again} (version {})\n", env!("CARGO_PKG_VERSION"));
    }
    let Counts { commands, decisions, lines, swaps, victims, lookups, stops, restarts, snapshots } = sum.counts;
    let rate = sum.worlds as f64 / took.as_secs_f64().max(1e-9);
    text += &format!(
        "{} in {:.1} s ({rate:.0}/s): {}, {}, {}, {}, {}, {}, {} given up, {}, {snapshots} of them from a snapshot; digest {:016x}\n",
        plural(sum.worlds, "world"),
        took.as_secs_f64(),
        plural(commands, "command"),
        plural(decisions, "decision"),
        plural(swaps, "replacement"),
        plural(victims, "victim"),
        plural(lines, "line"),
        plural(lookups, "look-up"),
        plural(stops, "session"),
        plural(restarts, "restart"),
        sum.digest
    );
    text += &match sum.broken.len() {
        0 => "every rule held\n".to_owned(),
        broken => format!("{broken} of them broke a rule\n"),
    };
    text
}

fn of_json(sum: &Sum, took: Duration) -> serde_json::Value {
    let broken = sum.broken.iter().map(|Broken { fault, after, least }| {
        json!({ "seed": least.seed, "rule": fault.rule, "text": fault.text, "after": after, "case": least })
    });
    let Counts { commands, decisions, lines, swaps, victims, lookups, stops, restarts, snapshots } = sum.counts;
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "worlds": sum.worlds,
        "seconds": took.as_secs_f64(),
        "digest": format!("{:016x}", sum.digest),
        "commands": commands,
        "decisions": decisions,
        "lines": lines,
        "replacements": swaps,
        "victims": victims,
        "lookups": lookups,
        "sessionsGivenUp": stops,
        "restarts": restarts,
        "fromSnapshots": snapshots,
        "broken": broken.collect::<Vec<_>>(),
    })
}
