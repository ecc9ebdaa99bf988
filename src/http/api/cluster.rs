//! `/api/v1/cluster`: which servers there are, who leads what, and an operator's word on it.

use actix_web::{
    HttpRequest, HttpResponse,
    http::StatusCode,
    web::{Data, Payload},
};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{board::BoardApi, note};
use crate::{
    access::Caller,
    http::{
        doors::Doors,
        problem::Problem,
        route::{Access, Route},
        shim::body,
        standby,
        ws_v1::reply::{self, Reply},
    },
    messages::leaders::{ClusterStatus, Drain, Leaders},
};

pub mod config;

/// Longest body, bytes.
const LONGEST: usize = 4 << 10;
/// Longest reason, bytes.
const LONGEST_REASON: usize = 1_024;

/// The application's data has to hold a [`BoardApi`].
pub(super) fn routes() -> Vec<Route> {
    let text = |what: &str| json!({"type": "string", "description": what});
    let object = |properties: Value, required: &[&str]| json!({"type": "object", "required": required, "additionalProperties": false, "properties": properties});
    let moved =
        json!({"rm": text("id of a resource manager"), "server": text("id or URL of the server that is to lead it")});
    let reason = json!({"type": ["string", "null"], "maxLength": LONGEST_REASON, "description": "shown to operators"});
    let server = text("id or URL of a server");
    let mut routes = vec![
        Access::Viewer
            .get("/api/v1/cluster")
            .to(get, "Servers of the cluster, and who leads which resource manager")
            .gives::<ClusterStatus>(200)
            .problems(&[404, 503]),
        Access::Operator
            .post("/api/v1/cluster/move")
            .to(post_move, "Has another server lead a resource manager")
            .body("application/json", object(moved, &["rm", "server"]))
            .gives::<ClusterStatus>(200)
            .problems(&[307, 400, 404, 408, 409, 413, 415, 503]),
        Access::Operator
            .post("/api/v1/cluster/drain")
            .to(post_drain, "Has a server lead nothing: others lead what it led, until it may again")
            .body("application/json", object(json!({"server": server, "reason": reason}), &["server"]))
            .gives::<ClusterStatus>(200)
            .problems(&[400, 404, 408, 413, 415, 503]),
        Access::Operator
            .post("/api/v1/cluster/undrain")
            .to(post_undrain, "Lets a server lead again")
            .body("application/json", object(json!({"server": server}), &["server"]))
            .gives::<ClusterStatus>(200)
            .problems(&[400, 404, 408, 413, 415, 503]),
    ];
    routes.extend(config::routes());
    routes
}

fn leaders(api: &BoardApi) -> Result<&dyn Leaders, Problem> {
    let alone =
        || Problem::new(StatusCode::NOT_FOUND, "this server is in no cluster: it was started without --cluster");
    api.topology.leaders().ok_or_else(alone)
}

async fn told(request: &HttpRequest, leaders: &dyn Leaders) -> Result<HttpResponse, Problem> {
    let status = leaders.status().await?;
    Ok(reply::send(request, Reply::json(&status)))
}

async fn get(api: Data<BoardApi>, request: HttpRequest) -> Result<HttpResponse, Problem> {
    told(&request, leaders(&api)?).await
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Move {
    /// The resource manager.
    rm: String,
    /// Id or URL of the server that is to lead it.
    server: String,
}

async fn post_move(
    api: Data<BoardApi>,
    doors: Data<Doors>,
    caller: Caller,
    request: HttpRequest,
    payload: Payload,
) -> Result<HttpResponse, Problem> {
    let leaders = leaders(&api)?;
    let bytes = body::short(&request, payload, LONGEST).await?;
    let form = r#"{"rm": "id of a resource manager", "server": "id or URL of a server"}"#;
    let Move { rm, server } = body::json(&bytes, form)?;
    note(&request, format!("resource manager {rm} to {server}"));
    tracing::info!(by = caller.name(), rm, server, "an operator moves a resource manager");
    if let Err(refusal) = leaders.hand_over(&rm, &server).await {
        // Who leads it now has to let it go.
        return standby::elsewhere(&doors, &request, bytes, refusal.into()).await;
    }
    told(&request, leaders).await
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ToDrain {
    /// Id or URL of the server.
    server: String,
    /// Why, as it is shown to people.
    #[serde(default)]
    reason: Option<String>,
}

async fn post_drain(
    api: Data<BoardApi>,
    caller: Caller,
    request: HttpRequest,
    payload: Payload,
) -> Result<HttpResponse, Problem> {
    let leaders = leaders(&api)?;
    let bytes = body::short(&request, payload, LONGEST).await?;
    let form = r#"{"server": "id or URL of a server", "reason": "why, or left out"}"#;
    let ToDrain { server, reason } = body::json(&bytes, form)?;
    let reason = reason.unwrap_or_default();
    if reason.len() > LONGEST_REASON {
        let detail = format!("the reason has {} bytes, and {LONGEST_REASON} are allowed", reason.len());
        return Err(Problem::field("reason", detail));
    }
    note(&request, format!("server {server}: {reason}"));
    tracing::info!(by = caller.name(), server, reason, "an operator has a server lead nothing");
    let since = Timestamp::now().to_string();
    leaders.drain(&server, Some(Drain { since, by: caller.name().to_owned(), reason })).await?;
    told(&request, leaders).await
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ToUndrain {
    /// Id or URL of the server.
    server: String,
}

async fn post_undrain(
    api: Data<BoardApi>,
    caller: Caller,
    request: HttpRequest,
    payload: Payload,
) -> Result<HttpResponse, Problem> {
    let leaders = leaders(&api)?;
    let bytes = body::short(&request, payload, LONGEST).await?;
    let ToUndrain { server } = body::json(&bytes, r#"{"server": "id or URL of a server"}"#)?;
    note(&request, format!("server {server}"));
    tracing::info!(by = caller.name(), server, "an operator lets a server lead again");
    leaders.drain(&server, None).await?;
    told(&request, leaders).await
}
