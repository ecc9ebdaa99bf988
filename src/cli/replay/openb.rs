//! Reads the two files of an `openb` GPU cluster trace: one of nodes, one of pods.

use std::{collections::HashSet, path::Path};

use super::{
    table::{Error, Table},
    trace::{Millis, ResourceKind, Trace, TraceApp, TraceAsk, TraceNode},
};

const MIB: i64 = 1 << 20;
/// Thousandths of a device.
const DEVICE: i64 = 1000;

/// Reads both files. A pod is an application of its own with one ask; queue and user come from its `qos`.
pub fn read(nodes: &Path, pods: &Path) -> Result<Trace, Error> {
    let types = vec![ResourceKind::Memory, ResourceKind::Vcore, ResourceKind::Gpu];
    let mut trace = Trace { name: "openb".into(), types, ..Trace::default() };
    let mut seen = HashSet::new();
    Table::open(nodes, &["sn", "cpu_milli", "memory_mib", "gpu"])?.rows(|row| {
        let id = row.name("sn")?;
        if !seen.insert(id.to_owned()) {
            return Err(row.fault("sn", &format!("node {id:?} is there already")));
        }
        let capacity = vec![row.amount("memory_mib", MIB)?, row.amount("cpu_milli", 1)?, row.amount("gpu", DEVICE)?];
        trace.nodes.push(TraceNode { id: id.to_owned(), capacity });
        Ok(())
    })?;
    seen.clear();
    let columns = ["name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli", "qos", "creation_time", "deletion_time"];
    Table::open(pods, &columns)?.rows(|row| {
        let key = row.name("name")?;
        if !seen.insert(key.to_owned()) {
            return Err(row.fault("name", &format!("pod {key:?} is there already")));
        }
        // `gpu_milli` is the share of each device that the pod takes, `num_gpu` the number of devices.
        let devices = row.count("num_gpu")?;
        let share = row.count("gpu_milli")?;
        if share > DEVICE {
            return Err(row.fault("gpu_milli", &format!("{share} is more than one device (1000)")));
        }
        if devices > 1_000_000 {
            return Err(row.fault("num_gpu", &format!("{devices} is too large")));
        }
        let needs = vec![row.amount("memory_mib", MIB)?, row.amount("cpu_milli", 1)?, devices * share];
        if needs.iter().all(|amount| *amount == 0) {
            return Err(row.fault("cpu_milli", "the pod needs no resource at all"));
        }
        let qos = row.name("qos")?.to_lowercase();
        let starts = Millis(row.amount("creation_time", 1000)?);
        let ends = match row.text("deletion_time") {
            "" => None,
            _ => Some(Millis(row.amount("deletion_time", 1000)?)),
        };
        if ends.is_some_and(|end| end <= starts) {
            trace.left_out += 1;
            return Ok(());
        }
        trace.apps.push(TraceApp { id: format!("app-{key}"), queue: qos.clone(), user: qos });
        let app = trace.apps.len() - 1;
        trace.asks.push(TraceAsk { key: key.to_owned(), app, needs, priority: 0, starts, ends });
        Ok(())
    })?;
    Ok(trace)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const NODES: &str = "sn,cpu_milli,memory_mib,gpu,model\nnode-a,64000,262144,2,T4\nnode-b,32000,131072,0,\n";
    const POD_COLUMNS: &str = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time\n";

    fn of(pods: &str) -> Result<Trace, String> {
        let dir = tempfile::tempdir().unwrap();
        let (nodes_file, pods_file) = (dir.path().join("nodes.csv"), dir.path().join("pods.csv"));
        fs::write(&nodes_file, NODES).unwrap();
        fs::write(&pods_file, format!("{POD_COLUMNS}{pods}")).unwrap();
        let prefix = format!("{}/", dir.path().display());
        read(&nodes_file, &pods_file).map_err(|e| e.to_string().replace(&prefix, ""))
    }

    #[test]
    fn devices_count_in_thousandths() {
        let trace = of("p0,12000,16384,2,1000,,LS,Running,0,100,0\np1,100,1,1,460,,BE,Pending,50,60,\n").unwrap();
        assert_eq!(trace.nodes[0].capacity, vec![262144 << 20, 64000, 2000]);
        assert_eq!(trace.asks[0].needs, vec![16384 << 20, 12000, 2000]);
        assert_eq!(trace.asks[1].needs, vec![1 << 20, 100, 460]);
        assert_eq!(trace.apps[1], TraceApp { id: "app-p1".into(), queue: "be".into(), user: "be".into() });
        assert_eq!((trace.asks[1].starts, trace.asks[1].ends), (Millis(50_000), Some(Millis(60_000))));
    }

    #[test]
    fn a_pod_without_duration_is_left_out() {
        let trace = of("p0,12000,16384,0,0,,LS,Failed,7,7,7\n").unwrap();
        assert_eq!((trace.asks.len(), trace.apps.len(), trace.left_out), (0, 0, 1));
    }

    #[test]
    fn faults_are_told_with_their_place() {
        let message = |rows: &str| of(rows).unwrap_err();
        assert_eq!(
            message("p0,1200x,1,0,0,,LS,Running,0,1,0\n"),
            r#"pods.csv:2: column cpu_milli: "1200x" is not a whole number from 0"#
        );
        assert_eq!(message("p0,1,1,0,0,,,Running,0,1,0\n"), "pods.csv:2: column qos: is empty");
        assert_eq!(
            message("p0,1,1,1,1001,,LS,Running,0,1,0\n"),
            "pods.csv:2: column gpu_milli: 1001 is more than one device (1000)"
        );
        assert_eq!(message("p0,1,1,0\n"), "pods.csv:2: has 4 values, the header has 11");
    }
}
