//! Schemas of the messages of the protocol files: their JSON mapping, as the doors read it.

use std::collections::BTreeMap;

use prost::Message as _;
use prost_types::{
    DescriptorProto, FieldDescriptorProto, FileDescriptorSet,
    field_descriptor_proto::{Label, Type},
};
use serde_json::{Map, Value, json};

use super::operation::named;
use crate::si::DESCRIPTORS;

/// The package whose messages HTTP speaks.
const PACKAGE: &str = "si.v1";

/// All messages of the package by their full name, and their enumerations within.
pub fn schemas() -> Map<String, Value> {
    // What the build wrote: a fault of it is found by the test below.
    let set = FileDescriptorSet::decode(DESCRIPTORS).unwrap_or_default();
    let (mut messages, mut enums) = (BTreeMap::new(), BTreeMap::new());
    for file in set.file.iter().filter(|file| file.package() == PACKAGE) {
        for one in &file.enum_type {
            enums.insert(format!(".{PACKAGE}.{}", one.name()), values(one));
        }
        for message in &file.message_type {
            collect(&format!(".{PACKAGE}"), message, &mut messages, &mut enums);
        }
    }
    let plain = messages.iter().filter(|(_, message)| !is_entry(message));
    plain.map(|(name, message)| (name[1..].to_owned(), object(message, &messages, &enums))).collect()
}

type Messages<'a> = BTreeMap<String, &'a DescriptorProto>;
type Enums = BTreeMap<String, Value>;

fn collect<'a>(within: &str, message: &'a DescriptorProto, messages: &mut Messages<'a>, enums: &mut Enums) {
    let name = format!("{within}.{}", message.name());
    for one in &message.enum_type {
        enums.insert(format!("{name}.{}", one.name()), values(one));
    }
    for nested in &message.nested_type {
        collect(&name, nested, messages, enums);
    }
    messages.insert(name, message);
}

fn values(one: &prost_types::EnumDescriptorProto) -> Value {
    json!({"type": "string", "enum": one.value.iter().map(|value| value.name()).collect::<Vec<_>>()})
}

fn is_entry(message: &DescriptorProto) -> bool {
    message.options.as_ref().is_some_and(|options| options.map_entry())
}

/// Unknown fields are an error.
fn object(message: &DescriptorProto, messages: &Messages<'_>, enums: &Enums) -> Value {
    let fields = message.field.iter().map(|field| {
        let schema = match messages.get(field.type_name()).filter(|entry| is_entry(entry)) {
            Some(entry) => {
                let value = entry.field.iter().find(|field| field.number() == 2);
                json!({"type": "object", "additionalProperties": value.map(|value| single(value, enums))})
            }
            None if field.label() == Label::Repeated => json!({"type": "array", "items": single(field, enums)}),
            None => single(field, enums),
        };
        (field.json_name().to_owned(), schema)
    });
    json!({"type": "object", "additionalProperties": false, "properties": fields.collect::<Map<_, _>>()})
}

fn single(field: &FieldDescriptorProto, enums: &Enums) -> Value {
    match field.r#type() {
        Type::Message => named(field.type_name().trim_start_matches('.')),
        Type::Enum => enums.get(field.type_name()).cloned().unwrap_or_else(|| json!({"type": "string"})),
        Type::Bool => json!({"type": "boolean"}),
        Type::Int32 | Type::Sint32 | Type::Sfixed32 => json!({"type": "integer", "format": "int32"}),
        Type::Int64 | Type::Sint64 | Type::Sfixed64 => {
            json!({"description": "a 64-bit number, as text or number", "anyOf": [
                {"type": "string", "pattern": "^-?[0-9]{1,18}$"},
                {"type": "integer", "format": "int64", "minimum": i64::MIN, "maximum": i64::MAX},
            ]})
        }
        Type::Uint32 | Type::Uint64 | Type::Fixed32 | Type::Fixed64 => json!({"type": "integer", "minimum": 0}),
        Type::Double | Type::Float => json!({"type": "number"}),
        Type::String | Type::Bytes | Type::Group => json!({"type": "string"}),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_become_objects() {
        let schemas = schemas();
        let node = &schemas["si.v1.NodeInfo"]["properties"];
        assert_eq!(node["nodeID"], json!({"type": "string"}));
        assert_eq!(node["attributes"], json!({"type": "object", "additionalProperties": {"type": "string"}}));
        assert!(node["action"]["enum"].as_array().unwrap().contains(&json!("CREATE")), "{node}");
        let request = &schemas["si.v1.NodeRequest"];
        assert_eq!(request["properties"]["nodes"]["items"], named("si.v1.NodeInfo"));
        assert_eq!(request["additionalProperties"], false);
        let resources = &schemas["si.v1.Resource"]["properties"]["resources"];
        assert_eq!(resources["additionalProperties"], named("si.v1.Quantity"));
        assert!(!schemas.keys().any(|name| name.ends_with("Entry")), "{:?}", schemas.keys());
    }
}
