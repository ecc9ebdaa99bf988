//! S13: the traces in a folder, replayed at full speed through a door.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use clap::Parser;

use super::{
    BenchArgs, Depth,
    measure::{Latency, Outcome},
};
use crate::cli::{
    out, process,
    replay::{self, ReplayArgs, summary::Pace},
};

/// Reads the arguments of a replay from their defaults.
#[derive(Parser)]
struct Replay {
    #[command(flatten)]
    args: ReplayArgs,
}

/// Replays the traces of `--traces`.
pub fn run(args: &BenchArgs) -> Result<Vec<Outcome>> {
    let Some(folder) = &args.traces else { bail!("S13 needs --traces DIR") };
    let door = if args.depth == Depth::Grpc { "grpc" } else { "http" };
    let nodes = find(folder, "openb_node_list")?;
    let pods = find(folder, "openb_pod_list")?;
    let instances = find(folder, "disaggregated_DLRM_trace")?;
    let openb = [&["--trace", "openb", "--nodes", &nodes, "--pods", &pods][..], &["--door", door]].concat();
    let dlrm = [&["--trace", "dlrm", "--pods", &instances][..], &["--door", door]].concat();
    [("S13 openb", openb), ("S13 dlrm", dlrm)].into_iter().map(|(name, line)| one(name, &line, door)).collect()
}

/// The first file in name order whose name begins so.
fn find(folder: &Path, start: &str) -> Result<String> {
    let entries = std::fs::read_dir(folder).with_context(|| folder.display().to_string())?;
    let mut files: Vec<PathBuf> = entries
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .filter(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(start)))
        .filter(|path| path.extension().is_some_and(|extension| extension == "csv"))
        .collect();
    files.sort();
    let Some(file) = files.first() else { bail!("{}: there is no file {start}*.csv", folder.display()) };
    file.to_str().map(str::to_owned).with_context(|| format!("{}: the name is not UTF-8", file.display()))
}

fn one(name: &str, line: &[&str], door: &str) -> Result<Outcome> {
    out::note(format_args!("{name} …"));
    let args = Replay::try_parse_from(["replay"].iter().chain(line))?.args;
    let trace = replay::load(&args)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let own = process::cpu_seconds(std::process::id());
    let replayed = runtime.block_on(replay::replay(&args, &trace))?;
    if let Some(error) = replayed.error {
        return Err(error.context(name.to_owned()));
    }
    let summary = replayed.summary;
    let pace = Pace::of(summary.placed, replayed.took);
    let spent = process::cpu_seconds(std::process::id()).zip(own).map(|(now, then)| now - then);
    let [half, most, _] = summary.wait_ms;
    Ok(Outcome {
        shape: name.to_owned(),
        about: "real trace, waits in trace time".to_owned(),
        depth: door.to_owned(),
        nodes: summary.nodes,
        queues: trace.queues().len(),
        applications: summary.applications,
        asks: summary.asks,
        allocations: summary.placed,
        seconds: pace.seconds,
        allocations_per_second: pace.allocations_per_second,
        allocations_per_second_range: [pace.allocations_per_second; 2],
        runs: 1,
        allocations_per_cpu_second: replayed.server_cpu.map(|cpu| summary.placed as f64 / cpu.max(0.01)),
        latency_ms: Latency { p50: half as f64, p99: most as f64, p999: summary.wait_p999_ms as f64 },
        peak_rss_bytes: replayed.server_memory,
        bytes_per_allocation: None,
        generator_cpu_share: spent.map(|spent| spent / pace.seconds.max(1e-9)),
        // The replay waits for the server to be quiet between moments: neither of them sets the pace alone.
        generator_was_the_bottleneck: false,
        beside: Vec::new(),
        machine: process::machine(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
    })
}
