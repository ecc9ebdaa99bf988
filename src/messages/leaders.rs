//! Which server leads a resource manager, where there are several.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use futures::future::BoxFuture;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::rm::Refusal;
pub use crate::si::session::Leader;

/// What is done, or why it is not.
pub type Done<T> = BoxFuture<'static, Result<T, Refusal>>;

/// Decides who leads.
pub trait Leaders: Send + Sync {
    /// A resource manager registers here, and this server is to lead it. When that is done its actor knows.
    fn lead(&self, rm: &str) -> Done<()>;

    /// This server has heard of all resource managers that there were when this was asked.
    fn hear_of_all(&self) -> Done<()>;

    /// Why nothing can be written at present.
    fn trouble(&self) -> Option<Arc<str>>;

    /// How many logs are read of those that there were when this server started, or that it led until just now, and how many there
    /// are; `None`: it is done.
    fn reads(&self) -> Option<(usize, usize)>;

    /// Base URLs of the HTTP doors of the other servers, as far as this one has heard.
    fn others(&self) -> Arc<[String]>;

    /// How the cluster is.
    fn status(&self) -> Done<ClusterStatus>;

    /// A resource manager that this server leads is to be led by that one, which is named by its id or the URL of its HTTP door.
    fn hand_over(&self, rm: &str, server: &str) -> Done<()>;

    /// A server, named in the same way, is to lead nothing, until it may again.
    fn drain(&self, server: &str, drain: Option<Drain>) -> Done<()>;

    /// What holds for all servers.
    fn config(&self) -> Done<SharedConfig>;

    /// This holds for all servers from now on, unless somebody changed it since its revision was read.
    fn configure(&self, config: SharedConfig) -> Done<()>;

    /// Brings what readers see of resource managers that others lead up to date, and tells how fresh it is.
    fn freshen(&self) -> BoxFuture<'static, Vec<Fresh>>;
}

/// How fresh that is what readers see of a resource manager which another server leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fresh {
    /// Its id.
    pub rm: Arc<str>,
    /// Index of the last record that is in it.
    pub index: u64,
    /// For how long there may have been records that are missing in it.
    pub lag: Duration,
}

/// Why a server leads nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "ClusterDrain")]
pub struct Drain {
    /// Since when, RFC 3339 in UTC.
    pub since: String,
    /// Who said so; empty: not known.
    pub by: String,
    /// Why; empty: not said.
    pub reason: String,
}

/// A configuration and settings that hold for all servers of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "ClusterConfig")]
pub struct SharedConfig {
    /// The configuration of resource managers that bring none; left out: that of each server (`--config`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config: Option<String>,
    /// Settings of the whole server, above those with which each was started.
    #[serde(default)]
    pub settings: BTreeMap<String, String>,
    /// Since when, RFC 3339 in UTC; empty: nothing holds for all.
    #[serde(default)]
    pub since: String,
    /// Who said so; empty: not known.
    #[serde(default)]
    pub by: String,
    /// The change of etcd with which it came, 0: none.
    #[serde(skip)]
    pub revision: i64,
}

/// How a cluster is, as a server of it sees that.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Cluster")]
#[serde(rename_all = "camelCase")]
pub struct ClusterStatus {
    /// Id of the server that answers.
    pub server: String,
    /// What all keys begin with.
    pub prefix: String,
    /// How etcd is.
    pub etcd: EtcdStatus,
    /// Servers whose lease holds, and those that lead something all the same.
    pub servers: Vec<ServerStatus>,
    /// Resource managers, by name.
    pub resource_managers: Vec<GroupStatus>,
}

/// See [`ClusterStatus`].
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EtcdStatus {
    /// URLs of its members.
    pub members: String,
    /// Why it does not answer; left out: it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
    /// Its version; left out: not known yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Bytes of its database on disk, what others keep in it included; left out: not known yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
}

/// A server of a cluster.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServerStatus {
    /// Its id.
    pub id: String,
    /// Base URL of its HTTP door.
    pub http: String,
    /// Host and port of its gRPC door.
    pub grpc: String,
    /// Its release.
    pub version: String,
    /// there, refuses or gone.
    pub state: String,
    /// Resource managers that it leads.
    pub leads: usize,
    /// It is to lead nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drained: Option<Drain>,
    /// How it follows what others lead, as it last said; a few seconds old.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub follows: Vec<FollowStatus>,
}

/// How a server follows a resource manager that another one leads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FollowStatus {
    /// Id of the resource manager.
    #[serde(rename = "rmID")]
    pub rm: String,
    /// Index of the last record that it has applied; all of them led to what they led to at the leader.
    pub applied: u64,
    /// Why it cannot follow, and will not take over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault: Option<String>,
}

/// A resource manager of a cluster.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GroupStatus {
    /// Its id.
    #[serde(rename = "rmID")]
    pub rm: String,
    /// Id of the server that leads it; empty: nobody.
    pub leader: String,
    /// A server leads it that is there.
    pub led: bool,
    /// Counts those who led it.
    pub epoch: u64,
    /// Index of the newest record in etcd.
    pub index: u64,
    /// Index of the newest record that the server which answers has applied; left out where it leads, or cannot say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub applied: Option<u64>,
    /// For how many seconds the server which answers may have missed records; left out where it leads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lag: Option<f64>,
    /// Bytes in etcd.
    pub bytes: u64,
    /// At so many bytes nothing new is placed.
    pub max_bytes: u64,
    /// What the server that answers does about it: leads, follows, reads, changes or cannot follow.
    pub role: String,
    /// Why it cannot follow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault: Option<String>,
}
