//! `callboard flight serve`: the page, REST and explain as they were at a moment, read only.
//!
//! Partitions of that moment are started with clocks that stand still: they decide nothing, and nothing falls due. Another moment is
//! other partitions in the directory that readers look into.

use std::{
    collections::BTreeMap,
    io::{self, Write as _},
    process::ExitCode,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use actix::prelude::*;
use actix_web::web::{Data, ServiceConfig};
use anyhow::Context as _;
use tokio::{sync::Mutex as Turns, task::spawn_blocking};

use super::{
    ServeArgs,
    player::{Moment, Player},
    source,
};
use crate::domain::words::plural;
use crate::{
    actors::{
        directory::{Asked, Listing, PartitionEntry, RmEntry},
        event::EventActor,
        journal::Journals,
        partition::{Links, PartitionActor},
        rm::{RmSettings, replay::Replayed},
        topology::{Topology, names},
    },
    cli::{
        interrupted, out,
        process::cores,
        serve::{access::Access, log},
    },
    config::{self, LoadedConfig},
    domain::{journal, types::Nanos},
    http::{
        api,
        doors::Doors,
        past::{Moved, Past, Point, Shown, Wanted},
        server::{self as http, Listen},
        ws_v1::{self, RestState, time_text, watch},
    },
    messages::{
        budget::Budget,
        clock::Clock,
        event::Publish,
        partition::{GetSnapshot, PartitionSetup, StopPartition},
        recorded::{Outlet, Recorded, Replica},
        rm::Deliver,
    },
    metrics::Metrics,
};

/// How often it says how far opening is.
const TELL: Duration = Duration::from_secs(2);
/// A connection whose first request has not come by then is closed.
const PATIENCE: Duration = Duration::from_secs(10);

/// Runs it until SIGTERM or SIGINT.
pub fn run(args: ServeArgs) -> anyhow::Result<ExitCode> {
    log::start(log::Format::Text);
    actix::System::new().block_on(serve(args))?;
    let _ = io::stdout().flush();
    // Arbiters hold nothing that has to be written: they end with the process.
    std::process::exit(0)
}

async fn serve(args: ServeArgs) -> anyhow::Result<()> {
    let access = Access::open(&args.access, &[("--http", Some(args.http))])?;
    access.follow_issuer().await;
    let flight = args.source.open()?;
    let (began, records) = (Instant::now(), flight.len());
    let player = spawn_blocking(move || {
        let mut told = Instant::now();
        Player::open(flight, |played| {
            if told.elapsed() >= TELL {
                told = Instant::now();
                out::note(format_args!("{played} of {} played", plural(records, "record")));
            }
        })
    });
    let player = player.await?.map_err(anyhow::Error::msg)?;
    if let Some(ends) = &player.ends {
        out::note(format_args!("callboard: the flight ends early: {ends}"));
    }
    let place = args.at.map_or(Ok(player.last), |at| at.place(&player.flight)).map_err(anyhow::Error::msg)?;

    let pool: Vec<_> = (0..cores().saturating_sub(1).max(1)).map(|_| Arbiter::new().handle()).collect();
    let control = Arbiter::new().handle();
    let events = EventActor::start_in_arbiter(&control, |_| EventActor::default());
    let config = config::load("").context("built-in configuration")?;
    let metrics = Arc::new(Metrics::new()?);
    let refused = metrics.refused();
    let topology = Topology::new(pool.clone(), Topology::launcher(), events, config);
    let journals = Arc::new(Journals::new(control, None, journal::Settings::default()));
    let rest = Arc::new(RestState::new(topology.clone(), metrics));
    let sink = Sink::start_in_arbiter(&pool[0], |_| Sink);
    let stage = Stage {
        player: Arc::new(player),
        topology: topology.clone(),
        rest: rest.clone(),
        pool,
        sink,
        turns: Turns::default(),
        state: Mutex::default(),
    };
    let stage = Arc::new(stage);
    stage.show(place).await.map_err(anyhow::Error::msg)?;
    // No samples are taken: they would be of one moment at another.
    watch::check(&rest).await;

    let doors = Arc::new(Doors {
        topology: topology.clone(),
        tokens: access.tokens.clone(),
        origins: access.origins(args.http),
        refused,
        audit: Arc::default(),
        rates: Arc::default(),
        forward: None,
    });
    let (data, others) = (api::data(&topology, journals), ws_v1::services(rest));
    let shown: Data<dyn Past> = Data::from(stage.clone() as Arc<dyn Past>);
    let services = move |config: &mut ServiceConfig| {
        config.app_data(shown.clone());
        data(config);
        others(config);
    };
    let listen = Listen { addr: args.http, workers: cores(), patience: PATIENCE, tls: access.tls(&[b"http/1.1"])? };
    let (server, bound) = http::bind(listen, doors, services)
        .with_context(|| format!("cannot listen on {} for HTTP; choose another with --http", args.http))?;
    let handle = server.handle();
    actix::spawn(server);
    let now = stage.shown();
    out::note(format_args!(
        "{}: {} to {}; shown is {} (after record {}), opened in {:.1?}",
        now.rm,
        now.first.time,
        now.last.time,
        now.moment.time,
        now.moment.index,
        began.elapsed()
    ));
    // Before anybody is told that there is something to end.
    let interrupted = interrupted();
    out::print(format!("callboard ready http={}{bound} grpc=off data=flight\n", access.scheme()))?;
    io::stdout().flush()?;
    interrupted.await;
    topology.close();
    handle.stop(false).await;
    Ok(())
}

/// Takes what partitions send, and forgets it.
struct Sink;

impl Actor for Sink {
    type Context = Context<Self>;
}

impl Handler<Deliver> for Sink {
    type Result = ();

    fn handle(&mut self, _msg: Deliver, _ctx: &mut Self::Context) {}
}

impl Handler<Publish> for Sink {
    type Result = ();

    fn handle(&mut self, _msg: Publish, _ctx: &mut Self::Context) {}
}

/// What is shown, and how it is changed.
struct Stage {
    player: Arc<Player>,
    topology: Arc<Topology>,
    rest: Arc<RestState>,
    pool: Vec<ArbiterHandle>,
    sink: Addr<Sink>,
    /// One moment is set after the other.
    turns: Turns<u64>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    place: usize,
    partitions: Vec<Addr<PartitionActor>>,
    /// The configuration that was read last.
    config: Option<Arc<LoadedConfig>>,
}

impl Stage {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn point(&self, place: usize) -> Point {
        let (index, at) = self.player.flight.moment(place);
        Point { index, time: time_text(at) }
    }

    /// Shows the moment after so many records.
    async fn show(&self, place: usize) -> Result<(), String> {
        let mut epoch = self.turns.lock().await;
        *epoch += 1;
        let player = self.player.clone();
        let after = spawn_blocking(move || player.after(place)).await;
        let Moment { place, replay, events } = after.map_err(|error| error.to_string())?;
        let at = self.player.flight.moment(place).1;
        let (listing, partitions) = match replay.session {
            Some(session) => self.start(*session, at, *epoch).await?,
            None => (Listing::default(), Vec::new()),
        };
        ws_v1::state::stand_still(at);
        self.topology.events.send(events).await.map_err(|error| error.to_string())?;
        self.topology.directory.set(listing);
        let before = {
            let mut state = self.state();
            state.place = place;
            std::mem::replace(&mut state.partitions, partitions)
        };
        for partition in before {
            partition.do_send(StopPartition);
        }
        let rest = self.rest.clone();
        actix_web::rt::spawn(async move { watch::check(&rest).await });
        Ok(())
    }

    /// Starts the partitions of a session.
    async fn start(
        &self,
        session: Replayed,
        at: Nanos,
        epoch: u64,
    ) -> Result<(Listing, Vec<Addr<PartitionActor>>), String> {
        let Replayed { registered, partitions, .. } = session;
        let known = self.state().config.clone().filter(|config| config.text == registered.config);
        let config = match known {
            Some(config) => config,
            None => {
                let text = registered.config.clone();
                let read = spawn_blocking(move || config::load(&text)).await.map_err(|error| error.to_string())?;
                Arc::new(read.map_err(|error| format!("its configuration is refused: {error}"))?)
            }
        };
        self.state().config = Some(config.clone());
        let settings = RmSettings::of(&registered)?;
        let rm: Arc<str> = self.player.flight.title.rm.as_str().into();
        let mut listing = Listing::default();
        listing.rms.push(RmEntry {
            id: rm.clone(),
            build_info: registered.build_info,
            config,
            default_config: registered.default_config,
            extra: registered.extra,
            at_registration: BTreeMap::new(),
        });
        let mut started = Vec::new();
        for (place, (instance, (internal, replica))) in partitions.into_iter().enumerate() {
            let conf = replica.partition.conf.clone();
            let setup = PartitionSetup {
                clock: Clock::default(),
                rm: rm.clone(),
                epoch,
                internal: internal.clone(),
                conf: conf.clone(),
                budget: Budget::new(1, 1),
                patience: settings.patience,
                callbacks: self.sink.clone().recipient(),
                events: self.sink.clone().recipient().into(),
                recorded: Some(recorded(instance, replica, at, &self.sink)),
            };
            let addr = PartitionActor::start_on(&self.pool[place % self.pool.len()], setup, Links::default());
            // It is there when it answers.
            addr.send(GetSnapshot).await.map_err(|error| error.to_string())?;
            let shown = conf.name.clone();
            started.push(addr.clone());
            listing.partitions.push(PartitionEntry {
                rm: rm.clone(),
                internal,
                addr: Asked::new(names::told(&shown), addr),
                shown,
                followed: false,
            });
        }
        Ok((listing, started))
    }
}

fn recorded(instance: u32, replica: Replica, at: Nanos, sink: &Addr<Sink>) -> Recorded {
    let outlet = Outlet::new(sink.clone().recipient().into());
    Recorded { instance, outlet, replica: Some(Box::new(replica)), still: Some(at), shared: false, standing: None }
}

impl Past for Stage {
    fn shown(&self) -> Shown {
        let player = &self.player;
        Shown {
            rm: player.flight.title.rm.clone(),
            redacted: player.flight.about.redacted,
            first: self.point(player.first),
            last: self.point(player.last),
            moment: self.point(self.state().place),
            differs: player.differs.and_then(|place| Some(player.flight.record(place)?.index)),
            ends: player.ends.clone(),
        }
    }

    fn go_to(&self, wanted: Wanted) -> Moved<'_> {
        Box::pin(async move {
            let flight = &self.player.flight;
            let place = match (wanted.index, &wanted.time) {
                (Some(index), _) => flight.up_to_index(index),
                (None, Some(time)) => flight.up_to_time(source::time(time)?),
                (None, None) => self.player.last,
            };
            self.show(place).await?;
            Ok(self.shown())
        })
    }
}
