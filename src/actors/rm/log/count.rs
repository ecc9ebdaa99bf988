//! The ids of events in the log of their resource manager: their count over its records. Whoever applies the records makes the same
//! events, and so counts the same.

use super::{RmActor, RmLog};
use crate::{
    actors::rm::record::{self, kind},
    domain::types::Nanos,
    messages::{
        event::{Publish, Stands},
        recorded::Entry,
    },
};

impl RmLog {
    /// Counts the events of the record that was added last.
    pub(super) fn count(&mut self, entry: &Entry) {
        if entry.events > 0 {
            entry.outlet.number(entry.number, self.events);
            self.events += entry.events;
        }
    }

    /// Says in the log how many events there were before: no record has.
    pub fn begin_counting(&mut self, at: Nanos) {
        self.append(kind::COUNTED, at, &record::json(&self.events));
    }

    /// Events that wait for records leave with the ids that these gave them, or without where it is not known whether the records
    /// will be written.
    pub fn let_out(&mut self, numbered: bool) {
        for (outlet, number) in self.waiting.iter_mut().filter_map(|due| due.outlet.take()) {
            if numbered {
                outlet.release(number);
            } else {
                outlet.give_up(number);
            }
        }
    }
}

impl RmActor {
    /// A session begins or ends with the last record: nothing is used from then on, behind what the records before tell of.
    pub(in crate::actors::rm) fn nothing_used(&mut self) {
        let to = self.topology.numbering();
        let Some(log) = &mut self.log else { return };
        let stands = Stands { rm: self.id.clone(), next: log.events, at: log.at(), used: Vec::new() };
        if let Some(due) = log.waiting.back_mut() {
            due.stands = Some((to, stands));
        }
    }

    /// Readers learn how many events there are.
    pub(in crate::actors::rm) fn tell_events(&self) {
        if let Some(log) = &self.log {
            self.topology.numbering().publish(Publish::numbered(&self.id, log.events, Vec::new()));
        }
    }
}
