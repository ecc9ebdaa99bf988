//! `callboard cluster`: which servers there are, who leads what; moving the lead, and servers that are to lead nothing.

mod carry;
mod config;

use std::{fmt::Write as _, process::ExitCode, time::Duration};

use clap::{Args, Subcommand};
use serde_json::json;
use tokio::time::{Instant, sleep};

use super::{
    client::net::Answer,
    door::{Door, Error},
    out::{self, Output},
    wait::within,
};
use crate::messages::leaders::{ClusterStatus, GroupStatus, ServerStatus};

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
        #[arg(short, long, default_value = "text")]
        output: Output,
    },
    /// Have another server lead a resource manager
    Move {
        /// The resource manager
        rm: String,
        /// Id or URL of the server
        // By another id: the option of that name says which server is asked.
        #[arg(id = "at", value_name = "SERVER")]
        server: String,
        /// Until it does
        #[arg(long)]
        wait: bool,
    },
    /// Have a server lead nothing, until it may again: others lead what it led
    Drain {
        /// Id or URL of the server
        #[arg(id = "at", value_name = "SERVER")]
        server: String,
        /// Why; shown to operators
        #[arg(long, default_value = "")]
        reason: String,
        /// Until it leads nothing, and others lead what it led
        #[arg(long)]
        wait: bool,
    },
    /// Let a server lead again
    Undrain {
        /// Id or URL of the server
        #[arg(id = "at", value_name = "SERVER")]
        server: String,
    },
    /// Put the logs of a data directory, whose server is stopped, into etcd: a cluster goes on with its sessions
    Import(carry::CarryArgs),
    /// Take the logs out of etcd into a data directory, when the servers of the cluster are stopped: one server goes on alone
    Export(carry::CarryArgs),
    /// The configuration and the settings that hold for all servers
    Config {
        #[command(subcommand)]
        command: config::Command,
    },
}

/// Runs the command.
///
/// # Errors
/// The server cannot be asked, or did not do it.
pub async fn run(args: &ClusterArgs) -> anyhow::Result<ExitCode> {
    let told = match &args.command {
        Command::Import(args) => carry::import(args).await?,
        Command::Export(args) => carry::export(args).await?,
        command => told(args, command).await?,
    };
    out::print(told)?;
    Ok(ExitCode::SUCCESS)
}

async fn told(args: &ClusterArgs, command: &Command) -> Result<String, Error> {
    match command {
        Command::Status { output } => {
            let text = text(args.door.get_of_server("cluster").await?).await?;
            Ok(if *output == Output::Json { out::escaped(&text) } else { tables(&read(&text)?) })
        }
        Command::Move { rm, server, wait } => {
            let answer = args.door.post_to_server("cluster/move", &json!({ "rm": rm, "server": server })).await?;
            let mut status = read(&text(answer).await?)?;
            let led = |status: &ClusterStatus| {
                let led = status.resource_managers.iter().find(|group| group.rm == *rm).map(|group| &group.leader);
                led.is_some_and(|id| named(status, server).is_some_and(|at| at.id == *id))
            };
            if led(&status) {
                return Ok(format!("{rm} is led by {server}\n"));
            }
            if !wait {
                return Ok(format!("{rm} was handed over to {server}\n"));
            }
            until(args, &mut status, led, || format!("{rm} is not led by {server}")).await?;
            Ok(format!("{rm} is led by {server}\n"))
        }
        Command::Drain { server, reason, wait } => {
            // By the time it is drained others may have some of it.
            let before = read(&text(args.door.get_of_server("cluster").await?).await?)?;
            let body = json!({ "server": server, "reason": reason });
            let answer = args.door.post_to_server("cluster/drain", &body).await?;
            let mut status = read(&text(answer).await?)?;
            let led = [led_by(&before, server), led_by(&status, server)].concat();
            if *wait {
                let done = |status: &ClusterStatus| is_drained(status, server, &led);
                let not = || format!("{server} still leads something, or nobody leads yet what it led,");
                until(args, &mut status, done, not).await?;
            }
            Ok(match named(&status, server).map_or(0, |at| at.leads) {
                0 => format!("{server} leads nothing\n"),
                leads => format!("{server} is to lead nothing, and still leads {leads}\n"),
            })
        }
        Command::Undrain { server } => {
            args.door.post_to_server("cluster/undrain", &json!({ "server": server })).await?;
            Ok(format!("{server} may lead again\n"))
        }
        Command::Config { command } => config::run(&args.door, command).await,
        // These ask no server.
        Command::Import(_) | Command::Export(_) => Ok(String::new()),
    }
}

/// A server by its id or URL.
fn named<'a>(status: &'a ClusterStatus, server: &str) -> Option<&'a ServerStatus> {
    status.servers.iter().find(|at| at.id == server || (!at.http.is_empty() && at.http == server.trim_end_matches('/')))
}

/// What a server leads.
fn led_by(status: &ClusterStatus, server: &str) -> Vec<String> {
    let Some(at) = named(status, server) else { return Vec::new() };
    let led = status.resource_managers.iter().filter(|group| group.leader == at.id);
    led.map(|group| group.rm.clone()).collect()
}

/// A server leads nothing, and others lead what it led, as far as that is there.
fn is_drained(status: &ClusterStatus, server: &str, led: &[String]) -> bool {
    let idle = named(status, server).is_none_or(|at| at.leads == 0);
    idle && status.resource_managers.iter().all(|group| group.led || !led.contains(&group.rm))
}

/// Asks until it is so.
async fn until(
    args: &ClusterArgs,
    status: &mut ClusterStatus,
    done: impl Fn(&ClusterStatus) -> bool,
    not: impl Fn() -> String,
) -> Result<(), Error> {
    let end = Instant::now() + PATIENCE;
    while !done(status) {
        if Instant::now() > end {
            return Err(Error { text: format!("{} after {} s", not(), PATIENCE.as_secs()), status: None });
        }
        sleep(LOOK).await;
        let asked = async { text(args.door.get_of_server("cluster").await?).await };
        *status = read(&within(&args.door, end, asked).await.flatten()?)?;
    }
    Ok(())
}

async fn text(answer: Answer) -> Result<String, Error> {
    answer.text().await.map_err(|error| Error { text: error.to_string(), status: None })
}

fn read(text: &str) -> Result<ClusterStatus, Error> {
    out::answer(text).map_err(|error| Error { text: format!("the answer is not understood: {error}"), status: None })
}

fn tables(status: &ClusterStatus) -> String {
    let mut text = String::new();
    let version = status.etcd.version.as_ref().map_or(String::new(), |version| format!(" {version}"));
    let size = status.etcd.bytes.map_or(String::new(), |bytes| format!(", {}", mebibytes(bytes)));
    // A text takes what is written.
    let _ = match &status.etcd.trouble {
        Some(trouble) => writeln!(text, "etcd{version} {}: {trouble}\n", status.etcd.members),
        None => writeln!(text, "etcd{version} {}: answers{size}\n", status.etcd.members),
    };
    let mut rows = vec![["SERVER", "HTTP", "GRPC", "VERSION", "STATE", "LEADS", "FOLLOWS"].map(str::to_owned)];
    for server in &status.servers {
        let here = if server.id == status.server { "*" } else { "" };
        let drained = server.drained.as_ref().map_or(String::new(), |drain| {
            let reason = if drain.reason.is_empty() { String::new() } else { format!(" ({})", drain.reason) };
            format!(", drained{reason}")
        });
        let sound = server.follows.iter().filter(|follow| follow.fault.is_none()).count();
        let cannot: Vec<&str> =
            server.follows.iter().filter(|follow| follow.fault.is_some()).map(|follow| &*follow.rm).collect();
        let cannot = if cannot.is_empty() { String::new() } else { format!(", cannot follow {}", cannot.join(" ")) };
        rows.push([
            format!("{}{here}", server.id),
            server.http.clone(),
            server.grpc.clone(),
            server.version.clone(),
            format!("{}{drained}", server.state),
            server.leads.to_string(),
            format!("{sound}{cannot}"),
        ]);
    }
    text.push_str(&out::aligned(&rows, 7));
    text.push('\n');
    let mut rows = vec![["RM", "LEADER", "EPOCH", "RECORDS", "SIZE", "HERE", "BEHIND", "LAG"].map(str::to_owned)];
    for group in &status.resource_managers {
        let at = status.servers.iter().find(|server| server.id == group.leader);
        // One with `--http off` has the other door alone, and one that is gone has none.
        let at = at.and_then(|at| [&at.http, &at.grpc].into_iter().find(|door| !door.is_empty()).cloned());
        let behind = group.applied.map_or("-".to_owned(), |applied| group.index.saturating_sub(applied).to_string());
        let role = group.fault.as_ref().map_or_else(|| group.role.clone(), |fault| format!("{}: {fault}", group.role));
        let leader =
            at.unwrap_or_else(|| if group.leader.is_empty() { "nobody".to_owned() } else { group.leader.clone() });
        rows.push([
            group.rm.clone(),
            if group.led || group.leader.is_empty() { leader } else { format!("{leader} (gone)") },
            group.epoch.to_string(),
            group.index.to_string(),
            room(group),
            role,
            behind,
            group.lag.map_or("-".to_owned(), |lag| format!("{lag:.1}s")),
        ]);
    }
    text + &out::aligned(&rows, 8)
}

fn room(group: &GroupStatus) -> String {
    let full = if group.bytes >= group.max_bytes { " (full)" } else { "" };
    format!("{}{full}", mebibytes(group.bytes))
}

fn mebibytes(bytes: u64) -> String {
    format!("{:.1}Mi", bytes as f64 / f64::from(1 << 20))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::messages::leaders::{Drain, EtcdStatus, FollowStatus};

    #[test]
    fn servers_and_resource_managers_as_tables() {
        let server = |id: &str, state: &str| ServerStatus {
            id: id.into(),
            http: format!("http://{id}:9080"),
            grpc: format!("{id}:9090"),
            version: "1".into(),
            state: state.into(),
            leads: 1,
            drained: (id == "b").then(|| Drain { reason: "disk".into(), ..Drain::default() }),
            follows: vec![FollowStatus { rm: "rm-1".into(), applied: 17, fault: (id == "b").then(|| "bad".into()) }],
        };
        let group = |rm: &str, leader: &str, applied| GroupStatus {
            rm: rm.into(),
            leader: leader.into(),
            led: !leader.is_empty(),
            epoch: 3,
            index: 20,
            applied,
            lag: applied.map(|_| 0.25),
            bytes: 3 << 20,
            max_bytes: 3 << 20,
            role: "follows".into(),
            fault: None,
        };
        let status = ClusterStatus {
            server: "b".into(),
            prefix: "/callboard/".into(),
            etcd: EtcdStatus {
                members: "http://e:2379".into(),
                trouble: None,
                version: Some("3.5.16".into()),
                bytes: Some(5 << 19),
            },
            servers: vec![server("a", "there"), server("b", "there")],
            resource_managers: vec![group("rm-1", "a", Some(17)), group("rm-2", "", None)],
        };
        let expected = "\
etcd 3.5.16 http://e:2379: answers, 2.5Mi

SERVER  HTTP           GRPC    VERSION  STATE                  LEADS  FOLLOWS
a       http://a:9080  a:9090  1        there                  1      1
b*      http://b:9080  b:9090  1        there, drained (disk)  1      0, cannot follow rm-1

RM    LEADER         EPOCH  RECORDS  SIZE          HERE     BEHIND  LAG
rm-1  http://a:9080  3      20       3.0Mi (full)  follows  3       0.2s
rm-2  nobody         3      20       3.0Mi (full)  follows  -       -
";
        assert_eq!(tables(&status), expected);
        // A leader is named by its HTTP door, or by the other one where it has none, or else by its id.
        let mut doors = status.clone();
        doors.servers[0].http.clear();
        assert!(tables(&doors).contains("\nrm-1  a:9090  3 "), "{}", tables(&doors));
        doors.servers[0].grpc.clear();
        doors.resource_managers[0].led = false;
        assert!(tables(&doors).contains("\nrm-1  a (gone)  3 "), "{}", tables(&doors));
        // A server is drained when others lead what it led; what nobody leads for another reason is of no account.
        assert_eq!(led_by(&status, "http://a:9080"), ["rm-1"]);
        let mut drained = status;
        for (leads, leader, done) in [(1, "a", false), (0, "", false), (0, "b", true)] {
            drained.servers[0].leads = leads;
            drained.resource_managers[0] = group("rm-1", leader, None);
            assert_eq!(is_drained(&drained, "http://a:9080", &["rm-1".into()]), done, "{leader}");
        }
    }
}
