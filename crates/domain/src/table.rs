//! `Table`: rows of one kind, found by an index of their own type. A row that goes leaves its place to one that comes later.

use std::{
    marker::PhantomData,
    ops::{Index, IndexMut},
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
}

/// Whether the place of a row is free. Only its [`Table`] changes that.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Free(bool);

macro_rules! row {
    ($($name:ty),+ $(,)?) => {$(
        impl Row for $name {
            fn free(&self) -> Free {
                self.free
            }

            fn free_mut(&mut self) -> &mut Free {
                &mut self.free
            }
        }

        impl $name {
            /// Its place is free: what it says is of something that went.
            pub fn is_free(&self) -> bool {
                self.free.0
            }
        }
    )+};
}

row!(crate::queue::Queue, crate::node::Node, crate::app::App, crate::alloc::Alloc, crate::partition::shapes::Shape);

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
    key: PhantomData<K>,
}

impl<K, T, const N: usize> Default for Table<K, T, N> {
    fn default() -> Self {
        Table { rows: CowVec::default(), vacant: Vec::new(), key: PhantomData }
    }
}

impl<K: Key, T: Row, const N: usize> Table<K, T, N> {
    /// Adds a row.
    pub fn add(&mut self, row: T) -> K {
        self.add_with(|_| row)
    }

    /// Adds a row that knows its place.
    pub fn add_with(&mut self, row: impl FnOnce(K) -> T) -> K {
        match self.vacant.pop() {
            Some(key) => {
                self.rows[key.ix()] = row(key);
                key
            }
            None => K::from(self.rows.push(row(K::from(self.rows.len())))),
        }
    }

    /// A row goes. What tells it from the next one stays; the caller empties what takes room.
    pub fn free(&mut self, key: K) -> &mut T {
        self.vacant.push(key);
        let row = &mut self.rows[key.ix()];
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

    /// There are no places.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }
}

impl<K: Key, T: Clone, const N: usize> Index<K> for Table<K, T, N> {
    type Output = T;

    fn index(&self, key: K) -> &T {
        &self.rows[key.ix()]
    }
}

impl<K: Key, T: Clone, const N: usize> IndexMut<K> for Table<K, T, N> {
    fn index_mut(&mut self, key: K) -> &mut T {
        &mut self.rows[key.ix()]
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
impl<K, T: Coded + Clone, const N: usize> Coded for Table<K, T, N> {
    fn write(&self, to: &mut Writer) {
        self.rows.write(to);
    }

    fn read(from: &mut Reader) -> Result<Self, Error> {
        Ok(Table { rows: Coded::read(from)?, ..Table::default() })
    }

    fn is_absent(&self) -> bool {
        self.rows.is_absent()
    }

    fn absent() -> Option<Self> {
        Some(Table::default())
    }
}
