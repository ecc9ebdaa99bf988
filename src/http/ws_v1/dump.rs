//! `/debug/fullstatedump`: everything at once, indented (REST 5.16, OPS-020), written as it is sent.

use std::{
    io::{self, Write},
    sync::Arc,
};

use actix_web::{HttpRequest, HttpResponse};
use futures::future::join_all;
use serde::{Serialize, Serializer, ser::SerializeMap};
use serde_json::Value;

use super::{
    View, applications,
    checks::AppList,
    config, history,
    json::{self, Each, Indented},
    nodes, partitions, queues, rules, spool,
    state::{RestState, now},
    time_text,
};
use crate::{
    actors::directory::{Listing, Unanswered},
    config::shown::Form,
    domain::types::Nanos,
    messages::{event::GetStreams, rm::StateDump},
};

/// All that is in a dump. Its lists are made of the snapshots while it is written, so that a dump takes little more memory
/// than its longest object, however large the cluster.
struct Dump {
    at: Nanos,
    started: Nanos,
    listing: Arc<Listing>,
    views: Vec<View>,
    app_history: Vec<history::AppsView>,
    container_history: Vec<history::ContainersView>,
    rm_diagnostics: Value,
    log_level: &'static str,
    config: Form,
    event_streams: Vec<StreamView>,
    /// What is not in it, and why.
    unanswered: Vec<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct StreamView {
    name: String,
    created_at: String,
}

/// Nodes or rules of a partition, left out where there are none.
struct Part<'a, T> {
    name_key: &'static str,
    name: &'a str,
    rows_key: &'static str,
    rows: Option<T>,
}

impl<T: Serialize> Serialize for Part<'_, T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry(self.name_key, self.name)?;
        if let Some(rows) = &self.rows {
            map.serialize_entry(self.rows_key, rows)?;
        }
        map.end()
    }
}

impl Dump {
    fn applications(&self) -> impl Iterator<Item = applications::ApplicationView<'_>> {
        let lists = [AppList::Active, AppList::Completed, AppList::Rejected];
        let of = move |view| lists.into_iter().flat_map(move |list| applications::each(view, list, None));
        self.views.iter().flat_map(of)
    }

    fn has_applications(&self) -> bool {
        let any = |view: &View| {
            let partition = view.partition();
            !(partition.app_by_id.is_empty() && partition.terminated.is_empty() && partition.rejected.is_empty())
        };
        self.views.iter().any(any)
    }
}

/// In the order of REST 5.16; what is empty is left out.
impl Serialize for Dump {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        let some = !self.views.is_empty();
        map.serialize_entry("timestamp", &self.at.0)?;
        if some {
            map.serialize_entry("partitions", &Each(|| self.views.iter().map(partitions::partition)))?;
        }
        if self.has_applications() {
            map.serialize_entry("applications", &Each(|| self.applications()))?;
        }
        if !self.app_history.is_empty() {
            map.serialize_entry("appHistory", &self.app_history)?;
        }
        if some {
            let part = |view| {
                let rows = nodes::rows(view).next().map(|_| Each(move || nodes::each(view)));
                Part { name_key: "partitionName", name: &view.shown, rows_key: "nodesInfo", rows }
            };
            map.serialize_entry("nodes", &Each(|| self.views.iter().map(part)))?;
        }
        let clusters = partitions::clusters(&self.listing, self.started);
        if !clusters.is_empty() {
            map.serialize_entry("clusterInfo", &clusters)?;
        }
        if !self.container_history.is_empty() {
            map.serialize_entry("containerHistory", &self.container_history)?;
        }
        if some {
            map.serialize_entry("queues", &Each(|| self.views.iter().filter_map(queues::tree)))?;
        }
        map.serialize_entry("rmDiagnostics", &self.rm_diagnostics)?;
        if !self.log_level.is_empty() {
            map.serialize_entry("logLevel", self.log_level)?;
        }
        map.serialize_entry("config", &config::Json(&self.config))?;
        if some {
            let part = |view| {
                let rows = Some(rules::rules(view)).filter(|rules| !rules.is_empty());
                Part { name_key: "partition", name: &view.shown, rows_key: "rules", rows }
            };
            map.serialize_entry("placementRules", &Each(|| self.views.iter().map(part)))?;
        }
        if !self.event_streams.is_empty() {
            map.serialize_entry("eventStreams", &self.event_streams)?;
        }
        if !self.unanswered.is_empty() {
            map.serialize_entry("unanswered", &self.unanswered)?;
        }
        map.end()
    }
}

impl Dump {
    fn write(&self, to: &mut dyn Write) -> io::Result<()> {
        json::write_to(&mut Indented::new(&mut *to), self)?;
        to.write_all(b"\n")
    }
}

/// Makes a dump and sends it as it is made; one at a time.
pub async fn dump(req: &HttpRequest, state: &RestState) -> HttpResponse {
    let turn = state.dumping.clone().lock_owned().await;
    let listing = state.listing();
    let streams = state.topology.events.send(GetStreams).await.unwrap_or_default();
    let dump = Dump {
        at: now(),
        started: state.started,
        views: state.views().await,
        app_history: state.history.apps(),
        container_history: state.history.containers(),
        rm_diagnostics: diagnostics(state, &listing).await,
        log_level: state.settings().log.of("core").name(),
        config: config::shown(listing.rms.first()),
        event_streams: streams
            .into_iter()
            .map(|stream| StreamView { name: stream.name.to_string(), created_at: time_text(stream.created) })
            .collect(),
        unanswered: listing.silent().map(|why| why.to_string()).collect(),
        listing,
    };
    let write = move |to: &mut dyn Write| {
        let done = dump.write(to);
        drop(turn);
        done
    };
    spool::send(req, write).await
}

/// The part of the resource manager; of several, one object per id.
async fn diagnostics(state: &RestState, listing: &Listing) -> Value {
    let mut parts = serde_json::Map::new();
    // All at once: however many do not answer, they are waited for together.
    let asked = listing.rms.iter().map(async |rm| match state.topology.find(&rm.id) {
        Some(handle) => match handle.asked.send(StateDump).await {
            Err(Unanswered::Gone(_)) => None,
            Err(silent) => Some(Err(silent.to_string())),
            Ok(answer) => answer,
        },
        None => None,
    });
    for (rm, answer) in listing.rms.iter().zip(join_all(asked).await) {
        parts.insert(rm.id.to_string(), own_part(answer));
    }
    match parts.len() {
        0 => own_part(None),
        1 => parts.into_iter().next().map_or(Value::Null, |(_, part)| part),
        _ => Value::Object(parts),
    }
}

/// OPS-021.
fn own_part(answer: Option<Result<String, String>>) -> Value {
    let object = |key: &str, text: String| Value::Object([(key.to_owned(), Value::String(text))].into_iter().collect());
    match answer {
        None => object("empty", "Resource Manager did not register callback".to_owned()),
        Some(Err(error)) => object("Error", error),
        Some(Ok(text)) => match serde_json::from_str(&text) {
            Ok(Value::Object(part)) => Value::Object(part),
            Ok(_) => object("Error", "the state dump of the resource manager is not a JSON object".to_owned()),
            Err(error) => object("Error", format!("the state dump of the resource manager is not JSON: {error}")),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // OPS-021: no callback, a failure, no JSON, an object.
    #[test]
    fn diagnostics_of_a_shim() {
        let text = |answer| own_part(answer).to_string();
        assert_eq!(text(None), r#"{"empty":"Resource Manager did not register callback"}"#);
        assert_eq!(text(Some(Err("gone".into()))), r#"{"Error":"gone"}"#);
        assert_eq!(text(Some(Ok(r#"{"a":[1]}"#.into()))), r#"{"a":[1]}"#);
        assert!(text(Some(Ok("x".into()))).contains("is not JSON"));
        assert!(text(Some(Ok("1".into()))).contains("not a JSON object"));
    }
}
