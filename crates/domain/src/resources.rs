//! Resource vectors: sparse maps from a resource type to an amount, and their arithmetic (R0.1–R0.12, RES-020–RES-067).
//!
//! Amounts are i64 at the edges (memory in bytes, vcore in milli-units, other types plain counts) and i128 inside, so that
//! no sum of them can overflow and every charge can be refunded exactly. Three states are kept apart, as quotas need
//! it: unset (`None`), empty, and a type that is present with the amount 0.

use std::{
    collections::HashMap,
    fmt,
    sync::{LazyLock, RwLock},
};

use smallvec::SmallVec;

/// A resource type by number. Names are interned for the life of the process, at most 65,535 of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ResourceType(u16);

/// The type `memory`, in bytes.
pub const MEMORY: ResourceType = ResourceType(0);
/// The type `vcore`, in milli-units.
pub const VCORE: ResourceType = ResourceType(1);

#[derive(Default)]
struct Names {
    by_name: HashMap<&'static str, ResourceType>,
    names: Vec<&'static str>,
}

impl Names {
    fn add(&mut self, name: &str) -> Option<ResourceType> {
        if let Some(known) = self.by_name.get(name) {
            return Some(*known);
        }
        let number = u16::try_from(self.names.len()).ok().filter(|n| *n < u16::MAX)?;
        // Names live as long as the process: there are few, and every vector refers to them.
        let name: &'static str = Box::leak(name.to_owned().into_boxed_str());
        self.names.push(name);
        self.by_name.insert(name, ResourceType(number));
        Some(ResourceType(number))
    }
}

static NAMES: LazyLock<RwLock<Names>> = LazyLock::new(|| {
    let mut names = Names::default();
    names.add("memory");
    names.add("vcore");
    RwLock::new(names)
});

impl ResourceType {
    /// The type of this name; `None` when the table of names is full.
    pub fn new(name: &str) -> Option<ResourceType> {
        if name == "memory" {
            return Some(MEMORY);
        }
        if name == "vcore" {
            return Some(VCORE);
        }
        if let Some(known) = NAMES.read().unwrap_or_else(|e| e.into_inner()).by_name.get(name) {
            return Some(*known);
        }
        NAMES.write().unwrap_or_else(|e| e.into_inner()).add(name)
    }

    /// The name of this type.
    pub fn name(self) -> &'static str {
        match self {
            MEMORY => "memory",
            VCORE => "vcore",
            _ => NAMES.read().unwrap_or_else(|e| e.into_inner()).names[usize::from(self.0)],
        }
    }
}

/// A sparse resource vector, sorted by type number.
#[derive(Clone, Default)]
pub struct Resource {
    amounts: SmallVec<[(ResourceType, i128); 3]>,
}

impl Resource {
    /// An empty vector.
    pub fn new() -> Resource {
        Resource::default()
    }

    /// A vector of named amounts; later entries of the same name replace earlier ones. Types beyond the name table's
    /// capacity are left out.
    pub fn of(amounts: &[(&str, i64)]) -> Resource {
        let mut resource = Resource::new();
        for (name, amount) in amounts {
            if let Some(kind) = ResourceType::new(name) {
                resource.set(kind, i128::from(*amount));
            }
        }
        resource
    }

    /// The amount of a type, `None` where it is missing.
    pub fn get(&self, kind: ResourceType) -> Option<i128> {
        self.amounts.iter().find(|(k, _)| *k == kind).map(|(_, amount)| *amount)
    }

    /// The amount of a type, 0 where it is missing.
    pub fn amount(&self, kind: ResourceType) -> i128 {
        self.get(kind).unwrap_or(0)
    }

    /// Sets the amount of a type.
    pub fn set(&mut self, kind: ResourceType, amount: i128) {
        match self.amounts.binary_search_by_key(&kind, |(k, _)| *k) {
            Ok(at) => self.amounts[at].1 = amount,
            Err(at) => self.amounts.insert(at, (kind, amount)),
        }
    }

    /// All types with their amounts, by type number.
    pub fn iter(&self) -> impl Iterator<Item = (ResourceType, i128)> + '_ {
        self.amounts.iter().copied()
    }

    /// All types by name with their amounts cut to the range of i64, sorted by name: what leaves the scheduler.
    pub fn named(&self) -> Vec<(&'static str, i64)> {
        let mut named: Vec<_> = self.iter().map(|(kind, amount)| (kind.name(), clamp(amount))).collect();
        named.sort_unstable_by_key(|(name, _)| *name);
        named
    }

    /// No types at all.
    pub fn is_empty(&self) -> bool {
        self.amounts.is_empty()
    }

    /// Number of types.
    pub fn len(&self) -> usize {
        self.amounts.len()
    }

    /// All amounts are 0 (R0.6).
    pub fn is_zero(&self) -> bool {
        self.amounts.iter().all(|(_, amount)| *amount == 0)
    }

    /// At least one amount above 0 and none below (R0.6).
    pub fn is_positive(&self) -> bool {
        self.amounts.iter().all(|(_, a)| *a >= 0) && self.amounts.iter().any(|(_, a)| *a > 0)
    }

    /// At least one amount below 0.
    pub fn has_negative(&self) -> bool {
        self.amounts.iter().any(|(_, a)| *a < 0)
    }

    /// Adds in place, over the union of types.
    pub fn add(&mut self, other: &Resource) {
        for (kind, amount) in other.iter() {
            match self.amounts.binary_search_by_key(&kind, |(k, _)| *k) {
                Ok(at) => self.amounts[at].1 += amount,
                Err(at) => self.amounts.insert(at, (kind, amount)),
            }
        }
    }

    /// Subtracts in place, over the union of types.
    pub fn sub(&mut self, other: &Resource) {
        for (kind, amount) in other.iter() {
            match self.amounts.binary_search_by_key(&kind, |(k, _)| *k) {
                Ok(at) => self.amounts[at].1 -= amount,
                Err(at) => self.amounts.insert(at, (kind, -amount)),
            }
        }
    }

    /// The sum, over the union of types.
    pub fn plus(&self, other: &Resource) -> Resource {
        let mut sum = self.clone();
        sum.add(other);
        sum
    }

    /// The difference, over the union of types.
    pub fn minus(&self, other: &Resource) -> Resource {
        let mut difference = self.clone();
        difference.sub(other);
        difference
    }

    /// Subtracts only types that are present here (R0.7).
    pub fn minus_known(&self, other: &Resource) -> Resource {
        let mut difference = self.clone();
        for (kind, amount) in &mut difference.amounts {
            *amount -= other.amount(*kind);
        }
        difference
    }

    /// Drops types whose amount is 0.
    pub fn prune(&mut self) {
        self.amounts.retain(|(_, amount)| *amount != 0);
    }

    /// A copy without the types whose amount is 0.
    pub fn pruned(&self) -> Resource {
        let mut copy = self.clone();
        copy.prune();
        copy
    }

    /// `small` fits here: each of its amounts is at most the one here, where a missing or negative one counts as 0 (R0.3).
    pub fn fits(&self, small: &Resource) -> bool {
        small.iter().all(|(kind, amount)| amount <= self.amount(kind).max(0))
    }

    /// As [`Resource::fits`], but types that are missing here do not limit (R0.4).
    pub fn fits_or_unlimited(&self, small: &Resource) -> bool {
        small.iter().all(|(kind, amount)| self.get(kind).is_none_or(|limit| amount <= limit.max(0)))
    }

    /// As [`Resource::fits_or_unlimited`], but negative amounts here count as they are (R0.5).
    pub fn fits_actual(&self, small: &Resource) -> bool {
        small.iter().all(|(kind, amount)| self.get(kind).is_none_or(|limit| amount <= limit))
    }

    /// Componentwise minimum over the union of types; a type on one side only takes that side's amount (R0.8).
    pub fn min(&self, other: &Resource) -> Resource {
        let mut least = self.clone();
        for (kind, amount) in other.iter() {
            match least.amounts.binary_search_by_key(&kind, |(k, _)| *k) {
                Ok(at) => least.amounts[at].1 = least.amounts[at].1.min(amount),
                Err(at) => least.amounts.insert(at, (kind, amount)),
            }
        }
        least
    }

    /// Componentwise minimum over the types here; a type missing in `other` keeps its amount (R0.8).
    pub fn min_left(&self, other: &Resource) -> Resource {
        let mut least = self.clone();
        for (kind, amount) in &mut least.amounts {
            if let Some(limit) = other.get(*kind) {
                *amount = (*amount).min(limit);
            }
        }
        least
    }

    /// Componentwise maximum over the union of types, a missing one counting as 0 (RES-029).
    pub fn max(&self, other: &Resource) -> Resource {
        let mut most = Resource::new();
        for kind in self.union(other) {
            most.set(kind, self.amount(kind).max(other.amount(kind)));
        }
        most
    }

    /// Covers `other` on the types that both have (R0.9, RES-050).
    pub fn ge_known(&self, other: &Resource) -> bool {
        if self.is_empty() {
            return false;
        }
        if other.is_empty() {
            return self.amounts.iter().all(|(_, a)| *a > 0);
        }
        self.iter().all(|(kind, amount)| other.get(kind).is_none_or(|o| o <= amount))
    }

    /// As [`Resource::ge_known`], and at least one common type differs (R0.9).
    pub fn gt_known(&self, other: &Resource) -> bool {
        if other.is_empty() {
            return !self.is_empty() && self.amounts.iter().all(|(_, a)| *a > 0);
        }
        if self.is_empty() {
            return false;
        }
        let common: SmallVec<[(i128, i128); 4]> =
            self.iter().filter_map(|(kind, amount)| other.get(kind).map(|o| (amount, o))).collect();
        common.is_empty() || (common.iter().all(|(a, o)| o <= a) && common.iter().any(|(a, o)| a != o))
    }

    /// At least `other` in every type of either, a missing one counting as 0 (R0.10).
    pub fn ge_all(&self, other: &Resource) -> bool {
        self.union(other).into_iter().all(|kind| self.amount(kind) >= other.amount(kind))
    }

    /// As [`Resource::ge_all`], and at least one type differs (R0.10).
    pub fn gt_all(&self, other: &Resource) -> bool {
        self.ge_all(other) && self != other
    }

    /// Same types with the same amounts (RES-045), where `==` takes a missing type as 0 (RES-043).
    pub fn same_types(&self, other: &Resource) -> bool {
        self.amounts == other.amounts
    }

    /// At least one type name occurs in both (R0.12).
    pub fn match_any(&self, other: &Resource) -> bool {
        self.iter().any(|(kind, _)| other.get(kind).is_some())
    }

    /// The types of either.
    pub fn union(&self, other: &Resource) -> SmallVec<[ResourceType; 4]> {
        let mut kinds: SmallVec<[ResourceType; 4]> = self.iter().map(|(kind, _)| kind).collect();
        kinds.extend(other.iter().map(|(kind, _)| kind).filter(|kind| self.get(*kind).is_none()));
        kinds
    }

    /// The sum of all amounts: a total order that respects [`Resource::gt_all`].
    pub fn total(&self) -> i128 {
        self.amounts.iter().map(|(_, amount)| *amount).sum()
    }

    /// Each amount with the other sign.
    pub fn negated(&self) -> Resource {
        let mut copy = self.clone();
        for (_, amount) in &mut copy.amounts {
            *amount = -*amount;
        }
        copy
    }

    /// Amounts times a whole number, such as seconds of use (RES-069).
    pub fn times(&self, factor: i128) -> Resource {
        let mut copy = self.clone();
        for (_, amount) in &mut copy.amounts {
            *amount = amount.saturating_mul(factor);
        }
        copy
    }

    /// Used here of `capacity` in whole percent, for types in both (RES-067).
    pub fn percent_of(&self, capacity: &Resource) -> Vec<(&'static str, i64)> {
        let mut percent: Vec<_> = capacity
            .iter()
            .filter_map(|(kind, capacity)| self.get(kind).map(|used| (kind.name(), percent(used, capacity))))
            .collect();
        percent.sort_unstable_by_key(|(name, _)| *name);
        percent
    }
}

fn percent(used: i128, capacity: i128) -> i64 {
    if used <= 0 {
        return 0;
    }
    if capacity <= 0 {
        return 100;
    }
    // As the reference computes it: a floating point ratio, cut to an integer.
    let share = (used as f64 / capacity as f64 * 100.0) as i128;
    share.min(i128::from(i32::MAX)) as i64
}

/// Cuts an amount to the range of i64, in which it leaves the scheduler (R0.1).
pub fn clamp(amount: i128) -> i64 {
    amount.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64
}

/// Componentwise minimum of two limits, where unset does not limit (RES-027).
pub fn min_limit(a: Option<&Resource>, b: Option<&Resource>) -> Option<Resource> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (Some(one), None) | (None, Some(one)) => Some(one.clone()),
        (None, None) => None,
    }
}

impl PartialEq for Resource {
    /// Equal over the union of types, a missing one counting as 0 (R0.11).
    fn eq(&self, other: &Resource) -> bool {
        self.union(other).into_iter().all(|kind| self.amount(kind) == other.amount(kind))
    }
}

impl Eq for Resource {}

impl fmt::Display for Resource {
    /// The form that messages and errors use: `map[memory:10 vcore:500]` (EVT-01A).
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("map[")?;
        for (n, (name, amount)) in self.named().into_iter().enumerate() {
            if n > 0 {
                f.write_str(" ")?;
            }
            write!(f, "{name}:{amount}")?;
        }
        f.write_str("]")
    }
}

impl fmt::Debug for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A resource that may be unset, as messages print it (EVT-01A).
pub struct Shown<'a>(pub Option<&'a Resource>);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(resource) => resource.fmt(f),
            None => f.write_str("nil resource"),
        }
    }
}
