//! A configuration with one setting changed: checked as if it had been written so.

use std::{collections::BTreeMap, fmt::Write as _, sync::Arc};

use super::{
    Fault, LoadedConfig, Refused, build,
    faults::Faults,
    validate,
    written::{Limit, Partition, Quantities, Queue, Spanned, Text},
};
use crate::words::plural;
use crate::{conf::PartitionConf, edit::Edit, quantity, resources::Resource};

/// What came of it.
#[derive(Clone, Debug)]
pub struct Edited {
    /// The partition's part of the new configuration.
    pub conf: Arc<PartitionConf>,
    /// What to write, for people: the place as a comment, then the setting as YAML.
    pub line: String,
    /// What is to be told about the partition's part (SEEDS S34), also what is as it was.
    pub warnings: Vec<Fault>,
}

impl LoadedConfig {
    /// The configuration of a partition of this plain name with these settings changed, one after the other.
    ///
    /// # Errors
    /// There is no such partition, queue or limit, or the result would be refused: the first fault.
    pub fn edited(&self, partition: &str, edits: &[Edit]) -> Result<Edited, String> {
        let mut scheduler = self.shown.scheduler.clone();
        let mut all = scheduler.partitions.iter_mut().flatten();
        let Some(written) = all.find(|written| written.name.value.eq_ignore_ascii_case(partition)) else {
            return Err(format!("partition {partition} is not configured"));
        };
        let mut told = Told::default();
        for edit in edits {
            change(written, edit, &mut told)?;
        }
        let mut faults = Faults::default();
        validate::normalise_and_check(&mut scheduler, &mut faults);
        let first = |refused: Refused| refused.faults.into_iter().next().map_or(refused.message, |fault| fault.message);
        faults.refusal().map_err(first)?;
        let mut all = scheduler.partitions.iter().flatten();
        let Some(written) = all.find(|written| written.name.value.eq_ignore_ascii_case(partition)) else {
            return Err(format!("partition {partition} is not configured"));
        };
        let mut warnings = Faults::default();
        // Rules are as they were.
        let conf = build::partition(written, &mut Faults::default(), &mut warnings);
        Ok(Edited { conf: Arc::new(conf), line: told.text(), warnings: warnings.into_list() })
    }
}

fn change(partition: &mut Partition, edit: &Edit, told: &mut Told) -> Result<(), String> {
    let Some(path) = edit.queue() else {
        if let Edit::Preemption(on) = edit {
            partition.preemption.enabled = Some(*on);
            told.entry(format!("partition {}", partition.name.value), "preemption", "enabled", on.to_string());
        }
        return Ok(());
    };
    if let Edit::Name { parent, .. } = edit {
        let (above, name) = path.rsplit_once('.').ok_or_else(|| format!("queue {path} is below none"))?;
        let queue = find(partition, above).ok_or_else(|| format!("queue {above} is not configured"))?;
        let name = Spanned { value: name.to_owned(), at: queue.at };
        let parent_too = if *parent { ", parent: true" } else { "" };
        told.setting(format!("queue {above}"), "queues", format!("[{{name: {}{parent_too}}}]", name.value));
        queue.queues.push(Queue { at: queue.at, name, parent: *parent, ..Queue::default() });
        return Ok(());
    }
    // Limits of the partition are those of its root queue, where they are written there.
    let of_partition = partition.limits.len();
    let queue = find(partition, path).ok_or_else(|| format!("queue {path} is not configured"))?;
    let here = format!("queue {path}");
    match edit {
        Edit::Max { amounts, .. } => {
            let max = queue.resources.max.get_or_insert_default();
            set(max, amounts);
            told.entry(here, "resources", "max", written(max));
        }
        Edit::Guaranteed { amounts, .. } => {
            let guaranteed = queue.resources.guaranteed.get_or_insert_default();
            set(guaranteed, amounts);
            told.entry(here, "resources", "guaranteed", written(guaranteed));
        }
        Edit::Applications { max, .. } => {
            queue.max_applications.value = *max;
            told.setting(here, "maxapplications", max.to_string());
        }
        Edit::Property { name, value, .. } => {
            let text = Spanned { value: value.to_string(), at: queue.at };
            queue.properties.insert(name.to_string(), text);
            told.entry(here, "properties", name, value.to_string());
        }
        Edit::LimitMax { entry, amounts, .. } => {
            let limit = limit(queue, *entry)?;
            set(&mut limit.max_resources, amounts);
            let place = format!("{here}, limit of {}", names(limit));
            told.setting(place, "maxresources", written(&limit.max_resources));
        }
        Edit::LimitApplications { entry, max, .. } => {
            let limit = limit(queue, *entry)?;
            limit.max_applications.value = *max;
            told.setting(format!("{here}, limit of {}", names(limit)), "maxapplications", max.to_string());
        }
        Edit::Name { .. } | Edit::Preemption(_) => {}
    }
    if let (Edit::LimitMax { entry, .. } | Edit::LimitApplications { entry, .. }, "root") = (edit, &**path)
        && *entry < of_partition
    {
        let same = queue.limits[*entry].clone();
        partition.limits[*entry] = same;
    }
    Ok(())
}

/// What is to be written, by place, and there by key: each key stands there once.
#[derive(Default)]
struct Told(Vec<(String, Vec<(&'static str, Value)>)>);

enum Value {
    One(String),
    /// By key.
    Map(BTreeMap<String, String>),
}

impl Told {
    fn at(&mut self, place: String, key: &'static str, new: Value) -> &mut Value {
        let at = self.0.iter().position(|(known, _)| *known == place).unwrap_or_else(|| {
            self.0.push((place, Vec::new()));
            self.0.len() - 1
        });
        let settings = &mut self.0[at].1;
        let at = settings.iter().position(|(known, _)| *known == key).unwrap_or_else(|| {
            settings.push((key, new));
            settings.len() - 1
        });
        &mut settings[at].1
    }

    fn setting(&mut self, place: String, key: &'static str, value: String) {
        *self.at(place, key, Value::One(String::new())) = Value::One(value);
    }

    fn entry(&mut self, place: String, key: &'static str, inner: &str, value: String) {
        if let Value::Map(map) = self.at(place, key, Value::Map(BTreeMap::new())) {
            map.insert(inner.to_owned(), value);
        }
    }

    fn text(&self) -> String {
        let mut text = String::new();
        for (place, settings) in &self.0 {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "# {place}");
            for (key, written) in settings {
                let _ = match written {
                    Value::One(value) => writeln!(text, "{key}: {value}"),
                    Value::Map(map) => {
                        let entries: Vec<String> = map.iter().map(|(key, value)| format!("{key}: {value}")).collect();
                        writeln!(text, "{key}: {{{}}}", entries.join(", "))
                    }
                };
            }
        }
        text
    }
}

fn find<'a>(partition: &'a mut Partition, path: &str) -> Option<&'a mut Queue> {
    let mut parts = path.split('.');
    let root = parts.next().filter(|root| *root == "root");
    let mut queue = root.and(partition.queues.as_mut()?.first_mut())?;
    for part in parts {
        queue = queue.queues.iter_mut().find(|child| child.name.value.eq_ignore_ascii_case(part))?;
    }
    Some(queue)
}

fn limit(queue: &mut Queue, entry: usize) -> Result<&mut Limit, String> {
    let count = queue.limits.len();
    queue.limits.get_mut(entry).ok_or_else(|| format!("it has {}, none with number {entry}", plural(count, "limit")))
}

fn names(limit: &Limit) -> String {
    let list = |what: &str, names: &[Text]| {
        let names: Vec<&str> = names.iter().map(|name| name.value.as_str()).collect();
        (!names.is_empty()).then(|| format!("{what} {}", names.join(", ")))
    };
    let both = [list("users", &limit.users), list("groups", &limit.groups)];
    both.into_iter().flatten().collect::<Vec<_>>().join(" and ")
}

fn set(to: &mut Quantities, amounts: &Resource) {
    for (kind, amount) in amounts.named() {
        let at = to.get(kind).map(|text| text.at).unwrap_or_default();
        to.insert(kind.to_owned(), Spanned { value: quantity::written(kind, amount), at });
    }
}

fn written(amounts: &Quantities) -> String {
    let list: Vec<String> = amounts.iter().map(|(kind, amount)| format!("{kind}: {}", amount.value)).collect();
    format!("{{{}}}", list.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::load;

    const TEXT: &str = "
partitions:
- name: default
  limits: [{limit: l, users: [eve, '*'], maxapplications: 4}]
  queues:
  - name: root
    queues:
    - name: A
      resources: {max: {memory: 4Gi, vcore: 2}}
      queues:
      - {name: b, resources: {max: {memory: 4Gi}}}
";

    #[test]
    fn one_setting_changes_and_is_told_as_it_is_written() {
        let config = load(TEXT).unwrap();
        let amounts = Resource::of(&[("memory", 6 << 30), ("vcore", 2500)]);
        let edited =
            config.edited("default", &[Edit::Max { queue: "root.a".into(), amounts: amounts.clone() }]).unwrap();
        assert_eq!(edited.line, "# queue root.a\nresources: {max: {memory: 6Gi, vcore: 2500m}}\n");
        assert_eq!(edited.conf.root.children[0].max, Some(amounts));
        let edit = Edit::LimitApplications { queue: "root".into(), entry: 0, max: 7 };
        let edited = config.edited("Default", &[edit, Edit::Preemption(false)]).unwrap();
        let told = "# queue root, limit of users eve, *\nmaxapplications: 7\n# partition default\npreemption: {enabled: false}\n";
        assert_eq!(edited.line, told);
        assert_eq!((edited.conf.root.limits[0].max_applications, edited.conf.preemption), (7, false));
    }

    #[test]
    fn settings_of_one_queue_are_told_as_they_can_stand_in_one_file() {
        let config = load(TEXT).unwrap();
        let queue = || Arc::<str>::from("root.a.new");
        let memory = |gib: i64| Resource::of(&[("memory", gib << 30)]);
        let property = |name: &str| Edit::Property { queue: queue(), name: name.into(), value: "1".into() };
        let edits = [
            Edit::Name { queue: queue(), parent: false },
            Edit::Guaranteed { queue: queue(), amounts: memory(1) },
            Edit::Max { queue: queue(), amounts: memory(2) },
            Edit::Applications { queue: queue(), max: 3 },
            property("priority.offset"),
            property("other"),
        ];
        let edited = config.edited("default", &edits).unwrap();
        let told = "# queue root.a\nqueues: [{name: new}]\n# queue root.a.new\nresources: {guaranteed: {memory: 1Gi}, max: {memory: 2Gi}}\n\
                    maxapplications: 3\nproperties: {other: 1, priority.offset: 1}\n";
        assert_eq!(edited.line, told);
    }

    #[test]
    fn what_cannot_be_read_is_warned_about() {
        // SEEDS S34
        let config = load(TEXT).unwrap();
        let edit = |value: &str| Edit::Property {
            queue: "root.a.b".into(),
            name: "preemption.policy".into(),
            value: value.into(),
        };
        let told = |value| config.edited("default", &[edit(value)]).unwrap().warnings;
        let [warning] = &told("zzz")[..] else { panic!("{:?}", told("zzz")) };
        let text = "preemption.policy cannot be `zzz` and counts as its default (properties of queue root.A.b)";
        assert_eq!((warning.line, &*warning.message), (11, text));
        assert_eq!(told("fence"), []);
    }

    #[test]
    fn what_would_be_refused_is_refused() {
        // CFG-042
        let config = load(TEXT).unwrap();
        let amounts = Resource::of(&[("memory", 6 << 30)]);
        let refused = config.edited("default", &[Edit::Max { queue: "root.a.b".into(), amounts }]).unwrap_err();
        assert!(refused.starts_with("max resource of parent") && refused.ends_with("(root.A.b)"), "{refused}");
        let missing = |queue: &str| config.edited("default", &[Edit::Applications { queue: queue.into(), max: 1 }]);
        assert_eq!(missing("root.c").unwrap_err(), "queue root.c is not configured");
        assert_eq!(missing("a").unwrap_err(), "queue a is not configured");
        assert!(config.edited("other", &[]).unwrap_err().contains("not configured"));
    }
}
