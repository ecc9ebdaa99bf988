//! `/debug/fullstatedump`: everything at once, indented (REST 5.16, OPS-020).

use serde::Serialize;
use serde_json::{Value, value::RawValue};

use super::{
    View,
    applications::{self, ApplicationView},
    checks::AppList,
    config, history,
    json::{self, unset},
    nodes::{self, NodeView},
    partitions::{self, ClusterView, PartitionView},
    queues::{self, QueueView},
    reply::Reply,
    rules::{self, RuleView},
    state::{RestState, now},
    time_text,
};
use crate::{
    actors::directory::Listing,
    messages::{event::GetStreams, rm::StateDump},
};

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct DumpView<'a> {
    timestamp: i64,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    partitions: Vec<PartitionView<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    applications: Vec<ApplicationView<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    app_history: Vec<history::AppsView>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    nodes: Vec<NodesView<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    cluster_info: Vec<ClusterView<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    container_history: Vec<history::ContainersView>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    queues: Vec<QueueView<'a>>,
    rm_diagnostics: Value,
    #[serde(skip_serializing_if = "unset")]
    log_level: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    config: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    placement_rules: Vec<RulesView<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    event_streams: Vec<StreamView>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct NodesView<'a> {
    partition_name: &'a str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    nodes_info: Vec<NodeView<'a>>,
}

#[derive(Serialize)]
struct RulesView<'a> {
    partition: &'a str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    rules: Vec<RuleView>,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct StreamView {
    name: String,
    created_at: String,
}

/// Makes a dump; one at a time.
pub async fn dump(state: &RestState) -> Reply {
    let _turn = state.dumping.lock().await;
    let listing = state.listing();
    let views = state.views().await;
    let streams = state.topology.events.send(GetStreams).await.unwrap_or_default();
    let rm_diagnostics = diagnostics(state, &listing).await;
    let dump = DumpView {
        timestamp: now().0,
        partitions: views.iter().map(partitions::partition).collect(),
        applications: views.iter().flat_map(all_applications).collect(),
        app_history: state.history.apps(),
        nodes: views
            .iter()
            .map(|view| NodesView { partition_name: &view.shown, nodes_info: nodes::nodes(view) })
            .collect(),
        cluster_info: partitions::clusters(&listing, state.started),
        container_history: state.history.containers(),
        queues: views.iter().filter_map(queues::tree).collect(),
        rm_diagnostics,
        log_level: state.settings().log.of("core").name(),
        config: RawValue::from_string(config::shown_json(listing.rms.first())).ok(),
        placement_rules: views
            .iter()
            .map(|view| RulesView { partition: &view.shown, rules: rules::rules(view) })
            .collect(),
        event_streams: streams
            .into_iter()
            .map(|stream| StreamView { name: stream.name.to_string(), created_at: time_text(stream.created) })
            .collect(),
    };
    let mut reply = Reply::json(&dump);
    reply.body = json::indented(&reply.body);
    reply
}

fn all_applications(view: &View) -> impl Iterator<Item = ApplicationView<'_>> {
    let lists = [AppList::Active, AppList::Completed, AppList::Rejected];
    lists.into_iter().flat_map(move |list| applications::list(view, list, None))
}

/// The part of the resource manager; of several, one object per id.
async fn diagnostics(state: &RestState, listing: &Listing) -> Value {
    let mut parts = serde_json::Map::new();
    for rm in &listing.rms {
        let answer = match state.topology.find(&rm.id) {
            Some(handle) => handle.addr.send(StateDump).await.unwrap_or_default(),
            None => None,
        };
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
