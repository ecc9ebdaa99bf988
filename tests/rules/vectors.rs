//! Idset, hostlist and eventlog texts against what the libraries of a real Flux make of them. Where Flux and the RFC read a text
//! differently, the case says so, and the RFC counts.

use std::path::Path;

use callboard::{
    domain::{hostlist::HostList, idset::IdSet},
    store::eventlog::{Record, scan},
};
use serde_json::Value;

fn cases(name: &str) -> Vec<Value> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vectors").join(name);
    let cases: Vec<Value> = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    assert!(cases.len() > 50, "{name} has its cases");
    cases
}

fn text<'a>(case: &'a Value, key: &str) -> &'a str {
    case[key].as_str().unwrap()
}

/// Flux takes it, and so does the RFC.
fn accepted(case: &Value) -> bool {
    case["ok"] == true && case["rfc_ok"] != false
}

#[test]
fn idsets() {
    // RFC 22
    for case in cases("idset.json") {
        let input = text(&case, "input");
        let set = IdSet::parse(input);
        assert_eq!(set.is_ok(), accepted(&case), "{case}: {set:?}");
        let Ok(set) = set else { continue };
        assert_eq!(set.to_string(), text(&case, "canonical"), "{input}");
        assert_eq!(set.len(), case["count"].as_u64().unwrap(), "{input}");
        let Some(members) = case["members"].as_array() else { continue };
        let members: Vec<u64> = members.iter().map(|id| id.as_u64().unwrap()).collect();
        assert_eq!(set.iter().map(u64::from).collect::<Vec<_>>(), members, "{input}");
    }
}

#[test]
fn hostlists() {
    // RFC 29
    for case in cases("hostlist.json") {
        let input = text(&case, "input");
        let list = HostList::parse(input);
        assert_eq!(list.is_ok(), accepted(&case), "{case}: {list:?}");
        let Ok(list) = list else { continue };
        let members = case.get("rfc_members").or(case.get("members"));
        let Some(members) = members.and_then(Value::as_array) else {
            assert_eq!(list.len(), case["count"].as_u64().unwrap(), "{input}");
            assert_eq!(list.to_string(), text(&case, "canonical"), "{input}");
            continue;
        };
        let members: Vec<&str> = members.iter().map(|name| name.as_str().unwrap()).collect();
        assert_eq!(list.iter().collect::<Vec<_>>(), members, "{input}");
        let written = list.to_string();
        assert_eq!(HostList::parse(&written).unwrap().iter().collect::<Vec<_>>(), members, "{input}: {written}");
        // Where widths change, or the RFC reads other hosts, Callboard writes what both read alike.
        let mixed_widths = ["foo0,foo00,foo000", "foo[0,00,000]", "foo1,foo01", "0,00"].contains(&input);
        if case.get("rfc_members").is_none() && !mixed_widths {
            assert_eq!(written, text(&case, "canonical"), "{input}");
        }
    }
}

#[test]
fn eventlogs() {
    // RFC 18. Flux refuses a log with a bad line, Callboard names the line and reads the others.
    for case in cases("eventlog.json") {
        let input = text(&case, "input");
        let (mut read, mut bad) = (Vec::new(), Vec::new());
        let whole = scan(input.as_bytes(), |line, record| match record {
            Ok(record) => read.push(record),
            Err(why) => bad.push((line, why)),
        });
        let torn = whole.unwrap() < input.len() as u64;
        assert_eq!(bad.is_empty() && !(torn && read.is_empty()), accepted(&case), "{case}: {bad:?}");
        if !accepted(&case) {
            continue;
        }
        let entries = case["entries"].as_array().unwrap();
        let values: Vec<Value> = read.iter().map(|record| serde_json::from_str(&record.json).unwrap()).collect();
        assert_eq!(&values, entries, "{input}");
        for (record, entry) in read.iter().zip(entries) {
            assert_eq!(&*record.name, text(entry, "name"));
            // The JSON reader of this test is a last digit off, the text is not.
            let (ours, theirs) = (record.timestamp.parse::<f64>().unwrap(), entry["timestamp"].as_f64().unwrap());
            assert!((ours - theirs).abs() <= theirs.abs() * 1e-15, "{ours} {theirs}");
            assert!(Record::parse(record.json.as_bytes()).is_ok());
        }
    }
}
