//! `callboard flight show`.

use std::{io::Write as _, process::ExitCode};

use serde_json::json;

use super::{ShowArgs, player, words};
use crate::{
    actors::rm::{
        record::kind,
        replay::{Mode, Replay},
    },
    cli::out,
    http::ws_v1::time_text,
    store::log::Record,
};

/// Runs it.
pub fn run(args: &ShowArgs) -> anyhow::Result<ExitCode> {
    let flight = args.source.open()?;
    let wanted = match args.at {
        None => 0..flight.len(),
        Some(at) => {
            let place = at.place(&flight).map_err(anyhow::Error::msg)?;
            place.saturating_sub(1)..place
        }
    };
    let mut replay = player::beginning(&flight).map_err(anyhow::Error::msg)?;
    let mut out = out::stdout();
    for (place, record) in flight.records().enumerate().take(wanted.end) {
        let is_wanted = wanted.contains(&place);
        replay = replay.in_mode(if is_wanted { Mode::Look } else { Mode::Watch });
        if let Err(why) = replay.take(&record) {
            out::note(format_args!("callboard: record {} cannot be applied: {why}", record.index));
            return Ok(ExitCode::FAILURE);
        }
        if is_wanted && let Some(text) = text(&record, &replay, args) {
            out.write_all(text.as_bytes())?;
        }
    }
    out.flush()?;
    if let Some(damage) = &flight.damage {
        out::note(format_args!("callboard: what follows cannot be read: {damage}"));
        return Ok(ExitCode::FAILURE);
    }
    Ok(ExitCode::SUCCESS)
}

/// A record; `None` where nothing of it is wanted.
fn text(record: &Record<'_>, replay: &Replay, args: &ShowArgs) -> Option<String> {
    let seen = &replay.seen;
    let wanted = |line: &String| args.object.as_ref().is_none_or(|object| words::names(line, object));
    let went_in: Vec<String> = match record.kind {
        kind::PARTITION => seen.steps.iter().flat_map(words::step).filter(wanted).collect(),
        other => vec![words::session(other, record.payload)].into_iter().filter(wanted).collect(),
    };
    let came_out: Vec<String> = seen.effects.iter().map(words::effect).filter(wanted).collect();
    if args.object.is_some() && went_in.is_empty() && came_out.is_empty() {
        return None;
    }
    let differs = seen.differs.is_some();
    if args.json {
        let row = json!({
            "index": record.index,
            "time": time_text(record.at),
            "timestampNano": record.at.0.to_string(),
            "partition": &*seen.partition,
            "in": went_in,
            "out": came_out,
            "differs": differs,
        });
        return Some(out::escaped(&row.to_string()) + "\n");
    }
    let mut text = format!("{} {} {}\n", record.index, time_text(record.at), seen.partition);
    if differs {
        text += "  this leads to something else than it did\n";
    }
    text.extend(went_in.iter().map(|line| format!("  in   {}\n", out::line(line))));
    text.extend(came_out.iter().map(|line| format!("  out  {}\n", out::line(line))));
    Some(text)
}
