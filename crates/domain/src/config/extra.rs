//! The flat settings that come beside the YAML text (CFG-110–CFG-116).
//!
//! Keys are case-sensitive; unknown ones do nothing, values that cannot be read count as their defaults. What keys there are, and
//! how each is read, is in the [`table`](super::table).

use std::{collections::BTreeMap, time::Duration};

use super::table::{Reader, find};
use crate::{
    event_settings::{EventSettings, StoreSettings},
    types::Nanos,
};

type Map = BTreeMap<String, String>;

/// All settings. `event.*`, `health.*`, `log.*`, `metrics.*`, `traces.*` and `http.*` hold for the process, `rm.*`, `shim.*` and `journal.*`
/// for the resource manager that sent them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// `event.*`: what is recorded, how far back it can be read, and how many may stream it.
    pub event: EventSettings,
    /// `health.checkInterval`; `None`: no checks (zero or below).
    pub health_check_interval: Option<Duration>,
    /// Log levels.
    pub log: LogLevels,
    /// Session of the resource manager.
    pub rm: RmSettings,
    /// `journal.maxEvents`: events that a resource journal keeps in memory at most, at least 2.
    pub journal_events: usize,
    /// `shim.predicates.constrained`: allocations that do not say otherwise constrain others (R5.27).
    pub constrained: bool,
    /// `shim.predicates.timeout`: without an answer so long after the shim was asked it does not fit.
    pub predicate_timeout: Duration,
    /// `shim.containerStates` is `all`: SCHEDULED and RESERVED are reported too (SEEDS S7).
    pub all_container_states: bool,
    /// `http.maxBodyBytes`, at least 64Ki, so that it can be changed again: larger bodies are refused; `None`: as the server was
    /// started.
    pub max_body_bytes: Option<u64>,
    /// `metrics.queues`: queues that have metrics of their own.
    pub metrics_queues: String,
    /// `metrics.topQueues`: so many of these at most, of the lowest where there are more; 0: all of them.
    pub metrics_top: usize,
    /// `metrics.topUsers`: users that have metrics, in each partition.
    pub metrics_top_users: usize,
    /// `http.requestsPerSecond`: of one caller; 0: no limit.
    pub requests_per_second: u64,
    /// `traces.oneIn`: of requests that are part of no trace, one in so many begins one; 0: none.
    pub traces_one_in: u64,
}

/// Settings of a resource manager's session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RmSettings {
    /// `rm.gracePeriod`: Running without a stream for this long after the registration.
    pub grace_period: Duration,
    /// `rm.pauseTimeout`: Paused this long, it is Stopped.
    pub pause_timeout: Duration,
    /// `rm.resendAfter`: a release that the shim has not confirmed is sent again.
    pub resend_after: Duration,
    /// `rm.unconfirmedWarning`: operators are told of a release that is not confirmed.
    pub unconfirmed_warning: Duration,
    /// `journal.torpidAfter`: a node that is not heard of for so long is torpid; zero: never.
    pub torpid_after: Duration,
    /// `rm.bufferedCallbacks`: callbacks kept for a shim that is away.
    pub buffered_callbacks: u64,
    /// `rm.bufferedBytes`: and their size.
    pub buffered_bytes: u64,
    /// `rm.itemsInFlight`: items of requests that may be on their way into the partitions; read at registration.
    pub items_in_flight: u64,
    /// `rm.undeliveredCallbacks`: callbacks that may be undelivered before placements pause; read at registration.
    pub undelivered_callbacks: u64,
    /// `rm.maxItems`: items of one request at most; `None`: as the server was started.
    pub max_items: Option<u64>,
    /// `rm.reservations`: asks that wait long enough reserve a node (R5.37); `None`: as the server was started.
    pub reservations: Option<bool>,
    /// `log.sync`: when what goes in counts as recorded; `None`: as the server was started; read at registration.
    pub log_sync: Option<&'static str>,
}

impl Settings {
    /// Reads the map; an empty one gives the defaults.
    pub fn read(map: &Map) -> Settings {
        let read = Reader(map);
        let time = |key| std(read.duration(key));
        let size = |key| usize::try_from(read.number(key)).unwrap_or(usize::MAX);
        Settings {
            event: EventSettings {
                tracking: read.flag("event.trackingEnabled").unwrap_or(true),
                request_capacity: read.number("event.requestCapacity"),
                ring_capacity: read.number("event.ringBufferCapacity"),
                max_streams: read.number("event.maxStreams"),
                max_streams_per_host: read.number("event.maxStreamsPerHost"),
                response_size: read.number("event.RESTResponseSize"),
                store: StoreSettings {
                    max_events: read.number("event.store.maxEvents"),
                    max_bytes: read.number("event.store.maxBytes"),
                    max_age: read.duration("event.store.maxAge"),
                    flush_interval: read.duration("event.store.flushInterval"),
                },
            },
            // A check looks at every book.
            health_check_interval: Some(time("health.checkInterval"))
                .filter(|interval| *interval > Duration::ZERO)
                .map(|interval| interval.max(Duration::from_millis(100))),
            log: LogLevels::read(map),
            rm: RmSettings {
                grace_period: time("rm.gracePeriod"),
                pause_timeout: time("rm.pauseTimeout"),
                resend_after: time("rm.resendAfter"),
                unconfirmed_warning: time("rm.unconfirmedWarning"),
                torpid_after: time("journal.torpidAfter"),
                buffered_callbacks: read.number("rm.bufferedCallbacks"),
                buffered_bytes: read.number("rm.bufferedBytes"),
                items_in_flight: read.number("rm.itemsInFlight"),
                undelivered_callbacks: read.number("rm.undeliveredCallbacks"),
                max_items: read.given_number("rm.maxItems"),
                reservations: read.flag("rm.reservations"),
                log_sync: read.word("log.sync"),
            },
            journal_events: size("journal.maxEvents"),
            constrained: read.flag("shim.predicates.constrained").unwrap_or(true),
            predicate_timeout: time("shim.predicates.timeout"),
            all_container_states: read.word("shim.containerStates") == Some("all"),
            metrics_queues: read.text("metrics.queues"),
            metrics_top: size("metrics.topQueues"),
            metrics_top_users: size("metrics.topUsers"),
            traces_one_in: read.number("traces.oneIn"),
            requests_per_second: read.number("http.requestsPerSecond"),
            max_body_bytes: read.given_number("http.maxBodyBytes"),
        }
    }
}

impl Default for Settings {
    fn default() -> Self {
        Settings::read(&Map::new())
    }
}

/// What is below zero is none.
fn std(time: Nanos) -> Duration {
    Duration::from_nanos(u64::try_from(time.0).unwrap_or_default())
}

/// How important a log line is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    /// For those who look for a fault.
    Debug,
    /// The default.
    #[default]
    Info,
    /// Something is odd.
    Warn,
    /// Something failed.
    Error,
    /// As [`LogLevel::Error`], kept apart because clients name it.
    DPanic,
    /// As [`LogLevel::DPanic`].
    Panic,
    /// The process cannot go on.
    Fatal,
}

impl LogLevel {
    const ALL: [(LogLevel, &'static str); 7] = [
        (LogLevel::Debug, "debug"),
        (LogLevel::Info, "info"),
        (LogLevel::Warn, "warn"),
        (LogLevel::Error, "error"),
        (LogLevel::DPanic, "dpanic"),
        (LogLevel::Panic, "panic"),
        (LogLevel::Fatal, "fatal"),
    ];

    /// A name in any case, nothing for info, or a number from -1 (debug) to 5 (fatal) (CFG-113).
    pub fn parse(text: &str) -> Option<LogLevel> {
        if text.is_empty() {
            return Some(LogLevel::Info);
        }
        if let Some((level, _)) = LogLevel::ALL.iter().find(|(_, name)| name.eq_ignore_ascii_case(text)) {
            return Some(*level);
        }
        let number: i64 = text.parse().ok()?;
        // In range after the clamp.
        let (level, _) = LogLevel::ALL[(number.clamp(-1, 5) + 1) as usize];
        Some(level)
    }

    /// The name in lowercase.
    pub fn name(self) -> &'static str {
        LogLevel::ALL[self as usize].1
    }
}

/// Subsystems that have a log level of their own (CFG-115).
pub const SUBSYSTEMS: [&str; 31] = [
    "core",
    "test",
    "deprecation",
    "core.config",
    "core.entrypoint",
    "core.events",
    "core.opentracing",
    "core.resources",
    "core.rest",
    "core.rmproxy",
    "core.rpc",
    "core.metrics",
    "core.scheduler",
    "core.scheduler.allocation",
    "core.scheduler.application",
    "core.scheduler.application.usage",
    "core.scheduler.context",
    "core.scheduler.fsm",
    "core.scheduler.health",
    "core.scheduler.node",
    "core.scheduler.partition",
    "core.scheduler.preemption",
    "core.scheduler.queue",
    "core.scheduler.reservation",
    "core.scheduler.ugm",
    "core.scheduler.nodesusage",
    "core.scheduler.preemption.quotachange",
    "core.scheduler.preemption.requirednode",
    "core.security",
    "core.utils",
    "core.diagnostics",
];

/// Log levels by subsystem (CFG-113–CFG-115).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogLevels {
    /// `log.level`.
    default: LogLevel,
    by_subsystem: BTreeMap<String, LogLevel>,
}

impl LogLevels {
    fn read(map: &Map) -> LogLevels {
        let mut levels = LogLevels { default: Reader(map).level("log.level"), ..LogLevels::default() };
        for (key, text) in map {
            let subsystem = key.strip_prefix("log.").and_then(|key| key.strip_suffix(".level"));
            if let (Some(subsystem), Some(_), Some(level)) = (subsystem, find(key), LogLevel::parse(text)) {
                levels.by_subsystem.insert(subsystem.to_owned(), level);
            }
        }
        levels
    }

    /// The level of a subsystem: its own, else that of the nearest one above it, else `log.level` (CFG-114).
    pub fn of(&self, subsystem: &str) -> LogLevel {
        let mut name = subsystem;
        loop {
            if let Some(level) = self.by_subsystem.get(name) {
                return *level;
            }
            match name.rsplit_once('.') {
                Some((above, _)) => name = above,
                None => return self.default,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pairs: &[(&str, &str)]) -> Settings {
        Settings::read(&pairs.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect())
    }

    #[test]
    fn defaults() {
        // CFG-110
        let settings = Settings::default();
        let event = EventSettings {
            tracking: true,
            request_capacity: 1000,
            ring_capacity: 100_000,
            max_streams: 100,
            max_streams_per_host: 15,
            response_size: 10_000,
            store: StoreSettings::default(),
        };
        assert_eq!(settings.event, event);
        assert_eq!(settings.health_check_interval, Some(Duration::from_secs(30)));
        let rm = RmSettings {
            grace_period: Duration::from_secs(30),
            pause_timeout: Duration::from_secs(300),
            resend_after: Duration::from_secs(10),
            unconfirmed_warning: Duration::from_secs(300),
            torpid_after: Duration::from_secs(30),
            buffered_callbacks: 1_000_000,
            buffered_bytes: 268_435_456,
            items_in_flight: 1_000_000,
            undelivered_callbacks: 100_000,
            max_items: None,
            reservations: None,
            log_sync: None,
        };
        assert_eq!(settings.rm, rm);
        assert_eq!(settings.predicate_timeout, Duration::from_secs(5));
        assert!(!settings.all_container_states);
        assert_eq!(settings.max_body_bytes, None);
    }

    #[test]
    fn the_event_store() {
        let settings = read(&[
            ("event.store.maxEvents", "0"),
            ("event.store.maxBytes", "2Gi"),
            ("event.store.maxAge", "1h30m"),
            ("event.store.flushInterval", "250ms"),
        ]);
        let store = StoreSettings {
            max_events: 0,
            max_bytes: 2 << 30,
            max_age: Nanos::from_secs(5_400),
            flush_interval: Nanos::from_millis(250),
        };
        assert_eq!(settings.event.store, store);
        let settings = read(&[
            ("event.store.maxEvents", "-1"),
            ("event.store.maxBytes", "2GB"),
            ("event.store.maxAge", "-1h"),
            ("event.store.flushInterval", "1ms"),
        ]);
        assert_eq!(settings.event.store, StoreSettings::default());
    }

    #[test]
    fn zero() {
        // CFG-110, test idea 40: only the stream limits can be 0.
        let settings = read(&[
            ("event.requestCapacity", "0"),
            ("event.ringBufferCapacity", "0"),
            ("event.maxStreams", "0"),
            ("event.maxStreamsPerHost", "0"),
            ("event.RESTResponseSize", "0"),
            ("event.trackingEnabled", "0"),
            ("rm.bufferedBytes", "0"),
        ]);
        let defaults = Settings::default();
        let event =
            EventSettings { tracking: false, max_streams: 0, max_streams_per_host: 0, ..defaults.event.clone() };
        assert_eq!(settings.event, event);
        assert_eq!(settings.rm, defaults.rm);
    }

    #[test]
    fn bad_values_and_other_keys() {
        // CFG-110, CFG-111
        let settings = read(&[
            ("event.trackingEnabled", "no"),
            ("event.requestCapacity", "-1"),
            ("event.maxStreams", "+5"),
            ("event.ringbufferCapacity", "7"),
            ("Event.maxStreams", "7"),
            ("health.checkInterval", "bad"),
            ("log.level", "loud"),
            ("log.core.level", "loud"),
            ("rm.gracePeriod", "-1s"),
            ("shim.predicates.timeout", "5"),
            ("shim.containerStates", "some"),
            ("http.maxBodyBytes", "1e6"),
        ]);
        assert_eq!(settings, Settings::default());
    }

    #[test]
    fn good_values() {
        let settings = read(&[
            ("event.trackingEnabled", "False"),
            ("event.ringBufferCapacity", "5"),
            ("health.checkInterval", "1m30s"),
            ("rm.gracePeriod", "1s"),
            ("rm.pauseTimeout", "1m"),
            ("rm.resendAfter", "3s"),
            ("rm.unconfirmedWarning", "2m"),
            ("shim.predicates.timeout", "250ms"),
            ("shim.containerStates", "all"),
            ("http.maxBodyBytes", "64Ki"),
        ]);
        assert!(!settings.event.tracking && settings.all_container_states);
        assert_eq!((settings.event.ring_capacity, settings.max_body_bytes), (5, Some(65_536)));
        assert_eq!(settings.health_check_interval, Some(Duration::from_secs(90)));
        assert_eq!(settings.rm.pause_timeout, Duration::from_secs(60));
        assert_eq!(settings.rm.resend_after, Duration::from_secs(3));
        assert_eq!(settings.rm.unconfirmed_warning, Duration::from_secs(120));
        assert_eq!(settings.predicate_timeout, Duration::from_millis(250));
        // OPS-010
        for off in ["0", "0s", "-1s"] {
            assert_eq!(read(&[("health.checkInterval", off)]).health_check_interval, None);
        }
        assert_eq!(read(&[("health.checkInterval", "1ns")]).health_check_interval, Some(Duration::from_millis(100)));
    }

    #[test]
    fn log_levels() {
        // CFG-113
        for (text, level) in [
            ("debug", LogLevel::Debug),
            ("WARN", LogLevel::Warn),
            ("", LogLevel::Info),
            ("-1", LogLevel::Debug),
            ("-9", LogLevel::Debug),
            ("2", LogLevel::Error),
            ("5", LogLevel::Fatal),
            ("99", LogLevel::Fatal),
        ] {
            assert_eq!(LogLevel::parse(text), Some(level), "{text:?}");
        }
        assert_eq!((LogLevel::parse("verbose"), LogLevel::DPanic.name()), (None, "dpanic"));
    }

    #[test]
    fn log_inheritance() {
        // CFG-114, test idea 41
        let log = read(&[("log.core.scheduler.level", "debug"), ("log.level", "warn")]).log;
        assert_eq!(log.of("core.scheduler.queue"), LogLevel::Debug);
        assert_eq!(log.of("core.config"), LogLevel::Warn);
        let log = read(&[("log.core..level", "debug"), ("log.a b.level", "debug"), ("log.core.level", "error")]).log;
        assert_eq!(
            (log.of("core.rest"), log.of("test"), log.of("a b")),
            (LogLevel::Error, LogLevel::Info, LogLevel::Info)
        );
        assert!(SUBSYSTEMS.contains(&"core.scheduler.preemption.quotachange"));
    }
}
