//! Lines of a session as JSON text: `{"seq": n, KIND: {…}}` in the proto3 JSON mapping, written straight into a buffer.
//!
//! A stream carries 100,000 lines a second, so the text is written by hand; the tests hold it against the mapping that is
//! generated from the protocol files.

use std::io::Write as _;

use callboard_domain::{
    effect::{NewAllocation, Question, QuestionKind, Released},
    resources::Resource,
};

use super::{
    outward,
    session::{Closing, Line, Payload, Rejected, Updated},
};

/// Appends a line, without a line break.
pub fn write(line: &Line, out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"seq\":");
    number(out, line.seq as i64);
    if line.payload.wants_answer() {
        out.extend_from_slice(b",\"id\":");
        number(out, line.seq as i64);
    }
    match &line.payload {
        Payload::New(list) => {
            out.extend_from_slice(b",\"allocation\":{\"new\":[");
            each(out, list, |out, new| new_allocation(out, &line.partition, new));
            out.extend_from_slice(b"]}");
        }
        Payload::Released(list) => {
            out.extend_from_slice(b",\"allocation\":{\"released\":[");
            each(out, list, |out, release| released(out, &line.partition, release));
            out.extend_from_slice(b"]}");
        }
        Payload::RejectedAllocations(list) => {
            out.extend_from_slice(b",\"allocation\":{\"rejectedAllocations\":[");
            each(out, list, |out, entry| {
                let mut object = Object::begin(out);
                object.text("allocationKey", &entry.key);
                object.text("applicationID", &entry.app);
                object.text("reason", &entry.reason);
                object.end();
            });
            out.extend_from_slice(b"]}");
        }
        Payload::Applications { accepted, rejected } => {
            answers(out, "application", "applicationID", accepted, rejected, |entry| &entry.app);
        }
        Payload::UpdatedApplications(list) => {
            out.extend_from_slice(b",\"application\":{\"updated\":[");
            each(out, list, updated);
            out.extend_from_slice(b"]}");
        }
        Payload::Nodes { accepted, rejected } => {
            answers(out, "node", "nodeID", accepted, rejected, |entry| &entry.key);
        }
        Payload::ContainerState { app, key, state, reason } => {
            use callboard_domain::effect::ContainerState;
            out.extend_from_slice(b",\"containerState\":");
            let mut object = Object::begin(out);
            object.text("applicationID", app);
            object.text("allocationKey", key);
            object.text(
                "state",
                match state {
                    ContainerState::Skipped => "SKIPPED",
                    ContainerState::Scheduled => "SCHEDULED",
                    ContainerState::Reserved => "RESERVED",
                    ContainerState::Failed => "FAILED",
                },
            );
            object.text("reason", reason);
            object.end();
        }
        Payload::Events(events) => {
            out.extend_from_slice(b",\"events\":{\"records\":[");
            // Far fewer than allocations: the generated mapping is fast enough.
            each(out, events, |out, event| generated(out, &outward::event(event)));
            out.extend_from_slice(b"]}");
        }
        Payload::Ask(question) => ask(out, question),
        Payload::AskBatch(question) => {
            out.extend_from_slice(b",\"predicatesBatch\":");
            batch(out, question);
        }
        Payload::AskSeveral(questions) => {
            out.extend_from_slice(b",\"predicatesSeveral\":{\"asks\":[");
            each(out, questions, batch);
            out.extend_from_slice(b"]}");
        }
        Payload::StateDump => out.extend_from_slice(b",\"stateDump\":{}"),
    }
    out.push(b'}');
}

/// Appends the last line of a stream, without a line break.
pub fn write_closing(closing: &Closing, out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"closing\":{\"status\":");
    number(out, i64::from(closing.kind.status()));
    out.extend_from_slice(b",\"detail\":");
    text(out, &closing.detail);
    if let Some(leader) = closing.leader.as_ref().filter(|leader| !leader.http.is_empty()) {
        out.extend_from_slice(b",\"leader\":");
        text(out, &leader.http);
    }
    out.extend_from_slice(b"}}");
}

fn answers<'a>(
    out: &mut Vec<u8>,
    kind: &str,
    id: &'static str,
    accepted: &[std::sync::Arc<str>],
    rejected: &'a [Rejected],
    name: impl Fn(&'a Rejected) -> &'a str,
) {
    out.extend_from_slice(b",\"");
    out.extend_from_slice(kind.as_bytes());
    out.extend_from_slice(b"\":{");
    if !rejected.is_empty() {
        out.extend_from_slice(b"\"rejected\":[");
        each(out, rejected, |out, entry| {
            let mut object = Object::begin(out);
            object.text(id, name(entry));
            object.text("reason", &entry.reason);
            object.end();
        });
        out.push(b']');
    }
    if !accepted.is_empty() {
        if !rejected.is_empty() {
            out.push(b',');
        }
        out.extend_from_slice(b"\"accepted\":[");
        each(out, accepted, |out, entry| {
            let mut object = Object::begin(out);
            object.text(id, entry);
            object.end();
        });
        out.push(b']');
    }
    out.push(b'}');
}

fn new_allocation(out: &mut Vec<u8>, partition: &str, new: &NewAllocation) {
    let spec = &new.spec;
    let mut object = Object::begin(out);
    object.text("allocationKey", &spec.key);
    if !spec.tags.is_empty() {
        object.key("allocationTags");
        object.out.push(b'{');
        each(object.out, spec.tags.iter(), |out, (key, value)| {
            text(out, key);
            out.push(b':');
            text(out, value);
        });
        object.out.push(b'}');
    }
    object.key("resourcePerAlloc");
    resource(object.out, &new.resource);
    if spec.priority != 0 {
        object.key("priority");
        number(object.out, i64::from(spec.priority));
    }
    object.text("nodeID", &new.node);
    object.text("applicationID", &new.app);
    object.text("partitionName", partition);
    object.text("taskGroupName", &spec.task_group);
    object.flag("placeholder", spec.placeholder);
    object.flag("originator", spec.originator);
    if let Some(policy) = spec.preemption {
        object.key("preemptionPolicy");
        let mut inner = Object::begin(object.out);
        inner.flag("allowPreemptSelf", policy.allow_preempt_self);
        inner.flag("allowPreemptOther", policy.allow_preempt_other);
        inner.end();
    }
    object.end();
}

fn released(out: &mut Vec<u8>, partition: &str, release: &Released) {
    let mut object = Object::begin(out);
    object.text("partitionName", partition);
    object.text("applicationID", &release.app);
    let termination = outward::termination(release.termination);
    if termination != super::v1::TerminationType::UnknownTerminationType {
        object.text("terminationType", termination.as_str_name());
    }
    object.text("message", &release.message);
    object.text("allocationKey", &release.key);
    object.end();
}

fn updated(out: &mut Vec<u8>, entry: &Updated) {
    let mut object = Object::begin(out);
    object.text("applicationID", &entry.app);
    object.text("state", entry.state.name());
    if entry.at.0 != 0 {
        object.key("stateTransitionTimestamp");
        quoted_number(object.out, entry.at.0);
    }
    object.text("message", &entry.message);
    object.end();
}

fn ask(out: &mut Vec<u8>, question: &Question) {
    let name = match question.kind {
        QuestionKind::Fits { .. } => "predicates",
        QuestionKind::FitsWithout { .. } => "preemptionPredicates",
    };
    out.extend_from_slice(b",\"");
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b"\":");
    let mut object = Object::begin(out);
    object.text("allocationKey", &question.key);
    object.text("nodeID", &question.node);
    match &question.kind {
        QuestionKind::Fits { allocate } => object.flag("allocate", *allocate),
        QuestionKind::FitsWithout { victims, start } => {
            if !victims.is_empty() {
                object.key("preemptAllocationKeys");
                object.out.push(b'[');
                each(object.out, victims, |out, key| text(out, key));
                object.out.push(b']');
            }
            if *start != 0 {
                object.key("startIndex");
                number(object.out, i64::from(*start));
            }
        }
    }
    object.end();
}

fn batch(out: &mut Vec<u8>, question: &Question) {
    let mut object = Object::begin(out);
    object.text("allocationKey", &question.key);
    object.key("nodeIDs");
    object.out.push(b'[');
    each(object.out, std::iter::once(&question.node).chain(&question.more), |out, node| text(out, node));
    object.out.push(b']');
    let allocate = matches!(question.kind, QuestionKind::Fits { allocate: true });
    object.flag("allocate", allocate);
    object.flag("firstOnly", allocate);
    object.end();
}

fn resource(out: &mut Vec<u8>, resource: &Resource) {
    out.push(b'{');
    if !resource.is_empty() {
        out.extend_from_slice(b"\"resources\":{");
        each(out, resource.iter(), |out, (kind, amount)| {
            text(out, kind.name());
            out.push(b':');
            out.push(b'{');
            let amount = amount.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64;
            if amount != 0 {
                out.extend_from_slice(b"\"value\":");
                quoted_number(out, amount);
            }
            out.push(b'}');
        });
        out.push(b'}');
    }
    out.push(b'}');
}

fn each<T>(out: &mut Vec<u8>, items: impl IntoIterator<Item = T>, mut write: impl FnMut(&mut Vec<u8>, T)) {
    for (n, item) in items.into_iter().enumerate() {
        if n > 0 {
            out.push(b',');
        }
        write(out, item);
    }
}

/// An object whose fields with default values are left out.
struct Object<'a> {
    out: &'a mut Vec<u8>,
    empty: bool,
}

impl<'a> Object<'a> {
    fn begin(out: &'a mut Vec<u8>) -> Object<'a> {
        out.push(b'{');
        Object { out, empty: true }
    }

    fn key(&mut self, key: &str) {
        if !self.empty {
            self.out.push(b',');
        }
        self.empty = false;
        self.out.push(b'"');
        self.out.extend_from_slice(key.as_bytes());
        self.out.extend_from_slice(b"\":");
    }

    fn text(&mut self, key: &str, value: &str) {
        if !value.is_empty() {
            self.key(key);
            text(self.out, value);
        }
    }

    fn flag(&mut self, key: &str, value: bool) {
        if value {
            self.key(key);
            self.out.extend_from_slice(b"true");
        }
    }

    fn end(self) {
        self.out.push(b'}');
    }
}

/// A JSON string.
fn text(out: &mut Vec<u8>, value: &str) {
    out.push(b'"');
    let bytes = value.as_bytes();
    let mut clean = 0;
    for (at, byte) in bytes.iter().enumerate() {
        if *byte >= 0x20 && *byte != b'"' && *byte != b'\\' {
            continue;
        }
        out.extend_from_slice(&bytes[clean..at]);
        clean = at + 1;
        match byte {
            b'"' => out.extend_from_slice(b"\\\""),
            b'\\' => out.extend_from_slice(b"\\\\"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            other => write!(out, "\\u{other:04x}").unwrap_or_else(|_| unreachable!("writing to memory")),
        }
    }
    out.extend_from_slice(&bytes[clean..]);
    out.push(b'"');
}

fn quoted_number(out: &mut Vec<u8>, value: i64) {
    out.push(b'"');
    number(out, value);
    out.push(b'"');
}

fn number(out: &mut Vec<u8>, value: i64) {
    let mut digits = [0u8; 20];
    let mut at = digits.len();
    let mut rest = value.unsigned_abs();
    loop {
        at -= 1;
        digits[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    if value < 0 {
        out.push(b'-');
    }
    out.extend_from_slice(&digits[at..]);
}

fn generated(out: &mut Vec<u8>, message: &impl serde::Serialize) {
    // Records hold no value that JSON cannot; one that could not be written would be left out as an empty object.
    let start = out.len();
    if serde_json::to_writer(&mut *out, message).is_err() {
        out.truncate(start);
        out.extend_from_slice(b"{}");
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use callboard_domain::{
        alloc::{AskSpec, PreemptionPolicy},
        effect::ContainerState,
        event::{Change, Detail, Event, EventKind},
        types::{AppState, Nanos, Termination},
    };

    use super::*;
    use crate::session::{ClosingKind, Leader};

    fn json(payload: Payload) -> serde_json::Value {
        let mut out = Vec::new();
        write(&Line { seq: 12, partition: "[rm-1]default".into(), payload }, &mut out);
        serde_json::from_slice(&out).unwrap_or_else(|e| panic!("{e}: {}", String::from_utf8_lossy(&out)))
    }

    /// The hand-written text and the generated mapping say the same.
    fn same(payload: Payload) -> serde_json::Value {
        use super::super::ext::call::Call;
        let line = Line { seq: 12, partition: "[rm-1]default".into(), payload };
        let mut out = Vec::new();
        write(&line, &mut out);
        let written: serde_json::Value = serde_json::from_slice(&out).unwrap();
        let (name, generated) = match outward::call(&line) {
            Call::Allocation(m) => ("allocation", serde_json::to_value(m)),
            Call::Application(m) => ("application", serde_json::to_value(m)),
            Call::Node(m) => ("node", serde_json::to_value(m)),
            Call::ContainerState(m) => ("containerState", serde_json::to_value(m)),
            Call::Predicates(m) => ("predicates", serde_json::to_value(m)),
            Call::PreemptionPredicates(m) => ("preemptionPredicates", serde_json::to_value(m)),
            other => panic!("{other:?}"),
        };
        assert_eq!(written[name], generated.unwrap());
        assert_eq!(written["seq"], 12);
        written
    }

    fn new(key: &str) -> Box<NewAllocation> {
        Box::new(NewAllocation {
            spec: Arc::new(AskSpec {
                key: key.into(),
                tags: [("a\"\u{1}\n".to_owned(), "ü\\".to_owned())].into(),
                priority: -7,
                task_group: "tg".into(),
                placeholder: true,
                originator: true,
                preemption: Some(PreemptionPolicy { allow_preempt_self: true, allow_preempt_other: false }),
                ..AskSpec::default()
            }),
            app: "app-1".into(),
            node: "n1".into(),
            resource: Arc::new(Resource::of(&[("memory", i64::MAX), ("vcore", 0), ("x/y", -3)])),
        })
    }

    #[test]
    fn new_allocations() {
        // SEEDS S36 (R4.6): every allocation says what the shim said of it, and where it is.
        let line = same(Payload::New(vec![new("k1"), new("k2")]));
        let second = &line["allocation"]["new"][1];
        assert_eq!((&second["allocationKey"], &second["priority"]), (&"k2".into(), &(-7).into()));
        assert_eq!(second["partitionName"], "[rm-1]default");
        assert_eq!(second["allocationTags"], serde_json::json!({"a\"\u{1}\n": "ü\\"}));
    }

    #[test]
    fn releases_and_rejections() {
        // R4.29, R4.8
        let release = Released {
            key: "k".into(),
            app: "a".into(),
            termination: Termination::PlaceholderReplaced,
            message: "replacing allocationKey: r".into(),
            confirm: true,
        };
        let line = same(Payload::Released(vec![Box::new(release)]));
        assert_eq!(line["allocation"]["released"][0]["partitionName"], "[rm-1]default");
        assert_eq!(line["allocation"]["released"][0]["terminationType"], "PLACEHOLDER_REPLACED");
        let rejected = || Rejected { key: "k".into(), app: "a".into(), reason: "why".into() };
        same(Payload::RejectedAllocations(vec![rejected()]));
        same(Payload::Applications { accepted: vec!["b".into()], rejected: vec![rejected()] });
        same(Payload::Nodes { accepted: vec!["b".into(), "c".into()], rejected: vec![] });
        same(Payload::Nodes { accepted: vec![], rejected: vec![rejected()] });
    }

    #[test]
    fn states() {
        same(Payload::UpdatedApplications(vec![Updated {
            app: "a".into(),
            state: AppState::Resuming,
            at: Nanos(1_700_000_000_123_456_789),
            message: "resumeApplication".into(),
        }]));
        for state in
            [ContainerState::Skipped, ContainerState::Scheduled, ContainerState::Reserved, ContainerState::Failed]
        {
            same(Payload::ContainerState { app: "a".into(), key: "k".into(), state, reason: "".into() });
        }
    }

    #[test]
    fn questions_carry_an_id() {
        let question =
            |kind| Question { id: 3, key: "k".into(), node: "n".into(), more: Vec::new(), kind, together: true };
        let line = same(Payload::Ask(question(QuestionKind::Fits { allocate: false })));
        assert_eq!(line["id"], 12);
        same(Payload::Ask(question(QuestionKind::FitsWithout { victims: vec!["a".into(), "b".into()], start: -1 })));
        let several = Question { more: vec!["m".into()], ..question(QuestionKind::Fits { allocate: true }) };
        let line = json(Payload::AskBatch(several.clone()));
        let want =
            serde_json::json!({"allocationKey": "k", "nodeIDs": ["n", "m"], "allocate": true, "firstOnly": true});
        assert_eq!(line["predicatesBatch"], want);
        let line = json(Payload::AskSeveral(vec![several.clone(), several]));
        assert_eq!((&line["id"], &line["predicatesSeveral"]), (&12.into(), &serde_json::json!({"asks": [want, want]})));
        assert_eq!(json(Payload::StateDump)["stateDump"], serde_json::json!({}));
    }

    #[test]
    fn events() {
        let event = Event {
            kind: EventKind::Queue,
            object: "root".into(),
            reference: "".into(),
            change: Change::Set,
            detail: Detail::QueuePreemption,
            message: "".into(),
            resource: Some(Arc::new(Resource::of(&[("memory", 1)]))),
            at: Nanos(5),
            partition: Arc::default(),
        };
        let line = json(Payload::Events(vec![event]));
        assert_eq!(line["events"]["records"][0]["eventChangeDetail"], "QUEUE_PREEMPTION");
        assert_eq!(line["events"]["records"][0]["timestampNano"], "5");
    }

    #[test]
    fn the_last_line() {
        let mut out = Vec::new();
        let closing = Closing { kind: ClosingKind::Shutdown, detail: "the server ends".into(), leader: None };
        write_closing(&closing, &mut out);
        assert_eq!(out, br#"{"closing":{"status":503,"detail":"the server ends"}}"#);
        out.clear();
        let leader = Some(Arc::new(Leader { http: "http://b:9080".into(), grpc: String::new() }));
        write_closing(&Closing { kind: ClosingKind::Moved, leader, ..closing }, &mut out);
        let moved = br#"{"closing":{"status":307,"detail":"the server ends","leader":"http://b:9080"}}"#;
        assert_eq!(out, moved);
    }
}
