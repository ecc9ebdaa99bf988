//! The numbered lines of a session: what was not handed out yet, and what a stream that comes back may still ask for.

use std::{collections::VecDeque, sync::Arc};

use crate::{
    domain::alloc::AskSpec,
    messages::rm::{Kind, Line, Payload},
};

/// Entries of one line at most (SEEDS S26).
pub const LINE_ENTRIES: usize = 256;
/// Bytes of texts that a line gathers at most, so that a client takes it: by default gRPC refuses messages of 4 MiB. A
/// single entry may be larger.
pub const LINE_BYTES: usize = 1 << 20;

/// Lines in order. Numbers are dense from 1.
///
/// What was handed to a socket may be dropped, oldest first; only what never was counts as overflow.
#[derive(Debug)]
pub struct Buffer {
    /// Line `first + n` is at `n`; `None`: dropped out of the middle.
    lines: VecDeque<Option<Arc<Line>>>,
    first: u64,
    /// Highest number that was dropped.
    dropped: u64,
    /// Per kind: everything up to here was handed out.
    handed: [u64; 4],
    entries: usize,
    bytes: usize,
    waiting_entries: usize,
    waiting_bytes: usize,
    /// Where the search for lines to drop goes on.
    sweep: u64,
}

/// Bounds of a [`Buffer`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Entries.
    pub entries: usize,
    /// Bytes, as estimated.
    pub bytes: usize,
}

impl Default for Buffer {
    fn default() -> Self {
        Buffer {
            lines: VecDeque::new(),
            first: 1,
            dropped: 0,
            handed: [0; 4],
            entries: 0,
            bytes: 0,
            waiting_entries: 0,
            waiting_bytes: 0,
            sweep: 1,
        }
    }
}

impl Buffer {
    /// Number of the newest line, 0 where there is none.
    pub fn last(&self) -> u64 {
        self.first + self.lines.len() as u64 - 1
    }

    /// Every line up to this one was handed out.
    pub fn delivered(&self) -> u64 {
        let sure = self.handed.iter().copied().min().unwrap_or(0);
        let next = (self.first.max(sure + 1)..=self.last())
            .find(|seq| self.get(*seq).is_some_and(|line| !self.is_handed(line)));
        next.map_or(self.last(), |seq| seq - 1)
    }

    /// Every line of a kind up to this one was handed out.
    pub fn handed(&self, kind: Kind) -> u64 {
        self.handed[kind as usize]
    }

    /// Entries that are kept.
    pub fn entries(&self) -> usize {
        self.entries
    }

    /// Adds a line and gives its number.
    pub fn push(&mut self, partition: Arc<str>, payload: Payload) -> u64 {
        let seq = self.last() + 1;
        let line = Line { seq, partition, payload };
        let (entries, bytes) = (line.payload.entries(), weight(&line.payload));
        self.entries += entries;
        self.bytes += bytes;
        self.waiting_entries += entries;
        self.waiting_bytes += bytes;
        self.lines.push_back(Some(Arc::new(line)));
        seq
    }

    /// A stream can go on after this line: nothing that follows it was dropped.
    pub fn can_resume(&self, after: u64) -> bool {
        after >= self.dropped
    }

    /// The number before the oldest line that is kept.
    pub fn oldest(&self) -> u64 {
        self.first - 1
    }

    /// Up to `entries` entries of lines after `after` (at least one line), of one kind or of all.
    pub fn after(&self, after: u64, kind: Option<Kind>, entries: usize) -> Vec<Arc<Line>> {
        let start = (after.saturating_add(1).max(self.first) - self.first).min(self.lines.len() as u64);
        let mut taken = 0;
        let mut lines = Vec::new();
        for line in self.lines.range(start as usize..).flatten() {
            if kind.is_some_and(|kind| kind != line.payload.kind() || self.is_handed(line)) {
                continue;
            }
            if taken >= entries {
                break;
            }
            taken += line.payload.entries();
            lines.push(line.clone());
        }
        lines
    }

    /// Lines up to `seq`, of one kind or of all, were handed to a socket. Gives the credits that come back.
    pub fn hand(&mut self, seq: u64, kind: Option<Kind>) -> usize {
        let seq = seq.min(self.last());
        let from = match kind {
            Some(kind) => self.handed[kind as usize],
            None => self.handed.iter().copied().min().unwrap_or(0),
        };
        let mut credits = 0;
        for at in (from + 1).max(self.first)..=seq {
            let Some(line) = self.get(at) else { continue };
            if self.is_handed(line) || kind.is_some_and(|kind| kind != line.payload.kind()) {
                continue;
            }
            let (entries, bytes) = (line.payload.entries(), weight(&line.payload));
            credits += line.payload.credits();
            self.waiting_entries -= entries;
            self.waiting_bytes -= bytes;
        }
        match kind {
            Some(kind) => self.handed[kind as usize] = self.handed[kind as usize].max(seq),
            None => self.handed.iter_mut().for_each(|handed| *handed = (*handed).max(seq)),
        }
        credits
    }

    /// Drops what was handed out, oldest first, until the bounds hold; false where they cannot.
    pub fn trim(&mut self, bounds: Bounds) -> bool {
        self.trim_front(bounds);
        // Lines of a kind that nobody reads may stand at the front for long: drop handed ones behind them.
        while self.over(bounds) && self.sweep <= self.last() {
            let at = self.sweep;
            self.sweep += 1;
            if at >= self.first && self.get(at).is_some_and(|line| self.is_handed(line)) {
                self.drop_line(at);
            }
        }
        if self.over(bounds) {
            self.sweep = self.first;
            self.trim_front(bounds);
        }
        self.waiting_entries <= bounds.entries && self.waiting_bytes <= bounds.bytes
    }

    fn trim_front(&mut self, bounds: Bounds) {
        while let Some(front) = self.lines.front() {
            match front {
                Some(line) if !self.over(bounds) || !self.is_handed(line) => break,
                Some(_) => self.drop_line(self.first),
                None => {}
            }
            self.lines.pop_front();
            self.first += 1;
        }
    }

    fn drop_line(&mut self, seq: u64) {
        let at = (seq - self.first) as usize;
        if let Some(line) = self.lines.get_mut(at).and_then(Option::take) {
            self.entries -= line.payload.entries();
            self.bytes -= weight(&line.payload);
            self.dropped = self.dropped.max(seq);
        }
    }

    fn over(&self, bounds: Bounds) -> bool {
        self.entries > bounds.entries || self.bytes > bounds.bytes
    }

    fn get(&self, seq: u64) -> Option<&Arc<Line>> {
        let at = seq.checked_sub(self.first)?;
        self.lines.get(usize::try_from(at).ok()?)?.as_ref()
    }

    fn is_handed(&self, line: &Line) -> bool {
        line.seq <= self.handed[line.payload.kind() as usize]
    }
}

/// Bytes of memory that a line keeps, roughly.
fn weight(payload: &Payload) -> usize {
    // Row, box and shared text of one entry; texts are counted where they belong to the entry alone.
    const ENTRY: usize = 160;
    let texts: usize = match payload {
        Payload::New(list) => list.iter().map(|new| tags(&new.spec)).sum(),
        Payload::RejectedAllocations(list) => list.iter().map(|entry| entry.reason.len()).sum(),
        Payload::Applications { rejected, .. } | Payload::Nodes { rejected, .. } => {
            rejected.iter().map(|entry| entry.reason.len()).sum()
        }
        Payload::Events(list) => list.iter().map(|event| event.message.len()).sum(),
        Payload::ContainerState { reason, .. } => reason.len(),
        _ => 0,
    };
    payload.entries() * ENTRY + texts
}

/// Bytes of the tags of an ask.
pub fn tags(spec: &AskSpec) -> usize {
    spec.tags.iter().map(|(key, value)| key.len() + value.len()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nodes(n: usize) -> Payload {
        Payload::Nodes { accepted: (0..n).map(|n| format!("n{n}").into()).collect(), rejected: vec![] }
    }

    fn apps(n: usize) -> Payload {
        Payload::Applications { accepted: (0..n).map(|n| format!("a{n}").into()).collect(), rejected: vec![] }
    }

    fn push(buffer: &mut Buffer, payload: Payload) -> u64 {
        buffer.push("[rm]default".into(), payload)
    }

    fn seqs(lines: &[Arc<Line>]) -> Vec<u64> {
        lines.iter().map(|line| line.seq).collect()
    }

    const BOUNDS: Bounds = Bounds { entries: 10, bytes: 1 << 20 };

    #[test]
    fn numbers_are_dense_from_one() {
        let mut buffer = Buffer::default();
        assert_eq!(buffer.last(), 0);
        assert_eq!([push(&mut buffer, nodes(1)), push(&mut buffer, apps(2))], [1, 2]);
        assert_eq!(seqs(&buffer.after(0, None, 100)), [1, 2]);
        assert_eq!(seqs(&buffer.after(1, None, 100)), [2]);
        assert_eq!(seqs(&buffer.after(0, None, 1)), [1], "one line at least, then no more than asked for");
        assert!(buffer.after(2, None, 100).is_empty());
    }

    #[test]
    fn handed_lines_are_dropped_oldest_first_and_others_count_as_overflow() {
        let mut buffer = Buffer::default();
        for _ in 0..4 {
            push(&mut buffer, nodes(3));
        }
        assert!(!buffer.trim(BOUNDS), "12 entries wait, 10 are allowed");
        assert_eq!(buffer.hand(2, None), 6);
        assert_eq!(buffer.delivered(), 2);
        assert!(buffer.trim(BOUNDS));
        assert_eq!(buffer.entries(), 9, "one line is dropped, the other may still be asked for");
        assert!(buffer.can_resume(1) && !buffer.can_resume(0));
        assert_eq!(seqs(&buffer.after(1, None, 100)), [2, 3, 4]);
        assert_eq!(buffer.hand(2, None), 0, "credits come back once");
    }

    #[test]
    fn each_kind_has_its_own_reader() {
        let mut buffer = Buffer::default();
        for _ in 0..3 {
            push(&mut buffer, nodes(2));
            push(&mut buffer, apps(2));
        }
        assert_eq!(seqs(&buffer.after(0, Some(Kind::Application), 100)), [2, 4, 6]);
        assert_eq!(buffer.hand(4, Some(Kind::Application)), 4);
        assert_eq!(seqs(&buffer.after(0, Some(Kind::Application), 100)), [6]);
        assert_eq!(buffer.delivered(), 0, "the first line is of another kind");
        assert!(buffer.trim(BOUNDS));
        assert_eq!(buffer.entries(), 10, "a line was dropped behind one that waits");
        assert!(buffer.can_resume(2) && !buffer.can_resume(1));
        assert_eq!(buffer.hand(6, None), 8, "what no reader had yet");
        assert_eq!(buffer.delivered(), 6);
    }

    #[test]
    fn bytes_are_bounded_too() {
        let mut buffer = Buffer::default();
        push(&mut buffer, nodes(1));
        assert!(!buffer.trim(Bounds { entries: 10, bytes: 10 }));
        buffer.hand(1, None);
        assert!(buffer.trim(Bounds { entries: 10, bytes: 10 }));
        assert_eq!((buffer.entries(), buffer.last(), buffer.oldest()), (0, 1, 1));
    }
}
