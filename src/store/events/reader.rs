//! Reading from an id on, while the writer goes on.

use std::{
    fs::File,
    io::{self, BufReader, Read, Seek, SeekFrom},
    ops::Range,
    sync::Arc,
};

use super::{
    codec,
    frame::{self, HEAD, Head, Kind},
    point,
    segment::{HEADER, Segment, Shared},
};
use crate::domain::{
    event::ORDERED,
    event_block::{EventBlock, EventGap, EventPiece, EventSlice, GapReason},
    types::Nanos,
    usage::UsagePiece,
};

/// Bytes that are read at once.
const BUFFER: usize = 256 * 1024;

/// Reads the files; cheap to clone.
#[derive(Clone, Debug)]
pub struct Reader {
    shared: Arc<Shared>,
}

impl Reader {
    pub(super) fn new(shared: Arc<Shared>) -> Reader {
        Reader { shared }
    }

    /// The ids that the files hold, from the first to the one after the last; `None` where there are no files.
    pub fn extent(&self) -> Option<(u64, u64)> {
        let segments = self.shared.list();
        Some((segments.first()?.first, segments.last()?.extent().1))
    }

    /// Bytes in the files, and their number.
    pub fn size(&self) -> (u64, usize) {
        let segments = self.shared.list();
        (segments.iter().map(|segment| segment.extent().0).sum(), segments.len())
    }

    /// The first id of the first frame with an event of this time or later; `None` where all are older. Files are taken to be in
    /// the order of time but for [`ORDERED`]: a slice whose events all have one time may have been divided between two of them.
    ///
    /// # Errors
    /// When a file cannot be read at all.
    pub fn find(&self, at: Nanos) -> io::Result<Option<u64>> {
        let segments = self.shared.list();
        let before = at.minus(ORDERED);
        let start = segments.iter().skip(1).take_while(|segment| segment.oldest <= before).count();
        for segment in segments.iter().skip(start) {
            match find_in(segment, at) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Ok(None) => {}
                found => return found,
            }
        }
        Ok(None)
    }

    /// The ids of the gap in which an id lies, as it was written; `None` where it lies in none, or in what is damaged.
    ///
    /// # Errors
    /// When a file cannot be read at all.
    pub fn gap_at(&self, id: u64) -> io::Result<Option<Range<u64>>> {
        let segments = self.shared.list();
        let after = segments.partition_point(|segment| segment.first <= id);
        let Some(segment) = after.checked_sub(1).and_then(|at| segments.get(at)) else { return Ok(None) };
        match gap_in(segment, id) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            found => found,
        }
    }

    /// What begins at an id: at least one piece, and frames until `events` are read or the end is reached; nothing where
    /// the id has not been written yet. What is damaged is a gap.
    ///
    /// # Errors
    /// When a file cannot be read at all.
    pub fn read(&self, from: u64, events: usize) -> io::Result<Vec<EventPiece>> {
        let mut pieces = Vec::new();
        self.walk(from, events, false, |piece| {
            if let UsagePiece::Log(piece) = piece {
                pieces.push(piece);
            }
        })?;
        Ok(pieces)
    }

    /// As [`Reader::read`], with the points at which usage is told, also those at the end.
    ///
    /// # Errors
    /// When a file cannot be read at all.
    pub fn read_usage(&self, from: u64, events: usize) -> io::Result<Vec<UsagePiece>> {
        let mut pieces = Vec::new();
        self.walk(from, events, true, |piece| pieces.push(piece))?;
        Ok(pieces)
    }

    /// The id with which the last file begins that has nothing of this time or later before it; the first where all have.
    pub fn begin_before(&self, at: Nanos) -> Option<u64> {
        let segments = self.shared.list();
        let start = segments.iter().skip(1).take_while(|segment| segment.oldest <= at).count();
        segments.get(start).map(|segment| segment.first)
    }

    fn walk(&self, from: u64, events: usize, points: bool, to: impl FnMut(UsagePiece)) -> io::Result<()> {
        let segments = self.shared.list();
        let Some(first) = segments.first().map(|segment| segment.first) else { return Ok(()) };
        let mut walk = Walk { from, left: events, points, ended: false, last: None, to };
        if from < first {
            walk.gap(first, GapReason::Retention);
        }
        let before = |segment: &Arc<Segment>| segment.first < walk.from || !points && segment.first == walk.from;
        let at = segments.partition_point(before).saturating_sub(1);
        for segment in &segments[at..] {
            if walk.ended || walk.left == 0 && !points {
                break;
            }
            match walk.segment(segment) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    // It was too old and went in the meantime, or somebody else has removed it.
                    let kept = self.shared.list().first().is_some_and(|first| first.first <= segment.first);
                    let reason = if kept { damage(segment, 0) } else { GapReason::Retention };
                    walk.gap(segment.extent().1, reason);
                }
                other => other?,
            }
        }
        walk.pass();
        Ok(())
    }
}

fn find_in(segment: &Segment, time: Nanos) -> io::Result<Option<u64>> {
    let mut file = BufReader::with_capacity(BUFFER, File::open(&segment.path)?);
    let begin = (segment.first, HEADER);
    let found = find_head(segment, &mut file, begin, |head| head.events() > 0 && head.newest >= time.0)?;
    Ok(found.map(|(head, _)| head.first))
}

fn gap_in(segment: &Segment, wanted: u64) -> io::Result<Option<Range<u64>>> {
    let mut file = BufReader::with_capacity(BUFFER, File::open(&segment.path)?);
    let Some((head, at)) = find_head(segment, &mut file, segment.near(wanted), |head| head.end > wanted)? else {
        return Ok(None);
    };
    if head.first > wanted || head.kind == Kind::Events {
        return Ok(None);
    }
    // Events that a damaged head hides would be passed over.
    file.seek(SeekFrom::Start(at))?;
    let mut bytes = vec![0; head.total() as usize];
    let gap = read_whole(&mut file, &mut bytes)? && frame::whole(&bytes).is_some();
    Ok(gap.then_some(head.first..head.end))
}

/// The first head that is wanted, and its place, looked for from where a frame begins, with its first id.
fn find_head(
    segment: &Segment,
    file: &mut BufReader<File>,
    begin: (u64, u64),
    wanted: impl Fn(&Head) -> bool,
) -> io::Result<Option<(Head, u64)>> {
    let (written, end) = segment.extent();
    let (mut id, mut at) = begin;
    let mut before = (at, id);
    file.seek(SeekFrom::Start(at))?;
    while id < end && written.saturating_sub(at) >= HEAD as u64 {
        let mut start = [0; HEAD];
        let head = if read_whole(file, &mut start)? { Head::read(&start) } else { None };
        // Ids follow each other; where they do not, a damaged length may have led here.
        match head.filter(|head| head.first == id && written - at >= head.total()) {
            Some(head) if wanted(&head) => return Ok(Some((head, at))),
            Some(head) => {
                file.seek_relative(i64::from(head.length))?;
                segment.note(head.first, at);
                before = (at, id);
                (at, id) = (at + head.total(), head.end);
            }
            None => match skip(segment, file, before.0, written, before.1)? {
                Some((distance, first)) => {
                    (at, id) = (before.0 + distance, first);
                    before = (at, id);
                }
                None => return Ok(None),
            },
        }
    }
    Ok(None)
}

/// On its way through the files.
struct Walk<T> {
    from: u64,
    left: usize,
    /// Points are wanted too, and those behind the last event that is wanted.
    points: bool,
    /// There is enough.
    ended: bool,
    /// The last piece, while more may be added to it.
    last: Option<EventPiece>,
    to: T,
}

impl<T: FnMut(UsagePiece)> Walk<T> {
    fn pass(&mut self) {
        if let Some(last) = self.last.take() {
            (self.to)(UsagePiece::Log(last));
        }
    }

    fn gap(&mut self, end: u64, reason: GapReason) {
        if end <= self.from {
            return;
        }
        if let Some(EventPiece::Gap(last)) = &mut self.last
            && last.reason == reason
        {
            last.end = end;
        } else {
            self.pass();
            self.last = Some(EventPiece::Gap(EventGap { from: self.from, end, reason }));
        }
        self.from = end;
    }

    fn segment(&mut self, segment: &Segment) -> io::Result<()> {
        let (written, end) = segment.extent();
        if self.from >= end && !self.points {
            return Ok(());
        }
        let mut file = BufReader::with_capacity(BUFFER, File::open(&segment.path)?);
        // What is used at an id comes before the event.
        let mut at = if self.points { segment.place_before(self.from) } else { segment.place_of(self.from) };
        file.seek(SeekFrom::Start(at))?;
        // Up to there every length is certain: what is passed over is not looked at.
        let mut sure = at;
        // Behind the last event there may be points.
        while !self.ended && (self.from < end && self.left > 0 || self.points && at < written) {
            match self.frame(segment, &mut file, at, (written, sure == at))? {
                Some(Length::Passed(length)) => at += length,
                Some(Length::Sure(length)) => {
                    at += length;
                    sure = at;
                }
                None => {
                    match skip(segment, &mut file, sure, written, self.from)? {
                        Some((distance, id)) => {
                            if self.points && id <= self.from {
                                // No event is missing, but what was used.
                                self.pass();
                                let (from, reason) = (self.from, damage(segment, sure));
                                (self.to)(UsagePiece::Log(EventPiece::Gap(EventGap { from, end: from, reason })));
                            }
                            self.gap(id, damage(segment, sure));
                            at = sure + distance;
                        }
                        None => {
                            self.gap(end, damage(segment, sure));
                            return Ok(());
                        }
                    }
                    sure = at;
                }
            }
        }
        Ok(())
    }

    /// Reads the frame at a place and returns its length; `None` where there is none. The place is `sure` unless frames were
    /// passed over before it.
    fn frame(
        &mut self,
        segment: &Segment,
        file: &mut BufReader<File>,
        at: u64,
        (written, sure): (u64, bool),
    ) -> io::Result<Option<Length>> {
        let mut start = [0; HEAD];
        if written.saturating_sub(at) < HEAD as u64 || !read_whole(file, &mut start)? {
            return Ok(None);
        }
        let head =
            Head::read(&start).filter(|head| written - at >= head.total() && segment.holds(head.first, head.end));
        let Some(head) = head else { return Ok(None) };
        if !sure && head.first > self.from {
            // Perhaps a damaged length led here, past what is looked for.
            return Ok(None);
        }
        if self.left == 0 && head.kind != Kind::Usage {
            self.ended = true;
            return Ok(Some(Length::Sure(0)));
        }
        let passed = match head.kind {
            Kind::Usage => head.first < self.from || !self.points,
            _ => head.end <= self.from,
        };
        if passed {
            file.seek_relative(i64::from(head.length))?;
            return Ok(Some(Length::Passed(head.total())));
        }
        let mut payload = vec![0; head.length as usize];
        if !read_whole(file, &mut payload)? || !head.fits(&start, &payload) {
            return Ok(None);
        }
        segment.note(head.first, at);
        self.gap(head.first, damage(segment, at));
        match head.kind {
            Kind::NotStored => self.gap(head.end, GapReason::NotStored),
            Kind::Crash => self.gap(head.end, GapReason::Crash),
            Kind::Damaged => self.gap(head.end, GapReason::Damage(String::from_utf8_lossy(&payload).into())),
            Kind::Usage => {
                if let Ok(point) = point::decode(&head, &payload) {
                    self.pass();
                    (self.to)(UsagePiece::Point(Arc::new(point)));
                }
            }
            Kind::Events => match codec::decode(&payload, Nanos(head.oldest)) {
                Ok(events) if events.len() as u64 == head.end - head.first => {
                    let block = Arc::new(EventBlock { first: head.first, events });
                    if let Some(slice) = EventSlice::of(&block, self.from, head.end) {
                        self.left = self.left.saturating_sub(slice.len());
                        self.from = slice.end();
                        self.pass();
                        self.last = Some(EventPiece::Events(slice));
                    }
                }
                _ => self.gap(head.end, damage(segment, at)),
            },
        }
        Ok(Some(Length::Sure(head.total())))
    }
}

/// Length of a frame.
enum Length {
    /// As its head says.
    Passed(u64),
    /// Its checksum was right.
    Sure(u64),
}

/// Fills `bytes`; false where the file ends before.
fn read_whole(file: &mut BufReader<File>, bytes: &mut [u8]) -> io::Result<bool> {
    match file.read_exact(bytes) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}

/// Moves to the next frame behind damage: its distance and first id.
fn skip(
    segment: &Segment,
    file: &mut BufReader<File>,
    at: u64,
    written: u64,
    from: u64,
) -> io::Result<Option<(u64, u64)>> {
    if segment.tell() {
        tracing::error!(code = "events-damaged", path = %segment.path.display(), offset = at, id = from, "the event store is damaged here");
    }
    file.seek(SeekFrom::Start(at.max(HEADER)))?;
    let mut rest = Vec::new();
    file.by_ref().take(written.saturating_sub(at)).read_to_end(&mut rest)?;
    let mut start = 0;
    let (distance, head) = loop {
        let Some(further) = frame::resume(&rest[start..], from) else { return Ok(None) };
        start += further;
        match frame::whole(&rest[start..]) {
            Some((head, _)) if segment.holds(head.first, head.end) => break (start, head),
            _ => {}
        }
    };
    file.seek(SeekFrom::Start(at + distance as u64))?;
    Ok(Some((distance as u64, head.first)))
}

fn damage(segment: &Segment, at: u64) -> GapReason {
    GapReason::Damage(format!("{} at byte {at}", segment.path.display()).into())
}
