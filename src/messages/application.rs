//! For `ApplicationActor`.

use std::sync::Arc;

use actix::prelude::*;

use super::wait::AppStatus;
use crate::domain::{
    effect::{AppEffect, Released},
    types::{AppState, Nanos, Termination},
};

/// What the partition did to an application, in order, and how the application is then, where somebody waits for it.
#[derive(Debug, Default, Message)]
#[rtype(result = "()")]
pub struct AppUpdate {
    /// The facts, each with the time of the step that made it, as the log has it.
    pub effects: Vec<(Nanos, AppEffect)>,
    /// How it is.
    pub status: Option<AppStatus>,
}

/// These releases of the application are on a line.
#[derive(Message)]
#[rtype(result = "()")]
pub struct Carried {
    /// The line.
    pub line: u64,
    /// Their keys, and why they are released.
    pub releases: Vec<(Arc<str>, Termination)>,
}

/// The shim is there again, after its connection was lost: releases that it has not confirmed are sent once more. For
/// `PartitionActor` too, which tells its applications.
#[derive(Clone, Copy, Message)]
#[rtype(result = "()")]
pub struct ResendUnconfirmed {
    /// Lines behind this one are on their way to the shim all the same.
    pub after: u64,
}

/// `rm.resendAfter` changed: what waits is looked at anew.
#[derive(Message)]
#[rtype(result = "()")]
pub struct LookAnew;

/// Releases that the shim has not confirmed. `PartitionActor` answers with those of all its applications, the oldest first.
#[derive(Message)]
#[rtype(result = "Vec<UnconfirmedRelease>")]
pub struct GetUnconfirmed;

/// See [`GetUnconfirmed`].
#[derive(Clone, Debug)]
pub struct UnconfirmedRelease {
    /// The release as it was sent.
    pub release: Released,
    /// When it was first sent.
    pub since: Nanos,
    /// How long ago that was when the answer was made.
    pub age: Nanos,
    /// How often it was sent.
    pub sent: u32,
}

/// Releases from before a restart that the shim has not confirmed.
#[derive(Message)]
#[rtype(result = "()")]
pub struct Unheard(pub Vec<UnconfirmedRelease>);

/// The application is gone, with the last state that the shim was told, if any.
#[derive(Message)]
#[rtype(result = "()")]
pub struct AppGone(pub Option<AppState>);
