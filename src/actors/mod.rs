//! The conversations: one actor per file. Numbers live in `domain`.

pub mod partition;
