//! Long answers: those whose work grows with rows are made on threads of their own, as many at a time as there are cores, so
//! that no HTTP worker stands still, and with it whoever else it serves. Who goes before its turn costs nothing more.

use std::{
    collections::HashMap,
    hash::Hash,
    num::NonZero,
    sync::{Arc, LazyLock, Mutex as SyncMutex, PoisonError, Weak},
    thread::available_parallelism,
    time::Instant,
};

use actix_web::http::StatusCode;
use tokio::{
    sync::{Mutex, OwnedSemaphorePermit, Semaphore},
    task::{JoinError, spawn_blocking},
};

use super::{problem::Problem, ws_v1::reply::Failure};

/// Answers about more rows than this are long.
const FEW: usize = 1_000;

/// The cores are those of the machine, whichever door asks for them.
static TURNS: LazyLock<Arc<Semaphore>> =
    LazyLock::new(|| Arc::new(Semaphore::new(available_parallelism().map_or(1, NonZero::get))));

/// An answer about so many rows is long.
pub const fn is_long(rows: usize) -> bool {
    rows > FEW
}

/// A turn to make an answer; a short one needs none.
#[derive(Clone, Debug)]
pub struct Turn(Option<Arc<OwnedSemaphorePermit>>);

/// Takes what an answer is made of, when it is its turn; `rows` says how much that is.
///
/// # Errors
/// What `take` says.
pub async fn turn<V, E>(take: impl AsyncFn() -> Result<V, E>, rows: impl FnOnce(&V) -> usize) -> Result<(V, Turn), E> {
    let taken = take().await?;
    if !is_long(rows(&taken)) {
        return Ok((taken, Turn(None)));
    }
    if let Ok(turn) = TURNS.clone().try_acquire_owned() {
        return Ok((taken, Turn(Some(turn.into()))));
    }
    // What waits for its turn holds no old rows.
    drop(taken);
    let turn = wait().await;
    Ok((take().await?, turn))
}

/// Waits for the turn of something that is long in any case.
pub async fn wait() -> Turn {
    // They are never closed.
    Turn(TURNS.clone().acquire_owned().await.ok().map(Arc::new))
}

impl Turn {
    /// The same where it turns out to be about so many rows.
    pub async fn of(self, rows: usize) -> Turn {
        if self.0.is_none() && is_long(rows) { wait().await } else { self }
    }

    /// Makes the answer, or a part of it.
    ///
    /// # Errors
    /// Making it broke down.
    pub async fn make<T: Send + 'static>(&self, make: impl FnOnce() -> T + Send + 'static) -> Result<T, Broken> {
        let Some(turn) = self.0.clone() else { return Ok(make()) };
        let made = spawn_blocking(move || {
            // It takes its time, though nobody may wait for it any more.
            let _turn = turn;
            make()
        });
        made.await.map_err(Broken)
    }
}

/// An answer could not be made.
#[derive(Debug, thiserror::Error)]
#[error("the answer could not be made: {0}")]
pub struct Broken(JoinError);

impl From<Broken> for Problem {
    fn from(broken: Broken) -> Problem {
        Problem::new(StatusCode::INTERNAL_SERVER_ERROR, broken.to_string())
    }
}

impl From<Broken> for Failure {
    fn from(broken: Broken) -> Failure {
        Failure { status: StatusCode::INTERNAL_SERVER_ERROR, message: broken.to_string() }
    }
}

/// What many want at the same time, made once for all of them. Nothing of it is kept when they have it.
#[derive(Debug)]
pub struct Shared<T>(Mutex<Option<(Instant, Weak<T>)>>);

impl<T> Default for Shared<T> {
    fn default() -> Self {
        Shared(Mutex::default())
    }
}

impl<T> Shared<T> {
    /// Gives what was begun after it was asked for, so that it has everything that was there then.
    ///
    /// # Errors
    /// What `make` says.
    pub async fn get<E>(&self, make: impl AsyncFnOnce() -> Result<T, E>) -> Result<Arc<T>, E> {
        self.get_while(async |_| Ok(false), make).await
    }

    /// The same, or what somebody still has, where it is `as_now`.
    ///
    /// # Errors
    /// What `as_now` or `make` says.
    pub async fn get_while<E>(
        &self,
        as_now: impl AsyncFnOnce(&T) -> Result<bool, E>,
        make: impl AsyncFnOnce() -> Result<T, E>,
    ) -> Result<Arc<T>, E> {
        let asked = Instant::now();
        let mut last = self.0.lock().await;
        if let Some((begun, made)) = &*last
            && let Some(made) = made.upgrade()
            && (*begun >= asked || as_now(&made).await?)
        {
            return Ok(made);
        }
        let begun = Instant::now();
        let made = Arc::new(make().await?);
        *last = Some((begun, Arc::downgrade(&made)));
        Ok(made)
    }
}

/// The same for things that are told apart by a key.
#[derive(Debug)]
pub struct SharedBy<K, T>(SyncMutex<HashMap<K, Arc<Shared<T>>>>);

impl<K, T> Default for SharedBy<K, T> {
    fn default() -> Self {
        SharedBy(SyncMutex::default())
    }
}

impl<K: Eq + Hash, T> SharedBy<K, T> {
    /// See [`Shared::get`].
    ///
    /// # Errors
    /// What `make` says.
    pub async fn get<E>(&self, key: K, make: impl AsyncFnOnce() -> Result<T, E>) -> Result<Arc<T>, E> {
        self.of(key).get(make).await
    }

    /// What is shared by those who want this.
    pub fn of(&self, key: K) -> Arc<Shared<T>> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Those whom nobody waits for go before more room is made.
        if all.len() == all.capacity() {
            all.retain(|_, shared| Arc::strong_count(shared) > 1);
        }
        all.entry(key).or_default().clone()
    }
}

#[cfg(test)]
mod tests {
    use std::{
        convert::Infallible,
        sync::atomic::{AtomicU32, Ordering::SeqCst},
        thread,
    };

    use futures::future::join_all;
    use tokio::sync::oneshot;

    use super::*;

    #[tokio::test]
    async fn short_answers_are_made_at_once_and_long_ones_elsewhere() {
        let here = thread::current().id();
        for (rows, inline) in [(FEW, true), (FEW + 1, false)] {
            let (taken, turn) = turn(async || Ok::<_, Infallible>(7), |_| rows).await.unwrap();
            let (made, thread) = turn.make(move || (taken, thread::current().id())).await.unwrap();
            assert_eq!((made, thread == here), (7, inline));
        }
    }

    #[tokio::test]
    async fn who_has_to_wait_takes_its_rows_when_it_is_its_turn_and_who_goes_takes_none() {
        let cores = available_parallelism().map_or(1, NonZero::get) as u32;
        let all = TURNS.clone().acquire_many_owned(cores).await.unwrap();
        let takes = AtomicU32::new(0);
        let take = async || Ok::<_, Infallible>(takes.fetch_add(1, SeqCst));
        let mut gone = Box::pin(turn(take, |_| FEW + 1));
        assert!(futures::poll!(&mut gone).is_pending());
        let mut stays = Box::pin(turn(take, |_| FEW + 1));
        assert!(futures::poll!(&mut stays).is_pending());
        drop(gone);
        assert_eq!(takes.load(SeqCst), 2);
        drop(all);
        let (taken, turn) = stays.await.unwrap();
        assert_eq!((taken, takes.load(SeqCst)), (2, 3));
        assert!(turn.0.is_some());
    }

    #[tokio::test]
    async fn those_who_ask_while_one_is_made_share_the_next() {
        let (shared, made) = (Shared::default(), AtomicU32::new(0));
        let (end, ended) = oneshot::channel();
        let mut first = Box::pin(shared.get(async || {
            ended.await.unwrap();
            Ok::<_, Infallible>(made.fetch_add(1, SeqCst))
        }));
        assert!(futures::poll!(&mut first).is_pending());
        let others = (0..5).map(|_| shared.get(async || Ok::<_, Infallible>(made.fetch_add(1, SeqCst))));
        let mut others = Box::pin(join_all(others));
        assert!(futures::poll!(&mut others).is_pending());
        end.send(()).unwrap();
        assert_eq!(*first.await.unwrap(), 0);
        // It had begun before they asked.
        assert!(others.await.into_iter().all(|other| *other.unwrap() == 1));
        // Nothing was kept.
        assert_eq!(*shared.get(async || Ok::<_, Infallible>(9)).await.unwrap(), 9);
    }

    #[tokio::test]
    async fn what_somebody_still_has_is_shared_as_long_as_it_is_as_now() {
        let (shared, made) = (Shared::default(), AtomicU32::new(0));
        let get = |as_now: bool| {
            let made = &made;
            shared.get_while(async move |_| Ok::<_, Infallible>(as_now), async || Ok(made.fetch_add(1, SeqCst)))
        };
        let first = get(true).await.unwrap();
        assert_eq!((*first, *get(true).await.unwrap(), *get(false).await.unwrap()), (0, 0, 1));
        // Nobody has the newest one any more.
        assert_eq!(*get(true).await.unwrap(), 2);
    }

    #[tokio::test]
    async fn what_has_another_key_is_not_shared_and_nothing_is_kept_of_those_who_are_gone() {
        let (shared, made) = (SharedBy::default(), AtomicU32::new(0));
        let make = async || {
            tokio::task::yield_now().await;
            Ok::<_, Infallible>(made.fetch_add(1, SeqCst))
        };
        join_all((0..100).map(|at| shared.get(at % 2, make))).await;
        assert!((2..=4).contains(&made.load(SeqCst)), "{made:?}");
        for key in 0..10_000 {
            shared.get(key, make).await.unwrap();
        }
        assert!(shared.0.lock().unwrap().len() < 100);
    }
}
