//! A door's end of an open stream of callbacks.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::Relaxed},
};

use actix::{Addr, MailboxError};
use tokio::{sync::mpsc::UnboundedSender, time::Instant};

use super::RmActor;
use crate::messages::{
    progress::Progress,
    rm::{Answer, Answers, Attach, Attached, Handed, Refusal, ToStream, Want},
};

/// See the module. Dropping it closes the stream.
#[derive(Debug)]
pub struct OpenStream {
    addr: Addr<RmActor>,
    attached: Attached,
    /// The session; 0 where none exists yet.
    epoch: AtomicU64,
    progress: Arc<Progress>,
}

impl OpenStream {
    /// Opens one; its lines go to `to`.
    ///
    /// # Errors
    /// The resource manager was forgotten, or refuses it.
    pub async fn attach(
        addr: &Addr<RmActor>,
        door: &'static str,
        want: Want,
        to: UnboundedSender<ToStream>,
    ) -> Result<Result<OpenStream, Refusal>, MailboxError> {
        let progress = Arc::<Progress>::default();
        let attached = addr.send(Attach { door, want, to, progress: progress.clone() }).await?;
        let epoch = |attached: &Attached| AtomicU64::new(attached.epoch);
        Ok(attached.map(|attached| OpenStream { addr: addr.clone(), epoch: epoch(&attached), attached, progress }))
    }

    /// Session; 0 where none exists yet.
    pub fn epoch(&self) -> u64 {
        self.epoch.load(Relaxed)
    }

    /// The session that a stream has waited for is there.
    pub fn begun(&self, epoch: u64) {
        self.epoch.store(epoch, Relaxed);
    }

    /// The number after which lines follow.
    pub fn sequence(&self) -> u64 {
        self.attached.sequence
    }

    /// Everything up to this line was handed to the socket. Costs no message where nobody waits for it.
    pub fn handed(&self, seq: u64) {
        if self.progress.hand(seq) {
            self.addr.do_send(Handed);
        }
    }

    /// The line with a question waits for the shim to be done with others.
    pub fn hold(&self, line: u64) {
        self.progress.held.hold(line);
    }

    /// It may go now: the time to answer it begins. False: nobody waits for the answer any more.
    #[must_use]
    pub fn release(&self, line: u64) -> bool {
        self.progress.held.release(line, Instant::now())
    }

    /// The shim answered.
    pub fn answer(&self, answer: Answer) {
        self.addr.do_send(Answers { epoch: self.epoch(), answers: vec![answer] });
    }
}
