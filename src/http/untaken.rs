//! Long answers that their clients have not taken yet: each keeps its text to its end. All of them together keep so many bytes,
//! and those of one caller a part of that, so that whoever reads slowly, or not at all, takes the memory of nobody else. A text
//! that several read is there once, and counts once.

use std::{
    collections::HashMap,
    sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError},
};

use actix_web::http::StatusCode;
use bytes::Bytes;

/// Bytes that are kept for all.
const ALL: usize = 1 << 30;
/// And for one caller.
const EACH: usize = 256 << 20;

/// Those of all HTTP workers.
pub static UNTAKEN: LazyLock<Arc<Untaken>> = LazyLock::new(|| Arc::new(Untaken::new(ALL, EACH)));

/// See the module.
#[derive(Debug)]
pub struct Untaken {
    most: usize,
    each: usize,
    account: Mutex<Account>,
}

#[derive(Debug, Default)]
struct Account {
    all: Texts,
    callers: HashMap<Arc<str>, Texts>,
}

/// Texts by where they are in memory: while one is held nothing else is there.
#[derive(Debug, Default)]
struct Texts {
    /// The bytes of each, and how many read it.
    readers: HashMap<usize, (usize, usize)>,
    bytes: usize,
}

impl Texts {
    /// A single answer may be as long as it is: it could never be read otherwise.
    fn has_room(&self, text: &Bytes, most: usize) -> bool {
        self.bytes == 0 || self.bytes + text.len() <= most || self.readers.contains_key(&place(text))
    }

    fn add(&mut self, text: &Bytes) {
        let (_, readers) = self.readers.entry(place(text)).or_insert_with(|| {
            self.bytes += text.len();
            (text.len(), 0)
        });
        *readers += 1;
    }

    fn remove(&mut self, text: usize) {
        let Some((bytes, readers)) = self.readers.get_mut(&text) else { return };
        *readers -= 1;
        if *readers == 0 {
            self.bytes -= *bytes;
            self.readers.remove(&text);
        }
    }
}

fn place(text: &Bytes) -> usize {
    text.as_ptr() as usize
}

/// An answer that counts until it is dropped.
#[derive(Debug)]
pub struct Held {
    untaken: Arc<Untaken>,
    caller: Arc<str>,
    text: usize,
}

/// There is no room for one more answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Full {
    /// For this caller, who has not taken so many bytes.
    Caller(usize),
    /// For anybody.
    All(usize),
}

impl Full {
    /// The status of the answer.
    pub fn status(self) -> StatusCode {
        match self {
            Full::Caller(_) => StatusCode::TOO_MANY_REQUESTS,
            Full::All(_) => StatusCode::SERVICE_UNAVAILABLE,
        }
    }

    /// What the caller, called so, is told.
    pub fn told(self, who: &str) -> String {
        match self {
            Full::Caller(bytes) => {
                format!("{who} has not taken {bytes} bytes of earlier answers: read those before you ask for more")
            }
            Full::All(bytes) => format!("{bytes} bytes of earlier answers are not taken yet: try again in a moment"),
        }
    }
}

impl Untaken {
    /// For so many bytes, and so many of one caller.
    pub fn new(most: usize, each: usize) -> Untaken {
        Untaken { most, each, account: Mutex::default() }
    }

    /// Counts an answer with this text.
    ///
    /// # Errors
    /// There is no room for it.
    pub fn hold(self: &Arc<Untaken>, caller: &str, text: &Bytes) -> Result<Held, Full> {
        let mut account = self.account();
        let own = account.callers.get(caller).filter(|own| !own.has_room(text, self.each));
        if let Some(own) = own {
            return Err(Full::Caller(own.bytes));
        }
        if !account.all.has_room(text, self.most) {
            return Err(Full::All(account.all.bytes));
        }
        account.all.add(text);
        let caller: Arc<str> = caller.into();
        account.callers.entry(caller.clone()).or_default().add(text);
        Ok(Held { untaken: self.clone(), caller, text: place(text) })
    }

    fn account(&self) -> MutexGuard<'_, Account> {
        // Nothing panics while it is held.
        self.account.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let mut account = self.untaken.account();
        account.all.remove(self.text);
        if let Some(own) = account.callers.get_mut(&self.caller) {
            own.remove(self.text);
            if own.readers.is_empty() {
                account.callers.remove(&self.caller);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_caller_keeps_so_many_bytes_and_a_text_that_many_read_counts_once() {
        let untaken = Arc::new(Untaken::new(100, 40));
        let text = |bytes: usize| Bytes::from(vec![b'x'; bytes]);
        let texts: Vec<Bytes> = (0..4).map(|_| text(20)).collect();
        let mut held: Vec<Held> =
            texts[..2].iter().map(|text| untaken.hold("one", text).expect("there is room")).collect();
        assert_eq!(untaken.hold("one", &texts[2]).unwrap_err(), Full::Caller(40));
        // What it has already costs nothing more.
        held.push(untaken.hold("one", &texts[0].clone()).expect("the same text"));
        held.push(untaken.hold("other", &texts[0]).expect("the same text"));
        let long = text(60);
        let longest = untaken.hold("third", &long).expect("the only one of its caller");
        assert_eq!(untaken.hold("fourth", &texts[2]).unwrap_err(), Full::All(100));
        drop(longest);
        held.push(untaken.hold("fourth", &texts[2]).expect("there is room again"));
        drop(held);
        let account = untaken.account();
        assert!(account.callers.is_empty() && account.all.readers.is_empty() && account.all.bytes == 0);
    }
}
