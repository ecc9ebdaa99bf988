//! Turns of those who try a configuration or a change: each takes many times the memory of what was sent, so a few are made at once.

use std::{sync::Arc, time::Duration};

use actix_web::http::StatusCode;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::timeout,
};

use crate::http::problem::Problem;

/// How long one waits for those before it.
const PATIENCE: Duration = Duration::from_secs(10);

/// Waits for a turn. It has to go with the work, which is done though nobody may wait for it any more.
///
/// # Errors
/// Others take too long.
pub async fn turn(trials: &Arc<Semaphore>) -> Result<OwnedSemaphorePermit, Problem> {
    let busy =
        || Problem::new(StatusCode::SERVICE_UNAVAILABLE, "others try configurations or changes: try again in a moment");
    let turn = timeout(PATIENCE, trials.clone().acquire_owned()).await;
    turn.map_err(|_| busy())?.map_err(|_| busy())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn who_waits_too_long_is_told_so() {
        let trials = Arc::new(Semaphore::new(1));
        let work = turn(&trials).await.expect("the first");
        let refused = turn(&trials).await.expect_err("it is not done");
        assert_eq!((refused.status.as_u16(), refused.detail.contains("try again")), (503, true));
        drop(work);
        assert!(turn(&trials).await.is_ok());
    }
}
