//! The open streams of a resource manager: one that carries everything, or one for each kind, or one that waits.

use std::sync::Arc;

use tokio::sync::mpsc::UnboundedSender;

use super::buffer::Buffer;
use crate::{
    domain::types::Nanos,
    messages::rm::{Closing, Kind, Line, Predicates, StreamInfo, ToStream},
};

/// Entries that may be on their way to one stream before it says that they were handed over.
const WINDOW: usize = 16_384;

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
    sent: u64,
    /// Lines sent and not handed over, with their entries.
    flying: std::collections::VecDeque<(u64, usize)>,
    flying_entries: usize,
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
    /// A stream that has had everything up to `sent`.
    pub fn new(id: u64, door: &'static str, since: Nanos, to: UnboundedSender<ToStream>, sent: u64) -> Stream {
        Stream { id, door, since, predicates: None, to, sent, flying: Default::default(), flying_entries: 0 }
    }

    /// Tells it something. A stream that is gone says so itself, by `Detach`.
    pub fn tell(&self, word: ToStream) {
        let _ = self.to.send(word);
    }

    fn send(&mut self, lines: Vec<Arc<Line>>) {
        for line in &lines {
            let entries = line.payload.entries();
            self.sent = line.seq;
            self.flying.push_back((line.seq, entries));
            self.flying_entries += entries;
        }
        self.tell(ToStream::Lines(lines));
    }

    fn handed(&mut self, seq: u64) {
        while let Some((at, entries)) = self.flying.front().copied().filter(|(at, _)| *at <= seq) {
            debug_assert!(at <= seq);
            self.flying_entries -= entries;
            self.flying.pop_front();
        }
    }

    fn pump(&mut self, buffer: &Buffer, kind: Option<Kind>) {
        if self.flying_entries >= WINDOW {
            return;
        }
        let lines = buffer.after(self.sent, kind, WINDOW - self.flying_entries);
        if !lines.is_empty() {
            self.send(lines);
        }
    }
}

impl Streams {
    /// Sends what there is to send.
    pub fn pump(&mut self, buffer: &Buffer) {
        if let Some(stream) = &mut self.all {
            stream.pump(buffer, None);
            return;
        }
        for kind in PLAIN {
            if let Some(stream) = &mut self.plain[kind as usize] {
                stream.pump(buffer, Some(kind));
            }
        }
    }

    /// A stream handed over everything up to `seq`: which kind, `None` for all; no stream of that id: `Err`.
    pub fn handed(&mut self, id: u64, seq: u64) -> Result<Option<Kind>, ()> {
        if let Some(stream) = self.all.as_mut().filter(|stream| stream.id == id) {
            stream.handed(seq);
            return Ok(None);
        }
        for kind in PLAIN {
            if let Some(stream) = self.plain[kind as usize].as_mut().filter(|stream| stream.id == id) {
                stream.handed(seq);
                return Ok(Some(kind));
            }
        }
        Err(())
    }

    /// Opens the stream of a kind, which replaces the one before it.
    pub fn open_plain(&mut self, kind: Kind, stream: Stream, replaced: &Closing) {
        if let Some(before) = self.plain[kind as usize].replace(stream) {
            before.tell(ToStream::Close(replaced.clone()));
        }
    }

    /// Opens the stream of all kinds, which replaces the one before it.
    pub fn open_all(&mut self, stream: Stream, replaced: &Closing) {
        if let Some(before) = self.all.replace(stream) {
            before.tell(ToStream::Close(replaced.clone()));
        }
        // What a plain stream had on its way was handed over or is sent again by the new one.
        for stream in self.plain.iter_mut().flatten() {
            stream.flying.clear();
            stream.flying_entries = 0;
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
        for stream in self.all.take().into_iter().chain(self.plain.iter_mut().filter_map(Option::take)) {
            stream.tell(ToStream::Close(closing.clone()));
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
