//! What a door holds of a resource manager: its address, and a view of its session that needs no message.

use std::sync::Arc;

use actix::Addr;
use arc_swap::ArcSwap;

use super::RmActor;
use crate::{
    domain::{effect::Callback, resources::Types},
    messages::{
        budget::{Budget, Permit},
        rm::{Heartbeat, Part, Refusal, RefusalKind, RmState, Submit},
    },
};

/// A resource manager that is known.
#[derive(Debug)]
pub struct RmHandle {
    /// Its id.
    pub id: Arc<str>,
    /// Its actor.
    pub addr: Addr<RmActor>,
    /// Its session.
    pub view: Arc<ArcSwap<RmView>>,
}

/// The session as doors see it.
#[derive(Clone, Debug, Default)]
pub struct RmView {
    /// State.
    pub state: RmState,
    /// Session, 0 before the first registration.
    pub epoch: u64,
    /// What it shares with the doors, while there is a session.
    pub shared: Option<Shared>,
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
}

/// The way into a session that takes requests.
#[derive(Clone, Debug)]
pub struct Gate {
    /// Session.
    pub epoch: u64,
    /// Its credits.
    pub budget: Arc<Budget>,
    /// The resource types that it names.
    pub types: Arc<Types>,
    /// Most items of a request.
    pub max_items: usize,
}

impl RmHandle {
    /// The way in, if it is registered and its state allows requests; `request` names the message for the text (R1.19).
    pub fn gate(&self, request: &str) -> Result<Gate, Refusal> {
        let view = self.view.load();
        match (&view.shared, view.state) {
            (Some(Shared { budget, types, max_items }), RmState::Running | RmState::Paused) => {
                Ok(Gate { epoch: view.epoch, budget: budget.clone(), types: types.clone(), max_items: *max_items })
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

    /// Hands in a request whose credits were taken at the gate.
    pub async fn submit(
        &self,
        gate: &Gate,
        parts: Vec<Part>,
        rejected: Vec<Callback>,
        permit: Permit,
    ) -> Result<(), Refusal> {
        if parts.is_empty() && rejected.is_empty() {
            return Ok(());
        }
        let submit = Submit { epoch: gate.epoch, parts, rejected, permit: Some(permit) };
        self.addr.send(submit).await.unwrap_or_else(|_| Err(closing()))
    }

    /// Hands in signs of life of nodes, whose credits were taken at the gate.
    pub async fn heartbeat(&self, gate: &Gate, nodes: Arc<[Arc<str>]>, permit: Permit) -> Result<(), Refusal> {
        let heartbeat = Heartbeat { epoch: gate.epoch, nodes, permit: Some(permit) };
        self.addr.send(heartbeat).await.unwrap_or_else(|_| Err(closing()))
    }
}

/// R1.19.
pub fn not_registered(request: &str, rm: &str) -> Refusal {
    Refusal::new(RefusalKind::Unknown, format!("received {request}, but RmID=\"{rm}\" not registered"))
}

/// The server ends.
pub fn closing() -> Refusal {
    Refusal::new(RefusalKind::Closing, "the server is shutting down")
}
