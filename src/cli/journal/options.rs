//! Values of options that are more than a word.

use std::{ffi::OsString, str::FromStr, time::Duration};

use clap::ValueEnum;
use serde_json::Value;

use crate::{cli::wait::time, store::eventlog::Ordered};

/// Numbers closer than this are equal.
const CLOSE: f64 = 1e-5;

/// Whether to use colours.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum When {
    /// Also into files and pipes.
    Always,
    /// Nowhere.
    Never,
    /// On a terminal, unless NO_COLOR is set or TERM is dumb.
    Auto,
}

impl When {
    /// What it means where the output is a terminal, or not, in such an environment (<https://no-color.org>).
    pub fn colored(self, terminal: bool, var: impl Fn(&str) -> Option<OsString>) -> bool {
        match self {
            When::Always => true,
            When::Never => false,
            When::Auto => {
                let refused = var("NO_COLOR").is_some_and(|value| !value.is_empty());
                terminal && !refused && var("TERM").is_none_or(|term| term != "dumb")
            }
        }
    }
}

/// A value that a context has to have.
#[derive(Clone, Debug)]
pub struct Match {
    key: String,
    value: Value,
}

impl FromStr for Match {
    type Err = String;

    fn from_str(text: &str) -> Result<Match, String> {
        let (key, value) =
            text.split_once('=').ok_or_else(|| format!("invalid KEY=VAL argument: '{text}' (missing '=')"))?;
        if key.is_empty() {
            return Err(format!("invalid KEY=VAL argument: '{text}' (empty key)"));
        }
        let value = serde_json::from_str(value).unwrap_or_else(|_| Value::from(value));
        Ok(Match { key: key.to_owned(), value })
    }
}

impl Match {
    /// The context has it.
    pub fn holds(&self, context: &Ordered) -> bool {
        let Some(value) = context.get(&self.key).and_then(|text| serde_json::from_str::<Value>(text).ok()) else {
            return false;
        };
        match (value.as_f64(), self.value.as_f64()) {
            (Some(found), Some(wanted)) => (found - wanted).abs() < CLOSE,
            _ => value == self.value,
        }
    }
}

/// A duration such as `10s`, `1.5m`, `2h`, `1d`, `250ms`, or `1d12h` as other commands have it; seconds without a unit.
///
/// # Errors
/// It is none.
pub fn duration(text: &str) -> Result<Duration, String> {
    let units = [("ms", 0.001), ("us", 0.000_001), ("s", 1.0), ("m", 60.0), ("h", 3600.0), ("d", 86400.0)];
    let unit = units.into_iter().find_map(|(unit, factor)| Some((text.strip_suffix(unit)?, factor)));
    let (number, factor) = unit.unwrap_or((text, 1.0));
    let seconds = number.parse::<f64>().ok().map(|number| number * factor).filter(|seconds| *seconds >= 0.0);
    seconds
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
        .or_else(|| time(text).ok())
        .ok_or_else(|| format!("invalid duration '{text}': a number with ms, s, m, h or d is expected"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_units() {
        let millis = |text: &str| duration(text).unwrap().as_millis();
        assert_eq!([millis("10"), millis("1.5m"), millis("250ms"), millis("0")], [10_000, 90_000, 250, 0]);
        assert_eq!([millis("1d"), millis("1d12h"), millis("1m30s")], [86_400_000, 129_600_000, 90_000]);
        for text in ["notanumber", "", "s", "-1s", "nan", "1e400s"] {
            assert!(duration(text).unwrap_err().starts_with(&format!("invalid duration '{text}'")), "{text}");
        }
    }

    #[test]
    fn a_terminal_may_refuse_colours() {
        let colored = |when: When, terminal, name: &str, value: &str| {
            when.colored(terminal, |asked| (asked == name).then(|| OsString::from(value)))
        };
        assert!(colored(When::Auto, true, "TERM", "xterm") && colored(When::Auto, true, "NO_COLOR", ""));
        assert!(!colored(When::Auto, true, "NO_COLOR", "1") && !colored(When::Auto, true, "TERM", "dumb"));
        assert!(!colored(When::Auto, false, "TERM", "xterm"));
        assert!(colored(When::Always, true, "NO_COLOR", "1") && !colored(When::Never, true, "TERM", "xterm"));
    }

    #[test]
    fn values_are_json_or_text() {
        // J9
        let context: Ordered =
            serde_json::from_str(r#"{"idset":"3","overwrite":1,"expiration":1.000001,"reason":"a b"}"#).unwrap();
        let holds = |text: &str| text.parse::<Match>().unwrap().holds(&context);
        assert!(holds("overwrite=1") && holds("idset=\"3\"") && holds("expiration=1") && holds("reason=a b"));
        assert!(!holds("idset=3") && !holds("overwrite=2") && !holds("missing=1"));
        assert_eq!("x".parse::<Match>().unwrap_err(), "invalid KEY=VAL argument: 'x' (missing '=')");
        assert_eq!("=x".parse::<Match>().unwrap_err(), "invalid KEY=VAL argument: '=x' (empty key)");
    }
}
