//! When a node of a partition is silent for too long (SEEDS S37): what holds for all of its nodes, shared by their conversations,
//! which live on one thread.

use std::{cell::Cell, time::Duration};

use actix::prelude::*;

use crate::{
    domain::journal::Fact,
    messages::{clock::Clock, journal::Post},
};

/// See the module.
pub struct Silence {
    /// Their clock.
    pub clock: Clock,
    /// Silence after which a node is torpid; zero: never.
    after: Cell<Duration>,
    /// The resource manager vouches for all nodes of the session.
    vouched: Cell<bool>,
    /// Heartbeats are sent for nodes in this session: nothing else counts as a sign of life.
    heartbeats: Cell<bool>,
    /// Where it is told who is silent, and the session.
    journal: Option<(Recipient<Post>, u64)>,
}

impl Silence {
    /// Nobody vouches, and no heartbeat came.
    pub fn new(clock: Clock, after: Duration, journal: Option<(Recipient<Post>, u64)>) -> Silence {
        let (vouched, heartbeats) = (Cell::new(false), Cell::new(false));
        Silence { clock, after: Cell::new(after), vouched, heartbeats, journal }
    }

    /// How long a node may be silent; `None`: as long as it likes.
    pub fn patience(&self) -> Option<Duration> {
        (!self.vouched.get() && self.after.get() > Duration::ZERO).then(|| self.after.get())
    }

    /// Changes the time. True where it is another.
    pub fn set_patience(&self, after: Duration) -> bool {
        self.after.replace(after) != after
    }

    /// The resource manager vouches for all its nodes, or no longer. True where that changed.
    pub fn vouch(&self, vouched: bool) -> bool {
        let vouched = vouched && !self.heartbeats.get();
        self.vouched.replace(vouched) != vouched
    }

    /// A heartbeat came for some node of the session. True where the nodes were vouched for until now.
    pub fn beat(&self) -> bool {
        self.heartbeats.set(true);
        self.vouch(false)
    }

    /// This is a sign of life.
    pub fn counts(&self, heartbeat: bool) -> bool {
        heartbeat || !self.heartbeats.get()
    }

    /// Tells the journal.
    pub fn tell(&self, fact: Fact) {
        if let Some((journal, epoch)) = &self.journal {
            journal.do_send(Post { epoch: *epoch, facts: vec![fact] });
        }
    }
}
