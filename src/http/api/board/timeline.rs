//! What happened to an application so far: its events, and those of its queues and nodes that concern it, in one line of time. It is read
//! backwards from the log of events, so that what happened last is found first.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use actix::Addr;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{advice::amounts, why};
use crate::{
    actors::event::EventActor,
    domain::{
        Partition,
        event::{Change, Detail, Event, EventKind},
        event_block::EventPiece,
        resources::Resource,
        types::Nanos,
    },
    http::{api::events::back::Back, ws_v1::time_text},
};

/// Events that one answer looks at.
const LOOKED_AT: u64 = 1 << 17;
/// Rows of an answer.
const ROWS: usize = 50;
/// Nodes that are told of.
const NODES: usize = 1_000;

/// The answer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Timeline {
    /// The oldest first; what happened several times in a row is one row.
    pub rows: Vec<TimelineRow>,
    /// All since the submission is there; else what is older was not looked at, or is not kept any more.
    pub complete: bool,
}

/// What happened.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TimelineRow {
    /// When, for the last time.
    pub at: String,
    /// `application`, `ask`, `queue` or `node`.
    pub of: String,
    /// Its name.
    pub name: String,
    /// In words.
    pub text: String,
    /// How often in a row.
    pub count: u64,
}

/// Whose timeline.
#[derive(Clone, Debug, Default)]
pub struct Subject {
    /// Internal name of the partition.
    partition: Arc<str>,
    app: Arc<str>,
    /// Its queue and those above.
    queues: BTreeSet<Arc<str>>,
    /// Nodes on which it has something or which it requires.
    nodes: BTreeSet<Arc<str>>,
    /// When it was submitted.
    since: Nanos,
}

impl Subject {
    /// An application, live or ended; `None` where there is no such.
    pub fn of(partition: &Partition, id: &str) -> Option<Subject> {
        let live = partition.app_by_id.get(id).and_then(|ix| partition.apps.get(*ix));
        let app = live.or_else(|| {
            let (first, last) = ((Arc::from(id), Nanos(i64::MIN)), (Arc::from(id), Nanos(i64::MAX)));
            let ended = partition.terminated.range(first..=last).next_back().map(|(_, app)| app);
            partition.rejected.get(id).or(ended).map(|app| &**app)
        })?;
        let mut queues = BTreeSet::new();
        let mut path = &*app.queue_path;
        while !path.is_empty() {
            queues.insert(Arc::from(path));
            path = path.rsplit_once('.').map_or("", |(above, _)| above);
        }
        let rows = app.allocs.keys().chain(&app.reservations).filter_map(|ix| partition.allocs.get(*ix));
        let on = |ix: crate::domain::types::NodeIx| partition.nodes.get(ix).map(|node| node.id().clone());
        let nodes = rows.filter_map(|row| row.node.or(row.reserved).and_then(on)).take(NODES);
        let required = app.groups_by_key.keys().filter_map(|key| key.required_node.clone());
        Some(Subject {
            partition: partition.internal.clone(),
            app: app.id.clone(),
            queues,
            nodes: nodes.chain(required).collect(),
            since: app.submission.min(app.arrived),
        })
    }

    /// What an event says of it; `None`: nothing.
    fn told(&self, event: &Event) -> Option<TimelineRow> {
        if event.partition != self.partition {
            return None;
        }
        let own = event.object == self.app;
        let (of, name, text) = match event.kind {
            EventKind::App if own && !event.reference.is_empty() => ("ask", &event.reference, of_ask(event)?),
            EventKind::App if own => ("application", &event.object, of_application(event)?),
            EventKind::Request if event.reference == self.app => ("ask", &event.object, event.message.to_string()),
            EventKind::Queue if self.queues.contains(&event.object) => ("queue", &event.object, self.of_queue(event)?),
            EventKind::Node if self.nodes.contains(&event.object) => ("node", &event.object, of_node(event)?),
            _ => return None,
        };
        let at = time_text(event.at);
        Some(TimelineRow { at, of: of.to_owned(), name: name.to_string(), text, count: 1 })
    }

    fn step(&self, pieces: &[EventPiece]) -> Step {
        let mut found = Step { rows: Vec::new(), begun: false };
        let mut placed = Placed::default();
        for piece in pieces {
            let EventPiece::Events(slice) = piece else { continue };
            for event in slice.events() {
                found.begun |= event.at < self.since;
                if event.at < self.since {
                    continue;
                }
                let submitted = event.detail == Detail::AppNew && event.object == self.app;
                found.begun |= submitted && event.partition == self.partition;
                if let Some(row) = self.told(event)
                    && (row.of != "ask" || !placed.covers(event))
                {
                    join(&mut found.rows, row);
                }
            }
        }
        found
    }

    fn of_queue(&self, event: &Event) -> Option<String> {
        Some(match event.detail {
            Detail::QueueApp if event.reference == self.app => match event.change {
                Change::Add => "the application entered".to_owned(),
                _ => "the application left".to_owned(),
            },
            Detail::QueueConfig if event.message.is_empty() => "its configuration changed".to_owned(),
            Detail::QueueConfig | Detail::QueuePreemption | Detail::QueueType => event.message.to_string(),
            // The max of root is the size of the cluster.
            Detail::QueueMax if event.object.contains('.') => format!("max is {}", sized(event)),
            Detail::QueueGuaranteed => format!("guaranteed is {}", sized(event)),
            _ => return None,
        })
    }
}

/// Allocations of an application. With each goes its ask, which nobody has withdrawn.
#[derive(Default)]
struct Placed {
    /// Those that are there.
    open: BTreeSet<Arc<str>>,
    /// When those that went have gone.
    ended: BTreeMap<Arc<str>, Nanos>,
}

impl Placed {
    /// The event is said by another one already.
    fn covers(&mut self, event: &Event) -> bool {
        let key = &event.reference;
        match event.detail {
            Detail::RequestCancel => self.open.contains(key) || self.ended.get(key) == Some(&event.at),
            Detail::AppAlloc => {
                self.open.insert(key.clone());
                false
            }
            _ if event.kind == EventKind::App && event.change == Change::Remove => {
                self.open.remove(key);
                self.ended.insert(key.clone(), event.at);
                false
            }
            _ => false,
        }
    }
}

fn sized(event: &Event) -> String {
    let amounts = amounts(event.resource.as_deref().unwrap_or(&Resource::new()), 4);
    if amounts.is_empty() { "not set".to_owned() } else { amounts }
}

fn of_ask(event: &Event) -> Option<String> {
    let size = || sized(event);
    Some(match event.detail {
        Detail::AppRequest => format!("asked for {}", size()),
        Detail::RequestCancel => "withdrawn".to_owned(),
        Detail::RequestTimeout => "timed out".to_owned(),
        Detail::AppAlloc => format!("allocated: {}", size()),
        Detail::AllocCancel => "ended".to_owned(),
        Detail::AllocPreempt => "preempted".to_owned(),
        Detail::AllocTimeout => "its allocation timed out".to_owned(),
        Detail::AllocReplaced => "replaced".to_owned(),
        Detail::AllocNodeRemoved => "ended with its node".to_owned(),
        _ => return None,
    })
}

fn of_application(event: &Event) -> Option<String> {
    let with = |text: &str| match &*event.message {
        "" => text.to_owned(),
        message => format!("{text}: {message}"),
    };
    Some(match (event.change, event.detail) {
        (Change::Add, Detail::AppNew) => "submitted".to_owned(),
        (Change::Remove, Detail::None) => "left its queue".to_owned(),
        (_, Detail::AppReject) => with("rejected"),
        (_, Detail::AppAccepted) => with("accepted"),
        (_, Detail::AppRunning) => with("running"),
        (_, Detail::AppCompleting) => with("completing"),
        (_, Detail::AppCompleted) => with("completed"),
        (_, Detail::AppFailing) => with("failing"),
        (_, Detail::AppFailed) => with("failed"),
        (_, Detail::AppResuming) => with("resuming"),
        (_, Detail::AppExpired) => with("expired"),
        (_, Detail::AppCannotRunQueue) => format!("held: {}", why::title("runningApps")),
        (_, Detail::AppCannotRunQuota) => format!("held: {}", why::title("userApps")),
        (_, Detail::AppRunnableQueue | Detail::AppRunnableQuota) => "may run".to_owned(),
        _ => return None,
    })
}

fn of_node(event: &Event) -> Option<String> {
    Some(match (event.change, event.detail) {
        (Change::Remove, Detail::NodeDecommission) => "removed".to_owned(),
        (_, Detail::NodeSchedulable) if event.message.ends_with("true") => "takes allocations".to_owned(),
        (_, Detail::NodeSchedulable) if event.message.ends_with("false") => "drained".to_owned(),
        // Such as of a deadline that has passed.
        (_, Detail::NodeSchedulable) => event.message.to_string(),
        (_, Detail::NodeCapacity) => format!("capacity is {}", sized(event)),
        _ => return None,
    })
}

/// Reads the timeline. What cannot be read is left out.
pub async fn timeline(events: &Addr<EventActor>, subject: &Subject) -> Timeline {
    let Some(mut back) = Back::from_end(events).await else { return Timeline::default() };
    // The latest first.
    let mut steps: Vec<Vec<TimelineRow>> = Vec::new();
    let (mut rows, mut complete) = (0, false);
    while back.looked() < LOOKED_AT && rows < ROWS && !complete {
        let Ok(Some(pieces)) = back.step().await else { break };
        let step = subject.step(&pieces);
        complete = step.begun;
        rows += step.rows.len();
        steps.push(step.rows);
    }
    let mut all: Vec<TimelineRow> = Vec::new();
    for row in steps.into_iter().rev().flatten() {
        join(&mut all, row);
    }
    let beyond = all.len().saturating_sub(ROWS);
    complete &= beyond == 0;
    all.drain(..beyond);
    Timeline { rows: all, complete }
}

/// Adds a row; what happened before in a row is counted.
fn join(rows: &mut Vec<TimelineRow>, row: TimelineRow) {
    match rows.last_mut() {
        Some(last) if last.of == row.of && last.text == row.text && (row.of == "ask" || last.name == row.name) => {
            last.count += row.count;
            last.at = row.at;
        }
        _ => rows.push(row),
    }
}

struct Step {
    rows: Vec<TimelineRow>,
    /// The submission is among them, or something older.
    begun: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(kind: EventKind, object: &str, reference: &str, change: Change, detail: Detail) -> Event {
        Event {
            kind,
            object: object.into(),
            reference: reference.into(),
            change,
            detail,
            message: "".into(),
            resource: Some(Arc::new(Resource::of(&[("vcore", 2000)]))),
            at: Nanos::from_secs(1_000),
            partition: "[rm-1]default".into(),
        }
    }

    fn subject() -> Subject {
        Subject {
            partition: "[rm-1]default".into(),
            app: "app-1".into(),
            queues: ["root".into(), "root.a".into()].into(),
            nodes: ["n1".into()].into(),
            since: Nanos::ZERO,
        }
    }

    #[test]
    fn what_concerns_an_application_is_told_in_words() {
        use EventKind::{App, Node, Queue, Request, UserGroup};
        let subject = subject();
        for (event, told) in [
            (event(App, "app-1", "", Change::Add, Detail::AppNew), Some(("application", "submitted"))),
            (event(App, "app-1", "k", Change::Add, Detail::AppRequest), Some(("ask", "asked for 2 cores"))),
            (event(App, "app-1", "k", Change::Remove, Detail::AllocPreempt), Some(("ask", "preempted"))),
            (event(App, "app-1", "k", Change::Set, Detail::RequestAlloc), None),
            (event(App, "app-2", "k", Change::Add, Detail::AppRequest), None),
            (
                event(Queue, "root.a", "app-1", Change::Add, Detail::QueueApp),
                Some(("queue", "the application entered")),
            ),
            (event(Queue, "root.a", "app-2", Change::Add, Detail::QueueApp), None),
            (event(Queue, "root.a", "", Change::Set, Detail::QueueMax), Some(("queue", "max is 2 cores"))),
            (event(Queue, "root", "", Change::Set, Detail::QueueMax), None),
            (event(Queue, "root.b", "", Change::Set, Detail::QueueMax), None),
            (
                Event {
                    message: "schedulable: false".into(),
                    ..event(Node, "n1", "", Change::Set, Detail::NodeSchedulable)
                },
                Some(("node", "drained")),
            ),
            (event(Node, "n1", "k", Change::Add, Detail::NodeAlloc), None),
            (event(Node, "n2", "", Change::Set, Detail::NodeSchedulable), None),
            (event(UserGroup, "alice", "app-1", Change::Add, Detail::AppLink), None),
        ] {
            let row = subject.told(&event);
            assert_eq!(row.as_ref().map(|row| (&*row.of, &*row.text)), told, "{event:?}");
        }
        let held = Event { message: "does not fit".into(), ..event(Request, "k", "app-1", Change::None, Detail::None) };
        assert_eq!(subject.told(&held).map(|row| (row.name, row.text)), Some(("k".into(), "does not fit".into())));
        let elsewhere = Event { partition: "[rm-1]other".into(), ..held };
        assert_eq!(subject.told(&elsewhere), None);
        let late = event(Node, "n1", "", Change::Set, Detail::NodeSchedulable);
        let late = Event { message: "the deadline of its drain has passed".into(), ..late };
        assert_eq!(subject.told(&late).map(|row| row.text).as_deref(), Some("the deadline of its drain has passed"));
    }

    #[test]
    fn only_what_was_not_placed_is_withdrawn() {
        let of = |key: &str, change, detail, at| Event {
            at: Nanos::from_secs(at),
            ..event(EventKind::App, "app-1", key, change, detail)
        };
        let events = vec![
            of("a", Change::Add, Detail::AppAlloc, 1),
            of("a", Change::Remove, Detail::AllocCancel, 2),
            of("a", Change::Remove, Detail::RequestCancel, 2),
            of("b", Change::Remove, Detail::AllocCancel, 3),
            of("b", Change::Remove, Detail::RequestCancel, 3),
            of("c", Change::Remove, Detail::RequestCancel, 4),
            // One that failed waits again.
            of("d", Change::Remove, Detail::AllocCancel, 5),
            of("d", Change::Remove, Detail::RequestCancel, 6),
            of("e", Change::Add, Detail::AppAlloc, 7),
            of("e", Change::Remove, Detail::RequestCancel, 8),
        ];
        let mut placed = Placed::default();
        let told: Vec<_> = events.iter().filter(|event| !placed.covers(event)).filter_map(of_ask).collect();
        assert_eq!(
            told,
            ["allocated: 2 cores", "ended", "ended", "withdrawn", "ended", "withdrawn", "allocated: 2 cores"]
        );
    }

    fn events() -> Vec<Event> {
        let mut events = vec![event(EventKind::Queue, "root.a", "", Change::Set, Detail::QueueMax)];
        events[0].at = Nanos::ZERO;
        events.push(event(EventKind::App, "app-1", "", Change::Add, Detail::AppNew));
        events
            .extend((0..3).map(|n| event(EventKind::App, "app-1", &format!("k{n}"), Change::Add, Detail::AppRequest)));
        let drained = event(EventKind::Node, "n1", "", Change::Set, Detail::NodeSchedulable);
        events.push(Event { message: "schedulable: false".into(), ..drained });
        events
    }

    #[actix::test]
    async fn the_log_is_read_back_to_the_submission() {
        use actix::Actor as _;

        use crate::{actors::event::testing::after_a_kill, messages::event::Publish};

        let actor = EventActor::default().start();
        actor.do_send(Publish { rm: "rm-1".into(), epoch: 1, events: events(), traced: Vec::new(), first: None });
        let subject = Subject { since: Nanos::from_secs(1), ..subject() };
        let timeline = timeline(&actor, &subject).await;
        let told: Vec<(&str, u64)> = timeline.rows.iter().map(|row| (&*row.text, row.count)).collect();
        assert_eq!(told, [("submitted", 1), ("asked for 2 cores", 3), ("drained", 1)]);
        assert!(timeline.complete && timeline.rows[1].name == "k0");

        // Over the ids that a kill leaves without events.
        let (actor, _directories) = after_a_kill(events()).await;
        assert_eq!(super::timeline(&actor, &subject).await, timeline);
    }
}
