//! `POST /api/v1/plan`: what another configuration would do, before it is applied. Computed from snapshots off the arbiters
//! of the partitions; nothing is touched.

pub mod view;

use std::sync::Arc;

use actix_web::{
    HttpRequest, HttpResponse,
    http::StatusCode,
    web::{self, Data, Payload},
};
use futures::future::try_join_all;

use self::view::{Change, PartitionPlan, Plan, Warning};
use super::unanswered;
use crate::{
    access::Caller,
    actors::{
        directory::{Listing, PartitionEntry, RmEntry},
        topology::{Refusals, check_rules},
    },
    config::LoadedConfig,
    domain::{
        Partition,
        partition::dry_run::{Exceeded, LISTED},
        types::Nanos,
    },
    http::{
        doors::Doors,
        operation::text,
        problem::Problem,
        route::{Access, Route},
        shim::{body, query},
        ws_v1::state::now,
    },
    messages::{
        partition::{GetSnapshot, Snapshot},
        places::Place,
    },
};

/// The application's data has to hold the [`Doors`].
pub(super) fn routes() -> Vec<Route> {
    vec![
        Access::Viewer
            .post("/api/v1/plan")
            .to(plan, "What another configuration would do, before it is applied")
            .query("rm", text(), "resource manager whose configuration it would be, where there are several")
            .body("application/yaml", text())
            .gives::<Plan>(200)
            .problems(&[400, 404, 408, 413, 503]),
    ]
}

async fn plan(
    request: HttpRequest,
    caller: Caller,
    payload: Payload,
    doors: Data<Doors>,
) -> Result<HttpResponse, Problem> {
    let body = body::bytes(&request, payload, doors.limits().body()).await?;
    let parameters = query::parameters(&request, &["rm"])?;
    let text = String::from_utf8(body.into()).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        Problem::field("config", format!("the configuration is not UTF-8: bad byte at offset {at}"))
    })?;
    let listing = doors.topology.directory.get();
    let rm = find_rm(&listing, query::one(&parameters, "rm"))?.clone();
    let turn = doors.topology.trials.take(caller.identity(request.peer_addr().map(|peer| peer.ip()))).await?;
    let topology = doors.topology.clone();
    let plan = of(&listing, rm, turn, move || topology.load_here(&text)).await?;
    Ok(HttpResponse::Ok().json(plan))
}

/// What a configuration would do to a resource manager. It is read on the thread that computes the plan, which uses again what
/// reading took.
///
/// # Errors
/// It is refused, or the resource manager or the server ends.
pub async fn of(
    listing: &Listing,
    rm: RmEntry,
    turn: Place,
    config: impl FnOnce() -> Result<Arc<LoadedConfig>, Refusals> + Send + 'static,
) -> Result<Plan, Problem> {
    // Snapshots first: all of them are of one moment, or close to it.
    let own: Vec<PartitionEntry> = listing.partitions.iter().filter(|entry| entry.rm == rm.id).cloned().collect();
    let snapshots = own.iter().map(|entry| entry.addr.send(GetSnapshot));
    let snapshots = try_join_all(snapshots).await.map_err(unanswered)?;
    let now = now();
    let running: Vec<_> = own.into_iter().zip(snapshots).collect();
    let computed = web::block(move || {
        // It takes its memory, though nobody may wait for it any more.
        let _turn = turn;
        compute(&rm, config()?, &running, now)
    })
    .await;
    Ok(computed??)
}

/// The resource manager that is named, or the only one.
fn find_rm<'a>(listing: &'a Listing, named: Option<&str>) -> Result<&'a RmEntry, Problem> {
    let ids = || listing.rms.iter().map(|rm| &*rm.id).collect::<Vec<_>>().join(", ");
    match (named, listing.rms.as_slice()) {
        (_, []) => Err(Problem::new(
            StatusCode::NOT_FOUND,
            "no resource manager is registered: there is nothing to compare with",
        )),
        (None, [only]) => Ok(only),
        (None, _) => Err(Problem::field(
            "rm",
            format!("several resource managers are registered: name one with rm= (callboard plan: --rm), of {}", ids()),
        )),
        (Some(id), rms) => rms.iter().find(|rm| *rm.id == *id).ok_or_else(|| {
            let detail = format!("resource manager \"{id}\" is not registered; there are: {}", ids());
            Problem { field: Some("rm".to_owned()), ..Problem::new(StatusCode::NOT_FOUND, detail) }
        }),
    }
}

fn compute(
    rm: &RmEntry,
    config: Arc<LoadedConfig>,
    running: &[(PartitionEntry, Arc<Snapshot>)],
    now: Nanos,
) -> Result<Plan, Refusals> {
    let mut plan = Plan {
        rm_id: rm.id.to_string(),
        checksum: config.checksum.clone(),
        unchanged: rm.config.checksum == config.checksum,
        partitions: Vec::new(),
        warnings: config.notes().map(Warning::from).collect(),
    };
    if plan.unchanged {
        // CFG-093: partitions and queues are left untouched, also queues that drain, and whatever its rules are.
        return Ok(plan);
    }
    check_rules(&config)?;
    // As it was written it takes more than what is tried, and goes first.
    let partitions = Arc::try_unwrap(config).map_or_else(|shared| shared.partitions.clone(), |own| own.partitions);
    for conf in &partitions {
        let known = running.iter().find(|(_, snapshot)| snapshot.partition.name == conf.name);
        plan.partitions.push(match known {
            Some((_, snapshot)) => {
                let dry_run = snapshot.partition.dry_run(conf.clone(), now);
                plan.warnings
                    .extend(dry_run.exceeded.iter().filter_map(Exceeded::note).take(LISTED).map(Warning::from));
                PartitionPlan::of(&conf.name, Change::Kept, dry_run)
            }
            None => PartitionPlan::of(&conf.name, Change::Added, Partition::dry_run_of_new(conf.clone(), now)),
        });
    }
    for (_, snapshot) in running {
        let name = &snapshot.partition.name;
        if !partitions.iter().any(|conf| conf.name == *name) {
            plan.partitions.push(PartitionPlan::of(name, Change::Removed, snapshot.partition.dry_run_of_removal()));
        }
    }
    Ok(plan)
}
