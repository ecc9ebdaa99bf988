//! `/ws/v1` and `/debug`: what each endpoint of the router takes and answers (REST 4 and 5).

use schemars::SchemaGenerator;
use serde_json::{Value, json};

use super::{
    applications::ApplicationView,
    config::VerdictView,
    health::HealthView,
    history::{AppsView, ContainersView},
    nodes::{NodeView, UtilizationView},
    partitions::{ClusterView, PartitionView},
    queues::QueueView,
    reply::ErrorBody,
    router::Endpoint,
    rules::RuleView,
    usage::{GroupView, UserView},
};
use crate::http::{
    operation::{count, list, schema, text},
    route::Route,
};

const PLAIN: &str = "text/plain";

/// What an endpoint takes and answers.
pub fn describe(route: Route, endpoint: Endpoint) -> Route {
    let with_parameters = route.place.path.contains('{');
    let route = [401, 403, 429, 500].iter().fold(route, |route, status| route.gives::<ErrorBody<'_>>(*status));
    let route = route.answer(405, PLAIN, text());
    answers(if with_parameters { parameters(route) } else { route }, endpoint)
}

/// What a parameter of a path can lead to: something that is not there or not well formed, to the handler or to the router
/// (REST 1.2), or almost another path.
fn parameters(route: Route) -> Route {
    let wrong = |route: Route, status: &u16| route.gives::<ErrorBody<'_>>(*status).answer(*status, PLAIN, text());
    [400, 404].iter().fold(route, wrong).answer(301, "text/html", text())
}

/// What it is for.
pub fn summary(endpoint: Endpoint) -> &'static str {
    match endpoint {
        Endpoint::Clusters => "Clusters: one entry for each partition",
        Endpoint::Metrics => "Metrics for Prometheus",
        Endpoint::Config => "The configuration in force",
        Endpoint::ValidateConf => "Whether a configuration would be accepted",
        Endpoint::HistoryApps => "Number of running applications, minute by minute",
        Endpoint::HistoryContainers => "Number of containers, minute by minute",
        Endpoint::Partitions => "Partitions",
        Endpoint::PlacementRules => "Placement rules in the order of evaluation",
        Endpoint::Queues => "The tree of queues",
        Endpoint::Queue => "One queue",
        Endpoint::Nodes => "Nodes",
        Endpoint::Node => "One node",
        Endpoint::QueueApplications => "Live applications of a queue",
        Endpoint::QueueApplicationsByState => "Live applications of a queue by status",
        Endpoint::QueueApplication => "One live application of a queue",
        Endpoint::Application => "One live application",
        Endpoint::ApplicationsByState => "Applications: active, rejected or completed ones",
        Endpoint::Users => "Usage and limits of users",
        Endpoint::User => "Usage and limits of a user",
        Endpoint::Groups => "Usage and limits of groups",
        Endpoint::Group => "Usage and limits of a group",
        Endpoint::EventsBatch => "Events that are kept in memory",
        Endpoint::EventsStream => "New events, for ever",
        Endpoint::HealthCheck => "The last health check",
        Endpoint::NodeUtilizations => "Nodes by how full they are",
        Endpoint::Stack => "Threads and what they do",
        Endpoint::StateDump => "Everything at once",
        Endpoint::Profiles => "Which profiles there are",
        Endpoint::Profile => "A profile",
        Endpoint::Moved => "Moved below /debug",
    }
}

fn answers(route: Route, endpoint: Endpoint) -> Route {
    let status = "one of new, accepted, running, completing, failing, resuming";
    match endpoint {
        Endpoint::Clusters => route.gives::<Vec<ClusterView>>(200),
        // Of `Stack` it is plain text, sent as JSON (REST 1.3): nothing that a schema could say.
        Endpoint::Metrics | Endpoint::Stack => route.answer(200, PLAIN, text()),
        Endpoint::Config => route
            .query("rm", text(), "of this resource manager instead of the first")
            .answer(200, "application/x-yaml", json!({}))
            .json(200, json!({"type": "object", "required": ["DeadlockDetectionEnabled", "DeadlockTimeoutSeconds"]}))
            .gives::<ErrorBody<'_>>(404),
        Endpoint::ValidateConf => {
            let route = route.body("application/yaml", text()).gives::<VerdictView>(200);
            [400, 408, 413, 503].into_iter().fold(route, |route, status| route.gives::<ErrorBody<'_>>(status))
        }
        Endpoint::HistoryApps => route.gives::<Vec<AppsView>>(200),
        Endpoint::HistoryContainers => route.gives::<Vec<ContainersView>>(200),
        Endpoint::Partitions => route.gives::<Vec<PartitionView>>(200),
        Endpoint::PlacementRules => route.gives::<Vec<RuleView>>(200),
        Endpoint::Queues => route.gives::<QueueView>(200),
        Endpoint::Queue => {
            route.query("subtree", text(), "with everything below it, whatever the value").gives::<QueueView>(200)
        }
        Endpoint::Nodes => route.gives::<Vec<NodeView>>(200),
        Endpoint::Node => route.gives::<NodeView>(200),
        Endpoint::QueueApplications => route.gives::<Vec<ApplicationView>>(200),
        Endpoint::QueueApplicationsByState | Endpoint::ApplicationsByState => {
            route.query("status", text(), status).gives::<Vec<ApplicationView>>(200)
        }
        Endpoint::QueueApplication | Endpoint::Application => route.gives::<ApplicationView>(200),
        Endpoint::Users => route.gives::<Vec<UserView>>(200),
        Endpoint::User => route.gives::<UserView>(200),
        Endpoint::Groups => route.gives::<Vec<GroupView>>(200),
        Endpoint::Group => route.gives::<GroupView>(200),
        Endpoint::EventsBatch => route
            .query("count", json!({"type": "integer", "format": "uint64", "minimum": 1}), "how many at most")
            .query("start", count(), "first id")
            .json(200, batch())
            .gives::<ErrorBody<'_>>(400),
        Endpoint::EventsStream => route
            .query("count", count(), "how many past events come first")
            .json(
                200,
                json!({"type": "string", "description": "One JSON object in a line, the first with InstanceUUID"}),
            )
            .gives::<ErrorBody<'_>>(400)
            .gives::<ErrorBody<'_>>(503),
        Endpoint::HealthCheck => route.gives::<HealthView>(200).gives::<ErrorBody<'_>>(404),
        Endpoint::NodeUtilizations => route.gives::<Option<Vec<UtilizationView>>>(200),
        Endpoint::StateDump => route.gives_as(200, dump),
        Endpoint::Profiles => route.answer(200, "text/html", text()),
        Endpoint::Profile => route.answer(200, PLAIN, text()).answer(404, PLAIN, text()),
        Endpoint::Moved => route.answer(301, "text/html", text()),
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
