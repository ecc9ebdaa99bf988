//! What a resource manager may set for itself in its extra configuration.

use std::{collections::BTreeMap, time::Duration};

use super::{buffer::Bounds, log::LogSync, record::Registered};
use crate::{
    config::{
        extra,
        table::{self, Scope},
    },
    messages::partition::Patience,
};

/// Settings of one session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RmSettings {
    /// `rm.gracePeriod`: how long a registered resource manager counts as Running without any stream; read at registration.
    pub grace: Duration,
    /// `rm.pauseTimeout`: how long it may stay Paused before it is Stopped.
    pub pause: Duration,
    /// `rm.bufferedCallbacks` and `rm.bufferedBytes`; read at registration, as what waits by then may be more.
    pub bounds: Bounds,
    /// `rm.itemsInFlight`: items of requests that may be on their way into the partitions; read at registration.
    pub inward: i64,
    /// `rm.maxItems`: items of one request at most; `None`: as the server was started.
    pub max_items: Option<usize>,
    /// `rm.undeliveredCallbacks`: callbacks that may be undelivered before placements pause; read at registration.
    pub outward: i64,
    /// `rm.resendAfter` and `rm.unconfirmedWarning`: how long the shim may take to confirm a release; `journal.torpidAfter`.
    pub patience: Patience,
    /// `shim.predicates.timeout`: how long an answer to a predicate question is waited for.
    pub predicates: Duration,
    /// `shim.predicates.constrained`: allocations that do not say otherwise constrain others or are constrained by them, so that
    /// they are asked about one after the other (R5.27).
    pub constrained: bool,
    /// `shim.containerStates: all`: SCHEDULED and RESERVED are sent too (SEEDS S7).
    pub all_container_states: bool,
    /// `rm.reservations`: asks that wait long enough reserve a node (R5.37); `None`: as the server was started.
    pub reservations: Option<bool>,
    /// `journal.maxEvents`: for the resource journals of its partitions.
    pub journal_events: usize,
    /// `log.sync`: when what goes in counts as recorded; `None`: as the server was started. Read at registration.
    pub log_sync: Option<LogSync>,
}

impl RmSettings {
    /// Reads them; the error names the key, its value and what it may be.
    pub fn read(extra: &BTreeMap<String, String>) -> Result<RmSettings, String> {
        table::check(extra).map_err(|fault| format!("extraConfig {fault}"))?;
        let known = extra::Settings::read(extra);
        let entries = size(known.rm.buffered_callbacks);
        let credits = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
        Ok(RmSettings {
            grace: known.rm.grace_period,
            pause: known.rm.pause_timeout,
            bounds: Bounds { entries, bytes: size(known.rm.buffered_bytes) },
            inward: credits(known.rm.items_in_flight),
            max_items: known.rm.max_items.map(size),
            // Placements have to pause before the buffer overflows.
            outward: credits(known.rm.undelivered_callbacks).min((entries / 2).clamp(1, 1 << 40) as i64),
            patience: Patience {
                resend_after: known.rm.resend_after,
                warn_after: known.rm.unconfirmed_warning,
                torpid_after: known.rm.torpid_after,
            },
            predicates: known.predicate_timeout,
            constrained: known.constrained,
            all_container_states: known.all_container_states,
            reservations: known.rm.reservations,
            journal_events: known.journal_events,
            log_sync: known.rm.log_sync.and_then(|mode| mode.parse().ok()),
        })
    }

    /// Those in force in a recorded session.
    ///
    /// # Errors
    /// As [`RmSettings::read`].
    pub fn of(registered: &Registered) -> Result<RmSettings, String> {
        let Some(fixed) = &registered.fixed else { return RmSettings::read(&registered.extra) };
        let live = registered.extra.iter().filter(|(key, _)| !is_fixed(key));
        RmSettings::read(&live.chain(fixed).map(|(key, value)| (key.clone(), value.clone())).collect())
    }

    /// These, with what was read at registration as it is.
    pub fn after(self, present: &RmSettings) -> RmSettings {
        let RmSettings { grace, bounds, inward, outward, log_sync, .. } = *present;
        RmSettings { grace, bounds, inward, outward, log_sync, ..self }
    }
}

/// Of an extra configuration what is read at registration alone.
pub fn fixed_of(extra: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    extra.iter().filter(|(key, _)| is_fixed(key)).map(|(key, value)| (key.clone(), value.clone())).collect()
}

fn is_fixed(key: &str) -> bool {
    table::find(key).is_some_and(|row| !row.live && row.scope() == Scope::ResourceManager)
}

fn size(count: u64) -> usize {
    usize::try_from(count).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pairs: &[(&str, &str)]) -> Result<RmSettings, String> {
        RmSettings::read(&pairs.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect())
    }

    #[test]
    fn defaults_and_values() {
        let reservations = |pairs: &[(&str, &str)]| read(pairs).expect("valid").reservations;
        assert_eq!((reservations(&[]), reservations(&[("rm.reservations", "false")])), (None, Some(false)));
        let defaults = read(&[("event.trackingEnabled", "maybe")]).expect("not of the resource manager");
        assert_eq!((defaults.grace, defaults.pause), (Duration::from_secs(30), Duration::from_secs(300)));
        assert_eq!(defaults.patience, Patience::default());
        assert_eq!((defaults.bounds.entries, defaults.outward), (1_000_000, 100_000));
        let settings = read(&[
            ("rm.gracePeriod", "2s"),
            ("rm.bufferedCallbacks", "10"),
            ("rm.resendAfter", "3s"),
            ("rm.unconfirmedWarning", "1m"),
            ("shim.predicates.timeout", "100ms"),
        ])
        .expect("valid");
        let patience = settings.patience;
        assert_eq!((patience.resend_after, patience.warn_after), (Duration::from_secs(3), Duration::from_secs(60)));
        assert_eq!(settings.grace, Duration::from_secs(2));
        assert_eq!(settings.predicates, Duration::from_millis(100));
        assert_eq!((settings.bounds.entries, settings.outward), (10, 5));
        let journal = read(&[("journal.torpidAfter", "0"), ("journal.maxEvents", "6")]).expect("valid");
        assert_eq!((journal.patience.torpid_after, journal.journal_events), (Duration::ZERO, 6));
        assert_eq!(settings.journal_events, 100_000);
    }

    #[test]
    fn errors_name_key_value_and_way_out() {
        for (key, value) in [
            ("rm.gracePeriod", "30"),
            ("rm.pauseTimeout", "-1s"),
            ("rm.resendAfter", "0s"),
            ("rm.unconfirmedWarning", "soon"),
            ("rm.bufferedBytes", "0"),
            ("rm.itemsInFlight", "1e6"),
            ("shim.containerStates", "some"),
            ("rm.reservations", "off"),
            ("shim.predicates.constrained", "no"),
            ("journal.torpidAfter", "-1s"),
            ("journal.maxEvents", "1"),
            ("log.sync", "always"),
        ] {
            let error = read(&[(key, value)]).expect_err("refused");
            assert!(error.contains(key) && error.contains(&format!("\"{value}\" is not ")), "{error}");
        }
    }
}
