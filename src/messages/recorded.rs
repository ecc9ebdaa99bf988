//! What a partition did, on its way into the log of its resource manager, and what waits until it is there.
//!
//! The resource manager's actor gives each record its number, as it gives lines theirs, when the record arrives with what
//! came of it. Until the record is written, nothing of that leaves: lines wait in the buffer, events in an [`Outlet`], and the
//! receipts of requests with their permits.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use super::{
    application::UnconfirmedRelease,
    budget::Permit,
    event::{Publish, Publisher},
    journal::Standing,
    queue::Admissions,
};
use crate::domain::{
    Partition,
    effect::{AppEffect, Effect, QueueEffect, Released},
    resources::Resource,
    types::{Nanos, Termination},
    usage::{Usage, UsageKey},
};

/// What a partition is told whose doings are recorded.
pub struct Recorded {
    /// Its number in the session.
    pub instance: u32,
    /// Where its events go.
    pub outlet: Arc<Outlet>,
    /// It goes on with this.
    pub replica: Option<Box<Replica>>,
    /// It shows how it was at this time: nothing enters it, nothing falls due, and nothing is recorded.
    pub still: Option<Nanos>,
    /// Another server may have led it before: what operators told it then is in this alone. Where it stands still, another
    /// leads it now.
    pub shared: bool,
    /// What operators told a partition of this name in an earlier session, which another server may have led.
    pub standing: Option<Standing>,
}

/// A partition as its log left it.
#[derive(Clone)]
pub struct Replica {
    /// The partition.
    pub partition: Partition,
    /// What its conversations knew.
    pub talks: Talks,
    /// Number of its last record.
    pub number: u64,
    /// Time of its last step.
    pub at: Nanos,
}

/// What a partition did since the last time.
#[derive(Debug)]
pub struct Entry {
    /// Number of the partition in its session.
    pub instance: u32,
    /// Number of the record, counted from 1.
    pub number: u64,
    /// Time of the last step.
    pub at: Nanos,
    /// With its first record: what it was made from.
    pub beginning: Option<Vec<u8>>,
    /// What went in, as the domain writes it.
    pub steps: Vec<u8>,
    /// Digest of the effects.
    pub digest: u64,
    /// Events among the effects.
    pub events: u64,
    /// How long the partition worked for it: a replay takes about as long.
    pub took: Duration,
    /// It has ended.
    pub last: bool,
    /// Of the requests in it: dropped when it is recorded, with their receipts.
    pub permits: Vec<Permit>,
    /// Where its events wait.
    pub outlet: Arc<Outlet>,
}

impl std::fmt::Debug for Outlet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Outlet")
    }
}

/// Events of a partition, until the records that they came of are written.
pub struct Outlet {
    to: Publisher,
    state: Mutex<Waiting>,
}

#[derive(Default)]
struct Waiting {
    events: VecDeque<(u64, Publish)>,
    /// Records up to this one are written.
    released: u64,
    /// The session is over: events without a record wait for none.
    open: bool,
    /// No more records will be written here; with what the unpublished events would have changed of usage.
    unheard: Option<Usage>,
}

impl Outlet {
    /// Nothing waits.
    pub fn new(to: Publisher) -> Arc<Outlet> {
        Arc::new(Outlet { to, state: Mutex::default() })
    }

    /// Publishes the events of a record, once it is written. Gives how many batches of events wait, for that or for the event
    /// system.
    pub fn publish(&self, number: u64, events: Publish) -> usize {
        let mut state = self.state();
        if let Some(unheard) = &mut state.unheard {
            events.events.iter().for_each(|event| unheard.apply(event));
            return 0;
        }
        if number <= state.released || state.open && state.events.is_empty() {
            return self.to.publish(events);
        }
        state.events.push_back((number, events));
        state.events.len()
    }

    /// The events of a record have these ids in the log, from the first on.
    pub fn number(&self, number: u64, first: u64) {
        let mut state = self.state();
        let at = state.events.partition_point(|(at, _)| *at < number);
        if let Some((_, events)) = state.events.get_mut(at).filter(|(at, _)| *at == number) {
            events.first = Some(first);
        }
    }

    /// The records up to this one are written.
    pub fn release(&self, number: u64) {
        let mut state = self.state();
        state.released = state.released.max(number);
        self.let_go(&mut state);
    }

    /// It is not known whether this record and those after it are written, and does not matter any more.
    pub fn give_up(&self, number: u64) {
        let mut state = self.state();
        state.events.iter_mut().take_while(|(at, _)| *at <= number).for_each(|(_, events)| events.first = None);
        state.released = state.released.max(number);
        self.let_go(&mut state);
    }

    /// From now on nothing is recorded: the session is over. What is in the log by now waits until it is written there.
    pub fn open(&self) {
        let mut state = self.state();
        state.open = true;
        self.let_go(&mut state);
    }

    fn let_go(&self, state: &mut Waiting) {
        let (released, open) = (state.released, state.open);
        let goes = |(at, events): &(u64, Publish)| *at <= released || open && events.first.is_none();
        while state.events.front().is_some_and(goes)
            && let Some((_, events)) = state.events.pop_front()
        {
            // Under the lock, so that they stay in order.
            self.to.publish(events);
        }
    }

    /// Another server goes on: events of records that are not written by now, and of the end, are not published.
    pub fn close(&self) {
        let mut state = self.state();
        let mut unheard = Usage::default();
        for (_, events) in state.events.drain(..) {
            events.events.iter().for_each(|event| unheard.apply(event));
        }
        state.unheard.get_or_insert(unheard);
    }

    /// How usage would have changed by what was not published.
    pub fn unheard(&self) -> Vec<(UsageKey, Resource)> {
        self.state().unheard.as_ref().map(Usage::rows).unwrap_or_default()
    }

    fn state(&self) -> MutexGuard<'_, Waiting> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What the conversations of a partition know.
#[derive(Clone, Debug, Default)]
pub struct Talks {
    /// Applications that exist.
    pub apps: BTreeSet<Arc<str>>,
    /// By path.
    pub queues: BTreeMap<Arc<str>, Admissions>,
    /// Releases that the shim has not confirmed, by application, key and type.
    pub unconfirmed: BTreeMap<(Arc<str>, Arc<str>, Termination), UnconfirmedRelease>,
}

impl Talks {
    /// Takes note of an effect.
    pub fn take(&mut self, effect: &Effect, at: Nanos) {
        match effect {
            Effect::App(effect) => self.app(effect, at),
            Effect::Queue(effect) => self.queue(effect, at),
            // What those of nodes know begins anew, with the nodes of the partition.
            Effect::Node(_) | Effect::Callback(_) | Effect::Event(_) | Effect::Ask(_) | Effect::Turn(_) => {}
        }
    }

    /// A release was sent once more.
    pub fn sent_again(&mut self, release: &Released) {
        let key = (release.app.clone(), release.key.clone(), release.termination);
        if let Some(row) = self.unconfirmed.get_mut(&key) {
            row.sent = row.sent.saturating_add(1);
        }
    }

    fn app(&mut self, effect: &AppEffect, at: Nanos) {
        match effect {
            AppEffect::Added { app } => {
                self.apps.insert(app.clone());
            }
            AppEffect::Removed { app } => {
                self.apps.remove(app);
                let first = (app.clone(), Arc::default(), Termination::default());
                let of_app = self.unconfirmed.range(first..).map(|(key, _)| key.clone());
                let of_app: Vec<_> = of_app.take_while(|(id, ..)| id == app).collect();
                for key in of_app {
                    self.unconfirmed.remove(&key);
                }
            }
            AppEffect::Unconfirmed { release } => {
                let key = (release.app.clone(), release.key.clone(), release.termination);
                let row = || UnconfirmedRelease { release: release.clone(), since: at, age: Nanos::ZERO, sent: 0 };
                self.unconfirmed.entry(key).or_insert_with(row).sent += 1;
            }
            AppEffect::Confirmed { app, key, termination } => {
                self.unconfirmed.remove(&(app.clone(), key.clone(), *termination));
            }
            AppEffect::Ended { .. } => {}
        }
    }

    fn queue(&mut self, effect: &QueueEffect, at: Nanos) {
        match effect {
            QueueEffect::Removed { queue } => {
                self.queues.remove(queue);
            }
            QueueEffect::Added { queue } | QueueEffect::Admitted { queue, .. } | QueueEffect::Refused { queue, .. } => {
                self.queues.entry(queue.clone()).or_default().take(effect.clone(), at);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The object of an event, and the id of the first of its batch.
    type Left = (String, Option<u64>);

    /// An outlet, and what has left it.
    fn outlet() -> (Arc<Outlet>, impl Fn() -> Vec<Left>) {
        let left = Arc::new(Mutex::new(Vec::new()));
        let to = left.clone();
        let publisher = Publisher::new(move |events: Publish| {
            to.lock().unwrap().push((events.events[0].object.to_string(), events.first));
            0
        });
        (Outlet::new(publisher), move || std::mem::take(&mut *left.lock().unwrap()))
    }

    fn events(of: &str) -> Publish {
        let event = crate::domain::event::Event {
            kind: crate::domain::event::EventKind::App,
            object: of.into(),
            reference: "".into(),
            change: crate::domain::event::Change::None,
            detail: crate::domain::event::Detail::None,
            message: "".into(),
            resource: None,
            at: Nanos(1),
            partition: "[rm]p".into(),
        };
        Publish { rm: "rm".into(), epoch: 1, events: vec![event], traced: Vec::new(), first: None }
    }

    #[test]
    fn events_leave_with_the_ids_of_their_records_and_in_order() {
        let (outlet, left) = outlet();
        for (number, of) in [(1, "a"), (3, "b"), (4, "c")] {
            outlet.publish(number, events(of));
        }
        // Of the second record there are none, and the last is not in the log yet when the session is over.
        [(1, 10), (2, 11), (3, 11)].iter().for_each(|(number, first)| outlet.number(*number, *first));
        outlet.release(2);
        assert_eq!(left(), [("a".into(), Some(10))]);
        outlet.open();
        assert_eq!(left(), [], "what is in it waits until it is written");
        assert_eq!(outlet.publish(5, events("d")), 3, "and what came later goes behind that");
        outlet.release(3);
        assert_eq!(left(), [("b".into(), Some(11)), ("c".into(), None), ("d".into(), None)]);
        outlet.publish(6, events("e"));
        assert_eq!(left(), [("e".into(), None)]);
    }

    #[test]
    fn what_is_given_up_has_no_ids() {
        let (outlet, left) = outlet();
        [(1, "a"), (2, "b")].iter().for_each(|(number, of)| _ = outlet.publish(*number, events(of)));
        [(1, 10), (2, 11)].iter().for_each(|(number, first)| outlet.number(*number, *first));
        outlet.give_up(2);
        assert_eq!(left(), [("a".into(), None), ("b".into(), None)]);
    }

    #[test]
    fn unconfirmed_releases_end_with_their_application() {
        let mut talks = Talks::default();
        let release = |app: &str, key: &str| crate::domain::effect::Released {
            key: key.into(),
            app: app.into(),
            termination: Termination::Timeout,
            message: "".into(),
            confirm: true,
        };
        for (app, key) in [("a", "1"), ("a", "2"), ("b", "1")] {
            talks.take(&Effect::App(AppEffect::Unconfirmed { release: release(app, key) }), Nanos(7));
        }
        talks.sent_again(&release("b", "1"));
        talks.sent_again(&release("c", "1"));
        let sent: Vec<_> = talks.unconfirmed.values().map(|row| row.sent).collect();
        assert_eq!(sent, [1, 1, 2], "what nobody waits for any more is in no table");
        let confirmed =
            AppEffect::Confirmed { app: "b".into(), key: "1".into(), termination: Termination::StoppedByRm };
        talks.take(&Effect::App(confirmed), Nanos(8));
        assert_eq!(talks.unconfirmed.len(), 3, "of another type");
        talks.take(&Effect::App(AppEffect::Removed { app: "a".into() }), Nanos(8));
        let left: Vec<_> = talks.unconfirmed.values().collect();
        assert!(left.len() == 1 && &*left[0].release.app == "b" && left[0].since == Nanos(7));
    }
}
