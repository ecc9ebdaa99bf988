//! What happens by the clock: a sample of the history each minute, one for the charts, a health check now and then (OPS-001,
//! OPS-010), and what nobody reads any more is forgotten.

use std::{sync::Arc, time::Duration};

use actix_web::rt::{self, task::JoinHandle};
use tokio::{
    task::spawn_blocking,
    time::{Instant, MissedTickBehavior, interval_at, sleep},
};

use super::{
    health::Kept,
    history::Sample,
    state::{RestState, now},
};
use crate::{http::api::trends, messages::event::GetEventStatus};

/// Between two samples of the history.
const SAMPLE_EVERY: Duration = Duration::from_secs(60);
/// How soon a changed interval is noticed, and that a list is old.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Samples and checks that go on until this is dropped.
#[derive(Debug)]
pub struct Watch([JoinHandle<()>; 4]);

impl Drop for Watch {
    fn drop(&mut self) {
        self.0.iter().for_each(JoinHandle::abort);
    }
}

/// Starts sampling and checking on the present arbiter: the first sample after a minute, the first check before this returns, so
/// that whoever asks a server that is ready gets its result.
pub async fn start(state: Arc<RestState>) -> Watch {
    let told = state.counts_of_faults();
    check(&state).await;
    let trends = rt::spawn(trends::sample::go_on(state.clone()));
    Watch([rt::spawn(sample(state.clone())), trends, rt::spawn(forget(state.clone())), rt::spawn(go_on(state, told))])
}

/// Lists of nodes that nobody reads again go.
async fn forget(state: Arc<RestState>) {
    loop {
        sleep(LOOK_EVERY).await;
        state.nodes.forget();
    }
}

async fn sample(state: Arc<RestState>) {
    let mut ticks = interval_at(Instant::now() + SAMPLE_EVERY, SAMPLE_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    loop {
        ticks.tick().await;
        let views = state.led_views().await;
        state.history.push(Sample::of(&views, now()));
    }
}

/// Checks the health now.
pub async fn check(state: &Arc<RestState>) {
    let views = state.led_views().await;
    let events = state.topology.events.send(GetEventStatus).await;
    let events = events.ok().and_then(|events| events.store);
    let unconfirmed = state.unconfirmed().await;
    let overdue = state.overdue(&views).await;
    let followed = state.faults_of_following().await;
    let health = state.clone();
    // It walks all rows and looks at files, which would hold up whatever shares this thread.
    let run = move || {
        let mut logs = health.topology.faults_of_logs();
        logs.iter_mut().for_each(|logs| logs.extend(followed.iter().cloned()));
        let (journals, audit) = (health.faults_of_journals(), health.audit());
        let (data, silent) = (health.faults_of_data(), health.silent());
        let kept = Kept { data, events, journals, logs, audit, unconfirmed, overdue, silent };
        health.health.run(&views, health.metrics.failed_nodes(), &kept, now());
    };
    if let Err(error) = spawn_blocking(run).await {
        tracing::error!(code = "health-check-failed", %error, "the health check failed");
    }
}

/// Checks after one that was made, which knew of so many faults of journals. Where there are others they are not waited for: an
/// operator asks right after a start, when sessions have only just told what their journals lack.
async fn go_on(state: Arc<RestState>, mut told: Vec<(String, u64)>) {
    loop {
        // A changed interval begins anew when it is noticed, without a check at that moment; none means no checks.
        let mut every = state.settings().health_check_interval;
        let mut begun = Instant::now();
        while every.is_none_or(|every| begun.elapsed() < every) {
            sleep(every.map_or(LOOK_EVERY, |every| LOOK_EVERY.min(every.saturating_sub(begun.elapsed())))).await;
            let changed = state.settings().health_check_interval;
            if changed != every {
                (every, begun) = (changed, Instant::now());
            }
            if every.is_some() && state.counts_of_faults() != told {
                break;
            }
        }
        told = state.counts_of_faults();
        check(&state).await;
    }
}
