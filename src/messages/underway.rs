//! Bytes of requests that are still arriving, at all doors: [`Limits`] bounds each of them, and this all those of a caller and of the
//! server, so that nobody fills the memory with the beginnings of many.
//!
//! [`Limits`]: super::limits::Limits

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

/// Bytes of one caller, beside one message: eight of the largest by default, which is more than a shim sends at once.
pub const OF_ONE: usize = 64 << 20;
/// Bytes of all callers: what a server with little memory still has. One message of each caller is let in in any case.
pub const OF_ALL: usize = 256 << 20;

/// See the module.
#[derive(Debug, Default)]
pub struct Underway(Mutex<Sums>);

#[derive(Debug, Default)]
struct Sums {
    all: usize,
    callers: HashMap<Arc<str>, usize>,
}

/// A message that is arriving. Its bytes are given back when this is dropped.
#[derive(Debug)]
pub struct Coming {
    underway: Arc<Underway>,
    caller: Arc<str>,
    bytes: usize,
}

/// There is too much under way.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Crowded {
    /// Of this caller.
    #[error(
        "{0} bytes of your requests are under way, more than {1}: wait until some of them have come before you send more"
    )]
    Own(usize, usize),
    /// Of all callers.
    #[error("{0} bytes of requests are under way to this server, more than {1}: send it again, one at a time")]
    All(usize, usize),
}

impl Underway {
    /// A message of this caller begins; callers are told apart as for other limits.
    pub fn begin(self: &Arc<Underway>, caller: Arc<str>) -> Coming {
        Coming { underway: self.clone(), caller, bytes: 0 }
    }

    fn take(&self, caller: &Arc<str>, bytes: usize, message: usize) -> Result<(), Crowded> {
        let mut sums = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let all = sums.all + bytes;
        let own = sums.callers.get(caller).map_or(0, |own| *own) + bytes;
        // One message of each is let through, whatever the others do.
        if own > message {
            let most = OF_ONE.saturating_add(message);
            if own > most {
                return Err(Crowded::Own(own, most));
            }
            if all > OF_ALL {
                return Err(Crowded::All(all, OF_ALL));
            }
        }
        sums.all = all;
        sums.callers.insert(caller.clone(), own);
        Ok(())
    }

    fn give_back(&self, caller: &Arc<str>, bytes: usize) {
        let mut sums = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        sums.all -= bytes;
        if let Some(own) = sums.callers.get_mut(caller) {
            *own -= bytes;
            if *own == 0 {
                sums.callers.remove(caller);
            }
        }
    }
}

impl Coming {
    /// So many bytes more of it are kept; a message has `message` bytes at most.
    ///
    /// # Errors
    /// There is no room for them.
    pub fn more(&mut self, bytes: usize, message: usize) -> Result<(), Crowded> {
        self.underway.take(&self.caller, bytes, message)?;
        self.bytes += bytes;
        Ok(())
    }

    /// Only so many bytes of it are still in memory.
    pub fn keep(&mut self, bytes: usize) {
        let gone = self.bytes.saturating_sub(bytes);
        if gone > 0 {
            self.underway.give_back(&self.caller, gone);
            self.bytes -= gone;
        }
    }
}

impl Drop for Coming {
    fn drop(&mut self) {
        self.keep(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MESSAGE: usize = 8 << 20;

    #[test]
    fn each_caller_has_a_bound_and_so_have_all() {
        let underway = Arc::<Underway>::default();
        let begun = |caller: &str| underway.begin(caller.into());
        let mut own: Vec<Coming> = Vec::new();
        let refused = loop {
            let mut coming = begun("evil");
            match coming.more(MESSAGE, MESSAGE) {
                Ok(()) => own.push(coming),
                Err(why) => break why,
            }
        };
        assert_eq!((own.len(), refused), (9, Crowded::Own(10 * MESSAGE, OF_ONE + MESSAGE)));
        let mut others: Vec<Coming> = Vec::new();
        for n in 0..40 {
            let mut coming = begun(&format!("other-{n}"));
            coming.more(MESSAGE, MESSAGE).expect("one of each comes");
            others.push(coming);
        }
        let mut second = begun("other-1");
        assert_eq!(second.more(1, MESSAGE), Err(Crowded::All(49 * MESSAGE + 1, OF_ALL)));
        own.truncate(1);
        others.truncate(2);
        second.more(MESSAGE, MESSAGE).expect("there is room again");
        second.keep(1);
        assert_eq!(underway.0.lock().unwrap().all, 3 * MESSAGE + 1);
        drop((own, others, second));
        let sums = underway.0.lock().unwrap();
        assert_eq!((sums.all, sums.callers.len()), (0, 0));
    }
}
