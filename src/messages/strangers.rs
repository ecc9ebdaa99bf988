//! Connections that have not said who they are, and which of them is closed first where others wait for a place: the oldest one of
//! the address with the most. Finding it takes no longer the more there are.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

/// By their numbers, which ascend as they come, with what is kept of each.
#[derive(Debug)]
pub struct Strangers<T> {
    all: HashMap<u64, (Arc<str>, T)>,
    addresses: HashMap<Arc<str>, BTreeSet<u64>>,
    /// The addresses by how many they have, then the one with the oldest last.
    ranks: BTreeMap<(usize, Reverse<u64>), Arc<str>>,
}

impl<T> Default for Strangers<T> {
    fn default() -> Strangers<T> {
        Strangers { all: HashMap::new(), addresses: HashMap::new(), ranks: BTreeMap::new() }
    }
}

impl<T> Strangers<T> {
    /// One has come from this address.
    pub fn add(&mut self, number: u64, address: Arc<str>, kept: T) {
        self.change(&address, |own| own.insert(number));
        self.all.insert(number, (address, kept));
    }

    /// It has gone, or has said who it is.
    pub fn remove(&mut self, number: u64) -> Option<(Arc<str>, T)> {
        let (address, kept) = self.all.remove(&number)?;
        self.change(&address, |own| own.remove(&number));
        Some((address, kept))
    }

    /// The oldest of the address that has the most, and how many that has.
    pub fn first(&self) -> Option<(u64, usize)> {
        let ((count, Reverse(oldest)), _) = self.ranks.last_key_value()?;
        Some((*oldest, *count))
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// There are none.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty() && self.addresses.is_empty() && self.ranks.is_empty()
    }

    /// Their numbers.
    #[cfg(test)]
    pub fn numbers(&self) -> BTreeSet<u64> {
        self.all.keys().copied().collect()
    }

    fn change(&mut self, address: &Arc<str>, change: impl FnOnce(&mut BTreeSet<u64>) -> bool) {
        let rank = |own: &BTreeSet<u64>| own.first().map(|oldest| (own.len(), Reverse(*oldest)));
        let own = self.addresses.entry(address.clone()).or_default();
        if let Some(rank) = rank(own) {
            self.ranks.remove(&rank);
        }
        change(own);
        match rank(own) {
            Some(rank) => drop(self.ranks.insert(rank, address.clone())),
            None => drop(self.addresses.remove(address)),
        }
    }
}
