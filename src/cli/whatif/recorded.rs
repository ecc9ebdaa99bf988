//! A recorded time run again, without a change and with it.

use std::path::Path;

use crate::{
    actors::rm::replay::{Mode, Replay},
    cli::{
        flight::{player, source::Moment},
        out,
    },
    config,
    domain::{
        Partition,
        command::Command,
        partition::{
            forward::Bounds,
            recorded::Recorded,
            whatif::{Pair, Scenario, Waits},
        },
        types::{AllocIx, Nanos},
        words::{either, plural},
    },
    http::{
        api::whatif::{
            request::{Meant, Request},
            view::{RecordedView, WhatIf},
        },
        ws_v1::time_text,
    },
    messages::recorded::Replica,
    store::log::flight::{self, Flight},
};

/// Runs it. The change holds from this moment on; the flight's first where none is said.
///
/// # Errors
/// The flight cannot be read, has no such partition then, or the change cannot be.
pub fn run(file: &Path, at: Option<Moment>, partition: &str, wanted: &Request) -> Result<WhatIf, String> {
    let flight = Flight::read(file)?;
    if let Some(damage) = &flight.damage {
        out::note(format_args!("callboard: the flight ends early, and what follows counts for nothing: {damage}"));
    }
    flight::check_domain(&flight.title)?;
    let horizon = wanted.horizon().map_err(|problem| problem.detail)?;
    let mut replay = player::beginning(&flight)?.in_mode(Mode::Watch);
    let least = flight.snapshot.as_ref().map_or(0, |snapshot| flight.up_to_index(snapshot.index));
    let wished = at.map_or(Ok(0), |moment| moment.place(&flight))?.max(least);
    let mut place = 0;
    while place < flight.len() && (place < wished || at.is_none() && find(&replay, partition).is_none()) {
        take(&mut replay, &flight, place)?;
        place += 1;
    }
    let Some(replica) = find(&replay, partition) else { return Err(missing(&replay, partition, &flight, place)) };
    let start = replica.partition.clone();
    let from = flight.moment(place).1.max(replica.at);
    let session = replay.session.as_ref().ok_or("the flight has no session then")?;
    let text = wanted.config.as_deref().unwrap_or(&session.registered.config);
    let config = config::load(text).map_err(|refused| format!("config: {}", refused.message))?;
    let Meant { commands: change, copy, warnings } =
        wanted.change(&start, Some(&config)).map_err(|problem| match at.is_none() {
            true => format!("{} (at the flight's beginning; --at names a later moment)", problem.detail),
            false => problem.detail,
        })?;
    let mut recorded = Recorded::new(&start);
    let mut replay = replay.in_mode(Mode::Look);
    let most = horizon.map(|horizon| from.plus(horizon));
    let mut to = from;
    for place in place..flight.len() {
        let at = flight.moment(place + 1).1;
        if most.is_some_and(|most| at > most) {
            break;
        }
        take(&mut replay, &flight, place)?;
        let Some(now) = find(&replay, partition) else { break };
        to = to.max(at);
        if replay.seen.partition == start.internal {
            recorded.note(replay.seen.steps.clone(), &replay.seen.effects, &now.partition);
        }
    }
    let lasts = |partition: &Partition, ix: AllocIx, age: Nanos| {
        let row = partition.allocs.get(ix)?;
        let app = partition.apps.get(row.app)?;
        let lasted = recorded.lasted(&(app.id.clone(), row.spec.key.clone()))?;
        Some(lasted.minus(age).max(Nanos::ZERO))
    };
    let configures = change.iter().any(|command| matches!(command, Command::Configure(_)));
    let replaced = (configures && recorded.configured > 0).then(|| recorded.without_configurations());
    let both = Pair { without: &recorded, with: replaced.as_ref().unwrap_or(&recorded) };
    let never = || false;
    let bounds = [Bounds { decisions: usize::MAX, stop: &never }; 2];
    let horizon = to.minus(from);
    let scenario = Scenario { change, horizon, lasts: Some(&lasts), recorded: Some(both), bounds };
    let outcome = start.what_if(scenario, from);
    let mut ends = format!(
        "Asks come as they came, and allocations last as long as they did, which is known of {} of the {} that were placed or ran.",
        recorded.ended(),
        recorded.known()
    );
    if replaced.is_some() {
        let (changes, are) = (plural(recorded.configured, "later change"), either(&recorded.configured, "is", "are"));
        ends += &format!(" {changes} of the configuration {are} left out with the change.");
    }
    let shown = RecordedView {
        from: time_text(from),
        to: time_text(to),
        placed: recorded.placed,
        waits: Waits::from(recorded.waits.clone()).into(),
    };
    Ok(WhatIf { recorded: Some(shown), warnings, ..WhatIf::of(&start.name, horizon, ends, copy, outcome) })
}

fn take(replay: &mut Replay, flight: &Flight, place: usize) -> Result<(), String> {
    let Some(record) = flight.record(place) else { return Ok(()) };
    replay.take(&record).map_err(|why| format!("record {} cannot be applied: {why}", record.index))
}

/// The partition of this name, in full or plain.
fn find<'a>(replay: &'a Replay, name: &str) -> Option<&'a Replica> {
    let partitions = replay.session.as_ref()?.partitions.values();
    partitions.map(|(_, replica)| replica).find(|replica| {
        let partition = &replica.partition;
        partition.name.eq_ignore_ascii_case(name) || *partition.internal == *name
    })
}

fn missing(replay: &Replay, name: &str, flight: &Flight, place: usize) -> String {
    let partitions = replay.session.iter().flat_map(|session| session.partitions.values());
    let names: Vec<&str> = partitions.map(|(_, replica)| &*replica.partition.name).collect();
    let there = if names.is_empty() { "there is none".to_owned() } else { format!("there are: {}", names.join(", ")) };
    format!("--partition {name}: it is not in the flight at {}; {there}", time_text(flight.moment(place).1))
}
