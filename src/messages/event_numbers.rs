//! The ids that events have in the log of their resource manager: without holes, and the same at every server. Ranges tell where
//! they are in the log of the server: from the beginning of a range on, the events of the resource manager are counted.

use std::sync::Arc;

use actix::prelude::*;

/// A range of the log of a server in which the events of a resource manager have ids that follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// The id of its first event in the log of the resource manager.
    pub id: u64,
    /// Where that is in the log of the server.
    pub at: u64,
    /// Events from here on are not counted; `None`: the range goes on.
    pub until: Option<u64>,
}

/// Looks for an event of a resource manager by its id in that log. `None`: no event of it has one here.
#[derive(Message)]
#[rtype(result = "Option<Numbered>")]
pub struct FindNumber {
    /// The resource manager.
    pub rm: Arc<str>,
    /// Which event.
    pub look: Look,
}

/// See [`FindNumber`].
#[derive(Clone, Copy, Debug)]
pub enum Look {
    /// The oldest that is kept.
    Lowest,
    /// This one.
    Id(u64),
    /// The first one of the last range that begins at or before this place in the log of the server.
    Place(u64),
}

/// Answer to [`FindNumber`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Numbered {
    /// The lowest id that is kept; the next one where none is.
    pub lowest: u64,
    /// The id of the next event.
    pub next: u64,
    /// The id that was looked for.
    pub from: u64,
    /// The range with it; `None`: it is before all, or not there yet.
    pub range: Option<Range>,
    /// The id with which what comes next begins.
    pub then: u64,
    /// Some of what was known is damaged, so that what is missing may be there.
    pub damaged: bool,
}
