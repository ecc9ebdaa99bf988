//! Requests of the running session, read item by item: each is counted, converted and dropped before the next is looked at. So
//! what a request takes beside its bytes is what it leads to, and one that has too many items is refused before they are made.

mod json;

use std::sync::Arc;

use callboard_domain::{
    command::{AddApplication, AllocationItem, Command, NodeAction, NodeItem, ReleaseItem},
    effect::Callback,
    resources::Vectors,
};
use serde::de::DeserializeOwned;

use super::{
    decode::{self, Malformed},
    inward::{Groups, Inward, MAX_PARTITIONS, Names, node_action, termination},
    v1,
    wire::{self, Fields, Value},
};

/// Most tags, attributes, groups and resource types of one item.
pub const MAX_ENTRIES: usize = 1_000;
/// As many of them count as one more item.
const PER_ITEM: usize = 8;
/// Fields that an item may have beside them.
const FIELDS: usize = 32;

/// A request of the running session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// `NodeRequest`.
    Nodes,
    /// `ApplicationRequest`.
    Applications,
    /// `AllocationRequest`.
    Allocations,
}

/// Why a request is refused as a whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It cannot be read.
    Malformed(Malformed),
    /// It is too large; with the text for the caller.
    Large(String),
}

impl From<Malformed> for Fault {
    fn from(malformed: Malformed) -> Fault {
        Fault::Malformed(malformed)
    }
}

impl From<wire::Malformed> for Fault {
    fn from(malformed: wire::Malformed) -> Fault {
        Fault::Malformed(Malformed { field: None, detail: malformed.to_string() })
    }
}

/// What is said to a request of more items than `limit`.
pub fn too_many_items(limit: usize) -> String {
    format!(
        "the request has more than {limit} items: send several smaller requests, or raise the limit, which is rm.maxItems where the \
         resource manager set that, else --rm-max-items of the server (tags, attributes, groups and resource types count too, \
         {PER_ITEM} of them as an item)"
    )
}

/// A JSON text whose lists and objects have at most so many entries together, each of which counts as an item.
///
/// # Errors
/// They may have more.
pub fn bounded(text: &[u8], limit: usize) -> Result<(), Fault> {
    if decode::commas(text) < limit { Ok(()) } else { Err(Fault::Large(too_many_items(limit))) }
}

/// The JSON text of a message with maps that nobody fills: at most [`MAX_ENTRIES`] altogether.
///
/// # Errors
/// They may have more.
pub fn bounded_maps(text: &[u8]) -> Result<(), Fault> {
    let detail = || format!("the request has more than {MAX_ENTRIES} entries in its maps");
    if decode::commas(text) < MAX_ENTRIES { Ok(()) } else { Err(Fault::Large(detail())) }
}

/// A message that holds items: what its fields are called, and where they stand on the wire.
struct Shape {
    fields: &'static [&'static str],
    /// `rmID`, where it has one.
    rm: Option<u32>,
    lists: &'static [List],
}

struct List {
    field: u32,
    name: &'static str,
    holds: Holds,
}

#[derive(Clone, Copy)]
enum Holds {
    Items(Item),
    /// One message with items of its own.
    Message(&'static Shape),
}

#[derive(Clone, Copy, Debug)]
enum Item {
    Node,
    New,
    Remove,
    Allocation,
    Release,
}

const NODES: Shape = Shape {
    fields: &["nodes", "rmID"],
    rm: Some(2),
    lists: &[List { field: 1, name: "nodes", holds: Holds::Items(Item::Node) }],
};

const APPLICATIONS: Shape = Shape {
    fields: &["new", "remove", "rmID"],
    rm: Some(3),
    lists: &[
        List { field: 1, name: "new", holds: Holds::Items(Item::New) },
        List { field: 2, name: "remove", holds: Holds::Items(Item::Remove) },
    ],
};

const ALLOCATIONS: Shape = Shape {
    fields: &["releases", "rmID", "allocations"],
    rm: Some(3),
    lists: &[
        List { field: 4, name: "allocations", holds: Holds::Items(Item::Allocation) },
        List { field: 2, name: "releases", holds: Holds::Message(&RELEASES) },
    ],
};

const RELEASES: Shape = Shape {
    fields: &["allocationsToRelease"],
    rm: None,
    lists: &[List { field: 1, name: "allocationsToRelease", holds: Holds::Items(Item::Release) }],
};

impl Request {
    /// Its name in texts.
    pub const fn name(self) -> &'static str {
        match self {
            Request::Nodes => "NodeRequest",
            Request::Applications => "ApplicationRequest",
            Request::Allocations => "AllocationRequest",
        }
    }

    const fn shape(self) -> &'static Shape {
        match self {
            Request::Nodes => &NODES,
            Request::Applications => &APPLICATIONS,
            Request::Allocations => &ALLOCATIONS,
        }
    }

    /// `rmID` of a message on the wire, empty where it is not given.
    ///
    /// # Errors
    /// It is no message.
    pub fn rm(self, message: &[u8]) -> Result<String, Fault> {
        let mut rm = String::new();
        for field in Fields::of(message) {
            if let (number, Value::Bytes(bytes)) = field?
                && self.shape().rm == Some(number)
            {
                rm = utf8(bytes)?;
            }
        }
        Ok(rm)
    }

    /// Reads a message on the wire.
    ///
    /// # Errors
    /// It is no message, or has more than `limit` items.
    pub fn read(self, message: &[u8], names: &Names, limit: usize) -> Result<Inward, Fault> {
        let mut intake = Intake::new(names, limit);
        intake.message(self.shape(), message)?;
        Ok(intake.finish())
    }

    /// Reads JSON text; gives `rmID` as well, empty where it is not given.
    ///
    /// # Errors
    /// It is not this message in its JSON form, or has more than `limit` items.
    pub fn read_json(self, text: &[u8], names: &Names, limit: usize) -> Result<(Inward, String), Fault> {
        let (intake, rm) = json::read(self.shape(), text, Intake::new(names, limit))?;
        Ok((intake.finish(), rm))
    }
}

fn utf8(bytes: &[u8]) -> Result<String, Fault> {
    let text = std::str::from_utf8(bytes).map(str::to_owned);
    text.map_err(|_| Malformed { field: Some("rmID".to_owned()), detail: "rmID is not UTF-8".to_owned() }.into())
}

impl Item {
    /// Fields of it that are messages with lists or maps of their own.
    const fn inner(self) -> &'static [u32] {
        match self {
            Item::Node => &[4],
            Item::New => &[4, 7],
            Item::Allocation => &[5],
            Item::Remove | Item::Release => &[],
        }
    }

    /// At least the number of its entries, without making any.
    fn entries(self, item: &[u8]) -> Result<usize, Fault> {
        let mut entries = 0;
        for field in Fields::of(item) {
            entries += match field? {
                (field, Value::Bytes(bytes)) if self.inner().contains(&field) => 1 + Fields::of(bytes).count(),
                _ => 1,
            };
        }
        Ok(entries)
    }
}

/// A request that is being read.
struct Intake<'a> {
    names: &'a Names,
    vectors: Vectors<'a>,
    limit: usize,
    items: usize,
    rejected: Vec<Callback>,
    nodes: Groups<Vec<NodeItem>>,
    applications: Groups<(Vec<AddApplication>, Vec<Arc<str>>)>,
    allocations: Groups<(Vec<AllocationItem>, Vec<ReleaseItem>)>,
}

impl<'a> Intake<'a> {
    fn new(names: &'a Names, limit: usize) -> Intake<'a> {
        Intake {
            names,
            vectors: names.vectors(),
            limit,
            items: 0,
            rejected: Vec::new(),
            nodes: Groups::default(),
            applications: Groups::default(),
            allocations: Groups::default(),
        }
    }

    fn finish(self) -> Inward {
        let mut parts = self.nodes.parts(Command::Nodes);
        parts.extend(self.applications.parts(|(new, remove)| Command::Applications { new, remove }));
        parts.extend(self.allocations.parts(|(allocations, releases)| Command::Allocations { allocations, releases }));
        Inward { items: self.items, parts, rejected: self.rejected }
    }

    fn message(&mut self, shape: &Shape, message: &[u8]) -> Result<(), Fault> {
        for field in Fields::of(message) {
            let (number, Value::Bytes(bytes)) = field? else { continue };
            let Some(list) = shape.lists.iter().find(|list| list.field == number) else { continue };
            match list.holds {
                Holds::Message(shape) => self.message(shape, bytes)?,
                Holds::Items(item) => self.wire(item, list.name, bytes)?,
            }
        }
        Ok(())
    }

    fn wire(&mut self, item: Item, list: &str, bytes: &[u8]) -> Result<(), Fault> {
        if item.entries(bytes)? > MAX_ENTRIES + FIELDS {
            return Err(crowded(&format!("item {} of {list}", self.items)));
        }
        fn read<T: prost::Message + Default>(bytes: &[u8], list: &str) -> Result<T, Fault> {
            let detail = |error| format!("an entry of {list} is not protobuf: {error}");
            T::decode(bytes).map_err(|error| Malformed { field: Some(list.to_owned()), detail: detail(error) }.into())
        }
        match item {
            Item::Node => self.node(read(bytes, list)?),
            Item::New => self.new_application(read(bytes, list)?),
            Item::Remove => self.remove(read(bytes, list)?),
            Item::Allocation => self.allocation(read(bytes, list)?),
            Item::Release => self.release(read(bytes, list)?),
        }
    }

    fn json(&mut self, item: Item, text: &str) -> Result<(), Fault> {
        if decode::commas(text.as_bytes()) > MAX_ENTRIES + FIELDS {
            return Err(crowded("this item"));
        }
        fn read<T: DeserializeOwned>(text: &str) -> Result<T, Fault> {
            Ok(decode::message(text.as_bytes())?)
        }
        match item {
            Item::Node => self.node(read(text)?),
            Item::New => self.new_application(read(text)?),
            Item::Remove => self.remove(read(text)?),
            Item::Allocation => self.allocation(read(text)?),
            Item::Release => self.release(read(text)?),
        }
    }

    /// One more item with this many entries.
    fn count(&mut self, entries: usize) -> Result<(), Fault> {
        self.items += 1 + entries / PER_ITEM;
        if self.items > self.limit { Err(Fault::Large(too_many_items(self.limit))) } else { Ok(()) }
    }

    /// An entry of a node request (R1.31).
    fn node(&mut self, node: v1::NodeInfo) -> Result<(), Fault> {
        self.count(node.attributes.len() + types(node.schedulable_resource.as_ref()))?;
        // R2.3: an empty entry is as none.
        if node == v1::NodeInfo::default() {
            return Ok(());
        }
        let creates = matches!(node_action(node.action), Some(NodeAction::Create | NodeAction::CreateDrain));
        match self.names.node(node, creates) {
            Ok((partition, node)) => self.nodes.of(partition).ok_or_else(many_partitions)?.push(node),
            Err((node, reason)) => self.rejected.push(Callback::RejectedNode { node, reason }),
        }
        Ok(())
    }

    /// A submission (R1.30).
    fn new_application(&mut self, new: v1::AddApplicationRequest) -> Result<(), Fault> {
        let groups = new.ugi.as_ref().map_or(0, |ugi| ugi.groups.len());
        self.count(new.tags.len() + groups + types(new.placeholder_ask.as_ref()))?;
        let partition = self.names.internal(&new.partition_name);
        match self.names.application(new) {
            Ok(new) => self.applications.of(partition).ok_or_else(many_partitions)?.0.push(new),
            Err((app, reason)) => self.rejected.push(Callback::RejectedApplication { app, reason }),
        }
        Ok(())
    }

    fn remove(&mut self, remove: v1::RemoveApplicationRequest) -> Result<(), Fault> {
        self.count(0)?;
        let partition = self.names.internal(&remove.partition_name);
        self.applications.of(partition).ok_or_else(many_partitions)?.1.push(remove.application_id.into());
        Ok(())
    }

    /// An ask or an allocation (R1.29).
    fn allocation(&mut self, allocation: v1::Allocation) -> Result<(), Fault> {
        self.count(allocation.allocation_tags.len() + types(allocation.resource_per_alloc.as_ref()))?;
        let partition = self.names.internal(&allocation.partition_name);
        match self.names.allocation(allocation, &mut self.vectors) {
            Ok(item) => self.allocations.of(partition).ok_or_else(many_partitions)?.0.push(item),
            Err(rejection) => self.rejected.push(rejection),
        }
        Ok(())
    }

    fn release(&mut self, release: v1::AllocationRelease) -> Result<(), Fault> {
        self.count(0)?;
        let partition = self.names.internal(&release.partition_name);
        self.allocations.of(partition).ok_or_else(many_partitions)?.1.push(ReleaseItem {
            app: release.application_id.into(),
            key: release.allocation_key.into(),
            termination: termination(release.termination_type),
        });
        Ok(())
    }
}

fn types(resource: Option<&v1::Resource>) -> usize {
    resource.map_or(0, |resource| resource.resources.len())
}

fn many_partitions() -> Fault {
    Fault::Large(format!("the request names more than {MAX_PARTITIONS} partitions: a configuration has no more"))
}

fn crowded(what: &str) -> Fault {
    Fault::Large(format!("{what} has more than {MAX_ENTRIES} tags, attributes, groups or resource types"))
}

#[cfg(test)]
mod tests;
