//! `callboard log`: what the logs of a data directory hold. It only reads, also beside a running server.

use std::{
    io::{self, Write as _},
    path::PathBuf,
    process::ExitCode,
};

use anyhow::Context as _;
use clap::{Args, Subcommand};
use serde::Serialize;

use crate::store::log::{self, mark::Mark};

/// Options of `callboard log`.
#[derive(Args, Clone, Debug)]
pub struct LogArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Clone, Debug, Subcommand)]
enum Command {
    /// Show the logs of a data directory: size, newest record, snapshots, damage
    Info(InfoArgs),
}

#[derive(Args, Clone, Debug)]
struct InfoArgs {
    /// The data directory of the server
    #[arg(long, value_name = "DIR", env = "CALLBOARD_DATA", default_value = "./callboard-data")]
    data: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// The log of a resource manager.
#[derive(Serialize)]
struct Info {
    rm: String,
    /// Of segments and snapshots.
    bytes: u64,
    segments: usize,
    /// Index of the oldest record, and of the newest.
    first: u64,
    last: u64,
    /// Time of the newest record in nanoseconds.
    at: i64,
    /// The record after which the newest snapshot holds.
    snapshot: Option<u64>,
    /// Bytes of records that a start reads after that snapshot.
    behind: u64,
    /// Where what can be read ends before the files do.
    damage: Option<String>,
}

/// Runs it.
pub fn run(args: &LogArgs) -> anyhow::Result<ExitCode> {
    let Command::Info(args) = &args.command;
    let base = args.data.join("log");
    let mark = Mark::look(&base);
    let directories = match log::directories(&base) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        found => found.with_context(|| format!("--data {}: its logs cannot be read", args.data.display()))?,
    };
    let infos: Vec<Info> = directories.iter().map(|dir| info(dir)).collect::<anyhow::Result<_>>()?;
    let mut out = io::stdout().lock();
    if args.json {
        serde_json::to_writer_pretty(&mut out, &infos)?;
        writeln!(out)?;
    } else if infos.is_empty() {
        writeln!(out, "no logs in {}", base.display())?;
    } else {
        if let Some(mark) = mark {
            let end = if mark.clean { "ended in an orderly way" } else { "runs, or was killed" };
            writeln!(out, "server {} {end}", mark.server)?;
        }
        for info in &infos {
            print(info, &mut out)?;
        }
    }
    let damaged = infos.iter().any(|info| info.damage.is_some());
    Ok(if damaged { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn info(dir: &std::path::Path) -> anyhow::Result<Info> {
    let named = || format!("log {}", dir.display());
    let segments = log::segments(dir).with_context(named)?;
    let snapshot = log::snapshots(dir).with_context(named)?.last().map(|(index, _)| *index);
    let first = segments.first().map_or(0, |(first, _)| *first);
    let Some(title) = log::title_of(dir) else {
        let rm = dir.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let damage = Some("no file says whose it is".to_owned());
        let bytes = log::size(dir).with_context(named)?;
        return Ok(Info { rm, bytes, segments: segments.len(), first, last: 0, at: 0, snapshot, behind: 0, damage });
    };
    let (mut at, mut behind) = (0, 0);
    let end = log::read(dir, &title, first.saturating_sub(1), |record| {
        at = record.at.0;
        if snapshot.is_none_or(|snapshot| record.index > snapshot) {
            behind += log::total(record.payload) as u64;
        }
        Ok(())
    });
    let end = end.with_context(named)?;
    // A torn end may be a record that the server writes just now.
    let damage = end.cut.filter(|cut| !cut.torn).map(|cut| cut.to_string());
    Ok(Info {
        rm: title.rm,
        bytes: log::size(dir).with_context(named)?,
        segments: segments.len(),
        first,
        last: end.last,
        at,
        snapshot,
        behind,
        damage,
    })
}

fn print(info: &Info, out: &mut impl io::Write) -> io::Result<()> {
    let Info { rm, bytes, segments, first, last, at, snapshot, behind, damage } = info;
    let at = jiff::Timestamp::from_nanosecond(i128::from(*at)).map_or_else(|_| at.to_string(), |at| at.to_string());
    writeln!(out, "resource manager {rm}")?;
    writeln!(out, "  records   {first} to {last}, the newest of {at}")?;
    writeln!(out, "  size      {bytes} bytes in {segments} segments and the snapshots")?;
    match snapshot {
        Some(index) => writeln!(out, "  snapshot  after record {index}; {behind} bytes follow it")?,
        None => writeln!(out, "  snapshot  none yet; {behind} bytes are read at a start")?,
    }
    if let Some(damage) = damage {
        writeln!(out, "  damage    {damage}")?;
    }
    Ok(())
}
