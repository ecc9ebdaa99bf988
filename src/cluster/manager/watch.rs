//! The changes that etcd tells of, and what the actors are told of them.

use std::sync::Arc;

use bytes::Bytes;
use tokio::time::Instant;

use super::{Known, Manager, Role, counting, title_server};
use crate::{
    actors::rm::{
        lead::{Elsewhere, moved},
        replay::Listener,
    },
    cluster::{
        etcd::{Event, EventType},
        follow::{Following, Source},
        keys::{Head, Key, Server},
    },
    messages::leaders::Leader,
    store::log::Title,
};

impl Manager {
    pub(super) fn event(&mut self, event: &Event) {
        let Some(kv) = &event.kv else { return };
        self.seen = self.seen.max(kv.mod_revision);
        let is_there = event.r#type() == EventType::Put;
        let key = kv.key.clone();
        match self.keys.read(&key) {
            Some(Key::Server(id)) => {
                self.server(id.to_owned(), is_there.then_some(&kv.value));
                self.see_own(kv.mod_revision);
            }
            Some(Key::Load(id)) => self.load(id, is_there.then_some(&kv.value)),
            Some(Key::Drain(id)) => self.drained(id, is_there.then_some(&kv.value)),
            Some(Key::Config) => self.take_config(is_there.then_some(&kv.value), kv.mod_revision),
            Some(Key::Head(name)) if is_there => {
                self.head(name.to_owned(), &kv.value, (kv.mod_revision, kv.create_revision), kv.mod_revision)
            }
            // One that is known by now may have begun since.
            Some(Key::Head(name))
                if self.known.get(name).is_some_and(|known| (1..kv.mod_revision).contains(&known.revision)) =>
            {
                self.removed(name);
            }
            // A compaction of the log is no news; what is put counts when the head says so.
            Some(Key::Log(name, number)) if is_there => {
                if let Some(known) = self.known.get_mut(name)
                    && matches!(known.role, Role::Follows(_) | Role::Changes)
                {
                    known.pending.insert(number, kv.value.clone());
                }
            }
            _ => {}
        }
    }

    pub(super) fn server(&mut self, id: String, value: Option<&Bytes>) {
        match value.and_then(|value| serde_json::from_slice::<Server>(value).ok()) {
            Some(server) => {
                self.absent.remove(&id);
                if !self.servers.contains_key(&id) {
                    (self.settled, self.uneven) = (Instant::now(), true);
                }
                if self.servers.get(&id) != Some(&server) && id != self.options.me.id {
                    tracing::info!(server = id, http = server.http, grpc = server.grpc, "another server is there");
                }
                self.servers.insert(id, server);
            }
            None => {
                self.servers.remove(&id);
                (self.settled, self.uneven) = (Instant::now(), true);
                self.refusing.remove(&id);
                self.reached.remove(&id);
                self.probing.remove(&id);
                self.absent.insert(id, Instant::now());
            }
        }
        let others = self.servers.iter().filter(|(id, _)| **id != self.options.me.id);
        self.shown.others.set(others.map(|(_, server)| server.http.clone()).collect());
        for name in self.known.keys().cloned().collect::<Vec<_>>() {
            self.announce(&name);
        }
    }

    /// Where others do not see this server any more, it has to say again that it is there.
    pub(super) fn see_own(&self, revision: i64) {
        if self.servers.get(&self.options.me.id) != Some(&self.options.me) {
            self.held.lose(revision);
        }
    }

    /// The head of a log is this, of this revision, and first came with that one; `at`: a revision of etcd at which that is so.
    pub(super) fn head(&mut self, name: String, value: &Bytes, (revision, first): (i64, i64), at: i64) {
        let head = match Head::read(value) {
            Ok(head) => head,
            Err(why) => {
                tracing::error!(code = "cluster-unread", name, "{why}");
                return;
            }
        };
        self.topology.first_came(&head.rm, Some(first));
        let Some(known) = self.known.get_mut(&name) else {
            if let Some(logs) = self.topology.logs() {
                logs.is_there(&head.rm);
            }
            let role = self.role_of(&head, at);
            let known = Known::new(head, revision, role);
            self.known.insert(name.clone(), known);
            self.uneven = true;
            return self.announce(&name);
        };
        if revision <= known.revision {
            return;
        }
        let led = known.head.server != head.server || known.head.epoch != head.epoch;
        let let_go = head.first != known.head.first;
        known.look();
        if led && !head.server.is_empty() {
            known.heir = None;
        }
        (known.head, known.revision, known.changed) = (head, revision, Instant::now());
        match &known.role {
            Role::Follows(following) => following.add(counting(&mut known.pending, known.head.last), &known.head),
            // What could not be read may be gone.
            Role::Broken(_) if let_go && self.leaving.is_none() => {
                let head = known.head.clone();
                self.topology.begins_anew(&head.rm);
                let role = self.role_of(&head, at);
                self.become_role(&name, role);
            }
            // Also where it has this server's id: its own changes of the leader come while it is being taken or handed over, so
            // this is a copy of its data directory.
            Role::Leads(group) if led => {
                group.depose();
                self.give_up(&name, at);
            }
            _ => {}
        }
        self.announce(&name);
    }

    pub(super) fn role_of(&self, head: &Head, revision: i64) -> Role {
        Role::Follows(Following::start(Source {
            etcd: self.etcd.clone(),
            keys: self.keys.clone(),
            head: head.clone(),
            revision,
            title: self.title(&head.rm),
            listener: Some(Listener { rm: head.rm.as_str().into(), to: self.topology.numbering() }),
        }))
    }

    /// What the files of a snapshot say of themselves.
    fn title(&self, rm: &str) -> Title {
        Title::new(title_server(&self.options.prefix), rm)
    }

    /// It was led by this server, and is not any more.
    pub(super) fn give_up(&mut self, name: &str, at: i64) {
        let Some(known) = self.known.get(name) else { return };
        tracing::warn!(
            code = "cluster-deposed",
            rm = known.head.rm,
            epoch = known.head.epoch,
            "another server leads it now"
        );
        let role = self.role_of(&known.head, at);
        if let Some(known) = self.known.get_mut(name) {
            known.role = role;
            known.pending.clear();
            known.told = None;
        }
        self.reads_anew(name);
        self.announce(name);
    }

    pub(super) fn removed(&mut self, name: &str) {
        if let Some(known) = self.known.remove(name) {
            self.say_gone(&known);
            self.gone(&known);
        }
    }

    /// Somebody removed a log that this server leads.
    pub(super) fn say_gone(&self, known: &Known) {
        let rm = &*known.head.rm;
        if !matches!(&known.role, Role::Leads(group) if !group.is_erased()) {
            return;
        }
        tracing::error!(
            code = "cluster-log-gone",
            rm,
            epoch = known.head.epoch,
            records = known.head.index,
            "its log was removed from etcd while this server led it: its session is lost, and its shim has to register again"
        );
        if let Some(logs) = self.topology.logs() {
            logs.is_gone(rm);
        }
    }

    /// Nothing of its log is there any more.
    pub(super) fn gone(&self, known: &Known) {
        if let Role::Leads(group) = &known.role {
            group.depose();
        }
        self.topology.first_came(&known.head.rm, None);
        self.topology.gone(&known.head.rm);
    }

    /// Where the leader of a resource manager is reached; `None`: nobody leads it at present.
    pub(super) fn leader(&self, known: &Known) -> Option<Arc<Leader>> {
        let id = &known.head.server;
        let server = self.servers.get(id).filter(|server| server.has_door() && *id != self.options.me.id)?;
        if self.refusing.contains_key(id) {
            return None;
        }
        Some(Arc::new(Leader { http: server.http.clone(), grpc: server.grpc.clone() }))
    }

    /// Tells the actor of a resource manager where it is led, where that is not here.
    pub(super) fn announce(&mut self, name: &str) {
        let Some(known) = self.known.get(name) else { return };
        if matches!(known.role, Role::Leads(_) | Role::Changes) {
            return;
        }
        let leader = self.leader(known);
        if known.told.as_ref() == Some(&leader) {
            return;
        }
        if let Ok(handle) = self.topology.find_or_keep(&known.head.rm) {
            handle.addr.do_send(Elsewhere(moved(&known.head.rm, leader.clone())));
        }
        if let Some(known) = self.known.get_mut(name) {
            known.told = Some(leader);
        }
    }
}
