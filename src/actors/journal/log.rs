//! The journal in memory: the newest events, and what a reader needs of those that were dropped.

use std::{collections::VecDeque, sync::Arc};

use crate::{
    domain::{hostlist::HostList, idset::IdSet},
    messages::journal::Piece,
    store::eventlog::Record,
};

/// Bytes of the events that are kept at most: a single one may name all hosts that are drained at a time.
const MOST: usize = 64 << 20;

/// See the module.
#[derive(Debug)]
pub struct Log {
    limit: usize,
    entries: VecDeque<(u64, Record)>,
    /// Of all of them together.
    bytes: usize,
    /// Number of the next entry.
    next: u64,
    /// Entries from this number on may be missing on disk.
    unstored: u64,
    /// The newest of each, which survive truncation (SEEDS S20).
    restart: Option<(u64, Record)>,
    define: Option<(u64, Record)>,
    /// The ranks that were online after the last event that was dropped.
    online: IdSet,
}

impl Log {
    /// Keeps `limit` events, at least 2: one and the mark that others were dropped.
    pub fn new(limit: usize) -> Log {
        let (restart, define, online) = (None, None, IdSet::new());
        Log { limit: limit.max(2), entries: VecDeque::new(), bytes: 0, next: 0, unstored: 0, restart, define, online }
    }

    /// Adds an event. Beyond the limits the oldest go, and `truncate` takes their place, with the time of the last of them.
    pub fn push(&mut self, record: Record) {
        let entry = (self.next, record);
        self.next += 1;
        match &*entry.1.name {
            "restart" => self.restart = Some(entry.clone()),
            "resource-define" => self.define = Some(entry.clone()),
            _ => {}
        }
        self.bytes += entry.1.json.len();
        self.entries.push_back(entry);
        self.trim();
    }

    /// Everything so far that belongs on disk is there.
    pub fn all_stored(&mut self) {
        self.unstored = self.next;
    }

    /// What belongs on disk and is not there yet.
    pub fn unstored(&self) -> Vec<Record> {
        let new = self.entries.iter().rev().take_while(|(number, _)| *number >= self.unstored);
        let mut records: Vec<_> = new.map(|(_, record)| record).filter(|record| record.durable()).cloned().collect();
        records.reverse();
        records
    }

    /// Events that are kept at most.
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// Keeps another number of events, at least 2, from now on.
    pub fn set_limit(&mut self, limit: usize) {
        self.limit = limit.max(2);
        self.trim();
    }

    fn trim(&mut self) {
        if self.entries.len() <= self.limit && self.bytes <= MOST {
            return;
        }
        let mut dropped = None;
        while self.entries.len() >= self.limit || (self.bytes > MOST && self.entries.len() > 1) {
            dropped = self.entries.pop_front();
            let Some((_, record)) = &dropped else { break };
            self.bytes -= record.json.len();
            record.online_after(&mut self.online);
        }
        if let Some((number, record)) = dropped {
            let mark = Record::truncate(&record.timestamp);
            self.bytes += mark.json.len();
            self.entries.push_front((number, mark));
        }
    }

    /// All that is kept, in order. After `truncate` come the newest `restart` and `resource-define`, where they were dropped. The newest
    /// `restart` has the present ranks and hosts: readers look up there which host a rank is, and most hosts came later than it. One that
    /// was dropped has what was online after the last event that was dropped too, so that the events behind it lead to the present.
    pub fn history(&self, r: &Arc<str>, ranks: &IdSet, nodelist: &HostList) -> Vec<Piece> {
        let newest = self.restart.as_ref().map(|(number, _)| *number);
        let mark = self.entries.front().filter(|(_, record)| &*record.name == "truncate").map(|(number, _)| *number);
        let piece = |(number, record): &(u64, Record)| Piece {
            event: match &*record.name {
                "restart" if newest == Some(*number) => {
                    record.with_hosts(ranks, mark.filter(|mark| number <= mark).map(|_| &self.online), nodelist)
                }
                _ => None,
            }
            .unwrap_or_else(|| record.json.clone()),
            r: (&*record.name == "resource-define").then(|| r.clone()),
        };
        let mut pieces = Vec::with_capacity(self.entries.len() + 2);
        let mut entries = self.entries.iter();
        if let Some(mark) = mark {
            pieces.extend(entries.next().map(piece));
            pieces
                .extend([&self.restart, &self.define].into_iter().flatten().filter(|entry| entry.0 <= mark).map(piece));
        }
        pieces.extend(entries.map(piece));
        pieces
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(time: u32, name: &str) -> Record {
        Record::parse(format!(r#"{{"timestamp":{time},"name":"{name}"}}"#).as_bytes()).unwrap()
    }

    fn names(log: &Log) -> Vec<String> {
        let history = log.history(&"{}".into(), &IdSet::new(), &HostList::default());
        history
            .iter()
            .map(|piece| {
                let record = Record::parse(piece.event.as_bytes()).unwrap();
                assert_eq!(piece.r.is_some(), &*record.name == "resource-define");
                format!("{} {}", record.timestamp, record.name)
            })
            .collect()
    }

    #[test]
    fn truncation_keeps_the_limit_and_the_time_of_the_last_dropped() {
        // RFC 44 truncate; J7
        let mut log = Log::new(4);
        for (time, name) in [(1, "online"), (2, "offline"), (3, "online"), (4, "offline")] {
            log.push(record(time, name));
        }
        assert_eq!(names(&log), ["1 online", "2 offline", "3 online", "4 offline"]);
        log.push(record(5, "online"));
        assert_eq!(names(&log), ["2 truncate", "3 online", "4 offline", "5 online"]);
        log.push(record(6, "offline"));
        assert_eq!(names(&log), ["3 truncate", "4 offline", "5 online", "6 offline"]);
        // A limit that is changed holds at once; events that were dropped do not come back (J7).
        log.set_limit(2);
        assert_eq!(names(&log), ["5 truncate", "6 offline"]);
        log.set_limit(4);
        assert_eq!(names(&log), ["5 truncate", "6 offline"]);
        log.push(record(7, "online"));
        assert_eq!(names(&log), ["5 truncate", "6 offline", "7 online"]);
    }

    #[test]
    fn events_are_kept_up_to_a_size() {
        let mut log = Log::new(1_000);
        let long = "x".repeat(10 << 20);
        let large = |time: u32| {
            let text = format!(r#"{{"timestamp":{time},"name":"drain","context":{{"nodelist":"{long}"}}}}"#);
            Record::parse(text.as_bytes()).unwrap()
        };
        (1..=8).for_each(|time| log.push(large(time)));
        let kept = ["2 truncate", "3 drain", "4 drain", "5 drain", "6 drain", "7 drain", "8 drain"];
        assert_eq!(names(&log), kept);
        log.push(record(9, "online"));
        assert_eq!(names(&log).len(), kept.len() + 1, "the mark costs nothing");
    }

    #[test]
    fn the_newest_map_and_resource_set_survive_truncation() {
        // SEEDS S20
        let mut log = Log::new(3);
        for (time, name) in
            [(1, "restart"), (2, "resource-define"), (3, "restart"), (4, "resource-define"), (5, "online")]
        {
            log.push(record(time, name));
        }
        assert_eq!(names(&log), ["3 truncate", "3 restart", "4 resource-define", "5 online"]);
        log.push(record(6, "offline"));
        log.push(record(7, "online"));
        assert_eq!(names(&log), ["5 truncate", "3 restart", "4 resource-define", "6 offline", "7 online"]);
        log.push(record(8, "resource-define"));
        assert_eq!(names(&log), ["6 truncate", "3 restart", "7 online", "8 resource-define"]);
    }

    #[test]
    fn what_is_told_after_truncation_leads_to_what_is_online() {
        // RFC 44 restart: `online` is what is available then
        let of = |name: &str, key: &str, ranks: &str| {
            Record::parse(format!(r#"{{"timestamp":1,"name":"{name}","context":{{"{key}":"{ranks}"}}}}"#).as_bytes())
                .unwrap()
        };
        let happened = [
            of("online", "idset", "7"), // a line of a log that another program wrote
            of("restart", "online", ""),
            of("resource-define", "method", "dynamic-discovery"),
            of("online", "idset", "0-5"),
            of("torpid", "idset", "1"),
            of("drain", "idset", "2"),
            of("offline", "idset", "1,4"),
            of("lively", "idset", "1"),
            of("online", "idset", "1,6"),
            of("undrain", "idset", "2"),
            of("offline", "idset", "0"),
        ];
        let online = IdSet::parse("1-3,5-6").unwrap();
        for limit in 2..=happened.len() {
            let mut log = Log::new(limit);
            happened.iter().for_each(|record| log.push(record.clone()));
            let mut told = IdSet::new();
            for piece in log.history(&"{}".into(), &IdSet::first(7), &HostList::default()) {
                Record::parse(piece.event.as_bytes()).unwrap().online_after(&mut told);
            }
            assert_eq!(told, online, "of {limit} events");
        }
    }

    #[test]
    fn what_is_not_on_disk_yet_is_known() {
        let mut log = Log::new(4);
        log.push(record(1, "drain"));
        log.all_stored();
        assert!(log.unstored().is_empty());
        for (time, name) in [(2, "online"), (3, "resource-define"), (4, "undrain")] {
            log.push(record(time, name));
        }
        let unstored = |log: &Log| log.unstored().iter().map(|record| record.name.to_string()).collect::<Vec<_>>();
        assert_eq!(unstored(&log), ["resource-define", "undrain"]);
        log.push(record(5, "drain"));
        log.push(record(6, "offline"));
        assert_eq!(unstored(&log), ["undrain", "drain"], "as far as it is kept in memory");
        log.all_stored();
        assert!(log.unstored().is_empty());
    }

    #[test]
    fn a_limit_below_two_is_two() {
        let mut log = Log::new(0);
        log.push(record(1, "online"));
        log.push(record(2, "offline"));
        log.push(record(3, "online"));
        assert_eq!(names(&log), ["2 truncate", "3 online"]);
    }

    #[test]
    fn truncation_is_that_of_flux() {
        // What a journal of 6 events looked like there after each event; ours adds the map and the resource set (SEEDS S20).
        let golden = include_str!("../../../tests/flux/08-truncate.txt");
        let listing = |block: &str| -> Vec<Record> {
            let events = block.lines().filter(|line| line.starts_with('{'));
            events.map(|line| Record::parse(line.as_bytes()).unwrap()).collect()
        };
        let listings: Vec<Vec<Record>> = golden
            .split("$ flux resource eventlog -f json")
            .skip(1)
            .map(|block| listing(block.split('$').next().unwrap()))
            .collect();
        let mut log = Log::new(6);
        listings[0].iter().for_each(|record| log.push(record.clone()));
        for (step, listing) in listings[1..4].iter().enumerate() {
            // The first step only lowered the limit.
            if step > 0 {
                log.push(listing.last().unwrap().clone());
            }
            let kept: Vec<_> = log.entries.iter().map(|(_, record)| record.json.clone()).collect();
            let expected: Vec<_> = listing.iter().map(|record| record.json.clone()).collect();
            assert_eq!(kept, expected);
            let told = log.history(&"{}".into(), &IdSet::new(), &HostList::default());
            let names: Vec<_> = told.iter().map(|piece| Record::parse(piece.event.as_bytes()).unwrap().name).collect();
            assert_eq!(names[..3].join(" "), "truncate restart resource-define");
            assert_eq!(told.len(), 8);
        }
    }
}
