//! What a log and its copy say together, where they do not agree.

use std::{collections::HashMap, fmt};

use super::copy::{self, Title};
use crate::{
    domain::{
        idset::IdSet,
        journal::{Kind, ResourceEvent},
    },
    store::eventlog::Record,
};

/// Lines between two numbers of a copy that are believed to be missing at most; more is damage.
const LONGEST_HOLE: u64 = 1_000_000;

/// A file as it was found.
#[derive(Debug)]
pub enum File {
    /// There is none.
    Missing,
    /// It cannot be read, and why.
    Unreadable(String),
    /// Its bytes.
    Bytes(Vec<u8>),
}

/// What both say.
#[derive(Debug, Default)]
pub struct Merged {
    /// The lines, without newlines.
    pub lines: Vec<Vec<u8>>,
    /// What was wrong with the log.
    pub log: Trouble,
    /// What was wrong with the copy.
    pub copy: Trouble,
    /// Numbers of lines that neither has: in the copy, or in the log where that has more.
    pub lost: Vec<u64>,
    /// Numbers of lines that were taken from damaged text: both have one, and the checksum is that of neither.
    pub doubtful: Vec<u64>,
}

/// What was wrong with one of the files; the other made up for it, where nothing is lost.
#[derive(Debug, Default)]
pub struct Trouble {
    /// The file as a whole.
    pub whole: Option<String>,
    /// Numbers of lines that were damaged.
    pub damaged: Vec<u64>,
    /// Numbers of lines that were missing.
    pub missing: Vec<u64>,
}

impl Trouble {
    /// There was none.
    pub fn is_none(&self) -> bool {
        self.whole.is_none() && self.damaged.is_empty() && self.missing.is_empty()
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(whole) = &self.whole {
            return f.write_str(whole);
        }
        let damaged = numbers(&self.damaged).map(|lines| format!("{lines} damaged"));
        let missing = numbers(&self.missing).map(|lines| format!("{lines} missing"));
        f.write_str(&[damaged, missing].into_iter().flatten().collect::<Vec<_>>().join(", "))
    }
}

/// `line 3`, or `lines 3,5-9`; `None` where there are none.
pub fn numbers(lines: &[u64]) -> Option<String> {
    let set: IdSet = lines.iter().filter_map(|line| u32::try_from(*line).ok()).collect();
    match set.len() {
        0 => None,
        1 => Some(format!("line {set}")),
        _ => Some(format!("lines {set}")),
    }
}

/// A line of the copy, by its number; or what stands there where it is damaged: nothing where it is missing.
type Entry<'a> = Result<copy::Line<'a>, &'a [u8]>;

/// Puts together what is readable. What the copy holds is certain, for it has checksums; what only the log has counts where
/// it is an event, and where the copy has something else there with a checksum of something else again, that is told.
/// There were so many lines at least.
pub fn merge(log: &File, copy: &File, least: u64) -> Merged {
    let mut merged = Merged::default();
    let entries = entries(copy, least, &mut merged.copy);
    let lines = match log {
        File::Bytes(bytes) => whole_lines(bytes),
        File::Missing => {
            merged.log.whole = Some("missing".to_owned());
            Vec::new()
        }
        File::Unreadable(why) => {
            merged.log.whole = Some(why.clone());
            Vec::new()
        }
    };
    let mut places: HashMap<&[u8], Vec<usize>> = HashMap::new();
    for (at, line) in lines.iter().enumerate() {
        places.entry(line).or_default().push(at);
    }
    let (mut i, mut j) = (0, 0);
    while i < entries.len() || j < lines.len() {
        if let (Some(Ok(entry)), Some(line)) = (entries.get(i), lines.get(j))
            && entry.text == *line
        {
            merged.lines.push(line.to_vec());
            (i, j) = (i + 1, j + 1);
            continue;
        }
        let (a, b) = next_in_both(&entries[i..], j, &places).unwrap_or((entries.len() - i, lines.len() - j));
        merged.stretch((i, &entries[i..i + a]), (j, &lines[j..j + b]), j + b == lines.len());
        (i, j) = (i + a, j + b);
    }
    merged
}

/// How far it is to the next line that both have, in the copy and in the log. Lines of the same text may stand in several
/// places, and damage seldom changes how many there are: so the same distance in both is preferred.
fn next_in_both(entries: &[Entry<'_>], j: usize, places: &HashMap<&[u8], Vec<usize>>) -> Option<(usize, usize)> {
    let mut best: Option<(usize, (usize, usize))> = None;
    for (a, entry) in entries.iter().enumerate() {
        if best.is_some_and(|(cost, _)| a >= cost) {
            break;
        }
        let Some(found) = entry.as_ref().ok().and_then(|entry| places.get(entry.text)) else { continue };
        let near = found.partition_point(|at| *at < j + a);
        let before = near.checked_sub(1).and_then(|at| found.get(at)).filter(|at| **at >= j);
        for at in before.into_iter().chain(found.get(near)) {
            let b = at - j;
            let cost = a.max(b) + 2 * a.abs_diff(b);
            if best.is_none_or(|(least, _)| cost < least) {
                best = Some((cost, (a, b)));
            }
        }
    }
    best.map(|(_, distance)| distance)
}

impl Merged {
    /// Lines in which they differ, up to the next that both have. `last`: the log ends here.
    fn stretch(&mut self, (i, entries): (usize, &[Entry<'_>]), (j, lines): (usize, &[&[u8]]), last: bool) {
        for (at, entry) in entries.iter().enumerate() {
            let number = (i + at) as u64 + 1;
            let line = lines.get(at);
            match entry {
                // Never acknowledged.
                Ok(entry) if !entry.written => {}
                Ok(entry) => {
                    self.lines.push(entry.text.to_vec());
                    match line {
                        Some(_) => self.log.damaged.push((j + at) as u64 + 1),
                        None => self.log.missing.push(number),
                    }
                }
                Err(damaged) => {
                    self.copy.damaged.push(number);
                    let found = line.filter(|line| says_something(line)).copied();
                    if let Some(line) = found.filter(|line| copy::was_of(damaged, number, line) != Some(false)) {
                        self.lines.push(line.to_vec());
                        continue;
                    }
                    let text = copy::text_of(damaged);
                    // A drain that can still be read counts, whichever of them has it; an undrain may be that of another node.
                    let texts = [text, found].into_iter().flatten().filter_map(|line| Some((line, past(line)?)));
                    let texts = texts
                        .filter(|(_, past)| !matches!(past, Some(ResourceEvent { kind: Kind::Undrain { .. }, .. })));
                    match texts.max_by_key(|(_, past)| past.is_some()) {
                        Some((line, _)) => {
                            self.lines.push(line.to_vec());
                            self.doubtful.push(number);
                        }
                        None => self.lost.push(number),
                    }
                }
            }
        }
        if !last {
            // More lines than there should be, between two that are right: pieces of those above.
            return;
        }
        for (at, line) in lines.iter().enumerate().skip(entries.len()) {
            let number = (j + at) as u64 + 1;
            if says_something(line) {
                self.lines.push(line.to_vec());
                self.copy.missing.push(number);
            } else {
                self.lost.push(number);
            }
        }
    }
}

/// It is an event, and where it is to bring something back it says what (J6.2).
fn says_something(line: &[u8]) -> bool {
    past(line).is_some()
}

/// What an event brings back, if anything; `None` where it is none, or does not say what.
fn past(line: &[u8]) -> Option<Option<ResourceEvent>> {
    Record::parse(line).ok()?.past().ok()
}

/// The copy's lines by number.
fn entries<'a>(copy: &'a File, least: u64, trouble: &mut Trouble) -> Vec<Entry<'a>> {
    let bytes = match copy {
        File::Bytes(bytes) => bytes,
        File::Missing => {
            trouble.whole = Some("missing".to_owned());
            return Vec::new();
        }
        File::Unreadable(why) => {
            trouble.whole = Some(why.clone());
            return Vec::new();
        }
    };
    let mut lines = whole_lines(bytes).into_iter();
    match lines.next() {
        Some(title) if copy::read_title(title) == Title::Damaged => {
            trouble.whole = Some("its first line is damaged".to_owned());
        }
        Some(_) => {}
        None => trouble.whole = Some("it has no first line".to_owned()),
    }
    let mut entries: Vec<Entry<'a>> = Vec::new();
    let mut whole = 0;
    for line in lines {
        let next = entries.len() as u64 + 1;
        let entry = copy::read(line).filter(|entry| (whole + 1..next + LONGEST_HOLE).contains(&entry.number));
        if let Some(entry) = &entry {
            // Damage may have made several lines of one, too.
            entries.resize((entry.number - 1) as usize, Err(&[]));
            whole = entry.number;
        }
        // A crash of the machine may have taken the sign back.
        let entry = entry.map(|entry| copy::Line { written: entry.written || entry.number <= least, ..entry });
        entries.push(entry.ok_or(line));
    }
    entries
}

/// Lines that end with a newline.
fn whole_lines(bytes: &[u8]) -> Vec<&[u8]> {
    let mut lines: Vec<&[u8]> = bytes.split(|byte| *byte == b'\n').collect();
    lines.pop();
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An event for each letter.
    fn event(letter: char) -> Vec<u8> {
        format!(r#"{{"timestamp":1,"name":"{letter}"}}"#).into_bytes()
    }

    /// A log with a line for each letter; `!` stands for one that cannot be read.
    fn log(letters: &str) -> File {
        let mut bytes = Vec::new();
        for letter in letters.chars() {
            bytes.extend(if letter == '!' { b"damaged".to_vec() } else { event(letter) });
            bytes.push(b'\n');
        }
        File::Bytes(bytes)
    }

    /// A copy with a line for each letter; a capital is one whose text alone is damaged, `!` one that cannot be read, `_` one that
    /// is missing, and those behind `?` were about to be written.
    fn copy(letters: &str) -> File {
        let mut bytes = copy::title().into_bytes();
        let (mut number, mut sign) = (0, copy::WRITTEN);
        for letter in letters.chars() {
            match letter {
                '?' => {
                    sign = copy::PLANNED;
                    continue;
                }
                '!' => bytes.extend(b"+9 damaged\n"),
                '_' => {}
                'A'..='Z' => {
                    copy::write(sign, number + 1, &event(letter.to_ascii_lowercase()), &mut bytes);
                    let end = bytes.len();
                    bytes[end - 2] = b'?';
                }
                letter => copy::write(sign, number + 1, &event(letter), &mut bytes),
            }
            number += 1;
        }
        File::Bytes(bytes)
    }

    /// The letters, and what is said of log, copy and what is lost.
    fn merged(log: &File, copy: &File) -> (String, [String; 3]) {
        let merged = merge(log, copy, 0);
        let letter = |line: &Vec<u8>| char::from(line[line.len() - 3]);
        let doubtful = numbers(&merged.doubtful).map(|lines| format!("{lines} doubtful"));
        let lost = numbers(&merged.lost).into_iter().chain(doubtful).collect::<Vec<_>>().join(", ");
        let said = [merged.log.to_string(), merged.copy.to_string(), lost];
        (merged.lines.iter().map(letter).collect(), said)
    }

    #[test]
    fn either_makes_up_for_the_other() {
        for (in_log, in_copy, lines, said) in [
            // The log is damaged.
            ("a!c", "abc", "abc", ["line 2 damaged", "", ""]),
            ("!bc", "abc", "abc", ["line 1 damaged", "", ""]),
            ("ab!", "abc", "abc", ["line 3 damaged", "", ""]),
            ("ab", "abcd", "abcd", ["lines 3-4 missing", "", ""]),
            ("cd", "abcd", "abcd", ["lines 1-2 missing", "", ""]),
            ("", "abc", "abc", ["lines 1-3 missing", "", ""]),
            // A line became two, two became one, some other log is in its place.
            ("a!!c", "abc", "abc", ["line 2 damaged", "", ""]),
            ("a!d", "abcd", "abcd", ["line 2 damaged, line 3 missing", "", ""]),
            ("xyz", "abc", "abc", ["lines 1-3 damaged", "", ""]),
            ("acb", "abc", "abc", ["line 3 missing", "", ""]),
            // Lines of the same text.
            ("aba", "__a", "aba", ["", "lines 1-2 damaged", ""]),
            ("!aab", "aaab", "aaab", ["line 1 damaged", "", ""]),
            ("aaab", "aaAb", "aaab", ["", "line 3 damaged", ""]),
            // What was about to be written counts where the log has it.
            ("ab", "ab?c", "ab", ["", "", ""]),
            ("abc", "ab?cd", "abc", ["", "", ""]),
            ("a!", "ab?c", "ab", ["line 2 damaged", "", ""]),
            // The copy is damaged.
            ("abc", "aBc", "abc", ["", "line 2 damaged", ""]),
            ("abc", "a_c", "abc", ["", "line 2 damaged", ""]),
            ("abc", "abC", "abc", ["", "line 3 damaged", ""]),
            ("abcd", "ab", "abcd", ["", "lines 3-4 missing", ""]),
            ("abc", "", "abc", ["", "lines 1-3 missing", ""]),
            // Both are, in different places.
            ("!bcd", "abCd", "abcd", ["line 1 damaged", "line 3 damaged", ""]),
            ("a!cd", "ab", "abcd", ["line 2 damaged", "lines 3-4 missing", ""]),
            ("ab", "Abcd", "abcd", ["lines 3-4 missing", "line 1 damaged", ""]),
            // In the same place: what it said cannot be known.
            ("a!c", "a!c", "ac", ["", "line 2 damaged", "line 2"]),
            ("ab", "ab!", "ab", ["", "line 3 damaged", "line 3"]),
            ("a!c", "a", "ac", ["", "line 3 missing", "line 2"]),
            // The log has a line there, and the checksum is that of another.
            ("abc", "aXc", "abc", ["", "line 2 damaged", "line 2 doubtful"]),
            ("abc", "a!c", "abc", ["", "line 2 damaged", ""]),
        ] {
            let (found, told) = merged(&log(in_log), &copy(in_copy));
            assert_eq!((found.as_str(), told), (lines, said.map(str::to_owned)), "{in_log} {in_copy}");
        }
    }

    #[test]
    fn one_line_of_the_copy_may_have_become_two() {
        let File::Bytes(mut bytes) = copy("abc") else { unreachable!("it is made above") };
        let at = bytes.windows(4).position(|some| some == b"name").unwrap();
        bytes[at] = b'\n';
        let (lines, said) = merged(&log("abc"), &File::Bytes(bytes));
        assert_eq!((lines.as_str(), said), ("abc", [String::new(), "line 1 damaged".to_owned(), String::new()]));
    }

    #[test]
    fn a_whole_file_may_be_gone() {
        let none = || [String::new(), String::new(), String::new()];
        let (lines, said) = merged(&File::Missing, &copy("abc"));
        assert_eq!((lines.as_str(), &*said[0], &*said[1]), ("abc", "missing", ""));
        let (lines, said) = merged(&log("a!c"), &File::Missing);
        assert_eq!((lines.as_str(), said), ("ac", [String::new(), "missing".to_owned(), "line 2".to_owned()]));
        let (lines, said) = merged(&log("abc"), &File::Unreadable("no".to_owned()));
        assert_eq!((lines.as_str(), said), ("abc", [String::new(), "no".to_owned(), String::new()]));
        let (lines, said) = merged(&log("abc"), &File::Bytes(Vec::new()));
        assert_eq!((lines.as_str(), &*said[1]), ("abc", "it has no first line"));
        assert_eq!(merged(&log("abc"), &copy("abc")), ("abc".to_owned(), none()));
    }

    #[test]
    fn long_files_that_differ_everywhere_take_no_longer_than_they_are() {
        let text = |n: u32| format!(r#"{{"timestamp":{},"name":"x"}}"#, n + 1).into_bytes();
        let (mut log, mut copy) = (Vec::new(), copy::title().into_bytes());
        for n in 0..50_000 {
            log.extend(text(n + 1_000_000));
            log.push(b'\n');
            copy::write(copy::WRITTEN, u64::from(n) + 1, &text(n), &mut copy);
        }
        let merged = merge(&File::Bytes(log), &File::Bytes(copy), 0);
        assert_eq!((merged.lines.len(), merged.log.damaged.len()), (50_000, 50_000));
    }
}
