//! `callboard why APPLICATION [ASK]`: why it waits, who is before it, who holds what is short, and what would help.

use std::{collections::BTreeMap, fmt::Write as _, process::ExitCode};

use clap::Args;
use jiff::Timestamp;
use serde::Deserialize;

use super::{
    client::http::segment,
    context,
    door::{Door, Error, now_of},
    human::{age, amounts},
    out::{self, Output},
};
use crate::domain::words::{either, plural};
use crate::http::api::board::{
    advice::{AdviceView, AllocationView, HolderView, HoldersView, NAMED, PlaceView, RemedyView, quoted},
    timeline::{Timeline, TimelineRow},
    when::WhenView,
    why::{Figures, noun},
};

/// Options of `callboard why`.
#[derive(Args, Clone, Debug)]
#[command(
    after_help = "Exit status: 0 it was explained; 1 there is no such application or ask, or the server cannot be asked"
)]
pub struct WhyArgs {
    /// Application
    application: String,
    /// Only this ask
    ask: Option<String>,
    /// How it is printed
    #[arg(short, long, value_enum, default_value = "text")]
    output: Output,
    #[command(flatten)]
    door: Door,
}

/// The answer, as far as it is shown.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Explained {
    #[serde(rename = "applicationID")]
    id: String,
    queue_name: String,
    user: String,
    state: String,
    submitted: String,
    #[serde(default)]
    message: Option<String>,
    #[serde(default)]
    advice: Option<AdviceView>,
    #[serde(default)]
    queues: Vec<Level>,
    allocations: usize,
    task_groups: Vec<TaskGroup>,
    waiting: Vec<Group>,
    #[serde(default)]
    more: Option<More>,
    #[serde(default)]
    ask: Option<AskState>,
    #[serde(default)]
    timeline: Option<Timeline>,
    /// The command that shows its events.
    #[serde(skip)]
    events: String,
}

/// What waits beyond the groups that are told.
#[derive(Debug, Deserialize)]
struct More {
    groups: usize,
    asks: u64,
}

/// A queue on its way up, as far as it is told.
#[derive(Debug, Deserialize)]
struct Level {
    #[serde(default)]
    order: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct TaskGroup {
    name: String,
    live: u64,
    placed: u64,
    replaced: u64,
    timed_out: u64,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Group {
    asks: u64,
    first: String,
    resource: BTreeMap<String, i64>,
    #[serde(default)]
    placeholder: bool,
    since: String,
    reason: Reason,
    line: Vec<PlaceView>,
    #[serde(default)]
    held_by: Option<HoldersView>,
    #[serde(default)]
    advice: Option<AdviceView>,
    #[serde(default)]
    when: Option<WhenView>,
}

#[derive(Debug, Deserialize)]
struct Reason {
    text: String,
}

#[derive(Debug, Deserialize)]
struct AskState {
    key: String,
    state: String,
    #[serde(default)]
    node: Option<String>,
}

/// Runs the command; its help tells the exit status.
///
/// # Errors
/// There is no such application or ask, or the server cannot be asked.
pub async fn run(args: &WhyArgs) -> anyhow::Result<ExitCode> {
    out::print(answer(args).await?)?;
    Ok(ExitCode::SUCCESS)
}

/// Why an application waits, for people.
///
/// # Errors
/// There is no such application, or the server cannot be asked.
pub async fn explained(door: &Door, application: &str) -> Result<String, Error> {
    let (_, explained, now) = ask(door, application, None).await?;
    Ok(told(&explained, now))
}

impl Explained {
    /// Commands that can be copied ask the server that was asked, not one that happens to be the usual.
    fn repeat(&mut self, options: &[(&str, String)]) {
        let of_groups = self.waiting.iter_mut().filter_map(|group| group.advice.as_mut());
        for remedy in self.advice.iter_mut().chain(of_groups).flat_map(|advice| &mut advice.remedies) {
            let Some(copy) = &mut remedy.copy else { continue };
            let lines = copy.lines().map(|line| {
                let is_command = line.starts_with("callboard ");
                let more = options.iter().filter(|(name, _)| is_command && !line.contains(name));
                with(line, more)
            });
            *copy = lines.collect::<Vec<_>>().join("\n");
        }
        // Events are of the whole server.
        let of_server = options.iter().filter(|(name, _)| *name != "--partition");
        self.events = with(&format!("callboard events --object={} -n 1000", quoted(&self.id)), of_server);
    }
}

/// A command with more options.
fn with<'a>(command: &str, options: impl Iterator<Item = &'a (&'a str, String)>) -> String {
    options.fold(command.to_owned(), |line, (name, value)| format!("{line} {name} {}", quoted(value)))
}

/// The answer of the server, as it is and as it is shown, and what time it is in it.
async fn ask(door: &Door, application: &str, ask: Option<&String>) -> Result<(String, Explained, Timestamp), Error> {
    let query = ask.map_or(String::new(), |ask| format!("&ask={}", segment(ask)));
    let path = format!("application/{}/explain?timeline=true{query}", segment(application));
    let answer = door.get(&path).await?;
    let now = now_of(&answer.headers);
    let broken = |what: String| Error { text: format!("the server sent what is no explanation: {what}"), status: None };
    let text = answer.text().await.map_err(|error| broken(error.to_string()))?;
    let mut explained: Explained = out::answer(&text).map_err(|error| broken(error.to_string()))?;
    explained.repeat(&context::repeated(door));
    Ok((text, explained, now))
}

async fn answer(args: &WhyArgs) -> Result<String, Error> {
    if args.application.is_empty() {
        let text = "the name of the application is empty (callboard apps lists them)".to_owned();
        return Err(Error { text, status: None });
    }
    let (text, explained, now) = ask(&args.door, &args.application, args.ask.as_ref()).await?;
    Ok(match args.output {
        Output::Json => out::escaped(&text),
        Output::Text => told(&explained, now),
    })
}

/// The answer for people. Writing to a string cannot fail.
fn told(app: &Explained, now: Timestamp) -> String {
    let mut text = String::new();
    let _ = writeln!(
        text,
        "{} of {}{}: {}, submitted {} ago, {}",
        app.id,
        app.user,
        // Who was rejected before there was a queue for it has none.
        if app.queue_name.is_empty() { String::new() } else { format!(" in {}", app.queue_name) },
        app.state,
        age(&app.submitted, now),
        plural(app.allocations as u64, "allocation")
    );
    if let Some(message) = &app.message {
        let _ = writeln!(text, "{message}");
    }
    if let Some(advice) = &app.advice {
        helps(&mut text, advice);
    }
    if let Some(order) = app.queues.iter().find_map(|level| level.order.as_ref()) {
        let _ = writeln!(text, "{order} (no new application is taken; what this one has and asks for goes on)");
    }
    for group in &app.task_groups {
        let waiting = group.live.saturating_sub(group.placed);
        let _ = writeln!(
            text,
            "task group {}: {} placed, {waiting} waiting, {} replaced, {} timed out",
            group.name,
            plural(group.placed, "placeholder"),
            group.replaced,
            group.timed_out
        );
    }
    if let Some(ask) = &app.ask {
        let node = ask.node.as_ref().map_or(String::new(), |node| format!(" on node {node}"));
        let _ = writeln!(text, "{} does not wait: it is {}{node}", ask.key, ask.state);
    } else if app.waiting.is_empty() {
        text.push_str("No ask of it waits.\n");
    }
    for group in &app.waiting {
        self::group(&mut text, group, now);
    }
    if let Some(more) = &app.more {
        let _ = writeln!(
            text,
            "{} more in {} (name one to have it explained)",
            plural(more.asks, "ask"),
            plural(more.groups as u64, "group")
        );
    }
    if let Some(timeline) = app.timeline.as_ref().filter(|timeline| !(timeline.rows.is_empty() && timeline.complete)) {
        so_far(&mut text, &app.events, timeline);
    }
    text
}

/// Rows of a timeline that are printed: the last ones.
const ROWS: usize = 12;

fn so_far(text: &mut String, events: &str, timeline: &Timeline) {
    let more = timeline.rows.len().saturating_sub(ROWS);
    let older = if more > 0 || !timeline.complete {
        // What the server does not keep any more is nowhere.
        format!(" (older, as far as it is kept: {events})")
    } else {
        String::new()
    };
    if timeline.rows.is_empty() {
        // Events older than those that the server keeps in memory are on its disk.
        let _ = writeln!(text, "\nSo far: nothing recent{older}");
        return;
    }
    let _ = writeln!(text, "\nSo far{older}:");
    for TimelineRow { at, of, name, text: what, count } in &timeline.rows[more..] {
        let at = at.parse::<Timestamp>().map_or_else(|_| at.clone(), |at| format!("{at:.0}"));
        let times = if *count > 1 { format!(" ({count} times)") } else { String::new() };
        let _ = writeln!(text, "  {at}  {of} {name}: {what}{times}");
    }
}

fn group(text: &mut String, group: &Group, now: Timestamp) {
    let what = plural(group.asks, if group.placeholder { "placeholder" } else { "ask" });
    let waits = either(&group.asks, "waits", "wait");
    let (size, first, since) = (amounts(&group.resource), &group.first, age(&group.since, now));
    let _ = writeln!(text, "\n{what} of {size} {waits}, for {since} (first: {first})");
    let _ = writeln!(text, "  {}", group.reason.text);
    if !group.line.is_empty() {
        let places: Vec<String> = group.line.iter().map(place).collect();
        let _ = writeln!(text, "  In line: {}.", places.join("; "));
    }
    if let Some(holders) = &group.held_by {
        held_by(text, holders);
    }
    if let Some(when) = &group.when {
        let _ = writeln!(text, "  When: {}", when.text);
    }
    if let Some(advice) = &group.advice {
        helps(text, advice);
    }
}

fn place(place: &PlaceView) -> String {
    let PlaceView { what, queue, place, of, by } = place;
    match queue {
        None => format!("{place} of {} of its own", plural(*of, "ask")),
        Some(queue) if what == "applications" => {
            format!("{place} of {} in {queue} (by {by})", plural(*of, "application"))
        }
        Some(queue) => format!("{place} of {} below {queue} (by {by})", plural(*of, "queue")),
    }
}

fn held_by(text: &mut String, holders: &HoldersView) {
    let kind = holders.resource.as_deref();
    let parts = holders.applications.iter().chain(&holders.users).chain(&holders.queues).map(|holder| holder.amount);
    let all: Vec<i64> = parts.chain([holders.total, holders.foreign]).collect();
    let figures = kind.map(|kind| Figures::of(kind, &all, |_| true));
    let part = |amount: i64| figures.as_ref().map_or(String::new(), |figures| format!(" {}", figures.told(amount)));
    let list = |holders: &[HolderView], counted: bool| {
        let one = |holder: &HolderView| match kind {
            None if counted => format!("{} {}", holder.name, holder.amount),
            _ => format!("{}{}", holder.name, part(holder.amount)),
        };
        holders.iter().map(one).collect::<Vec<_>>().join(", ")
    };
    let what = match kind {
        Some(kind) => format!("{} {} of", part(holders.total).trim_start(), noun(kind, holders.total)),
        None => format!("{} of", plural(u64::try_from(holders.total).unwrap_or(0), "running application")),
    };
    let (apps, users, queues) =
        (list(&holders.applications, false), list(&holders.users, true), list(&holders.queues, true));
    let _ = writeln!(text, "  Held: {what} applications {apps}; users {users}; queues {queues}.");
    if holders.foreign > 0 {
        let _ = writeln!(text, "  Other schedulers hold{} of it.", part(holders.foreign));
    }
}

fn helps(text: &mut String, advice: &AdviceView) {
    if let Some(none) = &advice.none {
        let _ = writeln!(text, "  What would help: {none}");
        return;
    }
    text.push_str("  What would help, the smallest change first:\n");
    for (nth, remedy) in advice.remedies.iter().enumerate() {
        let RemedyView { text: what, who, copy, plan, placed_before, preempted, after_seconds, .. } = remedy;
        let who = match who.as_str() {
            "resourceManager" => "resource manager",
            "nobody" => "",
            who => who,
        };
        let mut notes: Vec<String> = (!who.is_empty()).then(|| who.to_owned()).into_iter().collect();
        if *placed_before > 0 {
            notes.push(format!("{} of others before it", plural(*placed_before, "ask")));
        }
        // How long it is waited for is in the sentence.
        if *preempted > 0 && remedy.kind != "wait" {
            let after =
                if *after_seconds > 0.0 { format!(" after {:.0} s", after_seconds.ceil()) } else { String::new() };
            notes.push(format!("{} preempted{after}", plural(*preempted as u64, "allocation")));
        }
        if let Some(plan) = plan.as_ref().filter(|plan| plan.applications + plan.exceeded > 0) {
            notes.push(format!(
                "plan: {}, {} suffer",
                plural(plan.applications as u64, "application"),
                plural(plan.exceeded as u64, "quota")
            ));
        }
        let notes = if notes.is_empty() { String::new() } else { format!("  [{}]", notes.join("; ")) };
        let _ = writeln!(text, "  {}. {what}{notes}", nth + 1);
        for line in copy.iter().flat_map(|copy| copy.lines()) {
            let _ = writeln!(text, "       {line}");
        }
        freed(text, &remedy.allocations);
    }
    if !advice.complete {
        let _ = writeln!(
            text,
            "  (after {}, not of all that there is: there may be smaller ones)",
            plural(advice.tried as u64, "trial")
        );
    }
}

/// Allocations that are named in a line each.
const FREED: usize = 100;

/// What has to end, where the sentence does not name all of it.
fn freed(text: &mut String, allocations: &[AllocationView]) {
    if allocations.len() <= NAMED {
        return;
    }
    for AllocationView { application, key } in allocations.iter().take(FREED) {
        let _ = writeln!(text, "       {key} of {application}");
    }
    if allocations.len() > FREED {
        let _ = writeln!(text, "       and {} more (-o json names them)", allocations.len() - FREED);
    }
}

#[cfg(test)]
mod tests {
    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        net::TcpListener,
    };

    use super::*;
    use crate::cli::{client::trust::Trust, context::ContextArg};

    const ANSWER: &str = r##"{"applicationID":"app-7","partition":"default","queueName":"root.a","user":"alice","groups":[],
        "tags":{},"state":"Accepted","stateLog":[],"submitted":"2026-11-20T10:00:00Z","allocations":0,"used":{},"pending":{},
        "taskGroups":[{"name":"g","placeholders":4,"live":4,"placed":1,"replaced":0,"timedOut":0}],
        "waiting":[{"asks":3,"first":"app-7-1","resource":{"memory":4294967296,"vcore":1000},"priority":0,"placeholder":true,
          "since":"2026-11-20T10:00:00Z","reason":{"code":"queueQuota","text":"Queue root.a is at its max."},
          "line":[{"what":"asks","place":1,"of":3,"by":"priority"},
                  {"what":"applications","queue":"root.a","place":2,"of":5,"by":"priority, then time of submission"}],
          "heldBy":{"resource":"memory","total":10737418240,"applications":[{"name":"app-1","amount":10737418240}],
                    "users":[{"name":"bob","amount":10737418240}],"queues":[{"name":"root.a","amount":10737418240}]},
          "advice":{"remedies":[{"kind":"queueMax","text":"Raise it.","who":"administrator","copy":"# queue root.a\nmax: 1",
             "size":0.1,"afterSeconds":0,"placedBefore":2,"preempted":0,"plan":{"applications":0,"exceeded":0}}],
             "tried":4,"complete":true},"log":[]}],
        "queues":[]}"##;

    #[test]
    fn an_explanation_for_people() {
        let explained: Explained = serde_json::from_str(ANSWER).unwrap();
        let now = "2026-11-20T10:03:10Z".parse().unwrap();
        let expected = "\
app-7 of alice in root.a: Accepted, submitted 3m ago, 0 allocations
task group g: 1 placeholder placed, 3 waiting, 0 replaced, 0 timed out

3 placeholders of 4 GiB memory, 1 core wait, for 3m (first: app-7-1)
  Queue root.a is at its max.
  In line: 1 of 3 asks of its own; 2 of 5 applications in root.a (by priority, then time of submission).
  Held: 10 GiB memory of applications app-1 10 GiB; users bob 10 GiB; queues root.a 10 GiB.
  What would help, the smallest change first:
  1. Raise it.  [administrator; 2 asks of others before it]
       # queue root.a
       max: 1
";
        assert_eq!(told(&explained, now), expected);
    }

    #[tokio::test]
    async fn no_terminal_obeys_json() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = format!("http://{}", listener.local_addr().unwrap());
        let door =
            Door { server, partition: "default".into(), context: ContextArg::default(), trust: Trust::default() };
        let args = WhyArgs { application: "app-7".into(), ask: None, output: Output::Json, door };
        let answers = async {
            let (mut peer, _) = listener.accept().await.unwrap();
            assert!(peer.read(&mut [0; 1024]).await.unwrap() > 0);
            let body = ANSWER.replacen("alice", "a\u{9b}\u{202e}lice", 1);
            let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", body.len());
            peer.write_all((head + &body).as_bytes()).await.unwrap();
            peer
        };
        let (json, _) = tokio::join!(answer(&args), answers);
        let json = json.unwrap();
        assert!(json.contains(r#""user":"a\u009b\u202elice""#), "{json}");
    }

    #[test]
    fn one_that_was_rejected_has_no_queue() {
        let explained: Explained = serde_json::from_str(&ANSWER.replacen("root.a", "", 1)).unwrap();
        let told = told(&explained, "2026-11-20T10:03:10Z".parse().unwrap());
        assert!(told.starts_with("app-7 of alice: Accepted, submitted 3m ago"), "{told}");
    }

    #[test]
    fn what_a_remedy_does_to_others_is_told() {
        let named = |count: usize| (0..count).map(|n| AllocationView { application: "a".into(), key: format!("k{n}") });
        let remedy = RemedyView {
            kind: "preemption".into(),
            text: "Allow it.".into(),
            who: "owner".into(),
            preempted: 2,
            after_seconds: 3.2,
            ..RemedyView::default()
        };
        let free = |count| RemedyView {
            kind: "free".into(),
            text: "Free it.".into(),
            who: "operator".into(),
            allocations: named(count).collect(),
            ..RemedyView::default()
        };
        let (at_once, waits) = (RemedyView { after_seconds: 0.0, ..remedy.clone() }, "wait".to_owned());
        let remedies = vec![remedy.clone(), at_once, RemedyView { kind: waits, ..remedy }, free(3), free(4)];
        let mut text = String::new();
        helps(&mut text, &AdviceView { remedies, complete: true, ..AdviceView::default() });
        let expected = "  What would help, the smallest change first:\n\
            \x20 1. Allow it.  [owner; 2 allocations preempted after 4 s]\n\
            \x20 2. Allow it.  [owner; 2 allocations preempted]\n\
            \x20 3. Allow it.  [owner]\n\
            \x20 4. Free it.  [operator]\n\
            \x20 5. Free it.  [operator]\n\
            \x20      k0 of a\n\
            \x20      k1 of a\n\
            \x20      k2 of a\n\
            \x20      k3 of a\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn what_does_not_wait_is_said() {
        let mut explained: Explained = serde_json::from_str(ANSWER).unwrap();
        explained.waiting.clear();
        explained.task_groups.clear();
        let row = |at: &str, what: &str, count| TimelineRow {
            at: at.into(),
            of: "ask".into(),
            name: "k".into(),
            text: what.into(),
            count,
        };
        let rows = vec![row("2026-11-20T10:00:00.5Z", "asked for 1 core", 3), row("soon", "withdrawn", 1)];
        let mut told_so_far = String::new();
        so_far(&mut told_so_far, "command", &Timeline { rows, complete: true });
        let expected =
            "\nSo far:\n  2026-11-20T10:00:00Z  ask k: asked for 1 core (3 times)\n  soon  ask k: withdrawn\n";
        assert_eq!(told_so_far, expected);
        let mut of_long_ago = String::new();
        explained.id = "a 1".into();
        let options = [("--server", "http://a:1"), ("--partition", "gpu"), ("--token-file", "/my token")];
        explained.repeat(&options.map(|(name, value)| (name, value.to_owned())));
        so_far(&mut of_long_ago, &explained.events, &Timeline { rows: Vec::new(), complete: false });
        let expected = "callboard events --object='a 1' -n 1000 --server http://a:1 --token-file '/my token'";
        assert_eq!(of_long_ago, format!("\nSo far: nothing recent (older, as far as it is kept: {expected})\n"));
        explained.id = "app-7".into();
        let now = "2026-11-23T10:00:00Z".parse().unwrap();
        assert!(told(&explained, now).ends_with("submitted 3d ago, 0 allocations\nNo ask of it waits.\n"));
        explained.ask = Some(AskState { key: "k".into(), state: "allocated".into(), node: Some("n1".into()) });
        assert!(told(&explained, now).ends_with("k does not wait: it is allocated on node n1\n"));
    }
}
