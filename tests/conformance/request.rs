//! Requests of the simulated resource manager from the short form that scenarios use.

use serde_json::{Map, Value, json};

/// Fields that hold a resource, which a scenario may write as `{"memory": 100}`.
const RESOURCES: [&str; 3] = ["schedulableResource", "resourcePerAlloc", "placeholderAsk"];

/// A request body: short resources written out, releases without a type sent as STOPPED_BY_RM, the RM's id filled in.
pub fn body(kind: &str, rm: &str, request: &Value) -> Value {
    let mut body = merged(json!({"rmID": rm}), &written_out(request));
    let releases = body.pointer_mut("/releases/allocationsToRelease").and_then(Value::as_array_mut);
    if let Some(releases) = releases.filter(|_| kind != "nodes") {
        for release in releases.iter_mut().filter_map(Value::as_object_mut) {
            release.entry("terminationType").or_insert_with(|| "STOPPED_BY_RM".into());
        }
    }
    body
}

/// `base` with the fields of `fields` put over it.
pub fn merged(mut base: Value, fields: &Value) -> Value {
    if let (Some(base), Some(fields)) = (base.as_object_mut(), fields.as_object()) {
        base.extend(fields.clone());
    }
    base
}

fn written_out(value: &Value) -> Value {
    match value {
        Value::Object(map) => map
            .iter()
            .map(|(key, value)| match value.as_object() {
                Some(short) if RESOURCES.contains(&key.as_str()) && !short.contains_key("resources") => {
                    (key.clone(), resource(short))
                }
                _ => (key.clone(), written_out(value)),
            })
            .collect::<Map<_, _>>()
            .into(),
        Value::Array(list) => list.iter().map(written_out).collect(),
        other => other.clone(),
    }
}

fn resource(short: &Map<String, Value>) -> Value {
    let text = |quantity: &Value| quantity.as_str().map_or_else(|| quantity.to_string(), str::to_owned);
    let quantities: Map<_, _> =
        short.iter().map(|(name, quantity)| (name.clone(), json!({"value": text(quantity)}))).collect();
    json!({"resources": quantities})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_resources_are_written_out_at_any_depth() {
        let request = json!({"allocations": [{"resourcePerAlloc": {"memory": 5, "vcore": "7"}, "priority": 1}]});
        assert_eq!(
            body("allocations", "rm-1", &request),
            json!({"rmID": "rm-1", "allocations": [{"priority": 1, "resourcePerAlloc":
                {"resources": {"memory": {"value": "5"}, "vcore": {"value": "7"}}}}]})
        );
        let long = json!({"placeholderAsk": {"resources": {"memory": {"value": "5"}}}});
        assert_eq!(body("applications", "rm-1", &long)["placeholderAsk"], long["placeholderAsk"]);
    }

    #[test]
    fn a_release_without_a_type_is_stopped_by_the_rm() {
        let request =
            json!({"releases": {"allocationsToRelease": [{"allocationKey": "a"}, {"terminationType": "TIMEOUT"}]}});
        let sent = body("allocations", "rm-1", &request);
        assert_eq!(sent["releases"]["allocationsToRelease"][0]["terminationType"], "STOPPED_BY_RM");
        assert_eq!(sent["releases"]["allocationsToRelease"][1]["terminationType"], "TIMEOUT");
    }

    #[test]
    fn a_request_may_name_another_rm() {
        assert_eq!(body("nodes", "rm-1", &json!({"rmID": "rm-2"})), json!({"rmID": "rm-2"}));
    }
}
