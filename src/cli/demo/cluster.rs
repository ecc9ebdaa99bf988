//! The cluster of the demo: its queues, its nodes, and the rack that is being drained.

use std::collections::BTreeMap;

use crate::si::v1::{NodeInfo, NodeRequest, Quantity, Resource, node_info::ActionFromRm};

/// GPUs, as Kubernetes calls them.
pub const GPU: &str = "nvidia.com/gpu";
/// Racks in all; the last two have GPUs.
const RACKS: u32 = 10;
const GPU_RACKS: u32 = 2;
/// Nodes of a rack.
const NODES: u32 = 20;
/// The rack that is being drained.
const DRAINED: u32 = 7;

/// The queues of four teams, and one for everybody.
pub const QUEUES: &str = "\
partitions:
  - name: default
    preemption:
      enabled: true
    queues:
      - name: root
        submitacl: \"*\"
        queues:
          - name: web
            properties:
              priority.offset: \"100\"
            resources:
              guaranteed: {vcore: 2000, memory: 8Ti}
              max: {vcore: 5000, memory: 20Ti}
          - name: etl
            maxapplications: 40
            resources:
              guaranteed: {vcore: 3000, memory: 12Ti}
              max: {vcore: 7000, memory: 30Ti}
            limits:
              - limit: one user must not take all of it
                users: [dan]
                maxresources: {memory: 2Ti}
          - name: research
            parent: true
            resources:
              max: {nvidia.com/gpu: 320}
            queues:
              - name: training
                resources:
                  guaranteed: {nvidia.com/gpu: 200}
                  max: {nvidia.com/gpu: 272}
              - name: notebooks
                resources:
                  guaranteed: {nvidia.com/gpu: 32}
                  max: {nvidia.com/gpu: 64}
          - name: adhoc
            resources:
              max: {vcore: 1500, memory: 6Ti}
            limits:
              - limit: everybody a little
                users: [\"*\"]
                maxresources: {vcore: 300}
";

/// What an ask needs: milli-cores, bytes, GPUs.
pub fn resource(milli: i64, bytes: i64, gpus: i64) -> Resource {
    let entries = [("vcore", milli), ("memory", bytes), (GPU, gpus), ("pods", 1)];
    let entries = entries.into_iter().filter(|(_, value)| *value != 0);
    Resource { resources: entries.map(|(name, value)| (name.to_owned(), Quantity { value })).collect() }
}

/// All nodes.
pub fn nodes(rm: &str) -> NodeRequest {
    let all = (1..=RACKS).flat_map(|rack| (1..=NODES).map(move |number| (rack, number)));
    let nodes = all.map(|(rack, number)| {
        let (milli, gib, gpus) = if has_gpus(rack) { (96_000, 1024, 8) } else { (64_000, 256, 0) };
        let mut capacity = resource(milli, gib << 30, gpus);
        capacity.resources.insert("pods".to_owned(), Quantity { value: 110 });
        NodeInfo {
            attributes: BTreeMap::from([
                ("si/hostname".to_owned(), name(rack, number)),
                ("si/rackname".to_owned(), format!("rack-{rack:02}")),
            ]),
            schedulable_resource: Some(capacity),
            ..node(rack, number, ActionFromRm::Create)
        }
    });
    NodeRequest { nodes: nodes.collect(), rm_id: rm.to_owned() }
}

/// One rack takes nothing new.
pub fn drain(rm: &str) -> NodeRequest {
    let nodes = (1..=NODES).map(|number| node(DRAINED, number, ActionFromRm::DrainNode));
    NodeRequest { nodes: nodes.collect(), rm_id: rm.to_owned() }
}

fn node(rack: u32, number: u32, action: ActionFromRm) -> NodeInfo {
    NodeInfo { node_id: name(rack, number), action: action.into(), ..Default::default() }
}

fn has_gpus(rack: u32) -> bool {
    rack > RACKS - GPU_RACKS
}

fn name(rack: u32, number: u32) -> String {
    format!("{}-r{rack:02}-n{number:02}", if has_gpus(rack) { "gpu" } else { "cpu" })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config;

    #[test]
    fn the_configuration_is_valid_and_the_cluster_is_what_the_welcome_says() {
        let loaded = config::load(QUEUES).expect("valid");
        assert!(loaded.check_rules().is_ok() && loaded.warnings.is_empty(), "{loaded:?}");
        assert!(QUEUES.contains(&format!("users: [{}]", super::super::teams::LIMITED)));
        let nodes = nodes("demo").nodes;
        let gpus = |node: &NodeInfo| {
            node.schedulable_resource.as_ref().and_then(|all| all.resources.get(GPU)).map_or(0, |gpu| gpu.value)
        };
        assert_eq!((nodes.len(), nodes.iter().map(gpus).sum::<i64>()), (200, 320));
        assert!(nodes.iter().any(|node| node.node_id == "cpu-r07-n01"));
        assert_eq!(drain("demo").nodes.len(), 20);
    }
}
