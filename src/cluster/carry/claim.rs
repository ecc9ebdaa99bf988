//! A key in etcd that is there as long as a command carries a log.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use tokio::{task::AbortHandle, time::sleep};

use crate::cluster::etcd::{Change, Done, Etcd, If, Trouble};

/// How long the key stays where the command was killed.
const TIME: Duration = Duration::from_secs(10);
/// Between two attempts.
const AGAIN: Duration = Duration::from_millis(300);

/// See the module.
pub struct Claim {
    etcd: Arc<Etcd>,
    /// The key.
    pub key: String,
    /// When it was put.
    pub revision: i64,
    lease: i64,
    alive: AbortHandle,
}

impl Claim {
    /// Puts it, where all conditions hold; else gives what is there.
    ///
    /// # Errors
    /// etcd does not say.
    pub async fn put(
        etcd: &Arc<Etcd>,
        key: String,
        value: Bytes,
        conditions: &[If],
    ) -> Result<Result<Claim, Done>, Trouble> {
        let lease = etcd.grant(i64::try_from(TIME.as_secs()).unwrap_or(1)).await?;
        let done = etcd.txn(conditions, vec![Change::Put(key.clone(), value, lease)]).await?;
        if !done.held {
            // It would end by itself.
            let _ = etcd.revoke(lease).await;
            return Ok(Err(done));
        }
        let alive = tokio::spawn(renew(etcd.clone(), lease)).abort_handle();
        Ok(Ok(Claim { etcd: etcd.clone(), key, revision: done.revision, lease, alive }))
    }

    /// It is not needed any more.
    pub async fn end(self) {
        self.alive.abort();
        // Where etcd does not answer it ends by itself.
        let _ = self.etcd.revoke(self.lease).await;
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.alive.abort();
    }
}

async fn renew(etcd: Arc<Etcd>, lease: i64) {
    loop {
        if let Ok(mut alive) = etcd.keep_alive(lease).await {
            while let Ok(true) = alive.renew().await {
                sleep(TIME / 3).await;
            }
        }
        sleep(AGAIN).await;
    }
}
