//! What operators had told partitions of a session that ended, or that a configuration left out: the next of that name begins with
//! it, whichever server leads then.

use std::{collections::BTreeMap, sync::Arc};

use serde::{Deserialize, Serialize};

use crate::{
    domain::{
        journal::DrainNote,
        queue_order::{OrderKind, QueueOrder},
        types::Nanos,
    },
    messages::journal::Standing,
};

/// See the module; by the internal names of partitions.
pub type SavedStandings = BTreeMap<Arc<str>, SavedStanding>;

/// Of one partition.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SavedStanding {
    /// Hosts where they drained something.
    hosts: Vec<Arc<str>>,
    notes: Vec<SavedNote>,
    orders: Vec<SavedOrder>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SavedNote {
    host: Arc<str>,
    since: i64,
    reason: Option<Arc<str>>,
    deadline: Option<i64>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SavedOrder {
    queue: Arc<str>,
    kind: String,
    by: Arc<str>,
    at: i64,
    when: Arc<str>,
    reason: Arc<str>,
}

impl SavedStanding {
    /// As it is recorded.
    pub fn of(standing: &Standing) -> SavedStanding {
        let notes = standing.notes.iter().map(|(host, note)| SavedNote {
            host: host.clone(),
            since: note.since.0,
            reason: note.reason.clone(),
            deadline: note.deadline.map(|at| at.0),
        });
        let orders = standing.orders.iter().filter_map(|(queue, order)| {
            let QueueOrder { kind, by, at, when, reason } = (**order.as_ref()?).clone();
            Some(SavedOrder { queue: queue.clone(), kind: kind.name().to_owned(), by, at: at.0, when, reason })
        });
        SavedStanding { hosts: standing.hosts.clone(), notes: notes.collect(), orders: orders.collect() }
    }

    /// As a partition begins with it.
    ///
    /// # Errors
    /// An order is of a kind that is not known.
    pub fn standing(self) -> Result<Standing, String> {
        let notes = self.notes.into_iter().map(|SavedNote { host, since, reason, deadline }| {
            (host, DrainNote { since: Nanos(since), reason, deadline: deadline.map(Nanos) })
        });
        let orders = self.orders.into_iter().map(|SavedOrder { queue, kind, by, at, when, reason }| {
            let kind = OrderKind::parse(&kind).ok_or_else(|| format!("orders of kind {kind} are not known"))?;
            Ok((queue, Some(Arc::new(QueueOrder { kind, by, at: Nanos(at), when, reason }))))
        });
        Ok(Standing { hosts: self.hosts, notes: notes.collect(), orders: orders.collect::<Result<_, String>>()? })
    }
}
