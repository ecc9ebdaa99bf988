//! A new configuration for the running session: checked on a clone of every partition, then applied to all, or refused and
//! nothing changed. What the trial on the clones says of applications and quotas is told by who asked for it.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use actix::prelude::*;
use futures::future::join_all;
use tokio::task::spawn_blocking;

use super::{
    RmActor, handle,
    record::{self, Reconfigured, kind},
    settings::RmSettings,
    standing::Standings,
};
use crate::{
    actors::topology::{PartitionHandle, Refusals, check_rules},
    config::LoadedConfig,
    domain::{command::Command, conf::PartitionConf, types::Nanos},
    messages::{
        partition::{Configure, GetSnapshot, Snapshot, StopPartition},
        rm::{Refusal, RefusalKind, RmState},
    },
};

/// A validated new configuration of the running session.
#[derive(Message)]
#[rtype(result = "Result<InForce, Refusals>")]
pub struct Reconfigure {
    /// The configuration.
    pub config: Arc<LoadedConfig>,
    /// It is the server's own.
    pub default_config: bool,
    /// It is the one that holds for all servers of a cluster.
    pub shared: bool,
    /// Only where the session follows the server's own configuration: its reload.
    pub only_default: bool,
    /// Only in the place of one that held for all servers of a cluster.
    pub only_shared: bool,
    /// The policy group that it is for; empty: none is named.
    pub policy_group: Arc<str>,
    /// Extra configuration with what it says about the resource manager; `None` leaves it as it is.
    pub extra: Option<(Arc<BTreeMap<String, String>>, RmSettings)>,
    /// It leaves the settings of the whole process as they are.
    pub tenant: bool,
    /// The session that it is for; `None`: whichever runs.
    pub epoch: Option<u64>,
}

/// A new configuration that is in force.
pub struct InForce {
    /// What it was tried on, where it changes partitions.
    pub tried: Vec<Tried>,
    /// Settings of it that are not, since they are read at registration alone, and why.
    pub later: Vec<String>,
}

/// A partition that a new configuration concerns.
pub struct Tried {
    /// As it was.
    pub before: Arc<Snapshot>,
    /// A clone of it with the configuration; `None`: it goes.
    pub after: Option<Snapshot>,
}

/// Partitions that a new configuration concerns.
struct Change {
    known: Vec<(PartitionHandle, Arc<PartitionConf>)>,
    gone: Vec<PartitionHandle>,
}

impl Handler<Reconfigure> for RmActor {
    type Result = AtomicResponse<Self, Result<InForce, Refusals>>;

    fn handle(&mut self, msg: Reconfigure, _ctx: &mut Self::Context) -> Self::Result {
        let change = self.plan(&msg);
        if let Ok(Some(change)) = &change {
            self.show_without(&change.gone);
        }
        let later = match (&self.session, &msg.extra) {
            (Some(session), Some((extra, _))) => session.not_yet(extra, self.log_sync()),
            _ => Vec::new(),
        };
        let earlier = self.earlier.clone();
        let leaving = self.session.as_ref().map(|session| session.leaving.subscribe());
        let (id, topology, now) = (self.id.clone(), self.topology.clone(), self.clock.now());
        let extra = msg.extra.as_ref().filter(|_| !msg.tenant).map(|(extra, _)| extra.clone());
        let work = async move {
            let change = change?;
            let tried = match &change {
                Some(change) => change.check(now).await?,
                None => Vec::new(),
            };
            // Before the first event that the change makes (CFG-092); a refused one changes nothing (SEEDS S23).
            if let Some(extra) = &extra {
                topology.apply_settings(&id, extra);
            }
            let Some(change) = change else { return Ok::<_, Refusals>((None, tried)) };
            if let Some(mut leaving) = leaving {
                // It may bring back one of their names.
                let _ = leaving.wait_for(|number| *number == 0).await;
            }
            // A request that went by an earlier view is answered by the partition that it was for.
            handle::left(earlier).await;
            Ok((Some(change.carry_out().await), tried))
        };
        AtomicResponse::new(Box::pin(
            work.into_actor(self)
                .map(move |changed, actor, ctx| {
                    let done = changed.map(|(changed, tried)| {
                        actor.configured(msg, changed, ctx);
                        InForce { tried, later }
                    });
                    if done.is_err() {
                        actor.show();
                    }
                    (done, actor.flushed(false))
                })
                .then(|(done, flushed), actor, _| async move { (done, flushed.await) }.into_actor(actor))
                .map(|(done, flushed), actor, ctx| {
                    actor.commit(ctx);
                    actor.pump(ctx);
                    match (done, flushed) {
                        (Ok(_), Err(why)) => Err(Refusal::new(
                            RefusalKind::Closing,
                            format!("the configuration is in force, but cannot be kept: {why}: send it again"),
                        )
                        .into()),
                        (done, _) => done,
                    }
                }),
        ))
    }
}

impl RmActor {
    /// What the configuration changes; `None`: nothing but the extra configuration (CFG-093). Rules that cannot be built refuse it
    /// (CFG-098), unless the partitions run without them already.
    fn plan(&self, msg: &Reconfigure) -> Result<Option<Change>, Refusals> {
        if let Some(elsewhere) = &self.elsewhere {
            return Err(elsewhere.clone().into());
        }
        if let Some(epoch) = msg.epoch
            && epoch != self.epoch
        {
            return Err(handle::another_epoch(&self.id, epoch, self.epoch).into());
        }
        let Some(session) = &self.session else {
            let kind = if self.life.state() == RmState::Init { RefusalKind::Unknown } else { RefusalKind::State };
            return Err(Refusal::new(kind, no_partitions(&self.id)).into());
        };
        if !msg.policy_group.is_empty() && msg.policy_group != session.policy_group {
            let detail = format!(
                "policy group \"{}\" is not that of resource manager \"{}\", which registered with \"{}\"; name that one, or none",
                msg.policy_group, self.id, session.policy_group
            );
            return Err(refused(&detail).into());
        }
        let not_meant = (msg.only_default && !session.default_config) || (msg.only_shared && !session.shared_config);
        if not_meant || session.config.checksum == msg.config.checksum {
            return Ok(None);
        }
        check_rules(&msg.config)?;
        let mut known = Vec::new();
        for conf in &msg.config.partitions {
            let partition = session.partition(&self.internal(&conf.name)).cloned();
            known.extend(partition.map(|partition| (partition, conf.clone())));
        }
        let stays = |partition: &PartitionHandle| {
            msg.config.partitions.iter().any(|conf| *self.internal(&conf.name) == *partition.internal)
        };
        let gone = session.partitions.iter().filter(|partition| !stays(partition)).cloned().collect();
        Ok(Some(Change { known, gone }))
    }

    /// The known partitions took it, and those that it leaves out are gone, with what operators had told them: the new ones start.
    /// `gone`: `None` where it changes nothing of them.
    fn configured(&mut self, msg: Reconfigure, gone: Option<Standings>, ctx: &mut Context<Self>) {
        let Some(mut session) = self.session.take() else { return };
        let (changed, drops) = (gone.is_some(), gone.as_ref().is_some_and(|gone| !gone.is_empty()));
        if let Some(gone) = gone {
            self.keep_standing(gone);
            let before = std::mem::take(&mut session.partitions);
            session.partitions = msg
                .config
                .partitions
                .iter()
                .enumerate()
                .map(|(place, conf)| {
                    match before.iter().find(|partition| *partition.internal == *self.internal(&conf.name)) {
                        Some(known) => PartitionHandle { conf: conf.clone(), ..known.clone() },
                        None => {
                            let started = self.launch(&session, place, conf, ctx);
                            session.welcome(&started, self.topology.reserves());
                            started
                        }
                    }
                })
                .collect();
            session.config = msg.config;
            session.tell_terms();
        }
        // Also where the text is the same: from now on the session follows the server's, or keeps its own.
        let follows = if msg.only_default { session.default_config } else { msg.default_config };
        let shared = follows && msg.shared;
        let turned = follows != session.default_config || shared != session.shared_config;
        (session.default_config, session.shared_config) = (follows, shared);
        let (tenant, is_new) = (msg.tenant, changed || turned || msg.extra.is_some());
        if msg.extra.is_some() {
            session.tenant = tenant;
        }
        if let Some((extra, settings)) = msg.extra {
            session.extra = extra;
            let default = self.topology.reserves();
            let before = (session.settings.all_container_states, session.reserves(default));
            session.settings = settings.after(&session.settings);
            let (all, reserves) = (session.settings.all_container_states, session.reserves(default));
            if all != before.0 {
                session.command_all(|| Command::ContainerStates(all));
            }
            if reserves != before.1 {
                session.command_all(|| Command::Reservations(reserves));
            }
            session.tell_terms();
            for partition in &session.partitions {
                partition.patience.do_send(session.settings.patience);
            }
            session.configure_journals();
        }
        if let Some(log) = self.log.as_mut().filter(|_| is_new) {
            let changed = Reconfigured {
                config: session.config.text.clone(),
                default_config: session.default_config,
                extra: session.extra.clone(),
                tenant: session.tenant,
                shared: session.shared_config,
            };
            log.append(kind::RECONFIGURED, self.clock.now(), &record::json(&changed));
            log.wait(session.epoch, session.buffer.last(), None, Vec::new());
        }
        if drops {
            self.record_standing(session.buffer.last());
        }
        let pause = session.settings.pause;
        self.session = Some(session);
        if self.life.state() == RmState::Paused {
            // It may be Paused for another time than it was to be.
            let since = self.life.history().last().map_or(Nanos::ZERO, |change| self.clock.now().minus(change.at));
            self.timers.pause(Some(pause.saturating_sub(Duration::from_nanos(since.0.unsigned_abs()))), ctx);
        }
        self.show();
        self.publish();
        self.pump(ctx);
    }

    /// The internal name of a partition (R1.6).
    pub(super) fn internal(&self, name: &str) -> Arc<str> {
        format!("[{}]{name}", self.id).into()
    }
}

impl Change {
    /// What can be wrong with a configuration was found when it was read. Here it meets what runs, on a clone beside the
    /// partitions, which go on meanwhile: what breaks down there does not reach them.
    async fn check(&self, now: Nanos) -> Result<Vec<Tried>, Refusal> {
        let mut tried = Vec::new();
        for (partition, conf) in &self.known {
            let Ok(before) = partition.snapshot.send(GetSnapshot).await else { continue };
            let conf = conf.clone();
            let trial = spawn_blocking(move || {
                let partition = before.partition.tried(conf, now);
                Tried { after: Some(Snapshot { epoch: before.epoch, partition }), before }
            })
            .await;
            let broken = |_| {
                let text = format!("its trial on a clone of {} broke down, see the log", partition.internal);
                refused(&format!("{text}; nothing was changed"))
            };
            tried.push(trial.map_err(broken)?);
        }
        for partition in &self.gone {
            let before = partition.snapshot.send(GetSnapshot).await;
            tried.extend(before.map(|before| Tried { before, after: None }));
        }
        Ok(tried)
    }

    /// Gives what operators had told those that are gone.
    async fn carry_out(self) -> Standings {
        // They are there as long as the session is.
        join_all(self.known.iter().map(|(partition, conf)| partition.configure.send(Configure(conf.clone())))).await;
        let stood = join_all(self.gone.iter().map(|partition| partition.stop.send(StopPartition))).await;
        let names = self.gone.iter().map(|partition| partition.internal.clone());
        names.zip(stood.into_iter().map(Result::unwrap_or_default)).collect()
    }
}

fn refused(reason: &str) -> Refusal {
    Refusal::new(RefusalKind::Invalid, format!("update of configuration failed: {reason}"))
}

/// R1.12.
pub fn no_partitions(rm: &str) -> String {
    format!("update of configuration failed: RM {rm} has no active partitions, make sure it is registered")
}
