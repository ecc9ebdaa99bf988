//! `EventActor`: numbers events, keeps the ring, feeds the durable store, streams and shims. Nobody who publishes ever
//! waits for a reader or for the disk.

mod backlog;
mod durable;
#[cfg(test)]
mod durable_tests;
mod intake;
mod log;
mod numbers;
mod ring;
mod shims;
mod streams;
#[cfg(test)]
pub mod testing;
#[cfg(test)]
mod tests;
mod usage;
#[cfg(test)]
mod usage_tests;

use std::{
    path::Path,
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use actix::prelude::*;

use self::{
    durable::{Done, Durable, Job},
    numbers::Numbers,
    ring::Ring,
    shims::Shims,
    streams::{StreamLimits, Streams},
    usage::UsageGaps,
};
use crate::{
    domain::{
        event::Event,
        event_settings::EventSettings,
        resources::{Resource, Types},
        types::Nanos,
    },
    messages::{
        clock::nanos,
        event::{
            ApplyEventSettings, CheckStreams, EventCounters, EventPage, EventStatus, FindNumber, GetEventStatus,
            GetEvents, GetStreams, Intake, Numbered, OpenStream, OpenedStream, Publish, ShowEvents, StreamView,
            TooManyStreams,
        },
    },
    store::events::{Clock, OpenError},
};

/// How often shims are sent what was collected for them (EVT-063, EVT-064).
const COLLECT: Duration = Duration::from_secs(2);
/// How often streams are looked at whose client does not read.
const LOOK: Duration = Duration::from_secs(1);

/// See the module.
pub struct EventActor {
    instance: Arc<str>,
    settings: EventSettings,
    /// Ids of this process begin with 0 here (EVT-070), while those of the log go on over a restart.
    base: u64,
    ring: Ring,
    durable: Option<Durable>,
    /// The server stops, and nothing is recorded any more.
    stopping: bool,
    gaps: UsageGaps,
    streams: Streams,
    shims: Shims,
    /// Where events of resource managers are.
    numbers: Numbers,
    /// What partitions publish.
    intake: Option<Arc<Intake>>,
    counters: Arc<EventCounters>,
}

impl Default for EventActor {
    fn default() -> EventActor {
        EventActor::new(EventSettings::default())
    }
}

impl EventActor {
    /// An event system without history, which keeps its events in memory only (`--ephemeral`).
    pub fn new(settings: EventSettings) -> EventActor {
        EventActor::with(settings, None, 0, Arc::default(), Numbers::default())
    }

    /// An event system with a durable store in a directory of its own, and maybe a file beside it that outlives it; an operator
    /// vouches for the clock or not (`--trust-clock`). Blocks while the store is opened.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub fn durable(
        settings: EventSettings,
        place: (&Path, Option<&Path>),
        trusted: bool,
    ) -> Result<EventActor, OpenError> {
        let counters = Arc::<EventCounters>::default();
        let clock = Clock { now: now(), trusted };
        let (durable, next, rows) = Durable::open(place, settings.store, counters.clone(), clock)?;
        let numbers = Numbers::of(rows, next);
        Ok(EventActor::with(settings, Some(durable), next, counters, numbers))
    }

    /// One for the events of logs that several servers have: what a server reads of them again is not taken again.
    #[must_use]
    pub fn of_logs(self) -> EventActor {
        EventActor { numbers: self.numbers.once(), ..self }
    }

    fn with(
        settings: EventSettings,
        durable: Option<Durable>,
        base: u64,
        counters: Arc<EventCounters>,
        numbers: Numbers,
    ) -> EventActor {
        let mut ring = Ring::new(base, settings.ring_capacity);
        if durable.is_none() {
            ring.keep_usage();
        }
        EventActor {
            instance: uuid::Uuid::new_v4().to_string().into(),
            base,
            ring,
            gaps: UsageGaps::new(settings.tracking, now()),
            settings,
            durable,
            stopping: false,
            streams: Streams::default(),
            shims: Shims::default(),
            numbers,
            intake: None,
            counters,
        }
    }

    /// Counters, for metrics.
    pub fn counters(&self) -> Arc<EventCounters> {
        self.counters.clone()
    }

    fn check_streams(&mut self, host: std::net::IpAddr) -> Result<(), TooManyStreams> {
        let limits = StreamLimits { total: self.settings.max_streams, per_host: self.settings.max_streams_per_host };
        self.streams.check(host, limits)
    }

    /// Runs a job of the durable store where it may block.
    fn run(&self, job: Option<Job>, ctx: &mut Context<EventActor>) {
        let Some(job) = job else { return };
        // As a message: a future of the actor is not looked at while events come without a pause.
        let actor = ctx.address();
        actix::spawn(async move {
            let done = tokio::task::spawn_blocking(|| job.run()).await.ok();
            actor.do_send(JobDone(done));
        });
    }

    /// Flushes the durable store now and then.
    fn flush_later(&self, ctx: &mut Context<EventActor>) {
        let Some(durable) = &self.durable else { return };
        ctx.run_later(durable.period(), |actor, ctx| {
            let next = actor.ring.next();
            let job = actor.durable.as_mut().and_then(|durable| durable.flush(next, now()));
            actor.run(job, ctx);
            actor.flush_later(ctx);
        });
    }
}

impl Actor for EventActor {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        ctx.run_interval(COLLECT, |actor, _| {
            actor.hand_over();
            let rows = actor.numbers.prune(actor.lowest());
            if let (Some(rows), Some(durable)) = (rows, &mut actor.durable) {
                durable.note_instead(rows);
            }
        });
        self.flush_later(ctx);
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

    fn handle(&mut self, msg: Publish, ctx: &mut Self::Context) {
        self.take_in(ctx);
        self.record(msg, ctx);
    }
}

impl Handler<FindNumber> for EventActor {
    type Result = Option<Numbered>;

    fn handle(&mut self, FindNumber { rm, look }: FindNumber, ctx: &mut Self::Context) -> Self::Result {
        self.take_in(ctx);
        self.numbers.find(&rm, look, self.lowest())
    }
}

impl Handler<ShowEvents> for EventActor {
    type Result = ();

    fn handle(&mut self, msg: ShowEvents, _ctx: &mut Self::Context) {
        self.ring = Ring::new(msg.first, self.settings.ring_capacity);
        self.ring.keep_usage();
        self.gaps = UsageGaps::new(true, now());
        if let Some(before) = self.ring.usage_before() {
            before.pass(&usage::begin(msg.used, now()));
        }
        self.ring.push(msg.events);
    }
}

impl EventActor {
    // EVT-061: for the shim, into the ring and the store, to the streams.
    fn record(&mut self, msg: Publish, ctx: &mut Context<Self>) {
        let Publish { rm, epoch, events, traced, first } = msg;
        if events.is_empty() {
            if first.is_none() {
                self.gone(&rm);
            }
            return self.numbers.stands(&rm, first);
        }
        let (first, mut events) = self.numbers.new_of(&rm, first, events);
        let (count, at) = (events.len(), self.ring.next());
        if count == 0 {
            return;
        }
        if !self.settings.tracking || self.stopping {
            self.gaps.pass(&events);
            self.numbers.missed(&rm, first, count as u64);
            return;
        }
        own_names(&mut events);
        self.shims.store(&rm, epoch, &events, &self.counters);
        EventCounters::add(&self.counters.processed, count);
        for (mut span, places) in traced {
            // As `/api/v1/events` numbers them.
            span.numbers("callboard.event.ids", places.into_iter().map(|place| at + place).collect());
        }
        let added = self.ring.push(events);
        self.numbers.note(&rm, first, count as u64, at);
        let rows = self.numbers.unwritten();
        if let Some(durable) = &mut self.durable {
            durable.note(rows);
            let lost = EventCounters::get(&self.counters.store_lost);
            let job = durable.push(&added, now());
            if EventCounters::get(&self.counters.store_lost) > lost {
                self.numbers.lost();
            }
            self.run(job, ctx);
        }
        if !self.streams.is_empty() {
            let cut = self.streams.publish(&added);
            EventCounters::add(&self.counters.streams_cut, cut);
            first.iter().for_each(|first| self.streams.publish_of(&rm, *first, &added));
        }
    }

    /// Shims get what was put aside for them.
    fn hand_over(&mut self) {
        self.shims.collect(self.settings.request_capacity, &self.counters);
    }

    /// The lowest id that is kept.
    fn lowest(&self) -> u64 {
        self.durable.as_ref().map_or(self.ring.lowest(), Durable::lowest)
    }
}

/// Gives events resource types of their own: they are kept long after what they tell of has gone, and must not keep its types among the
/// thousand that the resource manager may use.
fn own_names(events: &mut [Event]) {
    let names = Types::default();
    // Those that follow each other often share one.
    let mut last: Option<(Arc<Resource>, Arc<Resource>)> = None;
    for resource in events.iter_mut().filter_map(|event| event.resource.as_mut()) {
        match &last {
            Some((used, told)) if Arc::ptr_eq(used, resource) => *resource = told.clone(),
            _ => {
                if let Some(told) = resource.named_by(&names).map(Arc::new) {
                    last = Some((std::mem::replace(resource, told.clone()), told));
                }
            }
        }
    }
}

/// A job of the durable store ended, or panicked.
#[derive(Message)]
#[rtype(result = "()")]
struct JobDone(Option<Done>);

impl Handler<JobDone> for EventActor {
    type Result = ();

    fn handle(&mut self, JobDone(done): JobDone, ctx: &mut Self::Context) {
        let next = self.ring.next();
        let jobs = self.durable.as_mut().map_or_else(Vec::new, |durable| durable.done(done, next, now()));
        for job in jobs {
            self.run(Some(job), ctx);
        }
    }
}

impl Handler<ApplyEventSettings> for EventActor {
    type Result = ();

    fn handle(&mut self, ApplyEventSettings(settings): ApplyEventSettings, ctx: &mut Self::Context) {
        self.take_in(ctx);
        self.apply(settings);
    }
}

impl EventActor {
    fn apply(&mut self, settings: EventSettings) {
        if settings != self.settings {
            tracing::info!(?settings, "event settings changed");
        }
        if settings.tracking != self.settings.tracking
            && let Some(point) = self.gaps.switch(settings.tracking, now())
        {
            self.point(point);
        }
        self.ring.resize(settings.ring_capacity);
        if let Some(durable) = &mut self.durable {
            durable.apply(settings.store);
        }
        self.settings = settings;
    }
}

impl Handler<GetEvents> for EventActor {
    type Result = MessageResult<GetEvents>;

    fn handle(&mut self, msg: GetEvents, ctx: &mut Self::Context) -> Self::Result {
        self.take_in(ctx);
        let most = self.settings.response_size;
        let count = msg.count.unwrap_or(most).min(most);
        let (lowest, next) = (self.ring.lowest() - self.base, self.ring.next() - self.base);
        MessageResult(EventPage {
            instance: self.instance.clone(),
            lowest: if lowest == next { 0 } else { lowest },
            highest: next.saturating_sub(1),
            slices: match msg.start {
                None => self.ring.range(self.ring.lowest(), count),
                Some(start) => self.base.checked_add(start).map_or_else(Vec::new, |from| self.ring.range(from, count)),
            },
        })
    }
}

impl Handler<OpenStream> for EventActor {
    type Result = Result<OpenedStream, TooManyStreams>;

    fn handle(&mut self, msg: OpenStream, ctx: &mut Self::Context) -> Self::Result {
        self.take_in(ctx);
        self.check_streams(msg.host)?;
        Ok(OpenedStream {
            instance: self.instance.clone(),
            base: self.base,
            history: self.ring.newest(msg.count),
            reader: self.streams.open(msg.host, msg.name, now()),
        })
    }
}

impl Handler<CheckStreams> for EventActor {
    type Result = Result<(), TooManyStreams>;

    fn handle(&mut self, msg: CheckStreams, ctx: &mut Self::Context) -> Self::Result {
        self.take_in(ctx);
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

    fn handle(&mut self, _msg: GetEventStatus, ctx: &mut Self::Context) -> Self::Result {
        self.take_in(ctx);
        MessageResult(EventStatus {
            tracking: self.settings.tracking,
            lowest: self.ring.lowest(),
            next: self.ring.next(),
            streams: self.streams.len(),
            store: self.durable.as_ref().map(Durable::status),
            counters: self.counters.clone(),
        })
    }
}

fn now() -> Nanos {
    nanos(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default())
}
