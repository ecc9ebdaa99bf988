//! Event records as JSON (EVT-001): numbers for enumerations, zero and empty fields left out, `resource` always there.

use std::sync::Arc;

use bytes::Bytes;

use crate::{
    domain::{
        event::{Change, Detail, Event},
        resources::Resource,
    },
    http::ws_v1::json,
};

/// Writes records one after the other.
#[derive(Default)]
pub struct Encoder {
    out: Vec<u8>,
    /// Where the resource of the last record lies in `out`; the events of one allocation share theirs.
    last: Option<(Arc<Resource>, std::ops::Range<usize>)>,
}

impl Encoder {
    /// With room for `events` records of usual size.
    pub fn for_events(events: usize) -> Encoder {
        Encoder { out: Vec::with_capacity(events * 224 + 256), last: None }
    }

    /// What was written.
    pub fn finish(self) -> Bytes {
        self.out.into()
    }

    /// Adds text as it is.
    pub fn raw(&mut self, text: &str) {
        self.out.extend_from_slice(text.as_bytes());
    }

    /// Adds a number.
    pub fn number(&mut self, number: impl itoa::Integer) {
        self.out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
    }

    /// Adds a string in quotes.
    pub fn string(&mut self, text: &str) {
        json::string(&mut self.out, text);
    }

    /// Adds a record, beginning with `{`.
    pub fn record(&mut self, event: &Event) {
        self.raw("{\"type\":");
        self.number(event.kind as i32);
        self.text(",\"objectID\":", &event.object);
        self.text(",\"message\":", &event.message);
        self.integer(",\"timestampNano\":", event.at.0);
        self.integer(",\"eventChangeType\":", event.change as i64);
        self.integer(",\"eventChangeDetail\":", event.detail as i64);
        self.text(",\"referenceID\":", &event.reference);
        self.raw(",\"resource\":");
        self.resource(event.resource.as_ref(), "");
        self.raw("}");
    }

    /// Adds a record of the log: the proto3 JSON mapping of `si.v1.EventRecord`, as shims get it, after its id.
    pub fn numbered(&mut self, id: u64, event: &Event) {
        self.raw("{\"id\":");
        self.number(id);
        self.text(",\"type\":", event.kind.name());
        self.text(",\"objectID\":", &event.object);
        self.text(",\"message\":", &event.message);
        self.raw(",\"timestampNano\":\"");
        self.number(event.at.0);
        self.raw("\"");
        if event.change != Change::None {
            self.text(",\"eventChangeType\":", event.change.name());
        }
        if event.detail != Detail::None {
            self.text(",\"eventChangeDetail\":", event.detail.name());
        }
        self.text(",\"referenceID\":", &event.reference);
        if let Some(resource) = &event.resource {
            self.raw(",\"resource\":");
            self.resource(Some(resource), "\"");
        }
        self.raw("}");
    }

    fn text(&mut self, key: &str, text: &str) {
        if !text.is_empty() {
            self.raw(key);
            self.string(text);
        }
    }

    fn integer(&mut self, key: &str, number: i64) {
        if number != 0 {
            self.raw(key);
            self.number(number);
        }
    }

    /// Numbers are put between `quote`s; an encoder is used with one kind of them only.
    fn resource(&mut self, resource: Option<&Arc<Resource>>, quote: &str) {
        let Some(resource) = resource.filter(|resource| !resource.is_empty()) else { return self.raw("{}") };
        if let Some((last, range)) = &self.last
            && Arc::ptr_eq(last, resource)
        {
            return self.out.extend_from_within(range.clone());
        }
        let from = self.out.len();
        self.raw("{\"resources\":{");
        for (n, (name, value)) in resource.named().into_iter().enumerate() {
            if n > 0 {
                self.raw(",");
            }
            self.string(name);
            match value {
                0 => self.raw(":{}"),
                _ => {
                    self.raw(":{\"value\":");
                    self.raw(quote);
                    self.number(value);
                    self.raw(quote);
                    self.raw("}");
                }
            }
        }
        self.raw("}}");
        self.last = Some((resource.clone(), from..self.out.len()));
    }
}

/// Records as lines.
pub fn lines(events: &[Event]) -> Bytes {
    let mut encoder = Encoder::for_events(events.len());
    for event in events {
        encoder.record(event);
        encoder.raw("\n");
    }
    encoder.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{event::EventKind, types::Nanos};

    fn event(resource: Option<Resource>) -> Event {
        Event {
            kind: EventKind::App,
            object: "app-1".into(),
            reference: "k1".into(),
            change: Change::Add,
            detail: Detail::AppAlloc,
            message: "".into(),
            resource: resource.map(Arc::new),
            at: Nanos(1_795_194_232_864_123_328),
            partition: Arc::default(),
        }
    }

    fn text(event: &Event) -> String {
        String::from_utf8(lines(std::slice::from_ref(event)).to_vec()).unwrap()
    }

    // EVT-001, REST 6.3
    #[test]
    fn a_record_in_full() {
        let resource = Resource::of(&[("vcore", 100), ("memory", 1_000_000_000), ("pods", 1), ("gpu", 0)]);
        assert_eq!(
            text(&event(Some(resource))),
            concat!(
                r#"{"type":2,"objectID":"app-1","timestampNano":1795194232864123328,"eventChangeType":2,"#,
                r#""eventChangeDetail":200,"referenceID":"k1","resource":{"resources":{"gpu":{},"#,
                r#""memory":{"value":1000000000},"pods":{"value":1},"vcore":{"value":100}}}}"#,
                "\n"
            )
        );
    }

    #[test]
    fn a_numbered_record_is_the_proto3_mapping() {
        let full = event(Some(Resource::of(&[("memory", 10), ("gpu", 0)])));
        let mut bare = event(None);
        (bare.change, bare.detail, bare.reference) = (Change::None, Detail::None, "".into());
        bare.message = "text".into();
        for (id, event, expected) in [
            (
                12,
                &full,
                concat!(
                    r#"{"id":12,"type":"APP","objectID":"app-1","timestampNano":"1795194232864123328","#,
                    r#""eventChangeType":"ADD","eventChangeDetail":"APP_ALLOC","referenceID":"k1","#,
                    r#""resource":{"resources":{"gpu":{},"memory":{"value":"10"}}}}"#
                ),
            ),
            (
                0,
                &bare,
                r#"{"id":0,"type":"APP","objectID":"app-1","message":"text","timestampNano":"1795194232864123328"}"#,
            ),
        ] {
            let mut encoder = Encoder::default();
            encoder.numbered(id, event);
            let text = String::from_utf8(encoder.finish().to_vec()).unwrap();
            assert_eq!(text, expected);
            // What shims get reads it, beside the id.
            let record = text.replacen(&format!("\"id\":{id},"), "", 1);
            let record: crate::si::v1::EventRecord = serde_json::from_str(&record).unwrap();
            assert_eq!((record.r#type, record.event_change_detail), (2, event.detail as i32));
        }
    }

    // EVT-001
    #[test]
    fn empty_fields_are_left_out() {
        let mut queue = event(None);
        queue.kind = EventKind::Queue;
        queue.reference = "".into();
        queue.detail = Detail::None;
        let expected = "{\"type\":4,\"objectID\":\"app-1\",\"timestampNano\":1795194232864123328,\
                        \"eventChangeType\":2,\"resource\":{}}\n";
        assert_eq!(text(&queue), expected);
        queue.resource = Some(Arc::new(Resource::new()));
        assert_eq!(text(&queue), expected);
        queue.change = Change::None;
        queue.at = Nanos::ZERO;
        queue.message = "leaf queue: true".into();
        assert_eq!(
            text(&queue),
            "{\"type\":4,\"objectID\":\"app-1\",\"message\":\"leaf queue: true\",\"resource\":{}}\n"
        );
    }

    #[test]
    fn a_shared_resource_is_repeated() {
        let first = event(Some(Resource::of(&[("memory", 7)])));
        let other = event(Some(Resource::of(&[("memory", 8)])));
        let events = [first.clone(), first, other.clone(), other];
        let lines = String::from_utf8(lines(&events).to_vec()).unwrap();
        let values: Vec<_> = lines.lines().map(|line| &line[line.len() - 31..]).collect();
        let (seven, eight) = (&values[0], &values[2]);
        assert!(seven.contains("{\"value\":7}") && eight.contains("{\"value\":8}"));
        assert_eq!(values, [*seven, *seven, *eight, *eight]);
    }

    // REST 1.5
    #[test]
    fn strings_are_escaped_as_clients_know_it() {
        let mut out = Vec::new();
        json::string(&mut out, "a\"\\/<b>&\n\r\t\u{8}\u{c}\u{1}\u{7f}é\u{2028}\u{2029}\u{202a}z");
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "\"a\\\"\\\\/\\u003cb\\u003e\\u0026\\n\\r\\t\\b\\f\\u0001\u{7f}é\\u2028\\u2029\u{202a}z\""
        );
    }
}
