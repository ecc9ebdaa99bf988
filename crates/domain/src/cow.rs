//! `CowVec`: a table whose clone costs one reference per chunk; a chunk is copied when it is first written afterwards.
//!
//! Snapshots for readers, dry runs and trials start with a clone of the partition, so its tables are built for that.

use std::ops::{Index, IndexMut};

use arrayvec::ArrayVec;
use triomphe::Arc;

/// How often rows were looked at: debug builds count it, so that tests of what something costs need no clock.
#[cfg(debug_assertions)]
pub mod looks {
    use std::cell::Cell;

    thread_local! {
        static LOOKS: Cell<u64> = const { Cell::new(0) };
    }

    /// Looks of this thread so far.
    pub fn count() -> u64 {
        LOOKS.get()
    }

    pub(super) fn one_more() {
        LOOKS.set(LOOKS.get() + 1);
    }
}

/// A growing table in chunks of `N` rows.
#[derive(Debug)]
pub struct CowVec<T, const N: usize = 64> {
    chunks: Vec<Arc<ArrayVec<T, N>>>,
    len: usize,
}

impl<T, const N: usize> Clone for CowVec<T, N> {
    fn clone(&self) -> Self {
        CowVec { chunks: self.chunks.clone(), len: self.len }
    }
}

impl<T, const N: usize> Default for CowVec<T, N> {
    fn default() -> Self {
        CowVec { chunks: Vec::new(), len: 0 }
    }
}

impl<T: Clone, const N: usize> CowVec<T, N> {
    /// Number of rows, free ones included.
    pub fn len(&self) -> usize {
        self.len
    }

    /// No rows.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Adds a row at the end and gives its position.
    pub fn push(&mut self, row: T) -> usize {
        if self.len.is_multiple_of(N) {
            self.chunks.push(Arc::new(ArrayVec::new()));
        }
        if let Some(last) = self.chunks.last_mut() {
            own(last).push(row);
        }
        self.len += 1;
        self.len - 1
    }

    /// A row.
    pub fn get(&self, at: usize) -> Option<&T> {
        #[cfg(debug_assertions)]
        looks::one_more();
        self.chunks.get(at / N)?.get(at % N)
    }

    /// All rows, free ones included.
    pub fn iter(&self) -> impl Iterator<Item = &T> + '_ {
        self.chunks.iter().flat_map(|chunk| chunk.iter())
    }
}

impl<T: Clone, const N: usize> Index<usize> for CowVec<T, N> {
    type Output = T;

    fn index(&self, at: usize) -> &T {
        #[cfg(debug_assertions)]
        looks::one_more();
        &self.chunks[at / N][at % N]
    }
}

impl<T: Clone, const N: usize> IndexMut<usize> for CowVec<T, N> {
    fn index_mut(&mut self, at: usize) -> &mut T {
        #[cfg(debug_assertions)]
        looks::one_more();
        &mut own(&mut self.chunks[at / N])[at % N]
    }
}

/// A chunk to write. Nearly always nobody shares it, and an allocation writes rows a hundred times: that look is all that is done in place.
#[inline]
fn own<T: Clone, const N: usize>(chunk: &mut Arc<ArrayVec<T, N>>) -> &mut ArrayVec<T, N> {
    if !chunk.is_unique() {
        copy(chunk);
    }
    match Arc::get_mut(chunk) {
        Some(chunk) => chunk,
        None => unreachable!("it is nobody else's"),
    }
}

#[cold]
#[inline(never)]
fn copy<T: Clone, const N: usize>(chunk: &mut Arc<ArrayVec<T, N>>) {
    *chunk = Arc::new((**chunk).clone());
}
