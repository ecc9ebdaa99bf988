//! What is shared by the threads that write the log of a resource manager.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering::SeqCst},
    },
    time::Duration,
};

use tokio::time::Instant;

use super::lock;
use crate::{
    domain::types::Nanos,
    store::log::{self, Far, Unsynced, WriteError, Writer},
};

/// See the module.
#[derive(Debug)]
pub struct SharedWriter {
    queue: Mutex<Queue>,
    writer: Mutex<Writer>,
    /// Where records go instead of files.
    far: Option<Arc<dyn Far>>,
    /// Files are flushed one after the other, so that what is said to be on the disk is, with all before it.
    syncing: Mutex<()>,
    /// Nothing of the log is there any more. Held while a snapshot is written.
    removed: Mutex<bool>,
    written: AtomicU64,
    synced: AtomicU64,
}

#[derive(Debug, Default)]
struct Queue {
    frames: Vec<u8>,
    /// Index of the first of them.
    first: u64,
    /// Index of the last.
    last: u64,
    /// Since when something is not on the disk.
    behind: Option<Instant>,
    /// The same for what is being flushed.
    flushing: Option<Instant>,
    /// Nothing more is taken.
    ended: bool,
}

/// Frames on their way into a file: if they do not get there, they go back to the queue.
struct Batch<'a> {
    queue: &'a Mutex<Queue>,
    frames: Vec<u8>,
    first: u64,
    last: u64,
}

impl<'a> Batch<'a> {
    fn of(queue: &'a Mutex<Queue>, sync: bool) -> Batch<'a> {
        let mut waiting = lock(queue);
        if sync {
            waiting.flushing = waiting.behind.take();
        }
        let (frames, first, last) = (std::mem::take(&mut waiting.frames), waiting.first, waiting.last);
        drop(waiting);
        Batch { queue, frames, first, last }
    }
}

impl Drop for Batch<'_> {
    fn drop(&mut self) {
        if self.frames.is_empty() {
            return;
        }
        let mut queue = lock(self.queue);
        if queue.frames.is_empty() {
            queue.last = self.last;
        }
        queue.first = self.first;
        self.frames.append(&mut queue.frames);
        queue.frames = std::mem::take(&mut self.frames);
    }
}

/// What is being flushed: if it does not get to the disk, it is kept for the next flush.
struct Flushing<'a> {
    shared: &'a SharedWriter,
    files: Option<Unsynced>,
    done: bool,
}

impl Drop for Flushing<'_> {
    fn drop(&mut self) {
        let mut queue = lock(&self.shared.queue);
        let since = queue.flushing.take();
        if !self.done {
            queue.behind = since.or(queue.behind);
            drop(queue);
            if let Some(files) = self.files.take() {
                lock(&self.shared.writer).keep(files);
            }
        }
    }
}

impl SharedWriter {
    /// An empty queue, before the record with this index.
    pub(super) fn new(writer: Mutex<Writer>, far: Option<Arc<dyn Far>>, next: u64) -> SharedWriter {
        SharedWriter {
            queue: Mutex::default(),
            writer,
            far,
            syncing: Mutex::default(),
            removed: Mutex::default(),
            written: (next - 1).into(),
            synced: (next - 1).into(),
        }
    }

    /// Writes what waits, and flushes it where that is wanted. Gives the last record for which that is done. May block.
    pub fn commit(&self, sync: bool) -> Result<u64, WriteError> {
        match &self.far {
            Some(far) if sync => self.send(&**far),
            // Nothing is half way there.
            Some(_) => Ok(self.synced()),
            None => self.write(sync),
        }
    }

    /// Writes what waits, which counts when the kernel has it, and what is to be known of it. May block.
    pub fn count(&self) -> Result<u64, WriteError> {
        let written = self.commit(false)?;
        lock(&self.writer).note()?;
        Ok(written)
    }

    /// Writes and flushes what waits, and nothing that comes later: nobody is told of that, and the next process does it again. Gives
    /// the last record. May block.
    pub fn end(&self) -> Result<u64, WriteError> {
        lock(&self.queue).ended = true;
        self.commit(true)
    }

    /// It takes no more records.
    pub fn is_ended(&self) -> bool {
        lock(&self.queue).ended
    }

    /// Keeps a snapshot by this; `None`: the log was removed, and a start would take the snapshot for one of the next session. May
    /// block.
    pub fn snapshot<T>(&self, keep: impl FnOnce() -> Result<T, WriteError>) -> Result<Option<T>, WriteError> {
        let removed = lock(&self.removed);
        if *removed { Ok(None) } else { keep().map(Some) }
    }

    /// Removes the log by this, behind a flush or a snapshot that is on its way; nothing of it is written from then on. May block.
    pub fn remove<T>(&self, remove: impl FnOnce() -> T) -> T {
        {
            let mut queue = lock(&self.queue);
            (queue.ended, queue.frames) = (true, Vec::new());
        }
        let _flushed = lock(&self.syncing);
        *lock(&self.removed) = true;
        remove()
    }

    /// Sends what waits to where it counts.
    fn send(&self, far: &dyn Far) -> Result<u64, WriteError> {
        let _one_at_a_time = lock(&self.syncing);
        let mut taken = Batch::of(&self.queue, true);
        let mut flushing = Flushing { shared: self, files: None, done: false };
        if !taken.frames.is_empty() {
            far.append(&taken.frames)?;
            taken.frames.clear();
            self.synced.store(taken.last, SeqCst);
        }
        flushing.done = true;
        Ok(self.synced())
    }

    fn write(&self, sync: bool) -> Result<u64, WriteError> {
        let syncing = sync.then(|| lock(&self.syncing));
        let mut writer = lock(&self.writer);
        let mut taken = Batch::of(&self.queue, sync);
        let mut flushing = sync.then(|| Flushing { shared: self, files: None, done: false });
        #[cfg(test)]
        assert!(!sync || !writer.dir().with_extension("breaks").exists(), "a test says so");
        if !taken.frames.is_empty() {
            // What is not written goes back to the queue before the writer is let go: whoever writes next takes it first.
            writer.write(taken.first, &taken.frames)?;
            taken.frames.clear();
            self.written.store(taken.last, SeqCst);
        }
        let written = self.written.load(SeqCst);
        if let Some(flushing) = &mut flushing {
            flushing.files = writer.unsynced();
            #[cfg(test)]
            let slow = writer.dir().with_extension("slow");
            drop(writer);
            #[cfg(test)]
            while slow.exists() {
                std::thread::sleep(Duration::from_millis(1));
            }
            if let Some(files) = &flushing.files {
                files.sync()?;
            }
            flushing.done = true;
            self.synced.fetch_max(written, SeqCst);
        }
        drop(syncing);
        Ok(written)
    }

    /// A record waits.
    pub(super) fn add(&self, kind: u32, index: u64, at: Nanos, payload: &[u8]) {
        let mut queue = lock(&self.queue);
        if queue.ended {
            return;
        }
        if queue.frames.is_empty() {
            queue.first = index;
        }
        queue.last = index;
        queue.behind.get_or_insert_with(Instant::now);
        log::seal(&mut queue.frames, kind, index, at, payload);
    }

    /// What is written from now on is in a file of its own.
    pub(super) fn begin_segment(&self) {
        lock(&self.writer).begin_segment();
    }

    /// From now on the disk refuses this: for simulated worlds.
    pub fn refuse(&self, what: Option<log::DiskFault>) {
        lock(&self.writer).refuse(what);
    }

    /// The last record that the kernel has.
    pub fn written(&self) -> u64 {
        self.written.load(SeqCst)
    }

    /// The last record that is on the disk for certain.
    pub fn synced(&self) -> u64 {
        self.synced.load(SeqCst)
    }

    /// For how long the oldest record has waited for the disk; zero where all of them are on it.
    pub fn behind(&self) -> Duration {
        let queue = lock(&self.queue);
        queue.flushing.or(queue.behind).map_or(Duration::ZERO, |since| since.elapsed())
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::mpsc, thread};

    use super::*;
    use crate::store::log::Title;

    #[test]
    fn a_snapshot_that_is_on_its_way_goes_with_the_log_and_none_comes_behind() {
        let dir = tempfile::tempdir().unwrap();
        let writer = Writer::new(dir.path().join("rm-1"), Title::new("server-1", "rm-1"));
        let shared = Arc::new(SharedWriter::new(Mutex::new(writer), None, 1));
        let steps = Arc::new(Mutex::new(Vec::new()));
        let ((begun, begins), (go_on, until)) = (mpsc::channel(), mpsc::channel());
        let (of_thread, told) = (shared.clone(), steps.clone());
        let keeps = thread::spawn(move || {
            of_thread.snapshot(|| {
                begun.send(()).unwrap();
                until.recv().unwrap();
                lock(&told).push("kept");
                Ok(())
            })
        });
        begins.recv().unwrap();
        let (of_thread, told) = (shared.clone(), steps.clone());
        let removes = thread::spawn(move || of_thread.remove(|| lock(&told).push("removed")));
        go_on.send(()).unwrap();
        assert_eq!(keeps.join().unwrap().unwrap(), Some(()));
        removes.join().unwrap();
        assert_eq!(*lock(&steps), ["kept", "removed"]);
        assert_eq!(shared.snapshot(|| Ok(())).unwrap(), None);
    }
}
