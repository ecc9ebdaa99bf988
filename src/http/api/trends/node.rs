//! What a node had over time: what it has now, and back from there by the events that changed it.

use std::{
    collections::BTreeMap,
    iter::{Peekable, Rev},
    slice,
    sync::Arc,
};

use actix::Addr;

use super::series::{Key, Measure, Steps};
use crate::{
    actors::event::EventActor,
    domain::{
        event::{Change, Detail, Event, EventKind},
        event_block::EventPiece,
        node::Node,
        resources::Resource,
        types::Nanos,
    },
    http::api::events::back,
    messages::event::{FindInLog, GetEventStatus, ReadError, ReadLog},
};

/// Events that are asked for at a time.
const PAGE: usize = 8_192;
/// Events that are read: the last ones. Nothing is known of the time before.
const MOST: u64 = 1_000_000;

/// What an event tells of a node.
#[derive(Clone, Debug, PartialEq)]
enum Told {
    /// An allocation came, or (below zero) went.
    Alloc(Resource),
    /// What those of other schedulers have from then on.
    Occupied(Resource),
    /// What it can hold was set: before, it was something else.
    Capacity,
    /// It came: before, it had nothing.
    Came,
    /// Events are missing: nothing is known of the time before.
    Missing,
}

/// A change of what a node has.
#[derive(Debug, PartialEq)]
enum Step {
    /// By so much.
    Changed(Resource),
    Capacity,
    Came,
    Missing,
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
    /// The last changes of size of allocations on it.
    pub resizes: &'a [(Nanos, Resource)],
}

/// Values in the steps that begin and end at these times.
///
/// # Errors
/// The log cannot be read; `None`: the server stops.
pub async fn read(events: &Addr<EventActor>, node: &Known<'_>, times: &[Nanos]) -> Result<Steps, Option<ReadError>> {
    read_last(events, node, times, MOST).await
}

async fn read_last(
    events: &Addr<EventActor>,
    node: &Known<'_>,
    times: &[Nanos],
    most: u64,
) -> Result<Steps, Option<ReadError>> {
    let since = times.first().copied().unwrap_or_default();
    let mut from = events.send(FindInLog { at: since }).await.map_err(|_| None)?.map_err(Some)?;
    let mut told: Vec<(Nanos, Told)> = Vec::new();
    let mut seen = since;
    let status = events.send(GetEventStatus).await.map_err(|_| None)?;
    let first = back::begin_of_last(events, most, back::lowest(&status), status.next).await?;
    let mut cut = from < first;
    from = from.max(first);
    loop {
        let page = events.send(ReadLog { from: Some(from), events: PAGE }).await.map_err(|_| None)?.map_err(Some)?;
        let Some(last) = page.pieces.last() else { break };
        from = last.end();
        for piece in &page.pieces {
            match piece {
                EventPiece::Gap(_) => told.push((seen, Told::Missing)),
                EventPiece::Events(slice) => {
                    let begin = slice.events().first().filter(|_| std::mem::take(&mut cut));
                    told.extend(begin.map(|event| (event.at, Told::Missing)));
                    seen = slice.events().last().map_or(seen, |event| seen.max(event.at));
                    let own = slice.events().iter().filter(|event| concerns(event, node));
                    told.extend(own.filter_map(|event| Some((event.at, tell(event)?))));
                }
            }
        }
        if from >= page.next {
            break;
        }
    }
    Ok(back(node, &with_resizes(steps(told), node.resizes), times))
}

fn concerns(event: &Event, node: &Known) -> bool {
    event.kind == EventKind::Node && *event.object == *node.id && *event.partition == *node.partition
}

fn tell(event: &Event) -> Option<Told> {
    let amount = || event.resource.as_ref().map(|amount| Resource::clone(amount)).unwrap_or_default();
    match (event.change, event.detail) {
        (Change::Add, Detail::NodeAlloc) => Some(Told::Alloc(amount())),
        (Change::Remove, Detail::NodeAlloc) => Some(Told::Alloc(Resource::new().minus(&amount()))),
        (Change::Set, Detail::NodeOccupied) => Some(Told::Occupied(amount())),
        (Change::Set, Detail::NodeCapacity) => Some(Told::Capacity),
        (Change::Add, Detail::None) => Some(Told::Came),
        _ => None,
    }
}

/// What changed, of what was told in order. An allocation of another scheduler is told twice where it comes or goes, by itself and
/// in the sum that follows at once, and in the sum alone where it becomes larger or smaller.
fn steps(told: Vec<(Nanos, Told)>) -> Vec<(Nanos, Step)> {
    let mut steps = Vec::with_capacity(told.len());
    let mut occupied: Option<Resource> = None;
    let mut told = told.into_iter().peekable();
    while let Some((at, one)) = told.next() {
        let step = match one {
            Told::Alloc(amount) => {
                match told.next_if(|(then, next)| *then == at && matches!(next, Told::Occupied(_))) {
                    Some((_, Told::Occupied(sum))) => {
                        let before = occupied.take().unwrap_or_else(|| sum.minus(&amount));
                        let changed = sum.minus(&before);
                        occupied = Some(sum);
                        Step::Changed(changed)
                    }
                    _ => Step::Changed(amount),
                }
            }
            Told::Occupied(sum) => {
                let step = occupied.take().map_or(Step::Missing, |before| Step::Changed(sum.minus(&before)));
                occupied = Some(sum);
                step
            }
            Told::Capacity => Step::Capacity,
            Told::Came => {
                occupied = Some(Resource::new());
                Step::Came
            }
            Told::Missing => {
                occupied = None;
                Step::Missing
            }
        };
        steps.push((at, step));
    }
    steps
}

/// These changes with those of sizes, which no event tells; where there may have been more of these, nothing is known of the time
/// before.
fn with_resizes(mut steps: Vec<(Nanos, Step)>, resizes: &[(Nanos, Resource)]) -> Vec<(Nanos, Step)> {
    let first = resizes.first().filter(|_| resizes.len() >= Node::RESIZES);
    steps.extend(first.map(|(at, _)| (*at, Step::Missing)));
    steps.extend(resizes.iter().map(|(at, amount)| (*at, Step::Changed(amount.clone()))));
    steps.sort_by_key(|(at, _)| *at);
    steps
}

/// A way back from now.
struct Back<'a> {
    changes: Peekable<Rev<slice::Iter<'a, (Nanos, Step)>>>,
    used: Resource,
    /// What it had is known, and what it could hold.
    known: bool,
    sized: bool,
    /// Something changed that nothing tells of: it may have been at any time.
    untold: bool,
}

impl Back<'_> {
    /// Goes back to this time; gives the most that the node had on the way.
    fn to(&mut self, time: Nanos) -> Resource {
        let mut highest = self.used.clone();
        while let Some((_, step)) = self.changes.next_if(|(at, _)| *at > time) {
            match step {
                Step::Changed(amount) => self.used.sub(amount),
                Step::Capacity => self.sized = false,
                Step::Came => {
                    self.untold |= self.known && self.used.iter().any(|(_, rest)| rest != 0);
                    self.known = false;
                }
                Step::Missing => self.known = false,
            }
            for (kind, amount) in self.used.iter().filter(|_| self.known) {
                self.untold |= amount < 0;
                if amount > highest.amount(kind) {
                    highest.set(kind.clone(), amount);
                }
            }
        }
        highest
    }
}

/// From now back to the first time.
fn back(node: &Known, changes: &[(Nanos, Step)], times: &[Nanos]) -> Steps {
    let kinds: Vec<Arc<str>> = node.capacity.iter().map(|(kind, _)| kind.name().into()).collect();
    let changes = changes.iter().rev().peekable();
    let mut way = Back { changes, used: node.used.clone(), known: true, sized: true, untold: false };
    let mut steps: BTreeMap<Key, Vec<Option<i64>>> = BTreeMap::new();
    if let Some(end) = times.last() {
        way.to(*end);
    }
    for step in times.windows(2).rev() {
        let (known, sized) = (way.known, way.sized);
        let highest = way.to(step[0]);
        for kind in &kinds {
            let of =
                |amounts: &Resource| amounts.named().iter().find(|(name, _)| **name == **kind).map_or(0, |(_, n)| *n);
            let value = known.then(|| of(&highest));
            steps.entry((Measure::Used, kind.clone())).or_default().push(value);
            let max = (known && sized).then(|| of(node.capacity));
            steps.entry((Measure::Max, kind.clone())).or_default().push(max);
        }
    }
    for ((measure, _), values) in &mut steps {
        values.reverse();
        if way.untold && *measure == Measure::Used {
            values.fill(None);
        }
    }
    steps
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use actix::Actor as _;

    use super::*;
    use crate::messages::event::Publish;

    #[actix::test]
    async fn nothing_is_known_of_the_time_before_the_events_that_are_read() {
        let at = Nanos::from_secs;
        let of = |amount| Resource::of(&[("vcore", amount)]);
        let event = |time, detail, amount| Event {
            kind: EventKind::Node,
            object: "n".into(),
            reference: "".into(),
            change: Change::Add,
            detail,
            message: "".into(),
            resource: Some(Arc::new(of(amount))),
            at: at(time),
            partition: "[rm]default".into(),
        };
        let events = vec![event(5, Detail::None, 10), event(10, Detail::NodeAlloc, 3), event(20, Detail::NodeAlloc, 2)];
        let actor = EventActor::default().start();
        actor.do_send(Publish { rm: "rm".into(), epoch: 1, events, traced: Vec::new(), first: None });
        let node = Known { partition: "[rm]default", id: "n", used: &of(5), capacity: &of(10), resizes: &[] };
        let times = [at(7), at(15), at(25)];
        let used = async |most| {
            let steps = read_last(&actor, &node, &times, most).await.expect("read");
            steps[&(Measure::Used, "vcore".into())].clone()
        };
        assert_eq!(used(MOST).await, [Some(3), Some(5)]);
        assert_eq!(used(1).await, [None, Some(5)]);
    }

    #[test]
    fn what_it_has_now_is_where_the_way_back_begins() {
        let at = Nanos::from_secs;
        let of = |amount| Resource::of(&[("vcore", amount)]);
        let node = Known { partition: "[rm]default", id: "n", used: &of(5), capacity: &of(10), resizes: &[] };
        let less = |amount: i64| Step::Changed(of(-amount));
        let more = |amount| Step::Changed(of(amount));
        let changes = [
            (at(5), Step::Came),
            (at(12), more(3)),
            (at(15), more(4)),
            (at(17), less(3)),
            (at(25), more(1)),
            (at(45), more(2)),
            (at(47), less(2)),
        ];
        let times = [at(0), at(10), at(20), at(30), at(40)];
        let steps = back(&node, &changes, &times);
        let values = |measure| steps[&(measure, "vcore".into())].clone();
        assert_eq!(values(Measure::Used), [Some(0), Some(7), Some(5), Some(5)]);
        assert_eq!(values(Measure::Max), [Some(10); 4]);
        // Nothing is known of the time before it came.
        let earlier = back(&node, &changes, &[at(-20), at(-10), at(0), at(10)]);
        assert_eq!(earlier[&(Measure::Used, "vcore".into())], [None, None, Some(0)]);
    }

    #[test]
    fn what_other_schedulers_have_is_told_by_its_sum() {
        let at = Nanos::from_secs;
        let of = |amount| Resource::of(&[("vcore", amount)]);
        let (alloc, sum) = (|amount| Told::Alloc(of(amount)), |amount| Told::Occupied(of(amount)));
        let after_it_came = |told: Vec<(Nanos, Told)>| {
            let told = [(at(1), Told::Came)].into_iter().chain(told).collect();
            steps(told).into_iter().skip(1).map(|(_, step)| step).collect::<Vec<_>>()
        };
        let changed = |amounts: &[i64]| amounts.iter().map(|amount| Step::Changed(of(*amount))).collect::<Vec<_>>();
        // One comes, becomes larger beside an own allocation, and goes.
        let told = vec![
            (at(2), alloc(5)),
            (at(2), sum(5)),
            (at(3), alloc(7)),
            (at(4), sum(20)),
            (at(5), alloc(-20)),
            (at(5), sum(0)),
        ];
        assert_eq!(after_it_came(told.clone()), changed(&[5, 7, 15, -20]));
        // Where the sum before is not known, what it became larger by is not, either.
        let mut found: Vec<Step> = steps(told[2..].to_vec()).into_iter().map(|(_, step)| step).collect();
        assert_eq!(found.remove(1), Step::Missing);
        assert_eq!(found, changed(&[7, -20]));
        assert_eq!(steps(told[4..].to_vec()), [(at(5), Step::Changed(of(-20)))]);
    }

    #[test]
    fn where_something_changed_that_no_event_tells_nothing_is_known() {
        let at = Nanos::from_secs;
        let of = |amount| Resource::of(&[("vcore", amount)]);
        let used = |used: i64, changes: &[(Nanos, Step)]| {
            let node = Known { partition: "[rm]default", id: "n", used: &of(used), capacity: &of(100), resizes: &[] };
            let steps = back(&node, changes, &[at(0), at(10), at(20)]);
            assert_eq!(steps[&(Measure::Max, "vcore".into())].last(), Some(&Some(100)));
            steps[&(Measure::Used, "vcore".into())].clone()
        };
        let changed = |time, amount| (at(time), Step::Changed(of(amount)));
        assert_eq!(used(10, &[(at(5), Step::Came), changed(6, 10)]), [Some(10); 2]);
        // It became larger, now or before.
        assert_eq!(used(30, &[(at(5), Step::Came), changed(6, 10)]), [None; 2]);
        assert_eq!(used(0, &[(at(5), Step::Came), changed(6, 10), changed(15, -30)]), [None; 2]);
        // It became smaller, also where its beginning is not read.
        assert_eq!(used(5, &[changed(6, 10)]), [None; 2]);
        assert_eq!(used(5, &[(at(3), Step::Missing), changed(6, 5)]), [Some(5); 2]);
    }
    #[test]
    fn a_change_of_size_shows_from_its_time_on() {
        let at = Nanos::from_secs;
        let of = |amount: i64| Resource::of(&[("vcore", amount)]);
        let used = |used: i64, resizes: &[(Nanos, Resource)], changes: Vec<(Nanos, Step)>| {
            let node = Known { partition: "[rm]default", id: "n", used: &of(used), capacity: &of(100), resizes };
            let steps = back(&node, &with_resizes(changes, resizes), &[at(0), at(10), at(20), at(30)]);
            steps[&(Measure::Used, "vcore".into())].clone()
        };
        let changed = |time, amount| (at(time), Step::Changed(of(amount)));
        // It came before the first time, with 4.
        assert_eq!(used(9, &[(at(15), of(5))], vec![]), [Some(4), Some(9), Some(9)]);
        // It came in between, became larger, then smaller, and went.
        let resizes = [(at(12), of(5)), (at(21), of(-7))];
        assert_eq!(used(0, &resizes, vec![changed(5, 4), changed(25, -2)]), [Some(4), Some(9), Some(9)]);
        // There may have been others before.
        let resizes = vec![(at(15), of(1)); Node::RESIZES];
        assert_eq!(used(70, &resizes, vec![]), [None, Some(70), Some(70)]);
    }
}
