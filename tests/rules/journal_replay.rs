//! Replay of hand-written logs against what a real Flux made of them. `tests/flux/09-replay-handmade.txt` has one block for each:
//! the log, then the drains after the start, or that Flux refused to start.

use std::{collections::BTreeMap, path::Path};

use callboard::{
    domain::{
        hostlist::HostList,
        idset::IdSet,
        journal::{Capacity, Journal, Known, Settings},
        types::Nanos,
    },
    store::eventlog::{Record, scan},
};

/// Rank → (whole seconds, host, reason).
type Drains = BTreeMap<u32, (i64, String, String)>;

struct Block {
    title: String,
    log: String,
    /// `None`: Flux did not start.
    drains: Option<Drains>,
}

fn blocks() -> Vec<Block> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/flux/09-replay-handmade.txt");
    let text = std::fs::read_to_string(path).unwrap();
    let mut blocks = Vec::new();
    for block in text.split("== ").skip(1) {
        let (title, rest) = block.split_once('\n').unwrap();
        let (before, after) = rest.split_once("[load exit ").unwrap();
        // Messages of the service follow the log.
        let log = before.split_inclusive('\n').take_while(|line| !line.starts_with("Nov 20")).collect();
        let drains = after.strip_prefix("0]\n-- drain:\n").map(|after| {
            let (table, _) = after.split_once("-- journal:").unwrap();
            table.lines().flat_map(drained).collect()
        });
        blocks.push(Block { title: title.to_owned(), log, drains });
    }
    blocks
}

/// A line such as `1700000001.0 2-3 n[2-3] <r>`.
fn drained(line: &str) -> Vec<(u32, (i64, String, String))> {
    let parts: Vec<&str> = line.splitn(4, ' ').collect();
    let [time, ranks, hosts, reason] = parts[..] else { panic!("{line}") };
    let reason = reason.trim_matches(['<', '>']);
    let time = time.parse::<f64>().unwrap() as i64;
    let (ranks, hosts) = (IdSet::parse(ranks).unwrap(), HostList::parse(hosts).unwrap());
    ranks.iter().zip(hosts.iter()).map(|(rank, host)| (rank, (time, host, reason.to_owned()))).collect()
}

/// Replays a log over hosts n0 to n3, and names the lines that were passed over.
fn replay(log: &str) -> (Drains, Vec<usize>) {
    let known = (0..4).map(|n| Known { host: format!("n{n}").into(), capacity: Capacity::default() });
    let mut journal = Journal::new(Settings::default(), known.collect(), 0);
    let mut bad = Vec::new();
    scan(log.as_bytes(), |line, record: Result<Record, String>| {
        let replayed =
            record.and_then(|record| record.past()).and_then(|past| past.map_or(Ok(()), |p| journal.replay(&p)));
        if replayed.is_err() {
            bad.push(line);
        }
    })
    .unwrap();
    let drained = journal.status().into_iter().filter_map(|target| {
        let drain = target.drain?;
        let since = drain.since.plus(Nanos(500_000_000)).as_secs();
        Some((target.rank, (since, target.host.to_string(), drain.reason.unwrap_or_default().to_string())))
    });
    (drained.collect(), bad)
}

fn drains(lines: &[&str]) -> Drains {
    lines.iter().flat_map(|line| drained(line)).collect()
}

#[test]
fn logs_bring_back_the_drains_that_flux_brings_back() {
    // J6.2
    let blocks = blocks();
    assert_eq!(blocks.len(), 34);
    for Block { title, log, drains: expected } in blocks {
        let (found, bad) = replay(&log);
        let (lines, expected) = match (title.as_str(), expected) {
            // A host that is away stays drained (J6.3): it gets the next rank.
            ("remap one bad host", _) => (vec![], drains(&["1700000001.0 3 n3 <r>", "1700000001.0 4 n4 <r>"])),
            ("bad rank bad host", _) => (vec![], drains(&["1700000001.0 4 n42 <>"])),
            // Overwrite 0 changes nothing (SEEDS S18).
            ("overwrite 0 on drained without reason: reason is set, timestamp kept", _) => {
                (vec![], drains(&["1700000000.0 2 n2 <>"]))
            }
            // RFC 18: times are above 0.
            ("negative and zero timestamps", _) => (vec![1, 2], drains(&[])),
            // The part without a host is named, the rest counts.
            ("nodelist shorter and rank out of range", Some(expected)) => (vec![1], expected),
            // Where Flux refuses to start, the bad line is named and the others count.
            ("blank line", None) => (vec![2], drains(&["1700000001.0 1-2 n[1-2] <a>"])),
            (_, None) => (vec![1], drains(&[])),
            (_, Some(expected)) => (vec![], expected),
        };
        assert_eq!(found, expected, "{title}");
        assert_eq!(bad, lines, "{title}");
    }
}
