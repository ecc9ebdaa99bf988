//! The shim of the demo: which applications and tasks there are, what has to be told to the scheduler, and what its answers
//! mean. It keeps no clock: whoever calls it says what time it is in the cluster, in milliseconds.

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, HashMap, HashSet},
};

use super::{
    cluster::resource,
    teams::{BACKFILL, Job, LIMITED, Teams},
};
use crate::domain::words::plural;
use crate::si::v1::{
    AddApplicationRequest, Allocation, AllocationRelease, AllocationReleasesRequest, AllocationRequest,
    AllocationResponse, ApplicationRequest, ApplicationResponse, RemoveApplicationRequest, TerminationType,
    UserGroupInformation,
};

const PARTITION: &str = "default";
/// Task group of all members of a gang.
const GROUP: &str = "workers";

/// Requests to be sent, in this order.
#[derive(Default)]
pub struct Outbox {
    /// Applications to submit.
    pub applications: Option<ApplicationRequest>,
    /// Asks and releases.
    pub allocations: Option<AllocationRequest>,
    /// Removals of applications of which nothing is left.
    pub removals: Option<ApplicationRequest>,
}

/// See the module.
pub struct Shop {
    rm: String,
    now: u64,
    teams: Teams,
    apps: HashMap<String, App>,
    /// Application and task of what runs or waits, by key.
    keys: HashMap<String, (String, usize)>,
    ends: BinaryHeap<Reverse<(u64, String)>>,
    /// Keys of asks that wait, of the user who is at his limit.
    held: HashSet<String>,
    submissions: Vec<AddApplicationRequest>,
    asks: Vec<Allocation>,
    releases: Vec<AllocationRelease>,
    removals: Vec<RemoveApplicationRequest>,
    placed: u64,
    preempted: u64,
    ended: u64,
}

struct App {
    job: Job,
    /// Tasks that have not ended.
    left: usize,
    /// Placeholders of a gang that have no place yet.
    missing: usize,
    /// How often a task was preempted and asked for again: part of its next key.
    again: u32,
}

impl Shop {
    /// An empty cluster.
    pub fn new(rm: &str, seed: u64) -> Shop {
        Shop {
            rm: rm.to_owned(),
            now: 0,
            teams: Teams::new(seed),
            apps: HashMap::new(),
            keys: HashMap::new(),
            ends: BinaryHeap::new(),
            held: HashSet::new(),
            submissions: Vec::new(),
            asks: Vec::new(),
            releases: Vec::new(),
            removals: Vec::new(),
            placed: 0,
            preempted: 0,
            ended: 0,
        }
    }

    /// What is there when the demo begins.
    pub fn furnish(&mut self) {
        for job in self.teams.first() {
            self.submit(job);
        }
    }

    /// Time has come to `now`: tasks end, teams submit.
    pub fn advance(&mut self, now: u64) {
        self.now = now;
        while let Some(Reverse((at, _))) = self.ends.peek()
            && *at <= now
        {
            if let Some(Reverse((_, key))) = self.ends.pop()
                && let Some((app, _)) = self.keys.remove(&key)
            {
                self.release(&app, &key, TerminationType::StoppedByRm);
                self.task_is_over(&app);
            }
        }
        for job in self.teams.until(now) {
            self.submit(job);
        }
        // Something of his waits, whenever somebody looks.
        if self.held.len() < BACKFILL {
            let job = self.teams.backfill();
            self.submit(job);
        }
    }

    /// Placed, released and rejected asks.
    pub fn allocations(&mut self, response: AllocationResponse) {
        for allocation in response.new {
            self.place(&allocation);
        }
        for released in response.released {
            self.let_go(released);
        }
        for rejected in response.rejected_allocations {
            self.held.remove(&rejected.allocation_key);
            if self.keys.remove(&rejected.allocation_key).is_some() {
                self.task_is_over(&rejected.application_id);
            }
        }
    }

    /// A rejected application is forgotten; its asks are rejected with it.
    pub fn applications(&mut self, response: ApplicationResponse) {
        for rejected in response.rejected {
            self.apps.remove(&rejected.application_id);
            self.keys.retain(|_, (app, _)| *app != rejected.application_id);
            self.held.retain(|key| self.keys.contains_key(key));
        }
    }

    /// What has to be sent now.
    pub fn take_outbox(&mut self) -> Outbox {
        let some = |new: Vec<_>, remove: Vec<_>, rm: &str| {
            (!new.is_empty() || !remove.is_empty()).then(|| ApplicationRequest { new, remove, rm_id: rm.to_owned() })
        };
        let (asks, releases) = (std::mem::take(&mut self.asks), std::mem::take(&mut self.releases));
        let allocations = (!asks.is_empty() || !releases.is_empty()).then(|| AllocationRequest {
            allocations: asks,
            releases: (!releases.is_empty()).then_some(AllocationReleasesRequest { allocations_to_release: releases }),
            rm_id: self.rm.clone(),
        });
        Outbox {
            applications: some(std::mem::take(&mut self.submissions), Vec::new(), &self.rm),
            allocations,
            removals: some(Vec::new(), std::mem::take(&mut self.removals), &self.rm),
        }
    }

    /// One line for the end.
    pub fn counts(&self) -> String {
        format!(
            "{} made, {} of them preempted; {} ended, {} left.",
            plural(self.placed, "allocation"),
            self.preempted,
            plural(self.ended, "application"),
            self.apps.len()
        )
    }

    fn submit(&mut self, job: Job) {
        let (milli, bytes, gpus) = job.needs;
        let count = job.tasks.len() as i64;
        let all = job.gang.then(|| {
            let mut all = resource(milli * count, bytes * count, gpus * count);
            all.resources.remove("pods");
            all
        });
        self.submissions.push(AddApplicationRequest {
            application_id: job.id.clone(),
            queue_name: job.queue.to_owned(),
            partition_name: PARTITION.to_owned(),
            ugi: Some(UserGroupInformation { user: job.user.to_owned(), groups: vec![job.user.to_owned()] }),
            gang_scheduling_style: if job.gang { "Soft".to_owned() } else { String::new() },
            placeholder_ask: all,
            ..Default::default()
        });
        for task in 0..job.tasks.len() {
            let key = if job.gang { format!("{}-ph-{task}", job.id) } else { format!("{}-{task}", job.id) };
            self.ask(&job, key, task, job.gang);
        }
        let missing = if job.gang { job.tasks.len() } else { 0 };
        self.apps.insert(job.id.clone(), App { left: job.tasks.len(), missing, again: 0, job });
    }

    fn ask(&mut self, job: &Job, key: String, task: usize, placeholder: bool) {
        let (milli, bytes, gpus) = job.needs;
        self.asks.push(Allocation {
            allocation_key: key.clone(),
            application_id: job.id.clone(),
            partition_name: PARTITION.to_owned(),
            resource_per_alloc: Some(resource(milli, bytes, gpus)),
            task_group_name: if job.gang { GROUP.to_owned() } else { String::new() },
            placeholder,
            ..Default::default()
        });
        if job.user == LIMITED {
            self.held.insert(key.clone());
        }
        self.keys.insert(key, (job.id.clone(), task));
    }

    fn place(&mut self, allocation: &Allocation) {
        self.held.remove(&allocation.allocation_key);
        let Some((id, task)) = self.keys.get(&allocation.allocation_key).cloned() else { return };
        let Some(app) = self.apps.get_mut(&id) else { return };
        if !allocation.placeholder {
            self.placed += 1;
            self.ends.push(Reverse((self.now + app.job.tasks[task], allocation.allocation_key.clone())));
            return;
        }
        app.missing = app.missing.saturating_sub(1);
        if app.missing == 0 {
            self.ask_for_real(&id);
        }
    }

    /// All placeholders of a gang have their places, or are gone: now its members.
    fn ask_for_real(&mut self, id: &str) {
        let Some(job) = self.apps.get(id).map(|app| app.job.clone()) else { return };
        for task in 0..job.tasks.len() {
            self.ask(&job, format!("{id}-{task}"), task, false);
        }
    }

    /// The scheduler let something go.
    fn let_go(&mut self, released: AllocationRelease) {
        self.held.remove(&released.allocation_key);
        let Some((id, task)) = self.keys.remove(&released.allocation_key) else { return };
        match released.termination_type() {
            // A placeholder made room for a member, or its time was over.
            kind @ (TerminationType::PlaceholderReplaced | TerminationType::Timeout) => {
                self.release(&id, &released.allocation_key, kind);
                if kind == TerminationType::Timeout
                    && let Some(app) = self.apps.get_mut(&id)
                    && app.missing > 0
                {
                    // The gang starts with what it gets: it is Soft.
                    app.missing = 0;
                    self.ask_for_real(&id);
                }
            }
            TerminationType::PreemptedByScheduler => {
                self.preempted += 1;
                self.release(&id, &released.allocation_key, TerminationType::PreemptedByScheduler);
                let Some(app) = self.apps.get_mut(&id) else { return };
                app.again += 1;
                let (job, again) = (app.job.clone(), app.again);
                self.ask(&job, format!("{id}-{task}-again-{again}"), task, false);
            }
            _ => self.task_is_over(&id),
        }
    }

    fn task_is_over(&mut self, id: &str) {
        let Some(app) = self.apps.get_mut(id) else { return };
        app.left = app.left.saturating_sub(1);
        if app.left == 0 {
            self.apps.remove(id);
            self.ended += 1;
            self.removals
                .push(RemoveApplicationRequest { application_id: id.to_owned(), partition_name: PARTITION.to_owned() });
        }
    }

    fn release(&mut self, app: &str, key: &str, kind: TerminationType) {
        self.releases.push(AllocationRelease {
            partition_name: PARTITION.to_owned(),
            application_id: app.to_owned(),
            termination_type: kind.into(),
            message: String::new(),
            allocation_key: key.to_owned(),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn placed(asks: &[Allocation]) -> AllocationResponse {
        AllocationResponse { new: asks.to_vec(), ..Default::default() }
    }

    #[test]
    fn a_gang_asks_for_its_members_when_all_placeholders_have_places_and_ends() {
        let mut shop = Shop::new("demo", 1);
        let job = Job {
            id: "g".into(),
            queue: "root.research.training",
            user: "fay",
            needs: (1000, 1 << 30, 1),
            tasks: vec![500, 600],
            gang: true,
        };
        shop.submit(job);
        let asks = shop.take_outbox().allocations.expect("placeholders").allocations;
        assert!(asks.len() == 2 && asks.iter().all(|ask| ask.placeholder));
        shop.allocations(placed(&asks[..1]));
        assert!(shop.take_outbox().allocations.is_none());
        shop.allocations(placed(&asks[1..]));
        let members = shop.take_outbox().allocations.expect("members").allocations;
        assert!(members.len() == 2 && members.iter().all(|ask| !ask.placeholder && ask.task_group_name == GROUP));
        // Each placeholder is confirmed, then its member is placed.
        let released: Vec<_> = asks
            .iter()
            .map(|ask| AllocationRelease {
                allocation_key: ask.allocation_key.clone(),
                termination_type: TerminationType::PlaceholderReplaced.into(),
                ..Default::default()
            })
            .collect();
        shop.allocations(AllocationResponse { released, ..Default::default() });
        let confirmed = shop.take_outbox().allocations.and_then(|request| request.releases).expect("confirmed");
        assert_eq!(confirmed.allocations_to_release.len(), 2);
        shop.allocations(placed(&members));
        shop.advance(550);
        let out = shop.take_outbox();
        assert!(out.removals.is_none(), "one still runs");
        shop.advance(600);
        assert_eq!(shop.take_outbox().removals.expect("over").remove[0].application_id, "g");
    }

    #[test]
    fn what_is_preempted_is_confirmed_and_asked_for_again() {
        let mut shop = Shop::new("demo", 1);
        let needs = (1000, 1 << 30, 0);
        shop.submit(Job { id: "j".into(), queue: "root.etl", user: "eve", needs, tasks: vec![500], gang: false });
        let asks = shop.take_outbox().allocations.expect("asks").allocations;
        shop.allocations(placed(&asks));
        let release = AllocationRelease {
            allocation_key: asks[0].allocation_key.clone(),
            termination_type: TerminationType::PreemptedByScheduler.into(),
            ..Default::default()
        };
        shop.allocations(AllocationResponse { released: vec![release], ..Default::default() });
        let out = shop.take_outbox().allocations.expect("confirmation and ask");
        assert_eq!(out.releases.expect("confirmed").allocations_to_release.len(), 1);
        assert_eq!(out.allocations[0].allocation_key, "j-0-again-1");
        // The end of the first try does not end the second.
        shop.advance(500);
        assert!(shop.take_outbox().removals.is_none());
    }

    #[test]
    fn something_of_the_limited_user_waits_at_all_times() {
        let mut shop = Shop::new("demo", 1);
        shop.furnish();
        for minute in 1..600 {
            let asks = shop.take_outbox().allocations.map(|request| request.allocations).unwrap_or_default();
            let waiting = |shop: &Shop| shop.held.iter().filter(|key| shop.keys.contains_key(*key)).count();
            assert!(waiting(&shop) >= BACKFILL, "minute {minute}: {}", waiting(&shop));
            // All that is asked for has a place: he waits for what comes with the next step.
            shop.allocations(placed(&asks));
            shop.advance(minute * 60_000);
        }
    }
}
