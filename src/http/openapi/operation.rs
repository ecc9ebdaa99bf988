//! One method of one path.

use serde_json::{Value, json};

use crate::access::Role;

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

/// One method of one path, as the document has it.
pub struct Operation {
    /// Path, with parameters in braces.
    pub path: String,
    /// Method in lower case.
    pub method: &'static str,
    /// Its part of the document.
    pub document: Value,
}

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

impl Operation {
    /// One that takes this role where the server has tokens, and `None` for everybody.
    pub fn new(method: &'static str, path: &str, role: Option<Role>, summary: &str) -> Operation {
        let tag = match path.split('/').nth(1) {
            Some("si") => "shim",
            Some("ws") => "ws",
            Some("debug") => "debug",
            _ => "own",
        };
        let words = path.split(['/', '{', '}', '.', '-']).filter(|word| !word.is_empty());
        let id: Vec<&str> = std::iter::once(method).chain(words).collect();
        let id = format!("{}{}", id.join("_"), if path.ends_with('/') && path.len() > 1 { "_" } else { "" });
        let mut document = json!({
            "tags": [tag],
            "operationId": id,
            "summary": summary,
            "parameters": [],
            "responses": {},
        });
        match role {
            Some(role) => document["description"] = json!(format!("Takes the role {role}, where there are tokens.")),
            None => document["security"] = json!([]),
        }
        let operation = Operation { path: path.to_owned(), method, document };
        let names: Vec<&str> = path.split('{').skip(1).filter_map(|part| part.split('}').next()).collect();
        names.into_iter().fold(operation, |operation, name| {
            let schema = json!({"type": "string", "minLength": 1});
            let example = EXAMPLES.iter().find(|(known, _)| *known == name).map_or("1", |(_, example)| example);
            let parameter = json!({"name": name, "in": "path", "required": true, "schema": schema, "example": example});
            operation.parameter(parameter)
        })
    }

    fn parameter(mut self, parameter: Value) -> Operation {
        if let Some(Value::Array(parameters)) = self.document.get_mut("parameters") {
            parameters.push(parameter);
        }
        self
    }

    /// May be asked with this.
    pub fn query(self, name: &str, schema: Value, description: &str) -> Operation {
        self.parameter(json!({"name": name, "in": "query", "schema": schema, "description": description}))
    }

    /// May be asked with this header.
    pub fn header(self, name: &str, schema: Value, description: &str) -> Operation {
        self.parameter(json!({"name": name, "in": "header", "schema": schema, "description": description}))
    }

    /// Must be asked with this.
    pub fn required_query(self, name: &str, schema: Value, description: &str) -> Operation {
        self.parameter(
            json!({"name": name, "in": "query", "required": true, "schema": schema, "description": description}),
        )
    }

    /// Takes a body of this type.
    pub fn body(mut self, kind: &str, schema: Value) -> Operation {
        self.document["requestBody"] = json!({"required": true, "content": {kind: {"schema": schema}}});
        self
    }

    /// May answer so.
    pub fn answer(mut self, status: u16, kind: &str, schema: Value) -> Operation {
        self = self.bare(status);
        self.document["responses"][status.to_string()]["content"][kind] = json!({"schema": schema});
        self
    }

    /// May answer so, without saying more.
    pub fn bare(mut self, status: u16) -> Operation {
        let description = actix_web::http::StatusCode::from_u16(status).ok();
        let description = description.and_then(|status| status.canonical_reason()).unwrap_or("An answer");
        let responses = &mut self.document["responses"];
        if responses.get(status.to_string()).is_none() {
            responses[status.to_string()] = json!({"description": description});
        }
        self
    }

    /// Answers with JSON.
    pub fn json(self, status: u16, schema: Value) -> Operation {
        self.answer(status, "application/json", schema)
    }

    /// Refuses so, in the form of RFC 9457.
    pub fn problems(self, statuses: &[u16]) -> Operation {
        statuses
            .iter()
            .fold(self, |operation, status| operation.answer(*status, "application/problem+json", named("Problem")))
    }
}
