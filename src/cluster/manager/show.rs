//! How the cluster is, for operators; and what they decide about who leads.

use std::{sync::Arc, time::Duration};

use tokio::{sync::oneshot, time::timeout};

use super::{Known, LETTING_GO, Manager, Role, ToManager, Viewed, config::Apply};
use crate::{
    actors::{
        rm::lead::{Elsewhere, Lead, LetGo, moved},
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

/// Who is to lead next, and where that server is reached.
type Heir = (String, Arc<Leader>);

impl Manager {
    pub(super) fn status(&self) -> ClusterStatus {
        let led = |id: &str| self.known.values().filter(|known| known.head.server == id).count();
        let state = |id: &String| if self.refusing.contains_key(id) { "refuses" } else { "there" };
        let row = |id: &String, at: &Server, state: &str| {
            let Server { http, grpc, version, .. } = at.clone();
            ServerStatus {
                id: id.clone(),
                http,
                grpc,
                version,
                state: state.to_owned(),
                leads: led(id),
                drained: self.drains.get(id).cloned(),
                follows: self.loads.get(id).cloned().unwrap_or_default(),
            }
        };
        let mut servers: Vec<ServerStatus> = self.servers.iter().map(|(id, at)| row(id, at, state(id))).collect();
        let leaders = self.known.values().map(|known| &known.head.server).filter(|id| !id.is_empty());
        for id in leaders.chain(self.drains.keys()) {
            if !servers.iter().any(|server| server.id == *id) {
                servers.push(row(id, &Server::default(), "gone"));
            }
        }
        let groups = self.known.values().map(|known| self.group(known));
        ClusterStatus {
            server: self.options.me.id.clone(),
            prefix: self.keys.prefix().to_owned(),
            etcd: EtcdStatus {
                members: self.etcd.names(),
                trouble: self.shown.trouble.get().map(|why| why.to_string()),
                version: self.etcd_is.as_ref().map(|state| state.version.clone()),
                bytes: self.etcd_is.as_ref().map(|state| state.bytes),
            },
            servers,
            resource_managers: groups.collect(),
        }
    }

    /// What is followed here.
    pub(super) fn views(&mut self) -> Vec<Viewed> {
        let connected = self.connected.is_some();
        let viewed = self.known.values_mut().filter_map(|known| {
            if connected {
                known.look();
            }
            let looker = match &known.role {
                Role::Leads(_) => return None,
                Role::Follows(following) => Some(following.looker()),
                Role::Broken(_) | Role::Changes => None,
            };
            let looker = looker.filter(|looker| looker.seen.is_loaded() && looker.seen.fault().is_none());
            let (rm, index, current) = (known.head.rm.as_str().into(), known.head.index, known.current);
            Some(Viewed { rm, looker, index, current })
        });
        viewed.collect()
    }

    fn group(&self, known: &Known) -> GroupStatus {
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
        let is_current = self.connected.is_some() && applied.is_some_and(|applied| applied >= known.head.index);
        let missed = if is_current { Duration::ZERO } else { known.current.elapsed() };
        let leader = &known.head.server;
        let there =
            *leader == self.options.me.id || (self.servers.contains_key(leader) && !self.refusing.contains_key(leader));
        GroupStatus {
            rm: known.head.rm.clone(),
            leader: leader.clone(),
            led: there && !leader.is_empty(),
            epoch: known.head.epoch,
            index: known.head.index,
            applied,
            lag: (!matches!(known.role, Role::Leads(_) | Role::Changes)).then_some(missed.as_secs_f64()),
            bytes: known.head.bytes,
            max_bytes: self.options.max_bytes,
            role: role.to_owned(),
            fault,
        }
    }

    /// Another server is to lead it.
    pub(super) fn hand(&mut self, rm: &str, server: &str, reply: oneshot::Sender<Result<(), Refusal>>) {
        match self.handing(rm, server) {
            Ok(None) => {
                let _ = reply.send(Ok(()));
            }
            Ok(Some((name, next))) => self.hand_on(&name, Some(next), Some(reply)),
            Err(refusal) => {
                let _ = reply.send(Err(refusal));
            }
        }
    }

    /// Hands it over to this server, or to whichever takes it first.
    pub(super) fn hand_on(
        &mut self,
        name: &str,
        next: Option<Heir>,
        reply: Option<oneshot::Sender<Result<(), Refusal>>>,
    ) {
        let Some(Known { role: Role::Leads(group), .. }) = self.known.get(name) else { return };
        let (group, name) = (group.clone(), name.to_owned());
        self.become_role(&name, Role::Changes);
        let (topology, tell) = (self.topology.clone(), self.tell.clone());
        let (next, leader) = next.unzip();
        if let Some(known) = self.known.get_mut(&name) {
            known.heir.clone_from(&next);
        }
        tokio::spawn(async move {
            let done = hand_over(topology, &group, next, leader).await;
            let kept = (done.is_err() && !group.is_deposed()).then_some(group);
            let _ = tell.send(ToManager::Handed(name, kept));
            if let Some(reply) = reply {
                let _ = reply.send(done);
            }
        });
    }

    /// It was handed over. `kept`: it was not, so this server leads it on, unless it ends or the watch told of somebody else.
    pub(super) fn handed(&mut self, name: &str, kept: Option<Arc<Group>>) {
        let Some(known) = self.known.get_mut(name).filter(|known| matches!(known.role, Role::Changes)) else { return };
        known.heir = None;
        let rm = known.head.rm.clone();
        let is_own = known.head.server == self.options.me.id;
        if let Some(group) = kept {
            let handle = self.topology.find(&rm);
            if let Some(handle) = handle.filter(|_| is_own && self.leaving.is_none()) {
                handle.addr.do_send(Lead { log: group.clone(), found: None });
                // It took no shared configuration while it was to be handed over.
                let _ = self.apply.send(Apply::Led(handle.id.clone()));
                known.pending.clear();
                return self.become_role(name, Role::Leads(group));
            }
            group.depose();
            if let Some(handle) = self.topology.find(&rm) {
                handle.addr.do_send(Elsewhere(moved(&rm, None)));
            }
        }
        let head = known.head.clone();
        let role = match &self.leaving {
            Some(_) => Role::Broken("the server is shutting down".to_owned()),
            None => self.role_of(&head, self.seen),
        };
        self.become_role(name, role);
        if self.leaving.is_none() {
            self.reads_anew(name);
        }
        self.announce(name);
    }

    /// What is to be handed over, and to whom; `None`: nothing, it is led there.
    fn handing(&self, rm: &str, server: &str) -> Result<Option<(String, Heir)>, Refusal> {
        let name = Keys::name(rm);
        let refused = |kind, detail: String| Refusal::new(kind, detail);
        let known = self.known.get(&name);
        let known =
            known.ok_or_else(|| refused(RefusalKind::Unknown, format!("resource manager \"{rm}\" is not known")))?;
        let (id, at) = self.named(server)?;
        if self.drains.contains_key(id) && known.head.server != *id {
            let detail = format!("server \"{server}\" is to lead nothing: undrain it first");
            return Err(refused(RefusalKind::State, detail));
        }
        match &known.role {
            Role::Leads(_) if *id == self.options.me.id => Ok(None),
            Role::Leads(_) => {
                let failing = self.topology.find(rm).and_then(|handle| handle.view.load().failing.clone());
                if let Some(why) = self.shown.trouble.get().or(failing) {
                    let detail = format!("resource manager \"{rm}\" is not handed over: {why}");
                    return Err(refused(RefusalKind::Closing, detail));
                }
                if let Some(fault) = self.said_of(id, rm).and_then(|follow| follow.fault.as_ref()) {
                    let detail = format!("server \"{server}\" cannot follow resource manager \"{rm}\": {fault}");
                    return Err(refused(RefusalKind::State, detail));
                }
                if !self.follows(id, rm) {
                    // Nobody would lead it until that is done.
                    let detail = format!(
                        "resource manager \"{rm}\" is not handed over: server \"{server}\" still reads its log: try again"
                    );
                    return Err(refused(RefusalKind::Closing, detail));
                }
                let leader = Leader { http: at.http.clone(), grpc: at.grpc.clone() };
                Ok(Some((name, (id.clone(), Arc::new(leader)))))
            }
            _ if known.head.server == *id => Ok(None),
            _ => Err(moved(rm, self.leader(known))),
        }
    }
}

/// What was taken is recorded, another server may lead it, and its streams are told so.
async fn hand_over(
    topology: Arc<Topology>,
    group: &Group,
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
        Err(why) => Err(warn(format!("resource manager \"{rm}\" is not handed over, as far as is known: {why}"))),
    };
    // Its streams end, with the address of the next.
    if group.is_deposed() {
        handle.addr.do_send(Elsewhere(moved(rm, leader.filter(|_| done.is_ok()))));
    }
    done
}

fn late(limit: Duration) -> String {
    format!("that took longer than {} s", limit.as_secs())
}
