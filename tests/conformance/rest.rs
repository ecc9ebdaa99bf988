//! REST answers in the form of the golden files: times and ids of one run hidden, lists without an order sorted.

use serde_json::{Map, Value, json};

use crate::{callback, canon::canon};

/// Fields that hold a time, an id of one run, or something that grows with time.
const VOLATILE: [&str; 18] = [
    "submissionTime",
    "finishedTime",
    "requestTime",
    "allocationTime",
    "allocationDelay",
    "time",
    "startTime",
    "lastStateTransitionTime",
    "timestampNano",
    "stateTransitionTimestamp",
    "backoffDeadline",
    "uuid",
    "instanceUUID",
    "InstanceUUID",
    "timestamp",
    "checksum",
    "createTime",
    "rmBuildTime",
];

/// Ids by which a list of objects is sorted: the first that all of them have.
const IDS: [&str; 9] = [
    "allocationKey",
    "applicationID",
    "nodeID",
    "queuename",
    "queuePath",
    "userName",
    "groupName",
    "taskGroupName",
    "clusterId",
];

/// Lists of texts whose order has no meaning.
const SETS: [&str; 8] = [
    "runningApplications",
    "applications",
    "childNames",
    "reservations",
    "allocatingAcceptedApps",
    "nodeNames",
    "userList",
    "groupList",
];

/// An answer in normal form.
pub fn normal(value: &Value) -> Value {
    under(value, "")
}

/// `value` without the fields called `name`, at any depth.
pub fn without(value: &Value, name: &str) -> Value {
    match value {
        Value::Object(map) => map
            .iter()
            .filter(|(key, _)| *key != name)
            .map(|(key, value)| (key.clone(), without(value, name)))
            .collect::<Map<_, _>>()
            .into(),
        Value::Array(list) => list.iter().map(|entry| without(entry, name)).collect(),
        other => other.clone(),
    }
}

/// A value in the field `key`, or in a list there.
fn under(value: &Value, key: &str) -> Value {
    match value {
        Value::Object(map) => object(value, map),
        Value::Array(list) => sorted(list.iter().map(|entry| under(entry, key)).collect(), key),
        Value::String(s) => text(s),
        other => other.clone(),
    }
}

fn object(value: &Value, map: &Map<String, Value>) -> Value {
    let is_event =
        map.contains_key("eventChangeType") || map.contains_key("timestampNano") && map.contains_key("objectID");
    if is_event {
        return callback::event(value);
    }
    let mut out = Map::new();
    for (key, value) in map {
        let normal = match key.as_str() {
            key if VOLATILE.contains(&key) && !value.is_object() && !value.is_array() => "*".into(),
            "resourceHistory" => starred(value),
            "allocationLog" if value.is_array() => log(value),
            "triggeredScaleUp" => continue,
            "EventRecords" if value.is_null() => json!([]),
            key => under(value, key),
        };
        out.insert(key.clone(), normal);
    }
    out.into()
}

fn log(value: &Value) -> Value {
    let hidden = json!({"lastOccurrence": "*", "count": "*"});
    let entries = value.as_array().into_iter().flatten().map(|entry| crate::request::merged(entry.clone(), &hidden));
    by_text(entries.collect())
}

fn starred(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            map.iter().map(|(key, value)| (key.clone(), starred(value))).collect::<Map<_, _>>().into()
        }
        Value::Array(list) => list.iter().map(starred).collect(),
        _ => "*".into(),
    }
}

fn text(s: &str) -> Value {
    const STATUSES: &str = "Only following active statuses are allowed: ";
    if let Some(listed) = s.strip_prefix(STATUSES) {
        // The server may list them in any order.
        let mut listed: Vec<&str> = listed.split(',').map(str::trim).collect();
        listed.sort_unstable();
        return format!("{STATUSES}{}", listed.join(",")).into();
    }
    // A star would stand for anything.
    if s == "*" { "(star)".into() } else { s.into() }
}

fn sorted(mut list: Vec<Value>, key: &str) -> Value {
    if key == "EventRecords" {
        return by_text(list);
    }
    if !list.is_empty() && list.iter().all(Value::is_object) {
        let all_have = |id: &&&str| list.iter().all(|entry| entry.get(**id).is_some());
        if let Some(id) = IDS.iter().find(all_have) {
            list.sort_by_cached_key(|entry| (plain(&entry[*id]), canon(entry)));
        } else if list.iter().all(|entry| entry.get("utilization").is_some() && entry.get("type").is_some()) {
            list.sort_by_cached_key(|entry| plain(&entry["type"]));
        }
    } else if SETS.contains(&key) && list.iter().all(Value::is_string) {
        list.sort_by_cached_key(plain);
    }
    list.into()
}

/// A list sorted by the canonical texts of its entries.
pub fn by_text(mut list: Vec<Value>) -> Value {
    list.sort_by_cached_key(canon);
    list.into()
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| canon(value), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_hidden_and_lists_sorted() {
        let answer = json!([{"applicationID": "b", "submissionTime": 7, "reservations": ["y", "x"], "other": ["y", "x"]},
            {"applicationID": "a", "submissionTime": {"kept": 1}, "triggeredScaleUp": true}]);
        assert_eq!(
            normal(&answer),
            json!([{"applicationID": "a", "submissionTime": {"kept": 1}},
                {"applicationID": "b", "submissionTime": "*", "reservations": ["x", "y"], "other": ["y", "x"]}])
        );
    }

    #[test]
    fn event_batches() {
        let answer = json!({"InstanceUUID": "u", "EventRecords": [
            {"type": 3, "objectID": "n", "timestampNano": 1, "eventChangeType": 2},
            {"type": 2, "objectID": "a", "timestampNano": 2, "eventChangeType": 2}]});
        let records = &normal(&answer)["EventRecords"];
        assert_eq!(records[0]["type"], "APP");
        assert_eq!(records[1]["type"], "NODE");
        assert_eq!(normal(&json!({"EventRecords": null})), json!({"EventRecords": []}));
    }

    #[test]
    fn texts_that_mean_something_to_the_comparison() {
        assert_eq!(normal(&json!({"submitACL": "*"})), json!({"submitACL": "(star)"}));
        assert_eq!(
            normal(&json!("Only following active statuses are allowed: Running, Accepted")),
            json!("Only following active statuses are allowed: Accepted,Running")
        );
    }

    #[test]
    fn logs_and_histories_keep_their_shape() {
        let answer = json!({"allocationLog": [{"message": "b", "count": 2, "lastOccurrence": 3}, {"message": "a", "count": 1,
            "lastOccurrence": 2}], "resourceHistory": {"x": {"memory": 4}}});
        assert_eq!(
            normal(&answer),
            json!({"allocationLog": [{"message": "a", "count": "*", "lastOccurrence": "*"},
                {"message": "b", "count": "*", "lastOccurrence": "*"}], "resourceHistory": {"x": {"memory": "*"}}})
        );
    }

    #[test]
    fn fields_are_dropped_at_any_depth() {
        assert_eq!(without(&json!([{"a": 1, "b": {"a": 2, "c": 3}}]), "a"), json!([{"b": {"c": 3}}]));
    }
}
