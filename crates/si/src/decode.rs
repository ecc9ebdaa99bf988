//! JSON text to messages: the proto3 JSON mapping, with errors that name the field and its value.

use std::{borrow::Cow, fmt, marker::PhantomData};

use callboard_domain::names::shorten;
use serde::{
    Deserialize, Deserializer, Serialize,
    de::{
        self, DeserializeOwned, DeserializeSeed, IgnoredAny, IntoDeserializer as _, MapAccess, SeqAccess, Unexpected,
        Visitor,
    },
};
use serde_json::Value;

/// What is wrong with a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Malformed {
    /// Path of the field at fault, such as `allocations[0].priority`; `None` where the text is no JSON at all.
    pub field: Option<String>,
    /// Text for the caller.
    pub detail: String,
}

/// The longest text that is looked at a second time where something is wrong with it: what is made of it then may take a
/// hundred times its bytes.
const SECOND_LOOK: usize = 64 << 10;

/// What a fault says at most, in bytes.
const DETAIL: usize = 2_000;

impl Malformed {
    /// With a field and a text of bounded length, whatever the caller sent.
    pub fn cut(mut self) -> Malformed {
        for text in self.field.iter_mut().chain([&mut self.detail]) {
            shorten(text, DETAIL);
        }
        self
    }

    /// The same fault, told by its place in a larger message.
    pub fn below(self, here: &str) -> Malformed {
        let detail = match &self.field {
            Some(_) => format!("{here}.{}", self.detail),
            None => format!("{here}: {}", self.detail),
        };
        Malformed { field: Some(self.field.map_or(here.to_owned(), |field| format!("{here}.{field}"))), detail }.cut()
    }
}

/// The number of an enum, written as its name or as a number, which may be one that nothing is called by.
pub struct Number<E>(pub i32, PhantomData<E>);

impl<'de, E: Deserialize<'de> + Into<i32>> Deserialize<'de> for Number<E> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Named(PhantomData::<E>)).map(|number| Number(number, PhantomData))
    }
}

struct Named<E>(PhantomData<E>);

impl<'de, E: Deserialize<'de> + Into<i32>> Visitor<'de> for Named<E> {
    type Value = i32;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name, or a number of 32 bits")
    }

    fn visit_i64<F: de::Error>(self, number: i64) -> Result<i32, F> {
        i32::try_from(number).map_err(|_| F::invalid_value(Unexpected::Signed(number), &self))
    }

    fn visit_u64<F: de::Error>(self, number: u64) -> Result<i32, F> {
        i32::try_from(number).map_err(|_| F::invalid_value(Unexpected::Unsigned(number), &self))
    }

    fn visit_str<F: de::Error>(self, name: &str) -> Result<i32, F> {
        E::deserialize(name.into_deserializer()).map(Into::into)
    }
}

/// Commas of a JSON text outside of texts: at most so many entries have its lists and objects together beside their first ones.
pub fn commas(text: &[u8]) -> usize {
    let (mut commas, mut inside, mut escaped) = (0, false, false);
    for byte in text {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if inside => escaped = true,
            b'"' => inside = !inside,
            b',' if !inside => commas += 1,
            _ => {}
        }
    }
    commas
}

/// Reads a message. `null` stands for a field that is not there and for no entry of a list; a whole number may be written as one
/// with a fraction or an exponent (`5.0`, `1e3`), as the mapping has it.
pub fn message<T: DeserializeOwned>(text: &[u8]) -> Result<T, Malformed> {
    if let Ok(message) = serde_json::from_slice(text) {
        return Ok(message);
    }
    // The slow way, taken only where something is wrong, null, or written in another way.
    let mut plain = Vec::with_capacity(text.len());
    let whole = whole_numbers(text);
    let mut reader = serde_json::Deserializer::from_slice(&whole);
    let is_value = Plain(&mut plain).deserialize(&mut reader).and_then(|is_value| reader.end().map(|()| is_value));
    let is_value = is_value.map_err(|error| {
        // Its place is told in the text as it came.
        let error = serde_json::from_slice::<IgnoredAny>(text).err().unwrap_or(error);
        Malformed { field: None, detail: format!("the body is not JSON: {error}") }.cut()
    })?;
    if !is_value {
        plain = b"null".to_vec();
    }
    let read = serde_path_to_error::deserialize(&mut serde_json::Deserializer::from_slice(&plain));
    read.map_err(|error| {
        let value = if plain.len() <= SECOND_LOOK { serde_json::from_slice::<Value>(&plain).ok() } else { None };
        malformed(error, value.as_ref())
    })
}

/// A JSON text with whole numbers as such, digit by digit: what is read as one with a fraction is not exact when it is large.
fn whole_numbers(text: &[u8]) -> Cow<'_, [u8]> {
    let (mut out, mut copied, mut at, mut inside) = (Vec::new(), 0, 0, false);
    while let Some(byte) = text.get(at) {
        match byte {
            b'\\' if inside => at += 1,
            b'"' => inside = !inside,
            b'-' | b'0'..=b'9' if !inside => {
                let is_part = |byte: &&u8| byte.is_ascii_digit() || matches!(byte, b'-' | b'+' | b'.' | b'e' | b'E');
                let end = at + text[at..].iter().take_while(is_part).count();
                if let Some(whole) = std::str::from_utf8(&text[at..end]).ok().and_then(whole_number) {
                    out.extend_from_slice(&text[copied..at]);
                    out.extend_from_slice(whole.as_bytes());
                    copied = end;
                }
                at = end - 1;
            }
            _ => {}
        }
        at += 1;
    }
    if copied == 0 {
        return Cow::Borrowed(text);
    }
    out.extend_from_slice(&text[copied..]);
    Cow::Owned(out)
}

/// Digits of the largest number of 64 bits.
const DIGITS: usize = 20;

/// A number of JSON with a fraction or an exponent, without them, and `-0` without its sign; `None` where it is another one, or larger than any type.
fn whole_number(text: &str) -> Option<String> {
    let (number, exponent) = match text.split_once(['e', 'E']) {
        Some((number, exponent)) => (number, exponent.parse::<i32>().ok()?),
        // The reader takes it for a fraction; the interface has it as 0.
        None if text.contains('.') || text == "-0" => (text, 0),
        None => return None,
    };
    let (sign, number) = number.strip_prefix('-').map_or(("", number), |number| ("-", number));
    let (before, after) = number.split_once('.').unwrap_or((number, "0"));
    let are_digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !are_digits(before) || !are_digits(after) || before.len() > 1 && before.starts_with('0') {
        return None;
    }
    let digits = format!("{before}{after}");
    let digits = digits.trim_end_matches('0');
    // So many digits stand before the point.
    let point = usize::try_from(i64::try_from(before.len()).ok()? + i64::from(exponent)).ok();
    let written = digits.trim_start_matches('0');
    if written.is_empty() {
        return Some("0".to_owned());
    }
    let zeros = point?.checked_sub(digits.len())?;
    (zeros <= DIGITS && written.len() + zeros <= DIGITS).then(|| format!("{sign}{written}{}", "0".repeat(zeros)))
}

/// Writes a JSON value again without entries that are null. False for null.
struct Plain<'o>(&'o mut Vec<u8>);

impl Plain<'_> {
    fn write<E: de::Error>(self, value: impl Serialize) -> Result<bool, E> {
        serde_json::to_writer(self.0, &value).map_err(E::custom)?;
        Ok(true)
    }
}

impl<'de> DeserializeSeed<'de> for Plain<'_> {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<bool, D::Error> {
        reader.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Plain<'_> {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E: de::Error>(self) -> Result<bool, E> {
        Ok(false)
    }

    fn visit_bool<E: de::Error>(self, value: bool) -> Result<bool, E> {
        self.write(value)
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<bool, E> {
        self.write(value)
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<bool, E> {
        self.write(value)
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<bool, E> {
        self.write(value)
    }

    fn visit_str<E: de::Error>(self, value: &str) -> Result<bool, E> {
        self.write(value)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut entries: A) -> Result<bool, A::Error> {
        let Plain(out) = self;
        out.push(b'[');
        let begin = out.len();
        loop {
            let before = out.len();
            if before > begin {
                out.push(b',');
            }
            match entries.next_element_seed(Plain(out))? {
                Some(true) => {}
                Some(false) => out.truncate(before),
                None => {
                    out.truncate(before);
                    break;
                }
            }
        }
        out.push(b']');
        Ok(true)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<bool, A::Error> {
        let Plain(out) = self;
        out.push(b'{');
        let begin = out.len();
        while let Some(name) = fields.next_key::<Cow<'de, str>>()? {
            let before = out.len();
            if before > begin {
                out.push(b',');
            }
            Plain(out).write::<A::Error>(&name)?;
            out.push(b':');
            if !fields.next_value_seed(Plain(out))? {
                out.truncate(before);
            }
        }
        out.push(b'}');
        Ok(true)
    }
}

/// What the libraries say, in words for whoever wrote the text.
fn in_words(reason: String, value: Option<&Value>) -> String {
    if reason.contains("untagged enum Content") || reason == "invalid digit found in string" {
        let limits = value.and_then(limits).map_or(String::new(), |(from, to)| format!(" from {from} to {to}"));
        return format!("a whole number is expected{limits}, as such or as a text");
    }
    reason.replace("expected expected", "expected")
}

/// Between which numbers one has to be that is whole and was refused.
fn limits(value: &Value) -> Option<(i64, i64)> {
    let number = value.as_f64().filter(|number| number.fract() == 0.0)?;
    match value.as_i64() {
        None => Some((i64::MIN, i64::MAX)),
        Some(_) if number.abs() >= i32::MAX.into() => Some((i32::MIN.into(), i32::MAX.into())),
        Some(_) => None,
    }
}

/// Reads a message from a JSON value.
pub fn from_value<T: DeserializeOwned>(value: &Value) -> Result<T, Malformed> {
    serde_path_to_error::deserialize(value).map_err(|error| malformed(error, Some(value)))
}

/// What is wrong, with the value at fault where all of them are at hand.
fn malformed(error: serde_path_to_error::Error<serde_json::Error>, value: Option<&Value>) -> Malformed {
    let path = error.path().clone();
    let fault = error.into_inner();
    // Its place is one in what was made of the text.
    let place = format!(" at line {} column {}", fault.line(), fault.column());
    let field = path.to_string();
    let at = value.and_then(|value| follow(value, &path)).filter(|at| !at.is_object() && !at.is_array());
    let reason = in_words(fault.to_string().replace(&place, ""), at);
    let shown = at.map(|at| format!(" (value: {at})")).unwrap_or_default();
    let detail = match field.as_str() {
        "." => reason,
        _ => format!("{field}: {reason}{shown}"),
    };
    Malformed { field: (field != ".").then_some(field), detail }.cut()
}

fn follow<'a>(value: &'a Value, path: &serde_path_to_error::Path) -> Option<&'a Value> {
    use serde_path_to_error::Segment;
    path.iter().try_fold(value, |at, segment| match segment {
        Segment::Map { key } => at.get(key),
        Segment::Seq { index } => at.get(index),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::v1;

    fn fault<T: DeserializeOwned + std::fmt::Debug>(text: &str) -> Malformed {
        message::<T>(text.as_bytes()).expect_err("refused")
    }

    #[test]
    fn numbers_as_text_or_number_and_enums_by_name_or_number() {
        for (value, action) in [("5", "1"), ("\"5\"", "\"CREATE\"")] {
            let text = format!(
                r#"{{"nodes":[{{"nodeID":"n","action":{action},"schedulableResource":{{"resources":{{"memory":{{"value":{value}}}}}}}}}]}}"#
            );
            let request: v1::NodeRequest = message(text.as_bytes()).expect("accepted");
            assert_eq!(request.nodes[0].action, 1);
            assert_eq!(request.nodes[0].schedulable_resource.as_ref().expect("given").resources["memory"].value, 5);
        }
    }

    #[test]
    fn nulls_are_left_out() {
        // R2.3
        let text = br#"{"rmID":null,"nodes":[null,{"nodeID":"n","attributes":null}, null]}"#;
        let request: v1::NodeRequest = message(text).expect("accepted");
        assert_eq!((request.nodes.len(), request.rm_id.as_str()), (1, ""));
        // However long it is.
        let nodes: Vec<String> =
            (0..5_000).map(|n| format!(r#"{{"nodeID":"n{n} \u00e9\n","action":null}},null"#)).collect();
        let text = format!(r#"{{"nodes":[{}]}}"#, nodes.join(","));
        let request: v1::NodeRequest = message(text.as_bytes()).expect("accepted");
        assert_eq!((request.nodes.len(), &*request.nodes[7].node_id), (5_000, "n7 \u{e9}\n"));
    }

    #[test]
    fn whole_numbers_may_have_a_fraction_or_an_exponent() {
        let node = |value: &str| {
            format!(
                r#"{{"nodes":[{{"action":1.0,"schedulableResource":{{"resources":{{"memory":{{"value":{value}}}}}}}}}]}}"#
            )
        };
        for (value, read) in [
            ("5.0", 5),
            ("1e3", 1_000),
            ("-2.5e1", -25),
            ("9007199254740992.0", 1 << 53),
            ("1e18", 10_i64.pow(18)),
            ("1234567890123456789e0", 1_234_567_890_123_456_789),
            ("922337203685477580.7E+1", i64::MAX),
            ("-9223372036854775808000e-3", i64::MIN),
            ("0.0e7", 0),
            ("-0.0", 0),
            ("-0", 0),
            ("-0e0", 0),
            ("0e0", 0),
            ("\"-0\"", 0),
            ("0.05e2", 5),
            ("9007199254740993.0", (1 << 53) + 1),
        ] {
            let request: v1::NodeRequest = message(node(value).as_bytes()).expect("accepted");
            let resource = request.nodes[0].schedulable_resource.as_ref().expect("given");
            assert_eq!((request.nodes[0].action, resource.resources["memory"].value), (1, read), "{value}");
        }
        for value in ["1e19", "9.3e18", "9223372036854775808", "1e30", "-1e300"] {
            let fault = fault::<v1::NodeRequest>(&node(value));
            let limit = "is expected from -9223372036854775808 to 9223372036854775807, as such";
            assert!(fault.detail.contains(limit), "{value}: {fault:?}");
        }
        let action = fault::<v1::NodeRequest>(r#"{"nodes":[{"nodeID":"1e3 \"1e3","action":3e9}]}"#);
        assert!(action.detail.contains("3000000000"), "{action:?}");
        for broken in ["1e", "01e3", "1.e3", ".5e1", "1e3e3", "-"] {
            let fault = fault::<v1::NodeRequest>(&node(broken));
            assert!(fault.detail.contains("is not JSON"), "{broken}: {fault:?}");
        }
        for value in ["5.5", "1e-1", "1e30", "\"x\"", "[]", "true"] {
            let fault = fault::<v1::NodeRequest>(&node(value));
            assert!(fault.detail.contains("memory.value: a whole number is expected"), "{value}: {fault:?}");
        }
    }

    #[test]
    fn what_is_wrong_with_a_long_text_has_its_place() {
        let nodes = vec![r#"{"nodeID":"n"}"#; 10_000].join(",");
        let wrong = fault::<v1::NodeRequest>(&format!(r#"{{"nodes":[{nodes},{{"action":"EXPLODE"}}]}}"#));
        assert_eq!(wrong.field.as_deref(), Some("nodes[10000].action"));
        assert!(wrong.detail.contains("EXPLODE") && !wrong.detail.contains("column"), "{wrong:?}");
    }

    #[test]
    fn errors_name_field_and_value() {
        let not_json = fault::<v1::NodeRequest>("{\"nodes\":");
        assert_eq!(not_json.field, None);
        assert!(
            not_json.detail.starts_with("the body is not JSON: EOF while parsing a value at line 1"),
            "{not_json:?}"
        );

        let unknown = fault::<v1::AllocationRequest>(r#"{"allocations":[{"allocationKey":"a","colour":"red"}]}"#);
        assert!(unknown.field.as_deref().is_some_and(|f| f.starts_with("allocations[0]")), "{unknown:?}");
        assert!(unknown.detail.contains("unknown field `colour`"), "{unknown:?}");

        let kind = fault::<v1::AllocationRequest>(r#"{"allocations":[{"priority":"high"}]}"#);
        assert_eq!(kind.field.as_deref(), Some("allocations[0].priority"));
        assert!(kind.detail.contains("(value: \"high\")"), "{kind:?}");

        let name = fault::<v1::NodeRequest>(r#"{"nodes":[{"action":"EXPLODE"}]}"#);
        assert_eq!(name.field.as_deref(), Some("nodes[0].action"));
        assert!(name.detail.contains("EXPLODE"), "{name:?}");

        let huge = fault::<v1::NodeRequest>(
            r#"{"nodes":[{"schedulableResource":{"resources":{"memory":{"value":"9223372036854775808"}}}}]}"#,
        );
        assert_eq!(huge.field.as_deref(), Some("nodes[0].schedulableResource.resources.memory.value"));
        assert!(huge.detail.contains("9223372036854775808"), "{huge:?}");

        let twice = fault::<v1::NodeRequest>(r#"{"rmID":"a","rmID":"b"}"#);
        assert!(twice.detail.contains("duplicate field"), "{twice:?}");

        let list = fault::<v1::NodeRequest>("[]");
        assert_eq!(list.field, None);
        assert!(list.detail.contains("sequence"), "{list:?}");
    }
}
