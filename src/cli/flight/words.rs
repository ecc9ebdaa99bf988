//! Records in words.

use serde_json::Value;

use crate::domain::words::plural;
use crate::{
    actors::rm::record::kind,
    domain::{
        command::{AllocationItem, Command, NodeItem, ReleaseItem},
        effect::{AppEffect, Callback, Effect, NodeEffect, QueueEffect},
        journal::DrainNote,
        log::{Input, Step},
        resources::Resource,
    },
};

/// So many bytes.
pub fn size(bytes: u64) -> String {
    match bytes {
        0..1_024 => plural(bytes, "byte"),
        1_024..1_048_576 => format!("{:.1} KiB", bytes as f64 / 1_024.0),
        _ => format!("{:.1} MiB", bytes as f64 / 1_048_576.0),
    }
}

/// A line names this object, as a word of its own.
pub fn names(line: &str, object: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '@');
    line.match_indices(object).any(|(at, found)| {
        let before = line[..at].chars().next_back().is_some_and(is_part);
        let after = line[at + found.len()..].chars().next().is_some_and(is_part);
        !before && !after
    })
}

/// What went into a partition, a line for each thing.
pub fn step(step: &Step) -> Vec<String> {
    match &step.input {
        Input::Schedule { max } => vec![format!("decide on up to {max}")],
        Input::Dismantle { max } => vec![format!("take apart up to {max}")],
        Input::Apply(command) => of_command(command),
    }
}

fn of_command(command: &Command) -> Vec<String> {
    match command {
        Command::Nodes(items) => items.iter().map(node).collect(),
        Command::Applications { new, remove } => {
            let new = new.iter().map(|app| {
                let groups = app.groups.as_ref().map_or(String::new(), |groups| format!(" of {}", groups.join(", ")));
                let gang = app.placeholder_ask.as_ref();
                let gang =
                    gang.map_or(String::new(), |ask| format!(", a gang of {} ({})", amounts(ask), app.gang_style));
                format!("application {} by {}{groups} for {}{gang}", app.id, app.user, or(&app.queue, "any queue"))
            });
            new.chain(remove.iter().map(|app| format!("application {app} is removed"))).collect()
        }
        Command::Allocations { allocations, releases } => {
            allocations.iter().map(allocation).chain(releases.iter().map(release)).collect()
        }
        Command::Configure(conf) => vec![format!("a configuration of {}", conf.name)],
        Command::Tick => vec!["time has come".to_owned()],
        Command::Predicate(answer) => vec![match &answer.result {
            Ok(()) => format!("answer to question {}: it fits", answer.question),
            Err(why) => format!("answer to question {}: {why}", answer.question),
        }],
        Command::Unanswered(question) => vec![format!("nobody answers question {question}")],
        Command::AskPredicates(on) => vec![format!("predicates are asked for: {on}")],
        Command::Turn(turn) => vec![format!("turns of constrained asks: {turn:?}")],
        Command::PredicateTerms(terms) => vec![format!("a question names up to {}", plural(terms.nodes, "node"))],
        Command::ContainerStates(all) => vec![format!("all container states are wanted: {all}")],
        Command::Reservations(on) => vec![format!("nodes are reserved: {on}")],
        Command::OperatorDrain { nodes, drained } => {
            vec![format!("an operator {} {}", if *drained { "drains" } else { "undrains" }, nodes.join(", "))]
        }
        Command::HoldHosts { hosts, held } => {
            vec![format!("hosts {} are {}", hosts.join(", "), if *held { "held back" } else { "not held back" })]
        }
        Command::NoteDrains(notes) => {
            let why = |note: &DrainNote| note.reason.clone().unwrap_or_else(|| "no reason".into());
            notes.iter().map(|(host, note)| format!("host {host} is drained: {}", why(note))).collect()
        }
        Command::OrderQueues(orders) => {
            let order = |order: &Option<_>| if order.is_some() { "gets an order" } else { "has no order any more" };
            orders.iter().map(|(path, given)| format!("queue {path} {}", order(given))).collect()
        }
        Command::DrainOverdue(overdue) => {
            vec![format!("the deadline for {} to be empty has passed", overdue.join(", "))]
        }
        Command::Stop => vec!["the partition ends".to_owned()],
    }
}

fn or<'a>(text: &'a str, other: &'a str) -> &'a str {
    if text.is_empty() { other } else { text }
}

fn amounts(resource: &Resource) -> String {
    let amounts = resource.iter().map(|(kind, amount)| format!("{}={amount}", kind.name()));
    amounts.collect::<Vec<_>>().join(" ")
}

fn node(item: &NodeItem) -> String {
    let capacity = item.capacity.as_ref().map_or(String::new(), |capacity| format!(" with {}", amounts(capacity)));
    format!("node {}: {:?}{capacity}", item.id, item.action)
}

fn allocation(item: &AllocationItem) -> String {
    let AllocationItem { app, node, spec } = item;
    let what = match node {
        Some(node) => format!("allocation {} on {node}", spec.key),
        None if spec.placeholder => format!("placeholder {}", spec.key),
        None => format!("ask {}", spec.key),
    };
    let group = if spec.task_group.is_empty() { String::new() } else { format!(", task group {}", spec.task_group) };
    format!("{what} of {}: {}{group}", or(app, "nobody"), amounts(&spec.resource))
}

fn release(item: &ReleaseItem) -> String {
    format!("release of {} of {}: {:?}", or(&item.key, "all"), or(&item.app, "nobody"), item.termination)
}

/// What came out of a partition.
pub fn effect(effect: &Effect) -> String {
    match effect {
        Effect::Callback(callback) => of_callback(callback),
        Effect::Event(event) => {
            let reference = if event.reference.is_empty() { String::new() } else { format!(" {}", event.reference) };
            let message = if event.message.is_empty() { String::new() } else { format!(": {}", event.message) };
            // Most events have one of the two only.
            let kinds = [format!("{:?}", event.change), format!("{:?}", event.detail)];
            let kinds: String = kinds.into_iter().filter(|kind| kind != "None").map(|kind| kind + " ").collect();
            format!("event {kinds}{}{reference}{message}", event.object)
        }
        Effect::Ask(question) => format!("question {}: does {} fit on {}?", question.id, question.key, question.node),
        Effect::Turn(effect) => format!("turns of constrained asks: {effect:?}"),
        Effect::App(effect) => match effect {
            AppEffect::Added { app } => format!("application {app} is there"),
            AppEffect::Removed { app } => format!("application {app} is gone"),
            AppEffect::Ended { summary } => format!("application {} ended", summary.app),
            AppEffect::Unconfirmed { release } => format!("{} of {} is to be confirmed", release.key, release.app),
            AppEffect::Confirmed { app, key, .. } => format!("{key} of {app} needs no confirmation"),
        },
        Effect::Queue(effect) => match effect {
            QueueEffect::Added { queue } => format!("queue {queue} is there"),
            QueueEffect::Removed { queue } => format!("queue {queue} is gone"),
            QueueEffect::Admitted { queue, app } => format!("queue {queue} takes {app}"),
            QueueEffect::Refused { queue, app, reason } => format!("queue {queue} refuses {app}: {reason}"),
        },
        Effect::Node(effect) => match effect {
            NodeEffect::Registered { node, .. } => format!("node {node} is there"),
            NodeEffect::Held { node } => format!("node {node} is held back"),
            NodeEffect::Seen { node } => format!("node {node} lives"),
            NodeEffect::Capacity { node, capacity } => format!("node {node} has {}", amounts(capacity)),
            NodeEffect::Schedulable { node, schedulable } => format!("node {node} takes allocations: {schedulable}"),
            NodeEffect::Renamed { node, host } => format!("node {node} is on host {host}"),
            NodeEffect::Removed { node } => format!("node {node} is gone"),
        },
    }
}

fn of_callback(callback: &Callback) -> String {
    match callback {
        Callback::New(new) => format!("new {} of {} on {}", new.spec.key, new.app, new.node),
        Callback::Released(gone) => {
            format!("released {} of {} ({:?}): {}", gone.key, gone.app, gone.termination, gone.message)
        }
        Callback::RejectedAllocation { key, app, reason } => format!("refused {key} of {app}: {reason}"),
        Callback::AcceptedApplication(app) => format!("accepted application {app}"),
        Callback::RejectedApplication { app, reason } => format!("refused application {app}: {reason}"),
        Callback::UpdatedApplication { app, state, message, .. } => {
            format!("application {app} is {state:?}: {message}")
        }
        Callback::AcceptedNode(node) => format!("accepted node {node}"),
        Callback::RejectedNode { node, reason } => format!("refused node {node}: {reason}"),
        Callback::ContainerState { app, key, state, reason } => format!("{key} of {app} is {state:?}: {reason}"),
    }
}

/// A record of a session that is of no partition.
pub fn session(of: u32, payload: &[u8]) -> String {
    let value: Value = serde_json::from_slice(payload).unwrap_or_default();
    match of {
        kind::REGISTERED => format!("session {} begins", value["epoch"]),
        kind::RECONFIGURED => "the configuration changes".to_owned(),
        kind::ENDED => format!("the session ends: {}", value["why"].as_str().unwrap_or_default()),
        kind::SAID => "said once more to the shim, or by the server itself".to_owned(),
        kind::EVENTS => "events for the shim".to_owned(),
        kind::STATE_DUMP => "the shim is asked for its state".to_owned(),
        kind::MANNER => "how the shim is asked changes".to_owned(),
        kind::HANDED => "lines were handed to the shim".to_owned(),
        kind::RESTARTED => "the server was started again".to_owned(),
        kind::KEYED => "requests with keys were carried out".to_owned(),
        kind::STANDING => {
            "what operators told partitions that are not there holds for the next of their names".to_owned()
        }
        kind::REFUSED => {
            format!("numbered configuration {} was refused: {}", value[0], value[1].as_str().unwrap_or_default())
        }
        kind::TAKEN => "numbered requests were carried out".to_owned(),
        other => format!("a record of kind {other}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_is_named_as_a_word() {
        let line = "new ask-1 of app-1 on node-1";
        assert!(names(line, "ask-1") && names(line, "app-1") && names(line, "node-1"));
        assert!(!names(line, "ask") && !names(line, "1") && !names(line, "app-11") && !names(line, "de-1"));
        assert!(names("queue root.a takes app", "root.a") && names("queue root.a takes app", "a"));
    }
}
