//! What an explanation says beyond the reason: the place in line, who holds what is short, and what would help, as they are sent
//! and as `callboard why` reads them.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::why::{exact, noun, shown};
use crate::{
    config::LoadedConfig,
    domain::{
        Partition,
        conf::{LimitConf, PartitionConf, QueueConf},
        edit::Edit,
        journal,
        node::Node,
        partition::{
            forward::AskName,
            holders::{Holder, Holders},
            line::{Line, Order, Place},
            remedies::{Advice, Change, Nothing, Remedy},
        },
        resources::{Resource, clamp},
        types::Nanos,
        words::{either, plural},
    },
    http::ws_v1::json,
    messages::rm::Halt,
};

/// A place in one of the orders that decide who is next.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "PlaceInLine")]
pub struct PlaceView {
    /// What stands in line: asks of the application, applications of a queue, or queues below one.
    pub what: String,
    /// The queue; left out for asks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// From 1.
    pub place: u64,
    /// How many stand in line.
    pub of: u64,
    /// What the order goes by.
    pub by: String,
}

impl From<Place> for PlaceView {
    fn from(place: Place) -> PlaceView {
        let Place { line, place, of, by } = place;
        let (what, queue) = match line {
            Line::Asks => ("asks", None),
            Line::Applications(queue) => ("applications", Some(queue.to_string())),
            Line::Queues(queue) => ("queues", Some(queue.to_string())),
        };
        let Order { share, priority_first } = by;
        let own = match (share, what) {
            (true, "queues") => "share of their guarantee that they use",
            (true, _) => "share that they use",
            (false, "asks") => "time of creation",
            (false, _) => "time of submission",
        };
        let by = if priority_first { format!("priority, then {own}") } else { format!("{own}, then priority") };
        PlaceView { what: what.to_owned(), queue, place, of, by }
    }
}

/// Who holds what is short.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "HeldBy")]
pub struct HoldersView {
    /// The resource type that is short most; left out where running applications are counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource: Option<String>,
    /// All that is held, in base units.
    pub total: i64,
    /// What other schedulers hold of it.
    #[serde(default, skip_serializing_if = "json::unset")]
    pub foreign: i64,
    /// The applications with the largest parts; of running ones the oldest.
    pub applications: Vec<HolderView>,
    /// The users with the largest parts.
    pub users: Vec<HolderView>,
    /// The leaf queues with the largest parts.
    pub queues: Vec<HolderView>,
}

/// One that holds a part.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Holder")]
pub struct HolderView {
    /// Application id, user, or queue.
    pub name: String,
    /// Its part.
    pub amount: i64,
}

impl From<Holders> for HoldersView {
    fn from(holders: Holders) -> HoldersView {
        let list = |holders: Vec<Holder>| {
            let one = |holder: Holder| HolderView { name: holder.name.to_string(), amount: clamp(holder.amount) };
            holders.into_iter().map(one).collect()
        };
        HoldersView {
            resource: holders.kind.map(|kind| kind.name().to_owned()),
            total: clamp(holders.total),
            foreign: clamp(holders.foreign),
            applications: list(holders.applications),
            users: list(holders.users),
            queues: list(holders.queues),
        }
    }
}

/// What would place the asks, as far as it was looked for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Advice")]
#[serde(rename_all = "camelCase")]
pub struct AdviceView {
    /// The smallest change first, five at most. Each was tried on a copy of the partition.
    pub remedies: Vec<RemedyView>,
    /// Why there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub none: Option<String>,
    /// Changes that were tried.
    pub tried: usize,
    /// All changes were tried; else there were too many, or time was over.
    pub complete: bool,
}

/// A change that would place the asks.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Remedy")]
#[serde(rename_all = "camelCase")]
pub struct RemedyView {
    /// One of a fixed set: `wait`, `connect`, `record`, `queueMax`, `queueApplications`, `limit`, `limitApplications`, `preemption`, `undrain`, `resume`, `free`,
    /// `smaller`, `members`, `queue`, `registerNode`, `addNodes`.
    pub kind: String,
    /// What to do, in a sentence.
    pub text: String,
    /// Who may do it: `owner` of the application, `operator`, `administrator` of the configuration, `resourceManager` or `nobody`.
    pub who: String,
    /// What to copy: lines of the configuration with their place, or a command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub copy: Option<String>,
    /// The queue that it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// The nodes that it is about.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<String>,
    /// The allocations that have to end, a thousand at most.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allocations: Vec<AllocationView>,
    /// The part of the cluster that it is about, more than 1 where that is larger than the cluster: what remedies are ordered by.
    pub size: f64,
    /// Seconds until the asks are placed then; 0: at once.
    pub after_seconds: f64,
    /// Asks of other applications that are placed before them.
    pub placed_before: usize,
    /// Allocations that are preempted for them.
    pub preempted: usize,
    /// What `plan` says of the configuration: applications that would not be admitted, quotas below usage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<PlanInShort>,
}

/// Allocations that the sentence of a remedy names.
pub const NAMED: usize = 3;
/// Allocations that a remedy lists.
const FREED: usize = 1_000;

/// The name of an allocation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "AllocationName")]
pub struct AllocationView {
    /// Its application.
    #[serde(rename = "applicationID")]
    pub application: String,
    /// Its key.
    #[serde(rename = "allocationKey")]
    pub key: String,
}

/// What `plan` says of a change.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PlanInShort {
    /// Applications that would not be admitted or run as they are now.
    pub applications: usize,
    /// Quotas and limits that would stand below usage.
    pub exceeded: usize,
}

/// What the views are made of.
pub struct Source<'a> {
    /// The state that the advice is about.
    pub partition: &'a Partition,
    /// The name by which REST shows it.
    pub shown: &'a str,
    /// Its configuration.
    pub config: &'a LoadedConfig,
    /// The time of it.
    pub now: Nanos,
    /// Why nothing new is placed at all.
    pub halt: Option<&'a Halt>,
}

impl Source<'_> {
    /// The view of an advice.
    pub fn advice(&self, advice: Advice) -> AdviceView {
        let none = advice.none.map(|none| none_text(none, advice.complete).to_owned());
        let remedies = advice.remedies.iter().map(|remedy| self.remedy(remedy)).collect();
        AdviceView { remedies, none, tried: advice.tried, complete: advice.complete }
    }

    fn remedy(&self, remedy: &Remedy) -> RemedyView {
        let view = match &remedy.change {
            Change::Edit(edit) => self.edit(edit, std::slice::from_ref(edit)),
            Change::Named { edit, all } => self.named(edit, all),
            change => self.change(change, remedy),
        };
        RemedyView {
            size: (remedy.size * 1e6).round() / 1e6,
            after_seconds: remedy.after.0 as f64 / 1e9,
            placed_before: remedy.before,
            preempted: remedy.preempts,
            ..view
        }
    }

    /// A change of a queue that placement made.
    fn named(&self, edit: &Edit, all: &[Edit]) -> RemedyView {
        let view = self.edit(edit, all);
        let text = format!(
            "{} Placement made this queue: for a value of its own the configuration has to name it, and what tags or a child template \
             gave it gives way to that. A change of the template alone is for queues that are made later.",
            view.text
        );
        RemedyView { text, ..view }
    }

    fn edit(&self, edit: &Edit, all: &[Edit]) -> RemedyView {
        let (kind, text) = match edit {
            Edit::Name { queue, .. } => ("queueMax", format!("Name queue {queue} in the configuration.")),
            Edit::Max { queue, amounts } => {
                let from = self.partition.queue_by_path.get(queue).and_then(|ix| {
                    let row = self.partition.queues.get(*ix)?;
                    row.max.as_deref()
                });
                ("queueMax", format!("Raise the max of queue {queue} to {}.", raised(amounts, from)))
            }
            Edit::Guaranteed { queue, amounts } => {
                ("queueMax", format!("Guarantee queue {queue} {}.", raised(amounts, None)))
            }
            Edit::Applications { queue, max } => {
                let row = self.partition.queue_by_path.get(queue).and_then(|ix| self.partition.queues.get(*ix));
                let now = row.map_or(0, |row| row.max_applications);
                (
                    "queueApplications",
                    format!("Let queue {queue} run {} at a time (now {now}).", plural(*max, "application")),
                )
            }
            Edit::LimitMax { queue, entry, amounts } => {
                let limit = limit_of(&self.partition.conf, queue, *entry);
                let from = limit.and_then(|limit| limit.max_resources.as_ref());
                let text =
                    format!("Raise the limit of {} in queue {queue} to {}.", whose(limit), raised(amounts, from));
                ("limit", text)
            }
            Edit::LimitApplications { queue, entry, max } => {
                let limit = limit_of(&self.partition.conf, queue, *entry);
                let now = limit.map_or(0, |limit| limit.max_applications);
                let whose = whose(limit);
                (
                    "limitApplications",
                    format!("Let {whose} run {} at a time in queue {queue} (now {now}).", plural(*max, "application")),
                )
            }
            Edit::Property { queue, name, value } => {
                ("preemption", format!("Set {name} of queue {queue} to {value}: it stands in the way of preemption."))
            }
            Edit::Preemption(_) => ("preemption", "Turn preemption on for the partition.".to_owned()),
        };
        let edited = self.config.edited(&self.partition.name, all).ok();
        let plan = edited.as_ref().map(|edited| {
            let dry_run = self.partition.dry_run(edited.conf.clone(), self.now);
            let applications = dry_run.applications.len() + dry_run.more_applications;
            PlanInShort { applications, exceeded: dry_run.exceeded.len() }
        });
        RemedyView {
            kind: kind.to_owned(),
            text,
            who: "administrator".to_owned(),
            copy: edited.map(|edited| edited.line.trim_end().to_owned()),
            queue: edit.queue().map(ToString::to_string),
            plan,
            ..RemedyView::default()
        }
    }

    fn change(&self, change: &Change, remedy: &Remedy) -> RemedyView {
        let of = |kind: &str, who: &str, text: String| RemedyView {
            kind: kind.to_owned(),
            who: who.to_owned(),
            text,
            ..RemedyView::default()
        };
        match change {
            // Those are views of their own.
            Change::Edit(edit) => self.edit(edit, std::slice::from_ref(edit)),
            Change::Named { edit, all } => self.named(edit, all),
            Change::Wait if self.halt.is_some() => match self.halt {
                Some(Halt::Log(why)) => of(
                    "record",
                    "operator",
                    format!("See to it that its log can be added to: {why}. Nothing else has to be changed."),
                ),
                _ => {
                    let text = "Let the resource manager open its stream again, or the one on which it can be asked: see whether \
                                it runs and reaches the server. Nothing else has to be changed.";
                    of("connect", "resourceManager", text.to_owned())
                }
            },
            Change::Wait if remedy.after == Nanos::ZERO => {
                let text = format!(
                    "Nothing has to be changed: it is placed when its turn comes, as soon as the resource manager has answered \
                     what it was asked{}.",
                    preempted_then(remedy.preempts)
                );
                of("wait", "nobody", text)
            }
            Change::Wait => {
                let seconds = (remedy.after.0 as f64 / 1e9).ceil();
                let how = preempted_then(remedy.preempts);
                of("wait", "nobody", format!("Wait {seconds} s{how}. Nothing has to be changed."))
            }
            Change::Undrain { operator, manager, others } => {
                // A node may be drained by both.
                let own = operator.iter().filter(|node| !manager.contains(node));
                let nodes: Vec<String> = own.chain(manager).map(ToString::to_string).collect();
                let or = match others {
                    0 => String::new(),
                    1 => " (1 more that is large enough is drained)".to_owned(),
                    n => format!(" ({n} more that are large enough are drained)"),
                };
                let copy = (!operator.is_empty()).then(|| {
                    let hosts = operator.iter().map(|node| self.host(node));
                    self.command("resource undrain", &[journal::targets_of(hosts)])
                });
                let (who, how) = match manager.len() {
                    0 => ("operator", String::new()),
                    drained => ("resourceManager", both(drained, operator.len(), nodes.len())),
                };
                let what = if nodes.len() == 1 { "node" } else { "nodes" };
                let text = format!("Undrain {what} {}{or}{how}.", listed(&nodes, 6));
                RemedyView { copy, nodes, ..of("undrain", who, text) }
            }
            Change::Free { node, allocations, freed } => {
                let names: Vec<String> = allocations.iter().map(|(app, key)| format!("{key} of {app}")).collect();
                let what = if names.len() == 1 { "allocation" } else { "allocations" };
                let text = format!(
                    "Free {} on node {node}: end {what} {}.",
                    amounts(freed, freed.iter().count()),
                    listed(&names, NAMED)
                );
                let name = |(app, key): &AskName| AllocationView { application: app.to_string(), key: key.to_string() };
                let allocations = allocations.iter().take(FREED).map(name).collect();
                RemedyView { nodes: vec![node.to_string()], allocations, ..of("free", "operator", text) }
            }
            Change::Smaller { to, ask } => {
                let text = format!("Ask for less: {} instead of {}.", exactly(to), self.size_of(ask));
                of("smaller", "owner", text)
            }
            Change::Members { app, keys, of: now } => {
                let members = plural(keys.len(), "member");
                let text = format!("Submit the gang again with {members} instead of {now}.{}", self.given_up(app));
                of("members", "owner", text)
            }
            Change::Queue { app, queue } => RemedyView {
                queue: Some(queue.to_string()),
                ..of("queue", "owner", format!("Submit the application again, to queue {queue}.{}", self.given_up(app)))
            },
            Change::Resume { queues, app } => {
                let names: Vec<String> = queues.iter().map(ToString::to_string).collect();
                let text = format!("Resume {}, and submit {app} again.", listed(&names, 6));
                let copy = Some(self.command("queue resume", &names));
                RemedyView { copy, queue: names.first().cloned(), ..of("resume", "operator", text) }
            }
            Change::Preempt { .. } => {
                let text =
                    "Let the ask preempt others: submit it with a priority class that allows it (allowPreemptOther).";
                of("preemption", "owner", text.to_owned())
            }
            Change::Register { node, capacity } => {
                let text = format!("Register node {node}, which it requires (tried with {}).", amounts(capacity, 3));
                RemedyView { nodes: vec![node.to_string()], ..of("registerNode", "resourceManager", text) }
            }
            Change::Nodes { count, like, capacity } => {
                let (nodes, size) = (plural(*count, "node"), amounts(capacity, 3));
                let text = format!("Add {nodes} like {like} ({size}{}).", either(count, "", " each"));
                RemedyView { nodes: vec![like.to_string()], ..of("addNodes", "operator", text) }
            }
        }
    }

    /// What a remedy adds where an application has to be submitted again, and has allocations now.
    fn given_up(&self, app: &str) -> &'static str {
        let row = self.partition.app_by_id.get(app).and_then(|ix| self.partition.apps.get(*ix));
        match row.is_some_and(|row| !row.allocs.is_empty()) {
            true => " What it has goes to others first, where they can use it: that was tried, too.",
            false => "",
        }
    }

    fn node(&self, id: &str) -> Option<&Node> {
        self.partition.nodes.get(*self.partition.node_by_id.get(id)?)
    }

    /// The host by which an operator drains it.
    fn host(&self, id: &Arc<str>) -> Arc<str> {
        self.node(id).map_or_else(|| id.clone(), |node| node.spec.host())
    }

    /// A command of an operator, for a shell.
    fn command(&self, what: &str, words: &[String]) -> String {
        let partition = if self.shown == "default" { &[][..] } else { &["--partition", self.shown] };
        let words = words.iter().map(String::as_str).chain(partition.iter().copied());
        let words: Vec<String> = words.map(quoted).collect();
        format!("callboard {what} {}", words.join(" "))
    }

    fn size_of(&self, (app, key): &AskName) -> String {
        let alloc = self.partition.alloc(app, key);
        alloc.map_or_else(|| "what it asks for".to_owned(), |alloc| exactly(&alloc.resource))
    }
}

/// What waiting costs others.
fn preempted_then(allocations: usize) -> String {
    match allocations {
        0 => String::new(),
        some => format!(": {} {} preempted for it then", plural(some, "allocation"), either(&some, "is", "are")),
    }
}

/// Who has to undrain nodes of which the resource manager drained so many, and an operator so many.
fn both(manager: usize, operator: usize, nodes: usize) -> String {
    let of = |drained: usize| match (drained == nodes, nodes) {
        (true, 1) => "it".to_owned(),
        (true, _) => "them".to_owned(),
        (false, _) => format!("{drained} of them"),
    };
    let again = if manager == 1 { "it" } else { "them" };
    let mut how = format!(": the resource manager drained {}, and has to make {again} schedulable again", of(manager));
    if operator > 0 {
        how.push_str(&format!(
            "; an operator drained {}, and has to undrain {}, too",
            of(operator),
            if operator == 1 { "it" } else { "them" }
        ));
    }
    how
}

fn none_text(none: Nothing, complete: bool) -> &'static str {
    match none {
        Nothing::TooLarge => "None: it is larger than every node.",
        Nothing::RequiredTooSmall => "None: the node that it requires is too small for it, even when empty.",
        Nothing::NoNodes => "None: no node is registered. It is up to the resource manager to register some.",
        Nothing::ResourceManager => "None: it is up to the resource manager.",
        Nothing::Never => "None: nothing more is placed for this application here.",
        Nothing::NoSingleChange if complete => "None: no change of one setting alone would place it.",
        Nothing::NoSingleChange => "None was found; not all that there is could be tried.",
    }
}

/// A word as a shell takes it.
pub fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_.,:@%+=/-".contains(c);
    if word.chars().all(plain) { word.to_owned() } else { format!("'{}'", word.replace('\'', r"'\''")) }
}

/// The first few of a list.
fn listed(names: &[String], most: usize) -> String {
    let mut text = names.iter().take(most).cloned().collect::<Vec<_>>().join(", ");
    if names.len() > most {
        text.push_str(&format!(" and {} more", names.len() - most));
    }
    text
}

/// Amounts for people, so many types at most.
pub fn amounts(resource: &Resource, most: usize) -> String {
    listed_as(resource.named().into_iter().filter(is_some).take(most), shown)
}

/// Amounts as somebody is to set them.
fn exactly(resource: &Resource) -> String {
    listed_as(resource.named().into_iter().filter(is_some), exact)
}

fn is_some((_, amount): &(&str, i64)) -> bool {
    *amount != 0
}

fn listed_as<'a>(amounts: impl Iterator<Item = (&'a str, i64)>, told: impl Fn(&str, i64) -> String) -> String {
    let one = |(kind, amount): (&str, i64)| format!("{} {}", told(kind, amount), noun(kind, amount));
    amounts.map(one).collect::<Vec<_>>().join(", ")
}

/// Amounts, and what they were, which may be nothing.
fn raised(to: &Resource, from: Option<&Resource>) -> String {
    let mut old = Resource::new();
    for (kind, _) in to.iter() {
        if let Some(amount) = from.and_then(|from| from.get(kind)) {
            old.set(kind.clone(), amount);
        }
    }
    let now =
        if old.is_empty() { String::new() } else { format!(" (now {})", listed_as(old.named().into_iter(), exact)) };
    format!("{}{now}", exactly(to))
}

fn queue_of<'a>(conf: &'a PartitionConf, path: &str) -> Option<&'a QueueConf> {
    let mut queue = &conf.root;
    for part in path.split('.').skip(1) {
        queue = queue.children.iter().find(|child| *child.name == *part)?;
    }
    Some(queue)
}

fn limit_of<'a>(conf: &'a PartitionConf, path: &str, entry: usize) -> Option<&'a LimitConf> {
    queue_of(conf, path)?.limits.get(entry)
}

fn whose(limit: Option<&LimitConf>) -> String {
    let list = |what: &str, names: &[Arc<str>]| match names {
        [] => None,
        [one] if &**one == "*" => Some(format!("all {what}s")),
        [one] => Some(format!("{what} {one}")),
        many => Some(format!("{what}s {}", many.join(", "))),
    };
    let both = limit.map(|limit| [list("user", &limit.users), list("group", &limit.groups)]);
    both.into_iter().flatten().flatten().collect::<Vec<_>>().join(" and ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config;

    const QUEUES: &str = "partitions: [{name: default, queues: [{name: root, submitacl: '*', queues: [{name: q}]}]}]";

    fn view(change: Change) -> RemedyView {
        view_while(change, None)
    }

    fn view_while(change: Change, halt: Option<&Halt>) -> RemedyView {
        let config = config::load(QUEUES).expect("valid");
        let conf = config.partitions[0].clone();
        let partition = Partition::new("rm".into(), "[rm]default".into(), conf, Nanos::ZERO, &mut Vec::new());
        let remedy = Remedy { change, size: 0.5, after: Nanos::ZERO, before: 0, preempts: 0 };
        let source = Source { partition: &partition, shown: "default", config: &config, now: Nanos::ZERO, halt };
        source.remedy(&remedy)
    }

    fn undrain(operator: &[&str], manager: &[&str], others: usize) -> RemedyView {
        let ids = |nodes: &[&str]| nodes.iter().map(|node| Arc::from(*node)).collect();
        view(Change::Undrain { operator: ids(operator), manager: ids(manager), others })
    }

    #[test]
    fn who_has_to_undrain_nodes_is_told_of_each_once() {
        let told = |view: &RemedyView| (view.text.clone(), view.who.clone(), view.copy.clone());
        let (text, who, copy) = told(&undrain(&["n1"], &[], 1));
        assert_eq!((&*text, &*who), ("Undrain node n1 (1 more that is large enough is drained).", "operator"));
        assert_eq!(copy.as_deref(), Some("callboard resource undrain n1"));
        let (text, who, copy) = told(&undrain(&[], &["n1"], 0));
        let alone = "Undrain node n1: the resource manager drained it, and has to make it schedulable again.";
        assert_eq!((&*text, &*who, copy), (alone, "resourceManager", None));
        let both = undrain(&["n1"], &["n1"], 0);
        let (text, who, copy) = told(&both);
        assert_eq!(
            text,
            "Undrain node n1: the resource manager drained it, and has to make it schedulable again; an operator drained it, \
             and has to undrain it, too."
        );
        assert_eq!((&*who, copy.as_deref()), ("resourceManager", Some("callboard resource undrain n1")));
        assert_eq!(both.nodes, ["n1"]);
        let some = undrain(&["n1", "n3"], &["n2", "n3"], 0);
        assert_eq!(some.nodes, ["n1", "n2", "n3"]);
        assert!(some.text.contains("drained 2 of them, and has to make them"), "{}", some.text);
    }

    #[test]
    fn what_waits_for_a_log_is_no_matter_of_the_resource_manager() {
        let told = |halt: &Halt| {
            let view = view_while(Change::Wait, Some(halt));
            (view.kind, view.who, view.text)
        };
        let (kind, who, text) = told(&Halt::Log("its bound is reached".into()));
        assert_eq!((&*kind, &*who), ("record", "operator"));
        assert!(text.contains("added to: its bound is reached."), "{text}");
        let (kind, who, _) = told(&Halt::Away);
        assert_eq!((&*kind, &*who), ("connect", "resourceManager"));
    }

    #[test]
    fn a_limit_of_nothing_is_told_as_what_it_is() {
        let gpus = |count| Resource::of(&[("nvidia.com/gpu", count)]);
        assert_eq!(raised(&gpus(1), Some(&gpus(0))), "1 nvidia.com/gpu (now 0 nvidia.com/gpu)");
        assert_eq!(raised(&gpus(1), None), "1 nvidia.com/gpu");
    }

    #[test]
    fn all_that_has_to_end_is_named() {
        let allocations: Vec<AskName> = (0..5).map(|n| ("app".into(), format!("k{n}").into())).collect();
        let view = view(Change::Free { node: "n1".into(), allocations, freed: Resource::of(&[("memory", 5)]) });
        assert!(view.text.ends_with("k0 of app, k1 of app, k2 of app and 2 more."), "{}", view.text);
        assert_eq!(view.allocations.iter().map(|one| &*one.key).collect::<Vec<_>>(), ["k0", "k1", "k2", "k3", "k4"]);
    }
}
