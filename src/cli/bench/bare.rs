//! The limit: what one allocation of a wave costs where nobody decides anything. Requests are decoded, each ask takes the emptiest
//! node, gets a row under its key, is added to four sums, and the answer is encoded. What a scheduler needs beyond that is its own.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
    time::Instant,
};

use anyhow::{Context as _, Result};
use prost::Message;
use rustc_hash::FxBuildHasher;

use super::{
    doors::resource,
    drive::CHUNK,
    measure::{Look, Outcome, Span},
    workload::{Amount, PARTITION, Workload, node_id},
};
use crate::si::v1::{Allocation, AllocationRequest, AllocationResponse};

/// What is kept of an allocation.
struct Row {
    key: Arc<str>,
    app: usize,
    node: usize,
    needs: Amount,
}

/// The rows, the nodes by what they have free, and the sums of one queue, user, application and the root.
struct Books {
    rows: Vec<Row>,
    by_key: HashMap<Arc<str>, usize, FxBuildHasher>,
    apps: HashMap<String, usize, FxBuildHasher>,
    names: Vec<String>,
    free: Vec<Amount>,
    order: BTreeSet<(i64, usize)>,
    sums: Vec<[Amount; 3]>,
    root: Amount,
}

impl Books {
    fn of(work: &Workload) -> Books {
        Books {
            rows: Vec::new(),
            by_key: HashMap::default(),
            apps: work.apps.iter().enumerate().map(|(at, app)| (app.id.clone(), at)).collect(),
            names: (0..work.nodes.len()).map(node_id).collect(),
            free: work.nodes.clone(),
            order: work.nodes.iter().enumerate().map(|(at, node)| (-node.memory, at)).collect(),
            sums: vec![[Amount::default(); 3]; work.apps.len()],
            root: Amount::default(),
        }
    }

    /// Puts an ask on the emptiest node.
    fn place(&mut self, mut ask: Allocation) -> Result<Allocation> {
        let amount = |name: &str| {
            let needed = ask.resource_per_alloc.as_ref().and_then(|needed| needed.resources.get(name));
            needed.map_or(0, |quantity| quantity.value)
        };
        let needs = Amount { memory: amount("memory"), vcore: amount("vcore") };
        let app = *self.apps.get(&ask.application_id).context("an unknown application")?;
        let (score, node) = self.order.pop_first().context("there is no node")?;
        self.free[node].memory -= needs.memory;
        self.free[node].vcore -= needs.vcore;
        self.order.insert((score + needs.memory, node));
        for sum in self.sums[app].iter_mut().chain([&mut self.root]) {
            sum.memory += needs.memory;
            sum.vcore += needs.vcore;
        }
        let key: Arc<str> = ask.allocation_key.as_str().into();
        self.by_key.insert(key.clone(), self.rows.len());
        self.rows.push(Row { key, app, node, needs });
        ask.node_id.clone_from(&self.names[node]);
        Ok(ask)
    }

    /// Each row is found by its key, and the rows are what the sums and the nodes say.
    fn agree(&self) -> bool {
        let memory: i64 = self.rows.iter().map(|row| row.needs.memory).sum();
        let found = |(at, row): (usize, &Row)| self.by_key.get(&row.key) == Some(&at);
        let inside = |row: &Row| row.app < self.sums.len() && row.node < self.free.len();
        memory == self.root.memory && self.rows.iter().enumerate().all(found) && self.rows.iter().all(inside)
    }
}

/// Does the bare work of a wave.
///
/// # Errors
/// A request that was made here cannot be read: a fault of this program.
pub fn run(work: &Workload) -> Result<Outcome> {
    let ask = |ask: &super::workload::Ask| Allocation {
        allocation_key: ask.key_text(),
        application_id: work.apps[ask.app].id.clone(),
        partition_name: PARTITION.to_owned(),
        resource_per_alloc: Some(resource(work, ask.needs)),
        ..Default::default()
    };
    let request = |asks: &[super::workload::Ask]| {
        let allocations = asks.iter().map(ask).collect();
        AllocationRequest { allocations, rm_id: "bench".to_owned(), ..Default::default() }.encode_to_vec()
    };
    let requests: Vec<Vec<u8>> = work.asks.chunks(CHUNK).map(request).collect();
    let mut books = Books::of(work);
    let pid = Some(std::process::id());
    let before = Look::at(pid);
    let began = Instant::now();
    let mut latencies = Vec::with_capacity(work.asks.len());
    let mut answers = 0;
    for bytes in &requests {
        let read = Instant::now();
        let request = AllocationRequest::decode(bytes.as_slice())?;
        let asks = request.allocations.len();
        let new = request.allocations.into_iter().map(|ask| books.place(ask)).collect::<Result<_>>()?;
        answers += AllocationResponse { new, ..Default::default() }.encode_to_vec().len();
        let took = read.elapsed().as_nanos() as u64;
        latencies.extend(std::iter::repeat_n(took, asks));
    }
    let (seconds, after) = (began.elapsed().as_secs_f64(), Look::at(pid));
    anyhow::ensure!(answers > 0 && books.agree(), "the books of the bare work do not agree");
    Ok(Outcome::of(&work.shape, "core", Span { pid, before, after, seconds, asks: work.asks.len(), latencies }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::bench::shapes::{Shape, ShapeId};

    #[test]
    fn every_ask_is_placed() {
        let shape = Shape { nodes: 7, asks: 1_400, ..ShapeId::Limit.shape().unwrap() };
        let outcome = run(&Workload::of(&shape)).unwrap();
        assert_eq!((outcome.allocations, outcome.shape.as_str()), (1_400, "limit"));
    }
}
