//! What outlives the process.

pub mod eventlog;
pub mod events;
pub mod files;
pub mod journal;
pub mod log;
pub mod place;
pub mod queue_orders;
pub mod resource_set;

/// The checksum (CRC-32) in bytes 8 to 11 of a frame's head, behind four that mark its beginning: of all else of the head, and of
/// the payload.
fn checksum(head: &[u8], payload: &[u8]) -> u32 {
    let mut crc = crc32fast::Hasher::new();
    crc.update(&head[4..8]);
    crc.update(&head[12..]);
    crc.update(payload);
    crc.finalize()
}
