//! `callboard flight`: what a log holds, seen again. Logs are only read, also beside a running server.

mod check;
pub mod player;
pub mod redact;
mod serve;
mod show;
pub mod source;
pub mod words;

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{Context as _, bail};
use clap::{Args, Subcommand};
use serde::Serialize;

use self::{
    redact::Redacted,
    source::{Moment, Source, time},
};
use super::{Misused, out, serve::access::AccessArgs};
use crate::{
    actors::rm::replay::Replay,
    domain::{
        types::Nanos,
        words::{either, plural},
    },
    http::ws_v1::time_text,
    store::log::{self, flight::Flight},
};

/// Options of `callboard flight`.
#[derive(Args, Clone, Debug)]
pub struct FlightArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Clone, Debug, Subcommand)]
enum Command {
    /// List the logs of a data directory, and which times they hold
    List(ListArgs),
    /// Write a flight: a stretch of a log, in one file
    Export(ExportArgs),
    /// Show what happened, record by record
    Show(ShowArgs),
    /// Do all of it again, and tell the first record that leads to something else than it did
    Check(CheckArgs),
    /// Serve the web page and REST as they were at a moment, read only
    Serve(Box<ServeArgs>),
}

#[derive(Args, Clone, Debug)]
struct ListArgs {
    /// The data directory of the server
    #[arg(long, value_name = "DIR", env = "CALLBOARD_DATA", default_value = "./callboard-data")]
    data: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Args, Clone, Debug)]
struct ExportArgs {
    /// The data directory of the server
    #[arg(long, value_name = "DIR", env = "CALLBOARD_DATA", default_value = "./callboard-data")]
    data: PathBuf,
    /// The resource manager; may be left out where there is one only
    #[arg(long)]
    rm: Option<String>,
    /// From the last state before this time on, such as 2026-11-21T02:13 (UTC) or 2026-11-21T02:13:00+01:00; from the oldest
    /// state that the log has where it is left out
    #[arg(long, value_name = "TIME", value_parser = time)]
    from: Option<Nanos>,
    /// Up to this time
    #[arg(long, value_name = "TIME", value_parser = time)]
    to: Option<Nanos>,
    /// With stand-ins for the names of users, groups and applications, and for the values of tags
    #[arg(long)]
    redact: bool,
    /// The file
    #[arg(long, short, value_name = "FILE")]
    output: PathBuf,
}

/// Options of `callboard flight show`.
#[derive(Args, Clone, Debug)]
pub struct ShowArgs {
    #[command(flatten)]
    source: Source,
    /// Only the record of this number, or the last one up to this time
    #[arg(long, value_name = "INDEX|TIME")]
    at: Option<Moment>,
    /// Only what names this application, ask, node, queue or user
    #[arg(long, value_name = "ID")]
    object: Option<String>,
    /// Print a JSON object for each record
    #[arg(long)]
    json: bool,
}

/// Options of `callboard flight check`.
#[derive(Args, Clone, Debug)]
pub struct CheckArgs {
    #[command(flatten)]
    source: Source,
}

/// Options of `callboard flight serve`.
#[derive(Args, Clone, Debug)]
pub struct ServeArgs {
    #[command(flatten)]
    source: Source,
    /// The moment: after the record of this number, or at this time; the end where it is left out
    #[arg(long, value_name = "INDEX|TIME")]
    at: Option<Moment>,
    /// Address of the web page and REST
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:9080")]
    http: std::net::SocketAddr,
    #[command(flatten)]
    access: AccessArgs,
}

/// Runs it.
pub fn run(args: FlightArgs) -> anyhow::Result<ExitCode> {
    match args.command {
        Command::List(args) => list(&args),
        Command::Export(args) => export(&args),
        Command::Show(args) => show::run(&args),
        Command::Check(args) => check::run(&args),
        Command::Serve(args) => serve::run(*args),
    }
}

/// A log as it is listed.
#[derive(Serialize)]
struct Row {
    rm: String,
    /// Numbers of the first record that can be seen, and of the last.
    first: u64,
    last: u64,
    /// Their times.
    from: String,
    to: String,
    records: usize,
    bytes: usize,
    /// Where what can be read ends.
    damage: Option<String>,
}

fn list(args: &ListArgs) -> anyhow::Result<ExitCode> {
    let mut rows = Vec::new();
    let mut failed = false;
    for dir in source::directories(&args.data)? {
        match Flight::of_directory(&dir, None, &source::begins) {
            Ok(flight) => {
                let ((first, from), (last, to)) = (flight.first(), flight.last());
                rows.push(Row {
                    rm: flight.title.rm.clone(),
                    first,
                    last,
                    from: time_text(from),
                    to: time_text(to),
                    records: flight.len(),
                    bytes: flight.bytes(),
                    damage: flight.damage.clone(),
                });
            }
            Err(why) => {
                failed = true;
                out::note(format_args!("callboard: {why}"));
            }
        }
    }
    if args.json {
        out::print(format!("{}\n", out::escaped(&serde_json::to_string_pretty(&rows)?)))?;
    } else if rows.is_empty() && !failed {
        out::print(format!("no logs in {}\n", args.data.join("log").display()))?;
    }
    for row in rows.iter().filter(|_| !args.json) {
        let Row { rm, first, last, from, to, records, bytes, damage } = row;
        let rm = out::line(rm);
        let size = words::size(*bytes as u64);
        let damage = damage.as_ref().map_or(String::new(), |damage| format!("; then {damage}"));
        out::print(format!("{rm}: records {first} to {last}, {from} to {to}, {records} of them in {size}{damage}\n"))?;
    }
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn export(args: &ExportArgs) -> anyhow::Result<ExitCode> {
    if let (Some(from), Some(to)) = (args.from, args.to)
        && to < from
    {
        bail!(Misused(format!("--to {} is before --from {}", time_text(to), time_text(from)).into()));
    }
    let dir = source::directory(&args.data, args.rm.as_deref())?;
    let mut flight = stretch(&dir, args.from, args.to)?;
    let mut redacted = "";
    if args.redact {
        let Redacted { flight: without_names, others, .. } = redact::redact(&flight).map_err(anyhow::Error::msg)?;
        flight = without_names;
        redacted = ", redacted";
        if others > 0 {
            out::note(format_args!(
                "callboard: {} {} otherwise under the stand-ins: names decide there",
                plural(others, "record"),
                either(&others, "acts", "act")
            ));
        }
    }
    let bytes = flight.write(&args.output).with_context(|| format!("--output {}", args.output.display()))?;
    let (first, last) = (flight.first(), flight.last());
    out::print(format!(
        "{}: {}, {} to {}, in {}{redacted}\n",
        args.output.display(),
        plural(flight.len(), "record"),
        time_text(first.1),
        time_text(last.1),
        words::size(bytes)
    ))?;
    if let Some(damage) = &flight.damage {
        out::note(format_args!("callboard: what follows cannot be read: {damage}"));
        return Ok(ExitCode::FAILURE);
    }
    Ok(ExitCode::SUCCESS)
}

/// A stretch of a log, from the last state before `from` on.
fn stretch(dir: &Path, from: Option<Nanos>, to: Option<Nanos>) -> anyhow::Result<Flight> {
    let mut flight = Flight::of_directory(dir, from, &source::begins).map_err(anyhow::Error::msg)?;
    if let Some(to) = to {
        if to < flight.first().1 {
            bail!(
                "--to {} is before all that the log has, which begins at {}",
                time_text(to),
                time_text(flight.first().1)
            );
        }
        flight.truncate(flight.up_to_time(to));
    }
    if let Some(snapshot) = &flight.snapshot {
        let from = Replay::of(snapshot).map_err(anyhow::Error::msg)?.from();
        flight.skip_to(from);
    }
    Ok(flight)
}

/// A redacted flight as bytes, and the users and groups that are named in it.
type Since = (Vec<u8>, BTreeSet<String>);

/// What the logs of a data directory hold from a time on, redacted: each by the name of its resource manager.
///
/// # Errors
/// The directory cannot be read.
pub fn since(data: &Path, from: Nanos) -> anyhow::Result<Vec<(String, anyhow::Result<Since>)>> {
    let read = |dir: &Path| {
        let redacted = redact::redact(&stretch(dir, Some(from), None)?).map_err(anyhow::Error::msg)?;
        let mut bytes = Vec::new();
        redacted.flight.write_to(&mut bytes)?;
        Ok((bytes, redacted.people))
    };
    let named = |dir: &PathBuf| (dir.file_name().unwrap_or_default().to_string_lossy().into_owned(), read(dir));
    Ok(source::directories(data)?.iter().map(named).collect())
}

impl Source {
    /// Reads the flight, from its file or from a directory.
    ///
    /// # Errors
    /// It cannot be read from any state on.
    pub fn open(&self) -> anyhow::Result<Flight> {
        let flight = match &self.file {
            Some(file) => Flight::read(file),
            None => {
                let dir = source::directory(&self.data, self.rm.as_deref())?;
                Flight::of_directory(&dir, None, &source::begins)
            }
        };
        let flight = flight.map_err(anyhow::Error::msg)?;
        log::flight::check_domain(&flight.title).map_err(anyhow::Error::msg)?;
        Ok(flight)
    }
}
