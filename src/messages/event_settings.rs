//! Settings of the event system: the `event.…` keys of the extra configuration (CFG-110).

use std::{collections::BTreeMap, time::Duration};

use crate::domain::types::Nanos;

/// What can be set; a change is applied at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventSettings {
    /// `event.trackingEnabled`: new events are recorded. What was recorded stays readable either way (SEEDS S16).
    pub tracking: bool,
    /// `event.ringBufferCapacity`: how many records `/ws/v1/events` reaches back, at least 1.
    pub ring_capacity: u64,
    /// `event.requestCapacity`: how many records are collected for a shim between two deliveries, at least 1.
    pub request_capacity: u64,
    /// `event.maxStreams`: open streams in all, 0 for none.
    pub max_streams: u64,
    /// `event.maxStreamsPerHost`: open streams of one client address, 0 for none.
    pub max_streams_per_host: u64,
    /// `event.RESTResponseSize`: records in one answer of the batch endpoint, at least 1.
    pub response_size: u64,
    /// What the durable store keeps, and how often it is flushed.
    pub store: StoreSettings,
}

/// Settings of the durable event store. Where several limits are set, each holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreSettings {
    /// `event.store.maxEvents`: events, 0 for no limit.
    pub max_events: u64,
    /// `event.store.maxBytes`: bytes on disk, 0 for no limit; `Ki`, `Mi`, `Gi` and `Ti` are understood.
    pub max_bytes: u64,
    /// `event.store.maxAge`: age of an event as a duration such as `168h`, 0 for no limit.
    pub max_age: Nanos,
    /// `event.store.flushInterval`: what a crash may lose at most, from `10ms` to `1h`.
    pub flush_interval: Duration,
}

impl Default for StoreSettings {
    fn default() -> StoreSettings {
        StoreSettings {
            max_events: 20_000_000,
            max_bytes: 1 << 30,
            max_age: Nanos::from_secs(7 * 24 * 3_600),
            flush_interval: Duration::from_secs(1),
        }
    }
}

impl Default for EventSettings {
    fn default() -> EventSettings {
        EventSettings {
            tracking: true,
            ring_capacity: 100_000,
            request_capacity: 1_000,
            max_streams: 100,
            max_streams_per_host: 15,
            response_size: 10_000,
            store: StoreSettings::default(),
        }
    }
}

impl EventSettings {
    /// The settings that an extra configuration asks for: keys that are missing or have an unusable value count as
    /// their default (CFG-110), and each unusable value is told to `complain` as key and value.
    pub fn from_extra(extra: &BTreeMap<String, String>, complain: &mut dyn FnMut(&str, &str)) -> EventSettings {
        let default = EventSettings::default();
        let mut keys = Keys { extra, complain };
        EventSettings {
            tracking: keys.get("event.trackingEnabled", default.tracking, parse_bool),
            ring_capacity: keys.get("event.ringBufferCapacity", default.ring_capacity, parse_positive),
            request_capacity: keys.get("event.requestCapacity", default.request_capacity, parse_positive),
            max_streams: keys.get("event.maxStreams", default.max_streams, parse_u64),
            max_streams_per_host: keys.get("event.maxStreamsPerHost", default.max_streams_per_host, parse_u64),
            response_size: keys.get("event.RESTResponseSize", default.response_size, parse_positive),
            store: StoreSettings {
                max_events: keys.get("event.store.maxEvents", default.store.max_events, parse_u64),
                max_bytes: keys.get("event.store.maxBytes", default.store.max_bytes, parse_bytes),
                max_age: keys.get("event.store.maxAge", default.store.max_age, parse_duration),
                flush_interval: keys.get("event.store.flushInterval", default.store.flush_interval, parse_interval),
            },
        }
    }
}

struct Keys<'a> {
    extra: &'a BTreeMap<String, String>,
    complain: &'a mut dyn FnMut(&str, &str),
}

impl Keys<'_> {
    fn get<T>(&mut self, key: &str, default: T, parse: impl FnOnce(&str) -> Option<T>) -> T {
        let Some(text) = self.extra.get(key) else { return default };
        parse(text).unwrap_or_else(|| {
            (self.complain)(key, text);
            default
        })
    }
}

/// The spellings of the reference (CFG-110).
fn parse_bool(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
        _ => None,
    }
}

/// Digits only: no sign, no blanks.
fn parse_u64(text: &str) -> Option<u64> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

fn parse_positive(text: &str) -> Option<u64> {
    parse_u64(text).filter(|number| *number > 0)
}

fn parse_bytes(text: &str) -> Option<u64> {
    let units = [("Ki", 10), ("Mi", 20), ("Gi", 30), ("Ti", 40)];
    let unit = units.iter().find_map(|(unit, shift)| Some((text.strip_suffix(unit)?, *shift)));
    let (number, shift) = unit.unwrap_or((text, 0));
    parse_u64(number)?.checked_mul(1 << shift)
}

fn parse_interval(text: &str) -> Option<Duration> {
    let nanos = u64::try_from(parse_duration(text)?.0).ok()?;
    Some(Duration::from_nanos(nanos)).filter(|d| (Duration::from_millis(10)..=Duration::from_secs(3_600)).contains(d))
}

/// A duration of zero or more: decimal numbers with units, such as `1h30m` (CFG-112).
pub fn parse_duration(text: &str) -> Option<Nanos> {
    if text == "0" {
        return Some(Nanos::ZERO);
    }
    let (mut rest, mut total) = (text, 0i64);
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, tail) = rest.split_at(digits);
        let units = [
            ("ns", 1),
            ("us", 1_000),
            ("µs", 1_000),
            ("ms", 1_000_000),
            ("s", 1_000_000_000),
            ("m", 60_000_000_000),
            ("h", 3_600_000_000_000),
        ];
        let (unit, scale) = units.into_iter().find(|(unit, _)| tail.starts_with(unit))?;
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if whole.is_empty() && fraction.is_empty() || fraction.contains('.') {
            return None;
        }
        let whole: i64 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
        let mut part = whole.checked_mul(scale)?;
        let mut place = scale;
        for digit in fraction.bytes() {
            place /= 10;
            part = part.checked_add(place * i64::from(digit - b'0'))?;
        }
        total = total.checked_add(part)?;
        rest = &tail[unit.len()..];
    }
    (!text.is_empty()).then_some(Nanos(total))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(pairs: &[(&str, &str)]) -> (EventSettings, Vec<String>) {
        let extra = pairs.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
        let mut bad = Vec::new();
        let settings = EventSettings::from_extra(&extra, &mut |key, value| bad.push(format!("{key}={value}")));
        (settings, bad)
    }

    // CFG-110
    #[test]
    fn defaults_and_values() {
        assert_eq!(parse(&[]), (EventSettings::default(), vec![]));
        let (settings, bad) = parse(&[
            ("event.trackingEnabled", "f"),
            ("event.ringBufferCapacity", "10"),
            ("event.requestCapacity", "3"),
            ("event.maxStreams", "0"),
            ("event.maxStreamsPerHost", "0"),
            ("event.RESTResponseSize", "7"),
        ]);
        assert!(bad.is_empty());
        let expected = EventSettings {
            tracking: false,
            ring_capacity: 10,
            request_capacity: 3,
            max_streams: 0,
            max_streams_per_host: 0,
            response_size: 7,
            store: StoreSettings::default(),
        };
        assert_eq!(settings, expected);
    }

    // CFG-110, CFG-111
    #[test]
    fn unusable_values_count_as_default() {
        let (settings, bad) = parse(&[
            ("event.trackingEnabled", "yes"),
            ("event.ringBufferCapacity", "0"),
            ("event.requestCapacity", "-1"),
            ("event.maxStreams", "+5"),
            ("event.RESTResponseSize", ""),
            ("event.ringbufferCapacity", "5"),
        ]);
        assert_eq!(settings, EventSettings::default());
        assert_eq!(
            bad,
            [
                "event.trackingEnabled=yes",
                "event.ringBufferCapacity=0",
                "event.requestCapacity=-1",
                "event.maxStreams=+5",
                "event.RESTResponseSize="
            ]
        );
    }

    #[test]
    fn settings_of_the_store() {
        let (settings, bad) = parse(&[
            ("event.store.maxEvents", "0"),
            ("event.store.maxBytes", "2Gi"),
            ("event.store.maxAge", "1h30m"),
            ("event.store.flushInterval", "250ms"),
        ]);
        assert!(bad.is_empty());
        let expected = StoreSettings {
            max_events: 0,
            max_bytes: 2 << 30,
            max_age: Nanos::from_secs(5_400),
            flush_interval: Duration::from_millis(250),
        };
        assert_eq!(settings.store, expected);
        let (settings, bad) = parse(&[
            ("event.store.maxEvents", "-1"),
            ("event.store.maxBytes", "2GB"),
            ("event.store.maxAge", "30"),
            ("event.store.flushInterval", "0"),
        ]);
        assert_eq!((settings.store, bad.len()), (StoreSettings::default(), 4));
    }

    // CFG-112
    #[test]
    fn durations() {
        for (text, nanos) in [
            ("0", Some(0)),
            ("1.5h", Some(5_400_000_000_000)),
            ("1m30s", Some(90_000_000_000)),
            (".5s", Some(500_000_000)),
            ("5µs7us3ns", Some(12_003)),
            ("250ms", Some(250_000_000)),
            ("", None),
            ("30", None),
            ("s", None),
            (".s", None),
            ("1.2.3s", None),
            ("-1s", None),
            ("1d", None),
            ("9999999999h", None),
        ] {
            assert_eq!(parse_duration(text).map(|d| d.0), nanos, "{text}");
        }
    }
}
