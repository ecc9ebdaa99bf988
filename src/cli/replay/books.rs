//! The shim's own books of a trace being played: which ask waits, which is placed where, what is used by whom.
//!
//! They follow the callbacks alone, so that at the end they can be compared with what the server says.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::{
    gangs::{Gangs, placeholder_key},
    trace::{Amounts, Millis, Trace, add, subtract},
    wire,
};
use crate::si::v1::{AllocationResponse, ApplicationResponse, NodeResponse, TerminationType};

/// Where an ask is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AskState {
    /// Not asked for yet.
    Future,
    /// Asked for.
    Waiting,
    /// Placed on a node.
    Placed(usize),
    /// Ended, withdrawn or refused.
    Done,
}

/// What a callback makes necessary.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct FollowUp {
    /// Releases to confirm: (key, application, type).
    pub confirm: Vec<(String, String, i32)>,
    /// Asks to make: those whose placement the server took back, under a new key, and the real ones of a gang.
    pub asks: Vec<usize>,
}

/// The server sent something that does not fit the session.
#[derive(Debug, thiserror::Error)]
#[error("the server {0}")]
pub struct Nonsense(String);

/// What was counted while the trace was played.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    /// Applications that were accepted, each counted once.
    pub applications: usize,
    /// Asks that were made.
    pub asked: usize,
    /// Number of allocations that were made.
    pub placed: usize,
    /// Asks that ended before they were placed.
    pub withdrawn: usize,
    /// Placements that the server took back, by type.
    pub taken_back: BTreeMap<String, usize>,
    /// Refused applications and asks, by reason.
    pub refused: BTreeMap<String, usize>,
    /// Nodes accepted.
    pub nodes: usize,
}

/// See the module.
pub struct Books<'t> {
    trace: &'t Trace,
    state: Vec<AskState>,
    since: Vec<Millis>,
    attempt: Vec<u32>,
    by_key: HashMap<String, usize>,
    node_by_id: HashMap<&'t str, usize>,
    app_by_id: HashMap<&'t str, usize>,
    queue_of_app: Vec<usize>,
    live_asks: Vec<u32>,
    submitted: Vec<bool>,
    app_counted: Vec<bool>,
    /// Queue names, in the order of `used_by_queue`.
    pub queues: Vec<String>,
    /// Free per node; of nodes that were accepted.
    pub node_free: Vec<Amounts>,
    /// Used per queue.
    pub used_by_queue: Vec<Amounts>,
    /// Used in all.
    pub used: Amounts,
    /// Asks that wait, by position.
    pub waiting: BTreeSet<usize>,
    /// Those of them that were not there when the scheduler was last quiet.
    unanswered: BTreeSet<usize>,
    /// Applications neither accepted nor refused yet.
    pub unanswered_apps: usize,
    /// Placeholders, where the applications are gangs.
    pub gangs: Option<Gangs<'t>>,
    /// What is placed now had its place when it was asked for; that this is heard later is no wait.
    pub at_once: bool,
    /// Wait of each placement.
    pub waits: Vec<Millis>,
    /// Wait for the first place, of asks that had one.
    first_wait: Vec<Option<Millis>>,
    /// What happened so far.
    pub counts: Counts,
}

impl<'t> Books<'t> {
    /// Nothing asked for, nothing placed.
    pub fn new(trace: &'t Trace) -> Books<'t> {
        let queues = trace.queues();
        let position = |queue: &String| queues.iter().position(|name| name == queue).unwrap_or(0);
        Books {
            trace,
            state: vec![AskState::Future; trace.asks.len()],
            since: vec![Millis(0); trace.asks.len()],
            attempt: vec![0; trace.asks.len()],
            by_key: HashMap::with_capacity(trace.asks.len()),
            node_by_id: trace.nodes.iter().enumerate().map(|(at, node)| (node.id.as_str(), at)).collect(),
            app_by_id: trace.apps.iter().enumerate().map(|(at, app)| (app.id.as_str(), at)).collect(),
            queue_of_app: trace.apps.iter().map(|app| position(&app.queue)).collect(),
            live_asks: vec![0; trace.apps.len()],
            submitted: vec![false; trace.apps.len()],
            app_counted: vec![false; trace.apps.len()],
            node_free: trace.nodes.iter().map(|node| node.capacity.clone()).collect(),
            used_by_queue: vec![vec![0; trace.types.len()]; queues.len()],
            queues,
            used: vec![0; trace.types.len()],
            waiting: BTreeSet::new(),
            unanswered: BTreeSet::new(),
            unanswered_apps: 0,
            gangs: Gangs::new(trace),
            at_once: false,
            waits: Vec::new(),
            first_wait: vec![None; trace.asks.len()],
            counts: Counts::default(),
        }
    }

    /// State of an ask.
    pub fn state(&self, ask: usize) -> AskState {
        self.state[ask]
    }

    /// Queue of an ask, as a position in `queues`.
    pub fn queue_of(&self, ask: usize) -> usize {
        self.queue_of_app[self.trace.asks[ask].app]
    }

    /// Key under which an ask is known to the server now; that of its placeholder before the real ask of a gang was made.
    pub fn key(&self, ask: usize) -> String {
        if self.is_placeholder(ask) { placeholder_key(&self.trace.asks[ask].key) } else { self.real_key(ask) }
    }

    /// An ask as it is to be made now.
    pub fn ask(&self, ask: usize) -> wire::Ask {
        wire::Ask { at: ask, key: self.key(ask), placeholder: self.is_placeholder(ask) }
    }

    /// The scheduler knows nothing of the ask that could wait: it is made when the last of its gang has a placeholder.
    pub fn waits_for_gang(&self, ask: usize) -> bool {
        self.gangs.as_ref().is_some_and(|gangs| gangs.waits_for_others(ask))
    }

    fn is_placeholder(&self, ask: usize) -> bool {
        self.gangs.as_ref().is_some_and(|gangs| !gangs.is_real(ask))
    }

    fn real_key(&self, ask: usize) -> String {
        match self.attempt[ask] {
            0 | 1 => self.trace.asks[ask].key.clone(),
            attempt => format!("{}#{attempt}", self.trace.asks[ask].key),
        }
    }

    /// An ask is made. True where its application has to be submitted first.
    pub fn start(&mut self, ask: usize, now: Millis) -> bool {
        self.counts.asked += 1;
        self.wait(ask, now);
        let app = self.trace.asks[ask].app;
        self.live_asks[app] += 1;
        if let Some(gangs) = &mut self.gangs {
            gangs.begin(ask);
        }
        let first = !std::mem::replace(&mut self.submitted[app], true);
        self.unanswered_apps += usize::from(first);
        first
    }

    /// An ask ends. Gives the keys that the server has to be told to release: its own, and that of a placeholder that
    /// nobody needs any more.
    pub fn end(&mut self, ask: usize) -> Vec<String> {
        let waited = match self.state[ask] {
            AskState::Future | AskState::Done => return Vec::new(),
            AskState::Waiting => {
                self.counts.withdrawn += 1;
                true
            }
            AskState::Placed(node) => {
                self.free(ask, node);
                false
            }
        };
        let mut keys = Vec::new();
        if !self.is_placeholder(ask) {
            keys.push(self.real_key(ask));
        }
        self.done(ask);
        let state = &self.state;
        let surplus =
            self.gangs.as_ref().filter(|_| waited).and_then(|gangs| gangs.surplus(ask, |at| waits(state, at)));
        if let Some(placeholder) = surplus {
            keys.push(placeholder_key(&self.trace.asks[placeholder].key));
            self.end_placeholder(placeholder);
        }
        keys
    }

    /// The real asks that gangs among these applications make now, as none of their placeholders waits any more.
    pub fn complete(&mut self, apps: &[usize]) -> Vec<usize> {
        let Some(gangs) = &mut self.gangs else { return Vec::new() };
        let state = &self.state;
        let mut asks = Vec::new();
        for app in apps {
            asks.extend(gangs.complete(*app, |at| waits(state, at)));
        }
        // Something is to be expected of them again.
        self.unanswered.extend(asks.iter().copied());
        asks
    }

    fn end_placeholder(&mut self, placeholder: usize) {
        if let Some(node) = self.gangs.as_mut().and_then(|gangs| gangs.end(placeholder)) {
            self.free(placeholder, node);
        }
    }

    /// Those of `apps` of which no ask is waiting or placed any more; they count as not submitted from now on.
    pub fn remove_idle(&mut self, mut apps: Vec<usize>) -> Vec<usize> {
        apps.sort_unstable();
        apps.dedup();
        apps.retain(|app| self.live_asks[*app] == 0);
        for app in &apps {
            self.submitted[*app] = false;
            // Placeholders of it go with it.
            for (placeholder, node) in self.gangs.as_mut().map_or_else(Vec::new, |gangs| gangs.remove(*app)) {
                self.free(placeholder, node);
            }
        }
        apps
    }

    /// Asks that wait or have a place.
    pub fn unfinished(&self) -> Vec<usize> {
        let unfinished = |ask: &usize| matches!(self.state[*ask], AskState::Waiting | AskState::Placed(_));
        (0..self.state.len()).filter(unfinished).collect()
    }

    /// How long the largest tenth of the asks that were made until `now` waited for a place, by their largest share of the
    /// cluster; one that never had a place, until it ended.
    pub fn waits_of_large(&self, now: Millis) -> Vec<Millis> {
        let capacity = self.trace.capacity();
        let share = |ask: &usize| {
            let needs = &self.trace.asks[*ask].needs;
            let shares = needs.iter().zip(&capacity).filter(|(_, whole)| **whole > 0);
            shares.map(|(need, whole)| *need as f64 / *whole as f64).fold(0.0, f64::max)
        };
        let mut asks: Vec<usize> = (0..self.state.len()).filter(|ask| self.state[*ask] != AskState::Future).collect();
        // Of equal ones the first ones, so that it is the same tenth whoever was placed.
        asks.sort_by(|one, other| share(other).total_cmp(&share(one)));
        asks.truncate(asks.len().div_ceil(10));
        let until_end = |ask: usize| {
            let ask = &self.trace.asks[ask];
            Millis(ask.ends.map_or(now, |end| end.min(now)).0 - ask.starts.0)
        };
        asks.into_iter().map(|ask| self.first_wait[ask].unwrap_or_else(|| until_end(ask))).collect()
    }

    /// The ask waits.
    pub fn is_waiting(&self, ask: usize) -> bool {
        self.state[ask] == AskState::Waiting
    }

    /// The scheduler is quiet: what waits now is known to wait. Gives those that are new to it.
    pub fn quiet(&mut self) -> Vec<usize> {
        std::mem::take(&mut self.unanswered).into_iter().collect()
    }

    /// Refused applications and asks.
    pub fn refused(&self) -> usize {
        self.counts.refused.values().sum()
    }

    /// Asks that wait and were not there when the scheduler was last quiet.
    pub fn unanswered(&self) -> usize {
        self.unanswered.len()
    }

    /// Takes an application response.
    pub fn applications(&mut self, response: ApplicationResponse) {
        for accepted in response.accepted {
            self.unanswered_apps = self.unanswered_apps.saturating_sub(1);
            if let Some(app) = self.app_by_id.get(accepted.application_id.as_str())
                && !std::mem::replace(&mut self.app_counted[*app], true)
            {
                self.counts.applications += 1;
            }
        }
        for rejected in response.rejected {
            self.unanswered_apps = self.unanswered_apps.saturating_sub(1);
            *self.counts.refused.entry(format!("application: {}", rejected.reason)).or_default() += 1;
        }
    }

    /// Takes a node response.
    pub fn nodes(&mut self, response: NodeResponse) -> Result<(), Nonsense> {
        self.counts.nodes += response.accepted.len();
        match response.rejected.first() {
            Some(node) => Err(Nonsense(format!("refused node {}: {}", node.node_id, node.reason))),
            None => Ok(()),
        }
    }

    /// Takes an allocation response.
    pub fn allocations(&mut self, response: AllocationResponse, now: Millis) -> Result<FollowUp, Nonsense> {
        let mut touched = Vec::new();
        for new in response.new {
            let ask = self.by_key.get(&new.allocation_key).copied();
            let node = self.node_by_id.get(new.node_id.as_str()).copied();
            let placeholder = self.gangs.as_ref().and_then(|gangs| gangs.find(&new.allocation_key));
            match (placeholder, ask, node) {
                (Some(placeholder), _, Some(node)) => {
                    self.placeholder_placed(placeholder, node)?;
                    touched.push(self.trace.asks[placeholder].app);
                }
                (None, Some(ask), Some(node)) => self.placed(ask, node, now)?,
                (None, None, _) => {
                    return Err(Nonsense(format!("placed {}, which nobody asked for", new.allocation_key)));
                }
                (_, _, None) => {
                    return Err(Nonsense(format!("placed {} on unknown node {}", new.allocation_key, new.node_id)));
                }
            }
        }
        let mut follow_up = FollowUp::default();
        for released in response.released {
            use TerminationType::{PlaceholderReplaced, PreemptedByScheduler, Timeout};
            let kind = released.termination_type();
            if matches!(kind, Timeout | PreemptedByScheduler | PlaceholderReplaced) {
                let app = released.application_id.clone();
                follow_up.confirm.push((released.allocation_key.clone(), app, released.termination_type));
            }
            if let Some(gangs) = &mut self.gangs
                && let Some(placeholder) = gangs.find(&released.allocation_key)
            {
                gangs.counts.replaced += usize::from(kind == PlaceholderReplaced);
                self.end_placeholder(placeholder);
                touched.push(self.trace.asks[placeholder].app);
                continue;
            }
            let Some(ask) = self.by_key.get(&released.allocation_key).copied() else { continue };
            if released.allocation_key != self.real_key(ask) {
                continue;
            }
            if let AskState::Placed(node) = self.state[ask] {
                self.free(ask, node);
                *self.counts.taken_back.entry(kind.as_str_name().to_owned()).or_default() += 1;
                self.wait(ask, now);
                follow_up.asks.push(ask);
            }
        }
        for rejected in response.rejected_allocations {
            *self.counts.refused.entry(format!("ask: {}", rejected.reason)).or_default() += 1;
            let placeholder = self.gangs.as_ref().and_then(|gangs| gangs.find(&rejected.allocation_key));
            if let Some(placeholder) = placeholder {
                self.end_placeholder(placeholder);
                touched.push(self.trace.asks[placeholder].app);
            }
            if let Some(ask) = placeholder.or_else(|| self.by_key.get(&rejected.allocation_key).copied())
                && self.state[ask] == AskState::Waiting
            {
                self.done(ask);
            }
        }
        follow_up.asks.extend(self.complete(&touched));
        Ok(follow_up)
    }

    fn placeholder_placed(&mut self, placeholder: usize, node: usize) -> Result<(), Nonsense> {
        // One that was released while its placement was on the way is freed by that.
        if self.gangs.as_mut().is_some_and(|gangs| gangs.place(placeholder, node)) {
            self.take(placeholder, node)?;
        }
        Ok(())
    }

    fn placed(&mut self, ask: usize, node: usize, now: Millis) -> Result<(), Nonsense> {
        match self.state[ask] {
            AskState::Waiting => {}
            // It was withdrawn while its placement was on the way; the withdrawal frees it.
            AskState::Done => return Ok(()),
            AskState::Future | AskState::Placed(_) => {
                return Err(Nonsense(format!("placed {} twice", self.trace.asks[ask].key)));
            }
        }
        self.take(ask, node)?;
        self.state[ask] = AskState::Placed(node);
        self.waiting.remove(&ask);
        self.unanswered.remove(&ask);
        let wait = if self.at_once { Millis(0) } else { Millis(now.0 - self.since[ask].0) };
        self.waits.push(wait);
        self.first_wait[ask].get_or_insert(wait);
        self.counts.placed += 1;
        Ok(())
    }

    fn take(&mut self, ask: usize, node: usize) -> Result<(), Nonsense> {
        let needs = &self.trace.asks[ask].needs;
        subtract(&mut self.node_free[node], needs);
        if self.node_free[node].iter().any(|free| *free < 0) {
            let (key, node) = (&self.trace.asks[ask].key, &self.trace.nodes[node].id);
            return Err(Nonsense(format!("placed {key} on {node}, which has no room for it")));
        }
        add(&mut self.used, needs);
        add(&mut self.used_by_queue[self.queue_of_app[self.trace.asks[ask].app]], needs);
        Ok(())
    }

    fn free(&mut self, ask: usize, node: usize) {
        let needs = &self.trace.asks[ask].needs;
        add(&mut self.node_free[node], needs);
        subtract(&mut self.used, needs);
        subtract(&mut self.used_by_queue[self.queue_of_app[self.trace.asks[ask].app]], needs);
    }

    fn wait(&mut self, ask: usize, now: Millis) {
        self.attempt[ask] += 1;
        self.by_key.insert(self.real_key(ask), ask);
        self.state[ask] = AskState::Waiting;
        self.since[ask] = now;
        self.waiting.insert(ask);
        self.unanswered.insert(ask);
    }

    fn done(&mut self, ask: usize) {
        self.state[ask] = AskState::Done;
        self.waiting.remove(&ask);
        self.unanswered.remove(&ask);
        self.live_asks[self.trace.asks[ask].app] -= 1;
    }
}

fn waits(state: &[AskState], ask: usize) -> bool {
    state[ask] == AskState::Waiting
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        cli::replay::trace::testing::{self, ask},
        si::v1::{AcceptedApplication, Allocation, AllocationRelease, RejectedAllocation},
    };

    fn trace() -> Trace {
        testing::trace(&["n"], 10, vec![ask("a", 6, 0, None), ask("b", 6, 0, None)])
    }

    fn new(key: &str) -> AllocationResponse {
        let new = Allocation { allocation_key: key.into(), node_id: "n".into(), ..Default::default() };
        AllocationResponse { new: vec![new], ..Default::default() }
    }

    fn released(key: &str, kind: TerminationType) -> AllocationResponse {
        let release = AllocationRelease {
            allocation_key: key.into(),
            application_id: "app".into(),
            termination_type: kind.into(),
            ..Default::default()
        };
        AllocationResponse { released: vec![release], ..Default::default() }
    }

    #[test]
    fn placements_are_booked_and_freed() {
        let trace = trace();
        let mut books = Books::new(&trace);
        assert!(books.start(0, Millis(5)));
        assert!(!books.start(1, Millis(5)));
        assert_eq!((books.unanswered(), books.unanswered_apps), (2, 1));
        let accepted = vec![AcceptedApplication { application_id: "app".into() }];
        books.applications(ApplicationResponse { accepted, ..Default::default() });
        assert_eq!((books.unanswered_apps, books.counts.applications), (0, 1));
        books.allocations(new("a"), Millis(25)).unwrap();
        assert_eq!(
            (books.used.clone(), books.used_by_queue[0].clone(), books.waits[0]),
            (vec![6], vec![6], Millis(20))
        );
        assert_eq!(books.quiet(), vec![1]);
        assert_eq!((books.unanswered(), books.waiting.len()), (0, 1));
        assert_eq!((books.end(0), books.end(0)), (vec!["a".to_owned()], Vec::new()));
        assert_eq!((books.used[0], books.node_free[0][0]), (0, 10));
        // The echo of a release by the shim changes nothing.
        assert_eq!(
            books.allocations(released("a", TerminationType::StoppedByRm), Millis(30)).unwrap(),
            FollowUp::default()
        );
        assert_eq!(books.remove_idle(vec![0]), Vec::<usize>::new());
        assert_eq!(books.end(1), ["b"]);
        assert_eq!(books.remove_idle(vec![0, 0]), vec![0]);
        assert_eq!((books.counts.placed, books.counts.withdrawn), (1, 1));
        // A placement that crossed the withdrawal is freed by it.
        books.allocations(new("b"), Millis(30)).unwrap();
        assert_eq!(books.used[0], 0);
    }

    #[test]
    fn what_the_server_takes_back_is_confirmed_and_asked_for_again() {
        let trace = trace();
        let mut books = Books::new(&trace);
        books.start(0, Millis(0));
        books.allocations(new("a"), Millis(0)).unwrap();
        let follow_up = books.allocations(released("a", TerminationType::PreemptedByScheduler), Millis(10)).unwrap();
        let confirm = ("a".to_owned(), "app".to_owned(), i32::from(TerminationType::PreemptedByScheduler));
        assert_eq!(follow_up, FollowUp { confirm: vec![confirm], asks: vec![0] });
        assert_eq!((books.key(0), books.state(0)), ("a#2".into(), AskState::Waiting));
        books.allocations(new("a#2"), Millis(15)).unwrap();
        assert_eq!(books.waits, vec![Millis(0), Millis(5)]);
    }

    #[test]
    fn a_refused_ask_no_longer_waits() {
        let trace = trace();
        let mut books = Books::new(&trace);
        books.start(0, Millis(0));
        let rejected =
            RejectedAllocation { allocation_key: "a".into(), application_id: "app".into(), reason: "too odd".into() };
        let response = AllocationResponse { rejected_allocations: vec![rejected], ..Default::default() };
        books.allocations(response, Millis(0)).unwrap();
        assert_eq!(books.state(0), AskState::Done);
        assert_eq!(books.counts.refused.get("ask: too odd"), Some(&1));
    }

    #[test]
    fn impossible_placements_are_errors() {
        let trace = trace();
        let mut books = Books::new(&trace);
        books.start(0, Millis(0));
        books.start(1, Millis(0));
        books.allocations(new("a"), Millis(0)).unwrap();
        let message = |books: &mut Books<'_>, key| books.allocations(new(key), Millis(0)).unwrap_err().to_string();
        assert_eq!(message(&mut books, "a"), "the server placed a twice");
        assert_eq!(message(&mut books, "b"), "the server placed b on n, which has no room for it");
        assert_eq!(message(&mut books, "x"), "the server placed x, which nobody asked for");
    }
}
