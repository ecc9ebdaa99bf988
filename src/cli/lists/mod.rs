//! `callboard status`, `apps`, `queues`, `nodes` and `rms`: lists of what a running server has.

pub mod rows;
pub mod table;
mod yaml;

use std::{collections::BTreeMap, io::Write, process::ExitCode, time::Duration};

use clap::{Arg, Args, ValueEnum, builder::PossibleValuesParser};
use jiff::Timestamp;
use serde_json::Value;

use self::table::{Format, List};
use super::{
    client::http::{named, segment},
    door::{Door, Error},
    out,
    wait::may_come_back,
};
use crate::{domain::types::AppState, http::api::board::why};

/// Between two looks of a list that is watched.
const EVERY: Duration = Duration::from_secs(2);

/// How a list is shown.
#[derive(Args, Clone, Debug)]
pub struct Show {
    /// How it is printed
    #[arg(short, long, value_enum, default_value = "table")]
    pub output: Format,
    /// Go on with what changes, until Ctrl-C
    #[arg(short, long)]
    pub watch: bool,
    /// Sort by this column; with a - before it from the largest
    #[arg(long, value_name = "COLUMN", allow_hyphen_values = true)]
    pub sort: Option<String>,
    #[command(flatten)]
    pub door: Door,
}

/// Partitions at a glance, and what waits in them for which reason.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Exit status: 0 done; 1 there is no such partition, or the server cannot be asked")]
#[command(mut_arg("partition", all_partitions))]
pub struct StatusArgs {
    #[command(flatten)]
    show: Show,
}

/// What shows all partitions shows one where one is named.
fn all_partitions(partition: Arg) -> Arg {
    partition.default_value("").hide_default_value(true).help("Only this partition [default: all]")
}

/// Applications, those that wait first.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Exit status: 0 done; 1 the server cannot be asked")]
pub struct AppsArgs {
    /// Those of this queue and the queues below it
    #[arg(long, value_name = "QUEUE")]
    queue: Option<String>,
    /// Those of this user
    #[arg(long, value_name = "USER")]
    user: Option<String>,
    /// Those in this state
    #[arg(long, value_name = "STATE", ignore_case = true, value_parser = app_states())]
    state: Option<String>,
    /// Those that wait for this reason
    #[arg(long, value_name = "CODE", value_parser = why::CODES)]
    reason: Option<String>,
    /// Those with this in their id, queue or user
    #[arg(long, value_name = "TEXT")]
    text: Option<String>,
    /// Only those that wait
    #[arg(long)]
    waiting: bool,
    /// Which list
    #[arg(long, value_enum, default_value = "active")]
    list: Which,
    /// So many at most
    #[arg(long, value_name = "COUNT", default_value = "1000")]
    limit: u32,
    #[command(flatten)]
    show: Show,
}

fn app_states() -> PossibleValuesParser {
    AppState::ALL.map(AppState::name).into()
}

/// See [`AppsArgs`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Which {
    /// Those that are there
    Active,
    /// Those that ended
    Completed,
    /// Those that were refused
    Rejected,
}

/// Queues, each after the one above it.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Exit status: 0 done; 1 the server cannot be asked")]
pub struct QueuesArgs {
    /// This queue and those below it
    #[arg(long, value_name = "QUEUE")]
    queue: Option<String>,
    /// Those in this state
    #[arg(long, value_name = "STATE", ignore_case = true, value_parser = ["Active", "Draining", "Stopped"])]
    state: Option<String>,
    #[command(flatten)]
    show: Show,
}

/// Nodes: how full they are, and what is the matter with them.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Exit status: 0 done; 1 the server cannot be asked")]
pub struct NodesArgs {
    /// Those in this state
    #[arg(long, value_name = "STATE", ignore_case = true, value_parser = rows::NODE_STATES)]
    state: Option<String>,
    #[command(flatten)]
    show: Show,
}

/// Resource managers and their sessions.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Exit status: 0 done; 1 there is no such partition, or the server cannot be asked")]
#[command(mut_arg("partition", all_partitions))]
pub struct RmsArgs {
    /// Those in this state
    #[arg(long, value_name = "STATE", ignore_case = true, value_parser = ["init", "Running", "Paused", "Stopped"])]
    state: Option<String>,
    #[command(flatten)]
    show: Show,
}

/// A list that can be asked for.
#[derive(Clone, Debug)]
pub enum Wanted {
    /// See [`StatusArgs`].
    Status(StatusArgs),
    /// See [`AppsArgs`].
    Apps(AppsArgs),
    /// See [`QueuesArgs`].
    Queues(QueuesArgs),
    /// See [`NodesArgs`].
    Nodes(NodesArgs),
    /// See [`RmsArgs`].
    Rms(RmsArgs),
}

impl Wanted {
    fn show(&self) -> &Show {
        match self {
            Wanted::Status(args) => &args.show,
            Wanted::Apps(args) => &args.show,
            Wanted::Queues(args) => &args.show,
            Wanted::Nodes(args) => &args.show,
            Wanted::Rms(args) => &args.show,
        }
    }

    /// Where the server tells it.
    fn path(&self) -> String {
        let partition = segment(&self.show().door.partition);
        match self {
            Wanted::Status(_) => "/api/v1/overview".to_owned(),
            Wanted::Apps(args) => {
                let list = args.list.to_possible_value().map_or(String::new(), |list| list.get_name().to_owned());
                let mut path = format!("/api/v1/partition/{partition}/applications?list={list}&limit={}", args.limit);
                let given = [
                    ("queue", &args.queue),
                    ("user", &args.user),
                    ("state", &args.state),
                    ("reason", &args.reason),
                    ("text", &args.text),
                    // Here, since what is left out goes by it.
                    ("sort", &args.show.sort),
                ];
                for (name, value) in given {
                    if let Some(value) = value {
                        path.push_str(&format!("&{name}={}", segment(value)));
                    }
                }
                if args.waiting {
                    path.push_str("&waiting=true");
                }
                path
            }
            Wanted::Queues(args) => format!("/ws/v1/partition/{}/queues", named(&args.show.door.partition)),
            Wanted::Nodes(_) => format!("/api/v1/partition/{partition}/nodes"),
            Wanted::Rms(_) => "/si/v1/rm".to_owned(),
        }
    }

    fn list(&self, answer: &Value, now: Timestamp) -> List {
        let mut list = match self {
            Wanted::Status(_) => rows::status(answer),
            Wanted::Apps(_) => rows::applications(answer, now),
            Wanted::Queues(_) => rows::queues(answer),
            Wanted::Nodes(_) => rows::nodes(answer, now),
            Wanted::Rms(_) => rows::managers(answer, now),
        };
        let is = |value: &Value, key: &str, wanted: &Option<String>| {
            wanted.as_ref().is_none_or(|wanted| value[key].as_str().is_some_and(|is| is.eq_ignore_ascii_case(wanted)))
        };
        match self {
            Wanted::Status(_) | Wanted::Apps(_) => {}
            Wanted::Queues(args) => {
                let below = args.queue.as_ref().map(|queue| queue.to_lowercase());
                list.rows.retain(|row| {
                    let below = below.as_ref().is_none_or(|queue| {
                        row.name() == queue
                            || row.name().strip_prefix(&**queue).is_some_and(|rest| rest.starts_with('.'))
                    });
                    below && is(&row.value, "status", &args.state)
                });
            }
            Wanted::Nodes(args) => list.rows.retain(|row| {
                args.state
                    .as_ref()
                    .is_none_or(|state| rows::node_states(&row.value).any(|own| own.eq_ignore_ascii_case(state)))
            }),
            Wanted::Rms(args) => list.rows.retain(|row| {
                let of = |name: &Value| self.is_meant(name, row.name());
                is(&row.value, "state", &args.state)
                    && (self.means_all() || row.value["partitions"].as_array().into_iter().flatten().any(of))
            }),
        }
        list
    }

    /// No partition was named, of those commands that then show all.
    fn means_all(&self) -> bool {
        self.show().door.partition.is_empty()
    }

    /// This is the partition that was named: by its name, or with its resource manager before it.
    fn is_meant(&self, name: &Value, rm: &str) -> bool {
        let (wanted, name) = (&self.show().door.partition, name.as_str().unwrap_or_default());
        let full = |name: &str| format!("[{rm}]{name}");
        name == wanted || full(name) == *wanted || name == full(wanted)
    }

    /// What of the overview is about the partition that was named.
    fn narrow(&self, overview: &mut Value) {
        let mut managers = Vec::new();
        if let Some(rows) = overview["partitions"].as_array_mut() {
            rows.retain(|row| self.is_meant(&row["name"], row["rm"].as_str().unwrap_or_default()));
            managers = rows.iter().map(|row| row["rm"].clone()).collect();
        }
        if let Some(rows) = overview["resourceManagers"].as_array_mut() {
            rows.retain(|row| managers.contains(&row["rmID"]));
        }
    }

    /// Of what is not there nothing is listed, without a word: a queue or partition that was asked for may be written wrongly.
    async fn check(&self, list: &List) -> Result<(), Error> {
        let queue = match self {
            Wanted::Apps(AppsArgs { queue, .. }) | Wanted::Queues(QueuesArgs { queue, .. }) => queue.as_deref(),
            Wanted::Status(_) | Wanted::Rms(_) if !self.means_all() => Some("root"),
            _ => None,
        };
        let Some(queue) = queue.filter(|_| list.rows.is_empty()) else { return Ok(()) };
        let door = &self.show().door;
        let path = format!("/api/v1/partition/{}/queue/{}", segment(&door.partition), segment(queue));
        door.value_at(&path).await.map(|_| ())
    }

    /// Of several servers each lists what it leads: where the others are, one in a line.
    async fn led_elsewhere(&self) -> String {
        // One alone, or one that may not be asked, tells nothing of it.
        let Ok(cluster) = self.show().door.value_at("/api/v1/cluster").await else { return String::new() };
        let rows = |key: &str| cluster[key].as_array().into_iter().flatten();
        let line = |group: &Value| {
            let (rm, leader) = (out::line(group["rmID"].as_str()?), &group["leader"]);
            let at = rows("servers").find(|server| server["id"] == *leader && *leader != cluster["server"]);
            match at.and_then(|server| server["http"].as_str()).filter(|http| !http.is_empty()) {
                Some(http) => Some(format!("{rm} is led by another server: --server {}\n", out::line(http))),
                None if group["led"] == false => Some(format!("{rm} is led by no server\n")),
                None => None,
            }
        };
        rows("resourceManagers").filter_map(line).collect()
    }

    async fn ask(&self) -> Result<List, Error> {
        let show = self.show();
        let (mut answer, now) = match show.door.value_and_now(&self.path()).await {
            // Of a partition that is not there this door says no more than that; the other one says which there are.
            Err(error) if matches!(self, Wanted::Queues(_)) && error.status == Some(404) => {
                let root = format!("/api/v1/partition/{}/queue/root", segment(&show.door.partition));
                return Err(show.door.value_at(&root).await.err().unwrap_or(error));
            }
            answer => answer?,
        };
        if matches!(self, Wanted::Status(_)) && !self.means_all() {
            self.narrow(&mut answer);
        }
        let mut list = self.list(&answer, now);
        if matches!(self, Wanted::Rms(_)) {
            list.note.push_str(&self.led_elsewhere().await);
        }
        if let Some(by) = show.sort.as_ref().filter(|_| !matches!(self, Wanted::Apps(_))) {
            list.sort(by).map_err(|text| Error { text, status: None })?;
        }
        Ok(list)
    }
}

/// Prints a list, and where it is watched what changes of it.
///
/// # Errors
/// The server cannot be asked, or nothing can be written.
pub async fn run(wanted: &Wanted) -> anyhow::Result<ExitCode> {
    let show = wanted.show();
    let failed = |error: std::io::Error| Error { text: error.to_string(), status: None };
    let mut out = out::stdout();
    let list = wanted.ask().await?;
    wanted.check(&list).await?;
    out.write_all(list.shown(show.output).as_bytes()).and_then(|()| out.flush()).map_err(failed)?;
    let beside = list.beside(show.output);
    if !beside.is_empty() {
        out::note(beside);
    }
    let mut known = states(&list);
    if !show.watch {
        return Ok(ExitCode::SUCCESS);
    }
    let mut lost = String::new();
    loop {
        tokio::time::sleep(EVERY).await;
        let mut list = match wanted.ask().await {
            Ok(list) => list,
            // The server may be being restarted, or the resource manager registering again.
            Err(error) if may_come_back(&error, true) => {
                if lost != error.text {
                    out::note(format_args!("callboard: {error}; trying again"));
                    lost = error.text;
                }
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        lost.clear();
        let now = states(&list);
        list.rows.retain(|row| known.get(row.name()) != now.get(row.name()));
        let gone = known.keys().filter(|name| !now.contains_key(*name));
        let gone = gone.map(|name| format!("{} is no longer in the list", out::line(name)));
        let mut text = String::new();
        match show.output {
            Format::Table | Format::Wide => gone.for_each(|gone| text.extend([&*gone, "\n"])),
            // Programs read it, and names alone are those of what is there.
            _ => gone.for_each(out::note),
        }
        if !list.rows.is_empty() {
            text.push_str(&match show.output {
                Format::Table | Format::Wide => list.table(show.output == Format::Wide, false),
                other => list.shown(other),
            });
        }
        out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(failed)?;
        known = now;
    }
}

/// What the server says of each row.
fn states(list: &List) -> BTreeMap<String, Value> {
    list.rows.iter().map(|row| (row.name().to_owned(), row.value.clone())).collect()
}
