//! `/api/v1`: what the reference does not have.

pub mod demand;
pub mod events;
pub mod releases;
pub mod resource;
