//! `callboard bench`: drives shapes at core, HTTP or gRPC depth and reports what they cost.

pub mod answers;
pub mod bare;
pub mod beside;
pub mod compare;
pub mod core;
pub mod doors;
pub mod drive;
pub mod measure;
pub mod shapes;
pub mod sweep;
pub mod table;
pub mod traces;
pub mod workload;

use std::{
    fs,
    path::PathBuf,
    process::{ExitCode, Stdio},
    time::Duration,
};

use anyhow::{Context as _, Result, bail};
use clap::{Args, ValueEnum};
use measure::Outcome;
use shapes::{Beside, Kind, Shape, ShapeId};
use sweep::{Axis, Point};
use workload::Workload;

use super::{Misused, out, url};
use super::{
    client::{DoorKind, server::Server, trust::Trust},
    process,
};

/// How deep into the server a workload goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Depth {
    /// The partition's actor in process, no sockets
    #[default]
    Core,
    /// Through the HTTP door
    Http,
    /// Through the gRPC door
    Grpc,
}

/// Measure shapes of work
#[derive(Args, Clone, Debug)]
pub struct BenchArgs {
    /// Shape to run; may be given several times
    #[arg(long, value_enum, required_unless_present_any = ["all", "growth", "core_child"])]
    pub shape: Vec<ShapeId>,
    /// Run every shape of this depth, and write their table into --docs; at core depth the curves, too
    #[arg(long, conflicts_with = "shape")]
    pub all: bool,
    /// Measure how the cost of an allocation grows, and write curves and figures into --docs
    #[arg(long, conflicts_with_all = ["shape", "endpoint", "compare"])]
    pub growth: bool,
    /// A curve of --growth by a part of its name; only such are measured, and printed
    #[arg(long, value_name = "NAME", requires = "growth")]
    pub curve: Vec<String>,
    /// Where to drive them
    #[arg(long, value_enum, default_value_t)]
    pub depth: Depth,
    /// Nodes, instead of the shape's own number
    #[arg(long, value_parser = positive)]
    pub nodes: Option<usize>,
    /// Asks, instead of the shape's own number
    #[arg(long, value_parser = positive)]
    pub asks: Option<usize>,
    /// Leaf queues, instead of the shape's own number
    #[arg(long, value_parser = positive)]
    pub queues: Option<usize>,
    /// Applications per queue, instead of the shape's own number
    #[arg(long, value_parser = positive)]
    pub apps: Option<usize>,
    /// Allocations that run already, instead of the shape's own number
    #[arg(long, value_parser = positive)]
    pub running: Option<usize>,
    /// How many messages the session has had before, instead of the shape's own number; with
    /// --growth, the most of its curve; 100000 with --all unless told otherwise
    #[arg(long, value_parser = positive)]
    pub lines: Option<usize>,
    /// Resource managers that do the same at the same time, each with nodes of its own; needs a door
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub managers: u32,
    /// How many seconds the churn shapes go on
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub seconds: u64,
    /// Runs of each shape; the median is told, with the range of all [default: 1, 3 with --all, 5 with --compare]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub runs: Option<u32>,
    /// Address of a running server of the interface si.v1; its CPU and memory are measured where --pid names it
    #[arg(long, value_name = "URL", value_parser = url::option)]
    pub endpoint: Option<String>,
    /// Process of the server at --endpoint, on this machine
    #[arg(long, value_name = "PID", requires = "endpoint")]
    pub pid: Option<u32>,
    /// Another callboard program, such as the one before a change: each shape is run with both in turn, and the ratios are
    /// told, with where they lie in 95 of 100 draws of the runs
    #[arg(long, value_name = "PROGRAM", conflicts_with_all = ["all", "endpoint"])]
    pub compare: Option<PathBuf>,
    /// Folder with the openb and dlrm trace files, for S13
    #[arg(long, value_name = "DIR")]
    pub traces: Option<PathBuf>,
    /// Print a list of JSON objects instead of a table
    #[arg(long)]
    pub json: bool,
    /// Folder that --all writes into
    #[arg(long, value_name = "DIR", default_value = "docs")]
    pub docs: PathBuf,
    /// Run this one workload at core depth and print its outcomes as JSON
    #[arg(long, hide = true, value_name = "JSON")]
    pub core_child: Option<String>,
    #[command(flatten)]
    pub trust: Trust,
}

/// What --all takes for --lines: ten million messages, the shape's own number, take half an hour to make, and are made
/// for each run.
const LINES_OF_ALL: usize = 100_000;

impl BenchArgs {
    fn lines(&self) -> Option<usize> {
        self.lines.or(self.all.then_some(LINES_OF_ALL))
    }

    /// One small shape.
    #[cfg(test)]
    fn small() -> BenchArgs {
        tests::args(&["--shape", "S1", "--nodes", "7", "--asks", "70"]).expect("they are right")
    }
}

fn positive(text: &str) -> Result<usize, String> {
    let number = text.parse().ok().filter(|number| (1..=50_000_000).contains(number));
    number.ok_or_else(|| "expected a whole number from 1 to 50000000".to_owned())
}

/// `callboard bench`.
pub fn run(args: &BenchArgs) -> Result<ExitCode> {
    let length = Duration::from_secs(args.seconds);
    if let Some(shape) = &args.core_child {
        let shape: Shape = serde_json::from_str(shape).context("not a shape")?;
        out::print(format_args!("{}\n", serde_json::to_string(&in_process(&shape, length)?)?))?;
        return Ok(ExitCode::SUCCESS);
    }
    if args.endpoint.is_some() && args.depth == Depth::Core {
        bail!(Misused("--endpoint needs a door: add --depth http or --depth grpc".into()));
    }
    if let Some(pid) = args.pid
        && process::cpu_seconds(pid).is_none()
    {
        bail!("--pid {pid}: no process of this number can be looked at on this machine");
    }
    let chosen = chosen(args)?;
    if let Some(other) = &args.compare {
        let compared = compare::run(args, other, &chosen)?;
        match args.json {
            true => out::print(format_args!("{}\n", serde_json::to_string_pretty(&compared)?))?,
            false => out::print(compare::text(&compared))?,
        }
        return Ok(ExitCode::SUCCESS);
    }
    let mut outcomes = Vec::new();
    for id in chosen {
        for shape in shapes_of(args, id)? {
            out::note(format_args!("{}: {} …", shape.name, shape.about));
            outcomes.extend(medians(args, &shape).with_context(|| shape.name.clone())?);
        }
        if id == ShapeId::S13 {
            outcomes.extend(traces::run(args)?);
        }
    }
    if args.all {
        // Curves take long: what is measured so far is not lost with them.
        document(args, &outcomes, &[])?;
    }
    let points = if args.growth || args.all && args.depth == Depth::Core { grown(args)? } else { Vec::new() };
    if args.curve.is_empty() && !points.is_empty() {
        document(args, &outcomes, &points)?;
    }
    if args.growth && !args.all {
        out::print(sweep::markdown(&points))?;
        return Ok(ExitCode::SUCCESS);
    }
    if args.json {
        out::print(format_args!("{}\n", serde_json::to_string_pretty(&outcomes)?))?;
    } else {
        out::print(table::text(&outcomes))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn chosen(args: &BenchArgs) -> Result<Vec<ShapeId>> {
    let traces = args.traces.is_some() && args.depth != Depth::Core && args.endpoint.is_none();
    if args.all {
        // The traces have to be named, and what goes on beside S16 needs the HTTP door of an own server.
        let fits = |id: &ShapeId| {
            id.is_for(args.depth)
                && match id {
                    ShapeId::S13 => traces,
                    ShapeId::S16 => args.endpoint.is_none(),
                    _ => true,
                }
        };
        return Ok(ShapeId::value_variants().iter().copied().filter(fits).collect());
    }
    if args.shape.contains(&ShapeId::S13) && !traces {
        bail!(Misused(
            "S13 plays traces through a door of its own server: add --traces DIR and --depth http or grpc".into()
        ));
    }
    if args.shape.contains(&ShapeId::S16) && args.endpoint.is_some() {
        bail!(Misused("S16 reads the HTTP door of its own server: leave --endpoint out".into()));
    }
    if let Some(id) = args.shape.iter().find(|id| !id.is_for(args.depth)) {
        match id {
            ShapeId::Limit => bail!(Misused("limit is work without a door: leave --depth out".into())),
            id => bail!(Misused(format!("{} needs a session: add --depth http or --depth grpc", id.name()).into())),
        }
    }
    if args.managers > 1 && args.depth == Depth::Core {
        bail!(Misused("--managers needs a door: add --depth http or --depth grpc".into()));
    }
    Ok(args.shape.clone())
}

fn shapes_of(args: &BenchArgs, id: ShapeId) -> Result<Vec<Shape>> {
    let mut shapes = id.shapes();
    for shape in &mut shapes {
        shape.nodes = args.nodes.unwrap_or(shape.nodes);
        shape.asks = args.asks.unwrap_or(shape.asks);
        shape.queues = args.queues.unwrap_or(shape.queues);
        shape.apps = args.apps.unwrap_or(shape.apps);
        shape.running = args.running.unwrap_or(shape.running);
        // With all of them, those that are about the age of a session.
        if shape.lines > 0 || !args.all {
            shape.lines = args.lines().unwrap_or(shape.lines);
        }
        if shape.queues > 10_000 {
            bail!(Misused(
                format!("--queues {}: 10000 at most, since queue names have four digits", shape.queues).into()
            ));
        }
    }
    Ok(shapes)
}

/// Runs a shape as often as wanted; a shape of several parts gives the median of each.
fn medians(args: &BenchArgs, shape: &Shape) -> Result<Vec<Outcome>> {
    let runs = args.runs.unwrap_or(if args.all { 3 } else { 1 });
    let mut parts: Vec<Vec<Outcome>> = Vec::new();
    for _ in 0..runs {
        for (at, part) in outcome(args, shape)?.into_iter().enumerate() {
            match parts.get_mut(at) {
                Some(runs) => runs.push(part),
                None => parts.push(vec![part]),
            }
        }
    }
    Ok(parts.into_iter().filter_map(measure::median).collect())
}

fn outcome(args: &BenchArgs, shape: &Shape) -> Result<Vec<Outcome>> {
    match args.depth {
        Depth::Core => in_child(shape, args.seconds),
        Depth::Http => through(args, shape, DoorKind::Http),
        Depth::Grpc => through(args, shape, DoorKind::Grpc),
    }
}

/// At core depth, in this process.
pub fn in_process(shape: &Shape, churn: Duration) -> Result<Vec<Outcome>> {
    let work = Workload::of(shape);
    if shape.kind == Kind::Bare {
        return Ok(vec![bare::run(&work)?]);
    }
    actix::System::new().block_on(async {
        let mut rig = core::start(&work)?;
        let outcomes = drive::run(&work, &mut rig, churn).await;
        rig.target.stop().await?;
        outcomes
    })
}

/// At core depth, in a process of its own, so that one workload's memory is not another's.
fn in_child(shape: &Shape, seconds: u64) -> Result<Vec<Outcome>> {
    let program = std::env::current_exe().context("own program file cannot be found")?;
    let shape = serde_json::to_string(shape)?;
    let child = std::process::Command::new(program)
        .args(["bench", "--core-child", &shape, "--seconds", &seconds.to_string()])
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .context("the measuring process cannot be started")?;
    if !child.status.success() {
        bail!("the measuring process failed ({})", child.status);
    }
    serde_json::from_slice(&child.stdout).context("the measuring process printed no outcome")
}

fn through(args: &BenchArgs, shape: &Shape, door: DoorKind) -> Result<Vec<Outcome>> {
    let work = Workload::of(shape);
    let runtime = match shape.kind {
        // One thing after another: a second thread would only add wake-ups to what is measured.
        Kind::OneByOne => tokio::runtime::Builder::new_current_thread().enable_all().build()?,
        _ => tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?,
    };
    tokio::task::LocalSet::new().block_on(&runtime, async {
        let server = match &args.endpoint {
            Some(_) => None,
            None if shape.beside.contains(&Beside::Streams) => Some(Server::start(&beside::STREAMS_ALLOWED).await?),
            None => Some(Server::start(&[]).await?),
        };
        let url = match (&server, &args.endpoint) {
            (Some(server), _) if door == DoorKind::Grpc => server.grpc.clone(),
            (Some(server), _) => server.http.clone(),
            (None, endpoint) => endpoint.clone().unwrap_or_default(),
        };
        let pid = server.as_ref().map(Server::pid).or(args.pid);
        let one = async |number: u32| {
            let rm = format!("callboard-bench-{}-{number}", std::process::id());
            let mut rig = doors::start(&work, door, &url, &args.trust, pid, rm).await?;
            let outcomes = drive::run(&work, &mut rig, Duration::from_secs(args.seconds)).await;
            let stopped = rig.target.stop().await;
            let outcomes = outcomes?;
            stopped.map(|()| outcomes)
        };
        let outcomes = async {
            let Some(http) = server.as_ref().map(|server| &server.http).filter(|_| !shape.beside.is_empty()) else {
                return futures::future::try_join_all((1..=args.managers).map(one)).await.map(together);
            };
            let load = beside::start(shape, http, &args.trust)?;
            let outcomes = futures::future::try_join_all((1..=args.managers).map(one)).await;
            let read = load.stop().await;
            let mut outcomes = together(outcomes?);
            if let Some(outcome) = outcomes.last_mut() {
                outcome.beside = read?;
            }
            Ok(outcomes)
        };
        let outcomes = outcomes.await;
        let Some(server) = server else { return outcomes };
        let log = server.log();
        server.stop().await?;
        outcomes.map_err(
            |error| if log.is_empty() { error } else { error.context(format!("the server's log ends with{log}")) },
        )
    })
}

/// The parts of a shape, each of all resource managers together.
fn together(managers: Vec<Vec<Outcome>>) -> Vec<Outcome> {
    let mut parts: Vec<Vec<Outcome>> = Vec::new();
    for (at, part) in managers.into_iter().flat_map(|parts| parts.into_iter().enumerate()) {
        match parts.get_mut(at) {
            Some(part_of_all) => part_of_all.push(part),
            None => parts.push(vec![part]),
        }
    }
    parts.into_iter().filter_map(Outcome::together).collect()
}

/// Writes the table into `performance.md`, and the plot of how the cost grows where that was measured.
fn document(args: &BenchArgs, outcomes: &[Outcome], points: &[Point]) -> Result<()> {
    let depth = args.depth.to_possible_value().map_or(String::new(), |value| value.get_name().to_owned());
    let file = args.docs.join("performance.md");
    fs::create_dir_all(&args.docs).with_context(|| args.docs.display().to_string())?;
    let mut text = match fs::read_to_string(&file) {
        Ok(text) => text,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => "# Performance\n".to_owned(),
        Err(e) => return Err(e).with_context(|| file.display().to_string()),
    };
    if args.all {
        text = table::replace_section(&text, &depth, &table::markdown(outcomes));
    }
    if !points.is_empty() {
        let plot = args.docs.join("performance.svg");
        fs::write(&plot, sweep::svg(points)?).with_context(|| plot.display().to_string())?;
        let title =
            "![Cost of an allocation against what grows: nodes, queues, applications and more](performance.svg)";
        text = table::replace_section(&text, "growth", &format!("{title}\n\n{}", sweep::markdown(points)));
    }
    fs::write(&file, text).with_context(|| file.display().to_string())?;
    out::note(format_args!("{} was written", file.display()));
    Ok(())
}

/// A session of at least so many messages is made once.
const ONCE: usize = 1_000_000;

fn grown(args: &BenchArgs) -> Result<Vec<Point>> {
    let wanted = |axis: &Axis| args.curve.is_empty() || args.curve.iter().any(|part| axis.name().contains(part));
    let axes: Vec<Axis> = Axis::ALL.into_iter().filter(wanted).collect();
    if axes.is_empty() {
        let names = Axis::ALL.map(Axis::name).join(", ");
        bail!(Misused(format!("--curve {}: there is none; the curves are: {names}", args.curve.join(" ")).into()));
    }
    let mut points = Vec::new();
    for axis in axes {
        // A session is what a door has.
        let args = BenchArgs { depth: axis.depth(), ..args.clone() };
        for value in axis.points() {
            let is_asked_for = axis != Axis::Age || args.lines().is_none_or(|most| value <= most);
            let Some(shape) = axis.shape(value).filter(|_| is_asked_for) else { continue };
            let runs = if axis == Axis::Age && value >= ONCE { Some(1) } else { args.runs };
            let args = BenchArgs { runs, ..args.clone() };
            out::note(format_args!("{value} {} …", axis.name()));
            let outcomes = medians(&args, &shape)?;
            points.extend(outcomes.first().map(|outcome| Point::of(axis, value, outcome)));
        }
    }
    Ok(points)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        args: BenchArgs,
    }

    pub fn args(more: &[&str]) -> Result<BenchArgs, clap::Error> {
        Command::try_parse_from(["bench"].iter().chain(more)).map(|command| command.args)
    }

    #[test]
    fn sizes_can_be_overridden() {
        let shape = shapes_of(&BenchArgs::small(), ShapeId::S1).unwrap().remove(0);
        assert_eq!((shape.nodes, shape.asks, shape.queues), (7, 70, 2));
        let lines = |id, more: &[&str]| shapes_of(&args(more).unwrap(), id).unwrap()[0].lines;
        assert_eq!(lines(ShapeId::S15, &["--shape", "S15"]), 10_000_000);
        assert_eq!(lines(ShapeId::S15, &["--all"]), LINES_OF_ALL);
        assert_eq!(lines(ShapeId::S15, &["--all", "--lines", "7"]), 7);
        assert_eq!(lines(ShapeId::S1, &["--all"]), 0, "what is not about the age of a session has a young one");
    }

    #[test]
    fn what_cannot_be_run_is_refused() {
        assert!(args(&[]).is_err());
        assert!(args(&["--shape", "S99"]).is_err());
        assert!(args(&["--shape", "S1", "--nodes", "0"]).is_err());
        let refused = |more: &[&str]| run(&args(more).unwrap()).unwrap_err().to_string();
        assert!(refused(&["--shape", "S13"]).contains("--traces DIR"));
        assert!(refused(&["--shape", "S15"]).contains("--depth grpc"));
        assert!(refused(&["--shape", "limit", "--depth", "http"]).contains("leave --depth out"));
        assert!(refused(&["--shape", "S1", "--managers", "2"]).contains("--managers needs a door"));
        assert!(refused(&["--growth", "--curve", "moons"]).contains("possible victims"));
        let elsewhere = ["--shape", "S16", "--depth", "http", "--endpoint", "http://127.0.0.1:1"];
        assert!(refused(&elsewhere).contains("leave --endpoint out"));
        assert!(refused(&["--shape", "S1", "--endpoint", "http://127.0.0.1:1"]).contains("--depth http"));
        let door = ["--shape", "S1", "--depth", "grpc", "--endpoint", "http://127.0.0.1:1", "--pid", "4294967294"];
        assert!(refused(&door).contains("--pid 4294967294"));
        assert!(args(&["--shape", "S1", "--pid", "1"]).is_err());
    }

    /// Every kind of shape, small, through the real actor.
    #[test]
    fn small_shapes_run_at_core_depth() {
        for id in ShapeId::value_variants().iter().filter(|id| id.is_for(Depth::Core)) {
            let Some(shape) = id.shape() else { continue };
            let kind = match shape.kind {
                Kind::Preempting(_) => Kind::Preempting(200),
                kind => kind,
            };
            let (queues, apps) = (shape.queues.min(5), shape.apps.min(2));
            let running = shape.running.min(300);
            let shape = Shape { nodes: 20, asks: 200, queues, apps, kind, running, ..shape };
            let outcomes = in_process(&shape, Duration::from_secs(2)).unwrap_or_else(|e| panic!("{id:?}: {e:#}"));
            let churns = *id == ShapeId::S10;
            for outcome in &outcomes {
                assert_eq!(outcome.allocations, outcome.asks, "{id:?}");
                assert!(outcome.asks == 200 || churns, "{id:?}");
                assert!(outcome.latency_ms.p50 > 0.0 && outcome.latency_ms.p999 >= outcome.latency_ms.p50);
            }
            assert_eq!(outcomes.len(), if *id == ShapeId::S5 { 2 } else { 1 });
        }
    }
}
