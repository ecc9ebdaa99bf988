//! The steps of a record, written one by one and read back.
//!
//! Each is three values: how much later it was than the one before (the first: its time), what it was, and what belongs to that.

use super::{Error, Input, Names, Step};
use crate::{
    coded::{self, Coded as _},
    command::Command,
    resources::Types,
    types::Nanos,
};

/// Writes the steps of one record after the other, in one buffer that is used again and again.
pub struct Writer {
    to: coded::Writer,
    last: Nanos,
    steps: usize,
}

impl Default for Writer {
    fn default() -> Self {
        Writer::new()
    }
}

impl Writer {
    /// One without steps.
    pub fn new() -> Writer {
        Writer { to: coded::Writer::small(), last: Nanos::ZERO, steps: 0 }
    }

    /// Begins the next record; what was written is gone.
    pub fn begin(&mut self) {
        self.to.begin();
        (self.last, self.steps) = (Nanos::ZERO, 0);
    }

    /// [`Partition::apply`](crate::Partition::apply) is called with this.
    pub fn apply(&mut self, command: &Command, at: Nanos) {
        self.at(at);
        // As `Input::Apply`, without a copy of the command.
        self.to.variant(1, 1);
        command.write(&mut self.to);
    }

    /// [`Partition::schedule`](crate::Partition::schedule) is called with this. Calls that decide nothing count, too: they note what waits.
    pub fn schedule(&mut self, max: usize, at: Nanos) {
        self.at(at);
        Input::Schedule { max }.write(&mut self.to);
    }

    /// [`Partition::dismantle`](crate::Partition::dismantle) is called with this.
    pub fn dismantle(&mut self, max: usize, at: Nanos) {
        self.at(at);
        Input::Dismantle { max }.write(&mut self.to);
    }

    /// Writes any step.
    pub fn step(&mut self, step: &Step) {
        match &step.input {
            Input::Apply(command) => self.apply(command, step.at),
            Input::Schedule { max } => self.schedule(*max, step.at),
            Input::Dismantle { max } => self.dismantle(*max, step.at),
        }
    }

    fn at(&mut self, at: Nanos) {
        // Whatever the times are, the distance leads back to them.
        self.to.int(at.0.wrapping_sub(self.last.0));
        self.last = at;
        self.steps += 1;
    }

    /// The record so far.
    pub fn bytes(&self) -> &[u8] {
        self.to.bytes()
    }

    /// Number of its steps.
    pub fn steps(&self) -> usize {
        self.steps
    }
}

/// Reads the steps of a record. It ends after a fault.
pub struct Reader<'a> {
    from: coded::Reader<'a>,
    last: Nanos,
    failed: bool,
}

impl<'a> Reader<'a> {
    /// `types` are those of the resource manager.
    pub fn new(record: &'a [u8], types: &'a Types) -> Reader<'a> {
        Reader { from: coded::Reader::new(record, types), last: Nanos::ZERO, failed: false }
    }

    /// With other texts.
    pub fn with_names(self, names: &'a Names<'a>) -> Reader<'a> {
        Reader { from: self.from.with_names(names), ..self }
    }

    fn step(&mut self) -> Result<Step, Error> {
        self.last = Nanos(self.last.0.wrapping_add(self.from.int()?));
        Ok(Step { at: self.last, input: Input::read(&mut self.from)? })
    }
}

impl Iterator for Reader<'_> {
    type Item = Result<Step, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed || self.from.is_done() {
            return None;
        }
        let step = self.step();
        self.failed = step.is_err();
        Some(step)
    }
}
