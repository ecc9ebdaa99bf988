//! One text for one JSON value: sorted keys, a space after each comma and colon, ASCII only. Printed differences, and so
//! the paths in `docs/differences.json`, depend on it.

use serde_json::Value;

/// The canonical text of a value.
pub fn canon(value: &Value) -> String {
    let mut out = String::new();
    write(value, &mut out);
    out
}

/// The canonical text, cut where it is too long to be read.
pub fn short(value: &Value) -> String {
    let text = canon(value);
    if text.len() <= 300 { text } else { format!("{}...", &text[..297]) } // ASCII: any cut is at a character
}

fn write(value: &Value, out: &mut String) {
    match value {
        Value::Object(map) => {
            let mut keys: Vec<&String> = map.keys().collect();
            keys.sort();
            out.push('{');
            for (at, key) in keys.into_iter().enumerate() {
                if at > 0 {
                    out.push_str(", ");
                }
                text(key, out);
                out.push_str(": ");
                write(&map[key], out);
            }
            out.push('}');
        }
        Value::Array(list) => {
            out.push('[');
            for (at, entry) in list.iter().enumerate() {
                if at > 0 {
                    out.push_str(", ");
                }
                write(entry, out);
            }
            out.push(']');
        }
        Value::String(s) => text(s, out),
        other => out.push_str(&other.to_string()),
    }
}

fn text(s: &str, out: &mut String) {
    let quoted = Value::from(s).to_string();
    let mut units = [0; 2];
    for c in quoted.chars() {
        if c.is_ascii() {
            out.push(c);
        } else {
            for unit in c.encode_utf16(&mut units) {
                out.push_str(&format!("\\u{unit:04x}"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn keys_are_sorted_and_text_is_ascii() {
        let value = json!({"b": [1, true, null], "a": "é\n\"😀"});
        assert_eq!(canon(&value), r#"{"a": "\u00e9\n\"\ud83d\ude00", "b": [1, true, null]}"#);
    }

    #[test]
    fn long_values_are_cut() {
        let cut = short(&json!("x".repeat(400)));
        assert_eq!(cut.len(), 300);
        assert!(cut.ends_with("xxx..."));
    }
}
