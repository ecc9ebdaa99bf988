//! Moments and durations as the queries of `/api/v1` write them.

use crate::{
    domain::{duration, types::Nanos},
    http::problem::Problem,
};

/// A duration of 0 or more: `10m`, `1h30m`, also in days: `7d`, `1d12h`.
pub fn length(text: &str) -> Option<Nanos> {
    let Some((days, rest)) = text.split_once('d') else {
        return duration::parse(text).filter(|length| *length >= Nanos::ZERO);
    };
    let days: i64 = days.parse().ok().filter(|_| !days.starts_with(['+', '-']))?;
    let days = days.checked_mul(24 * 3_600 * 1_000_000_000)?;
    let rest = if rest.is_empty() { Nanos::ZERO } else { length(rest)? };
    days.checked_add(rest.0).map(Nanos)
}

/// A time, or a duration before now.
///
/// # Errors
/// Names the parameter, its value and what may be given.
pub fn moment(field: &str, text: &str, now: Nanos) -> Result<Nanos, Problem> {
    if let Some(ago) = length(text) {
        return Ok(now.minus(ago));
    }
    let time = text.parse::<jiff::Timestamp>().ok().and_then(|time| i64::try_from(time.as_nanosecond()).ok());
    time.map(Nanos).ok_or_else(|| {
        let forms = "a time such as 2026-11-20T19:00:00Z, or a duration before now such as 10m or 7d";
        Problem::field(field, format!("{field} \"{text}\" is not {forms}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_may_be_in_days() {
        for (text, seconds) in [("0", 0), ("90s", 90), ("7d", 7 * 86_400), ("1d12h", 36 * 3_600), ("0d1m30s", 90)] {
            assert_eq!(length(text), Some(Nanos::from_secs(seconds)), "{text}");
        }
        for text in ["", "d", "7", "-7d", "+7d", "1d-1h", "1d1d1", "7days", "1.5d", "200000d"] {
            assert_eq!(length(text), None, "{text}");
        }
    }
}
