//! `/api/v1`: what the reference does not have.

pub mod audit;
pub mod board;
pub mod cluster;
mod counts;
pub mod demand;
pub mod events;
pub mod log_level;
pub mod overdue;
pub mod plan;
pub mod queue;
pub mod releases;
pub mod resource;
pub mod settings;
pub mod time;
pub mod trends;
pub mod usage;
pub mod wait;
pub mod whatif;

use std::sync::Arc;

use actix::MailboxError;
use actix_web::{
    http::StatusCode,
    web::{Data, ServiceConfig},
};

use self::{board::BoardApi, resource::ResourceApi, usage::UsageApi};
use super::{guard::note, long::SharedBy, problem::Problem, route::Route};
use crate::actors::{
    directory::{Listing, PartitionEntry, Unanswered},
    journal::Journals,
    topology::Topology,
};

/// The routes below `/api/v1`.
pub(super) fn routes() -> Vec<Route> {
    [
        audit::routes(),
        board::routes(),
        cluster::routes(),
        demand::routes(),
        events::routes(),
        log_level::routes(),
        plan::routes(),
        queue::routes(),
        releases::routes(),
        resource::routes(),
        settings::routes(),
        trends::routes(),
        usage::routes(),
        wait::routes(),
        whatif::routes(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// The data of their handlers, for `http::server::bind`.
pub fn data(topology: &Arc<Topology>, journals: Arc<Journals>) -> impl Fn(&mut ServiceConfig) + Clone + Send + 'static {
    let board = Data::new(BoardApi::new(topology.clone(), journals.clone()));
    let resources = Data::new(ResourceApi {
        directory: topology.directory.clone(),
        topology: Some(topology.clone()),
        journals,
        statuses: SharedBy::default(),
    });
    let (events, of_logs) = (topology.events_of_logs().clone(), topology.keeps_logs());
    let usage = Data::new(UsageApi { directory: topology.directory.clone(), events, of_logs });
    let waiting = Data::new(wait::Waiting::default());
    let directory = Data::from(topology.directory.clone());
    move |config| {
        config
            .app_data(board.clone())
            .app_data(resources.clone())
            .app_data(usage.clone())
            .app_data(waiting.clone())
            .app_data(directory.clone());
    }
}

/// A partition by the name that REST shows or by its internal one; 404 with the names that there are.
fn find_partition(listing: &Listing, name: &str) -> Result<PartitionEntry, Problem> {
    if let Some(entry) = listing.partition(name) {
        return Ok(entry.clone());
    }
    let names: Vec<&str> = listing.partitions.iter().map(|entry| &*entry.shown).collect();
    let known = if names.is_empty() {
        "there are none: no resource manager is registered (callboard status tells more)".to_owned()
    } else {
        format!("there are: {}", names.join(", "))
    };
    Err(Problem::new(StatusCode::NOT_FOUND, format!("partition '{name}' not found; {known}")))
}

/// The actor that would answer has ended.
fn gone(_: MailboxError) -> Problem {
    Problem::new(StatusCode::SERVICE_UNAVAILABLE, "the partition is being stopped; try again")
}

/// The actor that would answer has ended, or does not answer in time.
fn unanswered(why: Unanswered) -> Problem {
    Problem::new(StatusCode::SERVICE_UNAVAILABLE, why.to_string())
}
