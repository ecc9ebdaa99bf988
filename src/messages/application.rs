//! For `ApplicationActor`.

use actix::prelude::*;

use super::partition::ResendUnconfirmed;
use crate::domain::{
    effect::{AppEffect, Released},
    types::Nanos,
};

/// What the partition did to an application, in order.
#[derive(Message)]
#[rtype(result = "()")]
pub struct AppNews(pub Vec<AppEffect>);

/// The shim is there again: releases that it has not confirmed are sent once more.
#[derive(Message)]
#[rtype(result = "()")]
pub struct Resend(pub ResendUnconfirmed);

/// Releases that the shim has not confirmed.
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

/// The application is gone.
#[derive(Message)]
#[rtype(result = "()")]
pub struct AppGone;
