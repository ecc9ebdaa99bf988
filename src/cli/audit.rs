//! `callboard audit`: who did what, from a running server.

use std::{io::Write, process::ExitCode};

use clap::Args;
use hyper::Method;
use serde::Deserialize;

use super::{
    client::{
        net::{Client, sentence},
        trust::Trust,
    },
    context::ContextArg,
    out,
};
use crate::access::audit::Record;

/// Shows who changed what through any door
#[derive(Args, Clone, Debug)]
pub struct AuditArgs {
    /// Address of the server, as host:port or URL; several, separated by commas, are tried in turn
    #[arg(long, value_name = "URL", env = "CALLBOARD_SERVER", default_value = "http://127.0.0.1:9080")]
    pub server: String,
    /// From this id on; from the oldest that is kept in memory where it is left out
    #[arg(long, value_name = "ID")]
    pub from: Option<u64>,
    /// Go on with what comes
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
    /// Where to go on.
    End {
        #[allow(dead_code)] // that it is there tells this line from others
        next: u64,
    },
}

#[derive(Deserialize)]
struct Gap {
    from: u64,
    to: u64,
}

/// Runs the command.
pub async fn run(args: AuditArgs) -> ExitCode {
    match show(&args).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(text) => {
            out::note(format_args!("callboard: {text}"));
            ExitCode::FAILURE
        }
    }
}

async fn show(args: &AuditArgs) -> Result<(), String> {
    let client = Client::new(&args.server, &args.trust)?;
    let from = args.from.map_or(String::new(), |from| format!("&from={from}"));
    let url = format!(
        "{}/api/v1/audit?follow={}&redact={}{from}",
        args.server.trim_end_matches('/'),
        args.follow,
        args.redact
    );
    let unreachable = |error| format!("{} cannot be reached (--server names another): {error}", args.server);
    let mut answer = client.send(Method::GET, &url, None).await.map_err(unreachable)?;
    if !answer.status.is_success() {
        let status = answer.status;
        let text = answer.text().await.unwrap_or_default();
        return Err(sentence(&text).unwrap_or_else(|| format!("{} answers {status}: {}", args.server, text.trim())));
    }
    let mut stdout = out::stdout();
    let mut rest = Vec::new();
    while let Some(chunk) = answer.chunk().await.map_err(unreachable)? {
        rest.extend_from_slice(&chunk);
        let whole = rest.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        let lines: Vec<u8> = rest.drain(..whole).collect();
        for line in String::from_utf8_lossy(&lines).lines().filter(|line| !line.trim().is_empty()) {
            let text = if args.json { format!("{line}\n") } else { text(line)? };
            // Who stopped reading wants no more.
            if stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()).is_err() {
                return Ok(());
            }
        }
    }
    Ok(())
}

fn text(line: &str) -> Result<String, String> {
    let line: Line =
        out::answer(line).map_err(|error| format!("the server sent what is no record: {error}: {line}"))?;
    Ok(match line {
        Line::Record(record) => {
            let Record { id, time, entry } = *record;
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
        Line::Gap { gap } => format!("(records {} to {} are in the files of the server only)\n", gap.from, gap.to),
        Line::End { .. } => String::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert!(text("x").is_err());
    }
}
