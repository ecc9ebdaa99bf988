//! Constants of the scheduler interface: attribute names, tag keys and values that have a meaning.

/// Node attribute: partition.
pub const NODE_PARTITION: &str = "si/node-partition";

/// Allocation tag: the one node that the ask may be placed on (R4.3).
pub const REQUIRED_NODE: &str = "yunikorn.apache.org/requiredNode";
/// Allocation tag: creation time in seconds since the Unix epoch (R4.2).
pub const CREATION_TIME: &str = "creationTime";
/// Allocation tag: another scheduler placed it (R2.15).
pub const FOREIGN: &str = "foreign";
/// Value of [`FOREIGN`]: never preempted.
pub const FOREIGN_STATIC: &str = "static";
/// Value of [`FOREIGN`]: may be preempted.
pub const FOREIGN_DEFAULT: &str = "default";

/// Name of the partition that an empty one means (R1.6).
pub const DEFAULT_PARTITION: &str = "default";
