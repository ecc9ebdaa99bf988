//! Scenario files: what a resource manager sends, step by step. An unknown field is an error, so that none is skipped.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use serde::{Deserialize, Deserializer, de::Error as _};
use serde_json::{Map, Value};

/// One scenario.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Scenario {
    /// The behaviour that it shows.
    #[serde(rename = "about")]
    pub _about: String,
    /// Queue configuration, sent with the registration.
    #[serde(default)]
    pub config: String,
    /// Service settings, sent with the registration.
    #[serde(default)]
    pub extra_config: BTreeMap<String, String>,
    /// How the simulated resource manager behaves.
    #[serde(default)]
    pub shim: Behaviour,
    /// Texts of messages are not compared.
    #[serde(default)]
    pub loose_messages: bool,
    /// Parts of the final state that are left out.
    #[serde(default)]
    pub ignore_final: Vec<String>,
    /// What happens.
    pub steps: Vec<Step>,
}

/// How the simulated resource manager behaves.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub struct Behaviour {
    /// Answer each release that the scheduler originates.
    pub confirm_releases: bool,
    /// Which predicate questions fail. The first rule that matches decides.
    pub predicates: Vec<PredicateRule>,
    /// Container states are compared.
    pub container_states: bool,
    /// Pushed events are compared.
    pub events: bool,
}

impl Default for Behaviour {
    fn default() -> Self {
        Behaviour { confirm_releases: true, predicates: Vec::new(), container_states: false, events: false }
    }
}

/// A rule for the answer to a predicate question.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct PredicateRule {
    /// `predicates` or `preemptionPredicates`; both where left out.
    pub kind: Option<String>,
    /// Pattern of allocation keys.
    #[serde(default = "anything")]
    pub allocation_key: String,
    /// Pattern of node ids.
    #[serde(rename = "nodeID", default = "anything")]
    pub node_id: String,
    /// Only questions for an allocation, or only those for a reservation.
    pub allocate: Option<bool>,
    /// The failure; where left out the question succeeds.
    pub fail: Option<String>,
}

fn anything() -> String {
    "*".to_owned()
}

/// One step: exactly one of the actions, and what modifies it.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub struct Step {
    pub nodes: Option<Value>,
    pub applications: Option<Value>,
    pub allocations: Option<Value>,
    pub configuration: Option<Value>,
    pub register: Option<Map<String, Value>>,
    pub repeat: Option<Repeat>,
    pub settle: Option<bool>,
    #[serde(deserialize_with = "some_duration")]
    pub wait: Option<Duration>,
    pub confirm: Option<Confirm>,
    pub get: Option<String>,
    pub post: Option<String>,
    pub tail: Option<String>,
    /// Body of a `post`.
    pub body: String,
    /// Accept header of a `get` or `post`.
    pub accept: Option<String>,
    /// `status`: the status alone.
    pub only: Option<String>,
    /// Fields that are left out at any depth.
    pub drop: Vec<String>,
    /// How long a `tail` waits for the next line.
    #[serde(rename = "for", deserialize_with = "some_duration")]
    pub silence: Option<Duration>,
    /// Name of the answer.
    #[serde(rename = "as")]
    pub name: Option<String>,
    /// Another resource manager than the scenario's.
    #[serde(rename = "rmID")]
    pub rm: Option<String>,
    /// Go on at once.
    pub no_settle: bool,
    /// Placements are compared in the order in which they came.
    pub ordered: bool,
    /// Fields of callbacks that are not compared.
    pub wild: Vec<String>,
}

/// The same step several times without pause, `{i}` replaced by 0, 1, ….
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Repeat {
    pub count: u64,
    pub step: Value,
}

/// A release that is confirmed by hand.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Confirm {
    pub allocation_key: String,
}

impl Step {
    /// Whether the scheduler has to be quiet before the step counts as done.
    pub fn settles(&self) -> bool {
        !self.no_settle && self.get.is_none() && self.post.is_none() && self.tail.is_none()
    }
}

impl Repeat {
    /// The step of turn `i`.
    pub fn turn(&self, i: u64) -> Result<Step, String> {
        serde_json::from_value(substitute(&self.step, &i.to_string())).map_err(|e| format!("repeated step: {e}"))
    }
}

fn substitute(value: &Value, i: &str) -> Value {
    match value {
        Value::String(s) => Value::from(s.replace("{i}", i)),
        Value::Array(list) => list.iter().map(|entry| substitute(entry, i)).collect(),
        Value::Object(map) => {
            map.iter().map(|(key, value)| (key.replace("{i}", i), substitute(value, i))).collect::<Map<_, _>>().into()
        }
        other => other.clone(),
    }
}

fn some_duration<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
    let text = String::deserialize(from)?;
    duration(&text).map(Some).ok_or_else(|| D::Error::custom(format!("bad duration {text:?}")))
}

/// `600ms`, `1.5s`, `2m`.
fn duration(text: &str) -> Option<Duration> {
    let unit = text.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
    let number: f64 = text[..text.len() - unit.len()].parse().ok()?;
    let seconds = match unit {
        "ms" => 0.001,
        "s" => 1.0,
        "m" => 60.0,
        _ => return None,
    };
    Some(Duration::from_secs_f64(number * seconds))
}

/// The names, as `topic/name`, of all scenarios below a folder, sorted.
pub fn names(root: &Path) -> Vec<String> {
    let mut names = Vec::new();
    for topic in entries(root) {
        for file in entries(&topic) {
            let relative = file.strip_prefix(root).unwrap_or(&file).with_extension("");
            names.push(relative.to_string_lossy().into_owned());
        }
    }
    names.sort();
    names
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let listing = fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    listing.map(|entry| entry.unwrap_or_else(|e| panic!("{}: {e}", folder.display())).path()).collect()
}

/// Reads a JSON file; a fault names the file.
pub fn read<T: for<'de> Deserialize<'de>>(path: &Path) -> Result<T, String> {
    let text = fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))?;
    serde_json::from_str(&text).map_err(|e| format!("{}: {e}", path.display()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn durations() {
        assert_eq!(duration("600ms"), Some(Duration::from_millis(600)));
        assert_eq!(duration("1.5s"), Some(Duration::from_millis(1500)));
        assert_eq!(duration("2m"), Some(Duration::from_secs(120)));
        assert!(duration("5").is_none() && duration("s").is_none());
    }

    #[test]
    fn a_repeated_step_gets_its_number() {
        let repeat = Repeat { count: 2, step: json!({"nodes": {"nodes": [{"nodeID": "n-{i}"}]}}) };
        let step = repeat.turn(1).unwrap();
        assert_eq!(step.nodes, Some(json!({"nodes": [{"nodeID": "n-1"}]})));
        assert!(Repeat { count: 1, step: json!({"note": 1}) }.turn(0).is_err());
    }

    #[test]
    fn an_unknown_field_is_refused() {
        assert!(serde_json::from_value::<Step>(json!({"get": "/", "limit": 3})).is_err());
    }
}
