//! How the cluster is, for operators; and their word on who leads.

use std::{sync::Arc, time::Duration};

use tokio::{sync::oneshot, time::timeout};

use super::{Known, LETTING_GO, Manager, Role, Word};
use crate::{
    actors::{
        rm::lead::{Elsewhere, LetGo, moved},
        topology::Topology,
    },
    cluster::{
        follow::Fault,
        group::Group,
        keys::{Keys, Server},
    },
    messages::{
        leaders::{ClusterStatus, EtcdStatus, GroupStatus, Leader, ServerStatus},
        rm::{Refusal, RefusalKind},
    },
};

impl Manager {
    pub(super) fn status(&self) -> ClusterStatus {
        let led = |id: &str| self.known.values().filter(|known| known.head.server == id).count();
        let state = |id: &String| if self.refusing.contains_key(id) { "refuses" } else { "there" };
        let mut servers: Vec<ServerStatus> = Vec::new();
        for (id, server) in &self.servers {
            let Server { http, grpc, version, .. } = server.clone();
            servers.push(ServerStatus {
                id: id.clone(),
                http,
                grpc,
                version,
                state: state(id).to_owned(),
                leads: led(id),
            });
        }
        for known in self.known.values() {
            let id = &known.head.server;
            if !id.is_empty() && !servers.iter().any(|server| server.id == *id) {
                let (http, grpc, version) = Default::default();
                servers.push(ServerStatus {
                    id: id.clone(),
                    http,
                    grpc,
                    version,
                    state: "gone".to_owned(),
                    leads: led(id),
                });
            }
        }
        ClusterStatus {
            server: self.options.me.id.clone(),
            prefix: self.keys.prefix().to_owned(),
            etcd: EtcdStatus { members: self.etcd.names(), trouble: self.shown.get().map(|why| why.to_string()) },
            servers,
            resource_managers: self.known.values().map(group).collect(),
        }
    }

    /// Another server is to lead it.
    pub(super) fn hand(&mut self, rm: &str, server: &str, reply: oneshot::Sender<Result<(), Refusal>>) {
        match self.handing(rm, server) {
            Ok(None) => {
                let _ = reply.send(Ok(()));
            }
            Ok(Some((name, group, next, leader))) => {
                self.become_role(&name, Role::Changes);
                let (topology, tell) = (self.topology.clone(), self.tell.clone());
                tokio::spawn(async move {
                    let done = hand_over(topology, group, Some(next), Some(leader)).await;
                    let _ = tell.send(Word::Handed(name));
                    let _ = reply.send(done);
                });
            }
            Err(refusal) => {
                let _ = reply.send(Err(refusal));
            }
        }
    }

    #[allow(clippy::type_complexity)] // one place, and the alias would say no more
    fn handing(&self, rm: &str, server: &str) -> Result<Option<(String, Arc<Group>, String, Arc<Leader>)>, Refusal> {
        let name = Keys::name(rm);
        let refused = |kind, detail: String| Refusal::new(kind, detail);
        let known = self.known.get(&name);
        let known =
            known.ok_or_else(|| refused(RefusalKind::Unknown, format!("resource manager \"{rm}\" is not known")))?;
        let url = server.trim_end_matches('/');
        let found = self.servers.iter().find(|(id, at)| **id == server || (!at.http.is_empty() && at.http == url));
        let (id, at) = found.ok_or_else(|| {
            let all: Vec<&str> = self.servers.values().map(|server| server.http.as_str()).collect();
            refused(RefusalKind::Invalid, format!("server \"{server}\" is not there; there are: {}", all.join(", ")))
        })?;
        match &known.role {
            Role::Leads(_) if *id == self.options.me.id => Ok(None),
            Role::Leads(group) => {
                let leader = Leader { http: at.http.clone(), grpc: at.grpc.clone() };
                Ok(Some((name, group.clone(), id.clone(), Arc::new(leader))))
            }
            _ if known.head.server == *id => Ok(None),
            _ => Err(moved(rm, self.leader(known))),
        }
    }
}

fn group(known: &Known) -> GroupStatus {
    let (applied, role, fault) = match &known.role {
        Role::Leads(_) => (None, "leads", None),
        Role::Changes => (None, "changes", None),
        Role::Broken(why) => (None, "cannot follow", Some(why.clone())),
        Role::Follows(following) => match following.seen.fault() {
            Some(Fault::Broken(why)) => (None, "cannot follow", Some(why)),
            _ if following.seen.is_loaded() => (Some(following.seen.last()), "follows", None),
            _ => (None, "reads", None),
        },
    };
    GroupStatus {
        rm: known.head.rm.clone(),
        leader: known.head.server.clone(),
        epoch: known.head.epoch,
        index: known.head.index,
        applied,
        bytes: known.head.bytes,
        role: role.to_owned(),
        fault,
    }
}

/// What was taken is recorded, another server may lead it, and its streams are told so.
pub(super) async fn hand_over(
    topology: Arc<Topology>,
    group: Arc<Group>,
    next: Option<String>,
    leader: Option<Arc<Leader>>,
) -> Result<(), Refusal> {
    let rm = &*group.rm;
    let Some(handle) = topology.find(rm) else { return Ok(()) };
    let warn = |why: String| {
        tracing::warn!(code = "cluster-not-handed", rm, "{why}");
        Refusal::new(RefusalKind::Closing, why)
    };
    let recorded = match timeout(LETTING_GO, handle.addr.send(LetGo)).await {
        Ok(Ok(recorded)) => recorded.map_err(|why| why.to_string()),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err(late(LETTING_GO)),
    };
    if let Err(why) = recorded {
        warn(format!("not all of it is recorded: {why}"));
    }
    let done = match timeout(LETTING_GO, group.hand_over(next)).await {
        Ok(done) => done.map_err(|fault| fault.to_string()),
        Err(_) => Err(late(LETTING_GO)),
    };
    let done = match done {
        Ok(()) => {
            tracing::info!(rm, "handed over");
            Ok(())
        }
        Err(why) => Err(warn(format!("resource manager \"{rm}\" may not be handed over: {why}"))),
    };
    // Its streams end, with the address of the next.
    handle.addr.do_send(Elsewhere { leader });
    done
}

fn late(limit: Duration) -> String {
    format!("that took longer than {} s", limit.as_secs())
}
