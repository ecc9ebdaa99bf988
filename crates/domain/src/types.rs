//! Small value types that every part of the domain uses: times, row indexes, termination types, states.

use std::fmt;

use super::coded::{Coded, Error, Reader, Writer, variants};

/// A point in time or a duration in nanoseconds; points count from the Unix epoch.
///
/// The domain never reads a clock: `now` is always an argument.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nanos(pub i64);

impl Nanos {
    /// The smallest time, used where nothing is known.
    pub const ZERO: Nanos = Nanos(0);

    /// A duration of whole seconds.
    pub const fn from_secs(secs: i64) -> Nanos {
        Nanos(secs.saturating_mul(1_000_000_000))
    }

    /// A duration of whole milliseconds.
    pub const fn from_millis(millis: i64) -> Nanos {
        Nanos(millis.saturating_mul(1_000_000))
    }

    /// Whole seconds, rounded towards zero.
    pub const fn as_secs(self) -> i64 {
        self.0 / 1_000_000_000
    }

    /// Saturating sum.
    pub const fn plus(self, other: Nanos) -> Nanos {
        Nanos(self.0.saturating_add(other.0))
    }

    /// Saturating difference.
    pub const fn minus(self, other: Nanos) -> Nanos {
        Nanos(self.0.saturating_sub(other.0))
    }
}

macro_rules! row_index {
    ($($(#[$doc:meta])* $table:literal $name:ident),+ $(,)?) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u32);

        impl $name {
            /// Which table it is of.
            pub(crate) const TABLE: usize = $table;

            /// The position in its table.
            pub const fn ix(self) -> usize {
                self.0 as usize
            }
        }

        impl From<usize> for $name {
            fn from(ix: usize) -> Self {
                $name(ix as u32)
            }
        }

        impl $crate::table::Key for $name {
            fn ix(self) -> usize {
                self.0 as usize
            }
        }

        impl Coded for $name {
            fn write(&self, to: &mut Writer) {
                self.0.write(to);
            }

            fn read(from: &mut Reader) -> Result<Self, Error> {
                let ix = u32::read(from)?;
                from.note_row($name::TABLE, ix);
                Ok($name(ix))
            }
        }
    )+};
}

row_index! {
    /// A row of the node table.
    0 NodeIx,
    /// A row of the queue table.
    1 QueueIx,
    /// A row of the application table.
    2 AppIx,
    /// A row of the ask and allocation table.
    3 AllocIx,
    /// A shape: resources and constraints that asks have in common.
    4 ShapeIx,
}

/// Why an allocation ends (`si.v1.TerminationType`). The receiver of a release that the core originates answers with
/// the same type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Termination {
    /// Not set; handled as [`Termination::StoppedByRm`] (R4.20).
    #[default]
    Unknown,
    /// Stopped or killed by the resource manager.
    StoppedByRm,
    /// A time-out in the core.
    Timeout,
    /// Preempted by the core.
    Preempted,
    /// A placeholder that a real allocation replaced.
    PlaceholderReplaced,
    /// The shim could not carry the allocation out: it is undone and its ask is pending again (R4.28).
    FailedOnRm,
}

/// States of an application (R3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AppState {
    /// Submitted, nothing asked for yet.
    New,
    /// It has asks, and no real allocation yet.
    Accepted,
    /// It has real allocations.
    Running,
    /// Refused at submission.
    Rejected,
    /// Nothing allocated and nothing pending.
    Completing,
    /// Thirty seconds in Completing have passed.
    Completed,
    /// Its hard gang timed out and placeholders are still to be confirmed.
    Failing,
    /// Its hard gang timed out.
    Failed,
    /// Ended long ago, or its execution time is over.
    Expired,
    /// Its soft gang timed out and placeholders are still to be confirmed.
    Resuming,
}

impl AppState {
    /// All of them, in the order of their declaration.
    pub const ALL: [AppState; 10] = [
        AppState::New,
        AppState::Accepted,
        AppState::Running,
        AppState::Rejected,
        AppState::Completing,
        AppState::Completed,
        AppState::Failing,
        AppState::Failed,
        AppState::Expired,
        AppState::Resuming,
    ];

    /// The name that callbacks and REST show.
    pub const fn name(self) -> &'static str {
        match self {
            AppState::New => "New",
            AppState::Accepted => "Accepted",
            AppState::Running => "Running",
            AppState::Rejected => "Rejected",
            AppState::Completing => "Completing",
            AppState::Completed => "Completed",
            AppState::Failing => "Failing",
            AppState::Failed => "Failed",
            AppState::Expired => "Expired",
            AppState::Resuming => "Resuming",
        }
    }
}

impl fmt::Display for AppState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// States of a queue or a partition (R0.15).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ObjectState {
    /// In use.
    #[default]
    Active,
    /// Takes nothing new; what is there goes on.
    Draining,
    /// Takes nothing and schedules nothing.
    Stopped,
}

impl ObjectState {
    /// The name that REST shows.
    pub const fn name(self) -> &'static str {
        match self {
            ObjectState::Active => "Active",
            ObjectState::Draining => "Draining",
            ObjectState::Stopped => "Stopped",
        }
    }
}

/// What happens to a gang application when its placeholders time out (R3.42).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum GangStyle {
    /// It goes on as an ordinary application.
    #[default]
    Soft,
    /// It fails.
    Hard,
}

variants!(Termination {
    0 Unknown,
    1 StoppedByRm,
    2 Timeout,
    3 Preempted,
    4 PlaceholderReplaced,
    5 FailedOnRm,
});
variants!(AppState {
    0 New,
    1 Accepted,
    2 Running,
    3 Rejected,
    4 Completing,
    5 Completed,
    6 Failing,
    7 Failed,
    8 Expired,
    9 Resuming,
});
variants!(ObjectState { 0 Active, 1 Draining, 2 Stopped });
variants!(GangStyle { 0 Soft, 1 Hard });

impl Coded for Nanos {
    fn write(&self, to: &mut Writer) {
        to.int(self.0);
    }

    fn read(from: &mut Reader) -> Result<Self, Error> {
        from.int().map(Nanos)
    }

    fn is_absent(&self) -> bool {
        *self == Nanos::ZERO
    }

    fn absent() -> Option<Self> {
        Some(Nanos::ZERO)
    }
}
