//! Directories that were damaged, in every way that one file can be, and in some that two can.

use std::fs;

use tempfile::TempDir;

use super::*;
use crate::domain::{
    hostlist::HostList,
    idset::IdSet,
    journal::{Capacity, ResourceSet},
};

const AT: &str = "20261122T021305Z";
const FILES: [&str; 4] = [eventlog::FILE, copy::FILE, set::FILE, set::COPY];

/// In memory, where there is a file system there: thousands of flushes take their time on a disk.
fn directory() -> TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

fn record(name: &str, context: &str) -> Record {
    let json = format!(r#"{{"timestamp":1738083782.295166,"name":"{name}","context":{{{context}}}}}"#);
    Record::parse(json.as_bytes()).unwrap()
}

fn drain(rank: u32) -> Record {
    record("drain", &format!(r#""idset":"{rank}","nodelist":"n{rank}","reason":"disk","overwrite":0"#))
}

fn undrain(rank: u32) -> Record {
    record("undrain", &format!(r#""idset":"{rank}","nodelist":"n{rank}""#))
}

fn define() -> Record {
    record("resource-define", r#""method":"kvs""#)
}

/// R with this many hosts.
fn r(hosts: u32) -> String {
    let nodelist = HostList::parse(&format!("n[0-{}]", hosts - 1)).unwrap();
    let groups = vec![(IdSet::first(hosts), Capacity { cores: 4, gpus: 0 })];
    crate::store::resource_set::encode(&ResourceSet { groups, nodelist, expiration: 1_900_000_000 })
}

/// What a directory says: lines, hosts, and what is told of damage.
#[derive(Debug, PartialEq, Eq)]
struct Said {
    lines: Vec<String>,
    hosts: usize,
}

fn look(path: &Path) -> (Said, Opened) {
    let opened = open(path, AT);
    let mut lines = Vec::new();
    let each = |_, record: Result<Record, String>| {
        lines.push(record.map_or_else(|why| why, |record| record.json.to_string()));
    };
    opened.lines.scan(each).unwrap();
    let hosts = opened.set.as_ref().map_or(0, |(hosts, _)| hosts.len());
    (Said { lines, hosts }, opened)
}

fn write(path: &Path, r: Option<&str>, records: &[Record]) {
    let mut directory = open(path, AT).directory.unwrap();
    directory.write(r, records, AT).unwrap();
    assert!(directory.take_damage().is_empty());
}

/// A journal with three writes; gives what it looked like after each.
fn journal(path: &Path) -> Vec<Vec<(String, Vec<u8>)>> {
    let state = || FILES.map(|name| (name.to_owned(), fs::read(path.join(name)).unwrap())).to_vec();
    let mut states = Vec::new();
    write(path, Some(&r(3)), &[define(), drain(1)]);
    states.push(state());
    write(path, Some(&r(4)), &[define()]);
    states.push(state());
    write(path, None, &[drain(2), undrain(1)]);
    states.push(state());
    states
}

fn fill(path: &Path, state: &[(String, Vec<u8>)]) {
    fs::create_dir_all(path).unwrap();
    for (name, bytes) in state {
        fs::write(path.join(name), bytes).unwrap();
    }
}

/// A directory with this state, in which something is done.
fn with(state: &[(String, Vec<u8>)], damage: impl FnOnce(&Path)) -> TempDir {
    let dir = directory();
    fill(dir.path(), state);
    damage(dir.path());
    dir
}

/// All that should be there is; damage was told, mended, and kept aside.
fn is_made_good(dir: &Path, sound: &Said, state: &[(String, Vec<u8>)], what: &str) {
    let (said, opened) = look(dir);
    assert_eq!(said, *sound, "{what}");
    assert!(opened.directory.is_ok(), "{what}: {opened:?}");
    assert!(!opened.damage.is_empty(), "{what}: nothing is told");
    let report = read_report(dir).unwrap();
    assert!(
        report.iter().all(|line| line.starts_with(AT)) && report.len() == opened.damage.len(),
        "{what}: {report:?}"
    );
    let (said, opened) = look(dir);
    assert_eq!((&said, opened.damage), (sound, Vec::new()), "{what}: the second time");
    assert!(has_report(dir), "it stays until an operator removes it");
    for (name, bytes) in state.iter().filter(|(name, _)| *name == eventlog::FILE || *name == set::FILE) {
        assert_eq!(fs::read(dir.join(name)).unwrap(), *bytes, "{what}: {name} is as it was");
    }
    write(dir, None, &[drain(0)]);
    assert_eq!(look(dir).0.lines.len(), sound.lines.len() + 1, "{what}: and goes on");
}

#[test]
fn what_is_written_is_read_and_the_log_is_that_of_the_rfc() {
    let dir = directory();
    let path = dir.path().join("journal");
    let (said, opened) = look(&path);
    assert_eq!(said, Said { lines: Vec::new(), hosts: 0 });
    assert!(
        !opened.directory.unwrap().is_kept() && !path.exists(),
        "nothing is made before there is something to keep"
    );
    let states = journal(&path);
    let (said, opened) = look(&path);
    let expected = [define(), drain(1), define(), drain(2), undrain(1)];
    assert_eq!(said.lines, expected.clone().map(|record| record.json.to_string()));
    assert_eq!((said.hosts, opened.damage.len()), (4, 0));
    assert!(opened.directory.unwrap().is_kept() && !has_report(&path));
    // A plain reader sees lines of JSON and nothing else.
    let log = String::from_utf8(states[2][0].1.clone()).unwrap();
    assert_eq!(log, expected.map(|record| format!("{}\n", record.json)).concat());
    assert_eq!(states[2][2].1, r(4).into_bytes());
}

#[test]
fn a_flipped_bit_in_any_byte_of_any_file_loses_nothing_and_is_told() {
    let dir = directory();
    let state = journal(dir.path()).pop().unwrap();
    let (sound, _) = look(dir.path());
    for (name, bytes) in &state {
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1 << (at % 8);
            let dir = with(&state, |dir| fs::write(dir.join(name), damaged).unwrap());
            is_made_good(dir.path(), &sound, &state, &format!("{name} byte {at}"));
        }
    }
}

#[test]
fn a_file_that_is_cut_empty_gone_or_something_else_loses_nothing_and_is_told() {
    let dir = directory();
    let state = journal(dir.path()).pop().unwrap();
    let (sound, _) = look(dir.path());
    for (name, bytes) in &state {
        for length in 0..bytes.len() {
            let dir = with(&state, |dir| fs::write(dir.join(name), &bytes[..length]).unwrap());
            is_made_good(dir.path(), &sound, &state, &format!("{name} cut to {length}"));
        }
        let dir = with(&state, |dir| fs::remove_file(dir.join(name)).unwrap());
        is_made_good(dir.path(), &sound, &state, &format!("{name} is gone"));
        let dir = with(&state, |dir| {
            fs::remove_file(dir.join(name)).unwrap();
            fs::create_dir(dir.join(name)).unwrap();
        });
        is_made_good(dir.path(), &sound, &state, &format!("{name} is a directory"));
        let dir = with(&state, |dir| fs::write(dir.join(name), "something else\n".repeat(7)).unwrap());
        is_made_good(dir.path(), &sound, &state, &format!("{name} is something else"));
        let aside: Vec<_> = fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        let aside =
            aside.iter().find(|other| other.to_str().unwrap().starts_with(&format!("{name}.damaged-"))).unwrap();
        assert!(fs::read_to_string(dir.path().join(aside)).unwrap().starts_with("something else"));
    }
}

#[test]
fn a_file_in_whose_place_an_older_one_is_loses_nothing_and_is_told() {
    let dir = directory();
    let states = journal(dir.path());
    let (sound, _) = look(dir.path());
    let state = &states[2];
    for older in &states[..2] {
        for ((name, bytes), (_, now)) in older.iter().zip(state).filter(|(old, now)| old != now) {
            let dir = with(state, |dir| fs::write(dir.join(name), bytes).unwrap());
            if *name == set::FILE && bytes == &states[0][2].1 {
                // As after a crash between the two writes: made up for in silence.
                let (said, opened) = look(dir.path());
                assert_eq!((said, opened.damage), (look(dir.path()).0, Vec::new()));
                assert_eq!(fs::read(dir.path().join(name)).unwrap(), *now);
                continue;
            }
            is_made_good(dir.path(), &sound, state, &format!("an older {name}"));
        }
    }
    // All of them together are a journal of that time: nobody can tell.
    let dir = with(&states[1], |_| ());
    assert!(look(dir.path()).1.damage.is_empty());
}

#[test]
fn what_a_crash_leaves_is_no_damage() {
    let dir = directory();
    let states = journal(dir.path());
    let (before, _) = { with_look(&states[1]) };
    let (after, _) = { with_look(&states[2]) };
    let part = |state: usize, file: usize| states[state][file].1.clone();
    // The copy is written first, then the log, then the signs.
    let (old_copy, new_copy) = (part(1, 1), part(2, 1));
    let planned: Vec<u8> = {
        let mut bytes = old_copy.clone();
        for (number, record) in (4..).zip([drain(2), undrain(1)]) {
            copy::write(copy::PLANNED, number, record.json.as_bytes(), &mut bytes);
        }
        bytes
    };
    assert_eq!(planned.len(), new_copy.len());
    let signed = planned.iter().zip(&new_copy).filter(|(a, b)| a != b).count();
    assert_eq!(signed, 2);
    let check = |copy: &[u8], log: &[u8], what: &str| {
        let dir = with(&states[2], |dir| {
            fs::write(dir.join(copy::FILE), copy).unwrap();
            fs::write(dir.join(eventlog::FILE), log).unwrap();
        });
        let (said, opened) = look(dir.path());
        assert!(opened.damage.is_empty() && !has_report(dir.path()), "{what}: {:?}", opened.damage);
        let half = Said { lines: after.lines[..4].to_vec(), hosts: 4 };
        assert!([&before, &half, &after].contains(&&said), "{what}: {said:?}");
        write(dir.path(), None, &[drain(3)]);
        let (again, opened) = look(dir.path());
        assert_eq!((again.lines.len(), opened.damage.len()), (said.lines.len() + 1, 0), "{what}: and goes on");
        assert_eq!(again.lines[..said.lines.len()], said.lines);
        said
    };
    for length in old_copy.len()..planned.len() {
        assert_eq!(check(&planned[..length], &part(1, 0), &format!("copy cut to {length}")), before);
    }
    let (old_log, new_log) = (part(1, 0), part(2, 0));
    for length in old_log.len()..=new_log.len() {
        check(&planned, &new_log[..length], &format!("log cut to {length}"));
    }
    assert_eq!(check(&planned, &new_log, "not signed"), after);
    // And the resource set: the copy first.
    for (state, file) in [(0, 3), (1, 3)] {
        let dir = directory();
        if state == 1 {
            fill(dir.path(), &states[0]);
        }
        fs::write(dir.path().join(set::COPY), part(state, file)).unwrap();
        let (said, opened) = look(dir.path());
        assert_eq!((said.hosts, opened.damage), (3 + state, Vec::new()));
        assert_eq!(fs::read_to_string(dir.path().join(set::FILE)).unwrap(), r(3 + state as u32));
    }
    // Nothing of several lines that came with it reached the log.
    for before in [&states[0][..], &[]] {
        let dir = with(before, |_| ());
        write(dir.path(), Some(&r(5)), &[define(), define(), define(), drain(1)]);
        for name in [eventlog::FILE, copy::FILE, count::FILE] {
            fs::remove_file(dir.path().join(name)).unwrap();
        }
        fill(dir.path(), &before[..before.len().min(2)]);
        let (said, opened) = look(dir.path());
        assert_eq!((said.lines.len(), said.hosts, opened.damage), (before.len() / 2, 5, Vec::new()));
    }
}

fn with_look(state: &[(String, Vec<u8>)]) -> (Said, TempDir) {
    let dir = with(state, |_| ());
    (look(dir.path()).0, dir)
}

#[test]
fn where_both_are_damaged_in_the_same_place_the_rest_holds_and_it_is_told_that_something_may_be_lost() {
    let dir = directory();
    let state = journal(dir.path()).pop().unwrap();
    let (sound, _) = look(dir.path());
    let dir = with(&state, |dir| {
        for name in [eventlog::FILE, copy::FILE] {
            let text = fs::read_to_string(dir.join(name)).unwrap();
            fs::write(dir.join(name), text.replace(r#""idset":"2","nodelist":"n2""#, r#""idset":"#)).unwrap();
        }
    });
    let (said, opened) = look(dir.path());
    let mut rest = sound.lines.clone();
    rest.remove(3);
    assert_eq!((said.lines, said.hosts), (rest, 4));
    let told = opened.damage.join("\n");
    assert!(told.contains("line 4 cannot be read in either file"), "{told}");
    assert!(told.contains("may be lost") && told.contains("callboard resource drain"), "{told}");
    // Ranks too: they are given anew.
    let dir = with(&state, |dir| {
        fs::write(dir.join(set::FILE), "{}").unwrap();
        fs::write(dir.join(set::COPY), "{}").unwrap();
    });
    let (said, opened) = look(dir.path());
    assert_eq!((said.lines, said.hosts), (sound.lines, 0));
    let told = opened.damage.join("\n");
    assert!(told.contains("resource.R: damaged") && told.contains("ranks are given anew"), "{told}");
}

#[test]
fn a_line_that_a_bit_was_flipped_of_in_both_files_may_be_lost_and_no_node_is_undrained_by_it() {
    let dir = directory();
    let state = journal(dir.path()).pop().unwrap();
    let flipped = |from: &str, to: &str, in_log: (&str, &str)| {
        let dir = with(&state, |dir| {
            for (name, (from, to)) in [(eventlog::FILE, in_log), (copy::FILE, (from, to))] {
                let text = fs::read_to_string(dir.join(name)).unwrap();
                assert!(text.contains(from));
                fs::write(dir.join(name), text.replace(from, to)).unwrap();
            }
        });
        let (said, opened) = look(dir.path());
        let told = opened.damage.join("\n");
        assert!(told.contains("may be lost") && !told.contains("no drain or undrain is lost"), "{told}");
        assert!(has_report(dir.path()));
        assert!(look(dir.path()).1.damage.is_empty(), "it is said in the report");
        (said.lines, told)
    };
    let other = |record: Record, from: &str, to: &str| record.json.replace(from, to);
    // Line 4 drains n2, line 5 undrains n1.
    let (lines, told) = flipped(r#""nodelist":"n2","r"#, r#""nodelist":"n2","s"#, ("\"n2\"", "\"n6\""));
    assert_eq!((&*lines[3], lines.len()), (&*other(drain(2), "\"n2\"", "\"n6\""), 5));
    assert!(told.contains("line 4 damaged in both files, and in force as it can be read"), "{told}");
    // What the log has of it is no drain any more.
    let (lines, _) = flipped(
        r#""2","nodelist":"n2","r"#,
        r#""2","nodelist":"n2","s"#,
        ("drain\",\"context\":{\"idset\":\"2", "dbain\",\"context\":{\"idset\":\"2"),
    );
    assert_eq!((&*lines[3], lines.len()), (&*other(drain(2), "reason", "season"), 5));
    // It may be that of another node.
    let (lines, told) = flipped("\"n1\"}", "\"n3\"}", ("\"n1\"}", "\"n0\"}"));
    assert_eq!(lines.len(), 4, "{lines:?}");
    assert!(told.contains("line 5 cannot be read in either file"), "{told}");
}

#[test]
fn lines_that_both_files_lack_at_their_end_are_told_and_what_a_crash_leaves_is_not() {
    let dir = directory();
    let mut state = journal(dir.path()).pop().unwrap();
    state.push((count::FILE.to_owned(), fs::read(dir.path().join(count::FILE)).unwrap()));
    let (sound, _) = look(dir.path());
    let [log, twin] = [0, 1].map(|file| state[file].1.clone());
    let last = |bytes: &[u8]| bytes[..bytes.len() - 1].iter().rposition(|byte| *byte == b'\n').unwrap() + 1;
    let cut = |in_log: &[u8], in_copy: &[u8]| {
        with(&state, |dir| {
            fs::write(dir.join(eventlog::FILE), in_log).unwrap();
            fs::write(dir.join(copy::FILE), in_copy).unwrap();
        })
    };
    for (in_log, in_copy) in [(last(&log), last(&twin)), (log.len() - 9, twin.len() - 9), (log.len() - 1, last(&twin))]
    {
        let dir = cut(&log[..in_log], &twin[..in_copy]);
        let (said, opened) = look(dir.path());
        assert_eq!(said.lines, sound.lines[..4]);
        let told = opened.damage.join("\n");
        assert!(told.contains("lack 1 line at their end") && told.contains("may be lost"), "{told}");
        assert!(has_report(dir.path()) && look(dir.path()).1.damage.is_empty());
        write(dir.path(), None, &[drain(0)]);
        assert_eq!((look(dir.path()).0.lines.len(), look(dir.path()).1.damage.len()), (5, 0));
    }
    // The sign of the last line is not on disk, and the line was acknowledged.
    let mut planned = twin.clone();
    planned[last(&twin)] = copy::PLANNED;
    let dir = cut(&log[..last(&log)], &planned);
    let (said, opened) = look(dir.path());
    assert_eq!(said, sound);
    assert!(opened.damage.join("\n").contains("line 5 missing"), "{:?}", opened.damage);
    // A crash came before the lines were counted, or the file comes from a release that did not count, or was made just now.
    let earlier = with(&state, |dir| count::Count::of(dir).replace(3).unwrap());
    let empty = with(&state, |dir| fs::write(dir.join(count::FILE), "").unwrap());
    let none = with(&state, |dir| fs::remove_file(dir.join(count::FILE)).unwrap());
    for dir in [earlier, empty, none] {
        let (said, opened) = look(dir.path());
        assert_eq!((&said, opened.damage), (&sound, Vec::new()));
        write(dir.path(), None, &[drain(0)]);
        assert_eq!(count::read(dir.path()).unwrap(), Ok(6));
    }
    // Damage of the number costs nothing, and is told.
    let number = &state[4].1;
    let flipped = |at: usize| number.iter().enumerate().map(|(i, byte)| byte ^ u8::from(i == at)).collect::<Vec<u8>>();
    let damaged = (0..number.len()).map(flipped).chain((1..number.len()).map(|length| number[..length].to_vec()));
    for bytes in damaged {
        let dir = with(&state, |dir| fs::write(dir.join(count::FILE), &bytes).unwrap());
        is_made_good(dir.path(), &sound, &state, &format!("{bytes:?}"));
    }
}

#[test]
fn a_log_from_elsewhere_is_taken_and_told() {
    // As another reader of the RFC wrote it.
    let dir = directory();
    let log = format!("{}\r\n\t{} \nnonsense\n\n{}\n{{\"torn", drain(1).json, drain(2).json, undrain(2).json);
    fs::write(dir.path().join(eventlog::FILE), &log).unwrap();
    let (said, opened) = look(dir.path());
    assert_eq!(said.lines, [drain(1), drain(2), undrain(2)].map(|record| record.json.to_string()));
    let told = opened.damage.join("\n");
    assert!(told.contains("lines 3-4 cannot be read in either file"), "{told}");
    assert!(told.contains("resource.eventlog.copy: missing"), "{told}");
    assert!(look(dir.path()).1.damage.is_empty());
    // Text without a newline was never an event.
    let dir = directory();
    fs::write(dir.path().join(eventlog::FILE), "{\"torn").unwrap();
    assert!(look(dir.path()).1.damage.is_empty());
    write(dir.path(), Some(&r(2)), &[drain(1)]);
    assert_eq!(look(dir.path()).0.lines.len(), 1);
}

#[test]
fn files_of_a_later_release_are_left_alone() {
    let dir = directory();
    let states = journal(dir.path());
    let (sound, _) = look(dir.path());
    for (name, title) in
        [(copy::FILE, "callboard copy of resource.eventlog"), (set::COPY, "callboard copy of resource.R")]
    {
        let text = format!("{title}, version 2, with more");
        let text = if name == copy::FILE { format!("{title}, version 2") } else { text };
        let later = format!("{text} {:08x}\nand more\n", crc32fast::hash(text.as_bytes()));
        let dir = with(&states[2], |dir| fs::write(dir.join(name), &later).unwrap());
        let (said, opened) = look(dir.path());
        let why = opened.directory.unwrap_err();
        assert!(why.contains(name) && why.contains("format version 2") && why.contains("start the release"), "{why}");
        assert_eq!(said, sound, "drains are in force, and ranks stay with their hosts");
        assert_eq!(fs::read_to_string(dir.path().join(name)).unwrap(), later);
        assert!(!has_report(dir.path()));
    }
}

#[test]
fn what_cannot_be_mended_yet_is_in_force_and_mended_later() {
    let dir = directory();
    let state = journal(dir.path()).pop().unwrap();
    let (sound, _) = look(dir.path());
    let dir = with(&state, |dir| {
        fs::remove_file(dir.join(eventlog::FILE)).unwrap();
        // The report cannot be written.
        fs::create_dir(dir.join("resource.damage.new")).unwrap();
    });
    let (said, opened) = look(dir.path());
    assert_eq!(said, sound);
    assert!(opened.damage.iter().any(|line| line.contains("cannot be mended")), "{:?}", opened.damage);
    assert!(!dir.path().join(eventlog::FILE).exists());
    let mut directory = opened.directory.unwrap();
    let refused = directory.write(None, &[drain(3)], AT).unwrap_err();
    assert!(refused.contains("cannot be mended"), "{refused}");
    fs::remove_dir(dir.path().join("resource.damage.new")).unwrap();
    directory.write(None, &[drain(3)], AT).unwrap();
    assert!(!directory.take_damage().is_empty());
    assert_eq!(look(dir.path()).0.lines.len(), sound.lines.len() + 1);
}

#[test]
fn files_that_are_changed_under_a_running_server_are_noticed_with_the_next_write() {
    let dir = directory();
    let states = journal(dir.path());
    for name in [eventlog::FILE, copy::FILE] {
        for what in ["gone", "cut", "older", "another"] {
            let dir = with(&states[2], |_| ());
            let mut directory = open(dir.path(), AT).directory.unwrap();
            directory.write(None, &[drain(3)], AT).unwrap();
            let path = dir.path().join(name);
            let bytes = fs::read(&path).unwrap();
            match what {
                "gone" => fs::remove_file(&path).unwrap(),
                "cut" => fs::write(&path, &bytes[..bytes.len() - 20]).unwrap(),
                "older" => {
                    files::replace(&path, &states[1].iter().find(|(other, _)| other == name).unwrap().1).unwrap()
                }
                // Another file with the same bytes is no damage.
                _ => files::replace(&path, &bytes).unwrap(),
            }
            directory.write(None, &[undrain(3)], AT).unwrap();
            assert_eq!(directory.take_damage().is_empty(), what == "another", "{name} {what}");
            let (said, opened) = look(dir.path());
            assert_eq!((said.lines.len(), opened.damage.len()), (7, 0), "{name} {what}");
        }
    }
    // Both, from a backup: what was written since is in the memory of the server alone.
    let dir = with(&states[2], |_| ());
    let mut directory = open(dir.path(), AT).directory.unwrap();
    fill(dir.path(), &states[1]);
    directory.write(None, &[drain(3)], AT).unwrap();
    let told = directory.take_damage().join("\n");
    assert!(told.contains("end 2 lines early") && told.contains("drain again"), "{told}");
    assert!(has_report(dir.path()));
}

#[test]
fn a_failed_append_changes_nothing() {
    let dir = directory();
    let file = dir.path().join("file");
    fs::write(&file, "in the way").unwrap();
    let refused = open(&file, AT).directory.unwrap_err();
    assert!(refused.contains("cannot be read") && refused.contains("file"), "{refused}");
    let path = dir.path().join("journal");
    let mut directory = open(&path, AT).directory.unwrap();
    fs::write(&path, "in the way").unwrap();
    assert!(directory.write(Some(&r(2)), &[drain(1)], AT).unwrap_err().contains("cannot be written"));
    fs::remove_file(&path).unwrap();
    directory.write(Some(&r(2)), &[drain(1)], AT).unwrap();
    assert_eq!(look(&path).0.lines.len(), 1);
}
