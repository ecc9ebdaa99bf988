//! Names under which readers see partitions of several resource managers, and the order in which these came: both are kept over
//! restarts of the server.

use std::{collections::BTreeMap, io, path::PathBuf, sync::Arc};

use serde::{Deserialize, Serialize};

use crate::{actors::directory::PartitionEntry, store::files};

/// Beside the logs of resource managers.
const FILE: &str = "names";

/// The plain name for the resource manager that has it first, `[rm]name` for later ones. A name once given stays; `kept` is the
/// one that it had before the server was started.
pub fn shown<'a>(
    internal: &Arc<str>,
    plain: &Arc<str>,
    kept: Option<&Arc<str>>,
    before: &[PartitionEntry],
    others: impl Iterator<Item = &'a PartitionEntry> + Clone,
) -> Arc<str> {
    if let Some(known) = before.iter().find(|entry| entry.internal == *internal) {
        return known.shown.clone();
    }
    let is_free = |name: &Arc<str>| others.clone().all(|entry| entry.shown != *name);
    match kept.filter(|kept| is_free(kept)) {
        Some(kept) => kept.clone(),
        None if is_free(plain) => plain.clone(),
        None => internal.clone(),
    }
}

/// What is kept of names.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Names {
    /// Ids in the order in which they first came.
    resource_managers: Vec<Arc<str>>,
    /// What partitions were last called, by their internal names.
    partitions: BTreeMap<Arc<str>, Arc<str>>,
    #[serde(skip)]
    file: Option<PathBuf>,
    /// Sessions go on, and are called as before.
    #[serde(skip)]
    restoring: bool,
}

impl Names {
    /// What was kept beside these logs, to be kept from now on. What cannot be read is as if there were none: names are given anew.
    pub fn beside(logs: &std::path::Path) -> Names {
        let file = logs.join(FILE);
        let read = match std::fs::read(&file) {
            Ok(bytes) => serde_json::from_slice(&bytes).map_err(|error| error.to_string()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Names::default()),
            Err(error) => Err(error.to_string()),
        };
        let names: Names = read.unwrap_or_else(|why| {
            tracing::warn!(
                code = "names-unread",
                "{}: {why}: partitions may be called otherwise than before",
                file.display()
            );
            Names::default()
        });
        Names { file: Some(file), restoring: true, ..names }
    }

    /// All sessions that go on are there.
    pub fn restored(&mut self) {
        self.restoring = false;
    }

    /// The place of a resource manager in the order in which they first came; unknown ones are last.
    pub fn place(&self, rm: &str) -> usize {
        self.resource_managers.iter().position(|id| **id == *rm).unwrap_or(usize::MAX)
    }

    /// What a partition was called when the server ended, while sessions go on.
    pub fn before(&self, internal: &str) -> Option<&Arc<str>> {
        self.partitions.get(internal).filter(|_| self.restoring)
    }

    /// A resource manager has these partitions now.
    pub fn note(&mut self, rm: &Arc<str>, partitions: &[PartitionEntry]) {
        let came = !self.resource_managers.contains(rm);
        if came {
            self.resource_managers.push(rm.clone());
        }
        let mut changed = came;
        for entry in partitions {
            let before = self.partitions.insert(entry.internal.clone(), entry.shown.clone());
            changed |= before.as_ref() != Some(&entry.shown);
        }
        if changed {
            self.write();
        }
    }

    /// A resource manager is known no more.
    pub fn forget(&mut self, rm: &str) {
        let (count, prefix) = (self.resource_managers.len(), format!("[{rm}]"));
        self.resource_managers.retain(|id| **id != *rm);
        if self.resource_managers.len() < count {
            self.partitions.retain(|internal, _| !internal.starts_with(&prefix));
            self.write();
        }
    }

    fn write(&self) {
        let Some(file) = &self.file else { return };
        let text = serde_json::to_vec(self).unwrap_or_default();
        if let Err(error) = files::replace_unflushed(file, &text) {
            tracing::warn!(
                code = "names-unwritten",
                "{}: {error}: after a restart partitions may be called otherwise",
                file.display()
            );
        }
    }
}
