//! JSON as the clients of `/ws/v1` know it (REST 1.5): `<`, `>`, `&` and the two line separators are escaped, whole
//! floats have no fraction, and omission rules that serde needs a predicate for.

use std::{
    borrow::Cow,
    collections::BTreeMap,
    io::{self, Write},
    sync::Arc,
};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Serialize, Serializer, ser::SerializeMap};
use serde_json::ser::Formatter;
use smallvec::SmallVec;

use crate::domain::{
    resources::{Resource, ResourceType, clamp},
    sorted::Texts,
};

/// One compact document with a newline at its end.
pub fn line<T: Serialize + ?Sized>(value: &T) -> Vec<u8> {
    let mut text = compact(value);
    text.push(b'\n');
    text
}

/// One compact document.
pub fn compact<T: Serialize + ?Sized>(value: &T) -> Vec<u8> {
    let mut text = Vec::with_capacity(256);
    append(&mut text, value);
    text
}

/// Adds a compact document.
pub fn append<T: Serialize + ?Sized>(text: &mut Vec<u8>, value: &T) {
    if let Err(error) = write_to(text, value) {
        // Writing to a Vec cannot fail, and keys of our maps are strings: only a faulty `Serialize` gets here.
        tracing::error!(code = "view-unwritable", %error, "a view could not be written as JSON");
    }
}

/// Adds a text in quotes.
pub fn string(to: &mut Vec<u8>, text: &str) {
    // Writing to a vector cannot fail.
    let _ = write_to(to, text);
}

/// Writes a compact document.
///
/// # Errors
/// What the writer fails with.
pub fn write_to<W: Write, T: Serialize + ?Sized>(writer: W, value: &T) -> io::Result<()> {
    let mut serializer = serde_json::Serializer::with_formatter(writer, Escaping);
    value.serialize(&mut serializer).map_err(io::Error::from)
}

/// A compact list with a newline at its end, whose rows are made as they are written.
pub fn list<T: Serialize>(rows: impl Iterator<Item = T>) -> Vec<u8> {
    let mut text = vec![b'['];
    for (at, row) in rows.enumerate() {
        if at > 0 {
            text.push(b',');
        }
        append(&mut text, &row);
    }
    text.extend(b"]\n");
    text
}

/// Indents a compact document as it passes: two spaces for each level; empty lists and objects stay as they are.
pub struct Indented<W> {
    to: W,
    depth: usize,
    in_string: bool,
    escaped: bool,
    /// The last byte opened a list or object.
    opened: bool,
    line: Vec<u8>,
}

impl<W: Write> Indented<W> {
    /// To this writer.
    pub fn new(to: W) -> Indented<W> {
        Indented { to, depth: 0, in_string: false, escaped: false, opened: false, line: Vec::new() }
    }

    fn new_line(&mut self) {
        self.line.push(b'\n');
        self.line.extend(std::iter::repeat_n(b' ', self.depth * 2));
    }

    fn byte(&mut self, byte: u8) {
        if self.in_string {
            self.line.push(byte);
            self.in_string = byte != b'"' || self.escaped;
            self.escaped = byte == b'\\' && !self.escaped;
            return;
        }
        let closes = matches!(byte, b'}' | b']');
        if closes {
            self.depth = self.depth.saturating_sub(1);
        }
        if std::mem::take(&mut self.opened) != closes {
            self.new_line();
        }
        self.line.push(byte);
        match byte {
            b'{' | b'[' => {
                self.depth += 1;
                self.opened = true;
            }
            b',' => self.new_line(),
            b':' => self.line.push(b' '),
            b'"' => self.in_string = true,
            _ => {}
        }
    }
}

impl<W: Write> Write for Indented<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.line.clear();
        for byte in bytes {
            self.byte(*byte);
        }
        self.to.write_all(&self.line)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

/// A list whose items are made as they are written.
pub struct Each<F>(pub F);

impl<F, I> Serialize for Each<F>
where
    F: Fn() -> I,
    I: Iterator,
    I::Item: Serialize,
{
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq((self.0)())
    }
}

struct Escaping;

/// Bytes with which one of those begins that [`Escaping`] escapes.
static BEGINS: [bool; 256] = {
    let mut begins = [false; 256];
    begins[b'<' as usize] = true;
    begins[b'>' as usize] = true;
    begins[b'&' as usize] = true;
    // The two line separators.
    begins[0xe2] = true;
    begins
};

impl Formatter for Escaping {
    fn write_f64<W: io::Write + ?Sized>(&mut self, writer: &mut W, value: f64) -> io::Result<()> {
        // Rust's shortest form without an exponent is what whole and ordinary weights look like.
        write!(writer, "{value}")
    }

    fn write_string_fragment<W: io::Write + ?Sized>(&mut self, writer: &mut W, fragment: &str) -> io::Result<()> {
        // Nearly all texts: none of the bytes with which one of the five begins. A look at a table is faster than four comparisons.
        if !fragment.bytes().any(|byte| BEGINS[usize::from(byte)]) {
            return writer.write_all(fragment.as_bytes());
        }
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
pub struct Amounts(pub SmallVec<[(ResourceType, i64); 3]>);

impl JsonSchema for Amounts {
    fn schema_name() -> Cow<'static, str> {
        "Amounts".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "Resource types and their amounts (memory in bytes, vcore in thousandths), or percentages",
            "type": "object",
            "additionalProperties": {"type": "integer", "format": "int64"},
        })
    }
}

impl Amounts {
    /// What is to be left out.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Percentages of what is used of a capacity, where both are known.
    pub fn percent(used: &Resource, capacity: Option<&Resource>) -> Amounts {
        Amounts(capacity.into_iter().flat_map(|capacity| used.percent_of(capacity)).collect())
    }
}

impl From<&Resource> for Amounts {
    fn from(resource: &Resource) -> Amounts {
        Amounts(resource.iter().map(|(kind, amount)| (kind.clone(), clamp(amount))).collect())
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
        for (kind, amount) in &self.0 {
            map.serialize_entry(kind.name(), amount)?;
        }
        map.end()
    }
}

/// Tags or attributes.
#[derive(Clone, Copy, Debug)]
pub struct TextsView<'a>(pub &'a Texts);

impl TextsView<'_> {
    /// What is to be left out.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Serialize for TextsView<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter())
    }
}

impl JsonSchema for TextsView<'_> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        BTreeMap::<String, String>::schema_name()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        BTreeMap::<String, String>::json_schema(generator)
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

    #[test]
    fn lists_are_those_of_vectors() {
        for length in [0, 1, 2, 500] {
            let rows: Vec<String> = (0..length).map(|n| format!("<{n}>")).collect();
            assert_eq!(list(rows.iter()), line(&rows), "{length}");
        }
    }

    // REST 1.5: the state dump is indented with two spaces; empty objects stay on one line.
    #[test]
    fn indents() {
        let compact = br#"{"a":[1,{"b\"{,":"x:y\\"}],"c":[],"d":{}}"#;
        let mut indented = Vec::new();
        // In whatever pieces it comes.
        let mut writer = Indented::new(&mut indented);
        compact.chunks(3).for_each(|piece| writer.write_all(piece).unwrap());
        let indented = String::from_utf8(indented).unwrap();
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
