//! `Table`: rows of a copy-on-write vector with a chain of free rows in it, so that a clone stays cheap however many rows come and go.

use std::{
    marker::PhantomData,
    ops::{Index, IndexMut},
};

use crate::{
    coded::{Coded, Error, Reader, Writer},
    cow::CowVec,
};

/// A typed row number of a [`Table`].
pub(super) trait Row: Copy {
    fn new(at: usize) -> Self;
    fn at(self) -> usize;
}

macro_rules! row {
    ($($(#[$doc:meta])* $vis:vis $name:ident),+ $(,)?) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        $vis struct $name(u32);

        impl $crate::ugm::table::Row for $name {
            fn new(at: usize) -> Self {
                // Rows are far fewer than 2^32: each takes more than 100 bytes.
                $name(at as u32)
            }

            fn at(self) -> usize {
                self.0 as usize
            }
        }

        impl $crate::coded::Coded for $name {
            fn write(&self, to: &mut $crate::coded::Writer) {
                self.0.write(to);
            }

            fn read(from: &mut $crate::coded::Reader) -> Result<Self, $crate::coded::Error> {
                u32::read(from).map($name)
            }
        }
    )+};
}
pub(super) use row;

#[derive(Clone, Debug)]
enum Slot<T> {
    Used(T),
    /// The next free row.
    Free(Option<usize>),
}

/// Rows of one kind.
#[derive(Clone, Debug)]
pub(super) struct Table<K, T> {
    slots: CowVec<Slot<T>, 16>,
    free: Option<usize>,
    key: PhantomData<K>,
}

impl<K, T> Default for Table<K, T> {
    fn default() -> Self {
        Table { slots: CowVec::default(), free: None, key: PhantomData }
    }
}

impl<K: Row, T: Clone> Table<K, T> {
    /// Adds a row; the row that became free last is used first.
    pub fn add(&mut self, row: T) -> K {
        let Some(at) = self.free else {
            return K::new(self.slots.push(Slot::Used(row)));
        };
        if let Slot::Free(next) = self.slots[at] {
            self.free = next;
        }
        self.slots[at] = Slot::Used(row);
        K::new(at)
    }

    /// Takes a row out.
    pub fn take(&mut self, key: K) -> Option<T> {
        self.get(key)?;
        let slot = std::mem::replace(&mut self.slots[key.at()], Slot::Free(self.free));
        self.free = Some(key.at());
        match slot {
            Slot::Used(row) => Some(row),
            Slot::Free(_) => None,
        }
    }

    /// The chain of free rows leads to free rows only, and ends.
    pub fn is_whole(&self) -> bool {
        let (mut next, mut left) = (self.free, self.slots.len());
        while let Some(at) = next {
            match self.slots.get(at) {
                Some(Slot::Free(after)) if left > 0 => (next, left) = (*after, left - 1),
                _ => return false,
            }
        }
        true
    }

    /// A row, `None` where it is free.
    pub fn get(&self, key: K) -> Option<&T> {
        match self.slots.get(key.at())? {
            Slot::Used(row) => Some(row),
            Slot::Free(_) => None,
        }
    }

    /// All rows in use, by number.
    pub fn iter(&self) -> impl Iterator<Item = (K, &T)> + '_ {
        self.slots.iter().enumerate().filter_map(|(at, slot)| match slot {
            Slot::Used(row) => Some((K::new(at), row)),
            Slot::Free(_) => None,
        })
    }
}

impl<K: Row, T: Clone> Index<K> for Table<K, T> {
    type Output = T;

    fn index(&self, key: K) -> &T {
        match &self.slots[key.at()] {
            Slot::Used(row) => row,
            // As an index out of bounds: only a handle kept beyond its end gets here, and the books are wrong then.
            Slot::Free(_) => panic!("row {} is free", key.at()),
        }
    }
}

impl<K: Row, T: Clone> IndexMut<K> for Table<K, T> {
    fn index_mut(&mut self, key: K) -> &mut T {
        match &mut self.slots[key.at()] {
            Slot::Used(row) => row,
            // See `index`.
            Slot::Free(_) => panic!("row {} is free", key.at()),
        }
    }
}

/// A row, or the number of the next free one.
impl<T: Coded> Coded for Slot<T> {
    fn write(&self, to: &mut Writer) {
        to.array(2);
        match self {
            Slot::Used(row) => {
                to.bool(true);
                row.write(to);
            }
            Slot::Free(next) => {
                to.bool(false);
                next.write(to);
            }
        }
    }

    fn read(from: &mut Reader) -> Result<Self, Error> {
        if from.array()? != 2 {
            return Err(from.fail("a row of users has two values"));
        }
        Ok(if from.bool()? { Slot::Used(T::read(from)?) } else { Slot::Free(Option::read(from)?) })
    }
}

impl<K, T: Coded + Clone> Coded for Table<K, T> {
    fn write(&self, to: &mut Writer) {
        to.array(2);
        self.slots.write(to);
        self.free.write(to);
    }

    fn read(from: &mut Reader) -> Result<Self, Error> {
        let (slots, free) = Coded::read(from)?;
        Ok(Table { slots, free, key: PhantomData })
    }
}
