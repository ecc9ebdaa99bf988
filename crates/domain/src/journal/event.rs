//! The resource events of RFC 44 as values; `store::eventlog` has their text.

use std::sync::Arc;

use crate::{hostlist::HostList, idset::IdSet, types::Nanos};

/// One resource event.
#[derive(Clone, Debug)]
pub struct ResourceEvent {
    /// Wall clock time.
    pub at: Nanos,
    /// What happened.
    pub kind: Kind,
}

/// What happened.
#[derive(Clone, Debug)]
pub enum Kind {
    /// The service began, with the map from ranks to hosts of that moment; what changes later is told by [`Kind::Define`]
    /// (SEEDS S38).
    Restart {
        /// All ranks: 0 up to the last.
        ranks: IdSet,
        /// Those available at this moment.
        online: IdSet,
        /// The n-th host is that of rank n.
        nodelist: HostList,
    },
    /// The resource set was defined.
    Define(Method),
    /// The end of the resource set's life changed.
    Update {
        /// Seconds since the Unix epoch; 0: none. An integer (SEEDS S19).
        expiration: i64,
    },
    /// Targets take nothing new.
    Drain {
        /// The ranks that it is about.
        targets: Targets,
        /// Why; an empty text is not the same as none.
        reason: Option<Arc<str>>,
        /// What it changes on targets that are drained already.
        overwrite: Overwrite,
        /// Who asked for it.
        origin: Origin,
        /// When operators are told of what still runs on them.
        deadline: Option<Nanos>,
    },
    /// Targets take work again. It never carries `overwrite` (SEEDS S27).
    Undrain {
        /// The ranks that it is about.
        targets: Targets,
        /// Why, as it is shown to people.
        reason: Option<Arc<str>>,
        /// Who asked for it.
        origin: Origin,
    },
    /// Targets became available.
    Online(IdSet),
    /// Targets went away.
    Offline(IdSet),
    /// Targets have been silent for too long.
    Torpid(IdSet),
    /// They were heard of again.
    Lively(IdSet),
}

/// Ranks with their hosts at the time of the event, so that it can be applied after ranks changed.
#[derive(Clone, Debug, Default)]
pub struct Targets {
    /// Ranks in the journal (RFC 44).
    pub idset: IdSet,
    /// Host of each rank, in rank order.
    pub nodelist: HostList,
    /// Id of each rank's node, or its host where it never had one; `None`: each has the name of its host, which
    /// no other shares, or it is not known.
    pub nodes: Option<HostList>,
}

/// How the resource set was acquired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// Nodes registered that were not known.
    DynamicDiscovery,
    /// The resource manager changed what known nodes offer.
    Reload,
    /// It was known from before.
    Kvs,
}

/// What a drain changes on targets that are drained already.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Overwrite {
    /// 0: nothing.
    #[default]
    Nothing,
    /// 1: the reason; none clears it.
    Reason,
    /// 2: reason and time.
    ReasonAndTime,
}

/// Who asked for a drain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// An operator: it stays until an operator undrains.
    Operator,
    /// The resource manager: it lasts as long as the resource manager says so, one session at most.
    ResourceManager,
}

impl Kind {
    /// Its name in the log.
    pub const fn name(&self) -> &'static str {
        match self {
            Kind::Restart { .. } => "restart",
            Kind::Define(_) => "resource-define",
            Kind::Update { .. } => "resource-update",
            Kind::Drain { .. } => "drain",
            Kind::Undrain { .. } => "undrain",
            Kind::Online(_) => "online",
            Kind::Offline(_) => "offline",
            Kind::Torpid(_) => "torpid",
            Kind::Lively(_) => "lively",
        }
    }

    /// It belongs into the file `resource.eventlog`: what RFC 44 says SHALL be posted there. What it says MAY be is not
    /// worth recreating after a restart, and would make the file grow.
    pub const fn durable(&self) -> bool {
        matches!(self, Kind::Define(_) | Kind::Update { .. } | Kind::Drain { .. } | Kind::Undrain { .. })
    }
}

impl Method {
    /// Its name in the log.
    pub const fn name(self) -> &'static str {
        match self {
            Method::DynamicDiscovery => "dynamic-discovery",
            Method::Reload => "reload",
            Method::Kvs => "kvs",
        }
    }
}

impl Overwrite {
    /// The value of a request; `None` where it is not 0, 1 or 2.
    pub const fn from_number(number: i64) -> Option<Overwrite> {
        match number {
            0 => Some(Overwrite::Nothing),
            1 => Some(Overwrite::Reason),
            2 => Some(Overwrite::ReasonAndTime),
            _ => None,
        }
    }

    /// The value of a logged event: a missing or unknown one counts as 1 (J6.2).
    pub const fn from_log(number: Option<i64>) -> Overwrite {
        match number {
            Some(0) => Overwrite::Nothing,
            Some(2) => Overwrite::ReasonAndTime,
            _ => Overwrite::Reason,
        }
    }

    /// Its number.
    pub const fn number(self) -> u8 {
        match self {
            Overwrite::Nothing => 0,
            Overwrite::Reason => 1,
            Overwrite::ReasonAndTime => 2,
        }
    }
}
