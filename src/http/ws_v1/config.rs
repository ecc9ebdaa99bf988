//! The configuration in force, and the trial of another one (REST 5.14, 5.15).

use std::collections::BTreeMap;

use actix_web::{
    HttpRequest,
    http::{StatusCode, header},
    web::{self, Payload},
};
use schemars::JsonSchema;
use serde::Serialize;

use super::{
    reply::{Failure, Reply},
    state::RestState,
    url,
};
use crate::{
    actors::directory::RmEntry,
    config::{self, LoadedConfig},
    http::{api::plan::view::Warning, shim::body},
};

const YAML: &str = "application/x-yaml; charset=UTF-8";

/// The configuration of the resource manager that registered first, or of the one that `?rm=` names. JSON where
/// `Accept` is exactly `application/json`, else YAML.
pub fn config(req: &HttpRequest, state: &RestState) -> Result<Reply, Failure> {
    let listing = state.listing();
    let rm = match url::query_value(req.query_string(), "rm") {
        None => listing.rms.first(),
        Some(id) => {
            let known = listing.rms.iter().find(|rm| *rm.id == *id);
            Some(known.ok_or_else(|| Failure::not_found("Resource manager not found"))?)
        }
    };
    let accept = req.headers().get(header::ACCEPT).map(header::HeaderValue::as_bytes);
    if accept == Some(b"application/json") {
        // The one JSON document without a newline at its end (REST 1.5).
        return Ok(Reply { body: shown_json(rm).into_bytes(), ..Reply::json(&()) });
    }
    let (config, extra) = parts(rm);
    Ok(Reply::data(YAML, config::shown::rest_yaml(config, extra).into_bytes()))
}

/// The configuration of a resource manager as JSON text.
pub fn shown_json(rm: Option<&RmEntry>) -> String {
    let (config, extra) = parts(rm);
    config::shown::rest_json(config, extra)
}

fn parts(rm: Option<&RmEntry>) -> (Option<&LoadedConfig>, &BTreeMap<String, String>) {
    static NONE: BTreeMap<String, String> = BTreeMap::new();
    rm.map_or((None, &NONE), |rm| (Some(&*rm.config), &*rm.extra))
}

/// Whether a configuration would be accepted (REST 5.15).
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Verdict")]
pub struct VerdictView {
    allowed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    /// What would be accepted and does not do what it looks like; the reference has none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<Warning>,
}

/// Tries the configuration in the body; nothing is applied.
pub async fn validate(request: &HttpRequest, payload: Payload, state: &RestState) -> Result<Reply, Failure> {
    let text = body::bytes(request, payload, state.topology.limits.body()).await;
    let text = text.map_err(|unread| Failure { status: unread.status(), message: unread.to_string() })?;
    // A large text takes a while: not on the thread of a door.
    let checked = web::block(move || config::validate_conf(&text)).await;
    let checked = checked.map_err(|_| Failure {
        status: StatusCode::SERVICE_UNAVAILABLE,
        message: "the server is shutting down".to_owned(),
    })?;
    Ok(Reply::json(&match checked {
        Ok(warnings) => {
            VerdictView { allowed: true, reason: None, warnings: warnings.iter().map(Warning::from).collect() }
        }
        Err(reason) => VerdictView { allowed: false, reason: Some(reason), warnings: Vec::new() },
    }))
}
