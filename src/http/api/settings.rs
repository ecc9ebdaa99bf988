//! `GET /api/v1/settings`: every setting with its present value, from the table that reads them.

use std::{borrow::Cow, collections::BTreeMap};

use actix_web::{HttpRequest, HttpResponse, web::Data};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::board::BoardApi;
use crate::{
    actors::directory::RmEntry,
    config::table::{self, Scope, Setting},
    http::{
        route::{Access, Route},
        ws_v1::reply::{self, Reply},
    },
    messages::settings::ServerOption,
};

/// The answer, as it is sent and as `callboard settings` reads it.
#[derive(Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Settings")]
#[serde(rename_all = "camelCase")]
pub struct Shown {
    /// Options of the command line, or of the environment.
    pub options: Vec<ServerOption>,
    /// Settings of the whole server.
    pub server: Vec<Row>,
    /// Settings of each registered resource manager.
    pub resource_managers: Vec<Manager>,
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "SettingsOfResourceManager")]
pub struct Manager {
    #[serde(rename = "rmID")]
    pub rm: String,
    pub settings: Vec<Row>,
}

/// A setting.
#[derive(Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Setting")]
#[serde(rename_all = "camelCase")]
pub struct Row {
    pub key: String,
    /// duration, number, bytes, flag, word, level or queues.
    r#type: Cow<'static, str>,
    /// What is in force; null where it is not known.
    pub value: Option<String>,
    /// Left out where the option of the server is the default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default: Option<Cow<'static, str>>,
    /// Somebody set it.
    pub set: bool,
    /// What was set and cannot be read, so that the default is in force.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unreadable: Option<String>,
    /// A change is in force at once; else with the next registration.
    live: bool,
    description: Cow<'static, str>,
}

/// The application's data has to hold a [`BoardApi`].
pub(super) fn routes() -> Vec<Route> {
    vec![
        Access::Viewer.get("/api/v1/settings").to(settings, "Every setting with its present value").gives::<Shown>(200),
    ]
}

async fn settings(api: Data<BoardApi>, request: HttpRequest) -> HttpResponse {
    let listing = api.topology.directory.get();
    let options = api.topology.process.options.get().cloned().unwrap_or_default();
    let rows = |scope, given: &_, fixed: &_| {
        let mut rows = rows(scope, given, fixed);
        for row in rows.iter_mut().filter(|row| row.value.is_none()) {
            row.value = as_started(&options, &row.key);
        }
        rows
    };
    let manager = |rm: &RmEntry| Manager {
        rm: rm.id.to_string(),
        settings: rows(Scope::ResourceManager, &rm.extra, &rm.at_registration),
    };
    let shown = Shown {
        server: rows(Scope::Server, &api.topology.process.get(), &BTreeMap::new()),
        resource_managers: listing.rms.iter().map(manager).collect(),
        options,
    };
    reply::send(&request, Reply::json(&shown))
}

/// What the options of the server say of a setting that nobody has set.
fn as_started(options: &[ServerOption], key: &str) -> Option<String> {
    let value = |name: &str| options.iter().find(|option| option.name == name).map(|option| option.value.clone());
    match key {
        "http.maxBodyBytes" => value("http-max-body-bytes").flatten(),
        "rm.maxItems" => value("rm-max-items").flatten(),
        "rm.reservations" => {
            value("no-reservations").map(|given| given.is_none_or(|given| given == "false").to_string())
        }
        _ => None,
    }
}

/// What holds, by key, whatever was set later.
type Fixed = BTreeMap<&'static str, String>;

/// The settings of a scope as this map has them. Keys that stand for several are listed where they are set.
fn rows(scope: Scope, given: &BTreeMap<String, String>, fixed: &Fixed) -> Vec<Row> {
    let whole = table::TABLE.iter().filter(|row| row.scope() == scope && !row.is_pattern());
    let mut rows: Vec<Row> = whole.map(|row| shown(row.key, row, given, fixed)).collect();
    let several = given.keys().filter_map(|key| Some((key, table::find(key)?)));
    let several = several.filter(|(_, row)| row.is_pattern() && row.scope() == scope);
    rows.extend(several.map(|(key, row)| shown(key, row, given, fixed)));
    rows
}

fn shown(key: &str, row: &'static Setting, given: &BTreeMap<String, String>, fixed: &Fixed) -> Row {
    let text = given.get(key);
    let readable = text.filter(|text| row.read(text).is_ok());
    Row {
        key: key.to_owned(),
        r#type: row.form.name().0.into(),
        value: fixed.get(key).or(readable).cloned().or_else(|| row.default.map(str::to_owned)),
        default: row.default.map(Cow::from),
        set: text.is_some(),
        unreadable: text.filter(|_| readable.is_none()).map(|text| text.chars().take(200).collect()),
        live: row.live,
        description: row.text.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_what_is_in_force() {
        let given = [("event.maxStreams", "many"), ("log.core.rest.level", "debug"), ("event.store.maxAge", "24h")];
        let given = given.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect();
        let rows = rows(Scope::Server, &given, &Fixed::new());
        let of = |key: &str| rows.iter().find(|row| row.key == key).expect("shown");
        let streams = of("event.maxStreams");
        assert_eq!((streams.value.as_deref(), streams.unreadable.as_deref()), (Some("100"), Some("many")));
        assert_eq!(of("event.store.maxAge").value.as_deref(), Some("24h"));
        assert!(of("log.core.rest.level").set && !of("log.level").set);
        assert_eq!(
            (of("http.maxBodyBytes").value.as_deref(), of("http.maxBodyBytes").default.as_deref()),
            (None, None)
        );
        assert!(rows.iter().all(|row| !row.key.contains("SUBSYSTEM") && !row.key.starts_with("rm.")));
        let given = BTreeMap::from([("rm.itemsInFlight".to_owned(), "7".to_owned())]);
        let fixed = Fixed::from([("rm.itemsInFlight", "1000000".to_owned())]);
        let rows = super::rows(Scope::ResourceManager, &given, &fixed);
        let row = rows.iter().find(|row| row.key == "rm.itemsInFlight").expect("shown");
        assert_eq!(
            (row.value.as_deref(), row.set, row.live),
            (Some("1000000"), true, false),
            "not before it registers"
        );
    }
}
