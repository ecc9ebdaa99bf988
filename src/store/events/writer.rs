//! Writing: frames, new files, old files.

use std::{
    fs::{File, OpenOptions},
    io::{self, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
    sync::Arc,
};

use super::{
    FRAME_EVENTS, Limits, WriteError,
    clock::Believed,
    codec::Encoder,
    frame::{HEAD, Head, Kind},
    mark::Mark,
    numbers::{Numbers, Row},
    point,
    segment::{self, HEADER, Segment, Shared, Start},
};
use crate::{
    domain::{
        event_block::{EventGap, EventPiece, EventSlice, GapReason},
        types::Nanos,
        usage::{PointReason, Usage, UsagePoint},
    },
    store::files,
};

/// A limit is divided into this many files, so that what goes at once is a small part of what is kept.
const FILES: u64 = 16;
const SMALLEST_FILE: u64 = 64 * 1024;
const LARGEST_FILE: u64 = 64 * 1024 * 1024;

/// Files that were written and are to be flushed.
pub struct Unsynced {
    files: Vec<(File, PathBuf)>,
}

impl Unsynced {
    /// Waits until it is on the disk.
    ///
    /// # Errors
    /// As [`Writer::sync`].
    pub fn sync(self) -> Result<(), WriteError> {
        self.files.into_iter().try_for_each(|(file, path)| file.sync_data().map_err(failed("flush", &path)))
    }
}

/// Where the files end.
pub struct Ends {
    /// The id of the next event.
    pub next: u64,
    /// Events that were ever written.
    pub events: u64,
    /// Time of the newest of them.
    pub newest: Nanos,
}

/// The only one that changes the files.
pub struct Writer {
    directory: PathBuf,
    limits: Limits,
    shared: Arc<Shared>,
    /// The last file, where frames may be added to it.
    file: Option<File>,
    /// The id of the next event in the files.
    next: u64,
    /// Events that were ever written.
    events: u64,
    /// Time of the newest of them.
    newest: Nanos,
    /// Files that exceed the limits are removed.
    prunes: bool,
    believed: Believed,
    /// Something was written since the last `sync`.
    unsynced: bool,
    /// What was written before is flushed elsewhere, perhaps still (see [`Unsynced`]).
    lent: bool,
    mark: Mark,
    numbers: Numbers,
    encoder: Encoder,
    frame: Vec<u8>,
    /// What is used at `next`.
    usage: Usage,
    /// Points that were written, by their number.
    points: u64,
    /// Bytes of the usage with which the last file begins.
    begin: u64,
}

impl Writer {
    pub(super) fn new(
        directory: PathBuf,
        limits: Limits,
        shared: Arc<Shared>,
        file: Option<File>,
        ends: Ends,
        (mark, believed): (Mark, Believed),
        numbers: Numbers,
    ) -> Writer {
        Writer {
            directory,
            limits,
            shared,
            file,
            next: ends.next,
            events: ends.events,
            newest: ends.newest,
            prunes: true,
            believed,
            unsynced: false,
            lent: false,
            mark,
            numbers,
            encoder: Encoder::default(),
            frame: Vec::new(),
            usage: Usage::default(),
            points: 0,
            begin: 0,
        }
    }

    /// What is kept from now on; `None`: that is not known yet, and so all of it.
    pub fn set_limits(&mut self, limits: Option<Limits>) {
        self.prunes = limits.is_some();
        self.limits = limits.unwrap_or(self.limits);
    }

    /// Why events are not deleted for their age, where that is so.
    pub fn doubt(&self) -> Option<String> {
        self.believed.doubt()
    }

    /// The id after the last one that was written.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// Ids below this may be given out (see [`super::mark`]).
    pub fn reserved(&self) -> u64 {
        self.mark.reserved()
    }

    /// Reserves ids beyond the next one that will be given out.
    ///
    /// # Errors
    /// When the mark cannot be written; ids may be used twice after a crash then, and never otherwise.
    pub fn reserve(&mut self, next: u64) -> Result<(), WriteError> {
        self.mark.reserve(next).map_err(failed("write", self.mark.path()))
    }

    /// The process is alive; said now and then, it tells the next one until when this one was.
    ///
    /// # Errors
    /// When the mark cannot be written.
    pub fn alive(&mut self, now: Nanos) -> Result<(), WriteError> {
        self.mark.alive(now).map_err(failed("write", self.mark.path()))
    }

    /// Notes ids in the logs of resource managers, or these instead of all; before the events that have them.
    ///
    /// # Errors
    /// They are to be noted again.
    pub fn note(&mut self, rows: &[Row], instead: bool) -> Result<(), WriteError> {
        if rows.is_empty() && !instead {
            return Ok(());
        }
        let noted = self.numbers.write(rows, instead);
        self.unsynced = true;
        noted.map_err(failed("write", self.numbers.path()))
    }

    /// The number of the last point that was written.
    pub fn points(&self) -> u64 {
        self.points
    }

    /// Writes pieces in the order of their ids and without holes, and numbered points among them, as far as they are not
    /// written yet. `now` is the time by which old events go.
    ///
    /// # Errors
    /// [`Writer::next`] and [`Writer::points`] say how far it came; the rest may be tried again.
    pub fn write(
        &mut self,
        items: &[EventPiece],
        points: &[(u64, Arc<UsagePoint>)],
        now: Nanos,
    ) -> Result<(), WriteError> {
        // First, so that there is room on a full disk.
        self.prune(now);
        let most = self.frame_events();
        let mut gathered: Vec<EventSlice> = Vec::new();
        let mut count = 0;
        let mut points = points.iter().peekable();
        for item in items {
            if item.end() > self.next {
                while let Some((number, point)) = points.next_if(|(_, point)| point.id <= item.first()) {
                    self.write_events(&mut gathered)?;
                    count = 0;
                    self.write_point(*number, point)?;
                }
            }
            match item {
                written if written.end() <= self.next => {}
                EventPiece::Events(slice) => {
                    let mut from = slice.first().max(self.next);
                    while let Some(part) = slice.part(from, most - count) {
                        from = part.end();
                        count += part.len();
                        gathered.push(part);
                        if count >= most {
                            self.write_events(&mut gathered)?;
                            count = 0;
                        }
                    }
                }
                EventPiece::Gap(gap) => {
                    self.write_events(&mut gathered)?;
                    count = 0;
                    self.gap(gap, now)?;
                }
            }
        }
        self.write_events(&mut gathered)?;
        for (number, point) in points {
            self.write_point(*number, point)?;
        }
        self.prune(now);
        Ok(())
    }

    /// What is to be flushed, for someone else to wait for it; nothing where nothing was written since the last time,
    /// unless it is to be done `again`.
    ///
    /// # Errors
    /// When there are too many open files.
    pub fn unsynced(&mut self, again: bool) -> Result<Option<Unsynced>, WriteError> {
        if !self.unsynced && !again {
            return Ok(None);
        }
        let mut files = Vec::with_capacity(3);
        let numbers = self.numbers.path().to_owned();
        files.extend(self.numbers.unsynced().map_err(failed("flush", &numbers))?.map(|file| (file, numbers)));
        if let (Some(file), Some(last)) = (&self.file, self.shared.list().last()) {
            files.push((file.try_clone().map_err(failed("flush", &last.path))?, last.path.clone()));
        }
        let mark = self.mark.path();
        files.push((self.mark.handle().map_err(failed("flush", mark))?, mark.to_owned()));
        self.unsynced = false;
        self.lent = true;
        Ok(Some(Unsynced { files }))
    }

    /// Waits until everything is on the disk.
    ///
    /// # Errors
    /// When the disk refuses; what was written stays readable until the machine stops, and is to be flushed again.
    pub fn sync(&mut self) -> Result<(), WriteError> {
        if !self.unsynced && !self.lent {
            return Ok(());
        }
        self.numbers.sync().map_err(failed("flush", self.numbers.path()))?;
        if let (Some(file), Some(last)) = (&self.file, self.shared.list().last()) {
            file.sync_data().map_err(failed("flush", &last.path))?;
        }
        self.mark.sync().map_err(failed("flush", self.mark.path()))?;
        (self.unsynced, self.lent) = (false, false);
        Ok(())
    }

    /// Flushes, and notes that nothing was lost and `next` is the next id.
    ///
    /// # Errors
    /// As [`Writer::sync`]; the next start then takes it for a crash.
    pub fn close(&mut self, next: u64) -> Result<(), WriteError> {
        self.sync()?;
        self.mark.close(next).map_err(failed("write", self.mark.path()))
    }

    /// Removes files that exceed the limits; the last one stays. How old events are is judged by the clock as far as it is
    /// believed, and by the newest event: while nothing happens, nothing grows older.
    pub fn prune(&mut self, now: Nanos) {
        if !self.prunes {
            return;
        }
        let now = self.believed.look(now, self.limits.age, self.events > 0).min(self.newest);
        self.mark.believe(self.believed.time());
        let segments = self.shared.list();
        let mut bytes: u64 = segments.iter().map(|segment| segment.extent().0).sum();
        let mut old = 0;
        for pair in segments.windows(2) {
            let [oldest, following] = pair else { break };
            let exceeds = |limit: u64, value: u64| limit > 0 && value > limit;
            // No event of a file is much later than the first of the following one.
            let age = now.minus(following.oldest).0;
            let too_old = self.limits.age.0 > 0 && age > self.limits.age.0;
            if !too_old
                && !exceeds(self.limits.events, self.events - oldest.before)
                && !exceeds(self.limits.bytes, bytes)
            {
                break;
            }
            bytes -= oldest.extent().0;
            old += 1;
        }
        if old == 0 {
            return;
        }
        // Before they go: a reader who misses one finds here that it was too old, and not damaged.
        self.shared.set(segments[old..].to_vec());
        for (gone, segment) in segments[..old].iter().enumerate() {
            if let Err(error) = files::remove(&segment.path)
                && error.kind() != io::ErrorKind::NotFound
            {
                tracing::warn!(code = "events-old-file", path = %segment.path.display(), %error, "cannot remove an old file of the event store");
                self.shared.set(segments[gone..].to_vec());
                break;
            }
        }
    }

    fn frame_events(&self) -> usize {
        match self.limits.events {
            0 => FRAME_EVENTS,
            limit => usize::try_from((limit / FILES).max(1)).unwrap_or(usize::MAX).min(FRAME_EVENTS),
        }
    }

    /// Writes gathered events as one frame.
    fn write_events(&mut self, gathered: &mut Vec<EventSlice>) -> Result<(), WriteError> {
        let (Some(first), Some(last)) = (gathered.first(), gathered.last()) else { return Ok(()) };
        let ids = first.first()..last.end();
        let times = || gathered.iter().flat_map(EventSlice::events).map(|event| event.at.0);
        let (oldest, newest) = (times().min().unwrap_or(0), times().max().unwrap_or(0));
        self.frame.clear();
        self.frame.resize(HEAD, 0);
        let events = || gathered.iter().flat_map(EventSlice::events);
        self.encoder.encode(events(), Nanos(oldest), &mut self.frame);
        self.emit(Kind::Events, ids, (oldest, newest), false)?;
        events().for_each(|event| self.usage.apply(event));
        gathered.clear();
        Ok(())
    }

    /// Writes what is used from here on, where the events do not tell.
    fn write_point(&mut self, number: u64, point: &UsagePoint) -> Result<(), WriteError> {
        if number <= self.points {
            return Ok(());
        }
        self.frame.clear();
        self.frame.resize(HEAD, 0);
        let (ids, times) = (self.next..self.next, (point.from.0, point.to.0));
        if point.log().is_some() {
            // Of one resource manager alone, however many there are.
            point::encode(point.reason, &point.rows, &mut self.frame);
            self.emit(Kind::Usage, ids, times, false)?;
            self.usage.pass(point);
        } else {
            let mut usage = self.usage.clone();
            usage.pass(point);
            let mut rows = usage.rows();
            rows.extend(point.rows.iter().filter(|(key, _)| key.is_lead()).cloned());
            point::encode(point.reason, &rows, &mut self.frame);
            self.emit(Kind::Usage, ids, times, true)?;
            self.usage = usage;
        }
        self.points = number;
        Ok(())
    }

    fn gap(&mut self, gap: &EventGap, now: Nanos) -> Result<(), WriteError> {
        let (kind, text) = match &gap.reason {
            GapReason::Crash => (Kind::Crash, ""),
            GapReason::NotStored | GapReason::Retention => (Kind::NotStored, ""),
            GapReason::Damage(place) => (Kind::Damaged, &**place),
        };
        self.frame.clear();
        self.frame.resize(HEAD, 0);
        self.frame.extend_from_slice(text.as_bytes());
        self.emit(kind, gap.from.max(self.next)..gap.end, (now.0, now.0), false)
    }

    /// Appends the frame, which says all that is used or not.
    fn emit(
        &mut self,
        kind: Kind,
        ids: std::ops::Range<u64>,
        times: (i64, i64),
        says_all: bool,
    ) -> Result<(), WriteError> {
        Head::seal(&mut self.frame, kind, ids.clone(), times);
        let segment = self.file_for(ids.start, Nanos(times.0), Nanos(times.1))?;
        if segment.extent().0 == HEADER && !says_all {
            let frame = std::mem::take(&mut self.frame);
            let begun = self.begin_with_usage(&segment, ids.start, times.0);
            self.frame = frame;
            begun?;
        }
        self.append(&segment, ids.clone())?;
        self.next = ids.end;
        if kind == Kind::Events {
            self.events += ids.end - ids.start;
            self.newest = self.newest.max(Nanos(times.1));
        }
        Ok(())
    }

    /// A new file begins with what is used before its first event.
    fn begin_with_usage(&mut self, segment: &Segment, id: u64, at: i64) -> Result<(), WriteError> {
        self.frame = vec![0; HEAD];
        point::encode(PointReason::Begin, &self.usage.rows(), &mut self.frame);
        Head::seal(&mut self.frame, Kind::Usage, id..id, (at, at));
        self.begin = self.frame.len() as u64;
        self.append(segment, id..id)
    }

    /// Appends the frame to a file.
    fn append(&mut self, segment: &Segment, ids: std::ops::Range<u64>) -> Result<(), WriteError> {
        let (at, _) = segment.extent();
        let Some(file) = &mut self.file else { return Ok(()) };
        let written = file.seek(SeekFrom::Start(at)).and_then(|_| file.write_all(&self.frame));
        if let Err(error) = written {
            // What is there of it would be taken for a torn end, so this may fail too.
            let _ = file.set_len(at);
            return Err(failed("write", &segment.path)(error));
        }
        self.unsynced = true;
        segment.grow(ids.start, at, at + self.frame.len() as u64, ids.end);
        Ok(())
    }

    /// The last file, or a new one where that is full or old.
    fn file_for(&mut self, first: u64, oldest: Nanos, newest: Nanos) -> Result<Arc<Segment>, WriteError> {
        let segments = self.shared.list();
        if let (Some(last), Some(_)) = (segments.last(), &self.file) {
            let limits = &self.limits;
            let largest = match limits.bytes {
                0 => LARGEST_FILE,
                limit => (limit / FILES).clamp(SMALLEST_FILE, LARGEST_FILE),
            };
            // However many users there are, most of a file is events.
            let largest = largest.max(4 * self.begin);
            let full = last.extent().0 + self.frame.len() as u64 > largest
                || limits.events > 0 && self.events - last.before >= (limits.events / FILES).max(1)
                || limits.age.0 > 0 && newest.minus(last.oldest).0 >= limits.age.0 / FILES as i64;
            // A file holds at least one frame, however large.
            if !full || last.extent().1 == last.first {
                return Ok(last.clone());
            }
        }
        self.sync()?;
        let path = segment::path(&self.directory, first);
        // What is read of logs may be older than what was read of others: nothing before is later than this.
        let oldest = if self.usage.counts() { oldest.max(self.newest) } else { oldest };
        let start = Start { oldest, before: self.events };
        let file = begin(&path, first, start).map_err(|error| {
            let _ = files::remove(&path);
            failed("make", &path)(error)
        })?;
        let segment = Arc::new(Segment::new(path, first, start, HEADER, first));
        if let Some(last) = segments.last() {
            last.seal(first);
        }
        let mut segments = segments.to_vec();
        // A damaged last file without any event is replaced by the new one of the same name.
        segments.retain(|segment| segment.first < first);
        segments.push(segment.clone());
        self.shared.set(segments);
        self.file = Some(file);
        Ok(segment)
    }
}

fn begin(path: &Path, first: u64, start: Start) -> io::Result<File> {
    let mut file = files::open_or_make(path, OpenOptions::new().write(true).truncate(true))?;
    file.write_all(&segment::header(first, start))?;
    Ok(file)
}

fn failed(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> WriteError {
    let path = path.to_owned();
    move |source| WriteError { action, path, source: Arc::new(source) }
}
