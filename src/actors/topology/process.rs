//! Settings of the whole process, which resource managers send with their own.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, OnceLock},
    time::Instant,
};

use super::lock;
use crate::{
    config::table::{is_of_server, unreadable},
    domain::names::shorten,
    messages::{settings::ServerOption, sparing::Sparing},
};

/// What the log tells.
pub const LOG_LEVEL: &str = "log.level";

/// Keys that are listed where they are ignored, and how many bytes of each.
const LISTED: (usize, usize) = (100, 64);

/// Warnings a minute of settings that one resource manager sent and may not.
const WARNED: u32 = 5;

/// Takes the settings of the whole process out of those that a resource manager sent without a right to them, and gives their keys.
pub(super) fn take_process_wide(extra: &mut BTreeMap<String, String>) -> Vec<String> {
    let mut ignored: Vec<String> = extra.keys().filter(|key| is_of_server(key)).cloned().collect();
    extra.retain(|key, _| !is_of_server(key));
    let more = ignored.len().saturating_sub(LISTED.0);
    ignored.truncate(LISTED.0);
    for key in &mut ignored {
        shorten(key, LISTED.1);
    }
    if more > 0 {
        ignored.push(format!("and {more} more"));
    }
    ignored
}

/// What of an extra configuration concerns the whole process.
pub(super) fn process_wide(extra: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let given = extra.iter().filter(|(key, _)| is_of_server(key));
    given.map(|(key, value)| (key.clone(), value.clone())).collect()
}

/// What resource managers sent of settings of the whole process, by their ids: who sent last is last. Who sends none is not there.
pub type Sent = Vec<(Arc<str>, Arc<BTreeMap<String, String>>)>;

/// Settings of `extraConfig` that concern the whole process: `event.*`, `health.*`, `http.*`, `log.*`, `metrics.*`, `traces.*`. Of each key
/// the last writer wins, over those that hold for all servers of a cluster, and over those that the server was started with; what an operator
/// says of a key is above all of them. What a resource manager does not send it leaves to the others.
#[derive(Default)]
pub struct ProcessSettings {
    /// Options that the server was started with.
    pub options: OnceLock<Vec<ServerOption>>,
    own: Mutex<BTreeMap<String, String>>,
    /// They hold for all servers of a cluster.
    shared: Mutex<BTreeMap<String, String>>,
    sent: Mutex<Sent>,
    said: Mutex<BTreeMap<String, String>>,
    present: Mutex<Arc<BTreeMap<String, String>>>,
    #[allow(clippy::type_complexity)] // one place, and the alias would say no more
    listeners: Mutex<Vec<Box<dyn Fn(&BTreeMap<String, String>) + Send>>>,
    /// Bounds what is logged of callers who sent such settings without a right to them.
    warnings: OnceLock<Mutex<Sparing>>,
}

impl ProcessSettings {
    /// A registration or an update was taken without these settings. Beyond so many warnings it is logged as information, like the
    /// registration itself: it may have other ones than the last.
    pub(super) fn log_ignored(&self, rm: &str, ignored: &[String]) {
        if ignored.is_empty() {
            return;
        }
        let told = "settings of the whole process are ignored: they take the role operator, or serve --set KEY=VALUE";
        match lock(self.warnings.get_or_init(|| Mutex::new(Sparing::new(WARNED)))).say(rm, Instant::now()) {
            Some(kept_back) => tracing::warn!(code = "settings-ignored", rm, keys = ?ignored, kept_back, "{told}"),
            None => tracing::info!(rm, keys = ?ignored, "{told}"),
        }
    }

    /// Calls `listener` with the settings at every change.
    pub fn listen(&self, listener: impl Fn(&BTreeMap<String, String>) + Send + 'static) {
        lock(&self.listeners).push(Box::new(listener));
    }

    /// The settings in force.
    pub fn get(&self) -> Arc<BTreeMap<String, String>> {
        lock(&self.present).clone()
    }

    /// Those that the server is started with: in force wherever nobody sets another.
    pub fn start(&self, own: BTreeMap<String, String>) {
        if !own.is_empty() {
            *lock(&self.own) = own;
            self.renew("");
        }
    }

    /// Those that hold for all servers of a cluster: above those that this one was started with.
    pub fn share(&self, settings: BTreeMap<String, String>) {
        *lock(&self.shared) = settings;
        self.renew("");
    }

    /// Takes over what of the extra configuration of a resource manager concerns the whole process, in the place of what it sent before.
    pub(super) fn apply(&self, rm: &str, extra: &BTreeMap<String, String>) {
        let given = process_wide(extra);
        let mut sent = lock(&self.sent);
        let before = sent.len();
        sent.retain(|(of, _)| **of != *rm);
        if given.is_empty() && sent.len() == before {
            return;
        }
        if !given.is_empty() {
            sent.push((rm.into(), given.into()));
        }
        drop(sent);
        self.renew(rm);
    }

    /// Puts what was sent before a restart in force again, all at once: the settings of one alone might discard what another keeps.
    pub(super) fn resume(&self, sent: Sent) {
        *lock(&self.sent) = sent;
        self.renew("");
    }

    /// See [`Sent`].
    pub(super) fn sent(&self) -> Sent {
        lock(&self.sent).clone()
    }

    /// What an operator says of a key, until the server ends or an operator takes it back (`None`).
    pub fn say(&self, key: &str, value: Option<String>) {
        match value {
            Some(value) => lock(&self.said).insert(key.to_owned(), value),
            None => lock(&self.said).remove(key),
        };
        self.renew("");
    }

    /// What an operator said of a key.
    pub fn said(&self, key: &str) -> Option<String> {
        lock(&self.said).get(key).cloned()
    }

    fn renew(&self, rm: &str) {
        // One after the other, so that an earlier state never overwrites a later one.
        let listeners = lock(&self.listeners);
        let mut wanted = lock(&self.said).clone();
        let mut below = |settings: &BTreeMap<String, String>| {
            for (key, value) in settings {
                if !wanted.contains_key(key) {
                    wanted.insert(key.clone(), value.clone());
                }
            }
        };
        lock(&self.sent).iter().rev().for_each(|(_, sent)| below(sent));
        below(&lock(&self.shared));
        below(&lock(&self.own));
        let mut present = lock(&self.present);
        if **present != wanted {
            tracing::info!(rm, settings = ?wanted, "process-wide settings changed");
            for fault in unreadable(&wanted) {
                tracing::warn!(code = "setting-not-read", rm, "{fault}: it counts as the default");
            }
            *present = Arc::new(wanted);
        }
        let now = present.clone();
        drop(present);
        for listener in listeners.iter() {
            listener(&now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect()
    }

    #[test]
    fn the_settings_of_the_server_are_below_those_of_resource_managers() {
        let settings = ProcessSettings::default();
        settings.start(map(&[("log.level", "WARN"), ("health.checkInterval", "9s")]));
        assert_eq!(*settings.get(), map(&[("log.level", "WARN"), ("health.checkInterval", "9s")]));
        settings.apply("rm-1", &map(&[("log.level", "DEBUG"), ("rm.pauseTimeout", "1s")]));
        assert_eq!(*settings.get(), map(&[("log.level", "DEBUG"), ("health.checkInterval", "9s")]));
        settings.apply("rm-1", &map(&[]));
        assert_eq!(*settings.get(), map(&[("log.level", "WARN"), ("health.checkInterval", "9s")]));
    }

    #[test]
    fn who_sends_no_key_leaves_it_to_others_and_the_last_writer_of_one_wins() {
        let settings = ProcessSettings::default();
        settings.start(map(&[("log.level", "WARN")]));
        let ring = |size: &'static str| ("event.ringBufferCapacity", size);
        settings.apply("rm-1", &map(&[ring("200000"), ("event.trackingEnabled", "false")]));
        settings.apply("rm-2", &map(&[]));
        assert_eq!(*settings.get(), map(&[ring("200000"), ("event.trackingEnabled", "false"), ("log.level", "WARN")]));
        settings.apply("rm-2", &map(&[ring("300000"), ("log.level", "ERROR")]));
        assert_eq!(*settings.get(), map(&[ring("300000"), ("event.trackingEnabled", "false"), ("log.level", "ERROR")]));
        settings.apply("rm-1", &map(&[ring("200000")]));
        assert_eq!(*settings.get(), map(&[ring("200000"), ("log.level", "ERROR")]));
        // It takes its own back, and what others say counts again.
        let sent = settings.sent();
        settings.apply("rm-1", &map(&[]));
        assert_eq!(*settings.get(), map(&[ring("300000"), ("log.level", "ERROR")]));
        settings.apply("rm-2", &map(&[]));
        assert_eq!((settings.sent(), &*settings.get()), (Vec::new(), &map(&[("log.level", "WARN")])));
        let heard = Arc::new(Mutex::new(Vec::new()));
        let of_listener = heard.clone();
        settings.listen(move |now| lock(&of_listener).push(now.clone()));
        settings.resume(sent);
        assert_eq!(
            *lock(&heard),
            [map(&[ring("200000"), ("log.level", "ERROR")])],
            "nothing that was in force in between"
        );
    }

    #[test]
    fn what_holds_for_all_servers_is_above_what_one_was_started_with() {
        let settings = ProcessSettings::default();
        settings.start(map(&[("log.level", "WARN"), ("health.checkInterval", "9s")]));
        settings.share(map(&[("log.level", "ERROR")]));
        assert_eq!(*settings.get(), map(&[("log.level", "ERROR"), ("health.checkInterval", "9s")]));
        settings.apply("rm-1", &map(&[("log.level", "DEBUG")]));
        assert_eq!(*settings.get(), map(&[("log.level", "DEBUG"), ("health.checkInterval", "9s")]));
        settings.apply("rm-1", &map(&[]));
        settings.share(map(&[]));
        assert_eq!(*settings.get(), map(&[("log.level", "WARN"), ("health.checkInterval", "9s")]));
    }

    #[test]
    fn what_an_operator_says_is_above_both_until_it_is_taken_back() {
        let settings = ProcessSettings::default();
        settings.start(map(&[("log.level", "WARN")]));
        settings.say("log.level", Some("DEBUG".to_owned()));
        settings.apply("rm-1", &map(&[("log.level", "ERROR"), ("health.checkInterval", "9s")]));
        assert_eq!(*settings.get(), map(&[("log.level", "DEBUG"), ("health.checkInterval", "9s")]));
        assert_eq!(settings.said("log.level").as_deref(), Some("DEBUG"));
        settings.say("log.level", None);
        assert_eq!(*settings.get(), map(&[("log.level", "ERROR"), ("health.checkInterval", "9s")]));
    }

    #[test]
    fn what_is_ignored_is_listed_up_to_a_number_and_a_length() {
        let mut extra = map(&[("event.trackingEnabled", "false"), ("log.level", "x"), ("rm.pauseTimeout", "1s")]);
        assert_eq!(take_process_wide(&mut extra), ["event.trackingEnabled", "log.level"]);
        assert_eq!(extra, map(&[("rm.pauseTimeout", "1s")]));
        assert!(take_process_wide(&mut extra).is_empty());
        let mut many: BTreeMap<_, _> =
            (0..1_000).map(|n| (format!("log.{n}{}", "x".repeat(n)), String::new())).collect();
        let listed = take_process_wide(&mut many);
        assert_eq!((listed.len(), &*listed[100]), (101, "and 900 more"));
        assert!(many.is_empty() && listed.iter().all(|key| key.len() <= 70));
    }
}
