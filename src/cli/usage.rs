//! `callboard usage`: what users, groups or queues used over a while, from a running server.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::Write,
    process::ExitCode,
};

use clap::{Args, ValueEnum};
use hyper::Method;
use serde::Deserialize;

use super::client::{
    http::segment,
    net::{Client, Failed, sentence},
    trust::Trust,
};
use super::{context::ContextArg, out, url};

/// Shows what was used over a while, so that quotas can be judged: amounts times the time for which they were used.
#[derive(Args, Clone, Debug)]
pub struct UsageArgs {
    /// Address of the server.
    #[arg(long, value_name = "URL", value_parser = url::option, env = "CALLBOARD_SERVER", default_value = "http://127.0.0.1:9080")]
    pub server: String,
    /// Partition; `[RM]NAME` for one that is not registered now.
    #[arg(long, default_value = "default")]
    pub partition: String,
    /// Whose usage; that of a queue includes the queues below it.
    #[arg(long, value_enum, default_value = "user")]
    pub by: By,
    /// From this time on: 2026-11-20T19:00:00Z, or 7d for seven days ago; as far back as is known where it is left out.
    #[arg(long)]
    pub since: Option<String>,
    /// Until this time; until now where it is left out.
    #[arg(long)]
    pub until: Option<String>,
    /// In steps of this length, such as 1d.
    #[arg(long, requires = "since")]
    pub step: Option<String>,
    /// Only what was used in this queue and those below it.
    #[arg(long)]
    pub queue: Option<String>,
    /// The lines of the server as they are, one JSON object each, in exact amounts times seconds.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub context: ContextArg,
    #[command(flatten)]
    pub trust: Trust,
}

/// See [`UsageArgs::by`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum By {
    /// For each user.
    #[default]
    User,
    /// For each group.
    Group,
    /// For each queue.
    Queue,
}

impl By {
    fn name(self) -> &'static str {
        match self {
            By::User => "user",
            By::Group => "group",
            By::Queue => "queue",
        }
    }
}

/// A line of the server.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Row {
    from: String,
    to: String,
    user: Option<String>,
    group: Option<String>,
    queue: Option<String>,
    resource_seconds: BTreeMap<String, String>,
    gap: Option<Gap>,
    closed: Option<Closed>,
    since: Option<String>,
    until: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Gap {
    from: String,
    to: String,
    reason: String,
    detail: String,
}

#[derive(Debug, Default, Deserialize)]
struct Closed {
    detail: String,
}

/// Prints the answer.
///
/// # Errors
/// There is none.
pub async fn run(wanted: &UsageArgs) -> anyhow::Result<ExitCode> {
    read(wanted, &mut out::stdout()).await.map_err(anyhow::Error::msg)?;
    Ok(ExitCode::SUCCESS)
}

async fn read(wanted: &UsageArgs, out: &mut impl Write) -> Result<(), String> {
    let server = &wanted.server;
    let client = Client::new(server, &wanted.trust)?;
    let lost = |error: Failed| format!("{server}: {error}");
    let mut answer = client.send(Method::GET, &url(wanted), None).await.map_err(lost)?;
    let status = answer.status;
    if !status.is_success() {
        let text = answer.text().await.unwrap_or_default();
        let detail = sentence(&text).unwrap_or(text);
        return Err(format!("{server} answered {status}: {detail}"));
    }
    let mut rest: Vec<u8> = Vec::new();
    let mut table = Table { by: wanted.by, ..Table::default() };
    while let Some(bytes) = answer.chunk().await.map_err(lost)? {
        rest.extend_from_slice(&bytes);
        while let Some(length) = rest.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = rest.drain(..=length).collect();
            let line = String::from_utf8_lossy(&line);
            let row: Row =
                out::answer(&line).map_err(|error| format!("{server} sent a line that is no usage: {error}"))?;
            if wanted.json {
                out.write_all(out::escaped(&line).as_bytes()).map_err(|error| error.to_string())?;
            }
            if let Some(Closed { detail }) = row.closed {
                return Err(format!("{server}: {detail}"));
            }
            let last = row.since.is_some();
            table.rows.push(row);
            if last {
                return if wanted.json { out.flush() } else { out.write_all(table.shown().as_bytes()) }
                    .map_err(|error| error.to_string());
            }
        }
    }
    Err(format!("{server}: the connection ended"))
}

fn url(wanted: &UsageArgs) -> String {
    let (server, partition) = (wanted.server.trim_end_matches('/'), segment(&wanted.partition));
    let mut url = format!("{server}/api/v1/partition/{partition}/usage/history?by={}", wanted.by.name());
    let given = [("since", &wanted.since), ("until", &wanted.until), ("step", &wanted.step), ("queue", &wanted.queue)];
    for (name, value) in given {
        if let Some(value) = value {
            url.push_str(&format!("&{name}={}", segment(value)));
        }
    }
    url
}

/// What is shown to people: amounts times hours, in cores and GiB.
#[derive(Debug, Default)]
struct Table {
    by: By,
    rows: Vec<Row>,
}

impl Table {
    fn shown(&self) -> String {
        let shares = || self.rows.iter().filter(|row| row.gap.is_none() && row.since.is_none());
        let kinds: BTreeSet<&str> = shares().flat_map(|row| row.resource_seconds.keys()).map(String::as_str).collect();
        let steps = shares().map(|row| &row.from).collect::<BTreeSet<_>>().len() > 1;
        let mut cells: Vec<Vec<String>> = Vec::new();
        let mut head: Vec<String> = if steps { vec!["FROM".into(), "TO".into()] } else { Vec::new() };
        head.push(self.by.name().to_uppercase());
        head.extend(kinds.iter().map(|kind| heading(kind)));
        cells.push(head);
        for row in shares() {
            let mut line = if steps { vec![short(&row.from), short(&row.to)] } else { Vec::new() };
            line.push(row.user.as_ref().or(row.group.as_ref()).or(row.queue.as_ref()).cloned().unwrap_or_default());
            line.extend(kinds.iter().map(|kind| hours(kind, row.resource_seconds.get(*kind))));
            cells.push(line);
        }
        let left = if steps { 3 } else { 1 };
        let mut text = if cells.len() > 1 { out::aligned(&cells, left) } else { String::new() };
        for row in &self.rows {
            if let Some(Gap { from, to, reason, detail }) = &row.gap {
                let detail = if detail.is_empty() { String::new() } else { format!(": {detail}") };
                text.push_str(&format!("--- {} to {} is not certain ({reason}{detail})\n", short(from), short(to)));
            }
            if let Some(since) = &row.since {
                let nothing = if cells.len() == 1 { "nothing was used, " } else { "" };
                text.push_str(&format!("{nothing}{} to {}\n", short(since), short(&row.until)));
            }
        }
        text
    }
}

fn heading(kind: &str) -> String {
    match kind {
        "memory" => "MEMORY (GiB h)".into(),
        "vcore" => "VCORE (core h)".into(),
        other => format!("{other} (h)"),
    }
}

/// Amounts times hours, rounded to three places.
fn hours(kind: &str, seconds: Option<&String>) -> String {
    let seconds: f64 = seconds.and_then(|text| text.parse().ok()).unwrap_or(0.0);
    let unit = match kind {
        "memory" => f64::from(1u32 << 30),
        "vcore" => 1_000.0,
        _ => 1.0,
    };
    format!("{:.3}", seconds / unit / 3_600.0)
}

/// A time to the second.
fn short(time: &str) -> String {
    match time.parse::<jiff::Timestamp>() {
        Ok(time) => format!("{time:.0}"),
        Err(_) => time.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args() -> UsageArgs {
        UsageArgs {
            server: "http://board:9080/".into(),
            partition: "[rm-1]default".into(),
            by: By::Queue,
            since: Some("7d".into()),
            until: None,
            step: Some("1d".into()),
            queue: Some("root.a b".into()),
            json: false,
            context: ContextArg::default(),
            trust: Trust::default(),
        }
    }

    #[tokio::test]
    async fn the_address() {
        let expected = "http://board:9080/api/v1/partition/%5Brm-1%5Ddefault/usage/history?by=queue&since=7d&step=1d&queue=root.a%20b";
        assert_eq!(url(&args()), expected);
        let error = read(&UsageArgs { server: "ftp://board".into(), ..args() }, &mut Vec::new()).await.unwrap_err();
        assert!(error.starts_with("server \"ftp://board\" is not an address"), "{error}");
    }

    #[test]
    fn a_table_for_people() {
        let lines = [
            r#"{"from":"2026-11-20T00:00:00Z","to":"2026-11-20T10:00:00Z","user":"alice","resourceSeconds":{"memory":"3865470566400","vcore":"36000000"}}"#,
            r#"{"from":"2026-11-20T00:00:00Z","to":"2026-11-20T10:00:00Z","user":"bob","resourceSeconds":{"example.com/gpu":"1800.5"}}"#,
            r#"{"gap":{"from":"2026-11-20T01:00:00.25Z","to":"2026-11-20T01:00:05Z","reason":"crash"}}"#,
            r#"{"since":"2026-11-20T00:00:00Z","until":"2026-11-20T10:00:00Z","by":"user","complete":false,"events":9}"#,
        ];
        let rows = lines.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(
            Table { by: By::User, rows }.shown(),
            "USER   example.com/gpu (h)  MEMORY (GiB h)  VCORE (core h)\n\
             alice                0.000           1.000          10.000\n\
             bob                  0.500           0.000           0.000\n\
             --- 2026-11-20T01:00:00Z to 2026-11-20T01:00:05Z is not certain (crash)\n\
             2026-11-20T00:00:00Z to 2026-11-20T10:00:00Z\n"
        );
        let rows = vec![serde_json::from_str(lines[3]).unwrap()];
        let text = Table { by: By::User, rows }.shown();
        assert_eq!(text, "nothing was used, 2026-11-20T00:00:00Z to 2026-11-20T10:00:00Z\n");
    }
}
