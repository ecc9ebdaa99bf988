//! `callboard audit`: who did what, from a running server.

use std::{collections::VecDeque, io::Write, process::ExitCode};

use clap::Args;
use hyper::Method;
use jiff::Timestamp;
use serde::Deserialize;

use super::{
    client::{
        net::{Client, Failed, sentence},
        trust::Trust,
    },
    context::ContextArg,
    events::{AGAIN, Error},
    out,
    place::Place,
    url,
    wait::may_pass,
};
use crate::{
    access::audit::{KEPT, Record},
    domain::types::Nanos,
    http::api::time::{moment, nanos},
};

/// Shows who changed what through any door
#[derive(Args, Clone, Debug)]
pub struct AuditArgs {
    /// Address of the server, as host:port or URL; several, separated by commas, are tried in turn
    #[arg(long, value_name = "URL", value_parser = url::option, env = "CALLBOARD_SERVER", default_value = "http://127.0.0.1:9080")]
    pub server: String,
    /// From this id on; from the oldest that is kept in memory where it is left out
    #[arg(long, value_name = "ID")]
    pub from: Option<u64>,
    /// So many at most: the newest ones
    #[arg(long, short = 'n', value_name = "COUNT", conflicts_with = "follow")]
    pub count: Option<usize>,
    /// Only of whom this is the name
    #[arg(long, value_name = "NAME")]
    pub who: Option<String>,
    /// Only from this time on: 2026-11-20T19:00:00Z, 2026-11-20 for its midnight (UTC), or 1h for an hour ago
    #[arg(long, value_name = "TIME")]
    pub since: Option<String>,
    /// Only up to this time, written in the same ways
    #[arg(long, value_name = "TIME", conflicts_with = "follow")]
    pub until: Option<String>,
    /// Go on with what comes, for ever: a server that went away is asked again until it is back
    #[arg(long)]
    pub follow: bool,
    /// Without names, addresses and details: equal ones have equal stand-ins
    #[arg(long)]
    pub redact: bool,
    /// The lines of the server as they are, one JSON object each
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub context: ContextArg,
    #[command(flatten)]
    pub trust: Trust,
}

/// A line of the server.
#[derive(Deserialize)]
#[serde(untagged)]
enum Line {
    Record(Box<Record>),
    Gap {
        gap: Gap,
    },
    /// The server ends, and where to go on then.
    Closed {
        closed: Closed,
    },
    /// Where to go on.
    End {
        next: u64,
    },
}

#[derive(Deserialize)]
struct Closed {
    next: u64,
    detail: String,
}

#[derive(Deserialize)]
struct Gap {
    from: u64,
    to: u64,
    #[serde(default)]
    reason: String,
}

/// Which records are shown.
#[derive(Debug, Default)]
struct Wanted {
    who: Option<String>,
    since: Option<Nanos>,
    until: Option<Nanos>,
}

impl Wanted {
    fn of(args: &AuditArgs) -> Result<Wanted, String> {
        let now = Timestamp::now();
        let time = |field: &str, text: &Option<String>| {
            let time = |text| moment(field, text, nanos(now)).map_err(|problem| problem.detail);
            text.as_deref().map(time).transpose()
        };
        Ok(Wanted { who: args.who.clone(), since: time("since", &args.since)?, until: time("until", &args.until)? })
    }

    fn has(&self, record: &Record) -> bool {
        let time = record.time.parse().map(nanos).unwrap_or_default();
        self.who.as_ref().is_none_or(|who| *who == record.entry.who)
            && self.since.is_none_or(|since| since <= time)
            && self.until.is_none_or(|until| time <= until)
    }

    /// It may be older than what is in the server's memory.
    fn is_in_files(&self) -> bool {
        self.who.is_some() || self.since.is_some() || self.until.is_some()
    }
}

/// What was read so far.
#[derive(Debug, Default)]
struct Progress {
    /// The next id; `None`: the oldest that is kept.
    next: Option<u64>,
    /// The server was there.
    reached: bool,
    place: Place,
}

impl Progress {
    fn is_news(&mut self, line: &Line, text: &str) -> bool {
        match line {
            Line::Record(record) => {
                let time = record.time.parse().unwrap_or_default();
                self.place.is_new(text.as_bytes(), time)
            }
            // Of another server they are from long before.
            Line::Gap { .. } => self.place.since().is_none(),
            _ => true,
        }
    }
}

/// Runs the command.
///
/// # Errors
/// A time is none, or the server cannot be asked.
pub async fn run(args: &AuditArgs) -> anyhow::Result<ExitCode> {
    let wanted = Wanted::of(args).map_err(anyhow::Error::msg)?;
    let mut progress = Progress { next: args.from, ..Progress::default() };
    let mut told = String::new();
    loop {
        match read(args, &wanted, &mut progress, &mut out::stdout()).await {
            Ok(()) => return Ok(ExitCode::SUCCESS),
            Err(Error::Lost(what)) if args.follow && progress.reached => {
                if what != told {
                    out::note(format_args!("callboard: {what}; trying again"));
                    told = what;
                }
                tokio::time::sleep(AGAIN).await;
            }
            Err(error) => return Err(error.into()),
        }
    }
}

/// Prints one answer.
async fn read(args: &AuditArgs, wanted: &Wanted, progress: &mut Progress, out: &mut impl Write) -> Result<(), Error> {
    let client = Client::new(&args.server, &args.trust).map_err(Error::Refused)?;
    let server = args.server.trim_end_matches('/');
    let lost = |error: Failed| Error::Lost(error.of_server(&args.server));
    let mut answer = loop {
        let all = wanted.is_in_files() || args.count.is_some_and(|count| count > KEPT);
        let from = progress.next.or(all.then_some(1)).map_or(String::new(), |from| format!("&from={from}"));
        let url = format!("{server}/api/v1/audit?follow={}&redact={}{from}", args.follow, args.redact);
        let answer = client.send(Method::GET, &url, None).await.map_err(lost)?;
        if !progress.place.moves_to(client.answered()) {
            break answer;
        }
        // From its oldest record on: what was printed is left out.
        progress.next = None;
    };
    if !answer.status.is_success() {
        let status = answer.status;
        let text = answer.text().await.unwrap_or_default();
        let text = sentence(&text).unwrap_or_else(|| format!("{} answers {status}: {}", args.server, text.trim()));
        return Err(if may_pass(status.as_u16()) { Error::Lost(text) } else { Error::Refused(text) });
    }
    progress.reached = true;
    let mut rest = Vec::new();
    let mut newest = VecDeque::new();
    let broke = |error: Failed| Error::Lost(format!("{}: {error}", args.server));
    while let Some(chunk) = answer.chunk().await.map_err(broke)? {
        rest.extend_from_slice(&chunk);
        let whole = rest.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        let lines: Vec<u8> = rest.drain(..whole).collect();
        for text in String::from_utf8_lossy(&lines).lines().filter(|line| !line.trim().is_empty()) {
            let line = parse(text).map_err(Error::Refused)?;
            if let Line::Closed { closed: Closed { next, detail } } = line {
                progress.next = Some(next);
                return Err(Error::Lost(format!("{} closed the stream at record {next}: {detail}", args.server)));
            }
            progress.next = line.next().or(progress.next);
            if !progress.is_news(&line, text) {
                continue;
            }
            let record = match &line {
                Line::Record(record) => Some(record),
                _ => None,
            };
            if record.is_some_and(|record| !wanted.has(record)) {
                continue;
            }
            let shown = if args.json { out::escaped(text) + "\n" } else { shown(&line) };
            match (args.count, record) {
                (Some(count), Some(_)) => {
                    newest.push_back(shown);
                    newest.drain(..newest.len().saturating_sub(count));
                }
                // Where the newest are asked for, it is about none that is missing before them.
                (Some(_), None) if matches!(line, Line::Gap { .. }) => {}
                _ => {
                    newest.drain(..).try_for_each(|shown: String| out.write_all(shown.as_bytes()))?;
                    out.write_all(shown.as_bytes())?;
                    out.flush()?;
                }
            }
        }
    }
    if args.follow { Err(Error::Lost(format!("{}: the connection ended", args.server))) } else { Ok(()) }
}

fn parse(line: &str) -> Result<Line, String> {
    out::answer(line).map_err(|error| format!("the server sent what is no record: {error}: {line}"))
}

impl Line {
    /// The id to go on with behind it.
    fn next(&self) -> Option<u64> {
        match self {
            Line::Record(record) => Some(record.id + 1),
            Line::Gap { gap } => Some(gap.to + 1),
            Line::Closed { closed } => Some(closed.next),
            Line::End { next } => Some(*next),
        }
    }
}

fn shown(line: &Line) -> String {
    match line {
        Line::Record(record) => {
            let Record { id, time, entry } = &**record;
            let role = if entry.role.is_empty() { String::new() } else { format!(" ({})", entry.role) };
            let from = if entry.address.is_empty() { String::new() } else { format!(" from {}", entry.address) };
            let count = entry.count.map_or(String::new(), |count| format!(" x{count}"));
            let detail = if entry.detail.is_empty() { String::new() } else { format!(": {}", entry.detail) };
            let status = if entry.status.is_empty() { String::new() } else { format!(" {}", entry.status) };
            format!(
                "{time} {id:>6} {}{role}{from} {} {}{count} {}{status}{detail}\n",
                entry.who, entry.door, entry.action, entry.outcome
            )
        }
        Line::Gap { gap } if gap.reason == "damage" => {
            format!("(records {} to {} were in lines of the server's files that are damaged)\n", gap.from, gap.to)
        }
        Line::Gap { gap } => format!(
            "(records {} to {} are not in the server's memory: --from reads what its files have)\n",
            gap.from, gap.to
        ),
        Line::Closed { .. } | Line::End { .. } => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(line: &str) -> Result<String, String> {
        parse(line).map(|line| shown(&line))
    }

    #[test]
    fn lines_for_people() {
        let line = r#"{"id":7,"time":"2026-01-01T10:00:00Z","door":"http","who":"alice","role":"operator","address":"10.0.0.1","action":"POST /api/v1/partition/default/resource/drain","detail":"node-7: disk","outcome":"done","status":"200"}"#;
        let expected = "2026-01-01T10:00:00Z      7 alice (operator) from 10.0.0.1 http POST /api/v1/partition/default/resource/drain done 200: node-7: disk\n";
        assert_eq!(text(line).unwrap(), expected);
        let counted =
            r#"{"id":8,"time":"T","door":"grpc","who":"k8s","action":"/x/UpdateNode","outcome":"done","count":3}"#;
        assert_eq!(text(counted).unwrap(), "T      8 k8s grpc /x/UpdateNode x3 done\n");
        assert_eq!(text(r#"{"next":9}"#).unwrap(), "");
        assert!(text(r#"{"gap":{"from":1,"to":4,"reason":"retention"}}"#).unwrap().contains("1 to 4"));
        assert!(text(r#"{"gap":{"from":3,"to":3,"reason":"damage"}}"#).unwrap().contains("3 to 3 were in lines"));
        assert!(text("x").is_err());
        let closed = parse(r#"{"closed":{"next":12,"detail":"the server is shutting down"}}"#).unwrap();
        assert_eq!((closed.next(), &*shown(&closed)), (Some(12), ""));
    }
}
