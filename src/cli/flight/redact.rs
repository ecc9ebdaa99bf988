//! Flights without names: those of users, groups, applications and the values of tags become stand-ins, the same one for the
//! same name everywhere in a flight.
//!
//! What happened is done again under the stand-ins, so that a redacted flight is one like any other. Stand-ins are in the order of
//! the names, so that decisions which go by names stay as they were; who knows a name cannot find its stand-in, as they are made with
//! a salt that nobody keeps.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, LazyLock},
};

use regex::Regex;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::player;
use crate::{
    actors::rm::{
        record::{self, SavedPartition, kind},
        replay::{Mode, Replay},
    },
    cli::secrets,
    domain::{
        Partition,
        acl::Acl,
        command::Command,
        conf::{PartitionConf, QueueConf},
        log::{Beginning, Input, Reader, Writer},
        placement::{self, RuleConf},
        resources::Types,
        sorted::Texts,
    },
    store::log::{Part, Record, Snapshot, flight::Flight},
};

/// Words with a meaning of their own: a name that is one of them stays.
pub const WORDS: [&str; 16] = [
    "root",
    "default",
    "true",
    "false",
    "hard",
    "soft",
    "fifo",
    "fair",
    "enabled",
    "disabled",
    "fence",
    "memory",
    "vcore",
    "pods",
    "@recovery@",
    "*",
];

/// The key of a configuration whose value is a text that an administrator wrote.
pub const DESCRIPTION: &str = "limit";

/// Stand-ins by name, and the salt that they are made with.
pub struct Names {
    names: BTreeMap<String, String>,
    salt: uuid::Uuid,
}

/// A flight under stand-ins.
pub struct Redacted {
    /// See the module.
    pub flight: Flight,
    /// So many of its records act otherwise.
    pub others: usize,
    /// The users and groups that have stand-ins in it.
    pub people: BTreeSet<String>,
}

/// What is named in a flight.
#[derive(Default)]
struct Found {
    people: BTreeSet<String>,
    /// Applications and values of tags.
    others: BTreeSet<String>,
}

/// A flight under stand-ins.
///
/// # Errors
/// A record cannot be applied.
pub fn redact(flight: &Flight) -> Result<Redacted, String> {
    let Found { people, others: named } = Found::of(flight)?;
    let names = Names::new(people.iter().cloned().chain(named).collect());
    let rename = |text: &str| names.rename(text).map(Arc::from);
    let mut title = flight.title.clone();
    title.rm = names.rename(&title.rm).unwrap_or(title.rm);
    let snapshot = flight.snapshot.as_ref().map(|snapshot| names.snapshot(snapshot, &rename)).transpose()?;
    let about = crate::store::log::flight::About { redacted: true, ..flight.about.clone() };
    let mut redacted = Flight::new(title, about, snapshot);
    let mut before = player::beginning(flight)?.in_mode(Mode::Watch);
    let mut after = player::beginning(&redacted)?.in_mode(Mode::Watch);
    let mut others = 0;
    for found in flight.records() {
        before.take(&found).map_err(|why| format!("record {}: {why}", found.index))?;
        let mut payload = names.payload(&found, &rename)?;
        let record = Record { payload: &payload, ..found };
        after.take(&record).map_err(|why| format!("record {} under stand-ins: {why}", found.index))?;
        if let Some((_, digest)) = after.seen.differs {
            payload = with_digest(&payload, digest)?;
        }
        others += usize::from(before.seen.effects.len() != after.seen.effects.len());
        redacted.push(&Record { payload: &payload, ..found });
    }
    redacted.damage = flight.damage.clone();
    Ok(Redacted { flight: redacted, others, people })
}

fn with_digest(payload: &[u8], digest: u64) -> Result<Vec<u8>, String> {
    let steps = record::Steps { digest, ..record::read_steps(payload)? };
    let mut out = Vec::new();
    record::write_steps(&steps, &mut out);
    Ok(out)
}

impl Found {
    fn of(flight: &Flight) -> Result<Found, String> {
        let mut found = Found::default();
        let mut replay = player::beginning(flight)?;
        let session = |replay: &Replay, found: &mut Found| {
            for (_, replica) in replay.session.iter().flat_map(|session| session.partitions.values()) {
                of_partition(&replica.partition, found);
            }
        };
        session(&replay, &mut found);
        replay = replay.in_mode(Mode::Look);
        for record in flight.records() {
            replay.take(&record).map_err(|why| format!("record {}: {why}", record.index))?;
            for step in &replay.seen.steps {
                if let Input::Apply(command) = &step.input {
                    of_command(command, &mut found);
                }
            }
            if record.kind == kind::PARTITION && record::read_steps(record.payload)?.beginning.is_some() {
                session(&replay, &mut found);
            }
        }
        Ok(found)
    }
}

impl Names {
    fn new(found: BTreeSet<String>) -> Names {
        let salt = uuid::Uuid::new_v4();
        let is_name = |name: &String| !name.is_empty() && !WORDS.contains(&&**name) && name.parse::<f64>().is_err();
        let stand_in = |(rank, name): (usize, String)| {
            let text = format!("x{rank:06}-{}", digest(&salt, &name));
            (name, text)
        };
        let mut names: BTreeMap<String, String> = found.into_iter().filter(is_name).enumerate().map(stand_in).collect();
        // A queue that is made for a name is called as the rule would call it for the stand-in.
        let queues: Vec<(String, String)> =
            names.iter().map(|(name, stand_in)| (queue_of(name), stand_in.clone())).collect();
        for (queue, stand_in) in queues.into_iter().filter(|(queue, _)| is_name(queue)) {
            names.entry(queue).or_insert(stand_in);
        }
        Names { names, salt }
    }

    /// A text with stand-ins for the names and secrets in it; `None` where there are none.
    fn rename(&self, text: &str) -> Option<String> {
        if let Some(name) = self.names.get(text) {
            return Some(name.clone());
        }
        let without = without_descriptions(text);
        let text = without.as_deref().unwrap_or(text);
        // What an operator wrote as a reason may be anything.
        let renamed = match secrets::hidden(text, |secret| self.secret(secret)) {
            Cow::Borrowed(text) => self.words(text),
            Cow::Owned(text) => Some(self.words(&text).unwrap_or(text)),
        };
        renamed.or(without)
    }

    fn secret(&self, text: &str) -> String {
        format!("secret-{}", digest(&self.salt, text))
    }

    fn words(&self, text: &str) -> Option<String> {
        let whole = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '@' | '.' | ':' | '+');
        let small = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '@');
        // A name may have dots in it, and may be between dots in the path of a queue.
        within(text, whole, |word| {
            self.names.get(word).cloned().or_else(|| within(word, small, |part| self.names.get(part).cloned()))
        })
    }

    fn json(&self, value: &mut Value) {
        match value {
            Value::String(text) => {
                if let Some(name) = self.rename(text) {
                    *text = name;
                }
            }
            Value::Array(list) => list.iter_mut().for_each(|value| self.json(value)),
            Value::Object(map) => map.iter_mut().for_each(|(name, value)| match value {
                Value::String(text) if secrets::is_named(name) => *text = self.secret(text),
                value => self.json(value),
            }),
            _ => {}
        }
    }

    fn json_bytes(&self, bytes: &[u8]) -> Result<Vec<u8>, String> {
        let mut value: Value = record::read_json(bytes)?;
        self.json(&mut value);
        Ok(record::json(&value))
    }

    fn snapshot(&self, snapshot: &Snapshot, rename: &dyn Fn(&str) -> Option<Arc<str>>) -> Result<Snapshot, String> {
        let types = Types::default();
        let mut parts = Vec::new();
        for part in &snapshot.parts {
            let payload = match part.kind {
                kind::SAVED => {
                    let (saved, bytes) = SavedPartition::read(&part.payload)?;
                    let mut saved = serde_json::to_value(saved).map_err(|error| error.to_string())?;
                    self.json(&mut saved);
                    let saved: SavedPartition = serde_json::from_value(saved).map_err(|error| error.to_string())?;
                    let partition = Partition::load_as(bytes, &types, rename).map_err(|error| error.to_string())?;
                    saved.with(&partition.save())
                }
                // Lines are for shims.
                kind::LINES => record::no_lines(),
                _ => self.json_bytes(&part.payload)?,
            };
            parts.push(Part { kind: part.kind, payload });
        }
        Ok(Snapshot { index: snapshot.index, at: snapshot.at, parts })
    }

    fn payload(&self, found: &Record<'_>, rename: &dyn Fn(&str) -> Option<Arc<str>>) -> Result<Vec<u8>, String> {
        match found.kind {
            kind::PARTITION => {
                let types = Types::default();
                let steps = record::read_steps(found.payload)?;
                let beginning =
                    steps.beginning.map(|bytes| Beginning::decode_as(bytes, &types, rename).map(|read| read.encode()));
                let beginning = beginning.transpose().map_err(|error| error.to_string())?;
                let mut writer = Writer::new();
                for step in Reader::new(steps.steps, &types).with_names(rename) {
                    writer.step(&step.map_err(|error| error.to_string())?);
                }
                let renamed = record::Steps { beginning: beginning.as_deref(), steps: writer.bytes(), ..steps };
                let mut out = Vec::new();
                record::write_steps(&renamed, &mut out);
                Ok(out)
            }
            kind::EVENTS => Ok(record::events(&[])),
            kind::HANDED | kind::STATE_DUMP | kind::RESTARTED => Ok(found.payload.to_vec()),
            _ => self.json_bytes(found.payload),
        }
    }
}

/// What a queue is called that a placement rule makes for this name.
pub fn queue_of(name: &str) -> String {
    name.replace('.', "_dot_").to_ascii_lowercase()
}

fn digest(salt: &uuid::Uuid, text: &str) -> String {
    let digest = Sha256::digest(format!("{salt}:{text}"));
    format!("{:02x}{:02x}{:02x}", digest[0], digest[1], digest[2])
}

/// A text with other words in it, which are the longest runs of such characters; `None` where all stay.
pub fn within(text: &str, is_part: impl Fn(char) -> bool, named: impl Fn(&str) -> Option<String>) -> Option<String> {
    let (mut out, mut rest, mut changed) = (String::new(), text, false);
    while !rest.is_empty() {
        let end = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
        let (word, more) = rest.split_at(end);
        match named(word).filter(|_| !word.is_empty()) {
            Some(name) => {
                changed = true;
                out += &name;
            }
            None => out += word,
        }
        let gap = more.find(&is_part).unwrap_or(more.len());
        out += &more[..gap];
        rest = &more[gap..];
    }
    changed.then_some(out)
}

/// A configuration without what is written of its limits: that may name anybody. `None` where there is nothing of the kind.
fn without_descriptions(text: &str) -> Option<String> {
    if !text.contains("partitions:") || !text.contains(DESCRIPTION) {
        return None;
    }
    Some(without(text, |key| key.eq_ignore_ascii_case(DESCRIPTION)))
}

/// A key within brackets, and a value behind it.
static KEY: LazyLock<Regex> = LazyLock::new(|| secrets::made(r#"[{,\[]\s*["']?(\w+)["']?\s*:\s*"#));
static VALUE: LazyLock<Regex> =
    LazyLock::new(|| secrets::made(r#"^(?:"(?:[^"\\]|\\.)*"|'(?:[^']|'')*'|\[[^\]]*\]|[^,}\]]*)"#));

/// A configuration as YAML without the values of some keys, and without comments, which may say the same.
pub fn without(text: &str, is_hidden: impl Fn(&str) -> bool) -> String {
    let mut kept = String::new();
    for (line, hidden) in lines_of(text, &is_hidden) {
        match hidden {
            None => kept.extend([&*without_inline(without_comment(line), &is_hidden), "\n"]),
            Some(Hidden::Key) => kept.extend([line.split(':').next().unwrap_or_default(), ": (left out)\n"]),
            Some(Hidden::More) => {}
        }
    }
    kept
}

/// Where the value of the first key within brackets begins, and the key.
fn key_in(text: &str) -> Option<(usize, &str)> {
    let found = KEY.captures(text)?;
    Some((found.get(0)?.end(), found.get(1)?.as_str()))
}

/// A line without the values of some keys within brackets.
fn without_inline(line: &str, is_hidden: impl Fn(&str) -> bool) -> String {
    let (mut kept, mut rest) = (String::new(), line);
    while let Some((end, name)) = key_in(rest) {
        let (before, value) = rest.split_at(end);
        kept.push_str(before);
        rest = value;
        if is_hidden(name) {
            kept.push_str("(left out)");
            rest = &value[VALUE.find(value).map_or(0, |found| found.end())..];
        }
    }
    kept + rest
}

/// A line up to a comment that is certainly one: in quotes it may be a part of a text.
fn without_comment(line: &str) -> &str {
    let before = line.find('#').map(|at| &line[..at]);
    let before = before.filter(|before| before.is_empty() || before.ends_with([' ', '\t']));
    before.filter(|before| !before.contains(['"', '\''])).map_or(line, str::trim_end)
}

/// Why a line of a configuration is left out.
#[derive(Clone, Copy, PartialEq)]
pub enum Hidden {
    /// It has the key.
    Key,
    /// It goes on with the value.
    More,
}

/// The lines of a configuration as YAML, with those that have a key to hide and those that go on with its value.
pub fn lines_of(text: &str, is_hidden: impl Fn(&str) -> bool) -> impl Iterator<Item = (&str, Option<Hidden>)> {
    // The column of the key whose value goes on.
    let mut inside = None;
    text.lines().map(move |line| {
        let rest = line.trim_start();
        let key = rest.trim_start_matches("- ");
        let (depth, column) = (line.len() - rest.len(), line.len() - key.len());
        if inside.is_some_and(|of| rest.is_empty() || depth > of || depth == of && rest.starts_with("- ")) {
            return (line, Some(Hidden::More));
        }
        let name = key.split(':').next().unwrap_or_default().trim_matches(['"', '\'', ' ']);
        let hidden = is_hidden(name).then_some(Hidden::Key);
        inside = hidden.map(|_| column);
        (line, hidden)
    })
}

/// Values whose names say that they are secrets: of attributes of nodes and properties of queues, which stay otherwise.
fn of_secrets<'a>(texts: impl IntoIterator<Item = (&'a String, &'a String)>, found: &mut Found) {
    let secrets = texts.into_iter().filter(|(name, _)| secrets::is_named(name));
    found.others.extend(secrets.map(|(_, value)| value.clone()));
}

fn of_tags(tags: &Texts, found: &mut Found) {
    found.others.extend(tags.values().cloned());
}

fn of_partition(partition: &Partition, found: &mut Found) {
    of_configuration(&partition.conf, found);
    let ended = partition.terminated.values().chain(partition.rejected.values());
    for app in partition.apps.places().chain(ended.map(|app| &**app)) {
        found.others.insert(app.id.to_string());
        found.people.extend([&app.user].into_iter().chain(app.groups.iter()).map(|name| name.to_string()));
        of_tags(&app.tags, found);
    }
    for row in partition.allocs.places() {
        of_tags(&row.spec.tags, found);
    }
    for node in partition.nodes.places() {
        of_secrets(node.spec.attributes.iter(), found);
    }
    found.people.extend(partition.ugm.charges().map(|(_, name, ..)| name.to_string()));
    found.people.extend(partition.queue_orders().map(|(_, order)| order.by.to_string()));
}

fn of_configuration(conf: &PartitionConf, found: &mut Found) {
    of_queue(&conf.root, found);
    conf.rules.iter().for_each(|rule| of_rule(rule, found));
}

fn of_rule(rule: &RuleConf, found: &mut Found) {
    for names in [&rule.filter.users, &rule.filter.groups] {
        if let placement::Names::List(names) = names {
            found.people.extend(names.iter().map(|name| name.to_string()));
        }
    }
    rule.parent.iter().for_each(|parent| of_rule(parent, found));
}

fn of_queue(queue: &QueueConf, found: &mut Found) {
    let template = queue.template.iter().flat_map(|template| template.properties.iter());
    of_secrets(queue.properties.iter().chain(template), found);
    for limit in &queue.limits {
        found.people.extend(limit.users.iter().chain(&limit.groups).map(|name| name.to_string()));
    }
    for acl in [&queue.admin_acl, &queue.submit_acl] {
        let Acl { users, groups, .. } = acl;
        found.people.extend(users.iter().chain(groups).map(|name| name.to_string()));
    }
    queue.children.iter().for_each(|child| of_queue(child, found));
}

fn of_command(command: &Command, found: &mut Found) {
    match command {
        Command::Applications { new, remove } => {
            for app in new {
                found.others.insert(app.id.to_string());
                found.people.insert(app.user.to_string());
                found.people.extend(app.groups.iter().flat_map(|groups| groups.iter()).map(|name| name.to_string()));
                of_tags(&app.tags, found);
            }
            found.others.extend(remove.iter().map(|name| name.to_string()));
        }
        Command::Allocations { allocations, releases } => {
            for item in allocations {
                found.others.insert(item.app.to_string());
                of_tags(&item.spec.tags, found);
            }
            found.others.extend(releases.iter().map(|item| item.app.to_string()));
        }
        Command::Nodes(nodes) => nodes.iter().for_each(|node| of_secrets(node.attributes.iter(), found)),
        Command::Configure(conf) => of_configuration(conf, found),
        Command::OrderQueues(orders) => {
            found.people.extend(orders.iter().filter_map(|(_, order)| Some(order.as_ref()?.by.to_string())));
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptions_of_limits_are_left_out_however_they_are_written() {
        let text = r#"# by Ann
partitions:
  - name: default # Ann's
    queues:
      - name: root
        limits: [{limit: "of Ann, Bob", users: ["*"]}, {users: [eve], limit: of Ann}, {users: [eve], maxresources: {memory: 1}, limit: of Ann}]
        queues:
          - name: a
            limits:
              - "limit": of Ann
                users: ["*"]
              - limit: |
                  of Ann
                users: ["*"]
"#;
        let left = without_descriptions(text).expect("there are some");
        assert!(!left.contains("Ann") && !left.contains("Bob") && left.contains("users: [eve]"), "{left}");
        assert_eq!(left.matches("(left out)").count(), 5, "{left}");
    }

    #[test]
    fn queues_that_are_made_for_somebody_have_the_same_stand_in() {
        let names = Names::new(["Zoe.Quinn", "Gustav", "gustav", "Root"].map(str::to_owned).into());
        let of = |name: &str| names.rename(name).expect("it is one");
        assert_eq!(names.rename("root.zoe_dot_quinn.x").unwrap(), format!("root.{}.x", of("Zoe.Quinn")));
        assert_ne!(of("Gustav"), of("gustav"), "there are both");
        assert_eq!(names.rename("root.x"), None, "whoever is called Root");
    }
}
