//! Amounts, times and numbers as people say them.

use std::collections::BTreeMap;

use jiff::Timestamp;

use crate::http::api::board::why::{noun, shown};

/// Amounts by type: `8 GiB memory, 2 cores`.
pub fn amounts(resource: &BTreeMap<String, i64>) -> String {
    let one = |(kind, amount): (&String, &i64)| format!("{} {}", shown(kind, *amount), noun(kind, *amount));
    let mut kinds: Vec<(&String, &i64)> = resource.iter().filter(|(_, amount)| **amount != 0).collect();
    // Memory and cores first: everybody has them.
    kinds.sort_by_key(|(kind, _)| (*kind != "memory", *kind != "vcore"));
    kinds.into_iter().map(one).collect::<Vec<_>>().join(", ")
}

/// How long ago a time was: `12s`, `5m`, `3h`, `2d`; what is no time as it is.
pub fn age(since: &str, now: Timestamp) -> String {
    let Ok(since) = since.parse::<Timestamp>() else { return since.to_owned() };
    let seconds = now.as_second().saturating_sub(since.as_second()).max(0);
    match seconds {
        0..120 => format!("{seconds}s"),
        120..7_200 => format!("{}m", seconds / 60),
        7_200..172_800 => format!("{}h", seconds / 3_600),
        _ => format!("{}d", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::words::plural;

    #[test]
    fn what_people_read() {
        let amounts = amounts(&BTreeMap::from([
            ("gpu".to_owned(), 2),
            ("memory".to_owned(), 3 << 29),
            ("pods".to_owned(), 0),
            ("vcore".to_owned(), 1000),
        ]));
        assert_eq!(amounts, "1.5 GiB memory, 1 core, 2 gpu");
        assert_eq!((plural(1, "ask"), plural(0, "ask")), ("1 ask".to_owned(), "0 asks".to_owned()));
        let now = "2026-11-20T12:00:00Z".parse().unwrap();
        for (since, told) in [
            ("2026-11-20T11:59:30Z", "30s"),
            ("2026-11-20T11:00:00Z", "60m"),
            ("2026-11-20T02:00:00Z", "10h"),
            ("2026-11-10T12:00:00Z", "10d"),
            ("2026-11-21T12:00:00Z", "0s"),
            ("soon", "soon"),
        ] {
            assert_eq!(age(since, now), told);
        }
    }
}
