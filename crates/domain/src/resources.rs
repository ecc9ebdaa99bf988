//! Resource vectors: sparse maps from a resource type to an amount, and their arithmetic (R0.1–R0.12, RES-020–RES-067).
//!
//! Amounts are i64 at the edges (memory in bytes, vcore in milli-units, other types plain counts) and i128 inside, so that
//! no sum of them can overflow and every charge can be refunded exactly. Three states are kept apart, as quotas need
//! it: unset (`None`), empty, and a type that is present with the amount 0.
//!
//! A vector is sorted by the names of its types. So whatever is added up, compared or written type by type comes out the same in every
//! process, whoever named which type first.

use std::{cmp::Ordering, fmt, sync::Arc};

use smallvec::SmallVec;

pub use crate::resource_types::{Error as TypeError, MAX_TYPE_NAME, MAX_TYPES, MEMORY, ResourceType, Types, VCORE};

/// Types of a vector whose places are looked at one by one.
const FEW: usize = 64;

/// A sparse resource vector, sorted by type.
#[derive(Clone, Default)]
pub struct Resource {
    amounts: SmallVec<[(ResourceType, i128); 3]>,
}

type Amounts<'a> = &'a [(ResourceType, i128)];

/// The amounts of a vector for types that are asked for by name, in order: one walk along it, whatever number of types it has.
#[derive(Clone, Copy, Debug)]
pub struct Walk<'a>(Amounts<'a>);

impl Walk<'_> {
    /// The amount of a type, which comes after those that were asked for before.
    #[inline]
    pub fn get(&mut self, kind: &ResourceType) -> Option<i128> {
        while let [(own, amount), rest @ ..] = self.0 {
            match own.cmp(kind) {
                Ordering::Greater => return None,
                Ordering::Equal => {
                    self.0 = rest;
                    return Some(*amount);
                }
                Ordering::Less => self.0 = rest,
            }
        }
        None
    }
}

/// The types of two vectors in order, each with its amounts where it has any.
struct Both<'a> {
    left: Amounts<'a>,
    right: Amounts<'a>,
}

impl<'a> Iterator for Both<'a> {
    type Item = (&'a ResourceType, Option<i128>, Option<i128>);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let order = match (self.left.first(), self.right.first()) {
            (Some((left, _)), Some((right, _))) => left.cmp(right),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (None, None) => return None,
        };
        let (mut left, mut right) = (None, None);
        if order.is_le() {
            left = self.left.split_off_first();
        }
        if order.is_ge() {
            right = self.right.split_off_first();
        }
        let (kind, _) = left.or(right)?;
        Some((kind, left.map(|(_, amount)| *amount), right.map(|(_, amount)| *amount)))
    }
}

impl Resource {
    /// An empty vector.
    pub fn new() -> Resource {
        Resource::default()
    }

    /// A vector of named amounts; later entries of the same name replace earlier ones. Names that are longer than
    /// allowed are left out.
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
    #[inline]
    pub fn get(&self, kind: &ResourceType) -> Option<i128> {
        // Telling places is far quicker than comparing names, and most vectors have two or three.
        let mut few = self.amounts.iter().take(FEW);
        if let Some((_, amount)) = few.find(|(own, _)| own.is_here(kind)) {
            return Some(*amount);
        }
        self.amounts.binary_search_by(|(own, _)| own.cmp(kind)).ok().map(|at| self.amounts[at].1)
    }

    /// The amounts of types that are asked for in order.
    #[inline]
    pub fn walk(&self) -> Walk<'_> {
        Walk(&self.amounts)
    }

    /// The types of `other` with their amounts there, and those here.
    #[inline]
    fn beside<'a>(&'a self, other: &'a Resource) -> impl Iterator<Item = (&'a ResourceType, i128, Option<i128>)> + 'a {
        let mut own = self.walk();
        other.iter().map(move |(kind, amount)| (kind, amount, own.get(kind)))
    }

    /// The amount of a type, 0 where it is missing.
    #[inline]
    pub fn amount(&self, kind: &ResourceType) -> i128 {
        self.get(kind).unwrap_or(0)
    }

    /// Sets the amount of a type.
    pub fn set(&mut self, kind: ResourceType, amount: i128) {
        // Nearly always they come in order.
        if self.amounts.last().is_none_or(|(last, _)| *last < kind) {
            return self.amounts.push((kind, amount));
        }
        match self.amounts.binary_search_by(|(k, _)| k.cmp(&kind)) {
            Ok(at) => self.amounts[at].1 = amount,
            Err(at) => self.amounts.insert(at, (kind, amount)),
        }
    }

    /// All types with their amounts, by name.
    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = (&ResourceType, i128)> + '_ {
        self.amounts.iter().map(|(kind, amount)| (kind, *amount))
    }

    /// All types by name with their amounts cut to the range of i64: what leaves the scheduler.
    pub fn named(&self) -> Vec<(&str, i64)> {
        self.amounts.iter().map(|(kind, amount)| (kind.name(), clamp(*amount))).collect()
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

    fn both<'a>(&'a self, other: &'a Resource) -> Both<'a> {
        Both { left: &self.amounts, right: &other.amounts }
    }

    /// Changes each amount by that of `other`; types that are missing here come in with what `missing` makes of it.
    #[inline]
    fn merge(&mut self, other: &Resource, change: impl Fn(&mut i128, i128), missing: impl Fn(i128) -> i128) {
        // Nearly always both have the same types.
        let mut at = 0;
        for ((own, present), (kind, amount)) in self.amounts.iter_mut().zip(&other.amounts) {
            if !own.is_here(kind) {
                break;
            }
            change(present, *amount);
            at += 1;
        }
        for (kind, amount) in &other.amounts[at..] {
            // Both are sorted: what was passed is not looked at again.
            while self.amounts.get(at).is_some_and(|(own, _)| own < kind) {
                at += 1;
            }
            match self.amounts.get_mut(at) {
                Some((own, present)) if own == kind => change(present, *amount),
                _ => self.amounts.insert(at, (kind.clone(), missing(*amount))),
            }
            at += 1;
        }
    }

    /// Adds in place, over the union of types.
    pub fn add(&mut self, other: &Resource) {
        self.merge(other, |present, amount| *present += amount, |amount| amount);
    }

    /// Subtracts in place, over the union of types.
    pub fn sub(&mut self, other: &Resource) {
        self.merge(other, |present, amount| *present -= amount, |amount| -amount);
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
        for ((_, left), (.., taken)) in difference.amounts.iter_mut().zip(other.beside(self)) {
            *left -= taken.unwrap_or(0);
        }
        difference
    }

    /// Drops types whose amount is 0.
    pub fn prune(&mut self) {
        if self.amounts.iter().any(|(_, amount)| *amount == 0) {
            self.amounts.retain(|(_, amount)| *amount != 0);
        }
    }

    /// A copy without the types whose amount is 0.
    pub fn pruned(&self) -> Resource {
        let mut copy = self.clone();
        copy.prune();
        copy
    }

    /// The same with these names, for what is told of it and outlives it; `None` where its types are those that everybody has.
    pub fn named_by(&self, names: &Types) -> Option<Resource> {
        if self.amounts.iter().all(|(kind, _)| kind.is_common()) {
            return None;
        }
        Some(Resource { amounts: self.amounts.iter().map(|(kind, amount)| (kind.named_by(names), *amount)).collect() })
    }

    /// `small` fits here: each of its amounts is at most the one here, where a missing or negative one counts as 0 (R0.3).
    #[inline]
    pub fn fits(&self, small: &Resource) -> bool {
        self.beside(small).all(|(_, amount, room)| amount <= room.unwrap_or(0).max(0))
    }

    /// As [`Resource::fits`], but types that are missing here do not limit (R0.4).
    #[inline]
    pub fn fits_or_unlimited(&self, small: &Resource) -> bool {
        self.beside(small).all(|(_, amount, limit)| limit.is_none_or(|limit| amount <= limit.max(0)))
    }

    /// Componentwise minimum over the union of types; a type on one side only takes that side's amount (R0.8).
    pub fn min(&self, other: &Resource) -> Resource {
        let mut least = self.clone();
        least.merge(other, |present, amount| *present = amount.min(*present), |amount| amount);
        least
    }

    /// Componentwise maximum over the union of types, a missing one counting as 0 (RES-029).
    pub fn max(&self, other: &Resource) -> Resource {
        let most = self.both(other).map(|(kind, a, b)| (kind.clone(), a.unwrap_or(0).max(b.unwrap_or(0))));
        Resource { amounts: most.collect() }
    }

    /// Raises each amount to that of `other` in place, over the union of types, a missing one counting as 0.
    pub fn raise(&mut self, other: &Resource) {
        self.merge(other, |present, amount| *present = amount.max(*present), |amount| amount.max(0));
    }

    /// At least `other` in every type of either, a missing one counting as 0 (R0.10).
    pub fn ge_all(&self, other: &Resource) -> bool {
        self.both(other).all(|(_, a, b)| a.unwrap_or(0) >= b.unwrap_or(0))
    }

    /// As [`Resource::ge_all`], and at least one type differs (R0.10).
    pub fn gt_all(&self, other: &Resource) -> bool {
        self.ge_all(other) && self != other
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
    pub fn percent_of<'a>(&'a self, capacity: &'a Resource) -> impl Iterator<Item = (ResourceType, i64)> + 'a {
        let share = |(kind, capacity, used): (&'a ResourceType, _, Option<i128>)| {
            Some((kind.clone(), percent(used?, capacity)))
        };
        self.beside(capacity).filter_map(share)
    }
}

/// Makes the vectors of one request of names: equal ones that follow each other are one, and a type is looked up by its name only
/// where the vector before named another in its place.
pub struct Vectors<'a> {
    types: &'a Types,
    last: Arc<Resource>,
}

impl<'a> Vectors<'a> {
    /// For a request of the resource manager that uses these types.
    pub fn new(types: &'a Types) -> Vectors<'a> {
        Vectors { types, last: Arc::default() }
    }

    /// The vector of named amounts; later entries of the same name replace earlier ones.
    ///
    /// # Errors
    /// A name is too long, or one more than may be in use at a time.
    pub fn of<'n>(
        &mut self,
        amounts: impl Iterator<Item = (&'n str, i64)> + Clone,
    ) -> Result<Arc<Resource>, TypeError> {
        let last = self.last.iter().map(|(kind, amount)| (kind.name(), amount));
        if !last.eq(amounts.clone().map(|(name, amount)| (name, amount.into()))) {
            let before = self.last.clone();
            let (mut vector, mut last) = (Resource::new(), before.iter());
            for (name, amount) in amounts {
                let kind = match last.next() {
                    Some((kind, _)) if kind.name() == name => kind.clone(),
                    _ => self.types.get(name)?,
                };
                vector.set(kind, amount.into());
            }
            self.last = Arc::new(vector);
        }
        Ok(self.last.clone())
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

/// An amount for a ratio, as `as` makes it: the processor converts those of 64 bits itself, and nearly all are.
#[inline]
pub fn float(amount: i128) -> f64 {
    i64::try_from(amount).map_or_else(|_| wide(amount), |amount| amount as f64)
}

/// Apart, since the compiler else makes one way of both: the long one.
#[cold]
#[inline(never)]
fn wide(amount: i128) -> f64 {
    amount as f64
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
        self.both(other).all(|(_, a, b)| a.unwrap_or(0) == b.unwrap_or(0))
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    type Model = BTreeMap<String, i64>;

    /// Vectors of no type up to far more than are looked at one by one, with names of both kinds.
    fn amounts() -> impl Strategy<Value = Model> {
        let names = (0..30_u8).prop_map(|n| match n {
            0 => "memory".to_owned(),
            1 => "vcore".to_owned(),
            2 => "nvidia.com/gpu".to_owned(),
            n => format!("example.com/{n}"),
        });
        prop::collection::btree_map(names, -3..10_i64, 0..20)
    }

    /// Each name is a text of its own, so that types are told by it and not by its place.
    fn resource(model: &Model) -> Resource {
        Resource::of(&model.iter().map(|(name, amount)| (name.as_str(), *amount)).collect::<Vec<_>>())
    }

    /// Types are told by their places, as they are nearly always.
    fn of_session(types: &Types, model: &Model) -> Resource {
        let mut resource = Resource::new();
        for (name, amount) in model {
            resource.set(types.get(name).expect("it is short"), i128::from(*amount));
        }
        resource
    }

    fn model(resource: &Resource) -> Model {
        resource.named().into_iter().map(|(name, amount)| (name.to_owned(), amount)).collect()
    }

    proptest! {
        #[test]
        fn arithmetic_is_that_of_maps(a in amounts(), b in amounts(), shared in any::<[bool; 2]>()) {
            let types = Types::default();
            let made = |model: &Model, shared: bool| if shared { of_session(&types, model) } else { resource(model) };
            let (left, right) = (made(&a, shared[0]), made(&b, shared[1]));
            let amount = |of: &Model, name: &String| of.get(name).copied().unwrap_or(0);
            let union = || a.keys().chain(b.keys());
            let each = |change: &dyn Fn(&String) -> i64| union().map(|name| (name.clone(), change(name))).collect::<Model>();
            for name in union() {
                let kind = ResourceType::new(name).expect("it is short");
                prop_assert_eq!(left.get(&kind), a.get(name).copied().map(i128::from));
            }
            let mut walk = left.walk();
            for (kind, ..) in left.both(&right).filter(|(kind, ..)| a.len() % 2 == 0 || b.contains_key(kind.name())) {
                prop_assert_eq!(walk.get(kind), left.get(kind));
            }
            prop_assert_eq!(model(&left.plus(&right)), each(&|name| amount(&a, name) + amount(&b, name)));
            prop_assert_eq!(model(&left.minus(&right)), each(&|name| amount(&a, name) - amount(&b, name)));
            // R0.7
            let known: Model = a.iter().map(|(name, own)| (name.clone(), own - amount(&b, name))).collect();
            prop_assert_eq!(model(&left.minus_known(&right)), known);
            // R0.3, R0.4
            prop_assert_eq!(left.fits(&right), b.iter().all(|(name, small)| *small <= amount(&a, name).max(0)));
            let unlimited = |(name, small): (&String, &i64)| a.get(name).is_none_or(|limit| *small <= (*limit).max(0));
            prop_assert_eq!(left.fits_or_unlimited(&right), b.iter().all(unlimited));
            // R0.10, R0.11
            prop_assert_eq!(left.ge_all(&right), union().all(|name| amount(&a, name) >= amount(&b, name)));
            prop_assert_eq!(left == right, union().all(|name| amount(&a, name) == amount(&b, name)));
            // R0.8
            let least = each(&|name| a.get(name).into_iter().chain(b.get(name)).min().copied().unwrap_or(0));
            prop_assert_eq!(model(&left.min(&right)), least);
            let mut raised = left.clone();
            raised.raise(&right);
            let most = |name: &String| b.get(name).map_or(amount(&a, name), |other| amount(&a, name).max(*other));
            prop_assert_eq!(model(&raised), each(&most));
            // RES-067
            let both: Vec<_> = b.keys().filter(|name| a.contains_key(*name)).cloned().collect();
            let percents: Vec<_> = left.percent_of(&right).collect();
            prop_assert_eq!(percents.iter().map(|(kind, _)| kind.name().to_owned()).collect::<Vec<_>>(), both);
            for (kind, percent) in percents {
                let (used, whole) = (amount(&a, &kind.name().to_owned()), amount(&b, &kind.name().to_owned()));
                let expected = if used <= 0 { 0 } else if whole <= 0 { 100 } else { (used as f64 / whole as f64 * 100.0) as i64 };
                prop_assert_eq!(percent, expected);
            }
        }

        #[test]
        fn vectors_of_a_request_are_those_that_it_names(asked in prop::collection::vec((amounts(), 1..3_usize), 0..6)) {
            let types = Types::default();
            let (mut vectors, mut before) = (Vectors::new(&types), None);
            for (amounts, times) in asked {
                for n in 0..times {
                    let made = vectors.of(amounts.iter().map(|(name, amount)| (name.as_str(), *amount))).expect("they are short");
                    prop_assert_eq!(model(&made), amounts.clone());
                    let same = before.replace(made.clone()).is_some_and(|before| Arc::ptr_eq(&before, &made));
                    prop_assert!(same || n == 0, "equal ones are one");
                }
            }
        }

        #[test]
        fn ratios_are_those_of_any_amount(amount in prop_oneof![any::<i128>(), any::<i64>().prop_map(i128::from)]) {
            prop_assert_eq!(float(amount), amount as f64);
        }
    }

    #[test]
    fn vectors_in_any_order_and_of_too_long_names() {
        let types = Types::default();
        let mut vectors = Vectors::new(&types);
        let twice = vectors.of([("vcore", 1), ("memory", 2), ("vcore", 3)].into_iter()).unwrap();
        assert_eq!(twice.named(), [("memory", 2), ("vcore", 3)]);
        let long = "x".repeat(MAX_TYPE_NAME + 1);
        assert!(vectors.of([("memory", 2), (long.as_str(), 1)].into_iter()).is_err());
        assert_eq!(vectors.of([("vcore", 3)].into_iter()).unwrap().named(), [("vcore", 3)]);
    }
}
