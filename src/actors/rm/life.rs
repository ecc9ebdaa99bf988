//! The states that a resource manager goes through, and when it did.

use std::{collections::VecDeque, sync::Arc};

use crate::{
    domain::types::Nanos,
    messages::rm::{RmState, StateChange},
};

/// Changes that are remembered.
const CHANGES: usize = 100;

/// `init → Running → Paused → Stopped`, and from each of them back to Running by a registration.
#[derive(Debug, Default)]
pub struct Life {
    state: RmState,
    history: VecDeque<StateChange>,
}

impl Life {
    /// Present state.
    pub fn state(&self) -> RmState {
        self.state
    }

    /// The last changes, oldest first.
    pub fn history(&self) -> Vec<StateChange> {
        self.history.iter().cloned().collect()
    }

    /// Enters a state.
    pub fn enter(&mut self, state: RmState, at: Nanos, why: Arc<str>) {
        self.state = state;
        if self.history.len() == CHANGES {
            self.history.pop_front();
        }
        self.history.push_back(StateChange { state, at, why });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_changes_are_kept() {
        let mut life = Life::default();
        assert_eq!(life.state(), RmState::Init);
        for n in 0..=CHANGES {
            let state = if n % 2 == 0 { RmState::Running } else { RmState::Paused };
            life.enter(state, Nanos(n as i64), "why".into());
        }
        assert_eq!(life.history().len(), CHANGES);
        assert_eq!(life.history()[0].at, Nanos(1));
        assert_eq!(life.state(), RmState::Running);
    }
}
