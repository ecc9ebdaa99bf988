//! Turns of constrained asks where a resource manager has several partitions (R5.27): one partition at a time asks the shim
//! about such asks, and learns what constrained came or went in the others. Whose turn it is is decided elsewhere; a partition
//! says that it wants one and that it has used it. Within a partition those who have had turns in vain give way: a queue whose
//! asks fit no node keeps its place in the order, since it gets nothing, and would have all turns. An ask gives way to the others
//! of its application when no node is left for it; an application and a queue have some turns in vain first, and fewer each time, so
//! that one ask that is refused keeps neither those behind it waiting nor has what is lower take their room.

use super::{Cx, Partition};
use crate::coded::{list, variants};
use crate::{
    app::GroupKey,
    command::Turn,
    effect::{Effect, TurnEffect},
    types::{AllocIx, AppIx, QueueIx},
};

/// Whether a partition may ask about a constrained ask.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Place {
    /// It takes turns with nobody.
    #[default]
    Alone,
    /// It has no turn, and wants none.
    Without,
    /// It has said that it wants one.
    Wanted,
    /// It has one.
    Given,
    /// It asked about one ask, or one gang: with the answer the turn is over.
    Used,
}

/// Turns in vain that a queue, or an application, has in a row before it gives way for the first time.
const PATIENCE: u32 = 64;
/// A search that ended in vain counts as so many of them, however many it took.
const SEARCH: u32 = 8;

/// How many turns in vain one may have still before it gives way, and how many after that.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tries {
    left: u32,
    next: u32,
}

impl Tries {
    /// So many were in vain: whether it gives way now.
    fn are_over(&mut self, by: u32) -> bool {
        if self.left > by {
            self.left -= by;
            return false;
        }
        *self = Tries { left: self.next, next: (self.next / 2).max(1) };
        true
    }
}

impl Default for Tries {
    fn default() -> Tries {
        Tries { left: PATIENCE, next: PATIENCE / 2 }
    }
}

/// Queues, applications of one queue, or asks of one application, that gave way. They have the next turn when the others want none,
/// or have had as many that led to something.
#[derive(Clone, Debug, Default)]
pub(super) struct Round {
    in_vain: imbl::OrdSet<u32>,
    /// Turns of others that led to something.
    others: usize,
}

/// Asks of an application that gave way, and the epoch in which they have their turn all the same, since the others found nothing.
#[derive(Clone, Debug, Default)]
pub(super) struct AskRound {
    round: Round,
    last: u64,
}

impl Round {
    /// One of the others had a turn that led to something. Gives those that may have one now.
    fn led_to_something(&mut self) -> imbl::OrdSet<u32> {
        self.others += 1;
        if self.others < self.in_vain.len() { imbl::OrdSet::new() } else { std::mem::take(self).in_vain }
    }
}

impl Partition {
    /// Others have their turn before this queue.
    pub(super) fn queue_gives_way(&self, queue: QueueIx) -> bool {
        self.ask_shim && self.questions.vain_queues.in_vain.contains(&queue.0)
    }

    /// Others of its queue have their turn before this application.
    pub(super) fn app_gives_way(&self, app: AppIx) -> bool {
        self.ask_shim
            && self.questions.vain_apps.get(&self.apps[app].queue).is_some_and(|round| round.in_vain.contains(&app.0))
    }

    /// Others of its application have their turn before the first ask of this group.
    pub(super) fn group_gives_way(&self, app: AppIx, key: &GroupKey) -> bool {
        let Some(AskRound { round, last }) = self.questions.vain_asks.get(&app) else { return false };
        let first = || Some(self.apps[app].groups_by_key.get(key)?.asks.get_min()?.1.0);
        self.ask_shim && *last != self.epoch && first().is_some_and(|alloc| round.in_vain.contains(&alloc))
    }

    /// No node is left for this ask: where the shim refused it in its turns it gives way.
    pub(super) fn note_search_in_vain(&mut self, alloc: AllocIx) {
        if !self.ask_shim || !self.was_refused(alloc) || !self.is_constrained(&self.allocs[alloc].spec) {
            return;
        }
        let app = self.allocs[alloc].app;
        if self.questions.vain_asks.entry(app).or_default().round.in_vain.insert(alloc.0).is_none() {
            self.lose_patience(app, SEARCH - 1);
        }
    }

    /// So many turns of asks of this application were in vain.
    pub(super) fn lose_patience(&mut self, app: AppIx, by: u32) {
        let queue = self.apps[app].queue;
        if self.questions.app_tries.entry(app).or_default().are_over(by) {
            self.questions.vain_apps.entry(queue).or_default().in_vain.insert(app.0);
        }
        if self.questions.queue_tries.entry(queue).or_default().are_over(by) {
            self.questions.vain_queues.in_vain.insert(queue.0);
        }
    }

    /// The turn of this ask led to something.
    pub(super) fn note_turn(&mut self, alloc: AllocIx) {
        let app = self.allocs[alloc].app;
        let queue = self.apps[app].queue;
        self.questions.app_tries.remove(&app);
        self.questions.queue_tries.remove(&queue);
        let queues = self.questions.vain_queues.led_to_something();
        self.give_turns_to_queues(&queues);
        if let Some(round) = self.questions.vain_apps.get_mut(&queue) {
            let apps = round.led_to_something();
            if round.in_vain.is_empty() {
                self.questions.vain_apps.remove(&queue);
            }
            self.give_turns_to_apps(&apps);
        }
        self.ask_takes_no_more_turns(alloc);
        if let Some(asks) = self.questions.vain_asks.get_mut(&app) {
            let again = asks.round.led_to_something();
            if asks.round.in_vain.is_empty() {
                self.questions.vain_asks.remove(&app);
            }
            self.give_turns_to_asks(app, &again);
        }
    }

    /// No other queue wants a turn: those that gave way have the next. False where none did.
    pub(super) fn begin_next_round(&mut self) -> bool {
        if !self.may_ask() {
            // Nobody could have one.
            return false;
        }
        let queues = std::mem::take(&mut self.questions.vain_queues).in_vain;
        self.give_turns_to_queues(&queues);
        !queues.is_empty()
    }

    /// The same of the applications of a queue.
    pub(super) fn begin_next_round_of(&mut self, queue: QueueIx) -> bool {
        let Some(round) = self.questions.vain_apps.remove(&queue) else { return false };
        self.give_turns_to_apps(&round.in_vain);
        true
    }

    /// The others of this application find nothing now: as long as that is so, the asks that gave way have their turn.
    pub(super) fn give_last_turns(&mut self, app: AppIx) {
        let epoch = self.epoch;
        if let Some(asks) = self.questions.vain_asks.get_mut(&app)
            && asks.last != epoch
        {
            asks.last = epoch;
            let again = asks.round.in_vain.clone();
            self.give_turns_to_asks(app, &again);
        }
    }

    fn give_turns_to_queues(&mut self, queues: &imbl::OrdSet<u32>) {
        for queue in queues.iter().map(|queue| QueueIx(*queue)) {
            if self.queues.get(queue).is_some() {
                self.rouse_queue(queue);
            }
        }
    }

    fn give_turns_to_apps(&mut self, apps: &imbl::OrdSet<u32>) {
        for app in apps.iter().map(|app| AppIx(*app)) {
            if self.apps.get(app).is_some() {
                self.rouse(app);
            }
        }
    }

    fn give_turns_to_asks(&mut self, app: AppIx, asks: &imbl::OrdSet<u32>) {
        for alloc in asks.iter().map(|alloc| AllocIx(*alloc)) {
            if self.allocs.get(alloc).is_some_and(|row| row.is_pending()) {
                let key = self.apps[app].groups_by_key.get_key_value(&self.group_key(alloc));
                if let Some(key) = key.map(|(key, _)| key.clone()) {
                    self.unblock_group(app, &key);
                }
            }
        }
        self.rouse(app);
    }

    /// An ask is placed, or goes.
    pub(super) fn ask_takes_no_more_turns(&mut self, alloc: AllocIx) {
        let app = self.allocs[alloc].app;
        if let Some(asks) = self.questions.vain_asks.get_mut(&app) {
            asks.round.in_vain.remove(&alloc.0);
            if asks.round.in_vain.is_empty() {
                self.questions.vain_asks.remove(&app);
            }
        }
    }

    /// An application goes.
    pub(super) fn app_takes_no_more_turns(&mut self, app: AppIx) {
        self.questions.app_tries.remove(&app);
        self.questions.vain_asks.remove(&app);
        let queue = self.apps[app].queue;
        if let Some(round) = self.questions.vain_apps.get_mut(&queue) {
            round.in_vain.remove(&app.0);
            if round.in_vain.is_empty() {
                self.questions.vain_apps.remove(&queue);
            }
        }
    }

    /// A queue goes.
    pub(super) fn queue_takes_no_more_turns(&mut self, queue: QueueIx) {
        self.questions.queue_tries.remove(&queue);
        self.questions.vain_queues.in_vain.remove(&queue.0);
        self.questions.vain_apps.remove(&queue);
    }

    /// No other partition of the resource manager has the turn.
    pub(super) fn has_turn(&self) -> bool {
        matches!(self.questions.turn, Place::Alone | Place::Given)
    }

    /// A constrained ask is asked about.
    pub(super) fn use_turn(&mut self) {
        if self.questions.turn == Place::Given {
            self.questions.turn = Place::Used;
        }
    }

    /// From now on nobody else is waited for: for a clone that is run on by itself.
    pub(super) fn take_turns_alone(&mut self) {
        self.questions.turn = Place::Alone;
    }

    /// Whether there are others to take turns with.
    pub(super) fn share_turns(&mut self, shared: bool) {
        if shared == (self.questions.turn == Place::Alone) {
            self.questions.turn = if shared { Place::Without } else { Place::Alone };
            // What is being asked about now was not asked about in a turn.
            self.questions.changes += 1;
            self.questions.placed += 1;
            self.questions.told = self.questions.changes;
        }
    }

    pub(super) fn apply_turn(&mut self, turn: Turn, cx: &mut Cx) {
        if self.questions.turn == Place::Alone {
            // There were others when this was said.
            return;
        }
        match turn {
            Turn::Yours => self.questions.turn = Place::Given,
            Turn::Nobodys => {
                self.questions.turn = Place::Without;
                self.questions.changes += 1;
                self.questions.placed += 1;
            }
            Turn::Elsewhere => {
                self.questions.changes += 1;
                self.questions.placed += 1;
                self.questions.told += 1;
            }
            Turn::Seen(number) => cx.fx.push(Effect::Turn(TurnEffect::Seen(number))),
        }
    }

    /// Something constrained came or went here: the others learn of it.
    pub(super) fn tell_changes(&mut self, cx: &mut Cx) {
        if self.questions.turn != Place::Alone && self.questions.told != self.questions.changes {
            self.questions.told = self.questions.changes;
            cx.fx.push(Effect::Turn(TurnEffect::Changed));
        }
    }

    /// The one that was asked about in this turn is placed, or is not.
    pub(super) fn end_turn(&mut self, cx: &mut Cx) {
        if self.questions.turn == Place::Used && !self.questions.is_in_turn() {
            self.give_up_turn(cx);
        }
    }

    /// Nothing more can be done now: a turn that led to no question goes to the others, and who waits for one says so.
    pub(super) fn settle_turn(&mut self, waits: bool, cx: &mut Cx) {
        self.tell_changes(cx);
        if self.questions.turn == Place::Given {
            if self.questions.is_in_turn() {
                // One that was asked about before there were others: its answer ends this turn. Another turn now would be as
                // much in vain.
                self.questions.turn = Place::Used;
            } else {
                self.give_up_turn(cx);
            }
        }
        if waits && self.questions.turn == Place::Without {
            self.questions.turn = Place::Wanted;
            cx.fx.push(Effect::Turn(TurnEffect::Wanted));
        }
    }

    fn give_up_turn(&mut self, cx: &mut Cx) {
        self.questions.turn = Place::Without;
        cx.fx.push(Effect::Turn(TurnEffect::Over));
    }
}

list!(Tries { left, next });
list!(Round { in_vain, others });
list!(AskRound { round, last });
variants!(Place { 0 Alone, 1 Without, 2 Wanted, 3 Given, 4 Used });
