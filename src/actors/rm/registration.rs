//! How a session begins, changes its configuration, and ends.

use std::{
    cell::{Cell, RefCell},
    collections::BTreeMap,
    sync::Arc,
};

use actix::prelude::*;
use futures::future::{join_all, ready};

use super::{
    RmActor,
    buffer::Buffer,
    handle,
    questions::Questions,
    record::{self, Ended, Manner, kind},
    session::Session,
    settings::{RmSettings, fixed_of},
    standing::Standings,
};
use crate::{
    actors::{directory::RmEntry, topology::PartitionHandle},
    config::LoadedConfig,
    domain::{command::PredicateTerms, conf::PartitionConf, turns::Turns},
    messages::{
        budget::Budget,
        keys::Asked,
        partition::{PartitionSetup, StopPartition},
        receipts::Receipts,
        recorded::{Outlet, Recorded},
        rm::{ClosingKind, Forwarding, Predicates, Refusal, RefusalKind, RmState, ToStream, Unregister, VOLUNTARY},
    },
    store::files,
};

/// A validated registration. Answered with the epoch of the new session, when its partitions exist (R1.1).
#[derive(Message)]
#[rtype(result = "Result<u64, Refusal>")]
pub struct Register {
    /// Version of the interface client, for logs only.
    pub version: String,
    /// Policy group as given.
    pub policy_group: Arc<str>,
    /// Build information as given.
    pub build_info: BTreeMap<String, String>,
    /// The configuration.
    pub config: Arc<LoadedConfig>,
    /// The registration brought no configuration: the server's own is in force and follows its reload.
    pub default_config: bool,
    /// It is the one that holds for all servers of a cluster.
    pub shared: bool,
    /// Extra configuration.
    pub extra: Arc<BTreeMap<String, String>>,
    /// What it says about the resource manager.
    pub settings: RmSettings,
    /// How the shim wants to be asked (over gRPC the extension stream says so).
    pub predicates: Predicates,
    /// The shim answers state dump requests.
    pub state_dump: bool,
    /// It leaves the settings of the whole process as they are.
    pub tenant: bool,
    /// Its key, where it has one.
    pub asked: Option<Asked>,
}

impl Handler<Register> for RmActor {
    type Result = AtomicResponse<Self, Result<u64, Refusal>>;

    fn handle(&mut self, msg: Register, ctx: &mut Self::Context) -> Self::Result {
        let refused = if self.closing { Some(handle::closing()) } else { self.not_led() };
        if let Some(refused) = refused {
            return AtomicResponse::new(Box::pin(async { Err(refused) }.into_actor(self)));
        }
        let before = self.was_carried_out(msg.asked.as_ref()).map(|before| before.then_some(self.epoch));
        if let Some(answer) = before.transpose() {
            return AtomicResponse::new(Box::pin(async { answer }.into_actor(self)));
        }
        if !self.topology.registers(&self.id, &ctx.address()) {
            // It was forgotten before this arrived: the door looks again.
            let gone = Err(handle::not_registered("RegisterResourceManagerRequest", &self.id));
            return AtomicResponse::new(Box::pin(async { gone }.into_actor(self)));
        }
        let room = self.room_for(&msg);
        AtomicResponse::new(Box::pin(room.into_actor(self).then(|room, actor, ctx| match room {
            Ok(()) => actor.replace(msg, ctx).boxed_local(),
            Err(why) => {
                // Whoever asks sees that, and it is tried again.
                actor.commit(ctx);
                ready(Err(not_recorded(&why))).into_actor(actor).boxed_local()
            }
        })))
    }
}

fn not_recorded(why: &str) -> Refusal {
    Refusal::new(RefusalKind::Closing, format!("{why}: register again"))
}

fn end_not_recorded(rm: &str, why: &str) -> Refusal {
    let detail = format!(
        "resource manager \"{rm}\" takes nothing any more, and its end is not recorded: {why}; after a restart, or at another \
         server, it goes on: unregister again when it can be written"
    );
    Refusal::new(RefusalKind::Closing, detail)
}

impl Handler<Unregister> for RmActor {
    type Result = AtomicResponse<Self, Result<(), Refusal>>;

    fn handle(&mut self, msg: Unregister, ctx: &mut Self::Context) -> Self::Result {
        let asked = msg.asked;
        let before = self.not_led().map_or_else(|| self.was_carried_out(asked.as_ref()), Err);
        if let Some(answer) = before.map(|before| before.then_some(())).transpose() {
            return AtomicResponse::new(Box::pin(async { answer }.into_actor(self)));
        }
        let known = match self.life.state() {
            RmState::Init => Err(handle::not_registered("UnregisterRequest", &self.id)),
            _ => Ok(()),
        };
        let ended = self.end_session(ClosingKind::Stopped, VOLUNTARY, ctx);
        AtomicResponse::new(Box::pin(
            ended
                .into_actor(self)
                .map(move |standings, actor, _ctx| {
                    if known.is_ok() {
                        actor.carries_out(asked.as_ref());
                        actor.topology.drop_settings(&actor.id);
                    }
                    match actor.life.state() {
                        RmState::Init => {}
                        RmState::Stopped => actor.not_missed(),
                        _ => {
                            actor.stopped(VOLUNTARY);
                            actor.keep_standing(standings);
                            actor.record_standing(0);
                        }
                    }
                    (known, asked, actor.flushed(true))
                })
                // A restart or another server may undo an end that is not recorded: it is not confirmed.
                .then(|(known, asked, flushed), actor, _| {
                    let id = actor.id.clone();
                    async move {
                        let flushed = flushed.await;
                        (known.and_then(|()| flushed.map_err(|why| end_not_recorded(&id, &why))), asked)
                    }
                    .into_actor(actor)
                })
                .map(|(known, asked), actor, ctx| {
                    if known.is_err() {
                        actor.may_come_again(asked.as_ref());
                    }
                    // Releases whoever waits for the log.
                    actor.commit(ctx);
                    known
                }),
        ))
    }
}

impl RmActor {
    /// Whether a registration can be recorded, where there is a session that it would end for nothing.
    fn room_for(&mut self, msg: &Register) -> impl Future<Output = Result<(), Arc<str>>> + use<> {
        let (has_session, is_far) = (self.session.is_some(), self.far.is_some());
        let now = self.clock.now();
        let to_try = self.log.as_mut().filter(|_| has_session && is_far);
        let is_tried = to_try.map(|log| log.append(kind::HANDED, now, &record::handed(log.handed))).is_some();
        if is_tried {
            // Only a write shows whether etcd takes anything: it may have gone since the last record.
            self.line_waits();
        }
        // Writing may be possible again by now.
        let is_failing = self.log.as_ref().is_some_and(|log| log.failing().is_some());
        let tried_again = (is_tried || is_failing).then(|| self.flushed(false));
        let is_local = has_session && !is_far;
        let dir = self.log.as_ref().filter(|_| is_local).map(|log| log.logs.directory(&self.id));
        // All but the configuration is small.
        let bytes = msg.config.text.len() + (64 << 10);
        async move {
            if let Some(tried_again) = tried_again {
                tried_again.await?;
            }
            let Some(dir) = dir else { return Ok(()) };
            let tried = tokio::task::spawn_blocking(move || {
                files::try_room(&dir, bytes)
                    .map_err(|error| format!("log {}: cannot be written: {error}", dir.display()))
            });
            tried.await.unwrap_or_else(|error| Err(error.to_string())).map_err(Arc::from)
        }
    }

    /// A session takes the place of the one before.
    fn replace(
        &mut self,
        msg: Register,
        ctx: &mut Context<Self>,
    ) -> impl ActorFuture<Self, Output = Result<u64, Refusal>> + use<> {
        // From here on nothing of the old session gets through: its epoch is over.
        self.epoch += 1;
        let ended = self.end_session(ClosingKind::Replaced, "it registered again", ctx);
        ended
            .into_actor(self)
            .then(|standings, actor, _| {
                actor.keep_standing(standings);
                actor.topology.removed(&actor.id).into_actor(actor)
            })
            .map(move |(), actor, ctx| {
                let asked = msg.asked.clone();
                actor.carries_out(asked.as_ref());
                actor.begin(msg, ctx);
                // A session that is not recorded removes what was recorded of others before it is answered.
                (actor.epoch, asked, actor.flushed(true), actor.topology.removed(&actor.id))
            })
            .then(|(epoch, asked, flushed, removed), actor, _| {
                async move {
                    removed.await;
                    (epoch, asked, flushed.await)
                }
                .into_actor(actor)
            })
            .map(|(epoch, asked, flushed), actor, ctx| match flushed {
                Ok(()) => {
                    actor.commit(ctx);
                    actor.pump(ctx);
                    Ok(epoch)
                }
                Err(why) => {
                    actor.may_come_again(asked.as_ref());
                    // The session whose registration was refused ends.
                    actor.stop(format!("its registration was not recorded: {why}"), ctx);
                    Err(not_recorded(&why))
                }
            })
    }

    /// Ends the session: streams are told, and the future is done when nothing of the partitions is left, with what operators had told
    /// them.
    fn end_session(
        &mut self,
        kind: ClosingKind,
        why: &str,
        ctx: &mut Context<Self>,
    ) -> impl Future<Output = Standings> + use<> {
        self.timers.clear(ctx);
        let closing = self.closing_of(kind, why);
        self.streams.close(&closing, false);
        self.dumps.clear();
        let (mut stops, mut names, mut receipts) = (Vec::new(), Vec::new(), None);
        if let Some(session) = self.session.take() {
            receipts = Some(session.receipts.clone());
            if let Some(log) = self.log.as_mut().filter(|_| self.far.is_none()) {
                // Not with etcd, where the end may never be recorded: then another server goes on without it.
                log.let_out(true);
            }
            session.outlets.borrow().iter().for_each(|outlet| outlet.open());
            self.topology.unsubscribe_events(&self.id, session.epoch);
            self.topology.list(&self.id, false, None);
            names = session.partition_names();
            stops.extend(session.partitions.iter().map(|partition| partition.stop.send(StopPartition)));
            // Freeing many lines takes a while.
            tokio::task::spawn_blocking(move || drop(session));
        }
        self.show();
        // After `show`: whoever learns of the end sees it.
        if let Some(receipts) = receipts {
            receipts.end();
        }
        async move {
            let stood = join_all(stops).await.into_iter().map(Result::unwrap_or_default);
            names.into_iter().zip(stood).collect()
        }
    }

    /// Ends the session for a reason of the server's own.
    pub(super) fn stop(&mut self, why: String, ctx: &mut Context<Self>) {
        if self.session.is_none() {
            return;
        }
        let ended = self.end_session(ClosingKind::Stopped, &why, ctx);
        self.stopped(why);
        let flushed = self.flushed(true);
        let ended = async move {
            let standings = ended.await;
            if let Err(why) = flushed.await {
                tracing::error!(code = "log-not-written", "{why}");
            }
            standings
        };
        // A registration that comes now waits until the old partitions are gone.
        ctx.wait(ended.into_actor(self).map(|standings, actor, ctx| {
            actor.keep_standing(standings);
            actor.record_standing(0);
            actor.commit(ctx);
        }));
    }

    fn stopped(&mut self, why: impl Into<Arc<str>>) {
        let (why, repeatable): (Arc<str>, _) = (why.into(), self.repeatable.clone());
        if let Some(log) = &mut self.log {
            let ended =
                Ended { epoch: self.epoch, why: why.clone(), lost: false, events: Some(log.events), repeatable };
            log.begin_segment();
            log.append(kind::ENDED, self.clock.now(), &record::json(&ended));
            // So that it is tried again.
            log.wait(self.epoch, 0, None, Vec::new());
            log.snapshots.clear();
            self.nothing_used();
        }
        self.enter(RmState::Stopped, why);
        self.topology.stopped(&self.id);
    }

    /// A session that was given up ended by itself after all: nobody has to look.
    fn not_missed(&mut self) {
        if self.life.history().last().is_some_and(|last| &*last.why == VOLUNTARY) {
            return;
        }
        if let Some(log) = &mut self.log {
            // In the same segment as what operators told, which is kept.
            let repeatable = self.repeatable.clone();
            let ended =
                Ended { epoch: self.epoch, why: VOLUNTARY.into(), lost: false, events: Some(log.events), repeatable };
            log.append(kind::ENDED, self.clock.now(), &record::json(&ended));
            log.wait(self.epoch, 0, None, Vec::new());
        }
        self.enter(RmState::Stopped, VOLUNTARY);
    }

    fn begin(&mut self, msg: Register, ctx: &mut Context<Self>) {
        let mut build_info = msg.build_info;
        build_info.insert("rmId".to_owned(), self.id.to_string());
        self.lost = None;
        self.open_log(msg.settings.log_sync);
        let session = Session {
            epoch: self.epoch,
            registered: self.clock.now(),
            build_info,
            policy_group: msg.policy_group,
            config: msg.config,
            default_config: msg.default_config,
            shared_config: msg.shared,
            fixed: fixed_of(&msg.extra),
            extra: msg.extra,
            budget: Budget::within(msg.settings.inward, msg.settings.outward, msg.settings.bounds),
            settings: msg.settings,
            types: Arc::default(),
            // A session that is taken up from a log goes on after the last number in it.
            receipts: Receipts::after(0, BTreeMap::new()),
            forwarding: Forwarding::default(),
            leaving: Arc::default(),
            keys: Arc::default(),
            partitions: Vec::new(),
            buffer: Buffer::default(),
            predicates: msg.predicates,
            asking: Predicates::Off,
            state_dump: msg.state_dump,
            questions: Questions::default(),
            turns: Turns::default(),
            terms: PredicateTerms::default(),
            traced: Default::default(),
            had_stream: false,
            vouched: false,
            heartbeats: false,
            version: msg.version,
            tenant: msg.tenant,
            instances: Cell::new(0),
            outlets: RefCell::default(),
            received: BTreeMap::new(),
            restored: false,
            is_ahead: false,
            manner: Manner::default(),
        };
        let session = self.begin_log(session);
        // The record of it from before went with the earlier log.
        self.record_standing(0);
        // Before the first event that the registration makes (CFG-092).
        if !session.tenant {
            self.topology.apply_settings(&self.id, &session.extra);
        }
        self.topology.subscribe_events(&self.id, self.epoch, ctx.address().recipient());
        let partitions = session.config.partitions.iter();
        let partitions = partitions.enumerate();
        let partitions = partitions.map(|(place, conf)| self.launch(&session, place, conf, ctx)).collect();
        let session = self.session.insert(session);
        session.partitions = partitions;
        for partition in &session.partitions {
            session.welcome(partition, self.topology.reserves());
        }
        if let Some(waiting) = self.streams.waiting.take() {
            let mut stream = waiting.stream;
            stream.predicates = Some(waiting.predicates);
            stream.tell(ToStream::Begin { epoch: self.epoch });
            self.streams.all = Some(stream);
            session.had_stream = true;
        }
        self.ask_as_wanted();
        self.vouch();
        self.publish();
        let grace = self.session.as_ref().map(|session| session.settings.grace).unwrap_or_default();
        self.timers.grace(grace, ctx);
        let version = self.session.as_ref().map(|session| session.version.clone()).unwrap_or_default();
        self.enter(RmState::Running, format!("registered (version \"{version}\")"));
        self.note_manner(ctx);
        self.pump(ctx);
    }

    pub(super) fn launch(
        &self,
        session: &Session,
        place: usize,
        conf: &Arc<PartitionConf>,
        ctx: &Context<Self>,
    ) -> PartitionHandle {
        let recorded = self.log.is_some().then(|| {
            let instance = session.instances.replace(session.instances.get() + 1);
            let outlet = Outlet::new(self.topology.publisher());
            let standing = self.standing.borrow_mut().remove(&self.internal(&conf.name));
            Recorded { instance, outlet, replica: None, still: None, shared: false, standing }
        });
        self.launch_as(session, place, conf, recorded, ctx)
    }

    pub(super) fn launch_as(
        &self,
        session: &Session,
        place: usize,
        conf: &Arc<PartitionConf>,
        recorded: Option<Recorded>,
        ctx: &Context<Self>,
    ) -> PartitionHandle {
        if let Some(recorded) = &recorded {
            let mut outlets = session.outlets.borrow_mut();
            // Nobody else has an outlet whose partition has ended.
            outlets.retain(|outlet| Arc::strong_count(outlet) > 1);
            outlets.push(recorded.outlet.clone());
        }
        let setup = PartitionSetup {
            clock: self.clock,
            rm: self.id.clone(),
            epoch: self.epoch,
            internal: self.internal(&conf.name),
            conf: conf.clone(),
            budget: session.budget.clone(),
            patience: session.settings.patience,
            callbacks: ctx.address().recipient(),
            events: self.topology.publisher(),
            recorded,
        };
        self.topology.launch(self.home, place, setup)
    }

    /// Shows the session in the directory.
    pub(super) fn publish(&self) {
        let Some(session) = &self.session else { return };
        let entry = RmEntry {
            id: self.id.clone(),
            build_info: session.build_info.clone(),
            config: session.config.clone(),
            default_config: session.default_config,
            extra: session.extra.clone(),
            at_registration: session.at_registration(self.log_sync()),
        };
        self.topology.list(&self.id, false, Some((entry, &session.partitions)));
    }
}
