//! The JSON form of a request, read item by item. `null` stands for a field that is not there and for no entry of a list.

use std::fmt;

use serde::de::{self, DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::{Fault, Holds, Intake, Item, List, Shape};
use crate::decode::Malformed;

/// Reads a text into `intake`; gives it back with `rmID`.
pub fn read<'a>(shape: &'static Shape, text: &[u8], intake: Intake<'a>) -> Result<(Intake<'a>, String), Fault> {
    let mut reader = Reader { intake, rm: String::new(), path: Vec::new(), fault: None };
    let mut json = serde_json::Deserializer::from_slice(text);
    let object = Object { reader: &mut reader, shape };
    let done = object.deserialize(&mut json).and_then(|()| json.end());
    if let Some(fault) = reader.fault {
        return Err(fault);
    }
    match done {
        Ok(()) => Ok((reader.intake, reader.rm)),
        Err(error) if error.is_data() => {
            let field = reader.path.join(".");
            let detail = if field.is_empty() { error.to_string() } else { format!("{field}: {error}") };
            Err(Malformed { field: Some(field).filter(|field| !field.is_empty()), detail }.cut().into())
        }
        Err(error) => Err(Malformed { field: None, detail: format!("the body is not JSON: {error}") }.into()),
    }
}

struct Reader<'a> {
    intake: Intake<'a>,
    rm: String,
    /// Names of the fields that are being read, outermost first.
    path: Vec<String>,
    /// What ended the reading, where it was not the text itself.
    fault: Option<Fault>,
}

impl Reader<'_> {
    /// Ends the reading for a reason that the JSON reader cannot carry.
    fn end<E: de::Error>(&mut self, fault: Fault) -> E {
        self.fault = Some(fault);
        E::custom("")
    }
}

/// An object whose fields are those of a shape.
struct Object<'r, 'a> {
    reader: &'r mut Reader<'a>,
    shape: &'static Shape,
}

impl<'de> DeserializeSeed<'de> for Object<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Object<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "an object with the fields {}", self.shape.fields.join(", "))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut seen = Vec::new();
        while let Some(key) = map.next_key::<String>()? {
            let known = self.shape.fields.iter().find(|field| **field == key);
            self.reader.path.push(key);
            let Some(known) = known else {
                let key = self.reader.path.last().map_or("", String::as_str);
                return Err(A::Error::unknown_field(key, self.shape.fields));
            };
            if seen.contains(known) {
                return Err(A::Error::duplicate_field(known));
            }
            seen.push(*known);
            match self.shape.lists.iter().find(|list| list.name == *known) {
                Some(list) => map.next_value_seed(Entries { reader: self.reader, list })?,
                None => self.reader.rm = map.next_value::<Option<String>>()?.unwrap_or_default(),
            }
            self.reader.path.pop();
        }
        Ok(())
    }
}

/// A list of items, or a message with more of them; or null.
struct Entries<'r, 'a> {
    reader: &'r mut Reader<'a>,
    list: &'static List,
}

impl<'de> DeserializeSeed<'de> for Entries<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_option(self)
    }
}

impl<'de> Visitor<'de> for Entries<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list or an object")
    }

    fn visit_none<E: de::Error>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        match self.list.holds {
            Holds::Message(shape) => Object { reader: self.reader, shape }.deserialize(deserializer),
            Holds::Items(item) => deserializer.deserialize_seq(Items { reader: self.reader, item }),
        }
    }
}

struct Items<'r, 'a> {
    reader: &'r mut Reader<'a>,
    item: Item,
}

impl<'de> Visitor<'de> for Items<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a sequence")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        let mut at = 0;
        while let Some(item) = seq.next_element::<Option<&RawValue>>()? {
            if let Some(item) = item
                && let Err(fault) = self.reader.intake.json(self.item, item.get())
            {
                let here = format!("{}[{at}]", self.reader.path.join("."));
                return Err(self.reader.end(below(fault, &here)));
            }
            at += 1;
        }
        Ok(())
    }
}

/// A fault of an item, told by its place in the request.
fn below(fault: Fault, here: &str) -> Fault {
    match fault {
        Fault::Malformed(malformed) => malformed.below(here).into(),
        Fault::Large(text) => Fault::Large(text.replacen("this item", here, 1)),
    }
}
