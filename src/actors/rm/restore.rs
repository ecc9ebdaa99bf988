//! A resource manager goes on after a restart of the server, as its log left it.

use std::{
    cell::{Cell, RefCell},
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use actix::prelude::*;
use tokio::sync::watch;

use super::{
    RmActor,
    log::{LogSync, Logs, RmLog},
    questions::Questions,
    record::{self, Ended, kind},
    replay::{Found, Replayed, State},
    session::Session,
    settings::{RmSettings, fixed_of},
};
use crate::{
    config,
    domain::{
        Partition,
        command::{Command, PredicateTerms, Turn},
        conf::PartitionConf,
        log::Beginning,
        resources::Resource,
        turns::Turns,
        types::Nanos,
        usage::UsageKey,
    },
    messages::{
        budget::Budget,
        event::Stands,
        keys::Keys,
        partition::{Configure, Signs, StopPartition},
        receipts::Receipts,
        recorded::{Outlet, Recorded, Replica},
        rm::{Forwarding, Kind, Predicates, RmState},
    },
    store::log::Home,
};

impl RmActor {
    /// Opens the log for a session that begins.
    pub(super) fn open_log(&mut self, wanted: Option<LogSync>) {
        let Some(logs) = self.topology.logs() else { return };
        let home = self.home(&logs);
        let sync = match &home {
            Home::Here(_) => wanted.unwrap_or(logs.sync),
            Home::Far(_) => LogSync::Batch,
        };
        match &mut self.log {
            Some(log) if sync != LogSync::Off => log.sync = sync,
            Some(_) => self.forget_log(),
            None if sync == LogSync::Off => {}
            None => self.log = Some(RmLog::new(logs, home, &self.id, sync, 1, self.clock.now())),
        }
    }

    /// Where its log is.
    fn home(&self, logs: &Logs) -> Home {
        self.far.clone().map_or_else(|| Home::Here(logs.directory(&self.id)), Home::Far)
    }

    /// The first record of a session, with which a segment begins: all that was before can go.
    pub(super) fn begin_log(&mut self, mut session: Session) -> Session {
        let Some(log) = &mut self.log else { return session };
        session.buffer.hold_back();
        log.begin_session(&session.registration(log.sync, &self.repeatable), self.clock.now());
        if log.events == 0 {
            // Else that is known, and what came before may be on its way.
            self.tell_events();
        }
        self.nothing_used();
        session
    }

    /// Nothing is recorded from now on, and what was is removed: [`Topology::removed`](crate::actors::topology::Topology::removed)
    /// waits for that.
    pub(super) fn forget_log(&mut self) {
        self.remove_log(self.topology.removes(&self.id));
    }

    pub(super) fn remove_log(&mut self, removal: watch::Receiver<()>) {
        let shared = self.log.take().map(|mut log| {
            log.let_out(false);
            log.shared
        });
        self.topology.begins_anew(&self.id);
        let Some(logs) = self.topology.logs().filter(|logs| !logs.shared || self.far.is_some()) else { return };
        let home = self.home(&logs);
        drop(tokio::task::spawn_blocking(move || {
            let removed = match shared {
                Some(shared) => shared.remove(|| home.remove()),
                None => home.remove(),
            };
            if let Err(error) = removed
                && error.kind() != std::io::ErrorKind::NotFound
            {
                tracing::warn!(code = "log-old-file", %error, "an old log cannot be removed: {home:?}");
            }
            drop(removal);
        }));
    }

    /// Goes on with what was found.
    pub(super) fn restore(&mut self, found: Found, ctx: &mut Context<Self>) {
        let Some(logs) = self.topology.logs() else { return };
        self.clock = self.clock.not_before(found.at);
        self.epoch = found.epoch;
        let Found { last, at, state, standing, snapshot, bytes, took, events, repeatable, .. } = found;
        self.repeatable = repeatable;
        let (home, is_far) = (self.home(&logs), self.far.is_some());
        let mut log = RmLog::new(logs.clone(), home, &self.id, logs.sync, last + 1, at);
        log.events = events.unwrap_or(0);
        if events.is_none() {
            self.topology.begins_anew(&self.id);
        }
        if is_far {
            self.inherit(standing);
        }
        match state {
            State::Nothing => {}
            State::Ended(why) => {
                self.log = Some(log);
                self.stands(&[]);
                self.enter(RmState::Stopped, why);
                self.topology.stopped(&self.id);
            }
            State::Lost(why) => self.lost(log, why),
            State::Session(replayed) => {
                let config = config::load(&replayed.registered.config);
                let settings = RmSettings::of(&replayed.registered);
                match (config, settings) {
                    (Ok(config), Ok(settings)) => {
                        self.log = Some(log);
                        if let Some(log) = &mut self.log {
                            log.sync = settings.log_sync.filter(|_| !is_far).unwrap_or(logs.sync);
                            log.snapshots = snapshot.into_iter().collect();
                            log.done_again(bytes, took);
                            log.numbers = replayed.numbers.clone();
                            log.keys = replayed.keys.clone();
                            if events.is_none() {
                                log.begin_counting(self.clock.now());
                            }
                        }
                        self.go_on(*replayed, config, settings, ctx);
                    }
                    (Err(refused), _) => self.lost(log, format!("its configuration is refused: {refused}").into()),
                    (_, Err(refused)) => self.lost(log, refused.into()),
                }
            }
        }
        self.tell_events();
    }

    /// This server leads the log from here on: tells the event system what its partitions use.
    fn stands(&self, used: &[(UsageKey, Resource)]) {
        if let Some(log) = self.log.as_ref().filter(|_| self.topology.keeps_logs()) {
            let stands = Stands { rm: self.id.clone(), next: log.events, at: log.at(), used: used.to_vec() };
            self.topology.numbering().stands(stands);
        }
    }

    /// The log is not enough to go on: the shim is told to register again.
    fn lost(&mut self, mut log: RmLog, why: Arc<str>) {
        tracing::error!(code = "log-session-lost", rm = &*self.id, epoch = self.epoch, "{why}");
        let repeatable = self.repeatable.clone();
        let ended = Ended { epoch: self.epoch, why: why.clone(), lost: true, events: Some(log.events), repeatable };
        log.begin_segment();
        log.append(kind::ENDED, self.clock.now(), &record::json(&ended));
        log.count_lost();
        self.lost = Some(why.clone());
        self.log = Some(log);
        self.stands(&[]);
        self.record_standing(0);
        self.enter(RmState::Stopped, why);
        self.topology.stopped(&self.id);
        actix::spawn(self.flushed(true));
    }

    fn go_on(
        &mut self,
        replayed: Replayed,
        config: config::LoadedConfig,
        settings: RmSettings,
        ctx: &mut Context<Self>,
    ) {
        let Replayed { registered, manner, buffer, questions, partitions, instances, types, numbers, keys, .. } =
            replayed;
        let asked = |number| record::asks_of(number).unwrap_or_default();
        // Logs of earlier releases have the present bounds, not those from when the lines came.
        let settings = RmSettings { bounds: buffer.widened(settings.bounds), ..settings };
        let budget = Budget::within(settings.inward, settings.outward, settings.bounds);
        budget.made(buffer.undelivered(), 0);
        let _ = budget.holds(buffer.waits(), 0);
        // Nothing is placed until the shim is there again.
        budget.pause(true);
        let receipts = Receipts::after(numbers.taken, numbers.recorded);
        numbers.refused.iter().for_each(|(number, reason)| receipts.refuse(*number, reason));
        let mut session = Session {
            epoch: registered.epoch,
            registered: Nanos(registered.at),
            build_info: registered.build_info,
            policy_group: registered.policy_group,
            config: Arc::new(config),
            default_config: registered.default_config,
            shared_config: registered.shared,
            fixed: registered.fixed.unwrap_or_else(|| fixed_of(&registered.extra)),
            extra: registered.extra,
            settings,
            budget,
            types,
            receipts,
            forwarding: Forwarding::default(),
            leaving: Arc::default(),
            keys: Keys::after(keys.at(self.clock.now()), keys.recorded()),
            partitions: Vec::new(),
            buffer,
            predicates: asked(registered.predicates),
            asking: asked(manner.asking),
            state_dump: registered.state_dump,
            questions: Questions::default(),
            turns: Turns::default(),
            terms: PredicateTerms::default(),
            traced: Default::default(),
            had_stream: manner.had_stream,
            vouched: false,
            heartbeats: manner.heartbeats,
            version: registered.version,
            tenant: registered.tenant,
            instances: Cell::new(instances),
            outlets: RefCell::default(),
            received: BTreeMap::new(),
            restored: true,
            is_ahead: false,
            manner,
        };
        session.buffer.hold_back();
        self.topology.goes_on(&self.id);
        self.topology.subscribe_events(&self.id, self.epoch, ctx.address().recipient());
        let used: Vec<_> = partitions.values().flat_map(|(_, replica)| used(&replica.partition)).collect();
        self.stands(&used);
        self.topology.used(used);
        let unasked = unasked(&partitions, &questions);
        let mut replicas: BTreeMap<Arc<str>, (u32, Replica)> = BTreeMap::new();
        let mut leaving = Vec::new();
        for (instance, (internal, replica)) in partitions {
            session.received.insert(instance, replica.number);
            // Of two of a name, the first was on its way out.
            leaving.extend(replicas.insert(internal, (instance, replica)));
        }
        let confs = session.config.partitions.clone();
        for (place, conf) in confs.iter().enumerate() {
            let handle = match replicas.remove(&self.internal(&conf.name)) {
                Some(before) => {
                    let is_known = same(conf, &before.1.partition.conf);
                    let handle = self.launch_again(&session, place, conf, before, ctx);
                    if !is_known {
                        // The server ended before the partition had recorded that it took the new one.
                        actix::spawn(handle.configure.send(Configure(conf.clone())));
                    }
                    handle
                }
                // The server ended before it had begun.
                None => self.launch(&session, place, conf, ctx),
            };
            session.partitions.push(handle);
        }
        for before in leaving.into_iter().chain(replicas.into_values()) {
            let conf = before.1.partition.conf.clone();
            let handle = self.launch_again(&session, 0, &conf, before, ctx);
            let (gone, leaving) = (handle.stop.send(StopPartition), session.leaving.clone());
            leaving.send_modify(|number| *number += 1);
            actix::spawn(async move {
                // With what it has recorded in the mailbox.
                let _ = gone.await;
                leaving.send_modify(|number| *number -= 1);
            });
        }
        session.buffer.kept(Kind::Allocation).for_each(|line| session.carries(line));
        for (internal, questions) in unasked {
            session.unanswered(&internal, questions);
        }
        // What partitions were told may not have been recorded. They are told again: all of it says what holds, not what changes.
        session.command_all(|| Command::ContainerStates(session.settings.all_container_states));
        session.command_all(|| Command::AskPredicates(session.asking != Predicates::Off));
        let reserves = session.reserves(self.topology.reserves());
        session.command_all(|| Command::Reservations(reserves));
        session.tell_terms();
        if session.terms.shared {
            // Nobody remembers whose turn it was.
            session.command_all(|| Command::Turn(Turn::Nobodys));
        }
        session.configure_journals();
        // Questions that were not answered are put once more.
        if !questions.is_empty() {
            self.record(kind::RESTARTED, &[]);
            let (now, timeout) = (tokio::time::Instant::now(), session.settings.predicates);
            for open in questions.into_values() {
                for payload in open.payloads() {
                    let line = session.buffer.last() + 1;
                    session.questions.put(line, open.partition.clone(), payload.questions(), now, timeout);
                    session.buffer.push(open.partition.clone(), payload);
                }
            }
        }
        let timeout = session.settings.pause;
        for partition in session.partitions.iter().filter(|_| session.heartbeats) {
            // Only they count, as before (SEEDS S37).
            partition.tell_alive(session.epoch, Signs::Heartbeats, None);
        }
        self.session = Some(session);
        self.line_waits();
        self.publish();
        let why = if self.far.is_some() { "this server leads it now" } else { "the server was started again" };
        self.enter(RmState::Paused, why);
        self.timers.pause(Some(timeout), ctx);
        self.arm_questions(ctx);
        self.commit(ctx);
    }

    fn launch_again(
        &self,
        session: &Session,
        place: usize,
        conf: &Arc<PartitionConf>,
        (instance, replica): (u32, Replica),
        ctx: &Context<Self>,
    ) -> crate::actors::topology::PartitionHandle {
        let outlet = Outlet::new(self.topology.publisher());
        outlet.release(replica.number);
        let shared = self.far.is_some();
        let recorded =
            Recorded { instance, outlet, replica: Some(Box::new(replica)), still: None, shared, standing: None };
        self.launch_as(session, place, conf, Some(recorded), ctx)
    }
}

/// What a partition uses, as the events of its charges would tell.
pub fn used(partition: &Partition) -> Vec<(UsageKey, Resource)> {
    let mut rows: BTreeMap<UsageKey, Resource> = BTreeMap::new();
    for (who, name, queue, usage) in partition.ugm.charges().filter(|(.., usage)| !usage.is_empty()) {
        let key = UsageKey { partition: partition.internal.clone(), who, name: name.clone(), queue };
        rows.entry(key).or_default().add(usage);
    }
    rows.into_iter().collect()
}

/// Both configurations say the same.
pub fn same(one: &Arc<PartitionConf>, other: &Arc<PartitionConf>) -> bool {
    let bytes = |conf: &Arc<PartitionConf>| {
        Beginning { rm: Arc::default(), internal: Arc::default(), conf: conf.clone(), at: Nanos::ZERO }.encode()
    };
    Arc::ptr_eq(one, other) || bytes(one) == bytes(other)
}

/// Questions that wait for an answer which was taken and is not in the log: nobody will answer them.
pub fn unasked(
    partitions: &BTreeMap<u32, (Arc<str>, Replica)>,
    asked: &BTreeMap<u64, super::replay::Open>,
) -> Vec<(Arc<str>, Vec<u64>)> {
    let mut all = Vec::new();
    for (internal, replica) in partitions.values() {
        let open = asked.values().filter(|open| open.partition == *internal);
        let known: BTreeSet<u64> = open.flat_map(|open| open.questions.iter().map(|question| question.id)).collect();
        let unknown: Vec<u64> = replica.partition.open_questions().filter(|id| !known.contains(id)).collect();
        if !unknown.is_empty() {
            all.push((internal.clone(), unknown));
        }
    }
    all
}
