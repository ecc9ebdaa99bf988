//! Where events wait for `EventActor`, in one order with what changes where they go. The first one wakes the actor, which then
//! looks every millisecond while more come: a partition that places one ask after another does not wake another thread each time.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use actix::prelude::*;

use super::event::{ApplyEventSettings, Publish, ShimSubscribe, ShimUnsubscribe};
use crate::domain::{resources::Resource, types::Nanos, usage::UsageKey};

/// See the module. A reader gets what was published before it asked: the actor empties the intake first.
pub struct Intake {
    state: Mutex<State>,
    actor: Recipient<Rouse>,
}

/// What the event system is told.
pub enum ToEvents {
    /// Events of a partition.
    Publish(Publish),
    /// From here on a shim gets the events of its session.
    Subscribe(ShimSubscribe),
    /// From here on it does not.
    Unsubscribe(ShimUnsubscribe),
    /// In force from here on.
    Settings(ApplyEventSettings),
    /// What a partition uses that was there before this process; or who leads its resource manager ([`UsageKey::lead`]).
    Used(Vec<(UsageKey, Resource)>),
    /// See [`Stands`].
    Stands(Stands),
}

/// All that the partitions of a resource manager use after so many events of its log. For the event system that keeps the events
/// of logs; others ignore it.
#[derive(Clone, Debug, PartialEq)]
pub struct Stands {
    /// The resource manager.
    pub rm: Arc<str>,
    /// The id of the next event in its log.
    pub next: u64,
    /// When that was.
    pub at: Nanos,
    /// What is used.
    pub used: Vec<(UsageKey, Resource)>,
}

#[derive(Default)]
struct State {
    waiting: Vec<ToEvents>,
    /// The actor was roused and does not rest yet.
    awake: bool,
}

/// Wakes the actor: something waits in the intake.
#[derive(Message)]
#[rtype(result = "()")]
pub struct Rouse(pub Arc<Intake>);

/// How a partition publishes its events.
#[derive(Clone)]
pub struct Publisher {
    to: Arc<dyn Fn(Publish) -> usize + Send + Sync>,
    stands: Arc<dyn Fn(Stands) + Send + Sync>,
}

impl Publisher {
    /// Publishes with this function, which gives how many batches wait.
    pub fn new(publish: impl Fn(Publish) -> usize + Send + Sync + 'static) -> Publisher {
        Publisher { to: Arc::new(publish), stands: Arc::new(drop) }
    }

    /// Says what is used with this function.
    #[must_use]
    pub fn with(self, stands: impl Fn(Stands) + Send + Sync + 'static) -> Publisher {
        Publisher { stands: Arc::new(stands), ..self }
    }

    /// Publishes events, after all that was published before by any thread. Gives how many batches wait to be taken in, so that
    /// whoever makes very many can wait.
    pub fn publish(&self, events: Publish) -> usize {
        (self.to)(events)
    }

    /// Says what is used behind what was published.
    pub fn stands(&self, stands: Stands) {
        (self.stands)(stands);
    }
}

impl From<Recipient<Publish>> for Publisher {
    /// Each as a message of its own.
    fn from(to: Recipient<Publish>) -> Publisher {
        Publisher::new(move |events| {
            to.do_send(events);
            0
        })
    }
}

impl Intake {
    /// The intake of an actor.
    pub fn new(actor: Recipient<Rouse>) -> Arc<Intake> {
        Arc::new(Intake { state: Mutex::default(), actor })
    }

    /// The way in.
    pub fn publisher(self: &Arc<Intake>) -> Publisher {
        let (intake, stands) = (self.clone(), self.clone());
        Publisher::new(move |events| intake.put(ToEvents::Publish(events)))
            .with(move |used| _ = stands.put(ToEvents::Stands(used)))
    }

    /// Adds a message in the order of all that is published. Gives how many wait.
    pub fn put(self: &Arc<Intake>, message: ToEvents) -> usize {
        let mut state = self.state();
        state.waiting.push(message);
        if !std::mem::replace(&mut state.awake, true) {
            // Under the lock: what a reader asks after this comes to the actor after it.
            self.actor.do_send(Rouse(self.clone()));
        }
        state.waiting.len()
    }

    /// What waits, in order.
    pub fn take(&self) -> Vec<ToEvents> {
        std::mem::take(&mut self.state().waiting)
    }

    /// As [`Intake::take`]. Where nothing waits the actor may rest: it is roused for what comes next.
    pub fn take_or_rest(&self) -> Vec<ToEvents> {
        let mut state = self.state();
        state.awake = !state.waiting.is_empty();
        std::mem::take(&mut state.waiting)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing panics while the lock is held.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
