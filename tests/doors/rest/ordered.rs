//! JSON that keeps the order of its keys, and what of it differs from run to run.

use std::fmt;

use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, SeqAccess, Visitor},
};

/// A JSON value; scalars are kept as text.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Ordered {
    Scalar(String),
    List(Vec<Ordered>),
    Object(Vec<(String, Ordered)>),
}

/// Reads a value with times and what depends on them as `*`, and lists without an order of their own sorted.
pub fn read(text: &[u8]) -> Ordered {
    let value: Ordered =
        serde_json::from_slice(text).unwrap_or_else(|e| panic!("{e}: {}", String::from_utf8_lossy(text)));
    normal(value, "")
}

const VOLATILE: [&str; 11] = [
    "submissionTime",
    "finishedTime",
    "requestTime",
    "allocationTime",
    "allocationDelay",
    "time",
    "startTime",
    "lastStateTransitionTime",
    "lastOccurrence",
    "timestamp",
    "allocationLog",
];

/// Lists whose order means something.
const IN_ORDER: [&str; 4] = ["stateLog", "utilization", "HealthChecks", "filters"];

fn normal(value: Ordered, key: &str) -> Ordered {
    match value {
        Ordered::Scalar(_) if VOLATILE.contains(&key) => Ordered::Scalar("*".into()),
        Ordered::List(_) if VOLATILE.contains(&key) => Ordered::Scalar("*".into()),
        Ordered::Scalar(text) => Ordered::Scalar(text),
        Ordered::List(list) => {
            let mut list: Vec<Ordered> = list.into_iter().map(|item| normal(item, key)).collect();
            if !IN_ORDER.contains(&key) {
                list.sort();
            }
            Ordered::List(list)
        }
        Ordered::Object(fields) => {
            let history = key == "resourceHistory";
            let fields = fields.into_iter().map(|(name, value)| {
                let value = if history { stars(value) } else { normal(value, &name) };
                (name, value)
            });
            Ordered::Object(fields.collect())
        }
    }
}

fn stars(value: Ordered) -> Ordered {
    match value {
        Ordered::Object(fields) => Ordered::Object(fields.into_iter().map(|(k, v)| (k, stars(v))).collect()),
        _ => Ordered::Scalar("*".into()),
    }
}

impl fmt::Display for Ordered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Ordered::Scalar(text) => write!(f, "{text}"),
            Ordered::List(list) => {
                writeln!(f, "[")?;
                list.iter().try_for_each(|item| writeln!(f, "{item},"))?;
                write!(f, "]")
            }
            Ordered::Object(fields) => {
                writeln!(f, "{{")?;
                fields.iter().try_for_each(|(name, value)| writeln!(f, "{name}: {value}"))?;
                write!(f, "}}")
            }
        }
    }
}

/// Fails with the first lines that differ.
#[track_caller]
pub fn same(name: &str, ours: &[u8], theirs: &[u8]) {
    let (ours, theirs) = (read(ours), read(theirs));
    if ours == theirs {
        return;
    }
    let (ours, theirs) = (ours.to_string(), theirs.to_string());
    let differs = ours.lines().zip(theirs.lines()).position(|(a, b)| a != b).unwrap_or(0);
    let excerpt = |text: &str| text.lines().skip(differs.saturating_sub(6)).take(14).collect::<Vec<_>>().join("\n");
    panic!("{name} differs at line {differs}\n--- ours\n{}\n--- captured\n{}", excerpt(&ours), excerpt(&theirs));
}

impl<'de> Deserialize<'de> for Ordered {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Ordered, D::Error> {
        deserializer.deserialize_any(Reader)
    }
}

struct Reader;

macro_rules! scalars {
    ($($visit:ident: $type:ty),+ $(,)?) => {$(
        fn $visit<E>(self, value: $type) -> Result<Ordered, E> {
            Ok(Ordered::Scalar(format!("{value:?}")))
        }
    )+};
}

impl<'de> Visitor<'de> for Reader {
    type Value = Ordered;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    scalars!(visit_bool: bool, visit_i64: i64, visit_u64: u64, visit_f64: f64, visit_str: &str);

    fn visit_unit<E>(self) -> Result<Ordered, E> {
        Ok(Ordered::Scalar("null".into()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Ordered, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = seq.next_element()? {
            list.push(item);
        }
        Ok(Ordered::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Ordered, A::Error> {
        let mut fields = Vec::new();
        while let Some(field) = map.next_entry()? {
            fields.push(field);
        }
        Ok(Ordered::Object(fields))
    }
}
