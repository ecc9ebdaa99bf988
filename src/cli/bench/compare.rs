//! `callboard bench --compare PROGRAM`: this program and another one, in turn on the same machine, and the ratios of what they
//! measured. What else the machine does meanwhile meets both, so a ratio says more than two figures taken apart.

use std::{
    path::Path,
    process::{Command, Stdio},
};

use anyhow::{Context as _, Result, bail};
use clap::ValueEnum;
use rand::{RngExt as _, SeedableRng as _, rngs::StdRng};
use serde::Serialize;

use super::{BenchArgs, measure::Outcome, shapes::ShapeId};
use crate::cli::out;

/// Runs of each program, where nothing else is said.
pub const RUNS: u32 = 5;
/// How often runs are drawn anew for an interval.
const DRAWS: usize = 2_000;
/// An interval holds this part of what was drawn.
const WITHIN: f64 = 0.95;

/// What two programs measured of one shape.
#[derive(Debug, Serialize)]
pub struct Compared {
    /// Shape, with what it is.
    pub shape: String,
    /// Runs of each program.
    pub runs: usize,
    /// Allocations per second of wall time.
    pub allocations_per_second: Ratio,
    /// Allocations per CPU second of the server.
    pub allocations_per_cpu_second: Option<Ratio>,
    /// Latency of which 99 of 100 have at most so much, in milliseconds.
    pub p99_ms: Ratio,
}

/// Medians of both, and the first by the second.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Ratio {
    /// Median of this program.
    pub this: f64,
    /// Median of the other one.
    pub other: f64,
    /// The first by the second.
    pub ratio: f64,
    /// Where the ratio lies in 95 of 100 draws of as many pairs of runs out of those that there were (bootstrap).
    pub interval: [f64; 2],
}

impl Ratio {
    /// Of pairs of runs, this program first. `None` of no runs.
    fn of(pairs: &[(f64, f64)]) -> Option<Ratio> {
        let (this, other) = medians(pairs.iter().copied())?;
        // The same draws for the same figures.
        let mut random = StdRng::seed_from_u64(1);
        let draw = |_| medians((0..pairs.len()).map(|_| pairs[random.random_range(0..pairs.len())]));
        let mut drawn: Vec<f64> = (0..DRAWS).filter_map(draw).map(|(this, other)| this / other).collect();
        drawn.sort_by(f64::total_cmp);
        let at = |part: f64| drawn[((drawn.len() - 1) as f64 * part).round() as usize];
        let interval = [at((1.0 - WITHIN) / 2.0), at((1.0 + WITHIN) / 2.0)];
        Some(Ratio { this, other, ratio: this / other, interval })
    }

    fn text(&self) -> String {
        let [low, high] = self.interval;
        format!("{:.2} ({low:.2}–{high:.2})", self.ratio)
    }
}

fn medians(pairs: impl Iterator<Item = (f64, f64)>) -> Option<(f64, f64)> {
    let (mut this, mut other): (Vec<f64>, Vec<f64>) = pairs.unzip();
    Some((median(&mut this)?, median(&mut other)?))
}

fn median(values: &mut [f64]) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => None,
        even if even % 2 == 0 => Some(f64::midpoint(values[middle - 1], values[middle])),
        _ => Some(values[middle]),
    }
}

/// Runs the shapes with both programs in turn: this, other, other, this.
pub fn run(args: &BenchArgs, other: &Path, shapes: &[ShapeId]) -> Result<Vec<Compared>> {
    let this = std::env::current_exe().context("own program file cannot be found")?;
    let mut compared = Vec::new();
    for shape in shapes {
        let mut runs: Vec<[Vec<Outcome>; 2]> = Vec::new();
        for run in 0..args.runs.unwrap_or(RUNS) {
            out::note(format_args!("{}: run {} of both …", shape.name(), run + 1));
            let pair = if run % 2 == 0 {
                let first = outcomes(args, &this, *shape)?;
                [first, outcomes(args, other, *shape)?]
            } else {
                let first = outcomes(args, other, *shape)?;
                [outcomes(args, &this, *shape)?, first]
            };
            runs.push(pair);
        }
        compared.extend(parts(&runs)?);
    }
    Ok(compared)
}

/// Runs a shape once, as it was asked for.
fn command(args: &BenchArgs, program: &Path, shape: ShapeId) -> Command {
    let depth = args.depth.to_possible_value().map_or(String::new(), |value| value.get_name().to_owned());
    let sizes = [
        ("--nodes", args.nodes),
        ("--asks", args.asks),
        ("--queues", args.queues),
        ("--apps", args.apps),
        ("--running", args.running),
        ("--lines", args.lines),
        ("--managers", (args.managers > 1).then_some(args.managers as usize)),
    ];
    let mut command = Command::new(program);
    command.args(["bench", "--json", "--shape", &shape.name(), "--depth", &depth]);
    command.args(["--seconds", &args.seconds.to_string()]);
    for (name, size) in sizes {
        size.map(|size| command.args([name, &size.to_string()]));
    }
    args.traces.as_ref().map(|traces| command.arg("--traces").arg(traces));
    command
}

/// One run of one program.
fn outcomes(args: &BenchArgs, program: &Path, shape: ShapeId) -> Result<Vec<Outcome>> {
    let name = program.display();
    let mut command = command(args, program, shape);
    let ran = command.stdin(Stdio::null()).output().with_context(|| format!("{name} cannot be started"))?;
    if !ran.status.success() {
        let said = String::from_utf8_lossy(&ran.stderr);
        bail!("{name} bench --shape {} failed ({}): {}", shape.name(), ran.status, said.trim());
    }
    serde_json::from_slice(&ran.stdout)
        .with_context(|| format!("{name} bench --json printed something else than outcomes: is it a callboard?"))
}

/// Each part of a shape by itself, such as placeholders and their replacement.
fn parts(runs: &[[Vec<Outcome>; 2]]) -> Result<Vec<Compared>> {
    let Some([first, _]) = runs.first() else { return Ok(Vec::new()) };
    let mut compared = Vec::new();
    for (at, part) in first.iter().enumerate() {
        let shape = format!("{} {}", part.shape, part.about);
        let pairs: Option<Vec<[&Outcome; 2]>> =
            runs.iter().map(|[this, other]| Some([this.get(at)?, other.get(at)?])).collect();
        let Some(pairs) = pairs else { bail!("{shape}: the other program measured fewer parts") };
        let ratio = |of: &dyn Fn(&Outcome) -> Option<f64>| {
            let pairs: Option<Vec<(f64, f64)>> = pairs.iter().map(|[a, b]| Some((of(a)?, of(b)?))).collect();
            Ratio::of(&pairs?)
        };
        let wall = ratio(&|outcome| Some(outcome.allocations_per_second));
        let late = ratio(&|outcome| Some(outcome.latency_ms.p99));
        let (Some(allocations_per_second), Some(p99_ms)) = (wall, late) else { continue };
        let allocations_per_cpu_second = ratio(&|outcome| outcome.allocations_per_cpu_second);
        let runs = pairs.len();
        compared.push(Compared { shape, runs, allocations_per_second, allocations_per_cpu_second, p99_ms });
    }
    Ok(compared)
}

/// A table for a terminal.
pub fn text(compared: &[Compared]) -> String {
    let row = |one: &Compared| {
        let per_cpu = one.allocations_per_cpu_second.map_or("–".to_owned(), |ratio| ratio.text());
        [one.shape.clone(), one.allocations_per_second.text(), per_cpu, one.p99_ms.text()]
    };
    let mut rows = vec![["shape", "allocations/s", "per CPU-s", "p99"].map(str::to_owned)];
    rows.extend(compared.iter().map(row));
    let mut text = out::aligned(&rows, 1);
    if let Some(one) = compared.first() {
        text.push_str(&format!(
            "\nthis program by the other one: medians of {} runs each in turn; in brackets where 95 of 100 draws of these runs lie\n",
            one.runs
        ));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_of_pairs_and_where_their_ratio_lies() {
        assert_eq!(Ratio::of(&[]), None);
        let same = Ratio::of(&[(2.0, 1.0); 5]).unwrap();
        assert_eq!((same.this, same.other, same.ratio, same.interval), (2.0, 1.0, 2.0, [2.0, 2.0]));
        let pairs = [(100.0, 100.0), (90.0, 110.0), (110.0, 90.0), (105.0, 95.0)];
        let spread = Ratio::of(&pairs).unwrap();
        assert_eq!((spread.this, spread.other), (102.5, 97.5));
        let [low, high] = spread.interval;
        assert!(low < 1.0 && high > spread.ratio && low >= 90.0 / 110.0 && high <= 110.0 / 90.0, "{spread:?}");
        assert_eq!(Ratio::of(&pairs), Some(spread), "the same figures give the same interval");
    }

    #[test]
    fn both_programs_are_given_every_size() {
        let args = BenchArgs { running: Some(3), lines: Some(40), managers: 2, ..BenchArgs::small() };
        let command = command(&args, Path::new("callboard"), ShapeId::S1);
        let words: Vec<&str> = command.get_args().filter_map(|word| word.to_str()).collect();
        let sizes = ["--nodes", "7", "--asks", "70", "--running", "3", "--lines", "40", "--managers", "2"];
        assert!(words.ends_with(&sizes), "{words:?}");
    }

    #[test]
    fn what_is_no_callboard_is_named() {
        let args = BenchArgs::small();
        let error = outcomes(&args, Path::new("/no/such/program"), ShapeId::S1).unwrap_err();
        assert!(format!("{error:#}").starts_with("/no/such/program cannot be started"), "{error:#}");
        let error = outcomes(&args, Path::new("/bin/false"), ShapeId::S1).unwrap_err();
        assert!(format!("{error:#}").contains("/bin/false bench --shape S1 failed"), "{error:#}");
        let error = outcomes(&args, Path::new("/bin/true"), ShapeId::S1).unwrap_err();
        assert!(format!("{error:#}").contains("is it a callboard?"), "{error:#}");
    }
}
