//! What is promised to asks that have preempted, in the limits of their users and groups: others would take it else, and the work that
//! was ended for them would have ended for nothing.

use std::sync::Arc;

use super::{Tracked, Ugm, Who};
use crate::words::plural;
use crate::{
    coded::{Skip, list, map},
    resources::Resource,
};

/// See the module.
#[derive(Clone, Debug, Default)]
pub(super) struct Promised {
    apps: imbl::OrdMap<Tracked, Promise>,
    /// Of users and groups, by the paths of queues.
    sums: imbl::OrdMap<(Who, Arc<str>, Arc<str>), Resource>,
}

/// What an application is promised.
#[derive(Clone, Debug)]
struct Promise {
    amount: Resource,
    /// The group that it was charged to, or would have been, with the first of it: the sums are that one's to the end.
    group: Option<Arc<str>>,
}

impl Promised {
    /// Whom something is promised.
    pub fn tracked(&self) -> impl Iterator<Item = &Tracked> {
        self.apps.keys()
    }

    /// What a user or group is promised in a queue.
    pub fn at(&self, who: Who, name: &Arc<str>, path: &Arc<str>) -> Option<&Resource> {
        // Nearly always nothing is, and this is asked for each ask.
        if self.sums.is_empty() { None } else { self.sums.get(&(who, name.clone(), path.clone())) }
    }
}

fn count(sum: &mut Resource, amount: &Resource, more: bool) {
    if more {
        sum.add(amount)
    } else {
        sum.sub(amount)
    }
    sum.prune();
}

impl Ugm {
    /// Room is promised to an application (`more`), or so much of it not any more.
    pub fn promise(&mut self, track: Tracked, amount: &Resource, more: bool) {
        let app = &self.apps[track];
        let mut promise = self.promised.apps.remove(&track).unwrap_or_else(|| Promise {
            amount: Resource::new(),
            group: if app.counted { self.group(track).cloned() } else { self.limits.group_of(&app.groups, &app.chain) },
        });
        count(&mut promise.amount, amount, more);
        self.sum_up(track, &promise.group, amount, more);
        if !more {
            self.freed.note(Who::User, &self.apps[track].user);
            promise.group.iter().for_each(|group| self.freed.note(Who::Group, group));
        }
        if !promise.amount.is_empty() {
            self.promised.apps.insert(track, promise);
        }
    }

    /// Nothing is promised to it any more: it goes.
    pub(super) fn promise_nothing(&mut self, track: Tracked) {
        if let Some(promise) = self.promised.apps.get(&track) {
            let amount = promise.amount.clone();
            self.promise(track, &amount, false);
        }
    }

    /// No application is promised anything.
    pub fn promises_nothing(&self) -> bool {
        self.promised.apps.is_empty()
    }

    /// The sums, counted anew: they are not saved.
    pub(super) fn sum_up_again(&mut self) {
        self.promised.sums = imbl::OrdMap::new();
        for (track, promise) in self.promised.apps.clone() {
            self.sum_up(track, &promise.group, &promise.amount, true);
        }
    }

    fn sum_up(&mut self, track: Tracked, group: &Option<Arc<str>>, amount: &Resource, more: bool) {
        let app = &self.apps[track];
        let sides = [(Who::User, Some(&app.user)), (Who::Group, group.as_ref())];
        for (who, name) in sides.into_iter().filter_map(|(who, name)| Some((who, name?))) {
            for path in app.chain.iter() {
                let at = (who, name.clone(), path.clone());
                let mut sum = self.promised.sums.remove(&at).unwrap_or_default();
                count(&mut sum, amount, more);
                if !sum.is_empty() {
                    self.promised.sums.insert(at, sum);
                }
            }
        }
    }

    /// What is kept for each application is what its asks have been promised, and the sums are those of these.
    pub(super) fn audit_promised<'a>(
        &self,
        live: impl Iterator<Item = (Tracked, &'a Resource)>,
        faults: &mut Vec<String>,
    ) {
        let nothing = Resource::new();
        let mut left = self.promised.apps.clone();
        for (track, promised) in live {
            let kept = left.remove(&track).map_or_else(|| nothing.clone(), |promise| promise.amount);
            if kept != promised.pruned() {
                let id = self.apps.get(track).map_or("", |app| &app.id);
                faults.push(format!("application {id}: {kept} is kept for it, but it is promised {promised}"));
            }
        }
        if !left.is_empty() {
            faults.push(format!("room is kept for {} no longer there", plural(left.len(), "application")));
            return;
        }
        let mut again = self.clone();
        again.sum_up_again();
        if again.promised.sums != self.promised.sums {
            faults.push("what is promised to users and groups is not what their applications are promised".into());
        }
    }
}

list!(Promise { amount, group });
map!(Promised { 1 apps, 2 sums as Skip });
