//! Groups of users that a directory knows: what follows a submission waits with it until the directory has answered, as in
//! `PartitionActor` and `UgmActor`.

use std::{collections::BTreeMap, sync::Arc};

use super::server::Server;
use crate::{
    actors::{
        partition::{has_unresolved, is_of_operators},
        resolvers::ldap::Found,
    },
    domain::{
        command::Command,
        conf::Resolver,
        group_cache::{CLEAN_EVERY, Groups},
    },
    messages::budget::Permit,
};

/// A part of a request that waits for a directory.
pub struct Lookup {
    id: u64,
    commands: Vec<Command>,
    permit: Option<Permit>,
    answers: BTreeMap<Arc<str>, Result<Groups, Arc<str>>>,
    users: Vec<Arc<str>>,
}

impl Server {
    /// Something comes to a partition from outside, and is read in its turn.
    pub(super) fn arrive(&mut self, at: usize, commands: Vec<Command>, permit: Option<Permit>) {
        if self.parts[at].lookup.is_some() && is_of_operators(&commands) {
            return self.commands(at, commands, permit);
        }
        self.parts[at].inbox.push_back((commands, permit));
        self.read_inbox(at);
    }

    fn read_inbox(&mut self, at: usize) {
        while self.parts[at].lookup.is_none()
            && let Some((mut commands, permit)) = self.parts[at].inbox.pop_front()
        {
            let (now, live) = (self.now, &mut self.parts[at]);
            if live.partition.conf.resolver != Resolver::None && has_unresolved(&commands) {
                let (known, cleaned) = &mut live.known;
                if now.minus(*cleaned) >= CLEAN_EVERY {
                    known.clean(now);
                    *cleaned = now;
                }
                let (answers, users) = known.begin(&mut commands, now);
                if !users.is_empty() {
                    (self.lookups, self.counts.lookups) = (self.lookups + 1, self.counts.lookups + 1);
                    self.wanted.push((self.lookups, users.clone()));
                    live.lookup = Some(Lookup { id: self.lookups, commands, permit, answers, users });
                    return;
                }
                known.end(&mut commands, answers, users, Found { answers: Vec::new(), unavailable: None }, now);
            }
            self.commands(at, commands, permit);
        }
    }

    /// A directory answered.
    pub fn found(&mut self, id: u64, found: Found) {
        let waits = self.parts.iter().position(|live| live.lookup.as_ref().is_some_and(|lookup| lookup.id == id));
        let Some(at) = waits else { return };
        let live = &mut self.parts[at];
        let Some(Lookup { mut commands, permit, answers, users, .. }) = live.lookup.take() else { return };
        live.known.0.end(&mut commands, answers, users, found, self.now);
        self.commands(at, commands, permit);
        self.read_inbox(at);
    }
}
