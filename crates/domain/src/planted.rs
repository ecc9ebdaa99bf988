//! Faults that are put in on purpose, so that it can be seen that the simulator finds them. Only with the feature `planted`, which no
//! release has: without it `planted!` is `false`, and nothing of it is in the program; with it a build without debug assertions,
//! as a release is, fails.

#[cfg(all(feature = "planted", not(debug_assertions)))]
compile_error!("the feature \"planted\" puts faults in on purpose: it is for builds with debug assertions only");

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
    pub const ALL: [(&str, &str); 42] = [
        ("queue-refund", "what goes is given back to the leaf only, not to the queues above"),
        ("node-refund", "what goes from a node stays in the sum of what is allocated there"),
        ("user-refund", "what goes is not given back to its user"),
        ("pending-stays", "an ask that is placed still counts as pending in root"),
        ("preempting-stays", "a victim that is gone still counts as on its way out"),
        ("claim-stays", "a claim that ends still counts in its queues"),
        ("max-ignored", "the max of a queue is not looked at"),
        ("limit-ignored", "limits of users and groups are not looked at"),
        ("node-overfull", "what is placed on a node is not taken from what is free there"),
        ("drain-ignored", "a node that an operator drained takes allocations"),
        ("room-unnoticed", "asks that wait for nodes are not looked at when a node has room again"),
        ("limit-unnoticed", "asks that wait for a limit are not looked at when it has room again"),
        ("gang-early", "parts of a gang are placed before all of its placeholders are"),
        ("gang-in-parts", "an atomic gang is placed one by one"),
        ("swap-too-large", "a part that is larger takes the place of a placeholder"),
        ("swap-told-twice", "a placeholder that is being replaced may be replaced by another"),
        ("swap-silent", "the shim is not told of what took a placeholder's place"),
        ("guarantee-ignored", "victims are taken from queues that have no more than they are guaranteed"),
        ("victim-untold", "victims are marked, and not told to go"),
        ("timer-late", "what falls due waits one more round"),
        ("confirmation-lost", "a confirmation does not end the waiting for it"),
        ("load-drains", "a snapshot is read without what operators drained"),
        ("load-epoch", "after a snapshot is read, what waits in vain is looked at once more"),
        ("resume-gap", "a stream that comes back misses a line"),
        ("lines-early", "lines leave before their record counts"),
        ("receipt-early", "requests are acknowledged before their record counts"),
        ("numbers-lost", "a request of several parts never counts as taken"),
        ("torn-kept", "a torn end is not cut off"),
        ("crash-unnoticed", "after a machine stopped, the log is trusted as after a process"),
        ("snapshot-behind", "records that a snapshot has are applied to it again"),
        ("questions-lost", "open questions are not in a snapshot"),
        ("drain-unwritten", "operators are told that a drain is on disk before it is"),
        ("drains-unread", "a start does not read what operators drained"),
        ("session-undrains", "a session begins without the hosts that operators drained"),
        ("orders-forgotten", "a session begins without what operators told queues"),
        ("append-unguarded", "the log in etcd is added to without a look at who leads"),
        ("append-skips", "a record is taken for one that is in etcd already"),
        ("doubt-trusted", "what etcd did not answer to counts as done"),
        ("take-behind", "whoever takes over goes by a head that is one record old"),
        ("take-unguarded", "the lead is taken from whoever has it by then"),
        ("snapshot-ahead", "a follower begins one record behind where its snapshot ends"),
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

    /// Takes it away again.
    pub fn unplant() {
        ON.store(NONE, SeqCst);
    }

    /// See [`planted!`](crate::planted!).
    pub fn is_on(name: &str) -> bool {
        ALL.get(ON.load(SeqCst)).is_some_and(|(on, _)| *on == name)
    }
}

#[cfg(feature = "planted")]
pub use switches::{ALL, is_on, plant, unplant};
