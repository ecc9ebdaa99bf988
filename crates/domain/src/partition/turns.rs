//! Turns of constrained asks where a resource manager has several partitions (R5.27): one partition at a time asks the shim
//! about such asks, and learns what constrained came or went in the others. Whose turn it is is decided elsewhere; a partition
//! says that it wants one and that it has used it. Within a partition those who have had a turn in vain give way: a queue whose
//! asks fit no node keeps its place in the order, since it gets nothing, and would have all turns.

use super::{Cx, Partition};
use crate::coded::{list, variants};
use crate::{
    command::Turn,
    effect::{Effect, TurnEffect},
    types::{AppIx, QueueIx},
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

/// Queues, or applications of one queue, that have had a turn in vain. They have the next when the others want none, or have had as
/// many that led to something.
#[derive(Clone, Debug, Default)]
pub(super) struct Round {
    in_vain: imbl::OrdSet<u32>,
    /// Turns of others that led to something.
    others: usize,
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

    /// The turn of an ask of this application was in vain.
    pub(super) fn note_turn_in_vain(&mut self, app: AppIx) {
        let queue = self.apps[app].queue;
        self.questions.vain_queues.in_vain.insert(queue.0);
        self.questions.vain_apps.entry(queue).or_default().in_vain.insert(app.0);
    }

    /// The turn of an ask of this application led to something.
    pub(super) fn note_turn(&mut self, app: AppIx) {
        let queue = self.apps[app].queue;
        let queues = self.questions.vain_queues.led_to_something();
        self.give_turns_to_queues(&queues);
        if let Some(round) = self.questions.vain_apps.get_mut(&queue) {
            let apps = round.led_to_something();
            if round.in_vain.is_empty() {
                self.questions.vain_apps.remove(&queue);
            }
            self.give_turns_to_apps(&apps);
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

    /// An application goes.
    pub(super) fn app_takes_no_more_turns(&mut self, app: AppIx) {
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

list!(Round { in_vain, others });
variants!(Place { 0 Alone, 1 Without, 2 Wanted, 3 Given, 4 Used });
