//! `EventActor`: numbers events, keeps the ring, feeds streams and shims. Nobody who publishes ever waits for a reader.

mod ring;
mod shims;
mod streams;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

use std::{
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use actix::prelude::*;

use self::{
    ring::Ring,
    shims::Shims,
    streams::{StreamLimits, Streams},
};
use crate::{
    domain::types::Nanos,
    messages::event::{
        ApplyEventSettings, CheckStreams, EventCounters, EventPage, EventSettings, EventStatus, GetEventStatus,
        GetEvents, GetStreams, OpenStream, OpenedStream, Publish, ShimSubscribe, ShimUnsubscribe, StreamView,
        TooManyStreams,
    },
};

/// How often shims are sent what was collected for them (EVT-063, EVT-064).
const COLLECT: Duration = Duration::from_secs(2);
/// How often streams are looked at whose client does not read.
const LOOK: Duration = Duration::from_secs(1);

/// See the module.
pub struct EventActor {
    instance: Arc<str>,
    settings: EventSettings,
    ring: Ring,
    streams: Streams,
    shims: Shims,
    counters: Arc<EventCounters>,
}

impl Default for EventActor {
    fn default() -> EventActor {
        EventActor::new(EventSettings::default())
    }
}

impl EventActor {
    /// An event system without history, which keeps its events in memory only.
    pub fn new(settings: EventSettings) -> EventActor {
        EventActor {
            instance: uuid::Uuid::new_v4().to_string().into(),
            ring: Ring::new(0, settings.ring_capacity),
            settings,
            streams: Streams::default(),
            shims: Shims::default(),
            counters: Arc::default(),
        }
    }

    /// Counters, for metrics.
    pub fn counters(&self) -> Arc<EventCounters> {
        self.counters.clone()
    }

    fn limits(&self) -> StreamLimits {
        StreamLimits { total: self.settings.max_streams, per_host: self.settings.max_streams_per_host }
    }

    fn check_streams(&mut self, host: std::net::IpAddr) -> Result<(), TooManyStreams> {
        let checked = self.streams.check(host, self.limits());
        if checked.is_err() {
            EventCounters::add(&self.counters.streams_refused, 1);
        }
        checked
    }
}

impl Actor for EventActor {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        ctx.run_interval(COLLECT, |actor, _| actor.shims.collect(actor.settings.request_capacity, &actor.counters));
        ctx.run_interval(LOOK, |actor, _| {
            let cut = actor.streams.check_progress();
            EventCounters::add(&actor.counters.streams_cut, cut);
        });
    }

    fn stopped(&mut self, _ctx: &mut Self::Context) {
        self.streams.stop();
    }
}

impl Handler<Publish> for EventActor {
    type Result = ();

    // EVT-061: for the shim, into the ring, to the streams.
    fn handle(&mut self, msg: Publish, _ctx: &mut Self::Context) {
        let count = msg.events.len();
        if !self.settings.tracking {
            return EventCounters::add(&self.counters.discarded, count);
        }
        self.shims.store(&msg.rm, msg.epoch, &msg.events, &self.counters);
        EventCounters::add(&self.counters.processed, count);
        let added = self.ring.push(msg.events);
        if !self.streams.is_empty() {
            let cut = self.streams.publish(&added);
            EventCounters::add(&self.counters.streams_cut, cut);
        }
    }
}

impl Handler<ShimSubscribe> for EventActor {
    type Result = ();

    fn handle(&mut self, msg: ShimSubscribe, _ctx: &mut Self::Context) {
        self.shims.subscribe(msg, self.settings.request_capacity);
    }
}

impl Handler<ShimUnsubscribe> for EventActor {
    type Result = ();

    fn handle(&mut self, msg: ShimUnsubscribe, _ctx: &mut Self::Context) {
        self.shims.unsubscribe(&msg);
    }
}

impl Handler<ApplyEventSettings> for EventActor {
    type Result = ();

    fn handle(&mut self, ApplyEventSettings(settings): ApplyEventSettings, _ctx: &mut Self::Context) {
        if settings != self.settings {
            tracing::info!(?settings, "event settings changed");
        }
        self.ring.resize(settings.ring_capacity);
        self.settings = settings;
    }
}

impl Handler<GetEvents> for EventActor {
    type Result = MessageResult<GetEvents>;

    fn handle(&mut self, msg: GetEvents, _ctx: &mut Self::Context) -> Self::Result {
        let most = self.settings.response_size;
        let count = msg.count.unwrap_or(most).min(most);
        MessageResult(EventPage {
            instance: self.instance.clone(),
            lowest: if self.ring.lowest() == self.ring.next() { 0 } else { self.ring.lowest() },
            highest: self.ring.next().saturating_sub(1),
            slices: self.ring.range(msg.start, count),
        })
    }
}

impl Handler<OpenStream> for EventActor {
    type Result = Result<OpenedStream, TooManyStreams>;

    fn handle(&mut self, msg: OpenStream, _ctx: &mut Self::Context) -> Self::Result {
        self.check_streams(msg.host)?;
        EventCounters::add(&self.counters.streams_opened, 1);
        Ok(OpenedStream {
            instance: self.instance.clone(),
            history: self.ring.newest(msg.count),
            reader: self.streams.open(msg.host, msg.name, now()),
        })
    }
}

impl Handler<CheckStreams> for EventActor {
    type Result = Result<(), TooManyStreams>;

    fn handle(&mut self, msg: CheckStreams, _ctx: &mut Self::Context) -> Self::Result {
        self.check_streams(msg.host)
    }
}

impl Handler<GetStreams> for EventActor {
    type Result = Vec<StreamView>;

    fn handle(&mut self, _msg: GetStreams, _ctx: &mut Self::Context) -> Self::Result {
        self.streams.views()
    }
}

impl Handler<GetEventStatus> for EventActor {
    type Result = MessageResult<GetEventStatus>;

    fn handle(&mut self, _msg: GetEventStatus, _ctx: &mut Self::Context) -> Self::Result {
        MessageResult(EventStatus {
            tracking: self.settings.tracking,
            lowest: self.ring.lowest(),
            next: self.ring.next(),
            capacity: self.ring.capacity(),
            streams: self.streams.len(),
            shims: self.shims.len(),
        })
    }
}

fn now() -> Nanos {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Nanos(i64::try_from(since.as_nanos()).unwrap_or(i64::MAX))
}
