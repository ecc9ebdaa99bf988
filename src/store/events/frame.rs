//! Frames: a head of 48 bytes and a payload, under one checksum.
//!
//! | bytes | field |
//! | --- | --- |
//! | 0–3 | `CBEV`, where to look for the next frame behind damage |
//! | 4–7 | length of the payload |
//! | 8–11 | CRC-32 of the length, and of all that follows |
//! | 12–15 | kind |
//! | 16–31 | first id, and the id after the last |
//! | 32–47 | time of the earliest and of the latest event; for usage, from when to when events do not tell it |
//!
//! Numbers are little-endian.

use crate::store::checksum;

/// Length of a head.
pub const HEAD: usize = 48;
/// How every frame begins.
pub const MAGIC: [u8; 4] = *b"CBEV";
/// Longest payload that is believed.
const LONGEST: u32 = 1 << 28;

/// What the payload is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Kind {
    /// A block of events.
    Events = 1,
    /// Nothing: the events are lost because the store could not take them.
    NotStored = 2,
    /// Nothing: the process ended without closing the store.
    Crash = 3,
    /// What is used at this place, without events (see [`super::point`]).
    Usage = 4,
    /// The events are lost because files were damaged; the text says which.
    Damaged = 5,
}

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// What the payload is.
    pub kind: Kind,
    /// First id.
    pub first: u64,
    /// The id after the last.
    pub end: u64,
    /// Time of the earliest event in nanoseconds.
    pub oldest: i64,
    /// Time of the latest event in nanoseconds.
    pub newest: i64,
    /// Length of the payload.
    pub length: u32,
    crc: u32,
}

impl Head {
    /// Writes the head of a frame whose payload is `out[at + HEAD..]` into `out[at..at + HEAD]`.
    pub fn seal(out: &mut [u8], kind: Kind, ids: std::ops::Range<u64>, times: (i64, i64)) {
        let length = (out.len() - HEAD) as u32;
        out[..4].copy_from_slice(&MAGIC);
        out[4..8].copy_from_slice(&length.to_le_bytes());
        out[12..16].copy_from_slice(&(kind as u32).to_le_bytes());
        out[16..24].copy_from_slice(&ids.start.to_le_bytes());
        out[24..32].copy_from_slice(&ids.end.to_le_bytes());
        out[32..40].copy_from_slice(&times.0.to_le_bytes());
        out[40..48].copy_from_slice(&times.1.to_le_bytes());
        let crc = checksum(&out[..HEAD], &out[HEAD..]);
        out[8..12].copy_from_slice(&crc.to_le_bytes());
    }

    /// Reads a head; `None` where it cannot be one. The checksum is for [`Head::fits`] to look at.
    pub fn read(bytes: &[u8; HEAD]) -> Option<Head> {
        let u32_at = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let u64_at = |at: usize| u64::from(u32_at(at)) | u64::from(u32_at(at + 4)) << 32;
        let kind = match u32_at(12) {
            1 => Kind::Events,
            2 => Kind::NotStored,
            3 => Kind::Crash,
            4 => Kind::Usage,
            5 => Kind::Damaged,
            _ => return None,
        };
        let head = Head {
            kind,
            first: u64_at(16),
            end: u64_at(24),
            oldest: u64_at(32) as i64,
            newest: u64_at(40) as i64,
            length: u32_at(4),
            crc: u32_at(8),
        };
        let ids = if kind == Kind::Usage { head.first == head.end } else { head.first < head.end };
        (bytes[..4] == MAGIC && ids && head.length <= LONGEST).then_some(head)
    }

    /// The checksum of head and payload is right.
    pub fn fits(&self, head: &[u8; HEAD], payload: &[u8]) -> bool {
        payload.len() == self.length as usize && checksum(head, payload) == self.crc
    }

    /// Number of events in it.
    pub fn events(&self) -> u64 {
        if self.kind == Kind::Events { self.end - self.first } else { 0 }
    }

    /// Length of the whole frame.
    pub fn total(&self) -> u64 {
        HEAD as u64 + u64::from(self.length)
    }
}

/// The head of a whole and valid frame at the beginning of `bytes`.
pub fn whole(bytes: &[u8]) -> Option<(Head, &[u8])> {
    let (start, rest) = bytes.split_first_chunk::<HEAD>()?;
    let head = Head::read(start)?;
    let payload = rest.get(..head.length as usize)?;
    head.fits(start, payload).then_some((head, payload))
}

/// Distance to the next valid frame behind the beginning of `bytes` whose ids are not below `from`.
pub fn resume(bytes: &[u8], from: u64) -> Option<usize> {
    (1..bytes.len().checked_sub(HEAD)? + 1)
        .filter(|at| bytes[*at..].starts_with(&MAGIC))
        .find(|at| whole(&bytes[*at..]).is_some_and(|(head, _)| head.first >= from))
}
