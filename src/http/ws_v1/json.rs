//! JSON as the clients of `/ws/v1` know it (REST 1.5): `<`, `>`, `&` and the two line separators are escaped, whole
//! floats have no fraction, and omission rules that serde needs a predicate for.

use std::{collections::BTreeMap, io, sync::Arc};

use serde::{Serialize, Serializer, ser::SerializeMap};
use serde_json::ser::Formatter;

use crate::domain::resources::Resource;

/// One compact document with a newline at its end.
pub fn line<T: Serialize + ?Sized>(value: &T) -> Vec<u8> {
    let mut text = compact(value);
    text.push(b'\n');
    text
}

/// One compact document.
pub fn compact<T: Serialize + ?Sized>(value: &T) -> Vec<u8> {
    write(value)
}

fn write<T: Serialize + ?Sized>(value: &T) -> Vec<u8> {
    let mut text = Vec::with_capacity(256);
    let mut serializer = serde_json::Serializer::with_formatter(&mut text, Escaping);
    if let Err(error) = value.serialize(&mut serializer) {
        // Writing to a Vec cannot fail, and keys of our maps are strings: only a faulty `Serialize` gets here.
        tracing::error!(%error, "a view could not be written as JSON");
    }
    text
}

/// A compact document with two spaces for each level; empty lists and objects stay as they are.
pub fn indented(compact: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(compact.len() * 2);
    let mut depth = 0;
    let mut in_string = false;
    let mut escaped = false;
    let new_line = |out: &mut Vec<u8>, depth: usize| {
        out.push(b'\n');
        out.extend(std::iter::repeat_n(b' ', depth * 2));
    };
    for (at, byte) in compact.iter().copied().enumerate() {
        if in_string {
            out.push(byte);
            in_string = byte != b'"' || escaped;
            escaped = byte == b'\\' && !escaped;
            continue;
        }
        let empty = |closing| compact.get(at + 1) == Some(&closing);
        match byte {
            b'{' | b'[' => {
                out.push(byte);
                depth += 1;
                if !empty(byte + 2) {
                    new_line(&mut out, depth);
                }
            }
            b'}' | b']' => {
                depth = depth.saturating_sub(1);
                if at == 0 || compact[at - 1] != byte - 2 {
                    new_line(&mut out, depth);
                }
                out.push(byte);
            }
            b',' => {
                out.push(byte);
                new_line(&mut out, depth);
            }
            b':' => out.extend(b": "),
            b'"' => {
                in_string = true;
                out.push(byte);
            }
            other => out.push(other),
        }
    }
    out
}

struct Escaping;

impl Formatter for Escaping {
    fn write_f64<W: io::Write + ?Sized>(&mut self, writer: &mut W, value: f64) -> io::Result<()> {
        // Rust's shortest form without an exponent is what whole and ordinary weights look like.
        write!(writer, "{value}")
    }

    fn write_string_fragment<W: io::Write + ?Sized>(&mut self, writer: &mut W, fragment: &str) -> io::Result<()> {
        let mut start = 0;
        for (at, c) in fragment.char_indices() {
            let escape = match c {
                '<' => "\\u003c",
                '>' => "\\u003e",
                '&' => "\\u0026",
                '\u{2028}' => "\\u2028",
                '\u{2029}' => "\\u2029",
                _ => continue,
            };
            writer.write_all(&fragment.as_bytes()[start..at])?;
            writer.write_all(escape.as_bytes())?;
            start = at + c.len_utf8();
        }
        writer.write_all(&fragment.as_bytes()[start..])
    }
}

/// A resource, or percentages, as an object with sorted names; unset and empty look the same (REST 1.5).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Amounts(pub Vec<(&'static str, i64)>);

impl Amounts {
    /// What is to be left out.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Percentages of what is used of a capacity, where both are known.
    pub fn percent(used: &Resource, capacity: Option<&Resource>) -> Amounts {
        Amounts(capacity.map_or_else(Vec::new, |capacity| used.percent_of(capacity)))
    }
}

impl From<&Resource> for Amounts {
    fn from(resource: &Resource) -> Amounts {
        Amounts(resource.named())
    }
}

impl From<Option<&Resource>> for Amounts {
    fn from(resource: Option<&Resource>) -> Amounts {
        resource.map(Amounts::from).unwrap_or_default()
    }
}

impl Serialize for Amounts {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (name, amount) in &self.0 {
            map.serialize_entry(name, amount)?;
        }
        map.end()
    }
}

/// A map of resources by instance type.
pub fn by_instance_type(usage: &BTreeMap<Arc<str>, Resource>) -> BTreeMap<&str, Amounts> {
    usage.iter().map(|(kind, resource)| (&**kind, Amounts::from(resource))).collect()
}

/// For `skip_serializing_if`: false, 0, the empty text, `None`, an empty list or map.
pub fn unset<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// For `skip_serializing_if` of borrowed maps.
pub fn no_entries<K, V>(map: &&BTreeMap<K, V>) -> bool {
    map.is_empty()
}

/// For `serialize_with`: an integer as text (priorities, history totals).
pub fn as_text<T: std::fmt::Display, S: Serializer>(value: &T, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    // REST 1.5: what is escaped, and that whole floats have no fraction.
    #[test]
    fn escapes_as_clients_expect() {
        let text = |value: &str| String::from_utf8(compact(value)).unwrap();
        assert_eq!(text("a<b>&\"\u{2028}\n\u{8}é"), r#""a\u003cb\u003e\u0026\"\u2028\n\bé""#);
        let weights: BTreeMap<&str, f64> = [("memory", 2.0), ("vcore", 0.5)].into();
        assert_eq!(compact(&weights), br#"{"memory":2,"vcore":0.5}"#);
        assert_eq!(line(&[1, 2]), b"[1,2]\n");
    }

    // REST 1.5: the state dump is indented with two spaces; empty objects stay on one line.
    #[test]
    fn indents() {
        let compact = br#"{"a":[1,{"b\"{,":"x:y\\"}],"c":[],"d":{}}"#;
        let indented = String::from_utf8(indented(compact)).unwrap();
        assert_eq!(
            indented,
            "{\n  \"a\": [\n    1,\n    {\n      \"b\\\"{,\": \"x:y\\\\\"\n    }\n  ],\n  \"c\": [],\n  \"d\": {}\n}"
        );
    }

    // REST 1.5: a present type with value 0 is written, an empty resource is left out.
    #[test]
    fn amounts_are_sorted_maps() {
        let amounts = Amounts::from(&Resource::of(&[("vcore", 0), ("memory", 5), ("gpu", -1)]));
        assert_eq!(compact(&amounts), br#"{"gpu":-1,"memory":5,"vcore":0}"#);
        assert!(Amounts::from(None).is_empty());
        let used = Resource::of(&[("memory", 30), ("vcore", 10)]);
        let percent = Amounts::percent(&used, Some(&Resource::of(&[("memory", 90)])));
        assert_eq!(compact(&percent), br#"{"memory":33}"#);
    }
}
