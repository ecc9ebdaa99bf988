//! The partitions of the simulated server: how they begin, with and without a log before them, what they are told then, and how
//! they end.

use std::sync::Arc;

use super::server::{Live, Mark, RM, Server, closing};
use crate::{
    actors::partition::recorder::Recorder,
    domain::{
        command::{Command, PredicateTerms},
        conf::PartitionConf,
        log::Beginning,
        types::Nanos,
    },
    messages::{
        event::Publisher,
        recorded::{Outlet, Talks},
        rm::Predicates,
    },
};

/// Nodes that one question names at most.
const BATCH_NODES: usize = 8;

impl Server {
    /// Nothing of the session is left.
    pub(super) fn end_session(&mut self) {
        self.streams.close(&closing(), true);
        let mut before = std::mem::take(&mut self.parts);
        for live in &mut before {
            self.dismantle(live);
            self.end_journal(&live.internal);
        }
        self.wanted.clear();
        self.receipts.end();
    }

    /// A partition of a session that is over goes: nothing of it may be left in its books.
    fn dismantle(&mut self, live: &mut Live) {
        let (now, effects) = (self.now, &mut Vec::new());
        live.partition.apply(Command::Stop, now, effects);
        while live.partition.dismantle(3, now, effects) {}
        let left: Vec<_> =
            live.partition.audit().into_iter().map(|found| format!("{}: {}", found.object, found.text)).collect();
        if !left.is_empty() || live.partition.allocations > 0 || live.partition.ugm.users().count() > 0 {
            let text = format!("{} was taken apart, and left: {left:?}, {}", live.internal, live.partition.allocations);
            self.fault("teardown", text);
        }
    }

    /// A partition begins.
    pub fn launch(&mut self, conf: Arc<PartitionConf>) {
        let internal: Arc<str> = format!("[{RM}]{}", conf.name).into();
        let beginning = Beginning { rm: RM.into(), internal: internal.clone(), conf: conf.clone(), at: self.now };
        let instance = self.instances;
        self.instances += 1;
        let recorder = Recorder::begin(instance, Outlet::new(Publisher::new(|_| 0)), &beginning);
        let mut effects = Vec::new();
        let partition = beginning.partition(&mut effects);
        let mut talks = Talks::default();
        effects.iter().for_each(|effect| talks.take(effect, self.now));
        self.rules.launched(&internal, conf);
        self.parts.push(Live { effects, ..Live::new(instance, internal, partition, talks, recorder) });
        let at = self.parts.len() - 1;
        self.route(at);
        self.begin_journal(at, false);
        self.welcome(at);
    }

    /// One that goes on after a restart.
    pub fn relaunch(&mut self, instance: u32, internal: Arc<str>, mark: Mark, at: Nanos) {
        let outlet = Outlet::new(Publisher::new(|_| 0));
        outlet.release(mark.number);
        let recorder = Recorder::resume(instance, outlet, mark.number, at);
        let (partition, talks) = (mark.partition.clone(), mark.talks.clone());
        self.parts.push(Live { marks: vec![mark], ..Live::new(instance, internal, partition, talks, recorder) });
    }

    /// What a partition that begins is told.
    fn welcome(&mut self, at: usize) {
        let mut commands = Vec::new();
        if self.terms != PredicateTerms::default() {
            commands.push(Command::PredicateTerms(self.terms));
        }
        if self.asking != Predicates::Off {
            commands.push(Command::AskPredicates(true));
        }
        if self.settings.all_container_states {
            commands.push(Command::ContainerStates(true));
        }
        if self.settings.reservations == Some(false) {
            commands.push(Command::Reservations(false));
        }
        self.commands(at, commands, None);
    }

    /// The partitions learn how to ask, where that changed.
    pub(super) fn tell_terms(&mut self) {
        let nodes = if matches!(self.asking, Predicates::Batch | Predicates::Several) { BATCH_NODES } else { 1 };
        let shared = self.asking != Predicates::Off && self.parts.len() > 1;
        let terms = PredicateTerms { constrained: self.settings.constrained, nodes, shared };
        if terms != self.terms {
            self.terms = terms;
            self.command_all(|| Command::PredicateTerms(terms));
        }
        let names = if shared { self.parts.iter().map(|live| live.internal.clone()).collect() } else { Vec::new() };
        self.turns.among(names);
        self.pass_turns();
        self.read_messages();
    }
}
