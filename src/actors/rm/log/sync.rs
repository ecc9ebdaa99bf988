//! When a record of the log counts.

use serde::{Deserialize, Serialize};

/// `log.sync`: when a record counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogSync {
    /// When the kernel has it; it is flushed within a tenth of a second.
    #[default]
    Interval,
    /// When it is on the disk.
    Batch,
    /// Nothing is recorded.
    Off,
}

impl std::str::FromStr for LogSync {
    type Err = ();

    fn from_str(text: &str) -> Result<LogSync, ()> {
        <LogSync as clap::ValueEnum>::from_str(text, false).map_err(drop)
    }
}

impl std::fmt::Display for LogSync {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            LogSync::Interval => "interval",
            LogSync::Batch => "batch",
            LogSync::Off => "off",
        })
    }
}
