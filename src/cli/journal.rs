//! `callboard journal`: prints the resource journal of a partition, as `flux resource eventlog` does.

mod format;
mod options;

use std::{
    collections::{HashSet, hash_map::DefaultHasher},
    env,
    hash::{Hash as _, Hasher as _},
    io::{self, IsTerminal, Write},
    mem,
    process::ExitCode,
    time::Duration,
};

use clap::Args;
use futures::StreamExt;
use jiff::tz::TimeZone;
use serde::Deserialize;
use serde_json::value::RawValue;

use self::format::Printer;
pub(super) use self::options::duration;
pub use self::options::{Match, When};
pub use self::{format::Format, format::TimeFormat};
use super::{door::Door, events::AGAIN, out, wait::may_come_back};
use crate::store::eventlog::Record;

/// Options of `callboard journal`.
#[derive(Args, Clone, Debug)]
pub struct JournalArgs {
    #[command(flatten)]
    door: Door,
    /// Go on with new events, for ever: a server that went away is asked again until it is back
    #[arg(short = 'F', long)]
    follow: bool,
    /// Print events up to the first of this name, whether past or new, then exit
    #[arg(short, long, value_name = "EVENT")]
    wait: Option<String>,
    /// With --wait: the event's context has to have this value too (repeatable; VAL is JSON, or else text)
    #[arg(short, long = "match-context", value_name = "KEY=VAL", requires = "wait")]
    matches: Vec<Match>,
    /// Give up after this time, such as 10s or 5m
    #[arg(short, long, value_name = "DURATION", value_parser = options::duration)]
    timeout: Option<Duration>,
    /// How events are printed
    #[arg(short, long, default_value = "text")]
    format: Format,
    /// How times are printed in text
    #[arg(short = 'T', long, default_value = "raw")]
    time_format: TimeFormat,
    /// The same as --time-format=human
    #[arg(short = 'H', long)]
    human: bool,
    /// Colour the text; auto: on a terminal, unless NO_COLOR is set or TERM is dumb
    #[arg(short = 'L', long, value_name = "WHEN", default_value = "auto", num_args = 0..=1, require_equals = true, default_missing_value = "always")]
    color: When,
}

/// A response of the journal.
#[derive(Deserialize)]
struct Response {
    #[serde(default)]
    events: Vec<Box<RawValue>>,
    #[serde(default)]
    closing: Option<Closing>,
}

#[derive(Deserialize)]
struct Closing {
    #[serde(default)]
    status: u16,
    detail: String,
}

/// Why the command ends with a failure.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error("{0}")]
    Text(String),
    /// The connection broke, or the server ends; a follower attaches again.
    #[error("{0}")]
    Lost(String),
    /// What is printed cannot be written.
    #[error("{0}")]
    Output(#[from] io::Error),
}

/// Runs the command. Exit status 0 when the journal was printed as asked, else 1.
pub async fn run(args: JournalArgs) -> ExitCode {
    let color = args.color.colored(io::stdout().is_terminal(), |name| env::var_os(name));
    let (mut out, mut err) = (out::stdout(), io::stderr().lock());
    ExitCode::from(run_with(args, color, TimeZone::system(), &mut out, &mut err).await)
}

/// Like [`run`], with the choices of the terminal made by the caller. Gives the exit status.
pub async fn run_with(args: JournalArgs, color: bool, zone: TimeZone, out: &mut dyn Write, err: &mut dyn Write) -> u8 {
    let time_format = if args.human { TimeFormat::Human } else { args.time_format };
    let mut printer = Printer::new(args.format, time_format, zone, color);
    let printed = match args.timeout {
        None => print(&args, &mut printer, out, err).await,
        Some(limit) => tokio::time::timeout(limit, print(&args, &mut printer, out, err))
            .await
            .unwrap_or_else(|_| Err(Failure::Text(format!("timed out after {limit:?}")))),
    };
    match printed {
        Ok(()) => 0,
        Err(failure) => out::fail(err, &out::lines(&failure.to_string())),
    }
}

/// So many events are known again, at least.
const KNOWN: usize = if cfg!(test) { 1_000 } else { 1_000_000 };

/// Which events were printed. After a lost connection the history comes again: that of the same server, or of another one that leads
/// meanwhile, from which the lead may come back.
#[derive(Debug, Default)]
struct Printed {
    attached: bool,
    /// Those that came last, at most [`KNOWN`].
    late: HashSet<u64>,
    /// Those before, as many.
    early: HashSet<u64>,
}

impl Printed {
    /// It was not printed before.
    fn is_new(&mut self, event: &str) -> bool {
        let mut hasher = DefaultHasher::new();
        // A restart comes again with the hosts of now.
        match Record::parse(event.as_bytes()) {
            Ok(record) if &*record.name == "restart" => (&record.timestamp, &record.name).hash(&mut hasher),
            _ => event.hash(&mut hasher),
        }
        let event = hasher.finish();
        if self.late.len() == KNOWN {
            self.early = mem::take(&mut self.late);
        }
        // What came once more may do so again.
        self.late.insert(event) && !self.early.contains(&event)
    }
}

async fn print(
    args: &JournalArgs,
    printer: &mut Printer,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> Result<(), Failure> {
    let follow = args.follow || args.wait.is_some();
    let (mut printed, mut told) = (Printed::default(), String::new());
    loop {
        match read(args, follow, &mut printed, printer, out).await {
            Err(Failure::Lost(what)) if follow && printed.attached => {
                if what != told {
                    // Where nobody reads the errors, the status still tells.
                    let _ = writeln!(err, "callboard: {}; trying again", out::lines(&what));
                    told = what;
                }
                tokio::time::sleep(AGAIN).await;
            }
            done => return done,
        }
    }
}

/// Prints one answer.
async fn read(
    args: &JournalArgs,
    follow: bool,
    printed: &mut Printed,
    printer: &mut Printer,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let path = format!("resource/journal?historical=true&follow={follow}");
    let answer = args.door.get(&path).await.map_err(|error| match may_come_back(&error, printed.attached) {
        true => Failure::Lost(error.to_string()),
        false => Failure::Text(error.text),
    })?;
    printed.attached = true;
    let mut chunks = Box::pin(answer.chunks());
    let mut text = Vec::new();
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk.map_err(|error| Failure::Lost(format!("the journal broke off: {error}")))?;
        text.extend_from_slice(&chunk);
        let whole = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let rest = text.split_off(whole);
        for line in text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            if respond(line, args, printed, printer, out)? {
                return Ok(());
            }
        }
        out.flush()?;
        text = rest;
    }
    match &args.wait {
        Some(event) => Err(Failure::Text(format!("the journal ended before '{event}'"))),
        None => Ok(()),
    }
}

/// Prints a response. True: the event that was waited for is there.
fn respond(
    line: &[u8],
    args: &JournalArgs,
    printed: &mut Printed,
    printer: &mut Printer,
    out: &mut dyn Write,
) -> Result<bool, Failure> {
    let wrong = |why: String| Failure::Text(format!("the server sent what is no journal: {why}"));
    let response: Response = serde_json::from_slice(line).map_err(|error| wrong(error.to_string()))?;
    if let Some(closing) = response.closing {
        // 307: another server leads.
        let again = matches!(closing.status, 503 | 307);
        return Err(if again { Failure::Lost(closing.detail) } else { Failure::Text(closing.detail) });
    }
    for event in response.events {
        if !printed.is_new(event.get()) {
            continue;
        }
        let event = format::Event::parse(event.get()).map_err(wrong)?;
        printer.print(&event, out)?;
        if args.wait.as_deref() == Some(&*event.name) && args.matches.iter().all(|wanted| wanted.holds(&event.context))
        {
            out.flush()?;
            return Ok(true);
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_of_several_histories_are_printed_once() {
        let mut printed = Printed::default();
        let mut new = |events: &[&str]| events.iter().filter(|event| printed.is_new(event)).count();
        assert_eq!(new(&["a1", "a2"]), 2);
        assert_eq!(new(&["b1", "a2"]), 1, "of another server");
        assert_eq!(new(&["a1", "a2", "a3"]), 1, "and of the first again");
        assert_eq!(new(&["b1", "b2"]), 1);
    }

    #[test]
    fn a_restart_is_printed_once_though_hosts_joined() {
        let mut printed = Printed::default();
        let restart = |time: u32, hosts: &str| {
            format!(r#"{{"timestamp":{time},"name":"restart","context":{{"nodelist":"{hosts}"}}}}"#)
        };
        assert!(printed.is_new(&restart(1, "n0")));
        assert!(!printed.is_new(&restart(1, "n[0-1]")));
        assert!(printed.is_new(&restart(2, "n[0-1]")));
    }

    #[test]
    fn what_is_kept_of_them_is_bounded() {
        let mut printed = Printed::default();
        for event in 0..3 * KNOWN {
            assert!(printed.is_new(&event.to_string()));
        }
        assert!(printed.late.len() + printed.early.len() <= 2 * KNOWN);
        for event in 2 * KNOWN..3 * KNOWN {
            assert!(!printed.is_new(&event.to_string()));
        }
        assert!(printed.is_new("0"), "it is too long ago");
    }
}
