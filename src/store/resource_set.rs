//! The resource set as R version 1 (RFC 20). `store::journal` keeps it on disk, so that ranks are known again after a restart.

use serde::{Deserialize, Serialize};

use crate::domain::words::plural;
use crate::domain::{
    hostlist::HostList,
    idset::IdSet,
    journal::{self, Capacity, Known, ResourceSet},
};

/// Ranks that are read at most.
const MAX_RANKS: u64 = journal::MAX_RANKS as u64;

#[derive(Serialize, Deserialize)]
struct R {
    version: u32,
    execution: Execution,
}

#[derive(Serialize, Deserialize)]
struct Execution {
    #[serde(rename = "R_lite")]
    lite: Vec<Lite>,
    #[serde(default)]
    starttime: Number,
    #[serde(default)]
    expiration: Number,
    nodelist: Vec<String>,
}

#[derive(Serialize, Deserialize)]
struct Lite {
    rank: String,
    children: Children,
}

#[derive(Serialize, Deserialize)]
struct Children {
    core: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    gpu: String,
}

/// Written as an integer, read as either (SEEDS S19).
#[derive(Clone, Copy, Default)]
struct Number(i64);

impl Serialize for Number {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_i64(self.0)
    }
}

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let number = serde_json::Number::deserialize(deserializer)?;
        Ok(Number(number.as_i64().or(number.as_f64().map(|real| real as i64)).unwrap_or_default()))
    }
}

/// The text of a resource set.
pub fn encode(set: &ResourceSet) -> String {
    let lite = set.groups.iter().map(|(ranks, capacity)| Lite {
        rank: ranks.to_string(),
        children: Children {
            core: IdSet::first(capacity.cores).to_string(),
            gpu: IdSet::first(capacity.gpus).to_string(),
        },
    });
    let r = R {
        version: 1,
        execution: Execution {
            lite: lite.collect(),
            starttime: Number(0),
            expiration: Number(set.expiration),
            nodelist: vec![set.nodelist.to_string()],
        },
    };
    // Strings and integers only: this cannot fail.
    serde_json::to_string(&r).unwrap_or_default()
}

/// Hosts by rank with what they offer, and the expiration in seconds since the Unix epoch.
///
/// # Errors
/// What is wrong with the text.
pub fn decode(text: &str) -> Result<(Vec<Known>, i64), String> {
    let r: R = serde_json::from_str(text).map_err(|error| error.to_string())?;
    if r.version != 1 {
        return Err(format!("version {} is not known, only 1 is", r.version));
    }
    let ids = |text: &str| IdSet::parse(text).map_err(|error| error.to_string());
    let mut offers = std::collections::BTreeMap::new();
    for Lite { rank, children } in &r.execution.lite {
        let count = |ids: IdSet| u32::try_from(ids.len()).unwrap_or(u32::MAX);
        let capacity = Capacity { cores: count(ids(&children.core)?), gpus: count(ids(&children.gpu)?) };
        let ranks = ids(rank)?;
        if ranks.len() + offers.len() as u64 > MAX_RANKS {
            return Err(format!("more than {MAX_RANKS} ranks"));
        }
        offers.extend(ranks.iter().map(|rank| (rank, capacity)));
    }
    let lists: Result<Vec<_>, _> = r.execution.nodelist.iter().map(|text| HostList::parse(text)).collect();
    let lists = lists.map_err(|error| error.to_string())?;
    let hosts = lists.iter().map(HostList::len).fold(0, u64::saturating_add);
    if hosts != offers.len() as u64 {
        return Err(format!("{} for {}", plural(hosts, "host"), plural(offers.len(), "rank")));
    }
    let names = lists.iter().flat_map(HostList::iter);
    let known = offers.values().zip(names).map(|(capacity, host)| Known { host: host.into(), capacity: *capacity });
    Ok((known.collect(), r.execution.expiration.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(host: &str, cores: u32, gpus: u32) -> Known {
        Known { host: host.into(), capacity: Capacity { cores, gpus } }
    }

    #[test]
    fn it_is_written_as_in_the_rfc() {
        // RFC 44, the example of a journal response
        let set = ResourceSet {
            groups: vec![(IdSet::first(64), Capacity { cores: 6, gpus: 0 })],
            nodelist: HostList::parse("test[0-63]").unwrap(),
            expiration: 0,
        };
        let text = r#"{"version":1,"execution":{"R_lite":[{"rank":"0-63","children":{"core":"0-5"}}],"starttime":0,"expiration":0,"nodelist":["test[0-63]"]}}"#;
        assert_eq!(encode(&set), text);
        let (hosts, expiration) = decode(text).unwrap();
        assert_eq!((hosts.len(), expiration), (64, 0));
        assert_eq!(hosts[63], known("test63", 6, 0));
    }

    #[test]
    fn hosts_belong_to_the_sorted_ranks_and_numbers_may_be_real() {
        // J4
        let text = r#"{"version":1,"execution":{"R_lite":[{"rank":"1","children":{"core":"0-1","gpu":"0"}},
            {"rank":"0,2","children":{"core":"0-3"}}],"starttime":0.0,"expiration":1900000000.25,"nodelist":["a,b","c"],
            "properties":{"fast":"0"}},"scheduling":{}}"#;
        assert_eq!(decode(text).unwrap(), (vec![known("a", 4, 0), known("b", 2, 1), known("c", 4, 0)], 1_900_000_000));
    }

    #[test]
    fn what_cannot_be_is_refused() {
        for (text, fault) in [
            (r#"{"version":2,"execution":{"R_lite":[],"nodelist":[]}}"#, "version 2 is not known, only 1 is"),
            (
                r#"{"version":1,"execution":{"R_lite":[{"rank":"0-1","children":{"core":"0"}}],"nodelist":["a"]}}"#,
                "1 host for 2 ranks",
            ),
            (
                r#"{"version":1,"execution":{"R_lite":[{"rank":"0-2147483647","children":{"core":"0"}}],"nodelist":["a"]}}"#,
                "more than 1048576 ranks",
            ),
        ] {
            assert_eq!(decode(text).unwrap_err(), fault);
        }
    }
}
