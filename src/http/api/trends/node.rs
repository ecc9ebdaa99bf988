//! What a node had over time: what it has now, and back from there by the events that changed it.

use std::collections::BTreeMap;

use actix::Addr;

use super::series::{Key, Measure, Steps};
use crate::{
    actors::event::EventActor,
    domain::{
        event::{Change, Detail, Event, EventKind},
        event_block::EventPiece,
        resources::Resource,
        types::Nanos,
    },
    messages::event::{FindInLog, ReadError, ReadLog},
};

/// Events that are asked for at a time.
const PAGE: usize = 8_192;

/// A change of what a node has.
#[derive(Debug, PartialEq)]
enum Step {
    Added(Resource),
    Removed(Resource),
    /// What it can hold was set: before, it was something else.
    Capacity,
    /// It came, or events are missing: nothing is known of the time before.
    Begin,
}

/// What is known of a node.
pub struct Known<'a> {
    /// Internal name of its partition.
    pub partition: &'a str,
    /// Its id.
    pub id: &'a str,
    /// What is taken of it now.
    pub used: &'a Resource,
    /// What it can hold now.
    pub capacity: &'a Resource,
}

/// Values in the steps that begin and end at these times.
///
/// # Errors
/// The log cannot be read; `None`: the server stops.
pub async fn read(events: &Addr<EventActor>, node: &Known<'_>, times: &[Nanos]) -> Result<Steps, Option<ReadError>> {
    let since = times.first().copied().unwrap_or_default();
    let mut from = events.send(FindInLog { at: since }).await.map_err(|_| None)?.map_err(Some)?;
    let mut changes: Vec<(Nanos, Step)> = Vec::new();
    let mut seen = since;
    loop {
        let page = events.send(ReadLog { from: Some(from), events: PAGE }).await.map_err(|_| None)?.map_err(Some)?;
        let Some(last) = page.pieces.last() else { break };
        from = last.end();
        for piece in &page.pieces {
            match piece {
                EventPiece::Gap(_) => changes.push((seen, Step::Begin)),
                EventPiece::Events(slice) => {
                    seen = slice.events().last().map_or(seen, |event| seen.max(event.at));
                    let own = slice.events().iter().filter(|event| concerns(event, node));
                    changes.extend(own.filter_map(|event| Some((event.at, step(event)?))));
                }
            }
        }
        if from >= page.next {
            break;
        }
    }
    Ok(back(node, &changes, times))
}

fn concerns(event: &Event, node: &Known) -> bool {
    event.kind == EventKind::Node && *event.object == *node.id && *event.partition == *node.partition
}

fn step(event: &Event) -> Option<Step> {
    let amount = || event.resource.as_ref().map(|amount| Resource::clone(amount));
    match (event.change, event.detail) {
        (Change::Add, Detail::NodeAlloc) => amount().map(Step::Added),
        (Change::Remove, Detail::NodeAlloc) => amount().map(Step::Removed),
        (Change::Set, Detail::NodeCapacity) => Some(Step::Capacity),
        (Change::Add, Detail::None) => Some(Step::Begin),
        _ => None,
    }
}

/// From now back to the first time.
fn back(node: &Known, changes: &[(Nanos, Step)], times: &[Nanos]) -> Steps {
    let kinds: Vec<String> = node.capacity.iter().map(|(kind, _)| kind.name().to_owned()).collect();
    let mut used = node.used.clone();
    let (mut known, mut sized) = (true, true);
    let mut changes = changes.iter().rev().peekable();
    let mut undo = |used: &mut Resource, after: Nanos, known: &mut bool, sized: &mut bool, highest: &mut Resource| {
        while let Some((_, step)) = changes.next_if(|(at, _)| *at > after) {
            match step {
                Step::Added(amount) => used.sub(amount),
                Step::Removed(amount) => used.add(amount),
                Step::Capacity => *sized = false,
                Step::Begin => *known = false,
            }
            for (kind, amount) in used.iter().filter(|_| *known) {
                if amount > highest.amount(kind) {
                    highest.set(kind.clone(), amount);
                }
            }
        }
    };
    let mut steps: BTreeMap<Key, Vec<Option<i64>>> = BTreeMap::new();
    if let Some(end) = times.last() {
        undo(&mut used, *end, &mut known, &mut sized, &mut Resource::new());
    }
    for step in times.windows(2).rev() {
        let (was_known, was_sized) = (known, sized);
        let mut highest = used.clone();
        undo(&mut used, step[0], &mut known, &mut sized, &mut highest);
        for kind in &kinds {
            let of = |amounts: &Resource| amounts.named().iter().find(|(name, _)| name == kind).map_or(0, |(_, n)| *n);
            let value = was_known.then(|| of(&highest).max(0));
            steps.entry((Measure::Used, kind.clone())).or_default().push(value);
            let max = (was_known && was_sized).then(|| of(node.capacity));
            steps.entry((Measure::Max, kind.clone())).or_default().push(max);
        }
    }
    steps.values_mut().for_each(|values| values.reverse());
    steps
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_it_has_now_is_where_the_way_back_begins() {
        let at = Nanos::from_secs;
        let of = |amount| Resource::of(&[("vcore", amount)]);
        let node = Known { partition: "[rm]default", id: "n", used: &of(5), capacity: &of(10) };
        let changes = [
            (at(5), Step::Begin),
            (at(12), Step::Added(of(3))),
            (at(15), Step::Added(of(4))),
            (at(17), Step::Removed(of(3))),
            (at(25), Step::Added(of(1))),
            (at(45), Step::Added(of(2))),
            (at(47), Step::Removed(of(2))),
        ];
        let times = [at(0), at(10), at(20), at(30), at(40)];
        let steps = back(&node, &changes, &times);
        let values = |measure| steps[&(measure, "vcore".to_owned())].clone();
        assert_eq!(values(Measure::Used), [Some(0), Some(7), Some(5), Some(5)]);
        assert_eq!(values(Measure::Max), [Some(10); 4]);
        // Nothing is known of the time before it came.
        let earlier = back(&node, &changes, &[at(-20), at(-10), at(0), at(10)]);
        assert_eq!(earlier[&(Measure::Used, "vcore".to_owned())], [None, None, Some(0)]);
    }
}
