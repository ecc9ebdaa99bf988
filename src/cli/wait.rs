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
use tokio::{
    sync::Semaphore,
    time::{Instant, sleep, timeout_at},
};

use super::{
    MISUSED,
    client::http::segment,
    door::{Door, Error},
    out,
};
use crate::{
    http::api::time::length,
    messages::{limits, wait::Kind},
};

/// One request waits so long at most; what is left of the time-out is for the next.
const SLICE: Duration = Duration::from_secs(600);
/// Requests that wait at a time: each has a connection. Where there are more, they take turns.
const AT_ONCE: usize = 256;
/// One turn, where there are more.
const TURN: Duration = Duration::from_secs(2);
/// A session that ended may begin again, a server may come back, and who asked too often may ask again: after this time.
const AGAIN: Duration = Duration::from_secs(1);
/// A server that says nothing so long after the time that it was given does not answer: it hangs, or its machine is gone.
const LATE: Duration = Duration::from_secs(5);

/// Waits until something holds of everything that is named. Exit status 0 when it does, 1 when the time is over or it will
/// not hold any more, with the state of each and why, 2 where the command line is wrong.
#[derive(Args, Clone, Debug)]
pub struct WaitArgs {
    /// app/ID, queue/PATH or node/ID
    #[arg(required = true, value_name = "app/ID|queue/PATH|node/ID")]
    pub targets: Vec<Named>,
    /// Of applications: running, completed, placed; of queues: empty, room (in it and above it); of nodes: empty, online, drained
    #[arg(long = "for", value_name = "CONDITION")]
    pub condition: String,
    /// How long at most, such as 60s, 5m or 2d
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
        write!(f, "{kind}/{}", out::line(&self.name))
    }
}

/// A duration of 0 or more.
///
/// # Errors
/// It is none.
pub fn time(text: &str) -> Result<Duration, String> {
    let nanos = length(text).map(|length| Duration::from_nanos(length.0.unsigned_abs()));
    nanos.ok_or_else(|| "expected a duration such as 60s, 5m or 2d".to_owned())
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
    for target in &args.targets {
        if let Err(fault) = target.kind.condition(&args.condition) {
            out::fail(&mut err, &format_args!("{target}: {fault}"));
            return ExitCode::from(MISUSED);
        }
    }
    let end = Instant::now() + args.timeout;
    ExitCode::from(wait(&args.door, &args.targets, &args.condition, end, &mut out, &mut err).await)
}

/// What a command asks that has until then.
///
/// # Errors
/// The server does not answer.
pub async fn within<T>(door: &Door, end: Instant, asked: impl Future<Output = T>) -> Result<T, Error> {
    timeout_at(end + LATE, asked).await.map_err(|_| silent(door))
}

fn silent(door: &Door) -> Error {
    Error { text: format!("timed out: {} does not answer", door.server), status: None }
}

/// Waits for all of them at once; each is told of when it is decided.
pub async fn wait(
    door: &Door,
    targets: &[Named],
    condition: &str,
    end: Instant,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> u8 {
    limits::raise_descriptors();
    // An eighth of the descriptors: connections of turns before may still be closing, and names are looked up.
    let turns = Turns::of(targets.len(), AT_ONCE.min(limits::connections().1));
    let mut waiting: FuturesUnordered<_> =
        targets.iter().map(async |target| (target, one(door, target, condition, end, &turns).await)).collect();
    let mut status = 0;
    while let Some((target, answer)) = waiting.next().await {
        let told = match answer {
            Ok(Answer { met: true, state, .. }) => {
                writeln!(out, "{target} condition met: {condition} ({state})").and_then(|()| out.flush())
            }
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
        if let Err(error) = told {
            status = out::fail(err, &error);
        }
    }
    status
}

/// Who may ask now. Those who wait for it are let in in their order.
struct Turns {
    places: Semaphore,
    /// How long one may wait before it is the turn of the next.
    longest: Duration,
}

impl Turns {
    fn of(targets: usize, places: usize) -> Turns {
        Turns { places: Semaphore::new(places), longest: if targets > places { TURN } else { SLICE } }
    }
}

async fn one(
    door: &Door,
    target: &Named,
    condition: &str,
    end: Instant,
    Turns { places, longest }: &Turns,
) -> Result<Answer, Error> {
    let mut answered = false;
    loop {
        // Nobody closes it. Whose turn comes when the time is over still hears how the thing is.
        let place = places.acquire().await.ok();
        let left = end.saturating_duration_since(Instant::now());
        let slice = left.min(*longest);
        let path = format!(
            "{}/{}/wait?for={condition}&timeout={}ms",
            target.kind.name(),
            segment(&target.name),
            slice.as_millis()
        );
        let asked = timeout_at(Instant::now() + slice + LATE, ask(door, &path)).await;
        drop(place);
        match asked.unwrap_or_else(|_| Err((silent(door), true))) {
            Ok(answer) if answer.met || answer.never || left <= slice => return Ok(answer),
            Ok(_) => answered = true,
            // The session ended, or the server is being restarted: both may come back. Or all of these together were too many for
            // `http.requestsPerSecond`.
            Err((error, was_there)) if Instant::now() + AGAIN < end && may_come_back(&error, answered || was_there) => {
                answered = true;
                sleep(AGAIN).await;
            }
            Err((error, _)) => return Err(error),
        }
    }
}

/// A server that was there may be there again; before that a wrong address or name is told at once.
pub fn may_come_back(error: &Error, answered: bool) -> bool {
    match error.status {
        Some(404) | None => answered,
        Some(status) => may_pass(status),
    }
}

/// A refusal of a moment: the server ends or begins, or has too many requests of this caller.
pub fn may_pass(status: u16) -> bool {
    matches!(status, 429 | 503)
}

/// The error comes with whether a server was there.
async fn ask(door: &Door, path: &str) -> Result<Answer, (Error, bool)> {
    let answer = door.get_if_there(path).await?;
    let broken = |text: String, was_there| (Error { text, status: None }, was_there);
    let text = answer.text().await.map_err(|error| broken(format!("{}: {error}", door.server), error.was_there))?;
    out::answer(&text).map_err(|error| broken(format!("the server sent what is no answer: {error}"), false))
}

#[cfg(test)]
mod tests {
    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        net::TcpListener,
    };

    use super::*;
    use crate::cli::{client::trust::Trust, context::ContextArg};

    fn door(listener: &TcpListener) -> Door {
        let server = format!("http://{}", listener.local_addr().unwrap());
        let (context, trust) = (ContextArg::default(), Trust::default());
        Door { server, partition: "default".to_owned(), context, trust }
    }

    fn app() -> Named {
        Named { kind: Kind::Application, name: "app-1".to_owned() }
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_hangs_is_not_waited_for() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let door = door(&listener);
        let (began, mut err) = (Instant::now(), Vec::new());
        let end = began + Duration::from_secs(3);
        let status = wait(&door, &[app()], "running", end, &mut Vec::new(), &mut err).await;
        assert!(began.elapsed() < Duration::from_secs(3) + LATE * 2, "{:?}", began.elapsed());
        let expected = format!("callboard: app/app-1: timed out: {} does not answer\n", door.server);
        assert_eq!((status, String::from_utf8(err).unwrap()), (1, expected));
    }

    #[tokio::test]
    async fn a_server_that_ends_in_the_first_moment_is_asked_again() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let door = door(&listener);
        let serves = async {
            let mut request = [0; 1024];
            let (mut first, _) = listener.accept().await.unwrap();
            assert!(first.read(&mut request).await.unwrap() > 0);
            drop(first);
            let (mut second, _) = listener.accept().await.unwrap();
            assert!(second.read(&mut request).await.unwrap() > 0);
            let body = r#"{"met":true,"state":"Run\u001bning"}"#;
            let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len());
            second.write_all(answer.as_bytes()).await.unwrap();
            second
        };
        let app = app();
        let end = Instant::now() + Duration::from_secs(60);
        let turns = Turns::of(1, AT_ONCE);
        let (answer, _) = tokio::join!(one(&door, &app, "running", end, &turns), serves);
        let answer = answer.unwrap();
        assert_eq!((answer.met, &*answer.state), (true, "Run ning"), "no terminal obeys what a server tells");
    }

    #[tokio::test]
    async fn who_asked_too_often_asks_again() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let door = door(&listener);
        let serves = async {
            let mut kept = Vec::new();
            for (status, body) in [("429 Too Many Requests", "{}"), ("200 OK", r#"{"met":true,"state":"Running"}"#)] {
                let (mut peer, _) = listener.accept().await.unwrap();
                assert!(peer.read(&mut [0; 1024]).await.unwrap() > 0);
                let head = format!("HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: {}\r\n\r\n", body.len());
                peer.write_all((head + body).as_bytes()).await.unwrap();
                kept.push(peer);
            }
            kept
        };
        let (app, end) = (app(), Instant::now() + Duration::from_secs(60));
        let turns = Turns::of(1, AT_ONCE);
        let (answer, _) = tokio::join!(one(&door, &app, "running", end, &turns), serves);
        assert!(answer.unwrap().met);
    }

    #[tokio::test]
    async fn what_is_no_server_is_told_at_once() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let door = door(&listener);
        let answers = async {
            let (mut peer, _) = listener.accept().await.unwrap();
            assert!(peer.read(&mut [0; 1024]).await.unwrap() > 0);
            peer.write_all(b"SSH-2.0-OpenSSH\r\n").await.unwrap();
            peer
        };
        let (app, end) = (app(), Instant::now() + Duration::from_secs(3600));
        let turns = Turns::of(1, AT_ONCE);
        let (answer, _) = tokio::join!(one(&door, &app, "running", end, &turns), answers);
        assert!(answer.unwrap_err().text.contains("cannot be reached"));
    }

    #[test]
    fn times_may_be_in_days() {
        let seconds = |text: &str| time(text).map(|time| time.as_secs());
        assert_eq!((seconds("2d"), seconds("1d12h"), seconds("90s")), (Ok(172_800), Ok(129_600), Ok(90)));
        for wrong in ["", "5", "-1s", "2 days"] {
            assert!(time(wrong).unwrap_err().contains("such as 60s, 5m or 2d"), "{wrong}");
        }
    }

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
        assert!(may_come_back(&error(Some(429)), false), "too many requests are so for a moment");
        assert!(!may_come_back(&error(None), false) && !may_come_back(&error(Some(404)), false));
        assert!(!may_come_back(&error(Some(400)), true));
    }
}
