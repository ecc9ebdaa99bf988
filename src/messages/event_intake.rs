//! Where events wait for `EventActor`, and in order with them what changes their way. It is roused for the first of them,
//! and goes on looking every millisecond while more come: a partition that places one ask after another does not wake
//! another thread each time.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use actix::prelude::*;

use super::event::{ApplyEventSettings, Publish, ShimSubscribe, ShimUnsubscribe};
use crate::domain::{resources::Resource, types::Nanos, usage::UsageKey};

/// See the module. What is published before a reader asks is given to that reader: the actor empties it first.
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
    /// This is used too, by a partition that was there before this process; or who leads its resource manager ([`UsageKey::lead`]).
    Used(Vec<(UsageKey, Resource)>),
    /// See [`Stands`].
    Stands(Stands),
}

/// This is all that the partitions of a resource manager use, where its log has had so many events. For an event system of
/// logs; others pass it over.
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

/// Something waits in the intake, of which the actor does not know.
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
    /// Publishes by this, which gives how many batches wait.
    pub fn new(publish: impl Fn(Publish) -> usize + Send + Sync + 'static) -> Publisher {
        Publisher { to: Arc::new(publish), stands: Arc::new(drop) }
    }

    /// And what is used, by this.
    #[must_use]
    pub fn with(self, stands: impl Fn(Stands) + Send + Sync + 'static) -> Publisher {
        Publisher { stands: Arc::new(stands), ..self }
    }

    /// Publishes events, behind all that this and other threads have published before. Gives how many batches wait to be
    /// taken in, so that who makes very many can wait.
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

    /// Adds something, behind all that was published before it and before all that is published after it. Gives how much
    /// waits.
    pub fn put(self: &Arc<Intake>, message: ToEvents) -> usize {
        let mut state = self.state();
        state.waiting.push(message);
        if !std::mem::replace(&mut state.awake, true) {
            // Under the lock: a reader who asks after anything published here asks after this message.
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
