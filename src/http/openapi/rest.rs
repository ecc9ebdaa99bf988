//! `/ws/v1` and `/debug`: what each route of the router takes and answers (REST 4 and 5).

use schemars::SchemaGenerator;
use serde_json::{Value, json};

use super::{
    list,
    operation::{Operation, count, text},
    schema,
};
use crate::{
    access::Role,
    http::ws_v1::{
        applications::ApplicationView,
        config::VerdictView,
        health::HealthView,
        history::{AppsView, ContainersView},
        nodes::{NodeView, UtilizationView},
        partitions::{ClusterView, PartitionView},
        queues::QueueView,
        reply::ErrorBody,
        router::{self, Route},
        rules::RuleView,
        usage::{GroupView, UserView},
    },
};

const PLAIN: &str = "text/plain";

/// The operations, one for each route.
pub fn operations(schemas: &mut SchemaGenerator) -> Vec<Operation> {
    let error = schema::<ErrorBody>(schemas);
    router::routes()
        .map(|(method, pattern, route)| {
            let segment = |part: &str| part.strip_prefix(':').map_or(part.to_owned(), |name| format!("{{{name}}}"));
            let path: Vec<String> = pattern.split('/').map(segment).collect();
            let role = if pattern.starts_with("/debug") { Role::Operator } else { Role::Viewer };
            let method = if method == actix_web::http::Method::POST { "post" } else { "get" };
            let operation = Operation::new(method, &path.join("/"), Some(role), summary(route));
            let operation =
                [401, 403, 429, 500].iter().fold(operation, |operation, status| operation.json(*status, error.clone()));
            let operation = operation.answer(405, PLAIN, text());
            let operation = if pattern.contains(':') { with_parameters(operation, &error) } else { operation };
            answers(operation, route, &error, schemas)
        })
        .collect()
}

/// What a parameter of a path can lead to: something that is not there or not well formed, to the handler or to the router
/// (REST 1.2), or almost another path.
fn with_parameters(operation: Operation, error: &Value) -> Operation {
    [400, 404]
        .iter()
        .fold(operation, |operation, status| operation.json(*status, error.clone()).answer(*status, PLAIN, text()))
        .answer(301, "text/html", text())
}

fn summary(route: Route) -> &'static str {
    match route {
        Route::Clusters => "Clusters: one entry for each partition",
        Route::Metrics => "Metrics for Prometheus",
        Route::Config => "The configuration in force",
        Route::ValidateConf => "Whether a configuration would be accepted",
        Route::HistoryApps => "Number of running applications, minute by minute",
        Route::HistoryContainers => "Number of containers, minute by minute",
        Route::Partitions => "Partitions",
        Route::PlacementRules => "Placement rules in the order of evaluation",
        Route::Queues => "The tree of queues",
        Route::Queue => "One queue",
        Route::Nodes => "Nodes",
        Route::Node => "One node",
        Route::QueueApplications => "Live applications of a queue",
        Route::QueueApplicationsByState => "Live applications of a queue by status",
        Route::QueueApplication => "One live application of a queue",
        Route::Application => "One live application",
        Route::ApplicationsByState => "Applications: active, rejected or completed ones",
        Route::Users => "Usage and limits of users",
        Route::User => "Usage and limits of a user",
        Route::Groups => "Usage and limits of groups",
        Route::Group => "Usage and limits of a group",
        Route::EventsBatch => "Events that are kept in memory",
        Route::EventsStream => "New events, for ever",
        Route::HealthCheck => "The last health check",
        Route::NodeUtilizations => "Nodes by how full they are",
        Route::Stack => "Threads and what they do",
        Route::StateDump => "Everything at once",
        Route::Profiles => "Which profiles there are",
        Route::Profile => "A profile",
        Route::Moved => "Moved below /debug",
    }
}

fn answers(operation: Operation, route: Route, error: &Value, schemas: &mut SchemaGenerator) -> Operation {
    let status = "one of new, accepted, running, completing, failing, resuming";
    match route {
        Route::Clusters => operation.json(200, list(schema::<ClusterView>(schemas))),
        Route::Metrics => operation.answer(200, PLAIN, text()),
        Route::Config => operation
            .query("rm", text(), "of this resource manager instead of the first")
            .answer(200, "application/x-yaml", json!({}))
            .json(200, json!({"type": "object", "required": ["DeadlockDetectionEnabled", "DeadlockTimeoutSeconds"]}))
            .json(404, error.clone()),
        Route::ValidateConf => {
            let operation = operation.body("application/yaml", text());
            let operation = operation.json(200, schema::<VerdictView>(schemas));
            operation
                .json(400, error.clone())
                .json(408, error.clone())
                .json(413, error.clone())
                .json(503, error.clone())
        }
        Route::HistoryApps => operation.json(200, list(schema::<AppsView>(schemas))),
        Route::HistoryContainers => operation.json(200, list(schema::<ContainersView>(schemas))),
        Route::Partitions => operation.json(200, list(schema::<PartitionView>(schemas))),
        Route::PlacementRules => operation.json(200, list(schema::<RuleView>(schemas))),
        Route::Queues => operation.json(200, schema::<QueueView>(schemas)),
        Route::Queue => operation
            .query("subtree", text(), "with everything below it, whatever the value")
            .json(200, schema::<QueueView>(schemas)),
        Route::Nodes => operation.json(200, list(schema::<NodeView>(schemas))),
        Route::Node => operation.json(200, schema::<NodeView>(schemas)),
        Route::QueueApplications => operation.json(200, list(schema::<ApplicationView>(schemas))),
        Route::QueueApplicationsByState | Route::ApplicationsByState => {
            operation.query("status", text(), status).json(200, list(schema::<ApplicationView>(schemas)))
        }
        Route::QueueApplication | Route::Application => operation.json(200, schema::<ApplicationView>(schemas)),
        Route::Users => operation.json(200, list(schema::<UserView>(schemas))),
        Route::User => operation.json(200, schema::<UserView>(schemas)),
        Route::Groups => operation.json(200, list(schema::<GroupView>(schemas))),
        Route::Group => operation.json(200, schema::<GroupView>(schemas)),
        Route::EventsBatch => operation
            .query("count", json!({"type": "integer", "format": "uint64", "minimum": 1}), "how many at most")
            .query("start", count(), "first id")
            .json(200, batch())
            .json(400, error.clone()),
        Route::EventsStream => operation
            .query("count", count(), "how many past events come first")
            .json(
                200,
                json!({"type": "string", "description": "One JSON object in a line, the first with InstanceUUID"}),
            )
            .json(400, error.clone())
            .json(503, error.clone()),
        Route::HealthCheck => operation.json(200, schema::<HealthView>(schemas)).json(404, error.clone()),
        Route::NodeUtilizations => {
            let partitions = schema::<UtilizationView>(schemas);
            operation.json(200, json!({"type": ["array", "null"], "items": partitions}))
        }
        // Plain text, sent as JSON (REST 1.3): nothing that a schema could say.
        Route::Stack => operation.answer(200, PLAIN, text()),
        Route::StateDump => operation.json(200, dump(schemas)),
        Route::Profiles => operation.answer(200, "text/html", text()),
        Route::Profile => operation.answer(200, PLAIN, text()).answer(404, PLAIN, text()),
        Route::Moved => operation.answer(301, "text/html", text()),
    }
}

/// The answer of `/debug/fullstatedump` (REST 5.16), which is written piece by piece.
fn dump(schemas: &mut SchemaGenerator) -> Value {
    let nodes = list(schema::<NodeView>(schemas));
    let rules = list(schema::<RuleView>(schemas));
    json!({
        "type": "object",
        "required": ["timestamp", "rmDiagnostics"],
        "properties": {
            "timestamp": {"type": "integer", "format": "int64"},
            "partitions": list(schema::<PartitionView>(schemas)),
            "applications": list(schema::<ApplicationView>(schemas)),
            "appHistory": list(schema::<AppsView>(schemas)),
            "nodes": list(json!({"type": "object", "required": ["partitionName"],
                "properties": {"partitionName": text(), "nodesInfo": nodes}})),
            "clusterInfo": list(schema::<ClusterView>(schemas)),
            "containerHistory": list(schema::<ContainersView>(schemas)),
            "queues": list(schema::<QueueView>(schemas)),
            "rmDiagnostics": {"type": "object"},
            "logLevel": text(),
            "config": {"type": "object"},
            "placementRules": list(json!({"type": "object", "required": ["partition"],
                "properties": {"partition": text(), "rules": rules}})),
            "eventStreams": list(json!({"type": "object", "required": ["Name", "CreatedAt"],
                "properties": {"Name": text(), "CreatedAt": {"type": "string", "format": "date-time"}}})),
        },
    })
}

/// The answer of `/ws/v1/events/batch` (REST 6.1, 6.3): zero, empty and absent are the same.
fn batch() -> Value {
    let number = || json!({"type": "integer"});
    json!({
        "type": "object",
        "required": ["InstanceUUID", "LowestID", "HighestID", "EventRecords"],
        "properties": {
            "InstanceUUID": {"type": "string", "format": "uuid"},
            "LowestID": count(),
            "HighestID": count(),
            "EventRecords": {"type": ["array", "null"], "items": {
                "type": "object",
                "properties": {
                    "type": {"type": "integer", "minimum": 1, "maximum": 5},
                    "objectID": text(),
                    "message": text(),
                    "timestampNano": {"type": "integer", "format": "int64"},
                    "eventChangeType": {"type": "integer", "minimum": 1, "maximum": 3},
                    "eventChangeDetail": number(),
                    "referenceID": text(),
                    "resource": {"type": "object", "properties": {"resources": {
                        "type": "object",
                        "additionalProperties": {"type": "object", "properties": {"value": number()}},
                    }}},
                },
            }},
        },
    })
}
