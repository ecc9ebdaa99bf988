//! A YAML document as JSON. JSON itself is YAML too.

use std::path::Path;

use serde_json::{Map, Value};

use crate::config::yaml::{self, Kind, Node};

/// Reads a file.
///
/// # Errors
/// It cannot be read, or is no YAML: with its name and the place.
pub fn read(file: &Path) -> Result<Value, String> {
    let name = file.display();
    let text = std::fs::read_to_string(file).map_err(|error| format!("{name}: cannot be read: {error}"))?;
    value_of(&text).map_err(|error| format!("{name}:{error}"))
}

/// Reads a text.
fn value_of(text: &str) -> Result<Value, String> {
    let read = yaml::read(text).map_err(|error| format!("{}:{}: {}", error.at.line, error.at.column, error.message))?;
    if let Some(at) = yaml::behind_first_document(text) {
        return Err(format!("{}:{}: a second document is not read: write one", at.line, at.column));
    }
    read.map_or(Ok(Value::Null), |node| value(&node))
}

fn value(node: &Node) -> Result<Value, String> {
    Ok(match &node.value {
        yaml::Value::Scalar(text, kind) => match kind {
            Kind::Null => Value::Null,
            Kind::Bool => Value::Bool(text.eq_ignore_ascii_case("true")),
            Kind::Int => text.parse::<i64>().map_or_else(|_| Value::from(text.as_str()), Value::from),
            Kind::Float => text.parse::<f64>().map_or_else(|_| Value::from(text.as_str()), Value::from),
            Kind::Text | Kind::Merge => Value::from(text.as_str()),
        },
        yaml::Value::List(items) => Value::Array(items.iter().map(|item| value(item)).collect::<Result<_, _>>()?),
        yaml::Value::Map(pairs) => {
            let mut map = Map::new();
            for (key, of) in pairs {
                let yaml::Value::Scalar(name, _) = &key.value else {
                    return Err(format!(
                        "{}:{}: a key is a {}, but may be a text",
                        key.at.line,
                        key.at.column,
                        key.value.tag()
                    ));
                };
                if map.insert(name.clone(), value(of)?).is_some() {
                    return Err(format!("{}:{}: {name} is there twice", key.at.line, key.at.column));
                }
            }
            Value::Object(map)
        }
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn yaml_and_json_are_read_alike() {
        let yaml = "nodeAdd:\n- {count: 10, like: n1}\nfor: 2h\nsubmit: [{tags: {a: 'true', b: ~}, preempts: True}]\n";
        let json = json!({"nodeAdd": [{"count": 10, "like": "n1"}], "for": "2h",
            "submit": [{"tags": {"a": "true", "b": null}, "preempts": true}]});
        assert_eq!(value_of(yaml), Ok(json.clone()));
        assert_eq!(value_of(&json.to_string()), Ok(json));
        assert_eq!(value_of(""), Ok(Value::Null));
        assert_eq!(value_of("a: 1.5"), Ok(json!({"a": 1.5})));
    }

    #[test]
    fn faults_have_a_place() {
        assert!(value_of("a: [1").unwrap_err().contains(':'));
        assert_eq!(value_of("a: 1\na: 2\n").unwrap_err(), "2:1: a is there twice");
        assert_eq!(value_of("a: 1\n---\nb: 2\n").unwrap_err(), "3:1: a second document is not read: write one");
        assert_eq!(value_of("[a]: 1\n").unwrap_err(), "1:1: a key is a !!seq, but may be a text");
        assert!(read(Path::new("/no/such/file")).unwrap_err().starts_with("/no/such/file: cannot be read: "));
    }
}
