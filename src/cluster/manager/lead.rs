//! Taking the lead, and handing it over.

use std::sync::Arc;

use tokio::sync::oneshot;

use super::{FOLLOWED, Known, Manager, Role, ToManager, Took, config::Apply, counting};
use crate::{
    actors::rm::{
        handle::closing,
        lead::{Lead, moved},
        replay::Found,
    },
    cluster::{
        etcd::Trouble,
        follow::{Fault, Followed},
        group::Group,
        keys::{Head, Keys},
        take::Taken,
    },
    domain::DOMAIN_VERSION,
    messages::rm::{Refusal, RefusalKind},
};

impl Manager {
    pub(super) fn take(&mut self, name: String) {
        let (way, tell) = (self.way(), self.tell.clone());
        let Some(known) = self.known.get_mut(&name) else { return };
        let Role::Follows(following) = std::mem::replace(&mut known.role, Role::Changes) else { return };
        let (head, revision) = (known.head.clone(), known.revision);
        tokio::spawn(async move {
            let took = match way.over(&head, revision).await {
                Ok(Taken::Leads(head, revision)) => Took::Leads(head, revision, following.finish().await),
                Ok(Taken::Other) | Err(_) => Took::Not(following),
            };
            let _ = tell.send(ToManager::Took(name, Box::new(took)));
        });
    }

    pub(super) fn took(&mut self, name: &str, took: Took) {
        match took {
            Took::Leads(head, revision, Ok(followed)) => {
                let Followed { follower, chunks } = *followed;
                let group = Group::new(self.setup(), head.clone(), revision, chunks);
                let found = follower.found(&head.rm);
                tracing::info!(
                    rm = head.rm,
                    epoch = head.epoch,
                    session = found.epoch,
                    records = found.last,
                    state = found.state.name(),
                    "this server leads it now"
                );
                self.leads(name, head, revision, group, Some(found));
            }
            Took::Leads(head, revision, Err(fault)) => {
                let group = Group::new(self.setup(), head, revision, Default::default());
                // Else it is read anew once it is nobody's.
                if let Fault::Broken(why) = fault {
                    tracing::error!(
                        code = "cluster-cannot-follow",
                        rm = group.rm,
                        "it cannot be gone on with here: {why}"
                    );
                    self.become_role(name, Role::Broken(why));
                }
                let (name, tell) = (name.to_owned(), self.tell.clone());
                tokio::spawn(async move {
                    if let Err(fault) = group.hand_over(None).await {
                        tracing::error!(
                            code = "cluster-cannot-follow",
                            rm = group.rm,
                            "it cannot be handed on: {fault}"
                        );
                    }
                    let _ = tell.send(ToManager::Handed(name, None));
                });
            }
            Took::Not(following) => {
                self.become_role(name, Role::Follows(following));
                // What came meanwhile.
                if let Some(known) = self.known.get_mut(name) {
                    if let Role::Follows(following) = &known.role {
                        following.add(counting(&mut known.pending, known.head.last), &known.head);
                    }
                    known.vacant = None;
                }
                self.announce(name);
            }
            Took::NotBroken(why, refusal, reply) => {
                self.become_role(name, Role::Broken(why));
                let _ = reply.send(Err(refusal));
            }
            Took::LeadsBroken(head, revision, why, reply) => {
                let group = Group::new(self.setup(), head.clone(), revision, Default::default());
                let found = Found::lost_at(&head.rm, head.index, &why);
                self.leads(name, head, revision, group, Some(found));
                let _ = reply.send(Ok(()));
            }
        }
    }

    pub(super) fn become_role(&mut self, name: &str, role: Role) {
        if let Some(known) = self.known.get_mut(name) {
            known.role = role;
            known.told = None;
        }
    }

    /// This server leads a resource manager: its actor goes on.
    fn leads(&mut self, name: &str, head: Head, revision: i64, group: Arc<Group>, found: Option<Found>) {
        let known = self.known.entry(name.to_owned());
        let known = known.or_insert_with(|| Known::new(head.clone(), revision, Role::Changes));
        if known.head.epoch > head.epoch {
            // Somebody else was here since.
            group.depose();
            let at = self.seen;
            return self.give_up(name, at);
        }
        if let Some(logs) = self.topology.logs() {
            logs.is_there(&head.rm);
        }
        known.role = Role::Leads(group.clone());
        known.pending.clear();
        known.vacant = None;
        known.told = None;
        if known.revision < revision {
            (known.head, known.revision) = (head.clone(), revision);
        }
        match self.topology.find_or_keep(&head.rm) {
            Ok(handle) => {
                handle.addr.do_send(Lead { log: group, found: found.map(Box::new) });
                let _ = self.apply.send(Apply::Led(handle.id.clone()));
            }
            Err(refusal) => tracing::error!(code = "cluster-unread", rm = head.rm, "{}", refusal.detail),
        }
    }

    /// A resource manager registers here.
    pub(super) fn wanted(&mut self, rm: String, reply: oneshot::Sender<Result<(), Refusal>>) {
        let name = Keys::name(&rm);
        if let Some(waiting) = self.beginning.get_mut(&name) {
            waiting.push(reply);
            return;
        }
        let (way, tell) = (self.way(), self.tell.clone());
        let Some(known) = self.known.get(&name) else {
            if let Some(why) = self.shown.trouble.get() {
                let _ = reply.send(Err(Refusal::new(RefusalKind::Closing, &*why)));
                return;
            }
            // One that is to lead nothing does not begin to.
            let leaves = self.leaving.is_some();
            if let Some(leader) = (self.is_drained() || leaves).then(|| self.somebody_else(&rm)).flatten() {
                let _ = reply.send(Err(moved(&rm, Some(leader.1))));
                return;
            }
            if leaves {
                let _ = reply.send(Err(closing()));
                return;
            }
            // Others would take over at once what it leads: those who do not see that it is there, or another process with its id.
            if self.held.lease() == 0 {
                let why = "this server leads nothing at present: etcd does not have its key, or has that of another process with its id, as its log tells: try again, or at another server";
                let _ = reply.send(Err(Refusal::new(RefusalKind::Closing, why)));
                return;
            }
            // The watch may tell of the head that is put here before the answer comes: it is not to be followed.
            let head = Head { rm: rm.clone(), server: self.options.me.id.clone(), epoch: 1, ..Head::default() };
            self.known.insert(name.clone(), Known::new(head, 0, Role::Changes));
            self.uneven = true;
            self.beginning.insert(name, vec![reply]);
            tokio::spawn(async move {
                let taken = way.first(&rm).await;
                let _ = tell.send(ToManager::Began(rm, taken));
            });
            return;
        };
        // As above: what another process with its id leads looks vacant.
        let is_there = self.held.lease() != 0;
        let vacant = is_there && self.connected.is_some_and(|connected| self.is_vacant(known, connected));
        match &known.role {
            Role::Leads(_) => {
                let _ = reply.send(Ok(()));
            }
            // Nobody who could leads it: what its shim says counts from here.
            Role::Broken(why) if vacant && known.head.domain <= DOMAIN_VERSION => {
                let (why, head, revision) = (why.clone(), known.head.clone(), known.revision);
                self.become_role(&name, Role::Changes);
                tokio::spawn(async move {
                    let took = match way.over(&head, revision).await {
                        Ok(Taken::Leads(head, revision)) => Took::LeadsBroken(head, revision, why, reply),
                        Ok(Taken::Other) => Took::NotBroken(why, moved(&rm, None), reply),
                        Err(trouble) => {
                            let refusal = Refusal::new(RefusalKind::Closing, trouble.to_string());
                            Took::NotBroken(why, refusal, reply)
                        }
                    };
                    let _ = tell.send(ToManager::Took(name, Box::new(took)));
                });
            }
            _ => {
                let _ = reply.send(Err(moved(&known.head.rm, self.leader(known))));
            }
        }
    }

    pub(super) fn began(&mut self, rm: &str, taken: Result<Taken, Trouble>) {
        let name = Keys::name(rm);
        let waiting = self.beginning.remove(&name).unwrap_or_default();
        if !matches!(taken, Ok(Taken::Leads(..))) {
            self.not_begun(&name);
        }
        let answer = match taken {
            Ok(Taken::Leads(head, revision)) => {
                tracing::info!(rm, "this server leads it from its beginning");
                let group = Group::new(self.setup(), head.clone(), revision, Default::default());
                self.topology.first_came(rm, Some(revision));
                self.leads(&name, head, revision, group, None);
                Ok(())
            }
            // The watch tells who.
            Ok(Taken::Other) => Err(moved(rm, self.known.get(&name).and_then(|known| self.leader(known)))),
            Err(trouble) => Err(Refusal::new(RefusalKind::Closing, format!("{trouble}: register again"))),
        };
        for reply in waiting {
            let _ = reply.send(answer.clone());
        }
    }

    /// This server does not lead one that it was taking, as far as it knows: it follows what the watch told of it.
    fn not_begun(&mut self, name: &str) {
        let Some(known) = self.known.get_mut(name).filter(|known| matches!(known.role, Role::Changes)) else { return };
        if known.revision == 0 {
            self.known.remove(name);
            return;
        }
        known.pending.clear();
        let head = known.head.clone();
        let role = self.role_of(&head, self.seen);
        self.become_role(name, role);
        self.announce(name);
    }

    /// Where the server ends: hands over what it leads as soon as another one follows it, and takes care of it until then.
    /// Gives whom to tell when nothing is left to do.
    pub(super) fn leave(&mut self) -> Option<oneshot::Sender<()>> {
        let (since, _) = self.leaving.as_ref()?;
        let patient = since.elapsed() < FOLLOWED;
        // Without etcd nothing can be handed over; the lease ends by itself.
        if self.shown.trouble.get().is_none() {
            let led = self.known.iter().filter(|(_, known)| matches!(known.role, Role::Leads(_)));
            let led: Vec<_> = led.map(|(name, known)| (name.clone(), known.head.rm.clone())).collect();
            for (name, rm) in led {
                match self.next_of(&rm) {
                    None if patient && self.may_be_followed(&rm) => {}
                    next => self.hand_on(&name, next, None),
                }
            }
            if self.known.values().any(|known| matches!(known.role, Role::Leads(_) | Role::Changes)) {
                return None;
            }
        }
        self.leaving.take().map(|(_, reply)| reply)
    }
}
