//! The conversations: one actor per file. Numbers live in `domain`.

pub mod directory;
pub mod event;
pub mod partition;
pub mod resolvers;
