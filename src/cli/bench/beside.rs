//! What goes on beside a shape: readers of nodes, events, metrics and dumps, and another resource manager that comes and goes.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};
use hyper::{Method, StatusCode};
use serde::{Deserialize, Serialize};
use tokio::{
    sync::Mutex,
    task::JoinSet,
    time::{MissedTickBehavior, interval},
};

use super::{
    doors,
    drive::{CHUNK, Target as _},
    measure::Latency,
    shapes::{Beside, Shape, ShapeId},
    workload::{PARTITION, Workload},
};
use crate::cli::client::{DoorKind, net::Client, trust::Trust};

/// How often the nodes are read.
const NODES: Duration = Duration::from_millis(50);
/// How often metrics are scraped.
const SCRAPES: Duration = Duration::from_secs(1);
/// Streams of events.
const STREAMS: usize = 100;
/// What the server needs for them; one that is begun anew may meet the end of the one before.
pub const STREAMS_ALLOWED: [&str; 4] = ["--set", "event.maxStreams=200", "--set", "event.maxStreamsPerHost=200"];
/// Applications of the resource manager that ends.
const APPS: usize = 10_000;
/// Resource managers that came and went in this process.
static GUESTS: AtomicU64 = AtomicU64::new(0);

/// What was read beside a shape.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Read {
    /// What was read, as the table names it.
    pub what: String,
    /// Whole answers; of streams lines; of the resource manager its ends.
    pub answers: u64,
    /// How long an answer took until its last byte; of the resource manager, how long its end.
    pub latency_ms: Latency,
    /// Streams that had fallen behind, and were begun anew where the events were.
    pub begun_anew: u64,
}

/// Everything that goes on. It ends when this is dropped.
pub struct Load {
    tasks: JoinSet<Result<()>>,
    counts: Vec<(Beside, Arc<Count>)>,
    /// The session of the resource manager that comes and goes, and who ends it.
    guest: Option<(Client, String)>,
}

#[derive(Default)]
struct Count {
    answers: AtomicU64,
    anew: AtomicU64,
    nanos: Mutex<Vec<u64>>,
}

impl Count {
    async fn answered(&self, since: Instant) {
        self.answers.fetch_add(1, Ordering::Relaxed);
        self.nanos.lock().await.push(since.elapsed().as_nanos() as u64);
    }
}

/// Starts what goes on beside a shape, at the HTTP door of the same server. Must be called in a `LocalSet`.
///
/// # Errors
/// The address or the token is wrong.
pub fn start(shape: &Shape, http: &str, trust: &Trust) -> Result<Load> {
    let mut load = Load { tasks: JoinSet::new(), counts: Vec::new(), guest: None };
    let client = || Client::new(http, trust).map_err(|error| anyhow::anyhow!(error));
    for what in &shape.beside {
        let count = Arc::new(Count::default());
        load.counts.push((*what, count.clone()));
        match what {
            Beside::Nodes => {
                let url = format!("{http}/ws/v1/partition/{PARTITION}/nodes");
                load.tasks.spawn(every(NODES, client()?, url, count));
            }
            Beside::Scrapes => {
                load.tasks.spawn(every(SCRAPES, client()?, format!("{http}/metrics"), count));
            }
            Beside::Dumps => {
                let url = format!("{http}/debug/fullstatedump");
                load.tasks.spawn(every(Duration::from_millis(1), client()?, url, count));
            }
            Beside::Streams => {
                for _ in 0..STREAMS {
                    let url = format!("{http}/api/v1/events?follow=true");
                    load.tasks.spawn(followed(client()?, url, count.clone()));
                }
            }
            Beside::Ends => {
                // A request of one that was cut off may be read late: it must not meet the next one.
                let number = GUESTS.fetch_add(1, Ordering::Relaxed);
                let rm = format!("callboard-bench-guest-{}-{number}", std::process::id());
                load.guest = Some((client()?, format!("{http}/si/v1/rm/{rm}")));
                load.tasks.spawn_local(comes_and_goes(http.to_owned(), trust.clone(), rm, count));
            }
        }
    }
    Ok(load)
}

impl Load {
    /// Ends it, and tells what was read.
    ///
    /// # Errors
    /// Something could not be read.
    pub async fn stop(mut self) -> Result<Vec<Read>> {
        while let Some(ended) = self.tasks.try_join_next() {
            ended.context("a task beside the shape failed")??;
        }
        self.tasks.shutdown().await;
        if let Some((client, session)) = self.guest {
            // It was cut off wherever it was; its session may have ended by itself.
            let _ = client.send(Method::DELETE, &session, None).await;
        }
        let mut read = Vec::new();
        for (what, count) in self.counts {
            read.push(Read {
                what: what.name().to_owned(),
                answers: count.answers.load(Ordering::Relaxed),
                latency_ms: Latency::of(std::mem::take(&mut *count.nanos.lock().await)),
                begun_anew: count.anew.load(Ordering::Relaxed),
            });
        }
        Ok(read)
    }
}

async fn every(pause: Duration, client: Client, url: String, count: Arc<Count>) -> Result<()> {
    let mut beat = interval(pause);
    beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        beat.tick().await;
        let asked = Instant::now();
        let mut answer = client.send(Method::GET, &url, None).await.with_context(|| url.clone())?;
        // The partition comes and goes with the session.
        if answer.status == StatusCode::NOT_FOUND {
            continue;
        }
        if !answer.status.is_success() {
            let status = answer.status;
            bail!("{url}: {status} {}", answer.text().await.unwrap_or_default());
        }
        while answer.chunk().await.with_context(|| url.clone())?.is_some() {}
        count.answered(asked).await;
    }
}

async fn followed(client: Client, url: String, count: Arc<Count>) -> Result<()> {
    loop {
        let mut answer = client.send(Method::GET, &url, None).await.with_context(|| url.clone())?;
        if !answer.status.is_success() {
            let status = answer.status;
            bail!("{url}: {status} {}", answer.text().await.unwrap_or_default());
        }
        // One that has fallen behind ends, and its last line says where.
        while let Ok(Some(chunk)) = answer.chunk().await {
            let lines = chunk.iter().filter(|byte| **byte == b'\n').count() as u64;
            count.answers.fetch_add(lines, Ordering::Relaxed);
        }
        count.anew.fetch_add(1, Ordering::Relaxed);
    }
}

async fn comes_and_goes(http: String, trust: Trust, rm: String, count: Arc<Count>) -> Result<()> {
    let base = ShapeId::S1.shape().context("S1 is a workload")?;
    let work = Workload::of(&Shape { nodes: 100, asks: APPS, queues: 10, apps: APPS / 10, ..base });
    loop {
        let mut rig = doors::start(&work, DoorKind::Http, &http, &trust, None, rm.clone()).await?;
        rig.target.nodes(&work).await?;
        rig.target.apps(&work).await?;
        for asks in work.asks.chunks(CHUNK) {
            rig.target.allocations(&work, asks, Vec::new()).await?;
        }
        let mut placed = 0;
        while placed < work.asks.len() {
            let batch = rig.back.recv().await.context("the session of the other resource manager ended")?;
            if let Some(refused) = batch.refused.first() {
                bail!("the other resource manager was refused {refused}");
            }
            placed += batch.placed.len();
        }
        let ends = Instant::now();
        rig.target.stop().await?;
        count.answered(ends).await;
    }
}
