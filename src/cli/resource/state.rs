//! What a server says of its targets.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::{
    cli::{
        door::{Door, Error},
        out,
    },
    domain::{hostlist::HostList, idset::IdSet, journal::Known},
    store::resource_set,
};

#[derive(Deserialize)]
struct Targets {
    idset: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Drained {
    idset: String,
    timestamp: f64,
    reason: Option<String>,
    #[serde(default)]
    operator_reason: Option<String>,
    #[serde(default)]
    by: Vec<String>,
}

#[derive(Deserialize)]
struct Body {
    all: NamedTargets,
    online: Targets,
    torpid: Targets,
    allocated: Targets,
    drained: Vec<Drained>,
    #[serde(rename = "R")]
    r: Box<serde_json::value::RawValue>,
}

#[derive(Deserialize)]
struct NamedTargets {
    nodelist: String,
}

/// A target.
#[derive(Clone, Debug)]
pub struct Target {
    /// Host name.
    pub host: String,
    /// It is available.
    pub online: bool,
    /// It has been silent for too long.
    pub torpid: bool,
    /// Something is allocated on it.
    pub allocated: bool,
    /// Drained: since when (seconds since 1970), and why.
    pub drained: Option<(i64, String)>,
    /// An operator drained it.
    pub by_operator: bool,
    /// Number of cores.
    pub cores: u64,
    /// Number of GPUs.
    pub gpus: u64,
}

fn no_status(why: String) -> Error {
    Error { text: format!("the server sent what is no status: {why}"), status: None }
}

/// All targets by rank.
#[derive(Clone, Debug, Default)]
pub struct Cluster(pub Vec<Target>);

impl Cluster {
    /// Asks a server.
    ///
    /// # Errors
    /// It cannot be reached, or does not answer with a status.
    pub async fn ask(door: &Door) -> Result<Cluster, Error> {
        Cluster::parse(&Cluster::text(door).await?).map_err(no_status)
    }

    /// What a server answers, as it is.
    ///
    /// # Errors
    /// It cannot be reached, or refuses.
    pub async fn text(door: &Door) -> Result<String, Error> {
        door.get("resource/status").await?.text().await.map_err(|error| no_status(error.to_string()))
    }

    /// Reads the answer.
    ///
    /// # Errors
    /// Why it is none.
    pub fn parse(text: &str) -> Result<Cluster, String> {
        let body: Body = out::answer(text).map_err(|error| error.to_string())?;
        let ids = |text: &str| IdSet::parse(text).map_err(|error| error.to_string());
        let hosts = HostList::parse(&body.all.nodelist).map_err(|error| error.to_string())?;
        let (known, _) = resource_set::decode(body.r.get())?;
        let offers: BTreeMap<usize, Known> = known.into_iter().enumerate().collect();
        let (online, torpid) = (ids(&body.online.idset)?, ids(&body.torpid.idset)?);
        let allocated = ids(&body.allocated.idset)?;
        let mut targets: Vec<Target> = (0_u32..)
            .zip(hosts.iter())
            .map(|(rank, host)| Target {
                online: online.contains(rank),
                torpid: torpid.contains(rank),
                allocated: allocated.contains(rank),
                drained: None,
                by_operator: false,
                cores: offers.get(&(rank as usize)).map_or(0, |known| known.capacity.cores.into()),
                gpus: offers.get(&(rank as usize)).map_or(0, |known| known.capacity.gpus.into()),
                host,
            })
            .collect();
        for Drained { idset, timestamp, reason, operator_reason, by } in body.drained {
            let reason = match (operator_reason, reason.unwrap_or_default()) {
                (Some(own), reason) if reason.is_empty() => own,
                (Some(own), reason) => format!("{own} ({reason})"),
                (None, reason) => reason,
            };
            for rank in ids(&idset)?.iter() {
                let target = targets.get_mut(rank as usize).ok_or_else(|| format!("rank {rank} has no host"))?;
                // Whole seconds, so that what was drained in one go is one line (J5.1).
                target.drained = Some((timestamp.round() as i64, reason.clone()));
                target.by_operator = by.iter().any(|by| by == "operator");
            }
        }
        Ok(Cluster(targets))
    }
}
