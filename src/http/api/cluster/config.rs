//! `/api/v1/cluster/config`: the configuration and the settings that hold for all servers. A change is planned first.

use std::collections::BTreeMap;

use actix_web::{
    HttpRequest, HttpResponse,
    http::StatusCode,
    web::{Data, Payload},
};
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::json;

use super::{leaders, note};
use crate::{
    access::Caller,
    config::table::{self, Scope},
    http::{
        api::{
            board::BoardApi,
            plan::{self, view::Plan},
        },
        doors::Doors,
        problem::Problem,
        route::{Access, Route},
        shim::body,
        ws_v1::reply::{self, Reply},
    },
    messages::leaders::SharedConfig,
};

/// What came of a change.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "ClusterConfigChange")]
pub struct Changed {
    /// It holds from now on; else it was only planned.
    pub applied: bool,
    /// What holds, or would.
    pub config: SharedConfig,
    /// What it does to each resource manager that brought no configuration.
    pub plans: Vec<Plan>,
}

/// See [`super::routes`].
pub(super) fn routes() -> Vec<Route> {
    let text = json!(["string", "null"]);
    let config = "of resource managers that bring none; null: that of each server; left out: it stays";
    let settings = "of the whole server; null: it does not hold for all any more";
    let force = "also where the plan tells that applications or quotas suffer";
    let body = json!({
        "type": "object",
        "additionalProperties": false,
        "properties": {
            "config": {"type": text, "description": config},
            "settings": {"type": "object", "additionalProperties": {"type": text}, "description": settings},
            "plan": {"type": "boolean", "description": "only tell what it would do"},
            "force": {"type": "boolean", "description": force},
        },
    });
    vec![
        Access::Viewer
            .get("/api/v1/cluster/config")
            .to(get, "The configuration and the settings that hold for all servers of the cluster")
            .gives::<SharedConfig>(200)
            .problems(&[404, 503]),
        Access::Operator
            .post("/api/v1/cluster/config")
            .to(post, "Changes what holds for all servers of the cluster, planned first")
            .body("application/json", body)
            .gives::<Changed>(200)
            .problems(&[400, 404, 408, 409, 413, 415, 503]),
    ]
}

/// What is said of a change.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Change {
    /// Left out: it stays; `null`: none holds for all.
    #[serde(default, deserialize_with = "given")]
    config: Option<Option<String>>,
    /// `null`: it does not hold for all any more.
    #[serde(default)]
    settings: BTreeMap<String, Option<String>>,
    /// It is planned, and nothing else.
    #[serde(default)]
    plan: bool,
    /// Whatever the plan says.
    #[serde(default)]
    force: bool,
}

fn given<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Option<String>>, D::Error> {
    Option::deserialize(from).map(Some)
}

pub(super) async fn get(api: Data<BoardApi>, request: HttpRequest) -> Result<HttpResponse, Problem> {
    let config = leaders(&api)?.config().await?;
    Ok(reply::send(&request, Reply::json(&config)))
}

pub(super) async fn post(
    api: Data<BoardApi>,
    doors: Data<Doors>,
    caller: Caller,
    request: HttpRequest,
    payload: Payload,
) -> Result<HttpResponse, Problem> {
    let leaders = leaders(&api)?;
    let bytes = body::read(&request, payload, doors.limits().body()).await?;
    let change: Change = body::json(
        &bytes,
        r#"{"config": "text, null, or left out", "settings": {"key": "value, or null"}, "plan": false, "force": false}"#,
    )?;
    let who = caller.identity(request.peer_addr().map(|peer| peer.ip()));
    let (only_plan, force) = (change.plan, change.force);
    let mut config = leaders.config().await?;
    let told = apply(&mut config, change)?;
    config.since = Timestamp::now().to_string();
    config.by = caller.name().to_owned();
    note(&request, if only_plan { format!("planned: {told}") } else { told.clone() });
    // What it would do, also to those that others lead.
    leaders.freshen().await;
    let listing = doors.topology.directory.get();
    let text = config.config.clone();
    let loaded = match text {
        Some(text) => doors.topology.load_update(text, who.clone()).await?,
        None => doors.topology.own_default(),
    };
    let mut plans = Vec::new();
    for rm in listing.rms.iter().filter(|rm| rm.default_config) {
        let turn = doors.topology.trials.take(who.clone()).await?;
        let loaded = loaded.clone();
        plans.push(plan::of(&listing, rm.clone(), turn, || Ok(loaded)).await?);
    }
    let hurt: Vec<&str> = plans.iter().filter(|plan| plan.has_consequences()).map(|plan| &*plan.rm_id).collect();
    if !only_plan {
        if !hurt.is_empty() && !force {
            let detail = format!(
                "applications would not be admitted, or quotas would stand below usage, in: {}; look at the plan (\"plan\": true), \
                 and say \"force\": true where that is meant",
                hurt.join(", ")
            );
            return Err(Problem::new(StatusCode::CONFLICT, detail));
        }
        tracing::info!(by = caller.name(), told, "an operator says what holds for all servers of the cluster");
        leaders.configure(config.clone()).await?;
    }
    Ok(reply::send(&request, Reply::json(&Changed { applied: !only_plan, config, plans })))
}

/// Makes the change; gives a text about it for the logs.
fn apply(config: &mut SharedConfig, change: Change) -> Result<String, Problem> {
    let mut told = Vec::new();
    match change.config {
        Some(Some(text)) if text.trim().is_empty() => {
            let detail = "the configuration is empty: null has each server use its own again";
            return Err(Problem::field("config", detail));
        }
        Some(Some(text)) => {
            told.push(format!("configuration of {} bytes", text.len()));
            config.config = Some(text);
        }
        Some(None) => {
            told.push("no configuration".to_owned());
            config.config = None;
        }
        None => {}
    }
    for (key, value) in change.settings {
        let row = table::find(&key).filter(|row| row.scope() == Scope::Server).ok_or_else(|| {
            let detail = format!("\"{key}\" is no setting of the whole server (callboard settings lists them)");
            Problem::field("settings", detail)
        })?;
        match value {
            Some(value) => {
                row.read(&value)
                    .map_err(|want| Problem::field("settings", format!("{key}: \"{value}\" is not {want}")))?;
                told.push(format!("{key}={value}"));
                config.settings.insert(key, value);
            }
            None => {
                told.push(format!("no {key}"));
                config.settings.remove(&key);
            }
        }
    }
    if told.is_empty() {
        return Err(Problem::new(
            StatusCode::BAD_REQUEST,
            "nothing is to be changed: config and settings are left out",
        ));
    }
    Ok(told.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_out_stays() {
        let change = |text: &str| serde_json::from_str::<Change>(text).expect("a change");
        let mut config = SharedConfig::default();
        let told = apply(&mut config, change(r#"{"config": "a: b", "settings": {"log.level": "WARN"}}"#));
        assert_eq!(told.expect("taken"), "configuration of 4 bytes, log.level=WARN");
        apply(&mut config, change(r#"{"settings": {"health.checkInterval": "9s"}}"#)).expect("taken");
        assert_eq!((config.config.as_deref(), config.settings.len()), (Some("a: b"), 2));
        apply(&mut config, change(r#"{"config": null, "settings": {"log.level": null}}"#)).expect("taken");
        assert_eq!((config.config.as_deref(), config.settings.len()), (None, 1));
        for wrong in [
            r#"{}"#,
            r#"{"config": " "}"#,
            r#"{"settings": {"rm.pauseTimeout": "1s"}}"#,
            r#"{"settings": {"health.checkInterval": "soon"}}"#,
        ] {
            assert_eq!(apply(&mut config, change(wrong)).expect_err(wrong).status, StatusCode::BAD_REQUEST);
        }
    }
}
