//! `callboard wait`: until something holds of applications, queues or nodes, in the manner of `kubectl wait`.

use std::{
    io::{self, Write},
    process::ExitCode,
    str::FromStr,
    time::Duration,
};

use clap::Args;
use futures::{StreamExt as _, stream::FuturesUnordered};
use serde::Deserialize;
use tokio::time::{Instant, sleep};

use super::{
    client::http::segment,
    door::{Door, Error},
    out,
};
use crate::{domain::duration, messages::wait::Kind};

/// One request waits so long at most; what is left of the time-out is for the next.
const SLICE: Duration = Duration::from_secs(600);
/// A session that ended may begin again, and a server may come back: it is asked again after this time.
const AGAIN: Duration = Duration::from_secs(1);

/// Waits until something holds of everything that is named. Exit status 0 when it does, 1 when the time is over or it will
/// not hold any more, with the state of each and why.
#[derive(Args, Clone, Debug)]
pub struct WaitArgs {
    /// app/ID, queue/PATH or node/ID
    #[arg(required = true, value_name = "app/ID|queue/PATH|node/ID")]
    pub targets: Vec<Named>,
    /// Of applications: running, completed, placed; of queues: empty, room; of nodes: empty, online, drained
    #[arg(long = "for", value_name = "CONDITION")]
    pub condition: String,
    /// How long at most, such as 60s or 5m
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = time)]
    pub timeout: Duration,
    #[command(flatten)]
    pub door: Door,
}

/// A thing by its kind and name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// Its kind.
    pub kind: Kind,
    /// Its name.
    pub name: String,
}

impl FromStr for Named {
    type Err = String;

    fn from_str(text: &str) -> Result<Named, String> {
        let (kind, name) = text.split_once('/').unwrap_or((text, ""));
        let kind = match kind {
            "app" | "application" => Kind::Application,
            "queue" => Kind::Queue,
            "node" => Kind::Node,
            _ => return Err(format!("'{text}' is neither app/ID, queue/PATH nor node/ID")),
        };
        if name.is_empty() {
            return Err(format!("'{text}' has no name behind the slash"));
        }
        Ok(Named { kind, name: name.to_owned() })
    }
}

impl std::fmt::Display for Named {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let kind = if self.kind == Kind::Application { "app" } else { self.kind.name() };
        write!(f, "{kind}/{}", self.name)
    }
}

/// A duration of 0 or more.
pub fn time(text: &str) -> Result<Duration, String> {
    let nanos = duration::parse(text).and_then(|time| u64::try_from(time.0).ok());
    nanos.map(Duration::from_nanos).ok_or_else(|| "expected a duration such as 60s or 5m".to_owned())
}

/// The parts of the answer that are shown.
#[derive(Debug, Deserialize)]
struct Answer {
    met: bool,
    state: String,
    #[serde(default)]
    why: Option<String>,
    #[serde(default)]
    never: bool,
}

/// Runs the command.
pub async fn run(args: WaitArgs) -> ExitCode {
    let (mut out, mut err) = (out::stdout(), io::stderr().lock());
    ExitCode::from(run_with(&args, &mut out, &mut err).await)
}

/// Like [`run`], with the outputs chosen by the caller. Gives the exit status.
pub async fn run_with(args: &WaitArgs, out: &mut dyn Write, err: &mut dyn Write) -> u8 {
    for target in &args.targets {
        if let Err(fault) = target.kind.condition(&args.condition) {
            // Where nobody reads the errors, the status still tells.
            let _ = writeln!(err, "callboard: {target}: {fault}");
            return 1;
        }
    }
    wait(&args.door, &args.targets, &args.condition, args.timeout, out, err).await
}

/// Waits for all of them at once; each is told of when it is decided.
pub async fn wait(
    door: &Door,
    targets: &[Named],
    condition: &str,
    longest: Duration,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> u8 {
    let end = Instant::now() + longest;
    let mut waiting: FuturesUnordered<_> =
        targets.iter().map(async |target| (target, one(door, target, condition, end).await)).collect();
    let mut status = 0;
    while let Some((target, answer)) = waiting.next().await {
        let told = match answer {
            Ok(Answer { met: true, state, .. }) => writeln!(out, "{target} condition met: {condition} ({state})"),
            Ok(Answer { state, why, never, .. }) => {
                status = 1;
                let what =
                    if never { format!("will not be {condition}") } else { format!("timed out: not {condition}") };
                let why = why.filter(|why| !why.is_empty()).map(|why| format!(": {why}")).unwrap_or_default();
                writeln!(err, "callboard: {target} {what}; state {state}{why}")
            }
            Err(error) => {
                status = 1;
                writeln!(err, "callboard: {target}: {error}")
            }
        };
        if told.is_err() {
            status = 1;
        }
    }
    let _ = out.flush();
    status
}

async fn one(door: &Door, target: &Named, condition: &str, end: Instant) -> Result<Answer, Error> {
    let mut answered = false;
    loop {
        let left = end.saturating_duration_since(Instant::now());
        let slice = left.min(SLICE);
        let path = format!(
            "{}/{}/wait?for={condition}&timeout={}ms",
            target.kind.name(),
            segment(&target.name),
            slice.as_millis()
        );
        let began = Instant::now();
        match ask(door, &path).await {
            Ok(answer) if answer.met || answer.never || left <= slice => return Ok(answer),
            Ok(_) => answered = true,
            // The session ended, or the server is being restarted: both may come back.
            Err(error) if left > AGAIN && may_come_back(&error, answered || began.elapsed() > AGAIN) => {
                answered = true;
                sleep(AGAIN).await;
            }
            Err(error) => return Err(error),
        }
    }
}

/// A server that was there may be there again; before that a wrong address or name is told at once.
fn may_come_back(error: &Error, answered: bool) -> bool {
    match error.status {
        Some(503) => true,
        Some(404) | None => answered,
        Some(_) => false,
    }
}

async fn ask(door: &Door, path: &str) -> Result<Answer, Error> {
    let answer = door.get(path).await?;
    let broken = |text: String| Error { text, status: None };
    let text = answer.text().await.map_err(|error| broken(format!("{}: {error}", door.server)))?;
    serde_json::from_str(&text).map_err(|error| broken(format!("the server sent what is no answer: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn things_are_named_by_kind_and_name() {
        let named = |kind, name: &str| Ok(Named { kind, name: name.to_owned() });
        assert_eq!("app/etl-1".parse(), named(Kind::Application, "etl-1"));
        assert_eq!("queue/root.a".parse(), named(Kind::Queue, "root.a"));
        assert_eq!("node/a/b".parse(), named(Kind::Node, "a/b"));
        for wrong in ["etl-1", "pod/x", "app/", "app"] {
            assert!(wrong.parse::<Named>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_was_there_may_come_back() {
        let error = |status| Error { text: String::new(), status };
        assert!(may_come_back(&error(Some(503)), false) && may_come_back(&error(None), true));
        assert!(!may_come_back(&error(None), false) && !may_come_back(&error(Some(404)), false));
        assert!(!may_come_back(&error(Some(400)), true));
    }
}
