//! `callboard cluster`: which servers there are, who leads what; and moving the lead.

use std::{
    fmt::Write as _,
    process::ExitCode,
    time::{Duration, Instant},
};

use clap::{Args, Subcommand, ValueEnum};
use serde_json::json;
use tokio::time::sleep;

use super::{
    client::net::Answer,
    door::{Door, Error},
    out,
};
use crate::messages::leaders::ClusterStatus;

/// With `--wait`: how long at most, and how often it is looked.
const PATIENCE: Duration = Duration::from_secs(30);
const LOOK: Duration = Duration::from_millis(100);

/// Options of `callboard cluster`.
#[derive(Args, Clone, Debug)]
pub struct ClusterArgs {
    #[command(flatten)]
    door: Door,
    #[command(subcommand)]
    command: Command,
}

#[derive(Clone, Debug, Subcommand)]
enum Command {
    /// Show servers, who leads which resource manager, and how far the asked server follows
    Status {
        /// Form of the output
        #[arg(short, long, default_value = "table")]
        output: Output,
    },
    /// Have another server lead a resource manager
    Move {
        /// The resource manager
        rm: String,
        /// Id or URL of the server
        server: String,
        /// Until it does
        #[arg(long)]
        wait: bool,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Output {
    /// Tables.
    Table,
    /// The answer of the server as it is.
    Json,
}

/// Runs the command.
///
/// # Errors
/// The server cannot be asked, or did not do it.
pub async fn run(args: &ClusterArgs) -> anyhow::Result<ExitCode> {
    out::print(told(args).await?)?;
    Ok(ExitCode::SUCCESS)
}

async fn told(args: &ClusterArgs) -> Result<String, Error> {
    match &args.command {
        Command::Status { output } => {
            let text = text(args.door.get_of_server("cluster").await?).await?;
            Ok(if *output == Output::Json { text } else { tables(&read(&text)?) })
        }
        Command::Move { rm, server, wait } => {
            let answer = args.door.post_to_server("cluster/move", &json!({ "rm": rm, "server": server })).await?;
            let mut status = read(&text(answer).await?)?;
            let end = Instant::now() + PATIENCE;
            loop {
                let led = status.resource_managers.iter().find(|group| group.rm == *rm).map(|group| &group.leader);
                let is_there = |id: &String| {
                    status
                        .servers
                        .iter()
                        .any(|at| at.id == *id && (at.id == *server || at.http == server.trim_end_matches('/')))
                };
                if led.is_some_and(is_there) {
                    return Ok(format!("{rm} is led by {server}\n"));
                }
                if !wait {
                    return Ok(format!("{rm} was handed over to {server}\n"));
                }
                if Instant::now() > end {
                    let text = format!("{rm} is not led by {server} after {} s", PATIENCE.as_secs());
                    return Err(Error { text, status: None });
                }
                sleep(LOOK).await;
                status = read(&text(args.door.get_of_server("cluster").await?).await?)?;
            }
        }
    }
}

async fn text(answer: Answer) -> Result<String, Error> {
    answer.text().await.map_err(|error| Error { text: error.to_string(), status: None })
}

fn read(text: &str) -> Result<ClusterStatus, Error> {
    serde_json::from_str(text)
        .map_err(|error| Error { text: format!("the answer is not understood: {error}"), status: None })
}

fn tables(status: &ClusterStatus) -> String {
    let mut text = String::new();
    // A text takes what is written.
    let _ = match &status.etcd.trouble {
        Some(trouble) => writeln!(text, "etcd {}: {trouble}\n", status.etcd.members),
        None => writeln!(text, "etcd {}: answers\n", status.etcd.members),
    };
    let mut rows = vec![["SERVER", "HTTP", "GRPC", "VERSION", "STATE", "LEADS"].map(str::to_owned)];
    for server in &status.servers {
        let here = if server.id == status.server { "*" } else { "" };
        rows.push([
            format!("{}{here}", server.id),
            server.http.clone(),
            server.grpc.clone(),
            server.version.clone(),
            server.state.clone(),
            server.leads.to_string(),
        ]);
    }
    table(&mut text, &rows);
    text.push('\n');
    let mut rows = vec![["RM", "LEADER", "EPOCH", "RECORDS", "BEHIND", "HERE"].map(str::to_owned)];
    for group in &status.resource_managers {
        let at = status.servers.iter().find(|server| server.id == group.leader).map(|server| server.http.clone());
        let behind = group.applied.map_or("-".to_owned(), |applied| group.index.saturating_sub(applied).to_string());
        let role = group.fault.as_ref().map_or_else(|| group.role.clone(), |fault| format!("{}: {fault}", group.role));
        rows.push([
            group.rm.clone(),
            at.unwrap_or_else(|| if group.leader.is_empty() { "nobody".to_owned() } else { group.leader.clone() }),
            group.epoch.to_string(),
            group.index.to_string(),
            behind,
            role,
        ]);
    }
    table(&mut text, &rows);
    text
}

fn table<const N: usize>(text: &mut String, rows: &[[String; N]]) {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: [usize; N] = std::array::from_fn(width);
    for row in rows {
        let line: String = row.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}  ")).collect();
        text.push_str(line.trim_end());
        text.push('\n');
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::messages::leaders::{EtcdStatus, GroupStatus, ServerStatus};

    #[test]
    fn servers_and_resource_managers_as_tables() {
        let server = |id: &str, state: &str| ServerStatus {
            id: id.into(),
            http: format!("http://{id}:9080"),
            grpc: format!("{id}:9090"),
            version: "1".into(),
            state: state.into(),
            leads: 1,
        };
        let group = |rm: &str, leader: &str, applied| GroupStatus {
            rm: rm.into(),
            leader: leader.into(),
            epoch: 3,
            index: 20,
            applied,
            bytes: 1,
            role: "follows".into(),
            fault: None,
        };
        let status = ClusterStatus {
            server: "b".into(),
            prefix: "/callboard/".into(),
            etcd: EtcdStatus { members: "http://e:2379".into(), trouble: None },
            servers: vec![server("a", "there"), server("b", "there")],
            resource_managers: vec![group("rm-1", "a", Some(17)), group("rm-2", "", None)],
        };
        let expected = "\
etcd http://e:2379: answers

SERVER  HTTP           GRPC    VERSION  STATE  LEADS
a       http://a:9080  a:9090  1        there  1
b*      http://b:9080  b:9090  1        there  1

RM    LEADER         EPOCH  RECORDS  BEHIND  HERE
rm-1  http://a:9080  3      20       3       follows
rm-2  nobody         3      20       -       follows
";
        assert_eq!(tables(&status), expected);
    }
}
