//! The description of all HTTP doors as OpenAPI 3.1, and a page to read and try it.
//!
//! What each route takes and answers is said beside its handler (`super::routes`), with schemas from the types that are written,
//! and those of `si.v1` from the protocol files. `tests/doors/openapi` tries that everything described is there.

mod proto;

use std::sync::OnceLock;

use actix_web::{HttpResponse, http::header};
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use super::{
    operation, problem,
    route::{Access, Route},
    routes,
};

/// Where the page is.
const PAGE: &str = include_str!("page.html");

/// The description and its page.
pub(super) fn routes() -> Vec<Route> {
    let get = |kind: &'static str, text: fn() -> &'static str| {
        move || async move {
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
        }
    };
    let page = get("text/html; charset=utf-8", || PAGE);
    vec![
        Access::Open
            .get("/api/v1/openapi.json")
            .to(get("application/json", text), "This document")
            .json(200, json!({"type": "object"})),
        Access::Open.get("/api/docs").to(page, "This document as a page").answer(200, "text/html", operation::text()),
    ]
}

/// The document as text.
pub fn text() -> &'static str {
    static TEXT: OnceLock<String> = OnceLock::new();
    TEXT.get_or_init(|| document().to_string())
}

/// The document.
pub fn document() -> Value {
    let mut settings = SchemaSettings::draft2020_12().for_serialize();
    settings.definitions_path = "/components/schemas".into();
    settings.meta_schema = None;
    let mut schemas = settings.into_generator();
    // Named by all.
    schemas.subschema_for::<problem::Body<'_>>();
    let mut paths = Map::new();
    for route in routes::all() {
        let methods = paths.entry(route.place.path).or_insert_with(|| json!({}));
        methods[route.place.method.as_str().to_lowercase()] = route.describe(&mut schemas);
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
                            of the server, where it has any, go into the header Authorization. Where it has none, a POST that \
                            changes something needs Content-Type: application/json, also without a body.",
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

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
    fn the_page_needs_nothing_from_elsewhere() {
        assert!(!PAGE.contains("http://") && !PAGE.contains("https://") && !PAGE.contains("src="));
    }
}
