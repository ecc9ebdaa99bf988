//! What is wrong with the files of a journal, as operators are told: in the status, by the health check and by metrics.

use std::{
    path::PathBuf,
    sync::{Mutex, MutexGuard, PoisonError},
};

use crate::store::journal::has_report;

/// See the module. Shared by the actor and those who tell.
#[derive(Debug, Default)]
pub struct Faults(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    /// Where the report is, if there is one.
    report: Option<PathBuf>,
    /// Something was damaged, and no operator has settled it.
    damage: Vec<String>,
    /// The last write failed.
    failing: Option<String>,
    /// Unreadable lines of the log.
    lines: Vec<String>,
}

impl Faults {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        // Nothing panics while it is held.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What was found when the files were read.
    pub(super) fn found(&self, dir: PathBuf, damage: Vec<String>, lines: Vec<String>) {
        let report = has_report(&dir).then_some(dir);
        *self.inner() = Inner { report, damage, failing: None, lines };
    }

    /// Damage that was found later; gives what of it is new. What cannot be mended is found again with every event.
    pub(super) fn damaged(&self, dir: PathBuf, mut damage: Vec<String>) -> Vec<String> {
        let report = has_report(&dir).then_some(dir);
        let mut inner = self.inner();
        inner.report = report;
        damage.retain(|found| !inner.damage.contains(found));
        inner.damage.extend(damage.iter().cloned());
        damage
    }

    /// The last write failed for this reason, or succeeded. True where that changed.
    pub(super) fn failing(&self, why: Option<&str>) -> bool {
        let mut inner = self.inner();
        let new = inner.failing.as_deref() != why;
        inner.failing = why.map(str::to_owned);
        new
    }

    /// Blocks while it looks whether an operator has settled the damage, by removing the report.
    pub fn look(&self) {
        let Some(report) = self.inner().report.clone() else { return };
        if !has_report(&report) {
            tracing::info!(journal = %report.display(), "the report of damage was removed: it counts as settled");
            let mut inner = self.inner();
            inner.damage.clear();
            inner.report = None;
        }
    }

    /// All of it.
    pub fn all(&self) -> Vec<String> {
        let inner = self.inner();
        inner.damage.iter().chain(&inner.failing).chain(&inner.lines).cloned().collect()
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        let inner = self.inner();
        inner.damage.len() + usize::from(inner.failing.is_some()) + inner.lines.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_found_again_is_told_once() {
        let faults = Faults::default();
        let found = |what: &str| faults.damaged(PathBuf::from("/nowhere"), vec![what.to_owned()]);
        assert_eq!((found("a").len(), found("a").len(), found("b").len(), faults.count()), (1, 0, 1, 2));
    }
}
