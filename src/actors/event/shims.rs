//! Events for the shims: collected per session, handed over every two seconds (EVT-063).

use std::{collections::BTreeMap, sync::Arc};

use actix::prelude::*;

use crate::{
    domain::event::Event,
    messages::{
        event::{EventCounters, ShimSubscribe, ShimUnsubscribe},
        rm::DeliverEvents,
    },
};

/// The sessions that want events.
#[derive(Default)]
pub struct Shims {
    by_rm: BTreeMap<Arc<str>, Shim>,
}

struct Shim {
    epoch: u64,
    recipient: Recipient<DeliverEvents>,
    events: Vec<Event>,
    /// A new setting counts from the next collection on.
    capacity: usize,
}

impl Shims {
    /// A session begins; what an earlier one of the same RM left is dropped.
    pub fn subscribe(&mut self, msg: ShimSubscribe, capacity: u64) {
        let shim = Shim {
            epoch: msg.epoch,
            recipient: msg.recipient,
            events: Vec::new(),
            capacity: usize::try_from(capacity).unwrap_or(usize::MAX),
        };
        self.by_rm.insert(msg.rm, shim);
    }

    /// A session ends.
    pub fn unsubscribe(&mut self, msg: &ShimUnsubscribe) {
        if self.by_rm.get(&msg.rm).is_some_and(|shim| shim.epoch == msg.epoch) {
            self.by_rm.remove(&msg.rm);
        }
    }

    /// Collects events of a session as far as there is room; those of another session of that RM are left out.
    pub fn store(&mut self, rm: &str, epoch: u64, events: &[Event], counters: &EventCounters) {
        let Some(shim) = self.by_rm.get_mut(rm).filter(|shim| shim.epoch == epoch) else { return };
        let room = shim.capacity.saturating_sub(shim.events.len()).min(events.len());
        shim.events.extend_from_slice(&events[..room]);
        EventCounters::add(&counters.stored, room);
        EventCounters::add(&counters.not_stored, events.len() - room);
    }

    /// Hands over what was collected.
    pub fn collect(&mut self, capacity: u64, counters: &EventCounters) {
        for shim in self.by_rm.values_mut() {
            shim.capacity = usize::try_from(capacity).unwrap_or(usize::MAX);
            if shim.events.is_empty() {
                continue;
            }
            let events = std::mem::take(&mut shim.events);
            EventCounters::add(&counters.collected, events.len());
            shim.recipient.do_send(DeliverEvents { epoch: shim.epoch, events });
        }
    }
}
