//! Flights: a stretch of a log for whoever wants to see it again, in memory, from a directory of a log or from a file of its own.
//!
//! A file is frames as the log has them: the title, what the flight is ([`About`]), the parts of the snapshot with which it begins,
//! its records in order, and an end that says how many there are. A directory may be that of a running server: it is only read.

use std::{fs, io, path::Path};

use serde::{Deserialize, Serialize};

use super::{
    Part, Record, Snapshot, TITLE, Title, check_title, frame, load, segments, snapshots, title_bytes, title_of,
};
use crate::{domain::types::Nanos, store::files};

/// Version of the files.
pub const FORMAT: u32 = 1;
/// Kind of the frame that says what the flight is.
const ABOUT: u32 = 200;
/// Kind of the last frame; its index is the number of those between it and [`ABOUT`].
const END: u32 = u32::MAX;
/// Kinds of the parts of a snapshot.
const PARTS: std::ops::Range<u32> = 100..200;
/// A running server removes files that it does not need any more: so often it is tried again.
const TRIES: usize = 5;

/// What a flight is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct About {
    /// Version of the file.
    pub format: u32,
    /// Names of users, groups, applications and tags are replaced.
    pub redacted: bool,
    /// Of the server that exported it.
    pub exported_by: String,
}

/// A stretch of a log.
#[derive(Debug)]
pub struct Flight {
    /// Whose log it is of.
    pub title: Title,
    /// What it is.
    pub about: About,
    /// It begins after this; `None`: with its first record, which begins a session.
    pub snapshot: Option<Snapshot>,
    /// Damage that ends it early, with its place.
    pub damage: Option<String>,
    bytes: Vec<u8>,
    places: Vec<Place>,
}

#[derive(Clone, Copy, Debug)]
struct Place {
    index: u64,
    at: Nanos,
    offset: usize,
}

impl Flight {
    /// An empty one of this log.
    pub fn new(title: Title, about: About, snapshot: Option<Snapshot>) -> Flight {
        Flight { title, about, snapshot, damage: None, bytes: Vec::new(), places: Vec::new() }
    }

    /// Adds the next record.
    pub fn push(&mut self, record: &Record<'_>) {
        let offset = self.bytes.len();
        frame::seal(&mut self.bytes, record.kind, record.index, record.at, record.payload);
        self.places.push(Place { index: record.index, at: record.at, offset });
    }

    /// Number of records.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// There are no records.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// A record, counted from 0.
    pub fn record(&self, place: usize) -> Option<Record<'_>> {
        let Place { index, at, offset } = *self.places.get(place)?;
        let (head, payload) = frame::whole(&self.bytes[offset..])?;
        Some(Record { index, at, kind: head.kind, payload })
    }

    /// All records in order.
    pub fn records(&self) -> impl Iterator<Item = Record<'_>> {
        (0..self.len()).filter_map(|place| self.record(place))
    }

    /// How many records there are up to this index.
    pub fn up_to_index(&self, index: u64) -> usize {
        self.places.partition_point(|place| place.index <= index)
    }

    /// How many records there are up to this time. Times do not go back.
    pub fn up_to_time(&self, at: Nanos) -> usize {
        self.places.partition_point(|place| place.at <= at)
    }

    /// Index and time of what it begins after, or with.
    pub fn first(&self) -> (u64, Nanos) {
        let snapshot = self.snapshot.as_ref().map(|snapshot| (snapshot.index, snapshot.at));
        snapshot.or_else(|| self.places.first().map(|place| (place.index, place.at))).unwrap_or_default()
    }

    /// Index and time of the last record.
    pub fn last(&self) -> (u64, Nanos) {
        self.places.last().map_or_else(|| self.first(), |place| (place.index, place.at))
    }

    /// Index and time of the moment after so many records.
    pub fn moment(&self, records: usize) -> (u64, Nanos) {
        let place = records.checked_sub(1).and_then(|place| self.places.get(place));
        place.map_or_else(|| self.first(), |place| (place.index, place.at))
    }

    /// Bytes of its records.
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Only the first so many records are left.
    pub fn truncate(&mut self, records: usize) {
        if let Some(place) = self.places.get(records) {
            self.bytes.truncate(place.offset);
            self.places.truncate(records);
        }
    }

    /// Records up to this one are left out: the snapshot has them.
    pub fn skip_to(&mut self, index: u64) {
        let skipped = self.up_to_index(index);
        let offset = self.places.get(skipped).map_or(self.bytes.len(), |place| place.offset);
        self.bytes.drain(..offset);
        self.places.drain(..skipped);
        self.places.iter_mut().for_each(|place| place.offset -= offset);
    }

    /// Writes it. Gives the size of the file.
    ///
    /// # Errors
    /// It cannot be written; what was there before is there still.
    pub fn write(&self, path: &Path) -> io::Result<u64> {
        files::replace_with(path, |file| self.write_to(file))
    }

    /// The same, to somewhere else.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write_to(&self, to: &mut impl io::Write) -> io::Result<u64> {
        let mut head = Vec::new();
        frame::seal(&mut head, TITLE, self.first().0, Nanos::ZERO, &title_bytes(&self.title));
        let about = serde_json::to_vec(&self.about)?;
        frame::seal(&mut head, ABOUT, 0, Nanos::ZERO, &about);
        let mut parts = 0;
        if let Some(snapshot) = &self.snapshot {
            for part in &snapshot.parts {
                frame::seal(&mut head, part.kind, snapshot.index, snapshot.at, &part.payload);
            }
            parts = snapshot.parts.len();
        }
        let mut end = Vec::new();
        frame::seal(&mut end, END, (parts + self.len()) as u64, Nanos::ZERO, &[]);
        let mut bytes = 0;
        for piece in [&head, &self.bytes, &end] {
            to.write_all(piece)?;
            bytes += piece.len() as u64;
        }
        Ok(bytes)
    }

    /// Reads a file that [`Flight::write`] wrote.
    ///
    /// # Errors
    /// It is none, or is of a later release. Damage behind its beginning is in [`Flight::damage`].
    pub fn read(path: &Path) -> Result<Flight, String> {
        let named = |why: String| format!("flight {}: {why}", path.display());
        let bytes = fs::read(path).map_err(|error| named(format!("it cannot be read: {error}")))?;
        let none = || named("it is no flight: callboard flight export makes one".to_owned());
        if !bytes.starts_with(&frame::MAGIC) {
            return Err(none());
        }
        let (title, mut at) = check_title(&bytes, None).map_err(&named)?;
        let about = match frame::whole(&bytes[at..]) {
            Some((head, payload)) if head.kind == ABOUT => {
                at += frame::total(payload);
                let about: About = serde_json::from_slice(payload).map_err(|error| named(error.to_string()))?;
                about
            }
            _ => return Err(none()),
        };
        if about.format > FORMAT {
            let text = format!("it has format {}, and this release reads up to {FORMAT}", about.format);
            return Err(named(text));
        }
        let mut flight = Flight::new(title, about, None);
        let mut count = 0;
        loop {
            let Some((head, payload)) = frame::whole(&bytes[at..]) else {
                let what = if at == bytes.len() { "it ends too early" } else { "it is damaged" };
                flight.damage = Some(named(format!("{what} at byte {at}, behind record {}", flight.last().0)));
                return Ok(flight);
            };
            at += frame::total(payload);
            if head.kind == END {
                if head.index != count || at != bytes.len() {
                    flight.damage = Some(named("it is not whole, or something follows it".to_owned()));
                }
                return Ok(flight);
            }
            count += 1;
            if PARTS.contains(&head.kind) {
                let snapshot =
                    flight.snapshot.get_or_insert(Snapshot { index: head.index, at: head.at, parts: Vec::new() });
                snapshot.parts.push(Part { kind: head.kind, payload: payload.to_vec() });
            } else {
                flight.push(&Record { index: head.index, at: head.at, kind: head.kind, payload });
            }
        }
    }

    /// Reads the log of a directory, from the newest state at or before `from` that is there, else from the oldest. `begins`: a log can
    /// be read from a record of this kind on without a snapshot.
    ///
    /// # Errors
    /// There is no log that could be read from any state on. Damage behind that is in [`Flight::damage`].
    pub fn of_directory(dir: &Path, from: Option<Nanos>, begins: &dyn Fn(u32) -> bool) -> Result<Flight, String> {
        let mut tries = 0;
        loop {
            tries += 1;
            match of_directory(dir, from, begins) {
                // A file that was listed has gone since: the server goes on.
                Err(Failure::Gone(_)) if tries < TRIES => {}
                Err(Failure::Gone(why) | Failure::Other(why)) => return Err(format!("log {}: {why}", dir.display())),
                Ok(flight) => return Ok(flight),
            }
        }
    }
}

/// The rules of this release can be applied to it.
///
/// # Errors
/// It was written by a later release.
pub fn check_domain(title: &Title) -> Result<(), String> {
    if title.domain > crate::domain::DOMAIN_VERSION {
        return Err(format!(
            "its records have version {}, and this release knows up to {}: use the release that wrote it",
            title.domain,
            crate::domain::DOMAIN_VERSION
        ));
    }
    Ok(())
}

enum Failure {
    Gone(String),
    Other(String),
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        let text = format!("it cannot be read: {error}");
        if error.kind() == io::ErrorKind::NotFound { Failure::Gone(text) } else { Failure::Other(text) }
    }
}

fn of_directory(dir: &Path, from: Option<Nanos>, begins: &dyn Fn(u32) -> bool) -> Result<Flight, Failure> {
    let title = title_of(dir).ok_or_else(|| Failure::Other("no file of it says whose it is".to_owned()))?;
    let first = segments(dir)?.first().map_or(1, |(first, _)| *first);
    let mut kind = None;
    super::read(dir, &title, first - 1, |record| {
        kind = Some((record.kind, record.at));
        Err(String::new())
    })?;
    let from_start = kind.filter(|(kind, _)| begins(*kind));
    let mut state: Option<Snapshot> = None;
    let mut bad: Vec<String> = Vec::new();
    let mut chosen = from_start.is_some();
    for (index, path) in snapshots(dir)? {
        if index + 1 < first {
            continue;
        }
        match load(&path, &title) {
            Ok(snapshot) if !chosen || from.is_some_and(|from| snapshot.at <= from) => {
                state = Some(snapshot);
                chosen = true;
            }
            Ok(_) => break,
            Err(why) => bad.push(named(&path, &why)),
        }
    }
    if !chosen {
        let why = "it begins in the middle of a session, and has no snapshot that can be read";
        return Err(Failure::Other(bad.into_iter().fold(why.to_owned(), |all, one| format!("{all}; {one}"))));
    }
    let about = About { format: FORMAT, redacted: false, exported_by: env!("CARGO_PKG_VERSION").to_owned() };
    let mut flight = Flight::new(title.clone(), about, state);
    let end = super::read(dir, &title, first - 1, |record| {
        flight.push(&record);
        Ok(())
    })?;
    // A torn end may be a record that the server writes just now.
    flight.damage = end.cut.filter(|cut| !cut.torn).map(|cut| cut.to_string());
    Ok(flight)
}

fn named(path: &Path, why: &str) -> String {
    format!("snapshot {}: {why}", path.display())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::log::{VERSION, Writer, seal, snapshot::write as write_snapshot};

    fn title() -> Title {
        Title { version: VERSION, domain: 3, server: "server-1".into(), rm: "rm-1".into() }
    }

    fn written(dir: &Path, records: u64) {
        let mut writer = Writer::new(dir.to_owned(), title()).with_segments(400);
        for index in 1..=records {
            let mut frame = Vec::new();
            let kind = if index == 1 { 2 } else { 5 };
            seal(&mut frame, kind, index, Nanos(index as i64 * 10), format!("record {index}").as_bytes());
            writer.write(index, &frame).unwrap();
        }
    }

    fn read(dir: &Path, from: Option<i64>) -> Flight {
        Flight::of_directory(dir, from.map(Nanos), &|kind| kind == 2).unwrap()
    }

    fn same(one: &Flight, other: &Flight) -> bool {
        let rows =
            |flight: &Flight| flight.records().map(|r| (r.index, r.at, r.kind, r.payload.to_vec())).collect::<Vec<_>>();
        rows(one) == rows(other)
            && one.snapshot.as_ref().map(|s| (s.index, s.at, s.parts.clone()))
                == other.snapshot.as_ref().map(|s| (s.index, s.at, s.parts.clone()))
    }

    #[test]
    fn a_flight_of_a_directory_is_the_same_from_a_file() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("log");
        written(&log, 50);
        let flight = read(&log, None);
        assert_eq!((flight.len(), flight.first(), flight.last()), (50, (1, Nanos(10)), (50, Nanos(500))));
        assert_eq!((flight.up_to_index(7), flight.up_to_time(Nanos(75)), flight.up_to_time(Nanos(0))), (7, 7, 0));
        assert_eq!((flight.moment(0), flight.moment(9)), ((1, Nanos(10)), (9, Nanos(90))));
        let file = dir.path().join("day.flight");
        assert_eq!(flight.write(&file).unwrap(), fs::metadata(&file).unwrap().len());
        let again = Flight::read(&file).unwrap();
        assert!(same(&flight, &again) && again.damage.is_none() && again.about == flight.about);
        let mut shorter = again;
        shorter.truncate(7);
        assert_eq!((shorter.len(), shorter.last().0), (7, 7));
        shorter.skip_to(3);
        assert_eq!(shorter.records().map(|record| record.index).collect::<Vec<_>>(), [4, 5, 6, 7]);
        // A snapshot is where it begins that is late enough.
        for index in [20, 30] {
            let parts = [Part { kind: 100, payload: vec![index as u8] }, Part { kind: 101, payload: vec![7; 30] }];
            write_snapshot(&log, &title(), index, Nanos(index as i64 * 10), &parts).unwrap();
        }
        for (from, begins) in [(None, None), (Some(100), None), (Some(200), Some(20)), (Some(9_000), Some(30))] {
            let flight = read(&log, from);
            assert_eq!(flight.snapshot.as_ref().map(|snapshot| snapshot.index), begins, "{from:?}");
        }
        // Without its beginning it is read from the oldest snapshot on.
        for (first, path) in segments(&log).unwrap() {
            if first < 15 {
                fs::remove_file(path).unwrap();
            }
        }
        let flight = read(&log, None);
        assert_eq!(flight.snapshot.as_ref().map(|snapshot| snapshot.index), Some(20));
        flight.write(&file).unwrap();
        assert!(same(&flight, &Flight::read(&file).unwrap()));
        for (_, path) in snapshots(&log).unwrap() {
            fs::write(path, "x").unwrap();
        }
        let text = Flight::of_directory(&log, None, &|kind| kind == 2).unwrap_err();
        assert!(text.contains("no snapshot that can be read") && text.contains("00000000000000000020"), "{text}");
    }

    #[test]
    fn damage_is_told_with_its_place_and_what_is_before_it_can_be_read() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("log");
        written(&log, 50);
        let file = dir.path().join("day.flight");
        read(&log, None).write(&file).unwrap();
        let whole = fs::read(&file).unwrap();
        for length in [whole.len() - 1, whole.len() - 40, whole.len() / 2] {
            fs::write(&file, &whole[..length]).unwrap();
            let flight = Flight::read(&file).unwrap();
            let damage = flight.damage.unwrap();
            assert!(damage.contains("at byte") && damage.contains("behind record"), "{damage}");
        }
        let mut bytes = whole.clone();
        bytes[whole.len() / 2] ^= 1;
        fs::write(&file, &bytes).unwrap();
        let flight = Flight::read(&file).unwrap();
        assert!(flight.len() > 10 && flight.len() < 50 && flight.damage.is_some());
        let segment = fs::read(&segments(&log).unwrap()[0].1).unwrap();
        for (text, what) in [(&b"x"[..], "no flight"), (&whole[..20], "title"), (&segment, "no flight")] {
            fs::write(&file, text).unwrap();
            let refused = Flight::read(&file).unwrap_err();
            assert!(refused.contains(what) && refused.contains("day.flight"), "{refused}");
        }
    }
}
