//! A log that is followed: its records are applied as they come, so that whoever follows it can go on with it at once.

use std::sync::Arc;

use super::{
    record::Registered,
    replay::{Found, Listener, Replay},
};
use crate::{
    domain::types::Nanos,
    messages::recorded::{Replica, Talks},
    store::log::{self, Place, Title, records},
};

/// See the module.
#[derive(Default)]
pub struct Follower {
    replay: Replay,
    /// Index of the last record.
    last: u64,
    /// Its time.
    at: Nanos,
    snapshot: Option<Place>,
    bytes: u64,
}

/// What a log has led to, for readers.
pub struct View {
    /// Index of the last record that was applied.
    pub last: u64,
    /// Its time.
    pub at: Nanos,
    /// The session.
    pub registered: Registered,
    /// Its partitions with their numbers and internal names: cheap clones, without what their conversations know.
    pub partitions: Vec<(u32, Arc<str>, Replica)>,
}

impl Follower {
    /// From a snapshot on. `listener`: whom events that come then are told.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn from_snapshot(
        bytes: &[u8],
        title: &Title,
        place: Place,
        listener: Option<Listener>,
    ) -> Result<Follower, String> {
        let snapshot = log::read_snapshot(bytes, title)?;
        let replay = Replay::of(&snapshot)?.told_to(listener);
        let last = place.from + u64::from(crate::domain::planted!("snapshot-ahead"));
        Ok(Follower { last, at: snapshot.at, replay, snapshot: Some(place), bytes: 0 })
    }

    /// From the record after this one on: with it a session began.
    pub fn after(index: u64, listener: Option<Listener>) -> Follower {
        Follower { last: index, replay: Replay::default().told_to(listener), ..Follower::default() }
    }

    /// Applies records in order; those that it has are passed over.
    ///
    /// # Errors
    /// One is damaged, is missing, is not understood, or does not lead to what it led to when it was made. Nothing can be
    /// applied any more then.
    pub fn apply(&mut self, frames: &[u8]) -> Result<(), String> {
        for record in records(frames) {
            let (record, length) = record?;
            if record.index <= self.last {
                continue;
            }
            if record.index != self.last + 1 {
                return Err(format!("record {} follows record {}", record.index, self.last));
            }
            self.replay.take(&record).map_err(|why| format!("record {}: {why}", record.index))?;
            self.last = record.index;
            self.at = self.at.max(record.at);
            self.bytes += length as u64;
        }
        Ok(())
    }

    /// Index of the last record that was applied.
    pub fn last(&self) -> u64 {
        self.last
    }

    /// A session runs.
    pub fn has_session(&self) -> bool {
        self.replay.session.is_some()
    }

    /// What it has led to; `None`: no session runs.
    pub fn view(&self) -> Option<Box<View>> {
        let session = self.replay.session.as_ref()?;
        let partitions = session.partitions.iter().map(|(instance, (internal, replica))| {
            let (partition, talks) = (replica.partition.clone(), Talks::default());
            (*instance, internal.clone(), Replica { partition, talks, number: 0, at: replica.at })
        });
        let (last, at, registered) = (self.last, self.at, session.registered.clone());
        Some(Box::new(View { last, at, registered, partitions: partitions.collect() }))
    }

    /// What was found of the resource manager, to go on with.
    pub fn found(self, rm: &str) -> Found {
        Found::followed(rm, self.replay, (self.last, self.at), self.snapshot, self.bytes)
    }
}
