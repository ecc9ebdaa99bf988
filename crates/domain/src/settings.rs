//! Properties of queues: what they mean and how children inherit them (QUE-060–QUE-066).

use std::collections::BTreeMap;

use super::{
    duration,
    queue::{PreemptionSetting, QueueSettings},
    types::Nanos,
};

/// `fifo`, `fair`, or `stateaware`, which is `fifo`.
pub const SORT_POLICY: &str = "application.sort.policy";
/// `enabled`, `disabled`.
pub const SORT_PRIORITY: &str = "application.sort.priority";
/// `default`, `fence`.
pub const PRIORITY_POLICY: &str = "priority.policy";
/// A whole number of 32 bits.
pub const PRIORITY_OFFSET: &str = "priority.offset";
/// `default`, `fence`, `disabled`.
pub const PREEMPTION_POLICY: &str = "preemption.policy";
/// A duration above zero.
pub const PREEMPTION_DELAY: &str = "preemption.delay";
/// Number of failed asks after which an application is passed over for a while.
pub const BACKOFF: &str = "application.unschedasks.backoff";
/// How long it is passed over.
pub const BACKOFF_DELAY: &str = "application.unschedasks.backoff.delay";
/// A duration above zero turns quota preemption on.
pub const QUOTA_PREEMPTION_DELAY: &str = "quota.preemption.delay";
/// `atomic`: placeholders of an application are placed only all at once.
pub const GANG_ADMISSION: &str = "gang.admission";

/// All of them.
pub const KEYS: [&str; 10] = [
    SORT_POLICY,
    SORT_PRIORITY,
    PRIORITY_POLICY,
    PRIORITY_OFFSET,
    PREEMPTION_POLICY,
    PREEMPTION_DELAY,
    BACKOFF,
    BACKOFF_DELAY,
    QUOTA_PREEMPTION_DELAY,
    GANG_ADMISSION,
];

/// A property of this name does something. Others are kept and shown (CFG-07C).
pub fn is_known(key: &str) -> bool {
    KEYS.contains(&key)
}

/// Reads properties; a value that cannot be read counts as its default (QUE-060).
pub fn settings(properties: &BTreeMap<String, String>) -> QueueSettings {
    read(properties).0
}

/// The keys whose values [`settings`] cannot read and takes as their defaults, with the values.
pub fn unreadable(properties: &BTreeMap<String, String>) -> Vec<(String, String)> {
    read(properties).1
}

fn read(properties: &BTreeMap<String, String>) -> (QueueSettings, Vec<(String, String)>) {
    let mut settings = QueueSettings::default();
    let mut unreadable = Vec::new();
    for (key, value) in properties {
        let understood = match key.as_str() {
            SORT_POLICY => {
                let words = [("fair", true), ("fifo", false), ("stateaware", false), ("", false)];
                set(&mut settings.sort_fair, word(value, &words))
            }
            SORT_PRIORITY => set(&mut settings.sort_priority, word(value, &[("enabled", true), ("disabled", false)])),
            PRIORITY_POLICY => set(&mut settings.priority_fence, word(value, &[("default", false), ("fence", true)])),
            PRIORITY_OFFSET => set(&mut settings.priority_offset, value.parse().ok()),
            PREEMPTION_POLICY => set(&mut settings.preemption, preemption(value)),
            PREEMPTION_DELAY => set(&mut settings.preemption_delay, positive(value)),
            BACKOFF => set(&mut settings.backoff, unsigned(value)),
            BACKOFF_DELAY => set(&mut settings.backoff_delay, positive(value)),
            QUOTA_PREEMPTION_DELAY => {
                set(&mut settings.quota_preemption_delay, positive(value))
                    || duration::parse(value) == Some(Nanos::ZERO)
            }
            GANG_ADMISSION => set(&mut settings.atomic_gangs, word(value, &[("atomic", true), ("default", false)])),
            _ => true,
        };
        if !understood {
            unreadable.push((key.clone(), value.clone()));
        }
    }
    (settings, unreadable)
}

fn set<T>(place: &mut T, value: Option<T>) -> bool {
    let understood = value.is_some();
    if let Some(value) = value {
        *place = value;
    }
    understood
}

fn word<T: Copy>(value: &str, words: &[(&str, T)]) -> Option<T> {
    words.iter().find(|(word, _)| word.eq_ignore_ascii_case(value)).map(|(_, meaning)| *meaning)
}

fn preemption(value: &str) -> Option<PreemptionSetting> {
    use PreemptionSetting::{Default, Disabled, Fence};
    word(value, &[("default", Default), ("fence", Fence), ("disabled", Disabled)])
}

fn positive(value: &str) -> Option<Nanos> {
    duration::parse(value).filter(|duration| *duration > Nanos::ZERO)
}

/// Decimal digits without a sign.
pub(crate) fn unsigned(value: &str) -> Option<u64> {
    value.parse().ok().filter(|_| !value.starts_with('+'))
}

/// The properties of a managed queue: all of the parent's (already merged) ones, of which three are filtered, then its
/// own (QUE-061, QUE-062).
pub fn inherit(parent: &BTreeMap<String, String>, own: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let mut merged = parent.clone();
    for (key, value) in &mut merged {
        match key.as_str() {
            PRIORITY_POLICY => *value = "default".to_owned(),
            PRIORITY_OFFSET => *value = "0".to_owned(),
            PREEMPTION_POLICY if preemption(value) != Some(PreemptionSetting::Disabled) => {
                *value = "default".to_owned();
            }
            _ => {}
        }
    }
    merged.extend(own.iter().map(|(key, value)| (key.clone(), value.clone())));
    merged
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect()
    }

    #[test]
    fn every_property() {
        // QUE-060
        let read = settings(&map(&[
            (SORT_POLICY, "FAIR"),
            (SORT_PRIORITY, "Disabled"),
            (PRIORITY_POLICY, "FENCE"),
            (PRIORITY_OFFSET, "-7"),
            (PREEMPTION_POLICY, "Fence"),
            (PREEMPTION_DELAY, "10s"),
            (BACKOFF, "3"),
            (BACKOFF_DELAY, "1m"),
            (QUOTA_PREEMPTION_DELAY, "1h"),
            (GANG_ADMISSION, "atomic"),
            ("unknown", "kept"),
        ]));
        let wanted = QueueSettings {
            sort_fair: true,
            sort_priority: false,
            priority_fence: true,
            priority_offset: -7,
            preemption: PreemptionSetting::Fence,
            preemption_delay: Nanos::from_secs(10),
            backoff: 3,
            backoff_delay: Nanos::from_secs(60),
            quota_preemption_delay: Nanos::from_secs(3600),
            atomic_gangs: true,
        };
        assert_eq!(read, wanted);
    }

    #[test]
    fn bad_values_are_defaults() {
        // QUE-060, test idea 72
        let bad = map(&[
            (SORT_POLICY, "fairest"),
            (SORT_PRIORITY, "on"),
            (PRIORITY_POLICY, ""),
            (PRIORITY_OFFSET, "2147483648"),
            (PREEMPTION_POLICY, "xxxx"),
            (PREEMPTION_DELAY, "-1s"),
            (BACKOFF, "+1"),
            (BACKOFF_DELAY, "0s"),
            (QUOTA_PREEMPTION_DELAY, "-5s"),
            (GANG_ADMISSION, "always"),
        ]);
        assert_eq!(settings(&bad), QueueSettings::default());
        assert_eq!(unreadable(&bad).len(), bad.len());
        let fine = map(&[(QUOTA_PREEMPTION_DELAY, "0s"), ("my.key", "x")]);
        assert_eq!(settings(&fine), QueueSettings::default());
        assert_eq!(unreadable(&fine), vec![]);
        assert!(KEYS.into_iter().all(is_known) && !is_known("my.key"));
    }

    #[test]
    fn sort_policies_in_any_spelling() {
        // SEEDS S34
        for (spelling, fair) in
            [("FAIR", true), ("Fair", true), ("FIFO", false), ("StateAware", false), ("stateaware", false), ("", false)]
        {
            let read = map(&[(SORT_POLICY, spelling)]);
            assert_eq!((settings(&read).sort_fair, unreadable(&read)), (fair, vec![]), "{spelling}");
        }
    }

    #[test]
    fn three_keys_are_filtered() {
        // QUE-061, QUE-063, test idea 70
        let parent = map(&[
            (PRIORITY_POLICY, "fence"),
            (PRIORITY_OFFSET, "100"),
            (PREEMPTION_POLICY, "fence"),
            (QUOTA_PREEMPTION_DELAY, "5s"),
            ("some.key", "some value"),
        ]);
        let child = inherit(&parent, &map(&[(SORT_POLICY, "fair")]));
        let wanted = map(&[
            (PRIORITY_POLICY, "default"),
            (PRIORITY_OFFSET, "0"),
            (PREEMPTION_POLICY, "default"),
            (QUOTA_PREEMPTION_DELAY, "5s"),
            ("some.key", "some value"),
            (SORT_POLICY, "fair"),
        ]);
        assert_eq!(child, wanted);
        assert_eq!(inherit(&BTreeMap::new(), &BTreeMap::new()), BTreeMap::new());
    }

    #[test]
    fn own_values_win() {
        // QUE-061, QUE-062, test idea 71
        let disabled = map(&[(PREEMPTION_POLICY, "Disabled")]);
        assert_eq!(inherit(&disabled, &BTreeMap::new()), disabled);
        let own = map(&[(PREEMPTION_POLICY, "default"), (PRIORITY_OFFSET, "3")]);
        assert_eq!(inherit(&disabled, &own), own);
    }
}
