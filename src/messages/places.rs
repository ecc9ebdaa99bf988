//! Places for requests that take long: only so many run at a time, and fewer of one caller, so that there are some left for
//! others.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::timeout,
};

/// How long a request waits for a place.
const PATIENCE: Duration = Duration::from_secs(10);

/// See the module.
#[derive(Debug)]
pub struct Places {
    all: Arc<Semaphore>,
    most: usize,
    each: usize,
    /// What those with a place do, for texts.
    what: &'static str,
    /// Those who have one, or wait for one.
    callers: Mutex<HashMap<String, Arc<Semaphore>>>,
}

/// A place: one of those of the caller, and one of all.
#[derive(Debug)]
pub struct Place {
    _own: OwnedSemaphorePermit,
    _all: OwnedSemaphorePermit,
}

/// Others, or the caller itself, take too long.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{who} {what}: {most} at a time are answered; try again in a moment")]
pub struct Busy {
    who: String,
    what: &'static str,
    most: usize,
}

impl Places {
    /// `most` at a time, and `each` of one caller.
    pub fn new(most: usize, each: usize, what: &'static str) -> Places {
        Places { all: Arc::new(Semaphore::new(most)), most, each, what, callers: Mutex::default() }
    }

    /// Waits for a place, which is to be kept until the work is done, whether or not anybody still waits for that.
    ///
    /// # Errors
    /// There is none for it in time.
    pub async fn take(&self, caller: String) -> Result<Place, Busy> {
        let busy = |who: &str, most: usize| Busy { who: who.to_owned(), what: self.what, most };
        let of = async |places: &Arc<Semaphore>| timeout(PATIENCE, places.clone().acquire_owned()).await.ok()?.ok();
        let own = of(&self.own(&caller)).await;
        let own = own.ok_or_else(|| busy(&format!("too many requests of {caller}"), self.each))?;
        let all = of(&self.all).await.ok_or_else(|| busy("too many requests", self.most))?;
        Ok(Place { _own: own, _all: all })
    }

    /// Waits for a place however long it takes. `None`: there will be none, which does not happen.
    pub async fn wait(&self, caller: &str) -> Option<Place> {
        let own = self.own(caller).acquire_owned().await.ok()?;
        // Of one caller only as many wait here as may have a place.
        let all = self.all.clone().acquire_owned().await.ok()?;
        Some(Place { _own: own, _all: all })
    }

    /// The places of a caller.
    fn own(&self, caller: &str) -> Arc<Semaphore> {
        let mut callers = self.callers.lock().unwrap_or_else(PoisonError::into_inner);
        callers.retain(|_, places| Arc::strong_count(places) > 1);
        callers.entry(caller.to_owned()).or_insert_with(|| Arc::new(Semaphore::new(self.each))).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn one_caller_leaves_places_to_the_others() {
        let places = Places::new(4, 2, "read");
        let take = async |who: &str| places.take(who.to_owned()).await;
        let mut held = vec![take("one").await.expect("a place"), take("one").await.expect("a place")];
        let refused = take("one").await.expect_err("no place is left for it");
        assert_eq!(
            refused.to_string(),
            "too many requests of one read: 2 at a time are answered; try again in a moment"
        );
        assert!(take("other").await.is_ok());
        held.pop();
        held.push(take("one").await.expect("again"));
        held.extend([take("other").await.expect("a place"), take("third").await.expect("a place")]);
        let refused = take("fourth").await.expect_err("all are taken");
        assert_eq!(refused.to_string(), "too many requests read: 4 at a time are answered; try again in a moment");
        drop(held);
        assert!(take("other").await.is_ok());
        assert_eq!(places.callers.lock().expect("whole").len(), 1, "nothing is kept of those who are gone");
    }
}
