//! The configuration as it is written, key by key, before and after its normalisation (section 1.2 of the queue rules).

use std::collections::BTreeMap;

use super::yaml::At;

/// A value and where it stands.
#[derive(Clone, Debug, Default)]
pub struct Spanned<T> {
    /// The value.
    pub value: T,
    /// Where it stands; where the key is missing, where the object begins.
    pub at: At,
}

/// A text and where it stands.
pub type Text = Spanned<String>;

/// Resource types with their quantities, as written.
pub type Quantities = BTreeMap<String, Text>;

/// All of it.
#[derive(Clone, Debug, Default)]
pub struct Scheduler {
    /// `None` where the key is missing or empty.
    pub partitions: Option<Vec<Partition>>,
    /// Where settings stand that are not read here.
    pub extra: Option<At>,
}

/// A partition.
#[derive(Clone, Debug, Default)]
pub struct Partition {
    /// Where it begins.
    pub at: At,
    /// Empty is `default` (CFG-010).
    pub name: Text,
    /// `None` where the key is missing or empty (CFG-012); after normalisation the root alone.
    pub queues: Option<Vec<Queue>>,
    /// Placement rules.
    pub rules: Vec<Rule>,
    /// Limits, copied to the root queue (CFG-016).
    pub limits: Vec<Limit>,
    /// Whether there is preemption.
    pub preemption: Preemption,
    /// Order of the nodes.
    pub node_sort: NodeSort,
    /// `usergroupresolver.type`.
    pub resolver: Text,
}

/// `preemption`; `None` where a key is missing.
#[derive(Clone, Debug, Default)]
pub struct Preemption {
    /// `enabled`, by default true.
    pub enabled: Option<bool>,
    /// `quotapreemptionenabled`, by default false.
    pub quota: Option<bool>,
}

/// `nodesortpolicy`.
#[derive(Clone, Debug, Default)]
pub struct NodeSort {
    /// `fair`, `binpacking` or empty.
    pub policy: Text,
    /// Weight per resource type.
    pub weights: BTreeMap<String, Spanned<f64>>,
}

/// A queue.
#[derive(Clone, Debug, Default)]
pub struct Queue {
    /// Where it begins.
    pub at: At,
    /// Name without the path.
    pub name: Text,
    /// A parent, even without children.
    pub parent: bool,
    /// Its guarantee and max.
    pub resources: Resources,
    /// Running applications at most; 0: any number.
    pub max_applications: Spanned<u64>,
    /// Properties of the queue, by name.
    pub properties: BTreeMap<String, Text>,
    /// Who may administer.
    pub admin_acl: Text,
    /// Who may submit.
    pub submit_acl: Text,
    /// What dynamic leaves below start with.
    pub template: Template,
    /// Child queues.
    pub queues: Vec<Queue>,
    /// Limits of users and groups.
    pub limits: Vec<Limit>,
}

/// `resources`; `None` where a key is missing, an empty map counts as set (CFG-015).
#[derive(Clone, Debug, Default)]
pub struct Resources {
    /// What it is entitled to.
    pub guaranteed: Option<Quantities>,
    /// What it may use at most.
    pub max: Option<Quantities>,
}

/// `childtemplate`.
#[derive(Clone, Debug, Default)]
pub struct Template {
    /// Running applications at most; 0: any number.
    pub max_applications: u64,
    /// Properties of the queue, by name.
    pub properties: BTreeMap<String, Text>,
    /// Guarantee and max.
    pub resources: Resources,
}

/// A placement rule.
#[derive(Clone, Debug, Default)]
pub struct Rule {
    /// Where it begins.
    pub at: At,
    /// Name of the kind of rule.
    pub name: Text,
    /// Make the queue where it does not exist.
    pub create: bool,
    /// Whom it is for.
    pub filter: Filter,
    /// Rule for the queue above.
    pub parent: Option<Box<Rule>>,
    /// Path of a `fixed`, tag of a `tag` rule.
    pub value: Text,
}

/// `filter`.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// `allow`, `deny` or empty.
    pub kind: Text,
    /// Names, or one expression.
    pub users: Vec<Text>,
    /// Names, or one expression.
    pub groups: Vec<Text>,
}

/// A limit.
#[derive(Clone, Debug, Default)]
pub struct Limit {
    /// Where it begins.
    pub at: At,
    /// Free text.
    pub limit: Text,
    /// User names, or `*`.
    pub users: Vec<Text>,
    /// Group names, or `*`.
    pub groups: Vec<Text>,
    /// Resources at most.
    pub max_resources: Quantities,
    /// Applications at most; 0: any number.
    pub max_applications: Spanned<u64>,
}

impl Queue {
    /// A parent by its flag or because it has children (CFG-027).
    pub fn is_parent(&self) -> bool {
        self.parent || !self.queues.is_empty()
    }
}

impl Limit {
    /// Same content, wherever it stands (CFG-016).
    pub fn same(&self, other: &Limit) -> bool {
        fn names(list: &[Text]) -> Vec<&str> {
            list.iter().map(|name| name.value.as_str()).collect()
        }
        fn amounts(map: &Quantities) -> Vec<(&str, &str)> {
            map.iter().map(|(kind, amount)| (kind.as_str(), amount.value.as_str())).collect()
        }
        self.limit.value == other.limit.value
            && names(&self.users) == names(&other.users)
            && names(&self.groups) == names(&other.groups)
            && amounts(&self.max_resources) == amounts(&other.max_resources)
            && self.max_applications.value == other.max_applications.value
    }
}

impl std::fmt::Display for Limit {
    /// Its five values in the order of the schema (CFG-060).
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let list = |names: &[Text]| names.iter().map(|name| name.value.as_str()).collect::<Vec<_>>().join(" ");
        let resources: Vec<_> =
            self.max_resources.iter().map(|(kind, amount)| format!("{kind}:{}", amount.value)).collect();
        write!(
            f,
            "{{{} [{}] [{}] map[{}] {}}}",
            self.limit.value,
            list(&self.users),
            list(&self.groups),
            resources.join(" "),
            self.max_applications.value
        )
    }
}
