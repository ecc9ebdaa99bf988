//! How long allocations of each partition lasted, from the log of events: read when somebody asks for it, and from then on only what is
//! new.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex as SyncMutex, PoisonError},
    time::{Duration, Instant},
};

use actix::Addr;
use tokio::{sync::Mutex, time::timeout};

use crate::{
    actors::event::EventActor,
    domain::{Partition, event_block::EventPiece, lasted::Lasted},
    http::api::events::back,
    messages::event::{GetEventStatus, ReadLog},
};

/// Events that are read at first: the last ones.
const FIRST: u64 = 1_000_000;
/// Events that are asked for at a time.
const PAGE: usize = 16_384;
/// So long one caller reads; the next one goes on from there.
const READ: Duration = Duration::from_millis(500);
/// A caller waits at most so long for the disk, or for callers before it.
const PATIENCE: Duration = Duration::from_secs(2);
/// Partitions that are remembered.
const PARTITIONS: usize = 100;

/// See the module. Each partition has a lock of its own, which is held while the log is read for it.
#[derive(Default)]
pub struct Histories(SyncMutex<BTreeMap<Arc<str>, Arc<Mutex<History>>>>);

#[derive(Clone, Default)]
struct History {
    /// The event to go on with.
    next: Option<u64>,
    lasted: Arc<Lasted>,
}

impl Histories {
    /// What is known of a partition, with as much of what is new as there is time to read.
    pub async fn of(&self, events: &Addr<EventActor>, partition: &Partition) -> Arc<Lasted> {
        let history = self.history(&partition.internal);
        let Ok(mut history) = timeout(PATIENCE, history.lock()).await else { return Arc::default() };
        // What cannot be read now is read by the next one who asks.
        let _ = timeout(PATIENCE, history.read(events, partition)).await;
        history.lasted.clone()
    }

    fn history(&self, partition: &Arc<str>) -> Arc<Mutex<History>> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= PARTITIONS && !all.contains_key(partition) {
            all.clear();
        }
        all.entry(partition.clone()).or_default().clone()
    }
}

impl History {
    async fn read(&mut self, events: &Addr<EventActor>, partition: &Partition) -> Option<()> {
        let status = events.send(GetEventStatus).await.ok()?;
        let lowest = back::lowest(&status);
        let begin = Instant::now();
        let mut from = match self.next {
            Some(next) if next <= status.next => next.max(lowest),
            _ => back::begin_of_last(events, FIRST, lowest, status.next).await.ok()?,
        };
        while from < status.next && begin.elapsed() < READ {
            let page = events.send(ReadLog { from: Some(from), events: PAGE }).await.ok()?.ok()?;
            from = page.pieces.last()?.end();
            let lasted = Arc::make_mut(&mut self.lasted);
            for piece in &page.pieces {
                match piece {
                    EventPiece::Gap(_) => lasted.forget_running(),
                    EventPiece::Events(slice) => {
                        let own = slice.events().iter().filter(|event| event.partition == partition.internal);
                        own.for_each(|event| lasted.apply(event, |app| partition.about(app)));
                    }
                }
            }
            self.next = Some(from);
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use actix::Actor as _;

    use super::*;
    use crate::{
        actors::event::testing::after_a_kill,
        config,
        domain::{
            event::{Change, Detail, Event, EventKind},
            resources::Resource,
            types::Nanos,
        },
        messages::event::Publish,
    };

    fn event(key: u64, change: Change, detail: Detail) -> Event {
        Event {
            kind: EventKind::App,
            object: "app-1".into(),
            reference: key.to_string().into(),
            change,
            detail,
            message: "".into(),
            resource: Some(Arc::new(Resource::of(&[("vcore", 1000)]))),
            at: Nanos::from_secs(if change == Change::Add { 0 } else { 60 }),
            partition: "[rm-1]default".into(),
        }
    }

    #[actix::test]
    async fn who_reads_of_one_partition_holds_up_no_other() {
        tokio::time::pause();
        let conf = config::load("").unwrap().partitions[0].clone();
        let [one, other] = ["[rm-1]default", "[rm-2]default"]
            .map(|name| Partition::new("rm".into(), name.into(), conf.clone(), Nanos::ZERO, &mut Vec::new()));
        let (actor, histories) = (EventActor::default().start(), Histories::default());
        let mut reads = Box::pin(histories.of(&actor, &one));
        assert!(futures::poll!(&mut reads).is_pending());
        let limit = Duration::from_secs(60);
        assert!(timeout(limit, histories.of(&actor, &other)).await.is_ok(), "another partition");
        assert!(timeout(limit, histories.of(&actor, &one)).await.is_ok(), "the same one waits for a while");
        assert_eq!(reads.await.ended(), 0);
    }

    #[actix::test]
    async fn what_is_new_is_read_once() {
        let conf = config::load("").unwrap().partitions[0].clone();
        let partition = Partition::new("rm-1".into(), "[rm-1]default".into(), conf, Nanos::ZERO, &mut Vec::new());
        let (actor, histories) = (EventActor::default().start(), Histories::default());
        let entered = |app: &str| Event {
            kind: EventKind::Queue,
            object: "root.a".into(),
            reference: app.into(),
            ..event(0, Change::Add, Detail::QueueApp)
        };
        let mut events = vec![entered("app-1")];
        for key in 0..5 {
            events.push(event(key, Change::Add, Detail::AppAlloc));
            events.push(event(key, Change::Remove, Detail::AllocCancel));
            events.push(event(key, Change::Remove, Detail::RequestCancel));
        }
        let elsewhere = |event: Event| Event { partition: "[rm-1]other".into(), ..event };
        events.push(elsewhere(event(9, Change::Add, Detail::AppAlloc)));
        events.push(elsewhere(event(9, Change::Remove, Detail::AllocCancel)));
        events.push(elsewhere(event(9, Change::Remove, Detail::RequestCancel)));
        actor.do_send(Publish { rm: "rm-1".into(), epoch: 1, events: events.clone(), traced: Vec::new(), first: None });
        assert_eq!(histories.of(&actor, &partition).await.ended(), 5);
        assert_eq!(histories.of(&actor, &partition).await.ended(), 5, "nothing is new");
        actor.do_send(Publish { rm: "rm-1".into(), epoch: 1, events: events.clone(), traced: Vec::new(), first: None });
        assert_eq!(histories.of(&actor, &partition).await.ended(), 10);
        // A kill leaves more ids without events than are read at first.
        let (actor, _directories) = after_a_kill(events).await;
        assert_eq!(Histories::default().of(&actor, &partition).await.ended(), 5);
    }
}
