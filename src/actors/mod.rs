//! The conversations: one actor per file. Numbers live in `domain`.

pub mod application;
pub mod directory;
pub mod event;
pub mod journal;
pub mod node;
pub mod partition;
pub mod queue;
pub mod resolvers;
pub mod rm;
pub mod silence;
pub mod topology;
pub mod ugm;
pub mod unconfirmed;
pub mod waiters;
