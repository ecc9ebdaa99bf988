//! `/si/v1`: the shim's door over HTTP. JSON in, numbered lines out.

mod answers;
pub(super) mod body;
mod frames;
mod heartbeat;
pub mod info;
pub mod once;
mod pace;
pub(super) mod query;
pub mod registration;
mod requests;
pub mod stream;
mod ws;

use actix_web::http::Method;
use serde_json::{Value, json};

use self::{info::Shown, registration::Taken};
use super::{
    operation::{LINES, count, list, named, nothing, one_of, text, yes_or_no},
    route::{Access, Route},
};
use crate::{messages::keys::LONGEST, si::intake::Request};

/// What a request of a session may be refused with, or sent to another server.
const REQUEST: [u16; 9] = [307, 400, 404, 408, 409, 413, 415, 429, 503];
/// What a stream may be refused with.
const STREAM: [u16; 6] = [307, 400, 404, 409, 410, 503];

/// Takes a message, and has nothing to say about it yet.
fn request(route: Route, message: Value) -> Route {
    route.body("application/json", message).json(202, nothing()).problems(&REQUEST)
}

/// May be sent again without harm.
fn once(route: Route) -> Route {
    let number = || json!({"type": "integer", "format": "uint64", "minimum": 1});
    keyed(route, "a key of the sender's own, in place of a number: with it the request is taken once")
        .header(
            "X-Callboard-Seq",
            number(),
            "the number of the request in its session, the first is 1: it is taken once and in order",
        )
        .header("X-Callboard-Epoch", number(), "the session that it is for")
}

fn keyed(route: Route, what: &'static str) -> Route {
    let key = json!({"type": "string", "minLength": 1, "maxLength": LONGEST, "pattern": "^[!-~]+$"});
    route.header("Idempotency-Key", key, what).problems(&[422])
}

/// Begins or ends a session once, however often it is sent.
fn repeatable(route: Route) -> Route {
    keyed(route, "a key of the sender's own: with it the request is carried out once")
}

/// A message of `si.v1`.
fn message(name: &str) -> Value {
    named(&format!("si.v1.{name}"))
}

/// Goes on with the callbacks after a number.
fn after(route: Route) -> Route {
    let what = "the last number that was seen: goes on with the next; left out: from the oldest that is kept";
    route.query("after", count(), what).problems(&STREAM)
}

/// The routes below `/si/v1`, those of a busy session first.
pub(super) fn routes() -> Vec<Route> {
    let predicates = one_of(&["true", "false", "batch", "several"]);
    let nodes = json!({"nodes": list(text())});
    let alive = json!({"type": "object", "required": ["nodes"], "additionalProperties": false, "properties": nodes});
    let to_session = |path| Access::Shim.post(path);
    let taking = |kind| move |request, rm, payload, doors| requests::post(kind, request, rm, payload, doors);
    vec![
        once(request(
            to_session("/si/v1/rm/{rm}/allocations").to(taking(Request::Allocations), "Asks, allocations and releases"),
            message("AllocationRequest"),
        )),
        request(
            to_session("/si/v1/rm/{rm}/answers").to(answers::answers, "Answers to questions of the stream"),
            json!({"anyOf": [answer(), list(answer())]}),
        ),
        Access::Shim
            .get("/si/v1/rm")
            .to(info::all, "Resource managers, as far as the caller may act for them")
            .gives::<Vec<Shown>>(200),
        repeatable(
            Access::Shim.post("/si/v1/rm").to(registration::register, "Registers a resource manager: begins a session"),
        )
        .query("predicates", predicates, "whether the shim wants to be asked about nodes")
        .query("stateDump", yes_or_no(), "whether the shim has a part of state dumps")
        .body("application/json", message("RegisterResourceManagerRequest"))
        .gives::<Taken>(200)
        .problems(&[307, 400, 408, 409, 413, 415, 429, 503]),
        Access::Shim
            .get("/si/v1/rm/{rm}")
            .to(info::one, "State of a session")
            .gives::<Shown>(200)
            .problems(&[307, 404, 503]),
        repeatable(
            Access::Shim
                .at(Method::DELETE, "/si/v1/rm/{rm}")
                .to(registration::unregister, "Ends a session: its partitions go"),
        )
        .json(200, nothing())
        .problems(&[307, 400, 404, 409, 503]),
        once(request(
            to_session("/si/v1/rm/{rm}/nodes").to(taking(Request::Nodes), "Nodes that come, change and go"),
            message("NodeRequest"),
        )),
        once(request(
            to_session("/si/v1/rm/{rm}/applications")
                .to(taking(Request::Applications), "Applications that come and go"),
            message("ApplicationRequest"),
        )),
        once(request(to_session("/si/v1/rm/{rm}/heartbeat").to(heartbeat::heartbeat, "Signs of life of nodes"), alive)),
        once(
            Access::Configure.at(Method::PUT, "/si/v1/rm/{rm}/configuration").to(
                registration::configure,
                "Changes the configuration of a running session, as a whole or not at all",
            ),
        )
        .body("application/json", message("UpdateConfigurationRequest"))
        .gives::<Taken>(200)
        .problems(&REQUEST),
        after(Access::Shim.get("/si/v1/rm/{rm}/stream").to(stream::stream, "The callbacks of a session, for ever"))
            .answer(200, LINES, line())
            .answer(200, "text/event-stream", line()),
        after(
            Access::Shim
                .get("/si/v1/rm/{rm}/ws")
                .to(ws::ws, "The same over a WebSocket, which takes requests and answers as well"),
        )
        .bare(101),
    ]
}

/// A line of a stream.
fn line() -> Value {
    json!({
        "description": "One callback in a line: its number, and exactly one of the others. The last line of a stream that \
                        the server ends is {\"closing\": …}; empty lines are signs of life.",
        "type": "string",
    })
}

/// The answer to a question of the stream.
fn answer() -> Value {
    json!({
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
    })
}
