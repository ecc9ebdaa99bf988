//! The history of usage as text. Amounts are exact: decimal numbers in strings, with up to nine places.

use serde_json::{Map, Value, json};

use crate::{
    domain::{
        resources::Resource,
        usage::{By, Gap, History, Line, Share},
    },
    http::ws_v1::time_text,
};

/// Lines, each with its end.
pub fn text(by: By, lines: &[Line]) -> Vec<u8> {
    lines.iter().map(|line| with_end(&shown(by, line))).collect::<String>().into()
}

/// The last line of a whole answer.
pub fn end(by: By, history: &History) -> Vec<u8> {
    let (since, until) = history.extent();
    let end = json!({
        "since": time_text(since), "until": time_text(until), "by": by.name(),
        "complete": history.is_complete(), "events": history.events(),
    });
    with_end(&end).into()
}

/// The last line of an answer that broke off.
pub fn closed(detail: &str) -> Vec<u8> {
    with_end(&json!({"closed": {"detail": detail}})).into()
}

fn with_end(line: &Value) -> String {
    format!("{line}\n")
}

fn shown(by: By, line: &Line) -> Value {
    match line {
        Line::Share(Share { from, to, name, used }) => json!({
            "from": time_text(*from), "to": time_text(*to), by.name(): &**name, "resourceSeconds": seconds(used),
        }),
        Line::Gap(Gap { from, to, reason, detail }) => {
            let mut gap = json!({"from": time_text(*from), "to": time_text(*to), "reason": reason});
            if !detail.is_empty() {
                gap["detail"] = json!(&**detail);
            }
            json!({ "gap": gap })
        }
    }
}

/// Amounts times nanoseconds, told in amounts times seconds.
fn seconds(used: &Resource) -> Value {
    let amounts = used.iter().map(|(kind, amount)| (kind.name().to_owned(), decimal(amount).into()));
    Value::Object(amounts.collect::<Map<_, _>>())
}

fn decimal(nanos: i128) -> String {
    const SECOND: u128 = 1_000_000_000;
    let sign = if nanos < 0 { "-" } else { "" };
    let (whole, part) = (nanos.unsigned_abs() / SECOND, nanos.unsigned_abs() % SECOND);
    if part == 0 {
        return format!("{sign}{whole}");
    }
    let digits = format!("{part:09}");
    format!("{sign}{whole}.{}", digits.trim_end_matches('0'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::types::Nanos;

    #[test]
    fn amounts_are_exact() {
        let told = [
            (0, "0"),
            (1, "0.000000001"),
            (-1_500_000_000, "-1.5"),
            (7_000_000_000, "7"),
            (10_000_000_010, "10.00000001"),
        ];
        for (nanos, text) in told {
            assert_eq!(decimal(nanos), text);
        }
        assert_eq!(decimal(i128::MAX), "170141183460469231731687303715.884105727");
    }

    #[test]
    fn lines_name_what_they_are_for() {
        let mut used = Resource::of(&[("vcore", 2_500_000_000), ("memory", 1_000_000_000)]);
        used.prune();
        let share = Share { from: Nanos(0), to: Nanos::from_secs(1), name: "alice".into(), used };
        let gap = Gap { from: Nanos(0), to: Nanos(5), reason: "damage", detail: "file at byte 7".into() };
        let text = String::from_utf8(text(By::User, &[Line::Share(share), Line::Gap(gap)])).unwrap();
        assert_eq!(
            text,
            "{\"from\":\"1970-01-01T00:00:00Z\",\"resourceSeconds\":{\"memory\":\"1\",\"vcore\":\"2.5\"},\
             \"to\":\"1970-01-01T00:00:01Z\",\"user\":\"alice\"}\n\
             {\"gap\":{\"detail\":\"file at byte 7\",\"from\":\"1970-01-01T00:00:00Z\",\"reason\":\"damage\",\
             \"to\":\"1970-01-01T00:00:00.000000005Z\"}}\n"
        );
    }
}
