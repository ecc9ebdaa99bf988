//! The resource managers that are known, by id.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    sync::Arc,
};

use actix::Addr;
use arc_swap::ArcSwap;

use crate::actors::rm::{
    RmActor,
    handle::{RmHandle, RmView},
};

/// Stopped resource managers that stay visible.
const STOPPED: usize = 100;

/// See the module.
#[derive(Default)]
pub struct Registry {
    rms: HashMap<Arc<str>, (u64, Arc<RmHandle>)>,
    /// Those whose actors were told which server leads them.
    kept: HashSet<Arc<str>>,
    stopped: VecDeque<Arc<str>>,
    ordinals: u64,
}

impl Registry {
    /// A known one.
    pub fn find(&self, rm: &str) -> Option<Arc<RmHandle>> {
        self.rms.get(rm).map(|(_, handle)| handle.clone())
    }

    /// Its place in the order of first arrival.
    pub fn ordinal(&self, rm: &str) -> Option<u64> {
        self.rms.get(rm).map(|(ordinal, _)| *ordinal)
    }

    /// All in the order of first arrival.
    pub fn all(&self) -> Vec<Arc<RmHandle>> {
        let mut all: Vec<_> = self.rms.values().collect();
        all.sort_by_key(|(ordinal, _)| *ordinal);
        all.into_iter().map(|(_, handle)| handle.clone()).collect()
    }

    /// A known one, or a new one whose actor `start` starts. One that is to be kept does not end as [`Registry::forget`] says.
    pub fn find_or_create(
        &mut self,
        rm: &str,
        keep: bool,
        start: impl FnOnce(&Arc<str>, &Arc<ArcSwap<RmView>>) -> Addr<RmActor>,
    ) -> Arc<RmHandle> {
        if keep && !self.kept.contains(rm) {
            self.kept.insert(rm.into());
        }
        if let Some(handle) = self.find(rm) {
            return handle;
        }
        let id: Arc<str> = rm.into();
        let view = Arc::new(ArcSwap::from_pointee(RmView::default()));
        let addr = start(&id, &view);
        let handle = Arc::new(RmHandle { id: id.clone(), addr, view });
        self.ordinals += 1;
        self.rms.insert(id, (self.ordinals, handle.clone()));
        handle
    }

    /// It is being registered: it no longer counts among the Stopped ones. False where another actor has its place, or none.
    pub fn registers(&mut self, rm: &str, addr: &Addr<RmActor>) -> bool {
        self.stopped.retain(|id| **id != *rm);
        self.rms.get(rm).is_some_and(|(_, handle)| handle.addr == *addr)
    }

    /// It was Stopped; the oldest of too many Stopped ones is known no more, and given: its actor is to end.
    pub fn stopped(&mut self, rm: &Arc<str>) -> Option<Arc<RmHandle>> {
        self.stopped.push_back(rm.clone());
        let oldest = if self.stopped.len() > STOPPED { self.stopped.pop_front()? } else { return None };
        let (_, handle) = self.rms.remove(&oldest)?;
        self.kept.remove(&oldest);
        Some(handle)
    }

    /// It is no longer known, and its actor ends: false where it is kept, for whoever tells it something has its address.
    pub fn forget(&mut self, rm: &str) -> bool {
        if self.kept.contains(rm) {
            return false;
        }
        self.rms.remove(rm);
        self.stopped.retain(|id| **id != *rm);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[actix::test]
    async fn the_latest_hundred_stopped_ones_stay_visible() {
        let topology = crate::actors::rm::tests::topology();
        let mut registry = Registry::default();
        let add = |registry: &mut Registry, rm: &str| {
            let topology = topology.clone();
            registry.find_or_create(rm, false, |id, view| {
                use actix::Actor as _;
                RmActor::new(id.clone(), topology, view.clone(), 0).start()
            })
        };
        add(&mut registry, "runs");
        for n in 0..=STOPPED {
            let rm = add(&mut registry, &format!("rm-{n}"));
            registry.stopped(&rm.id);
        }
        assert!(registry.find("rm-0").is_none());
        assert_eq!(registry.all().len(), STOPPED + 1);
        let rm = registry.find("rm-1").expect("stopped");
        assert!(registry.registers("rm-1", &rm.addr));
        assert!(!registry.registers("rm-0", &rm.addr));
        let late = add(&mut registry, "late");
        registry.stopped(&late.id);
        assert!(registry.find("rm-1").is_some() && registry.find("rm-2").is_some());
        assert_eq!(registry.all()[0].id.as_ref(), "runs");
    }
}
