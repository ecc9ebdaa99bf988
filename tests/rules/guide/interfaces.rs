//! `docs/rest.md` is written from the description of the HTTP doors, `docs/grpc.md` from the protocol files.

use std::{collections::BTreeMap, env, fmt::Write as _, fs};

use callboard::{http::openapi, si::DESCRIPTORS};
use prost::Message as _;
use prost_types::{
    DescriptorProto, EnumDescriptorProto, FieldDescriptorProto, FileDescriptorProto, FileDescriptorSet,
    field_descriptor_proto::{Label, Type},
};
use serde_json::Value;

use super::{commands::plain, root};

fn check(file: &str, page: &str, test: &str) {
    let path = root().join(file);
    if env::var_os("WRITE_DOCS").is_some() {
        fs::write(&path, page).expect("the page can be written");
    }
    let there = fs::read_to_string(&path).unwrap_or_default();
    assert!(there == page, "{file} is not what the program says: WRITE_DOCS=1 cargo test --test rules {test}");
}

#[test]
fn the_page_of_rest_is_that_of_the_description() {
    let document = openapi::document();
    let mut page = "# REST reference\n\nThis page is written from the description of the HTTP doors, which a server gives at `/api/v1/openapi.json`, with all types, and shows at\n\
                    `/api/docs`, where each path can be tried. What things mean is in [interfaces](api.md).\n"
        .to_owned();
    let tags = document["tags"].as_array().expect("tags");
    for tag in tags {
        let _ = writeln!(page, "\n## {}", tag["description"].as_str().unwrap_or_default());
        for (path, methods) in document["paths"].as_object().expect("paths") {
            for (method, operation) in methods.as_object().expect("methods") {
                if operation["tags"][0] == tag["name"] {
                    describe(&mut page, path, method, operation);
                }
            }
        }
    }
    check("docs/rest.md", &page, "page_of_rest");
}

fn describe(page: &mut String, path: &str, method: &str, operation: &Value) {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let _ = writeln!(
        page,
        "\n### `{} {path}`\n\n{}.",
        method.to_uppercase(),
        text(&operation["summary"]).trim_end_matches('.')
    );
    let role = text(&operation["description"]);
    if !role.is_empty() {
        let _ = writeln!(page, "{role}");
    }
    let parameters = operation["parameters"].as_array().cloned().unwrap_or_default();
    let parameters: Vec<_> = parameters.iter().filter(|parameter| parameter["in"] != "path").collect();
    if !parameters.is_empty() {
        let _ = writeln!(page, "\n| parameter | form | what |\n| --- | --- | --- |");
    }
    for parameter in parameters {
        let place = if parameter["in"] == "header" { " (header)" } else { "" };
        let wanted = if parameter["required"] == true { ", needed" } else { "" };
        let (name, words) = (text(&parameter["name"]), text(&parameter["description"]).replace('|', "\\|"));
        let _ = writeln!(page, "| `{name}`{place} | {}{wanted} | {words} |", form(&parameter["schema"]));
    }
    let named = |content: &Value| {
        let kinds = content.as_object().into_iter().flatten();
        let shown: Vec<String> = kinds.map(|(kind, of)| format!("`{kind}`: {}", form(&of["schema"]))).collect();
        shown.join(", ")
    };
    let body = named(&operation["requestBody"]["content"]);
    if !body.is_empty() {
        let or_none = if operation["requestBody"]["required"] == true {
            ""
        } else {
            "; it may be left out, but not its `Content-Type` where there are no tokens"
        };
        let _ = writeln!(page, "\nBody: {body}{or_none}");
    }
    let mut answers: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for (status, answer) in operation["responses"].as_object().expect("answers") {
        answers.entry(named(&answer["content"])).or_default().push(status);
    }
    let mut answers: Vec<(Vec<&str>, String)> = answers.into_iter().map(|(what, statuses)| (statuses, what)).collect();
    answers.sort();
    let shown = answers.iter().map(|(statuses, what)| {
        let behind = if what.is_empty() { String::new() } else { format!(" with {what}") };
        format!("{}{behind}", statuses.join(", "))
    });
    let _ = writeln!(page, "\nAnswers: {}", shown.collect::<Vec<_>>().join("; "));
}

/// A schema in a few words.
fn form(schema: &Value) -> String {
    if let Some(name) = schema["$ref"].as_str() {
        return format!("`{}`", name.rsplit('/').next().unwrap_or_default());
    }
    if let Some(words) = schema["enum"].as_array() {
        return words
            .iter()
            .map(|word| format!("`{}`", word.as_str().unwrap_or_default()))
            .collect::<Vec<_>>()
            .join(", ");
    }
    for of in ["oneOf", "anyOf"] {
        if let Some(forms) = schema[of].as_array() {
            return forms.iter().map(form).collect::<Vec<_>>().join(" or ");
        }
    }
    match &schema["type"] {
        Value::String(kind) if kind == "array" => format!("list of {}", form(&schema["items"])),
        Value::String(kind) => match kind.as_str() {
            "integer" => "whole number".to_owned(),
            "string" => "text".to_owned(),
            "boolean" => "`true` or `false`".to_owned(),
            "null" => "nothing".to_owned(),
            other => other.to_owned(),
        },
        Value::Array(kinds) => {
            kinds.iter().map(|kind| form(&serde_json::json!({"type": kind}))).collect::<Vec<_>>().join(" or ")
        }
        _ => "anything".to_owned(),
    }
}

#[test]
fn the_page_of_grpc_is_that_of_the_protocol_files() {
    let mut page = "# gRPC reference\n\nThis page is written from the protocol files, [si.proto](../crates/si/proto/si/v1/si.proto) and [callboard.proto](../crates/si/proto/callboard/v1/callboard.proto); a server\n\
                    tells them by reflection. What things mean is in [interfaces](api.md#2-shim-grpc).\n"
        .to_owned();
    let files = FileDescriptorSet::decode(DESCRIPTORS).expect("descriptors").file;
    for package in ["si.v1", "callboard.v1"] {
        let file = files.iter().find(|file| file.package() == package).expect("the file");
        let comments = Comments::of(file);
        for (n, service) in file.service.iter().enumerate() {
            let _ = writeln!(page, "\n## `{package}.{}`\n", service.name());
            comments.write(&mut page, &[6, n as i32]);
            let _ = writeln!(page, "| call | takes | gives | |\n| --- | --- | --- | --- |");
            for (m, method) in service.method.iter().enumerate() {
                let type_of =
                    |stream: bool, name: &str| format!("{}{}", if stream { "a stream of " } else { "" }, link(name));
                let _ = writeln!(
                    page,
                    "| `{}` | {} | {} | {} |",
                    method.name(),
                    type_of(method.client_streaming(), method.input_type()),
                    type_of(method.server_streaming(), method.output_type()),
                    comments.line(&[6, n as i32, 2, m as i32])
                );
            }
        }
        let _ = writeln!(page, "\n## Messages of `{package}`");
        for (n, message) in file.message_type.iter().enumerate() {
            describe_message(&mut page, &comments, message, message.name(), &[4, n as i32]);
        }
        for (n, values) in file.enum_type.iter().enumerate() {
            describe_enum(&mut page, &comments, values, values.name(), &[5, n as i32]);
        }
    }
    check("docs/grpc.md", &page, "page_of_grpc");
}

/// What the file says of its parts, by their path.
struct Comments(BTreeMap<Vec<i32>, String>);

impl Comments {
    fn of(file: &FileDescriptorProto) -> Comments {
        let places = file.source_code_info.iter().flat_map(|info| &info.location);
        let said = places.map(|place| {
            let words = [place.leading_comments(), place.trailing_comments()].concat();
            (place.path.clone(), words.trim().to_owned())
        });
        Comments(said.filter(|(_, words)| !words.is_empty()).collect())
    }

    fn line(&self, path: &[i32]) -> String {
        plain(self.0.get(path).map_or("", String::as_str))
    }

    fn write(&self, page: &mut String, path: &[i32]) {
        let line = self.line(path);
        if !line.is_empty() {
            let _ = writeln!(page, "{line}\n");
        }
    }
}

fn describe_message(page: &mut String, comments: &Comments, message: &DescriptorProto, name: &str, path: &[i32]) {
    let of = |kind: i32, n: usize| [path, &[kind, n as i32]].concat();
    let is_entry = |nested: &DescriptorProto| nested.options.as_ref().is_some_and(|options| options.map_entry());
    let _ = writeln!(page, "\n### `{name}`\n");
    comments.write(page, path);
    if message.field.is_empty() {
        let _ = writeln!(page, "It has no fields.");
    } else {
        let _ = writeln!(page, "| field | number | type | |\n| --- | --- | --- | --- |");
    }
    for (n, field) in message.field.iter().enumerate() {
        let entry = message
            .nested_type
            .iter()
            .find(|nested| is_entry(nested) && field.type_name().ends_with(&format!(".{}", nested.name())));
        let kind = match entry {
            Some(entry) => format!("map of {} to {}", type_of(&entry.field[0]), type_of(&entry.field[1])),
            None if field.label() == Label::Repeated => format!("list of {}", type_of(field)),
            None => type_of(field),
        };
        let one = field.oneof_index.filter(|_| !field.proto3_optional());
        let one = one.map_or(String::new(), |at| format!(" (one of `{}`)", message.oneof_decl[at as usize].name()));
        let _ =
            writeln!(page, "| `{}` | {} | {kind}{one} | {} |", field.name(), field.number(), comments.line(&of(2, n)));
    }
    for (n, nested) in message.nested_type.iter().enumerate().filter(|(_, nested)| !is_entry(nested)) {
        describe_message(page, comments, nested, &format!("{name}.{}", nested.name()), &of(3, n));
    }
    for (n, values) in message.enum_type.iter().enumerate() {
        describe_enum(page, comments, values, &format!("{name}.{}", values.name()), &of(4, n));
    }
}

fn describe_enum(page: &mut String, comments: &Comments, values: &EnumDescriptorProto, name: &str, path: &[i32]) {
    let _ = writeln!(page, "\n### `{name}`\n");
    comments.write(page, path);
    let _ = writeln!(page, "| value | number | |\n| --- | --- | --- |");
    for (n, value) in values.value.iter().enumerate() {
        let words = comments.line(&[path, &[2, n as i32]].concat());
        let _ = writeln!(page, "| `{}` | {} | {words} |", value.name(), value.number());
    }
}

fn type_of(field: &FieldDescriptorProto) -> String {
    match field.r#type() {
        Type::Message | Type::Enum => link(field.type_name()),
        simple => format!("`{}`", simple.as_str_name().trim_start_matches("TYPE_").to_lowercase()),
    }
}

/// A type of the files, with a link to its part of the page.
fn link(name: &str) -> String {
    let name = name.trim_start_matches('.');
    let short = name.strip_prefix("si.v1.").or(name.strip_prefix("callboard.v1."));
    short.map_or_else(|| format!("`{name}`"), |short| format!("[{short}](#{})", short.to_lowercase().replace('.', "")))
}
