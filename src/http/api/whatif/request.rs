//! The body of `POST /api/v1/whatif`: a change, as it is sent and as `callboard whatif` makes it, and what it means for a partition.

use std::{collections::BTreeMap, sync::Arc};

use actix_web::http::StatusCode;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    config::{Fault, LoadedConfig},
    domain::{
        Partition,
        alloc::{AskSpec, PreemptionPolicy},
        command::{AddApplication, AllocationItem, Command, NodeAction, NodeItem},
        edit::Edit,
        hostlist::HostList,
        quantity,
        resources::Resource,
        types::Nanos,
    },
    http::{
        api::{plan::view::Warning, time::length},
        problem::Problem,
        shim::body::objects,
    },
};

/// Nodes that may come at most.
const NODES: usize = 10_000;
/// Applications and asks that may come at most.
const APPLICATIONS: usize = 10_000;
const ASKS: usize = 100_000;
/// Settings that may change at most.
const SETTINGS: usize = 100;
/// Warnings that are told at most.
const WARNINGS: usize = 100;
/// Longest name, bytes; of a resource type.
const NAME: usize = 1_024;
const TYPE_NAME: usize = 253;
/// Resource types of an ask at most.
const TYPES: usize = 100;
/// How far ahead is looked at most.
const LONGEST: Nanos = Nanos::from_secs(7 * 86_400);

/// A change. Quantities are written as in the configuration: `4Gi`, `500m`; a `vcore` of 2 is two cores.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "WhatIfRequest")]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Request {
    /// Nodes that come.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "objects")]
    pub node_add: Vec<NodeAdd>,
    /// Nodes that an operator drains, by id, or as lists of hosts such as `n[1-3]`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub node_drain: Vec<String>,
    /// Nodes that take allocations again, whoever drained them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub node_undrain: Vec<String>,
    /// Settings of queues.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "objects")]
    pub queue: Vec<QueueChange>,
    /// Applications that are submitted.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "objects")]
    pub submit: Vec<Application>,
    /// A configuration as YAML, instead of the one in force.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config: Option<String>,
    /// How far ahead is looked, such as `2h`: 5m where it is left out, 168h at most.
    #[serde(rename = "for", skip_serializing_if = "Option::is_none")]
    pub horizon: Option<String>,
}

/// Nodes like one that is there.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NodeAdd {
    /// How many.
    pub count: usize,
    /// The node that they are like: its capacity and attributes.
    pub like: String,
}

/// Settings of a queue.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct QueueChange {
    /// Full path of the queue.
    pub queue: String,
    /// Settings: `max.TYPE`, `guaranteed.TYPE`, `maxapplications` or `properties.NAME`.
    pub set: BTreeMap<String, Quantity>,
}

/// A quantity, or the value of a setting.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "a value may be a number from 0 on, or a text such as 4Gi")]
pub enum Quantity {
    /// A number, which means what it means in a configuration.
    Number(u64),
    /// A text.
    Text(String),
}

impl Quantity {
    fn text(&self) -> String {
        match self {
            Quantity::Number(number) => number.to_string(),
            Quantity::Text(text) => text.clone(),
        }
    }
}

/// An application.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "WhatIfApplication")]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Application {
    /// Id; where it is left out, one is made.
    #[serde(rename = "applicationID", skip_serializing_if = "String::is_empty")]
    pub id: String,
    /// Queue, as it would be submitted: placement rules apply.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub queue: String,
    /// Name of the user who submitted it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub user: String,
    /// Groups of the owner; where they are left out, one of the same name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<String>,
    /// Tags of the application, by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub tags: BTreeMap<String, String>,
    /// `Hard` or `Soft`: it is a gang, whose placeholders come first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gang: Option<String>,
    /// What it asks for.
    #[serde(deserialize_with = "objects")]
    pub asks: Vec<Asks>,
}

/// Asks that are alike.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "WhatIfAsks")]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Asks {
    /// How many; 1 where it is left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<usize>,
    /// Size of each.
    pub resource: BTreeMap<String, Quantity>,
    /// Higher is first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<i32>,
    /// The node that they require.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// They may preempt others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preempts: Option<bool>,
}

/// What a change means for a partition.
#[derive(Debug, Default)]
pub struct Meant {
    /// All of it as commands.
    pub commands: Vec<Command>,
    /// The lines of the configuration that its settings stand for.
    pub copy: Option<String>,
    /// What of the configuration is accepted and does not do what it looks like (SEEDS S34).
    pub warnings: Vec<Warning>,
}

fn fault<T>(field: &str, detail: impl Into<String>) -> Result<T, Problem> {
    Err(Problem::field(field, detail))
}

fn name(field: &str, text: &str) -> Result<Arc<str>, Problem> {
    match text.len() {
        0 => fault(field, format!("{field} is empty: give it a name")),
        1..=NAME => Ok(text.into()),
        bytes => fault(field, format!("{field} has {bytes} bytes: at most {NAME} are allowed")),
    }
}

fn amount(field: &str, kind: &str, quantity: &Quantity) -> Result<i64, Problem> {
    let text = quantity.text();
    if kind.is_empty() || kind.len() > TYPE_NAME {
        return fault(
            field,
            format!("a resource type has a name of {} bytes: 1 to {TYPE_NAME} are allowed", kind.len()),
        );
    }
    quantity::parse(kind, &text).or_else(|error| {
        let shown: String = text.chars().take(100).collect();
        fault(field, format!("{kind} is \"{shown}\": {error}; write it as in a configuration, such as 4Gi or 500m"))
    })
}

impl Request {
    /// How far ahead is looked; `None`: nothing is said.
    ///
    /// # Errors
    /// It is no duration, or too long.
    pub fn horizon(&self) -> Result<Option<Nanos>, Problem> {
        let Some(text) = &self.horizon else { return Ok(None) };
        match length(text) {
            Some(time) if time <= LONGEST => Ok(Some(time)),
            _ => fault("for", format!("for is \"{text}\", but may be a duration from 0 to 168h, such as 30m or 2h")),
        }
    }

    /// What all of it means for this partition. `config` is what is in force, or what is to be instead; `None`: there is none any
    /// more.
    ///
    /// # Errors
    /// What cannot be, with its field.
    pub fn change(&self, partition: &Partition, config: Option<&LoadedConfig>) -> Result<Meant, Problem> {
        let edits = self.edits()?;
        let mut meant = Meant::default();
        if self.config.is_some() || !edits.is_empty() {
            let missing = || Problem::new(StatusCode::SERVICE_UNAVAILABLE, "the resource manager is going: try again");
            let field = if edits.is_empty() { "config" } else { "queue" };
            let config = config.ok_or_else(missing)?;
            let edited = config.edited(&partition.name, &edits);
            let edited = edited.map_err(|detail| Problem::field(field, detail))?;
            meant.copy = (!edits.is_empty()).then(|| edited.line.trim_end().to_owned());
            // What is in force was told of when it came.
            let told = |warning: &&Fault| self.config.is_none() && config.warnings.contains(warning);
            meant.warnings = edited.warnings.iter().filter(|warning| !told(warning)).map(Warning::from).collect();
            meant.warnings.truncate(WARNINGS);
            meant.commands.push(Command::Configure(edited.conf));
        }
        meant.commands.extend(self.commands(partition)?);
        Ok(meant)
    }

    /// The settings of queues, as edits of the configuration.
    fn edits(&self) -> Result<Vec<Edit>, Problem> {
        let count: usize = self.queue.iter().map(|change| change.set.len()).sum();
        if count > SETTINGS {
            return fault(
                "queue",
                format!("{count} settings would change: at most {SETTINGS} are allowed; send them as config"),
            );
        }
        let mut edits = Vec::new();
        for change in &self.queue {
            let queue: Arc<str> = change.queue.to_lowercase().into();
            for (setting, value) in &change.set {
                edits.push(edit(&queue, setting, value)?);
            }
        }
        Ok(edits)
    }

    /// What the rest of it means for this partition, after the configuration: nodes that come and go, then applications.
    fn commands(&self, partition: &Partition) -> Result<Vec<Command>, Problem> {
        let mut commands = Vec::new();
        let new = self.new_nodes(partition)?;
        if !new.is_empty() {
            commands.push(Command::Nodes(new));
        }
        let undrained = known("nodeUndrain", &self.node_undrain, partition)?;
        if !undrained.is_empty() {
            let back = undrained.iter().filter(|node| is_drained_by_manager(partition, node));
            let back = back.map(|node| item(node.clone(), NodeAction::DrainToSchedulable)).collect();
            commands.push(Command::OperatorDrain { nodes: undrained, drained: false });
            commands.push(Command::Nodes(back));
        }
        let drained = known("nodeDrain", &self.node_drain, partition)?;
        if !drained.is_empty() {
            commands.push(Command::OperatorDrain { nodes: drained, drained: true });
        }
        self.applications(&mut commands)?;
        Ok(commands)
    }

    fn new_nodes(&self, partition: &Partition) -> Result<Vec<NodeItem>, Problem> {
        let count = self.node_add.iter().fold(0_usize, |sum, add| sum.saturating_add(add.count));
        if count > NODES {
            return fault("nodeAdd", format!("{count} nodes would come: at most {NODES} are allowed"));
        }
        let mut new = Vec::new();
        for add in &self.node_add {
            let like = partition.node_by_id.get(&*add.like).and_then(|ix| partition.nodes.get(*ix));
            let Some(like) = like else { return fault("nodeAdd", unknown(&add.like, partition)) };
            for _ in 0..add.count {
                let id: Arc<str> = format!("(new node {})", new.len() + 1).into();
                new.push(NodeItem {
                    capacity: Some(like.capacity.clone()),
                    attributes: like.spec.attributes.clone(),
                    ..item(id, NodeAction::Create)
                });
            }
        }
        Ok(new)
    }

    fn applications(&self, commands: &mut Vec<Command>) -> Result<(), Problem> {
        if self.submit.len() > APPLICATIONS {
            let count = self.submit.len();
            return fault("submit", format!("{count} applications would come: at most {APPLICATIONS} are allowed"));
        }
        let asks = self.submit.iter().flat_map(|app| &app.asks);
        let count = asks.fold(0_usize, |sum, asks| sum.saturating_add(asks.count.unwrap_or(1)));
        if count > ASKS {
            return fault("submit", format!("{count} asks would come: at most {ASKS} are allowed"));
        }
        let (mut new, mut allocations) = (Vec::new(), Vec::new());
        for (nth, app) in self.submit.iter().enumerate() {
            let id = match app.id.as_str() {
                "" => format!("(new application {})", nth + 1).into(),
                id => name("applicationID", id)?,
            };
            let asks = app.sizes()?;
            let mut total = Resource::new();
            for (spec, count) in &asks {
                total.add(&spec.resource.times(*count as i128));
            }
            let gang = app.gang.is_some();
            new.push(AddApplication {
                id: id.clone(),
                queue: app.queue.as_str().into(),
                user: app.user.as_str().into(),
                groups: Some(match app.groups.as_slice() {
                    [] => Arc::from([Arc::from(app.user.as_str())]),
                    groups => groups.iter().map(|group| Arc::from(group.as_str())).collect(),
                }),
                tags: Arc::new(app.tags.clone().into()),
                placeholder_ask: gang.then_some(total),
                gang_style: app.gang.clone().unwrap_or_default(),
                ..AddApplication::default()
            });
            for placeholder in [true, false].into_iter().filter(|placeholder| gang || !placeholder) {
                for (group, (spec, count)) in asks.iter().enumerate() {
                    let what = if placeholder { "placeholder" } else { "ask" };
                    allocations.extend((1..=*count).map(|n| {
                        let spec = AskSpec {
                            key: format!("{id} {what} {}.{n}", group + 1).into(),
                            placeholder,
                            task_group: if gang { format!("group-{}", group + 1).into() } else { Arc::default() },
                            ..spec.clone()
                        };
                        AllocationItem { app: id.clone(), node: None, spec: Arc::new(spec) }
                    }));
                }
            }
        }
        if !new.is_empty() {
            commands.push(Command::Applications { new, remove: Vec::new() });
            commands.push(Command::Allocations { allocations, releases: Vec::new() });
        }
        Ok(())
    }
}

impl Application {
    /// Its asks with their numbers.
    fn sizes(&self) -> Result<Vec<(AskSpec, usize)>, Problem> {
        let mut sizes = Vec::new();
        for asks in &self.asks {
            if asks.resource.is_empty() || asks.resource.len() > TYPES {
                return fault(
                    "resource",
                    format!("an ask names {} resource types: 1 to {TYPES} are allowed", asks.resource.len()),
                );
            }
            let mut amounts = Vec::new();
            for (kind, quantity) in &asks.resource {
                amounts.push((kind.as_str(), amount("resource", kind, quantity)?));
            }
            let preemption = asks
                .preempts
                .map(|preempts| PreemptionPolicy { allow_preempt_self: false, allow_preempt_other: preempts });
            let spec = AskSpec {
                resource: Arc::new(Resource::of(&amounts)),
                priority: asks.priority.unwrap_or_default(),
                required_node: asks.node.as_deref().map(Arc::from),
                preemption,
                ..AskSpec::default()
            };
            sizes.push((spec, asks.count.unwrap_or(1)));
        }
        Ok(sizes)
    }
}

fn edit(queue: &Arc<str>, setting: &str, value: &Quantity) -> Result<Edit, Problem> {
    let queue = queue.clone();
    if let Some(kind) = setting.strip_prefix("max.") {
        let amounts = Resource::of(&[(kind, amount(setting, kind, value)?)]);
        return Ok(Edit::Max { queue, amounts });
    }
    if let Some(kind) = setting.strip_prefix("guaranteed.") {
        let amounts = Resource::of(&[(kind, amount(setting, kind, value)?)]);
        return Ok(Edit::Guaranteed { queue, amounts });
    }
    if let Some(property) = setting.strip_prefix("properties.") {
        return Ok(Edit::Property { queue, name: property.into(), value: value.text().into() });
    }
    let text = value.text();
    match (setting, text.parse()) {
        ("maxapplications", Ok(max)) => Ok(Edit::Applications { queue, max }),
        ("maxapplications", Err(_)) => {
            fault(setting, format!("maxapplications is \"{text}\", but may be a whole number"))
        }
        _ => fault(
            "set",
            format!(
                "{setting} of queue {queue} is none of max.TYPE, guaranteed.TYPE, maxapplications and properties.NAME"
            ),
        ),
    }
}

fn item(id: Arc<str>, action: NodeAction) -> NodeItem {
    NodeItem { id, action, capacity: None, attributes: Default::default() }
}

fn is_drained_by_manager(partition: &Partition, node: &str) -> bool {
    let row = partition.node_by_id.get(node).and_then(|ix| partition.nodes.get(*ix));
    row.is_some_and(|row| !row.rm_schedulable)
}

fn unknown(node: &str, partition: &Partition) -> String {
    let shown: String = node.chars().take(100).collect();
    let some: Vec<&str> = partition.node_by_id.keys().take(3).map(|id| &**id).collect();
    let there = match some.as_slice() {
        [] => "there are none".to_owned(),
        some => format!("there are {}, such as {}", partition.node_by_id.len(), some.join(", ")),
    };
    format!("node '{shown}' is not registered; {there}")
}

/// Names of nodes: as they are, or else taken for lists of hosts.
fn known(field: &str, names: &[String], partition: &Partition) -> Result<Vec<Arc<str>>, Problem> {
    let mut nodes = Vec::new();
    for given in names {
        if let Some((id, _)) = partition.node_by_id.get_key_value(given.as_str()) {
            nodes.push(id.clone());
            continue;
        }
        let list = HostList::parse(given).ok().filter(|list| list.len() <= NODES as u64 && !list.is_empty());
        let Some(list) = list else { return fault(field, unknown(given, partition)) };
        for host in list.iter() {
            match partition.node_by_id.get_key_value(host.as_str()) {
                Some((id, _)) => nodes.push(id.clone()),
                None => return fault(field, unknown(&host, partition)),
            }
        }
        if nodes.len() > NODES {
            return fault(field, format!("{field} names more than {NODES} nodes"));
        }
    }
    Ok(nodes)
}
