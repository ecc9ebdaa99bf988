//! The description of all HTTP doors as OpenAPI 3.1, and a page to read and try it.
//!
//! Paths of `/ws/v1` come from the table of its router, schemas from the types that are written, those of `si.v1` from the
//! protocol files. The other doors register their paths with [`super::server::resource`], which tells, in debug builds,
//! what is not described here; `tests/doors/openapi` listens, and tries that everything described is there.

mod operation;
mod own;
mod proto;
mod rest;
mod shim;

use std::sync::OnceLock;

use actix_web::{
    HttpResponse,
    http::header,
    web::{self, ServiceConfig},
};
use schemars::{SchemaGenerator, generate::SchemaSettings};
use serde_json::{Map, Value, json};

use self::operation::Operation;
use super::server::resource;

/// Where the page is.
const PAGE: &str = include_str!("page.html");

/// Adds the description and the page.
pub fn configure(service: &mut ServiceConfig) {
    let get = |kind: &'static str, text: fn() -> &'static str| {
        web::get().to(move || async move {
            HttpResponse::Ok()
                .insert_header((header::CONTENT_TYPE, kind))
                // Nothing from elsewhere, and nobody frames it.
                .insert_header((
                    header::CONTENT_SECURITY_POLICY,
                    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; \
                     base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
                ))
                .insert_header((header::CACHE_CONTROL, "no-cache"))
                .body(text())
        })
    };
    service
        .service(resource("/api/v1/openapi.json", "GET").route(get("application/json", text)))
        .service(resource("/api/docs", "GET").route(get("text/html; charset=utf-8", || PAGE)));
}

/// The document as text.
pub fn text() -> &'static str {
    static TEXT: OnceLock<String> = OnceLock::new();
    TEXT.get_or_init(|| document().to_string())
}

/// A path takes these methods, which are separated by commas, and no others, as far as the document says.
pub fn describes(path: &str, allow: &str) -> bool {
    static PATHS: OnceLock<Map<String, Value>> = OnceLock::new();
    let paths = PATHS.get_or_init(|| match document().get_mut("paths").map(Value::take) {
        Some(Value::Object(paths)) => paths,
        _ => Map::new(),
    });
    let Some(Value::Object(known)) = paths.get(path) else { return false };
    let methods: Vec<String> = allow.split(", ").map(str::to_lowercase).collect();
    known.len() == methods.len() && methods.iter().all(|method| known.contains_key(method))
}

/// The document.
pub fn document() -> Value {
    let mut settings = SchemaSettings::draft2020_12().for_serialize();
    settings.definitions_path = "/components/schemas".into();
    settings.meta_schema = None;
    let mut schemas = settings.into_generator();
    let mut operations = shim::operations(&mut schemas);
    operations.extend(own::operations(&mut schemas));
    operations.extend(rest::operations(&mut schemas));
    let mut paths = Map::new();
    for operation in operations {
        let Operation { path, method, .. } = operation;
        let methods = paths.entry(path).or_insert_with(|| json!({}));
        methods[method] = operation.document;
    }
    let mut components: Map<String, Value> = schemas.take_definitions(true);
    components.extend(proto::schemas());
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Callboard",
            "version": env!("CARGO_PKG_VERSION"),
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
            "description": "The HTTP doors of a resource scheduler. Memory is in bytes, vcore in thousandths; the tokens \
                            of the server, where it has any, go into the header Authorization.",
        },
        "tags": [
            {"name": "shim", "description": "For resource managers: requests in, numbered callbacks out"},
            {"name": "own", "description": "What YuniKorn does not have: resource journal, drain, events, plans"},
            {"name": "ws", "description": "What YuniKorn's dashboards and scripts read"},
            {"name": "debug", "description": "Diagnostics"},
        ],
        "security": [{}, {"token": []}],
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"token": {
                "type": "http",
                "scheme": "bearer",
                "description": "A token of the server, where it has any; `callboard token new` makes one",
            }},
        },
    })
}

/// The schema of a type.
fn schema<T: schemars::JsonSchema>(schemas: &mut SchemaGenerator) -> Value {
    schemas.subschema_for::<T>().to_value()
}

/// A list of something.
fn list(items: Value) -> Value {
    json!({"type": "array", "items": items})
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::http::ws_v1::router;

    #[test]
    fn every_route_of_the_router_is_described_and_nothing_else() {
        let document = document();
        let mut described = BTreeSet::new();
        for (path, methods) in document["paths"].as_object().unwrap() {
            if path.starts_with("/ws/") || path.starts_with("/debug/") || path == "/metrics" {
                described.extend(methods.as_object().unwrap().keys().map(|method| (method.clone(), path.clone())));
            }
        }
        let routed = router::routes().map(|(method, pattern, _)| {
            let path: Vec<String> = pattern
                .split('/')
                .map(|part| part.strip_prefix(':').map_or(part.to_owned(), |name| format!("{{{name}}}")))
                .collect();
            (method.as_str().to_lowercase(), path.join("/"))
        });
        assert_eq!(described, routed.collect());
    }

    #[test]
    fn every_reference_leads_somewhere() {
        fn follow(value: &Value, document: &Value) {
            match value {
                Value::Object(fields) => {
                    if let Some(Value::String(to)) = fields.get("$ref") {
                        let target = document.pointer(to.strip_prefix('#').expect("local"));
                        assert!(target.is_some(), "{to}");
                    }
                    fields.values().for_each(|value| follow(value, document));
                }
                Value::Array(items) => items.iter().for_each(|value| follow(value, document)),
                _ => {}
            }
        }
        let document = document();
        follow(&document, &document);
        let mut ids = BTreeSet::new();
        for methods in document["paths"].as_object().unwrap().values() {
            for operation in methods.as_object().unwrap().values() {
                assert!(ids.insert(operation["operationId"].as_str().unwrap()), "{operation}");
            }
        }
    }

    #[test]
    fn paths_know_their_methods() {
        assert!(describes("/si/v1/rm", "GET, POST") && describes("/api/docs", "GET"));
        assert!(!describes("/si/v1/rm", "GET") && !describes("/si/v1/rm", "GET, PUT") && !describes("/x", "GET"));
    }

    #[test]
    fn the_page_needs_nothing_from_elsewhere() {
        assert!(!PAGE.contains("http://") && !PAGE.contains("https://") && !PAGE.contains("src="));
    }
}
