//! A partition that goes on after a restart: its conversations, what it counts, and what its journal is told.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use super::PartitionActor;
use crate::{
    domain::{Partition, command::Command, effect::NodeEffect, journal::Fact, node::Node, queue_order::QueueOrder},
    messages::{
        journal::{Agree, KeepOrders, Standing},
        recorded::Talks,
    },
};

impl PartitionActor {
    /// What is beside the partition goes on, too.
    pub(super) fn restore(&mut self, talks: Talks, shared: bool) {
        self.conversations.restore(talks, self.partition.node_by_id.keys());
        self.meter.restore(&self.partition);
        self.link.is_restored(shared);
    }

    /// Another server may have led the partition before: the journal of this one hears what holds.
    pub(super) fn hand_down(&mut self, standing: &Orders) {
        let nodes = || self.partition.nodes.values();
        self.link.facts.extend(nodes().map(registered));
        let nodes = nodes().filter(|node| node.operator_drained).map(|node| node.id().clone()).collect();
        let hosts = self.partition.held_hosts().cloned().collect();
        let notes = self.partition.drain_notes().map(|(host, note)| (host.clone(), note.clone())).collect();
        self.link.flush();
        self.link.agree(Agree { nodes, hosts, notes });
        self.keep_orders(standing);
    }

    /// The journal keeps the orders to queues that the partition has, where it knows others.
    pub(super) fn keep_orders(&self, standing: &Orders) {
        let change = difference(&held(standing), &self.partition.queue_orders().collect());
        if change.is_empty() {
            return;
        }
        if let Some(keep) = self.link.keep(KeepOrders(change)) {
            // The journal says what is wrong where it cannot keep it; the log has it.
            actix::spawn(keep);
        }
    }

    /// The journal begins a session with the hosts that operators drained, and hears of the nodes that are here already.
    /// What operators said while the partition did not hear it, or said before and it was not recorded, holds.
    pub(super) fn agree(&mut self, hosts: &[Arc<str>]) -> Vec<Command> {
        self.link.facts.extend(facts_of(&self.partition));
        self.link.flush();
        held_no_more(&self.partition, hosts).into_iter().collect()
    }
}

/// What operators told a partition.
pub(crate) fn standing_of(partition: &Partition) -> Standing {
    Standing {
        hosts: partition.held_hosts().cloned().collect(),
        notes: partition.drain_notes().map(|(host, note)| (host.clone(), note.clone())).collect(),
        orders: partition.queue_orders().map(|(path, order)| (path.clone(), Some(order.clone()))).collect(),
    }
}

/// What the journal hears of a partition that was there before this process.
pub(crate) fn facts_of(partition: &Partition) -> Vec<Fact> {
    let mut facts = Vec::new();
    for node in partition.nodes.values() {
        facts.push(registered(node));
        if node.operator_drained {
            // The journal corrects that where no operator drained it.
            facts.push(Fact::Node(NodeEffect::Held { node: node.id().clone() }));
        }
    }
    facts
}

/// Hosts that the partition holds back, and no operator has drained.
pub(crate) fn held_no_more(partition: &Partition, hosts: &[Arc<str>]) -> Option<Command> {
    let drained: BTreeSet<_> = hosts.iter().collect();
    let stale: Vec<_> = partition.held_hosts().filter(|host| !drained.contains(host)).cloned().collect();
    (!stale.is_empty()).then_some(Command::HoldHosts { hosts: stale, held: false })
}

/// The orders to queues that stand, where the partition knows others: those that came last were not recorded.
pub(crate) fn other_orders(partition: &Partition, standing: &Orders) -> Orders {
    difference(&partition.queue_orders().collect(), &held(standing))
}

/// Orders by the path of their queue; `None` takes one back.
type Orders = Vec<(Arc<str>, Option<Arc<QueueOrder>>)>;

type Held<'a> = BTreeMap<&'a Arc<str>, &'a Arc<QueueOrder>>;

fn held(orders: &Orders) -> Held<'_> {
    orders.iter().filter_map(|(path, order)| Some((path, order.as_ref()?))).collect()
}

/// The change that turns `from` into `to`.
fn difference(from: &Held<'_>, to: &Held<'_>) -> Orders {
    let gone = from.keys().filter(|path| !to.contains_key(*path)).map(|path| (Arc::clone(path), None));
    let new = to.iter().filter(|(path, order)| from.get(*path) != Some(*order));
    gone.chain(new.map(|(path, order)| (Arc::clone(path), Some(Arc::clone(order))))).collect()
}

fn registered(node: &Node) -> Fact {
    let host = match node.spec.host_name() {
        "" => node.id().clone(),
        host => host.into(),
    };
    Fact::Node(NodeEffect::Registered {
        node: node.id().clone(),
        host,
        capacity: node.capacity.clone().into(),
        schedulable: node.rm_schedulable,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{queue_order::OrderKind, types::Nanos};

    #[test]
    fn orders_that_differ_go_come_or_change() {
        let order = |reason: &str| {
            let (by, when) = ("alice".into(), "2027-01-15T08:00:00Z".into());
            Some(Arc::new(QueueOrder { kind: OrderKind::Stop, by, at: Nanos::ZERO, when, reason: reason.into() }))
        };
        let row = |path: &str, reason| (Arc::from(path), order(reason));
        let these = vec![row("root.a", "x"), row("root.b", "x"), row("root.c", "x")];
        let those = vec![row("root.a", "x"), row("root.c", "y"), row("root.d", "x")];
        let expected = vec![("root.b".into(), None), row("root.c", "y"), row("root.d", "x")];
        assert_eq!(difference(&held(&these), &held(&those)), expected);
    }
}
