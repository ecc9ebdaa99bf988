//! Faults that are put in on purpose, so that it can be seen that the simulator finds them. Only with the feature `planted`, which no
//! release has: without it `planted!` is `false`, and nothing of it is in the program.

/// True where the fault of this name is put in.
#[cfg(feature = "planted")]
#[macro_export]
macro_rules! planted {
    ($name:literal) => {
        $crate::planted::is_on($name)
    };
}

/// True where the fault of this name is put in: never, without the feature `planted`.
#[cfg(not(feature = "planted"))]
#[macro_export]
macro_rules! planted {
    ($name:literal) => {
        false
    };
}

#[cfg(feature = "planted")]
mod switches {
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

    /// All of them: where each is, and what goes wrong.
    pub const ALL: [(&str, &str); 9] = [
        ("resume-gap", "a stream that comes back misses a line"),
        ("lines-early", "lines leave before their record counts"),
        ("receipt-early", "requests are acknowledged before their record counts"),
        ("numbers-lost", "a request of several parts never counts as taken"),
        ("torn-kept", "a torn end is not cut off"),
        ("crash-unnoticed", "after a machine stopped, the log is trusted as after a process"),
        ("snapshot-behind", "records that a snapshot has are applied to it again"),
        ("questions-lost", "open questions are not in a snapshot"),
        ("schedule-unrecorded", "calls that decide nothing are not recorded"),
    ];

    const NONE: usize = usize::MAX;
    static ON: AtomicUsize = AtomicUsize::new(NONE);

    fn place(name: &str) -> Option<usize> {
        ALL.iter().position(|(known, _)| *known == name)
    }

    /// Puts one in, for the rest of the process, in the place of any other.
    ///
    /// # Errors
    /// There is none of this name.
    pub fn plant(name: &str) -> Result<(), String> {
        let at = place(name).ok_or_else(|| {
            let known: Vec<&str> = ALL.iter().map(|(name, _)| *name).collect();
            format!("there is no fault \"{name}\" to be planted; there are {}", known.join(", "))
        })?;
        ON.store(at, SeqCst);
        Ok(())
    }

    /// See [`planted!`](crate::planted!).
    pub fn is_on(name: &str) -> bool {
        let on = ON.load(SeqCst);
        on != NONE && place(name) == Some(on)
    }
}

#[cfg(feature = "planted")]
pub use switches::{ALL, is_on, plant};
