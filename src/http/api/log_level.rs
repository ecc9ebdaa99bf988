//! `/api/v1/log/level`: what the log tells, and an operator's word on it, which holds until the server ends or it is taken back.

use std::borrow::Cow;

use actix_web::{
    HttpRequest, HttpResponse,
    web::{Data, Payload},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{board::BoardApi, note};
use crate::{
    access::Caller,
    actors::topology::process::LOG_LEVEL,
    config::extra::{LogLevel, Settings},
    http::{
        problem::Problem,
        route::{Access, Route},
        shim::body,
        ws_v1::reply::{self, Reply},
    },
};

/// Longest body, bytes.
const LONGEST: usize = 1 << 10;
/// Levels that may be chosen, the most first.
pub const LEVELS: [&str; 4] = ["debug", "info", "warn", "error"];

/// The application's data has to hold a [`BoardApi`].
pub(super) fn routes() -> Vec<Route> {
    let levels: Vec<Value> = LEVELS.map(Value::from).into_iter().chain([Value::Null]).collect();
    let body = json!({
        "type": "object",
        "required": ["level"],
        "additionalProperties": false,
        "properties": {"level": {"enum": levels, "description": "null: what the environment or the settings say"}},
    });
    vec![
        Access::Viewer.get("/api/v1/log/level").to(get, "What the log tells").gives::<Shown>(200),
        Access::Operator
            .post("/api/v1/log/level")
            .to(post, "Changes what the log tells, until the server ends")
            .body("application/json", body)
            .gives::<Shown>(200)
            .problems(&[400, 408, 413, 415]),
    ]
}

/// What the log tells, as it is sent and as `callboard log-level` reads it.
#[derive(Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "LogLevel")]
pub struct Shown {
    /// debug, info, warn or error.
    pub level: Cow<'static, str>,
    /// An operator said so.
    pub operator: bool,
    /// What `RUST_LOG` says instead, where it is set and no operator said anything.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub environment: Option<String>,
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
        Shown { level: level.into(), operator, environment: std::env::var("RUST_LOG").ok().filter(|_| !operator) }
    }
}

async fn get(api: Data<BoardApi>, request: HttpRequest) -> HttpResponse {
    reply::send(&request, Reply::json(&Shown::of(&api)))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Body {
    /// `None`: as the environment or the settings say. Who leaves it out has not said that.
    #[serde(deserialize_with = "Option::deserialize")]
    level: Option<String>,
}

async fn post(
    api: Data<BoardApi>,
    caller: Caller,
    request: HttpRequest,
    payload: Payload,
) -> Result<HttpResponse, Problem> {
    let bytes = body::short(&request, payload, LONGEST).await?;
    let form = r#"{"level": "debug", "info", "warn", "error", or null for what the settings say}"#;
    let Body { level } = body::json(&bytes, form)?;
    if let Some(level) = level.as_deref().filter(|level| !LEVELS.contains(level)) {
        let detail = format!("level is '{level}'; it may be {}, or null for what the settings say", LEVELS.join(", "));
        return Err(Problem::field("level", detail));
    }
    let told = level.as_deref().unwrap_or("as set");
    note(&request, told);
    tracing::warn!(
        code = "log-level-changed",
        by = caller.name(),
        // As `level` it would be the second of that name in a line.
        tells = told,
        "an operator changes the log level"
    );
    api.topology.process.say(LOG_LEVEL, level);
    Ok(reply::send(&request, Reply::json(&Shown::of(&api))))
}
