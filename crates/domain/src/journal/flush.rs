//! From what is the case to events: what the journal has not told yet, in one event of each kind.

use std::{collections::BTreeMap, sync::Arc};

use super::{
    Journal, Moment, Output, event as make_event,
    event::{Kind, Method, Origin, Overwrite},
    slot::DrainState,
};
use crate::idset::IdSet;

/// The reason of a drain that the resource manager asked for.
pub(super) const RM_REASON: &str = "drained by the resource manager";

impl Journal {
    /// Makes the events of everything collected so far: the map, the resource set, online, offline, torpid, lively,
    /// drains and undrains of the resource manager, in this order.
    pub fn flush(&mut self, now: Moment, out: &mut Vec<Output>) {
        self.waiting_since = None;
        if !(self.restarted || self.slots.is_empty()) {
            self.give_up_trailing(now, out);
            self.restart(now, out);
        } else if std::mem::take(&mut self.map_changed) {
            self.give_up_trailing(now, out);
            self.offer_changed = false;
            out.push(make_event(now, Kind::Define(Method::DynamicDiscovery)));
        } else if std::mem::take(&mut self.offer_changed) {
            out.push(make_event(now, Kind::Define(Method::Reload)));
        }
        self.availability(now, out);
        self.liveliness(now, out);
        self.drains_of_rm(now, out);
        self.taken_over(now, out);
    }

    /// Nodes that came to drains of which the log names others, or none: it says whose they are now, and changes nothing else. As
    /// long as a host has one rank its drain can be nobody else's.
    fn taken_over(&mut self, now: Moment, out: &mut Vec<Output>) {
        let is_shared = |slot: &super::Slot| self.by_host.get(&slot.host).is_some_and(|ranks| ranks.len() > 1);
        let taken = self.ranks_where(|slot| slot.taken_over && slot.drained_by_operator() && is_shared(slot));
        taken.iter().for_each(|rank| self.slots[rank as usize].taken_over = false);
        let targets = self.targets(taken.clone());
        let (reason, overwrite, origin, deadline) = (None, Overwrite::Nothing, Origin::Operator, None);
        post(|_| Kind::Drain { targets, reason, overwrite, origin, deadline }, taken, now, out);
    }

    /// The service has started: the map from ranks to hosts and the resource set, as they are now. A map that changes later is
    /// told by the resource set alone (SEEDS S38).
    fn restart(&mut self, now: Moment, out: &mut Vec<Output>) {
        self.restarted = true;
        let method = if std::mem::take(&mut self.map_changed) { Method::DynamicDiscovery } else { Method::Kvs };
        self.offer_changed = false;
        let online = self.ranks_where(|slot| slot.posted_online);
        let restart = Kind::Restart { ranks: self.ranks(), online, nodelist: self.nodelist() };
        out.push(make_event(now, restart));
        out.push(make_event(now, Kind::Define(method)));
    }

    /// Ranks at the end whose hosts will not come back.
    fn give_up_trailing(&mut self, now: Moment, out: &mut Vec<Output>) {
        let mut lively = IdSet::new();
        while self.slots.last().is_some_and(|slot| slot.given_up(now.steady, self.settings.keep_rank)) {
            self.forget(self.size() - 1);
            if self.slots.pop().is_some_and(|slot| slot.posted_torpid) {
                lively.insert(self.size());
            }
        }
        // Before the map without them: another host may get such a rank.
        post(Kind::Lively, lively, now, out);
    }

    fn ranks_where(&self, which: impl Fn(&super::Slot) -> bool) -> IdSet {
        (0_u32..).zip(&self.slots).filter(|(_, slot)| which(slot)).map(|(rank, _)| rank).collect()
    }

    fn availability(&mut self, now: Moment, out: &mut Vec<Output>) {
        let online = self.ranks_where(|slot| slot.online() && !slot.posted_online);
        let offline = self.ranks_where(|slot| !slot.online() && slot.posted_online);
        for slot in &mut self.slots {
            slot.posted_online = slot.online();
        }
        post(Kind::Online, online, now, out);
        post(Kind::Offline, offline, now, out);
    }

    /// A torpid target that goes offline stays torpid, untold, until it is heard of again: then it is lively.
    fn liveliness(&mut self, now: Moment, out: &mut Vec<Output>) {
        let torpid = self.ranks_where(|slot| slot.torpid && slot.online() && !slot.posted_torpid);
        let lively = self.ranks_where(|slot| !slot.torpid && slot.posted_torpid);
        for slot in &mut self.slots {
            slot.posted_torpid = slot.torpid && (slot.posted_torpid || slot.online());
        }
        post(Kind::Torpid, torpid, now, out);
        post(Kind::Lively, lively, now, out);
    }

    /// What the resource manager drained and undrained. A target that an operator drained too stays drained, with the
    /// operator's reason.
    fn drains_of_rm(&mut self, now: Moment, out: &mut Vec<Output>) {
        let (mut drained, mut undrained) = (IdSet::new(), IdSet::new());
        let mut handed_over: BTreeMap<Option<Arc<str>>, IdSet> = BTreeMap::new();
        for (rank, slot) in (0_u32..).zip(&mut self.slots) {
            let wanted = slot.online() && !slot.schedulable;
            if wanted == slot.drained_by_rm() {
                continue;
            }
            match (&mut slot.drain, wanted) {
                (Some(drain), true) => drain.rm = true,
                (drain @ None, true) => {
                    let (since, reason) = (now.wall, Some(RM_REASON.into()));
                    *drain = Some(DrainState { since, reason, operator: None, rm: true, deadline: None });
                    drained.insert(rank);
                }
                (_, false) => {
                    if slot.release_rm() {
                        undrained.insert(rank);
                    } else if let Some(drain) = &mut slot.drain
                        && let Some(reason) = &drain.operator
                        && drain.reason != *reason
                    {
                        drain.reason = reason.clone();
                        handed_over.entry(reason.clone()).or_default().insert(rank);
                    }
                }
            }
        }
        if !drained.is_empty() {
            self.drained_by_rm(drained, now, out);
        }
        for (reason, ranks) in handed_over {
            out.push(make_event(
                now,
                Kind::Drain {
                    targets: self.targets(ranks),
                    reason,
                    overwrite: Overwrite::Reason,
                    origin: Origin::Operator,
                    deadline: None,
                },
            ));
        }
        if !undrained.is_empty() {
            undrained.iter().for_each(|rank| self.may_be_given_up(rank));
            self.undrained_by_rm(&undrained, now, out);
        }
    }

    fn drained_by_rm(&self, ranks: IdSet, now: Moment, out: &mut Vec<Output>) {
        out.push(make_event(
            now,
            Kind::Drain {
                targets: self.targets(ranks),
                reason: Some(RM_REASON.into()),
                overwrite: Overwrite::Nothing,
                origin: Origin::ResourceManager,
                deadline: None,
            },
        ));
    }

    pub(super) fn undrained_by_rm(&self, ranks: &IdSet, now: Moment, out: &mut Vec<Output>) {
        let targets = self.targets(ranks.clone());
        out.push(make_event(now, Kind::Undrain { targets, reason: None, origin: Origin::ResourceManager }));
    }
}

fn post(kind: impl FnOnce(IdSet) -> Kind, ranks: IdSet, now: Moment, out: &mut Vec<Output>) {
    if !ranks.is_empty() {
        out.push(make_event(now, kind(ranks)));
    }
}
