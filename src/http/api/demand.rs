//! `GET /api/v1/partition/{p}/demand`: what waits only for lack of nodes, for autoscalers (API section 4).

use std::{borrow::Cow, collections::BTreeMap, sync::Arc};

use actix_web::{
    HttpResponse,
    web::{Data, Path},
};
use schemars::JsonSchema;
use serde::Serialize;

use super::{find_partition, unanswered};
use crate::{
    actors::directory::Directory,
    domain::{Partition, partition::Demand, resources::clamp},
    http::{
        long::Asker,
        problem::Problem,
        route::{Access, Route},
        ws_v1::time_text,
    },
    messages::partition::{GetSnapshot, Snapshot},
};

/// The answer.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Demand")]
#[serde(rename_all = "camelCase")]
pub struct Shown<'a> {
    partition: &'a str,
    demand: Vec<Row>,
    /// Sum of all rows.
    total: BTreeMap<Cow<'static, str>, i64>,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "DemandRow")]
#[serde(rename_all = "camelCase")]
struct Row {
    queue_name: String,
    /// Of each ask: memory in bytes, vcore in milli.
    resource: BTreeMap<Cow<'static, str>, i64>,
    asks: u64,
    applications: u64,
    highest_priority: i32,
    waiting_since: String,
}

/// The application's data has to hold the [`Directory`].
pub(super) fn routes() -> Vec<Route> {
    vec![
        Access::Viewer
            .get("/api/v1/partition/{partition}/demand")
            .to(demand, "What waits only for lack of nodes")
            .gives::<Shown>(200)
            .problems(&[404, 503]),
    ]
}

/// The demand of one partition, by queue and size; an unknown partition is answered with 404. The application's data has to
/// hold the [`Directory`].
pub async fn demand(directory: Data<Directory>, path: Path<String>, asker: Asker) -> Result<HttpResponse, Problem> {
    let entry = find_partition(&directory.get(), &path)?;
    let rows = |snapshot: &Arc<Snapshot>| snapshot.partition.apps.len() + snapshot.partition.nodes.len();
    let (snapshot, turn) = asker.turn(async || entry.addr.send(GetSnapshot).await.map_err(unanswered), rows).await?;
    let body = turn.make(move || text(&entry.shown, &snapshot.partition)).await?;
    Ok(HttpResponse::Ok().content_type("application/json").body(body))
}

fn text(name: &str, partition: &Partition) -> Vec<u8> {
    let demands = partition.demand();
    let mut total: BTreeMap<_, i64> = BTreeMap::new();
    for demand in &demands {
        for (kind, amount) in demand.resource.times(i128::from(demand.asks)).iter() {
            let sum = total.entry(kind.into()).or_default();
            *sum = sum.saturating_add(clamp(amount));
        }
    }
    let shown = Shown { partition: name, demand: demands.into_iter().map(row).collect(), total };
    // Texts and numbers have a JSON text.
    serde_json::to_vec(&shown).unwrap_or_default()
}

fn row(demand: Demand) -> Row {
    Row {
        queue_name: demand.queue.to_string(),
        resource: demand.resource.iter().map(|(kind, amount)| (kind.into(), clamp(amount))).collect(),
        asks: demand.asks,
        applications: demand.applications,
        highest_priority: demand.priority,
        waiting_since: time_text(demand.since),
    }
}
