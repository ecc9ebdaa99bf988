//! `callboard flight check`.

use std::process::ExitCode;

use super::{CheckArgs, player, words};
use crate::{
    actors::rm::replay::Mode,
    cli::out,
    domain::{DOMAIN_VERSION, words::plural},
    http::ws_v1::time_text,
    store::log::{Record, flight::Flight},
};

/// Lines of a record that are shown at most.
const SHOWN: usize = 50;

/// Runs it: 0 where all is as it was.
pub fn run(args: &CheckArgs) -> anyhow::Result<ExitCode> {
    let flight = args.source.open()?;
    let (text, sound) = check(&flight)?;
    out::print(out::lines(&text))?;
    Ok(if sound { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn check(flight: &Flight) -> anyhow::Result<(String, bool)> {
    let (first, last) = (flight.first(), flight.last());
    let title = &flight.title;
    let mut text = format!(
        "{}: {}, {} to {}, of version {} of the rules; this is version {DOMAIN_VERSION}\n",
        title.rm,
        plural(flight.len(), "record"),
        time_text(first.1),
        time_text(last.1),
        title.domain
    );
    let mut replay = player::beginning(flight).map_err(anyhow::Error::msg)?.in_mode(Mode::Look);
    for record in flight.records() {
        if let Err(why) = replay.take(&record) {
            text += &format!("{} cannot be applied: {why}\n", named(&record));
            return Ok((text, false));
        }
        let Some((then, now)) = replay.seen.differs else { continue };
        text += &format!("{} of {} leads to something else than it did\n", named(&record), replay.seen.partition);
        text += &format!("  then: effects with checksum {then:016x}\n  now:  effects with checksum {now:016x}\n");
        let went_in = replay.seen.steps.iter().flat_map(words::step).map(|line| format!("  in   {line}\n"));
        let came_out = replay.seen.effects.iter().map(|effect| format!("  out  {}\n", words::effect(effect)));
        text.extend(went_in.chain(came_out).take(SHOWN));
        if title.domain != DOMAIN_VERSION {
            text += "  the rules have changed since it was recorded: up to here all is as it was\n";
        }
        return Ok((text, false));
    }
    if let Some(damage) = &flight.damage {
        text += &format!("damaged: {damage}\nall before that leads to what it led to\n");
        return Ok((text, false));
    }
    text += "all of them lead to what they led to\n";
    Ok((text, true))
}

fn named(record: &Record<'_>) -> String {
    format!("record {} of {}", record.index, time_text(record.at))
}
