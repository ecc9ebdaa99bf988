//! The configuration in force as REST shows it: JSON with capitalised keys, YAML with lowercase ones (CFG-009, CFG-118).

use std::{collections::BTreeMap, fmt::Write};

use super::{
    LoadedConfig,
    written::{Filter, Limit, Partition, Quantities, Queue, Resources, Rule, Scheduler, Template, Text},
    yaml,
};

/// Whether lock diagnostics run: there are no locks to diagnose, the key is part of the answer (CFG-116).
const DEADLOCK_DETECTION: bool = false;
/// Time of those diagnostics, the default of the reference.
const DEADLOCK_TIMEOUT_SECONDS: u64 = 60;

/// Bytes of the longest key that is written without a mark; as the reference has it.
const PLAIN_KEY: usize = 128;

/// A configuration as written, after normalisation: root put in, partition limits copied to it.
#[derive(Clone, Debug, Default)]
pub struct Shown {
    pub(super) scheduler: Scheduler,
    pub(super) checksum: String,
}

impl Shown {
    /// As both notations have it.
    pub fn form(&self) -> Form {
        Form::Struct(self.fields())
    }

    fn fields(&self) -> Fields {
        let partitions = self.scheduler.partitions.as_ref();
        let mut fields = vec![("Partitions", partitions.map_or(Form::Null, |list| forms(list, partition)))];
        optional(&mut fields, "Checksum", Form::Text(self.checksum.clone()));
        fields
    }
}

/// The answer of `/ws/v1/config`; without a configuration only what does not depend on one.
pub fn rest(config: Option<&LoadedConfig>, extra: &BTreeMap<String, String>) -> Form {
    let mut fields = config.map(|config| config.shown.fields()).unwrap_or_default();
    let extra = extra.iter().map(|(key, value)| (key.clone(), Form::Text(value.clone()))).collect();
    optional(&mut fields, "Extra", Form::Map(extra));
    fields.push(("DeadlockDetectionEnabled", Form::Bool(DEADLOCK_DETECTION)));
    fields.push(("DeadlockTimeoutSeconds", Form::Count(DEADLOCK_TIMEOUT_SECONDS)));
    Form::Struct(fields)
}

/// A value as it is shown, in either notation.
#[derive(Clone, Debug, PartialEq)]
pub enum Form {
    /// Nothing was given.
    Null,
    /// As it was written.
    Text(String),
    /// A switch.
    Bool(bool),
    /// A whole number.
    Count(u64),
    /// Of a resource type in the order of nodes; whole numbers have no fraction.
    Weight(f64),
    /// In order.
    List(Vec<Form>),
    /// Keys are data.
    Map(Vec<(String, Form)>),
    /// Keys are names, lowercase in YAML.
    Struct(Fields),
}

/// Names and values, in the order in which they are shown.
pub type Fields = Vec<(&'static str, Form)>;

impl Form {
    /// As YAML; [`super::load`] reads it again.
    pub fn to_yaml(&self) -> String {
        let mut out = String::new();
        write_yaml(self, 0, false, &mut out);
        out
    }

    fn is_zero(&self) -> bool {
        match self {
            Form::Null => true,
            Form::Text(text) => text.is_empty(),
            Form::Count(count) => *count == 0,
            Form::List(list) => list.is_empty(),
            Form::Map(map) => map.is_empty(),
            Form::Struct(fields) => fields.iter().all(|(_, value)| value.is_zero()),
            Form::Bool(_) | Form::Weight(_) => false,
        }
    }
}

fn optional(fields: &mut Fields, key: &'static str, value: Form) {
    if !value.is_zero() {
        fields.push((key, value));
    }
}

fn flag(fields: &mut Fields, key: &'static str, value: bool) {
    if value {
        fields.push((key, Form::Bool(true)));
    }
}

fn forms<T>(list: &[T], form: fn(&T) -> Form) -> Form {
    Form::List(list.iter().map(form).collect())
}

fn text(text: &Text) -> Form {
    Form::Text(text.value.clone())
}

fn map(map: &BTreeMap<String, Text>) -> Form {
    Form::Map(map.iter().map(|(key, value)| (key.clone(), text(value))).collect())
}

fn partition(partition: &Partition) -> Form {
    let queues = partition.queues.as_deref().unwrap_or_default();
    let mut fields = vec![("Name", text(&partition.name)), ("Queues", forms(queues, queue))];
    optional(&mut fields, "PlacementRules", forms(&partition.rules, rule));
    optional(&mut fields, "Limits", forms(&partition.limits, limit));
    let mut preemption = Vec::new();
    preemption.extend(partition.preemption.enabled.map(|on| ("Enabled", Form::Bool(on))));
    preemption.extend(partition.preemption.quota.map(|on| ("QuotaPreemptionEnabled", Form::Bool(on))));
    fields.push(("Preemption", Form::Struct(preemption)));
    let mut node_sort = vec![("Type", text(&partition.node_sort.policy))];
    let weights = partition.node_sort.weights.iter().map(|(kind, weight)| (kind.clone(), Form::Weight(weight.value)));
    optional(&mut node_sort, "ResourceWeights", Form::Map(weights.collect()));
    fields.push(("NodeSortPolicy", Form::Struct(node_sort)));
    let mut resolver = Vec::new();
    optional(&mut resolver, "type", text(&partition.resolver));
    fields.push(("UserGroupResolver", Form::Struct(resolver)));
    Form::Struct(fields)
}

fn queue(queue: &Queue) -> Form {
    let mut fields = vec![("Name", text(&queue.name))];
    flag(&mut fields, "Parent", queue.parent);
    fields.push(("Resources", resources(&queue.resources)));
    optional(&mut fields, "MaxApplications", Form::Count(queue.max_applications.value));
    optional(&mut fields, "Properties", map(&queue.properties));
    optional(&mut fields, "AdminACL", text(&queue.admin_acl));
    optional(&mut fields, "SubmitACL", text(&queue.submit_acl));
    fields.push(("ChildTemplate", template(&queue.template)));
    optional(&mut fields, "Queues", forms(&queue.queues, self::queue));
    optional(&mut fields, "Limits", forms(&queue.limits, limit));
    Form::Struct(fields)
}

fn template(template: &Template) -> Form {
    let mut fields = Vec::new();
    optional(&mut fields, "MaxApplications", Form::Count(template.max_applications));
    optional(&mut fields, "Properties", map(&template.properties));
    fields.push(("Resources", resources(&template.resources)));
    Form::Struct(fields)
}

fn resources(resources: &Resources) -> Form {
    let quantities = |quantities: &Option<Quantities>| quantities.as_ref().map_or(Form::Null, map);
    let mut fields = Vec::new();
    optional(&mut fields, "Guaranteed", quantities(&resources.guaranteed));
    optional(&mut fields, "Max", quantities(&resources.max));
    Form::Struct(fields)
}

fn rule(rule: &Rule) -> Form {
    let mut fields = vec![("Name", text(&rule.name))];
    flag(&mut fields, "Create", rule.create);
    fields.push(("Filter", filter(&rule.filter)));
    if let Some(parent) = &rule.parent {
        fields.push(("Parent", self::rule(parent)));
    }
    optional(&mut fields, "Value", text(&rule.value));
    Form::Struct(fields)
}

fn filter(filter: &Filter) -> Form {
    let mut fields = vec![("Type", text(&filter.kind))];
    optional(&mut fields, "Users", forms(&filter.users, text));
    optional(&mut fields, "Groups", forms(&filter.groups, text));
    Form::Struct(fields)
}

fn limit(limit: &Limit) -> Form {
    let mut fields = vec![("Limit", text(&limit.limit))];
    optional(&mut fields, "Users", forms(&limit.users, text));
    optional(&mut fields, "Groups", forms(&limit.groups, text));
    optional(&mut fields, "MaxResources", map(&limit.max_resources));
    optional(&mut fields, "MaxApplications", Form::Count(limit.max_applications.value));
    Form::Struct(fields)
}

/// In double quotes, with escapes.
fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c.is_control() || matches!(c, '\u{feff}' | '\u{2028}' | '\u{2029}' | '\u{fffe}' | '\u{ffff}') => {
                // All of these have four hexadecimal digits at most.
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// Writes a block at an indent; `inline`: its first line goes on after `- `.
fn write_yaml(form: &Form, indent: usize, inline: bool, out: &mut String) {
    let fields: Vec<(String, &Form)> = match form {
        Form::Struct(fields) => fields
            .iter()
            .filter(|(_, value)| !(matches!(value, Form::Struct(_)) && value.is_zero()))
            .map(|(key, value)| (key.to_lowercase(), value))
            .collect(),
        Form::Map(map) => map.iter().map(|(key, value)| (key_at(key, indent), value)).collect(),
        other => {
            out.push_str(&leaf(other));
            out.push('\n');
            return;
        }
    };
    // Inside a map the next multiple of four; inside a list the width of `- `.
    let below = 4 * ((indent + 4) / 4);
    for (n, (key, value)) in fields.into_iter().enumerate() {
        if n > 0 || !inline {
            out.extend(std::iter::repeat_n(' ', indent));
        }
        out.push_str(&key);
        out.push(':');
        match value {
            Form::List(list) if !list.is_empty() => {
                out.push('\n');
                for item in list {
                    out.extend(std::iter::repeat_n(' ', below));
                    out.push_str("- ");
                    write_yaml(item, below + 2, true, out);
                }
            }
            Form::Map(_) | Form::Struct(_) if !value.is_zero() => {
                out.push('\n');
                write_yaml(value, below, false, out);
            }
            value => {
                out.push(' ');
                out.push_str(&leaf(value));
                out.push('\n');
            }
        }
    }
}

/// A key up to its colon. Readers take no long one that is not marked as such.
fn key_at(key: &str, indent: usize) -> String {
    let text = scalar(key);
    if key.len() > PLAIN_KEY { format!("? {text}\n{:indent$}", "") } else { text }
}

fn leaf(form: &Form) -> String {
    match form {
        // A list of partitions that was never given.
        Form::Null | Form::List(_) => "[]".to_owned(),
        Form::Map(_) | Form::Struct(_) => "{}".to_owned(),
        Form::Text(text) => scalar(text),
        Form::Bool(on) => on.to_string(),
        Form::Count(count) => count.to_string(),
        Form::Weight(weight) => weight.to_string(),
    }
}

/// A text: bare where it can be, in double quotes where bare it would be something else, else in single quotes.
fn scalar(text: &str) -> String {
    const WORDS: [&str; 7] = ["y", "n", "yes", "no", "on", "off", "="];
    let printable = text
        .chars()
        .all(|c| !c.is_control() && c != '\u{feff}' && !matches!(c, '\u{2028}' | '\u{2029}' | '\u{fffe}' | '\u{ffff}'));
    let misread = yaml::plain(text) != yaml::Kind::Text
        || WORDS.iter().any(|word| word.eq_ignore_ascii_case(text))
        || text.starts_with(|c: char| c.is_ascii_digit()) && text.contains([':', '-']);
    if misread || !printable {
        return quoted(text);
    }
    if is_bare(text) { text.to_owned() } else { format!("'{}'", text.replace('\'', "''")) }
}

/// The text needs no quotes in a block (not empty, printable).
fn is_bare(text: &str) -> bool {
    let mut chars = text.chars();
    let first = chars.next().unwrap_or(' ');
    let second = chars.next();
    let indicator = match first {
        '-' | '?' | ':' => second.is_none_or(|c| c == ' '),
        c => "#,[]{}&*!|>'\"%@` ".contains(c),
    };
    !indicator
        && !text.ends_with([' ', ':'])
        && !text.contains(": ")
        && !text.contains(" #")
        && !text.starts_with("---")
        && !text.starts_with("...")
}

#[cfg(test)]
mod tests;
