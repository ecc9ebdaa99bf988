//! Connections of the HTTP doors that are open: whose they are, how many each caller may have, and which has to go where others
//! wait for a place. The gRPC door has its own account (`grpc::room`).
//!
//! How many there may be at all is the listener's part. One caller has at most half of the places, so that no token closes the
//! doors to the others, and all callers together leave some for what is for everybody: signs of life are answered however full
//! it is, or the server would be restarted for it. One over which nobody has asked for anything but that is worth the least, as
//! one that is not encrypted yet: it goes for the next that comes, before the listener takes no more.

use std::{
    cell::RefCell,
    collections::HashMap,
    rc::Rc,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
};

use actix_web::{http::StatusCode, rt::net::TcpStream};

use super::turns::Connection;
use crate::{access::Caller, messages::strangers::Strangers};

/// One of so many places is left for what is for everybody.
const LEFT: usize = 8;
/// And one of so many is left for those that come while others go.
const COMING: usize = 16;

thread_local! {
    /// Those of this worker.
    static HERE: RefCell<Here> = RefCell::default();
}

/// See the module.
#[derive(Debug)]
pub struct Room {
    size: usize,
    /// What each worker has of it.
    each: usize,
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    /// Connections of each caller.
    callers: HashMap<Arc<str>, usize>,
    /// Of all of them.
    all: usize,
}

impl Room {
    /// For so many connections of so many workers.
    pub fn new(size: usize, workers: usize) -> Arc<Room> {
        Arc::new(Room { size, each: (size / workers.max(1)).max(1), taken: Mutex::default() })
    }

    /// Connections that a worker may have.
    pub fn each(&self) -> usize {
        self.each
    }

    /// A connection has come to this worker, before anything was read of it. Another of its strangers goes where there is no place
    /// left but for those that come.
    pub fn seat(self: &Arc<Room>, stream: &TcpStream) -> Place {
        let address = Caller::Anyone.key(stream.peer_addr().ok().map(|peer| peer.ip()));
        let connection = Connection::of(stream);
        let seat = Rc::new(self.come(address.into(), Some(connection)));
        HERE.with_borrow_mut(|here| here.seats.insert(connection, seat));
        Place(connection)
    }

    fn come(self: &Arc<Room>, address: Arc<str>, connection: Option<Connection>) -> Seat {
        let most = self.each.saturating_sub((self.each / COMING).max(1)).max(1);
        let number = HERE.with_borrow_mut(|here| here.come(address, connection, most));
        Seat { room: self.clone(), number, caller: OnceLock::new() }
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        // Nothing panics while it is held.
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Keeps the seat of a connection for as long as that is served.
#[derive(Debug)]
pub struct Place(Connection);

impl Drop for Place {
    fn drop(&mut self) {
        // Not while what is kept here is borrowed: its end looks there too.
        let seat = HERE.try_with(|here| here.borrow_mut().seats.remove(&self.0));
        drop(seat);
    }
}

/// The seat of a connection that is being served here.
pub fn seat_of(stream: &TcpStream) -> Option<Rc<Seat>> {
    HERE.with_borrow(|here| here.seats.get(&Connection::of(stream)).cloned())
}

/// The seat of a connection, until nothing of that is left.
#[derive(Debug)]
pub struct Seat {
    room: Arc<Room>,
    /// Its number in its worker.
    number: u64,
    /// Who sent the first request of those that are not for everybody.
    caller: OnceLock<Arc<str>>,
}

/// Why a connection may not stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Full {
    /// Its caller has so many.
    Caller(usize),
    /// All callers have those that they may have together.
    All,
}

impl Seat {
    /// A request of this caller has come.
    ///
    /// # Errors
    /// There are as many connections as there may be, and this is one more.
    pub fn admit(&self, caller: impl FnOnce() -> String) -> Result<(), Full> {
        if self.caller.get().is_some() {
            return Ok(());
        }
        let size = self.room.size;
        let caller: Arc<str> = caller().into();
        let mut taken = self.room.taken();
        let count = taken.callers.get(&caller).copied().unwrap_or_default();
        if count >= (size / 2).max(1) {
            return Err(Full::Caller(count));
        }
        if taken.all >= size.saturating_sub((size / LEFT).max(1)).max(1) {
            return Err(Full::All);
        }
        // The requests of a connection are looked at by one thread.
        if self.caller.set(caller.clone()).is_ok() {
            *taken.callers.entry(caller).or_default() += 1;
            taken.all += 1;
            HERE.with_borrow_mut(|here| {
                here.strangers.remove(self.number);
                here.known += 1;
            });
        }
        Ok(())
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let caller = self.caller.get();
        // A worker that has ended has no more that come.
        let _ = HERE.try_with(|here| match caller {
            Some(_) => here.borrow_mut().known -= 1,
            None => drop(here.borrow_mut().strangers.remove(self.number)),
        });
        let Some(caller) = caller else { return };
        let mut taken = self.room.taken();
        taken.all -= 1;
        if let Some(count) = taken.callers.get_mut(caller) {
            *count -= 1;
            if *count == 0 {
                taken.callers.remove(caller);
            }
        }
    }
}

/// Connections of one worker.
#[derive(Debug, Default)]
struct Here {
    /// The last number.
    last: u64,
    seats: HashMap<Connection, Rc<Seat>>,
    strangers: Strangers<Option<Connection>>,
    /// Of callers.
    known: usize,
}

impl Here {
    /// One more, before which another goes if there are `most`.
    fn come(&mut self, address: Arc<str>, connection: Option<Connection>, most: usize) -> u64 {
        while self.strangers.len() + self.known >= most
            && let Some((address, connection)) =
                self.strangers.first().and_then(|(number, _)| self.strangers.remove(number))
        {
            tracing::debug!(of = &*address, "an HTTP connection makes room for another");
            connection.into_iter().for_each(Connection::end);
        }
        self.last += 1;
        self.strangers.add(self.last, address, connection);
        self.last
    }
}

impl Full {
    /// The status of the answer.
    pub fn status(self) -> StatusCode {
        match self {
            Full::Caller(_) => StatusCode::TOO_MANY_REQUESTS,
            Full::All => StatusCode::SERVICE_UNAVAILABLE,
        }
    }

    /// What the caller, called so, is told.
    pub fn told(self, who: &str) -> String {
        match self {
            Full::Caller(open) => {
                format!("{who} has {open} connections open, half of those that this server takes: close some of them")
            }
            Full::All => "as many connections are open as this server takes: try again".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_caller_has_half_of_the_places_and_all_leave_some() {
        let room = Room::new(16, 1);
        let open = |caller: &str| {
            let seat = room.come(caller.into(), None);
            seat.admit(|| caller.to_owned()).map(|()| seat)
        };
        let mut evil: Vec<Seat> = (0..8).map(|_| open("evil").expect("a place")).collect();
        assert_eq!(open("evil").unwrap_err(), Full::Caller(8));
        assert_eq!(evil[0].admit(|| "evil".to_owned()), Ok(()), "one that has its place");
        let other: Vec<Seat> = (0..6).map(|_| open("other").expect("a place")).collect();
        assert_eq!(open("third").unwrap_err(), Full::All);
        // What is for everybody takes none of them.
        let sign_of_life = room.come("probe".into(), None);
        evil.pop();
        assert!(open("third").is_ok());
        assert!(open("evil").is_ok(), "what has ended does not count");
        drop((evil, other, sign_of_life));
        assert!(room.taken().callers.is_empty() && room.taken().all == 0);
        // However few there may be.
        assert!(Room::new(1, 2).come("alone".into(), None).admit(|| "alone".to_owned()).is_ok());
    }

    #[test]
    fn the_oldest_stranger_of_the_address_that_has_most_goes_for_the_next_that_comes() {
        let mut here = Here::default();
        let come = |here: &mut Here, address: &str| here.come(address.into(), None, 5);
        let of = |here: &Here| here.strangers.numbers();
        for address in ["a", "b", "b", "c", "c"] {
            come(&mut here, address);
        }
        assert_eq!(come(&mut here, "d"), 6);
        assert_eq!(of(&here), [1, 3, 4, 5, 6].into(), "of two with as many the one that came first");
        come(&mut here, "c");
        assert_eq!(of(&here), [1, 3, 5, 6, 7].into());
        come(&mut here, "e");
        come(&mut here, "f");
        assert_eq!(of(&here), [3, 6, 7, 8, 9].into(), "where each has one the oldest");
        // Who is known stays, however many come.
        here.strangers.remove(3);
        here.known = 4;
        for number in 10..20 {
            assert_eq!(come(&mut here, "g"), number);
        }
        assert_eq!(of(&here), [19].into());
        here.strangers.remove(19);
        assert!(here.strangers.is_empty());
    }
}
