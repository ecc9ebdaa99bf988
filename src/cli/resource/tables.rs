//! The tables of `callboard resource` (J9).

use std::fmt::Write as _;

use jiff::{Timestamp, tz::TimeZone};

use super::state::{Cluster, Target};
use crate::{
    cli::out,
    domain::{hostlist::HostList, idset::IdSet},
};

/// Characters of a reason that are shown.
const REASON: usize = 30;

/// Targets that share a line.
struct Line<K> {
    key: K,
    ranks: IdSet,
    hosts: HostList,
}

/// Lines in the order of their first rank.
fn lines<K: PartialEq>(cluster: &Cluster, key: impl Fn(&Target) -> Option<K>) -> Vec<Line<K>> {
    let mut lines: Vec<Line<K>> = Vec::new();
    for (rank, target) in (0_u32..).zip(&cluster.0) {
        let Some(key) = key(target) else { continue };
        let at = lines.iter().position(|line| line.key == key).unwrap_or_else(|| {
            lines.push(Line { key, ranks: IdSet::new(), hosts: HostList::new() });
            lines.len() - 1
        });
        lines[at].ranks.insert(rank);
        lines[at].hosts.push(&target.host);
    }
    lines
}

/// `STATE UP NNODES NODELIST`, with REASON where all columns are wanted.
pub fn status(cluster: &Cluster, long: bool, header: bool) -> String {
    let row = |state: &str, up: &str, nodes: &str, reason: &str, hosts: &str| {
        let reason = if long { format!("{:<REASON$} ", cut(reason)) } else { String::new() };
        format!("{state:>12}{up:>2} {nodes:>6} {reason}{hosts}\n")
    };
    let mut text = if header { row("STATE", "UP", "NNODES", "REASON", "NODELIST") } else { String::new() };
    let key = |target: &Target| {
        let reason = target.drained.as_ref().filter(|_| long).map(|(_, reason)| reason.clone());
        Some((state(target), target.online, reason.unwrap_or_default()))
    };
    let mut lines = lines(cluster, key);
    lines.sort_by_key(|line| order(line.key.0));
    for Line { key: (state, online, reason), ranks, hosts } in lines {
        let (state, up) = if online { (state.to_owned(), "✔") } else { (format!("{state}*"), "✗") };
        text.push_str(&row(&state, up, &ranks.len().to_string(), &reason, &hosts.to_string()));
    }
    text
}

fn state(target: &Target) -> &'static str {
    match target {
        Target { drained: Some(_), allocated: true, .. } => "draining",
        Target { drained: Some(_), .. } => "drained",
        Target { torpid: true, .. } => "torpid",
        _ => "avail",
    }
}

fn order(state: &str) -> usize {
    ["avail", "torpid", "draining", "drained"].iter().position(|known| *known == state).unwrap_or_default()
}

/// `STATE NNODES NCORES NGPUS NODELIST`: a target with allocations counts as allocated, one that takes none as down.
pub fn list(cluster: &Cluster, header: bool) -> String {
    let mut text = if header {
        format!("{:>10} {:>6} {:>6} {:>5} NODELIST\n", "STATE", "NNODES", "NCORES", "NGPUS")
    } else {
        String::new()
    };
    let share = |target: &Target| match target {
        Target { allocated: true, .. } => "allocated",
        // Torpid ones take work as before (J5.4).
        Target { online: true, drained: None, .. } => "free",
        _ => "down",
    };
    for state in ["free", "allocated", "down"] {
        let members: Vec<&Target> = cluster.0.iter().filter(|target| share(target) == state).collect();
        let cores: u64 = members.iter().map(|target| target.cores).sum();
        let gpus: u64 = members.iter().map(|target| target.gpus).sum();
        let hosts: HostList = members.iter().map(|target| &target.host).collect();
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{state:>10} {:>6} {cores:>6} {gpus:>5} {hosts}", members.len());
    }
    text
}

/// `TIME STATE REASON NODELIST`, with RANKS where all columns are wanted. Times are those of the zone.
pub fn drained(cluster: &Cluster, long: bool, header: bool, zone: &TimeZone) -> String {
    let row = |time: &str, state: &str, ranks: &str, reason: &str, hosts: &str| {
        let ranks = if long { format!("{ranks:<8} ") } else { String::new() };
        format!("{time:<12} {state:<8} {ranks}{:<REASON$} {hosts}\n", cut(reason))
    };
    let mut text = if header { row("TIME", "STATE", "RANKS", "REASON", "NODELIST") } else { String::new() };
    let key = |target: &Target| {
        let (since, reason) = target.drained.clone()?;
        Some((since, state(target), target.online, reason))
    };
    for Line { key: (since, state, online, reason), ranks, hosts } in lines(cluster, key) {
        let state = if online { state.to_owned() } else { format!("{state}*") };
        let time = Timestamp::from_second(since).unwrap_or_default().to_zoned(zone.clone()).strftime("%b%d %H:%M");
        text.push_str(&row(&time.to_string(), &state, &ranks.to_string(), &reason, &hosts.to_string()));
    }
    text
}

/// A reason that fits its column, without control characters.
fn cut(reason: &str) -> String {
    let shown = out::line(reason);
    if shown.chars().count() <= REASON {
        return shown;
    }
    let mut cut: String = shown.chars().take(REASON - 1).collect();
    cut.push('+');
    cut
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(host: &str) -> Target {
        Target {
            host: host.to_owned(),
            online: true,
            torpid: false,
            allocated: false,
            drained: None,
            by_operator: false,
            cores: 4,
            gpus: 0,
        }
    }

    fn cluster(change: impl Fn(usize, &mut Target)) -> Cluster {
        let mut targets: Vec<Target> = (1..5).map(|n| target(&format!("node{n}"))).collect();
        for (rank, target) in targets.iter_mut().enumerate() {
            change(rank, target);
        }
        Cluster(targets)
    }

    #[test]
    fn drained_targets_are_shown_as_in_flux() {
        // tests/flux/03-drain.txt
        let reasons = ["reason via update", "", "by hostname", "by hostname"];
        let cluster = cluster(|rank, target| {
            target.drained = Some((1_795_194_497 + rank as i64 / 2, reasons[rank].to_owned()));
        });
        let expected = "
TIME         STATE    RANKS    REASON                         NODELIST
Nov20 17:08  drained  0        reason via update              node1
Nov20 17:08  drained  1                                       node2
Nov20 17:08  drained  2-3      by hostname                    node[3-4]
";
        assert_eq!(drained(&cluster, true, true, &TimeZone::UTC), expected[1..]);
        let expected = "
       STATEUP NNODES REASON                         NODELIST
     drained ✔      1 reason via update              node1
     drained ✔      1                                node2
     drained ✔      2 by hostname                    node[3-4]
";
        assert_eq!(status(&cluster, true, true), expected[1..]);
        assert_eq!(status(&cluster, false, false), "     drained ✔      4 node[1-4]\n");
        let expected = "
     STATE NNODES NCORES NGPUS NODELIST
      free      0      0     0 
 allocated      0      0     0 
      down      4     16     0 node[1-4]
";
        assert_eq!(list(&cluster, true), expected[1..]);
    }

    #[test]
    fn what_is_offline_torpid_or_allocated_shows() {
        let cluster = cluster(|rank, target| match rank {
            0 => target.allocated = true,
            1 => target.online = false,
            2 => target.torpid = true,
            _ => {
                target.allocated = true;
                target.drained = Some((1_795_194_497, "a reason that is longer than its column".to_owned()));
            }
        });
        let expected = "
       STATEUP NNODES NODELIST
       avail ✔      1 node1
      avail* ✗      1 node2
      torpid ✔      1 node3
    draining ✔      1 node4
";
        assert_eq!(status(&cluster, false, true), expected[1..]);
        let expected = "
      free      1      4     0 node3
 allocated      2      8     0 node[1,4]
      down      1      4     0 node2
";
        assert_eq!(list(&cluster, false), expected[1..]);
        let expected = "Nov20 17:08  draining a reason that is longer than + node4\n";
        assert_eq!(drained(&cluster, false, false, &TimeZone::UTC), expected);
    }
}
