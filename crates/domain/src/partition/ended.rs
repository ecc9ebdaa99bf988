//! Applications that have ended, or were refused: how long and how many of them are kept for readers.

use std::sync::Arc;

use super::{Cx, Partition, states::TERMINATED};
use crate::{
    app::App,
    coded::list,
    effect::Callback,
    event::{Change, Detail, EventKind},
    names::shorten,
    types::{AppState, Nanos},
};

/// Ended applications that are kept: the newest. However fast a shim sends them, they take only so much memory.
const ENDED: usize = 100_000;
/// The same of refused ones.
const REFUSED: usize = 10_000;
/// Bytes that are kept of one of them of its tags, of its groups, of the names of its task groups, and of why it was refused.
const TEXTS: usize = 4_096;

/// Those that are kept, by the moment and the id: the ended ones, and the refused ones by their first refusal. Some may have been
/// forgotten since (R3.48).
#[derive(Clone, Debug, Default)]
pub(super) struct Ended {
    terminated: imbl::OrdSet<(Nanos, Arc<str>)>,
    rejected: imbl::OrdSet<(Nanos, Arc<str>)>,
}

impl Ended {
    /// When the next one expires.
    pub fn next(&self) -> Option<Nanos> {
        let first = [&self.terminated, &self.rejected].into_iter().filter_map(|rows| rows.get_min());
        first.map(|(at, _)| at.plus(TERMINATED)).min()
    }
}

impl App {
    /// What is kept of one that has ended.
    pub(super) fn kept(mut self) -> App {
        if self.tags.iter().map(|(key, value)| key.len() + value.len()).sum::<usize>() > TEXTS {
            self.tags = Arc::default();
        }
        if self.groups.iter().map(|group| group.len()).sum::<usize>() > TEXTS {
            self.groups = Arc::default();
        }
        if self.gang.task_groups.keys().map(|name| name.len()).sum::<usize>() > TEXTS {
            self.gang.task_groups.clear();
        }
        // It repeats what was submitted, such as the amounts of a gang.
        if let Some(reason) = self.rejected.take_if(|reason| reason.len() > TEXTS) {
            let mut reason = reason.to_string();
            shorten(&mut reason, TEXTS);
            self.rejected = Some(reason.into());
        }
        self
    }
}

impl Partition {
    /// Keeps one that ended now until it expires (R3.5), or until there are too many.
    pub(super) fn keep_terminated(&mut self, id: Arc<str>, cx: &mut Cx) {
        self.ended.terminated.insert((cx.now, id));
        while self.ended.terminated.len() > ENDED {
            self.expire_terminated(false, cx);
        }
    }

    /// The same for one that was refused now, and not before.
    pub(super) fn keep_rejected(&mut self, id: Arc<str>, cx: &mut Cx) {
        self.ended.rejected.insert((cx.now, id));
        while self.ended.rejected.len() > REFUSED {
            self.expire_rejected(false, cx);
        }
    }

    /// Lets those expire whose time has come, so many at most; gives how many more may.
    pub(super) fn expire_ended(&mut self, now: Nanos, most: usize, cx: &mut Cx) -> usize {
        let is_due = |rows: &imbl::OrdSet<(Nanos, Arc<str>)>| {
            rows.get_min().is_some_and(|(finished, _)| finished.plus(TERMINATED) <= now)
        };
        let mut left = most;
        while left > 0 && is_due(&self.ended.terminated) {
            left -= 1;
            self.expire_terminated(true, cx);
        }
        while left > 0 && is_due(&self.ended.rejected) {
            left -= 1;
            self.expire_rejected(true, cx);
        }
        left
    }

    /// The oldest expires; it is shown so until expired ones are forgotten (R3.48), where it `stays`.
    fn expire_terminated(&mut self, stays: bool, cx: &mut Cx) {
        let Some((finished, id)) = self.ended.terminated.remove_min() else { return };
        let key = (id, finished);
        // One that ended by expiring has told so, and has gone for good now.
        let Some(app) = self.terminated.remove(&key).filter(|app| app.state != AppState::Expired) else { return };
        let app = self.expired(&app, cx);
        if stays {
            self.terminated.insert(key, Arc::new(app));
        }
    }

    fn expire_rejected(&mut self, stays: bool, cx: &mut Cx) {
        let Some((first, id)) = self.ended.rejected.remove_min() else { return };
        let Some(app) = self.rejected.get(&id).cloned() else { return };
        if let Some(last) = app.finished.filter(|last| *last > first) {
            // It was refused again since.
            self.ended.rejected.insert((last, id));
            return;
        }
        let app = self.expired(&app, cx);
        if stays {
            self.rejected.insert(id, Arc::new(app));
        } else {
            self.rejected.remove(&id);
        }
    }

    fn expired(&self, app: &App, cx: &mut Cx) -> App {
        let mut copy = app.clone();
        copy.state = AppState::Expired;
        copy.state_log.push((cx.now, AppState::Expired));
        // The id may be that of another by now (R3.26), of which a shim would believe it.
        if !self.app_by_id.contains_key(&copy.id) {
            cx.callback(Callback::UpdatedApplication {
                app: copy.id.clone(),
                state: AppState::Expired,
                at: cx.now,
                message: "expireApplication".into(),
            });
        }
        cx.event(EventKind::App, &copy.id, Change::Set, Detail::AppExpired);
        copy
    }
}

list!(Ended { terminated, rejected });
