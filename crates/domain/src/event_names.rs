//! The names that `si.v1` gives to the enumerations of an event record (EVT-002, EVT-003).

use super::event::{Change, Detail, EventKind};

impl EventKind {
    /// All kinds.
    pub const ALL: [EventKind; 5] =
        [EventKind::Request, EventKind::App, EventKind::Node, EventKind::Queue, EventKind::UserGroup];

    /// The name in `si.v1`.
    pub const fn name(self) -> &'static str {
        match self {
            EventKind::Request => "REQUEST",
            EventKind::App => "APP",
            EventKind::Node => "NODE",
            EventKind::Queue => "QUEUE",
            EventKind::UserGroup => "USERGROUP",
        }
    }
}

impl Change {
    /// All changes.
    pub const ALL: [Change; 4] = [Change::None, Change::Set, Change::Add, Change::Remove];

    /// The name in `si.v1`.
    pub const fn name(self) -> &'static str {
        match self {
            Change::None => "NONE",
            Change::Set => "SET",
            Change::Add => "ADD",
            Change::Remove => "REMOVE",
        }
    }
}

macro_rules! details {
    ($($name:ident => $text:literal),+ $(,)?) => {
        impl Detail {
            /// All details.
            pub const ALL: &[Detail] = &[$(Detail::$name),+];

            /// The name in `si.v1`.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Detail::$name => $text,)+
                }
            }
        }
    };
}

details! {
    None => "DETAILS_NONE",
    RequestCancel => "REQUEST_CANCEL",
    RequestAlloc => "REQUEST_ALLOC",
    RequestTimeout => "REQUEST_TIMEOUT",
    AppAlloc => "APP_ALLOC",
    AppRequest => "APP_REQUEST",
    AppReject => "APP_REJECT",
    AppNew => "APP_NEW",
    AppAccepted => "APP_ACCEPTED",
    AppRunning => "APP_RUNNING",
    AppCompleting => "APP_COMPLETING",
    AppCompleted => "APP_COMPLETED",
    AppFailing => "APP_FAILING",
    AppFailed => "APP_FAILED",
    AppResuming => "APP_RESUMING",
    AppExpired => "APP_EXPIRED",
    AppCannotRunQueue => "APP_CANNOTRUN_QUEUE",
    AppRunnableQueue => "APP_RUNNABLE_QUEUE",
    AppCannotRunQuota => "APP_CANNOTRUN_QUOTA",
    AppRunnableQuota => "APP_RUNNABLE_QUOTA",
    NodeDecommission => "NODE_DECOMISSION",
    NodeSchedulable => "NODE_SCHEDULABLE",
    NodeAlloc => "NODE_ALLOC",
    NodeCapacity => "NODE_CAPACITY",
    NodeOccupied => "NODE_OCCUPIED",
    NodeReservation => "NODE_RESERVATION",
    QueueConfig => "QUEUE_CONFIG",
    QueueDynamic => "QUEUE_DYNAMIC",
    QueueType => "QUEUE_TYPE",
    QueueMax => "QUEUE_MAX",
    QueueGuaranteed => "QUEUE_GUARANTEED",
    QueueApp => "QUEUE_APP",
    QueueAlloc => "QUEUE_ALLOC",
    QueuePreemption => "QUEUE_PREEMPTION",
    AllocCancel => "ALLOC_CANCEL",
    AllocPreempt => "ALLOC_PREEMPT",
    AllocTimeout => "ALLOC_TIMEOUT",
    AllocReplaced => "ALLOC_REPLACED",
    AllocNodeRemoved => "ALLOC_NODEREMOVED",
    UserLimit => "UG_USER_LIMIT",
    GroupLimit => "UG_GROUP_LIMIT",
    AppLink => "UG_APP_LINK",
    UserResource => "UG_USER_RESOURCE",
    GroupResource => "UG_GROUP_RESOURCE",
}

#[cfg(test)]
mod tests {
    use super::*;

    // EVT-003
    #[test]
    fn every_detail_is_listed_once() {
        let mut numbers: Vec<_> = Detail::ALL.iter().map(|detail| *detail as i32).collect();
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), 44);
        assert_eq!(Detail::NodeDecommission.name(), "NODE_DECOMISSION");
    }
}
