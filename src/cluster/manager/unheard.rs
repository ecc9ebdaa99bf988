//! Resource managers of which this server has not heard: they may have registered at another one just now. etcd is asked before
//! anybody is told that there is none. One question answers all who wait, whatever they look for, so that there are few questions.

use std::time::Duration;

use tokio::{
    sync::oneshot,
    time::{Instant, sleep},
};

use super::{Manager, ToManager};
use crate::{
    cluster::{
        etcd::{Found, Trouble},
        keys::Key,
    },
    messages::rm::{Refusal, RefusalKind},
};

/// The time between two questions.
const BETWEEN: Duration = Duration::from_millis(50);

/// Told when this server has heard of all that were there when it was asked.
pub type Heard = oneshot::Sender<Result<(), Refusal>>;

/// See the module.
#[derive(Default)]
pub struct Unheard {
    /// Who waits for the next question.
    waiting: Vec<Heard>,
    /// A question is under way, or to come.
    asking: bool,
    /// When the last one was put.
    asked: Option<Instant>,
}

impl Manager {
    /// Answers when this server has heard of all resource managers that are there by now.
    pub(super) fn hear_of_all(&mut self, reply: Heard) {
        // An etcd that takes no changes is asked all the same.
        if let Some(why) = self.shown.trouble.get().filter(|_| self.connected.is_none()) {
            let _ = reply.send(Err(silent(&why)));
            return;
        }
        self.unheard.waiting.push(reply);
        self.ask_soon();
    }

    fn ask_soon(&mut self) {
        if std::mem::replace(&mut self.unheard.asking, true) {
            return;
        }
        let rest = self.unheard.asked.map_or(Duration::ZERO, |asked| BETWEEN.saturating_sub(asked.elapsed()));
        let tell = self.tell.clone();
        tokio::spawn(async move {
            sleep(rest).await;
            let _ = tell.send(ToManager::AskForHeads);
        });
    }

    /// Asks for those that came about after what this server has seen.
    pub(super) fn ask_for_heads(&mut self) {
        self.unheard.asked = Some(Instant::now());
        let waiting = std::mem::take(&mut self.unheard.waiting);
        let (etcd, tell, (from, to), seen) = (self.etcd.clone(), self.tell.clone(), self.keys.heads(), self.seen);
        tokio::spawn(async move {
            let found = etcd.made_since(&from, &to, seen).await;
            let _ = tell.send(ToManager::Heads(found, waiting));
        });
    }

    pub(super) fn heads(&mut self, found: Result<Found, Trouble>, waiting: Vec<Heard>) {
        let answer = match found {
            // What the watch has told since is newer: some of these may be gone.
            Ok(found) if found.revision <= self.seen => Ok(()),
            Ok(found) => {
                for head in &found.keys {
                    // Of those that are known the watch tells, with what was added to their logs.
                    if let Some(Key::Head(name)) = self.keys.read(&head.key)
                        && !self.known.contains_key(name)
                    {
                        self.head(
                            name.to_owned(),
                            &head.value,
                            (head.mod_revision, head.create_revision),
                            found.revision,
                        );
                    }
                }
                Ok(())
            }
            Err(trouble) => Err(silent(&trouble.to_string())),
        };
        for reply in waiting {
            let _ = reply.send(answer.clone());
        }
        self.unheard.asking = false;
        if !self.unheard.waiting.is_empty() {
            self.ask_soon();
        }
    }
}

fn silent(why: &str) -> Refusal {
    Refusal::new(RefusalKind::Closing, format!("{why}: whether another server leads it is not known: try again"))
}
