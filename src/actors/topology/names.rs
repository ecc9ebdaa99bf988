//! Names under which readers see partitions of several resource managers.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use crate::actors::directory::PartitionEntry;

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

/// Names that are the same at each of several servers, whichever leads what: of those of one plain name, the partition of the
/// resource manager that came first has it.
pub fn share<'a>(all: impl Iterator<Item = &'a mut PartitionEntry>, came: &BTreeMap<Arc<str>, i64>) {
    let mut all: Vec<&mut PartitionEntry> = all.collect();
    let place = |entry: &PartitionEntry| (came.get(&entry.rm).copied().unwrap_or(i64::MAX), entry.rm.clone());
    all.sort_by_cached_key(|entry| place(entry));
    let mut given: BTreeSet<Arc<str>> = BTreeSet::new();
    for entry in all {
        let plain: Arc<str> = entry.name().into();
        let is_first = given.insert(plain.clone());
        entry.shown = if is_first { plain } else { entry.internal.clone() };
    }
}
