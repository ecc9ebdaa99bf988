//! Stream lines in the form of the golden files.

use callboard::si::v1::{
    TerminationType,
    event_record::{ChangeDetail, ChangeType, Type},
    update_container_scheduling_state_request::SchedulingState,
};
use serde_json::{Map, Value, json};

/// The callbacks of one stream line. How many lines carried them does not matter.
pub fn callbacks(line: &Value) -> Vec<Value> {
    let mut out = Vec::new();
    let list = |pointer: &str| line.pointer(pointer).and_then(Value::as_array).into_iter().flatten();
    out.extend(list("/allocation/new").map(new));
    out.extend(list("/allocation/released").map(|entry| {
        json!({"kind": "released", "allocationKey": text(entry, "allocationKey"),
            "applicationID": text(entry, "applicationID"), "partitionName": text(entry, "partitionName"),
            "terminationType": termination(entry), "message": text(entry, "message")})
    }));
    out.extend(list("/allocation/rejectedAllocations").map(|entry| {
        json!({"kind": "rejectedAllocation", "allocationKey": text(entry, "allocationKey"),
            "applicationID": text(entry, "applicationID"), "reason": text(entry, "reason")})
    }));
    out.extend(
        list("/application/accepted")
            .map(|entry| json!({"kind": "acceptedApplication", "applicationID": text(entry, "applicationID")})),
    );
    out.extend(list("/application/rejected").map(|entry| {
        json!({"kind": "rejectedApplication", "applicationID": text(entry, "applicationID"),
            "reason": text(entry, "reason")})
    }));
    out.extend(list("/application/updated").map(|entry| {
        json!({"kind": "updatedApplication", "applicationID": text(entry, "applicationID"),
            "state": text(entry, "state"), "message": text(entry, "message")})
    }));
    out.extend(list("/node/accepted").map(|entry| json!({"kind": "acceptedNode", "nodeID": text(entry, "nodeID")})));
    out.extend(list("/node/rejected").map(
        |entry| json!({"kind": "rejectedNode", "nodeID": text(entry, "nodeID"), "reason": text(entry, "reason")}),
    ));
    out
}

fn new(entry: &Value) -> Value {
    let mut out = Map::new();
    out.insert("kind".into(), "new".into());
    for key in ["allocationKey", "applicationID", "nodeID"] {
        out.insert(key.into(), text(entry, key));
    }
    out.insert("placeholder".into(), set(&entry["placeholder"]).into());
    out.insert("resource".into(), resource(&entry["resourcePerAlloc"]));
    // Partition, priority and tags are not compared: the recorded scheduler left them out (SEEDS S36).
    if set(&entry["taskGroupName"]) {
        out.insert("taskGroupName".into(), entry["taskGroupName"].clone());
    }
    if set(&entry["originator"]) {
        out.insert("originator".into(), true.into());
    }
    let flags = entry["preemptionPolicy"].as_object().into_iter().flatten().filter(|(_, value)| set(value));
    let policy: Map<_, _> = flags.map(|(name, value)| (name.clone(), value.clone())).collect();
    if !policy.is_empty() {
        out.insert("preemptionPolicy".into(), policy.into());
    }
    out.into()
}

/// The type of a release, by name.
pub fn termination(release: &Value) -> Value {
    by_name(&release["terminationType"], |n| TerminationType::try_from(n).ok().map(|t| t.as_str_name()))
}

/// A container state.
pub fn container_state(entry: &Value) -> Value {
    let state = by_name(&entry["state"], |n| SchedulingState::try_from(n).ok().map(|s| s.as_str_name()));
    json!({"kind": "containerState", "allocationKey": text(entry, "allocationKey"),
        "applicationID": text(entry, "applicationID"), "state": state, "reason": text(entry, "reason")})
}

/// An event record, from the stream or from REST, without its time.
pub fn event(entry: &Value) -> Value {
    let mut out = Map::new();
    out.insert("type".into(), by_name(&entry["type"], |n| Type::try_from(n).ok().map(|t| t.as_str_name())));
    out.insert("objectID".into(), text(entry, "objectID"));
    let change = by_name(&entry["eventChangeType"], |n| ChangeType::try_from(n).ok().map(|c| c.as_str_name()));
    out.insert("eventChangeType".into(), change);
    let detail = by_name(&entry["eventChangeDetail"], |n| ChangeDetail::try_from(n).ok().map(|d| d.as_str_name()));
    out.insert("eventChangeDetail".into(), detail);
    for key in ["referenceID", "message"] {
        if set(&entry[key]) {
            out.insert(key.into(), entry[key].clone());
        }
    }
    let amounts = resource(&entry["resource"]);
    if amounts.as_object().is_some_and(|amounts| !amounts.is_empty()) {
        out.insert("resource".into(), amounts);
    }
    out.into()
}

/// A resource as a plain map, from protobuf JSON or from REST.
fn resource(value: &Value) -> Value {
    let Some(map) = value.get("resources").unwrap_or(value).as_object() else { return json!({}) };
    let amount = |quantity: &Value| match quantity.as_object() {
        Some(quantity) => quantity.get("value").map_or_else(|| 0.into(), number),
        None => number(quantity),
    };
    map.iter().map(|(name, quantity)| (name.clone(), amount(quantity))).collect::<Map<_, _>>().into()
}

/// 64-bit numbers come as text or as numbers.
fn number(value: &Value) -> Value {
    value.as_str().and_then(|digits| digits.parse::<i64>().ok()).map_or_else(|| value.clone(), Value::from)
}

fn by_name(value: &Value, name: impl Fn(i32) -> Option<&'static str>) -> Value {
    let number = if value.is_null() { Some(0) } else { value.as_i64() };
    let name = number.and_then(|n| i32::try_from(n).ok()).and_then(name);
    name.map_or_else(|| value.clone(), Value::from)
}

fn text(entry: &Value, key: &str) -> Value {
    entry.get(key).cloned().unwrap_or_else(|| "".into())
}

/// Present and not the default of its type.
fn set(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(flag) => *flag,
        Value::Number(n) => n.as_f64() != Some(0.0),
        Value::String(s) => !s.is_empty(),
        Value::Array(list) => !list.is_empty(),
        Value::Object(map) => !map.is_empty(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_placement() {
        let line = json!({"seq": 3, "allocation": {"new": [{"allocationKey": "a", "applicationID": "app", "nodeID": "n",
            "resourcePerAlloc": {"resources": {"memory": {"value": "10"}, "gpu": {}}}, "priority": 5, "originator": false,
            "allocationTags": {"x": "y"}, "partitionName": "[rm-1]default",
            "preemptionPolicy": {"allowPreemptSelf": true, "allowPreemptOther": false}}]}});
        assert_eq!(
            callbacks(&line),
            [json!({"kind": "new", "allocationKey": "a", "applicationID": "app", "nodeID": "n", "placeholder": false,
                "resource": {"memory": 10, "gpu": 0}, "preemptionPolicy": {"allowPreemptSelf": true}})]
        );
    }

    #[test]
    fn one_line_may_carry_several() {
        let line = json!({"application": {"rejected": [{"applicationID": "b", "reason": "no"}],
            "accepted": [{"applicationID": "a"}], "updated": [{"applicationID": "a", "state": "Accepted"}]}});
        assert_eq!(
            callbacks(&line),
            [
                json!({"kind": "acceptedApplication", "applicationID": "a"}),
                json!({"kind": "rejectedApplication", "applicationID": "b", "reason": "no"}),
                json!({"kind": "updatedApplication", "applicationID": "a", "state": "Accepted", "message": ""})
            ]
        );
    }

    #[test]
    fn enums_come_by_name_or_number() {
        assert_eq!(termination(&json!({"terminationType": 3})), "PREEMPTED_BY_SCHEDULER");
        assert_eq!(termination(&json!({"terminationType": "TIMEOUT"})), "TIMEOUT");
        assert_eq!(termination(&json!({})), "UNKNOWN_TERMINATION_TYPE");
        assert_eq!(termination(&json!({"terminationType": 99})), 99);
    }

    #[test]
    fn an_event_of_rest_and_one_of_the_stream_are_the_same() {
        let rest = json!({"type": 4, "objectID": "root", "timestampNano": 5, "message": "", "eventChangeType": 1,
            "eventChangeDetail": 403, "resource": {"memory": 4}});
        let stream = json!({"type": "QUEUE", "objectID": "root", "eventChangeType": "SET", "eventChangeDetail": "QUEUE_MAX",
            "resource": {"resources": {"memory": {"value": "4"}}}});
        assert_eq!(event(&rest), event(&stream));
        assert_eq!(event(&json!({}))["eventChangeDetail"], "DETAILS_NONE");
        assert!(event(&json!({"resource": {"resources": {}}})).get("resource").is_none());
    }
}
