//! Credits of one resource manager, counted in items: how much may be on its way in and out.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicI64, Ordering::Relaxed},
};

/// Credits of one session of a resource manager, shared by its doors, its actor and its partitions.
#[derive(Debug)]
pub struct Budget {
    inward: AtomicI64,
    outward: AtomicI64,
    paused: AtomicBool,
}

impl Budget {
    /// `inward` items of requests may be in flight, `outward` callbacks undelivered.
    pub fn new(inward: i64, outward: i64) -> Arc<Budget> {
        Arc::new(Budget { inward: inward.into(), outward: outward.into(), paused: false.into() })
    }

    /// Takes `items` for a request, as long as anything is left, so that no request is too large for ever.
    pub fn take(self: &Arc<Budget>, items: usize) -> Option<Permit> {
        let items = i64::try_from(items).unwrap_or(i64::MAX / 2);
        let taken = self.inward.fetch_update(Relaxed, Relaxed, |left| (left > 0).then_some(left - items));
        taken.is_ok().then(|| Permit { budget: self.clone(), items })
    }

    /// `callbacks` were made (and not yet delivered).
    pub fn made(&self, callbacks: usize) {
        self.outward.fetch_sub(callbacks as i64, Relaxed);
    }

    /// `callbacks` were delivered or dropped.
    pub fn delivered(&self, callbacks: usize) {
        self.outward.fetch_add(callbacks as i64, Relaxed);
    }

    /// Pauses or resumes new placements.
    pub fn pause(&self, paused: bool) {
        self.paused.store(paused, Relaxed);
    }

    /// New placements may be made: the session is not paused and the shim keeps up.
    pub fn may_place(&self) -> bool {
        !self.paused.load(Relaxed) && self.outward.load(Relaxed) > 0
    }
}

/// Items of one request in flight; given back when dropped, after the partition applied them.
#[derive(Debug)]
pub struct Permit {
    budget: Arc<Budget>,
    items: i64,
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.budget.inward.fetch_add(self.items, Relaxed);
    }
}
