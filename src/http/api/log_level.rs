//! `/api/v1/log/level`: what the log tells, and an operator's word on it, which holds until the server ends or it is taken back.

use actix_web::{
    HttpRequest, HttpResponse,
    http::StatusCode,
    web::{self, Data, Payload, ServiceConfig},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::board::BoardApi;
use crate::{
    access::Caller,
    actors::topology::process::LOG_LEVEL,
    config::extra::{LogLevel, Settings},
    http::{
        problem::Problem,
        server::resource,
        shim::body,
        ws_v1::reply::{self, Reply},
    },
};

/// Longest body, bytes.
const LONGEST: usize = 1 << 10;
/// Levels that may be chosen, the most first.
pub const LEVELS: [&str; 4] = ["debug", "info", "warn", "error"];

/// Adds the route. The application's data has to hold a [`BoardApi`].
pub fn configure(service: &mut ServiceConfig) {
    service.service(resource("/api/v1/log/level", "GET, POST").route(web::get().to(get)).route(web::post().to(post)));
}

/// What the log tells.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "LogLevel")]
pub struct Shown {
    /// debug, info, warn or error.
    level: &'static str,
    /// An operator said so.
    operator: bool,
    /// What `RUST_LOG` says instead, where it is set and no operator said anything.
    #[serde(skip_serializing_if = "Option::is_none")]
    environment: Option<String>,
}

impl Shown {
    fn of(api: &BoardApi) -> Shown {
        let process = &api.topology.process;
        let level = match Settings::read(&process.get()).log.of("") {
            LogLevel::Debug => "debug",
            LogLevel::Info => "info",
            LogLevel::Warn => "warn",
            LogLevel::Error | LogLevel::DPanic | LogLevel::Panic | LogLevel::Fatal => "error",
        };
        let operator = process.said(LOG_LEVEL).is_some();
        Shown { level, operator, environment: std::env::var("RUST_LOG").ok().filter(|_| !operator) }
    }
}

async fn get(api: Data<BoardApi>, request: HttpRequest) -> HttpResponse {
    reply::send(&request, Reply::json(&Shown::of(&api)))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Body {
    /// `None`: as the environment or the settings say.
    level: Option<String>,
}

async fn post(
    api: Data<BoardApi>,
    caller: Caller,
    request: HttpRequest,
    payload: Payload,
) -> Result<HttpResponse, Problem> {
    let bytes = body::bytes(&request, payload, LONGEST).await?;
    let Body { level } = serde_json::from_slice(&bytes).map_err(|error| {
        let form = r#"{"level": "debug", "info", "warn", "error", or null for what the settings say}"#;
        Problem::new(StatusCode::BAD_REQUEST, format!("the body is not {form}: {error}"))
    })?;
    if let Some(level) = level.as_deref().filter(|level| !LEVELS.contains(level)) {
        let detail = format!("level is '{level}'; it may be {}, or null for what the settings say", LEVELS.join(", "));
        return Err(Problem::field("level", detail));
    }
    tracing::warn!(
        code = "log-level-changed",
        by = caller.name(),
        level = level.as_deref().unwrap_or("as set"),
        "an operator changes the log level"
    );
    api.topology.process.say(LOG_LEVEL, level);
    Ok(reply::send(&request, Reply::json(&Shown::of(&api))))
}
