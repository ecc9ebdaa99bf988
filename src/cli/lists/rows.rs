//! The rows of each list, from what the server says.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::Value;

use super::table::{Cell, Column, List, Row};
use crate::{
    cli::human::{age, amounts},
    domain::{partition::Left, words::plural},
    http::api::board::why::{noun, shown},
};

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}

fn number(value: &Value, key: &str) -> f64 {
    value[key].as_f64().unwrap_or_default()
}

/// Amounts by type, as an answer has them.
pub fn amount(value: &Value) -> BTreeMap<String, i64> {
    let pairs = value.as_object().into_iter().flatten();
    pairs.filter_map(|(kind, amount)| Some((kind.clone(), amount.as_i64()?))).collect()
}

fn memory(value: &Value) -> f64 {
    value["memory"].as_f64().unwrap_or_default()
}

/// A time as its age; what has none is sorted last.
fn since(time: &str, now: Timestamp) -> Cell {
    match time.parse::<Timestamp>() {
        Ok(at) => Cell::by(age(time, now), (now.as_second() - at.as_second()) as f64),
        Err(_) => Cell::by("", -1.0),
    }
}

/// What of each type is used, of how much.
fn used_of(used: &Value, whole: &Value, most: usize) -> String {
    let (used, whole) = (amount(used), amount(whole));
    let one = |(kind, whole): (&String, &i64)| {
        let used = used.get(kind).copied().unwrap_or(0);
        let unit = noun(kind, *whole);
        format!("{} of {} {unit}", shown(kind, used), shown(kind, *whole))
    };
    // Memory and cores first: everybody has them.
    let mut kinds: Vec<(&String, &i64)> = whole.iter().filter(|(_, amount)| **amount > 0).collect();
    kinds.sort_by_key(|(kind, _)| (*kind != "memory", *kind != "vcore"));
    kinds.into_iter().take(most).map(one).collect::<Vec<_>>().join(", ")
}

/// Drained nodes past their deadline that are named.
const OVERDUE: usize = 10;

/// Partitions at a glance.
pub fn status(overview: &Value) -> List {
    let mut list = List {
        columns: vec![
            Column::new("PARTITION"),
            Column::new("STATE"),
            Column::new("RM"),
            Column::new("RM-STATE"),
            Column::new("NODES"),
            Column::new("DRAINED"),
            Column::new("APPS"),
            Column::new("ALLOCATIONS"),
            Column::new("USED"),
            Column::new("WAITING"),
            Column::wide("PENDING"),
            Column::wide("RM-WHY"),
        ],
        ..List::default()
    };
    for row in overview["partitions"].as_array().into_iter().flatten() {
        let apps: u64 = row["applications"].as_object().into_iter().flatten().filter_map(|(_, n)| n.as_u64()).sum();
        let name = text(row, "name");
        list.rows.push(Row {
            cells: vec![
                Cell::text(name),
                Cell::text(text(row, "state")),
                Cell::text(text(row, "rm")),
                Cell::text(text(row, "rmState")),
                Cell::number(number(&row["nodes"], "total")),
                Cell::number(number(&row["nodes"], "drained")),
                Cell::number(apps as f64),
                Cell::number(number(row, "allocations")),
                Cell::by(used_of(&row["used"], &row["capacity"], 3), memory(&row["used"])),
                Cell::by(plural(row["waiting"]["asks"].as_u64().unwrap_or(0), "ask"), number(&row["waiting"], "asks")),
                Cell::by(amounts(&amount(&row["pending"])), memory(&row["pending"])),
                Cell::text(text(row, "rmWhy")),
            ],
            value: row.clone(),
        });
        if let Some(why) = row["log"].as_str() {
            list.note.push_str(&format!("{name}: nothing is placed: {why}\n"));
        }
        for fault in row["faults"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            list.note.push_str(&format!("{name}: resource journal: {fault}\n"));
        }
        for reason in row["waiting"]["reasons"].as_array().into_iter().flatten() {
            let (asks, apps) = (reason["asks"].as_u64().unwrap_or(0), reason["applications"].as_u64().unwrap_or(0));
            list.note.push_str(&format!(
                "{name}: {} of {}: {} ({})\n",
                plural(asks, "ask"),
                plural(apps, "application"),
                text(reason, "title"),
                text(reason, "code"),
            ));
        }
    }
    for partition in overview["partitions"].as_array().into_iter().flatten() {
        let (name, overdue) = (text(partition, "name"), &partition["overdue"]);
        let named = overdue["nodes"].as_array().map(Vec::as_slice).unwrap_or_default();
        for node in named.iter().take(OVERDUE) {
            let applications = node["applications"].as_array().into_iter().flatten().filter_map(Value::as_str);
            let left = Left {
                allocations: node["allocations"].as_u64().unwrap_or(0) as usize,
                applications: applications.map(Into::into).collect(),
                more: node["moreApplications"].as_u64().unwrap_or(0) as usize,
            };
            let reason = text(node, "reason");
            let reason = if reason.is_empty() { String::new() } else { format!(" ({reason})") };
            let deadline = text(node, "deadline");
            let deadline = deadline.parse::<Timestamp>().map_or_else(|_| deadline.to_owned(), |at| format!("{at:.0}"));
            let node = text(node, "node");
            list.note.push_str(&format!("{name}: {node} was to be empty by {deadline}{reason}: {left} still there\n"));
        }
        let count = overdue["count"].as_u64().unwrap_or(0);
        if count > OVERDUE as u64 {
            let more = count - OVERDUE as u64;
            list.note.push_str(&format!("{name}: and {} more\n", plural(more, "drained node")));
        }
    }
    let now = text(overview, "now").parse::<Timestamp>().unwrap_or_else(|_| Timestamp::now());
    let ended =
        overview["resourceManagers"].as_array().into_iter().flatten().filter(|row| text(row, "state") == "Stopped");
    let ended: Vec<&Value> = ended.filter(|row| list.rows.is_empty() || is_recent(text(row, "since"), now)).collect();
    let unanswered = || overview["unanswered"].as_array().into_iter().flatten().filter_map(Value::as_str);
    if list.rows.is_empty() && unanswered().next().is_none() {
        let yet = if ended.is_empty() { " yet" } else { "" };
        list.note = format!("No resource manager is registered: there are no partitions{yet}.\n");
    }
    for row in ended {
        let (why, age) = (text(row, "why"), age(text(row, "since"), now));
        let why = if why.is_empty() { String::new() } else { format!(": {why}") };
        list.note.push_str(&format!("Resource manager {} stopped {age} ago{why}.\n", text(row, "rmID")));
    }
    for why in unanswered() {
        list.note.push_str(&format!("{why}\n"));
    }
    list
}

/// Within the last hour: what ended before is no news where something runs.
fn is_recent(time: &str, now: Timestamp) -> bool {
    time.parse::<Timestamp>().is_ok_and(|at| now.as_second() - at.as_second() < 3_600)
}

/// The list of applications, from an answer of the server.
pub fn applications(answer: &Value, now: Timestamp) -> List {
    let mut list = List {
        columns: vec![
            Column::new("APPLICATION"),
            Column::new("QUEUE"),
            Column::less("USER", 3),
            Column::new("STATE"),
            Column::less("AGE", 4),
            Column::less("ALLOCATIONS", 2),
            Column::less("USED", 3),
            Column::new("ASKS"),
            Column::less("WAITS", 1),
            Column::new("REASON"),
            Column::wide("PENDING"),
            Column::wide("WHY"),
        ],
        ..List::default()
    };
    let rows = answer["applications"].as_array();
    for row in rows.into_iter().flatten() {
        let why = if row["reason"].is_object() { text(&row["reason"], "text") } else { text(row, "message") };
        list.rows.push(Row {
            cells: vec![
                Cell::text(text(row, "applicationID")),
                Cell::text(text(row, "queueName")),
                Cell::text(text(row, "user")),
                Cell::text(text(row, "state")),
                since(text(row, "submitted"), now),
                Cell::number(number(row, "allocations")),
                Cell::by(amounts(&amount(&row["used"])), memory(&row["used"])),
                Cell::number(number(row, "asks")),
                since(text(row, "waitingSince"), now),
                Cell::text(text(&row["reason"], "code")),
                Cell::by(amounts(&amount(&row["pending"])), memory(&row["pending"])),
                Cell::text(why),
            ],
            value: row.clone(),
        });
    }
    let matched = answer["matched"].as_u64().unwrap_or(0);
    if matched > list.rows.len() as u64 {
        list.note = format!("{} of {matched}: --limit shows more\n", list.rows.len());
    }
    list
}

/// Queues, each after the one above it.
pub fn queues(tree: &Value) -> List {
    let mut list = List {
        columns: vec![
            Column::new("QUEUE"),
            Column::new("STATE"),
            Column::less("RUNNING", 2),
            Column::new("USED"),
            Column::new("MAX"),
            Column::less("PENDING", 1),
            Column::wide("GUARANTEED"),
            Column::wide("HEADROOM"),
            Column::wide("PREEMPTING"),
            Column::wide("ORDER"),
        ],
        ..List::default()
    };
    queue(tree, &mut list.rows);
    list
}

fn queue(value: &Value, rows: &mut Vec<Row>) {
    let (running, most) = (number(value, "runningApps"), number(value, "maxRunningApps"));
    let of = if most > 0.0 { format!("{running} of {most}") } else { running.to_string() };
    let cell = |key: &str| Cell::by(amounts(&amount(&value[key])), memory(&value[key]));
    let mut own = value.clone();
    if let Some(own) = own.as_object_mut() {
        own.remove("children");
    }
    rows.push(Row {
        cells: vec![
            Cell::text(text(value, "queuename")),
            Cell::text(text(value, "status")),
            Cell::by(of, running),
            cell("allocatedResource"),
            cell("maxResource"),
            cell("pendingResource"),
            cell("guaranteedResource"),
            cell("headroom"),
            cell("preemptingResource"),
            Cell::text(text(value, "sortingPolicy")),
        ],
        value: own,
    });
    for child in value["children"].as_array().into_iter().flatten() {
        queue(child, rows);
    }
}

/// See [`node_states`].
pub const NODE_STATES: [&str; 5] = ["ready", "drained", "reserved", "torpid", "offline"];

/// What is the matter with a node, a word for each; the first one is shown.
pub fn node_states(row: &Value) -> impl Iterator<Item = &'static str> {
    let [ready, drained, reserved, torpid, offline] = NODE_STATES;
    let is = |key: &str| row[key].as_bool() == Some(true);
    let (is_offline, is_drained) = (is("offline"), row["drained"].is_string());
    let is_ready = !is_offline && !is_drained && !is("torpid") && !is("reserved");
    let all = [
        (is_offline, offline),
        (is_drained, drained),
        (is("torpid"), torpid),
        (is("reserved"), reserved),
        (is_ready, ready),
    ];
    all.into_iter().filter_map(|(is, state)| is.then_some(state))
}

/// The list of nodes, from an answer of the server.
pub fn nodes(answer: &Value, now: Timestamp) -> List {
    let mut list = List {
        columns: vec![
            Column::new("NODE"),
            Column::new("STATE"),
            Column::less("ALLOCATIONS", 1),
            Column::new("MEMORY"),
            Column::new("CORES"),
            Column::less("OTHERS", 2),
            Column::new("DRAINED"),
            Column::wide("SINCE"),
            Column::wide("HOST"),
            Column::wide("RANK"),
        ],
        ..List::default()
    };
    let types: Vec<&str> = answer["types"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    for row in answer["nodes"].as_array().into_iter().flatten() {
        let percent = |at: usize| row["used"][at].as_i64();
        let of = |name: &str| {
            let percent = types.iter().position(|kind| *kind == name).and_then(percent);
            percent.map_or_else(|| Cell::by("", -1.0), |percent| Cell::by(format!("{percent}%"), percent as f64))
        };
        let others: Vec<String> = types
            .iter()
            .enumerate()
            .filter(|(_, kind)| !["memory", "vcore", "pods", "ephemeral-storage"].contains(kind))
            .filter_map(|(at, kind)| Some(format!("{kind} {}%", percent(at)?)))
            .collect();
        let mut value = row.clone();
        // Percents say little without their types.
        let used: serde_json::Map<String, Value> =
            types.iter().enumerate().map(|(at, kind)| ((*kind).to_owned(), row["used"][at].clone())).collect();
        value["used"] = Value::Object(used);
        list.rows.push(Row {
            cells: vec![
                Cell::text(text(row, "id")),
                Cell::text(node_states(row).next().unwrap_or_default()),
                Cell::number(number(row, "allocations")),
                of("memory"),
                of("vcore"),
                Cell::text(others.join(", ")),
                Cell::text(text(row, "drained")),
                since(text(row, "drainedSince"), now),
                Cell::text(text(row, "host")),
                row["rank"].as_u64().map_or_else(|| Cell::by("", -1.0), |rank| Cell::number(rank as f64)),
            ],
            value,
        });
    }
    list
}

/// Resource managers.
pub fn managers(answer: &Value, now: Timestamp) -> List {
    let mut list = List {
        columns: vec![
            Column::new("RM"),
            Column::new("STATE"),
            Column::new("REGISTERED"),
            Column::new("PARTITIONS"),
            Column::new("STREAMS"),
            Column::new("BUFFERED"),
            Column::wide("POLICY-GROUP"),
            Column::wide("PREDICATES"),
            Column::wide("SEQUENCE"),
            Column::wide("WHY"),
        ],
        ..List::default()
    };
    for row in answer.as_array().into_iter().flatten() {
        let texts =
            |key: &str| -> Vec<&str> { row[key].as_array().into_iter().flatten().filter_map(Value::as_str).collect() };
        let last = row["history"].as_array().and_then(|history| history.last());
        // Why nothing is taken comes before how it got into its state.
        let why = match row["failing"].as_str() {
            Some(failing) => format!("nothing is taken: {failing}"),
            None => last.map(|last| text(last, "why").to_owned()).unwrap_or_default(),
        };
        list.rows.push(Row {
            cells: vec![
                Cell::text(text(row, "rmID")),
                Cell::text(text(row, "state")),
                since(text(row, "registered"), now),
                Cell::text(texts("partitions").join(", ")),
                Cell::number(row["streams"].as_array().map_or(0, Vec::len) as f64),
                Cell::number(number(row, "buffered")),
                Cell::text(text(row, "policyGroup")),
                Cell::text(text(row, "predicates")),
                Cell::number(number(row, "lastSequence")),
                Cell::text(why),
            ],
            value: row.clone(),
        });
    }
    list
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn applications_have_the_columns_that_the_server_sorts_by() {
        let list = applications(&json!({}), Timestamp::UNIX_EPOCH);
        let heads: Vec<String> = list.columns.iter().map(|column| column.head.to_lowercase()).collect();
        assert_eq!(heads, crate::http::api::board::applications::columns());
    }

    #[test]
    fn a_resource_manager_of_which_nothing_can_be_recorded_says_so() {
        let shown = |failing: Value| {
            let answer = json!([{"rmID": "rm-1", "history": [{"why": "registered"}], "failing": failing}]);
            format!("{:?}", managers(&answer, Timestamp::UNIX_EPOCH).rows[0].cells.last())
        };
        assert!(shown(Value::Null).contains("\"registered\""));
        assert!(shown(json!("log /x: no space")).contains("nothing is taken: log /x: no space"));
    }

    #[test]
    fn a_drained_node_that_is_offline_is_both() {
        let states = |row: serde_json::Value| node_states(&row).collect::<Vec<_>>();
        assert_eq!(
            states(json!({"offline": true, "drained": "by an operator: a fan is loud"})),
            ["offline", "drained"]
        );
        assert_eq!(states(json!({"offline": false, "torpid": true, "reserved": true})), ["torpid", "reserved"]);
        assert_eq!(states(json!({"drained": null})), ["ready"]);
    }

    #[test]
    fn what_still_runs_after_a_deadline_is_told_as_it_is() {
        let node = json!({"node": "n1", "host": "h", "deadline": "2026-11-20T10:00:00.123456789Z", "reason": "dimm",
            "allocations": 9, "applications": ["a", "b"], "moreApplications": 4});
        let overdue = json!({"count": 1, "nodes": [node]});
        let partition = json!({"name": "default", "state": "Active", "rm": "rm-1", "overdue": overdue});
        let list = status(&json!({"now": "2026-11-20T11:00:00Z", "partitions": [partition]}));
        let expected = "default: n1 was to be empty by 2026-11-20T10:00:00Z (dimm): 9 allocations of a, b and 4 more still there\n";
        assert_eq!(list.note, expected);
    }
}
