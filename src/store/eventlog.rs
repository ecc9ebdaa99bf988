//! Event logs as text (RFC 18): one compact JSON object a line, only ever appended to.
//!
//! Reading never fails as a whole: a line that is no event is named and passed over. `store::journal` keeps such a log on disk.

use std::{
    fmt,
    io::{self, BufRead},
    sync::Arc,
};

use serde::{Deserialize, Deserializer, de};
use serde_json::{Value, value::RawValue};

use crate::domain::{
    hostlist::HostList,
    idset::IdSet,
    journal::{Kind, Origin, Overwrite, ResourceEvent, Targets},
    types::Nanos,
};

/// Name of the log in its directory.
pub const FILE: &str = "resource.eventlog";

/// Value of the additional key `source` in the context of drains and undrains that the resource manager asked for.
const SOURCE_RM: &str = "rm";

/// An event as text.
#[derive(Clone, Debug)]
pub struct Record {
    /// The time as it is written: nothing compares it, and so every digit is kept.
    pub timestamp: Box<str>,
    /// Its name.
    pub name: Box<str>,
    /// The whole object on one line, without a newline.
    pub json: Arc<str>,
}

/// A JSON object in the order in which it was written; of equal keys the last value counts.
#[derive(Debug, Default)]
pub struct Ordered(pub Vec<(String, Box<RawValue>)>);

impl Ordered {
    /// The value of a key, as text.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.0.iter().find(|(name, _)| name == key).map(|(_, value)| value.get())
    }
}

impl<'de> Deserialize<'de> for Ordered {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries;
        impl<'de> de::Visitor<'de> for Entries {
            type Value = Ordered;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: de::MapAccess<'de>>(self, mut map: A) -> Result<Ordered, A::Error> {
                let mut entries: Vec<(String, Box<RawValue>)> = Vec::new();
                while let Some((key, value)) = map.next_entry::<String, Box<RawValue>>()? {
                    match entries.iter_mut().find(|(name, _)| *name == key) {
                        Some((_, old)) => *old = value,
                        None => entries.push((key, value)),
                    }
                }
                Ok(Ordered(entries))
            }
        }
        deserializer.deserialize_map(Entries)
    }
}

impl Record {
    /// Reads one line, its newline left out.
    ///
    /// # Errors
    /// Why it is no event.
    pub fn parse(line: &[u8]) -> Result<Record, String> {
        let text = str::from_utf8(line).map_err(|error| format!("not UTF-8: {error}"))?.trim_matches([' ', '\t', '\r']);
        if text.is_empty() {
            return Err("empty line".to_owned());
        }
        let object: Ordered = serde_json::from_str(text).map_err(|error| format!("not a JSON object: {error}"))?;
        let timestamp = object.get("timestamp").ok_or("'timestamp' is missing")?;
        let seconds: f64 =
            serde_json::from_str(timestamp).map_err(|_| format!("'timestamp' is {timestamp}, which is no number"))?;
        if !(seconds.is_finite() && seconds > 0.0) {
            return Err(format!("'timestamp' is {timestamp}, which is not above 0"));
        }
        let name = object.get("name").ok_or("'name' is missing")?;
        let name: Box<str> = serde_json::from_str(name).map_err(|_| format!("'name' is {name}, which is no string"))?;
        if let Some(context) = object.get("context")
            && !context.starts_with('{')
        {
            return Err(format!("'context' is {context}, which is no object"));
        }
        Ok(Record { timestamp: timestamp.into(), name, json: text.into() })
    }

    /// The text of an event.
    pub fn of(event: &ResourceEvent) -> Record {
        let timestamp = seconds(event.at);
        let mut context = Context::default();
        match &event.kind {
            Kind::Restart { ranks, online, nodelist } => {
                context.text("ranks", &ranks.to_string());
                context.text("online", &online.to_string());
                context.text("nodelist", &nodelist.to_string());
            }
            Kind::Define(method) => context.text("method", method.name()),
            Kind::Update { expiration } => context.number("expiration", *expiration),
            Kind::Drain { targets, reason, overwrite, origin, deadline } => {
                context.targets(targets);
                context.reason(reason.as_deref());
                context.number("overwrite", i64::from(overwrite.number()));
                context.origin(*origin);
                // Not of the RFC, which lets contexts have more.
                deadline.iter().for_each(|deadline| context.raw("deadline", &seconds(*deadline)));
                context.nodes(targets, *origin);
            }
            Kind::Undrain { targets, reason, origin } => {
                context.targets(targets);
                context.reason(reason.as_deref());
                context.origin(*origin);
                context.nodes(targets, *origin);
            }
            Kind::Online(ranks) | Kind::Offline(ranks) | Kind::Torpid(ranks) | Kind::Lively(ranks) => {
                context.text("idset", &ranks.to_string());
            }
        }
        let name = event.kind.name();
        let json = format!(r#"{{"timestamp":{timestamp},"name":"{name}","context":{{{}}}}}"#, context.0);
        Record { timestamp: timestamp.into(), name: name.into(), json: json.into() }
    }

    /// A `restart` with the ranks and hosts of now, and these ranks online; `None`: those that were.
    pub fn with_hosts(&self, ranks: &IdSet, online: Option<&IdSet>, nodelist: &HostList) -> Option<Arc<str>> {
        let context = self.context()?;
        let mut now = Context::default();
        now.text("ranks", &ranks.to_string());
        match online {
            Some(online) => now.text("online", &online.to_string()),
            None => now.raw("online", context.get("online")?),
        }
        now.text("nodelist", &nodelist.to_string());
        let (timestamp, name) = (&self.timestamp, &self.name);
        Some(format!(r#"{{"timestamp":{timestamp},"name":"{name}","context":{{{}}}}}"#, now.0).into())
    }

    /// The ranks that are online after it, where these were before.
    pub fn online_after(&self, before: &mut IdSet) {
        let key = match &*self.name {
            "restart" => "online",
            "online" | "offline" => "idset",
            _ => return,
        };
        let ranks = self.context().and_then(|context| serde_json::from_str::<String>(context.get(key)?).ok());
        let Some(ranks) = ranks.and_then(|ranks| IdSet::parse(&ranks).ok()) else { return };
        *before = match &*self.name {
            "restart" => ranks,
            "online" => before.union(&ranks),
            _ => before.difference(&ranks),
        };
    }

    fn context(&self) -> Option<Ordered> {
        let object: Ordered = serde_json::from_str(&self.json).ok()?;
        serde_json::from_str(object.get("context")?).ok()
    }

    /// It belongs into the stored log, as RFC 44 has it (see [`Kind::durable`]).
    pub fn durable(&self) -> bool {
        matches!(&*self.name, "resource-define" | "resource-update" | "drain" | "undrain")
    }

    /// The mark that events before `timestamp` were dropped from memory (RFC 44). It has no context.
    pub fn truncate(timestamp: &str) -> Record {
        let json = format!(r#"{{"timestamp":{timestamp},"name":"truncate"}}"#);
        Record { timestamp: timestamp.into(), name: "truncate".into(), json: json.into() }
    }

    /// What it brings back when it is replayed; `None` where it brings back nothing.
    ///
    /// # Errors
    /// What is wrong with its context.
    pub fn past(&self) -> Result<Option<ResourceEvent>, String> {
        if !matches!(&*self.name, "drain" | "undrain" | "resource-update") {
            return Ok(None);
        }
        let at = time(&self.timestamp);
        let event = |kind| Ok(Some(ResourceEvent { at, kind }));
        let object: Value = serde_json::from_str(&self.json).map_err(|error| error.to_string())?;
        let context = &object["context"];
        if &*self.name == "resource-update" {
            let expiration = context["expiration"].as_i64().or(context["expiration"].as_f64().map(|real| real as i64));
            let expiration = expiration.ok_or("'expiration' is no number")?;
            return event(Kind::Update { expiration });
        }
        let text = |key: &str| context[key].as_str().ok_or_else(|| format!("'{key}' is missing or no string"));
        let mut targets = Targets::parse(text("idset")?, text("nodelist")?)?;
        targets.nodes = match &context["nodes"] {
            Value::Null => None,
            Value::String(nodes) => Some(HostList::parse(nodes).map_err(|error| error.to_string())?),
            other => return Err(format!("'nodes' is {other}, which is no string")),
        };
        if &*self.name == "undrain" {
            return event(Kind::Undrain { targets, reason: None, origin: Origin::Operator });
        }
        let reason = match &context["reason"] {
            Value::Null => None,
            Value::String(reason) => Some(reason.as_str().into()),
            other => return Err(format!("'reason' is {other}, which is no string")),
        };
        let overwrite = match &context["overwrite"] {
            Value::Null => None,
            value => Some(value.as_i64().ok_or_else(|| format!("'overwrite' is {value}, which is no integer"))?),
        };
        let origin = if context["source"] == SOURCE_RM { Origin::ResourceManager } else { Origin::Operator };
        let deadline = match &context["deadline"] {
            Value::Null => None,
            Value::Number(seconds) => Some(time(&seconds.to_string())),
            other => return Err(format!("'deadline' is {other}, which is no number")),
        };
        event(Kind::Drain { targets, reason, overwrite: Overwrite::from_log(overwrite), origin, deadline })
    }
}

/// The inside of a context object.
#[derive(Default)]
struct Context(String);

impl Context {
    fn raw(&mut self, key: &str, value: &str) {
        let comma = if self.0.is_empty() { "" } else { "," };
        self.0.push_str(&format!(r#"{comma}"{key}":{value}"#));
    }

    fn text(&mut self, key: &str, value: &str) {
        self.raw(key, &Value::from(value).to_string());
    }

    fn number(&mut self, key: &str, value: i64) {
        self.raw(key, &value.to_string());
    }

    fn targets(&mut self, targets: &Targets) {
        self.text("idset", &targets.idset.to_string());
        self.text("nodelist", &targets.nodelist.to_string());
    }

    /// Not of the RFC either. What the resource manager drained lasts no longer than its nodes are registered.
    fn nodes(&mut self, targets: &Targets, origin: Origin) {
        let nodes = targets.nodes.iter().filter(|_| origin == Origin::Operator);
        nodes.for_each(|nodes| self.text("nodes", &nodes.to_string()));
    }

    fn reason(&mut self, reason: Option<&str>) {
        if let Some(reason) = reason {
            self.text("reason", reason);
        }
    }

    fn origin(&mut self, origin: Origin) {
        if origin == Origin::ResourceManager {
            self.text("source", SOURCE_RM);
        }
    }
}

/// Seconds since the Unix epoch with microseconds; above 0 even where the clock is not.
fn seconds(at: Nanos) -> String {
    let micros = (at.0 / 1000).max(1);
    let text = format!("{}.{:06}", micros / 1_000_000, micros % 1_000_000);
    let short = text.trim_end_matches('0');
    if short.ends_with('.') { format!("{short}0") } else { short.to_owned() }
}

/// The time of a record in whole microseconds, as they are written; what does not fit is cut.
fn time(timestamp: &str) -> Nanos {
    Nanos(((timestamp.parse::<f64>().unwrap_or_default() * 1e6).round() as i64).saturating_mul(1000))
}

/// Reads a log line by line, counted from 1. Gives the number of bytes up to the last newline: what is behind it was torn.
///
/// # Errors
/// Reading failed.
pub fn scan(mut reader: impl BufRead, mut each: impl FnMut(usize, Result<Record, String>)) -> io::Result<u64> {
    let (mut whole, mut line) = (0, Vec::new());
    for number in 1.. {
        line.clear();
        let bytes = reader.read_until(b'\n', &mut line)?;
        if line.pop_if(|last| *last == b'\n').is_none() {
            break;
        }
        whole += bytes as u64;
        each(number, Record::parse(&line));
    }
    Ok(whole)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{idset::IdSet, journal::Method};

    fn at(seconds: f64) -> Nanos {
        Nanos((seconds * 1e6).round() as i64 * 1000)
    }

    fn targets(idset: &str, nodelist: &str) -> Targets {
        Targets::parse(idset, nodelist).unwrap()
    }

    #[test]
    fn events_have_the_text_of_the_rfc() {
        // RFC 44, the examples; key order as Flux prints it (J5)
        let reason = Some("unkillable \"processes\" for job ƒ4zX8UnMMxj".into());
        for (kind, text) in [
            (
                Kind::Restart {
                    ranks: IdSet::first(4),
                    online: IdSet::new(),
                    nodelist: HostList::parse("picl[0-3]").unwrap(),
                },
                r#""restart","context":{"ranks":"0-3","online":"","nodelist":"picl[0-3]"}"#,
            ),
            (Kind::Define(Method::DynamicDiscovery), r#""resource-define","context":{"method":"dynamic-discovery"}"#),
            // SEEDS S19
            (Kind::Update { expiration: 1_738_009_133 }, r#""resource-update","context":{"expiration":1738009133}"#),
            (
                Kind::Drain {
                    targets: targets("0", "picl0"),
                    reason,
                    overwrite: Overwrite::Nothing,
                    origin: Origin::Operator,
                    deadline: None,
                },
                r#""drain","context":{"idset":"0","nodelist":"picl0","reason":"unkillable \"processes\" for job ƒ4zX8UnMMxj","overwrite":0}"#,
            ),
            (
                Kind::Drain {
                    targets: targets("0", "picl0"),
                    reason: None,
                    overwrite: Overwrite::Nothing,
                    origin: Origin::Operator,
                    deadline: Some(at(1_738_090_000.5)),
                },
                r#""drain","context":{"idset":"0","nodelist":"picl0","overwrite":0,"deadline":1738090000.5}"#,
            ),
            (
                Kind::Drain {
                    targets: Targets { nodes: HostList::parse("i-[1,4]").ok(), ..targets("0-1", "picl0,picl0") },
                    reason: None,
                    overwrite: Overwrite::Nothing,
                    origin: Origin::Operator,
                    deadline: None,
                },
                r#""drain","context":{"idset":"0-1","nodelist":"picl[0,0]","overwrite":0,"nodes":"i-[1,4]"}"#,
            ),
            (
                // SEEDS S27: no overwrite
                Kind::Undrain { targets: targets("0", "picl0"), reason: Some("".into()), origin: Origin::Operator },
                r#""undrain","context":{"idset":"0","nodelist":"picl0","reason":""}"#,
            ),
            (Kind::Online(IdSet::parse("1-15").unwrap()), r#""online","context":{"idset":"1-15"}"#),
            (Kind::Torpid(IdSet::parse("7").unwrap()), r#""torpid","context":{"idset":"7"}"#),
        ] {
            let record = Record::of(&ResourceEvent { at: at(1_738_083_782.295_166), kind });
            assert_eq!(&*record.json, format!(r#"{{"timestamp":1738083782.295166,"name":{text}}}"#));
            let again = Record::parse(record.json.as_bytes()).unwrap();
            assert_eq!((again.name, again.timestamp), (record.name, record.timestamp));
        }
        assert_eq!(&*Record::truncate("1.5").json, r#"{"timestamp":1.5,"name":"truncate"}"#);
        assert_eq!([seconds(at(5.0)), seconds(Nanos::ZERO)], ["5.0", "0.000001"]);
        for text in ["1738083782.295166", "1795310996.440781", "0.000001", "5.0"] {
            assert_eq!(seconds(time(text)), text, "read as it was written");
        }
    }

    #[test]
    fn contexts_bring_back_drains_or_say_what_is_wrong() {
        // J6.2
        let past = |text: &str| Record::parse(text.as_bytes()).unwrap().past().map(|past| past.map(|past| past.kind));
        for (context, fault) in [
            (r#"{"idset":"2","reason":"e","overwrite":0}"#, "'nodelist' is missing or no string"),
            (r#"{"idset":"2","nodelist":"n2","overwrite":"1"}"#, "'overwrite' is \"1\", which is no integer"),
            (r#"{"idset":"2","nodelist":"n2","reason":1}"#, "'reason' is 1, which is no string"),
            (r#"{"idset":"2","nodelist":"n2","deadline":"x"}"#, "'deadline' is \"x\", which is no number"),
            (r#"{"idset":"2","nodelist":"n2","nodes":[]}"#, "'nodes' is [], which is no string"),
            (r#"{"idset":"3-1","nodelist":"n1"}"#, "idset '3-1': character 1: range '3-1' does not ascend"),
            (r#"{"idset":"1","nodelist":"n["}"#, "hostlist 'n[': character 2: brackets are not balanced"),
        ] {
            let error = past(&format!(r#"{{"timestamp":1,"name":"drain","context":{context}}}"#)).unwrap_err();
            assert_eq!(error, fault);
        }
        // A missing overwrite counts as 1, and so does an unknown one.
        for overwrite in ["", r#","overwrite":7"#] {
            let text =
                format!(r#"{{"timestamp":1,"name":"drain","context":{{"idset":"1","nodelist":"n1"{overwrite}}}}}"#);
            assert!(matches!(past(&text), Ok(Some(Kind::Drain { overwrite: Overwrite::Reason, .. }))));
        }
        let text = r#"{"timestamp":1,"name":"drain","context":{"idset":"1","nodelist":"n1","deadline":1738090000.5}}"#;
        let expected = at(1_738_090_000.5);
        assert!(matches!(past(text), Ok(Some(Kind::Drain { deadline: Some(deadline), .. })) if deadline == expected));
        let text = r#"{"timestamp":1,"name":"drain","context":{"idset":"1","nodelist":"n1","nodes":"i-7"}}"#;
        let Ok(Some(Kind::Drain { targets, .. })) = past(text) else { panic!("no drain") };
        assert_eq!(targets.nodes.unwrap().to_string(), "i-7");
        // SEEDS S19: both are read
        for number in ["12", "12.75"] {
            let text = format!(r#"{{"timestamp":1,"name":"resource-update","context":{{"expiration":{number}}}}}"#);
            assert!(matches!(past(&text), Ok(Some(Kind::Update { expiration: 12 }))));
        }
        assert!(past(r#"{"timestamp":1,"name":"something","context":{"a":[1,2]}}"#).unwrap().is_none());
        // SEEDS S27: overwrite of an undrain is read over
        let undrain = r#"{"timestamp":1,"name":"undrain","context":{"idset":"1","nodelist":"n1","overwrite":2}}"#;
        assert!(matches!(past(undrain), Ok(Some(Kind::Undrain { .. }))));
    }
}
