//! `UgmActor`: the conversation with user directories: groups of users that were submitted without, looked up off the
//! arbiter and cached. Usage and limits are the partition's.

use std::{collections::BTreeMap, path::Path, sync::Arc, time::Duration};

use actix::prelude::*;

use super::resolvers::{
    self,
    ldap::{Found, settings::LdapSettings},
};
use crate::{
    domain::{
        command::{AddApplication, Command},
        conf::Resolver,
        group_cache::{CLEAN_EVERY, Cached, GroupCache, Groups, NEGATIVE},
        types::Nanos,
    },
    messages::{
        clock::Clock,
        ugm::{Resolve, UseResolver},
    },
};

/// See the module.
pub struct UgmActor {
    clock: Clock,
    resolver: Resolver,
    /// Directory of the LDAP settings.
    secrets: Arc<Path>,
    known: Known,
}

/// What is known of the groups of users.
#[derive(Default)]
pub struct Known {
    cache: GroupCache,
    /// When the directory could not be asked. It is left alone for [`NEGATIVE`] then: an attempt may take seconds, in which all that
    /// comes after a submission waits.
    unavailable: Option<(Nanos, Arc<str>)>,
}

type Answer = Result<Groups, Arc<str>>;
type Answers = BTreeMap<Arc<str>, Answer>;

impl UgmActor {
    /// An actor with an empty cache.
    pub fn new(clock: Clock, resolver: Resolver, secrets: Arc<Path>) -> UgmActor {
        UgmActor { clock, resolver, secrets, known: Known::default() }
    }

    /// Says what is wrong with the settings of the resolver, before the first user is looked up.
    fn check_settings(&self, ctx: &mut Context<Self>) {
        if self.resolver != Resolver::Ldap {
            return;
        }
        let secrets = self.secrets.clone();
        let check = tokio::task::spawn_blocking(move || {
            let mut warn = |warning: String| tracing::warn!(code = "ldap-settings", "{warning}");
            if let Err(error) = LdapSettings::read_with(&secrets, &mut warn) {
                tracing::error!(
                    code = "ldap-settings",
                    "usergroupresolver ldap: {error}; submissions without groups are rejected"
                );
            }
        });
        // It only logs.
        ctx.spawn(check.into_actor(self).map(|_, _, _| ()));
    }
}

impl Known {
    /// What is known of the users of these submissions, and whom to look up.
    pub fn begin(&self, commands: &mut [Command], now: Nanos) -> (Answers, Vec<Arc<str>>) {
        let (mut answers, mut unknown) = (Answers::new(), Vec::new());
        for item in wanting(commands) {
            match self.of(&item.user, now) {
                Some(answer) => _ = answers.insert(item.user.clone(), answer),
                None => unknown.push(item.user.clone()),
            }
        }
        unknown.sort_unstable();
        unknown.dedup();
        (answers, unknown)
    }

    /// These users were looked up: that is kept for a while, and the submissions are filled in.
    pub fn end(
        &mut self,
        commands: &mut [Command],
        mut answers: Answers,
        users: Vec<Arc<str>>,
        found: Found,
        now: Nanos,
    ) {
        if let Some(why) = found.unavailable {
            self.unavailable = Some((now, why));
        }
        for (user, answer) in users.into_iter().zip(found.answers) {
            self.cache.put(user.clone(), answer.clone().ok(), now);
            answers.insert(user, answer);
        }
        fill(commands, &answers);
    }

    /// Forgets what is too old.
    pub fn clean(&mut self, now: Nanos) {
        self.cache.clean(now);
    }

    /// What is known of a user; `None`: it has to be looked up.
    fn of(&self, user: &str, now: Nanos) -> Option<Answer> {
        match (self.cache.get(user, now), &self.unavailable) {
            (Cached::Groups(groups), _) => Some(Ok(groups)),
            (Cached::Failed(since), _) => Some(Err(resolvers::cached_failure(since).into())),
            (Cached::Unknown, Some((since, why))) if now.minus(*since) < NEGATIVE => {
                let left = NEGATIVE.minus(now.minus(*since)).as_secs() + 1;
                Some(Err(resolvers::ldap::unknown(user, &format!("{why}; it is asked again in {left} s"))))
            }
            (Cached::Unknown, _) => None,
        }
    }
}

/// A submission whose groups have to be looked up: it names a user and brings no groups.
pub fn wants_groups(item: &AddApplication) -> bool {
    item.groups.is_none() && item.unresolved.is_none() && !item.user.is_empty()
}

fn wanting(commands: &mut [Command]) -> impl Iterator<Item = &mut AddApplication> {
    commands
        .iter_mut()
        .filter_map(|command| match command {
            Command::Applications { new, .. } => Some(new),
            _ => None,
        })
        .flatten()
        .filter(|item| wants_groups(item))
}

fn fill(commands: &mut [Command], answers: &BTreeMap<Arc<str>, Answer>) {
    for item in wanting(commands) {
        match answers.get(&item.user) {
            Some(Ok(groups)) => item.groups = Some(groups.clone()),
            Some(Err(reason)) => item.unresolved = Some(reason.clone()),
            None => {}
        }
    }
}

/// Blocks as long as the resolver does.
fn look_up(resolver: Resolver, secrets: &Path, users: &[Arc<str>]) -> Found {
    let one_by_one = |groups: fn(&str) -> Result<Groups, resolvers::Error>| Found {
        answers: users.iter().map(|user| groups(user).map_err(|error| error.to_string().into())).collect(),
        unavailable: None,
    };
    match resolver {
        Resolver::None => one_by_one(|user| Ok(resolvers::none(user))),
        Resolver::Os => one_by_one(resolvers::os),
        Resolver::Test => one_by_one(resolvers::test),
        Resolver::Ldap => resolvers::ldap::look_up(secrets, users),
    }
}

impl Actor for UgmActor {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        ctx.run_interval(Duration::from_nanos(CLEAN_EVERY.0 as u64), |actor, _| {
            let now = actor.clock.now();
            actor.known.clean(now);
        });
        self.check_settings(ctx);
    }
}

impl Handler<UseResolver> for UgmActor {
    type Result = ();

    fn handle(&mut self, msg: UseResolver, ctx: &mut Self::Context) {
        if self.resolver != msg.0 {
            self.resolver = msg.0;
            self.known = Known::default();
            self.check_settings(ctx);
        }
    }
}

impl Handler<Resolve> for UgmActor {
    type Result = ResponseActFuture<Self, Vec<Command>>;

    fn handle(&mut self, msg: Resolve, _ctx: &mut Self::Context) -> Self::Result {
        let mut commands = msg.0;
        let (now, resolver, secrets) = (self.clock.now(), self.resolver, self.secrets.clone());
        let (answers, unknown) = self.known.begin(&mut commands, now);
        let looked_up = async move {
            if unknown.is_empty() {
                return (unknown, Found { answers: Vec::new(), unavailable: None });
            }
            // A directory may be slow: not on the arbiter of the partition.
            let users = unknown.clone();
            let found = tokio::task::spawn_blocking(move || look_up(resolver, &secrets, &users)).await;
            let failed = |user: &Arc<str>| Err(resolvers::ldap::unknown(user, "the resolver failed"));
            let failed = || Found { answers: unknown.iter().map(failed).collect(), unavailable: None };
            let found = found.unwrap_or_else(|_| failed());
            (unknown, found)
        };
        Box::pin(looked_up.into_actor(self).map(move |(users, found), actor, _| {
            let now = actor.clock.now();
            // An answer of the directory before counts for these submissions only.
            let mut passing = Known::default();
            let known = if actor.resolver == resolver { &mut actor.known } else { &mut passing };
            known.end(&mut commands, answers, users, found, now);
            commands
        }))
    }
}

#[cfg(test)]
mod tests;
