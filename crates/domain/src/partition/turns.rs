//! Turns of constrained asks where a resource manager has several partitions (R5.27): one partition at a time asks the shim
//! about such asks, and learns what constrained came or went in the others. Whose turn it is is decided elsewhere; a partition
//! says that it wants one and that it has used it.

use super::{Cx, Partition};
use crate::coded::variants;
use crate::{
    command::Turn,
    effect::{Effect, TurnEffect},
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

impl Partition {
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
            }
            Turn::Elsewhere => {
                self.questions.changes += 1;
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

variants!(Place { 0 Alone, 1 Without, 2 Wanted, 3 Given, 4 Used });
