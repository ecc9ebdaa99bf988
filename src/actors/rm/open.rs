//! A door's end of an open stream of callbacks.

use std::sync::Arc;

use actix::{Addr, MailboxError};
use tokio::sync::mpsc::UnboundedSender;

use super::RmActor;
use crate::messages::{
    progress::Progress,
    rm::{Answer, Answers, Attach, Attached, Detach, Handed, Refusal, ToStream, Want},
};

/// See the module. Dropping it closes the stream.
#[derive(Debug)]
pub struct OpenStream {
    addr: Addr<RmActor>,
    attached: Attached,
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
        Ok(attached.map(|attached| OpenStream { addr: addr.clone(), attached, progress }))
    }

    /// Session; 0 where none exists yet.
    pub fn epoch(&self) -> u64 {
        self.attached.epoch
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

    /// The shim answered.
    pub fn answer(&self, answer: Answer) {
        self.addr.do_send(Answers(vec![answer]));
    }
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        self.addr.do_send(Detach { stream: self.attached.stream });
    }
}
