//! `callboard resource drain --wait`: until nothing is left on the targets; when the time is over, what still runs is told.

use std::{collections::BTreeSet, io::Write};

use serde::Deserialize;
use tokio::time::Instant;

use super::state::{Cluster, Target};
use crate::{
    cli::{
        door::{Door, Error},
        out,
        wait::{self, Named},
    },
    domain::{
        hostlist::{HostList, safe_name},
        idset::IdSet,
    },
    messages::wait::Kind,
};

#[derive(Deserialize)]
struct Nodes {
    nodes: Vec<Node>,
}

#[derive(Deserialize)]
struct Node {
    id: String,
    #[serde(default)]
    rank: Option<u32>,
    #[serde(default)]
    offline: bool,
}

/// Waits for the nodes of these targets, which were drained just now. Gives the exit status.
pub async fn wait(door: &Door, targets: &str, end: Instant, out: &mut dyn Write, err: &mut dyn Write) -> u8 {
    match wait::within(door, end, ask(door, targets)).await.flatten() {
        Ok((_, nodes, ranks)) => {
            // On those that are away there is nothing.
            let named =
                nodes.into_iter().filter(|node| !node.offline && node.rank.is_some_and(|rank| ranks.contains(&rank)));
            let named: Vec<Named> = named.map(|node| Named { kind: Kind::Node, name: node.id }).collect();
            wait::wait(door, &named, "drained", end, out, err).await
        }
        Err(error) => out::fail(err, &error),
    }
}

/// Those of these targets that an operator drained already.
pub async fn held(door: &Door, targets: &str) -> Result<IdSet, Error> {
    let (cluster, _, ranks) = ask(door, targets).await?;
    let held = |rank: &u32| cluster.0.get(*rank as usize).is_some_and(|target| target.by_operator);
    Ok(ranks.into_iter().filter(held).collect())
}

/// All targets, the nodes there, and the ranks that are meant.
async fn ask(door: &Door, targets: &str) -> Result<(Cluster, Vec<Node>, BTreeSet<u32>), Error> {
    let cluster = Cluster::ask(door).await?;
    let broken = |why: String| Error { text: format!("the server sent what are no nodes: {why}"), status: None };
    let text = door.get("nodes").await?.text().await.map_err(|error| broken(error.to_string()))?;
    let Nodes { nodes } = serde_json::from_str(&text).map_err(|error| broken(error.to_string()))?;
    let ranks = ranks(&cluster, &nodes, targets);
    Ok((cluster, nodes, ranks))
}

/// As the server reads targets: an idset, or else a hostlist, of which each host stands for all its ranks, and what is no host,
/// or one where nothing is while a node is called so, for the node of that id.
fn ranks(cluster: &Cluster, nodes: &[Node], targets: &str) -> BTreeSet<u32> {
    if let Ok(ids) = IdSet::parse(targets) {
        // Only those that are there: nobody counts up to a billion.
        return (0..cluster.0.len() as u32).filter(|rank| ids.contains(*rank)).collect();
    }
    let list: BTreeSet<String> = HostList::parse(targets).map(|names| names.iter().collect()).unwrap_or_default();
    let hosts = cluster.0.iter().map(|target| target.host.clone());
    let known: BTreeSet<String> =
        hosts.chain(nodes.iter().flat_map(|node| [node.id.clone(), safe_name(&node.id)])).collect();
    // Where some of a list are not known it is one name with what a hostlist cannot have in it.
    let odd = if !list.is_empty() && list.is_subset(&known) {
        BTreeSet::new()
    } else {
        named(cluster, nodes, &[safe_name(targets)].into())
    };
    if odd.is_empty() { named(cluster, nodes, &list) } else { odd }
}

/// The ranks of these hosts and nodes, which are named as in a hostlist.
fn named(cluster: &Cluster, nodes: &[Node], names: &BTreeSet<String>) -> BTreeSet<u32> {
    let is_named = |node: &Node| names.contains(&node.id) || names.contains(&safe_name(&node.id));
    let hosts: BTreeSet<&str> = cluster.0.iter().map(|target| &*target.host).collect();
    let online: BTreeSet<&str> = cluster.0.iter().filter(|target| target.online).map(|target| &*target.host).collect();
    let is_there = |node: &&Node| !node.offline && !online.contains(&*node.id);
    let of_nodes = nodes.iter().filter(|node| is_named(node) && node.rank.is_some());
    let of_nodes: Vec<&Node> = of_nodes.filter(|node| is_there(node) || !hosts.contains(&*node.id)).collect();
    let moved: BTreeSet<&str> = of_nodes.iter().map(|node| &*node.id).collect();
    let is_meant = |target: &Target| names.contains(&target.host) && !moved.contains(&*target.host);
    let of_hosts = (0..).zip(&cluster.0).filter(|(_, target)| is_meant(target)).map(|(rank, _)| rank);
    of_hosts.chain(of_nodes.iter().filter_map(|node| node.rank)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_ranks_or_hosts() {
        let target = |host: &str| Target {
            host: host.to_owned(),
            online: true,
            torpid: false,
            allocated: false,
            drained: None,
            by_operator: false,
            cores: 1,
            gpus: 0,
        };
        let cluster = Cluster(["a1", "a2", "b", "a1"].map(target).into());
        let node = |id: &str, rank| Node { id: id.to_owned(), rank: Some(rank), offline: false };
        let nodes = [node("i-0", 0), node("a1", 1), node("i-3", 3)];
        let found = |text: &str| ranks(&cluster, &nodes, text).into_iter().collect::<Vec<_>>();
        assert_eq!((found("0-1,3"), found("a[1-2]"), found("b")), (vec![0, 1, 3], vec![0, 1, 3], vec![2]));
        // A host comes before a node of that name.
        assert_eq!((found("i-3"), found("i-[0-9],b"), found("a1")), (vec![3], vec![0, 2, 3], vec![0, 3]));
        // What a hostlist cannot have in it is escaped there, or stands alone.
        let cluster_of = |hosts: [&str; 2]| Cluster(hosts.map(target).into());
        let odd = [node("a b", 0), node("ü,1", 1)];
        let found_in = |text: &str| ranks(&cluster_of(["a%20b", "x"]), &odd, text).into_iter().collect::<Vec<_>>();
        assert_eq!(["a b", "a%20b", "ü,1", "a%20b,%C3%BC%2C1"].map(found_in), [vec![0], vec![0], vec![1], vec![0, 1]]);
        // As the server takes it: a list if all of it is known, else one name.
        let odd = [node("a1", 0), node("a[1-9]", 1)];
        let found_in =
            |text: &str| ranks(&cluster_of(["a1", "a%5B1-9%5D"]), &odd, text).into_iter().collect::<Vec<_>>();
        assert_eq!(["a1", "a[1-9]", "a1,a%5B1-9%5D"].map(found_in), [vec![0], vec![1], vec![0, 1]]);
        // Unless nothing is there any more, while the node is somewhere else.
        let mut cluster = cluster;
        cluster.0[0].online = false;
        cluster.0[3].online = false;
        assert_eq!(ranks(&cluster, &nodes, "a1,b").into_iter().collect::<Vec<_>>(), [1, 2]);
    }
}
