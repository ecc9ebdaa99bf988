//! `GET /api/v1/partition/{p}/releases`: releases that the scheduler asked for and the shim has not confirmed, with their age.

use std::sync::Arc;

use actix_web::{
    HttpResponse,
    web::{Data, Path},
};
use schemars::JsonSchema;
use serde::Serialize;

use super::{find_partition, unanswered};
use crate::{
    actors::directory::Directory,
    http::{
        long::Asker,
        problem::Problem,
        route::{Access, Route},
        ws_v1::time_text,
    },
    messages::application::{GetUnconfirmed, UnconfirmedRelease},
    si::outward,
};

/// The answer.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Releases")]
pub struct Shown {
    partition: Arc<str>,
    releases: Vec<Row>,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "UnconfirmedRelease")]
#[serde(rename_all = "camelCase")]
struct Row {
    #[serde(rename = "applicationID")]
    application_id: Arc<str>,
    allocation_key: Arc<str>,
    termination_type: &'static str,
    message: Arc<str>,
    /// RFC 3339.
    since: String,
    age_milliseconds: i64,
    /// How often it was sent: once, and once more each time the shim had not confirmed it for long, or came back.
    sent: u32,
}

/// The application's data has to hold the [`Directory`].
pub fn routes() -> Vec<Route> {
    vec![
        Access::Viewer
            .get("/api/v1/partition/{partition}/releases")
            .to(unconfirmed, "Releases that the shim has not confirmed")
            .gives::<Shown>(200)
            .problems(&[404, 503]),
    ]
}

async fn unconfirmed(directory: Data<Directory>, path: Path<String>, asker: Asker) -> Result<HttpResponse, Problem> {
    let entry = find_partition(&directory.get(), &path)?;
    let take = async || entry.addr.send(GetUnconfirmed).await.map_err(unanswered);
    let (releases, turn) = asker.turn(take, Vec::len).await?;
    let partition = entry.shown.clone();
    let make = move || {
        let shown = Shown { partition, releases: releases.into_iter().map(row).collect() };
        // Texts and numbers have a JSON text.
        serde_json::to_vec(&shown).unwrap_or_default()
    };
    Ok(HttpResponse::Ok().content_type("application/json").body(turn.make(make).await?))
}

fn row(unconfirmed: UnconfirmedRelease) -> Row {
    let UnconfirmedRelease { release, since, age, sent } = unconfirmed;
    Row {
        application_id: release.app,
        allocation_key: release.key,
        termination_type: outward::termination(release.termination).as_str_name(),
        message: release.message,
        since: time_text(since),
        age_milliseconds: age.0 / 1_000_000,
        sent,
    }
}
