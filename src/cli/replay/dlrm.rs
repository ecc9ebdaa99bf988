//! Reads a trace of disaggregated recommendation models: instances of applications in two roles, without nodes, which
//! are made to hold a given share of the demand.

use std::{
    collections::{HashMap, HashSet},
    path::Path,
};

use super::{
    table::{Error, Row, Table},
    trace::{GangPlan, Millis, ResourceKind, Trace, TraceApp, TraceAsk, TraceNode, add},
};

const GIB: i64 = 1 << 30;
const DEVICE: i64 = 1000;
/// Cores of a made node, in milli-units; a larger ask makes the nodes larger.
const NODE_CORES: i64 = 192_000;

/// Queue of all gangs: the roles of a gang are together.
const GANG_QUEUE: &str = "models";

/// Reads the file. An application sits in one queue, and queues follow the role, so the instances of an application in
/// one role are an application of their own, `NAME-ROLE`. As gangs, what an application starts at one moment, in all
/// roles, is an application of its own, `NAME-gN`, whose task groups are role and shape.
///
/// An empty creation time means that the instance was there before the trace, an empty deletion time that it stays.
pub fn read(pods: &Path, share: f64, as_gangs: bool) -> Result<Trace, Error> {
    let types = vec![ResourceKind::Memory, ResourceKind::Vcore, ResourceKind::Gpu, ResourceKind::Disk];
    let mut trace = Trace { name: "dlrm".into(), types, ..Trace::default() };
    let mut apps: HashMap<(String, Option<Millis>), usize> = HashMap::new();
    let mut gangs_of: HashMap<String, usize> = HashMap::new();
    let mut plan = GangPlan::default();
    let mut seen = HashSet::new();
    let columns = [
        "instance_sn",
        "role",
        "app_name",
        "cpu_request",
        "gpu_request",
        "memory_request",
        "disk_request",
        "creation_time",
        "deletion_time",
    ];
    Table::open(pods, &columns)?.rows(|row| {
        let key = row.name("instance_sn")?;
        if !seen.insert(key.to_owned()) {
            return Err(row.fault("instance_sn", &format!("instance {key:?} is there already")));
        }
        let needs = vec![
            row.decimal("memory_request", GIB)?.unwrap_or(0),
            row.decimal("cpu_request", 1000)?.unwrap_or(0),
            row.decimal("gpu_request", DEVICE)?.unwrap_or(0),
            row.decimal("disk_request", GIB)?.unwrap_or(0),
        ];
        if needs.iter().all(|amount| *amount == 0) {
            return Err(row.fault("cpu_request", "the instance needs no resource at all"));
        }
        let role = row.name("role")?.to_lowercase();
        let user = row.name("app_name")?.to_owned();
        let starts = Millis(row.decimal("creation_time", 1000)?.unwrap_or(0));
        let ends = row.decimal("deletion_time", 1000)?.map(Millis);
        if ends.is_some_and(|end| end <= starts) {
            trace.left_out += 1;
            return Ok(());
        }
        let group = task_group(row, &role);
        let key_of_app = if as_gangs { (user.clone(), Some(starts)) } else { (format!("{user}-{role}"), None) };
        let app = *apps.entry(key_of_app).or_insert_with_key(|(name, _)| {
            let app = if as_gangs {
                let number = gangs_of.entry(user.clone()).or_default();
                *number += 1;
                TraceApp { id: format!("{name}-g{number}"), queue: GANG_QUEUE.to_owned(), user }
            } else {
                TraceApp { id: name.clone(), queue: role, user }
            };
            trace.apps.push(app);
            plan.sizes.push(vec![0; needs.len()]);
            trace.apps.len() - 1
        });
        plan.groups.push(group);
        add(&mut plan.sizes[app], &needs);
        trace.asks.push(TraceAsk { key: key.to_owned(), app, needs, priority: 0, starts, ends });
        Ok(())
    })?;
    trace.nodes = nodes_for(&trace, share);
    trace.gangs = as_gangs.then_some(plan);
    Ok(trace)
}

/// Role and shape, as they are written in the file.
fn task_group(row: &Row<'_>, role: &str) -> String {
    let of = |column: &str| Some(row.text(column)).filter(|text| !text.is_empty()).unwrap_or("0").to_owned();
    let [cpu, gpu, memory, disk] = ["cpu_request", "gpu_request", "memory_request", "disk_request"].map(of);
    format!("{role}-{cpu}c-{gpu}g-{memory}m-{disk}d")
}

/// Equal nodes that hold `share` of the largest demand that is there at one time, in every resource.
fn nodes_for(trace: &Trace, share: f64) -> Vec<TraceNode> {
    let wanted: Vec<i64> = trace.peak(|_| true).iter().map(|peak| (*peak as f64 * share).ceil() as i64).collect();
    let largest = |at: usize| trace.asks.iter().map(|ask| ask.needs[at]).max().unwrap_or(0);
    let vcore = trace.types.iter().position(|kind| *kind == ResourceKind::Vcore).unwrap_or(0);
    let number = (wanted[vcore] / NODE_CORES.max(largest(vcore))).max(1);
    // Whole devices, and room for the largest single ask on an empty node: else it could never be placed.
    let capacity: Vec<i64> = (0..trace.types.len())
        .map(|at| {
            let each = (wanted[at] + number - 1) / number;
            let each = if trace.types[at] == ResourceKind::Gpu { (each + DEVICE - 1) / DEVICE * DEVICE } else { each };
            each.max(largest(at))
        })
        .collect();
    (0..number).map(|at| TraceNode { id: format!("dlrm-node-{at:04}"), capacity: capacity.clone() }).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const COLUMNS: &str = "instance_sn,role,app_name,cpu_request,cpu_limit,gpu_request,gpu_limit,rdma_request,rdma_limit,memory_request,memory_limit,disk_request,disk_limit,max_instance_per_node,creation_time,scheduled_time,deletion_time\n";

    fn of(rows: &str, share: f64) -> Result<Trace, String> {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("pods.csv");
        fs::write(&file, format!("{COLUMNS}{rows}")).unwrap();
        let prefix = format!("{}/", dir.path().display());
        read(&file, share, false).map_err(|e| e.to_string().replace(&prefix, ""))
    }

    #[test]
    fn roles_are_queues_and_units_are_base_units() {
        let rows = "i0,HN,app_0,12,12,1,1,25,25,120.0,120.0,640.5,800.0,8,,,\n\
                    i1,CN,app_0,64,64,0,0,1,1,320.0,320.0,255.0,255.0,-1,475.00000000000006,623.0,1000\n";
        let trace = of(rows, 1.0).unwrap();
        let app = |id: &str, queue: &str| TraceApp { id: id.into(), queue: queue.into(), user: "app_0".into() };
        assert_eq!(trace.apps, vec![app("app_0-hn", "hn"), app("app_0-cn", "cn")]);
        assert_eq!(trace.asks[0].needs, vec![120 * GIB, 12_000, 1000, 640 * GIB + GIB / 2]);
        assert_eq!((trace.asks[0].starts, trace.asks[0].ends), (Millis(0), None));
        assert_eq!((trace.asks[1].starts, trace.asks[1].ends), (Millis(475_000), Some(Millis(1_000_000))));
    }

    #[test]
    fn what_starts_together_is_a_gang() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("pods.csv");
        let rows = "i0,HN,app_0,12,12,1,1,25,25,120.0,120.0,640.0,800.0,8,,,\n\
                    i1,CN,app_0,64,64,0,0,1,1,320.0,320.0,255.0,255.0,-1,,,\n\
                    i2,CN,app_0,64,64,,0,1,1,320.0,320.0,255.0,255.0,-1,475,,1000\n";
        fs::write(&file, format!("{COLUMNS}{rows}")).unwrap();
        let trace = read(&file, 1.0, true).unwrap();
        let app = |id: &str| TraceApp { id: id.into(), queue: "models".into(), user: "app_0".into() };
        assert_eq!(trace.apps, vec![app("app_0-g1"), app("app_0-g2")]);
        assert_eq!(trace.asks.iter().map(|ask| ask.app).collect::<Vec<_>>(), [0, 0, 1]);
        let plan = trace.gangs.unwrap();
        assert_eq!(plan.groups, ["hn-12c-1g-120.0m-640.0d", "cn-64c-0g-320.0m-255.0d", "cn-64c-0g-320.0m-255.0d"]);
        assert_eq!(plan.sizes[0], vec![440 * GIB, 76_000, 1000, 895 * GIB]);
        assert_eq!(plan.sizes[1], vec![320 * GIB, 64_000, 0, 255 * GIB]);
    }

    #[test]
    fn nodes_hold_the_share_of_the_demand() {
        let row = |at: usize| format!("i{at},CN,app,96,96,0,0,1,1,480.0,480.0,100.0,100.0,-1,,,\n");
        let rows: String = (0..100).map(row).collect();
        let trace = of(&rows, 0.8).unwrap();
        let capacity = trace.capacity();
        assert!(capacity[1] >= 7_680_000 && capacity[1] < 7_680_000 + 192_000, "{capacity:?}");
        assert!(trace.nodes.iter().all(|node| node.capacity[0] >= 480 * GIB));
    }

    #[test]
    fn faults_are_told_with_their_place() {
        let error = of("i0,HN,app_0,many,12,1,1,25,25,120.0,120.0,640.5,800.0,8,,,\n", 1.0).unwrap_err();
        assert_eq!(error, r#"pods.csv:2: column cpu_request: "many" is not a number from 0"#);
    }
}
