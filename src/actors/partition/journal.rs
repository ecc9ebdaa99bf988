//! What a partition and its journal tell each other: the session begins with what operators drained before, what happens to nodes
//! is told batch by batch, and the session ends.

use std::{collections::BTreeSet, pin::pin, sync::Arc, time::Duration};

use actix::prelude::*;
use tokio::{sync::Mutex, time::timeout};

use super::{
    PartitionActor,
    restored::{other_orders, standing_of},
};
use crate::{
    actors::journal::JournalActor,
    domain::{command::Command, effect::NodeEffect, journal::Fact},
    messages::{
        journal::{Agree, Begin, End, KeepOrders, Post, Standing},
        partition::Alive,
    },
};

/// How often it is logged that the journal has not answered yet.
const PATIENCE: Duration = Duration::from_secs(30);

/// See the module.
pub(super) struct Link {
    journal: Option<Addr<JournalActor>>,
    epoch: u64,
    pub(super) facts: Vec<Fact>,
    /// The partition was there before this process.
    restored: bool,
    /// Another server may have led it before.
    shared: bool,
    /// What operators told it in an earlier session, which another server led.
    inherited: Option<Standing>,
    /// Whose order to a queue is being kept.
    pub(super) orders: Arc<Mutex<()>>,
}

impl Link {
    pub(super) fn new(journal: Option<Addr<JournalActor>>, epoch: u64, inherited: Option<Standing>) -> Link {
        let (restored, shared, orders) = (false, false, Arc::default());
        Link { journal, epoch, facts: Vec::new(), restored, shared, inherited, orders }
    }

    /// The partition was there before this process, with nodes.
    pub(super) fn is_restored(&mut self, shared: bool) {
        (self.restored, self.shared) = (true, shared);
    }

    /// The journal hears what operators told another server.
    pub(super) fn agree(&self, agree: Agree) {
        if let Some(journal) = &self.journal {
            journal.do_send(agree);
        }
    }

    /// Takes note of what happened to a node.
    pub(super) fn note(&mut self, effect: &NodeEffect) {
        // Signs of life go to the conversation of the node.
        if self.journal.is_some() && !matches!(effect, NodeEffect::Seen { .. }) {
            self.facts.push(Fact::Node(effect.clone()));
        }
    }

    /// Posts what was noted.
    pub(super) fn flush(&mut self) {
        if let Some(journal) = self.journal.as_ref().filter(|_| !self.facts.is_empty()) {
            journal.do_send(Post { epoch: self.epoch, facts: std::mem::take(&mut self.facts) });
        }
    }

    /// The journal keeps orders; `None` where there is none, and nothing outlives the session.
    pub(super) fn keep(&self, keep: KeepOrders) -> Option<Request<JournalActor, KeepOrders>> {
        self.journal.as_ref().map(|journal| journal.send(keep))
    }

    /// The session ended, and all that was posted came before.
    pub(super) fn end(&mut self) {
        self.flush();
        if let Some(journal) = self.journal.take() {
            journal.do_send(End { epoch: self.epoch });
        }
    }
}

/// The answer of the journal to a session that begins. It is waited for however long it takes, or nodes that operators drained would
/// get allocations.
async fn answered(asked: Request<JournalActor, Begin>, partition: Arc<str>) -> Result<Standing, MailboxError> {
    let mut asked = pin!(asked);
    loop {
        match timeout(PATIENCE, &mut asked).await {
            Ok(answer) => return answer,
            Err(_) => tracing::error!(
                code = "journal-silent",
                partition = &*partition,
                "the resource journal does not answer; the partition waits for it, as it says what operators drained or stopped"
            ),
        }
    }
}

impl PartitionActor {
    /// Asks the journal what operators drained. Nothing else is handled before it answered, so that no node gets an
    /// allocation that it must not have, and readers see what they wrote.
    pub(super) fn begin_journal(&mut self, ctx: &mut Context<Self>) {
        let Some(journal) = &self.link.journal else { return };
        let own = (self.link.restored && !self.link.shared).then(|| standing_of(&self.partition));
        let begin = Begin { epoch: self.setup.epoch, partition: ctx.address().recipient(), own };
        let inherited = self.link.inherited.take();
        if let Some(Standing { hosts, notes, .. }) = &inherited {
            let (hosts, notes) = (hosts.iter().cloned().collect(), notes.iter().cloned().collect());
            self.link.agree(Agree { nodes: BTreeSet::new(), hosts, notes });
        }
        let asked = answered(journal.send(begin), self.setup.internal.clone()).into_actor(self);
        ctx.wait(asked.map(|answer, actor, ctx| match answer {
            Ok(Standing { orders, .. }) if actor.link.restored && actor.link.shared => actor.hand_down(&orders),
            Ok(known) if inherited.is_some() => {
                let Standing { hosts, notes, orders } = inherited.unwrap_or_default();
                let commands = [
                    Command::HoldHosts { hosts, held: true },
                    Command::NoteDrains(notes),
                    Command::OrderQueues(orders),
                ];
                actor.apply(commands.into(), ctx);
                actor.keep_orders(&known.orders);
            }
            Ok(Standing { hosts, notes, orders }) => {
                let (mut commands, mut orders) = (Vec::new(), orders);
                if actor.link.restored {
                    commands = actor.agree(&hosts);
                    orders = other_orders(&actor.partition, &orders);
                }
                commands.extend((!hosts.is_empty()).then_some(Command::HoldHosts { hosts, held: true }));
                commands.extend((!notes.is_empty()).then_some(Command::NoteDrains(notes)));
                commands.extend((!orders.is_empty()).then_some(Command::OrderQueues(orders)));
                if !commands.is_empty() {
                    actor.apply(commands, ctx);
                }
            }
            Err(error) => tracing::error!(
                code = "journal-silent",
                partition = &*actor.setup.internal, %error,
                "the resource journal has ended; what operators drained or stopped is not known"
            ),
        }));
    }
}

impl Handler<Alive> for PartitionActor {
    type Result = bool;

    fn handle(&mut self, msg: Alive, _ctx: &mut Self::Context) -> bool {
        if msg.epoch != self.setup.epoch {
            return false;
        }
        // Nodes that were registered before have a conversation.
        self.route();
        self.conversations.signs(&msg.signs)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;
    use crate::{
        actors::journal::{DEFAULT_LIMIT, JournalSetup},
        domain::journal::Settings,
        messages::partition::Commands,
    };

    struct Silent;

    impl Actor for Silent {
        type Context = Context<Self>;
    }

    impl Handler<Commands> for Silent {
        type Result = ();

        fn handle(&mut self, _msg: Commands, _ctx: &mut Self::Context) {}
    }

    #[actix::test]
    async fn a_session_begins_however_long_the_journal_takes() {
        tokio::time::pause();
        let busy = Arbiter::new();
        let setup = JournalSetup {
            partition: "[rm-1]default".into(),
            dir: None,
            settings: Settings::default(),
            limit: DEFAULT_LIMIT,
            faults: Arc::default(),
            held: Arc::default(),
        };
        let journal = JournalActor::start_on(&busy.handle(), setup);
        let (go, gate) = mpsc::channel::<()>();
        busy.spawn_fn(move || {
            let _ = gate.recv();
        });
        let begin = Begin { epoch: 1, partition: Silent.start().recipient(), own: None };
        let asked = actix::spawn(answered(journal.send(begin), "[rm-1]default".into()));
        tokio::time::sleep(PATIENCE * 3).await;
        assert!(!asked.is_finished());
        tokio::time::resume();
        go.send(()).expect("it is waited for");
        assert!(asked.await.expect("no panic").is_ok());
        busy.stop();
    }
}
