//! Deadlines of drains: when one has passed, operators are told of what still runs.

use std::{ops::Bound, sync::Arc};

use super::{Journal, Moment, Output};
use crate::{command::Command, types::Nanos};

/// A registered node whose drain has passed its deadline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Overdue {
    /// Id of the node.
    pub node: Arc<str>,
    /// Its host.
    pub host: Arc<str>,
    /// The deadline, by the wall clock.
    pub deadline: Nanos,
    /// Why it is drained, where a reason was given.
    pub reason: Option<Arc<str>>,
}

impl Journal {
    /// Names the nodes whose deadlines have passed since this was last done; with a clock that was set back they may come again.
    pub(super) fn tell_overdue(&mut self, now: Moment, out: &mut Vec<Output>) {
        let before = std::mem::replace(&mut self.told, now.wall);
        let due = self.after(before).take_while(|(deadline, _)| *deadline <= now.wall);
        let nodes: Vec<Arc<str>> = due.filter_map(|(_, rank)| self.registered_at(*rank)).collect();
        if !nodes.is_empty() {
            out.push(Output::Tell(Command::DrainOverdue(nodes)));
        }
    }

    /// The moment of the steady clock at which the next deadline passes.
    pub(super) fn next_overdue(&self, now: Moment) -> Option<Nanos> {
        let (deadline, _) = self.after(self.told).next()?;
        Some(now.steady.plus(deadline.minus(now.wall)))
    }

    fn after(&self, told: Nanos) -> impl Iterator<Item = &(Nanos, u32)> {
        self.deadlines.range((Bound::Excluded((told, u32::MAX)), Bound::Unbounded))
    }

    fn registered_at(&self, rank: u32) -> Option<Arc<str>> {
        let slot = self.slots.get(rank as usize).filter(|slot| slot.online())?;
        slot.node.clone()
    }

    /// The nodes whose deadlines have passed, by deadline.
    pub fn overdue(&self, now: Moment) -> Vec<Overdue> {
        let passed = self.deadlines.iter().take_while(|(deadline, _)| *deadline <= now.wall);
        let row = |(deadline, rank): &(Nanos, u32)| {
            let (node, slot) = (self.registered_at(*rank)?, self.slots.get(*rank as usize)?);
            // That of whoever set the deadline.
            let reason = slot.note().and_then(|note| note.reason);
            Some(Overdue { node, host: slot.host.clone(), deadline: *deadline, reason })
        };
        passed.filter_map(row).collect()
    }
}
