//! JSON text to messages: the proto3 JSON mapping, with errors that name the field and its value.

use callboard_domain::names::shorten;
use serde::de::DeserializeOwned;
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

/// Reads a message. `null` stands for a field that is not there and for no entry of a list.
pub fn message<T: DeserializeOwned>(text: &[u8]) -> Result<T, Malformed> {
    let fault = match serde_json::from_slice(text) {
        Ok(message) => return Ok(message),
        Err(fault) => fault,
    };
    // The slow way, taken only where something is wrong or null.
    if text.len() > SECOND_LOOK {
        let what = if fault.is_data() { "" } else { "the body is not JSON: " };
        return Err(Malformed { field: None, detail: format!("{what}{fault}") }.cut());
    }
    let mut value: Value = serde_json::from_slice(text)
        .map_err(|error| Malformed { field: None, detail: format!("the body is not JSON: {error}") })?;
    drop_nulls(&mut value);
    from_value(&value)
}

/// Reads a message from a JSON value.
pub fn from_value<T: DeserializeOwned>(value: &Value) -> Result<T, Malformed> {
    serde_path_to_error::deserialize(value).map_err(|error| {
        let path = error.path().clone();
        let reason = error.into_inner().to_string();
        let field = path.to_string();
        let at = follow(value, &path);
        let shown = at.filter(|at| !at.is_object() && !at.is_array()).map(|at| format!(" (value: {at})"));
        let detail = match field.as_str() {
            "." => reason,
            _ => format!("{field}: {reason}{}", shown.unwrap_or_default()),
        };
        Malformed { field: (field != ".").then_some(field), detail }.cut()
    })
}

fn follow<'a>(value: &'a Value, path: &serde_path_to_error::Path) -> Option<&'a Value> {
    use serde_path_to_error::Segment;
    path.iter().try_fold(value, |at, segment| match segment {
        Segment::Map { key } => at.get(key),
        Segment::Seq { index } => at.get(index),
        _ => None,
    })
}

fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, field| !field.is_null());
            fields.values_mut().for_each(drop_nulls);
        }
        Value::Array(entries) => {
            entries.retain(|entry| !entry.is_null());
            entries.iter_mut().for_each(drop_nulls);
        }
        _ => {}
    }
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
        let text = br#"{"rmID":null,"nodes":[null,{"nodeID":"n","attributes":null}]}"#;
        let request: v1::NodeRequest = message(text).expect("accepted");
        assert_eq!((request.nodes.len(), request.rm_id.as_str()), (1, ""));
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

        let list = fault::<v1::NodeRequest>("[]");
        assert_eq!(list.field, None);
        assert!(list.detail.contains("sequence"), "{list:?}");
    }
}
