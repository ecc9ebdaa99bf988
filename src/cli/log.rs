//! `callboard log`: what the logs of a data directory hold. It only reads, also beside a running server.

use std::{
    collections::BTreeMap,
    fs,
    io::{self, Write as _},
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::Context as _;
use clap::{Args, Subcommand};
use hyper::Method;
use serde::Serialize;

use super::{
    client::{
        net::{Client, sentence},
        trust::Trust,
    },
    out, url,
};
use crate::store::log::{self, mark::Mark};
use crate::{
    domain::{types::Nanos, words::plural},
    http::ws_v1::time_text,
};

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
    /// Address of the server that runs on it, to be asked how far its disk lags behind
    #[arg(long, value_name = "URL", value_parser = url::option)]
    server: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    trust: Trust,
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
    /// Where what can be read ends before the files do, or where the files were put aside.
    damage: Option<String>,
    /// What the server says of its disk, where it was asked.
    disk: Option<Disk>,
}

/// How far the disk lags behind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
struct Disk {
    /// It takes nothing at present.
    failing: bool,
    /// For how long the oldest record has waited for it.
    behind_seconds: f64,
}

/// Runs it.
pub async fn run(args: &LogArgs) -> anyhow::Result<ExitCode> {
    let Command::Info(args) = &args.command;
    let named = || format!("--data {}: its logs cannot be read", args.data.display());
    fs::read_dir(&args.data).with_context(named)?;
    let base = args.data.join("log");
    let mark = Mark::look(&base);
    let disks = match &args.server {
        Some(server) => disks(server, &args.trust).await.map_err(anyhow::Error::msg)?,
        None => BTreeMap::new(),
    };
    let mut infos = Vec::new();
    for dir in directories(&base).with_context(|| format!("--data {}", args.data.display()))? {
        // One that cannot be read is among what is to be told.
        let mut info = info(&dir).unwrap_or_else(|error| Info::damaged(&dir, format!("{error:#}")));
        info.disk = disks.get(&info.rm).copied();
        infos.push(info);
    }
    let aside = base.with_extension("damaged");
    for dir in directories(&aside).with_context(|| format!("--data {}", args.data.display()))? {
        // Much of it may be whole: a copy of a data directory is put aside as it is.
        let mut info = info(&dir).unwrap_or_else(|error| {
            let bytes = log::size(&dir).unwrap_or(0);
            Info { bytes, ..Info::damaged(&dir, format!("{error:#}")) }
        });
        let aside = format!("put aside as {}", dir.display());
        info.damage = Some(info.damage.map_or(aside.clone(), |damage| format!("{aside}; {damage}")));
        infos.push(info);
    }
    let mut out = out::stdout();
    if args.json {
        writeln!(out, "{}", out::escaped(&serde_json::to_string_pretty(&infos)?))?;
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

fn directories(base: &Path) -> anyhow::Result<Vec<PathBuf>> {
    match log::directories(base) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        found => found.with_context(|| format!("{} cannot be read", base.display())),
    }
}

/// What a running server says of the disk of each log.
async fn disks(server: &str, trust: &Trust) -> Result<BTreeMap<String, Disk>, String> {
    let client = Client::new(server, trust)?;
    let url = format!("{}/ws/v1/metrics", server.trim_end_matches('/'));
    let unreachable = |error| format!("--server {server} cannot be reached: {error}");
    let answer = client.send(Method::GET, &url, None).await.map_err(unreachable)?;
    let status = answer.status;
    let text = answer.text().await.map_err(unreachable)?;
    if status.is_success() {
        return Ok(read_disks(&text));
    }
    Err(format!("--server {server} answers {status}: {}", sentence(&text).unwrap_or(text)))
}

/// Reads them from metrics.
fn read_disks(metrics: &str) -> BTreeMap<String, Disk> {
    let mut disks: BTreeMap<String, Disk> = BTreeMap::new();
    for line in metrics.lines() {
        let Some((name, rest)) = line.split_once("{rm=\"") else { continue };
        let Some((rm, value)) = rest.rsplit_once("\"} ") else { continue };
        let Ok(value) = value.trim().parse::<f64>() else { continue };
        let rm = rm.replace("\\\"", "\"").replace("\\\\", "\\");
        match name {
            "callboard_log_failing" => disks.entry(rm).or_default().failing = value > 0.0,
            "callboard_log_unflushed_seconds" => disks.entry(rm).or_default().behind_seconds = value,
            _ => {}
        }
    }
    disks
}

impl Info {
    /// Of a directory that cannot be read, or is not meant to be.
    fn damaged(dir: &Path, damage: String) -> Info {
        let rm = log::title_of(dir).map(|title| title.rm).or_else(|| log::rm_of(dir));
        Info {
            rm: rm.unwrap_or_else(|| dir.file_name().unwrap_or_default().to_string_lossy().into_owned()),
            bytes: 0,
            segments: log::segments(dir).map_or(0, |all| all.len()),
            first: 0,
            last: 0,
            at: 0,
            snapshot: None,
            behind: 0,
            damage: Some(damage),
            disk: None,
        }
    }
}

fn info(dir: &Path) -> anyhow::Result<Info> {
    let named = || format!("log {}", dir.display());
    let segments = log::segments(dir).with_context(named)?;
    let snapshot = log::snapshots(dir).with_context(named)?.last().map(|(index, _)| *index);
    let first = segments.first().map_or(0, |(first, _)| *first);
    let Some(title) = log::title_of(dir) else {
        let bytes = log::size(dir).with_context(named)?;
        return Ok(Info { bytes, ..Info::damaged(dir, "no file says whose it is".to_owned()) });
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
        disk: None,
    })
}

fn print(info: &Info, out: &mut impl io::Write) -> io::Result<()> {
    let Info { rm, bytes, segments, first, last, at, snapshot, behind, damage, disk } = info;
    let at = time_text(Nanos(*at));
    writeln!(out, "resource manager {rm}")?;
    match last {
        0 => writeln!(out, "  records   none that can be read")?,
        _ => writeln!(out, "  records   {first} to {last}, the newest of {at}")?,
    }
    writeln!(out, "  size      {bytes} bytes in {} and the snapshots", plural(*segments, "segment"))?;
    match snapshot {
        Some(index) => writeln!(out, "  snapshot  after record {index}; {behind} bytes follow it")?,
        None => writeln!(out, "  snapshot  none yet; {behind} bytes are read at a start")?,
    }
    match disk {
        Some(Disk { failing: true, behind_seconds }) => {
            writeln!(out, "  disk      takes nothing; the oldest record has waited for {behind_seconds:.3} s")?;
        }
        Some(Disk { behind_seconds, .. }) if *behind_seconds > 0.0 => {
            writeln!(out, "  disk      the oldest record has waited for {behind_seconds:.3} s")?;
        }
        Some(_) => writeln!(out, "  disk      has all of it")?,
        None => {}
    }
    if let Some(damage) = damage {
        writeln!(out, "  damage    {damage}")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_server_says_of_its_disks_is_read_from_its_metrics() {
        let text = "# HELP callboard_log_failing x\ncallboard_log_failing{rm=\"rm-1\"} 0\n\
                    callboard_log_unflushed_seconds{rm=\"rm-1\"} 0.25\ncallboard_log_failing{rm=\"a\\\"b\"} 1\nother 7\n";
        let disks = read_disks(text);
        assert_eq!(disks["rm-1"], Disk { failing: false, behind_seconds: 0.25 });
        assert!(disks["a\"b"].failing && disks.len() == 2);
    }
}
