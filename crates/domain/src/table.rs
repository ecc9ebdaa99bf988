//! `Table`: rows of one kind, found by an index of their own type. A row that goes leaves its place to one that comes later.

use std::{
    marker::PhantomData,
    ops::{Index, IndexMut},
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

use super::{
    coded::{Coded, Error, Reader, Writer},
    cow::CowVec,
};

/// The index of a row, of a type for each table.
pub trait Key: Copy + From<usize> {
    /// The position.
    fn ix(self) -> usize;
}

/// A row says itself whether its place is free, so that a look at it costs no second one.
pub trait Row: Clone {
    /// Its mark.
    fn free(&self) -> Free;
    /// The mark to change: only a table can.
    fn free_mut(&mut self) -> &mut Free;

    /// Where its last change is noted, in tables of which somebody wants to know it.
    fn changed_mut(&mut self) -> Option<&mut Changed> {
        None
    }
}

/// Whether the place of a row is free. Only its [`Table`] changes that.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Free(bool);

/// The last change of a row, counted by its table: greater than those before, and told from those of tables that were made apart in this
/// process; a clone counts on from where it was made. A row may have been written where it is another one, and was not where it is the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Changed(u64);

impl Changed {
    /// Before the first change of a table that is new. A table would have to count for a year to come to what the next one counts.
    fn none_yet() -> Changed {
        static TABLES: AtomicU64 = AtomicU64::new(1);
        Changed(TABLES.fetch_add(1, Relaxed) << 44)
    }

    fn next(&mut self) -> Changed {
        self.0 += 1;
        *self
    }
}

macro_rules! row {
    ($($name:ty $(, $changed:ident)?);+ $(;)?) => {$(
        impl Row for $name {
            fn free(&self) -> Free {
                self.free
            }

            fn free_mut(&mut self) -> &mut Free {
                &mut self.free
            }

            $(fn changed_mut(&mut self) -> Option<&mut Changed> {
                Some(&mut self.$changed)
            })?
        }

        impl $name {
            /// Its place is free: what it says is of something that went.
            pub fn is_free(&self) -> bool {
                self.free.0
            }
        }
    )+};
}

row! {
    crate::queue::Queue;
    crate::node::Node, changed;
    crate::app::App;
    crate::alloc::Alloc, changed;
    crate::partition::shapes::Shape;
}

/// Rows in chunks of `N`; see the module. A clone costs one reference per chunk.
///
/// What is reached by an index is there even where it is free, since the next row of a place is told from the one before by its
/// number; [`Table::get`] and the iterators leave free places out.
///
/// The index of another table does not do:
///
/// ```compile_fail,E0277
/// fn wrong(partition: &callboard_domain::Partition, node: callboard_domain::types::NodeIx) {
///     let _ = &partition.allocs[node];
/// }
/// ```
#[derive(Clone, Debug)]
pub struct Table<K, T, const N: usize> {
    rows: CowVec<T, N>,
    /// Free places; the one that became free last is used first.
    pub(crate) vacant: Vec<K>,
    changes: Changed,
    key: PhantomData<K>,
}

impl<K, T, const N: usize> Default for Table<K, T, N> {
    fn default() -> Self {
        Table { rows: CowVec::default(), vacant: Vec::new(), changes: Changed::none_yet(), key: PhantomData }
    }
}

impl<K: Key, T: Row, const N: usize> Table<K, T, N> {
    /// Adds a row.
    pub fn add(&mut self, row: T) -> K {
        self.add_with(|_| row)
    }

    /// Adds a row that knows its place.
    pub fn add_with(&mut self, row: impl FnOnce(K) -> T) -> K {
        let key = self.vacant.pop().unwrap_or_else(|| K::from(self.rows.len()));
        let mut row = row(key);
        note(&mut self.changes, &mut row);
        if key.ix() == self.rows.len() {
            self.rows.push(row);
        } else {
            self.rows[key.ix()] = row;
        }
        key
    }

    /// A row goes. What tells it from the next one stays; the caller empties what takes room.
    pub fn free(&mut self, key: K) -> &mut T {
        self.vacant.push(key);
        let row = &mut self[key];
        *row.free_mut() = Free(true);
        row
    }

    /// A row that is in use.
    pub fn get(&self, key: K) -> Option<&T> {
        self.rows.get(key.ix()).filter(|row| !row.free().0)
    }

    /// Rows in use, by index.
    pub fn iter(&self) -> impl Iterator<Item = (K, &T)> + '_ {
        self.rows.iter().enumerate().filter(|(_, row)| !row.free().0).map(|(at, row)| (K::from(at), row))
    }

    /// Rows in use.
    pub fn values(&self) -> impl Iterator<Item = &T> + '_ {
        self.rows.iter().filter(|row| !row.free().0)
    }

    /// Indexes of rows in use.
    pub fn keys(&self) -> Vec<K> {
        self.iter().map(|(key, _)| key).collect()
    }

    /// All rows, those of free places too.
    pub fn places(&self) -> impl Iterator<Item = &T> + '_ {
        self.rows.iter()
    }

    /// Number of places, free ones included.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Number of rows in use.
    pub fn used(&self) -> usize {
        self.rows.len() - self.vacant.len()
    }

    /// There are no places.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }
}

fn note<T: Row>(changes: &mut Changed, row: &mut T) {
    if let Some(changed) = row.changed_mut() {
        *changed = changes.next();
    }
}

impl<K: Key, T: Clone, const N: usize> Index<K> for Table<K, T, N> {
    type Output = T;

    fn index(&self, key: K) -> &T {
        &self.rows[key.ix()]
    }
}

impl<K: Key, T: Row, const N: usize> IndexMut<K> for Table<K, T, N> {
    fn index_mut(&mut self, key: K) -> &mut T {
        let row = &mut self.rows[key.ix()];
        note(&mut self.changes, row);
        row
    }
}

impl Coded for Free {
    fn write(&self, to: &mut Writer) {
        self.0.write(to);
    }

    fn read(from: &mut Reader) -> Result<Self, Error> {
        bool::read(from).map(Free)
    }

    fn is_absent(&self) -> bool {
        self.0.is_absent()
    }

    fn absent() -> Option<Self> {
        bool::absent().map(Free)
    }
}

/// Its rows; which places are free, in their order, is written beside (`saved`).
impl<K, T: Coded + Row, const N: usize> Coded for Table<K, T, N> {
    fn write(&self, to: &mut Writer) {
        self.rows.write(to);
    }

    fn read(from: &mut Reader) -> Result<Self, Error> {
        let mut table = Table { rows: CowVec::read(from)?, ..Table::default() };
        for at in 0..table.rows.len() {
            note(&mut table.changes, &mut table.rows[at]);
        }
        Ok(table)
    }

    fn is_absent(&self) -> bool {
        self.rows.is_absent()
    }

    fn absent() -> Option<Self> {
        Some(Table::default())
    }
}
