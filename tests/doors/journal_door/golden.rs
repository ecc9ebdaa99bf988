//! The same session as on a real Flux (`tests/flux/03-drain.txt`): commands, exit states, messages, tables, and the log.

use std::path::Path;

use serde_json::Value;

use super::rig::Rig;

/// A command of the session.
struct Step {
    args: Vec<String>,
    output: String,
    exit: u8,
}

fn session() -> Vec<Step> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/flux/03-drain.txt");
    let text = std::fs::read_to_string(path).unwrap();
    let steps = text.split("$ flux ").skip(1).map(|step| {
        let (command, rest) = step.split_once('\n').unwrap();
        let (output, exit) = rest.rsplit_once("[exit ").unwrap();
        let exit = exit.trim().trim_end_matches(']').parse().unwrap();
        Step { args: words(command), output: output.to_owned(), exit }
    });
    steps.collect()
}

/// Words of a shell command with double quotes.
fn words(command: &str) -> Vec<String> {
    let mut words = vec![];
    for (at, part) in command.split('"').enumerate() {
        match at % 2 {
            1 => words.push(part.to_owned()),
            _ => words.extend(part.split_whitespace().map(str::to_owned)),
        }
    }
    words
}

/// Tables without the minute in their first column.
fn without_time(text: &str) -> String {
    let line = |line: &str| match line.get(..5) {
        Some("Nov20") => line[12..].to_owned(),
        _ if line.as_bytes().get(8) == Some(&b':') && !line.starts_with(' ') => line[12..].to_owned(),
        _ => line.to_owned(),
    };
    text.lines().map(|text| line(text) + "\n").collect()
}

#[actix::test]
async fn a_session_goes_as_on_flux() {
    let rig = Rig::start("node[1-4]").await;
    let mut log = None;
    let mut compared = 0;
    for Step { args, output, exit } in session() {
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        match args[..] {
            ["kvs", "get", "--raw", "resource.eventlog"] => log = Some(output),
            // Formats made of fields are not offered.
            ["resource", ..] if args.iter().any(|arg| arg.starts_with("-no")) => {}
            ["resource", ..] => {
                let (status, out, err) = rig.run(&args).await;
                if args[2..] == ["1", "first", "reason", "given"] {
                    // Flux fills in a missing reason, the RFC does not (SEEDS S18).
                    assert_eq!((exit, status), (0, 1), "{args:?}");
                    continue;
                }
                assert_eq!(status, exit, "{args:?}: {err}");
                if exit == 0 {
                    assert_eq!(without_time(&out), without_time(&output), "{args:?}");
                } else {
                    let message = output.lines().next().unwrap().split_once("ERROR: ").unwrap().1;
                    let message =
                        message.split_once("] ").filter(|_| message.starts_with("[Errno")).map_or(message, |m| m.1);
                    assert!(err.contains(message), "{args:?}: {err}: {message}");
                }
                compared += 1;
            }
            _ => panic!("{args:?}"),
        }
    }
    assert!(compared > 30, "{compared}");
    assert_eq!(drains(&rig.run(&["journal", "-f", "json"]).await.1), expected(&log.unwrap()));
}

fn drains(log: &str) -> Vec<Value> {
    let events = log.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let drains = events.filter(|event| event["name"] == "drain" || event["name"] == "undrain");
    drains.map(|event| serde_json::json!([event["name"], event["context"]])).collect()
}

fn expected(log: &str) -> Vec<Value> {
    let mut events = drains(log);
    // As above: the request was refused.
    events.retain(|event| event[1]["reason"] != "first reason given");
    for event in &mut events {
        if event[0] == "undrain" {
            // Overwrite is read there and never written (SEEDS S27).
            assert!(event[1].as_object_mut().unwrap().remove("overwrite").is_some());
        }
    }
    events
}
