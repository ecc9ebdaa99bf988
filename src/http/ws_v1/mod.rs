//! `/ws/v1` and `/debug`: the REST API that dashboards and scripts of YuniKorn know, to the last field.
//!
//! Everything is computed from snapshots of the partitions (`GetSnapshot`); nothing here is kept but
//! the history, the last health check and the metrics. Rule numbers `REST n` are those of the REST contract.

pub mod allocations;
pub mod applications;
pub mod checks;
pub mod chosen;
pub mod config;
pub mod debug;
mod described;
pub mod dump;
pub mod events;
mod extensions;
pub mod handlers;
pub mod health;
pub mod history;
pub mod json;
pub mod nodes;
pub mod partitions;
pub mod queues;
pub mod reply;
pub mod router;
pub mod rules;
pub mod scrape;
pub mod spool;
pub mod state;
pub mod url;
pub mod usage;
pub mod waiting;
pub mod watch;

pub use state::{RestState, View};

use std::sync::Arc;

use actix_web::web::{self, Data, ServiceConfig};

use crate::domain::types::Nanos;

/// The API with its data, for `http::server::bind`: it answers every request that no other service does.
pub fn services(state: Arc<RestState>) -> impl Fn(&mut ServiceConfig) + Clone + Send + 'static {
    let state = Data::from(state);
    move |config| {
        config.app_data(state.clone()).default_service(web::to(handlers::handle));
    }
}

/// A point in time as RFC 3339 text with as many decimals of a second as it has, in UTC.
pub fn time_text(at: Nanos) -> String {
    jiff::Timestamp::from_nanosecond(i128::from(at.0)).map_or_else(|_| at.0.to_string(), |time| time.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    // REST 1.5: `backoffDeadline` and the creation time of a stream.
    #[test]
    fn times_as_text() {
        assert_eq!(time_text(Nanos(1_795_194_239_275_426_367)), "2026-11-20T17:03:59.275426367Z");
        assert_eq!(time_text(Nanos(1_795_194_239_000_000_000)), "2026-11-20T17:03:59Z");
    }
}
