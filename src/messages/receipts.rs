//! Which of a session's numbered requests were taken and applied: each number once, in order, whatever connections are lost.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use serde::{Deserialize, Serialize};
use tokio::sync::{Mutex as Turns, MutexGuard as Turn, oneshot, watch};

use super::keys::{self, Digest};

/// Refusals of configurations that a session remembers, for clients that come back.
const REFUSALS: usize = 100;

/// How many numbers keep the digest of their request, the newest ones: some 32 KB of a session.
const SAYINGS: usize = 1_000;

/// The longest reason that is remembered, in bytes.
const LONGEST: usize = 16 << 10;

/// See the module. Doors, and the permits of what they handed in, share it.
#[derive(Debug)]
pub struct Receipts {
    turns: Turns<()>,
    state: Mutex<State>,
    news: watch::Sender<()>,
}

#[derive(Debug, Default)]
struct State {
    /// The last number that was taken.
    taken: u64,
    /// Numbers after the last one up to which all are applied: the items of each, and whether it is applied.
    open: VecDeque<(u64, bool)>,
    /// The sum of these items.
    items: u64,
    refused: VecDeque<Refused>,
    ignored: VecDeque<Ignored>,
    /// What the last numbers stood for, the oldest first; not those of a stream of `Requests`, nor of before a restart.
    said: VecDeque<(u64, Digest)>,
    /// Numbers that are still to come and were recorded in part before the server was started again, with these parts.
    recorded: BTreeMap<u64, PartsOf>,
    /// The latest stream.
    stream: u64,
    ended: bool,
    /// Another server goes on: nothing more counts as applied here.
    lost: bool,
}

/// Whose part of a request it is, and who records it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum PartOf {
    /// The session: what is for no partition.
    Session,
    /// The partition of this number in the session.
    Partition(u32),
}

/// Parts of a request.
pub type PartsOf = BTreeSet<PartOf>;

/// The number of a configuration that was refused, and why.
pub type Refused = (u64, Arc<str>);

/// The number of a configuration, and what of its settings was ignored.
pub type Ignored = (u64, Arc<[String]>);

/// Remembers one more, and forgets the oldest beyond the latest ones.
pub fn remember<T>(all: &mut VecDeque<T>, one: T) {
    within_bounds(all, REFUSALS, one);
}

fn within_bounds<T>(all: &mut VecDeque<T>, most: usize, one: T) {
    if all.len() == most {
        all.pop_front();
    }
    all.push_back(one);
}

fn within<T: Clone>(all: &VecDeque<(u64, T)>, after: u64, up_to: u64) -> Vec<(u64, T)> {
    all.iter().filter(|(number, _)| *number > after && *number <= up_to).cloned().collect()
}

/// Where a number stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// It was taken before.
    Before,
    /// It is the next.
    Next,
    /// This one is the next, which is missing.
    Gap(u64),
}

/// How far the requests have come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Position {
    /// The last number that was taken.
    pub taken: u64,
    /// Everything up to this number was applied.
    pub applied: u64,
    /// Items that were taken behind it.
    pub items: u64,
    /// The session is over.
    pub ended: bool,
    /// The latest stream.
    pub stream: u64,
}

/// A request that was taken and is not applied. Dropped with the last part of it.
#[derive(Debug)]
pub enum Receipt {
    /// A numbered one.
    Numbered {
        /// Where it counts.
        receipts: Arc<Receipts>,
        /// Its number.
        number: u64,
    },
    /// One whose sender waits until this is dropped.
    Awaited(oneshot::Sender<()>),
    /// One with a key, whose sender may wait, too.
    Keyed(keys::Taken, Option<oneshot::Sender<()>>),
}

impl Receipt {
    /// The request was not handed in after all: it may come again.
    pub fn give_back(self) {
        match &self {
            Receipt::Numbered { receipts, number } => receipts.give_back(*number),
            Receipt::Keyed(taken, _) => taken.give_back(),
            Receipt::Awaited(_) => {}
        }
    }
}

impl Drop for Receipt {
    fn drop(&mut self) {
        if let Receipt::Numbered { receipts, number } = self {
            receipts.done(*number);
        }
    }
}

impl Receipts {
    /// Those of a session whose requests up to this number were applied: 0 for one that begins. Of later ones parts may be
    /// recorded.
    pub fn after(applied: u64, recorded: BTreeMap<u64, PartsOf>) -> Arc<Receipts> {
        let state = State { taken: applied, recorded, ..State::default() };
        Arc::new(Receipts { turns: Turns::default(), state: Mutex::new(state), news: watch::Sender::default() })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Whole after a panic elsewhere: no change of it can panic half way.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whoever holds it may look for the place of a number and hand in its request; others wait, first come first served.
    pub async fn turn(&self) -> Turn<'_, ()> {
        self.turns.lock().await
    }

    /// Where a number stands.
    pub fn place(&self, number: u64) -> Place {
        let next = self.state().taken + 1;
        match number {
            number if number < next => Place::Before,
            number if number == next => Place::Next,
            _ => Place::Gap(next),
        }
    }

    /// The next number is taken: its request is handed in within the same turn.
    pub fn take(self: &Arc<Receipts>, number: u64, items: usize) -> Receipt {
        let mut state = self.state();
        debug_assert_eq!(number, state.taken + 1, "the next one");
        state.taken = number;
        state.open.push_back((items as u64, false));
        state.items += items as u64;
        Receipt::Numbered { receipts: self.clone(), number }
    }

    /// Remembers the digest of the request with this number, which was taken last.
    pub fn say(&self, number: u64, digest: Digest) {
        within_bounds(&mut self.state().said, SAYINGS, (number, digest));
    }

    /// The request that had this number before was another one, as far as that is remembered.
    pub fn is_another(&self, number: u64, digest: Digest) -> bool {
        let state = self.state();
        let said = state.said.binary_search_by_key(&number, |(said, _)| *said);
        said.is_ok_and(|at| state.said[at].1 != digest)
    }

    /// The parts of the request of this number that were recorded, and so carried out, before the server was started again.
    pub fn recorded(&self, number: u64) -> PartsOf {
        self.state().recorded.get(&number).cloned().unwrap_or_default()
    }

    /// It is the last number: whoever took it still has the turn.
    fn give_back(&self, number: u64) {
        let mut state = self.state();
        if state.taken == number
            && let Some((items, _)) = state.open.pop_back()
        {
            state.items -= items;
            state.taken -= 1;
            if state.said.back().is_some_and(|(said, _)| *said == number) {
                state.said.pop_back();
            }
        }
    }

    fn done(&self, number: u64) {
        let mut state = self.state();
        if state.lost || number > state.taken {
            return;
        }
        state.recorded.remove(&number);
        let first = state.taken + 1 - state.open.len() as u64;
        let at = usize::try_from(number - first).unwrap_or(usize::MAX);
        if let Some((_, done)) = state.open.get_mut(at) {
            *done = true;
        }
        let mut news = false;
        while let Some((items, true)) = state.open.front().copied() {
            state.open.pop_front();
            state.items -= items;
            news = true;
        }
        drop(state);
        if news {
            self.news.send_replace(());
        }
    }

    /// The configuration of this number was refused.
    pub fn refuse(&self, number: u64, reason: &str) {
        let reason = reason[..reason.floor_char_boundary(LONGEST)].into();
        remember(&mut self.state().refused, (number, reason));
    }

    /// Refusals of the numbers after this one, up to that one.
    pub fn refused(&self, after: u64, up_to: u64) -> Vec<Refused> {
        within(&self.state().refused, after, up_to)
    }

    /// These settings of the configuration of this number were ignored.
    pub fn ignore(&self, number: u64, keys: Vec<String>) {
        if !keys.is_empty() {
            remember(&mut self.state().ignored, (number, keys.into()));
        }
    }

    /// What was ignored of the numbers after this one, up to that one; forgotten with the process.
    pub fn ignored(&self, after: u64, up_to: u64) -> Vec<Ignored> {
        within(&self.state().ignored, after, up_to)
    }

    /// Everything up to this number was applied.
    pub fn applied(&self) -> u64 {
        self.position().applied
    }

    /// How far the requests have come.
    pub fn position(&self) -> Position {
        let state = self.state();
        let applied = state.taken - state.open.len() as u64;
        Position { taken: state.taken, applied, items: state.items, ended: state.ended, stream: state.stream }
    }

    /// Tells of every change of the position.
    pub fn news(&self) -> watch::Receiver<()> {
        self.news.subscribe()
    }

    /// Waits until everything up to this number was applied; false: the session ended before.
    pub async fn until(&self, number: u64) -> bool {
        let mut news = self.news();
        loop {
            let position = self.position();
            if position.applied >= number {
                return true;
            }
            if position.ended || news.changed().await.is_err() {
                return false;
            }
        }
    }

    /// A stream of requests is opened: it takes the place of the one before. Gives its number.
    pub fn open(&self) -> u64 {
        let mut state = self.state();
        state.stream += 1;
        let stream = state.stream;
        drop(state);
        self.news.send_replace(());
        stream
    }

    /// Another server goes on with the session: what is not applied by now was not recorded, and is never acknowledged here.
    pub fn lose(&self) {
        self.state().lost = true;
        self.end();
    }

    /// The session is over.
    pub fn end(&self) {
        self.state().ended = true;
        self.news.send_replace(());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_taken_in_order_and_acknowledged_without_a_gap() {
        let receipts = Receipts::after(4, BTreeMap::new());
        let places: Vec<_> = [1, 4, 5, 6].map(|number| receipts.place(number)).into();
        assert_eq!(places, [Place::Before, Place::Before, Place::Next, Place::Gap(5)]);
        let (five, six) = (receipts.take(5, 10), receipts.take(6, 3));
        assert_eq!((receipts.applied(), receipts.position().items), (4, 13));
        drop(six);
        assert_eq!((receipts.applied(), receipts.position().items), (4, 13), "5 is not applied");
        drop(five);
        assert_eq!((receipts.applied(), receipts.position().items), (6, 0));
        assert_eq!(receipts.place(7), Place::Next);
    }

    #[test]
    fn a_number_that_was_not_handed_in_after_all_is_the_next() {
        let receipts = Receipts::after(4, BTreeMap::from([(6, PartsOf::from([PartOf::Session]))]));
        let five = receipts.take(5, 10);
        receipts.take(6, 3).give_back();
        assert_eq!((receipts.place(6), receipts.position().items), (Place::Next, 10));
        assert!(!receipts.recorded(6).is_empty(), "what was carried out of it is not once more");
        drop(five);
        assert_eq!((receipts.applied(), receipts.place(6)), (5, Place::Next));
    }

    #[test]
    fn refusals_are_kept_for_those_who_come_back() {
        let receipts = Receipts::after(0, BTreeMap::new());
        for number in 1..=REFUSALS as u64 + 1 {
            drop(receipts.take(number, 0));
            receipts.refuse(number, &format!("fault {number}"));
        }
        assert_eq!(receipts.refused(0, 3).iter().map(|(number, _)| *number).collect::<Vec<_>>(), [2, 3]);
        assert_eq!(&*receipts.refused(100, 200)[0].1, "fault 101");
    }

    #[test]
    fn a_number_stands_for_one_request_as_long_as_that_is_remembered() {
        let receipts = Receipts::after(4, BTreeMap::new());
        assert!(!receipts.is_another(4, (1, 1)), "it was taken before a restart");
        for number in 5..=5 + SAYINGS as u64 {
            drop(receipts.take(number, 0));
            // One comes over a stream that tells messages apart by their numbers alone.
            if number != 7 {
                receipts.say(number, (number, 1));
            }
        }
        assert!(!receipts.is_another(6, (6, 1)) && receipts.is_another(6, (6, 2)));
        assert!(!receipts.is_another(7, (6, 1)));
        // One that was given back stands for what comes in its place.
        let again = receipts.take(6 + SAYINGS as u64, 0);
        receipts.say(6 + SAYINGS as u64, (2, 2));
        again.give_back();
        drop(receipts.take(6 + SAYINGS as u64, 0));
        receipts.say(6 + SAYINGS as u64, (1, 1));
        assert!(!receipts.is_another(6 + SAYINGS as u64, (1, 1)) && receipts.is_another(6 + SAYINGS as u64, (2, 2)));
        assert!(!receipts.is_another(5, (6, 1)), "it is forgotten");
        assert_eq!(receipts.state().said.len(), SAYINGS);
    }

    #[tokio::test]
    async fn whoever_waits_learns_of_the_number_or_of_the_end() {
        let receipts = Receipts::after(0, BTreeMap::new());
        let (one, two) = (receipts.take(1, 1), receipts.take(2, 1));
        let wait = |number| {
            tokio::spawn({
                let receipts = receipts.clone();
                async move { receipts.until(number).await }
            })
        };
        let (first, second) = (wait(1), wait(2));
        drop(one);
        assert!(first.await.expect("no panic"));
        receipts.end();
        assert!(!second.await.expect("no panic"), "the session ended");
        drop(two);
        assert!(receipts.until(2).await);
    }

    #[tokio::test]
    async fn what_another_server_goes_on_with_is_not_acknowledged_here() {
        let receipts = Receipts::after(0, BTreeMap::new());
        let (one, two) = (receipts.take(1, 1), receipts.take(2, 1));
        drop(one);
        receipts.lose();
        drop(two);
        assert_eq!(receipts.applied(), 1);
        assert!(receipts.until(1).await && !receipts.until(2).await);
    }

    #[tokio::test]
    async fn turns_are_taken_in_the_order_in_which_they_were_asked_for() {
        let receipts = Receipts::after(0, BTreeMap::new());
        let held = receipts.turn().await;
        let order = Arc::new(Mutex::new(Vec::new()));
        let mut waiting = Vec::new();
        for number in 0..5 {
            let (receipts, order) = (receipts.clone(), order.clone());
            waiting.push(tokio::spawn(async move {
                let _turn = receipts.turn().await;
                order.lock().expect("no panic").push(number);
            }));
            tokio::task::yield_now().await;
        }
        drop(held);
        for one in waiting {
            one.await.expect("no panic");
        }
        assert_eq!(*order.lock().expect("no panic"), [0, 1, 2, 3, 4]);
    }
}
