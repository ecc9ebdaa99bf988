//! `callboard replay`: plays a trace of asks and tells what came of it: in process, on the trace's own clock, or through the
//! shim API of a real server, as a resource manager of its own.

pub mod ahead;
pub mod books;
pub mod calibration;
pub mod config;
pub mod dlrm;
pub mod gangs;
pub mod generate;
pub mod leftovers;
pub mod native;
pub mod openb;
pub mod player;
pub mod plot;
pub mod reasons;
pub mod record;
pub mod report;
pub mod simulation;
pub mod summary;
pub mod table;
pub mod trace;
pub mod wire;

use std::{
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};

use anyhow::{Context as _, Result, bail};
use calibration::Estimates;
use clap::{Args, ValueEnum};
use player::{Player, Session, Speed};
use record::Record;
use simulation::Simulation;
use summary::{Pace, Summary};
use trace::Trace;

use super::{Misused, interrupted, out, url};
use super::{
    client::{DoorKind, Shim, http::Api, server::Server, trust::Trust},
    process,
};
use crate::si::v1::RegisterResourceManagerRequest;

/// The trace that comes with the program; `generate` makes it from its seed.
const SHIPPED: &str = include_str!("../../../traces/small.csv");
/// Exit status after Ctrl-C, as shells have it.
const INTERRUPTED: u8 = 130;

/// Play a trace and report what came of it; in process, on a clock of its own, or through the doors of a server
#[derive(Args, Clone, Debug)]
pub struct ReplayArgs {
    /// Kind of trace; without it, the one that comes with the program is played
    #[arg(long, value_enum, requires = "pods")]
    pub trace: Option<TraceKind>,
    /// Node file of an openb trace
    #[arg(long, value_name = "FILE", requires = "trace")]
    pub nodes: Option<PathBuf>,
    /// Pod file of an openb or dlrm trace
    #[arg(long, value_name = "FILE", requires = "trace")]
    pub pods: Option<PathBuf>,
    /// Trace in Callboard's own format (`callboard generate` writes it)
    #[arg(long, value_name = "FILE", conflicts_with = "trace")]
    pub file: Option<PathBuf>,
    /// Play a trace generated from this seed
    #[arg(long, value_name = "SEED", conflicts_with_all = ["trace", "file"])]
    pub generate: Option<u64>,
    /// Play the applications of a dlrm trace as gangs: what an application starts at one moment first asks for
    /// placeholders, with role and shape as task group, and is removed at the end; nothing may be left over then
    #[arg(long, requires = "trace")]
    pub gangs: bool,
    /// Part of the peak demand that the nodes made for a dlrm trace hold
    #[arg(long, default_value = "0.8", value_parser = share)]
    pub share: f64,
    /// Through a door: how many times faster than real time, or max: the clock jumps whenever the server is quiet. With a
    /// number, waits include the real time that an answer takes, so many times over. Delays inside the scheduler, such as
    /// that of reservations, run in real time behind a door at any speed
    #[arg(long, default_value = "max", value_parser = speed, value_name = "N|max")]
    pub speed: Speed,
    /// Queue configuration to register with, instead of a queue for each team of the trace
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Door of a real server to go through. Without it the trace is played in process, where every delay runs in trace
    /// time and the result is always the same; `--server` and a `--speed` with a number go through http. Through a door,
    /// moments in which every ask has its place in any case go out together, and reservations take their delays in real
    /// time: where the trace is contended, a few placements may differ from those in process
    #[arg(long, value_enum)]
    pub door: Option<DoorKind>,
    /// HTTP address of a running server to play against, instead of one started for the replay
    #[arg(long, value_name = "URL", value_parser = url::option)]
    pub server: Option<String>,
    /// gRPC address of that server, for `--door grpc`
    #[arg(long, value_name = "URL", value_parser = url::option, requires = "server")]
    pub grpc: Option<String>,
    /// In process: ask about so many asks that wait when they will be placed, and tell how good the answers were
    #[arg(long, value_name = "COUNT", default_value_t = 0)]
    pub estimates: u32,
    /// In process: reserve no node for asks that wait for room, to see what reservations give and cost
    #[arg(long, conflicts_with_all = ["door", "server", "speed"])]
    pub no_reservations: bool,
    /// Where the HTML report goes
    #[arg(long, value_name = "FILE", default_value = "callboard-report.html")]
    pub report: PathBuf,
    /// Print the summary as JSON
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub trust: Trust,
}

impl ReplayArgs {
    /// The door to go through; `None`: in process.
    fn through(&self) -> Option<DoorKind> {
        let real = self.server.is_some() || self.speed != Speed::Max;
        self.door.or_else(|| real.then(DoorKind::default))
    }
}

/// Kinds of traces that are read from files of others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TraceKind {
    /// A GPU cluster: a node file and a pod file; every pod is an application
    Openb,
    /// Recommendation models in two roles: an instance file; nodes are made
    Dlrm,
}

/// Write a trace made from a seed, in Callboard's own format, to standard output
#[derive(Args, Clone, Debug)]
pub struct GenerateArgs {
    /// The same seed gives the same trace
    #[arg(long, default_value_t = generate::SHIPPED_SEED)]
    pub seed: u64,
    /// How many times larger than the trace that comes with the program
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub size: u32,
}

fn speed(text: &str) -> Result<Speed, String> {
    if text == "max" {
        return Ok(Speed::Max);
    }
    let times = text.parse().ok().filter(|times: &f64| times.is_finite() && *times >= 0.001 && *times <= 1e9);
    times.map(Speed::Times).ok_or_else(|| "expected max, or a number from 0.001 to 1000000000".to_owned())
}

fn share(text: &str) -> Result<f64, String> {
    let share = text.parse().ok().filter(|share: &f64| (0.01..=100.0).contains(share));
    share.ok_or_else(|| "expected a number from 0.01 to 100".to_owned())
}

/// `callboard generate`.
pub fn generate(args: &GenerateArgs) -> Result<ExitCode> {
    let text = generated_text(args.seed, args.size);
    out::print(text).map(|()| ExitCode::SUCCESS).context("the trace cannot be written")
}

/// A generated trace in Callboard's own format, with a comment that tells how it was made.
pub fn generated_text(seed: u64, size: u32) -> String {
    let size_given = if size == 1 { String::new() } else { format!(" --size {size}") };
    let comment = format!(
        "Made by: callboard generate --seed {seed}{size_given}\nA day of three teams on a small cluster; times in seconds."
    );
    native::write(&generate::generate(seed, size), &comment)
}

/// `callboard replay`.
pub fn run(args: &ReplayArgs) -> Result<ExitCode> {
    let trace = load(args)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let replayed = runtime.block_on(replay(args, &trace))?;
    let file = args.report.display();
    // What came of it is told, also where there is no place for the report.
    let written = fs::write(&args.report, replayed.html).with_context(|| format!("{file} cannot be written"));
    let summary = replayed.summary;
    if args.json {
        out::print(format_args!("{}\n", out::escaped(&serde_json::to_string_pretty(&summary)?)))?;
    } else {
        let place = if written.is_ok() { format!("The report is in {file}\n") } else { String::new() };
        out::print(format_args!("{}\n{place}", out::lines(&summary.to_string())))?;
    }
    // What depends on the machine is no part of a result that does not.
    if summary.speed.is_none() {
        out::note(Pace::of(summary.placed, replayed.took));
    }
    if let Some(error) = replayed.error {
        return Err(error);
    }
    written?;
    Ok(match (summary.complete, &summary.disagreement) {
        (false, _) => ExitCode::from(INTERRUPTED),
        (true, Some(_)) => ExitCode::FAILURE,
        (true, None) if !summary.left_over.is_empty() => ExitCode::FAILURE,
        (true, None) => ExitCode::SUCCESS,
    })
}

/// Reads or makes the trace that the arguments ask for.
pub fn load(args: &ReplayArgs) -> Result<Trace> {
    let trace = match (args.trace, &args.pods) {
        (Some(TraceKind::Openb), Some(pods)) => {
            if args.gangs {
                bail!(Misused("every pod of an openb trace is an application of its own: leave out --gangs".into()));
            }
            let Some(nodes) = &args.nodes else {
                bail!(Misused("an openb trace needs a node file: add --nodes FILE".into()))
            };
            openb::read(nodes, pods)?
        }
        (Some(TraceKind::Dlrm), Some(pods)) => {
            if let Some(nodes) = &args.nodes {
                bail!(Misused(format!("a dlrm trace has no node file: leave out --nodes {}", nodes.display()).into()));
            }
            dlrm::read(pods, args.share, args.gangs)?
        }
        _ => match (&args.file, args.generate) {
            (Some(file), _) => {
                let reader = fs::File::open(file).with_context(|| file.display().to_string())?;
                native::read(&file.display().to_string(), file, Box::new(reader))?
            }
            (None, Some(seed)) => generate::generate(seed, 1),
            (None, None) => shipped()?,
        },
    };
    if trace.nodes.is_empty() {
        bail!("the trace {} has no nodes", trace.name);
    }
    if trace.asks.is_empty() {
        bail!("the trace {} has no asks", trace.name);
    }
    Ok(trace)
}

/// The trace that comes with the program.
pub fn shipped() -> Result<Trace> {
    Ok(native::read("the small trace", Path::new("small.csv"), Box::new(SHIPPED.as_bytes()))?)
}

/// What came of a replay.
pub struct Replayed {
    /// In numbers.
    pub summary: Summary,
    /// The report.
    pub html: String,
    /// What ended it before its time.
    pub error: Option<anyhow::Error>,
    /// Real time that the playing took.
    pub took: Duration,
    /// CPU seconds of an own server.
    pub server_cpu: Option<f64>,
    /// Largest resident memory of an own server, bytes.
    pub server_memory: Option<u64>,
}

/// Plays a trace, on a server of its own or a running one, until its end, an error, or Ctrl-C. Afterwards nothing is
/// left behind: the resource manager is unregistered, and an own server stopped.
pub async fn replay(args: &ReplayArgs, trace: &Trace) -> Result<Replayed> {
    let config = match &args.config {
        Some(file) => fs::read_to_string(file).with_context(|| file.display().to_string())?,
        None => config::of(trace),
    };
    let Some(door) = args.through() else { return simulate(args, trace, &config).await };
    let own = match &args.server {
        Some(_) => None,
        None => Some(Server::start(&[]).await?),
    };
    let played = match (&own, &args.server) {
        (Some(server), _) => play(args, door, &Trust::default(), trace, config, (&server.http, &server.grpc)).await,
        (None, Some(url)) => {
            let grpc = args.grpc.as_deref().unwrap_or("");
            play(args, door, &args.trust, trace, config, (url, grpc)).await
        }
        (None, None) => bail!("no server to play against"),
    };
    let Some(server) = own else { return played };
    let log = server.log();
    let (cpu, memory) = (process::cpu_seconds(server.pid()), process::peak_memory(server.pid()));
    server.stop().await?;
    let explain = |error: anyhow::Error| {
        if log.is_empty() { error } else { error.context(format!("the server's log ends with{log}")) }
    };
    let mut played = played.map_err(explain)?;
    played.error = played.error.map(explain);
    (played.server_cpu, played.server_memory) = (cpu, memory);
    Ok(played)
}

async fn simulate(args: &ReplayArgs, trace: &Trace, config: &str) -> Result<Replayed> {
    let mut simulation = Simulation::new(trace, config)?;
    simulation.estimates = (args.estimates > 0).then(|| Estimates::new(trace, args.estimates));
    if args.no_reservations {
        simulation.reserve_nothing();
    }
    let ended = tokio::select! {
        ended = simulation.play() => Some(ended),
        () = interrupted() => None,
    };
    let complete = matches!(ended, Some(Ok(())));
    let mut summary = Summary::of(&simulation.record, None, complete);
    summary.estimates = simulation.estimates.as_ref().map(|estimates| estimates.result);
    let mut error = ended.and_then(Result::err);
    if complete {
        summary.compare(trace, &simulation.record.books.used, &simulation.used());
        match simulation.leave() {
            Ok(left) => summary.left_over = left,
            Err(left) => error = Some(left),
        }
    }
    simulation.record.hide();
    replayed(summary, &simulation.record, error)
}

fn replayed(summary: Summary, record: &Record<'_>, error: Option<anyhow::Error>) -> Result<Replayed> {
    let html = report::html(record.trace, &summary, &record.samples, &record.books.queues)?;
    Ok(Replayed { summary, html, error, took: record.took, server_cpu: None, server_memory: None })
}

async fn play(
    args: &ReplayArgs,
    door: DoorKind,
    trust: &Trust,
    trace: &Trace,
    config: String,
    (http, grpc): (&str, &str),
) -> Result<Replayed> {
    let rm = format!("callboard-replay-{}", std::process::id());
    let api = Api::new(http, trust)?;
    let url = match door {
        DoorKind::Http => http,
        DoorKind::Grpc if grpc.is_empty() => {
            bail!(Misused("the server's gRPC address is not known: add --grpc URL".into()))
        }
        DoorKind::Grpc => grpc,
    };
    let request = RegisterResourceManagerRequest {
        rm_id: rm.clone(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        policy_group: "queues".to_owned(),
        config,
        ..Default::default()
    };
    let (shim, callbacks) = Shim::register(door, url, trust, request).await?;
    let session = Session { shim, callbacks, api, rm };
    let mut player = Player::new(trace, session, args.speed, args.config.is_none() && config::never_limits(trace));
    let ended = tokio::select! {
        ended = player.play() => Some(ended),
        () = interrupted() => None,
    };
    let complete = matches!(ended, Some(Ok(())));
    let mut summary = Summary::of(&player.record, Some(door), complete);
    if complete {
        match player.used_by_server().await {
            Ok(server) => summary.compare(trace, &player.record.books.used, &server),
            Err(error) => summary.not_compared = Some(error.to_string()),
        }
    }
    let left = if complete && trace.gangs.is_some() { player.leave().await } else { Ok(Vec::new()) };
    let error = match (ended, left) {
        (Some(Err(error)), _) | (_, Err(error)) => Some(error),
        (_, Ok(left)) => {
            summary.left_over = left;
            None
        }
    };
    // After an error the session may be gone already; the error is what counts.
    let unregistered = player.unregister().await;
    let error = error.or(unregistered.err());
    replayed(summary, &player.record, error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shipped_trace_is_what_the_generator_makes() {
        assert!(
            SHIPPED == generated_text(generate::SHIPPED_SEED, 1),
            "write it again: callboard generate > traces/small.csv"
        );
        assert_eq!(shipped().unwrap().asks, generate::generate(generate::SHIPPED_SEED, 1).asks);
    }

    #[test]
    fn speeds_and_shares_are_checked() {
        assert_eq!(speed("max"), Ok(Speed::Max));
        assert_eq!(speed("60"), Ok(Speed::Times(60.0)));
        assert!(speed("0").is_err() && speed("fast").is_err() && speed("inf").is_err());
        assert!(share("0.8").is_ok() && share("0").is_err());
    }
}
