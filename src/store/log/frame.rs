//! Frames: a head of 32 bytes and a payload, under one checksum.
//!
//! | bytes | field |
//! | --- | --- |
//! | 0–3 | `CBLR`, where to look for the next frame behind damage |
//! | 4–7 | length of the payload |
//! | 8–11 | CRC-32 of the length, and of all that follows |
//! | 12–15 | kind |
//! | 16–23 | index |
//! | 24–31 | time in nanoseconds |
//!
//! Numbers are little-endian.

use crate::{domain::types::Nanos, store::checksum};

/// Length of a head.
pub const HEAD: usize = 32;
/// How every frame begins.
pub const MAGIC: [u8; 4] = *b"CBLR";
/// Longest payload that is believed.
const LONGEST: u32 = 1 << 31;

/// What a frame is, beside its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// What the payload is; the store knows [`super::TITLE`] only.
    pub kind: u32,
    /// Number of the record.
    pub index: u64,
    /// When it was made.
    pub at: Nanos,
    length: u32,
    crc: u32,
}

/// Appends a frame.
pub fn seal(out: &mut Vec<u8>, kind: u32, index: u64, at: Nanos, payload: &[u8]) {
    let start = out.len();
    let length = u32::try_from(payload.len()).unwrap_or(u32::MAX);
    out.extend_from_slice(&MAGIC);
    out.extend_from_slice(&length.to_le_bytes());
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&kind.to_le_bytes());
    out.extend_from_slice(&index.to_le_bytes());
    out.extend_from_slice(&at.0.to_le_bytes());
    out.extend_from_slice(payload);
    let crc = checksum(&out[start..start + HEAD], payload);
    out[start + 8..start + 12].copy_from_slice(&crc.to_le_bytes());
}

/// Reads a head; `None` where it cannot be one.
fn head(bytes: &[u8]) -> Option<Head> {
    let bytes: &[u8; HEAD] = bytes.first_chunk()?;
    let u32_at = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    let u64_at = |at: usize| u64::from(u32_at(at)) | u64::from(u32_at(at + 4)) << 32;
    let head =
        Head { kind: u32_at(12), index: u64_at(16), at: Nanos(u64_at(24) as i64), length: u32_at(4), crc: u32_at(8) };
    (bytes[..4] == MAGIC && head.length < LONGEST).then_some(head)
}

/// The whole and valid frame at the beginning of `bytes`.
pub fn whole(bytes: &[u8]) -> Option<(Head, &[u8])> {
    let head = head(bytes)?;
    let payload = bytes.get(HEAD..HEAD + head.length as usize)?;
    (checksum(&bytes[..HEAD], payload) == head.crc).then_some((head, payload))
}

/// What follows is the beginning of a frame whose end is missing, as a write leaves it that was interrupted: nothing in it
/// is wrong.
pub fn is_torn(bytes: &[u8]) -> bool {
    match head(bytes) {
        Some(head) => bytes.len() < HEAD + head.length as usize,
        None => bytes.len() < HEAD && bytes.iter().zip(&MAGIC).all(|(byte, magic)| byte == magic),
    }
}

/// What is to be done for [`is_last`] and [`next`] at most, as a multiple of the bytes that are looked at.
const PASSES: usize = 4;

/// No valid frame is behind the beginning of `bytes`. Where that would take long to say, since many places look like the
/// head of a long frame, the answer is no: whoever asks takes it for damage then, and not for an end.
pub fn is_last(bytes: &[u8]) -> bool {
    follows(bytes, &mut work_for(bytes)) == Follows::Nothing
}

/// Where the next valid frame is behind the beginning of `bytes`, and its index; `None` also where that would take long to say.
pub fn next(bytes: &[u8]) -> Option<(usize, u64)> {
    let Follows::Frame(at) = follows(bytes, &mut work_for(bytes)) else { return None };
    whole(&bytes[at..]).map(|(head, _)| (at, head.index))
}

fn work_for(bytes: &[u8]) -> usize {
    bytes.len().saturating_mul(PASSES).saturating_add(1 << 16)
}

#[derive(Debug, PartialEq, Eq)]
enum Follows {
    Frame(usize),
    Nothing,
    /// The work allowed was spent before it was known.
    Unknown,
}

/// Looks for a valid frame behind the beginning of `bytes`, and takes from `work` the bytes over which it makes checksums.
fn follows(bytes: &[u8], work: &mut usize) -> Follows {
    let Some(ends) = bytes.len().checked_sub(HEAD) else { return Follows::Nothing };
    for at in (1..ends + 1).filter(|at| bytes[*at..].starts_with(&MAGIC)) {
        let rest = &bytes[at..];
        let Some(length) = head(rest).map(|head| HEAD + head.length as usize).filter(|length| *length <= rest.len())
        else {
            continue;
        };
        let Some(left) = work.checked_sub(length) else { return Follows::Unknown };
        *work = left;
        if whole(rest).is_some() {
            return Follows::Frame(at);
        }
    }
    Follows::Nothing
}

/// Length of a frame with a payload of this length.
pub fn total(payload: &[u8]) -> usize {
    HEAD + payload.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_flipped_bit_is_noticed_and_a_torn_end_is_told_from_it() {
        let mut bytes = Vec::new();
        seal(&mut bytes, 7, 12, Nanos(99), b"payload");
        let (head, payload) = whole(&bytes).expect("as written");
        assert_eq!((head.kind, head.index, head.at, payload), (7, 12, Nanos(99), &b"payload"[..]));
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(whole(&damaged).is_none(), "bit {bit}");
        }
        for length in 0..bytes.len() {
            assert!(whole(&bytes[..length]).is_none() && is_torn(&bytes[..length]), "{length}");
        }
        assert!(!is_torn(&[0; 64]) && !is_torn(b"x"));
        let twice = [&b"rubbish"[..], &bytes].concat();
        assert_eq!(follows(&twice, &mut 1_000), Follows::Frame(7));
        assert_eq!(follows(&twice[..20], &mut 1_000), Follows::Nothing);
        assert!(!is_last(&twice) && is_last(&twice[..twice.len() - 1]));
    }

    #[test]
    fn what_looks_like_many_long_frames_costs_no_more_than_its_length() {
        // Every 32 bytes a head that claims all that is behind it, or more.
        let marked = |length: usize, more: usize| {
            let mut bytes = vec![0_u8; length];
            for at in (HEAD..length - HEAD).step_by(HEAD) {
                bytes[at..at + 4].copy_from_slice(&MAGIC);
                let claimed = (length - at - HEAD + more) as u32;
                bytes[at + 4..at + 8].copy_from_slice(&claimed.to_le_bytes());
            }
            bytes
        };
        let length = 1 << 20;
        let bytes = marked(length, 0);
        let mut work = PASSES * length;
        assert_eq!(follows(&bytes, &mut work), Follows::Unknown);
        assert!(work <= length, "what is left of {PASSES} passes is less than one: {work}");
        assert!(!is_last(&bytes), "not known is no end");
        // Without a limit it would be the square of it.
        let mut work = usize::MAX;
        assert_eq!(follows(&marked(1 << 14, 0), &mut work), Follows::Nothing);
        assert!(usize::MAX - work > 100 * (1 << 14));
        // Heads that claim more than there is cost nothing.
        assert_eq!(follows(&marked(length, 1), &mut 0), Follows::Nothing);
    }
}
