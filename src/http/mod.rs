//! The HTTP doors: they only translate.

pub mod events;
