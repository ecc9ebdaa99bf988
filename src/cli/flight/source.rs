//! Which flight is meant, and which moment of it.

use std::{
    path::{Path, PathBuf},
    str::FromStr,
};

use anyhow::{Context as _, bail};
use clap::Args;
use jiff::{Timestamp, civil::DateTime, tz::TimeZone};

use crate::{
    actors::rm::record::kind,
    cli::Misused,
    domain::types::Nanos,
    http::ws_v1::time_text,
    store::log::{self, flight::Flight},
};

/// A file, or a log of a data directory.
#[derive(Args, Clone, Debug)]
pub struct Source {
    /// The file that `callboard flight export` wrote; without it a log of --data
    #[arg(value_name = "FLIGHT", conflicts_with = "rm")]
    pub file: Option<PathBuf>,
    /// The data directory of the server
    #[arg(long, value_name = "DIR", env = "CALLBOARD_DATA", default_value = "./callboard-data")]
    pub data: PathBuf,
    /// The resource manager; may be left out where there is one only
    #[arg(long)]
    pub rm: Option<String>,
}

/// A moment of a flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// After the record of this number.
    Index(u64),
    /// At this time.
    Time(Nanos),
}

impl FromStr for Moment {
    type Err = String;

    fn from_str(text: &str) -> Result<Moment, String> {
        match text.parse() {
            Ok(index) => Ok(Moment::Index(index)),
            Err(_) => time(text).map(Moment::Time).map_err(|why| format!("no number of a record, and {why}")),
        }
    }
}

impl Moment {
    /// How many records of a flight there are up to it. After the last record all stays as it is, whatever the time.
    ///
    /// # Errors
    /// The flight begins later, or has no record of this number.
    pub fn place(self, flight: &Flight) -> Result<usize, String> {
        let ((first, begins), (last, ends)) = (flight.first(), flight.last());
        let reaches = || {
            format!("the flight goes from record {first}, {}, to record {last}, {}", time_text(begins), time_text(ends))
        };
        match self {
            Moment::Index(index) if index < first || index > last => Err(format!("--at {index}: {}", reaches())),
            Moment::Time(at) if at < begins => Err(format!("--at {}: {}", time_text(at), reaches())),
            Moment::Index(index) => Ok(flight.up_to_index(index)),
            Moment::Time(at) => Ok(flight.up_to_time(at)),
        }
    }
}

/// A time with its zone, or without one in UTC.
pub fn time(text: &str) -> Result<Nanos, String> {
    let stamp = text.parse::<Timestamp>().or_else(|error| {
        let civil: DateTime = text.parse().map_err(|_| error)?;
        civil.to_zoned(TimeZone::UTC).map(|zoned| zoned.timestamp())
    });
    let nanos = stamp.ok().and_then(|stamp| i64::try_from(stamp.as_nanosecond()).ok());
    nanos
        .map(Nanos)
        .ok_or_else(|| format!("\"{text}\" is no time such as 2026-11-21T02:13 (UTC) or 2026-11-21T02:13:00+01:00"))
}

/// A log can be read from a record of this kind on without a snapshot.
pub fn begins(of: u32) -> bool {
    matches!(of, kind::REGISTERED | kind::ENDED)
}

/// The logs of a data directory.
pub fn directories(data: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let base = data.join("log");
    let found = log::directories(&base);
    let found = found.with_context(|| format!("--data {}: its logs cannot be read", data.display()))?;
    Ok(found.into_iter().filter(|dir| log::title_of(dir).is_some()).collect())
}

/// The log of a resource manager.
pub fn directory(data: &Path, rm: Option<&str>) -> anyhow::Result<PathBuf> {
    let found = directories(data)?;
    let names: Vec<String> = found.iter().filter_map(|dir| log::title_of(dir)).map(|title| title.rm).collect();
    let named = || format!("the logs there are of: {}", names.join(", "));
    match (rm, &found[..]) {
        (_, []) => bail!(
            "--data {}: there is no log (those of a server with --cluster are in etcd, and no flight can be made of them there)",
            data.display()
        ),
        (Some(rm), _) => match names.iter().position(|name| name == rm) {
            Some(place) => Ok(found[place].clone()),
            None => bail!("--rm {rm}: there is no log of it; {}", named()),
        },
        (None, [only]) => Ok(only.clone()),
        (None, _) => bail!(Misused(format!("--rm is wanted: {}", named()).into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_numbers_or_times() {
        assert_eq!("17".parse(), Ok(Moment::Index(17)));
        let at = Moment::Time(Nanos::from_secs(1_795_194_780));
        for text in ["2026-11-20T17:13", "2026-11-20T17:13:00", "2026-11-20T17:13:00Z", "2026-11-20T18:13:00+01:00"] {
            assert_eq!(text.parse(), Ok(at), "{text}");
        }
        let refused = "noon".parse::<Moment>().unwrap_err();
        assert!(refused.contains("\"noon\"") && refused.contains("2026-11-21T02:13"), "{refused}");
    }
}
