//! What was observed against what the golden file holds.

use serde_json::{Map, Value};

use crate::canon::{canon, short};

/// Parts of a result that are compared, in the order in which differences are printed.
const PARTS: [&str; 6] = ["register", "steps", "containerStates", "events", "final", "problems"];

/// Fields that hold a message text: left out of a loose comparison.
const MESSAGE_FIELDS: [&str; 6] =
    ["message", "reason", "rejectedMessage", "Message", "Description", "DiagnosisMessage"];

/// All differences of a scenario's result, each as `path: what`.
pub fn compare(golden: &Value, observed: &Value, loose: bool) -> Vec<String> {
    let mut out = Vec::new();
    for part in PARTS {
        let (want, got) = (golden.get(part), observed.get(part));
        if want.is_some() || got.is_some() {
            diff(want.unwrap_or(&Value::Null), got.unwrap_or(&Value::Null), part, loose, &mut out);
        }
    }
    out
}

/// Adds the differences of two values. A wanted `"*"` stands for anything that is present.
fn diff(want: &Value, got: &Value, path: &str, loose: bool, out: &mut Vec<String>) {
    match (want, got) {
        (Value::String(star), got) if star == "*" && !got.is_null() => {}
        (Value::Object(want), Value::Object(got)) => diff_objects(want, got, path, loose, out),
        (Value::Array(want), Value::Array(got)) => {
            if is_bag(path) {
                diff_bag(want, got, path, loose, out);
            } else if want.len() != got.len() {
                out.push(format!("{path}: {} elements wanted, {} got", want.len(), got.len()));
                diff_bag(want, got, path, loose, out);
            } else {
                for (at, (want, got)) in want.iter().zip(got).enumerate() {
                    diff(want, got, &format!("{path}[{at}]"), loose, out);
                }
            }
        }
        _ if same(want, got) => {}
        _ => out.push(format!("{path}: want {}, got {}", short(want), short(got))),
    }
}

fn diff_objects(want: &Map<String, Value>, got: &Map<String, Value>, path: &str, loose: bool, out: &mut Vec<String>) {
    let mut keys: Vec<&String> = want.keys().chain(got.keys()).collect();
    keys.sort();
    keys.dedup();
    for key in keys {
        let (want, got) = (want.get(key), got.get(key));
        let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
        if loose && MESSAGE_FIELDS.contains(&key.as_str()) && text_or_absent(want) && text_or_absent(got) {
            continue;
        }
        match (want, got) {
            (Some(want), Some(got)) => diff(want, got, &path, loose, out),
            (Some(want), None) => out.push(format!("{path}: missing, want {}", short(want))),
            (None, Some(got)) => out.push(format!("{path}: not expected, got {}", short(got))),
            (None, None) => {}
        }
    }
}

fn text_or_absent(value: Option<&Value>) -> bool {
    value.is_none_or(Value::is_string)
}

/// Lists whose elements are matched, not compared one by one.
fn is_bag(path: &str) -> bool {
    path.ends_with("callbacks") || path.ends_with("EventRecords") || path.ends_with("containerStates")
}

/// Elements matched in order where they are equal; the rest is printed.
fn diff_bag(want: &[Value], got: &[Value], path: &str, loose: bool, out: &mut Vec<String>) {
    let mut left: Vec<&Value> = got.iter().collect();
    let mut missing = Vec::new();
    for wanted in want {
        match left.iter().position(|candidate| equal(wanted, candidate, loose)) {
            Some(at) => {
                left.remove(at);
            }
            None => missing.push(wanted),
        }
    }
    out.extend(missing.iter().map(|entry| format!("{path}: missing {}", short(entry))));
    out.extend(left.iter().map(|entry| format!("{path}: not expected {}", short(entry))));
    if missing.is_empty() && left.is_empty() {
        // The same elements: placements also come in the same order, where the step keeps it.
        let (want, got) = (placed(want), placed(got));
        if want != got {
            let (want, got) = (canon(&Value::from(want)), canon(&Value::from(got)));
            out.push(format!("{path}: order of allocations: want {want}, got {got}"));
        }
    }
}

fn equal(want: &Value, got: &Value, loose: bool) -> bool {
    let mut found = Vec::new();
    diff(want, got, "", loose, &mut found);
    found.is_empty()
}

fn placed(list: &[Value]) -> Vec<&str> {
    list.iter().filter(|entry| entry["kind"] == "new").filter_map(|entry| entry["allocationKey"].as_str()).collect()
}

/// Equal, and numbers by value: 1 and 1.0 are the same.
fn same(want: &Value, got: &Value) -> bool {
    match (want, got) {
        (Value::Number(a), Value::Number(b)) => a == b || (a.as_f64() == b.as_f64() && (a.is_f64() || b.is_f64())),
        _ => want == got,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn differences(want: Value, got: Value) -> Vec<String> {
        compare(&json!({"final": want}), &json!({"final": got}), false)
    }

    #[test]
    fn a_star_stands_for_anything_that_is_present() {
        assert!(differences(json!({"a": "*"}), json!({"a": [1, 2]})).is_empty());
        assert_eq!(differences(json!({"a": "*"}), json!({})), ["final.a: missing, want \"*\""]);
        assert_eq!(differences(json!({"a": "*"}), json!({"a": null})), ["final.a: want \"*\", got null"]);
    }

    #[test]
    fn missing_and_additional_fields_are_differences() {
        let found = differences(json!({"a": 1, "b": {"c": 2}}), json!({"b": {"c": 3, "d": 4}}));
        assert_eq!(found, ["final.a: missing, want 1", "final.b.c: want 2, got 3", "final.b.d: not expected, got 4"]);
    }

    #[test]
    fn numbers_are_compared_by_value_and_never_with_text_or_flags() {
        assert!(differences(json!(1), json!(1.0)).is_empty());
        assert_eq!(differences(json!(1), json!("1")).len(), 1);
        assert_eq!(differences(json!(1), json!(true)).len(), 1);
        assert_eq!(differences(json!(i64::MAX), json!(i64::MAX - 1)).len(), 1);
    }

    #[test]
    fn lists_keep_their_order_and_bags_do_not() {
        assert_eq!(differences(json!([1, 2]), json!([2, 1])).len(), 2);
        assert!(differences(json!({"callbacks": [1, 2]}), json!({"callbacks": [2, 1]})).is_empty());
        assert_eq!(
            differences(json!({"callbacks": [1, 2]}), json!({"callbacks": [2, 2]})),
            ["final.callbacks: missing 1", "final.callbacks: not expected 2"]
        );
        assert_eq!(differences(json!([1, 2]), json!([2])), ["final: 2 elements wanted, 1 got", "final: missing 1"]);
    }

    #[test]
    fn placements_come_in_the_same_order() {
        let new = |key: &str| json!({"kind": "new", "allocationKey": key});
        let found = differences(json!({"callbacks": [new("a"), new("b")]}), json!({"callbacks": [new("b"), new("a")]}));
        assert_eq!(found, [r#"final.callbacks: order of allocations: want ["a", "b"], got ["b", "a"]"#]);
    }

    #[test]
    fn loose_messages_leave_texts_out_but_not_their_type() {
        let golden = json!({"final": {"message": "x", "id": 1}});
        assert!(compare(&golden, &json!({"final": {"id": 1}}), true).is_empty());
        assert_eq!(compare(&golden, &json!({"final": {"message": 3, "id": 1}}), true).len(), 1);
        assert_eq!(compare(&golden, &json!({"final": {"message": "y", "id": 1}}), false).len(), 1);
    }

    #[test]
    fn a_part_that_only_one_side_has_is_a_difference() {
        assert_eq!(compare(&json!({}), &json!({"problems": ["late"]}), false).len(), 1);
        assert_eq!(compare(&json!({"events": []}), &json!({}), false), ["events: want [], got null"]);
    }
}
