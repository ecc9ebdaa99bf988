//! What the OpenAPI document says of one method of one path.

use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Value, json};

use super::route::Route;
use crate::access::Role;

/// Lines of JSON.
pub const LINES: &str = "application/x-ndjson";

/// What parameters of paths look like.
const EXAMPLES: [(&str, &str); 8] = [
    ("application", "app-1"),
    ("group", "staff"),
    ("node", "node-1"),
    ("partition", "default"),
    ("queue", "root.batch"),
    ("rm", "rm-1"),
    ("state", "active"),
    ("user", "alice"),
];

/// A text of any kind.
pub fn text() -> Value {
    json!({"type": "string"})
}

/// One of these texts.
pub fn one_of(values: &[&str]) -> Value {
    json!({"type": "string", "enum": values})
}

/// A whole number from 0 up to what 64 bits hold.
pub fn count() -> Value {
    json!({"type": "integer", "format": "uint64", "minimum": 0})
}

/// A reference to a named schema.
pub fn named(name: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{name}")})
}

/// An answer without content.
pub fn nothing() -> Value {
    json!({"type": "object", "maxProperties": 0})
}

/// A list of something.
pub fn list(items: Value) -> Value {
    json!({"type": "array", "items": items})
}

/// Yes or no, as a parameter says it.
pub fn yes_or_no() -> Value {
    one_of(&["true", "false"])
}

/// A schema that is made together with those that it names.
pub type Schema = fn(&mut SchemaGenerator) -> Value;

/// The schema of a type.
pub fn schema<T: JsonSchema>(schemas: &mut SchemaGenerator) -> Value {
    schemas.subschema_for::<T>().to_value()
}

/// What the document says of every route: where it is, and who may use it.
pub fn begin(method: &str, path: &str, role: Option<Role>, summary: &str) -> Value {
    let tag = match path.split('/').nth(1) {
        Some("si") => "shim",
        Some("ws") => "ws",
        Some("debug") => "debug",
        _ => "own",
    };
    let words = path.split(['/', '{', '}', '.', '-']).filter(|word| !word.is_empty());
    let id: Vec<&str> = std::iter::once(method).chain(words).collect();
    let id = format!("{}{}", id.join("_"), if path.ends_with('/') && path.len() > 1 { "_" } else { "" });
    let names = path.split('{').skip(1).filter_map(|part| part.split('}').next());
    let parameters = names.map(|name| {
        let schema = json!({"type": "string", "minLength": 1});
        let example = EXAMPLES.iter().find(|(known, _)| *known == name).map_or("1", |(_, example)| example);
        json!({"name": name, "in": "path", "required": true, "schema": schema, "example": example})
    });
    let mut document = json!({
        "tags": [tag],
        "operationId": id,
        "summary": summary,
        "parameters": parameters.collect::<Vec<_>>(),
        "responses": {},
    });
    match role {
        Some(role) => document["description"] = json!(format!("Takes the role {role}, where there are tokens.")),
        None => document["security"] = json!([]),
    }
    document
}

/// What a route takes and answers.
impl Route {
    fn parameter(mut self, parameter: Value) -> Route {
        if let Some(Value::Array(parameters)) = self.document.get_mut("parameters") {
            parameters.push(parameter);
        }
        self
    }

    /// May be asked with this.
    pub fn query(self, name: &str, schema: Value, description: &str) -> Route {
        self.parameter(json!({"name": name, "in": "query", "schema": schema, "description": description}))
    }

    /// May be asked with this header.
    pub fn header(self, name: &str, schema: Value, description: &str) -> Route {
        self.parameter(json!({"name": name, "in": "header", "schema": schema, "description": description}))
    }

    /// Must be asked with this.
    pub fn required_query(self, name: &str, schema: Value, description: &str) -> Route {
        self.parameter(
            json!({"name": name, "in": "query", "required": true, "schema": schema, "description": description}),
        )
    }

    /// Takes a body of this type.
    pub fn body(mut self, kind: &str, schema: Value) -> Route {
        self.document["requestBody"] = json!({"required": true, "content": {kind: {"schema": schema}}});
        self
    }

    /// The body may be left out.
    pub fn or_nothing(mut self) -> Route {
        self.document["requestBody"]["required"] = json!(false);
        self.document["requestBody"]["description"] =
            json!("Without it a server without tokens needs Content-Type: application/json all the same.");
        self
    }

    /// May answer so.
    pub fn answer(mut self, status: u16, kind: &str, schema: Value) -> Route {
        self = self.bare(status);
        self.document["responses"][status.to_string()]["content"][kind] = json!({"schema": schema});
        self
    }

    /// May answer so, without saying more.
    pub fn bare(mut self, status: u16) -> Route {
        let description = actix_web::http::StatusCode::from_u16(status).ok();
        let description = description.and_then(|status| status.canonical_reason()).unwrap_or("An answer");
        let responses = &mut self.document["responses"];
        if responses.get(status.to_string()).is_none() {
            responses[status.to_string()] = json!({"description": description});
        }
        self
    }

    /// Answers with JSON.
    pub fn json(self, status: u16, schema: Value) -> Route {
        self.answer(status, "application/json", schema)
    }

    /// Answers with the JSON of this type.
    pub fn gives<T: JsonSchema>(self, status: u16) -> Route {
        self.gives_as(status, schema::<T>)
    }

    /// Answers with JSON of this schema.
    pub fn gives_as(mut self, status: u16, schema: Schema) -> Route {
        self.schemas.push((format!("/responses/{status}/content/application~1json/schema"), schema));
        self.json(status, Value::Null)
    }

    /// Takes JSON of this type.
    pub fn takes<T: JsonSchema>(mut self) -> Route {
        self.schemas.push(("/requestBody/content/application~1json/schema".to_owned(), schema::<T>));
        self.body("application/json", Value::Null)
    }

    /// Answers with lines, which this describes.
    pub fn lines(self, what: &str) -> Route {
        self.answer(200, LINES, json!({"type": "string", "description": what}))
    }

    /// Refuses so, in the form of RFC 9457.
    pub fn problems(self, statuses: &[u16]) -> Route {
        statuses.iter().fold(self, |route, status| route.answer(*status, "application/problem+json", named("Problem")))
    }
}
