//! The numbered lines of a session: what was not handed out yet, and what a stream that comes back may still ask for.
//!
//! Each kind has a queue of its own, and a reader has a place in each of them: the cost of a line does not depend on how many
//! lines of other kinds come before it, nor on who has read them.

use std::{collections::VecDeque, sync::Arc};

pub use crate::messages::budget::Size;
use crate::{
    domain::{alloc::AskSpec, effect::Callback},
    messages::rm::{Kind, Line, Payload, Refusal, RefusalKind, Rejected},
};

#[cfg(test)]
mod tests;

/// Entries of one line at most (SEEDS S26).
pub const LINE_ENTRIES: usize = 256;
/// Bytes of texts that a line gathers at most, so that a client takes it: by default gRPC refuses messages of 4 MiB. A
/// single entry may be larger.
pub const LINE_BYTES: usize = 1 << 20;

const KINDS: usize = Kind::ALL.len();

/// Lines in order. Numbers are dense from 1.
///
/// What was handed to a socket may be dropped, oldest first; only what never was counts as overflow.
#[derive(Clone, Debug, Default)]
pub struct Buffer {
    queues: [Queue; KINDS],
    last: u64,
    /// Lines behind `released` wait for the log.
    holds: bool,
    /// Lines up to this one may leave.
    released: u64,
    /// Those up to this one may have left: before this process, or on a stream of it.
    told: u64,
    /// Highest number that was dropped.
    dropped: u64,
    kept: Size,
    waiting: Size,
}

/// The lines of one kind, in order. A *place* counts all of them from the first of the session on.
#[derive(Clone, Debug, Default)]
struct Queue {
    lines: VecDeque<Arc<Line>>,
    /// Place of the oldest line that is kept.
    first: u64,
    /// Place of the first line that was not handed out.
    handed: u64,
    /// Lines that were looked at.
    #[cfg(test)]
    looks: std::cell::Cell<u64>,
}

/// How far a reader has come: the place of its next line in the queue of each kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cursor([u64; KINDS]);

/// Bounds of a [`Buffer`].
pub type Bounds = Size;

impl Size {
    /// Of a line.
    pub fn of(payload: &Payload) -> Size {
        Size { entries: payload.entries(), bytes: weight(payload) }
    }

    /// And this.
    pub fn add(&mut self, more: Size) {
        self.entries += more.entries;
        self.bytes += more.bytes;
    }

    /// Without this.
    pub fn take(&mut self, less: Size) {
        self.entries -= less.entries;
        self.bytes -= less.bytes;
    }

    fn fits(self, bounds: Bounds) -> bool {
        self.entries <= bounds.entries && self.bytes <= bounds.bytes
    }
}

impl Queue {
    fn at(&self, place: u64) -> Option<&Arc<Line>> {
        #[cfg(test)]
        self.looks.set(self.looks.get() + 1);
        self.lines.get(usize::try_from(place.checked_sub(self.first)?).ok()?)
    }

    /// The oldest line that waits.
    fn waiting(&self) -> Option<&Arc<Line>> {
        self.at(self.handed)
    }

    /// The oldest line that is kept, where it was handed out and is before this place.
    fn droppable(&self, before: u64) -> Option<&Arc<Line>> {
        (self.first < self.handed.min(before)).then(|| self.at(self.first)).flatten()
    }

    /// Place of the first line after this number.
    fn after(&self, seq: u64) -> u64 {
        let before = |line: &Arc<Line>| {
            #[cfg(test)]
            self.looks.set(self.looks.get() + 1);
            line.seq <= seq
        };
        self.first + self.lines.partition_point(before) as u64
    }
}

impl Buffer {
    /// Number of the newest line, 0 where there is none.
    pub fn last(&self) -> u64 {
        self.last
    }

    /// The lines of an earlier process: those up to `dropped` are gone but for what is among these, which ascend, and numbers
    /// go on behind `last`.
    pub fn resumed(dropped: u64, lines: impl IntoIterator<Item = Line>, last: u64) -> Buffer {
        let mut buffer = Buffer { dropped, ..Buffer::default() };
        for Line { seq, partition, payload } in lines {
            buffer.last = seq - 1;
            buffer.push(partition, payload);
        }
        Buffer { last, released: last, ..buffer }
    }

    /// The lines after this one that are kept, in order, and whether they may leave or not; with that, the line up to which
    /// others may be gone.
    pub fn kept_after(&self, after: u64) -> (u64, Vec<Arc<Line>>) {
        let mut lines: Vec<_> = self
            .queues
            .iter()
            .flat_map(|queue| {
                let from = usize::try_from(queue.after(after) - queue.first).unwrap_or(usize::MAX);
                queue.lines.range(from.min(queue.lines.len())..).cloned()
            })
            .collect();
        lines.sort_unstable_by_key(|line| line.seq);
        (self.dropped.max(after), lines)
    }

    /// From now on lines wait until they are released; those that there are may have left.
    pub fn hold_back(&mut self) {
        self.holds = true;
        self.told = self.last;
    }

    /// Lines up to this one may leave.
    pub fn release(&mut self, line: u64) {
        self.released = self.released.max(line);
    }

    /// This line was sent on a stream.
    pub fn tell(&mut self, line: u64) {
        self.told = self.told.max(line);
    }

    /// The last line that a shim can have; `restored`: the session was there before this process. Such a session may have begun
    /// from less than its shim has had of it, and have counted on since: those lines are others.
    pub fn known(&self, restored: bool) -> u64 {
        if restored { self.told } else { self.released }
    }

    /// What was not handed out takes this.
    pub fn waits(&self) -> Size {
        self.waiting
    }

    /// With this, no more than half of what may wait does.
    pub fn has_room(&self, payload: &Payload, bounds: Bounds) -> bool {
        let mut size = self.waiting;
        size.add(Size::of(payload));
        size.fits(Size { entries: bounds.entries / 2, bytes: bounds.bytes / 2 })
    }

    /// Credits of what was not handed out.
    pub fn undelivered(&self) -> usize {
        let waiting = |queue: &Queue| queue.lines.len() - (queue.handed - queue.first) as usize;
        let of = |queue: &Queue| queue.lines.iter().rev().take(waiting(queue)).map(|line| line.payload.credits()).sum();
        self.queues.iter().map(|queue| -> usize { of(queue) }).sum()
    }

    /// Every line up to this one was handed out.
    pub fn delivered(&self) -> u64 {
        self.queues.iter().filter_map(Queue::waiting).map(|line| line.seq - 1).min().unwrap_or(self.last)
    }

    /// Every line of a kind up to this one was handed out.
    pub fn handed(&self, kind: Kind) -> u64 {
        self.queues[kind as usize].waiting().map_or(self.last, |line| line.seq - 1)
    }

    /// How often a line was looked at.
    #[cfg(test)]
    pub fn looks(&self) -> u64 {
        self.queues.iter().map(|queue| queue.looks.get()).sum()
    }

    /// The lines of a kind that are kept.
    pub fn kept(&self, kind: Kind) -> impl DoubleEndedIterator<Item = &Arc<Line>> {
        self.queues[kind as usize].lines.iter()
    }

    /// Entries that are kept.
    pub fn entries(&self) -> usize {
        self.kept.entries
    }

    /// Lines of a kind that were not handed out.
    pub fn waiting(&self, kind: Kind) -> u64 {
        let queue = &self.queues[kind as usize];
        queue.first + queue.lines.len() as u64 - queue.handed
    }

    /// Adds a line and gives its number.
    pub fn push(&mut self, partition: Arc<str>, payload: Payload) -> u64 {
        self.last += 1;
        let (size, kind) = (Size::of(&payload), payload.kind());
        self.kept.add(size);
        self.waiting.add(size);
        self.queues[kind as usize].lines.push_back(Arc::new(Line { seq: self.last, partition, payload }));
        if !self.holds {
            self.released = self.last;
        }
        self.last
    }

    /// A stream can go on after this line: nothing that follows it was dropped.
    pub fn can_resume(&self, after: u64) -> bool {
        after >= self.dropped
    }

    /// Where a stream goes on that has everything up to `after`; `None` stands for all that is still there. `restored`: the
    /// session was there before this process.
    ///
    /// # Errors
    /// It cannot go on there.
    pub fn resume(&self, after: Option<u64>, restored: bool) -> Result<u64, Refusal> {
        let last = self.known(restored);
        let Some(after) = after else { return Ok(self.oldest()) };
        if after > last && restored {
            return Err(Refusal::new(
                RefusalKind::Gone,
                format!(
                    "after={after} lies beyond the last line that the log tells of and anybody was sent, which is {last}: register again"
                ),
            ));
        }
        if after > last {
            return Err(Refusal::new(
                RefusalKind::Invalid,
                format!("after={after} lies beyond the last line, which is {last}"),
            ));
        }
        if !self.can_resume(after) {
            return Err(Refusal::new(
                RefusalKind::Gone,
                format!("the lines after {after} are no longer buffered: register again"),
            ));
        }
        Ok(after)
    }

    /// The number before the oldest line that is kept.
    pub fn oldest(&self) -> u64 {
        let fronts = self.queues.iter().filter_map(|queue| queue.at(queue.first));
        fronts.map(|line| line.seq - 1).min().unwrap_or(self.last)
    }

    /// Where a reader stands that has everything up to this line.
    pub fn cursor(&self, after: u64) -> Cursor {
        let after = if crate::domain::planted!("resume-gap") && after > 0 { after + 1 } else { after };
        Cursor(std::array::from_fn(|kind| self.queues[kind].after(after)))
    }

    /// The next lines of a reader, of about this size: of all kinds as numbered, or of one kind what was not handed out yet.
    pub fn read(&self, cursor: &mut Cursor, kind: Option<Kind>, size: Size) -> Vec<Arc<Line>> {
        let mut taken = Size::default();
        let mut lines = Vec::new();
        while taken.entries < size.entries
            && taken.bytes < size.bytes
            && let Some((place, line)) = self.next(*cursor, kind)
        {
            cursor.0[line.payload.kind() as usize] = place + 1;
            taken.add(Size::of(&line.payload));
            lines.push(line.clone());
        }
        lines
    }

    /// There is a line for this reader.
    pub fn has_more(&self, cursor: Cursor, kind: Option<Kind>) -> bool {
        self.next(cursor, kind).is_some()
    }

    fn next(&self, cursor: Cursor, kind: Option<Kind>) -> Option<(u64, &Arc<Line>)> {
        if let Some(kind) = kind {
            let queue = &self.queues[kind as usize];
            let place = cursor.0[kind as usize].max(queue.handed);
            return Some((place, queue.at(place).filter(|line| line.seq <= self.released)?));
        }
        let fronts = self.queues.iter().zip(cursor.0).filter_map(|(queue, place)| {
            let place = place.max(queue.first);
            Some((place, queue.at(place)?))
        });
        let may_leave = |line: &Line| line.seq <= self.released || crate::domain::planted!("lines-early");
        fronts.min_by_key(|(_, line)| line.seq).filter(|(_, line)| may_leave(line))
    }

    /// Lines up to `seq`, of one kind or of all, were handed to a socket. Gives the credits that come back.
    pub fn hand(&mut self, seq: u64, kind: Option<Kind>) -> usize {
        let mut credits = 0;
        for each in Kind::ALL.into_iter().filter(|each| kind.is_none_or(|kind| kind == *each)) {
            let queue = &mut self.queues[each as usize];
            while let Some(line) = queue.waiting().filter(|line| line.seq <= seq) {
                credits += line.payload.credits();
                self.waiting.take(Size::of(&line.payload));
                queue.handed += 1;
            }
        }
        credits
    }

    /// Bounds with room for what waits besides, which may have come under wider ones.
    pub fn widened(&self, bounds: Bounds) -> Bounds {
        if self.waiting.fits(bounds) {
            return bounds;
        }
        let Size { entries, bytes } = self.waiting;
        Size { entries: bounds.entries.saturating_add(entries), bytes: bounds.bytes.saturating_add(bytes) }
    }

    /// Drops what was handed out, oldest first, until the bounds hold; false where they cannot. What a stream of all kinds has still to
    /// read stays, though another one had it before: that is no more than the bounds allowed when it began.
    pub fn trim(&mut self, bounds: Bounds, reader: Option<Cursor>) -> bool {
        let Cursor(before) = reader.unwrap_or(Cursor([u64::MAX; KINDS]));
        while !self.kept.fits(bounds) {
            let oldest = self.queues.iter_mut().zip(before);
            let oldest = oldest.filter_map(|(queue, before)| Some((queue.droppable(before)?.seq, queue)));
            let Some((_, queue)) = oldest.min_by_key(|(seq, _)| *seq) else { break };
            let Some(line) = queue.lines.pop_front() else { break };
            queue.first += 1;
            self.kept.take(Size::of(&line.payload));
            self.dropped = self.dropped.max(line.seq);
        }
        self.waiting.fits(bounds)
    }
}

/// Bytes of an entry beside those of its texts: row, box and what goes with a shared text.
pub const ENTRY: usize = 160;

/// What a callback takes until it is in a line, roughly.
pub fn size_of(callback: &Callback) -> Size {
    Size { entries: 1, bytes: ENTRY + texts(callback) }
}

/// Bytes of the texts of a callback that a shim or its objects can make long.
pub fn texts(callback: &Callback) -> usize {
    match callback {
        Callback::New(new) => tags(&new.spec),
        Callback::RejectedAllocation { reason, .. }
        | Callback::RejectedApplication { reason, .. }
        | Callback::RejectedNode { reason, .. } => reason.len(),
        _ => 0,
    }
}

/// Bytes of memory that a line keeps, roughly.
pub fn weight(payload: &Payload) -> usize {
    // Texts are counted where they belong to the entry alone, or may once the row that has them is gone.
    let refused = |list: &[Rejected]| -> usize {
        list.iter().map(|entry| entry.key.len() + entry.app.len() + entry.reason.len()).sum()
    };
    let ids = |list: &[Arc<str>]| -> usize { list.iter().map(|id| id.len()).sum() };
    let texts: usize = match payload {
        Payload::New(list) => list.iter().map(|new| new.spec.key.len() + tags(&new.spec)).sum(),
        Payload::Released(list) => list.iter().map(|released| released.key.len()).sum(),
        Payload::RejectedAllocations(list) => refused(list),
        Payload::Applications { accepted, rejected } | Payload::Nodes { accepted, rejected } => {
            ids(accepted) + refused(rejected)
        }
        Payload::UpdatedApplications(list) => list.iter().map(|updated| updated.app.len()).sum(),
        Payload::Events(list) => {
            list.iter().map(|event| event.object.len() + event.reference.len() + event.message.len()).sum()
        }
        Payload::ContainerState { key, reason, .. } => key.len() + reason.len(),
        Payload::Ask(_) | Payload::AskBatch(_) | Payload::AskSeveral(_) | Payload::StateDump => 0,
    };
    payload.entries() * ENTRY + texts
}

/// Bytes of the tags of an ask.
pub fn tags(spec: &AskSpec) -> usize {
    spec.tags.iter().map(|(key, value)| key.len() + value.len()).sum()
}
