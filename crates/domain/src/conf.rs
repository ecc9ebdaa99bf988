//! The validated configuration of a partition: what the configuration reader produces and the queue tree is built from.
//!
//! Names are lowercase here, quantities parsed, access lists compiled; the text as written is kept by the reader for REST.

use std::{collections::BTreeMap, sync::Arc};

use super::coded::{Apart, list, map, variants};
use super::{
    acl::Acl,
    placement::RuleConf,
    resources::{MEMORY, Resource, ResourceType, VCORE},
};

/// One partition.
#[derive(Clone, Debug)]
pub struct PartitionConf {
    /// Plain name, such as `default`.
    pub name: Arc<str>,
    /// The root queue; its name is `root`.
    pub root: QueueConf,
    /// Placement rules in the order of evaluation, without the implicit recovery rule (PLC-002). Empty only where the
    /// written ones could not be built: then every application is rejected (CFG-098).
    pub rules: Vec<RuleConf>,
    /// Preemption by guarantees (R7.1).
    pub preemption: bool,
    /// Quota-change preemption (R7.39).
    pub quota_preemption: bool,
    /// Order of the nodes.
    pub node_sort: NodeSort,
    /// Who resolves the groups of a user.
    pub resolver: Resolver,
}

/// Order in which nodes are tried (R2.30, R2.31).
#[derive(Clone, Debug, PartialEq)]
pub struct NodeSort {
    /// Emptiest or fullest first.
    pub policy: NodeSortPolicy,
    /// Weight per resource type; a type that is not listed does not count.
    pub weights: BTreeMap<ResourceType, f64>,
}

impl Default for NodeSort {
    fn default() -> Self {
        NodeSort { policy: NodeSortPolicy::Fair, weights: [(VCORE, 1.0), (MEMORY, 1.0)].into() }
    }
}

/// See [`NodeSort`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NodeSortPolicy {
    /// The emptiest node first.
    #[default]
    Fair,
    /// The fullest node first.
    Binpacking,
}

impl NodeSortPolicy {
    /// The name in configuration and REST.
    pub const fn name(self) -> &'static str {
        match self {
            NodeSortPolicy::Fair => "fair",
            NodeSortPolicy::Binpacking => "binpacking",
        }
    }
}

/// Who resolves the groups of a user that came without groups (ACL-040).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Resolver {
    /// Nobody: the user belongs to one group of its own name.
    #[default]
    None,
    /// The user database of the operating system.
    Os,
    /// A directory server.
    Ldap,
    /// Fixed test users (ACL-044).
    Test,
}

/// One managed queue.
#[derive(Clone, Debug, Default)]
pub struct QueueConf {
    /// Lowercase name, without the path.
    pub name: Arc<str>,
    /// Parent queue: by its flag or because it has children (CFG-027).
    pub parent: bool,
    /// `resources.max` as written, explicit zeros included; `None` where none is given (QUE-021 says what it means).
    pub max: Option<Resource>,
    /// `resources.guaranteed`.
    pub guaranteed: Option<Resource>,
    /// Running applications at most; 0: any number.
    pub max_applications: u64,
    /// Own properties, not merged with those of the parent.
    pub properties: BTreeMap<String, String>,
    /// Who may administer.
    pub admin_acl: Acl,
    /// Who may submit.
    pub submit_acl: Acl,
    /// What dynamic leaves below start with (TPL-001); `None` where the configuration gives nothing.
    pub template: Option<Arc<TemplateConf>>,
    /// Limits of users and groups, in the order of the configuration.
    pub limits: Vec<LimitConf>,
    /// Child queues in the order of the configuration.
    pub children: Vec<QueueConf>,
}

/// A child template.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TemplateConf {
    /// Running applications at most; 0: any number.
    pub max_applications: u64,
    /// Properties without empty keys and values (TPL-003).
    pub properties: Arc<BTreeMap<String, String>>,
    /// Max, only where it is strictly above zero (TPL-003).
    pub max: Option<Arc<Resource>>,
    /// Guaranteed, only where it is strictly above zero.
    pub guaranteed: Option<Arc<Resource>>,
}

/// One limit entry (CFG-060–CFG-068).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LimitConf {
    /// User names, or `*`.
    pub users: Vec<Arc<str>>,
    /// Group names, or `*`.
    pub groups: Vec<Arc<str>>,
    /// Resources at most; `None` where the entry gives none (UGM-013).
    pub max_resources: Option<Resource>,
    /// Applications at most; 0: any number.
    pub max_applications: u64,
}

map!(PartitionConf { 1 name, 2 root, 3 rules, 4 preemption, 5 quota_preemption, 6 node_sort, 7 resolver });
list!(NodeSort { policy, weights });
variants!(NodeSortPolicy { 1 Fair, 2 Binpacking });
variants!(Resolver { 1 None, 2 Os, 3 Ldap, 4 Test });
map!(QueueConf {
    1 name,
    2 parent,
    3 max,
    4 guaranteed,
    5 max_applications,
    6 properties,
    7 admin_acl,
    8 submit_acl,
    9 template,
    10 limits,
    11 children,
});
list!(TemplateConf { max_applications, properties, max as Apart, guaranteed as Apart });
list!(LimitConf { users, groups, max_resources, max_applications });
