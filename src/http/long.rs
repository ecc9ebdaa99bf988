//! Long answers: those whose work grows with rows are made on threads of their own, of one caller as many at a time as there are
//! cores, so that no HTTP worker stands still, and with it whoever else it serves. Callers have their turns beside each other: who
//! asks for many waits for itself alone. Who goes before its turn costs nothing more.

use std::{
    collections::HashMap,
    convert::Infallible,
    future::{Ready, ready},
    hash::Hash,
    net::IpAddr,
    num::NonZero,
    pin::pin,
    sync::{Arc, LazyLock, Mutex as SyncMutex, PoisonError, Weak},
    task::Poll,
    thread::available_parallelism,
    time::Instant,
};

use actix_web::{FromRequest, HttpMessage as _, HttpRequest, dev::Payload, http::StatusCode};
use bytes::Bytes;
use tokio::{
    sync::{Mutex, Notify},
    task::{JoinError, spawn_blocking},
};

use super::{problem::Problem, ws_v1::reply::Failure};
use crate::{
    access::Caller,
    messages::places::{Place, Places},
};

/// Answers about more rows than this are long.
const FEW: usize = 1_000;
/// What those with a turn do, in the words of a refusal.
const WHAT: &str = "have long answers made";

/// The cores are those of the machine, whichever door asks for them. One caller may have them all, and leaves as many turns to the
/// others: with a thread of its own each has its share of the cores at once, while a turn that is waited for may be a long one.
static TURNS: LazyLock<Places> = LazyLock::new(|| {
    let cores = available_parallelism().map_or(1, NonZero::get);
    Places::new(2 * cores, cores, WHAT)
});
/// Scrapes, which are shared, have one of their own: metrics are wanted most when there is much to do.
static SCRAPES: LazyLock<Places> = LazyLock::new(|| Places::new(1, 1, WHAT));

/// An answer about so many rows is long.
pub const fn is_long(rows: usize) -> bool {
    rows > FEW
}

/// Whoever sent a request, and from where.
pub fn caller(request: &HttpRequest) -> (Caller, Option<IpAddr>) {
    let caller = request.extensions().get::<Caller>().cloned().unwrap_or(Caller::Anyone);
    (caller, request.peer_addr().map(|address| address.ip()))
}

/// For whom answers are made.
#[derive(Clone, Debug)]
pub struct Asker {
    turns: &'static Places,
    name: Arc<str>,
}

impl Asker {
    /// Whoever sent this request.
    pub fn of(request: &HttpRequest) -> Asker {
        let (caller, address) = caller(request);
        Asker { turns: &TURNS, name: caller.key(address).into() }
    }

    /// What the server looks for on behalf of many.
    pub fn itself(what: &str) -> Asker {
        Asker { turns: &TURNS, name: what.into() }
    }

    /// Those who scrape.
    pub fn scraping() -> Asker {
        Asker { turns: &SCRAPES, name: "".into() }
    }

    /// As it is told apart from others.
    pub fn name(&self) -> Arc<str> {
        self.name.clone()
    }

    /// Waits for the turn of something that is long in any case.
    pub async fn wait(&self) -> Turn {
        Turn(self.turns.wait(&self.name).await.map(Arc::new))
    }

    /// Takes what an answer is made of, when it is its turn; `rows` says how much that is.
    ///
    /// # Errors
    /// What `take` says.
    pub async fn turn<V, E>(
        &self,
        take: impl AsyncFn() -> Result<V, E>,
        rows: impl FnOnce(&V) -> usize,
    ) -> Result<(V, Turn), E> {
        let taken = take().await?;
        if !is_long(rows(&taken)) {
            return Ok((taken, Turn::default()));
        }
        let mut turn = pin!(self.wait());
        if let Poll::Ready(turn) = futures::poll!(&mut turn) {
            return Ok((taken, turn));
        }
        // What waits for its turn holds no old rows.
        drop(taken);
        let turn = turn.await;
        Ok((take().await?, turn))
    }
}

impl FromRequest for Asker {
    type Error = Infallible;
    type Future = Ready<Result<Asker, Infallible>>;

    fn from_request(request: &HttpRequest, _: &mut Payload) -> Self::Future {
        ready(Ok(Asker::of(request)))
    }
}

/// A turn to make an answer; a short one needs none.
#[derive(Clone, Debug, Default)]
pub struct Turn(Option<Arc<Place>>);

impl Turn {
    /// The same where it turns out to be about so many rows.
    pub async fn of(self, asker: &Asker, rows: usize) -> Turn {
        if self.0.is_none() && is_long(rows) { asker.wait().await } else { self }
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
pub struct Shared<T> {
    last: Mutex<Option<(Instant, Weak<T>)>>,
    /// Somebody makes it.
    begun: Notify,
}

impl<T> Default for Shared<T> {
    fn default() -> Self {
        Shared { last: Mutex::default(), begun: Notify::new() }
    }
}

impl<T> Shared<T> {
    /// Gives what was begun after it was asked for, so that it has everything that was there then.
    ///
    /// # Errors
    /// What `make` says.
    pub async fn get<E>(&self, make: impl AsyncFnOnce() -> Result<T, E>) -> Result<Arc<T>, E> {
        self.made_since(Instant::now(), async |_| Ok(false), make).await
    }

    /// The same, or what somebody still has, where it is `as_now`, of what takes a turn. Whoever of those who want it has its turn
    /// first makes it for all of them: nobody waits for the turns of another.
    ///
    /// # Errors
    /// What `as_now` or `make` says.
    pub async fn get_in_turn<E>(
        &self,
        asker: &Asker,
        as_now: impl AsyncFn(&T) -> Result<bool, E>,
        make: impl AsyncFnOnce(Turn) -> Result<T, E>,
    ) -> Result<Arc<T>, E> {
        let asked = Instant::now();
        let turn = loop {
            let begun = self.begun.notified();
            if let Some(made) = found(self.last.lock().await.as_ref(), asked, &as_now).await? {
                return Ok(made);
            }
            tokio::select! {
                turn = asker.wait() => break turn,
                () = begun => {}
            }
        };
        self.made_since(asked, as_now, async || make(turn).await).await
    }

    async fn made_since<E>(
        &self,
        asked: Instant,
        as_now: impl AsyncFn(&T) -> Result<bool, E>,
        make: impl AsyncFnOnce() -> Result<T, E>,
    ) -> Result<Arc<T>, E> {
        let mut last = self.last.lock().await;
        if let Some(made) = found(last.as_ref(), asked, as_now).await? {
            return Ok(made);
        }
        self.begun.notify_waiters();
        let begun = Instant::now();
        let made = Arc::new(make().await?);
        *last = Some((begun, Arc::downgrade(&made)));
        Ok(made)
    }
}

async fn found<T, E>(
    last: Option<&(Instant, Weak<T>)>,
    asked: Instant,
    as_now: impl AsyncFnOnce(&T) -> Result<bool, E>,
) -> Result<Option<Arc<T>>, E> {
    let Some((begun, made)) = last.and_then(|(begun, made)| Some((begun, made.upgrade()?))) else {
        return Ok(None);
    };
    Ok((*begun >= asked || as_now(&made).await?).then_some(made))
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

    /// What is long is made in a turn, and shared by those who want it at the same time.
    ///
    /// # Errors
    /// What `make` says.
    pub async fn get_long<E>(
        &self,
        key: K,
        rows: usize,
        asker: &Asker,
        make: impl AsyncFnOnce(Turn) -> Result<T, E>,
    ) -> Result<Arc<T>, E> {
        if !is_long(rows) {
            return make(Turn::default()).await.map(Arc::new);
        }
        self.of(key).get_in_turn(asker, async |_| Ok(false), make).await
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

/// Keeps a text until it is sent, so that others may have it, too.
struct Whole<T>(Arc<T>);

impl<T: AsRef<[u8]>> AsRef<[u8]> for Whole<T> {
    fn as_ref(&self) -> &[u8] {
        (*self.0).as_ref()
    }
}

/// The body of an answer that is shared.
pub fn body<T: AsRef<[u8]> + Send + Sync + 'static>(made: Arc<T>) -> Bytes {
    Bytes::from_owner(Whole(made))
}

#[cfg(test)]
mod tests {
    use std::{
        convert::Infallible,
        sync::atomic::{AtomicU32, Ordering::SeqCst},
        thread,
    };

    use futures::{FutureExt as _, future::join_all};
    use tokio::sync::oneshot;

    use super::*;

    /// Somebody with half of as many turns as all have.
    fn asker(turns: &'static Places, name: &str) -> Asker {
        Asker { turns, name: name.into() }
    }

    fn turns(all: usize) -> &'static Places {
        Box::leak(Box::new(Places::new(all, all / 2, WHAT)))
    }

    #[tokio::test]
    async fn short_answers_are_made_at_once_and_long_ones_elsewhere() {
        let (here, asker) = (thread::current().id(), Asker::itself("short and long"));
        for (rows, inline) in [(FEW, true), (FEW + 1, false)] {
            let (taken, turn) = asker.turn(async || Ok::<_, Infallible>(7), |_| rows).await.unwrap();
            let (made, thread) = turn.make(move || (taken, thread::current().id())).await.unwrap();
            assert_eq!((made, thread == here), (7, inline));
        }
    }

    #[tokio::test]
    async fn who_has_to_wait_takes_its_rows_when_it_is_its_turn_and_who_goes_takes_none() {
        let asker = asker(turns(2), "one");
        let first = asker.wait().await;
        let takes = AtomicU32::new(0);
        let take = async || Ok::<_, Infallible>(takes.fetch_add(1, SeqCst));
        let mut gone = Box::pin(asker.turn(take, |_| FEW + 1));
        assert!(futures::poll!(&mut gone).is_pending());
        let mut stays = Box::pin(asker.turn(take, |_| FEW + 1));
        assert!(futures::poll!(&mut stays).is_pending());
        drop(gone);
        assert_eq!(takes.load(SeqCst), 2);
        drop(first);
        let (taken, turn) = stays.await.unwrap();
        assert_eq!((taken, takes.load(SeqCst)), (2, 3));
        assert!(turn.0.is_some());
    }

    #[tokio::test]
    async fn a_caller_that_asks_for_many_waits_for_itself_alone() {
        let turns = turns(4);
        let (many, other) = (asker(turns, "many"), asker(turns, "other"));
        let held = [many.wait().await, many.wait().await];
        let mut waiting: Vec<_> = (0..100).map(|_| Box::pin(many.wait())).collect();
        for waiting in &mut waiting {
            assert!(futures::poll!(waiting).is_pending());
        }
        let own = [other.wait().now_or_never(), other.wait().now_or_never()];
        assert!(own.iter().all(Option::is_some), "at once");
        // All are taken: the next one is no turn of the hundred.
        let third = asker(turns, "third");
        let mut third = Box::pin(third.wait());
        assert!(futures::poll!(&mut third).is_pending());
        drop(held);
        assert!(futures::poll!(&mut third).is_ready());
    }

    #[tokio::test]
    async fn what_is_shared_is_made_by_whoever_has_a_turn_first() {
        let (turns, shared) = (turns(4), Shared::default());
        let (many, other) = (asker(turns, "many"), asker(turns, "other"));
        let held = [many.wait().await, many.wait().await];
        let get = |asker: &Asker, what: u32| {
            let (asker, shared) = (asker.clone(), &shared);
            async move { shared.get_in_turn(&asker, async |_| Ok::<_, Infallible>(false), async |_| Ok(what)).await }
        };
        let mut first = Box::pin(get(&many, 1));
        assert!(futures::poll!(&mut first).is_pending());
        let made = get(&other, 2).now_or_never().expect("it waits for no turn of another").unwrap();
        assert_eq!(first.now_or_never().expect("it has what was made meanwhile").unwrap(), made);
        assert_eq!(*made, 2);
        drop(held);
        assert_eq!(*get(&many, 3).await.unwrap(), 3, "nothing is kept for those who come later");
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
            let (shared, made) = (&shared, &made);
            async move {
                let make = async |_| Ok::<_, Infallible>(made.fetch_add(1, SeqCst));
                shared.get_in_turn(&asker(turns(2), "one"), async |_| Ok(as_now), make).await
            }
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
