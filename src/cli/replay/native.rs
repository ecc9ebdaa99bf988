//! Callboard's own trace format: one CSV file with nodes and asks.

use std::{collections::HashMap, fmt::Write, io::Read, path::Path};

use super::{
    table::{Error, Table},
    trace::{Millis, ResourceKind, Trace, TraceApp, TraceAsk, TraceNode},
};

/// Columns. A node has `kind` node, `id` and the resources; an ask has `kind` ask and all of them.
pub const COLUMNS: [&str; 11] = [
    "kind",
    "id",
    "application",
    "queue",
    "user",
    "cpu_milli",
    "memory_mib",
    "gpu_milli",
    "priority",
    "start_s",
    "end_s",
];

const TYPES: [ResourceKind; 3] = [ResourceKind::Memory, ResourceKind::Vcore, ResourceKind::Gpu];
const MIB: i64 = 1 << 20;

/// Reads a trace; `file` is the name for errors.
pub fn read(name: &str, file: &Path, reader: Box<dyn Read>) -> Result<Trace, Error> {
    let mut trace = Trace { name: name.to_owned(), types: TYPES.to_vec(), ..Trace::default() };
    let mut apps: HashMap<String, usize> = HashMap::new();
    let mut seen: HashMap<String, &'static str> = HashMap::new();
    Table::read(file, reader, &COLUMNS)?.rows(|row| {
        let id = row.name("id")?;
        let resources = vec![row.amount("memory_mib", MIB)?, row.amount("cpu_milli", 1)?, row.amount("gpu_milli", 1)?];
        let kind = match row.text("kind") {
            "node" => "node",
            "ask" => "ask",
            other => return Err(row.fault("kind", &format!("{other:?} is neither node nor ask"))),
        };
        if seen.insert(format!("{kind} {id}"), kind).is_some() {
            return Err(row.fault("id", &format!("{kind} {id:?} is there already")));
        }
        if kind == "node" {
            trace.nodes.push(TraceNode { id: id.to_owned(), capacity: resources });
            return Ok(());
        }
        if resources.iter().all(|amount| *amount == 0) {
            return Err(row.fault("cpu_milli", "the ask needs no resource at all"));
        }
        let app = TraceApp {
            id: row.name("application")?.to_owned(),
            queue: row.name("queue")?.to_lowercase(),
            user: row.name("user")?.to_owned(),
        };
        let at = *apps.entry(app.id.clone()).or_insert_with(|| {
            trace.apps.push(app.clone());
            trace.apps.len() - 1
        });
        if trace.apps[at] != app {
            let known = &trace.apps[at];
            let reason = format!("{} had queue {} and user {} above", app.id, known.queue, known.user);
            return Err(row.fault("application", &reason));
        }
        let priority = match row.text("priority") {
            "" => 0,
            text => text.parse().map_err(|_| row.fault("priority", &format!("{text:?} is not a 32-bit number")))?,
        };
        let starts = Millis(row.amount("start_s", 1000)?);
        let ends = if row.text("end_s").is_empty() { None } else { Some(Millis(row.amount("end_s", 1000)?)) };
        if ends.is_some_and(|end| end <= starts) {
            return Err(row.fault("end_s", "is not after start_s"));
        }
        trace.asks.push(TraceAsk { key: id.to_owned(), app: at, needs: resources, priority, starts, ends });
        Ok(())
    })?;
    Ok(trace)
}

/// Writes a trace in this format, with a comment above.
pub fn write(trace: &Trace, comment: &str) -> String {
    let mut text = String::new();
    for line in comment.lines() {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "# {line}");
    }
    let _ = writeln!(text, "{}", COLUMNS.join(","));
    let amount = |amounts: &[i64], kind: ResourceKind| {
        let at = trace.types.iter().position(|t| *t == kind);
        let unit = if kind == ResourceKind::Memory { MIB } else { 1 };
        at.map(|at| amounts[at] / unit).filter(|a| *a != 0).map_or(String::new(), |a| a.to_string())
    };
    let resources = |amounts: &[i64]| {
        let [memory, cpu, gpu] = TYPES.map(|kind| amount(amounts, kind));
        format!("{cpu},{memory},{gpu}")
    };
    for node in &trace.nodes {
        let _ = writeln!(text, "node,{},,,,{},,,", node.id, resources(&node.capacity));
    }
    for ask in &trace.asks {
        let app = &trace.apps[ask.app];
        let end = ask.ends.map_or(String::new(), |end| (end.0 / 1000).to_string());
        let _ = writeln!(
            text,
            "ask,{},{},{},{},{},{},{},{end}",
            ask.key,
            app.id,
            app.queue,
            app.user,
            resources(&ask.needs),
            ask.priority,
            ask.starts.0 / 1000
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = "kind,id,application,queue,user,cpu_milli,memory_mib,gpu_milli,priority,start_s,end_s\n";

    fn of(rows: &str) -> Result<Trace, String> {
        let text = format!("{HEADER}{rows}");
        read("t", Path::new("t.csv"), Box::new(std::io::Cursor::new(text.into_bytes()))).map_err(|e| e.to_string())
    }

    #[test]
    fn what_is_written_is_read_back() {
        let rows =
            "node,n1,,,,32000,65536,8000,,,\nask,a-1,a,web,ann,500,1024,,5,10,20\nask,a-2,a,web,ann,,1,500,0,10,\n";
        let trace = of(rows).unwrap();
        assert_eq!(trace.nodes[0].capacity, vec![65536 << 20, 32000, 8000]);
        assert_eq!(trace.asks[0].ends, Some(Millis::from_secs(20)));
        let text = write(&trace, "made up\nby hand");
        assert!(text.starts_with("# made up\n# by hand\nkind,id,"), "{text}");
        assert_eq!(read("t", Path::new("t.csv"), Box::new(std::io::Cursor::new(text.into_bytes()))).unwrap(), trace);
    }

    #[test]
    fn faults_are_told_with_their_place() {
        let message = |rows: &str| of(rows).unwrap_err();
        assert_eq!(message("pod,n1,,,,1,1,,,,\n"), r#"t.csv:2: column kind: "pod" is neither node nor ask"#);
        assert_eq!(message("ask,a-1,a,web,ann,1,1,,,5,5\n"), "t.csv:2: column end_s: is not after start_s");
        assert_eq!(
            message("ask,a-1,a,web,ann,1,1,,,5,6\nask,a-2,a,batch,ann,1,1,,,5,6\n"),
            "t.csv:3: column application: a had queue web and user ann above"
        );
        assert_eq!(
            message("node,n1,,,,1,1,,,,\nnode,n1,,,,1,1,,,,\n"),
            r#"t.csv:3: column id: node "n1" is there already"#
        );
        assert_eq!(message("ask,a,a,q,u,,,,,1,2\n"), "t.csv:2: column cpu_milli: the ask needs no resource at all");
        assert_eq!(message("ask,a,a,q,u,1,,,x,1,2\n"), r#"t.csv:2: column priority: "x" is not a 32-bit number"#);
    }
}
