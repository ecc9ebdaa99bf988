//! Small stores of which one file is damaged, in every byte and in every way: a start succeeds, what is served is right, what is
//! lost is an explicit gap, and no id is given twice. And clocks that are wrong.

use std::{fs, path::Path};

use tempfile::TempDir;

use super::{
    Limits, OpenError, Opened, segment,
    tests::{files, item, open, read},
};
use crate::domain::{
    event_block::{EventBlock, EventPiece, EventSlice, GapReason},
    types::Nanos,
};

/// A file for every ten events.
const LIMITS: Limits = Limits { events: 160, bytes: 0, age: Nanos::ZERO };
/// Events in the store, and the id of the next.
const NEXT: u64 = 25;

/// In memory, where there is a file system there: thousands of flushes take their time on a disk.
fn directory() -> TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

/// Three files and the mark: names and bytes.
type State = Vec<(String, Vec<u8>)>;

fn state(directory: &Path) -> State {
    let names = files(directory).into_iter().chain([directory.join("mark")]);
    names.map(|path| (path.file_name().unwrap().to_str().unwrap().to_owned(), fs::read(path).unwrap())).collect()
}

/// A store that was closed, or not.
fn store(closed: bool) -> State {
    let directory = directory();
    let mut opened = open(directory.path(), LIMITS).unwrap();
    for first in (0..NEXT).step_by(5) {
        opened.writer.write(&[item(first..first + 5)], &[], Nanos::ZERO).unwrap();
    }
    if closed {
        opened.writer.close(NEXT).unwrap();
    }
    let state = state(directory.path());
    assert_eq!(state.len(), 4);
    state
}

fn with(state: &State, damage: impl FnOnce(&Path)) -> TempDir {
    let directory = directory();
    for (name, bytes) in state {
        fs::write(directory.path().join(name), bytes).unwrap();
    }
    damage(directory.path());
    directory
}

/// Whatever was done to it: it starts, serves nothing wrong and goes on; or says which file it is. Gives what it serves.
fn serves_nothing_wrong(directory: &Path, what: &str) -> Vec<String> {
    let Opened { mut writer, reader, next, gap, .. } = match open(directory, LIMITS) {
        Ok(opened) => opened,
        Err(error) => {
            let text = error.to_string();
            assert!(text.contains(&directory.display().to_string()) && matches!(error, OpenError::Io { .. }), "{text}");
            return vec!["refused".to_owned()];
        }
    };
    assert!(next >= NEXT, "{what}: id {next} may have been given out");
    let mut items: Vec<_> = gap.into_iter().map(EventPiece::Gap).collect();
    items.push(item(next..next + 3));
    writer.write(&items, &[], Nanos::ZERO).unwrap_or_else(|error| panic!("{what}: {error}"));
    writer.close(next + 3).unwrap();
    // Dense, ordered, and each event that of its id: `read` looks at that.
    let served = read(&reader, 0);
    drop((writer, reader));
    let again = open(directory, LIMITS).unwrap();
    assert_eq!((again.next, &again.gap), (next + 3, &None), "{what}");
    assert_eq!(read(&again.reader, 0), served, "{what}: after another start");
    served
}

fn lost(served: &[String]) -> u64 {
    let events = served.iter().filter(|piece| !piece.contains(' ')).map(|piece| {
        let (from, end) = piece.split_once("..").unwrap();
        end.parse::<u64>().unwrap() - from.parse::<u64>().unwrap()
    });
    (NEXT + 3).saturating_sub(events.sum())
}

#[test]
fn a_flipped_bit_in_any_byte_costs_a_frame_at_most() {
    for closed in [true, false] {
        let state = store(closed);
        for (name, bytes) in &state {
            for at in 0..bytes.len() {
                let mut damaged = bytes.clone();
                damaged[at] ^= 1 << (at % 8);
                let directory = with(&state, |directory| fs::write(directory.join(name), damaged).unwrap());
                let what = format!("{name} byte {at}");
                let served = serves_nothing_wrong(directory.path(), &what);
                assert!(served[0] != "refused", "{what}: a start that fails for a bit");
                assert!(lost(&served) <= 5, "{what}: {served:?}");
            }
        }
    }
}

#[test]
fn a_file_that_is_cut_empty_gone_or_something_else_is_a_gap_or_named() {
    for closed in [true, false] {
        let state = store(closed);
        for (name, bytes) in &state {
            for length in 0..bytes.len() {
                let directory = with(&state, |directory| fs::write(directory.join(name), &bytes[..length]).unwrap());
                let served = serves_nothing_wrong(directory.path(), &format!("{name} cut to {length}"));
                assert!(lost(&served) <= 10, "{name} cut to {length}: {served:?}");
            }
            let directory = with(&state, |directory| fs::remove_file(directory.join(name)).unwrap());
            let served = serves_nothing_wrong(directory.path(), &format!("{name} is gone"));
            assert!(lost(&served) <= 10, "{name}: {served:?}");
            let directory = with(&state, |directory| fs::write(directory.join(name), "else\n".repeat(50)).unwrap());
            assert!(lost(&serves_nothing_wrong(directory.path(), &format!("{name} is something else"))) <= 10);
            let directory = with(&state, |directory| {
                fs::remove_file(directory.join(name)).unwrap();
                fs::create_dir(directory.join(name)).unwrap();
            });
            assert_eq!(serves_nothing_wrong(directory.path(), &format!("{name} is a directory")), ["refused"]);
        }
    }
}

#[test]
fn a_file_in_whose_place_another_is_is_a_gap() {
    let state = store(true);
    for (n, (name, _)) in state.iter().enumerate() {
        for (other, (_, bytes)) in state.iter().enumerate().filter(|(other, _)| *other != n) {
            let directory = with(&state, |directory| fs::write(directory.join(name), bytes).unwrap());
            let served = serves_nothing_wrong(directory.path(), &format!("{name} is file {other}"));
            assert!(lost(&served) <= 10, "{name} is file {other}: {served:?}");
        }
    }
}

#[test]
fn what_is_missing_after_a_clean_end_is_no_crash() {
    let state = store(true);
    let last = state[2].0.clone();
    // The last file ends with a whole frame, five events early.
    let whole = store(true)[2].1.clone();
    let cut = (segment::HEADER as usize..whole.len()).rev().find(|at| whole[*at..].starts_with(b"CBEV")).unwrap();
    let directory = with(&state, |directory| fs::write(directory.join(last), &whole[..cut]).unwrap());
    let served = serves_nothing_wrong(directory.path(), "cut");
    assert_eq!(served, ["0..20", "damage 20..25", "25..28"], "also when it is read again");
    // A mark that is gone, or older than the files.
    let directory = with(&state, |directory| fs::remove_file(directory.join("mark")).unwrap());
    assert_eq!(open(directory.path(), LIMITS).unwrap().gap.unwrap().reason.name(), "damage");
    let older = {
        let directory = self::directory();
        let mut opened = open(directory.path(), LIMITS).unwrap();
        opened.writer.close(0).unwrap();
        self::state(directory.path()).pop().unwrap().1
    };
    let directory = with(&state, |directory| fs::write(directory.join("mark"), older).unwrap());
    assert_eq!(open(directory.path(), LIMITS).unwrap().gap.unwrap().reason.name(), "damage");
}

#[test]
fn a_store_that_is_gone_as_a_whole_is_a_gap() {
    let directory = directory();
    let (store, beside) = (directory.path().join("events"), directory.path().join("events.mark"));
    let open = || super::open(&store, Some(&beside), LIMITS, clock(0, false)).unwrap();
    let named = |opened: &Opened| {
        let gap = opened.gap.as_ref()?;
        let GapReason::Damage(place) = &gap.reason else { panic!("{gap:?}") };
        Some((gap.from, gap.end, place.to_string()))
    };
    let lost = |next| format!("{}: ids below {next} were given out, and nothing in it knows of them", store.display());
    let mut opened = open();
    assert_eq!((opened.next, named(&opened)), (0, None), "nothing is gone where nothing was");
    opened.writer.write(&[item(0..5)], &[], Nanos::ZERO).unwrap();
    opened.writer.close(5).unwrap();
    // Closed, and after a kill.
    let mut opened = open();
    assert_eq!((opened.next, named(&opened)), (5, None));
    opened.writer.close(5).unwrap();
    fs::remove_dir_all(&store).unwrap();
    let opened = open();
    assert_eq!((opened.next, named(&opened)), (5, Some((0, 5, lost(5)))));
    fs::remove_dir_all(&store).unwrap();
    let mut opened = open();
    let reserved = 5 + super::mark::AHEAD;
    assert_eq!((opened.next, named(&opened)), (reserved, Some((0, reserved, lost(reserved)))));
    // One of an earlier time is in its place.
    opened.writer.write(&[EventPiece::Gap(opened.gap.unwrap())], &[], Nanos::ZERO).unwrap();
    opened.writer.close(reserved).unwrap();
    let earlier = state(&store);
    let mut opened = open();
    opened.writer.write(&[item(reserved..reserved + 7)], &[], Nanos::ZERO).unwrap();
    opened.writer.close(reserved + 7).unwrap();
    for (name, bytes) in earlier {
        fs::write(store.join(name), bytes).unwrap();
    }
    let mut opened = open();
    assert_eq!(named(&opened), Some((reserved, reserved + 7, lost(reserved + 7))));
    opened.writer.write(&[EventPiece::Gap(opened.gap.unwrap())], &[], Nanos::ZERO).unwrap();
    opened.writer.close(reserved + 7).unwrap();
    // Whatever the copy says where it is damaged or gone, the store itself counts.
    let whole = fs::read(&beside).unwrap();
    for at in 0..whole.len() {
        let mut bytes = whole.clone();
        bytes[at] ^= 1 << (at % 8);
        fs::write(&beside, bytes).unwrap();
        let mut opened = open();
        assert_eq!((opened.next, named(&opened)), (reserved + 7, None), "byte {at}");
        opened.writer.close(reserved + 7).unwrap();
        assert!(fs::read(&beside).unwrap() == whole, "byte {at}: it is mended");
    }
    fs::remove_file(&beside).unwrap();
    let opened = open();
    assert_eq!((opened.next, named(&opened)), (reserved + 7, None));
}

#[test]
fn a_mark_of_an_earlier_release_is_read() {
    let state = store(true);
    let directory = with(&state, |directory| {
        let mut bytes = state[3].1[..32].to_vec();
        let sum = crc32fast::hash(&bytes[..24]);
        bytes[24..28].copy_from_slice(&sum.to_le_bytes());
        bytes[28..].fill(0);
        fs::write(directory.join("mark"), bytes).unwrap();
    });
    let opened = open(directory.path(), LIMITS).unwrap();
    assert_eq!((opened.next, opened.gap), (NEXT, None));
}

#[test]
fn a_file_with_a_damaged_head_grows_old_like_the_others() {
    // Events carry a time of 1 µs times their number.
    let state = store(true);
    for n in 0..3 {
        let directory = with(&state, |directory| {
            let mut bytes = state[n].1.clone();
            bytes[30] ^= 1;
            fs::write(directory.join(&state[n].0), bytes).unwrap();
        });
        let age = Nanos(10_000);
        let mut opened = open(directory.path(), Limits { age, ..LIMITS }).unwrap();
        for first in (NEXT..NEXT + 20).step_by(5) {
            opened.writer.write(&[item(first..first + 5)], &[], Nanos(first as i64 * 1_000 + 4_000)).unwrap();
        }
        assert_eq!(opened.writer.doubt(), None);
        let (lowest, _) = opened.reader.extent().unwrap();
        assert!((30..=35).contains(&lowest), "file {n}: {lowest}");
    }
}

#[test]
fn a_time_is_found_behind_damage() {
    // Events carry a time of 1 µs times their number.
    let state = store(true);
    for (name, bytes) in &state[..3] {
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x55;
            let directory = with(&state, |directory| fs::write(directory.join(name), damaged).unwrap());
            let reader = open(directory.path(), LIMITS).unwrap().reader;
            for id in 0..NEXT {
                // The frame of that event, or one before it, or where that is damaged the next.
                let found = reader.find(Nanos(id as i64 * 1_000)).unwrap().unwrap_or(NEXT);
                let frame = id - id % 5;
                assert!(found <= frame + 5, "{name} byte {at}: {id} is looked for from {found} on");
            }
        }
    }
}

/// Ten days, an event in each hour; closed. Kept for seven days.
fn ten_days(directory: &Path, limits: Limits) {
    let mut opened = super::open(directory, None, limits, clock(0, false)).unwrap();
    for hour in 0..240 {
        opened.writer.write(&[at(hour, hour)], &[], hours(hour)).unwrap();
    }
    opened.writer.close(240).unwrap();
}

const DAYS: Limits = Limits { events: 0, bytes: 0, age: Nanos::from_secs(7 * 86_400) };

fn hours(hours: u64) -> Nanos {
    Nanos::from_secs(hours as i64 * 3_600)
}

fn clock(hour: u64, trusted: bool) -> super::Clock {
    super::Clock { now: hours(hour), trusted }
}

/// The event of an id, at an hour.
fn at(id: u64, hour: u64) -> EventPiece {
    let EventPiece::Events(slice) = item(id..id + 1) else { panic!("events") };
    let mut events = slice.events().to_vec();
    events[0].at = hours(hour);
    let block = EventBlock { first: id, events };
    EventPiece::Events(EventSlice::of(&block.into(), id, id + 1).unwrap())
}

fn lowest(opened: &Opened) -> u64 {
    opened.reader.extent().unwrap().0
}

#[test]
fn a_clock_that_is_wrong_at_the_start_deletes_nothing() {
    let directory = directory();
    ten_days(directory.path(), DAYS);
    let kept = lowest(&super::open(directory.path(), None, DAYS, clock(240, false)).unwrap());
    assert!((60..=72).contains(&kept), "{kept}");
    // Nine days ahead, twice.
    for start in 0..2 {
        let hour = 240 + 9 * 24 + start;
        let mut opened = super::open(directory.path(), None, DAYS, clock(hour, false)).unwrap();
        opened.writer.prune(hours(hour));
        assert_eq!(lowest(&opened), kept);
        assert!(opened.writer.doubt().unwrap().contains("--trust-clock"));
        let next = opened.next;
        opened.writer.write(&[at(next, hour)], &[], hours(hour)).unwrap();
        assert_eq!(lowest(&opened), kept, "nor the event that it brings");
        opened.writer.alive(hours(hour)).unwrap();
        opened.writer.close(next + 1).unwrap();
    }
    // Behind.
    let mut opened = super::open(directory.path(), None, DAYS, clock(1, false)).unwrap();
    opened.writer.prune(hours(1));
    assert!((lowest(&opened), opened.writer.doubt()) == (kept, None));
    let next = opened.next;
    opened.writer.close(next).unwrap();
    // Set right: what is old goes, and nothing else.
    let mut opened = super::open(directory.path(), None, DAYS, clock(264, false)).unwrap();
    opened.writer.prune(hours(264));
    assert!(opened.writer.doubt().is_none());
    assert!((kept + 12..=kept + 36).contains(&lowest(&opened)), "{}", lowest(&opened));
    opened.writer.close(next).unwrap();
    // Right, after nine days without a server: an operator says so.
    let mut opened = super::open(directory.path(), None, DAYS, clock(264 + 9 * 24, true)).unwrap();
    opened.writer.prune(hours(264 + 9 * 24));
    assert!(opened.writer.doubt().is_none());
    // The last file stays, and what was written since is not older than its end.
    assert!(lowest(&opened) >= 230, "{}", lowest(&opened));
}

#[test]
fn a_clock_that_goes_wrong_in_the_first_process_deletes_nothing() {
    let directory = directory();
    let mut opened = super::open(directory.path(), None, DAYS, clock(0, false)).unwrap();
    opened.writer.prune(hours(9 * 24));
    assert_eq!(opened.writer.doubt(), None, "nothing is there yet, and the clock may just have been set");
    for (id, hour) in (0..).zip([216, 217, 217 + 30 * 24, 218 + 30 * 24]) {
        opened.writer.write(&[at(id, hour)], &[], hours(hour)).unwrap();
    }
    assert!(opened.writer.doubt().unwrap().contains("30 days ahead"));
    opened.writer.prune(hours(218));
    assert_eq!(opened.writer.doubt(), None, "it was set right");
    opened.writer.close(4).unwrap();
    // As far as the process before believed it.
    let mut opened = super::open(directory.path(), None, DAYS, clock(217 + 30 * 24, false)).unwrap();
    opened.writer.prune(hours(217 + 30 * 24));
    assert!(opened.writer.doubt().is_some() && lowest(&opened) == 0);
}

#[test]
fn while_nothing_happens_nothing_grows_old() {
    let directory = directory();
    ten_days(directory.path(), DAYS);
    let mut opened = super::open(directory.path(), None, DAYS, clock(240, false)).unwrap();
    let kept = lowest(&opened);
    for day in 10..30 {
        opened.writer.prune(hours(day * 24));
        assert!((lowest(&opened), opened.writer.doubt()) == (kept, None), "day {day}");
    }
    opened.writer.write(&[at(240, 720)], &[], hours(720)).unwrap();
    assert!((230..240).contains(&lowest(&opened)), "then something did: all but the last file go");
}

#[test]
fn what_is_kept_is_not_known_before_the_settings_are() {
    let directory = directory();
    ten_days(directory.path(), Limits { age: Nanos::ZERO, ..DAYS });
    let mut opened = super::open(directory.path(), None, DAYS, clock(240, false)).unwrap();
    opened.writer.set_limits(None);
    opened.writer.prune(hours(240));
    assert_eq!(lowest(&opened), 0);
    opened.writer.set_limits(Some(Limits { events: 50, ..DAYS }));
    opened.writer.prune(hours(240));
    assert!(lowest(&opened) == 0, "one file has it all, and the last stays");
}
