//! `/si/v1`: the shim's door.

use schemars::SchemaGenerator;
use serde_json::{Value, json};

use super::{
    list,
    operation::{Operation, count, named, one_of, text},
    schema,
};
use crate::{
    access::Role,
    http::shim::{info::Shown, registration::Taken},
    messages::keys::LONGEST,
};

const LINES: &str = "application/x-ndjson";

/// An answer without content.
fn nothing() -> Value {
    json!({"type": "object", "maxProperties": 0})
}

/// What every path may refuse with.
const ALWAYS: [u16; 5] = [401, 403, 405, 429, 500];

/// What a request of a session may be refused with, or sent to another server.
const REQUEST: [u16; 9] = [307, 400, 404, 408, 409, 413, 415, 429, 503];

/// May be sent again without harm.
fn once(operation: Operation) -> Operation {
    let number = || json!({"type": "integer", "format": "uint64", "minimum": 1});
    let key = json!({"type": "string", "minLength": 1, "maxLength": LONGEST, "pattern": "^[!-~]+$"});
    operation
        .header(
            "X-Callboard-Seq",
            number(),
            "the number of the request in its session, the first is 1: it is taken once and in order",
        )
        .header("X-Callboard-Epoch", number(), "the session that it is for")
        .header(
            "Idempotency-Key",
            key,
            "a key of the sender's own, in place of a number: with it the request is taken once",
        )
        .problems(&[422])
}

/// The operations.
pub fn operations(schemas: &mut SchemaGenerator) -> Vec<Operation> {
    let shim = |method, path: &str, summary: &str| {
        Operation::new(method, &format!("/si/v1/rm{path}"), Some(Role::Shim), summary).problems(&ALWAYS)
    };
    let request = |path: &str, message: Value, summary: &str| {
        let operation = shim("post", path, summary).body("application/json", message);
        operation.json(202, nothing()).problems(&REQUEST)
    };
    let known = schema::<Shown>(schemas);
    let taken = schema::<Taken>(schemas);
    let line = json!({
        "description": "One callback in a line: its number, and exactly one of the others. The last line of a stream that \
                        the server ends is {\"closing\": …}; empty lines are signs of life.",
        "type": "string",
    });
    let answer = json!({
        "description": "The answer to a question of the stream, by its id",
        "type": "object",
        "required": ["id"],
        "additionalProperties": false,
        "properties": {
            "id": {"anyOf": [count(), {"type": "string", "pattern": "^[0-9]{1,19}$"}]},
            "success": {"type": "boolean"},
            "message": text(),
            "index": {"type": "integer", "format": "int32", "minimum": i32::MIN, "maximum": i32::MAX},
            "errors": {"type": ["array", "null"], "items": text()},
            "answers": {"type": ["array", "null"], "items": {
                "type": "object",
                "required": ["errors"],
                "additionalProperties": false,
                "properties": {"errors": {"type": "array", "items": text()}},
            }},
            "json": {"type": ["string", "null"]},
            "error": {"type": ["string", "null"]},
        },
    });
    let after = "the last number that was seen: goes on with the next; left out: from the oldest that is kept";
    vec![
        shim("get", "", "Resource managers, as far as the caller may act for them").json(200, list(known.clone())),
        shim("post", "", "Registers a resource manager: begins a session")
            .query(
                "predicates",
                one_of(&["true", "false", "batch", "several"]),
                "whether the shim wants to be asked about nodes",
            )
            .query("stateDump", one_of(&["true", "false"]), "whether the shim has a part of state dumps")
            .body("application/json", named("si.v1.RegisterResourceManagerRequest"))
            .json(200, taken.clone())
            .problems(&[307, 400, 408, 409, 413, 415, 429, 503]),
        shim("get", "/{rm}", "State of a session").json(200, known).problems(&[307, 404, 503]),
        shim("delete", "/{rm}", "Ends a session: its partitions go")
            .json(200, nothing())
            .problems(&[307, 404, 409, 503]),
        once(request("/{rm}/nodes", named("si.v1.NodeRequest"), "Nodes that come, change and go")),
        once(request("/{rm}/applications", named("si.v1.ApplicationRequest"), "Applications that come and go")),
        once(request("/{rm}/allocations", named("si.v1.AllocationRequest"), "Asks, allocations and releases")),
        once(request(
            "/{rm}/heartbeat",
            json!({"type": "object", "required": ["nodes"], "additionalProperties": false,
                "properties": {"nodes": list(text())}}),
            "Signs of life of nodes",
        )),
        request(
            "/{rm}/answers",
            json!({"anyOf": [answer.clone(), list(answer)]}),
            "Answers to questions of the stream",
        ),
        once(Operation::new(
            "put",
            "/si/v1/rm/{rm}/configuration",
            Some(Role::Operator),
            "Changes the configuration of a running session, as a whole or not at all",
        ))
        .problems(&ALWAYS)
        .body("application/json", named("si.v1.UpdateConfigurationRequest"))
        .json(200, taken)
        .problems(&REQUEST),
        shim("get", "/{rm}/stream", "The callbacks of a session, for ever")
            .query("after", count(), after)
            .answer(200, LINES, line.clone())
            .answer(200, "text/event-stream", line)
            .problems(&[307, 400, 404, 409, 410, 503]),
        shim("get", "/{rm}/ws", "The same over a WebSocket, which takes requests and answers as well")
            .query("after", count(), after)
            .bare(101)
            .problems(&[307, 400, 404, 409, 410, 503]),
    ]
}
