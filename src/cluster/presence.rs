//! That this server is alive: a key with a lease, which is renewed.

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering::SeqCst},
    },
    time::Duration,
};

use tokio::{
    sync::Notify,
    time::{Instant, sleep},
};

use super::{
    etcd::{Change, Etcd, Trouble},
    keys::{Keys, Server},
};

/// Between two attempts.
const AGAIN: Duration = Duration::from_millis(300);
/// How often it is logged that another server has the id of this one, or that etcd refuses its key.
const TELL: Duration = Duration::from_secs(60);

/// Whether others see that this server is there.
#[derive(Debug, Default)]
pub struct Held {
    lease: AtomicI64,
    /// When its key was put: a revision of etcd.
    put: AtomicI64,
    said: Notify,
    lost: Notify,
}

impl Held {
    /// As one that has this lease.
    #[cfg(test)]
    pub fn with(lease: i64) -> Held {
        Held { lease: AtomicI64::new(lease), ..Held::default() }
    }

    /// Its lease, as far as this server knows; 0 while it has none.
    pub fn lease(&self) -> i64 {
        self.lease.load(SeqCst)
    }

    /// It has none any more; this was the last one.
    pub fn let_go(&self) -> i64 {
        self.lease.swap(0, SeqCst)
    }

    /// At this revision of etcd its key is not there, or is another's: it is to be put again, unless it was since.
    pub fn lose(&self, revision: i64) {
        if self.lease() != 0 && revision > self.put.load(SeqCst) {
            self.lost.notify_one();
        }
    }

    /// Waits until its key is there for the first time, or cannot be put. Only one may wait.
    pub async fn is_said(&self) {
        self.said.notified().await;
    }
}

/// Keeps it there, for ever.
pub async fn keep(etcd: Arc<Etcd>, keys: Keys, me: Server, lease: Duration, held: Arc<Held>) {
    // Since when another one is there, and when that was told.
    let mut other: Option<(Instant, Option<Instant>)> = None;
    // When it was told that etcd refuses the key.
    let mut refused: Option<Instant> = None;
    // With a user of etcd that may only read, for example, all else looks well.
    let mut tell = |trouble: &Trouble| {
        if matches!(trouble, Trouble::Refused(_)) && refused.is_none_or(|told| told.elapsed() >= TELL) {
            refused = Some(Instant::now());
            tracing::error!(
                code = "cluster-not-there",
                key = keys.server(&me.id),
                "this server cannot say that it is there, and leads nothing until it can: {trouble}; where permission is denied, allow its user to write the key"
            );
        }
    };
    loop {
        match alone(&etcd, &keys, &me).await {
            Ok(true) => {
                other = None;
                if let Err(trouble) = once(&etcd, &keys, &me, lease, &held).await {
                    tell(&trouble);
                    tracing::debug!(%trouble, "the lease of this server is not renewed");
                }
                held.let_go();
            }
            Ok(false) => {
                held.said.notify_one();
                let (since, told) = other.get_or_insert_with(|| (Instant::now(), None));
                // One of before that was killed is gone by then.
                if since.elapsed() > 2 * lease && told.is_none_or(|told| told.elapsed() >= TELL) {
                    *told = Some(Instant::now());
                    tracing::warn!(
                        code = "cluster-same-id",
                        id = me.id,
                        "a server with the same id is there: this one waits until it is gone; was a data directory copied?"
                    );
                }
            }
            Err(trouble) => tracing::debug!(%trouble, "this server cannot say that it is there"),
        }
        sleep(AGAIN).await;
    }
}

/// No other server has this id. The process before, where it was killed, counts as another until its lease has ended.
async fn alone(etcd: &Etcd, keys: &Keys, me: &Server) -> Result<bool, Trouble> {
    let found = etcd.range(&keys.server(&me.id), "", 0, 0).await?;
    let other = found.keys.first().and_then(|found| serde_json::from_slice::<Server>(&found.value).ok());
    Ok(other.is_none_or(|other| other.process == me.process))
}

/// Keeps the key there until that fails, or the key is gone all the same.
async fn once(etcd: &Etcd, keys: &Keys, me: &Server, time: Duration, held: &Held) -> Result<(), Trouble> {
    let seconds = i64::try_from(time.as_secs()).unwrap_or(i64::MAX).max(1);
    let lease = etcd.grant(seconds).await?;
    let done = etcd.txn(&[], vec![Change::Put(keys.server(&me.id), me.json().into(), lease)]).await?;
    held.put.store(done.revision, SeqCst);
    held.lease.store(lease, SeqCst);
    held.said.notify_one();
    tokio::select! {
        () = held.lost.notified() => Ok(()),
        failed = renew(etcd, lease, time) => failed,
    }
}

async fn renew(etcd: &Etcd, lease: i64, time: Duration) -> Result<(), Trouble> {
    let mut alive = etcd.keep_alive(lease).await?;
    let mut heard = Instant::now();
    loop {
        match alive.renew().await {
            Ok(true) => heard = Instant::now(),
            // It is over: there has to be another.
            Ok(false) => return Ok(()),
            Err(trouble) if heard.elapsed() >= time => return Err(trouble),
            Err(_) => {
                sleep(AGAIN.min(time / 8)).await;
                match etcd.keep_alive(lease).await {
                    Ok(again) => alive = again,
                    Err(trouble) if heard.elapsed() >= time => return Err(trouble),
                    Err(_) => {}
                }
                continue;
            }
        }
        sleep(time / 3).await;
    }
}
