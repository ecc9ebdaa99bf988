//! The open streams of a resource manager: one that carries everything, or one for each kind, or one that waits.

use std::{
    collections::VecDeque,
    sync::{Arc, Weak},
};

use tokio::sync::mpsc::UnboundedSender;

use super::{
    buffer::{Buffer, Cursor},
    traced::Traced,
};
use crate::{
    domain::types::Nanos,
    messages::{
        budget::{Pressure, Size},
        held::Held,
        progress::Progress,
        rm::{Attach, Closing, Kind, Line, Predicates, StreamInfo, ToStream},
    },
};

/// What may be on its way to one stream before it says that it was handed over. What a stream that nobody reads has keeps memory
/// until its connection is given up, beside the bounds of the session.
const WINDOW: Size = Size { entries: 16_384, bytes: 16 << 20 };

/// Streams that were closed and that their doors still have, at most. Each keeps what was on its way to it until its client takes that, or
/// its connection is given up: whoever opens one after the other and reads none would take memory without end.
pub const CLOSED: usize = 32;

/// Entries that are read for one stream at a time: what is read costs about as much as a slice of the scheduling loop.
const STEP: usize = 2_048;

/// Kinds that have a plain stream.
const PLAIN: [Kind; 3] = [Kind::Allocation, Kind::Application, Kind::Node];

/// All open streams.
#[derive(Debug, Default)]
pub struct Streams {
    /// Carries every line.
    pub all: Option<Stream>,
    /// Takes the place of `all` at the next registration.
    pub waiting: Option<Waiting>,
    /// Carry one kind each, while `all` is not there.
    plain: [Option<Stream>; 3],
    /// Those that were closed, while their doors have them.
    closed: Vec<Weak<Progress>>,
}

/// One stream.
#[derive(Debug)]
pub struct Stream {
    /// Its id.
    pub id: u64,
    /// Name of its door.
    pub door: &'static str,
    /// Since when.
    pub since: Nanos,
    /// How the shim is asked while it is open, where the stream itself says so.
    pub predicates: Option<Predicates>,
    to: UnboundedSender<ToStream>,
    progress: Arc<Progress>,
    /// The next line to be sent.
    next: Cursor,
    /// The last line that was sent.
    sent: u64,
    /// Lines sent and not handed over, with their sizes.
    flying: VecDeque<(u64, Size)>,
    /// Of all of them.
    under_way: Size,
}

/// A stream that waits for a registration.
#[derive(Debug)]
pub struct Waiting {
    /// How the shim wants to be asked.
    pub predicates: Predicates,
    /// The stream.
    pub stream: Stream,
}

impl Stream {
    /// A stream that was opened just now, and has had nothing.
    pub fn new(id: u64, attach: Attach, since: Nanos) -> Stream {
        Stream {
            id,
            door: attach.door,
            since,
            predicates: None,
            to: attach.to,
            progress: attach.progress,
            next: Cursor::default(),
            sent: 0,
            flying: VecDeque::new(),
            under_way: Size::default(),
        }
    }

    /// The same stream, which goes on there.
    pub fn resume(self, next: Cursor) -> Stream {
        Stream { next, ..self }
    }

    /// Tells it something. A stream that is gone says so itself, by `Detach`.
    pub fn tell(&self, message: ToStream) {
        let _ = self.to.send(message);
    }

    /// The next line to be sent.
    pub fn cursor(&self) -> Cursor {
        self.next
    }

    /// The last line that was sent to it.
    pub fn sent(&self) -> u64 {
        self.sent
    }

    /// Questions that its door holds back.
    pub fn held(&self) -> &Held {
        &self.progress.held
    }

    fn send(&mut self, lines: Vec<Arc<Line>>) {
        for line in &lines {
            let size = Size::of(&line.payload);
            self.flying.push_back((line.seq, size));
            self.under_way.add(size);
            self.sent = line.seq;
        }
        self.tell(ToStream::Lines(lines));
    }

    /// Looks how far it has come. Gives the credits that come back.
    fn collect(&mut self, buffer: &mut Buffer, kind: Option<Kind>) -> usize {
        let seq = self.progress.handed();
        while let Some((_, size)) = self.flying.front().copied().filter(|(at, _)| *at <= seq) {
            self.under_way.take(size);
            self.flying.pop_front();
        }
        buffer.hand(seq, kind)
    }

    fn is_full(&self) -> bool {
        self.under_way.entries >= WINDOW.entries || self.under_way.bytes >= WINDOW.bytes
    }

    /// Sends the next lines. True: it may take more at once.
    fn pump(&mut self, buffer: &Buffer, kind: Option<Kind>) -> bool {
        let room = Size {
            entries: WINDOW.entries.saturating_sub(self.under_way.entries).min(STEP),
            bytes: WINDOW.bytes.saturating_sub(self.under_way.bytes),
        };
        let lines = buffer.read(&mut self.next, kind, room);
        if !lines.is_empty() {
            self.send(lines);
        }
        !self.is_full() && buffer.has_more(self.next, kind)
    }

    /// Asks for a message about progress where somebody waits for it. True: there is some already.
    fn await_progress(&self, buffer: &Buffer, kind: Option<Kind>, pressure: Pressure, traced: &Traced) -> bool {
        let full = self.is_full() && buffer.has_more(self.next, kind);
        let line = match pressure {
            Pressure::Spent => self.flying.front(),
            Pressure::Low if !full => None,
            // After half of what is under way, so that no message is sent for each line.
            Pressure::Low | Pressure::High => self.flying.get(self.flying.len().saturating_sub(1) / 2),
        };
        // Spans end when their lines were handed over.
        let first = line.map(|(seq, _)| *seq).into_iter().chain(traced.awaited(kind)).min();
        first.is_some_and(|seq| self.progress.wait_for(seq))
    }
}

impl Streams {
    /// Those that are open, each with what it carries.
    fn open(&mut self) -> impl Iterator<Item = (Option<Kind>, &mut Stream)> {
        let plain = PLAIN.into_iter().zip(&mut self.plain);
        let plain = plain.filter_map(|(kind, stream)| Some((Some(kind), stream.as_mut()?)));
        self.all.as_mut().map(|stream| (None, stream)).into_iter().chain(plain)
    }

    /// Looks how far the streams have come. Gives the credits that come back.
    pub fn collect(&mut self, buffer: &mut Buffer) -> usize {
        self.open().map(|(kind, stream)| stream.collect(buffer, kind)).sum()
    }

    /// Sends what there is to send, up to a step for each. True: there is more, or some of it was handed over meanwhile and
    /// somebody waits for that.
    pub fn pump(&mut self, buffer: &mut Buffer, pressure: Pressure, traced: &Traced) -> bool {
        let all = self.all.is_some();
        let mut more = false;
        for (kind, stream) in self.open() {
            if kind.is_none() || !all {
                more |= stream.pump(buffer, kind);
            }
            more |= stream.await_progress(buffer, kind, pressure, traced);
            buffer.tell(stream.sent);
        }
        more
    }

    /// Another stream may be opened: not too many are left that nobody reads.
    pub fn has_room(&self) -> bool {
        self.closed.iter().filter(|stream| stream.strong_count() > 0).count() < CLOSED
    }

    /// Closes a stream that is not among the open ones any more, and remembers it while its door has it.
    fn retire(&mut self, stream: &Stream, closing: &Closing) {
        stream.tell(ToStream::Close(closing.clone()));
        self.closed.retain(|closed| closed.strong_count() > 0);
        self.closed.push(Arc::downgrade(&stream.progress));
    }

    /// Opens the stream of a kind, which replaces the one before it.
    pub fn open_plain(&mut self, kind: Kind, stream: Stream, replaced: &Closing) {
        if let Some(before) = self.plain[kind as usize].replace(stream) {
            self.retire(&before, replaced);
        }
    }

    /// Opens the stream of all kinds, which replaces the one before it.
    pub fn open_all(&mut self, stream: Stream, replaced: &Closing) {
        if let Some(before) = self.all.replace(stream) {
            self.retire(&before, replaced);
        }
        // What a plain stream had on its way was handed over or is sent again by the new one.
        for stream in self.plain.iter_mut().flatten() {
            stream.flying.clear();
            stream.under_way = Size::default();
        }
    }

    /// A stream is gone. Gives the one that carried everything, if it was that.
    pub fn remove(&mut self, id: u64) -> Option<Stream> {
        if self.waiting.as_ref().is_some_and(|waiting| waiting.stream.id == id) {
            self.waiting = None;
        }
        for stream in &mut self.plain {
            if stream.as_ref().is_some_and(|stream| stream.id == id) {
                *stream = None;
            }
        }
        if self.all.as_ref().is_some_and(|stream| stream.id == id) {
            return self.all.take();
        }
        None
    }

    /// Closes all response streams, the waiting one too where asked for.
    pub fn close(&mut self, closing: &Closing, waiting_too: bool) {
        let open: Vec<Stream> =
            self.all.take().into_iter().chain(self.plain.iter_mut().filter_map(Option::take)).collect();
        for stream in &open {
            self.retire(stream, closing);
        }
        if waiting_too && let Some(waiting) = self.waiting.take() {
            waiting.stream.tell(ToStream::Close(closing.clone()));
        }
    }

    /// No response stream is open.
    pub fn none(&self) -> bool {
        self.all.is_none() && self.plain.iter().all(Option::is_none)
    }

    /// Only plain streams are open: what has none of its own is not delivered.
    pub fn only_plain(&self) -> bool {
        self.all.is_none() && self.plain.iter().any(Option::is_some)
    }

    /// A stream is open that carries this kind.
    pub fn carries(&self, kind: Kind) -> bool {
        self.all.is_some() || self.plain.get(kind as usize).is_some_and(Option::is_some)
    }

    /// The open streams, for readers.
    pub fn info(&self) -> Vec<StreamInfo> {
        let info = |stream: &Stream, kinds| StreamInfo { door: stream.door, kinds, since: stream.since };
        let mut all: Vec<StreamInfo> = self.all.iter().map(|stream| info(stream, &["all"])).collect();
        for (kind, name) in PLAIN.into_iter().zip([&["allocation"], &["application"], &["node"]]) {
            all.extend(self.plain[kind as usize].iter().map(|stream| info(stream, name)));
        }
        all.extend(self.waiting.iter().map(|waiting| info(&waiting.stream, &["waiting"])));
        all
    }
}
