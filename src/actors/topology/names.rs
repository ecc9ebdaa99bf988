//! Names under which readers see partitions of several resource managers.

use std::sync::Arc;

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
