//! Events of a log that is read: they are counted as they were when it was written, and told to whoever wants them.

use std::{sync::Arc, time::Duration};

use super::Replay;
use crate::{
    actors::rm::restore::used,
    domain::{effect::Effect, event::Event, types::Nanos},
    messages::event::{Publish, Publisher, Stands},
};

/// Batches that may wait for the event system before more records are applied.
const WAITING: usize = 256;
const PAUSE: Duration = Duration::from_millis(1);

/// Whom the events are told of a log that another server writes.
#[derive(Clone)]
pub struct Listener {
    /// The resource manager.
    pub rm: Arc<str>,
    /// The event system.
    pub to: Publisher,
}

impl Listener {
    fn tell(&self, first: u64, events: Vec<Event>) {
        if self.to.publish(Publish::numbered(&self.rm, first, events)) > WAITING {
            // Logs are applied where that may take its time.
            std::thread::sleep(PAUSE);
        }
    }
}

impl Replay {
    /// Events that come from now on are told.
    pub fn told_to(self, listener: Option<Listener>) -> Replay {
        let replay = Replay { untold: listener.is_some() && self.session.is_some(), listener, ..self };
        replay.events.iter().for_each(|next| replay.tell_next(*next));
        replay
    }

    /// So many events came before.
    pub(super) fn counted(&mut self, events: Option<u64>) {
        self.events = events;
        events.iter().for_each(|next| self.tell_next(*next));
    }

    /// What came before is lost, and what follows is counted from 0.
    pub(super) fn begins_anew(&self) {
        self.listener.iter().for_each(|listener| _ = listener.to.publish(Publish::forgotten(&listener.rm)));
    }

    /// What partitions use by now is told.
    pub(super) fn stands(&self, at: Nanos) {
        let Some((listener, next)) = self.listener.as_ref().zip(self.events) else { return };
        let partitions = self.session.iter().flat_map(|session| session.partitions.values());
        let used = partitions.flat_map(|(_, replica)| used(&replica.partition)).collect();
        listener.to.stands(Stands { rm: listener.rm.clone(), next, at, used });
    }

    fn tell_next(&self, next: u64) {
        self.listener.iter().for_each(|listener| listener.tell(next, Vec::new()));
    }

    /// A record was applied.
    pub(super) fn count(&mut self) {
        let Some(first) = self.events else { return };
        let events = self.effects.iter().filter_map(|effect| match effect {
            Effect::Event(event) => Some(event),
            _ => None,
        });
        let count = match &self.listener {
            Some(listener) => {
                let events: Vec<Event> = events.cloned().collect();
                let count = events.len() as u64;
                if count > 0 {
                    listener.tell(first, events);
                }
                count
            }
            None => events.count() as u64,
        };
        self.events = Some(first + count);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use crate::{
        actors::{
            partition::recorder::Recorder,
            rm::{
                log::LogSync,
                record::{self, Ended, Registered, Taken, kind},
            },
        },
        config,
        domain::{
            command::{Command, NodeAction, NodeItem},
            effect::events_of,
            log::Beginning,
            types::Nanos,
        },
        messages::{recorded::Outlet, rm::Predicates},
        store::log::Record,
    };

    const CONFIG: &str = "partitions: [{name: default, queues: [{name: root}]}]";

    /// What is heard of events: the first id of each batch, the greatest number for none, and how many there are.
    fn listener() -> (Listener, impl Fn() -> Vec<(u64, u64)>) {
        let all = Arc::new(Mutex::new(Vec::new()));
        let to = all.clone();
        let publisher = Publisher::new(move |events: Publish| {
            to.lock().unwrap().push((events.first.unwrap_or(u64::MAX), events.events.len() as u64));
            0
        });
        (Listener { rm: "rm-1".into(), to: publisher }, move || std::mem::take(&mut *all.lock().unwrap()))
    }

    fn registered(events: Option<u64>) -> Vec<u8> {
        record::json(&Registered {
            epoch: 1,
            at: 1,
            version: String::new(),
            policy_group: "".into(),
            build_info: Default::default(),
            config: CONFIG.into(),
            default_config: false,
            shared: false,
            extra: Default::default(),
            predicates: 0,
            state_dump: false,
            tenant: false,
            sync: LogSync::Batch,
            events,
            fixed: None,
            repeatable: Vec::new(),
        })
    }

    #[test]
    fn events_are_counted_over_records_and_sessions_as_they_were_when_these_were_made() {
        let conf = config::load(CONFIG).unwrap().partitions[0].clone();
        let at = Nanos::from_secs(1);
        let beginning = Beginning { rm: "rm-1".into(), internal: "[rm-1]default".into(), conf, at };
        let mut effects = Vec::new();
        let mut recorder = Recorder::begin(0, Outlet::new(Publisher::new(|_| 0)), &beginning);
        let mut partition = beginning.partition(&mut effects);
        let (mut records, mut counts) = (Vec::new(), Vec::new());
        for nth in 0..3_i64 {
            let item = NodeItem {
                id: format!("n{nth}").into(),
                action: NodeAction::Create,
                capacity: None,
                attributes: Default::default(),
            };
            let (command, now) = (Command::Nodes(vec![item]), Nanos::from_secs(2 + nth));
            recorder.apply(&command, now);
            partition.apply(command, now, &mut effects);
            let entry = recorder.entry(&effects);
            assert!(entry.events > 0 && entry.events == events_of(&effects));
            counts.push(entry.events);
            effects.clear();
            let mut payload = Vec::new();
            record::steps(&entry, Predicates::Off, None, &Taken::default(), &mut payload);
            records.push(payload);
        }
        let (listener, heard) = listener();
        let mut replay = Replay::default().told_to(Some(listener));
        let mut index = 0;
        let mut take = |replay: &mut Replay, kind, payload: &[u8]| {
            index += 1;
            replay.take(&Record { kind, index, at: Nanos::from_secs(9), payload }).unwrap();
        };
        // A release that did not count them began it.
        take(&mut replay, kind::REGISTERED, &registered(None));
        take(&mut replay, kind::PARTITION, &records[0]);
        assert_eq!((heard(), replay.events), (vec![], None));
        take(&mut replay, kind::COUNTED, &record::json(&0_u64));
        take(&mut replay, kind::PARTITION, &records[1]);
        take(&mut replay, kind::PARTITION, &records[2]);
        let all = counts[1] + counts[2];
        assert_eq!(heard(), [(0, 0), (0, counts[1]), (counts[1], counts[2])]);
        let ended = Ended { epoch: 1, why: "".into(), lost: false, events: Some(all), repeatable: Vec::new() };
        take(&mut replay, kind::ENDED, &record::json(&ended));
        take(&mut replay, kind::REGISTERED, &registered(Some(all)));
        take(&mut replay, kind::PARTITION, &records[0]);
        assert_eq!(heard(), [(all, 0), (all, 0), (all, counts[0])]);
        assert_eq!(replay.events, Some(all + counts[0]));
        // The log was lost: the next begins with 0, whatever there was.
        let lost = Ended { epoch: 2, why: "".into(), lost: true, events: Some(0), repeatable: Vec::new() };
        take(&mut replay, kind::ENDED, &record::json(&lost));
        assert_eq!(heard(), [(u64::MAX, 0), (0, 0)]);
    }
}
