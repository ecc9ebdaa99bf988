//! What somebody who waits for a queue wants to know of it: is it empty, would an application that comes now begin to run?

use super::Partition;
use crate::{
    quantity::written,
    resources::ResourceType,
    types::{ObjectState, QueueIx},
    words::{either, plural},
};

impl Partition {
    /// No application is in the queue or below it.
    pub fn is_queue_empty(&self, ix: QueueIx) -> bool {
        let row = &self.queues[ix];
        // What is allocated or waits belongs to an application: that is known without a look at what is below.
        row.apps.is_empty()
            && row.allocated.is_zero()
            && row.pending.is_zero()
            && row.children.values().all(|child| self.is_queue_empty(*child))
    }

    /// Would an application that comes to this queue now begin to run, as far as queues have a say? Of a queue with others below
    /// it: as far as itself and those above it have.
    ///
    /// # Errors
    /// Names the queue on the way whose state or limit is against it.
    pub fn queue_room(&self, ix: QueueIx) -> Result<(), String> {
        for at in self.path(ix) {
            let row = &self.queues[at];
            if let Some((path, order)) = self.order_for(&row.path).filter(|(path, _)| **path == row.path) {
                return Err(format!("it takes no new application: {}", order.told_of(path)));
            }
            if row.state != ObjectState::Active {
                return Err(format!("{} is {}: it takes no new application", row.path, row.state.name()));
            }
            let running = row.begun();
            if row.max_applications > 0 && running >= row.max_applications {
                let (apps, run) = (plural(running, "application"), either(&running, "runs", "run"));
                return Err(format!("{apps} {run} in {}, which is its limit{}", row.path, self.but_below(ix)));
            }
            // Of a type whose limit is zero some need nothing.
            let is_used_up = |(kind, max): &(&ResourceType, _)| *max > 0 && row.allocated.amount(kind) >= *max;
            if let Some((kind, max)) = row.max.iter().flat_map(|max| max.iter()).find(is_used_up) {
                let max = i64::try_from(max).map_or_else(|_| max.to_string(), |max| written(kind.name(), max));
                return Err(format!("{} is at its max of {max} {}{}", row.path, kind.name(), self.but_below(ix)));
            }
        }
        Ok(())
    }

    /// What room of a queue with others below it leaves open.
    fn but_below(&self, ix: QueueIx) -> &'static str {
        if self.queues[ix].leaf { "" } else { " (of queues below it no limit is looked at)" }
    }
}
