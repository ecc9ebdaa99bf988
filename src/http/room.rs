//! Connections of the HTTP doors that are open: whose they are, and how many each caller may have. The gRPC door has its own
//! account (`grpc::room`).
//!
//! How many there may be at all is the listener's part. One caller has at most half of the places, so that no token closes the
//! doors to the others, and all callers together leave some for what is for everybody: signs of life are answered however full
//! it is, or the server would be restarted for it.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
};

use actix_web::http::StatusCode;

/// One of so many places is left for what is for everybody.
const LEFT: usize = 8;

/// See the module.
#[derive(Debug)]
pub struct Room {
    size: usize,
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
    /// For so many connections.
    pub fn new(size: usize) -> Arc<Room> {
        Arc::new(Room { size, taken: Mutex::default() })
    }

    /// A connection has come.
    pub fn seat(self: &Arc<Room>) -> Seat {
        Seat { room: self.clone(), caller: OnceLock::new() }
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        // Nothing panics while it is held.
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The place of a connection, until that ends.
#[derive(Debug)]
pub struct Seat {
    room: Arc<Room>,
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
        }
        Ok(())
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let Some(caller) = self.caller.get() else { return };
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
        let room = Room::new(16);
        let open = |caller: &str| {
            let seat = room.seat();
            seat.admit(|| caller.to_owned()).map(|()| seat)
        };
        let mut evil: Vec<Seat> = (0..8).map(|_| open("evil").expect("a place")).collect();
        assert_eq!(open("evil").unwrap_err(), Full::Caller(8));
        assert_eq!(evil[0].admit(|| "evil".to_owned()), Ok(()), "one that has its place");
        let other: Vec<Seat> = (0..6).map(|_| open("other").expect("a place")).collect();
        assert_eq!(open("third").unwrap_err(), Full::All);
        // What is for everybody takes none of them.
        let sign_of_life = room.seat();
        evil.pop();
        assert!(open("third").is_ok());
        assert!(open("evil").is_ok(), "what has ended does not count");
        drop((evil, other, sign_of_life));
        assert!(room.taken().callers.is_empty() && room.taken().all == 0);
        // However few there may be.
        assert!(Room::new(1).seat().admit(|| "alone".to_owned()).is_ok());
    }
}
