//! One of several servers leads a resource manager. Here it learns that it does, that another one does, and that it is to
//! let go.

use std::sync::Arc;

use actix::prelude::*;

use super::{
    RmActor,
    record::{self, kind},
    replay::{Found, State},
};
use crate::{
    domain::{resources::Resource, usage::UsageKey},
    messages::{
        leaders::Leader,
        partition::StopPartition,
        rm::{Closing, ClosingKind, Refusal, RefusalKind, RmState},
    },
    store::log::Far,
};

/// This server leads from now on.
#[derive(Message)]
#[rtype(result = "()")]
pub struct Lead {
    /// Where its log is.
    pub log: Arc<dyn Far>,
    /// What it goes on with; `None`: nothing was recorded yet.
    pub found: Option<Box<Found>>,
}

/// This server does not lead it; what is said of that: see [`moved`] and [`unregistered`].
#[derive(Message)]
#[rtype(result = "()")]
pub struct Elsewhere(pub Refusal);

/// Nothing new is taken, and what was taken is recorded: another server is to go on with it. Answers why that is not so.
#[derive(Message)]
#[rtype(result = "Result<(), Arc<str>>")]
pub struct LetGo;

/// What is said of a resource manager that another server leads.
pub fn moved(rm: &str, leader: Option<Arc<Leader>>) -> Refusal {
    match leader {
        Some(leader) => {
            let detail = format!("resource manager \"{rm}\" is led by the server at {}", leader.name());
            Refusal { leader: Some(leader), ..Refusal::new(RefusalKind::Moved, detail) }
        }
        None => Refusal::new(
            RefusalKind::Closing,
            format!("no server leads resource manager \"{rm}\" at the moment: try again"),
        ),
    }
}

/// What is said of one that is led nowhere, and of which nothing is kept.
pub fn unregistered(rm: &str) -> Refusal {
    Refusal::new(RefusalKind::Unknown, format!("resource manager \"{rm}\" is not registered"))
}

impl RmActor {
    /// Why nothing can be begun here, or ended.
    pub(super) fn not_led(&self) -> Option<Refusal> {
        let shared = self.topology.logs().is_some_and(|logs| logs.shared);
        self.elsewhere.clone().or_else(|| (shared && self.far.is_none()).then(|| moved(&self.id, None)))
    }

    /// A shim that has lines which are not known here may have them from another server, which leads by now without this one
    /// having heard of it. Writing a record shows whether that is so.
    pub(super) fn knows_of(&mut self, line: u64, ctx: &mut Context<Self>) -> Result<(), Refusal> {
        let beyond = self.session.as_ref().is_some_and(|session| line > session.buffer.known(session.restored));
        let Some(log) = self.log.as_mut().filter(|_| beyond && self.far.is_some()) else { return Ok(()) };
        match self.doubt {
            Some((of, record)) if of == line && log.shared.synced() >= record => return Ok(()),
            Some((of, record)) if of == line && record <= log.last() => {}
            _ => {
                let handed = log.handed;
                let record = log.append(kind::HANDED, self.clock.now(), &record::handed(handed));
                self.doubt = Some((line, record));
                self.line_waits();
                self.commit(ctx);
            }
        }
        let detail = format!(
            "line {line} is not known here: this server looks whether it still leads resource manager \"{}\": try again",
            self.id
        );
        Err(Refusal::new(RefusalKind::Closing, detail))
    }

    /// Nothing of the session counts here any more, and nothing of it is recorded or leaves.
    fn give_up(&mut self, leader: Option<&Arc<Leader>>, ctx: &mut Context<Self>) {
        self.timers.clear(ctx);
        let detail = match leader {
            Some(leader) => format!("it is led by the server at {}", leader.name()),
            None => "this server does not lead it any more".to_owned(),
        };
        let closing = Closing { leader: leader.cloned(), ..self.closing_of(ClosingKind::Moved, &detail) };
        self.streams.close(&closing, true);
        if let Some(journals) = &self.topology.journals {
            // Before the partitions end, so that their end is no news of nodes.
            journals.moved(&self.id, &closing);
        }
        self.dumps.clear();
        let session = self.session.take();
        if self.life.state() != RmState::Init {
            self.enter(RmState::Init, detail);
        }
        // Doors that wait for a receipt look here when it is dropped.
        self.show();
        if let Some(log) = &mut self.log {
            // What is recorded counts, whoever goes on.
            let upto = log.shared.synced();
            log.settle(upto);
        }
        let (mut stops, mut outlets) = (Vec::new(), Vec::new());
        if let Some(session) = session {
            outlets = session.outlets.take();
            outlets.iter().for_each(|outlet| outlet.close());
            if let Some(log) = &mut self.log {
                // Of sessions that were over before.
                log.let_out(false);
            }
            session.receipts.lose();
            self.topology.unsubscribe_events(&self.id, session.epoch);
            self.topology.list(&self.id, false, None);
            stops.extend(session.partitions.iter().map(|partition| partition.stop.send(StopPartition)));
            tokio::task::spawn_blocking(move || drop(session));
        }
        self.log = None;
        self.lost = None;
        self.doubt = None;
        let (topology, rm) = (self.topology.clone(), self.id.clone());
        let gone = async move {
            futures::future::join_all(stops).await;
            // What the partitions used is not used here any more.
            let mut rows: Vec<_> = outlets.iter().flat_map(|outlet| outlet.unheard()).collect();
            rows.push((UsageKey::lead(&rm, false), Resource::new()));
            topology.used(rows);
        };
        ctx.wait(gone.into_actor(self));
    }
}

impl Handler<Lead> for RmActor {
    type Result = ();

    fn handle(&mut self, msg: Lead, ctx: &mut Self::Context) {
        self.far = Some(msg.log);
        self.elsewhere = None;
        match msg.found {
            Some(found) => {
                self.topology.used(vec![(UsageKey::lead(&self.id, true), Resource::new())]);
                if let State::Session(session) = &found.state
                    && !session.registered.tenant
                {
                    self.topology.apply_settings(&self.id, &session.registered.extra);
                }
                self.restore(*found, ctx);
            }
            // While it was to be handed over it may have been passed over when the oldest Stopped ones were forgotten.
            None if self.life.state() == RmState::Stopped => self.topology.stopped(&self.id),
            None => {}
        }
        self.end_standby(self.session.is_some());
        self.show();
    }
}

impl Handler<Elsewhere> for RmActor {
    type Result = ();

    fn handle(&mut self, msg: Elsewhere, ctx: &mut Self::Context) {
        let leader = msg.0.leader.clone();
        let led = self.far.take().is_some();
        // It may be Stopped there: forgetting it is up to that server.
        self.topology.goes_on(&self.id);
        self.elsewhere = Some(msg.0);
        if led || self.session.is_some() || self.streams.waiting.is_some() {
            self.give_up(leader.as_ref(), ctx);
        } else {
            self.show();
        }
    }
}

impl Handler<LetGo> for RmActor {
    type Result = ResponseFuture<Result<(), Arc<str>>>;

    fn handle(&mut self, _msg: LetGo, _ctx: &mut Self::Context) -> Self::Result {
        self.elsewhere = Some(moved(&self.id, None));
        self.show();
        Box::pin(self.flushed(false))
    }
}
