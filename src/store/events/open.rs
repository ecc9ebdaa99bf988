//! Opening a store: which files are there, where the last one ends, and where numbering goes on.

use std::{
    fmt::Display,
    fs::{self, File, OpenOptions},
    io::{self, Seek, SeekFrom},
    path::{Path, PathBuf},
    sync::Arc,
};

use super::{
    Limits, OpenError,
    clock::Believed,
    frame,
    mark::{AHEAD, Beside, Found, Left, Mark},
    numbers::{Numbers, Row},
    reader::Reader,
    segment::{self, HEADER, Header, Segment, Shared, Start, UNKNOWN},
    writer::{Ends, Writer},
};
use crate::{
    domain::{
        event_block::{EventGap, GapReason},
        types::Nanos,
    },
    store::files,
};

/// An opened store.
pub struct Opened {
    /// Takes events; there is only one.
    pub writer: Writer,
    /// Gives events; may be cloned.
    pub reader: Reader,
    /// The id of the next event.
    pub next: u64,
    /// Ids that a crash or damage has left without events. To be written before anything else.
    pub gap: Option<EventGap>,
    /// What is known of the ids in the logs of resource managers; `None` where a line is damaged.
    pub numbers: Vec<Option<Row>>,
    /// When the process that wrote last was last alive, and that it did not close the store; `None` where there was none.
    pub before: Option<(Nanos, bool)>,
}

/// What the clock says, and whether an operator vouches for it.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    /// The present time.
    pub now: Nanos,
    /// It is right, however far ahead it is (see [`super::clock`]).
    pub trusted: bool,
}

/// Opens the store in a directory, or makes it. What `beside` says of the ids that were given out outlives that directory.
///
/// # Errors
/// See [`OpenError`]; nothing is changed then, except that the directory may have been made.
pub fn open(directory: &Path, beside: Option<&Path>, limits: Limits, clock: Clock) -> Result<Opened, OpenError> {
    let failed = |action, path: &Path| {
        let path = path.to_owned();
        move |source| OpenError::Io { action, path, source }
    };
    files::make_dir(directory).map_err(failed("make the directory", directory))?;
    let mut names = segment::list(directory).map_err(failed("list the files", directory))?;
    let mut headers = Vec::with_capacity(names.len());
    for (_, path) in &names {
        let header = File::open(path).and_then(|mut file| segment::read_header(&mut file));
        match header.map_err(failed("read", path))? {
            Header::Newer(found) => return Err(OpenError::Newer { path: path.clone(), found }),
            header => headers.push(header),
        }
    }
    // A process that was killed while it began a file leaves part of a head, and no event.
    if headers.last() == Some(&Header::Short)
        && let (Some((_, path)), Some(_)) = (names.pop(), headers.pop())
    {
        tracing::warn!(code = "events-unmade-file", path = %path.display(), "the last file of the event store was just being made: it is removed");
        files::remove(&path).map_err(failed("remove", &path))?;
    }
    let mut segments = Vec::<Segment>::with_capacity(names.len());
    let mut damaged = false;
    for (at, ((first, path), header)) in names.iter().zip(headers).enumerate() {
        let start = match header {
            Header::Good { first: said, start } if said == *first => start,
            _ => {
                damaged = at + 1 == names.len();
                tracing::error!(code = "events-damaged", path = %path.display(), "the head of this file of the event store is damaged");
                let guess = |last: &Segment| last.before + (first - last.first);
                let oldest = first_time(path).map_err(failed("read", path))?;
                Start { oldest: oldest.unwrap_or(UNKNOWN), before: segments.last().map_or(0, guess) }
            }
        };
        let length = fs::metadata(path).map_err(failed("look at", path))?.len();
        let segment = Segment::new(path.clone(), *first, start, length, *first);
        if let Some((next, _)) = names.get(at + 1) {
            segment.seal(*next);
        }
        segments.push(segment);
    }
    let (mut end, mut events, mut newest) = (0, 0, Nanos::ZERO);
    let mut active = None;
    if let Some(last) = segments.pop() {
        let tail = scan(&last, damaged).map_err(failed("read", &last.path))?;
        end = tail.end;
        events = last.before + tail.events;
        newest = Nanos(tail.newest);
        if let Some(cut) = tail.cut {
            tracing::warn!(
                code = "events-cut",
                path = %last.path.display(), offset = tail.length, bytes = cut,
                "the event store ends in a frame that is not whole: it is cut off"
            );
        }
        let file = reopened(&last.path, tail.length, tail.cut.is_some()).map_err(failed("cut", &last.path))?;
        let start = Start { oldest: last.oldest.min(newest), before: last.before };
        let last = Segment::new(last.path, last.first, start, tail.length, tail.end);
        active = (!tail.damaged).then_some(file);
        segments.push(last);
    }
    // A file without a single whole frame is as old as the one behind it.
    for at in (1..segments.len()).rev() {
        if segments[at - 1].oldest == UNKNOWN {
            segments[at - 1].oldest = segments[at].oldest;
        }
    }
    let beside = beside.map(|path| Beside::open(path).map_err(failed("open the mark", path))).transpose()?;
    let known = beside.as_ref().map_or(0, |beside| beside.known);
    let (mut mark, found) = Mark::open(directory, beside).map_err(failed("open the mark", &directory.join("mark")))?;
    let (file, numbers) = Numbers::open(directory).map_err(failed("read the numbers", &directory.join("numbers")))?;
    let (mut next, mut reason) = resume_at(end, &found, segments.is_empty(), &mark.path().display());
    if known > next {
        let lost =
            format!("{}: ids below {known} were given out, and nothing in it knows of them", directory.display());
        (next, reason) = (known, GapReason::Damage(lost.into()));
    }
    let left = if let Found::Whole(left) = found { Some(left) } else { None };
    let before = (!segments.is_empty()).then(|| match left {
        Some(left) => (left.alive.max(newest), left.closed.is_none()),
        None => (newest, true),
    });
    let gap = (next > end).then(|| {
        match &reason {
            GapReason::Damage(place) => {
                tracing::error!(
                    code = "events-damaged",
                    from = end,
                    to = next - 1,
                    "the event store is damaged, these ids may be lost: {place}"
                );
            }
            _ => tracing::warn!(
                code = "events-not-closed-last",
                from = end,
                to = next - 1,
                "the event store was not closed: events of its last moments may be lost; these ids are given to no others"
            ),
        }
        EventGap { from: end, end: next, reason }
    });
    let believed = match left {
        _ if clock.trusted => Believed::anything(clock.now),
        _ if segments.is_empty() => Believed::until(clock.now),
        Some(left) if left.believed > Nanos::ZERO => Believed::until(left.believed),
        Some(left) => Believed::until(left.alive.max(newest)),
        None => Believed::until(newest),
    };
    mark.believe(believed.time());
    let shared = Arc::new(Shared::default());
    shared.set(segments.into_iter().map(Arc::new).collect());
    let ends = Ends { next: end, events, newest };
    let mut writer = Writer::new(directory.to_owned(), limits, shared.clone(), active, ends, (mark, believed), file);
    writer.reserve(next).map_err(|error| OpenError::Io {
        action: error.action,
        path: error.path,
        source: io::Error::new(error.source.kind(), error.source),
    })?;
    Ok(Opened { writer, reader: Reader::new(shared), next, gap, numbers, before })
}

/// Where numbering goes on behind the events that end before `end`, and why not there.
fn resume_at(end: u64, mark: &Found, fresh: bool, path: &impl Display) -> (u64, GapReason) {
    // Ids may have been given out without a trace.
    let after = |what: &str| (end.saturating_add(AHEAD), GapReason::Damage(format!("{path}: {what}").into()));
    match mark {
        Found::Whole(Left { closed: Some(closed), .. }) if *closed >= end => {
            let lost = format!("{path}: the store was closed at {closed}, and the files end before that");
            (*closed, GapReason::Damage(lost.into()))
        }
        Found::Whole(left) if left.closed.is_none() && left.reserved >= end => (left.reserved, GapReason::Crash),
        Found::Whole(_) => after("it is older than the files"),
        Found::Missing if fresh => (0, GapReason::Crash),
        Found::Missing => after("missing"),
        Found::Damaged => after("damaged"),
    }
}

/// The time of the first whole frame of a file.
fn first_time(path: &Path) -> io::Result<Option<Nanos>> {
    let bytes = fs::read(path)?;
    let rest = bytes.get(HEADER as usize..).unwrap_or_default();
    let at = if frame::whole(rest).is_some() { Some(0) } else { frame::resume(rest, 0) };
    Ok(at.and_then(|at| frame::whole(&rest[at..])).map(|(head, _)| Nanos(head.oldest)))
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

/// Looks at every frame of the last file, whose head is `damaged` or not.
fn scan(segment: &Segment, mut damaged: bool) -> io::Result<Tail> {
    let bytes = fs::read(&segment.path)?;
    let (mut at, mut end) = (HEADER as usize, segment.first);
    let (mut events, mut newest) = (0, if segment.oldest == UNKNOWN { 0 } else { segment.oldest.0 });
    loop {
        let rest = &bytes[at.min(bytes.len())..];
        if let Some((head, payload)) = frame::whole(rest) {
            end = end.max(head.end);
            events += head.events();
            newest = newest.max(head.newest);
            at += frame::HEAD + payload.len();
        } else if let Some(distance) = frame::resume(rest, end) {
            tracing::error!(
                code = "events-damaged",
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
