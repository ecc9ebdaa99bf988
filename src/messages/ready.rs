//! Whether the server is ready, and what it still waits for.

use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
};

use schemars::JsonSchema;
use serde::Serialize;
use tokio::sync::watch;

/// What has to be there before requests are welcome. Whoever brings a part of it names it with [`Readiness::waits`] before the
/// doors open, tells how far it is, and takes it off with [`Readiness::done`].
#[derive(Debug, Default)]
pub struct Readiness {
    waits: Mutex<BTreeMap<&'static str, String>>,
    changes: watch::Sender<()>,
}

/// The answer of `/readyz`.
#[derive(Clone, Debug, Serialize, JsonSchema, PartialEq, Eq)]
#[schemars(rename = "Ready")]
pub struct Ready {
    /// Requests are welcome.
    pub ready: bool,
    /// What is being waited for, and how far it is.
    pub waits: BTreeMap<&'static str, String>,
}

impl Readiness {
    /// This part is not there; `progress` says how far it is.
    pub fn waits(&self, part: &'static str, progress: impl Into<String>) {
        self.waits.lock().unwrap_or_else(PoisonError::into_inner).insert(part, progress.into());
        self.changed();
    }

    /// This part is there.
    pub fn done(&self, part: &'static str) {
        self.waits.lock().unwrap_or_else(PoisonError::into_inner).remove(part);
        self.changed();
    }

    /// It may be different from now on: also where somebody shuts down.
    pub fn changed(&self) {
        self.changes.send_replace(());
    }

    /// Tells when it is worth another look.
    pub fn changes(&self) -> watch::Receiver<()> {
        self.changes.subscribe()
    }

    /// How it is now. Who shuts down is not ready.
    pub fn look(&self, closing: bool) -> Ready {
        let mut waits = self.waits.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if closing {
            waits.insert("shutdown", "the scheduler is shutting down".to_owned());
        }
        Ready { ready: waits.is_empty(), waits }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ready_when_nothing_is_waited_for() {
        let readiness = Readiness::default();
        assert!(readiness.look(false).ready);
        readiness.waits("log", "3 of 10 files");
        readiness.waits("log", "4 of 10 files");
        let waits: Vec<_> = readiness.look(false).waits.into_iter().collect();
        assert_eq!(waits, [("log", "4 of 10 files".to_owned())]);
        readiness.done("log");
        assert!(readiness.look(false).ready && !readiness.look(true).ready);
        let mut changes = readiness.changes();
        assert!(!changes.has_changed().unwrap());
        let of_log: [fn(&Readiness); 3] = [|it| it.waits("log", "again"), |it| it.done("log"), Readiness::changed];
        for change in of_log {
            change(&readiness);
            assert!(changes.has_changed().unwrap());
            changes.mark_unchanged();
        }
    }
}
