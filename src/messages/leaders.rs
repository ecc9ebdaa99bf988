//! Which server leads a resource manager, where there are several.

use std::sync::Arc;

use futures::future::BoxFuture;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::rm::Refusal;

/// Where a server is reached that leads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Leader {
    /// Base URL of its HTTP door; empty where there is none.
    pub http: String,
    /// Host and port of its gRPC door; empty where there is none.
    pub grpc: String,
}

impl Leader {
    /// For texts.
    pub fn name(&self) -> &str {
        if self.http.is_empty() { &self.grpc } else { &self.http }
    }
}

/// Decides who leads.
pub trait Leaders: Send + Sync {
    /// This server is to lead a resource manager, which registers here. When this is done its actor knows.
    fn lead(&self, rm: &str) -> BoxFuture<'static, Result<(), Refusal>>;

    /// Why nothing can be written at present.
    fn trouble(&self) -> Option<Arc<str>>;

    /// How the cluster is.
    fn status(&self) -> BoxFuture<'static, Result<ClusterStatus, Refusal>>;

    /// A resource manager that this server leads is to be led by that one, which is named by its id or the URL of its HTTP door.
    fn hand_over(&self, rm: &str, server: &str) -> BoxFuture<'static, Result<(), Refusal>>;
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
    /// Counts those who led it.
    pub epoch: u64,
    /// Index of the newest record in etcd.
    pub index: u64,
    /// Index of the newest record that the server which answers has applied; left out where it leads, or cannot say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub applied: Option<u64>,
    /// Bytes in etcd.
    pub bytes: u64,
    /// What the server that answers does about it: leads, follows, reads, changes or cannot follow.
    pub role: String,
    /// Why it cannot follow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault: Option<String>,
}
