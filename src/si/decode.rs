//! JSON text to messages: the proto3 JSON mapping, with errors that name the field and its value.

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

/// Reads a message. `null` stands for a field that is not there and for no entry of a list.
pub fn message<T: DeserializeOwned>(text: &[u8]) -> Result<T, Malformed> {
    if let Ok(message) = serde_json::from_slice(text) {
        return Ok(message);
    }
    // The slow way, taken only where something is wrong or null.
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
        Malformed { field: (field != ".").then_some(field), detail }
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
    use crate::si::v1;

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
