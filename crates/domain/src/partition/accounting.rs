//! The books of users and groups, kept by `domain::ugm`: this file only brings its handles and amounts together.

use std::sync::Arc;

use super::{Cx, Partition};
use crate::{
    conf::{LimitConf, PartitionConf, QueueConf},
    resources::Resource,
    types::{AppIx, QueueIx},
};

impl Partition {
    /// Full paths from root to a queue.
    pub(super) fn chain(&self, queue: QueueIx) -> Arc<[Arc<str>]> {
        let mut paths: Vec<Arc<str>> = self.path(queue).map(|ix| self.queues[ix].path.clone()).collect();
        paths.reverse();
        paths.into()
    }

    /// The application is looked at: its user's levels are there from now on.
    pub(super) fn user_resolve(&mut self, app: AppIx) {
        if let Some(track) = self.apps[app].track {
            self.ugm.resolve(track);
        }
    }

    pub(super) fn user_fits(&self, app: AppIx, request: &Resource) -> bool {
        crate::planted!("limit-ignored") || self.apps[app].track.is_none_or(|track| self.ugm.fits(track, request))
    }

    /// As `user_fits`, beside what is promised to asks that have preempted.
    pub(super) fn user_fits_beside(&self, app: AppIx, request: &Resource) -> bool {
        crate::planted!("limit-ignored")
            || self.apps[app].track.is_none_or(|track| self.ugm.fits_beside(track, request))
    }

    /// What is charged for a request fits the limits of its user and group.
    pub(super) fn user_still_fits(&self, app: AppIx, charged: &Resource) -> bool {
        crate::planted!("limit-ignored") || self.apps[app].track.is_none_or(|track| self.ugm.still_fits(track, charged))
    }

    /// What user and group may still use; `None`: nothing limits (UGM-030).
    pub fn user_headroom(&self, app: AppIx) -> Option<Resource> {
        self.apps[app].track.and_then(|track| self.ugm.headroom(track))
    }

    pub(super) fn user_can_run(&self, app: AppIx) -> bool {
        self.apps[app].track.is_none_or(|track| self.ugm.can_run(track))
    }

    pub(super) fn user_increase(&mut self, app: AppIx, amount: &Arc<Resource>, cx: &mut Cx) {
        if let Some(track) = self.apps[app].track {
            let counted = self.ugm.counts(track);
            self.ugm.increase(track, amount, cx);
            if !counted {
                // One more runs: others that have reserved may not begin any more.
                for app in self.reserved_apps.clone() {
                    if self.may_not_begin(app) {
                        self.ripen_all_of(app);
                    }
                }
            }
        }
    }

    /// Usage of the user shrinks; with the last of it the application counts no more (UGM-041).
    pub(super) fn user_decrease(&mut self, app: AppIx, amount: &Arc<Resource>, cx: &mut Cx) {
        if crate::planted!("user-refund") {
            return;
        }
        let row = &self.apps[app];
        // EVT-050: what a removal by the shim takes goes as one sum at its end.
        if let Some(track) = row.track.filter(|_| !row.removing && !row.releasing_all) {
            let last = self.is_idle(app) && row.gang.placeholders == 0;
            self.ugm.decrease(track, amount, last, cx);
        }
    }

    /// The last ask may be gone, and with it the last of an application that counts among its user's (SEEDS S35).
    pub(super) fn user_leave(&mut self, app: AppIx, cx: &mut Cx) {
        let row = &self.apps[app];
        if let Some(track) = row.track.filter(|_| !row.removing && !row.releasing_all)
            && self.is_idle(app)
            && row.gang.placeholders == 0
            && self.ugm.counts(track)
        {
            self.ugm.leave(track, cx);
            // Another of its user may begin.
            self.unblock_limits();
        }
    }

    pub(super) fn user_resize(&mut self, app: AppIx, delta: &Resource, cx: &mut Cx) {
        if let Some(track) = self.apps[app].track {
            self.ugm.resize(track, delta, cx);
        }
    }

    /// The application ended, or the shim removed it: the user's trackers let go of it.
    pub(super) fn user_close(&mut self, app: AppIx, removed: bool, cx: &mut Cx) {
        if let Some(track) = self.apps[app].track.take() {
            if removed {
                self.ugm.remove(track, cx);
            } else {
                self.ugm.close(track, cx);
            }
        }
    }

    /// Limits as configured, for the whole tree (UGM-010).
    pub(super) fn load_limits(&mut self, cx: &mut Cx) {
        let conf = self.conf.clone();
        let limits = limits_of(&conf);
        self.ugm.set_limits(limits.iter().map(|(path, entries)| (path, *entries)), cx);
    }
}

/// The limits of every queue that has some, by its path, in their order.
pub(super) fn limits_of(conf: &PartitionConf) -> Vec<(Arc<str>, &[LimitConf])> {
    let mut limits = Vec::new();
    collect(&conf.root, "root".into(), &mut limits);
    limits
}

fn collect<'a>(queue: &'a QueueConf, path: Arc<str>, limits: &mut Vec<(Arc<str>, &'a [LimitConf])>) {
    for child in &queue.children {
        collect(child, format!("{path}.{}", child.name).into(), limits);
    }
    if !queue.limits.is_empty() {
        limits.push((path, &queue.limits));
    }
}
