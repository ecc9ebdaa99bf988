//! What goes into a partition, written down as it happens, and the digest of what comes out: one record for all that left
//! since the one before.

use std::{sync::Arc, time::Duration};

use crate::{
    domain::{
        command::Command,
        digest::Digest,
        effect::{Effect, events_of},
        log::{Beginning, Writer},
        types::Nanos,
    },
    messages::{
        budget::Permit,
        event::Publish,
        recorded::{Entry, Outlet},
    },
};

/// See the module.
pub struct Recorder {
    instance: u32,
    /// Of the last record.
    number: u64,
    at: Nanos,
    beginning: Option<Vec<u8>>,
    steps: Writer,
    digest: Digest,
    took: Duration,
    permits: Vec<Permit>,
    /// Commands were written down: nobody can derive those.
    urgent: bool,
    outlet: Arc<Outlet>,
}

impl Recorder {
    /// Of a partition that begins.
    pub fn begin(instance: u32, outlet: Arc<Outlet>, beginning: &Beginning) -> Recorder {
        let (at, beginning) = (beginning.at, Some(beginning.encode()));
        Recorder { beginning, urgent: true, ..Recorder::resume(instance, outlet, 0, at) }
    }

    /// Of a partition that goes on after its record `number`.
    pub fn resume(instance: u32, outlet: Arc<Outlet>, number: u64, at: Nanos) -> Recorder {
        Recorder {
            instance,
            number,
            at,
            beginning: None,
            steps: Writer::new(),
            digest: Digest::default(),
            took: Duration::ZERO,
            permits: Vec::new(),
            urgent: false,
            outlet,
        }
    }

    /// The number of the last record, and whose it is.
    pub fn place(&self) -> (u32, u64) {
        (self.instance, self.number)
    }

    /// The time of a step: it never goes back, whatever the clock does.
    pub fn time(&mut self, now: Nanos) -> Nanos {
        self.at = self.at.max(now);
        self.at
    }

    /// A command goes in.
    pub fn apply(&mut self, command: &Command, now: Nanos) {
        self.steps.apply(command, now);
        self.urgent = true;
    }

    /// [`Partition::schedule`](crate::domain::Partition::schedule) is called.
    pub fn schedule(&mut self, max: usize, now: Nanos) {
        if !crate::domain::planted!("schedule-unrecorded") {
            self.steps.schedule(max, now);
        }
    }

    /// [`Partition::dismantle`](crate::domain::Partition::dismantle) is called.
    pub fn dismantle(&mut self, max: usize, now: Nanos) {
        self.steps.dismantle(max, now);
        self.urgent = true;
    }

    /// The partition worked for so long at what was written down.
    pub fn took(&mut self, time: Duration) {
        self.took += time;
    }

    /// The credits of the request come back when it is recorded.
    pub fn hold(&mut self, permit: Option<Permit>) {
        self.permits.extend(permit);
    }

    /// Something has to be recorded, also where nothing came of it.
    pub fn is_urgent(&self) -> bool {
        self.urgent || !self.permits.is_empty()
    }

    /// Nothing was written down.
    pub fn is_empty(&self) -> bool {
        self.steps.steps() == 0 && !self.is_urgent()
    }

    /// The record of what was written down, and of these effects.
    pub fn entry(&mut self, effects: &[Effect]) -> Box<Entry> {
        self.number += 1;
        self.urgent = false;
        self.digest.add(effects);
        let entry = Entry {
            instance: self.instance,
            number: self.number,
            at: self.at,
            beginning: self.beginning.take(),
            steps: self.steps.bytes().to_vec(),
            digest: self.digest.finish(),
            events: events_of(effects),
            took: std::mem::take(&mut self.took),
            last: false,
            permits: std::mem::take(&mut self.permits),
            outlet: self.outlet.clone(),
        };
        self.steps.begin();
        Box::new(entry)
    }

    /// Publishes the events of the last record.
    pub fn publish(&self, events: Publish) -> usize {
        self.outlet.publish(self.number, events)
    }
}
