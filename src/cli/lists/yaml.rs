//! JSON as YAML: maps and lists in blocks, everything else as JSON writes it, which YAML reads as well.

use serde_json::Value;

/// A document.
pub fn document(value: &Value) -> String {
    let mut text = String::new();
    block(&mut text, value, 0, false);
    text
}

/// `inline`: the line has begun already, with a dash.
fn block(text: &mut String, value: &Value, depth: usize, inline: bool) {
    let mut first = inline;
    let mut begin = |text: &mut String| {
        if !std::mem::take(&mut first) {
            text.extend(std::iter::repeat_n(' ', depth * 2));
        }
    };
    match value {
        Value::Array(items) if !items.is_empty() => {
            for item in items {
                begin(text);
                text.push_str("- ");
                block(text, item, depth + 1, true);
            }
        }
        Value::Object(entries) if !entries.is_empty() => {
            for (key, value) in entries {
                begin(text);
                text.push_str(&name(key));
                text.push(':');
                if is_block(value) {
                    text.push('\n');
                    block(text, value, depth + 1, false);
                } else {
                    text.push_str(&format!(" {value}\n"));
                }
            }
        }
        plain => {
            begin(text);
            text.push_str(&format!("{plain}\n"));
        }
    }
}

fn is_block(value: &Value) -> bool {
    match value {
        Value::Array(items) => !items.is_empty(),
        Value::Object(entries) => !entries.is_empty(),
        _ => false,
    }
}

/// Words stand as they are, where YAML takes them for nothing else.
fn name(key: &str) -> String {
    let word = key.starts_with(|c: char| c.is_ascii_alphabetic())
        && key.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
    let other = ["true", "false", "null", "yes", "no", "on", "off", "y", "n"];
    if word && !other.contains(&key.to_lowercase().as_str()) { key.to_owned() } else { Value::from(key).to_string() }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn blocks() {
        let value = json!({"a": [1, {"b": "x: y", "c": []}, [true, null]], "nvidia.com/gpu": {}, "no": -1.5, "z": {"k": "l\n"}});
        let expected = "a:\n  - 1\n  - b: \"x: y\"\n    c: []\n  - - true\n    - null\n\"no\": -1.5\n\"nvidia.com/gpu\": {}\nz:\n  k: \"l\\n\"\n";
        assert_eq!(document(&value), expected);
        assert_eq!(document(&json!([])), "[]\n");
    }
}
