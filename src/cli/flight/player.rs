//! Any moment of a flight: the state after each so many records is kept, and the nearest before the moment goes on from there.

use std::sync::{Mutex, PoisonError};

use crate::{
    actors::rm::replay::{Mode, Replay},
    store::log::flight::Flight,
};

/// Effects after which a state is kept. A clone shares what did not change since, so that many cost little.
const EVERY: usize = 50_000;

/// See the module.
pub struct Player {
    /// The flight.
    pub flight: Flight,
    /// States after so many records, ascending.
    marks: Mutex<Vec<(usize, Replay)>>,
    /// Records that its snapshot has: the first moment is after them.
    pub first: usize,
    /// Records that can be applied.
    pub last: usize,
    /// What ends it there, where that is not its end.
    pub ends: Option<String>,
    /// The first record that leads to something else than it did.
    pub differs: Option<usize>,
}

impl Player {
    /// Plays all of it once. `tell` hears how many records were played.
    ///
    /// # Errors
    /// The snapshot with which it begins cannot be used.
    pub fn open(flight: Flight, mut tell: impl FnMut(usize)) -> Result<Player, String> {
        let mut replay = beginning(&flight)?.in_mode(Mode::Watch);
        let first = flight.snapshot.as_ref().map_or(0, |snapshot| flight.up_to_index(snapshot.index));
        let (last, ends) = (flight.len(), flight.damage.clone());
        let mut player = Player { flight, marks: Mutex::default(), first, last, ends, differs: None };
        let (mut effects, mut marks) = (0, vec![(0, replay.clone())]);
        for place in 0..player.last {
            let Some(record) = player.flight.record(place) else { break };
            let index = record.index;
            if let Err(why) = replay.take(&record) {
                player.last = place;
                player.ends = Some(format!("record {index}: {why}"));
                break;
            }
            if replay.seen.differs.is_some() {
                player.differs.get_or_insert(place);
            }
            effects += replay.seen.effects.len() + 1;
            if effects >= EVERY && place + 1 >= first {
                effects = 0;
                replay.seen = Default::default();
                marks.push((place + 1, replay.clone()));
            }
            tell(place + 1);
        }
        player.marks = Mutex::new(marks);
        Ok(player)
    }

    /// The state after so many records, or after the nearest number that there is.
    pub fn after(&self, records: usize) -> (usize, Replay) {
        let records = records.clamp(self.first.min(self.last), self.last);
        let marks = self.marks.lock().unwrap_or_else(PoisonError::into_inner);
        let mark = marks.partition_point(|(place, _)| *place <= records).saturating_sub(1);
        // The first is there before anybody asks.
        let (place, mut replay) = marks.get(mark).cloned().unwrap_or_default();
        drop(marks);
        for place in place..records {
            if let Some(record) = self.flight.record(place) {
                // It was applied before.
                let _ = replay.take(&record);
            }
        }
        (records, replay)
    }
}

/// The state before the first record.
///
/// # Errors
/// The snapshot cannot be used.
pub fn beginning(flight: &Flight) -> Result<Replay, String> {
    flight.snapshot.as_ref().map_or_else(|| Ok(Replay::default()), Replay::of)
}
