//! `callboard queue`: stop, drain and resume queues, and show whom one refused.

use std::{
    collections::BTreeSet,
    io::{self, Write},
    process::ExitCode,
    time::Duration,
};

use clap::{Args, Subcommand};
use serde::Deserialize;
use serde_json::json;
use tokio::time::Instant;

use super::{
    client::http::segment,
    door::{Door, Error},
    out,
    wait::{self, Named},
};
use crate::{domain::words::plural, messages::wait::Kind};

/// Options of `callboard queue`.
#[derive(Args, Clone, Debug)]
pub struct QueueArgs {
    #[command(flatten)]
    door: Door,
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand, Clone, Debug)]
enum What {
    /// Take no new application, here and below
    Stop(OrderArgs),
    /// Take no new application, and be told when nothing is left
    Drain {
        #[command(flatten)]
        order: OrderArgs,
        /// Wait until it is empty, also where it is being drained already
        #[arg(short, long)]
        wait: bool,
        /// How long is waited at most; then what is left is listed
        #[arg(long, value_name = "TIME", requires = "wait", default_value = "30s", value_parser = wait::time)]
        timeout: Duration,
    },
    /// Take applications again
    Resume(OrderArgs),
    /// Show a queue's state, who stopped it, and its last refusals; without a path, all that were stopped or drained
    Show {
        /// Path, such as root.a; without it, what was stopped or drained, also where the queue is not there
        path: Option<String>,
    },
}

#[derive(Args, Clone, Debug)]
struct OrderArgs {
    /// Paths, such as root.a
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<String>,
    /// Why: each application that is refused is told
    #[arg(short, long, default_value = "")]
    reason: String,
    /// Replace reason and time of an order that holds already
    #[arg(short, long)]
    force: bool,
}

/// Runs the command. Exit status 0 where it succeeded, else 1.
pub async fn run(args: QueueArgs) -> ExitCode {
    let (mut out, mut err) = (out::stdout(), io::stderr().lock());
    ExitCode::from(run_with(&args, &mut out, &mut err).await)
}

/// Like [`run`], with the outputs chosen by the caller. Gives the exit status.
pub async fn run_with(args: &QueueArgs, out: &mut dyn Write, err: &mut dyn Write) -> u8 {
    let door = &args.door;
    if let What::Stop(order) | What::Resume(order) | What::Drain { order, wait: false, .. } = &args.what
        && !are_there(door, order, err).await
    {
        return 1;
    }
    match &args.what {
        What::Stop(order) => give(door, "stop", order, false, out, err).await,
        What::Resume(order) => give(door, "resume", order, false, out, err).await,
        What::Drain { order, wait: false, .. } => give(door, "drain", order, false, out, err).await,
        What::Drain { order, timeout, .. } => {
            let end = Instant::now() + *timeout;
            let given = async {
                if are_there(door, order, err).await { give(door, "drain", order, true, out, err).await } else { 1 }
            };
            match wait::within(door, end, given).await {
                Ok(0) => {}
                Ok(refused) => return refused,
                Err(error) => return out::fail(err, &error),
            }
            let targets: Vec<Named> =
                order.paths.iter().map(|path| Named { kind: Kind::Queue, name: path.clone() }).collect();
            wait::wait(door, &targets, "empty", end, out, err).await
        }
        What::Show { path } => match show(door, path.as_deref()).await {
            Ok(text) => written(out.write_all(text.as_bytes()).and_then(|()| out.flush()), err),
            Err(error) => out::fail(err, &error),
        },
    }
}

fn written(done: io::Result<()>, err: &mut dyn Write) -> u8 {
    done.map_or_else(|error| out::fail(err, &error), |()| 0)
}

/// Where one of several is no queue, nothing is changed: it may be meant otherwise.
async fn are_there(door: &Door, order: &OrderArgs, err: &mut dyn Write) -> bool {
    let mut all = true;
    for path in order.paths.iter().filter(|_| order.paths.len() > 1) {
        let Err(mut error) = door.get(&format!("queue/{}", segment(path))).await else { continue };
        if error.status == Some(404) && path.split('.').next() != Some("root") {
            error.text.push_str("; a reason is given with -r REASON");
        }
        out::fail(err, &error);
        all = false;
    }
    if !all {
        out::fail(err, &Error { text: "no queue was told anything".to_owned(), status: None });
    }
    all
}

/// Each queue by itself: one that is refused leaves the others. One that was resumed and takes nothing all the same is told.
/// An order that holds already is a failure, unless it is `enough` that it holds.
async fn give(
    door: &Door,
    what: &str,
    order: &OrderArgs,
    enough: bool,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> u8 {
    let (mut status, mut told) = (0, BTreeSet::new());
    // One that is named twice is told once; capitals do not count.
    for path in order.paths.iter().filter(|path| told.insert(path.to_lowercase())) {
        match give_one(door, what, path, order).await {
            Ok(Ordered { state, why: Some(why) }) if what == "resume" => {
                status |= written(writeln!(out, "{path} is {state} still: {why}"), err);
            }
            Ok(_) => {}
            Err(mut error) => {
                let holds = error.status == Some(409) && error.text.contains("overwrite true");
                if holds {
                    error.text.push_str("; --force does it");
                }
                let failed = out::fail(err, &error);
                if !(holds && enough) {
                    status = failed;
                }
            }
        }
    }
    status | written(out.flush(), err)
}

/// How a queue is after an order.
#[derive(Deserialize)]
struct Ordered {
    state: String,
    #[serde(default)]
    why: Option<String>,
}

async fn give_one(door: &Door, what: &str, path: &str, order: &OrderArgs) -> Result<Ordered, Error> {
    let body = json!({"reason": order.reason, "overwrite": order.force});
    let answer = door.post(&format!("queue/{}/{what}", segment(path)), &body).await?;
    let text = answer.text().await.map_err(|error| broken(error.to_string()))?;
    out::answer(&text).map_err(|error| broken(error.to_string()))
}

fn broken(why: String) -> Error {
    Error { text: format!("the server sent what is no queue: {why}"), status: None }
}

#[derive(Deserialize)]
struct Answer {
    state: String,
    #[serde(default)]
    order: Option<Order>,
    empty: bool,
    admitted: u64,
    refused: u64,
    refusals: Vec<Refusal>,
}

#[derive(Deserialize)]
struct Order {
    order: String,
    queue: String,
    by: String,
    since: String,
    reason: String,
}

#[derive(Deserialize)]
struct Refusal {
    #[serde(rename = "applicationID")]
    application: String,
    time: String,
    reason: String,
}

/// All orders that hold.
#[derive(Deserialize)]
struct Orders {
    orders: Vec<Given>,
}

#[derive(Deserialize)]
struct Given {
    state: String,
    #[serde(flatten)]
    order: Order,
}

async fn show(door: &Door, path: Option<&str>) -> Result<String, Error> {
    let at = path.map_or_else(|| "orders".to_owned(), |path| format!("queue/{}", segment(path)));
    let text = door.get(&at).await?.text().await.map_err(|error| broken(error.to_string()))?;
    let fault = |error: serde_json::Error| broken(error.to_string());
    Ok(match path {
        Some(path) => shown(path, &out::answer(&text).map_err(fault)?),
        None => listed(&out::answer(&text).map_err(fault)?),
    })
}

fn listed(all: &Orders) -> String {
    all.orders.iter().map(|Given { state, order }| format!("{} {state}\n{}", order.queue, order.line())).collect()
}

impl Order {
    fn line(&self) -> String {
        let Order { order, queue, by, since, reason } = self;
        let reason = if reason.is_empty() { "no reason was given" } else { reason };
        format!("  {order} of {queue} by {by} since {since}: {reason}\n")
    }
}

fn shown(path: &str, answer: &Answer) -> String {
    let Answer { state, order, empty, admitted, refused, refusals } = answer;
    let mut text = format!("{path} {state}{}\n", if *empty { ", empty" } else { "" });
    text.extend(order.as_ref().map(Order::line));
    text.push_str(&format!("  {} admitted, {refused} refused\n", plural(*admitted, "application")));
    for Refusal { application, time, reason } in refusals {
        text.push_str(&format!("  {time} {application}: {reason}\n"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_is_shown_with_who_stopped_it_and_whom_it_refused() {
        let answer = json!({
            "state": "Stopped", "empty": false, "admitted": 3, "refused": 1,
            "order": {"order": "stop", "queue": "root.a", "by": "alice", "since": "2026-11-22T07:00:00Z", "reason": "billing"},
            "refusals": [{"applicationID": "app-9\u{1b}[2J", "time": "2026-11-22T07:01:00Z", "reason": "queue root.a.b\nis stopped"}],
        });
        let expected = "root.a.b Stopped\n  stop of root.a by alice since 2026-11-22T07:00:00Z: billing\n  \
                        3 applications admitted, 1 refused\n  2026-11-22T07:01:00Z app-9 [2J: queue root.a.b is stopped\n";
        assert_eq!(shown("root.a.b", &out::answer(&answer.to_string()).unwrap()), expected);
    }
}
