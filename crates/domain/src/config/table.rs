//! Every key that may come beside the configuration, as `extraConfig` of a resource manager or as `--set` of the server: its
//! form, default and meaning. What reads a setting reads it through here, and `docs/settings.md` is written from here.

use std::{collections::BTreeMap, fmt};

use super::extra::LogLevel;
use crate::{duration, names::is_queue_name, settings::unsigned, types::Nanos};

type Map = BTreeMap<String, String>;

/// A key.
#[derive(Debug)]
pub struct Setting {
    /// Its name; case counts.
    pub key: &'static str,
    /// The form of its value.
    pub form: Form,
    /// Its value where nothing is given; `None`: as the server was started, with the option that `text` names.
    pub default: Option<&'static str>,
    /// A change is in force at once; else with the next registration.
    pub live: bool,
    /// A value that cannot be read refuses the request; else it counts as the default, which the log tells (CFG-110).
    pub strict: bool,
    /// What it does.
    pub text: &'static str,
}

/// For whom a setting holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The whole server: the last writer wins.
    Server,
    /// The resource manager that sent it.
    ResourceManager,
}

/// The form of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// A duration such as `30s`, within these.
    Duration(Nanos, Nanos),
    /// A whole number, within these.
    Count(u64, u64),
    /// Bytes, with a binary unit or without, this at least.
    Bytes(u64),
    /// `true` or `false`.
    Flag,
    /// The same, and as the reference has it: `1`, `t`, `0`, `F` …
    AnyFlag,
    /// One of these.
    Word(&'static [&'static str]),
    /// A log level by name or number (CFG-113).
    Level,
    /// `all`, or paths of queues with commas between.
    Queues,
}

/// A value that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value {
    /// Of [`Form::Duration`].
    Duration(Nanos),
    /// Of [`Form::Count`] and [`Form::Bytes`].
    Number(u64),
    /// Of [`Form::Flag`] and [`Form::AnyFlag`].
    Flag(bool),
    /// Of [`Form::Word`].
    Word(&'static str),
    /// Of [`Form::Level`].
    Level(LogLevel),
    /// Of [`Form::Queues`]: the text as it is.
    Text,
}

/// Keys of the whole server begin with one of these.
pub const SERVER: [&str; 6] = ["event.", "health.", "http.", "log.", "metrics.", "traces."];
/// How keys begin of which there are none but those of the table.
const OWN: [&str; 8] = ["event.", "health.", "http.", "journal.", "metrics.", "rm.", "shim.", "traces."];
/// Stands for a subsystem in a key of the table.
const SUBSYSTEM: &str = "log.SUBSYSTEM.level";
/// Begins as those of the server do, but each resource manager has a log of its own.
const LOG_SYNC: &str = "log.sync";

const ABOVE_ZERO: Form = Form::Duration(Nanos(1), Nanos(i64::MAX));
const FROM_ZERO: Form = Form::Duration(Nanos::ZERO, Nanos(i64::MAX));
/// Credits are added and taken as signed numbers.
const CREDITS: Form = Form::Count(1, (1 << 40) - 1);
const ONE_OR_MORE: Form = Form::Count(1, u64::MAX);
const ANY: Form = Form::Count(0, u64::MAX);

const fn lenient(key: &'static str, form: Form, default: &'static str, text: &'static str) -> Setting {
    Setting { key, form, default: Some(default), live: true, strict: false, text }
}

const fn strict(key: &'static str, form: Form, default: &'static str, text: &'static str) -> Setting {
    Setting { key, form, default: Some(default), live: true, strict: true, text }
}

const fn at_registration(key: &'static str, form: Form, default: &'static str, text: &'static str) -> Setting {
    Setting { key, form, default: Some(default), live: false, strict: true, text }
}

const fn as_started(key: &'static str, form: Form, text: &'static str) -> Setting {
    Setting { key, form, default: None, live: true, strict: true, text }
}

/// What a resource manager may set at most whose token is no operator's: more would be taken from the others.
pub const MOST: [(&str, &str); 6] = [
    ("journal.maxEvents", "1000000"),
    ("rm.bufferedBytes", "1Gi"),
    ("rm.bufferedCallbacks", "10000000"),
    ("rm.gracePeriod", "24h"),
    ("rm.itemsInFlight", "10000000"),
    ("rm.pauseTimeout", "24h"),
];

/// All of them, by scope and name.
pub static TABLE: &[Setting] = &[
    lenient("event.RESTResponseSize", ONE_OR_MORE, "10000", "Records in one answer of `/ws/v1/events/batch`"),
    lenient(
        "event.maxStreams",
        ANY,
        "100",
        "Open event streams of `/ws/v1`, and followers of `/api/v1/events`, in all; 0: none",
    ),
    lenient("event.maxStreamsPerHost", ANY, "15", "The same of one client address; 0: none"),
    lenient(
        "event.requestCapacity",
        ONE_OR_MORE,
        "1000",
        "Records that are collected for a shim between two deliveries; another number counts from the next delivery on",
    ),
    lenient("event.ringBufferCapacity", ONE_OR_MORE, "100000", "Records that `/ws/v1/events/batch` reaches back"),
    lenient(
        "event.store.flushInterval",
        Form::Duration(Nanos::from_millis(10), Nanos::from_secs(3_600)),
        "1s",
        "What a kill may lose of the stored events at most",
    ),
    lenient("event.store.maxAge", FROM_ZERO, "168h", "Age of a stored event; 0: no limit"),
    lenient("event.store.maxBytes", Form::Bytes(0), "1Gi", "Size of the stored events; 0: no limit"),
    lenient("event.store.maxEvents", ANY, "20000000", "Number of stored events; 0: no limit"),
    lenient("event.trackingEnabled", Form::AnyFlag, "true", "New events are recorded"),
    lenient(
        "health.checkInterval",
        Form::Duration(Nanos(i64::MIN), Nanos(i64::MAX)),
        "30s",
        "Time between two health checks, less than 100ms counts as that; 0 or less: none after that at the start",
    ),
    as_started(
        "http.maxBodyBytes",
        Form::Bytes(64 << 10),
        "Largest request of the HTTP and gRPC doors; as `--http-max-body-bytes` where it is not set",
    ),
    strict(
        "http.requestsPerSecond",
        Form::Count(0, 1_000_000),
        "0",
        "Requests of one caller at the HTTP and gRPC doors: a token, else an address; two seconds' worth at once, beyond it 429; 0: no limit",
    ),
    strict(
        "journal.maxEvents",
        Form::Count(2, u64::MAX),
        "100000",
        "Events that a resource journal keeps in memory; more than 1000000 only by an operator",
    ),
    strict("journal.torpidAfter", FROM_ZERO, "30s", "Silence after which a node is torpid; 0: never"),
    lenient(
        SUBSYSTEM,
        Form::Level,
        "",
        "Log level of a subsystem and of those below it; that above it where it is not set",
    ),
    lenient("log.level", Form::Level, "info", "Log level of what has none of its own; `RUST_LOG` goes before"),
    Setting {
        live: false,
        ..as_started(
            LOG_SYNC,
            Form::Word(&["interval", "batch", "off"]),
            "When what goes in counts as recorded; as `--log-sync` where it is not set",
        )
    },
    strict(
        "metrics.queues",
        Form::Queues,
        "all",
        "Queues that have metrics of their own: `all`, or paths with commas between; `root.a.*` means all that is below",
    ),
    strict(
        "metrics.topQueues",
        Form::Count(0, 1_000_000),
        "10000",
        "Of these, the queues that have metrics of their own at most. Where there are more: those with the largest share of what is allocated or asked for, of those that have none of these below them (the leaves, where `metrics.queues` is `all`). 0: however many there are, which who may submit to dynamic queues then decides",
    ),
    strict(
        "metrics.topUsers",
        Form::Count(0, 10_000),
        "20",
        "Users that have a metric of what they have, in each partition: those with the largest shares; 0: none",
    ),
    at_registration(
        "rm.bufferedBytes",
        Form::Bytes(1),
        "256Mi",
        "Size of the callbacks that are kept for a shim that is away; placements pause while half of it is undelivered; more than 1Gi only by an operator",
    ),
    at_registration(
        "rm.bufferedCallbacks",
        CREDITS,
        "1000000",
        "Callbacks that are kept for a shim that is away, beyond which the session ends; more than 10000000 only by an operator",
    ),
    at_registration(
        "rm.gracePeriod",
        ABOVE_ZERO,
        "30s",
        "Time after a registration in which no stream need be open; more than 24h only by an operator",
    ),
    at_registration(
        "rm.itemsInFlight",
        CREDITS,
        "1000000",
        "Items of requests that may be on their way, beyond which 429; more than 10000000 only by an operator",
    ),
    as_started(
        "rm.maxItems",
        CREDITS,
        "Items of one request, no more than `--rm-max-items`, which holds where it is not set",
    ),
    strict(
        "rm.pauseTimeout",
        ABOVE_ZERO,
        "5m",
        "Time after which a resource manager without a stream is Stopped; more than 24h only by an operator",
    ),
    strict(
        "rm.resendAfter",
        ABOVE_ZERO,
        "10s",
        "Time after which a release that the shim has not confirmed is sent again; less than 100ms counts as that",
    ),
    as_started(
        "rm.reservations",
        Form::Flag,
        "Asks that no node takes reserve one; where it is not set true, or false with `--no-reservations`",
    ),
    strict(
        "rm.unconfirmedWarning",
        ABOVE_ZERO,
        "5m",
        "Time after which operators are told of a release that is not confirmed",
    ),
    at_registration(
        "rm.undeliveredCallbacks",
        CREDITS,
        "100000",
        "Callbacks that may be undelivered before placements pause, at most half of `rm.bufferedCallbacks`",
    ),
    strict(
        "shim.containerStates",
        Form::Word(&["default", "all"]),
        "default",
        "`all`: SCHEDULED and RESERVED are sent too",
    ),
    strict(
        "shim.predicates.constrained",
        Form::Flag,
        "true",
        "Allocations without the tag `callboard.io/unconstrained` constrain one another",
    ),
    strict(
        "shim.predicates.timeout",
        ABOVE_ZERO,
        "5s",
        "Time after which a predicate question that the shim was asked and did not answer counts as refused",
    ),
    strict(
        "traces.oneIn",
        Form::Count(0, 1_000_000_000),
        "100",
        "Of requests that are part of no trace, one in so many begins one, where `--otlp-endpoint` names a collector; 0: none",
    ),
];

/// The row of a key.
pub fn find(key: &str) -> Option<&'static Setting> {
    let row = |key: &str| TABLE.binary_search_by(|row| row.key.cmp(key)).ok().map(|at| &TABLE[at]);
    row(key).or_else(|| {
        let subsystem = key.strip_prefix("log.")?.strip_suffix(".level")?;
        let ill_formed = subsystem.is_empty() || subsystem.contains("..") || subsystem.contains(' ');
        (!ill_formed).then(|| row(SUBSYSTEM))?
    })
}

/// The setting concerns the whole server.
pub fn is_of_server(key: &str) -> bool {
    key != LOG_SYNC && SERVER.iter().any(|prefix| key.starts_with(prefix))
}

/// Checks the strict settings of a map.
///
/// # Errors
/// The first that cannot be read: key, value and what it may be.
pub fn check(map: &Map) -> Result<(), String> {
    for (key, text) in map {
        if let Some(row) = find(key).filter(|row| row.strict) {
            row.read(text).map_err(|want| format!("{key}: \"{}\" is not {want}", short(text)))?;
        }
    }
    Ok(())
}

/// Holds a map to [`MOST`]. What cannot be read is left to [`check`].
///
/// # Errors
/// The first that is more: key, value and the most.
pub fn check_most(map: &Map) -> Result<(), String> {
    for (key, most) in MOST {
        let (Some(row), Some(text)) = (find(key), map.get(key)) else { continue };
        let is_more = match (row.read(text), row.read(most)) {
            (Ok(Value::Number(given)), Ok(Value::Number(most))) => given > most,
            (Ok(Value::Duration(given)), Ok(Value::Duration(most))) => given > most,
            _ => false,
        };
        if is_more {
            return Err(format!("{key}: \"{}\" is more than {most}, which only an operator may set", short(text)));
        }
    }
    Ok(())
}

/// What of a map counts as its default, since it cannot be read: key, value and what it may be.
pub fn unreadable(map: &Map) -> Vec<String> {
    let fault = |(key, text): (&String, &String)| {
        let want = find(key)?.read(text).err()?;
        Some(format!("{key}: \"{}\" is not {want}", short(text)))
    };
    map.iter().filter_map(fault).collect()
}

/// Keys of a map that are in the manner of the table, and not in it: they do nothing.
pub fn unknown(map: &Map) -> Vec<String> {
    let is_own = |key: &&String| OWN.iter().any(|prefix| key.to_lowercase().starts_with(prefix));
    let fault = |key: &String| {
        let meant = TABLE.iter().find(|row| row.key.eq_ignore_ascii_case(key));
        let meant = meant.map_or_else(String::new, |row| format!(", but {}", row.key));
        format!("{}: there is no such setting{meant}; it does nothing", short(key))
    };
    map.keys().filter(is_own).filter(|key| find(key).is_none()).map(fault).collect()
}

fn short(text: &str) -> String {
    text.chars().take(100).collect()
}

/// A map as the table reads it.
#[derive(Clone, Copy)]
pub struct Reader<'a>(pub &'a Map);

impl Reader<'_> {
    /// What is given and can be read, else the default.
    pub fn value(self, key: &'static str) -> Option<Value> {
        let row = find(key)?;
        let given = self.0.get(key).and_then(|text| row.read(text).ok());
        given.or_else(|| row.read(row.default?).ok())
    }

    /// A number; zero where there is neither a value nor a default.
    pub fn number(self, key: &'static str) -> u64 {
        match self.value(key) {
            Some(Value::Number(number)) => number,
            _ => 0,
        }
    }

    /// A number, where one is given.
    pub fn given_number(self, key: &'static str) -> Option<u64> {
        Some(self.number(key)).filter(|number| *number > 0)
    }

    /// A duration.
    pub fn duration(self, key: &'static str) -> Nanos {
        match self.value(key) {
            Some(Value::Duration(time)) => time,
            _ => Nanos::ZERO,
        }
    }

    /// A flag, where one is given or a default says.
    pub fn flag(self, key: &'static str) -> Option<bool> {
        match self.value(key) {
            Some(Value::Flag(flag)) => Some(flag),
            _ => None,
        }
    }

    /// A word, where one is given or a default says.
    pub fn word(self, key: &'static str) -> Option<&'static str> {
        match self.value(key) {
            Some(Value::Word(word)) => Some(word),
            _ => None,
        }
    }

    /// A text as it is, or as the default is.
    pub fn text(self, key: &'static str) -> String {
        let given = self.0.get(key).filter(|text| find(key).is_some_and(|row| row.read(text).is_ok()));
        given.cloned().or_else(|| Some(find(key)?.default?.to_owned())).unwrap_or_default()
    }

    /// A log level.
    pub fn level(self, key: &'static str) -> LogLevel {
        match self.value(key) {
            Some(Value::Level(level)) => level,
            _ => LogLevel::default(),
        }
    }
}

impl Setting {
    /// Its key stands for several.
    pub fn is_pattern(&self) -> bool {
        self.key == SUBSYSTEM
    }

    /// For whom it holds.
    pub fn scope(&self) -> Scope {
        if is_of_server(self.key) { Scope::Server } else { Scope::ResourceManager }
    }

    /// Reads a value.
    ///
    /// # Errors
    /// What it may be, as the end of a sentence.
    pub fn read(&self, text: &str) -> Result<Value, String> {
        let value = match self.form {
            Form::Duration(least, most) => {
                duration::parse(text).filter(|time| (least..=most).contains(time)).map(Value::Duration)
            }
            Form::Count(least, most) => {
                unsigned(text).filter(|count| (least..=most).contains(count)).map(Value::Number)
            }
            Form::Bytes(least) => bytes(text).filter(|bytes| *bytes >= least).map(Value::Number),
            Form::Flag => text.parse().ok().map(Value::Flag),
            Form::AnyFlag => any_flag(text).map(Value::Flag),
            // Nothing is the default, where there is a word for that.
            Form::Word(words) if text.is_empty() => words.iter().find(|w| **w == "default").copied().map(Value::Word),
            Form::Word(words) => words.iter().find(|word| **word == text).copied().map(Value::Word),
            Form::Level => LogLevel::parse(text).map(Value::Level),
            Form::Queues => are_queues(text).then_some(Value::Text),
        };
        value.ok_or_else(|| self.form.to_string())
    }
}

/// What a value may be, as the end of a sentence.
impl fmt::Display for Form {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Form::Duration(Nanos(1), _) => f.write_str("a duration above zero, such as 30s or 1m30s"),
            Form::Duration(least, most) if *least > Nanos::ZERO => {
                write!(f, "a duration from {} to {}, such as 1s", duration::format(*least), duration::format(*most))
            }
            Form::Duration(..) => f.write_str("a duration, such as 30s, or 0"),
            Form::Count(least, most) if *most < u64::MAX => write!(f, "a whole number from {least} to {most}"),
            Form::Count(0, _) => f.write_str("a whole number"),
            Form::Count(1, _) => f.write_str("a whole number above zero"),
            Form::Count(least, _) => write!(f, "a whole number of {least} or more"),
            Form::Bytes(0) => f.write_str("a number of bytes, such as 8Mi"),
            Form::Bytes(least) => {
                let unit = UNITS.iter().rev().find(|(_, shift)| least.trailing_zeros() >= *shift);
                let (unit, shift) = unit.copied().unwrap_or(("", 0));
                write!(f, "a number of bytes, {}{unit} at least, such as 8Mi", least >> shift)
            }
            Form::Flag => f.write_str("one of true, false"),
            Form::AnyFlag => f.write_str("one of true, false, 1, 0, t, f"),
            Form::Word(words) => write!(f, "one of {}", words.join(", ")),
            Form::Queues => f.write_str("all, or paths of queues with commas between, such as root.a,root.b.*"),
            Form::Level => {
                f.write_str("one of debug, info, warn, error, dpanic, panic, fatal, or a number from -1 to 5")
            }
        }
    }
}

impl Form {
    /// The name of the form, and its unit where it has one.
    pub fn name(self) -> (&'static str, &'static str) {
        match self {
            Form::Duration(..) => ("duration", "s, m, h"),
            Form::Count(..) => ("number", ""),
            Form::Bytes(_) => ("bytes", "Ki, Mi, Gi, Ti"),
            Form::Flag | Form::AnyFlag => ("flag", ""),
            Form::Word(_) => ("word", ""),
            Form::Level => ("level", ""),
            Form::Queues => ("queues", ""),
        }
    }
}

/// Units of numbers of bytes, with the power of two that they are.
const UNITS: [(&str, u32); 4] = [("Ki", 10), ("Mi", 20), ("Gi", 30), ("Ti", 40)];

/// A number of bytes for an option, so many at least, written as in settings.
///
/// # Errors
/// What it may be.
pub fn bytes_from(least: u64, text: &str) -> Result<u64, String> {
    let taken = bytes(text).filter(|bytes| *bytes >= least);
    taken.ok_or_else(|| format!("it is not {}", Form::Bytes(least)))
}

/// A number of bytes, with a binary unit or without.
fn bytes(text: &str) -> Option<u64> {
    let unit = UNITS.iter().find_map(|(unit, shift)| Some((text.strip_suffix(unit)?, *shift)));
    let (number, shift) = unit.unwrap_or((text, 0));
    unsigned(number)?.checked_mul(1 << shift)
}

fn are_queues(text: &str) -> bool {
    let path = |path: &str| path.split('.').next() == Some("root") && path.split('.').all(is_queue_name);
    text == "all" || text.split(',').all(|pattern| path(pattern.trim().strip_suffix(".*").unwrap_or(pattern.trim())))
}

fn any_flag(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "TRUE" | "true" | "True" => Some(true),
        "0" | "f" | "F" | "FALSE" | "false" | "False" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_in_order_and_their_defaults_can_be_read() {
        assert!(TABLE.is_sorted_by(|a, b| a.key < b.key));
        for row in TABLE {
            assert!(row.default.is_none_or(|default| row.read(default).is_ok()), "{}", row.key);
            assert_eq!(find(row.key).map(|found| found.key), Some(row.key));
            assert!(!row.text.is_empty() && !row.text.ends_with('.') && !row.text.contains('|'), "{}", row.key);
        }
        assert!(!is_of_server("log.sync") && is_of_server("log.level"));
        assert_eq!(find("log.core.scheduler.level").map(|row| row.key), Some(SUBSYSTEM));
        for unknown in ["log.a b.level", "log.a..b.level", "log..level", "rm.nothing", "RM.maxItems", "event."] {
            assert!(find(unknown).is_none(), "{unknown}");
        }
    }

    #[test]
    fn strict_settings_are_refused_and_the_others_told() {
        let map = |pairs: &[(&str, &str)]| pairs.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect::<Map>();
        let given = map(&[("event.maxStreams", "many"), ("other.key", "x"), ("rm.gracePeriod", "1m")]);
        assert_eq!(check(&given), Ok(()));
        assert_eq!(unreadable(&given), ["event.maxStreams: \"many\" is not a whole number"]);
        let misspelt =
            map(&[("rm.resendafter", "1s"), ("http.nothing", "1"), ("service.x", "1"), ("log.shim.level", "debug")]);
        let told = [
            "http.nothing: there is no such setting; it does nothing",
            "rm.resendafter: there is no such setting, but rm.resendAfter; it does nothing",
        ];
        assert_eq!((unknown(&misspelt), unknown(&given)), (told.map(str::to_owned).to_vec(), Vec::new()));
        let refused = check(&map(&[("rm.bufferedBytes", "big")])).unwrap_err();
        assert_eq!(refused, "rm.bufferedBytes: \"big\" is not a number of bytes, 1 at least, such as 8Mi");
        assert_eq!([bytes_from(1, "7"), bytes_from(1 << 20, "1Mi")], [Ok(7), Ok(1 << 20)]);
        let refused = "it is not a number of bytes, 1Mi at least, such as 8Mi";
        for text in ["1048575", "8MB", "8 Mi", "-1", "", "16777216Ti"] {
            assert_eq!(bytes_from(1 << 20, text), Err(refused.to_owned()), "{text}");
        }
        let refused = check(&map(&[("rm.itemsInFlight", "9999999999999")])).unwrap_err();
        assert_eq!(refused, "rm.itemsInFlight: \"9999999999999\" is not a whole number from 1 to 1099511627775");
        let reader = map(&[("rm.bufferedBytes", "1Mi"), ("rm.maxItems", "7"), ("shim.containerStates", "")]);
        let reader = Reader(&reader);
        assert_eq!((reader.number("rm.bufferedBytes"), reader.given_number("rm.maxItems")), (1 << 20, Some(7)));
        assert_eq!(
            (reader.word("shim.containerStates"), reader.given_number("http.maxBodyBytes")),
            (Some("default"), None)
        );
        let queues = |text: &str| find("metrics.queues").expect("a row").read(text).is_ok();
        assert!(["all", "root", "root.*", "root.a, root.b.*"].iter().all(|text| queues(text)));
        assert!(
            ["", "a", "root.", "root..a", "root.a,", "*", "root.a*", "root.*.b", "root.a b", "all,root"]
                .iter()
                .all(|text| !queues(text))
        );
        assert_eq!((reader.flag("rm.reservations"), reader.flag("event.trackingEnabled")), (None, Some(true)));
    }

    #[test]
    fn who_is_no_operator_may_set_so_much() {
        for (key, most) in MOST {
            let row = find(key).expect("a row");
            assert!(row.read(most).is_ok() && row.strict, "{key}");
            assert!(row.text.ends_with(&format!("; more than {most} only by an operator")), "{key}");
        }
        let check = |key: &str, value: &str| check_most(&[(key.to_owned(), value.to_owned())].into());
        for (key, most, more) in [
            ("rm.bufferedBytes", "1Gi", "18446744073709551615"),
            ("rm.bufferedCallbacks", "10000000", "4294967295"),
            ("journal.maxEvents", "1000000", "1000001"),
            ("rm.pauseTimeout", "24h", "2562047h"),
            ("rm.gracePeriod", "1440m", "24h1s"),
            ("rm.itemsInFlight", "10000000", "10000001"),
        ] {
            assert_eq!(check(key, most), Ok(()));
            let refused = check(key, more).unwrap_err();
            assert!(refused.contains(more) && refused.contains("only an operator"), "{refused}");
        }
        assert_eq!(check("rm.resendAfter", "2562047h"), Ok(()));
        assert_eq!(check("rm.bufferedBytes", "x"), Ok(()), "another check tells");
    }
}
