//! `callboard resource drain --wait`: until nothing is left on the targets; when the time is over, what still runs is told.

use std::{collections::BTreeSet, io::Write};

use serde::Deserialize;
use tokio::time::Instant;

use super::state::Cluster;
use crate::{
    cli::{
        door::{Door, Error},
        wait::{self, Named},
    },
    domain::{hostlist::HostList, idset::IdSet},
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
    match wait::within(door, end, nodes(door, targets)).await.flatten() {
        Ok(nodes) => wait::wait(door, &nodes, "drained", end, out, err).await,
        Err(error) => {
            // Where nobody reads the errors, the status still tells.
            let _ = writeln!(err, "callboard: {error}");
            1
        }
    }
}

/// The nodes that are registered at these targets: on the others there is nothing.
async fn nodes(door: &Door, targets: &str) -> Result<Vec<Named>, Error> {
    let cluster = Cluster::ask(door).await?;
    let broken = |why: String| Error { text: format!("the server sent what are no nodes: {why}"), status: None };
    let text = door.get("nodes").await?.text().await.map_err(|error| broken(error.to_string()))?;
    let Nodes { nodes } = serde_json::from_str(&text).map_err(|error| broken(error.to_string()))?;
    let ranks = ranks(&cluster, targets);
    let named = nodes.into_iter().filter(|node| !node.offline && node.rank.is_some_and(|rank| ranks.contains(&rank)));
    Ok(named.map(|node| Named { kind: Kind::Node, name: node.id }).collect())
}

/// As the server reads targets: an idset, or else a hostlist, of which each host stands for all its ranks.
fn ranks(cluster: &Cluster, targets: &str) -> BTreeSet<u32> {
    if let Ok(ids) = IdSet::parse(targets) {
        return ids.iter().collect();
    }
    let hosts: BTreeSet<String> = HostList::parse(targets).map(|hosts| hosts.iter().collect()).unwrap_or_default();
    (0..).zip(&cluster.0).filter(|(_, target)| hosts.contains(&target.host)).map(|(rank, _)| rank).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::resource::state::Target;

    #[test]
    fn targets_are_ranks_or_hosts() {
        let target = |host: &str| Target {
            host: host.to_owned(),
            online: true,
            torpid: false,
            allocated: false,
            drained: None,
            cores: 1,
            gpus: 0,
        };
        let cluster = Cluster(["a1", "a2", "b", "a1"].map(target).into());
        let found = |text: &str| ranks(&cluster, text).into_iter().collect::<Vec<_>>();
        assert_eq!((found("0-1,3"), found("a[1-2]"), found("b")), (vec![0, 1, 3], vec![0, 1, 3], vec![2]));
    }
}
