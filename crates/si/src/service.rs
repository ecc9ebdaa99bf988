//! The services as `build.rs` makes them.

#[allow(clippy::all, missing_docs)]
mod scheduler {
    include!(concat!(env!("OUT_DIR"), "/si.v1.Scheduler.rs"));
}
#[allow(clippy::all, missing_docs)]
mod extension {
    include!(concat!(env!("OUT_DIR"), "/callboard.v1.SchedulerExtension.rs"));
}

pub use extension::scheduler_extension_server::{SchedulerExtension, SchedulerExtensionServer};
pub use scheduler::scheduler_server::{Scheduler, SchedulerServer};
