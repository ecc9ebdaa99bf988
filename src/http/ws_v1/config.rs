//! The configuration in force, and the trial of another one (REST 5.14, 5.15).

use std::collections::BTreeMap;

use actix_web::{
    HttpRequest,
    http::{StatusCode, header},
    web::{self, Payload},
};
use schemars::JsonSchema;
use serde::{Serialize, Serializer};

use super::{
    json,
    reply::{Failure, Reply},
    state::RestState,
    url,
};
use crate::{
    actors::directory::RmEntry,
    config::{
        self,
        shown::{Form, rest},
    },
    http::{api::plan::view::Warning, long, shim::body},
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
        return Ok(Reply { body: json::compact(&Json(&shown(rm))).into(), ..Reply::json(&()) });
    }
    Ok(Reply::data(YAML, shown(rm).to_yaml().into_bytes()))
}

/// The configuration of a resource manager.
pub fn shown(rm: Option<&RmEntry>) -> Form {
    match rm {
        Some(rm) => rest(Some(&rm.config), &rm.extra),
        None => rest(None, &BTreeMap::new()),
    }
}

/// A value of a configuration as JSON.
pub struct Json<'a>(pub &'a Form);

impl Serialize for Json<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Form::Null => to.serialize_unit(),
            Form::Text(text) => to.serialize_str(text),
            Form::Bool(on) => to.serialize_bool(*on),
            Form::Count(count) => to.serialize_u64(*count),
            Form::Weight(weight) => to.serialize_f64(*weight),
            Form::List(list) => to.collect_seq(list.iter().map(Json)),
            Form::Map(map) => to.collect_map(map.iter().map(|(key, value)| (key, Json(value)))),
            Form::Struct(fields) => to.collect_map(fields.iter().map(|(key, value)| (key, Json(value)))),
        }
    }
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
    let (caller, address) = long::caller(request);
    let turn = state.topology.trials.take(caller.identity(address)).await;
    let turn = turn.map_err(|busy| Failure { status: StatusCode::SERVICE_UNAVAILABLE, message: busy.to_string() })?;
    // A large text takes a while: not on the thread of a door.
    let checked = web::block(move || {
        // It takes its memory, though nobody may wait for it any more.
        let _turn = turn;
        config::validate_conf(&text)
    })
    .await;
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A configuration, and what a running core answers when it is asked for it.
    const WRITTEN: &str = include_str!("../../../crates/domain/src/config/fixtures/written.yaml");
    const SHOWN: &str = include_str!("../../../crates/domain/src/config/fixtures/shown.json");

    fn text(form: &Form) -> String {
        String::from_utf8(json::compact(&Json(form))).unwrap()
    }

    fn loaded(written: &str) -> String {
        text(&config::load(written).unwrap().shown.form())
    }

    #[test]
    fn as_a_running_core_shows_it() {
        // CFG-009, CFG-016, CFG-118
        let extra = [("event.maxStreams", "3"), ("event.maxStreamsPerHost", "2"), ("health.checkInterval", "5s")];
        let extra = extra.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
        assert_eq!(text(&rest(Some(&config::load(WRITTEN).unwrap()), &extra)), SHOWN.trim_end());
        assert_eq!(text(&shown(None)), r#"{"DeadlockDetectionEnabled":false,"DeadlockTimeoutSeconds":60}"#);
    }

    #[test]
    fn without_partitions() {
        // CFG-003
        assert!(loaded("# nothing").starts_with(r#"{"Partitions":null,"Checksum":""#));
        assert!(loaded("partitions: []").starts_with(r#"{"Partitions":[],"#));
    }

    #[test]
    fn what_is_shown_is_normalised() {
        // CFG-009, CFG-010, CFG-013
        let json = loaded("partitions: [{name: DEFAULT, queues: [{name: P, parent: true}]}]");
        let wanted = concat!(
            r#"{"Partitions":[{"Name":"default","Queues":[{"Name":"root","Parent":true,"Resources":{},"#,
            r#""ChildTemplate":{"Resources":{}},"Queues":[{"Name":"P","Parent":true,"Resources":{},"#,
            r#""ChildTemplate":{"Resources":{}}}]}],"Preemption":{},"NodeSortPolicy":{"Type":""},"UserGroupResolver":{}}],"#
        );
        assert!(json.starts_with(wanted), "{json}");
        let json = loaded("partitions: [{queues: [], usergroupresolver: {type: os}, preemption: {enabled: false}}]");
        let wanted = r#""Preemption":{"Enabled":false},"NodeSortPolicy":{"Type":""},"UserGroupResolver":{"type":"os"}"#;
        assert!(json.contains(wanted), "{json}");
    }

    #[test]
    fn texts_are_escaped_as_everywhere() {
        let json = loaded("partitions: [{queues: [{name: root, properties: {k: \"<a & b>\\n\\\"\\u2028\\x01\"}}]}]");
        assert!(json.contains(r#""k":"\u003ca \u0026 b\u003e\n\"\u2028\u0001""#), "{json}");
    }
}
