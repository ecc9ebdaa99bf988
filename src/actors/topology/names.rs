//! Names under which readers see partitions of several resource managers.

use std::sync::Arc;

use crate::actors::directory::PartitionEntry;

/// The plain name for the resource manager that has it first, `[rm]name` for later ones. A name once given stays.
pub fn shown<'a>(
    internal: &Arc<str>,
    plain: &Arc<str>,
    before: &[PartitionEntry],
    mut others: impl Iterator<Item = &'a PartitionEntry>,
) -> Arc<str> {
    if let Some(known) = before.iter().find(|entry| entry.internal == *internal) {
        return known.shown.clone();
    }
    if others.any(|entry| entry.shown == *plain) { internal.clone() } else { plain.clone() }
}
