//! What an application used in its life, as the line that readers of logs collect (OPS-076).

use std::{collections::BTreeMap, fmt, sync::Arc};

use super::coded::list;
use super::{
    app::UsageHistory,
    rare::Rare,
    resources::Resource,
    types::{AppState, Nanos},
};

/// An application that ended after it had run; its text is the line.
#[derive(Clone, Debug)]
pub struct AppSummary {
    /// Id of the application.
    pub app: Arc<str>,
    /// When it was submitted.
    pub submission: Nanos,
    /// When it began to run.
    pub started: Nanos,
    /// When it ended.
    pub finished: Nanos,
    /// Its user.
    pub user: Arc<str>,
    /// Path of its queue.
    pub queue: Arc<str>,
    /// How it ended.
    pub state: AppState,
    /// Its resource manager.
    pub rm: Arc<str>,
    /// Amounts times whole seconds, by instance type.
    pub history: Rare<UsageHistory>,
}

impl fmt::Display for AppSummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let millis = |at: Nanos| at.0 / 1_000_000;
        write!(
            f,
            "YK_APP_SUMMARY: {{ApplicationID: {}, SubmissionTime: {}, StartTime: {}, FinishTime: {}, User: {}, Queue: {}, \
             State: {}, RmID: {}, ResourceUsage: {}, PreemptedResource: {}, PlaceholderResource: {}}}",
            self.app,
            millis(self.submission),
            millis(self.started),
            millis(self.finished),
            self.user,
            self.queue,
            self.state.name(),
            self.rm,
            Tracked(&self.history.normal),
            Tracked(&self.history.preempted),
            Tracked(&self.history.placeholder),
        )
    }
}

/// Usage by instance type, sorted by instance type and resource type.
struct Tracked<'a>(&'a BTreeMap<Arc<str>, Resource>);

impl fmt::Display for Tracked<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rows = self.0.iter().flat_map(|(instance, used)| {
            used.named().into_iter().map(move |(kind, amount)| format!("{instance}:{kind}={amount}"))
        });
        write!(f, "TrackedResource{{{}}}", rows.collect::<Vec<_>>().join(","))
    }
}

list!(AppSummary { app, submission, started, finished, user, queue, state, rm, history });

#[cfg(test)]
mod tests {
    use super::*;

    // OPS-076
    #[test]
    fn the_line() {
        let used = |memory, vcore| Resource::of(&[("vcore", vcore), ("memory", memory)]);
        let normal = [("m5".into(), used(30, 2)), ("UNKNOWN".into(), used(7, 0))].into();
        let summary = AppSummary {
            app: "app-1".into(),
            submission: Nanos::from_millis(1_001),
            started: Nanos::from_millis(2_002),
            finished: Nanos::from_millis(3_003),
            user: "alice".into(),
            queue: "root.a".into(),
            state: AppState::Completed,
            rm: "rm-1".into(),
            history: UsageHistory { normal, ..UsageHistory::default() }.into(),
        };
        let line = "YK_APP_SUMMARY: {ApplicationID: app-1, SubmissionTime: 1001, StartTime: 2002, FinishTime: 3003, \
                    User: alice, Queue: root.a, State: Completed, RmID: rm-1, ResourceUsage: TrackedResource{\
                    UNKNOWN:memory=7,UNKNOWN:vcore=0,m5:memory=30,m5:vcore=2}, PreemptedResource: TrackedResource{}, \
                    PlaceholderResource: TrackedResource{}}";
        assert_eq!(summary.to_string(), line);
    }
}
