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
        entry.addr.rename(told(&entry.shown));
    }
}

/// What a partition that is shown so is called in texts.
pub fn told(shown: &str) -> String {
    format!("partition '{shown}'")
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use actix::prelude::*;

    use crate::{
        actors::{
            event::EventActor,
            topology::{Registration, Topology},
        },
        messages::partition::GetSnapshot,
    };

    #[actix::test]
    async fn a_partition_that_hangs_is_named_as_it_is_shown_at_all_servers() {
        let (other, default) = (Arbiter::new(), crate::config::load("").expect("valid"));
        let topology =
            Topology::new(vec![other.handle()], Topology::launcher(), EventActor::default().start(), default);
        for (rm, revision) in [("rm-1", 20), ("rm-2", 10)] {
            topology.first_came(rm, Some(revision));
            topology.register(Registration { rm: rm.into(), ..Registration::default() }).await.expect("registered");
        }
        let ((go_on, until), (begun, begins)) = (mpsc::channel::<()>(), mpsc::channel());
        other.spawn_fn(move || {
            begun.send(()).unwrap_or_default();
            until.recv().unwrap_or_default();
        });
        begins.recv().expect("it hangs");
        tokio::time::pause();
        let listing = topology.directory.get();
        let names: Vec<&str> = listing.partitions.iter().map(|entry| &*entry.shown).collect();
        assert_eq!(names, ["[rm-1]default", "default"]);
        for entry in &listing.partitions {
            let why = entry.addr.send(GetSnapshot).await.err().expect("it hangs").to_string();
            assert!(why.starts_with(&format!("partition '{}' has not", entry.shown)), "{why}");
        }
        drop(go_on);
    }
}
