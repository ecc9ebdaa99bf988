//! `callboard events`: the log of events of a running server, the newest last, as a table or as it comes.

use std::{
    io::{self, Write},
    process::ExitCode,
    time::Duration,
};

use clap::Args;
use futures::StreamExt as _;
use hyper::Method;
use serde::Deserialize;

use super::client::{
    http::segment,
    net::{Answer, Client, Failed, sentence},
    trust::Trust,
};
use super::{context::ContextArg, out, place::Place, url, wait::may_pass};

/// How long a follower waits before a lost connection is made again.
pub(super) const AGAIN: Duration = Duration::from_secs(1);

/// Events that are shown where nothing is said.
const LAST: u64 = 20;
/// Events of one answer at most.
const PAGE: u64 = 10_000;

/// Shows events, the newest last: what happened to which application, node, queue, user and ask.
#[derive(Args, Clone, Debug, Default)]
#[command(after_help = "Exit status: 0 done; 1 the server cannot be asked, or refuses")]
pub struct EventsArgs {
    /// Address of the server, as host:port or URL; several, separated by commas, are tried in turn
    #[arg(long, value_name = "URL", value_parser = url::option, env = "CALLBOARD_SERVER", default_value = "http://127.0.0.1:9080")]
    pub server: String,
    /// Go on with new events, for ever
    #[arg(long, short)]
    pub follow: bool,
    /// Begin with this id, and read on; 0: with the oldest that is kept
    #[arg(long, value_name = "ID")]
    pub from: Option<u64>,
    /// So many at most: the last ones, 20 where nothing is said, 0 for none before those to come; with --from the first ones
    #[arg(long, short = 'n', value_name = "COUNT")]
    pub count: Option<u64>,
    /// Only of this object: an application with its asks, a node, a queue with those below, a user, or an allocation key
    #[arg(long, value_name = "NAME")]
    pub object: Option<String>,
    /// Only of these types: request, app, node, queue, usergroup
    #[arg(long = "type", value_name = "TYPES", value_delimiter = ',')]
    pub types: Vec<String>,
    /// Only from this time on: 2026-11-20T19:00:00Z, 2026-11-20 for its midnight (UTC), or 1h for an hour ago
    #[arg(long, value_name = "TIME")]
    pub since: Option<String>,
    /// Only up to this time, written in the same ways
    #[arg(long, value_name = "TIME", conflicts_with = "follow")]
    pub until: Option<String>,
    /// Those of the log of this resource manager, with its ids: of several servers, each has them
    #[arg(long, value_name = "ID")]
    pub rm: Option<String>,
    /// The lines of the server as they are, one JSON object each
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub context: ContextArg,
    #[command(flatten)]
    pub trust: Trust,
    /// Where a follower is.
    #[arg(skip)]
    pub place: Place,
    /// The server was there.
    #[arg(skip)]
    pub reached: bool,
}

/// Why a follower ended early.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    /// The server does not do it; asking again would not help.
    #[error("{0}")]
    Refused(String),
    /// The connection cannot be made, or broke; a follower tries again.
    #[error("{0}")]
    Lost(String),
    /// What is printed cannot be written.
    #[error(transparent)]
    Output(#[from] io::Error),
}

/// A line of the server, as far as it is shown.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Line {
    id: Option<u64>,
    r#type: String,
    #[serde(rename = "objectID")]
    object: String,
    message: String,
    timestamp_nano: String,
    event_change_type: String,
    event_change_detail: String,
    #[serde(rename = "referenceID")]
    reference: String,
    resource: Option<Resource>,
    gap: Option<Gap>,
    next: Option<u64>,
    previous: Option<u64>,
    closed: Option<Closed>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Resource {
    resources: std::collections::BTreeMap<String, Quantity>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Quantity {
    value: String,
}

#[derive(Debug, Deserialize)]
struct Gap {
    from: u64,
    to: u64,
    reason: String,
    #[serde(default)]
    detail: String,
}

#[derive(Debug, Deserialize)]
struct Closed {
    next: u64,
    detail: String,
}

/// Prints events until there are no more.
///
/// # Errors
/// The server cannot be asked.
pub async fn run(mut wanted: EventsArgs) -> anyhow::Result<ExitCode> {
    let mut out = out::stdout();
    if wanted.from.is_none() {
        let found = last(&mut wanted, &mut out).await?;
        if !wanted.follow {
            return Ok(found.told());
        }
    }
    let mut told = String::new();
    loop {
        match read(&mut wanted, &mut out).await {
            Ok(found) => return Ok(found.told()),
            Err(Error::Lost(what)) if wanted.follow && wanted.reached => {
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

/// What was looked for is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Found {
    /// Or nothing was looked for.
    Something,
    Nothing,
}

impl Found {
    fn of(something: bool) -> Found {
        if something { Found::Something } else { Found::Nothing }
    }

    fn told(self) -> ExitCode {
        if self == Found::Nothing {
            out::note(format_args!("callboard: no events match"));
        }
        ExitCode::SUCCESS
    }
}

/// Prints the last events; a follower goes on behind them.
async fn last(wanted: &mut EventsArgs, out: &mut impl Write) -> Result<Found, Error> {
    let count = wanted.count.unwrap_or(LAST);
    let mut left = count;
    // The latest page first, each in its order.
    let mut pages: Vec<Vec<String>> = Vec::new();
    let (mut before, mut next) = (None, None);
    loop {
        // Also where none is wanted: a follower has to know where to go on.
        let text = open(wanted, |wanted| page(wanted, left.clamp(1, PAGE), before)).await?.text().await;
        let text = text.map_err(|error| Error::Lost(format!("{}: {error}", wanted.server)))?;
        let mut lines: Vec<String> = text.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect();
        let end: Line = match lines.pop() {
            Some(end) => serde_json::from_str(&end).map_err(|error| broken(wanted, &error))?,
            None => Line::default(),
        };
        next = next.or(end.next);
        if left > 0 {
            // Gaps between them do not count.
            let events = lines.iter().filter(|line| !is_gap(line.as_bytes()));
            left = left.saturating_sub(events.count() as u64);
            pages.push(lines);
        }
        before = end.previous;
        if left == 0 || before.is_none() {
            break;
        }
    }
    wanted.count = None;
    for line in pages.iter().rev().flatten() {
        self::line(wanted, line.as_bytes(), out)?;
    }
    wanted.from = next;
    out.flush()?;
    Ok(Found::of(count == 0 || left < count))
}

fn is_gap(line: &[u8]) -> bool {
    line.starts_with(b"{\"gap\":")
}

fn broken(wanted: &EventsArgs, error: &serde_json::Error) -> Error {
    Error::Refused(format!("{} sent a line that is no event: {error}", wanted.server))
}

/// Reads one answer. `wanted` is changed to what is still wanted after it.
async fn read(wanted: &mut EventsArgs, out: &mut impl Write) -> Result<Found, Error> {
    if wanted.count == Some(0) {
        return Ok(Found::Something);
    }
    let mut found = false;
    let answer = open(wanted, url).await?;
    let mut body = Box::pin(answer.chunks());
    let mut rest: Vec<u8> = Vec::new();
    while let Some(bytes) = body.next().await {
        let bytes = bytes.map_err(|error| Error::Lost(format!("{}: {error}", wanted.server)))?;
        rest.extend_from_slice(&bytes);
        let mut from = 0;
        while let Some(length) = rest[from..].iter().position(|byte| *byte == b'\n') {
            let line = &rest[from..from + length];
            from += length + 1;
            if line.is_empty() {
                continue;
            }
            let last = self::line(wanted, line, out)?;
            found |= !last && !is_gap(line) || wanted.count == Some(0);
            if last {
                out.flush()?;
                return Ok(Found::of(found));
            }
        }
        rest.drain(..from);
        out.flush()?;
    }
    Err(Error::Lost(format!("{}: the connection ended", wanted.server)))
}

/// Asks the server. Another one than before is asked again, for what it has of the same time: but for the ids of a resource
/// manager's log, which are the same everywhere.
async fn open(wanted: &mut EventsArgs, url: impl Fn(&EventsArgs) -> String) -> Result<Answer, Error> {
    let client = Client::new(wanted.server.trim_end_matches('/'), &wanted.trust).map_err(Error::Refused)?;
    let answer = loop {
        let answer = client.send(Method::GET, &url(wanted), None).await;
        let answer = answer.map_err(|error: Failed| Error::Lost(error.of_server(&wanted.server)))?;
        if wanted.rm.is_some() || !wanted.place.moves_to(client.answered()) {
            break answer;
        }
        wanted.from = None;
        wanted.since = wanted.place.since().map(|time| time.to_string()).or(wanted.since.take());
    };
    let status = answer.status;
    if !status.is_success() {
        let text = answer.text().await.unwrap_or_default();
        let detail = sentence(&text).unwrap_or(text);
        let text = format!("{} answered {status}: {detail}", wanted.server);
        return Err(if may_pass(status.as_u16()) { Error::Lost(text) } else { Error::Refused(text) });
    }
    wanted.reached = true;
    Ok(answer)
}

/// Handles a line; true where it is the last one.
fn line(wanted: &mut EventsArgs, bytes: &[u8], out: &mut impl Write) -> Result<bool, Error> {
    let line: Line = serde_json::from_slice(bytes).map_err(|error| broken(wanted, &error))?;
    if let Some(Closed { next, detail }) = line.closed {
        wanted.from = Some(next);
        return Err(Error::Lost(format!("{} closed the stream at event {next}: {detail}", wanted.server)));
    }
    if line.next.is_some() {
        return Ok(true);
    }
    if let Some(id) = line.id.filter(|_| wanted.follow && wanted.rm.is_none())
        && !wanted.place.is_new(bytes, line.time())
    {
        wanted.from = Some(id + 1);
        return Ok(false);
    }
    if wanted.json {
        writeln!(out, "{}", out::escaped(&String::from_utf8_lossy(bytes)))?;
    } else {
        writeln!(out, "{}", shown(&line))?;
    }
    if let Some(id) = line.id {
        wanted.from = Some(id + 1);
        wanted.count = wanted.count.map(|count| count.saturating_sub(1));
    } else if let Some(gap) = &line.gap {
        wanted.from = Some(gap.to + 1);
    }
    Ok(wanted.count == Some(0))
}

impl Line {
    fn time(&self) -> jiff::Timestamp {
        jiff::Timestamp::from_nanosecond(self.timestamp_nano.parse().unwrap_or(0)).unwrap_or_default()
    }
}

/// The address of what follows.
fn url(wanted: &EventsArgs) -> String {
    let more = [
        ("from", wanted.from.map(|from| from.to_string())),
        ("count", wanted.count.map(|count| count.to_string())),
        ("follow", wanted.follow.then(|| "true".to_owned())),
    ];
    address(wanted, more)
}

/// The address of the last so many, before an id.
fn page(wanted: &EventsArgs, count: u64, before: Option<u64>) -> String {
    address(
        wanted,
        [("last", Some(count.to_string())), ("before", before.map(|before| before.to_string())), ("", None)],
    )
}

fn address(wanted: &EventsArgs, more: [(&str, Option<String>); 3]) -> String {
    let mut url = format!("{}/api/v1/events", wanted.server.trim_end_matches('/'));
    let mut separator = '?';
    let which = [
        ("rm", wanted.rm.clone()),
        ("object", wanted.object.clone()),
        ("children", wanted.object.as_ref().map(|_| "true".to_owned())),
        ("type", (!wanted.types.is_empty()).then(|| wanted.types.join(","))),
        // Of an answer that goes on from an id, all is late enough.
        ("since", wanted.since.clone()),
        ("until", wanted.until.clone()),
    ];
    for (name, value) in more.into_iter().chain(which) {
        if let Some(value) = value {
            url.push_str(&format!("{separator}{name}={}", segment(&value)));
            separator = '&';
        }
    }
    url
}

/// An event as a row: time, id, type, change, detail, object, and where set second object, resource and message.
fn shown(line: &Line) -> String {
    if let Some(Gap { from, to, reason, detail }) = &line.gap {
        if reason == "crash" {
            let next = to.saturating_add(1);
            return format!("--- the server was killed: events from {from} on may be missing; ids go on at {next}");
        }
        let detail = if detail.is_empty() { String::new() } else { format!(": {detail}") };
        return format!("--- events {from} to {to} are missing ({reason}{detail})");
    }
    let time = line.time();
    let or_dash = |text: &str| if text.is_empty() { "-".to_owned() } else { text.to_owned() };
    let mut row = format!(
        "{time:.6} {:>8} {:<9} {:<6} {:<20} {}",
        line.id.unwrap_or_default(),
        or_dash(&line.r#type),
        or_dash(&line.event_change_type),
        or_dash(&line.event_change_detail),
        line.object,
    );
    if !line.reference.is_empty() {
        row.push_str(&format!(" {}", line.reference));
    }
    if let Some(resource) = &line.resource {
        let value = |text: &str| if text.is_empty() { "0".to_owned() } else { text.to_owned() };
        let amounts = resource.resources.iter().map(|(name, quantity)| format!("{name}:{}", value(&quantity.value)));
        row.push_str(&format!(" [{}]", amounts.collect::<Vec<_>>().join(" ")));
    }
    if !line.message.is_empty() {
        row.push_str(&format!(" {}", line.message));
    }
    // One event, one line.
    out::line(&row)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(wanted: &mut EventsArgs, lines: &[&str]) -> (Vec<Result<bool, String>>, String) {
        let mut out = Vec::new();
        let results =
            lines.iter().map(|text| line(wanted, text.as_bytes(), &mut out).map_err(|error| error.to_string()));
        let results = results.collect();
        (results, String::from_utf8(out).unwrap())
    }

    const EVENT: &str = concat!(
        r#"{"id":12,"type":"APP","objectID":"app-1","timestampNano":"1795194232864123328","eventChangeType":"ADD","#,
        r#""eventChangeDetail":"APP_ALLOC","referenceID":"k1","#,
        r#""resource":{"resources":{"gpu":{},"memory":{"value":"10"}}}}"#
    );

    #[test]
    fn no_terminal_obeys_a_line_of_the_server() {
        let mut wanted = EventsArgs { json: true, ..EventsArgs::default() };
        let (_, out) = rows(&mut wanted, &[&EVENT.replace("app-1", "app\u{9b}\u{202e}1"), EVENT]);
        assert_eq!(out, EVENT.replace("app-1", r"app\u009b\u202e1") + "\n" + EVENT + "\n");
    }

    #[test]
    fn a_row_per_event() {
        let mut wanted = EventsArgs::default();
        let bare = r#"{"id":13,"type":"REQUEST","objectID":"k1","message":"two\nlines","timestampNano":"0"}"#;
        let gap = r#"{"gap":{"from":14,"to":19,"reason":"retention"}}"#;
        let (results, out) = rows(&mut wanted, &[EVENT, bare, gap, r#"{"next":20}"#]);
        assert_eq!(results, [Ok(false), Ok(false), Ok(false), Ok(true)]);
        assert_eq!(
            out,
            "2026-11-20T17:03:52.864123Z       12 APP       ADD    APP_ALLOC            app-1 k1 [gpu:0 memory:10]\n\
             1970-01-01T00:00:00.000000Z       13 REQUEST   -      -                    k1 two lines\n\
             --- events 14 to 19 are missing (retention)\n"
        );
        assert_eq!(wanted.from, Some(20));
    }

    #[test]
    fn lines_as_they_are_until_there_are_enough() {
        let mut wanted = EventsArgs { json: true, count: Some(1), ..EventsArgs::default() };
        let (results, out) = rows(&mut wanted, &[EVENT]);
        assert_eq!((results, out), (vec![Ok(true)], format!("{EVENT}\n")));
    }

    #[test]
    fn a_closed_stream_is_resumed_where_it_ended() {
        let mut wanted = EventsArgs { server: "http://board".into(), ..EventsArgs::default() };
        let (results, _) = rows(&mut wanted, &[r#"{"closed":{"next":7,"detail":"shutting down"}}"#, "nonsense"]);
        assert_eq!(results[0], Err("http://board closed the stream at event 7: shutting down".into()));
        assert!(results[1].as_ref().unwrap_err().starts_with("http://board sent a line that is no event"));
        assert_eq!(wanted.from, Some(7));
    }

    #[test]
    fn the_address() {
        let wanted = EventsArgs {
            server: "http://127.0.0.1:9080/".into(),
            follow: true,
            from: Some(3),
            object: Some("root.a b&c".into()),
            types: vec!["app".into(), "node".into()],
            ..EventsArgs::default()
        };
        let expected = "http://127.0.0.1:9080/api/v1/events?from=3&follow=true&object=root.a%20b%26c&children=true&type=app%2Cnode";
        assert_eq!(url(&wanted), expected);
        let wanted = EventsArgs { server: "http://board".into(), until: Some("1h".into()), ..EventsArgs::default() };
        assert_eq!(page(&wanted, 20, None), "http://board/api/v1/events?last=20&until=1h");
        assert_eq!(page(&wanted, 5, Some(9)), "http://board/api/v1/events?last=5&before=9&until=1h");
    }

    #[actix::test]
    async fn from_a_server() {
        use actix::Actor as _;
        use actix_web::{App, HttpRequest, HttpServer, web};

        use crate::{
            actors::event::{EventActor, testing::events},
            messages::event::Publish,
        };

        let actor = EventActor::default().start();
        actor.do_send(Publish { rm: "rm-1".into(), epoch: 1, events: events(1..6), traced: Vec::new(), first: None });
        let server = HttpServer::new(move || {
            let actor = actor.clone();
            App::new().route(
                "/api/v1/events",
                web::get().to(move |req: HttpRequest| {
                    let actor = actor.clone();
                    async move { crate::http::api::events::events(&req, &actor).await }
                }),
            )
        });
        let server = server.workers(1).disable_signals().shutdown_timeout(0).bind("127.0.0.1:0").unwrap();
        let address = server.addrs()[0];
        let server = server.run();
        let handle = server.handle();
        actix::spawn(server);
        let mut wanted = EventsArgs { server: format!("http://{address}"), from: Some(2), ..EventsArgs::default() };
        let mut out = Vec::new();
        read(&mut wanted, &mut out).await.unwrap();
        assert_eq!((String::from_utf8(out).unwrap().lines().count(), wanted.from), (3, Some(5)));
        let mut wanted = EventsArgs { follow: true, count: Some(2), from: Some(0), ..wanted };
        read(&mut wanted, &mut Vec::new()).await.unwrap();
        assert_eq!((wanted.from, wanted.count), (Some(2), Some(0)));
        wanted.from = Some(99);
        wanted.count = None;
        let text = read(&mut wanted, &mut Vec::new()).await.unwrap_err().to_string();
        assert!(text.ends_with("event 99 does not exist yet: the next event is 5"), "{text}");
        // The last ones, the newest last; whoever follows goes on behind them.
        let mut wanted = EventsArgs { server: wanted.server, follow: true, count: Some(2), ..EventsArgs::default() };
        let mut out = Vec::new();
        assert_eq!(last(&mut wanted, &mut out).await.unwrap(), Found::Something);
        let out = String::from_utf8(out).unwrap();
        let ids: Vec<&str> = out.lines().filter_map(|line| line.split_whitespace().nth(1)).collect();
        assert_eq!((ids, wanted.from, wanted.count), (vec!["3", "4"], Some(5), None));
        let mut wanted = EventsArgs { from: None, count: Some(0), ..wanted };
        let mut out = Vec::new();
        last(&mut wanted, &mut out).await.unwrap();
        assert_eq!((out.len(), wanted.from), (0, Some(5)));
        let mut wanted = EventsArgs { object: Some("nobody".into()), from: None, count: None, ..wanted };
        assert_eq!(last(&mut wanted, &mut Vec::new()).await.unwrap(), Found::Nothing);
        // Where a follower is does not tell whether there was a server: after a move it is nowhere.
        assert!(wanted.reached);
        let mut nobody = EventsArgs { server: "http://127.0.0.1:1".into(), from: Some(0), ..EventsArgs::default() };
        assert!(matches!(read(&mut nobody, &mut Vec::new()).await, Err(Error::Lost(_))) && !nobody.reached);
        let mut wanted = EventsArgs { follow: false, from: Some(0), ..wanted };
        assert_eq!(read(&mut wanted, &mut Vec::new()).await.unwrap(), Found::Nothing);
        handle.stop(false).await;
    }
}
