//! What is known of resource managers.

use actix_web::{
    HttpResponse,
    web::{Data, Path},
};
use futures::future::join_all;
use schemars::JsonSchema;
use serde::Serialize;

use crate::{
    access::Caller,
    actors::rm::handle::not_registered,
    http::{doors::Doors, problem::Problem, ws_v1::time_text},
    messages::rm::{RmInfo, RmState, StateChange, StreamInfo},
};

/// The answer.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ResourceManager")]
#[serde(rename_all = "camelCase")]
pub struct Shown {
    #[serde(rename = "rmID")]
    rm_id: String,
    /// As it registered.
    policy_group: String,
    state: &'static str,
    epoch: u64,
    registered: Option<String>,
    last_sequence: u64,
    delivered_sequence: u64,
    buffered: usize,
    streams: Vec<Stream>,
    partitions: Vec<String>,
    predicates: &'static str,
    unread: Option<String>,
    /// Why nothing is taken, and nothing new placed: its log cannot be written. Left out where it can.
    #[serde(skip_serializing_if = "Option::is_none")]
    failing: Option<String>,
    /// Why nothing new is placed: what is kept of it in etcd has no room. Left out where it has.
    #[serde(skip_serializing_if = "Option::is_none")]
    full: Option<String>,
    history: Vec<Change>,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "OpenStream")]
struct Stream {
    door: &'static str,
    kinds: &'static [&'static str],
    since: String,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "StateChange")]
struct Change {
    state: &'static str,
    at: String,
    why: String,
}

/// GET `/si/v1/rm`: those that the caller may act for.
pub async fn all(caller: Caller, doors: Data<Doors>) -> HttpResponse {
    let own = doors.topology.known().into_iter().filter(|handle| caller.acts_for(&handle.id).is_ok());
    let asked = join_all(own.map(async |handle| handle.info().await)).await.into_iter().flatten();
    let shown: Vec<_> = asked.filter(|info| info.state != RmState::Init).map(show).collect();
    HttpResponse::Ok().json(shown)
}

/// GET `/si/v1/rm/{rmID}`.
pub async fn one(rm: Path<String>, doors: Data<Doors>) -> Result<HttpResponse, Problem> {
    let unknown = || not_registered("a question about it", &rm);
    let handle = doors.topology.find(&rm).ok_or_else(unknown)?;
    handle.is_here()?;
    let info = handle.info().await.ok_or_else(unknown)?;
    Ok(HttpResponse::Ok().json(show(info)))
}

fn show(info: RmInfo) -> Shown {
    let stream = |stream: StreamInfo| Stream { door: stream.door, kinds: stream.kinds, since: time_text(stream.since) };
    let change = |change: StateChange| Change {
        state: change.state.name(),
        at: time_text(change.at),
        why: change.why.to_string(),
    };
    Shown {
        rm_id: info.id.to_string(),
        policy_group: info.policy_group.to_string(),
        state: info.state.name(),
        epoch: info.epoch,
        registered: info.registered.map(time_text),
        last_sequence: info.last_sequence,
        delivered_sequence: info.delivered_sequence,
        buffered: info.buffered,
        streams: info.streams.into_iter().map(stream).collect(),
        partitions: info.partitions.iter().map(|name| name.to_string()).collect(),
        predicates: info.predicates.name(),
        unread: info.unread,
        failing: info.failing.map(|why| why.to_string()),
        full: info.full.map(|why| why.to_string()),
        history: info.history.into_iter().map(change).collect(),
    }
}
