//! A whole partition as bytes, and back: what a snapshot of the log consists of.
//!
//! Everything that a later effect may depend on is there; what is read goes on exactly as what was written would have. What only
//! repeats rows is made anew: which ask has a key, `by_seq` of applications, the orders of shapes, the stretches of the node index, and limits,
//! which are in the configuration.
//!
//! A head of 32 bytes (a mark, the format, the version of the domain, a checksum and the length of what follows) stands before it.

use std::{
    iter::successors,
    sync::{Arc, LazyLock},
};

use twox_hash::XxHash3_64;

use super::{Partition, accounting::limits_of};
use crate::{
    DOMAIN_VERSION,
    alloc::{Alloc, AskSpec},
    app::App,
    coded::{As, Coded as _, Error, Names, Reader, Skip, Writer, map},
    keys::Allocs,
    resources::{Resource, Types},
    table::Table,
    types::{AllocIx, QueueIx},
};

/// Version of the format. It is raised when what was written before reads otherwise; fields that are added are no such change.
pub const SAVED_FORMAT: u32 = 1;

const MARK: &[u8; 8] = b"cbpart\r\n";
const HEAD: usize = 32;

/// Why bytes are no partition.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unreadable {
    /// They do not begin as one does.
    #[error("these bytes are no saved partition: they do not begin with the mark of one")]
    Foreign,
    /// They were written by a later version.
    #[error(
        "the saved partition has format {0}, and this version reads up to {SAVED_FORMAT}: use the version that wrote it, or a later one"
    )]
    Later(u32),
    /// Their number is another.
    #[error("the saved partition is cut off or was added to: its head says {announced} bytes, there are {found}")]
    Length {
        /// What the head says.
        announced: u64,
        /// What there is.
        found: u64,
    },
    /// They are not what was written.
    #[error("the saved partition is damaged: its checksum is {found:016x}, and should be {announced:016x}")]
    Checksum {
        /// What the head says.
        announced: u64,
        /// Of what there is.
        found: u64,
    },
    /// They cannot be understood.
    #[error("the saved partition cannot be read: {0}")]
    Content(#[from] Error),
}

map!(Partition {
    1 rm,
    2 name,
    3 internal,
    4 state,
    5 state_since,
    6 conf,
    7 queues,
    8 root,
    9 queue_by_path,
    10 nodes,
    11 node_by_id,
    12 apps,
    13 app_by_id,
    14 allocs as Rows,
    15 terminated,
    16 rejected,
    17 total,
    18 allocations,
    19 placeholders,
    20 reservations,
    21 bad_updates,
    22 ugm,
    23 drained_ids,
    24 drained_hosts,
    25 foreign,
    26 index,
    27 shapes,
    28 deadlines,
    29 dirty,
    30 inspection,
    31 epoch,
    32 limited,
    33 squeeze,
    34 gang_waits,
    35 gangs,
    36 swappable,
    37 reserved_apps,
    38 reserved_epoch,
    39 wanting,
    40 ripe,
    41 claims,
    42 search,
    43 cleaning,
    44 open_nodes,
    45 quotas_watched,
    46 reservation_delay,
    47 all_container_states,
    48 ask_shim,
    49 questions,
    50 leaving,
} parts {
    51 nodes.vacant,
    52 queues.vacant,
    53 apps.vacant,
    54 allocs.vacant,
} then {
    55 next_serial,
    56 required_asks,
    57 alloc_changed,
    58 scratch as Skip,
    59 orders,
    60 held_back,
    61 drain_notes,
    62 keys as Skip,
    63 gone_with,
    64 crowded_out,
    65 swaps_at_home,
    66 ended,
    67 elsewhere,
    68 searched,
    69 reserved_placeholders as Skip,
    70 charged,
    71 untold as Skip,
    72 overdue_told,
});

/// The table of asks and allocations. Of free rows stays what tells them from those that come next.
pub(crate) struct Rows;

impl As<Allocs> for Rows {
    fn write(value: &Allocs, to: &mut Writer) {
        static NOTHING: LazyLock<(Arc<AskSpec>, Arc<Resource>)> = LazyLock::new(Default::default);
        to.array(value.len());
        for row in value.places() {
            if row.is_free() {
                let (spec, resource) = NOTHING.clone();
                Alloc { spec, resource, ..row.clone() }.write(to);
            } else {
                row.write(to);
            }
        }
    }

    fn read(from: &mut Reader) -> Result<Allocs, Error> {
        Table::read(from)
    }

    fn is_absent(value: &Allocs) -> bool {
        value.is_empty()
    }

    fn absent() -> Option<Allocs> {
        Some(Table::default())
    }
}

impl Partition {
    /// The whole partition as bytes. A clone of it costs little and may be written on another thread.
    pub fn save(&self) -> Vec<u8> {
        let mut to = Writer::large();
        to.buffer().extend_from_slice(&[0; HEAD]);
        self.write(&mut to);
        self.hidden().write(&mut to);
        let mut bytes = to.into_bytes();
        seal(&mut bytes);
        bytes
    }

    /// The version of the domain that saved these bytes. One of another version goes on by the rules of this one.
    ///
    /// # Errors
    /// They are no saved partition, or one in a later format.
    pub fn saved_by(bytes: &[u8]) -> Result<u32, Unreadable> {
        let head = bytes.get(..HEAD).filter(|head| head.starts_with(MARK)).ok_or(Unreadable::Foreign)?;
        match number(&head[8..12]) as u32 {
            format if format > SAVED_FORMAT => Err(Unreadable::Later(format)),
            _ => Ok(number(&head[12..16]) as u32),
        }
    }

    /// The partition that [`Partition::save`] wrote; `types` are those of its resource manager.
    ///
    /// # Errors
    /// The bytes are not all that was written, are damaged, or were written by a later version.
    pub fn load(bytes: &[u8], types: &Types) -> Result<Partition, Unreadable> {
        Partition::load_from(bytes, |body| Reader::new(body, types))
    }

    /// As [`Partition::load`], with other texts.
    ///
    /// # Errors
    /// As there.
    pub fn load_as(bytes: &[u8], types: &Types, names: &Names<'_>) -> Result<Partition, Unreadable> {
        Partition::load_from(bytes, |body| Reader::new(body, types).with_names(names))
    }

    fn load_from<'a>(bytes: &'a [u8], reader: impl FnOnce(&'a [u8]) -> Reader<'a>) -> Result<Partition, Unreadable> {
        Partition::saved_by(bytes)?;
        let (head, body) = bytes.split_at(HEAD);
        let (announced, found) = (number(&head[24..32]), body.len() as u64);
        if announced != found {
            return Err(Unreadable::Length { announced, found });
        }
        let (announced, found) = (number(&head[16..24]), XxHash3_64::oneshot(body));
        if announced != found {
            return Err(Unreadable::Checksum { announced, found });
        }
        let mut from = reader(body);
        let mut partition = Partition::read(&mut from)?;
        let hidden = Vec::read(&mut from)?;
        if !from.is_done() {
            return Err(from.fail("something follows that does not belong here").into());
        }
        let asks = partition.allocs.len();
        let (nodes, queues, apps) = (partition.nodes.len(), partition.queues.len(), partition.apps.len());
        from.are_rows_there([nodes, queues, apps, asks, partition.shapes.len()])?;
        let tracked = |app: &App| app.track.is_none_or(|track| partition.ugm.is_open(track));
        if !partition.ugm.is_whole() || !partition.apps.iter().all(|(_, app)| tracked(app)) {
            return Err(from.fail("what users and groups use names rows that are not there").into());
        }
        partition.list_asks(&hidden, &from)?;
        if !partition.all_paths_end_at_root() {
            // Whoever walks up would never arrive.
            return Err(from.fail("a queue is not below root").into());
        }
        if crate::planted!("load-drains") {
            partition.drained_ids = imbl::OrdSet::new();
        }
        if crate::planted!("load-epoch") {
            partition.epoch += 1;
        }
        let conf = partition.conf.clone();
        partition.count_gangs();
        partition.count_all_in_question();
        partition.sort_wanting();
        partition.date_nodes();
        partition.find_untold();
        partition.put_in_order();
        partition.count_reservations();
        partition.share_templates();
        partition.ugm.limit_again(limits_of(&conf).iter().map(|(path, entries)| (path, *entries)));
        partition.promise_users();
        Ok(partition)
    }

    /// Dynamic queues have what they got from a template together with it, as when they were made.
    fn share_templates(&mut self) {
        // A type of which there may be nothing is another limit than none.
        fn share(own: &mut Option<Arc<Resource>>, given: &Option<Arc<Resource>>) -> bool {
            let same = match (&*own, given) {
                (Some(own), Some(given)) => own.iter().eq(given.iter()),
                (own, given) => own.is_none() && given.is_none(),
            };
            if same {
                own.clone_from(given);
            }
            same
        }
        for ix in self.queues.keys() {
            let row = &self.queues[ix];
            let above = row.parent.filter(|_| !row.managed).and_then(|parent| self.queues[parent].template.clone());
            let Some(template) = above else { continue };
            let row = &mut self.queues[ix];
            share(&mut row.max, &template.max);
            share(&mut row.guaranteed, &template.guaranteed);
            if row.properties == template.properties {
                row.properties = template.properties.clone();
            }
            // So have the levels between.
            if let Some(own) = row.template.as_deref().filter(|own| **own == *template) {
                let (mut max, mut guaranteed) = (own.max.clone(), own.guaranteed.clone());
                if share(&mut max, &template.max) && share(&mut guaranteed, &template.guaranteed) {
                    row.template = Some(template);
                }
            }
        }
    }

    /// What was read tells only which asks reserve a node.
    fn count_reservations(&mut self) {
        for node in self.nodes.keys() {
            for ask in self.nodes[node].reservations.clone().iter() {
                let row = &self.allocs[ask];
                if row.is_placeholder() {
                    self.reserved_placeholders.insert(ask);
                }
                self.nodes[node].reservations.count(&row.resource, row.spec.required_node.is_some());
            }
        }
    }

    /// Those of all queues, and of the queues of all applications.
    fn all_paths_end_at_root(&self) -> bool {
        let queues = self.queues.keys();
        let above = |queue: &QueueIx| self.queues.get(*queue)?.parent;
        let ends_at_root = |queue: QueueIx| successors(Some(queue), above).take(queues.len()).last() == Some(self.root);
        self.queues.get(self.root).is_some_and(|root| root.parent.is_none())
            && queues.iter().all(|queue| ends_at_root(*queue))
            && self.apps.iter().all(|(_, app)| self.queues.get(app.queue).is_some())
    }

    /// Rows that their application does not know by their key, as another one has the same.
    fn hidden(&self) -> Vec<AllocIx> {
        let rows = self.allocs.iter();
        let hidden = rows.filter(|(at, row)| {
            let known = self.by_key(row.app, &row.spec.key);
            known != Some(*at)
        });
        hidden.map(|(at, _)| at).collect()
    }

    /// A row that was read shares its resources with all of its shape, as one that came from the shim.
    fn share_resource(&mut self, at: AllocIx) {
        let row = &mut self.allocs[at];
        let Some(shared) = self.shapes.get(row.shape).filter(|shared| shared.iter().eq(row.resource.iter())) else {
            return;
        };
        row.resource = shared.clone();
        if let Some(spec) = Arc::get_mut(&mut row.spec).filter(|spec| spec.resource.iter().eq(shared.iter())) {
            spec.resource = shared.clone();
        }
    }

    /// Every application has its rows, by key and in order of arrival.
    fn list_asks(&mut self, hidden: &[AllocIx], from: &Reader) -> Result<(), Error> {
        let apps = self.apps.len();
        for at in self.allocs.keys() {
            self.share_resource(at);
            let row = &self.allocs[at];
            if row.app.ix() >= apps {
                return Err(from.fail(format!("there is no application for {}", row.spec.key)));
            }
            let app = &mut self.apps[row.app];
            app.by_seq.insert(row.seq, at);
            if app.allocs.contains_key(&at) {
                app.gang.written(|gang| gang.placed(at, &row.spec, true));
            }
            // Ascending, as they were written.
            if hidden.binary_search(&at).is_err() {
                self.keys.insert(self.keys.hash(row.app, &row.spec.key), at);
            }
        }
        Ok(())
    }
}

/// Writes the head, for which there is room before what it is about.
fn seal(bytes: &mut [u8]) {
    let (head, body) = bytes.split_at_mut(HEAD);
    let parts: [&[u8]; 5] = [
        MARK,
        &SAVED_FORMAT.to_le_bytes(),
        &DOMAIN_VERSION.to_le_bytes(),
        &XxHash3_64::oneshot(body).to_le_bytes(),
        &(body.len() as u64).to_le_bytes(),
    ];
    head.copy_from_slice(&parts.concat());
}

/// A little-endian number of at most eight bytes.
fn number(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{
        command::{AddApplication, AllocationItem, Command, NodeAction, NodeItem},
        config,
        types::Nanos,
    };

    const CONFIG: &str = "partitions: [{name: default, placementrules: [{name: provided, filter: {users: ['a.*']}}], \
                          queues: [{name: root, submitacl: '*', queues: [{name: a, limits: [{limit: l, users: [alice], \
                          maxresources: {memory: 9}}]}]}]}]";

    /// Some asks are placed, some wait, one was released.
    fn bytes() -> Vec<u8> {
        let conf = config::load(CONFIG).expect("valid").partitions[0].clone();
        let (now, mut effects) = (Nanos::from_secs(1), Vec::new());
        let mut partition = Partition::new("rm-1".into(), "[rm-1]default".into(), conf, now, &mut effects);
        let node = |n: usize| NodeItem {
            id: format!("node-{n}").into(),
            action: NodeAction::Create,
            capacity: Some(Resource::of(&[("memory", 5), ("example.com/x", 2)])),
            attributes: Default::default(),
        };
        partition.apply(Command::Nodes((0..3).map(node).collect()), now, &mut effects);
        let new = vec![AddApplication {
            id: "app-1".into(),
            queue: "root.a".into(),
            user: "alice".into(),
            groups: Some(Arc::from([Arc::from("staff")])),
            placeholder_ask: Some(Resource::of(&[("memory", 4)])),
            ..AddApplication::default()
        }];
        partition.apply(Command::Applications { new, remove: Vec::new() }, now, &mut effects);
        let ask = |n: i64| {
            let spec = AskSpec {
                key: format!("ask-{n}").into(),
                resource: Arc::new(Resource::of(&[("memory", n), ("example.com/x", 1)])),
                task_group: if n < 3 { "workers".into() } else { Arc::default() },
                placeholder: n < 3,
                ..AskSpec::default()
            };
            AllocationItem { app: "app-1".into(), node: None, spec: Arc::new(spec) }
        };
        let allocations = (1..6).map(ask).collect();
        partition.apply(Command::Allocations { allocations, releases: Vec::new() }, now, &mut effects);
        assert!(partition.schedule_at_once(64, now, &mut effects) > 1);
        assert_eq!(partition.audit(), []);
        partition.save()
    }

    #[test]
    fn a_queue_that_is_not_below_root_is_refused() {
        let mut partition = Partition::load(&bytes(), &Types::default()).expect("sound");
        let [root, leaf] = ["root", "root.a"].map(|path| partition.queue_by_path[path]);
        let refused = |partition: &Partition| {
            matches!(Partition::load(&partition.save(), &Types::default()), Err(Unreadable::Content(_)))
        };
        partition.queues[root].parent = Some(leaf);
        assert!(refused(&partition), "below itself");
        partition.queues[root].parent = None;
        partition.queues[leaf].parent = Some(QueueIx(9));
        assert!(refused(&partition), "below what is not there");
    }

    #[test]
    fn dynamic_queues_share_what_their_template_gives_them() {
        let config = "partitions: [{name: default, placementrules: [{name: user, create: true, parent: {name: fixed, value: root.p}}], \
                      queues: [{name: root, submitacl: '*', queues: [{name: p, parent: true, childtemplate: \
                      {properties: {a: b}, resources: {max: {memory: 9, vcore: 0}, guaranteed: {memory: 1}}}}]}]}]";
        let conf = config::load(config).expect("valid").partitions[0].clone();
        let (now, mut effects) = (Nanos::from_secs(1), Vec::new());
        let mut partition = Partition::new("rm-1".into(), "[rm-1]default".into(), conf, now, &mut effects);
        let app = |user: &str| AddApplication {
            id: user.into(),
            user: user.into(),
            groups: Some(Arc::from([])),
            ..AddApplication::default()
        };
        let new = vec![app("alice"), app("bob")];
        partition.apply(Command::Applications { new, remove: Vec::new() }, now, &mut effects);
        let again = Partition::load(&partition.save(), &Types::default()).expect("sound");
        for partition in [&partition, &again] {
            let [p, alice, bob] =
                ["root.p", "root.p.alice", "root.p.bob"].map(|path| &partition.queues[partition.queue_by_path[path]]);
            let template = p.template.as_ref().expect("a template");
            for leaf in [alice, bob] {
                let same = |own: &Option<Arc<Resource>>, given: &Option<Arc<Resource>>| {
                    Arc::ptr_eq(own.as_ref().expect("a limit"), given.as_ref().expect("a limit"))
                };
                assert!(same(&leaf.max, &template.max) && same(&leaf.guaranteed, &template.guaranteed));
                assert!(Arc::ptr_eq(&leaf.properties, &template.properties));
            }
        }
    }

    #[test]
    fn each_index_that_leads_nowhere_is_refused() {
        let sound = bytes();
        let mut panics = Vec::new();
        for at in HEAD..sound.len() {
            // Small numbers are one byte.
            for number in [sound[at].wrapping_add(1), 0, 1, 9, 22, 23] {
                let mut bytes = sound.clone();
                bytes[at] = number;
                seal(&mut bytes);
                let load = || Partition::load(&bytes, &Types::default()).map(|partition| partition.audit());
                if std::panic::catch_unwind(load).is_err() {
                    panics.push((at, sound[at], number));
                }
            }
        }
        assert_eq!(panics, []);
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn what_a_right_checksum_hides_is_read_or_refused(
            changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..5),
            cut in prop::option::weighted(0.2, any::<prop::sample::Index>()),
        ) {
            static BYTES: LazyLock<Vec<u8>> = LazyLock::new(bytes);
            let mut bytes = BYTES.clone();
            for (at, byte) in changes {
                let at = HEAD + at.index(bytes.len() - HEAD);
                bytes[at] = byte;
            }
            if let Some(cut) = cut {
                bytes.truncate(HEAD + cut.index(bytes.len() - HEAD));
            }
            seal(&mut bytes);
            match Partition::load(&bytes, &Types::default()) {
                Ok(_) | Err(Unreadable::Content(_)) => {}
                Err(other) => prop_assert!(false, "{other}"),
            }
        }

        #[test]
        fn what_has_nothing_to_do_with_it_is_refused(body in prop::collection::vec(any::<u8>(), 0..40)) {
            let mut bytes = [&[0; HEAD], &body[..]].concat();
            prop_assert_eq!(Partition::load(&body, &Types::default()).err(), Some(Unreadable::Foreign));
            seal(&mut bytes);
            let refused = matches!(Partition::load(&bytes, &Types::default()), Err(Unreadable::Content(_)));
            prop_assert!(refused);
        }
    }
}
