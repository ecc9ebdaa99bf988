//! Tests of the manager by rule number.

mod charge;
mod checks;
mod cost;
mod random;
mod reload;
mod views;

use std::sync::Arc;

use super::{Hear, Live, Tracked, Ugm, UgmEvent};
use crate::{conf::LimitConf, event::Change, event::Detail, resources::Resource};

/// A manager with what is live, as a partition would keep it.
#[derive(Clone, Default)]
struct Bench {
    ugm: Ugm,
    live: Vec<Known>,
    events: Vec<Told>,
}

/// An event as it was heard.
#[derive(Clone)]
struct Told {
    change: Change,
    detail: Detail,
    object: Arc<str>,
    reference: Arc<str>,
    resource: Option<Arc<Resource>>,
}

impl Hear for Vec<Told> {
    fn hear(&mut self, UgmEvent { change, detail, object, reference, resource }: UgmEvent) {
        let (object, reference, resource) = (object.clone(), reference.clone(), resource.cloned());
        self.push(Told { change, detail, object, reference, resource });
    }
}

#[derive(Clone)]
struct Known {
    track: Tracked,
    id: String,
    user: String,
    queue: String,
    usage: Resource,
    promised: Resource,
    /// The group for which that is kept.
    promised_group: Option<Arc<str>>,
}

impl Bench {
    fn new(limits: &[(&str, Vec<LimitConf>)]) -> Bench {
        let mut bench = Bench::default();
        bench.limits(limits);
        bench
    }

    fn limits(&mut self, limits: &[(&str, Vec<LimitConf>)]) {
        let limits: Vec<(Arc<str>, &[LimitConf])> =
            limits.iter().map(|(path, entries)| (Arc::from(*path), entries.as_slice())).collect();
        self.ugm.set_limits(limits.iter().map(|(path, entries)| (path, *entries)), &mut self.events);
        self.check();
    }

    fn open(&mut self, id: &str, user: &str, groups: &[&str], queue: &str) -> Tracked {
        let groups: Vec<Arc<str>> = groups.iter().map(|group| Arc::from(*group)).collect();
        let track = self.ugm.open(id.into(), user.into(), groups.into(), chain(queue));
        let (id, user, queue) = (id.into(), user.into(), queue.into());
        self.live.push(Known {
            track,
            id,
            user,
            queue,
            usage: Resource::new(),
            promised: Resource::new(),
            promised_group: None,
        });
        track
    }

    fn known(&mut self, track: Tracked) -> &mut Known {
        self.live.iter_mut().find(|known| known.track == track).expect("a live application")
    }

    /// As its first usage does.
    fn resolve(&mut self, track: Tracked) {
        self.ugm.choose(track, &mut self.events);
        self.check();
    }

    fn add(&mut self, track: Tracked, memory: i64) {
        let amount = Arc::new(mem(memory));
        self.known(track).usage.add(&amount);
        self.ugm.increase(track, &amount, &mut self.events);
        self.check();
    }

    fn sub(&mut self, track: Tracked, memory: i64, last: bool) {
        let amount = Arc::new(mem(memory));
        self.known(track).usage.sub(&amount);
        self.ugm.decrease(track, &amount, last, &mut self.events);
        self.check();
    }

    fn promise(&mut self, track: Tracked, amount: &Resource, more: bool) {
        let app = &self.ugm.apps[track];
        let chosen = self.ugm.limits.group_of(&app.groups, &app.chain);
        let group = if app.counted { self.ugm.group(track).cloned() } else { chosen };
        let known = self.known(track);
        if known.promised.is_zero() {
            known.promised_group = group;
        }
        if more {
            known.promised.add(amount)
        } else {
            known.promised.sub(amount)
        }
        self.ugm.promise(track, amount, more);
        self.check();
    }

    fn remove(&mut self, track: Tracked) {
        self.live.retain(|known| known.track != track);
        self.ugm.remove(track, &mut self.events);
        self.check();
    }

    fn close(&mut self, track: Tracked) {
        self.live.retain(|known| known.track != track);
        self.ugm.close(track, &mut self.events);
        self.check();
    }

    fn check(&self) {
        assert_eq!(self.faults(), Vec::<String>::new());
    }

    fn faults(&self) -> Vec<String> {
        self.ugm.audit(self.live.iter().map(|known| Live {
            track: known.track,
            id: &known.id,
            user: &known.user,
            queue: &known.queue,
            usage: &known.usage,
            promised: &known.promised,
        }))
    }

    /// What happened since the last call, one line per event.
    fn told(&mut self) -> Vec<String> {
        self.events.drain(..).map(|event| line(&event)).collect()
    }

    fn users(&self) -> Vec<String> {
        self.ugm.users().map(|user| user.name.to_string()).collect()
    }

    fn groups(&self) -> Vec<String> {
        self.ugm.groups().map(|group| group.name.to_string()).collect()
    }

    /// Memory that a user uses in a queue.
    fn used(&self, user: &str, queue: &str) -> Option<i128> {
        let user = self.ugm.user(user)?;
        Some(find(&user.root, queue)?.usage.amount(&crate::resources::MEMORY))
    }

    fn group_used(&self, group: &str, queue: &str) -> Option<i128> {
        let group = self.ugm.group_named(group)?;
        Some(find(&group.root, queue)?.usage.amount(&crate::resources::MEMORY))
    }

    fn headroom(&self, track: Tracked) -> String {
        self.ugm.headroom(track).map_or("none".into(), |headroom| headroom.to_string())
    }
}

fn find<'a>(from: &'a super::QueueUsage, path: &str) -> Option<&'a super::QueueUsage> {
    if *from.path == *path { Some(from) } else { from.children.iter().find_map(|child| find(child, path)) }
}

fn line(event: &Told) -> String {
    let change = match event.change {
        Change::Set => "set",
        Change::Add => "add",
        Change::Remove => "remove",
        Change::None => "none",
    };
    let detail = match event.detail {
        Detail::UserLimit => "user limit",
        Detail::GroupLimit => "group limit",
        Detail::AppLink => "link",
        Detail::UserResource => "user",
        Detail::GroupResource => "group",
        _ => "unexpected",
    };
    let resource = event.resource.as_ref().map_or(String::new(), |resource| format!(" {resource}"));
    format!("{change} {detail} {} {}{resource}", event.object, event.reference)
}

fn mem(memory: i64) -> Resource {
    Resource::of(&[("memory", memory)])
}

fn chain(queue: &str) -> Arc<[Arc<str>]> {
    let ends = queue.match_indices('.').map(|(end, _)| end).chain([queue.len()]);
    ends.map(|end| Arc::from(&queue[..end])).collect()
}

/// A limit of memory (0: none) and applications.
fn limit(users: &[&str], groups: &[&str], memory: i64, applications: u64) -> LimitConf {
    LimitConf {
        users: users.iter().map(|name| Arc::from(*name)).collect(),
        groups: groups.iter().map(|name| Arc::from(*name)).collect(),
        max_resources: (memory > 0).then(|| mem(memory)),
        max_applications: applications,
    }
}
