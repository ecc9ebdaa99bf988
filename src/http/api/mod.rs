//! `/api/v1`: what the reference does not have.

pub mod audit;
pub mod board;
mod cluster;
pub mod demand;
pub mod events;
pub mod log_level;
pub mod overdue;
pub mod plan;
pub mod queue;
pub mod releases;
pub mod resource;
pub mod settings;
mod time;
pub mod trends;
pub mod usage;
pub mod wait;
pub mod whatif;

use std::sync::Arc;

use actix::MailboxError;
use actix_web::{
    http::StatusCode,
    web::{self, Data, ServiceConfig},
};

use tokio::sync::Semaphore;

use self::{board::BoardApi, releases::ReleasesApi, resource::ResourceApi, usage::UsageApi};
use super::{past, problem::Problem, server};
use crate::actors::{
    directory::{Listing, PartitionEntry},
    journal::Journals,
    topology::Topology,
};

/// The API with its data, for `http::server::bind`, which has [`events`] already.
pub fn services(
    topology: &Arc<Topology>,
    journals: Arc<Journals>,
) -> impl Fn(&mut ServiceConfig) + Clone + Send + 'static {
    let board = Data::new(BoardApi {
        topology: topology.clone(),
        journals: journals.clone(),
        trials: Semaphore::new(board::AT_ONCE),
        looks: Semaphore::new(board::LOOKS),
        histories: board::lasted::Histories::default(),
    });
    let resources = Data::new(ResourceApi { directory: topology.directory.clone(), journals });
    let releases = Data::new(ReleasesApi { directory: topology.directory.clone() });
    let usage = Data::new(UsageApi { directory: topology.directory.clone(), events: topology.events.clone() });
    let waiting = Data::new(wait::Waiting::default());
    let directory = Data::from(topology.directory.clone());
    move |config| {
        config
            .app_data(board.clone())
            .app_data(resources.clone())
            .app_data(releases.clone())
            .app_data(usage.clone())
            .app_data(waiting.clone())
            .app_data(directory.clone());
        audit::configure(config);
        past::configure(config);
        board::configure(config);
        cluster::configure(config);
        resource::configure(config);
        releases::configure(config);
        demand::configure(config);
        log_level::configure(config);
        trends::configure(config);
        plan::configure(config);
        whatif::configure(config);
        usage::configure(config);
        wait::configure(config);
        settings::configure(config);
        queue::configure(config);
        config.service(web::resource("/api/v1{rest:(/.*)?}").to(server::not_found));
    }
}

/// A partition by the name that REST shows or by its internal one; 404 with the names that there are.
fn find_partition(listing: &Listing, name: &str) -> Result<PartitionEntry, Problem> {
    if let Some(entry) = listing.partition(name) {
        return Ok(entry.clone());
    }
    let names: Vec<&str> = listing.partitions.iter().map(|entry| &*entry.shown).collect();
    let known = if names.is_empty() { "there are none".to_owned() } else { format!("there are: {}", names.join(", ")) };
    Err(Problem::new(StatusCode::NOT_FOUND, format!("partition '{name}' not found; {known}")))
}

/// The actor that would answer has ended.
fn gone(_: MailboxError) -> Problem {
    Problem::new(StatusCode::SERVICE_UNAVAILABLE, "the partition is being stopped; try again")
}
