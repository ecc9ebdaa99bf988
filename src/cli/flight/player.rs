//! Any moment of a flight: the state after each so many records is kept, and the nearest before the moment goes on from there.

use std::sync::{Mutex, PoisonError};

use crate::{
    actors::rm::{
        replay::{Mode, Replay},
        restore,
    },
    domain::effect::Effect,
    messages::event::ShowEvents,
    store::log::flight::Flight,
};

/// Effects after which a state is kept. A clone shares what did not change since, so that many cost little.
const EVERY: usize = 50_000;

/// A state that is kept.
#[derive(Clone, Default)]
struct Mark {
    /// After so many records.
    place: usize,
    /// Events before it.
    events: u64,
    /// The state itself.
    replay: Replay,
}

/// How all was after some records.
pub struct Moment {
    /// So many.
    pub place: usize,
    /// The state.
    pub replay: Replay,
    /// The last events before it.
    pub events: ShowEvents,
}

/// See the module.
pub struct Player {
    /// The flight.
    pub flight: Flight,
    /// States that are kept, by ascending place.
    marks: Mutex<Vec<Mark>>,
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
        let (mut effects, mut events) = (0, 0);
        let mut marks = vec![Mark { place: 0, events, replay: replay.clone() }];
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
            events += replay.seen.effects.iter().filter(|effect| matches!(effect, Effect::Event(_))).count() as u64;
            if effects >= EVERY && place + 1 >= first {
                effects = 0;
                replay.seen = Default::default();
                marks.push(Mark { place: place + 1, events, replay: replay.clone() });
            }
            tell(place + 1);
        }
        player.marks = Mutex::new(marks);
        Ok(player)
    }

    /// After so many records, or the nearest number that there is, with the events of the last [`EVERY`] effects at least.
    pub fn after(&self, records: usize) -> Moment {
        let records = records.clamp(self.first.min(self.last), self.last);
        let marks = self.marks.lock().unwrap_or_else(PoisonError::into_inner);
        let mark = marks.partition_point(|mark| mark.place <= records).saturating_sub(2);
        // The first is there before anybody asks.
        let Mark { place, events: first, mut replay } = marks.get(mark).cloned().unwrap_or_default();
        drop(marks);
        let partitions = replay.session.iter().flat_map(|session| session.partitions.values());
        let used = partitions.flat_map(|(_, replica)| restore::used(&replica.partition)).collect();
        let mut events = Vec::new();
        for place in place..records {
            if let Some(record) = self.flight.record(place) {
                // It was applied before.
                let _ = replay.take(&record);
                events.extend(replay.seen.effects.drain(..).filter_map(|effect| match effect {
                    Effect::Event(event) => Some(event),
                    _ => None,
                }));
            }
        }
        Moment { place: records, replay, events: ShowEvents { first, used, events } }
    }
}

/// The state before the first record.
///
/// # Errors
/// The snapshot cannot be used.
pub fn beginning(flight: &Flight) -> Result<Replay, String> {
    let state = flight.snapshot.as_ref().map_or_else(|| Ok(Replay::default()), Replay::of);
    // What its state lacks may be behind the place that is damaged.
    state.map_err(|why| flight.damage.clone().unwrap_or(why))
}
