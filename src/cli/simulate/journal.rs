//! The resource journal of a partition and what operators tell queues, with the files and the code of `JournalActor`, which is
//! what waits for the disk between them.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    sync::Arc,
};

use super::server::Server;
use crate::{
    actors::{
        journal::{Batch, disk, log::Log, orders, parted, to_store},
        partition::restored,
    },
    domain::{
        command::Command,
        effect::Effect,
        journal::{DEFAULT_LIMIT, DrainRequest, Fact, Journal, Moment, Output, Overwrite, Settings, UndrainRequest},
        queue_order::{OrderKind, QueueOrder},
        types::Nanos,
    },
    store::{journal::Directory, queue_orders, resource_set},
};

/// Orders by the path of their queue; `None` takes one back.
type Orders = Vec<(Arc<str>, Option<Arc<QueueOrder>>)>;

/// What operators were told that is so, of one partition: it holds until they say something else, whatever happens.
#[derive(Debug, Default)]
pub struct Told {
    /// Nodes that they drained.
    pub drained: BTreeSet<Arc<str>>,
    /// What they told queues.
    pub orders: BTreeMap<Arc<str>, OrderKind>,
}

/// A journal as one process has it.
pub struct Kept {
    dir: PathBuf,
    directory: Directory,
    journal: Journal,
    log: Log,
    orders: orders::KeptOrders,
    r: Arc<str>,
    /// The disk does not take anything.
    refuses: bool,
    /// When the process began.
    started: Nanos,
}

impl Kept {
    /// Reads what is there.
    fn open(base: &Path, internal: &str, started: Nanos) -> Result<Kept, String> {
        let dir = disk::directory(base, internal);
        let loaded = disk::load(&dir, Settings::default(), DEFAULT_LIMIT + 1);
        if let Some(damage) = loaded.damage.first().or(loaded.faults.first()) {
            return Err(format!("the journal is damaged: {damage}"));
        }
        let mut log = Log::new(DEFAULT_LIMIT);
        loaded.records.into_iter().for_each(|record| log.push(record));
        log.all_stored();
        let r = resource_set::encode(&loaded.journal.resource_set()).into();
        let (journal, orders) = (loaded.journal, loaded.orders);
        Ok(Kept { dir, directory: loaded.directory?, journal, log, orders, r, refuses: false, started })
    }

    /// The wall clock goes on, the other begins with the process.
    fn moment(&self, now: Nanos) -> Moment {
        Moment { wall: now, steady: now.minus(self.started) }
    }

    /// Writes what has to be on the disk. `None`: the disk does not take it; false: there was nothing to write.
    fn store(&mut self, batch: &Batch) -> Result<Option<bool>, String> {
        let r = batch.r.as_ref().unwrap_or(&self.r);
        let Some((r, records)) = to_store(&self.log, self.directory.is_kept(), batch.durable(), r) else {
            return Ok(Some(false));
        };
        if self.refuses {
            return Ok(None);
        }
        self.directory.write(r.as_deref(), &records, &disk::stamp())?;
        Ok(Some(true))
    }

    /// From here on everybody hears of it.
    fn publish(&mut self, batch: Batch, stored: bool) {
        self.r = batch.r.unwrap_or_else(|| self.r.clone());
        batch.records.into_iter().for_each(|(record, _)| self.log.push(record));
        if stored {
            self.log.all_stored();
        }
    }

    /// Writes what was put out, or later, where the disk does not take it: it has happened. Gives what the partition has to be told.
    fn commit(&mut self, out: Vec<Output>) -> Result<Vec<Command>, String> {
        let (events, commands) = parted(out);
        let batch = Batch::of(&events, &self.journal);
        let stored = self.store(&batch)?.unwrap_or(false);
        self.publish(batch, stored);
        Ok(commands)
    }

    /// An operator's request; a refused one changes nothing. True: it was carried out.
    fn drain(
        &mut self,
        node: &str,
        (drained, deadline): (bool, Option<Nanos>),
        now: Nanos,
    ) -> Result<(bool, Vec<Command>), String> {
        let (at, mut out) = (self.moment(now), Vec::new());
        self.journal.flush(at, &mut out);
        let mut commands = self.commit(out)?;
        let (targets, reason) = (node.to_owned(), Some("a test".into()));
        let planned = if drained {
            let overwrite = deadline.map(|_| Overwrite::ReasonAndTime);
            self.journal.plan_drain(&DrainRequest { targets, reason, overwrite, deadline }, at)
        } else {
            self.journal.plan_undrain(&UndrainRequest { targets, reason, lenient: false }, at)
        };
        let Ok(events) = planned else { return Ok((false, commands)) };
        let batch = Batch::of(&events, &self.journal);
        let Some(stored) = self.store(&batch)? else { return Ok((false, commands)) };
        self.publish(batch, stored);
        let mut out = Vec::new();
        self.journal.carry_out(&events, &mut out);
        commands.extend(self.commit(out)?);
        Ok((true, commands))
    }

    /// False: the disk does not take it, and nothing changes.
    fn keep(&mut self, queue: Arc<str>, order: Option<Arc<QueueOrder>>) -> Result<bool, String> {
        if self.refuses {
            return Ok(false);
        }
        match order {
            Some(order) => _ = self.orders.orders.insert(queue, order),
            None => _ = self.orders.orders.remove(&queue),
        }
        self.orders.change += 1;
        queue_orders::write(&self.dir, self.orders.change, &self.orders.orders)?;
        Ok(true)
    }
}

impl Server {
    /// Something of the journal of a partition: what it gives the partition is a message, and what fails is a fault.
    fn of_journal<T>(
        &mut self,
        internal: &Arc<str>,
        does: impl FnOnce(&mut Kept, Nanos) -> Result<(T, Vec<Command>), String>,
    ) -> Option<T> {
        let (now, started, refuses) = (self.now, self.started, self.is_disk_refusing());
        let done = match self.journals.get_mut(internal) {
            Some(kept) => {
                kept.refuses = refuses;
                does(kept, now)
            }
            None => Kept::open(&self.journal_base, internal, started).and_then(|mut kept| {
                kept.refuses = refuses;
                let done = does(&mut kept, now);
                self.journals.insert(internal.clone(), kept);
                done
            }),
        };
        match done {
            Ok((given, commands)) => {
                if !commands.is_empty() {
                    self.later.push_back((internal.clone(), commands));
                }
                Some(given)
            }
            Err(why) => {
                self.fault("the journal", format!("{internal}: {why}"));
                None
            }
        }
    }

    /// A partition begins a session with what operators said before; `restored`: it was there before this process.
    pub(super) fn begin_journal(&mut self, at: usize, restored: bool) {
        let internal = self.parts[at].internal.clone();
        let begun = self.of_journal(&internal, |kept, now| {
            kept.journal.begin(kept.moment(now));
            let commands = kept.commit(Vec::new())?;
            Ok(((kept.journal.held_hosts(), kept.journal.drain_notes(), kept.orders.list()), commands))
        });
        let Some((hosts, notes, orders)) = begun else { return };
        let (mut commands, mut orders): (Vec<Command>, Orders) = (Vec::new(), orders);
        if restored {
            let partition = &self.parts[at].partition;
            commands.extend(restored::held_no_more(partition, &hosts));
            orders = restored::other_orders(partition, &orders);
            let facts = restored::facts_of(partition);
            self.post(&internal, facts);
        }
        commands.extend((!hosts.is_empty()).then_some(Command::HoldHosts { hosts, held: true }));
        commands.extend((!notes.is_empty()).then_some(Command::NoteDrains(notes)));
        commands.extend((!orders.is_empty()).then_some(Command::OrderQueues(orders)));
        self.commands(at, commands, None);
    }

    /// The journal hears what happened to nodes.
    pub(super) fn post(&mut self, internal: &Arc<str>, facts: Vec<Fact>) {
        if facts.is_empty() {
            return;
        }
        let _ = self.of_journal(internal, |kept, now| {
            let (at, mut out) = (kept.moment(now), Vec::new());
            facts.into_iter().for_each(|fact| kept.journal.apply(fact, at, &mut out));
            Ok(((), kept.commit(out)?))
        });
    }

    /// The session of a partition is over.
    pub(super) fn end_journal(&mut self, internal: &Arc<str>) {
        // One of a process that was killed never ended.
        if !self.journals.contains_key(internal) {
            return;
        }
        let _ = self.of_journal(internal, |kept, now| {
            let mut out = Vec::new();
            kept.journal.end(kept.moment(now), &mut out);
            Ok(((), kept.commit(out)?))
        });
        self.later.retain(|(of, _)| of != internal);
    }

    /// When a journal has something to do next.
    pub fn journal_deadline(&self) -> Option<Nanos> {
        let next = |kept: &Kept| Some(kept.started.plus(kept.journal.next_deadline(kept.moment(self.now))?));
        self.journals.values().filter_map(next).min()
    }

    /// Journals do what is due.
    pub fn tick_journals(&mut self) {
        for internal in self.journals.keys().cloned().collect::<Vec<_>>() {
            let _ = self.of_journal(&internal, |kept, now| {
                let mut out = Vec::new();
                kept.journal.tick(kept.moment(now), &mut out);
                Ok(((), kept.commit(out)?))
            });
        }
        self.read_messages();
    }

    /// An operator drains a node or takes that back, and is answered.
    pub fn operator_drains(&mut self, at: usize, node: &Arc<str>, drained: bool, deadline: Option<Nanos>) {
        let internal = self.parts[at].internal.clone();
        let done = self.of_journal(&internal, |kept, now| kept.drain(node, (drained, deadline), now));
        if done == Some(true) {
            let told = &mut self.told_operators.entry(internal.clone()).or_default().drained;
            if drained {
                told.insert(node.clone());
            } else {
                told.remove(node);
            }
            self.rules.operators(&internal, told);
        }
        self.read_messages();
    }

    /// An operator tells a queue to become something, or takes that back, and is answered.
    pub fn operator_orders(&mut self, at: usize, queue: &Arc<str>, order: Option<Arc<QueueOrder>>) {
        let (kind, live) = (order.as_ref().map(|order| order.kind), &self.parts[at]);
        if live.partition.check_order(queue, kind, true).is_err() {
            return;
        }
        let internal = live.internal.clone();
        let kept = self.of_journal(&internal, |kept, _| Ok((kept.keep(queue.clone(), order.clone())?, Vec::new())));
        if kept != Some(true) {
            return;
        }
        let orders = &mut self.told_operators.entry(internal).or_default().orders;
        match kind {
            Some(kind) => _ = orders.insert(queue.clone(), kind),
            None => _ = orders.remove(queue),
        }
        self.commands(at, vec![Command::OrderQueues(vec![(queue.clone(), order)])], None);
    }

    /// Every partition does what operators were told that it does.
    pub fn check_operators(&mut self) {
        self.read_messages();
        let none = Told::default();
        let mut wrong = Vec::new();
        for live in &self.parts {
            let told = self.told_operators.get(&live.internal).unwrap_or(&none);
            for node in live.partition.nodes.values() {
                let drained = told.drained.contains(node.id());
                if node.operator_drained != drained {
                    let is = if drained { "drained, and takes allocations" } else { "not drained, and held back" };
                    wrong.push(format!("{}: {} is {is}, operators were told", live.internal, node.id()));
                }
            }
            let orders: BTreeMap<_, _> =
                live.partition.queue_orders().map(|(queue, order)| (queue.clone(), order.kind)).collect();
            if orders != told.orders {
                wrong.push(format!("{}: {orders:?} hold, operators were told {:?}", live.internal, told.orders));
            }
        }
        wrong.into_iter().for_each(|text| self.fault("what operators were told holds", text));
    }

    /// The process is gone, with what its journals knew in memory.
    pub(super) fn drop_journals(&mut self) {
        self.journals.clear();
        self.started = self.now;
    }
}

/// What effects mean for a journal.
pub fn facts(effects: &[Effect]) -> Vec<Fact> {
    let of = |effect: &Effect| match effect {
        Effect::Node(effect) => Some(Fact::Node(effect.clone())),
        _ => None,
    };
    effects.iter().filter_map(of).collect()
}
