//! The journal of a partition whose log is carried from another server into the data directory of a stopped one: what operators told
//! there is written into it before it is next read.

use std::{collections::BTreeSet, path::Path};

use super::{Batch, disk, log::Log, parted, to_store};
use crate::{
    domain::{
        journal::{DEFAULT_LIMIT, Moment, Output, Settings},
        types::Nanos,
    },
    messages::journal::Standing,
    store::{queue_orders, resource_set},
};

/// See the module. `base`: the directory of all journals. Blocks.
///
/// # Errors
/// What is there is damaged, or cannot be written.
pub fn inherit(base: &Path, partition: &str, standing: Standing, now: Nanos) -> Result<(), String> {
    let Standing { hosts, notes, orders } = standing;
    let dir = disk::directory(base, partition);
    let loaded = disk::load(&dir, Settings::default(), DEFAULT_LIMIT);
    let (mut journal, known) = (loaded.journal, loaded.orders);
    if let Some(why) = loaded.damage.first().or(known.broken.as_ref()).or(loaded.passing.as_ref()) {
        return Err(format!("{}: {why}", dir.display()));
    }
    let mut log = Log::new(DEFAULT_LIMIT);
    loaded.records.into_iter().for_each(|record| log.push(record));
    log.all_stored();
    let now = Moment { wall: now, steady: Nanos::ZERO };
    let hosts: BTreeSet<_> = hosts.into_iter().collect();
    journal.meet(&hosts, now);
    let mut out = Vec::new();
    journal.flush(now, &mut out);
    let notes = notes.into_iter().collect();
    // No node is registered: hosts tell which.
    let agreed =
        journal.plan_agreement(&BTreeSet::new(), &hosts, &notes, now).map_err(|refusal| refusal.to_string())?;
    let is_said = !agreed.is_empty();
    out.extend(agreed.into_iter().map(Output::Event));
    let (events, _) = parted(out);
    let batch = Batch::of(&events, &journal);
    let mut directory = loaded.directory?;
    let r = batch.r.clone().unwrap_or_else(|| resource_set::encode(&journal.resource_set()).into());
    if is_said && let Some((r, records)) = to_store(&log, directory.is_kept(), batch.durable(), &r) {
        directory.write(r.as_deref(), &records, &disk::stamp())?;
    }
    let orders = orders.into_iter().filter_map(|(queue, order)| Some((queue, order?))).collect();
    if orders != known.orders {
        queue_orders::write(&dir, known.change + 1, &orders)?;
    }
    Ok(())
}
