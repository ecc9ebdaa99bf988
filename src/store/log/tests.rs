use std::{fs, path::Path};

use super::{snapshot::write as write_snapshot, *};
use crate::domain::types::Nanos;

fn title() -> Title {
    Title { version: VERSION, domain: 3, server: "server-1".into(), rm: "rm-1".into() }
}

/// Records of a few bytes each, so many to a segment.
fn written(dir: &Path, records: u64, segment: u64) -> Writer {
    let mut writer = Writer::new(dir.to_owned(), title()).with_segments(segment);
    for index in 1..=records {
        let mut frame = Vec::new();
        seal(&mut frame, 5, index, Nanos(index as i64), format!("record {index}").as_bytes());
        writer.write(index, &frame).unwrap();
    }
    writer.sync().unwrap();
    writer
}

fn read_all(dir: &Path, after: u64) -> (Vec<u64>, End) {
    let mut seen = Vec::new();
    let end = read(dir, &title(), after, |record| {
        assert_eq!(record.payload, format!("record {}", record.index).as_bytes());
        seen.push(record.index);
        Ok(())
    });
    (seen, end.unwrap())
}

#[test]
fn records_are_read_as_they_were_written_over_segments() {
    let dir = tempfile::tempdir().unwrap();
    written(dir.path(), 50, 400);
    assert!(segments(dir.path()).unwrap().len() > 3);
    let (seen, end) = read_all(dir.path(), 0);
    assert_eq!((seen, end.last, end.cut), ((1..=50).collect::<Vec<_>>(), 50, None));
    let (seen, end) = read_all(dir.path(), 20);
    assert_eq!((seen, end.last, end.cut), ((21..=50).collect::<Vec<_>>(), 50, None));
    // Old segments go, and what is needed stays.
    assert!(prune(dir.path(), 20, 0).unwrap() > 0);
    let (seen, end) = read_all(dir.path(), 20);
    assert_eq!((seen.len(), end.cut), (30, None));
    let (seen, end) = read_all(dir.path(), 0);
    assert!(seen.is_empty() && end.cut.unwrap().why.contains("are missing before it"));
    // A writer of the next process goes on in a segment of its own.
    let mut writer = Writer::new(dir.path().to_owned(), title());
    let mut frame = Vec::new();
    seal(&mut frame, 5, 51, Nanos(51), b"record 51");
    writer.write(51, &frame).unwrap();
    assert_eq!(read_all(dir.path(), 20).1.last, 51);
}

#[test]
fn a_torn_end_is_cut_off_at_every_length_and_nothing_else_is_lost() {
    let dir = tempfile::tempdir().unwrap();
    written(dir.path(), 6, 1 << 20);
    let (_, path) = segments(dir.path()).unwrap().remove(0);
    let whole = fs::read(&path).unwrap();
    let last = whole.len() - total(b"record 6");
    for length in last + 1..whole.len() {
        fs::write(&path, &whole[..length]).unwrap();
        let (seen, end) = read_all(dir.path(), 0);
        let cut = end.cut.expect("torn");
        assert!(cut.torn && seen.len() == 5, "{length}: {cut}");
        cut.repair().unwrap();
        assert_eq!(read_all(dir.path(), 0).1.cut, None);
    }
}

// What the snapshot tells is not read again: that a record of it is damaged loses nothing.
#[test]
fn damage_of_records_that_a_snapshot_covers_is_passed_over() {
    let dir = tempfile::tempdir().unwrap();
    written(dir.path(), 12, 1 << 20);
    let (_, path) = segments(dir.path()).unwrap().remove(0);
    let whole = fs::read(&path).unwrap();
    let begins = |record: u64| {
        let text = format!("record {record}");
        whole.windows(text.len()).position(|window| window == text.as_bytes()).unwrap() - frame::HEAD
    };
    for bit in begins(3) * 8..begins(6) * 8 {
        let mut damaged = whole.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        fs::write(&path, damaged).unwrap();
        let (seen, end) = read_all(dir.path(), 5);
        assert_eq!((seen, end.last, &end.cut), ((6..=12).collect::<Vec<_>>(), 12, &None), "bit {bit}");
        assert!(end.passed_over.len() == 1 && end.passed_over[0].path == path, "{:?}", end.passed_over);
        // One record more is needed: record 5 may be the one.
        let (seen, end) = read_all(dir.path(), 4);
        assert_eq!(end.cut.is_some(), bit / 8 >= begins(5), "bit {bit}: {seen:?}");
    }
    // The damage reaches into what is needed, or nothing behind it says how far it reaches.
    for (record, to) in [(5, 6), (11, 12)] {
        let mut damaged = whole.clone();
        damaged[begins(record) + 40] ^= 1;
        damaged[begins(to) + 40] ^= 1;
        fs::write(&path, damaged).unwrap();
        let cut = read_all(dir.path(), record).1.cut.expect("lost");
        assert!(!cut.torn, "{cut}");
    }
}

#[test]
fn a_segment_of_which_not_even_the_title_was_written_goes() {
    let dir = tempfile::tempdir().unwrap();
    written(dir.path(), 6, 1 << 20);
    let (_, first) = segments(dir.path()).unwrap().remove(0);
    let title = fs::read(first).unwrap()[..40].to_vec();
    for length in [0, 1, 31, 32, 40] {
        fs::write(dir.path().join("00000000000000000007.log"), &title[..length]).unwrap();
        let (seen, end) = read_all(dir.path(), 0);
        let cut = end.cut.expect("torn");
        assert!(cut.torn && seen.len() == 6, "{length}: {cut}");
        cut.repair().unwrap();
        assert_eq!(read_all(dir.path(), 0).1.cut, None);
    }
}

#[test]
fn a_segment_in_the_place_of_another_is_a_loss() {
    let dir = tempfile::tempdir().unwrap();
    written(dir.path(), 50, 400);
    let all = segments(dir.path()).unwrap();
    let ((last, newest), (_, older)) = (all.last().unwrap(), &all[all.len() - 2]);
    fs::copy(older, newest).unwrap();
    // All that it has is told by the snapshot, and what it should have is gone.
    let (seen, end) = read_all(dir.path(), last - 1);
    let cut = end.cut.expect("a loss");
    assert!(seen.is_empty() && !cut.torn && cut.why.contains(&format!("instead of {last}")), "{cut}");
}

// No later file tells of the gap.
#[test]
fn a_newest_segment_that_is_missing_is_a_loss_and_nothing_else_is_taken_for_one() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = written(dir.path(), 50, 400);
    let last_of = |dir: &Path| segments(dir).unwrap().pop().unwrap();
    let (last, path) = last_of(dir.path());
    assert_eq!(noted(dir.path()).unwrap(), Some(last));
    // What is not flushed is not noted: the machine may lose it.
    let mut frame = Vec::new();
    seal(&mut frame, 5, 51, Nanos(51), b"record 51");
    writer.begin_segment();
    writer.write(51, &frame).unwrap();
    assert_eq!(noted(dir.path()).unwrap(), Some(last));
    let (after, unflushed) = last_of(dir.path());
    fs::remove_file(&unflushed).unwrap();
    assert_eq!(read_all(dir.path(), 0).1.cut, None);
    // Where it counts before that, the kernel knows it.
    writer.note().unwrap();
    assert_eq!(noted(dir.path()).unwrap(), Some(after));
    assert_eq!(read_all(dir.path(), 0).1.cut.expect("missing").path, unflushed);
    newest::note(dir.path(), last).unwrap();
    // Whatever goes of what is old, the newest stays.
    prune(dir.path(), u64::MAX, 0).unwrap();
    let (seen, end) = read_all(dir.path(), last - 1);
    assert_eq!((seen, end.cut), ((last..=50).collect::<Vec<_>>(), None));

    let kept = fs::read(&path).unwrap();
    fs::remove_file(&path).unwrap();
    let cut = read_all(dir.path(), last - 1).1.cut.expect("missing");
    assert!(cut.path == path && !cut.torn && cut.why.contains(&format!("the records from {last} on")), "{cut}");
    // Of one that was noted the title was there: this is not what a kill leaves.
    fs::write(&path, b"").unwrap();
    assert!(!read_all(dir.path(), last - 1).1.cut.expect("damaged").torn);
    // A later one says that it was there; its gap is told as any other.
    fs::remove_file(&path).unwrap();
    fs::write(dir.path().join("00000000000000000060.log"), &kept).unwrap();
    assert!(read_all(dir.path(), last - 1).1.cut.unwrap().why.contains("are missing before it"));
    fs::remove_file(dir.path().join("00000000000000000060.log")).unwrap();

    // A release before kept no note, and a damaged one is no reason to lose what is there.
    fs::write(&path, kept).unwrap();
    for note in [None, Some("7 00000000\n"), Some(""), Some("x")] {
        let file = dir.path().join("newest");
        let _ = fs::remove_file(&file);
        if let Some(note) = note {
            fs::write(&file, note).unwrap();
        }
        assert_eq!(noted(dir.path()).unwrap(), None);
        assert_eq!(read_all(dir.path(), last - 1).1.cut, None);
        // Whoever goes on from it flushes it, and notes it.
        flush(dir.path()).unwrap();
        assert_eq!(noted(dir.path()).unwrap(), Some(last));
    }
    remove(dir.path()).unwrap();
    assert!(!dir.path().exists());
}

// The segment that is cut off whole may have been noted by nobody, or by a start that found it empty.
#[test]
fn a_segment_that_is_cut_off_whole_is_not_named_any_more() {
    let dir = tempfile::tempdir().unwrap();
    written(dir.path(), 6, 1 << 20);
    fs::write(dir.path().join("00000000000000000007.log"), b"").unwrap();
    let cut = read_all(dir.path(), 0).1.cut.expect("torn");
    assert!(cut.torn);
    newest::note(dir.path(), 7).unwrap();
    cut.repair().unwrap();
    assert_eq!(read_all(dir.path(), 0).1.cut, None);
}

#[test]
fn damage_ends_what_is_read_and_is_told_from_a_torn_end() {
    let dir = tempfile::tempdir().unwrap();
    written(dir.path(), 6, 1 << 20);
    let (_, path) = segments(dir.path()).unwrap().remove(0);
    let whole = fs::read(&path).unwrap();
    let record = total(b"record 6");
    for (back, records) in [(3, 3), (1, 5)] {
        let mut bytes = whole.clone();
        let at = whole.len() - back * record + 30;
        bytes[at] ^= 4;
        fs::write(&path, bytes).unwrap();
        let (seen, end) = read_all(dir.path(), 0);
        let cut = end.cut.expect("damaged");
        assert!(!cut.torn && seen.len() == records && cut.why.contains("damaged"), "{cut}");
        assert_eq!(cut.at_end, back == 1);
    }
    // A record that the reader refuses ends it too.
    fs::write(&path, &whole).unwrap();
    let refuse = |record: Record<'_>| if record.index == 3 { Err("unknown".to_owned()) } else { Ok(()) };
    let end = read(dir.path(), &title(), 0, refuse).unwrap();
    assert!(end.last == 2 && end.cut.unwrap().why.contains("record 3: unknown"));
}

#[test]
fn files_of_others_and_of_later_releases_are_refused() {
    for (other, what) in [
        (Title { version: VERSION + 1, ..title() }, "format version 2"),
        (Title { domain: 4, ..title() }, "records have version 4"),
        (Title { server: "server-2".into(), ..title() }, "another server"),
        (Title { rm: "rm-2".into(), ..title() }, "resource manager \"rm-2\""),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let mut writer = Writer::new(dir.path().to_owned(), other.clone());
        let mut frame = Vec::new();
        seal(&mut frame, 5, 1, Nanos(1), b"record 1");
        writer.write(1, &frame).unwrap();
        let (seen, end) = read_all(dir.path(), 0);
        let cut = end.cut.expect("refused");
        assert!(seen.is_empty() && !cut.torn && cut.why.contains(what), "{cut}");
        write_snapshot(dir.path(), &other, 1, Nanos(1), &[Part { kind: 9, payload: vec![1] }]).unwrap();
        let (_, path) = snapshots(dir.path()).unwrap().remove(0);
        assert!(load(&path, &title()).unwrap_err().contains(what));
    }
}

#[test]
fn a_snapshot_is_whole_or_refused() {
    let dir = tempfile::tempdir().unwrap();
    let parts = [Part { kind: 9, payload: vec![1; 100] }, Part { kind: 10, payload: vec![2; 1000] }];
    let bytes = write_snapshot(dir.path(), &title(), 77, Nanos(5), &parts).unwrap();
    let (index, path) = snapshots(dir.path()).unwrap().remove(0);
    assert_eq!((index, fs::metadata(&path).unwrap().len()), (77, bytes));
    let snapshot = load(&path, &title()).unwrap();
    assert_eq!((snapshot.index, snapshot.at, &snapshot.parts[..]), (77, Nanos(5), &parts[..]));
    let whole = fs::read(&path).unwrap();
    for length in 0..whole.len() {
        fs::write(&path, &whole[..length]).unwrap();
        assert!(load(&path, &title()).is_err(), "{length}");
    }
    for at in (0..whole.len()).step_by(7) {
        let mut bytes = whole.clone();
        bytes[at] ^= 1;
        fs::write(&path, bytes).unwrap();
        assert!(load(&path, &title()).is_err(), "{at}");
    }
}

// A snapshot is named by its record: no other one takes the place of what a kill left of it.
#[test]
fn what_a_kill_left_of_a_file_goes_with_the_next_start_and_with_the_log() {
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("rm-1");
    written(&log, 6, 1 << 20);
    let half = log.join("00000000000000000004.snapshot.new");
    fs::write(&half, "half").unwrap();
    crate::store::files::sweep(&log).unwrap();
    let (seen, end) = read_all(&log, 0);
    assert_eq!((seen.len(), end.cut, fs::read_dir(&log).unwrap().count()), (6, None, 2), "the segment and its note");
    fs::write(&half, "half").unwrap();
    remove(&log).unwrap();
    assert!(!log.exists());
    crate::store::files::sweep(&log).unwrap();
}

#[test]
fn each_resource_manager_has_a_directory_of_its_own() {
    let base = Path::new("/log");
    let long = "x".repeat(256);
    // The last two have the same CRC-32 behind the same beginning.
    let [one, other] = ["plumless", "buckeroo"].map(|end| "x".repeat(300) + end);
    let sum = |rm: &str| crc32fast::hash(rm.as_bytes());
    assert_eq!(sum(&one), sum(&other));
    let names = ["rm-1", "RM-1", "rm/1", "rm.1", "..", "ä", "mark", "kept", &long, &"x".repeat(255), &one, &other];
    let all: std::collections::BTreeSet<_> = names.iter().map(|rm| directory(base, rm)).collect();
    assert_eq!(all.len(), names.len());
    for path in all {
        assert!(path.parent() == Some(base) && path.file_name().unwrap().len() <= 200, "{path:?}");
        assert!(path != base.join("mark") && path != base.join("kept"), "{path:?}");
    }
}

#[test]
fn a_directory_that_was_named_in_another_way_gets_its_name() {
    let base = tempfile::tempdir().unwrap();
    let rm = "x".repeat(300);
    let (old, own) = (base.path().join("xxx~0badcafe"), directory(base.path(), &rm));
    let mut writer = Writer::new(old.clone(), Title { rm, ..title() });
    let mut frame = Vec::new();
    seal(&mut frame, 5, 1, Nanos(1), b"record 1");
    writer.write(1, &frame).unwrap();
    assert_eq!(name_anew(base.path(), old.clone()).unwrap(), own);
    assert!(own.is_dir() && !old.exists());
    assert_eq!(name_anew(base.path(), own.clone()).unwrap(), own);
    let plain = base.path().join("rm-1");
    assert_eq!(name_anew(base.path(), plain.clone()).unwrap(), plain);
}

#[test]
fn what_cannot_be_written_can_be_tried_again() {
    let dir = tempfile::tempdir().unwrap();
    let place = dir.path().join("log");
    fs::write(&place, "in the way").unwrap();
    let mut writer = Writer::new(place.clone(), title());
    let mut frame = Vec::new();
    seal(&mut frame, 5, 1, Nanos(1), b"record 1");
    let error = writer.write(1, &frame).unwrap_err().to_string();
    assert!(error.contains(&place.display().to_string()), "{error}");
    fs::remove_file(&place).unwrap();
    writer.write(1, &frame).unwrap();
    assert_eq!(read_all(&place, 0).1.last, 1);
    remove(&place).unwrap();
    assert!(!place.exists());
}

#[test]
fn records_that_are_there_are_never_written_over() {
    let dir = tempfile::tempdir().unwrap();
    written(dir.path(), 50, 400);
    let before: Vec<_> = segments(dir.path()).unwrap().into_iter().map(|(_, path)| fs::read(path).unwrap()).collect();
    // A log that begins anew where there is one, as after a start that could not read it.
    for first in [1, 30] {
        let mut writer = Writer::new(dir.path().to_owned(), title());
        let mut frame = Vec::new();
        seal(&mut frame, 5, first, Nanos(1), b"other");
        let error = writer.write(first, &frame).unwrap_err().to_string();
        assert!(error.contains(&format!("record {first} or later ones are there already")), "{error}");
    }
    let after: Vec<_> = segments(dir.path()).unwrap().into_iter().map(|(_, path)| fs::read(path).unwrap()).collect();
    assert_eq!(before, after);
    // A segment that has no record yet is no record.
    let last = dir.path().join("00000000000000000051.log");
    fs::copy(&segments(dir.path()).unwrap()[0].1, &last).unwrap();
    let title_only = check_title(&fs::read(&last).unwrap(), None).unwrap().1;
    fs::OpenOptions::new().write(true).open(&last).unwrap().set_len(title_only as u64).unwrap();
    let mut writer = Writer::new(dir.path().to_owned(), title());
    let mut frame = Vec::new();
    seal(&mut frame, 5, 51, Nanos(51), b"record 51");
    writer.write(51, &frame).unwrap();
    assert_eq!(read_all(dir.path(), 0).1.last, 51);
}

// The kernel drops the pages of a flush that failed, and says so once: a second flush alone would be a lie.
#[test]
fn what_a_flush_did_not_take_is_written_again_before_the_next() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = written(dir.path(), 6, 200);
    for index in 7..=12 {
        let mut frame = Vec::new();
        seal(&mut frame, 5, index, Nanos(index as i64), format!("record {index}").as_bytes());
        writer.write(index, &frame).unwrap();
    }
    writer.refuse(Some(DiskFault::Flushes));
    let unsynced = writer.unsynced().unwrap();
    assert!(unsynced.sync().unwrap_err().to_string().contains("cannot flush"));
    writer.keep(unsynced);
    let mut frame = Vec::new();
    seal(&mut frame, 5, 13, Nanos(13), b"record 13");
    writer.write(13, &frame).unwrap();
    // The pages that were to be flushed have gone with it.
    assert!(read_all(dir.path(), 0).1.cut.is_some());
    writer.refuse(None);
    let unsynced = writer.unsynced().unwrap();
    unsynced.sync().unwrap();
    assert!(writer.unsynced().is_none());
    let (seen, end) = read_all(dir.path(), 0);
    assert_eq!((seen, end.cut), ((1..=13).collect::<Vec<_>>(), None));
}

// The half of a record in the middle of the log would be damage, and the session lost.
#[test]
fn what_a_full_disk_left_of_a_write_goes_before_another_segment_begins() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = written(dir.path(), 3, 1 << 20);
    let mut frame = Vec::new();
    seal(&mut frame, 5, 4, Nanos(4), b"record 4");
    writer.refuse(Some(DiskFault::Writes));
    writer.write(4, &frame).unwrap_err();
    assert!(read_all(dir.path(), 0).1.cut.unwrap().torn);
    writer.begin_segment();
    writer.write(4, &frame).unwrap_err();
    writer.refuse(None);
    writer.write(4, &frame).unwrap();
    assert_eq!(segments(dir.path()).unwrap().len(), 2);
    let (seen, end) = read_all(dir.path(), 0);
    assert_eq!((seen, end.cut), ((1..=4).collect::<Vec<_>>(), None));
}

#[test]
fn a_directory_tells_its_resource_manager() {
    for rm in ["rm-1", "RM 1", "a/b.c", "ä%", "..", "mark", "kept", "marks"] {
        assert_eq!(rm_of(&directory(Path::new("/log"), rm)).as_deref(), Some(rm));
    }
    assert_eq!(rm_of(&directory(Path::new("/log"), &"x".repeat(300))), None);
}
