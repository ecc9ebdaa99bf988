//! What is left on a node that was to be empty by now.

use std::{collections::BTreeSet, fmt, sync::Arc};

use super::{Cx, Partition};
use crate::{
    event::{Change, Detail, EventKind},
    hostlist,
    words::plural,
};

/// Applications that are named.
const NAMED: usize = 5;

/// Allocations on a node, and whose they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Left {
    /// How many.
    pub allocations: usize,
    /// Their applications by id, the first few of them.
    pub applications: Vec<Arc<str>>,
    /// How many more applications.
    pub more: usize,
}

impl fmt::Display for Left {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Left { allocations, applications, more } = self;
        write!(f, "{} of ", plural(*allocations, "allocation"))?;
        f.write_str(&applications.join(", "))?;
        if *more > 0 { write!(f, " and {more} more") } else { Ok(()) }
    }
}

impl Partition {
    /// What is left on a node; `None` where nothing is, or the node is not there. What the shim is still asked about counts.
    pub fn left_on(&self, node: &str) -> Option<Left> {
        let row = self.nodes.get(*self.node_by_id.get(node)?)?;
        let of = row.allocs.iter().filter_map(|ix| self.apps.get(self.allocs.get(*ix)?.app));
        let applications: BTreeSet<&Arc<str>> = of.map(|app| &app.id).collect();
        let more = applications.len().saturating_sub(NAMED);
        let applications = applications.into_iter().take(NAMED).cloned().collect();
        (!row.allocs.is_empty()).then_some(Left { allocations: row.allocs.len(), applications, more })
    }

    /// The deadline of the drain of these nodes has passed. It is told once, whoever remembers it after a restart, or sets another.
    pub(super) fn tell_overdue(&mut self, nodes: &[Arc<str>], cx: &mut Cx) {
        for node in nodes {
            if let Some(left) = self.left_on(node) {
                let row = self.node_by_id.get(node).and_then(|ix| self.nodes.get(*ix));
                let host = row.map_or_else(|| node.clone(), |row| row.spec.host());
                let host: Arc<str> = hostlist::safe_name(&host).into();
                if let Some(deadline) = self.drain_notes.get(&host).and_then(|note| note.deadline)
                    && self.overdue_told.insert((host, node.clone()), deadline) == Some(deadline)
                {
                    continue;
                }
                let text = format!("the deadline of its drain has passed: {left} still there");
                let change = (Change::Set, Detail::NodeSchedulable);
                cx.message(EventKind::Node, node, &"".into(), change, &text, None);
            }
        }
    }
}
