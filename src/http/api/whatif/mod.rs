//! `POST /api/v1/whatif`: what a change would do. It is made on a clone of a snapshot, which is run forward beside the arbiters of the
//! partitions; nothing is touched.

pub mod request;
pub mod view;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use self::{
    request::{Meant, Request},
    view::WhatIf,
};
use super::board::{BoardApi, why::besides};
use crate::{
    access::Caller,
    config::LoadedConfig,
    domain::{
        Partition,
        lasted::Lasted,
        partition::{
            forward::{Bounds, Lasts},
            whatif::Scenario,
        },
        types::{AllocIx, Nanos},
        words::either,
    },
    http::{
        doors::Doors,
        operation::text,
        problem::Problem,
        route::{Access, Route},
        shim::{body, query},
        ws_v1::state::now,
    },
    messages::partition::Snapshot,
    si::decode,
};
use actix_web::{
    HttpRequest, HttpResponse,
    web::{self, Data, Payload},
};

/// Decisions of one run at most.
const DECISIONS: usize = 400_000;
/// How long each of the two runs may take.
const RUN: Duration = Duration::from_millis(800);
/// How far ahead is looked where nothing is said.
const HORIZON: Nanos = Nanos::from_secs(300);
/// Where nothing is known of how long allocations last.
const NO_ENDS: &str = "Allocations are taken to go on: too little is known of how long such ones last.";

/// The application's data has to hold the [`Doors`] and a [`BoardApi`].
pub(super) fn routes() -> Vec<Route> {
    vec![
        Access::Viewer
            .post("/api/v1/whatif")
            .to(whatif, "What a change would do: run forward on a copy, with it and without it")
            .query("partition", text(), "the partition; left out: default")
            .takes::<Request>()
            .gives::<WhatIf>(200)
            .problems(&[400, 404, 408, 413, 415, 503]),
    ]
}

async fn whatif(
    request: HttpRequest,
    payload: Payload,
    doors: Data<Doors>,
    api: Data<BoardApi>,
    caller: Caller,
) -> Result<HttpResponse, Problem> {
    let body = body::read(&request, payload, doors.limits().body()).await?;
    let parameters = query::parameters(&request, &["partition"])?;
    let body::Object(wanted): body::Object<Request> = decode::message(&body)?;
    let partition = query::one(&parameters, "partition").unwrap_or("default");
    let entry = api.entry(partition)?;
    let listing = api.topology.directory.get();
    let own = || listing.rms.iter().find(|rm| rm.id == entry.rm).map(|rm| rm.config.clone());
    let who = caller.identity(request.peer_addr().map(|peer| peer.ip()));
    let turn = api.topology.trials.take(who.clone()).await?;
    let config = match &wanted.config {
        Some(text) => Some(doors.topology.load_update(text.clone(), who).await?),
        None => own(),
    };
    let view = api.view(partition).await?;
    let lasted = api.histories.of(&api.topology.events, view.partition()).await;
    // Both runs are made as if it were over.
    let halted = api.halt(&view.rm).map(|halt| besides(&halt)).unwrap_or_default();
    let (shown, now) = (view.shown.clone(), now());
    let answer = web::block(move || {
        // It takes its time, though nobody may wait for it any more.
        let _turn = turn;
        let mut answer = compute(&shown, &wanted, config, &view.snapshot, &lasted, now)?;
        answer.ends.push_str(&halted);
        Ok::<_, Problem>(answer)
    })
    .await??;
    Ok(HttpResponse::Ok().json(answer))
}

fn compute(
    shown: &str,
    wanted: &Request,
    config: Option<Arc<LoadedConfig>>,
    snapshot: &Snapshot,
    lasted: &Lasted,
    now: Nanos,
) -> Result<WhatIf, Problem> {
    let partition = &snapshot.partition;
    let horizon = wanted.horizon()?.unwrap_or(HORIZON);
    let Meant { commands: change, copy, warnings } = wanted.change(partition, config.as_deref())?;
    let begun = Instant::now();
    let (first, second) = (move || begun.elapsed() >= RUN, move || begun.elapsed() >= 2 * RUN);
    let bounds = [Bounds { decisions: DECISIONS, stop: &first }, Bounds { decisions: DECISIONS, stop: &second }];
    let lengths = partition.lengths(lasted, now);
    let known = |partition: &Partition, ix: AllocIx, age: Nanos| lengths.rest(partition, ix, age, 0);
    let lasts: Option<Lasts<'_>> = if lengths.suffice() { Some(&known) } else { None };
    let outcome = partition.what_if(Scenario { change, horizon, lasts, recorded: None, bounds }, now);
    let ends = match lasts {
        None => NO_ENDS.to_owned(),
        Some(_) => format!(
            "Allocations end as others of their kind did: known of {} of the {} that run, from {} that ended{}.",
            lengths.known,
            lengths.running,
            lasted.ended(),
            match lengths.outlasting {
                0 => String::new(),
                some => format!(
                    "; of {some}, which {} lasted longer than any such, it is a guess from {} age",
                    either(&some, "has", "have"),
                    either(&some, "its", "their")
                ),
            }
        ),
    };
    Ok(WhatIf { warnings, ..WhatIf::of(shown, horizon, ends, copy, outcome) })
}
