//! Drives a workload through any depth and measures it.

use std::{
    collections::VecDeque,
    future::Future,
    time::{Duration, Instant},
};

use anyhow::{Result, bail};
use tokio::{
    sync::mpsc::UnboundedReceiver,
    time::{timeout, timeout_at},
};

use super::{
    measure::{Look, Outcome, Span},
    shapes::Kind,
    workload::{Ask, Workload},
};
use crate::domain::types::Termination;
use crate::domain::words::plural;

/// Asks per request.
pub const CHUNK: usize = 500;
/// Nothing was placed for so long although something must be: the run has failed. Other news, such as that asks wait for
/// nodes, goes on coming.
const STALL: Duration = Duration::from_secs(60);
/// How long an allocation lives in the churn shape.
const LIFE: Duration = Duration::from_secs(1);
/// The asks that come first, if any, have settled when nothing was heard for so long.
const QUIET: Duration = Duration::from_millis(300);
/// Asks that are on their way at once while a session grows old.
const YOUNG: usize = 32;
/// How often the churn shape releases and asks.
const BEAT: Duration = Duration::from_millis(5);

/// A release or confirmation.
#[derive(Clone, Debug)]
pub struct Release {
    /// Allocation key.
    pub key: String,
    /// Application id.
    pub app: String,
    /// Why it is released.
    pub termination: Termination,
}

/// What came back at one moment.
#[derive(Debug)]
pub struct Batch {
    /// When it was read.
    pub at: Instant,
    /// Numbers of the asks that were placed.
    pub placed: Vec<usize>,
    /// Number of asks placed that are not measured.
    pub others: usize,
    /// Releases to confirm.
    pub confirm: Vec<Release>,
    /// Accepted nodes and applications.
    pub accepted: usize,
    /// What was refused, and why.
    pub refused: Vec<String>,
}

/// When the run has failed unless something is placed before.
fn stalls_at(progress: Instant) -> tokio::time::Instant {
    tokio::time::Instant::from_std(progress + STALL)
}

impl Batch {
    /// Nothing yet.
    pub fn new(at: Instant) -> Batch {
        Batch { at, placed: Vec::new(), others: 0, confirm: Vec::new(), accepted: 0, refused: Vec::new() }
    }

    /// Something was placed, or makes room.
    fn is_progress(&self) -> bool {
        !self.placed.is_empty() || self.others > 0 || !self.confirm.is_empty()
    }
}

/// The way in, at one depth. A call returns when the request was taken over; its answer comes as a [`Batch`].
pub trait Target {
    /// Registers all nodes.
    fn nodes(&self, work: &Workload) -> impl Future<Output = Result<()>>;
    /// Submits all applications.
    fn apps(&self, work: &Workload) -> impl Future<Output = Result<()>>;
    /// Makes asks, releases and confirms, in one request.
    fn allocations(&self, work: &Workload, asks: &[Ask], releases: Vec<Release>) -> impl Future<Output = Result<()>>;
}

/// A target, what comes back from it, and the process behind it.
pub struct Rig<T> {
    /// The way in.
    pub target: T,
    /// The way back.
    pub back: UnboundedReceiver<Batch>,
    /// Name of the depth.
    pub depth: &'static str,
    /// Process that is measured, where it is ours.
    pub pid: Option<u32>,
}

/// Runs a workload; gang shapes give two outcomes. `churn`: how long the churn shape goes on.
pub async fn run<T: Target>(work: &Workload, rig: &mut Rig<T>, churn: Duration) -> Result<Vec<Outcome>> {
    rig.target.nodes(work).await?;
    accepted(&mut rig.back, work.nodes.len(), "nodes").await?;
    rig.target.apps(work).await?;
    accepted(&mut rig.back, work.apps.len(), "applications").await?;
    for asks in work.ahead.chunks(CHUNK) {
        rig.target.allocations(work, asks, Vec::new()).await?;
    }
    if !work.ahead.is_empty() {
        settled(&mut rig.back, work.placed_ahead()).await?;
    }
    let mut record = Record::new(work.records());
    if work.shape.lines > 0 {
        aged(work, rig, &mut record).await?;
    }
    match work.shape.kind {
        Kind::Wave | Kind::Behind(_) | Kind::Preempting(_) | Kind::Asking { .. } => {
            Ok(vec![wave(work, rig, &mut record, &work.asks, &work.shape.name).await?])
        }
        Kind::Gang => {
            let name = &work.shape.name;
            let first = wave(work, rig, &mut record, &work.asks, name).await?;
            let second = wave(work, rig, &mut record, &work.replacements(), &format!("{name} replacement")).await?;
            Ok(vec![first, second])
        }
        Kind::OneByOne => Ok(vec![one_by_one(work, rig, &mut record).await?]),
        Kind::Bare => bail!("{}: nothing is scheduled in it", work.shape.name),
        Kind::Churn => {
            wave(work, rig, &mut record, &work.asks, &work.shape.name).await?;
            Ok(vec![churned(work, rig, &mut record, churn).await?])
        }
    }
}

/// When each ask was made, and how long it took.
struct Record {
    sent: Vec<Option<Instant>>,
    latencies: Vec<u64>,
}

impl Record {
    fn new(records: usize) -> Record {
        Record { sent: vec![None; records], latencies: Vec::with_capacity(records) }
    }

    fn sent(&mut self, asks: &[Ask]) {
        let now = Instant::now();
        for number in asks.iter().filter_map(|ask| ask.number) {
            self.sent[number] = Some(now);
        }
    }

    fn take(&mut self, batch: &Batch) -> Result<()> {
        if let Some(refused) = batch.refused.first() {
            bail!("the server refused {} of the workload, first: {refused}", plural(batch.refused.len(), "item"));
        }
        for number in &batch.placed {
            match self.sent.get_mut(*number).and_then(Option::take) {
                Some(sent) => self.latencies.push(batch.at.saturating_duration_since(sent).as_nanos() as u64),
                None => bail!("ask {number} was placed although it was not waiting"),
            }
        }
        Ok(())
    }
}

/// All asks at once, until the last one is placed.
async fn wave<T: Target>(
    work: &Workload,
    rig: &mut Rig<T>,
    record: &mut Record,
    asks: &[Ask],
    name: &str,
) -> Result<Outcome> {
    record.latencies.clear();
    let mut before = Look::at(rig.pid);
    let mut began = Instant::now();
    // Preemption waits for its delay: what counts is the time from the first victim on.
    let mut delayed = matches!(work.shape.kind, Kind::Preempting(_));
    let mut last = began;
    let mut progress = began;
    let mut chunks = asks.chunks(CHUNK);
    let mut next = chunks.next();
    while record.latencies.len() < asks.len() {
        // Sending goes first; what has come back meanwhile is taken without waiting.
        if let Some(chunk) = next {
            progress = Instant::now();
            record.sent(chunk);
            rig.target.allocations(work, chunk, Vec::new()).await?;
            next = chunks.next();
            while let Ok(batch) = rig.back.try_recv() {
                last = batch.at;
                record.take(&batch)?;
                release(work, &rig.target, batch.confirm).await?;
            }
            continue;
        }
        let Ok(batch) = timeout_at(stalls_at(progress), rig.back.recv()).await else {
            let (placed, all) = (record.latencies.len(), asks.len());
            bail!(
                "{name}: {placed} of {all} asks were placed, and none of the {} others for {} s: they find no room, or the server does not answer",
                all - placed,
                STALL.as_secs()
            );
        };
        let Some(batch) = batch else { bail!("{name}: the session ended") };
        if delayed && !batch.confirm.is_empty() {
            (before, began, delayed) = (Look::at(rig.pid), batch.at, false);
        }
        if batch.is_progress() {
            progress = Instant::now();
        }
        last = batch.at;
        record.take(&batch)?;
        release(work, &rig.target, batch.confirm).await?;
    }
    let after = Look::at(rig.pid);
    let seconds = (last - began).as_secs_f64();
    let latencies = std::mem::take(&mut record.latencies);
    let span = Span { pid: rig.pid, before, after, seconds, asks: asks.len(), latencies };
    let shape = super::shapes::Shape { name: name.to_owned(), ..work.shape.clone() };
    Ok(Outcome::of(&shape, rig.depth, span))
}

async fn release<T: Target>(work: &Workload, target: &T, releases: Vec<Release>) -> Result<()> {
    if releases.is_empty() { Ok(()) } else { target.allocations(work, &[], releases).await }
}

/// One ask, its placement; then its release and the next.
async fn one_by_one<T: Target>(work: &Workload, rig: &mut Rig<T>, record: &mut Record) -> Result<Outcome> {
    let before = Look::at(rig.pid);
    let began = Instant::now();
    let mut ended = Vec::new();
    for (at, ask) in work.asks.iter().enumerate() {
        record.sent(std::slice::from_ref(ask));
        // The end of the one before goes with it: one request for what a shim has to say.
        rig.target.allocations(work, std::slice::from_ref(ask), std::mem::take(&mut ended)).await?;
        while record.latencies.len() <= at {
            let Ok(Some(batch)) = timeout(STALL, rig.back.recv()).await else {
                bail!("ask {at} was not placed within {} s on an idle cluster", STALL.as_secs());
            };
            record.take(&batch)?;
        }
        let (key, app) = (ask.key_text(), work.apps[ask.app].id.clone());
        ended.push(Release { key, app, termination: Termination::StoppedByRm });
    }
    release(work, &rig.target, ended).await?;
    let seconds = began.elapsed().as_secs_f64();
    let latencies = std::mem::take(&mut record.latencies);
    let span = Span { pid: rig.pid, before, after: Look::at(rig.pid), seconds, asks: work.asks.len(), latencies };
    Ok(Outcome::of(&work.shape, rig.depth, span))
}

/// Each allocation is released when its life is over, and asked for again at once.
async fn churned<T: Target>(
    work: &Workload,
    rig: &mut Rig<T>,
    record: &mut Record,
    length: Duration,
) -> Result<Outcome> {
    record.latencies.clear();
    let mut asks: Vec<Ask> = work.asks.clone();
    let began = Instant::now();
    // The first lives end spread over one life, so that the load is even.
    let spread = |at: usize| began + LIFE.mul_f64(at as f64 / asks.len() as f64);
    let mut alive: VecDeque<(Instant, usize)> = (0..asks.len()).map(|at| (spread(at), at)).collect();
    let before = Look::at(rig.pid);
    let mut made = 0;
    let mut beat = tokio::time::interval(BEAT);
    beat.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut heard = Instant::now();
    while began.elapsed() < length || !record.sent.iter().all(Option::is_none) {
        tokio::select! {
            batch = rig.back.recv() => {
                let Some(batch) = batch else { bail!("the session ended") };
                if batch.is_progress() {
                    heard = Instant::now();
                }
                record.take(&batch)?;
                alive.extend(batch.placed.iter().map(|number| (batch.at + LIFE, *number)));
            }
            _ = beat.tick() => {
                if heard.elapsed() > STALL {
                    let left = record.sent.iter().flatten().count();
                    bail!("{left} asks wait, and none was placed for {} s", STALL.as_secs());
                }
                let now = Instant::now();
                let due = alive.iter().take_while(|(end, _)| *end <= now).count();
                if due == 0 || began.elapsed() >= length {
                    continue;
                }
                let ended: Vec<usize> = alive.drain(..due).map(|(_, number)| number).collect();
                let release = |number: &usize| Release {
                    key: asks[*number].key_text(),
                    app: work.apps[asks[*number].app].id.clone(),
                    termination: Termination::StoppedByRm,
                };
                rig.target.allocations(work, &[], ended.iter().map(release).collect()).await?;
                for number in &ended {
                    asks[*number].key += 1;
                }
                let again: Vec<Ask> = ended.iter().map(|number| asks[*number]).collect();
                for chunk in again.chunks(CHUNK) {
                    record.sent(chunk);
                    rig.target.allocations(work, chunk, Vec::new()).await?;
                }
                made += again.len();
            }
        }
    }
    let after = Look::at(rig.pid);
    let seconds = began.elapsed().as_secs_f64();
    let latencies = std::mem::take(&mut record.latencies);
    let span = Span { pid: rig.pid, before, after, seconds, asks: made, latencies };
    Ok(Outcome::of(&work.shape, rig.depth, span))
}

async fn accepted(back: &mut UnboundedReceiver<Batch>, wanted: usize, what: &str) -> Result<()> {
    let mut count = 0;
    while count < wanted {
        let Ok(Some(batch)) = timeout(STALL, back.recv()).await else {
            bail!("only {count} of {wanted} {what} were accepted");
        };
        if let Some(refused) = batch.refused.first() {
            bail!("the server refused {} {what}, first: {refused}", batch.refused.len());
        }
        count += batch.accepted;
    }
    Ok(())
}

/// So many were placed, and then nothing comes any more.
async fn settled(back: &mut UnboundedReceiver<Batch>, wanted: usize) -> Result<()> {
    let mut placed = 0;
    loop {
        let patience = if placed < wanted { STALL } else { QUIET };
        match timeout(patience, back.recv()).await {
            Ok(None) => bail!("the session ended"),
            Ok(Some(batch)) if !batch.refused.is_empty() => bail!("the server refused {}", batch.refused[0]),
            Ok(Some(batch)) => placed += batch.others,
            Err(_) if placed < wanted => {
                bail!("{placed} of {wanted} asks that come first were placed, and no other for {} s", STALL.as_secs())
            }
            Err(_) => return Ok(()),
        }
    }
}

/// A session grows old: asks are placed, end and are made again, few at a time, until so many messages have told of placements.
async fn aged<T: Target>(work: &Workload, rig: &mut Rig<T>, record: &mut Record) -> Result<()> {
    let mut asks: Vec<Ask> = work.asks.iter().copied().take(YOUNG).collect();
    for ask in &asks {
        record.sent(std::slice::from_ref(ask));
        rig.target.allocations(work, std::slice::from_ref(ask), Vec::new()).await?;
    }
    let mut seen = 0;
    let mut waiting = asks.len();
    while waiting > 0 {
        let Ok(Some(batch)) = timeout(STALL, rig.back.recv()).await else {
            bail!("{seen} messages came, and no other for {} s", STALL.as_secs());
        };
        record.take(&batch)?;
        record.latencies.clear();
        seen += usize::from(!batch.placed.is_empty());
        for number in batch.placed {
            let ended = Release {
                key: asks[number].key_text(),
                app: work.apps[asks[number].app].id.clone(),
                termination: Termination::StoppedByRm,
            };
            asks[number].key += 1;
            if seen < work.shape.lines {
                record.sent(&asks[number..=number]);
                rig.target.allocations(work, &asks[number..=number], vec![ended]).await?;
            } else {
                waiting -= 1;
                rig.target.allocations(work, &[], vec![ended]).await?;
            }
        }
    }
    Ok(())
}
