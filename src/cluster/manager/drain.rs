//! Servers that are drained, which means that they are to lead nothing; and how each server says that it follows what others lead.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use bytes::Bytes;
use tokio::{sync::oneshot, time::Instant};

use super::{Manager, Role};
use crate::{
    cluster::{
        etcd::Change,
        follow::Fault,
        keys::{Keys, Server},
    },
    messages::{
        leaders::{Drain, FollowStatus, Leader},
        rm::{Refusal, RefusalKind},
    },
};

/// How often this server says how it follows.
const SAY: Duration = Duration::from_secs(3);
/// Between two attempts of a drained server to hand over what it still leads.
const EVACUATE: Duration = Duration::from_secs(30);

impl Manager {
    /// How a server follows.
    pub(super) fn load(&mut self, id: &str, value: Option<&Bytes>) {
        match value.and_then(|value| serde_json::from_slice(value).ok()) {
            Some(load) => drop(self.loads.insert(id.to_owned(), load)),
            None => drop(self.loads.remove(id)),
        }
    }

    /// A server is to lead nothing.
    pub(super) fn drained(&mut self, id: &str, value: Option<&Bytes>) {
        let before = match value {
            Some(value) => {
                self.drains.insert(id.to_owned(), serde_json::from_slice(value).unwrap_or_default()).is_some()
            }
            None => {
                let gone = self.drains.remove(id).is_some();
                self.uneven |= gone;
                !gone
            }
        };
        if id == self.options.me.id && !before {
            tracing::info!(drained = value.is_some(), "an operator says whether this server leads anything");
            self.known.values_mut().for_each(|known| known.evacuated = None);
        }
    }

    pub(super) fn is_drained(&self) -> bool {
        self.drains.contains_key(&self.options.me.id)
    }

    /// A server by its id, or the URL of its HTTP door.
    pub(super) fn named(&self, server: &str) -> Result<(&String, &Server), Refusal> {
        let url = server.trim_end_matches('/');
        let found = self.servers.iter().find(|(id, at)| **id == server || (!at.http.is_empty() && at.http == url));
        found.ok_or_else(|| {
            let all: Vec<&str> = self.servers.values().map(|server| server.http.as_str()).collect();
            let detail = format!("server \"{server}\" is not there; there are: {}", all.join(", "));
            Refusal::new(RefusalKind::Invalid, detail)
        })
    }

    /// A server is to lead nothing, or may again.
    pub(super) fn drain(&mut self, server: &str, drain: Option<Drain>, reply: oneshot::Sender<Result<(), Refusal>>) {
        // One that is gone may be undrained, by its id.
        let id = match self.named(server) {
            Ok((id, _)) => id.clone(),
            Err(_) if self.drains.contains_key(server) => server.to_owned(),
            Err(refusal) => {
                let _ = reply.send(Err(refusal));
                return;
            }
        };
        let (etcd, key) = (self.etcd.clone(), self.keys.drain(&id));
        let change = match drain {
            // A structure of texts has a JSON text.
            Some(drain) => Change::Put(key, serde_json::to_vec(&drain).unwrap_or_default().into(), 0),
            None => Change::delete(&key),
        };
        tokio::spawn(async move {
            let done = etcd.txn(&[], vec![change]).await;
            let done = done.map_err(|trouble| Refusal::new(RefusalKind::Closing, trouble.to_string()));
            let _ = reply.send(done.map(drop));
        });
    }

    /// Another server that may lead this resource manager, and follows it where it is followed at all: the one that leads least.
    pub(super) fn somebody_else(&self, rm: &str) -> Option<(String, Arc<Leader>)> {
        let is_known = self.known.contains_key(&Keys::name(rm));
        let fit = |id: &String| !self.drains.contains_key(id) && (!is_known || self.follows(id, rm));
        self.least_of(fit)
    }

    /// Who goes on with a resource manager when this server ends: one that follows it, be it one that is to lead nothing.
    pub(super) fn next_of(&self, rm: &str) -> Option<(String, Arc<Leader>)> {
        self.somebody_else(rm).or_else(|| self.least_of(|id| self.follows(id, rm)))
    }

    /// Another server is there that reads it, as far as is known.
    pub(super) fn may_be_followed(&self, rm: &str) -> bool {
        let cannot = |id: &String| self.said_of(id, rm).is_some_and(|follow| follow.fault.is_some());
        self.least_of(|id| !cannot(id)).is_some()
    }

    pub(super) fn said_of(&self, id: &str, rm: &str) -> Option<&FollowStatus> {
        self.loads.get(id).into_iter().flatten().find(|follow| follow.rm == rm)
    }

    pub(super) fn follows(&self, id: &str, rm: &str) -> bool {
        self.said_of(id, rm).is_some_and(|follow| follow.fault.is_none())
    }

    /// Of the other servers that are there and fit, the one that leads least.
    fn least_of(&self, fits: impl Fn(&String) -> bool) -> Option<(String, Arc<Leader>)> {
        let mut led: BTreeMap<&String, usize> = BTreeMap::new();
        for known in self.known.values() {
            *led.entry(known.heir.as_ref().unwrap_or(&known.head.server)).or_default() += 1;
        }
        let others = self.servers.iter().filter(|(id, at)| {
            **id != self.options.me.id && at.has_door() && !self.refusing.contains_key(*id) && fits(id)
        });
        let (id, at) = others.min_by_key(|(id, _)| led.get(id).copied().unwrap_or(0))?;
        Some((id.clone(), Arc::new(Leader { http: at.http.clone(), grpc: at.grpc.clone() })))
    }

    /// Has others lead what this server leads, where it is to lead nothing.
    pub(super) fn evacuate(&mut self) {
        if !self.is_drained() {
            return;
        }
        let due = |at: &Option<Instant>| at.is_none_or(|at| at.elapsed() >= EVACUATE);
        let led = self.known.values().filter(|known| matches!(known.role, Role::Leads(_)) && due(&known.evacuated));
        for rm in led.map(|known| known.head.rm.clone()).collect::<Vec<_>>() {
            let Some((next, _)) = self.somebody_else(&rm) else { continue };
            if let Some(known) = self.known.get_mut(&Keys::name(&rm)) {
                known.evacuated = Some(Instant::now());
            }
            // It says itself what went wrong.
            let (reply, _) = oneshot::channel();
            self.hand(&rm, &next, reply);
        }
    }

    /// Says how this server follows what others lead, where that changed.
    pub(super) fn say_load(&mut self) {
        let follow = self.known.values().filter_map(|known| {
            let (applied, fault) = match &known.role {
                Role::Broken(why) => (0, Some(why.clone())),
                Role::Follows(following) => match following.seen.fault() {
                    Some(Fault::Broken(why)) => (following.seen.last(), Some(why)),
                    _ if following.seen.is_loaded() => (following.seen.last(), None),
                    _ => return None,
                },
                Role::Leads(_) | Role::Changes => return None,
            };
            Some(FollowStatus { rm: known.head.rm.clone(), applied, fault })
        });
        let follows: Vec<FollowStatus> = follow.collect();
        let lease = self.held.lease();
        let (said, with, at) = &self.said;
        // Whether it follows at all is said at once.
        let same = |one: &FollowStatus, other: &FollowStatus| one.rm == other.rm && one.fault == other.fault;
        let alike = said.len() == follows.len() && said.iter().zip(&follows).all(|(one, other)| same(one, other));
        let early = alike && at.is_some_and(|at| at.elapsed() < SAY);
        if *with == lease && (*said == follows || early) {
            return;
        }
        let (etcd, key) = (self.etcd.clone(), self.keys.load(&self.options.me.id));
        // A list of structures of texts and numbers has a JSON text.
        let value = serde_json::to_vec(&follows).unwrap_or_default();
        self.said = (follows, lease, Some(Instant::now()));
        tokio::spawn(async move {
            if let Err(trouble) = etcd.txn(&[], vec![Change::Put(key, value.into(), lease)]).await {
                tracing::debug!(%trouble, "how this server follows is not told");
            }
        });
    }
}
