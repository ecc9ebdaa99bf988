//! Opening a store: which files are there, where the last one ends, and where numbering goes on.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Seek, SeekFrom},
    path::{Path, PathBuf},
    sync::Arc,
};

use super::{
    Limits, OpenError, frame,
    mark::{AHEAD, Left, Mark},
    reader::Reader,
    segment::{self, HEADER, Header, Segment, Shared, Start},
    writer::Writer,
};
use crate::domain::{
    event_block::{EventGap, GapReason},
    types::Nanos,
};

/// An opened store.
pub struct Opened {
    /// Takes events; there is only one.
    pub writer: Writer,
    /// Gives events; may be cloned.
    pub reader: Reader,
    /// The id of the next event.
    pub next: u64,
    /// Ids that a crash has left without events. To be written before anything else.
    pub gap: Option<EventGap>,
    /// When the process that wrote last was last alive, and that it did not close the store; `None` where there was none.
    pub before: Option<(Nanos, bool)>,
}

/// Opens the store in a directory, or makes it.
///
/// # Errors
/// See [`OpenError`]; nothing is changed then, except that the directory may have been made.
pub fn open(directory: &Path, limits: Limits) -> Result<Opened, OpenError> {
    let failed = |action, path: &Path| {
        let path = path.to_owned();
        move |source| OpenError::Io { action, path, source }
    };
    fs::create_dir_all(directory).map_err(failed("make the directory", directory))?;
    let mut files = segment::list(directory).map_err(failed("list the files", directory))?;
    let mut headers = Vec::with_capacity(files.len());
    for (_, path) in &files {
        let header = File::open(path).and_then(|mut file| segment::read_header(&mut file));
        match header.map_err(failed("read", path))? {
            Header::Newer(found) => return Err(OpenError::Newer { path: path.clone(), found }),
            header => headers.push(header),
        }
    }
    // A process that was killed while it began a file leaves less than a head, and no event in it.
    if headers.last() == Some(&Header::Short)
        && let (Some((_, path)), Some(_)) = (files.pop(), headers.pop())
    {
        tracing::warn!(path = %path.display(), "the last file of the event store was just being made: it is removed");
        fs::remove_file(&path).map_err(failed("remove", &path))?;
    }
    let mut segments = Vec::<Segment>::with_capacity(files.len());
    for (at, ((first, path), header)) in files.iter().zip(headers).enumerate() {
        let start = match header {
            Header::Good { first: said, start } if said == *first => start,
            _ => {
                tracing::error!(path = %path.display(), "the head of this file of the event store is damaged");
                let guess = |last: &Segment| last.before + (first - last.first);
                Start { oldest: Nanos(i64::MAX), before: segments.last().map_or(0, guess) }
            }
        };
        let length = fs::metadata(path).map_err(failed("look at", path))?.len();
        let end = files.get(at + 1).map_or(*first, |(next, _)| *next);
        segments.push(Segment::new(path.clone(), *first, start, length, end));
    }
    let (mut end, mut events, mut newest) = (0, 0, 0);
    let mut active = None;
    if let Some(last) = segments.pop() {
        let tail = scan(&last).map_err(failed("read", &last.path))?;
        end = tail.end;
        events = last.before + tail.events;
        newest = tail.newest;
        if let Some(cut) = tail.cut {
            tracing::warn!(
                path = %last.path.display(), offset = tail.length, bytes = cut,
                "the event store ends in a frame that is not whole: it is cut off"
            );
        }
        let file = reopened(&last.path, tail.length, tail.cut.is_some()).map_err(failed("cut", &last.path))?;
        let start = Start { oldest: last.oldest, before: last.before };
        let last = Segment::new(last.path, last.first, start, tail.length, tail.end);
        active = (!tail.damaged).then_some(file);
        segments.push(last);
    }
    let (mark, left) = Mark::open(directory).map_err(failed("open the mark", &directory.join("mark")))?;
    let next = resume_at(end, left, segments.is_empty());
    let before = (!segments.is_empty()).then(|| match left {
        Some(left) => (left.alive.max(Nanos(newest)), left.closed.is_none()),
        None => (Nanos(newest), true),
    });
    let gap = (next > end).then(|| {
        tracing::warn!(from = end, to = next - 1, "the event store was not closed: these ids may be lost");
        EventGap { from: end, end: next, reason: GapReason::Crash }
    });
    let shared = Arc::new(Shared::default());
    shared.set(segments.into_iter().map(Arc::new).collect());
    let mut writer = Writer::new(directory.to_owned(), limits, shared.clone(), active, (end, events), mark);
    writer.reserve(next).map_err(|error| OpenError::Io {
        action: error.action,
        path: error.path,
        source: io::Error::new(error.source.kind(), error.source),
    })?;
    Ok(Opened { writer, reader: Reader::new(shared), next, gap, before })
}

/// Where numbering goes on behind the events that end before `end`.
fn resume_at(end: u64, left: Option<Left>, fresh: bool) -> u64 {
    match left {
        Some(Left { closed: Some(closed), .. }) if closed >= end => closed,
        Some(left) => end.max(left.reserved),
        None if fresh => 0,
        None => end.saturating_add(AHEAD),
    }
}

fn reopened(path: &PathBuf, length: u64, cut: bool) -> io::Result<File> {
    let mut file = OpenOptions::new().write(true).open(path)?;
    if cut {
        file.set_len(length)?;
        file.sync_data()?;
    }
    file.seek(SeekFrom::Start(length))?;
    Ok(file)
}

struct Tail {
    /// The id after the last event.
    end: u64,
    /// Events in the file.
    events: u64,
    /// Time of the latest event in nanoseconds.
    newest: i64,
    /// Bytes up to there.
    length: u64,
    /// Bytes behind that are no frame.
    cut: Option<u64>,
    /// Frames before that are damaged.
    damaged: bool,
}

/// Looks at every frame of the last file.
fn scan(segment: &Segment) -> io::Result<Tail> {
    let bytes = fs::read(&segment.path)?;
    let (mut at, mut end, mut damaged) = (HEADER as usize, segment.first, segment.oldest == Nanos(i64::MAX));
    let (mut events, mut newest) = (0, segment.oldest.0.min(i64::MAX - 1));
    loop {
        let rest = &bytes[at.min(bytes.len())..];
        if let Some((head, payload)) = frame::whole(rest) {
            end = end.max(head.end);
            events += head.events();
            newest = newest.max(head.newest);
            at += frame::HEAD + payload.len();
        } else if let Some(distance) = frame::resume(rest, end) {
            tracing::error!(
                path = %segment.path.display(), offset = at, bytes = distance, id = end,
                "the event store is damaged here"
            );
            segment.tell();
            damaged = true;
            at += distance;
        } else {
            let length = at.min(bytes.len()) as u64;
            let cut = (bytes.len() as u64).checked_sub(length).filter(|bytes| *bytes > 0);
            return Ok(Tail { end, events, newest, length, cut, damaged });
        }
    }
}
