//! What a door holds of a resource manager: its address, and a view of its session that needs no message.

use std::{
    pin::pin,
    sync::{Arc, Weak},
    time::Duration,
};

use actix::{Addr, Recipient};
use arc_swap::ArcSwap;

use super::{RmActor, buffer};
use crate::{
    actors::directory::{Asked, Unanswered},
    domain::{
        command::{Command, NodeAction, NodeItem},
        effect::Callback,
        resources::Types,
    },
    messages::{
        budget::{Budget, Permit, Size},
        keys::Keys,
        partition::Commands,
        receipts::{PartOf, Receipt, Receipts},
        rm::{CarriedOut, Forwarding, Halt, Heartbeat, Info, Part, Refusal, RefusalKind, RmInfo, RmState, Submit},
    },
    trace::{Point, Side},
};

/// How often it is looked whether a door still uses an earlier view.
const LOOK: Duration = Duration::from_millis(1);

/// How often a request that waits to be recorded looks whether that is possible.
const PATIENCE: Duration = Duration::from_millis(500);

/// How long requests over a stream wait for the shim to read callbacks: not for ever, as it may send all before it reads.
const UNREAD: Duration = Duration::from_secs(60);

/// How often it is looked whether it has read.
const ROOM: Duration = Duration::from_millis(20);

/// A resource manager that is known.
#[derive(Debug)]
pub struct RmHandle {
    /// Its id.
    pub id: Arc<str>,
    /// Its actor.
    pub addr: Addr<RmActor>,
    /// The same for readers.
    pub asked: Asked<RmActor>,
    /// Its session.
    pub view: Arc<ArcSwap<RmView>>,
}

/// The session as doors see it.
#[derive(Clone, Debug, Default)]
pub struct RmView {
    /// Where the session is in its life cycle.
    pub state: RmState,
    /// Session, 0 before the first registration.
    pub epoch: u64,
    /// What it shares with the doors, while there is a session.
    pub shared: Option<Shared>,
    /// Its partitions, by internal name, with their numbers in the session.
    pub partitions: Vec<(Arc<str>, u32, Recipient<Commands>)>,
    /// The server ends.
    pub closing: bool,
    /// It cannot be recorded at present, and why.
    pub failing: Option<Arc<str>>,
    /// What is said while another server leads it.
    pub elsewhere: Option<Refusal>,
    /// Why nothing new is placed: its log has no room.
    pub full: Option<Arc<str>>,
    /// Requests that add to the log are refused too.
    pub crowded: bool,
    /// Its log.
    pub log: Option<Arc<super::log::SharedWriter>>,
}

impl RmView {
    /// Why nothing new is placed.
    pub fn halt(&self) -> Option<Halt> {
        let log = self.failing.as_ref().or(self.full.as_ref());
        log.cloned().map(Halt::Log).or((self.state != RmState::Running).then_some(Halt::Away))
    }
}

/// What a session shares with the doors.
#[derive(Clone, Debug)]
pub struct Shared {
    /// Its credits.
    pub budget: Arc<Budget>,
    /// The resource types that it names.
    pub types: Arc<Types>,
    /// Most items of a request.
    pub max_items: usize,
    /// Its numbered requests.
    pub receipts: Arc<Receipts>,
    /// The keys of its requests.
    pub keys: Arc<Keys>,
    /// There is a log: a request counts as taken when it is recorded.
    pub recorded: bool,
    /// Its requests that are on their way to the resource manager's actor.
    pub forwarding: Forwarding,
}

/// The way into a session that takes requests.
#[derive(Clone, Debug)]
pub struct Gate {
    /// Number of the session, counted up with each registration.
    pub epoch: u64,
    /// What it shares.
    pub shared: Shared,
}

/// Waits until no door uses these views, which are no longer shown: then everything that doors sent with them is in the mailboxes.
/// A door keeps a view while it hands in one request, and waits for nothing meanwhile.
pub(super) async fn left(views: Vec<Weak<RmView>>) {
    while views.iter().any(|view| view.strong_count() > 0) {
        tokio::time::sleep(LOOK).await;
    }
}

impl RmHandle {
    /// The way in, if it is registered and its state allows requests; `request` names the message for the text (R1.19).
    pub fn gate(&self, request: &str) -> Result<Gate, Refusal> {
        let view = self.view.load();
        if let Some(elsewhere) = &view.elsewhere {
            return Err(elsewhere.clone());
        }
        if let Some(why) = &view.failing {
            return Err(Refusal::new(RefusalKind::Closing, &**why));
        }
        match (&view.shared, view.state) {
            (Some(shared), RmState::Running | RmState::Paused) => {
                Ok(Gate { epoch: view.epoch, shared: shared.clone() })
            }
            (_, RmState::Init) => Err(not_registered(request, &self.id)),
            (None, RmState::Running | RmState::Paused) => Err(Refusal::new(
                RefusalKind::State,
                format!("received {request}, but resource manager \"{}\" is being registered again", self.id),
            )),
            _ => Err(Refusal::new(
                RefusalKind::State,
                format!("received {request}, but resource manager \"{}\" is Stopped: register it again", self.id),
            )),
        }
    }

    /// The log has room for these commands, and the buffer for the callbacks that they make at once. Asked before anything of their
    /// request counts as taken.
    ///
    /// # Errors
    /// There is none, and they add to what is there.
    pub fn has_room(&self, parts: &[Part]) -> Result<(), Refusal> {
        self.log_has_room(parts)?;
        if self.is_read(parts) {
            return Ok(());
        }
        Err(Refusal::new(
            RefusalKind::Busy,
            format!(
                "\"{}\" has not read its callbacks, and those of this request have no room beside them (rm.bufferedCallbacks, \
                 rm.bufferedBytes): read them, and send it again; releases, removals and nodes in requests of their own go on",
                self.id
            ),
        ))
    }

    /// The same for what comes over a stream: nothing more of it is read until the shim has read, or a minute has passed.
    ///
    /// # Errors
    /// There is no room in the log.
    pub async fn room(&self, parts: &[Part]) -> Result<(), Refusal> {
        self.log_has_room(parts)?;
        let read = async {
            while !self.is_read(parts) {
                tokio::time::sleep(ROOM).await;
            }
        };
        let _ = tokio::time::timeout(UNREAD, read).await;
        Ok(())
    }

    /// The shim has read enough for the callbacks of these commands.
    fn is_read(&self, parts: &[Part]) -> bool {
        let Some(size) = leads_to(parts) else { return true };
        self.view.load().shared.as_ref().is_none_or(|shared| shared.budget.leaves_room(size))
    }

    fn log_has_room(&self, parts: &[Part]) -> Result<(), Refusal> {
        let view = self.view.load();
        match &view.full {
            Some(why) if view.crowded && parts.iter().any(|part| adds(&part.command)) => Err(Refusal::new(
                RefusalKind::Busy,
                format!(
                    "{why}, and nothing that adds to it is taken until it has room: send this request again later, releases and \
                     removals in requests of their own go on; see that the callbacks are read, or start the servers with a larger bound"
                ),
            )),
            _ => Ok(()),
        }
    }

    /// Begins the span of a traced request in the session, which ends when all of it was applied, and recorded where there is a log.
    /// Before the permit is cloned.
    pub fn traced(&self, gate: &Gate, permit: Permit, at: Option<Point>, items: usize) -> Permit {
        let Some(at) = at else { return permit };
        let mut span = at.child("session", Side::Inside);
        span.text("callboard.rm", &*self.id);
        span.number("callboard.epoch", gate.epoch);
        span.number("callboard.items", items as u64);
        permit.traced(Some(span))
    }

    /// Hands in a request whose credits were taken at the gate. When this returns, what is for partitions is in their
    /// mailboxes, before anything that is asked of them from then on; a request for one that is not known goes by the
    /// actor, which may be about to start it.
    ///
    /// # Errors
    /// The session ended since, or the server ends: its number or key is not taken then.
    pub fn submit(
        &self,
        gate: &Gate,
        parts: Vec<Part>,
        rejected: Vec<Callback>,
        permit: Permit,
    ) -> Result<(), Refusal> {
        let (epoch, view) = (gate.epoch, self.view.load());
        if let Err(refusal) = self.takes(&view, epoch) {
            permit.give_back();
            return Err(refusal);
        }
        let permit = match leads_to(&parts) {
            Some(size) => permit.leading_to(size),
            None => permit,
        };
        let of = |part: &Part| view.partitions.iter().find(|(internal, ..)| *internal == part.partition);
        if !parts.is_empty() && (gate.shared.forwarding.any() || parts.iter().any(|part| of(part).is_none())) {
            let ahead = Some(gate.shared.forwarding.one());
            self.addr.do_send(Submit { epoch, parts, rejected, permit: Some(permit), ahead });
            return Ok(());
        }
        // An empty request may have a number or a key: that it was taken is recorded.
        let nothing = parts.is_empty() && rejected.is_empty();
        permit.in_parts(parts.len() + usize::from(nothing || !rejected.is_empty()));
        let recorded = permit.recorded();
        if nothing && permit.is_taken_once() {
            self.record_taken(gate, permit.clone());
        }
        if !rejected.is_empty() && !recorded.contains(&PartOf::Session) {
            // Answered before the partitions do.
            let permit = Some(permit.clone());
            self.addr.do_send(Submit { epoch, parts: Vec::new(), rejected, permit, ahead: None });
        }
        for part in parts {
            if let Some((_, number, partition)) = of(&part)
                && !recorded.contains(&PartOf::Partition(*number))
            {
                partition.do_send(Commands { epoch, commands: vec![part.command], permit: Some(permit.clone()) });
            }
        }
        Ok(())
    }

    fn takes(&self, view: &RmView, epoch: u64) -> Result<(), Refusal> {
        if view.closing {
            return Err(closing());
        }
        if let Some(elsewhere) = &view.elsewhere {
            return Err(elsewhere.clone());
        }
        if view.epoch != epoch || view.shared.is_none() {
            return Err(other_session(&self.id, view.state));
        }
        Ok(())
    }

    /// A request without a part for a partition was carried out: its receipt is dropped when that is recorded.
    pub fn carried_out(&self, gate: &Gate, receipt: Receipt) {
        let permit = gate.shared.budget.nothing().with(receipt);
        permit.in_parts(1);
        self.record_taken(gate, permit);
    }

    fn record_taken(&self, gate: &Gate, permit: Permit) {
        if gate.shared.recorded {
            self.addr.do_send(CarriedOut { epoch: gate.epoch, permit });
        }
    }

    /// Nothing is known of it here: no session, no end of one, and no server that leads it.
    pub fn is_unheard(&self) -> bool {
        let view = self.view.load();
        let is_elsewhere = view.elsewhere.as_ref().is_some_and(|refusal| refusal.kind != RefusalKind::Unknown);
        !is_elsewhere && view.shared.is_none() && view.state == RmState::Init
    }

    /// This server leads it, or nobody does.
    ///
    /// # Errors
    /// Another one does, or did: what was handed in here may not be recorded.
    pub fn is_here(&self) -> Result<(), Refusal> {
        self.view.load().elsewhere.clone().map_or(Ok(()), Err)
    }

    /// Why the session of this epoch takes nothing more.
    pub fn over(&self, epoch: u64) -> Refusal {
        let view = self.view.load();
        if view.closing {
            return closing();
        }
        if let Some(elsewhere) = &view.elsewhere {
            return elsewhere.clone();
        }
        if view.epoch == epoch {
            return other_session(&self.id, RmState::Stopped);
        }
        another_epoch(&self.id, epoch, view.epoch)
    }

    /// Waits for a request that was handed in, unless it cannot be recorded at present.
    ///
    /// # Errors
    /// It cannot.
    pub async fn recorded<T>(&self, waiting: impl Future<Output = T>) -> Result<T, Refusal> {
        let mut waiting = pin!(waiting);
        loop {
            if let Ok(done) = tokio::time::timeout(PATIENCE, &mut waiting).await {
                return Ok(done);
            }
            if let Some(why) = &self.view.load().failing {
                let detail = format!("{why}; what this request said may count then: send it again");
                return Err(Refusal::new(RefusalKind::Closing, detail));
            }
        }
    }

    /// How it is, for readers: as doors see it where it does not answer in time. `None`: it has ended.
    pub async fn info(&self) -> Option<RmInfo> {
        match self.asked.send(Info).await {
            Ok(info) => Some(info),
            Err(Unanswered::Gone(_)) => None,
            Err(silent) => {
                let view = self.view.load();
                Some(RmInfo {
                    id: self.id.clone(),
                    state: view.state,
                    epoch: view.epoch,
                    partitions: view.partitions.iter().map(|(name, ..)| name.clone()).collect(),
                    failing: Some(silent.to_string().into()),
                    full: view.full.clone(),
                    ..RmInfo::default()
                })
            }
        }
    }

    /// Hands in signs of life of nodes, whose credits were taken at the gate.
    pub async fn heartbeat(&self, gate: &Gate, nodes: Arc<[Arc<str>]>, permit: Permit) -> Result<(), Refusal> {
        let heartbeat = Heartbeat { epoch: gate.epoch, nodes, permit: Some(permit) };
        self.addr.send(heartbeat).await.unwrap_or_else(|_| Err(closing()))
    }
}

/// The command adds to what the log has to keep.
fn adds(command: &Command) -> bool {
    let is_new = |node: &NodeItem| matches!(node.action, NodeAction::Create | NodeAction::CreateDrain);
    match command {
        Command::Nodes(nodes) => nodes.iter().any(is_new),
        Command::Applications { new, .. } => !new.is_empty(),
        Command::Allocations { allocations, .. } => !allocations.is_empty(),
        _ => false,
    }
}

/// The callbacks that these commands make at once and that can wait. Asks count when they are placed.
fn leads_to(parts: &[Part]) -> Option<Size> {
    let mut size = None;
    for part in parts {
        match &part.command {
            Command::Allocations { allocations, .. } if !allocations.is_empty() => {
                let size = size.get_or_insert_with(Size::default);
                let placed = allocations.iter().filter(|item| item.node.is_some() && item.spec.foreign.is_none());
                placed.for_each(|item| size.add(Size { entries: 1, bytes: buffer::ENTRY + buffer::tags(&item.spec) }));
            }
            Command::Applications { new, .. } if !new.is_empty() => {
                let more = Size { entries: new.len(), bytes: new.len() * buffer::ENTRY };
                size.get_or_insert_with(Size::default).add(more);
            }
            _ => {}
        }
    }
    size
}

/// A request is of another session than the present one.
pub fn other_session(rm: &str, state: RmState) -> Refusal {
    let what = if state == RmState::Stopped { "is Stopped" } else { "was registered again meanwhile" };
    Refusal::new(RefusalKind::State, format!("resource manager \"{rm}\" {what}"))
}

/// A request of another session than the one that runs.
pub fn another_epoch(rm: &str, given: u64, present: u64) -> Refusal {
    Refusal::new(
        RefusalKind::Epoch,
        format!("epoch {given} is not that of resource manager \"{rm}\", which is {present}: it was registered again"),
    )
}

/// R1.19.
pub fn not_registered(request: &str, rm: &str) -> Refusal {
    Refusal::new(RefusalKind::Unknown, format!("received {request}, but RmID=\"{rm}\" not registered"))
}

/// The server ends.
pub fn closing() -> Refusal {
    Refusal::new(RefusalKind::Closing, "the server is shutting down")
}
