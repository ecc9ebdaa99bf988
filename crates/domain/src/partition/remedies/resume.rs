//! What helps an application that was refused because operators stopped or drained queues: to take that back.

use std::sync::Arc;

use super::{Change, Remedy};
use crate::{
    app::App,
    partition::Partition,
    types::{AppState, Nanos},
};

impl Partition {
    /// The orders to queues that keep a rejected application out, as what to take back; `None` where it would be rejected without
    /// them as well, or would be admitted as things are. `now` is the time.
    pub fn resumed_for(&self, app: &App, now: Nanos) -> Option<Remedy> {
        if app.state != AppState::Rejected || self.orders.is_empty() {
            return None;
        }
        let all: Vec<Arc<str>> = self.orders.keys().cloned().collect();
        self.admitted_to(app, &[], now).is_none().then_some(())?;
        let queue = self.admitted_to(app, &all, now)?;
        let on_the_way = |path: &&Arc<str>| {
            queue.strip_prefix(&***path).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        let queues: Vec<Arc<str>> = all.iter().filter(on_the_way).cloned().collect();
        (self.admitted_to(app, &queues, now)? == queue).then(|| Remedy {
            change: Change::Resume { queues, app: app.id.clone() },
            size: 0.0,
            after: Nanos::ZERO,
            before: 0,
            preempts: 0,
        })
    }

    /// The queue that takes it where these orders are taken back.
    fn admitted_to(&self, app: &App, resumed: &[Arc<str>], now: Nanos) -> Option<Arc<str>> {
        let change = Change::Resume { queues: resumed.to_vec(), app: app.id.clone() };
        let none = |_: &[crate::edit::Edit]| Err(String::new());
        let mut trial = self.clone();
        for command in change.commands(self, &none).ok()? {
            trial.apply(command, now, &mut Vec::new());
        }
        let ix = trial.app_by_id.get(&app.id)?;
        Some(trial.apps.get(*ix)?.queue_path.clone())
    }
}
