//! The end of a partition: applications fail and go, nodes go, queues are marked (CFG-095, OPS-077). A large one is taken
//! apart piece by piece, so that nobody beside it has to wait for the whole.

use super::{Cx, Partition, apps::Closing, deadlines::Deadlines, states::AppEvent};
use crate::coded::list;
use crate::{
    effect::{Callback, Effect},
    event::{Change, Detail, EventKind},
    types::{AppIx, AppState, Nanos, ObjectState},
};

/// Why applications fail whose partition goes (R3.3).
pub(crate) const PARTITION_REMOVED: &str = "PartitionRemoved";

/// An application that is on its way out with its partition.
#[derive(Clone, Debug)]
pub(crate) struct Leaving {
    app: AppIx,
    closing: Closing,
    /// The states that the shim is told of at the end (R3.2, R3.3).
    failing: bool,
    last: AppState,
}

impl Partition {
    /// The partition ends: from now on it takes nothing new, and nothing falls due. What is in it goes by
    /// [`Partition::dismantle`].
    pub(super) fn stop(&mut self, cx: &mut Cx) {
        self.state = ObjectState::Stopped;
        self.state_since = cx.now;
        self.deadlines = Deadlines::default();
        // Nothing is placed any more: what goes need not be put in order first.
        for node in self.node_by_id.values().copied().collect::<Vec<_>>() {
            self.reindex(node);
        }
        for ix in self.queues.keys() {
            self.set_queue_state(ix, ObjectState::Draining, cx);
        }
    }

    /// Takes a partition apart that was stopped: applications with up to `max` asks and allocations, then nodes, then queues. False
    /// when nothing is left. The shim is told what becomes of its applications, and nothing of their allocations and of nodes
    /// (R1.8).
    pub fn dismantle(&mut self, max: usize, now: Nanos, effects: &mut Vec<Effect>) -> bool {
        let from = effects.len();
        let cx = &mut Cx::new(now, effects, &self.internal);
        let (mut items, mut told, mut more) = (max, Vec::new(), true);
        while items > 0 && more {
            more = match self.leaving.take().or_else(|| self.next_to_leave(cx)) {
                Some(leaving) => {
                    self.leave(leaving, &mut items, &mut told, cx);
                    true
                }
                None => self.remove_first_node(cx) || self.remove_last_queue(cx),
            };
            items = items.saturating_sub(1);
        }
        self.tell_allocated(cx);
        let mut at = 0;
        effects.retain(|effect| {
            at += 1;
            at <= from || !matches!(effect, Effect::Callback(_) | Effect::Ask(_))
        });
        effects.extend(told.into_iter().map(Effect::Callback));
        more
    }

    fn next_to_leave(&mut self, cx: &mut Cx) -> Option<Leaving> {
        let app = *self.app_by_id.get_min().map(|(_, app)| app)?;
        let last = match self.apps[app].state {
            // It had ended already, and was only kept for a while.
            AppState::Completing => AppState::Completed,
            _ => AppState::Failed,
        };
        // One that fails already ends when all of it is gone, as below.
        let failing =
            self.apps[app].state != AppState::Failing && self.fire(app, AppEvent::Fail, Some(PARTITION_REMOVED), cx);
        Some(Leaving { app, closing: Closing::Asks(0), failing, last })
    }

    fn leave(&mut self, leaving: Leaving, items: &mut usize, told: &mut Vec<Callback>, cx: &mut Cx) {
        let Leaving { app, closing, failing, last } = leaving;
        let id = self.apps[app].id.clone();
        if let Some(closing) = self.close_application(app, closing, items, &mut Vec::new(), cx) {
            self.leaving = Some(Leaving { app, closing, failing, last });
            return;
        }
        if last == AppState::Failed {
            cx.message(EventKind::App, &id, &"".into(), (Change::Set, Detail::AppFailed), PARTITION_REMOVED, None);
        }
        let why = if last == AppState::Completed { AppEvent::Complete.name() } else { PARTITION_REMOVED };
        for state in failing.then_some(AppState::Failing).into_iter().chain([last]) {
            let (app, at, message) = (id.clone(), cx.now, why.into());
            told.push(Callback::UpdatedApplication { app, state, at, message });
        }
    }

    fn remove_first_node(&mut self, cx: &mut Cx) -> bool {
        let Some(node) = self.node_by_id.get_min().map(|(_, node)| *node) else { return false };
        self.remove_node(node, cx);
        true
    }

    /// Children stand behind their parents. Root's row stays for readers; with it go the limits (EVT-041, EVT-054).
    fn remove_last_queue(&mut self, cx: &mut Cx) -> bool {
        let last = self.queue_by_path.get_max().map(|(_, queue)| *queue).filter(|last| *last != self.root);
        if let Some(last) = last {
            self.remove_queue(last, cx);
            return true;
        }
        if self.queues[self.root].state == ObjectState::Stopped {
            return false;
        }
        self.set_queue_state(self.root, ObjectState::Stopped, cx);
        self.ugm.tell_gone(cx);
        cx.event(EventKind::Queue, &self.queues[self.root].path, Change::Remove, Detail::QueueConfig);
        true
    }
}

list!(Leaving { app, closing, failing, last });
