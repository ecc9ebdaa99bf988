//! Tree to [`written`](super::written) configuration: keys, kinds and duplicates (CFG-005–CFG-008).
//!
//! Goes on after a fault, so that all of them are found; the type names in the messages are those that clients know.

use std::collections::BTreeMap;

use super::{
    faults::cut,
    written::{
        Filter, Limit, NodeSort, Partition, Preemption, Quantities, Queue, Resources, Rule, Scheduler, Spanned,
        Template, Text,
    },
    yaml::{At, Kind, Node, Value, float, integer},
};

/// Most partitions of a configuration: each has actors and a journal of its own.
const MAX_PARTITIONS: usize = 100;
/// Most queues of a configuration: each takes some kilobytes while it is read, and in what is made of it.
pub const MAX_QUEUES: usize = 25_000;
/// Misfits that are listed: whoever mends these sees the next ones.
const LISTED: usize = 1_000;

const TEXT: &[&str] = &["partitions", "checksum"];
/// What `/ws/v1/config` shows beside these: read over, so that its answer can be edited and sent (CFG-005).
const SHOWN: &[&str] = &["extra", "deadlockdetectionenabled", "deadlocktimeoutseconds"];
const PARTITION: &[&str] =
    &["name", "queues", "placementrules", "limits", "preemption", "nodesortpolicy", "usergroupresolver"];
const PREEMPTION: &[&str] = &["enabled", "quotapreemptionenabled"];
const NODE_SORT: &[&str] = &["type", "resourceweights"];
const RESOLVER: &[&str] = &["type"];
const QUEUE: &[&str] = &[
    "name",
    "parent",
    "resources",
    "maxapplications",
    "properties",
    "adminacl",
    "submitacl",
    "childtemplate",
    "queues",
    "limits",
];
const RESOURCES: &[&str] = &["guaranteed", "max"];
const TEMPLATE: &[&str] = &["maxapplications", "properties", "resources"];
const RULE: &[&str] = &["name", "create", "filter", "parent", "value"];
const FILTER: &[&str] = &["type", "users", "groups"];
const LIMIT: &[&str] = &["limit", "users", "groups", "maxresources", "maxapplications"];

/// All objects of a configuration, each with the keys that it may have.
pub const OBJECTS: [(&str, &[&str]); 11] = [
    ("text", TEXT),
    ("partition", PARTITION),
    ("preemption", PREEMPTION),
    ("nodesortpolicy", NODE_SORT),
    ("usergroupresolver", RESOLVER),
    ("queue", QUEUE),
    ("resources", RESOURCES),
    ("childtemplate", TEMPLATE),
    ("rule", RULE),
    ("filter", FILTER),
    ("limit", LIMIT),
];

/// A value that is not what its key wants.
#[derive(Clone, Debug)]
pub struct Misfit {
    /// Where in the file it stands.
    pub at: At,
    /// What is wrong.
    pub message: String,
    /// What would be right; empty where the message says it.
    pub hint: String,
    /// Inside an object with duplicate keys, in which the reference looks no further.
    pub hidden: bool,
}

/// More than there may be: where, by which rule, in words, and the way out where there is another than fewer.
pub type TooMany = (At, &'static str, String, &'static str);

/// Reads a document; what does not fit is left out of the result and listed.
///
/// # Errors
/// There is more than may be.
pub fn scheduler(node: &Node) -> Result<(Scheduler, Vec<Misfit>), TooMany> {
    let mut decoder = Decoder::default();
    let mut scheduler = Scheduler::default();
    let name = "configs.SchedulerConfig";
    decoder.pairs(node, name, |decoder, key, key_at, value| match key {
        "partitions" => {
            decoder.count_partitions(value);
            scheduler.partitions = decoder.list(value, "configs.PartitionConfig", Decoder::partition);
        }
        // Never compared with the computed one (CFG-081).
        "checksum" => drop(decoder.text(value)),
        "extra" => scheduler.extra = Some(key_at),
        key if SHOWN.contains(&key) => {}
        key => decoder.unknown(key, key_at, name, TEXT),
    });
    match decoder.too_many {
        Some(too_many) => Err(too_many),
        None => Ok((scheduler, decoder.misfits)),
    }
}

#[derive(Default)]
struct Decoder {
    misfits: Vec<Misfit>,
    hidden: bool,
    queues: usize,
    too_many: Option<TooMany>,
}

impl Decoder {
    fn misfit(&mut self, at: At, message: String, hint: String) {
        if self.misfits.len() < LISTED {
            self.misfits.push(Misfit { at, message: cut(message), hint, hidden: self.hidden });
        }
    }

    fn wrong(&mut self, node: &Node, wanted: &str) {
        let value = match &node.value {
            Value::Scalar(text, _) if text.chars().count() > 10 => {
                format!(" `{}...`", text.chars().take(7).collect::<String>())
            }
            Value::Scalar(text, _) => format!(" `{text}`"),
            _ => String::new(),
        };
        self.misfit(node.at, format!("cannot unmarshal {}{value} into {wanted}", node.value.tag()), String::new());
    }

    /// Reads an object with the given keys: `each` is called for every known one, in the order of the text.
    fn object(&mut self, node: &Node, name: &str, keys: &[&str], mut each: impl FnMut(&mut Decoder, &str, &Node)) {
        self.pairs(node, name, |decoder, key, key_at, value| {
            if keys.contains(&key) {
                each(decoder, key, value);
            } else {
                decoder.unknown(key, key_at, name, keys);
            }
        });
    }

    fn unknown(&mut self, key: &str, at: At, name: &str, keys: &[&str]) {
        let hint = format!("known keys: {}", keys.join(", "));
        self.misfit(at, format!("field {key} not found in type {name}"), hint);
    }

    /// Reads the keys of a map; the first of duplicate ones counts.
    fn pairs(&mut self, node: &Node, wanted: &str, mut each: impl FnMut(&mut Decoder, &str, At, &Node)) {
        let pairs = match &node.value {
            Value::Map(pairs) => pairs,
            Value::Scalar(_, Kind::Null) => return,
            _ => return self.wrong(node, wanted),
        };
        let before = self.misfits.len();
        let mut duplicate = vec![false; pairs.len()];
        let mut first: BTreeMap<&str, At> = BTreeMap::new();
        for (n, (key, _)) in pairs.iter().enumerate() {
            let Value::Scalar(text, _) = &key.value else { continue };
            match first.get(text.as_str()) {
                None => drop(first.insert(text, key.at)),
                Some(first) => {
                    duplicate[n] = true;
                    let message = format!("mapping key {text:?} already defined at line {}", first.line);
                    self.misfit(key.at, message, String::new());
                }
            }
        }
        let hidden = self.hidden;
        self.hidden |= self.misfits.len() > before;
        for ((key, value), _) in pairs.iter().zip(duplicate).filter(|(_, duplicate)| !duplicate) {
            match &key.value {
                Value::Scalar(text, _) => each(self, text, key.at, value),
                _ => self.wrong(key, "string"),
            }
        }
        self.hidden = hidden;
    }

    /// Reads a list; entries that are nothing are left out. `None` where there is no list.
    fn list<T>(&mut self, node: &Node, name: &str, each: fn(&mut Decoder, &Node) -> T) -> Option<Vec<T>> {
        match &node.value {
            Value::List(items) => {
                let mut list = Vec::new();
                for item in items.iter().filter(|item| item.is_there()) {
                    if self.too_many.is_some() {
                        break;
                    }
                    list.push(each(self, item));
                }
                Some(list)
            }
            Value::Scalar(_, Kind::Null) => None,
            _ => {
                self.wrong(node, &format!("[]{name}"));
                // Not missing: only this one fault is to be told.
                Some(Vec::new())
            }
        }
    }

    fn count_partitions(&mut self, node: &Node) {
        let Value::List(items) = &node.value else { return };
        let there = || items.iter().filter(|item| item.is_there());
        if let Some(first) = there().nth(MAX_PARTITIONS) {
            let text = format!("{} partitions are configured: at most {MAX_PARTITIONS} are allowed", there().count());
            self.too_many = Some((first.at, "CFG-010", text, ""));
        }
    }

    fn text(&mut self, node: &Node) -> Text {
        let value = match &node.value {
            Value::Scalar(_, Kind::Null) => String::new(),
            Value::Scalar(text, _) => text.clone(),
            _ => {
                self.wrong(node, "string");
                String::new()
            }
        };
        Spanned { value, at: node.at }
    }

    fn texts(&mut self, node: &Node) -> Vec<Text> {
        self.list(node, "string", Decoder::text).unwrap_or_default()
    }

    fn map(&mut self, node: &Node) -> BTreeMap<String, Text> {
        let mut map = BTreeMap::new();
        self.pairs(node, "map[string]string", |decoder, key, _, value| {
            map.insert(key.to_owned(), decoder.text(value));
        });
        map
    }

    /// A map that may be missing; empty counts as there.
    fn quantities(&mut self, node: &Node) -> Option<Quantities> {
        node.is_there().then(|| self.map(node))
    }

    /// `true`, `false`, and the older words where nothing but a boolean is wanted (CFG-007).
    fn boolean(&mut self, node: &Node) -> Option<bool> {
        match &node.value {
            Value::Scalar(_, Kind::Null) => None,
            Value::Scalar(text, Kind::Bool) => Some(text.eq_ignore_ascii_case("true")),
            Value::Scalar(text, _) if ["y", "Y", "yes", "Yes", "YES", "on", "On", "ON"].contains(&text.as_str()) => {
                Some(true)
            }
            Value::Scalar(text, _) if ["n", "N", "no", "No", "NO", "off", "Off", "OFF"].contains(&text.as_str()) => {
                Some(false)
            }
            _ => {
                self.wrong(node, "bool");
                None
            }
        }
    }

    /// A whole number of 64 bits without a sign (CFG-007).
    fn count(&mut self, node: &Node) -> Spanned<u64> {
        let value = match &node.value {
            Value::Scalar(_, Kind::Null) => Some(0),
            Value::Scalar(text, Kind::Int) => integer(text).and_then(|number| u64::try_from(number).ok()),
            // Below 2^53 each whole number is exact.
            Value::Scalar(text, Kind::Float) => {
                float(text).filter(|n| n.fract() == 0.0 && (0.0..9e15).contains(n)).map(|n| n as u64)
            }
            _ => None,
        };
        if value.is_none() {
            self.wrong(node, "uint64");
        }
        Spanned { value: value.unwrap_or_default(), at: node.at }
    }

    fn weight(&mut self, node: &Node) -> Spanned<f64> {
        let value = match &node.value {
            Value::Scalar(_, Kind::Null) => Some(0.0),
            Value::Scalar(text, Kind::Int) => integer(text).map(|number| number as f64),
            Value::Scalar(text, Kind::Float) => float(text),
            _ => None,
        };
        if value.is_none() {
            self.wrong(node, "float64");
        }
        Spanned { value: value.unwrap_or_default(), at: node.at }
    }

    fn partition(&mut self, node: &Node) -> Partition {
        let mut to = Partition { at: node.at, name: nothing(node), ..Partition::default() };
        self.object(node, "configs.PartitionConfig", PARTITION, |decoder, key, value| match key {
            "name" => to.name = decoder.text(value),
            "queues" => to.queues = decoder.queues(value),
            "placementrules" => {
                to.rules = decoder.list(value, "configs.PlacementRule", Decoder::rule).unwrap_or_default();
            }
            "limits" => to.limits = decoder.limits(value),
            "preemption" => to.preemption = decoder.preemption(value),
            "nodesortpolicy" => to.node_sort = decoder.node_sort(value),
            _ => decoder.object(value, "configs.UserGroupResolver", RESOLVER, |decoder, _, value| {
                to.resolver = decoder.text(value);
            }),
        });
        to
    }

    fn preemption(&mut self, node: &Node) -> Preemption {
        let mut to = Preemption::default();
        self.object(node, "configs.PartitionPreemptionConfig", PREEMPTION, |decoder, key, value| match key {
            "enabled" => to.enabled = decoder.boolean(value),
            _ => to.quota = decoder.boolean(value),
        });
        to
    }

    fn node_sort(&mut self, node: &Node) -> NodeSort {
        let mut to = NodeSort { policy: nothing(node), ..NodeSort::default() };
        self.object(node, "configs.NodeSortingPolicy", NODE_SORT, |decoder, key, value| match key {
            "type" => to.policy = decoder.text(value),
            _ => decoder.pairs(value, "map[string]float64", |decoder, kind, _, value| {
                to.weights.insert(kind.to_owned(), decoder.weight(value));
            }),
        });
        to
    }

    fn queues(&mut self, node: &Node) -> Option<Vec<Queue>> {
        self.list(node, "configs.QueueConfig", Decoder::queue)
    }

    fn queue(&mut self, node: &Node) -> Queue {
        let mut to = Queue { at: node.at, name: nothing(node), ..Queue::default() };
        to.max_applications.at = node.at;
        self.queues += 1;
        if self.queues > MAX_QUEUES {
            self.too_many.get_or_insert_with(|| {
                let text = format!("more than {MAX_QUEUES} queues are configured");
                (node.at, "CFG-012", text, "queues that are alike can be made by placement rules")
            });
            return to;
        }
        self.object(node, "configs.QueueConfig", QUEUE, |decoder, key, value| match key {
            "name" => to.name = decoder.text(value),
            "parent" => to.parent = decoder.boolean(value).unwrap_or_default(),
            "resources" => to.resources = decoder.resources(value),
            "maxapplications" => to.max_applications = decoder.count(value),
            "properties" => to.properties = decoder.map(value),
            "adminacl" => to.admin_acl = decoder.text(value),
            "submitacl" => to.submit_acl = decoder.text(value),
            "childtemplate" => to.template = decoder.template(value),
            "queues" => to.queues = decoder.queues(value).unwrap_or_default(),
            _ => to.limits = decoder.limits(value),
        });
        to
    }

    fn resources(&mut self, node: &Node) -> Resources {
        let mut to = Resources::default();
        self.object(node, "configs.Resources", RESOURCES, |decoder, key, value| match key {
            "guaranteed" => to.guaranteed = decoder.quantities(value),
            _ => to.max = decoder.quantities(value),
        });
        to
    }

    fn template(&mut self, node: &Node) -> Template {
        let mut to = Template::default();
        self.object(node, "configs.ChildTemplate", TEMPLATE, |decoder, key, value| match key {
            "maxapplications" => to.max_applications = decoder.count(value).value,
            "properties" => to.properties = decoder.map(value),
            _ => to.resources = decoder.resources(value),
        });
        to
    }

    fn rule(&mut self, node: &Node) -> Rule {
        let mut to = Rule { at: node.at, name: nothing(node), value: nothing(node), ..Rule::default() };
        self.object(node, "configs.PlacementRule", RULE, |decoder, key, value| match key {
            "name" => to.name = decoder.text(value),
            "create" => to.create = decoder.boolean(value).unwrap_or_default(),
            "filter" => to.filter = decoder.filter(value),
            "parent" if !value.is_there() => {}
            "parent" => to.parent = Some(Box::new(decoder.rule(value))),
            _ => to.value = decoder.text(value),
        });
        to
    }

    fn filter(&mut self, node: &Node) -> Filter {
        let mut to = Filter { kind: nothing(node), ..Filter::default() };
        self.object(node, "configs.Filter", FILTER, |decoder, key, value| match key {
            "type" => to.kind = decoder.text(value),
            "users" => to.users = decoder.texts(value),
            _ => to.groups = decoder.texts(value),
        });
        to
    }

    fn limits(&mut self, node: &Node) -> Vec<Limit> {
        self.list(node, "configs.Limit", Decoder::limit).unwrap_or_default()
    }

    fn limit(&mut self, node: &Node) -> Limit {
        let mut to = Limit { at: node.at, limit: nothing(node), ..Limit::default() };
        to.max_applications.at = node.at;
        self.object(node, "configs.Limit", LIMIT, |decoder, key, value| match key {
            "limit" => to.limit = decoder.text(value),
            "users" => to.users = decoder.texts(value),
            "groups" => to.groups = decoder.texts(value),
            "maxresources" => to.max_resources = decoder.map(value),
            _ => to.max_applications = decoder.count(value),
        });
        to
    }
}

/// A text that is not there: it stands where its object begins.
fn nothing(node: &Node) -> Text {
    Spanned { value: String::new(), at: node.at }
}
