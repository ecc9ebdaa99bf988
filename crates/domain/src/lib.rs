//! The numbers: a deterministic state machine per partition. It knows no actor, no I/O, no clock, no randomness.

#![cfg_attr(not(test), deny(clippy::disallowed_methods, reason = "the domain is told the time"))]

pub mod acl;
pub mod alloc;
pub mod app;
mod coded;
pub mod command;
pub mod conf;
pub mod config;
pub mod cow;
pub mod digest;
pub mod duration;
pub mod edit;
pub mod effect;
pub mod event;
pub mod event_block;
mod event_names;
pub mod event_settings;
pub mod group_cache;
pub mod hostlist;
pub mod idset;
pub mod journal;
pub mod keys;
pub mod lasted;
pub mod log;
pub mod names;
pub mod node;
pub mod node_index;
mod pages;
pub mod partition;
pub mod placement;
pub mod planted;
pub mod quantity;
pub mod queue;
pub mod queue_order;
pub mod rare;
mod resource_types;
pub mod resources;
pub mod run;
pub mod settings;
pub mod sorted;
pub mod summary;
pub mod survival;
pub mod table;
pub mod turns;
pub mod types;
pub mod ugm;
pub mod usage;
pub mod words;

pub use partition::Partition;

/// Version of what partitions make of their input. It is raised with every change that makes the effects of some log differ from
/// what they were: a log knows under which one it was written, so that a replay can say why it differs.
pub const DOMAIN_VERSION: u32 = later(27);

/// For tests of upgrades a build without optimisation may say that its rules are of another version.
const fn later(own: u32) -> u32 {
    match option_env!("CALLBOARD_TEST_DOMAIN_VERSION") {
        Some(text) if cfg!(debug_assertions) => match u32::from_str_radix(text, 10) {
            Ok(version) => version,
            Err(_) => own,
        },
        _ => own,
    }
}
