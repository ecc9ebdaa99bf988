//! For `UgmActor`.

use actix::prelude::*;

use crate::domain::{command::Command, conf::Resolver};

/// The resolver of the configuration in force.
#[derive(Message)]
#[rtype(result = "()")]
pub struct UseResolver(pub Resolver);

/// Commands with submissions whose groups are to be looked up: they come back to the partition in the same order, each
/// submission with its groups or with the reason why there are none.
#[derive(Message)]
#[rtype(result = "Vec<Command>")]
pub struct Resolve(pub Vec<Command>);
