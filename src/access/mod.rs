//! Who may do what: tokens with roles, and the certificates of the doors. `docs/access.md` is the user's side of it.
//!
//! The doors ask here and say no in their own words. Nothing of this reaches a partition.

pub mod audit;
pub mod caller;
pub mod certificate;
pub mod issuer;
pub mod line;
pub mod rates;
pub mod role;
pub mod secret;
mod signatures;
pub mod tokens;
pub mod watch;

pub use self::{
    audit::Audit,
    caller::{Caller, Denied},
    rates::Rates,
    role::Role,
    secret::{Digest, Secret, new_secret},
    tokens::Tokens,
};
