//! YAML text to validated configuration, and the flat settings that come beside it.

use std::sync::Arc;

use crate::domain::conf::PartitionConf;

/// An accepted configuration.
#[derive(Clone, Debug)]
pub struct LoadedConfig {
    /// Partitions in the order of the text.
    pub partitions: Vec<Arc<PartitionConf>>,
    /// Checksum of the text (CFG-080).
    pub checksum: String,
    /// The text.
    pub text: Arc<str>,
}

/// Why a configuration was refused.
#[derive(Clone, Debug)]
pub struct Refused {
    /// The text of the reference for the first fault.
    pub message: String,
    /// All faults.
    pub faults: Vec<Fault>,
}

/// One fault of a configuration.
#[derive(Clone, Debug)]
pub struct Fault {
    /// Line from 1; 0 where it belongs to no line.
    pub line: usize,
    /// Column from 1.
    pub column: usize,
    /// Rule, such as `CFG-041`.
    pub rule: &'static str,
    /// What is wrong.
    pub message: String,
}
