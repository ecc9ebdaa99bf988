//! The copy of a log: `resource.eventlog.copy` has each line once more, with its number and a checksum, so that damage of
//! either file is noticed, told from what a crash leaves, and undone from the other.
//!
//! | part of a line | meaning |
//! | --- | --- |
//! | `?` or `+` | about to be written to the log, or written and on disk there |
//! | `17` | number of the line in the log, from 1 |
//! | `5be1f00d` | CRC-32 of what follows the sign, this field left out |
//! | the rest | the line |
//!
//! A line is on disk here before it is written to the log, and its `?` becomes `+` when it is on disk there. So whatever
//! follows from a crash ends in lines with `?`, and a log that lacks a line with `+`, or one that was counted ([`super::count`]), has lost it.

use crate::store::files;

/// Name of the file in its directory.
pub const FILE: &str = "resource.eventlog.copy";
/// The newest format that is read, and the one that is written.
pub const VERSION: u32 = 1;
/// Sign of a line that is about to be written to the log.
pub const PLANNED: u8 = b'?';
/// Sign of a line that is on disk in the log.
pub const WRITTEN: u8 = b'+';

const TITLE: &str = "callboard copy of resource.eventlog, version ";

/// The first line, with its newline.
pub fn title() -> String {
    files::checked(&format!("{TITLE}{VERSION}"))
}

/// What the first line says.
#[derive(Debug, PartialEq, Eq)]
pub enum Title {
    /// A copy that this server reads.
    Known,
    /// One of a later release.
    Newer(u32),
    /// Something else.
    Damaged,
}

/// Reads the first line, its newline left out. A later format keeps its form.
pub fn read_title(line: &[u8]) -> Title {
    let version = || files::text_of(str::from_utf8(line).ok()?)?.strip_prefix(TITLE)?.parse().ok();
    match version() {
        Some(version) if version > VERSION => Title::Newer(version),
        Some(_) => Title::Known,
        None => Title::Damaged,
    }
}

/// A line that is whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line<'a> {
    /// Its number in the log, from 1.
    pub number: u64,
    /// It is on disk in the log.
    pub written: bool,
    /// The line of the log, without a newline.
    pub text: &'a [u8],
}

/// Reads a line, its newline left out; `None` where it is damaged.
pub fn read(line: &[u8]) -> Option<Line<'_>> {
    let (sign, rest) = line.split_first()?;
    let written = match *sign {
        WRITTEN => true,
        PLANNED => false,
        _ => return None,
    };
    let end = rest.iter().position(|byte| *byte == b' ')?;
    let number = str::from_utf8(&rest[..end]).ok()?;
    let sum = rest.get(end + 1..end + 9).and_then(|sum| str::from_utf8(sum).ok())?;
    let text = rest.get(end + 9..)?.strip_prefix(b" ")?;
    let whole = *sum == *checksum(number, text) && !number.starts_with(['0', '+']);
    Some(Line { number: number.parse().ok().filter(|_| whole)?, written, text })
}

/// Whether a damaged line with this number was of this text: its checksum says so, or nothing but a letter of that is damaged.
/// `None`: it has no checksum.
pub fn was_of(damaged: &[u8], number: u64, text: &[u8]) -> Option<bool> {
    let number = number.to_string();
    // By place, as what stands between the fields may be what is damaged.
    let (sum, rest) = damaged.get(number.len() + 2..)?.split_at_checked(8)?;
    if sum.iter().filter(|letter| letter.is_ascii_hexdigit()).count() < 7 {
        return None;
    }
    Some(match sum.iter().zip(checksum(&number, text).as_bytes()).filter(|(a, b)| a != b).count() {
        0 => true,
        1 => rest.get(1..) == Some(text),
        _ => false,
    })
}

/// The text of a damaged line, as it stands there.
pub fn text_of(damaged: &[u8]) -> Option<&[u8]> {
    damaged.splitn(3, |byte| *byte == b' ').nth(2)
}

/// Appends a line with its newline.
pub fn write(sign: u8, number: u64, text: &[u8], to: &mut Vec<u8>) {
    let number = number.to_string();
    to.push(sign);
    to.extend_from_slice(format!("{number} {} ", checksum(&number, text)).as_bytes());
    to.extend_from_slice(text);
    to.push(b'\n');
}

fn checksum(number: &str, text: &[u8]) -> String {
    let mut sum = crc32fast::Hasher::new();
    sum.update(number.as_bytes());
    sum.update(b" ");
    sum.update(text);
    format!("{:08x}", sum.finalize())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_as_they_were_written_and_no_other_way() {
        let mut bytes = Vec::new();
        write(WRITTEN, 17, b"{\"a\":1}", &mut bytes);
        let line = bytes.strip_suffix(b"\n").unwrap();
        assert_eq!(read(line), Some(Line { number: 17, written: true, text: b"{\"a\":1}" }));
        for at in 0..line.len() {
            for bit in 0..8 {
                let mut damaged = line.to_vec();
                damaged[at] ^= 1 << bit;
                assert_eq!(read(&damaged), None, "byte {at}, bit {bit}");
                assert_eq!(was_of(&damaged, 17, b"{\"a\":1}"), Some(true), "byte {at}, bit {bit}");
                for other in [&b"{\"a\":3}"[..], b"{\"b\":1}", b""] {
                    assert_eq!(was_of(&damaged, 17, other), Some(false), "byte {at}, bit {bit}");
                }
                // The same damage in the log.
                if at >= line.len() - 7 {
                    assert_eq!(was_of(&damaged, 17, &damaged[line.len() - 7..]), Some(false), "byte {at}, bit {bit}");
                }
            }
            assert_eq!(read(&line[..at]), None);
        }
        assert_eq!(was_of(b"something else altogether", 17, b"{\"a\":1}"), None);
        write(PLANNED, 18, b"", &mut bytes);
        assert_eq!(read(b"?18 "), None);
        let last = bytes.strip_suffix(b"\n").unwrap().rsplit(|byte| *byte == b'\n').next().unwrap();
        assert_eq!(read(last), Some(Line { number: 18, written: false, text: b"" }));
    }

    #[test]
    fn a_damaged_title_is_told_from_a_later_one() {
        let title = title();
        let line = title.trim_end().as_bytes();
        assert_eq!(read_title(line), Title::Known);
        for at in 0..line.len() {
            for bit in 0..8 {
                let mut damaged = line.to_vec();
                damaged[at] ^= 1 << bit;
                assert_eq!(read_title(&damaged), Title::Damaged, "byte {at}, bit {bit}");
            }
        }
        let later = files::checked(&format!("{TITLE}2"));
        assert_eq!(read_title(later.trim_end().as_bytes()), Title::Newer(2));
    }
}
