//! Less headroom reaches asks that are blocked: one that no node had room for may be held back by a limit meanwhile, and one
//! that its queue held back by a limit of its user (R4.34, R4.35, R5.24, SEEDS S7).
//!
//! Asks are tried again when there is more room somewhere, not when there is less, so this has to be found out apart: a
//! moment after something was charged, the applications are looked at that have such asks, a bounded number at a time. So is
//! that a cluster is full no more, where no node has room: the asks that wait for it are many, and are not tried for that.

use std::ops::Bound;

use super::{
    Cx, Partition,
    deadlines::{CYCLE, Deadline},
};
use crate::coded::list;
use crate::{
    app::{GroupKey, Hold},
    types::{AppIx, AppState, Nanos},
};

/// Groups of asks in one look: it costs less than a hundredth of the time.
const GROUPS: usize = 1_000;

/// What is to be looked at.
#[derive(Clone, Debug, Default)]
pub(super) struct Squeeze {
    /// Applications with blocked groups that a limit may hold back by now.
    apps: imbl::OrdSet<AppIx>,
    /// A look is due.
    due: bool,
    /// Something was charged since the present round began.
    again: bool,
    /// Where the round goes on: an application, and the number of its groups that were looked at.
    from: Option<(AppIx, usize)>,
}

/// What waits for this may be held back by a limit instead once there is less headroom.
fn may_get_worse(hold: Hold) -> bool {
    matches!(hold, Hold::Nodes | Hold::RequiredNode | Hold::QueueQuota | Hold::ClusterFull)
}

impl Partition {
    /// A group was blocked.
    pub(super) fn note_blocked(&mut self, app: AppIx, hold: Option<Hold>) {
        if hold.is_some_and(may_get_worse) {
            self.squeeze.apps.insert(app);
        }
    }

    /// There is less headroom somewhere, or the cluster is full no more.
    pub(super) fn squeezed(&mut self, now: Nanos) {
        if self.squeeze.apps.is_empty() {
            return;
        }
        self.squeeze.again = true;
        self.arm_review(now);
    }

    fn arm_review(&mut self, now: Nanos) {
        if !self.squeeze.due {
            self.squeeze.due = true;
            self.deadlines.add(now.plus(CYCLE), Deadline::Review);
        }
    }

    /// Looks at some of the blocked groups.
    pub(super) fn review(&mut self, cx: &mut Cx) {
        self.squeeze.due = false;
        if self.squeeze.from.is_none() {
            self.squeeze.again = false;
        }
        let mut left = GROUPS;
        while left > 0 {
            let at = self.squeeze.from.map_or(Bound::Unbounded, |(app, _)| Bound::Included(app));
            let Some(app) = self.squeeze.apps.range((at, Bound::Unbounded)).next().copied() else {
                self.squeeze.from = None;
                break;
            };
            let done = self.squeeze.from.filter(|(of, _)| *of == app).map_or(0, |(_, done)| done);
            let groups = self.apps[app].blocked_groups.len();
            let end = groups.min(done + left);
            if self.may_be_tried(app, cx) {
                let keys = self.apps[app].blocked_groups.iter().skip(done).take(left).cloned();
                for key in keys.collect::<Vec<_>>() {
                    self.review_group(app, &key, cx);
                }
            }
            left = left.saturating_sub((end - done).max(1));
            if end < groups {
                self.squeeze.from = Some((app, end));
                break;
            }
            self.squeeze.from = Some((AppIx(app.0 + 1), 0));
            if self.apps[app].is_free() || groups == 0 {
                self.squeeze.apps.remove(&app);
            }
        }
        if self.squeeze.from.is_some() || self.squeeze.again {
            self.arm_review(cx.now);
        }
    }

    /// No limit of applications holds all of its asks back by now (R4.36), and nothing else does.
    fn may_be_tried(&mut self, app: AppIx, cx: &mut Cx) -> bool {
        let row = &self.apps[app];
        if row.is_free() || self.is_ending(app) || row.backoff_until.is_some_and(|until| until > cx.now) {
            return false;
        }
        let held = (row.held_by_queue, row.held_by_quota);
        let begins = row.state != AppState::Accepted || self.may_run(app, cx);
        self.limited |= !begins;
        let row = &self.apps[app];
        if held != (row.held_by_queue, row.held_by_quota) {
            // It waits for something else now.
            self.rouse_parked(app);
        }
        begins
    }

    fn review_group(&mut self, app: AppIx, key: &GroupKey, cx: &mut Cx) {
        let limited = self.limited;
        match self.other_hold(app, key) {
            None => {}
            // Whether that is so is known when they are answered.
            Some(hold) if self.is_held_by_questions(app, key, hold) => self.squeeze.again = true,
            Some(Hold::ClusterFull) => {
                self.hold(app, key, Hold::ClusterFull, cx);
                // That is told, and a node with room brings the asks back as before.
                self.limited = limited;
            }
            Some(Hold::Nodes) => {
                self.hold(app, key, Hold::Nodes, cx);
                // It is not tried for that, nor as long as no node has room.
                self.want_reservation(app, key, cx.now);
            }
            Some(hold) => {
                self.hold(app, key, hold, cx);
                self.rouse_parked(app);
            }
        }
    }

    /// What holds a blocked group back now, where it was something else: a limit before what comes later in the order of the
    /// scheduling step (R5.24), a queue instead of the cluster and the other way round, nodes where it was one of these and is
    /// no more.
    fn other_hold(&self, app: AppIx, key: &GroupKey) -> Option<Hold> {
        // Of a gang that is placed all at once the limits look at the whole.
        if self.goes_all_at_once(app, key) {
            return None;
        }
        let row = &self.apps[app];
        let group = row.groups_by_key.get(key).filter(|group| group.blocked)?;
        let hold = group.hold.filter(|hold| may_get_worse(*hold))?;
        let resource = self.shapes.resource(key.shape);
        if !self.user_fits_beside(app, resource) {
            return Some(Hold::UserQuota);
        }
        let now = match self.level_against(app, key) {
            Some(level) => self.hold_of(level),
            None if !matches!(hold, Hold::QueueQuota | Hold::ClusterFull) => return None,
            None if key.required_node.is_some() => Hold::RequiredNode,
            None => Hold::Nodes,
        };
        (now != hold).then_some(now)
    }
}

list!(Squeeze { apps, due, again, from });
