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

/// Settings of `extraConfig` that concern the whole process: `event.*`, `health.*`, `http.*`, `log.*`, `metrics.*`, `traces.*`. The last writer wins,
/// over those that hold for all servers of a cluster, and over those that the server was started with; what an operator says of a key is
/// above all of them.
#[derive(Default)]
pub struct ProcessSettings {
    /// Options that the server was started with.
    pub options: OnceLock<Vec<ServerOption>>,
    own: Mutex<BTreeMap<String, String>>,
    /// They hold for all servers of a cluster.
    shared: Mutex<BTreeMap<String, String>>,
    /// What resource managers sent last.
    sent: Mutex<BTreeMap<String, String>>,
    said: Mutex<BTreeMap<String, String>>,
    present: Mutex<Arc<BTreeMap<String, String>>>,
    #[allow(clippy::type_complexity)] // one place, and the alias would say no more
    listeners: Mutex<Vec<Box<dyn Fn(&BTreeMap<String, String>) + Send>>>,
    /// Who sent some without a right to them is told of in the log, sparingly.
    warnings: OnceLock<Mutex<Sparing>>,
}

impl ProcessSettings {
    /// A registration or an update was taken without these. What is not warned of is told all the same, like the registration itself:
    /// it may have others than the last.
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

    /// Takes over what of the extra configuration of a resource manager concerns the whole process; gives it.
    pub(super) fn apply(&self, rm: &str, extra: &BTreeMap<String, String>) -> BTreeMap<String, String> {
        let given = extra.iter().filter(|(key, _)| is_of_server(key));
        let given: BTreeMap<_, _> = given.map(|(key, value)| (key.clone(), value.clone())).collect();
        lock(&self.sent).clone_from(&given);
        self.renew(rm);
        given
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
        // One after the other, so that none leaves behind what was so before another.
        let listeners = lock(&self.listeners);
        let mut wanted = lock(&self.own).clone();
        for more in [&self.shared, &self.sent, &self.said] {
            wanted.extend(lock(more).iter().map(|(key, value)| (key.clone(), value.clone())));
        }
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
        settings.apply("rm-2", &map(&[]));
        assert_eq!(*settings.get(), map(&[("log.level", "WARN"), ("health.checkInterval", "9s")]));
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
