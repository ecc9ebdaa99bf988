//! When a resource set expires, as an operator says it.

use std::{str::FromStr, time::Duration};

use jiff::Timestamp;

use crate::cli::journal::duration;

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// Seconds since the Unix epoch; 0: never.
    At(i64),
    /// So long from now.
    In(Duration),
}

impl FromStr for When {
    type Err = String;

    fn from_str(text: &str) -> Result<When, String> {
        if text == "none" {
            return Ok(When::At(0));
        }
        let wrong = || {
            format!(
                "'{text}' is no time: give seconds since 1970, 2026-12-01T06:00:00Z, 8h for that long from now, or none"
            )
        };
        if let Some(seconds) = text.parse::<f64>().ok().filter(|seconds| seconds.is_finite()) {
            // What is cut to 0 would mean something else.
            return (seconds == 0.0 || seconds.abs() >= 1.0).then_some(When::At(seconds as i64)).ok_or_else(wrong);
        }
        if let Ok(time) = text.parse::<Timestamp>() {
            return Ok(When::At(time.as_second()));
        }
        duration(text).map(When::In).map_err(|_| wrong())
    }
}

impl When {
    /// Seconds since the Unix epoch, 0: never.
    pub fn seconds(self, now: Timestamp) -> i64 {
        match self {
            When::At(seconds) => seconds,
            When::In(duration) => now.as_second().saturating_add_unsigned(duration.as_secs()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_said_in_several_ways() {
        let now = Timestamp::from_second(1_000).unwrap();
        for (text, seconds) in [
            ("none", 0),
            ("0", 0),
            ("1738009133", 1_738_009_133),
            // As other writers of the RFC have it (SEEDS S19).
            ("1738009133.75", 1_738_009_133),
            ("2026-12-01T06:00:00Z", 1_796_104_800),
            ("2026-12-01T07:00:00+01:00", 1_796_104_800),
            ("8h", 29_800),
            ("90s", 1_090),
        ] {
            assert_eq!(text.parse::<When>().unwrap().seconds(now), seconds, "{text}");
        }
        for text in ["", "tomorrow", "12:00", "1.5.2", "inf", "0.5", "-0.5"] {
            assert!(text.parse::<When>().unwrap_err().contains("is no time"), "{text}");
        }
    }
}
