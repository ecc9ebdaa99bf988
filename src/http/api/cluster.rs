//! `/api/v1/cluster`: which servers there are, who leads what, and an operator's word on it.

use actix_web::{
    HttpRequest, HttpResponse,
    http::StatusCode,
    web::{self, Data, Payload, ServiceConfig},
};
use serde::Deserialize;

use super::board::BoardApi;
use crate::{
    access::Caller,
    http::{
        problem::Problem,
        server::resource,
        shim::body,
        ws_v1::reply::{self, Reply},
    },
    messages::leaders::Leaders,
};

/// Longest body, bytes.
const LONGEST: usize = 4 << 10;

/// Adds the routes. The application's data has to hold a [`BoardApi`].
pub fn configure(service: &mut ServiceConfig) {
    service
        .service(resource("/api/v1/cluster", "GET").route(web::get().to(get)))
        .service(resource("/api/v1/cluster/move", "POST").route(web::post().to(post)));
}

fn leaders(api: &BoardApi) -> Result<&dyn Leaders, Problem> {
    let alone =
        || Problem::new(StatusCode::NOT_FOUND, "this server is in no cluster: it was started without --cluster");
    api.topology.leaders().ok_or_else(alone)
}

async fn get(api: Data<BoardApi>, request: HttpRequest) -> Result<HttpResponse, Problem> {
    let status = leaders(&api)?.status().await?;
    Ok(reply::send(&request, Reply::json(&status)))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Body {
    /// The resource manager.
    rm: String,
    /// Id or URL of the server that is to lead it.
    server: String,
}

async fn post(
    api: Data<BoardApi>,
    caller: Caller,
    request: HttpRequest,
    payload: Payload,
) -> Result<HttpResponse, Problem> {
    let leaders = leaders(&api)?;
    let bytes = body::bytes(&request, payload, LONGEST).await?;
    let Body { rm, server } = serde_json::from_slice(&bytes).map_err(|error| {
        let form = r#"{"rm": "id of a resource manager", "server": "id or URL of a server"}"#;
        Problem::new(StatusCode::BAD_REQUEST, format!("the body is not {form}: {error}"))
    })?;
    tracing::info!(by = caller.name(), rm, server, "an operator moves a resource manager");
    leaders.hand_over(&rm, &server).await?;
    let status = leaders.status().await?;
    Ok(reply::send(&request, Reply::json(&status)))
}
