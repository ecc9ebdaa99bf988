//! Events by the ids that the logs of resource managers give them: where they go, and where they are read.

use std::{collections::BTreeMap, sync::Arc};

use actix::Addr;

use super::{Topology, lock};
use crate::{
    actors::event::EventActor,
    config::extra::Settings,
    messages::event::{ApplyEventSettings, Intake, Publish, Publisher, ToEvents},
};

/// The event system of the logs that several servers have, beside that of what happens at this one.
pub(super) struct Apart {
    events: Addr<EventActor>,
    intake: Arc<Intake>,
}

impl Topology {
    /// Logs are shared with other servers: their events are kept here, whoever leads.
    pub fn keep_events_of_logs(&self, events: Addr<EventActor>) {
        let intake = Intake::new(events.clone().recipient());
        let listening = intake.clone();
        let apply = move |extra: &BTreeMap<String, String>| {
            listening.put(ToEvents::Settings(ApplyEventSettings(Settings::read(extra).event)));
        };
        apply(&self.process.get());
        self.process.listen(apply);
        // There is one place at which a server is wired.
        let _ = self.apart.set(Apart { events, intake });
    }

    /// Where the events of resource managers are read by the ids of their logs.
    pub fn events_of_logs(&self) -> &Addr<EventActor> {
        self.apart.get().map_or(&self.events, |apart| &apart.events)
    }

    /// Events of logs are kept apart from what happens at this server: others write them too.
    pub fn keeps_logs(&self) -> bool {
        self.apart.get().is_some()
    }

    /// Takes the events of a log that another server writes, and how far a log is.
    pub fn numbering(&self) -> Publisher {
        self.apart.get().map_or(&self.intake, |apart| &apart.intake).publisher()
    }

    /// The log of a resource manager is gone, or was set back.
    pub fn begins_anew(&self, rm: &str) {
        self.numbering().publish(Publish::forgotten(&rm.into()));
    }

    /// All resource managers that are known, whichever server leads them.
    pub fn heard_of(&self) -> Vec<Arc<str>> {
        let all = lock(&self.registry).all().into_iter();
        all.filter(|handle| !handle.is_unheard()).map(|handle| handle.id.clone()).collect()
    }

    /// How partitions publish.
    pub(in crate::actors) fn publisher(&self) -> Publisher {
        let Some(Apart { intake: of_logs, .. }) = self.apart.get() else { return self.intake.publisher() };
        let (own, of_logs) = (self.intake.clone(), of_logs.clone());
        Publisher::new(move |events| {
            if let Some(first) = events.first {
                of_logs.put(ToEvents::Publish(Publish::numbered(&events.rm, first, events.events.clone())));
            }
            own.put(ToEvents::Publish(events))
        })
    }
}
