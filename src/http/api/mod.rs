//! `/api/v1`: what the reference does not have.

pub mod events;
pub mod resource;
