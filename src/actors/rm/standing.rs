//! What operators told partitions that are not there: those of a session that ended, and those that a configuration left out. Where
//! servers share the log it is in there, and a partition of that name begins with it, whatever the journal of the server that
//! leads then remembers. One that the log has never had begins with what that journal knows.

use std::{collections::BTreeMap, sync::Arc};

use super::{
    RmActor,
    record::{self, SavedStanding, SavedStandings, kind},
};
use crate::messages::journal::Standing;

/// What operators told partitions, by their internal names.
pub type Standings = Vec<(Arc<str>, Standing)>;

/// Names that are kept though nothing stands there any more: the journal of another server may say otherwise.
const NAMES: usize = 1_000;

impl RmActor {
    /// These partitions are gone. A server that is alone has it in their journals.
    pub(super) fn keep_standing(&mut self, standings: Standings) {
        if self.far.is_none() || standings.is_empty() {
            return;
        }
        let kept = self.standing.get_mut();
        kept.extend(standings);
        if kept.len() > NAMES {
            kept.retain(|_, standing| holds(standing));
        }
    }

    /// Records all of it. `line`: the newest of the session.
    pub(super) fn record_standing(&mut self, line: u64) {
        let said = self.saved_standing();
        if let Some(log) = self.log.as_mut().filter(|_| self.far.is_some() && !said.is_empty()) {
            log.append(kind::STANDING, self.clock.now(), &record::json(&said));
            log.wait(self.epoch, line, None, Vec::new());
        }
    }

    /// As it is recorded.
    pub(super) fn saved_standing(&self) -> SavedStandings {
        let kept = self.standing.borrow();
        kept.iter().map(|(internal, standing)| (internal.clone(), SavedStanding::of(standing))).collect()
    }

    /// Takes over what its log tells: another server may have led it before.
    pub(super) fn inherit(&mut self, standing: SavedStandings) {
        let mut inherited = BTreeMap::new();
        for (internal, saved) in standing {
            match saved.standing() {
                Ok(standing) => _ = inherited.insert(internal, standing),
                Err(why) => tracing::error!(
                    code = "journal-fault",
                    partition = &*internal,
                    "what operators told another server is not known: {why}"
                ),
            }
        }
        self.standing = inherited.into();
    }

    /// There is a drain, or an order to a queue, that the next session has to begin with: its log has to stay.
    pub(super) fn holds_standing(&self) -> bool {
        self.far.is_some() && self.standing.borrow().values().any(holds)
    }
}

fn holds(standing: &Standing) -> bool {
    !standing.hosts.is_empty() || !standing.orders.is_empty()
}
