//! The resource managers that are known, by id.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    sync::Arc,
};

use actix::Addr;
use arc_swap::ArcSwap;

use crate::actors::{
    directory::Asked,
    rm::{
        RmActor,
        handle::{RmHandle, RmView},
    },
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
        let asked = Asked::new(format!("resource manager \"{id}\""), addr.clone());
        let handle = Arc::new(RmHandle { id: id.clone(), addr, asked, view });
        self.ordinals += 1;
        self.rms.insert(id, (self.ordinals, handle.clone()));
        handle
    }

    /// It is being registered: it no longer counts among the Stopped ones. False where another actor has its place, or none.
    pub fn registers(&mut self, rm: &str, addr: &Addr<RmActor>) -> bool {
        self.goes_on(rm);
        self.has(rm, addr)
    }

    /// It is not Stopped any more, or another server leads it.
    pub fn goes_on(&mut self, rm: &str) {
        self.stopped.retain(|id| **id != *rm);
    }

    /// It was Stopped, or was so when this server took the lead. Gives the oldest of too many Stopped ones: it is to be forgotten,
    /// and is known until its actor agrees.
    pub fn stopped(&mut self, rm: &Arc<str>) -> Option<Arc<RmHandle>> {
        // It may be there already, from the last time.
        self.goes_on(rm);
        self.stopped.push_back(rm.clone());
        let oldest = if self.stopped.len() > STOPPED { self.stopped.pop_front()? } else { return None };
        self.find(&oldest)
    }

    /// Forgets a resource manager that was Stopped long ago, whose actor this is. False where it was Stopped anew since, or another
    /// actor has its place.
    pub fn forgets(&mut self, rm: &str, addr: &Addr<RmActor>) -> bool {
        if !self.has(rm, addr) || self.stopped.iter().any(|id| **id == *rm) {
            return false;
        }
        self.rms.remove(rm);
        self.kept.remove(rm);
        true
    }

    fn has(&self, rm: &str, addr: &Addr<RmActor>) -> bool {
        self.rms.get(rm).is_some_and(|(_, handle)| handle.addr == *addr)
    }

    /// It is not kept any longer, unless it is to be again. Gives the actor to be told.
    pub fn let_go(&mut self, rm: &str) -> Option<Arc<RmHandle>> {
        self.kept.remove(rm);
        self.find(rm)
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
        for n in 0..STOPPED {
            let rm = add(&mut registry, &format!("rm-{n}"));
            for _ in 0..2 {
                assert!(registry.stopped(&rm.id).is_none(), "one that was Stopped twice counts once");
            }
        }
        let last = add(&mut registry, &format!("rm-{STOPPED}"));
        let oldest = registry.stopped(&last.id).expect("one too many");
        assert_eq!(&*oldest.id, "rm-0");
        assert!(!registry.forgets("rm-0", &last.addr), "another actor");
        assert!(registry.forgets("rm-0", &oldest.addr));
        assert!(registry.find("rm-0").is_none());
        assert_eq!(registry.all().len(), STOPPED + 1);
        let rm = registry.find("rm-1").expect("stopped");
        assert!(registry.registers("rm-1", &rm.addr));
        assert!(!registry.registers("rm-0", &rm.addr));
        let late = add(&mut registry, "late");
        assert!(registry.stopped(&late.id).is_none(), "one of them goes on");
        assert!(registry.find("rm-1").is_some() && registry.find("rm-2").is_some());
        assert_eq!(registry.all()[0].id.as_ref(), "runs");
        // Stopped anew while it is being told that it is to be forgotten.
        let second = add(&mut registry, "second");
        let oldest = registry.stopped(&second.id).expect("one too many");
        registry.stopped(&oldest.id);
        assert!(!registry.forgets(&oldest.id, &oldest.addr));
    }
}
