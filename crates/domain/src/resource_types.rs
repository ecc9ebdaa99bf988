//! Resource types, which are their names, and the names that one resource manager uses.
//!
//! A type is ordered by its name and by nothing else: no number is given to it on arrival, so none can show in an order, a sum or a text,
//! run out, or outlive those who named it. The names that nearly every cluster has are places in a table; any other is text that all
//! vectors of a resource manager share, and that goes with the last of them.

use std::{
    borrow::Cow,
    cmp::Ordering,
    collections::HashSet,
    fmt,
    hash::{Hash, Hasher},
    sync::{Arc, PoisonError, RwLock},
};

/// Longest name of a resource type in bytes, as names of Kubernetes objects have it.
pub const MAX_TYPE_NAME: usize = 253;

/// Most resource types that one resource manager may use at a time, in one configuration, and in one vector.
pub const MAX_TYPES: usize = 1_000;

/// Names that nearly every cluster has, sorted.
const COMMON: [&str; 7] =
    ["ephemeral-storage", "hugepages-1Gi", "hugepages-2Mi", "memory", "nvidia.com/gpu", "pods", "vcore"];

/// The type `memory`, in bytes.
pub const MEMORY: ResourceType = ResourceType(Name::Common(3));
/// The type `vcore`, in milli-units.
pub const VCORE: ResourceType = ResourceType(Name::Common(6));

/// A resource type. A clone copies no text.
#[derive(Clone)]
pub struct ResourceType(Name);

#[derive(Clone)]
enum Name {
    /// A place in [`COMMON`].
    Common(u8),
    /// Never one of [`COMMON`].
    Other(Arc<str>),
}

impl ResourceType {
    /// The type of this name; `None` where it is longer than [`MAX_TYPE_NAME`].
    pub fn new(name: &str) -> Option<ResourceType> {
        ResourceType::common(name).or_else(|| Some(ResourceType(Name::Other(allowed(name)?.into()))))
    }

    fn common(name: &str) -> Option<ResourceType> {
        // Nearly every vector has these two.
        match name {
            "memory" => return Some(MEMORY),
            "vcore" => return Some(VCORE),
            _ => {}
        }
        let at = COMMON.binary_search(&name).ok()?;
        Some(ResourceType(Name::Common(u8::try_from(at).ok()?)))
    }

    /// The name of this type.
    pub fn name(&self) -> &str {
        match &self.0 {
            Name::Common(at) => COMMON[usize::from(*at)],
            Name::Other(name) => name,
        }
    }

    /// The name is a place in the table, which nobody uses up.
    pub(crate) fn is_common(&self) -> bool {
        matches!(self.0, Name::Common(_))
    }

    /// The same with one of these names, or with a text of its own where they are full.
    pub(crate) fn named_by(&self, names: &Types) -> ResourceType {
        names.get(self.name()).ok().or_else(|| ResourceType::new(self.name())).unwrap_or_else(|| self.clone())
    }
}

impl From<&ResourceType> for Cow<'static, str> {
    fn from(kind: &ResourceType) -> Self {
        match &kind.0 {
            Name::Common(at) => Cow::Borrowed(COMMON[usize::from(*at)]),
            Name::Other(name) => Cow::Owned(name.to_string()),
        }
    }
}

fn allowed(name: &str) -> Option<&str> {
    (name.len() <= MAX_TYPE_NAME).then_some(name)
}

/// The same text, though in another place. Apart, so that telling types by their places is a few instructions where it is done.
#[inline(never)]
fn same_text(a: &Arc<str>, b: &Arc<str>) -> bool {
    a == b
}

impl ResourceType {
    /// The name is in the same place, which nearly always tells types: two of one name in two places come from two sessions.
    #[inline]
    pub(crate) fn is_here(&self, other: &ResourceType) -> bool {
        match (&self.0, &other.0) {
            (Name::Common(a), Name::Common(b)) => a == b,
            (Name::Other(a), Name::Other(b)) => Arc::ptr_eq(a, b),
            _ => false,
        }
    }
}

impl PartialEq for ResourceType {
    #[inline]
    fn eq(&self, other: &ResourceType) -> bool {
        self.is_here(other) || matches!((&self.0, &other.0), (Name::Other(a), Name::Other(b)) if same_text(a, b))
    }
}

impl Eq for ResourceType {}

/// As [`same_text`], for the order.
#[inline(never)]
fn by_name(a: &ResourceType, b: &ResourceType) -> Ordering {
    a.name().cmp(b.name())
}

impl Ord for ResourceType {
    #[inline]
    fn cmp(&self, other: &ResourceType) -> Ordering {
        match (&self.0, &other.0) {
            (Name::Common(a), Name::Common(b)) => a.cmp(b),
            _ if self.is_here(other) => Ordering::Equal,
            _ => by_name(self, other),
        }
    }
}

impl PartialOrd for ResourceType {
    #[inline]
    fn partial_cmp(&self, other: &ResourceType) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Hash for ResourceType {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name().hash(state);
    }
}

impl fmt::Debug for ResourceType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The names of resource types that one resource manager uses in one session. Shared by its doors; what no vector uses any more makes
/// room for others.
#[derive(Debug, Default)]
pub struct Types {
    others: RwLock<HashSet<Arc<str>>>,
}

/// Why a name is no resource type.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Longer than [`MAX_TYPE_NAME`].
    #[error("resource type \"{start}…\" has a name of {bytes} bytes: at most {MAX_TYPE_NAME} are allowed")]
    Long {
        /// How it begins.
        start: String,
        /// How long it is.
        bytes: usize,
    },
    /// One more than [`MAX_TYPES`].
    #[error(
        "resource type \"{0}\" is one more than the {MAX_TYPES} that a resource manager may use at a time: use one of these, or \
         remove what uses them"
    )]
    Full(String),
}

impl Error {
    /// For a name that is too long.
    pub fn long(name: &str) -> Error {
        Error::Long { start: name.chars().take(40).collect(), bytes: name.len() }
    }
}

impl Types {
    /// The type of this name.
    ///
    /// # Errors
    /// The name is too long, or one more than may be in use at a time.
    pub fn get(&self, name: &str) -> Result<ResourceType, Error> {
        if let Some(common) = ResourceType::common(name) {
            return Ok(common);
        }
        let known = self.others.read().unwrap_or_else(PoisonError::into_inner).get(name).cloned();
        if let Some(known) = known {
            return Ok(ResourceType(Name::Other(known)));
        }
        let name: Arc<str> = allowed(name).ok_or_else(|| Error::long(name))?.into();
        let mut others = self.others.write().unwrap_or_else(PoisonError::into_inner);
        if others.len() >= MAX_TYPES {
            others.retain(|known| Arc::strong_count(known) > 1);
        }
        if let Some(known) = others.get(&name) {
            return Ok(ResourceType(Name::Other(known.clone())));
        }
        if others.len() >= MAX_TYPES {
            return Err(Error::Full(name.to_string()));
        }
        others.insert(name.clone());
        Ok(ResourceType(Name::Other(name)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resources::Resource;

    #[test]
    fn types_are_ordered_by_name() {
        assert!(COMMON.is_sorted());
        assert_eq!((MEMORY.name(), VCORE.name()), ("memory", "vcore"));
        let types = Types::default();
        let names = ["a", "memory", "nvidia.com/gpu", "nvidia.com/mig", "pods", "vcore", "z"];
        let kinds = names.map(|name| types.get(name).unwrap());
        assert!(kinds.is_sorted());
        for (name, kind) in names.iter().zip(&kinds) {
            // From elsewhere, it is the same.
            assert_eq!((kind, kind.name()), (&ResourceType::new(name).unwrap(), *name));
        }
        assert_eq!(size_of::<ResourceType>(), 16, "an entry of a vector takes no more than with a number for the type");
    }

    #[test]
    fn what_is_told_of_a_type_does_not_keep_it_in_use() {
        let types = Types::default();
        let used = |n: usize| {
            let mut resource = Resource::new();
            resource.set(types.get(&format!("example.com/{n}")).unwrap(), 1);
            resource
        };
        // More than one set of names has room for.
        let told = Types::default();
        let told: Vec<_> = (0..=MAX_TYPES).map(|n| used(n).named_by(&told).unwrap()).collect();
        assert_eq!(told[7].to_string(), "map[example.com/7:1]");
        assert_eq!(told[MAX_TYPES], used(MAX_TYPES));
        assert!(Resource::of(&[("nvidia.com/gpu", 1), ("vcore", 1)]).named_by(&types).is_none(), "nothing to copy");
    }

    #[test]
    fn names_are_limited_in_length_and_number() {
        let types = Types::default();
        let long = "x".repeat(254);
        assert!(types.get(&long[..253]).is_ok() && ResourceType::new(&long).is_none());
        assert_eq!(
            types.get(&long).unwrap_err().to_string(),
            format!("resource type \"{}…\" has a name of 254 bytes: at most 253 are allowed", "x".repeat(40))
        );
        let kept: Vec<_> = (0..MAX_TYPES).map(|n| types.get(&format!("example.com/{n}")).unwrap()).collect();
        let full = types.get("example.com/one-more").unwrap_err();
        assert!(full.to_string().contains("\"example.com/one-more\" is one more than the 1000"), "{full}");
        assert!(types.get("example.com/7").is_ok() && types.get("nvidia.com/gpu").is_ok(), "known ones go on");
        // Another resource manager has its own.
        assert!(Types::default().get("example.com/one-more").is_ok());
        drop(kept);
        assert!(types.get("example.com/one-more").is_ok(), "what nothing uses makes room");
    }
}
