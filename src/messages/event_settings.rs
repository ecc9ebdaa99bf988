//! Settings of the event system: the `event.…` keys of the extra configuration (CFG-110).

use std::collections::BTreeMap;

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
        }
    }
}

impl EventSettings {
    /// The settings that an extra configuration asks for: keys that are missing or have an unusable value count as
    /// their default (CFG-110), and each unusable value is told to `complain` as key and value.
    pub fn from_extra(extra: &BTreeMap<String, String>, complain: &mut dyn FnMut(&str, &str)) -> EventSettings {
        let default = EventSettings::default();
        let mut bad = |key: &str, text: &str| complain(key, text);
        let mut flag = |key: &str, default: bool| match extra.get(key) {
            None => default,
            Some(text) => parse_bool(text).unwrap_or_else(|| {
                bad(key, text);
                default
            }),
        };
        let tracking = flag("event.trackingEnabled", default.tracking);
        let mut number = |key: &str, least: u64, default: u64| match extra.get(key) {
            None => default,
            Some(text) => parse_u64(text).filter(|number| *number >= least).unwrap_or_else(|| {
                bad(key, text);
                default
            }),
        };
        EventSettings {
            tracking,
            ring_capacity: number("event.ringBufferCapacity", 1, default.ring_capacity),
            request_capacity: number("event.requestCapacity", 1, default.request_capacity),
            max_streams: number("event.maxStreams", 0, default.max_streams),
            max_streams_per_host: number("event.maxStreamsPerHost", 0, default.max_streams_per_host),
            response_size: number("event.RESTResponseSize", 1, default.response_size),
        }
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
}
