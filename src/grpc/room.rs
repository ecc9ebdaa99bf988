//! Connections that are open: how many there may be, whose they are, and which has to go where others wait for a place.
//!
//! One over which nobody has called who may is worth the least: it goes first, as soon as it has had its chance. Then one that
//! is not in use. One caller has at most half of the places, so that no token closes the door to the others.

use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    task::{Context, Poll},
    time::Duration,
};

use futures::task::AtomicWaker;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{Instant, timeout},
};

use crate::{access::Caller, messages::strangers::Strangers};

/// So long a connection has for its first call where others wait for its place, unless its address has a quarter of the places for such.
const CHANCE: Duration = Duration::from_secs(2);
/// One without an open call for so long goes where others wait.
const IDLE: Duration = Duration::from_secs(300);
/// How often those who wait look for one that has to go.
const LOOK: Duration = Duration::from_millis(250);

/// See the module.
#[derive(Debug)]
pub struct Room {
    size: usize,
    places: Arc<Semaphore>,
    seats: Mutex<Seats>,
}

#[derive(Debug, Default)]
struct Seats {
    next: u64,
    all: HashMap<u64, Seat>,
    /// Those over which nobody has called, but for those that were told to go.
    strangers: Strangers<()>,
    /// Connections of each caller.
    callers: HashMap<String, usize>,
}

#[derive(Debug)]
struct Seat {
    /// The address of the client, as such are counted.
    address: Arc<str>,
    began: Instant,
    /// Who called first of those who may.
    caller: Option<String>,
    /// Open calls.
    calls: usize,
    /// When a call was welcome last, or ended; before that, when it began.
    last: Instant,
    closing: Arc<Closing>,
}

/// A connection has to go.
#[derive(Debug, Default)]
struct Closing {
    told: AtomicBool,
    waker: AtomicWaker,
}

impl Room {
    /// For so many connections.
    pub fn new(size: usize) -> Arc<Room> {
        Arc::new(Room { size, places: Arc::new(Semaphore::new(size)), seats: Mutex::default() })
    }

    /// What one caller may have.
    fn share(&self) -> usize {
        (self.size / 2).max(1)
    }

    fn seats(&self) -> MutexGuard<'_, Seats> {
        // Nothing panics while it is held.
        self.seats.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place for a connection from there, as soon as there is one.
    pub async fn place(self: &Arc<Room>, address: Option<IpAddr>) -> Place {
        loop {
            if let Ok(permit) = self.places.clone().try_acquire_owned() {
                return self.take(permit, address);
            }
            self.send_away();
            // Nobody closes it.
            if let Ok(Ok(permit)) = timeout(LOOK, self.places.clone().acquire_owned()).await {
                return self.take(permit, address);
            }
        }
    }

    fn take(self: &Arc<Room>, permit: OwnedSemaphorePermit, address: Option<IpAddr>) -> Place {
        let (closing, now) = (Arc::<Closing>::default(), Instant::now());
        let address: Arc<str> = Caller::Anyone.key(address).into();
        let seat =
            Seat { address: address.clone(), began: now, caller: None, calls: 0, last: now, closing: closing.clone() };
        let mut seats = self.seats();
        seats.next += 1;
        let number = seats.next;
        seats.all.insert(number, seat);
        seats.strangers.add(number, address, ());
        drop(seats);
        Place { ticket: Ticket { room: self.clone(), number }, closing, _permit: permit }
    }

    /// Tells one connection to go, if there is one that has to.
    fn send_away(&self) {
        let (mut seats, now) = (self.seats(), Instant::now());
        let had_its_chance = |(number, count): &(u64, usize)| {
            *count > (self.size / 4).max(1) || seats.all.get(number).is_none_or(|seat| now - seat.began >= CHANCE)
        };
        let stranger = seats.strangers.first().filter(had_its_chance).map(|(number, _)| number);
        let Some(number) = stranger.or_else(|| seats.idle(now)) else { return };
        seats.strangers.remove(number);
        if let Some(seat) = seats.all.get(&number) {
            tracing::debug!(of = &*seat.address, "a gRPC connection makes room for another");
            seat.closing.told.store(true, SeqCst);
            seat.closing.waker.wake();
        }
    }
}

impl Seats {
    /// The connection without an open call that has been so for the longest time.
    fn idle(&self, now: Instant) -> Option<u64> {
        let is_idle = |seat: &Seat| {
            let away = seat.closing.told.load(SeqCst);
            seat.caller.is_some() && seat.calls == 0 && now - seat.last >= IDLE && !away
        };
        let idle = self.all.iter().filter(|(_, seat)| is_idle(seat));
        idle.min_by_key(|(_, seat)| seat.last).map(|(number, _)| *number)
    }
}

/// The place of a connection, until it is dropped.
#[derive(Debug)]
pub struct Place {
    ticket: Ticket,
    closing: Arc<Closing>,
    _permit: OwnedSemaphorePermit,
}

impl Place {
    /// For its calls.
    pub fn ticket(&self) -> Ticket {
        self.ticket.clone()
    }

    /// Ready when the connection has to go.
    pub fn poll_closed(&self, context: &mut Context<'_>) -> Poll<()> {
        self.closing.waker.register(context.waker());
        if self.closing.told.load(SeqCst) { Poll::Ready(()) } else { Poll::Pending }
    }

    /// Until when the first call of somebody who may has to come; `None`: it has come.
    pub fn due(&self, patience: Duration) -> Option<Instant> {
        let seats = self.ticket.room.seats();
        let seat = seats.all.get(&self.ticket.number)?;
        let last = if seat.calls > 0 { Instant::now() } else { seat.last };
        seat.caller.is_none().then(|| last + patience)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut seats = self.ticket.room.seats();
        seats.strangers.remove(self.ticket.number);
        if let Some(caller) = seats.all.remove(&self.ticket.number).and_then(|seat| seat.caller)
            && let Some(count) = seats.callers.get_mut(&caller)
        {
            *count -= 1;
            if *count == 0 {
                seats.callers.remove(&caller);
            }
        }
    }
}

/// What calls know of the place of their connection.
#[derive(Clone, Debug)]
pub struct Ticket {
    room: Arc<Room>,
    number: u64,
}

impl Ticket {
    /// A call of this caller, who may make it, begins.
    ///
    /// # Errors
    /// The caller has as many connections as it may, and this is one more.
    pub fn admit(&self, caller: impl FnOnce() -> String) -> Result<Call, usize> {
        let mut seats = self.room.seats();
        let Seats { all, callers, strangers, .. } = &mut *seats;
        if let Some(seat) = all.get_mut(&self.number).filter(|seat| seat.caller.is_none()) {
            let caller = caller();
            let count = callers.entry(caller.clone()).or_default();
            if *count >= self.room.share() {
                return Err(*count);
            }
            *count += 1;
            seat.caller = Some(caller);
            strangers.remove(self.number);
        }
        drop(seats);
        Ok(self.welcome())
    }

    /// A call that is for everybody begins. The connection stays while it is open, as long as nobody needs the place.
    pub fn welcome(&self) -> Call {
        self.count(|calls| calls + 1);
        Call(self.clone())
    }

    fn count(&self, change: impl FnOnce(usize) -> usize) {
        if let Some(seat) = self.room.seats().all.get_mut(&self.number) {
            seat.calls = change(seat.calls);
            seat.last = Instant::now();
        }
    }
}

/// An open call, until it is dropped.
#[derive(Debug)]
pub struct Call(Ticket);

impl Drop for Call {
    fn drop(&mut self) {
        self.0.count(|calls| calls - 1);
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;
    use tokio::time::sleep;

    use super::*;

    fn address(last: u8) -> Option<IpAddr> {
        Some([10, 0, 0, last].into())
    }

    fn closed(place: &Place) -> bool {
        std::future::poll_fn(|context| place.poll_closed(context)).now_or_never().is_some()
    }

    /// Waits for a place while those of whom it is said so leave, as their connections would.
    async fn wait(room: &Arc<Room>, from: u8, places: &mut Vec<Place>) -> Option<Place> {
        let mut waiting = Box::pin(room.place(address(from)));
        for _ in 0..10 {
            if let Some(place) = waiting.as_mut().now_or_never() {
                return Some(place);
            }
            places.retain(|place| !closed(place));
            sleep(LOOK).await;
        }
        None
    }

    #[tokio::test(start_paused = true)]
    async fn those_who_never_called_make_room_the_oldest_of_the_most_first() {
        let room = Room::new(8);
        let mut places = Vec::new();
        for from in [1, 2, 2] {
            places.push(room.place(address(from)).await);
            sleep(Duration::from_millis(1)).await;
        }
        let mut known = Vec::new();
        for n in 0..5 {
            let place = room.place(address(3)).await;
            known.push((place.ticket().admit(|| format!("token {n}")).expect("its only one"), place));
        }
        let begun = Instant::now();
        let honest = wait(&room, 4, &mut places).await.expect("a place");
        assert!(begun.elapsed() >= CHANCE - LOOK, "they have their chance: {:?}", begun.elapsed());
        let ticket = |place: &Place| place.ticket.number;
        assert_eq!(places.iter().map(ticket).collect::<Vec<_>>(), [1, 3]);
        let _call = honest.ticket().admit(|| "token honest".to_owned()).expect("its only one");
        drop(known.pop());
        // More than a quarter of the places: no chance is waited for.
        places.push(room.place(address(2)).await);
        drop(known.pop());
        places.push(room.place(address(2)).await);
        let begun = Instant::now();
        assert!(wait(&room, 5, &mut places).await.is_some() && begun.elapsed() < CHANCE / 2);
        assert!(!closed(&honest) && known.iter().all(|(_, place)| !closed(place)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_without_an_open_call_makes_room_after_a_while() {
        let room = Room::new(2);
        let (busy, idle) = (room.place(address(1)).await, room.place(address(2)).await);
        let _open = busy.ticket().admit(|| "busy".to_owned()).expect("its only one");
        drop(idle.ticket().admit(|| "idle".to_owned()).expect("its only one"));
        let mut places = vec![busy, idle];
        assert!(wait(&room, 3, &mut places).await.is_none(), "not yet");
        sleep(IDLE).await;
        assert!(wait(&room, 3, &mut places).await.is_some());
        assert_eq!(places.len(), 1);
        assert!(!closed(&places[0]));
    }

    #[tokio::test(start_paused = true)]
    async fn a_caller_has_half_of_the_places() {
        let room = Room::new(8);
        let mut places = Vec::new();
        for n in 0..5 {
            let place = room.place(address(1)).await;
            let admitted = ["evil", "evil"].map(|caller| place.ticket().admit(|| caller.to_owned()).map(drop));
            assert_eq!(admitted, if n < 4 { [Ok(()); 2] } else { [Err(4); 2] }, "{n}");
            places.push(place);
        }
        assert!(places[4].ticket().admit(|| "other".to_owned()).is_ok(), "from the same address");
        places.remove(0);
        assert!(room.place(address(1)).await.ticket().admit(|| "evil".to_owned()).is_ok());
        drop(places);
        let seats = room.seats();
        assert!(seats.callers.is_empty() && seats.all.is_empty() && seats.strangers.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_for_everybody_prolongs_the_time() {
        let room = Room::new(2);
        let place = room.place(None).await;
        let (patience, began) = (Duration::from_secs(10), Instant::now());
        assert_eq!(place.due(patience), Some(began + patience));
        sleep(patience).await;
        let call = place.ticket().welcome();
        sleep(patience).await;
        assert_eq!(place.due(patience), Some(began + 3 * patience), "it is open");
        drop(call);
        assert_eq!(place.due(patience), Some(began + 3 * patience));
        drop(place.ticket().admit(|| "somebody".to_owned()));
        assert_eq!(place.due(patience), None);
    }
}
