//! YAML text to validated configuration, and the flat settings that come beside it.
//!
//! [`yaml`] reads a tree with positions, [`decode`] turns it into the configuration as [`written`], [`validate`]
//! normalises and checks it, [`build`] makes what the domain uses. [`shown`] is the way back, for REST; [`extra`] reads
//! the flat settings.

mod build;
mod checksum;
mod decode;
mod edit;
pub mod extra;
mod faults;
pub mod shown;
pub mod table;
mod validate;
mod written;
pub mod yaml;

use std::{fmt, sync::Arc};

use crate::conf::PartitionConf;
pub use decode::{MAX_QUEUES, OBJECTS};
pub use edit::Edited;
use faults::Faults;
pub use shown::Shown;

/// The configuration where the text is empty (CFG-002). It begins with a line break, as the reference's does: clients
/// compare the checksum, which is that of the text (CFG-080).
pub const DEFAULT: &str = "
partitions:
  - name: default
    placementrules:
      - name: tag
        value: namespace
        create: true
    queues:
      - name: root
        submitacl: '*'
";

/// An accepted configuration.
#[derive(Clone, Debug)]
pub struct LoadedConfig {
    /// Partitions in the order of the text.
    pub partitions: Vec<Arc<PartitionConf>>,
    /// Checksum of the text (CFG-080).
    pub checksum: String,
    /// The text; the built-in default where none was given.
    pub text: Arc<str>,
    /// The configuration for REST.
    pub shown: Shown,
    /// Placement rules that cannot be built. A registration accepts them and runs the partition without any rule;
    /// an update is refused (CFG-098): see [`LoadedConfig::check_rules`].
    pub rule_faults: Vec<Fault>,
    /// What is accepted but does not do what it looks like: names that an access list drops, values of properties that
    /// cannot be read, names that nobody knows.
    pub warnings: Vec<Fault>,
}

impl LoadedConfig {
    /// Refuses a configuration whose placement rules cannot be built: for updates and validation (CFG-098).
    pub fn check_rules(&self) -> Result<(), Refused> {
        match self.rule_faults.first() {
            Some(first) => Err(Refused { message: first.message.clone(), faults: self.rule_faults.clone() }),
            None => Ok(()),
        }
    }

    /// All that is to be told about a configuration that is in force (SEEDS S34): the warnings, and the rules without which
    /// it runs.
    pub fn notes(&self) -> impl Iterator<Item = &Fault> {
        self.warnings.iter().chain(&self.rule_faults)
    }
}

/// Why a configuration was refused.
#[derive(Clone, Debug)]
pub struct Refused {
    /// The text of the reference for the first fault.
    pub message: String,
    /// All faults.
    pub faults: Vec<Fault>,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Refused {}

/// One fault of a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
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

impl fmt::Display for Fault {
    /// `line:column: rule: message`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}: {}", self.line, self.column, self.rule, self.message)
    }
}

/// Reads and checks a configuration; nothing of a refused one is used.
///
/// An empty text is the built-in default (CFG-002), one without a document has no partitions (CFG-003). An update must
/// also pass [`LoadedConfig::check_rules`].
pub fn load(text: &str) -> Result<LoadedConfig, Refused> {
    let text = if text.is_empty() { DEFAULT } else { text };
    let mut scheduler = read(text)?;
    let mut faults = Faults::default();
    validate::normalise_and_check(&mut scheduler.0, &mut faults);
    let mut all = scheduler.1;
    all.append(faults);
    if all.count() > 0 {
        // Nothing is built then, and rules that could not be are told with the rest.
        all.append(build::rule_faults(&scheduler.0));
    }
    all.refusal()?;
    let scheduler = scheduler.0;
    let (mut rule_faults, mut warnings) = (Faults::default(), Faults::default());
    if let Some(at) = scheduler.extra {
        let detail = "they come with the registration of a resource manager, or with --set";
        warnings.add(at, "CFG-005", "settings under `extra` are read over", detail);
    }
    if let Some(at) = yaml::behind_first_document(text) {
        let detail = "all partitions belong into the first, without `---` between them";
        warnings.add(at, "CFG-004", "a second YAML document is not read", detail);
    }
    if scheduler.partitions.is_none() {
        let at = yaml::At { line: 1, column: 1 };
        warnings.add(at, "CFG-003", "the configuration has no partitions", "all that is sent under it is rejected");
    }
    let partitions = scheduler.partitions.iter().flatten();
    let partitions =
        partitions.map(|partition| Arc::new(build::partition(partition, &mut rule_faults, &mut warnings))).collect();
    let checksum = checksum::of(text);
    let mut warnings = warnings.into_list();
    warnings.sort_by_key(|warning| (warning.line, warning.column));
    Ok(LoadedConfig {
        partitions,
        shown: Shown { scheduler, checksum: checksum.clone() },
        checksum,
        text: text.into(),
        rule_faults: rule_faults.into_list(),
        warnings,
    })
}

/// Would this text be accepted as an update (CFG-117)? Its warnings, else the reason why not.
pub fn validate_conf(body: &[u8]) -> Result<Vec<Fault>, String> {
    let text = std::str::from_utf8(body)
        .map_err(|e| format!("yaml: the text is not UTF-8: bad byte at offset {}", e.valid_up_to()))?;
    let config = load(text).map_err(|refused| refused.message)?;
    config.check_rules().map_err(|refused| refused.message)?;
    Ok(config.warnings)
}

/// The text as written, with what does not fit the schema.
fn read(text: &str) -> Result<(written::Scheduler, Faults), Refused> {
    let node = yaml::read(text).map_err(|e| {
        let mut faults = Faults::default();
        faults.add(e.at, "CFG-005", format!("yaml: line {}: {}", e.at.line, e.message), "");
        match faults.refusal() {
            Err(refused) => refused,
            Ok(()) => Refused { message: e.message, faults: Vec::new() },
        }
    })?;
    let Some(node) = node else {
        return Ok(Default::default());
    };
    let mut faults = Faults::default();
    let (scheduler, misfits) = match decode::scheduler(&node) {
        Ok(read) => read,
        Err((at, rule, text, hint)) => {
            faults.add(at, rule, text, hint);
            return faults.refusal().map(|()| Default::default());
        }
    };
    for misfit in &misfits {
        faults.add(misfit.at, "CFG-005", &misfit.message, &misfit.hint);
    }
    let lines: Vec<_> = misfits
        .iter()
        .filter(|misfit| !misfit.hidden)
        .map(|misfit| format!("\n  line {}: {}", misfit.at.line, misfit.message))
        .collect();
    if !lines.is_empty() {
        faults.set_message(format!("yaml: unmarshal errors:{}", lines.concat()));
    }
    Ok((scheduler, faults))
}

#[cfg(test)]
mod tests;
