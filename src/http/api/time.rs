//! Moments and durations as the queries of `/api/v1` write them.

use jiff::{Timestamp, civil::Date, tz::TimeZone};

use crate::{
    domain::{duration, types::Nanos},
    http::problem::Problem,
};

/// A duration of 0 or more: `10m`, `1h30m`, also in days: `7d`, `1d12h`. One that is longer than can be counted is that long.
pub fn length(text: &str) -> Option<Nanos> {
    let Some((days, rest)) = text.split_once('d') else {
        return duration::parse(text).filter(|length| *length >= Nanos::ZERO);
    };
    let days: i64 = days.parse().ok().filter(|_| !days.starts_with(['+', '-']))?;
    let days = days.saturating_mul(24 * 3_600 * 1_000_000_000);
    let rest = if rest.is_empty() { Nanos::ZERO } else { duration::parse(rest)? };
    (rest >= Nanos::ZERO).then(|| Nanos(days.saturating_add(rest.0)))
}

/// A time in ns since the Unix epoch; what is beyond those that can be counted is the last, or the first, of them.
pub fn nanos(time: Timestamp) -> Nanos {
    Nanos(time.as_nanosecond().clamp(i64::MIN.into(), i64::MAX.into()) as i64)
}

/// A time, a day (its midnight, UTC), or a duration before now; what is beyond the times that can be counted is the last, or the first, of them.
///
/// # Errors
/// Names the parameter, its value and what may be given.
pub fn moment(field: &str, text: &str, now: Nanos) -> Result<Nanos, Problem> {
    if let Some(ago) = length(text) {
        return Ok(now.minus(ago));
    }
    // Of a longer text the reader of days would pass over the time.
    let day = || text.parse::<Date>().ok().filter(|_| text.len() == "2026-11-20".len());
    let midnight = || day()?.to_zoned(TimeZone::UTC).ok().map(|day| day.timestamp());
    let time = text.parse::<Timestamp>().ok().or_else(midnight);
    time.map(nanos).ok_or_else(|| {
        let forms =
            "a time such as 2026-11-20T19:00:00Z, a day such as 2026-11-20, or a duration before now such as 10m or 7d";
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
        for text in ["", "d", "7", "-7d", "+7d", "1d-1h", "1d1d", "1d1d1", "7days", "1.5d"] {
            assert_eq!(length(text), None, "{text}");
        }
        assert_eq!(length(&"1d".repeat(1_000_000)), None, "whatever its length");
    }

    #[test]
    fn a_day_is_its_midnight() {
        let read = |text: &str| moment("since", text, Nanos::ZERO);
        assert_eq!(read("2026-11-26").expect("a day"), read("2026-11-26T00:00:00Z").expect("a time"));
        for wrong in ["2026-11-31", "2026-11-26T10:00", "2026-11", "20261126T1"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_is_far_away_is_as_far_as_can_be() {
        let now = Nanos::from_secs(1_800_000_000);
        let read = |text: &str| moment("since", text, now).expect("a time");
        assert_eq!(length("200000d"), Some(Nanos(i64::MAX)));
        assert_eq!(read("2999-01-01T00:00:00Z"), Nanos(i64::MAX));
        assert_eq!(read("1000-01-01T00:00:00Z"), Nanos(i64::MIN));
        assert!(read("9999999d") < Nanos::ZERO);
        assert!(moment("since", "2999-13-01T00:00:00Z", now).is_err());
    }
}
