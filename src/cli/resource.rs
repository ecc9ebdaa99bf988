//! `callboard resource`: the targets of a partition, as `flux resource` shows them; drain, undrain and expiration.

mod drained;
mod expiration;
mod state;
mod tables;

use std::{
    io::{self, Write},
    process::ExitCode,
    time::Duration,
};

use clap::{ArgAction, Args, Subcommand, ValueEnum};
use jiff::{Timestamp, tz::TimeZone};
use serde::Serialize;
use tokio::time::Instant;

use self::state::Cluster;
use super::{
    client::net::Answer,
    door::{Door, Error},
    out,
    wait::{time, within},
};
use crate::domain::idset::IdSet;

/// Options of `callboard resource`.
#[derive(Args, Clone, Debug)]
pub struct ResourceArgs {
    #[command(flatten)]
    door: Door,
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand, Clone, Debug)]
enum What {
    /// Show targets by state
    Status(Show),
    /// Show what is free, allocated and down
    List(Show),
    /// Drain targets, or show what is drained
    Drain(DrainArgs),
    /// Undrain targets
    Undrain(UndrainArgs),
    /// Set when the resource set expires
    Expiration(ExpirationArgs),
}

/// How much is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Columns {
    /// Those that are read most
    Default,
    /// All columns
    Long,
    /// The answer of the server
    Json,
}

#[derive(Args, Clone, Debug)]
struct Plain {
    /// Leave the header out
    #[arg(short, long)]
    no_header: bool,
}

#[derive(Args, Clone, Debug)]
struct Show {
    #[command(flatten)]
    plain: Plain,
    /// Columns, or all that the server says
    #[arg(short = 'o', long, visible_alias = "output", default_value = "default")]
    format: Columns,
}

#[derive(Args, Clone, Debug)]
struct DrainArgs {
    #[command(flatten)]
    show: Show,
    /// Replace the reason of targets that are drained already; twice: their time as well
    #[arg(short, long, action = ArgAction::Count)]
    force: u8,
    /// Leave targets that are drained already as they are
    #[arg(short, long)]
    update: bool,
    /// Wait until nothing is left on them, also where they are drained already
    #[arg(short, long, requires = "targets")]
    wait: bool,
    /// How long is waited at most; then what still runs is listed [default: the deadline where it is a duration, else 30s]
    #[arg(long, value_name = "TIME", requires = "wait", value_parser = time)]
    timeout: Option<Duration>,
    /// When operators are told of what still runs there (event, health, status): 30m, 2d, or a time; kept with the drain
    #[arg(long, value_name = "TIME", requires = "targets")]
    deadline: Option<String>,
    /// Idset of ranks, or hostlist; a node's id may stand for its host, alone also one that no hostlist can have
    targets: Option<String>,
    /// Why; kept in the journal
    reason: Vec<String>,
}

#[derive(Args, Clone, Debug)]
struct UndrainArgs {
    /// Targets that are not drained are no error
    #[arg(short, long, action = ArgAction::Count)]
    force: u8,
    /// The same as --force
    #[arg(short, long)]
    update: bool,
    /// Idset of ranks, or hostlist; a node's id may stand for its host, alone also one that no hostlist can have
    targets: String,
    /// Why; kept in the journal
    reason: Vec<String>,
}

#[derive(Args, Clone, Debug)]
struct ExpirationArgs {
    /// Seconds since 1970, a time such as 2026-12-01T06:00:00Z, 8h or 30m for that long from now, or none
    when: expiration::When,
}

/// Body of a drain or undrain.
#[derive(Serialize)]
struct Request {
    targets: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    overwrite: Option<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    deadline: Option<String>,
}

/// Runs the command. Exit status 0 where it succeeded, else 1.
pub async fn run(args: ResourceArgs) -> ExitCode {
    let (mut out, mut err) = (out::stdout(), io::stderr().lock());
    ExitCode::from(run_with(args, TimeZone::system(), &mut out, &mut err).await)
}

/// Like [`run`], with the time zone and the outputs chosen by the caller. Gives the exit status.
pub async fn run_with(args: ResourceArgs, zone: TimeZone, out: &mut dyn Write, err: &mut dyn Write) -> u8 {
    let end = match &args.what {
        What::Drain(DrainArgs { wait: true, timeout, deadline, .. }) => {
            let until = || deadline.as_deref().and_then(|deadline| time(deadline).ok());
            Some(Instant::now() + timeout.or_else(until).unwrap_or(Duration::from_secs(30)))
        }
        _ => None,
    };
    let carried_out = carry_out(&args, zone, err);
    let text = match end {
        Some(end) => within(&args.door, end, carried_out).await.flatten(),
        None => carried_out.await,
    };
    let text = match text {
        Ok(text) => text,
        Err(error) => return out::fail(err, &error),
    };
    if let Err(error) = out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        return out::fail(err, &error);
    }
    match (&args.what, end) {
        (What::Drain(DrainArgs { targets: Some(targets), .. }), Some(end)) => {
            drained::wait(&args.door, targets, end, out, err).await
        }
        _ => 0,
    }
}

async fn carry_out(args: &ResourceArgs, zone: TimeZone, err: &mut dyn Write) -> Result<String, Error> {
    let door = &args.door;
    match &args.what {
        What::Status(show) | What::List(show) | What::Drain(DrainArgs { show, targets: None, .. })
            if show.format == Columns::Json =>
        {
            Ok(out::escaped(&Cluster::text(door).await?) + "\n")
        }
        What::Status(show) => {
            let cluster = Cluster::ask(door).await?;
            Ok(tables::status(&cluster, show.format == Columns::Long, !show.plain.no_header))
        }
        What::List(show) => Ok(tables::list(&Cluster::ask(door).await?, !show.plain.no_header)),
        What::Drain(DrainArgs { show, force, update, wait, deadline, targets, reason, .. }) => {
            // What is waited for may hold already, of some of them or of all.
            let overwrite = mode(*force, *update)?.or(wait.then_some(0));
            match targets {
                None => {
                    let cluster = Cluster::ask(door).await?;
                    Ok(tables::drained(&cluster, show.format == Columns::Long, !show.plain.no_header, &zone))
                }
                Some(targets) => {
                    // What was meant for them is not lost without a word.
                    let held = match overwrite {
                        Some(0) if !*update || deadline.is_some() => drained::held(door, targets).await?,
                        _ => IdSet::new(),
                    };
                    let text = post(door, "resource/drain", targets, reason, overwrite, deadline.clone()).await?;
                    if !held.is_empty() {
                        let lost = match *update {
                            true => {
                                format!("so the deadline is not for them: {held}; --force instead of --update sets it")
                            }
                            false => format!("and left as they are: {held}; --force replaces reason and deadline"),
                        };
                        let _ = writeln!(err, "callboard: drained already, {lost}");
                    }
                    Ok(text)
                }
            }
        }
        What::Undrain(UndrainArgs { force, update, targets, reason }) => {
            let overwrite = mode(*force, *update)?;
            post(door, "resource/undrain", targets, reason, overwrite, None).await
        }
        What::Expiration(ExpirationArgs { when }) => {
            let body = serde_json::json!({"expiration": when.seconds(Timestamp::now())});
            done(door.post("resource/expiration", &body).await?).await
        }
    }
}

/// `overwrite` of the request (J5.1).
fn mode(force: u8, update: bool) -> Result<Option<u8>, Error> {
    match (force, update) {
        (0, false) => Ok(None),
        (0, true) => Ok(Some(0)),
        (1, false) => Ok(Some(1)),
        (_, false) => Ok(Some(2)),
        (_, true) => Err(Error { text: "Only one of --force and --update may be specified".to_owned(), status: None }),
    }
}

async fn post(
    door: &Door,
    path: &str,
    targets: &str,
    reason: &[String],
    overwrite: Option<u8>,
    deadline: Option<String>,
) -> Result<String, Error> {
    let reason = (!reason.is_empty()).then(|| reason.join(" "));
    let request = Request { targets: targets.to_owned(), reason, overwrite, deadline };
    let answer = door.post(path, &request).await.map_err(|mut error| {
        // No option solves another conflict, as of a server that shows the past, or a target that may be two.
        let hint = match path.ends_with("undrain") {
            true if error.text.ends_with(" not drained") => "--force leaves those alone that are not drained",
            false if error.text.contains(" already drained") => {
                "--update leaves them as they are and drains (or waits for) the rest, --force replaces the reason that there is"
            }
            _ => return error,
        };
        if overwrite.is_none() {
            error.text = format!("{}; {hint}", error.text);
        }
        error
    })?;
    done(answer).await
}

/// An order that was carried out has an empty object for an answer: a page of something in front of the server is none.
async fn done(answer: Answer) -> Result<String, Error> {
    let broken = |why: String| Error { text: format!("what answers is no scheduler: {why}"), status: None };
    let text = answer.text().await.map_err(|error| broken(error.to_string()))?;
    serde_json::from_str::<serde_json::Map<String, serde_json::Value>>(&text).map_err(|why| broken(why.to_string()))?;
    Ok(String::new())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        args: ResourceArgs,
    }

    #[test]
    fn the_server_may_be_named_after_the_word_that_says_what_to_do() {
        for words in [["--server", "http://a:1", "status"], ["status", "--server", "http://a:1"]] {
            let command = Command::try_parse_from(["resource"].iter().chain(&words)).unwrap();
            assert_eq!(command.args.door.server, "http://a:1");
        }
    }
}
