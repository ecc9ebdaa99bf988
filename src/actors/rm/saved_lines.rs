//! The lines that a snapshot keeps: those that may not have reached the shim.
//!
//! Each is its number, its partition, what it is, and its entries as effects; events, which are none, as the log has them.

use std::sync::Arc;

use super::{
    lines,
    record::{self, piece},
};
use crate::{
    domain::{
        effect::{Callback, Effect},
        log,
        resources::Types,
    },
    messages::rm::{Line, Outgoing, Payload, Predicates, Rejected, Updated},
    store::events::codec::{Input, Malformed, unsigned},
};

/// What a line is.
const EFFECTS: u64 = 1;
const EVENTS: u64 = 2;
const STATE_DUMP: u64 = 3;
const ASK_BATCH: u64 = 4;
const ASK_SEVERAL: u64 = 5;

/// Writes them.
pub fn write(lines: &[Arc<Line>]) -> Vec<u8> {
    let mut out = Vec::new();
    unsigned(&mut out, lines.len() as u64);
    for line in lines {
        let (kind, bytes) = match &line.payload {
            Payload::Events(events) => (EVENTS, record::events(events)),
            Payload::StateDump => (STATE_DUMP, Vec::new()),
            payload @ Payload::AskBatch(_) => (ASK_BATCH, log::effects_to_bytes(&effects(payload))),
            payload @ Payload::AskSeveral(_) => (ASK_SEVERAL, log::effects_to_bytes(&effects(payload))),
            payload => (EFFECTS, log::effects_to_bytes(&effects(payload))),
        };
        unsigned(&mut out, line.seq);
        unsigned(&mut out, line.partition.len() as u64);
        out.extend_from_slice(line.partition.as_bytes());
        unsigned(&mut out, kind);
        unsigned(&mut out, bytes.len() as u64);
        out.extend_from_slice(&bytes);
    }
    out
}

/// Reads what [`write`] wrote.
///
/// # Errors
/// It is damaged, or of a later release.
pub fn read(payload: &[u8], types: &Types) -> Result<Vec<Line>, String> {
    let malformed = |error: Malformed| error.0.to_owned();
    let mut input = Input { rest: payload };
    let count = input.count().map_err(malformed)?;
    let (mut lines, mut before) = (Vec::new(), 0);
    for _ in 0..count {
        let seq = input.unsigned().map_err(malformed)?;
        if seq <= before {
            return Err(format!("line {seq} follows line {before}"));
        }
        before = seq;
        let partition = str::from_utf8(piece(&mut input).map_err(malformed)?).map_err(|error| error.to_string())?;
        let kind = input.unsigned().map_err(malformed)?;
        let bytes = piece(&mut input).map_err(malformed)?;
        let payload = match kind {
            EVENTS => Payload::Events(record::read_events(bytes)?),
            STATE_DUMP => Payload::StateDump,
            EFFECTS | ASK_BATCH | ASK_SEVERAL => {
                let asks = match kind {
                    ASK_BATCH => Predicates::Batch,
                    ASK_SEVERAL => Predicates::Several,
                    _ => Predicates::Single,
                };
                let effects = log::effects_from_bytes(bytes, types).map_err(|error| error.to_string())?;
                of_effects(effects, asks).ok_or_else(|| format!("line {seq} is no line"))?
            }
            other => return Err(format!("line {seq} is of kind {other}, which this release does not know")),
        };
        lines.push(Line { seq, partition: partition.into(), payload });
    }
    if input.rest.is_empty() { Ok(lines) } else { Err("something follows the lines".to_owned()) }
}

/// The entries of a line, as they became one.
fn effects(payload: &Payload) -> Vec<Effect> {
    let callback = Effect::Callback;
    match payload {
        Payload::New(list) => list.iter().cloned().map(Callback::New).map(callback).collect(),
        Payload::Released(list) => list.iter().cloned().map(Callback::Released).map(callback).collect(),
        Payload::RejectedAllocations(list) => list.iter().cloned().map(refused_allocation).map(callback).collect(),
        Payload::Applications { accepted, rejected } => {
            let accepted = accepted.iter().cloned().map(Callback::AcceptedApplication);
            let rejected = rejected.iter().cloned();
            let rejected = rejected.map(|Rejected { app, reason, .. }| Callback::RejectedApplication { app, reason });
            accepted.chain(rejected).map(callback).collect()
        }
        Payload::UpdatedApplications(list) => {
            let updated =
                |Updated { app, state, at, message }| Callback::UpdatedApplication { app, state, at, message };
            list.iter().cloned().map(updated).map(callback).collect()
        }
        Payload::Nodes { accepted, rejected } => {
            let accepted = accepted.iter().cloned().map(Callback::AcceptedNode);
            let rejected = rejected.iter().cloned();
            let rejected = rejected.map(|Rejected { key: node, reason, .. }| Callback::RejectedNode { node, reason });
            accepted.chain(rejected).map(callback).collect()
        }
        Payload::ContainerState { app, key, state, reason } => {
            let (app, key, reason) = (app.clone(), key.clone(), reason.clone());
            vec![callback(Callback::ContainerState { app, key, state: *state, reason })]
        }
        Payload::Ask(_) | Payload::AskBatch(_) | Payload::AskSeveral(_) => {
            payload.questions().iter().cloned().map(Effect::Ask).collect()
        }
        Payload::Events(_) | Payload::StateDump => Vec::new(),
    }
}

fn refused_allocation(Rejected { key, app, reason }: Rejected) -> Callback {
    Callback::RejectedAllocation { key, app, reason }
}

/// One line of them; `None` where they make none, or several.
fn of_effects(effects: Vec<Effect>, asks: Predicates) -> Option<Payload> {
    let items = effects.into_iter().map(|effect| match effect {
        Effect::Callback(callback) => Some(Outgoing::Callback(callback)),
        Effect::Ask(question) => Some(Outgoing::Ask(question)),
        _ => None,
    });
    let mut payloads = lines::group(items.collect::<Option<Vec<_>>>()?, asks);
    payloads.pop().filter(|_| payloads.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{
        alloc::AskSpec,
        effect::{ContainerState, NewAllocation, Question, QuestionKind, Released},
        event::{Change, Detail, Event, EventKind},
        resources::Resource,
        types::{AppState, Nanos, Termination},
    };

    fn lines() -> Vec<Arc<Line>> {
        let refused = |key: &str, app: &str| Rejected { key: key.into(), app: app.into(), reason: "no".into() };
        let resource = Arc::new(Resource::of(&[("memory", 5), ("example.com/x", 1)]));
        let spec = Arc::new(AskSpec { key: "key-1".into(), resource: resource.clone(), ..AskSpec::default() });
        let new = NewAllocation { spec, app: "app-1".into(), node: "node-1".into(), resource };
        let released = Released {
            key: "key-1".into(),
            app: "app-1".into(),
            termination: Termination::PlaceholderReplaced,
            message: "why".into(),
            confirm: true,
        };
        let question =
            |kind| Question { id: 7, key: "k".into(), node: "n".into(), more: Vec::new(), kind, together: false };
        let batch =
            Question { more: vec!["n2".into(), "n3".into()], ..question(QuestionKind::Fits { allocate: true }) };
        let without = question(QuestionKind::FitsWithout { victims: vec!["v".into()], start: -1 });
        let event = Event {
            kind: EventKind::App,
            object: "app-1".into(),
            reference: "r".into(),
            change: Change::Add,
            detail: Detail::AppAlloc,
            message: "m".into(),
            resource: None,
            at: Nanos(99),
            partition: Arc::default(),
        };
        let payloads = [
            Payload::New(vec![Box::new(new.clone()), Box::new(new)]),
            Payload::Released(vec![Box::new(released)]),
            Payload::RejectedAllocations(vec![refused("a", "b"), refused("c", "d")]),
            Payload::Applications { accepted: vec!["a".into(), "b".into()], rejected: vec![refused("", "c")] },
            Payload::Applications { accepted: vec![], rejected: vec![refused("", "c")] },
            Payload::UpdatedApplications(vec![Updated {
                app: "a".into(),
                state: AppState::Running,
                at: Nanos(5),
                message: "run".into(),
            }]),
            Payload::Nodes { accepted: vec!["n1".into()], rejected: vec![refused("n2", "")] },
            Payload::ContainerState {
                app: "a".into(),
                key: "k".into(),
                state: ContainerState::Skipped,
                reason: "r".into(),
            },
            Payload::Events(vec![event]),
            Payload::Ask(without),
            Payload::AskBatch(batch.clone()),
            Payload::AskSeveral(vec![
                Question { together: true, ..batch.clone() },
                Question { together: true, id: 8, key: "l".into(), ..batch },
            ]),
            Payload::StateDump,
        ];
        let line = |(place, payload)| Arc::new(Line { seq: 3 * place as u64 + 2, partition: "[rm]p".into(), payload });
        payloads.into_iter().enumerate().map(line).collect()
    }

    #[test]
    fn lines_of_every_kind_are_read_as_they_were_written() {
        let lines = lines();
        let bytes = write(&lines);
        let read_back = read(&bytes, &Types::default()).unwrap();
        assert_eq!(format!("{read_back:?}"), format!("{:?}", lines.iter().map(|line| &**line).collect::<Vec<_>>()));
        for length in 0..bytes.len() {
            assert!(read(&bytes[..length], &Types::default()).is_err(), "{length}");
        }
        assert!(read(&[&bytes[..], b"x"].concat(), &Types::default()).is_err());
    }
}
