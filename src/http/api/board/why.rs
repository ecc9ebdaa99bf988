//! Why something waits, in words and in figures: a code to count by, a sentence for people, and what the sentence rests on.

mod figures;

use std::{borrow::Cow, sync::Arc};

pub use figures::{Figures, exact, noun, shown};
use schemars::JsonSchema;
use serde::Serialize;

use crate::{
    domain::{
        partition::{KeptFor, Nodes, Unfit, Waiting, Why},
        resources::{Resource, ResourceType, clamp},
        types::Nanos,
        ugm::{LimitRefusal, Who},
        words::{either, plural},
    },
    http::ws_v1::{json::Amounts, time_text},
    messages::rm::Halt,
};

/// A reason.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Reason {
    /// One of a fixed set, to count by.
    pub code: &'static str,
    /// A sentence.
    pub text: String,
    /// The queue that is at fault.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// The user at fault.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// The group at fault.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// The node at fault.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// The figures of each type that is short.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub short: Vec<Short>,
    /// How the nodes stand to the ask.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nodes: Option<NodeCounts>,
}

/// A type of which there is not enough: memory in bytes, vcore in milli.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "Shortage")]
#[serde(rename_all = "camelCase")]
pub struct Short {
    /// Its name.
    pub resource: Cow<'static, str>,
    wanted: i64,
    /// What is left of the limit; or the most that one node has left, or when empty where all are too small.
    available: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    limit: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    used: Option<i64>,
    /// What of the limit is promised to asks that have preempted; left out where that is nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    promised: Option<i64>,
    /// What of the limit is kept for gangs that have begun; left out where that is nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    kept: Option<i64>,
}

impl Short {
    /// What is wanted, with its noun, and what there is of it.
    fn told(&self) -> (String, String) {
        let figures = self.figures();
        let wanted = format!("{} {}", figures.told(self.wanted), noun(&self.resource, self.wanted));
        (wanted, figures.told(self.available))
    }

    /// As its figures are told: the shortage shows in them.
    fn figures(&self) -> Figures<'_> {
        match self.limit {
            Some(limit) => {
                let taken = [self.used, self.promised, self.kept].map(|part| part.unwrap_or(0));
                let all = [&[limit, self.wanted][..], &taken].concat();
                Figures::of(&self.resource, &all, |read| read[1..].iter().sum::<i128>() > read[0])
            }
            None => Figures::of(&self.resource, &[self.wanted, self.available], |_| true),
        }
    }
}

/// Each node once, for the first that holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "NodesInVain")]
#[serde(rename_all = "camelCase")]
pub struct NodeCounts {
    too_small: usize,
    drained: usize,
    full: usize,
    reserved: usize,
    refused: usize,
    open: usize,
}

impl NodeCounts {
    fn of(nodes: &Nodes) -> NodeCounts {
        NodeCounts {
            too_small: nodes.too_small,
            drained: nodes.drained,
            full: nodes.full,
            reserved: nodes.reserved,
            refused: nodes.refused,
            open: nodes.open,
        }
    }
}

/// Every code that a reason may have.
pub const CODES: [&str; 21] = [
    "stopped",
    "noNodes",
    "ending",
    "backOff",
    "notALeaf",
    "runningApps",
    "userApps",
    "gang",
    "placeholder",
    "gangRoom",
    "userQuota",
    "queueQuota",
    "requiredNode",
    "nodes",
    "refused",
    "tooLarge",
    "asking",
    "preempting",
    "paused",
    "notRecorded",
    "turn",
];

/// The title of a code: what a group of reasons is called.
pub fn title(code: &str) -> &'static str {
    match code {
        "stopped" => "partition is being stopped",
        "noNodes" => "no nodes are registered",
        "ending" => "application is ending",
        "backOff" => "backing off after failures",
        "notALeaf" => "queue is not a leaf",
        "runningApps" => "queue runs all it may",
        "userApps" => "user or group runs all it may",
        "gang" => "waiting for the gang",
        "placeholder" => "waiting for a placeholder",
        "gangRoom" => "no room for the whole gang",
        "userQuota" => "user or group limit",
        "queueQuota" => "queue at its max",
        "requiredNode" => "required node cannot take it",
        "nodes" => "no node has room",
        "refused" => "refused by the resource manager",
        "tooLarge" => "larger than every node",
        "asking" => "being checked by the resource manager",
        "preempting" => "others are going for it",
        "paused" => "resource manager is away",
        "notRecorded" => "cannot be recorded",
        _ => "next in turn",
    }
}

/// The code of the reason of these asks, without its words.
pub fn code(waiting: &Waiting, halt: Option<&Halt>) -> &'static str {
    match &waiting.why {
        Why::Stopped => "stopped",
        Why::NoNodes => "noNodes",
        Why::Ending(_) => "ending",
        Why::BackOff(_) | Why::Failures(_) => "backOff",
        Why::NotALeaf => "notALeaf",
        Why::RunningApps { .. } => "runningApps",
        Why::UserApps(_) => "userApps",
        Why::Gang { .. } | Why::GangToCome(_) | Why::GangShort(_) => "gang",
        Why::Placeholder { .. } | Why::Replacing { .. } => "placeholder",
        Why::GangNodes(nodes) if nodes.is_refused() => "refused",
        Why::GangRoom { .. } | Why::GangNodes(_) => "gangRoom",
        Why::Refused { .. } => "refused",
        Why::UserQuota(_) => "userQuota",
        Why::QueueQuota { .. } => "queueQuota",
        Why::RequiredNode { .. } => "requiredNode",
        Why::Nodes(nodes) => nodes_code(nodes),
        Why::Asking(_) => "asking",
        Why::Preempting { .. } => "preempting",
        Why::Turn => match halt {
            Some(Halt::Away) => "paused",
            Some(Halt::Log(_)) => "notRecorded",
            None => "turn",
        },
    }
}

fn nodes_code(nodes: &Nodes) -> &'static str {
    if nodes.is_refused() {
        "refused"
    } else if nodes.is_too_large() {
        "tooLarge"
    } else {
        "nodes"
    }
}

/// What is to be said beside all else where nothing new is placed at all.
pub fn besides(halt: &Halt) -> String {
    match halt {
        Halt::Away => " Besides, the resource manager is away: nothing new is placed until it is back.".to_owned(),
        Halt::Log(why) => format!(" Besides, nothing is placed at present: {why}."),
    }
}

impl Reason {
    fn new(code: &'static str, text: String) -> Reason {
        Reason { code, text, queue: None, user: None, group: None, node: None, short: Vec::new(), nodes: None }
    }

    /// The reason of these asks. `halt`: why nothing new is placed at all.
    pub fn of(waiting: &Waiting, halt: Option<&Halt>) -> Reason {
        let mut reason = Reason::by_itself(waiting, halt);
        if let Some(halt) = halt.filter(|_| waiting.why != Why::Turn) {
            reason.text.push_str(&besides(halt));
        }
        reason
    }

    fn by_itself(waiting: &Waiting, halt: Option<&Halt>) -> Reason {
        let wanted = &*waiting.wanted;
        let code = code(waiting, halt);
        match &waiting.why {
            Why::Stopped => Reason::new(code, "The partition is being stopped.".into()),
            Why::NoNodes => Reason::new(code, "No node is registered in this partition.".into()),
            Why::Ending(state) => {
                Reason::new(code, format!("The application is {}: nothing new is placed for it.", state.name()))
            }
            Why::BackOff(until) => Reason::new(
                code,
                format!("Too many of its asks found no node: it is tried again at {}.", time_text(whole(*until))),
            ),
            Why::Failures(failures) => {
                let (node, until) = (&failures.node, failures.until.unwrap_or_default());
                let text = format!(
                    "The resource manager could not carry out {} of it in a row, the last on node {node}: it is tried again at {}.",
                    plural(failures.count, "allocation"),
                    time_text(whole(until))
                );
                Reason { node: Some(node.to_string()), ..Reason::new(code, text) }
            }
            Why::NotALeaf => Reason::new(
                code,
                "Its queue has become a parent queue, which runs no applications; it waits until it is a leaf again."
                    .into(),
            ),
            Why::RunningApps { queue, max, running } => Reason {
                queue: Some(queue.to_string()),
                ..Reason::new(
                    code,
                    format!(
                        "Queue {queue} runs {running} of at most {}; this one has to wait for an end.",
                        plural(*max, "application")
                    ),
                )
            },
            Why::UserApps(refusal) => user_apps(refusal),
            Why::Gang { missing, placed } => Reason::new(
                code,
                format!(
                    "The gang is not complete: {placed} of {} are placed. Real work starts when all are.",
                    plural(placed + missing, "placeholder")
                ),
            ),
            Why::GangToCome(until) => Reason::new(
                code,
                format!(
                    "No placeholder of the gang has come yet. Real work waits for the first, until {} at most.",
                    time_text(whole(*until))
                ),
            ),
            Why::Placeholder { live, leaving: true } => Reason::new(
                code,
                format!(
                    "It waits until the resource manager has confirmed that the {} of task group {} that {} told to go {} gone, and is placed as any other then.",
                    plural(*live as usize, "placeholder"),
                    waiting.task_group,
                    either(live, "was", "were"),
                    either(live, "has", "have"),
                ),
            ),
            Why::Placeholder { live, .. } => Reason::new(
                code,
                format!(
                    "It waits for a placeholder of task group {}, of which {live} {} left: it replaces one as soon as that is placed, \
                     and is placed as any other when the resource manager has confirmed that none is left.",
                    waiting.task_group,
                    are(*live as usize),
                ),
            ),
            Why::Refused { live, nodes, said } => Reason::new(
                code,
                format!(
                    "It is to replace a placeholder of task group {}, of which {live} {} left, and the resource manager refused it on {}: {said}",
                    waiting.task_group,
                    are(*live as usize),
                    plural(*nodes, "node"),
                ),
            ),
            Why::GangRoom { queue, max, used, promised, kept, own } => {
                let short = short_of(wanted, max, used, [promised, kept]);
                let text = above_limit(waiting, &short, || format!("the max of queue {queue}")).unwrap_or_else(|| {
                    format!(
                        "Queue {queue} has no room for all placeholders of the gang at once, and none is placed before it has: {}.{}",
                        told(&short),
                        own_part(own, &short)
                    )
                });
                Reason { queue: Some(queue.to_string()), short, ..Reason::new(code, text) }
            }
            Why::GangShort(come) => gang_short(come, &waiting.wanted),
            Why::GangNodes(nodes) => gang_nodes(nodes, &waiting.wanted),
            Why::UserQuota(refusal) => user_quota(refusal, waiting),
            Why::QueueQuota { queue, max, used, promised } => {
                let short = short_of(wanted, max, used, [promised, &Resource::new()]);
                let text = match &**queue {
                    // All nodes together: see `Why::QueueQuota`.
                    "root" => format!(
                        "A node has room, but all nodes together have none beside what they hold and what is promised: {}.",
                        told(&short)
                    ),
                    _ => above_limit(waiting, &short, || format!("the max of queue {queue}"))
                        .unwrap_or_else(|| format!("Queue {queue} is at its max: {}.", told(&short))),
                };
                Reason {
                    queue: Some(queue.to_string()),
                    text,
                    short,
                    ..Reason::new(code, String::new())
                }
            }
            Why::RequiredNode { node, why, free, said } => required((node, *why), wanted, free.as_ref(), said.as_deref()),
            Why::Nodes(nodes) => nodes_reason(nodes, wanted),
            Why::Asking(node) => Reason {
                node: Some(node.to_string()),
                ..Reason::new(code, format!("The resource manager is being asked whether it fits on node {node}."))
            },
            Why::Replacing { placeholder, node } => Reason {
                node: Some(node.to_string()),
                ..Reason::new(
                    code,
                    format!(
                        "It takes the place of placeholder {placeholder} and runs on node {node} when the resource manager has \
                         confirmed that this is gone."
                    ),
                )
            },
            Why::Preempting { node, leaving, lacks } => {
                Reason { node: Some(node.to_string()), ..Reason::new(code, preempting(node, leaving, lacks)) }
            }
            Why::Turn if let Some(Halt::Log(why)) = halt => {
                Reason::new(code, format!("Nothing is placed at present: {why}."))
            }
            Why::Turn if halt.is_some() => Reason::new(
                code,
                "The resource manager has no open stream, or none on which it can be asked: nothing new is placed until it has."
                    .into(),
            ),
            Why::Turn if waiting.asked_all => Reason::new(
                code,
                format!(
                    "The resource manager has as many questions about placements as may be asked at a time, {}: it waits for \
                     answers, and is placed when its turn comes then.",
                    waiting.asked
                ),
            ),
            Why::Turn if waiting.asked > 0 => Reason::new(
                code,
                format!(
                    "Nothing holds it back: it is placed when its turn comes. The resource manager is being asked about {} at present.",
                    plural(waiting.asked as u64, "ask")
                ),
            ),
            Why::Turn => Reason::new(
                code,
                "Nothing holds it back: it is placed when its turn comes. If it stays so, the resource manager does not \
                 read its callbacks fast enough."
                    .into(),
            ),
        }
    }
}

/// Those who go for an ask that are named.
const LEAVING: usize = 3;

fn preempting(node: &str, leaving: &[(Arc<str>, Arc<str>)], lacks: &Resource) -> String {
    let named: Vec<String> = leaving.iter().take(LEAVING).map(|(app, key)| format!("{key} of {app}")).collect();
    let more = match leaving.len().saturating_sub(LEAVING) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let one = |(kind, n): &(ResourceType, i64)| format!("{} {}", shown(kind.name(), *n), noun(kind.name(), *n));
    let lacks: Vec<String> = Amounts::from(lacks).0.iter().map(one).collect();
    let then = match &lacks[..] {
        [] => format!("It is placed on node {node} when the resource manager has confirmed that they did."),
        lacks => format!(
            "That is not enough any more: when the resource manager has confirmed that they did, node {node} still lacks {} for it, \
             beside what else it holds or has promised.",
            lacks.join(", ")
        ),
    };
    format!("Others were told to end for it: {}{more}. {then}", named.join(", "))
}

fn whole(at: Nanos) -> Nanos {
    Nanos::from_secs(at.as_secs() + 1)
}

fn whose(refusal: &LimitRefusal) -> (&'static str, Option<String>, Option<String>) {
    match refusal.who {
        Who::User => ("User", Some(refusal.name.to_string()), None),
        Who::Group => ("Group", None, Some(refusal.name.to_string())),
    }
}

fn user_apps(refusal: &LimitRefusal) -> Reason {
    let (who, user, group) = whose(refusal);
    let text = format!(
        "{who} {} runs {} of at most {} in queue {}; this one has to wait for an end.",
        refusal.name,
        refusal.applications,
        plural(refusal.limit.applications, "application"),
        refusal.queue
    );
    Reason { user, group, queue: Some(refusal.queue.to_string()), ..Reason::new("userApps", text) }
}

fn user_quota(refusal: &LimitRefusal, waiting: &Waiting) -> Reason {
    let (who, user, group) = whose(refusal);
    let (none, name, queue) = (Resource::new(), &refusal.name, &refusal.queue);
    let max = refusal.limit.resources.as_ref().unwrap_or(&none);
    let short = short_of(&waiting.wanted, max, &refusal.used, [&refusal.promised, &none]);
    let limit = || format!("the limit of {} {name} in queue {queue}", who.to_lowercase());
    let text = above_limit(waiting, &short, limit)
        .unwrap_or_else(|| format!("{who} {name} is at the limit in queue {queue}: {}.", told(&short)));
    Reason { user, group, queue: Some(refusal.queue.to_string()), short, ..Reason::new("userQuota", text) }
}

/// More is wanted than a limit allows in all; `None`: it has to wait until others use less of it.
fn above_limit(waiting: &Waiting, short: &[Short], limit: impl Fn() -> String) -> Option<String> {
    let above = |s: &&Short| s.limit.is_some_and(|limit| s.wanted > limit);
    let one = |s: &Short| {
        let figures = s.figures();
        let most = figures.told(s.limit.unwrap_or(0));
        format!("{} {} wanted, {most} at most", figures.told(s.wanted), noun(&s.resource, s.wanted))
    };
    let types: Vec<String> = short.iter().filter(above).map(one).collect();
    let what = if waiting.wanted == waiting.resource { "It" } else { "The gang" };
    (!types.is_empty())
        .then(|| format!("{what} is larger than {}, and never placed as it is: {}.", limit(), types.join("; ")))
}

fn required((node, why): (&str, Unfit), wanted: &Resource, free: Option<&Resource>, said: Option<&str>) -> Reason {
    let short = free.map_or_else(Vec::new, |free| wanted_of(wanted, |kind| amount(free, kind)));
    let text = match why {
        Unfit::Unknown => format!("It requires node {node}, which is not registered in this partition."),
        Unfit::TooSmall => format!("It requires node {node}, which is too small for it even when empty."),
        Unfit::Full => {
            let list: Vec<String> = short
                .iter()
                .map(|s| (s, s.figures()))
                .map(|(s, figures)| format!("{} free, {} wanted", figures.told(s.available), figures.told(s.wanted)))
                .collect();
            format!("It requires node {node}, which has no room now ({}).", list.join("; "))
        }
        Unfit::Reserved => format!("It requires node {node}, which is reserved for another ask."),
        Unfit::Refused => {
            format!("It requires node {node}, and the resource manager refused it there: {}", said.unwrap_or(NOT_SAID))
        }
    };
    Reason { node: Some(node.to_owned()), short, ..Reason::new("requiredNode", text) }
}

/// Not all placeholders have come.
fn gang_short(come: &Resource, wanted: &Resource) -> Reason {
    let short = wanted_of(wanted, |kind| amount(come, kind));
    let one = |s: &Short| {
        let figures = s.figures();
        format!("{} of {} {}", figures.told(s.available), figures.told(s.wanted), noun(&s.resource, s.wanted))
    };
    let list: Vec<String> = short.iter().map(one).collect();
    let text = format!(
        "The gang is placed all at once, and the resource manager has not sent all of its placeholders yet: {} have come.",
        list.join("; ")
    );
    Reason { short, ..Reason::new("gang", text) }
}

/// The nodes have no room for all of a gang.
fn gang_nodes(nodes: &Nodes, wanted: &Resource) -> Reason {
    let short = wanted_of(wanted, |kind| amount(&nodes.all_free, kind));
    let text = match short.first().map(Short::told) {
        _ if nodes.is_refused() => {
            format!("Of a gang that is placed all at once, for one placeholder {}", refused(nodes))
        }
        Some((wanted, free)) => format!(
            "The nodes have no room for all placeholders of the gang at once: {wanted} wanted, {free} free together on the \
             nodes large enough for one."
        ),
        None => {
            "The nodes have enough for all placeholders of the gang together, but not in pieces that are large enough."
                .to_owned()
        }
    };
    let code = if nodes.is_refused() { "refused" } else { "gangRoom" };
    let text = match nodes.refused {
        1.. if code == "gangRoom" => format!("{text} For one of them {}", refused(nodes)),
        _ => text,
    };
    Reason { short, nodes: Some(NodeCounts::of(nodes)), ..Reason::new(code, text) }
}

/// Where the resource manager did not say why it refused an ask.
const NOT_SAID: &str = "no reason given";

fn refused(nodes: &Nodes) -> String {
    let said = nodes.refusal.as_deref().unwrap_or(NOT_SAID);
    let (count, were) = (plural(nodes.refused, "node"), was(nodes.refused));
    format!("{count} with room {were} refused by the resource manager: {said}")
}

/// The types of which there is less than wanted.
fn wanted_of(wanted: &Resource, left: impl Fn(&ResourceType) -> i64) -> Vec<Short> {
    let row = |(kind, wanted): (ResourceType, i64)| {
        let available = left(&kind);
        Short { resource: (&kind).into(), wanted, available, limit: None, used: None, promised: None, kept: None }
    };
    Amounts::from(wanted).0.into_iter().map(row).filter(|short| short.available < short.wanted).collect()
}

fn nodes_reason(nodes: &Nodes, wanted: &Resource) -> Reason {
    let most = if nodes_code(nodes) == "tooLarge" { &nodes.largest } else { &nodes.most_free };
    let short = wanted_of(wanted, |kind| amount(most, kind));
    let large = nodes.drained + nodes.full + nodes.reserved + nodes.refused;
    let code = nodes_code(nodes);
    let text = if code == "refused" {
        refused(nodes)
    } else if code == "tooLarge" {
        match short.first().map(Short::told) {
            Some((wanted, most)) => {
                format!("It is larger than every node: {wanted} wanted, and the largest has {most}.")
            }
            None => "It is larger than every node: none has as much of everything at once.".to_owned(),
        }
    } else if nodes.reserved > 0 {
        let kept = |KeptFor { node, app, key }: &KeptFor| format!("; {node} for ask {key} of application {app}");
        let whom = nodes.kept_for.as_ref().map_or_else(String::new, kept);
        format!("The only room is on {}, reserved for other asks{whom}.", plural(nodes.reserved, "node"))
    } else if nodes.full == 0 && nodes.drained > 0 {
        format!("The {} large enough {} drained.", plural(nodes.drained, "node"), are(nodes.drained))
    } else if let Some((wanted, most)) = short.first().filter(|_| large > 0).map(Short::told) {
        format!(
            "No node has {wanted} free; the most is {most}, on {} large enough{}.",
            plural(large, "node"),
            if nodes.drained > 0 { format!(", {} of them drained", nodes.drained) } else { String::new() },
        )
    } else {
        let types: Vec<&str> = wanted.iter().filter(|(_, n)| *n > 0).map(|(kind, _)| kind.name()).collect();
        format!("No single node has enough of {} at once.", types.join(" and "))
    };
    let node = nodes.kept_for.as_ref().filter(|_| code == "nodes").map(|kept| kept.node.to_string());
    Reason { short, node, nodes: Some(NodeCounts::of(nodes)), ..Reason::new(code, text) }
}

fn amount(resource: &Resource, kind: &ResourceType) -> i64 {
    clamp(resource.amount(kind))
}

/// `beside`: what is promised, and what is kept.
fn short_of(wanted: &Resource, max: &Resource, used: &Resource, beside: [&Resource; 2]) -> Vec<Short> {
    let row = |(kind, wanted): (ResourceType, i64)| {
        let limit = clamp(max.get(&kind)?);
        let (used, beside) = (amount(used, &kind), beside.map(|part| amount(part, &kind)));
        let available = [used, beside[0], beside[1]].iter().fold(limit, |left, part| left.saturating_sub(*part));
        let [promised, kept] = beside.map(|part| (part != 0).then_some(part));
        (wanted > available).then(|| Short {
            resource: (&kind).into(),
            wanted,
            available,
            limit: Some(limit),
            used: Some(used),
            promised,
            kept,
        })
    };
    Amounts::from(wanted).0.into_iter().filter(|(_, n)| *n > 0).filter_map(row).collect()
}

fn told(short: &[Short]) -> String {
    let one = |s: &Short| {
        let (used, limit) = (s.used.unwrap_or(0), s.limit.unwrap_or(0));
        let figures = s.figures();
        let wanted = figures.told(s.wanted);
        let part = |part: Option<i64>, what| part.map_or_else(String::new, |n| format!("{} {what}, ", figures.told(n)));
        let promised = part(s.promised, "promised to asks that have preempted");
        let kept = part(s.kept, "kept for gangs that have begun");
        format!(
            "{} of {} {} used, {promised}{kept}{wanted} more wanted",
            figures.told(used),
            figures.told(limit),
            noun(&s.resource, limit)
        )
    };
    if short.is_empty() {
        "it was a moment ago".to_owned()
    } else {
        short.iter().map(one).collect::<Vec<_>>().join("; ")
    }
}

/// What the application of a gang has itself of what it waits for: nothing but the end of that, or a larger max, lets it begin.
fn own_part(own: &Resource, short: &[Short]) -> String {
    let amounts = Amounts::from(own).0;
    let has = |s: &Short| {
        let (_, n) = amounts.iter().find(|(kind, n)| *n > 0 && s.resource == Cow::from(kind))?;
        Some(format!("{} {}", s.figures().told(*n), noun(&s.resource, *n)))
    };
    let own: Vec<String> = short.iter().filter_map(has).collect();
    match own.is_empty() {
        true => String::new(),
        false => format!(
            " Its application has {} of that itself: the gang begins when that has ended, or with a larger max. A driver that \
             is a part of the gang names a task group, and has no more than was announced for it.",
            own.join(", ")
        ),
    }
}

const fn was(n: usize) -> &'static str {
    if n == 1 { "was" } else { "were" }
}

const fn are(n: usize) -> &'static str {
    if n == 1 { "is" } else { "are" }
}

#[cfg(test)]
mod tests;
