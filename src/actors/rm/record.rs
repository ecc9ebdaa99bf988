//! The records of a resource manager's log as bytes: those of partitions in a compact form, those of the session, which are
//! rare, as JSON.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use super::{log::LogSync, repeated::Repeatable};
use crate::{
    domain::{
        effect::{Callback, Question, QuestionKind, Released},
        event::Event,
        types::{Nanos, Termination},
    },
    messages::{
        application::UnconfirmedRelease,
        keys::Keyed,
        queue::{Admissions, AppRefusal},
        receipts::{PartOf, PartsOf, Refused, remember},
        recorded::{Entry, Talks},
        rm::{Kind, Predicates},
    },
    store::events::codec::{self, Encoder, Input, Malformed, unsigned},
};

mod keyed;
mod standing;

pub use self::{
    keyed::{KeysTaken, Taken},
    standing::{SavedStanding, SavedStandings},
};

/// Kinds of records, and of the parts of a snapshot. The numbers are the format.
pub mod kind {
    /// What a partition did: [`super::Steps`].
    pub const PARTITION: u32 = 1;
    /// A session began: [`super::Registered`].
    pub const REGISTERED: u32 = 2;
    /// Its configuration changed: [`super::Reconfigured`].
    pub const RECONFIGURED: u32 = 3;
    /// It ended: [`super::Ended`].
    pub const ENDED: u32 = 4;
    /// Callbacks that are of no partition's record: [`super::Said`].
    pub const SAID: u32 = 5;
    /// Events for the shim: [`super::events`].
    pub const EVENTS: u32 = 6;
    /// The shim was asked for its state.
    pub const STATE_DUMP: u32 = 7;
    /// How the session is otherwise: [`super::Manner`].
    pub const MANNER: u32 = 8;
    /// How far lines were handed to sockets: [`super::handed`].
    pub const HANDED: u32 = 9;
    /// The server was started again: open questions are asked anew.
    pub const RESTARTED: u32 = 10;
    /// Numbered requests without a part for a partition were carried out: [`super::Requests`].
    pub const TAKEN: u32 = 11;
    /// The same of requests with keys.
    pub const KEYED: u32 = 12;
    /// What operators told partitions that are gone: [`super::SavedStandings`], instead of what was recorded before.
    pub const STANDING: u32 = 13;
    /// The next numbered configuration that is recorded as taken was refused: [`crate::messages::receipts::Refused`].
    pub const REFUSED: u32 = 14;
    /// How many events came before, as JSON. Records of releases that did not count events count as none.
    pub const COUNTED: u32 = 15;
    /// Those that tell of the session's doors: only who brings it back needs them.
    pub const OF_DOORS: [u32; 8] = [SAID, EVENTS, STATE_DUMP, HANDED, RESTARTED, TAKEN, REFUSED, KEYED];
    /// Of a snapshot: the session, [`super::SavedSession`].
    pub const SESSION: u32 = 100;
    /// Of a snapshot: a partition, [`super::SavedPartition`] before its bytes.
    pub const SAVED: u32 = 101;
    /// Of a snapshot: lines that may not have reached the shim, [`super::saved_lines`].
    pub const LINES: u32 = 102;
}

/// How far the lines of each kind were handed to sockets.
pub type HandedTo = [u64; Kind::ALL.len()];

/// Numbers of requests, each with the parts that it has in all.
pub type Requests = Vec<(u64, u32)>;

/// How far the numbered requests of a session are in its log.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Numbers {
    /// All up to this one.
    pub taken: u64,
    /// Later numbers: how many parts were recorded by releases that did not say which, and how many parts there are.
    parts: BTreeMap<u64, (u32, u32)>,
    /// The parts of these numbers that are recorded.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub recorded: BTreeMap<u64, PartsOf>,
    /// The latest configurations among them that were refused.
    #[serde(default, skip_serializing_if = "VecDeque::is_empty")]
    pub refused: VecDeque<Refused>,
}

impl Numbers {
    /// `by` has recorded its part of each of these requests.
    pub fn note(&mut self, requests: &[(u64, u32)], by: PartOf) {
        for (number, of) in requests.iter().filter(|(number, _)| *number > self.taken) {
            self.parts.entry(*number).or_insert((0, *of));
            self.recorded.entry(*number).or_default().insert(by);
        }
        while let Some((counted, of)) = self.parts.get(&(self.taken + 1)) {
            let known = self.recorded.get(&(self.taken + 1)).map_or(0, |by| by.len());
            if *counted as usize + known < *of as usize || *of > 1 && crate::domain::planted!("numbers-lost") {
                break;
            }
            self.taken += 1;
            self.parts.remove(&self.taken);
            self.recorded.remove(&self.taken);
        }
    }

    /// This configuration was refused.
    pub fn refuse(&mut self, refused: Refused) {
        remember(&mut self.refused, refused);
    }
}

/// The record of a partition.
#[derive(Debug)]
pub struct Steps<'a> {
    /// Its number in the session.
    pub instance: u32,
    /// Number of the record among those of the partition.
    pub number: u64,
    /// It has ended.
    pub last: bool,
    /// How questions were put to the shim; `Off`: they were not.
    pub asks: Predicates,
    /// Of the effects.
    pub digest: u64,
    /// See [`HandedTo`], where it changed.
    pub handed: Option<HandedTo>,
    /// Numbered requests of which a part is in it.
    pub requests: Requests,
    /// Requests with keys of which a part is in it.
    pub keyed: Vec<Keyed>,
    /// What the partition was made from, in its first record.
    pub beginning: Option<&'a [u8]>,
    /// What went in.
    pub steps: &'a [u8],
}

const LAST: u64 = 1;
const HANDED: u64 = 2;
const BEGINNING: u64 = 4;
const REQUESTS: u64 = 8;
const KEYED: u64 = 16;

/// Writes the record of a partition.
pub fn steps(entry: &Entry, asks: Predicates, handed: Option<HandedTo>, taken: &Taken, out: &mut Vec<u8>) {
    let steps = Steps {
        instance: entry.instance,
        number: entry.number,
        last: entry.last,
        asks,
        digest: entry.digest,
        handed,
        requests: taken.requests.clone(),
        keyed: taken.keyed.clone(),
        beginning: entry.beginning.as_deref(),
        steps: &entry.steps,
    };
    write_steps(&steps, out);
}

/// Writes it, in the place of what is in `out`.
pub fn write_steps(steps: &Steps<'_>, out: &mut Vec<u8>) {
    out.clear();
    let mut flags = if steps.last { LAST } else { 0 };
    flags |= if steps.handed.is_some() { HANDED } else { 0 };
    flags |= if steps.beginning.is_some() { BEGINNING } else { 0 };
    flags |= if steps.requests.is_empty() { 0 } else { REQUESTS };
    flags |= if steps.keyed.is_empty() { 0 } else { KEYED };
    unsigned(out, u64::from(steps.instance));
    unsigned(out, steps.number);
    unsigned(out, flags);
    unsigned(out, u64::from(number_of(steps.asks)));
    out.extend_from_slice(&steps.digest.to_le_bytes());
    for handed in steps.handed.into_iter().flatten() {
        unsigned(out, handed);
    }
    if !steps.requests.is_empty() {
        unsigned(out, steps.requests.len() as u64);
        for (number, parts) in &steps.requests {
            unsigned(out, *number);
            unsigned(out, u64::from(*parts));
        }
    }
    if !steps.keyed.is_empty() {
        unsigned(out, steps.keyed.len() as u64);
        for ((one, two), (length, sum), parts) in &steps.keyed {
            for number in [*one, *two, *length, u64::from(*sum), u64::from(*parts)] {
                unsigned(out, number);
            }
        }
    }
    if let Some(beginning) = steps.beginning {
        unsigned(out, beginning.len() as u64);
        out.extend_from_slice(beginning);
    }
    out.extend_from_slice(steps.steps);
}

/// Reads bytes that have their number before them.
pub(super) fn piece<'a>(input: &mut Input<'a>) -> Result<&'a [u8], Malformed> {
    let length = input.count()?;
    let (piece, rest) = input.rest.split_at_checked(length).ok_or(Malformed("it ends too early"))?;
    input.rest = rest;
    Ok(piece)
}

/// Reads what [`steps`] wrote.
pub fn read_steps(payload: &[u8]) -> Result<Steps<'_>, String> {
    let read = || -> Result<Steps<'_>, Malformed> {
        let mut input = Input { rest: payload };
        let instance = u32::try_from(input.unsigned()?).map_err(|_| Malformed("a partition's number is too large"))?;
        let number = input.unsigned()?;
        let flags = input.unsigned()?;
        if flags >= 2 * KEYED {
            return Err(Malformed("it was written by a later release"));
        }
        let asks = u8::try_from(input.unsigned()?).ok().and_then(asks_of).ok_or(Malformed("an unknown way to ask"))?;
        let (digest, rest) = input.rest.split_first_chunk().ok_or(Malformed("it ends too early"))?;
        input.rest = rest;
        let handed = if flags & HANDED != 0 { Some(read_handed_from(&mut input)?) } else { None };
        let mut requests = Requests::new();
        if flags & REQUESTS != 0 {
            for _ in 0..input.count()? {
                let (number, parts) = (input.unsigned()?, input.unsigned()?);
                requests.push((number, u32::try_from(parts).unwrap_or(u32::MAX)));
            }
        }
        let mut keyed = Vec::new();
        if flags & KEYED != 0 {
            for _ in 0..input.count()? {
                let key = (input.unsigned()?, input.unsigned()?);
                let digest = (input.unsigned()?, u32::try_from(input.unsigned()?).unwrap_or(u32::MAX));
                keyed.push((key, digest, u32::try_from(input.unsigned()?).unwrap_or(u32::MAX)));
            }
        }
        let beginning = if flags & BEGINNING != 0 { Some(piece(&mut input)?) } else { None };
        let (last, digest) = (flags & LAST != 0, u64::from_le_bytes(*digest));
        Ok(Steps { instance, number, last, asks, digest, handed, requests, keyed, beginning, steps: input.rest })
    };
    read().map_err(|error| error.0.to_owned())
}

/// Writes how far lines were handed to sockets.
pub fn handed(handed: HandedTo) -> Vec<u8> {
    let mut out = Vec::new();
    handed.into_iter().for_each(|handed| unsigned(&mut out, handed));
    out
}

fn read_handed_from(input: &mut Input<'_>) -> Result<HandedTo, Malformed> {
    let mut handed = HandedTo::default();
    for place in &mut handed {
        *place = input.unsigned()?;
    }
    Ok(handed)
}

/// Reads what [`handed`] wrote.
pub fn read_handed(payload: &[u8]) -> Result<HandedTo, String> {
    read_handed_from(&mut Input { rest: payload }).map_err(|error| error.0.to_owned())
}

/// The lines of a snapshot whose lines nobody wants.
pub fn no_lines() -> Vec<u8> {
    super::saved_lines::write(&[])
}

/// Writes events for the shim.
pub fn events(events: &[Event]) -> Vec<u8> {
    let base = events.first().map_or(Nanos::ZERO, |event| event.at);
    let mut out = base.0.to_le_bytes().to_vec();
    Encoder::default().encode(events.iter(), base, &mut out);
    out
}

/// Reads what [`events`] wrote.
pub fn read_events(payload: &[u8]) -> Result<Vec<Event>, String> {
    let (base, rest) = payload.split_first_chunk::<8>().ok_or("it is too short")?;
    codec::decode(rest, Nanos(i64::from_le_bytes(*base))).map_err(|error| error.0.to_owned())
}

/// As JSON.
pub fn json(value: &impl Serialize) -> Vec<u8> {
    // Structures of texts and numbers have a JSON text.
    serde_json::to_vec(value).unwrap_or_default()
}

/// From JSON.
pub fn read_json<T: DeserializeOwned>(payload: &[u8]) -> Result<T, String> {
    serde_json::from_slice(payload).map_err(|error| format!("it cannot be read: {error}"))
}

/// The number of a way to ask.
pub const fn number_of(asks: Predicates) -> u8 {
    match asks {
        Predicates::Off => 0,
        Predicates::Single => 1,
        Predicates::Batch => 2,
        Predicates::Several => 3,
    }
}

/// The way to ask of a number.
pub const fn asks_of(number: u8) -> Option<Predicates> {
    match number {
        0 => Some(Predicates::Off),
        1 => Some(Predicates::Single),
        2 => Some(Predicates::Batch),
        3 => Some(Predicates::Several),
        _ => None,
    }
}

/// A session began, or that is how it is now.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Registered {
    /// Its number.
    pub epoch: u64,
    /// When it began, in nanoseconds.
    pub at: i64,
    /// Version of the interface client.
    pub version: String,
    /// Policy group as given.
    pub policy_group: Arc<str>,
    /// Build information with `rmId`.
    pub build_info: BTreeMap<String, String>,
    /// Text of the configuration in force.
    pub config: Arc<str>,
    /// It is the server's own.
    pub default_config: bool,
    /// Extra configuration.
    pub extra: Arc<BTreeMap<String, String>>,
    /// How the shim registered: see [`number_of`].
    pub predicates: u8,
    /// It answers state dump requests.
    pub state_dump: bool,
    /// It leaves the settings of the whole process as they are.
    pub tenant: bool,
    /// When its records count: see [`LogSync`](super::log::LogSync).
    pub sync: LogSync,
    /// Events that the log told of before, where they are counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub events: Option<u64>,
    /// Settings that are read at registration alone, as they were then; `None`, in logs of earlier releases: as they are now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fixed: Option<BTreeMap<String, String>>,
    /// The configuration is the one that holds for all servers of a cluster.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub shared: bool,
    /// Registrations and ends with keys that were carried out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub repeatable: Vec<Repeatable>,
}

/// The configuration of a session changed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reconfigured {
    /// Text of the configuration.
    pub config: Arc<str>,
    /// It is the server's own.
    pub default_config: bool,
    /// Extra configuration.
    pub extra: Arc<BTreeMap<String, String>>,
    /// It leaves the settings of the whole process as they are.
    pub tenant: bool,
    /// The configuration is the one that holds for all servers of a cluster.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub shared: bool,
}

/// A session ended, or what is known of it is not enough to go on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ended {
    /// Its number.
    pub epoch: u64,
    /// Why, as it is shown to people.
    pub why: Arc<str>,
    /// The log does not tell all of it: streams are told so.
    pub lost: bool,
    /// Events that the log told of before, where they are counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub events: Option<u64>,
    /// Registrations and ends with keys that were carried out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub repeatable: Vec<Repeatable>,
}

/// What of a session is not in its other records.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manner {
    /// How the shim is asked: see [`number_of`].
    pub asking: u8,
    /// A response stream was open at some time.
    pub had_stream: bool,
    /// A heartbeat for a node of it was sent.
    pub heartbeats: bool,
}

/// Callbacks that no partition made just now: what was sent before, and what is for no partition.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Said {
    /// Internal name of the partition.
    pub partition: Arc<str>,
    /// The callbacks.
    pub callbacks: Vec<Saying>,
}

/// See [`Said`].
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub enum Saying {
    /// A release once more.
    Released(SavedRelease),
    /// A refused ask or allocation: key, application, reason.
    Allocation(Arc<str>, Arc<str>, Arc<str>),
    /// A refused application: id, reason.
    Application(Arc<str>, Arc<str>),
    /// A refused node: id, reason.
    Node(Arc<str>, Arc<str>),
}

impl Saying {
    /// `None` for callbacks that only partitions make.
    pub fn of(callback: &Callback) -> Option<Saying> {
        Some(match callback {
            Callback::Released(released) => Saying::Released(SavedRelease::of(released)),
            Callback::RejectedAllocation { key, app, reason } => {
                Saying::Allocation(key.clone(), app.clone(), reason.clone())
            }
            Callback::RejectedApplication { app, reason } => Saying::Application(app.clone(), reason.clone()),
            Callback::RejectedNode { node, reason } => Saying::Node(node.clone(), reason.clone()),
            _ => return None,
        })
    }

    /// The callback.
    pub fn callback(self) -> Result<Callback, String> {
        Ok(match self {
            Saying::Released(release) => Callback::Released(Box::new(release.release()?)),
            Saying::Allocation(key, app, reason) => Callback::RejectedAllocation { key, app, reason },
            Saying::Application(app, reason) => Callback::RejectedApplication { app, reason },
            Saying::Node(node, reason) => Callback::RejectedNode { node, reason },
        })
    }
}

/// Writes callbacks that no partition made just now.
pub fn said(partition: &Arc<str>, callbacks: &[Callback]) -> Vec<u8> {
    // Whoever makes them makes only those.
    let callbacks = callbacks.iter().filter_map(Saying::of).collect();
    json(&Said { partition: partition.clone(), callbacks })
}

/// A release as JSON.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SavedRelease {
    key: Arc<str>,
    app: Arc<str>,
    termination: u8,
    message: Arc<str>,
    confirm: bool,
}

const TERMINATIONS: [Termination; 6] = [
    Termination::Unknown,
    Termination::StoppedByRm,
    Termination::Timeout,
    Termination::Preempted,
    Termination::PlaceholderReplaced,
    Termination::FailedOnRm,
];

impl SavedRelease {
    fn of(released: &Released) -> SavedRelease {
        let Released { key, app, termination, message, confirm } = released.clone();
        // Every one is in the list.
        let termination = TERMINATIONS.iter().position(|known| *known == termination).unwrap_or_default() as u8;
        SavedRelease { key, app, termination, message, confirm }
    }

    fn release(self) -> Result<Released, String> {
        let SavedRelease { key, app, termination, message, confirm } = self;
        let known = TERMINATIONS.get(usize::from(termination)).copied();
        let termination = known.ok_or_else(|| format!("{termination} is no type of termination"))?;
        Ok(Released { key, app, termination, message, confirm })
    }
}

/// A question as JSON.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SavedQuestion {
    /// Internal name of the partition that asks.
    pub partition: Arc<str>,
    /// The line that carries it.
    pub line: u64,
    /// Several nodes may be named.
    batch: bool,
    /// And several asks.
    #[serde(default)]
    several: bool,
    #[serde(default)]
    together: bool,
    id: u64,
    key: Arc<str>,
    node: Arc<str>,
    more: Vec<Arc<str>>,
    allocate: Option<bool>,
    victims: Vec<Arc<str>>,
    start: i32,
}

impl SavedQuestion {
    /// Of an open question.
    pub fn of(partition: &Arc<str>, line: u64, asks: Predicates, question: &Question) -> SavedQuestion {
        let Question { id, key, node, more, kind, together } = question.clone();
        let (allocate, victims, start) = match kind {
            QuestionKind::Fits { allocate } => (Some(allocate), Vec::new(), 0),
            QuestionKind::FitsWithout { victims, start } => (None, victims, start),
        };
        let (partition, batch, several) = (partition.clone(), asks != Predicates::Single, asks == Predicates::Several);
        SavedQuestion { partition, line, batch, several, together, id, key, node, more, allocate, victims, start }
    }

    /// How it was put.
    pub fn asks(&self) -> Predicates {
        match (self.batch, self.several) {
            (_, true) => Predicates::Several,
            (true, false) => Predicates::Batch,
            (false, false) => Predicates::Single,
        }
    }

    /// The question.
    pub fn question(self) -> Question {
        let SavedQuestion { id, key, node, more, allocate, victims, start, together, .. } = self;
        let kind = match allocate {
            Some(allocate) => QuestionKind::Fits { allocate },
            None => QuestionKind::FitsWithout { victims, start },
        };
        Question { id, key, node, more, kind, together }
    }
}

/// The session in a snapshot.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SavedSession {
    /// Records up to this one are in every part of it.
    pub from: u64,
    /// The session.
    pub registered: Registered,
    /// The rest of it.
    pub manner: Manner,
    /// Number of the newest line.
    pub last: u64,
    /// Lines up to this one may be gone.
    pub dropped: u64,
    /// How far lines were handed to sockets.
    pub handed: HandedTo,
    /// A line behind which no releases wait: earlier versions of the server read it.
    pub last_release: u64,
    /// Questions that are not answered.
    pub questions: Vec<SavedQuestion>,
    /// Number of the next partition.
    pub instances: u32,
    /// Its numbered requests.
    pub numbers: Numbers,
    /// Its requests with keys.
    #[serde(default, skip_serializing_if = "KeysTaken::is_empty")]
    pub keys: KeysTaken,
    /// Events that the log told of, where they are counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub events: Option<u64>,
    /// What operators told partitions that a configuration left out.
    #[serde(default, skip_serializing_if = "SavedStandings::is_empty")]
    pub standing: SavedStandings,
}

/// A partition in a snapshot, but for its own bytes.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SavedPartition {
    /// Its number in the session.
    pub instance: u32,
    /// Number of its last record.
    pub number: u64,
    /// When the snapshot was taken, in nanoseconds.
    pub at: i64,
    apps: Vec<Arc<str>>,
    queues: Vec<SavedQueue>,
    unconfirmed: Vec<(SavedRelease, i64, u32)>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct SavedQueue {
    path: Arc<str>,
    admitted: u64,
    refused: u64,
    refusals: Vec<(i64, Arc<str>, Arc<str>)>,
}

impl SavedPartition {
    /// Of a partition after its record `number`.
    pub fn of(instance: u32, number: u64, at: Nanos, talks: Talks) -> SavedPartition {
        let queue = |(path, admissions): (Arc<str>, Admissions)| SavedQueue {
            path,
            admitted: admissions.admitted,
            refused: admissions.refused,
            refusals: admissions
                .refusals
                .into_iter()
                .map(|AppRefusal { at, app, reason }| (at.0, app, reason))
                .collect(),
        };
        let row = |row: UnconfirmedRelease| (SavedRelease::of(&row.release), row.since.0, row.sent);
        SavedPartition {
            instance,
            number,
            at: at.0,
            apps: talks.apps.into_iter().collect(),
            queues: talks.queues.into_iter().map(queue).collect(),
            unconfirmed: talks.unconfirmed.into_values().map(row).collect(),
        }
    }

    /// What its conversations knew.
    pub fn talks(self) -> Result<Talks, String> {
        let mut talks = Talks { apps: self.apps.into_iter().collect(), ..Talks::default() };
        for SavedQueue { path, admitted, refused, refusals } in self.queues {
            let refusal = |(at, app, reason)| AppRefusal { at: Nanos(at), app, reason };
            let refusals = refusals.into_iter().map(refusal).collect();
            talks.queues.insert(path, Admissions { admitted, refused, refusals });
        }
        for (release, since, sent) in self.unconfirmed {
            let release = release.release()?;
            let key = (release.app.clone(), release.key.clone(), release.termination);
            talks.unconfirmed.insert(key, UnconfirmedRelease { release, since: Nanos(since), age: Nanos::ZERO, sent });
        }
        Ok(talks)
    }

    /// As the payload of a part, with the bytes of the partition.
    pub fn with(&self, partition: &[u8]) -> Vec<u8> {
        let json = json(self);
        let mut out = Vec::with_capacity(json.len() + partition.len() + 8);
        unsigned(&mut out, json.len() as u64);
        out.extend_from_slice(&json);
        out.extend_from_slice(partition);
        out
    }

    /// Reads what [`SavedPartition::with`] wrote.
    pub fn read(payload: &[u8]) -> Result<(SavedPartition, &[u8]), String> {
        let mut input = Input { rest: payload };
        let json = piece(&mut input).map_err(|error| error.0.to_owned())?;
        Ok((read_json(json)?, input.rest))
    }
}

#[cfg(test)]
mod tests;
