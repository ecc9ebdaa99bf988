//! What operators say, in a cluster: it is answered when it is in etcd. A server that goes on knows of nothing else.

use actix::Addr;

use super::gone;
use crate::{
    actors::{directory::PartitionEntry, topology::Topology},
    http::problem::Problem,
    messages::{
        partition::AwaitRecord,
        rm::{Refusal, RefusalKind},
    },
};

/// Waits until what a partition was told before holds for whichever server leads it.
pub async fn counts(topology: &Topology, entry: &PartitionEntry) -> Result<(), Problem> {
    if topology.leaders().is_none() {
        // Its journal is on the disk, and goes before the log.
        return Ok(());
    }
    let unknown = |why: &str| {
        let detail =
            format!("{why}; whether that server knows of what was said here is not certain: look, and say it again");
        Problem::from(Refusal::new(RefusalKind::Closing, detail))
    };
    let Some(handle) = topology.find(&entry.rm) else { return Err(unknown("its resource manager was forgotten")) };
    handle.recorded(Addr::send(&entry.addr, AwaitRecord)).await?.map_err(gone)?;
    handle.is_here().map_err(|refusal| unknown(&refusal.detail))
}
