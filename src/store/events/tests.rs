//! Directories before and after: restarts, kills, damage, limits.

use std::{
    collections::BTreeSet,
    fs,
    io::{Seek, SeekFrom, Write},
    ops::Range,
    path::{Path, PathBuf},
    sync::Arc,
    thread,
};

use super::{Clock, Limits, OpenError, Opened, Reader, frame::HEAD, segment::HEADER};
use crate::domain::{
    event::{Change, Detail, Event, EventKind},
    event_block::{EventBlock, EventGap, EventPiece, EventSlice, GapReason},
    resources::Resource,
    types::Nanos,
    usage::UsagePiece,
};

const ALL: Limits = Limits { events: 0, bytes: 0, age: Nanos::ZERO };

/// Events whose object and time are their number.
pub fn item(ids: Range<u64>) -> EventPiece {
    let events = ids.clone().map(|id| Event {
        kind: EventKind::App,
        object: format!("application-{id}").into(),
        reference: "key".into(),
        change: Change::Add,
        detail: Detail::AppAlloc,
        message: "".into(),
        resource: Some(Arc::new(Resource::of(&[("memory", 10)]))),
        at: Nanos(id as i64 * 1_000),
        partition: Arc::default(),
    });
    let block = Arc::new(EventBlock { first: ids.start, events: events.collect() });
    EventPiece::Events(EventSlice::of(&block, ids.start, ids.end).unwrap())
}

fn gap(ids: Range<u64>, reason: GapReason) -> EventPiece {
    EventPiece::Gap(EventGap { from: ids.start, end: ids.end, reason })
}

/// Everything from an id on, in short; each event is compared with its id.
pub fn read(reader: &Reader, from: u64) -> Vec<String> {
    let mut shown: Vec<(u64, u64, String)> = Vec::new();
    let mut next = from;
    loop {
        let pieces = reader.read(next, 100).unwrap();
        if pieces.is_empty() {
            return shown.into_iter().map(|(from, end, what)| format!("{what}{from}..{end}")).collect();
        }
        for piece in pieces {
            let (first, what) = match &piece {
                EventPiece::Events(slice) => {
                    for (id, event) in (slice.first()..).zip(slice.events()) {
                        assert_eq!(*event.object, *format!("application-{id}"));
                        assert_eq!(event.at, Nanos(id as i64 * 1_000));
                    }
                    (slice.first(), String::new())
                }
                EventPiece::Gap(gap) => (gap.from, format!("{} ", gap.reason.name())),
            };
            assert_eq!(first, next, "a hole in {shown:?}");
            next = piece.end();
            match shown.last_mut() {
                Some((_, end, last)) if *last == what => *end = next,
                _ => shown.push((first, next, what)),
            }
        }
    }
}

pub fn open(directory: &Path, limits: Limits) -> Result<Opened, OpenError> {
    super::open(directory, None, limits, Clock { now: Nanos::ZERO, trusted: false })
}

fn opened(directory: &Path) -> Opened {
    open(directory, ALL).unwrap()
}

pub fn files(directory: &Path) -> Vec<PathBuf> {
    super::segment::list(directory).unwrap().into_iter().map(|(_, path)| path).collect()
}

/// A store with a frame for each range, closed.
fn store(directory: &Path, frames: &[Range<u64>]) -> Reader {
    let mut opened = opened(directory);
    for frame in frames {
        opened.writer.write(&[item(frame.clone())], &[], Nanos::ZERO).unwrap();
    }
    let next = opened.writer.next();
    opened.writer.close(next).unwrap();
    opened.reader
}

#[test]
fn what_is_written_is_read_from_any_id() {
    let directory = tempfile::tempdir().unwrap();
    let mut opened = opened(directory.path());
    assert_eq!((opened.next, opened.gap, opened.reader.extent()), (0, None, None));
    assert!(read(&opened.reader, 0).is_empty());
    opened.writer.write(&[item(0..5), item(5..6), item(6..20_000)], &[], Nanos::ZERO).unwrap();
    opened.writer.write(&[item(20_000..20_001)], &[], Nanos::ZERO).unwrap();
    for from in [0, 1, 5, 6, 8_191, 8_192, 19_999, 20_000] {
        assert_eq!(read(&opened.reader, from), [format!("{from}..20001")]);
    }
    assert!(read(&opened.reader, 20_001).is_empty());
    assert!(read(&opened.reader, u64::MAX).is_empty());
    assert_eq!(opened.reader.read(7, 1).unwrap().len(), 1, "a frame at a time");
}

#[test]
fn what_is_written_twice_is_there_once() {
    let directory = tempfile::tempdir().unwrap();
    let mut opened = opened(directory.path());
    opened.writer.write(&[item(0..5)], &[], Nanos::ZERO).unwrap();
    opened.writer.write(&[item(0..5), item(5..10)], &[], Nanos::ZERO).unwrap();
    opened.writer.write(&[item(3..12)], &[], Nanos::ZERO).unwrap();
    assert_eq!(read(&opened.reader, 0), ["0..12"]);
}

#[test]
fn ids_continue_over_a_clean_restart_without_a_gap() {
    let directory = tempfile::tempdir().unwrap();
    store(directory.path(), &[0..10, 10..25]);
    for round in 0..3 {
        let mut opened = opened(directory.path());
        let first = 25 + round * 10;
        assert_eq!((opened.next, &opened.gap), (first, &None));
        opened.writer.write(&[item(first..first + 10)], &[], Nanos::ZERO).unwrap();
        opened.writer.close(first + 10).unwrap();
        assert_eq!(read(&opened.reader, 0), [format!("0..{}", first + 10)]);
    }
    assert_eq!(files(directory.path()).len(), 1);
}

#[test]
fn after_a_crash_no_id_is_given_twice() {
    let directory = tempfile::tempdir().unwrap();
    let mut first = opened(directory.path());
    first.writer.write(&[item(0..10)], &[], Nanos::ZERO).unwrap();
    let reserved = first.writer.reserved();
    assert!(reserved > 10);
    drop(first);

    let mut second = opened(directory.path());
    let lost = EventGap { from: 10, end: reserved, reason: GapReason::Crash };
    assert_eq!((second.next, &second.gap), (reserved, &Some(lost.clone())));
    second.writer.write(&[EventPiece::Gap(lost), item(reserved..reserved + 3)], &[], Nanos::ZERO).unwrap();
    let expected = ["0..10".to_owned(), format!("crash 10..{reserved}"), format!("{reserved}..{}", reserved + 3)];
    assert_eq!(read(&second.reader, 0), expected);
    second.writer.close(reserved + 3).unwrap();
    assert_eq!(read(&opened(directory.path()).reader, 0), expected);
}

#[test]
fn a_gap_is_explicit() {
    let directory = tempfile::tempdir().unwrap();
    let mut opened = opened(directory.path());
    let items = [item(0..3), gap(3..1_000_000, GapReason::NotStored), item(1_000_000..1_000_002)];
    opened.writer.write(&items, &[], Nanos::ZERO).unwrap();
    assert_eq!(read(&opened.reader, 1), ["1..3", "not-stored 3..1000000", "1000000..1000002"]);
    assert_eq!(read(&opened.reader, 500), ["not-stored 500..1000000", "1000000..1000002"]);
    let whole = Some(3..1_000_000);
    let gaps = [2, 3, 500, 999_999, 1_000_000, 2_000_000].map(|id| opened.reader.gap_at(id).unwrap());
    assert_eq!(gaps, [None, whole.clone(), whole.clone(), whole, None, None]);
}

#[test]
fn a_torn_end_is_cut_at_every_length() {
    let whole = tempfile::tempdir().unwrap();
    store(whole.path(), &[0..3, 3..5]);
    let path = &files(whole.path())[0];
    let bytes = fs::read(path).unwrap();
    let second = {
        let one = tempfile::tempdir().unwrap();
        store(one.path(), std::slice::from_ref(&(0..3)));
        fs::metadata(&files(one.path())[0]).unwrap().len() as usize
    };
    for length in 0..bytes.len() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join(path.file_name().unwrap()), &bytes[..length]).unwrap();
        let mut torn = opened(directory.path());
        let end = if length < second { 0 } else { 3 };
        let lost = torn.gap.take();
        assert_eq!(lost.as_ref().map_or(torn.next, |gap| gap.from), end, "cut at {length}");
        assert!(torn.next > end || length < HEADER as usize);
        let mut items: Vec<EventPiece> = lost.into_iter().map(EventPiece::Gap).collect();
        items.push(item(torn.next..torn.next + 1));
        torn.writer.write(&items, &[], Nanos::ZERO).unwrap();
        torn.writer.close(torn.next + 1).unwrap();
        let read = read(&opened(directory.path()).reader, 0);
        assert_eq!(read.last().unwrap(), &format!("{}..{}", torn.next, torn.next + 1), "cut at {length}");
        assert!(end == 0 || read[0] == "0..3");
    }
}

#[test]
fn damage_costs_the_frames_that_it_hits_and_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let frames: Vec<_> = (0..40).map(|frame| frame * 50..(frame + 1) * 50).collect();
    store(directory.path(), &frames);
    let path = files(directory.path())[0].clone();
    let bytes = fs::read(&path).unwrap();
    // Behind what is used before the first event.
    let begin = HEADER as usize + HEAD + 2;
    let frame = (bytes.len() - begin) / 40;
    for hit in [begin + 2, begin + 5 * frame + 6, begin + 5 * frame + 300] {
        let mut damaged = bytes.clone();
        damaged[hit] ^= 0x55;
        fs::write(&path, &damaged).unwrap();
        let mut opened = opened(directory.path());
        assert_eq!((opened.next, &opened.gap), (2_000, &None));
        opened.writer.close(2_000).unwrap();
        let pieces = opened.reader.read(0, 2_000).unwrap();
        let gaps: Vec<_> =
            pieces.iter().filter_map(|piece| if let EventPiece::Gap(gap) = piece { Some(gap) } else { None }).collect();
        assert_eq!((gaps.len(), gaps[0].end - gaps[0].from), (1, 50), "hit at {hit}: {gaps:?}");
        let GapReason::Damage(place) = &gaps[0].reason else { panic!("{:?}", gaps[0]) };
        assert!(place.contains("00000000000000000000.events at byte "), "{place}");
        read(&opened.reader, 0);
    }
    // Usage is not known then, but every event is there.
    let mut damaged = bytes.clone();
    damaged[HEADER as usize + 20] ^= 0x55;
    fs::write(&path, &damaged).unwrap();
    let reader = opened(directory.path()).reader;
    assert_eq!(read(&reader, 0), ["0..2000"]);
    let first = &reader.read_usage(0, 1).unwrap()[0];
    let UsagePiece::Log(EventPiece::Gap(gap)) = first else { panic!("{first:?}") };
    assert!(matches!(gap.reason, GapReason::Damage(_)) && (gap.from, gap.end) == (0, 0));
}

#[test]
fn a_store_goes_on_behind_damage() {
    let directory = tempfile::tempdir().unwrap();
    store(directory.path(), &[0..50, 50..100, 100..150]);
    let path = files(directory.path())[0].clone();
    let mut file = fs::OpenOptions::new().write(true).open(&path).unwrap();
    file.seek(SeekFrom::Start(HEADER + 100)).unwrap();
    file.write_all(&[0xff; 50]).unwrap();
    let mut opened = opened(directory.path());
    opened.writer.write(&[item(150..160)], &[], Nanos::ZERO).unwrap();
    assert_eq!(read(&opened.reader, 0), ["damage 0..50", "50..160"]);
    assert_eq!(files(directory.path()).len(), 2, "the damaged file is left as it is");
    assert_eq!(read(&opened.reader, 120), ["120..160"]);
}

#[test]
fn a_damaged_or_missing_file_among_others_is_a_gap() {
    let directory = tempfile::tempdir().unwrap();
    let limits = Limits { events: 16 * 100, ..ALL };
    let mut opened = open(directory.path(), limits).unwrap();
    opened.writer.write(&[item(0..500)], &[], Nanos::ZERO).unwrap();
    opened.writer.close(500).unwrap();
    let files = files(directory.path());
    assert_eq!(files.len(), 5);
    fs::write(&files[1], b"something else").unwrap();
    fs::remove_file(&files[3]).unwrap();
    let reader = open(directory.path(), limits).unwrap().reader;
    assert_eq!(read(&reader, 0), ["0..100", "damage 100..200", "200..300", "damage 300..400", "400..500"]);
}

#[test]
fn a_later_format_is_refused_and_nothing_is_touched() {
    let directory = tempfile::tempdir().unwrap();
    store(directory.path(), std::slice::from_ref(&(0..3)));
    let path = files(directory.path())[0].clone();
    let mut bytes = fs::read(&path).unwrap();
    bytes[8] = 2;
    bytes[12..16].fill(0);
    let sum = crc32fast::hash(&bytes[..HEADER as usize]);
    bytes[12..16].copy_from_slice(&sum.to_le_bytes());
    fs::write(&path, &bytes).unwrap();
    let mark = fs::read(directory.path().join("mark")).unwrap();
    let error = open(directory.path(), ALL).map(|_| ()).unwrap_err();
    assert!(matches!(error, OpenError::Newer { found: 2, .. }));
    let text = error.to_string();
    assert!(text.contains("00000000000000000000.events has format version 2") && text.contains("up to 1"), "{text}");
    assert_eq!(fs::read(&path).unwrap(), bytes);
    assert_eq!(fs::read(directory.path().join("mark")).unwrap(), mark);
}

#[test]
fn a_directory_that_cannot_be_made_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("file");
    fs::write(&file, b"").unwrap();
    let text = open(&file.join("events"), ALL).map(|_| ()).unwrap_err().to_string();
    assert!(text.contains("file/events: cannot make the directory"), "{text}");
}

#[test]
fn limits_remove_the_oldest() {
    let directory = tempfile::tempdir().unwrap();
    let limits = Limits { events: 1_600, ..ALL };
    let mut opened = open(directory.path(), limits).unwrap();
    for first in (0..10_000).step_by(10) {
        opened.writer.write(&[item(first..first + 10)], &[], Nanos::ZERO).unwrap();
    }
    let (lowest, next) = opened.reader.extent().unwrap();
    assert!(next == 10_000 && (1_500..=1_600).contains(&(next - lowest)), "{lowest}..{next}");
    assert_eq!(read(&opened.reader, 17), [format!("retention 17..{lowest}"), format!("{lowest}..10000")]);

    // Events carry a time of 1 µs times their number.
    opened.writer.set_limits(Some(Limits { age: Nanos(1_000_000), ..ALL }));
    opened.writer.prune(Nanos(10_000_000));
    let (lowest, _) = opened.reader.extent().unwrap();
    assert!((8_900..=9_000).contains(&lowest), "{lowest}");
    opened.writer.prune(Nanos(1_000_000_000));
    assert!(opened.reader.extent().unwrap().1 == 10_000, "the last file stays");

    let bytes = 16 * 64 * 1024;
    opened.writer.set_limits(Some(Limits { bytes, ..ALL }));
    for first in (10_000..200_000).step_by(1_000) {
        opened.writer.write(&[item(first..first + 1_000)], &[], Nanos::ZERO).unwrap();
    }
    let on_disk: u64 = files(directory.path()).iter().map(|path| fs::metadata(path).unwrap().len()).sum();
    assert_eq!(opened.reader.size().0, on_disk);
    assert!(on_disk <= bytes && on_disk > bytes * 14 / 16, "{on_disk}");
}

#[test]
fn what_is_too_old_and_goes_while_it_is_read_is_not_damaged() {
    let directory = tempfile::tempdir().unwrap();
    let mut opened = open(directory.path(), Limits { events: 160, ..ALL }).unwrap();
    let (reader, writer) = (&opened.reader, &mut opened.writer);
    thread::scope(|scope| {
        let writing = scope.spawn(move || {
            for first in (0..4_000).step_by(10) {
                writer.write(&[item(first..first + 10)], &[], Nanos::ZERO).unwrap();
            }
        });
        let mut reasons = BTreeSet::new();
        while !writing.is_finished() {
            for piece in reader.read(0, 1).unwrap() {
                if let EventPiece::Gap(gap) = piece {
                    reasons.insert(gap.reason.name().to_owned());
                }
            }
        }
        assert!(!reasons.contains("damage"), "{reasons:?}");
    });
}

#[test]
fn a_file_that_goes_while_it_is_read_is_a_gap() {
    let directory = tempfile::tempdir().unwrap();
    let mut opened = open(directory.path(), Limits { events: 160, ..ALL }).unwrap();
    opened.writer.write(&[item(0..40)], &[], Nanos::ZERO).unwrap();
    fs::remove_file(&files(directory.path())[1]).unwrap();
    assert_eq!(read(&opened.reader, 0), ["0..10", "damage 10..20", "20..40"]);
}

#[test]
fn a_time_is_found_where_it_begins_also_in_the_file_before() {
    let directory = tempfile::tempdir().unwrap();
    let mut opened = open(directory.path(), Limits { events: 16 * 10, ..ALL }).unwrap();
    // A slice that is divided between files, and events of two partitions that come out of order by a little.
    let at = |ids: Range<u64>, seconds: i64| {
        let EventPiece::Events(slice) = item(ids.clone()) else { panic!("events") };
        let events = slice.events().iter().cloned().map(|event| Event { at: Nanos::from_secs(seconds), ..event });
        let block = Arc::new(EventBlock { first: ids.start, events: events.collect() });
        EventPiece::Events(EventSlice::of(&block, ids.start, ids.end).unwrap())
    };
    for piece in [at(0..5, 100), at(5..30, 200), at(30..40, 303), at(40..60, 300), at(60..80, 400)] {
        opened.writer.write(&[piece], &[], Nanos::ZERO).unwrap();
    }
    assert_eq!(files(directory.path()).len(), 7);
    for (seconds, first) in [(100, 0), (200, 5), (303, 30), (302, 30), (400, 60)] {
        assert_eq!(opened.reader.find(Nanos::from_secs(seconds)).unwrap(), Some(first), "{seconds} s");
    }
    assert_eq!(opened.reader.find(Nanos::from_secs(401)).unwrap(), None);
}
