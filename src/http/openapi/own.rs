//! `/api/v1`, the page of this document, and the sign of life.

use schemars::SchemaGenerator;
use serde_json::{Value, json};

use super::{
    operation::{Operation, count, one_of, text},
    schema,
};
use crate::{
    access::Role,
    domain::usage::By,
    http::{
        api::{
            board, demand, log_level as level_of_log, plan, queue, releases, resource, settings, trends,
            trends::parameters::Of, wait, whatif,
        },
        page, past, problem,
    },
    messages::{leaders::ClusterStatus, ready::Ready, wait::Kind},
};

const LINES: &str = "application/x-ndjson";

/// What every path may refuse with.
const ALWAYS: [u16; 5] = [401, 403, 405, 429, 500];

/// The operations.
pub fn operations(schemas: &mut SchemaGenerator) -> Vec<Operation> {
    // Named by all.
    let _ = schema::<problem::Body>(schemas);
    let open =
        |method, path: &str, summary: &str| Operation::new(method, path, None, summary).problems(&[403, 405, 500]);
    let viewer = |method, path: &str, summary: &str| {
        Operation::new(method, &format!("/api/v1{path}"), Some(Role::Viewer), summary).problems(&ALWAYS)
    };
    let operator = |method, path: &str, summary: &str| {
        Operation::new(method, &format!("/api/v1{path}"), Some(Role::Operator), summary).problems(&ALWAYS)
    };
    let of = |path: &str| format!("/partition/{{partition}}{path}");
    let nothing = || json!({"type": "object", "maxProperties": 0});
    let lines = |what: &str| json!({"type": "string", "description": what});
    let yes_or_no = || one_of(&["true", "false"]);
    let plan = schema::<plan::view::Plan>(schemas);
    let (change, whatif) = (schema::<whatif::request::Request>(schemas), schema::<whatif::view::WhatIf>(schemas));
    let flight = schema::<past::Shown>(schemas);
    let moment = schema::<past::Wanted>(schemas);
    let demand = schema::<demand::Shown>(schemas);
    let unconfirmed = schema::<releases::Shown>(schemas);
    let settings = schema::<settings::Shown>(schemas);
    let cluster = schema::<ClusterStatus>(schemas);
    let door = schema::<queue::Shown>(schemas);
    let ordered = |what: &str, summary: &str| {
        operator("post", &of(&format!("/queue/{{queue}}/{what}")), summary)
            .body("application/json", order())
            .json(200, nothing())
            .problems(&[400, 404, 408, 409, 413, 415, 503])
    };
    let answered = schema::<wait::Shown>(schemas);
    // Who tries the door from this document is answered soon.
    let brief = || json!({"type": "string", "example": "100ms"});
    let waited = |path: &str, kind: Kind, what: &str| {
        let conditions: Vec<&str> = kind.conditions().iter().map(|condition| condition.name()).collect();
        viewer("get", &of(&format!("{path}/wait")), &format!("Waits until something holds of {what}"))
            .required_query("for", one_of(&conditions), "what is to hold")
            .query("timeout", brief(), "how long at most, from 0 to 1h; left out: 30s")
            .json(200, answered.clone())
            .problems(&[400, 404, 429, 503])
    };
    let status = schema::<resource::status::Body>(schemas);
    let alive = |method, path: &str, summary: &str| {
        let alive = open(method, path, summary).answer(200, "text/plain", text());
        if method == "head" { alive.bare(503) } else { alive.problems(&[503]) }
    };
    let ready = schema::<Ready>(schemas);
    let overview = schema::<board::overview::Overview>(schemas);
    let applications = schema::<board::applications::ListView>(schemas);
    let trends = schema::<trends::Shown>(schemas);
    let level = schema::<level_of_log::Shown>(schemas);
    let explained = schema::<board::explain::Explained>(schemas);
    let nodes = schema::<board::nodes::NodesView>(schemas);
    let files = page::assets().map(|(path, kind)| {
        let operation = open("get", path, "A file of the web page").bare(304);
        operation.answer(200, kind.split(';').next().unwrap_or(kind), json!({}))
    });
    let mut operations = vec![
        alive("get", "/healthz", "A sign of life: the server answers, and is not shutting down"),
        alive("head", "/healthz", "The same without a body"),
        alive("get", "/livez", "The same"),
        alive("head", "/livez", "The same without a body"),
        open("get", "/readyz", "Whether requests are welcome, and what is still waited for")
            .json(200, ready.clone())
            .json(503, ready),
        open("head", "/readyz", "The same without a body").bare(200).bare(503),
        operator("get", "/audit", "Who did what, oldest first")
            .query("from", count(), "first id; left out: the oldest that is kept in memory")
            .query("follow", yes_or_no(), "go on with new records, for ever")
            .query("redact", yes_or_no(), "without names, addresses and details")
            .answer(200, LINES, lines("A record in a line with its id, a gap, or as the last one where to go on"))
            .problems(&[400]),
        open("get", "/api/docs", "This document as a page").answer(200, "text/html", text()),
        open("get", "/api/v1/openapi.json", "This document").json(200, json!({"type": "object"})),
        viewer("get", "/events", "The log of events, to its end or for ever")
            .query("from", count(), "first id; left out: the oldest that is kept, or the next with follow")
            .query("count", json!({"type": "integer", "format": "uint64", "minimum": 1}), "how many at most")
            .query("last", json!({"type": "integer", "minimum": 1, "maximum": 10_000}), "the last so many instead")
            .query("before", count(), "with last: those before this id; the last line names the one for the next page")
            .query("follow", yes_or_no(), "go on with new events, for ever")
            .query("object", text(), "of this object only, or with it as second object")
            .query("children", yes_or_no(), "of an object that is a queue: of those below it too")
            .query("type", text(), "of these types only, separated by commas: request, app, node, queue, usergroup")
            .query("since", text(), "from this time on: RFC 3339, or 10m for ten minutes ago")
            .query("until", text(), "up to this time")
            .answer(200, LINES, lines("An event in a line with its id, a gap, or as the last one where to go on"))
            .problems(&[400, 503]),
        viewer("post", "/plan", "What another configuration would do, before it is applied")
            .query("rm", text(), "resource manager whose configuration it would be, where there are several")
            .body("application/yaml", text())
            .json(200, plan)
            .problems(&[400, 404, 408, 413, 503]),
        viewer("post", "/whatif", "What a change would do: run forward on a copy, with it and without it")
            .query("partition", text(), "the partition; left out: default")
            .body("application/json", change)
            .json(200, whatif)
            .problems(&[400, 404, 408, 413, 415, 503]),
        viewer("get", &of("/demand"), "What waits only for lack of nodes").json(200, demand).problems(&[404, 503]),
        viewer("get", &of("/releases"), "Releases that the shim has not confirmed")
            .json(200, unconfirmed)
            .problems(&[404, 503]),
        viewer("get", &of("/queue/{queue}"), "A queue's state, what operators told it, and whom it refused")
            .json(200, door)
            .problems(&[404, 503]),
        ordered("stop", "Lets a queue take no new application"),
        ordered("drain", "Lets a queue take no new application, and tells when it is empty"),
        ordered("resume", "Lets a queue take applications again"),
        waited("/application/{application}", Kind::Application, "an application"),
        waited("/queue/{queue}", Kind::Queue, "a queue"),
        waited("/node/{node}", Kind::Node, "a node"),
        viewer("get", &of("/resource/journal"), "The resource journal (RFC 44): history, sentinel, new events")
            .query("historical", yes_or_no(), "the events so far")
            .query("follow", yes_or_no(), "those to come, for ever")
            .answer(200, LINES, lines("Responses with events and resources, one in a line"))
            .problems(&[400, 404, 503]),
        operator("post", &of("/resource/journal/{stream}/cancel"), "Ends a reader of the journal")
            .json(200, nothing())
            .problems(&[404, 415, 503]),
        viewer("get", &of("/resource/status"), "Targets by state").json(200, status).problems(&[404, 503]),
        operator("post", &of("/resource/drain"), "Takes targets out of service")
            .body("application/json", drain(true))
            .json(200, nothing())
            .problems(&[400, 404, 408, 409, 413, 415, 503]),
        operator("post", &of("/resource/undrain"), "Puts targets back into service")
            .body("application/json", drain(false))
            .json(200, nothing())
            .problems(&[400, 404, 408, 409, 413, 415, 503]),
        operator("post", &of("/resource/expiration"), "Sets when the resource set expires")
            .body("application/json", expiration())
            .json(200, nothing())
            .problems(&[400, 404, 408, 413, 415, 503]),
        viewer("get", "/flight", "The flight that a server shows (callboard flight serve), and which moment of it")
            .json(200, flight.clone())
            .problems(&[404]),
        operator("post", "/flight", "Shows another moment of the flight")
            .body("application/json", moment)
            .json(200, flight)
            .problems(&[400, 404, 408, 413, 415]),
        viewer("get", "/log/level", "What the log tells").json(200, level.clone()),
        operator("post", "/log/level", "Changes what the log tells, until the server ends")
            .body("application/json", log_level())
            .json(200, level)
            .problems(&[400, 408, 413, 415]),
        viewer("get", &of("/trends"), "What a partition, queue, user, group or node had and waited for over a while")
            .query("of", one_of(&Of::ALL.map(|(name, _)| name)), "whose")
            .query("name", text(), "its name; not for a partition")
            .query("queue", text(), "for a user or group: in this queue and those below; left out: in all")
            .query("since", text(), "from this time on: RFC 3339, or 10m for ten minutes ago; left out: for an hour")
            .query("until", text(), "up to this time, now at the latest")
            .query("step", text(), "in steps of this length, such as 1m; there are 2,000 at most")
            .json(200, trends)
            .problems(&[400, 404, 503]),
        viewer("get", "/cluster", "Servers of the cluster, and who leads which resource manager")
            .json(200, cluster.clone())
            .problems(&[404, 503]),
        operator("post", "/cluster/move", "Has another server lead a resource manager")
            .body("application/json", cluster_move())
            .json(200, cluster.clone())
            .problems(&[307, 400, 404, 408, 409, 413, 415, 503]),
        operator("post", "/cluster/drain", "Has a server lead nothing: others lead what it led, until it may again")
            .body("application/json", cluster_drain(true))
            .json(200, cluster.clone())
            .problems(&[400, 404, 408, 413, 415, 503]),
        operator("post", "/cluster/undrain", "Lets a server lead again")
            .body("application/json", cluster_drain(false))
            .json(200, cluster)
            .problems(&[400, 404, 408, 413, 415, 503]),
        viewer("get", "/settings", "Every setting with its present value").json(200, settings),
        viewer("get", "/overview", "All partitions: what waits, and why").json(200, overview),
        viewer("get", &of("/applications"), "Applications with the reason of each that waits")
            .query("list", one_of(&["active", "completed", "rejected"]), "which")
            .query("queue", text(), "of this queue and those below")
            .query("user", text(), "of this user")
            .query("state", text(), "in this state")
            .query("reason", text(), "that wait for this reason")
            .query("text", text(), "with this in id, queue or user")
            .query("waiting", yes_or_no(), "only those that wait")
            .query("limit", json!({"type": "integer", "minimum": 1}), "how many at most")
            .json(200, applications)
            .problems(&[400, 404, 503]),
        viewer("get", &of("/application/{application}/explain"), "Why an application waits, and what would help")
            .query("ask", text(), "only this ask")
            .query(
                "remedies",
                yes_or_no(),
                "look for changes that would place it, which takes up to a second; else not",
            )
            .query("timeline", yes_or_no(), "tell what happened to it so far")
            .json(200, explained)
            .problems(&[400, 404, 503]),
        viewer("get", &of("/nodes"), "Nodes in short")
            .query("node", text(), "this one only")
            .json(200, nodes)
            .problems(&[400, 404, 503]),
        viewer("get", &of("/usage/history"), "What users, groups or queues used over a while")
            .required_query("by", one_of(&By::ALL.map(By::name)), "whose usage is told apart")
            .query("queue", text(), "of this queue and those below")
            .query(
                "since",
                text(),
                "from this time on: RFC 3339, or 10m for ten minutes ago; left out: as far back as is known",
            )
            .query("until", text(), "up to this time, now at the latest; left out: until now")
            .query("step", text(), "in steps of this length, such as 1h; needs since, and there are 10,000 at most")
            .answer(200, LINES, lines("A share, a gap, or as the last one how complete it is, in a line"))
            .problems(&[400, 404, 503]),
    ];
    operations.extend(files);
    operations
}

fn order() -> Value {
    json!({
        "type": "object",
        "additionalProperties": false,
        "properties": {
            "reason": {"type": ["string", "null"], "maxLength": 1024, "description": "each refused application is told"},
            "overwrite": {"type": "boolean", "description": "replaces reason and time of an order that holds already"},
        },
    })
}

fn expiration() -> Value {
    json!({
        "type": "object",
        "required": ["expiration"],
        "additionalProperties": false,
        "properties": {
            "expiration": {
                "type": "number",
                "minimum": 0,
                "maximum": 253_402_300_799_i64,
                "description": "seconds since 1970-01-01 UTC; 0: never",
            },
        },
    })
}

fn cluster_move() -> Value {
    json!({
        "type": "object",
        "required": ["rm", "server"],
        "additionalProperties": false,
        "properties": {
            "rm": {"type": "string", "description": "id of a resource manager"},
            "server": {"type": "string", "description": "id or URL of the server that is to lead it"},
        },
    })
}

fn cluster_drain(reason: bool) -> Value {
    let mut properties = json!({"server": {"type": "string", "description": "id or URL of a server"}});
    if reason {
        properties["reason"] =
            json!({"type": ["string", "null"], "maxLength": 1024, "description": "shown to operators"});
    }
    json!({"type": "object", "required": ["server"], "additionalProperties": false, "properties": properties})
}

fn log_level() -> Value {
    let levels: Vec<Value> = level_of_log::LEVELS.map(Value::from).into_iter().chain([Value::Null]).collect();
    json!({
        "type": "object",
        "required": ["level"],
        "additionalProperties": false,
        "properties": {"level": {"enum": levels, "description": "null: what the environment or the settings say"}},
    })
}

fn drain(deadline: bool) -> Value {
    let mut body = json!({
        "type": "object",
        "required": ["targets"],
        "additionalProperties": false,
        "properties": {
            "targets": {"type": "string", "description": "idset of ranks, or hostlist"},
            "reason": {"type": ["string", "null"]},
            "overwrite": {"type": ["integer", "null"], "minimum": 0, "maximum": 2},
        },
    });
    if deadline {
        let what = "when operators are told of what still runs there: a duration from now, or a time to come";
        body["properties"]["deadline"] = json!({"type": ["string", "null"], "description": what, "example": "30m"});
    }
    body
}
