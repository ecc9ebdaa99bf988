//! `Pages`: where the rows of hashes are, for very many of them.
//!
//! The first bits of a hash choose a page of at most 32 hashes in no order; one that is full becomes two, for one more bit. So a look
//! takes two places in memory however many there are, where a tree takes two for each of its levels, an entry takes a dozen bytes,
//! and a clone one reference for several pages.

use arrayvec::ArrayVec;

use super::{cow::CowVec, types::AllocIx};

const PAGE: usize = 32;

/// The hashes that begin with the same `bits` bits.
#[derive(Clone, Debug, Default)]
struct Page {
    bits: u8,
    hashes: ArrayVec<u32, PAGE>,
    /// Of the same places.
    rows: ArrayVec<AllocIx, PAGE>,
}

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct Pages {
    /// Most bits that a page needs.
    bits: u8,
    /// The page for each beginning of so many bits.
    by_beginning: CowVec<u32, 256>,
    pages: CowVec<Page, 8>,
}

impl Default for Pages {
    fn default() -> Self {
        let mut pages = Pages { bits: 0, by_beginning: CowVec::default(), pages: CowVec::default() };
        pages.by_beginning.push(0);
        pages.pages.push(Page::default());
        pages
    }
}

impl Page {
    fn place(&self, hash: u32) -> Option<usize> {
        self.hashes.iter().position(|one| *one == hash)
    }
}

impl Pages {
    fn beginning(&self, hash: u32) -> usize {
        (u64::from(hash) >> (32 - self.bits)) as usize
    }

    fn page_of(&self, hash: u32) -> usize {
        self.by_beginning[self.beginning(hash)] as usize
    }

    /// The row of a hash.
    pub fn get(&self, hash: u32) -> Option<AllocIx> {
        let page = &self.pages[self.page_of(hash)];
        page.place(hash).map(|place| page.rows[place])
    }

    /// Gives a hash this row, and the caller the one that it had.
    pub fn insert(&mut self, hash: u32, row: AllocIx) -> Option<AllocIx> {
        loop {
            let at = self.page_of(hash);
            let page = &mut self.pages[at];
            if let Some(place) = page.place(hash) {
                return Some(std::mem::replace(&mut page.rows[place], row));
            }
            if !page.hashes.is_full() {
                page.hashes.push(hash);
                page.rows.push(row);
                return None;
            }
            self.divide(at, hash);
        }
    }

    /// A hash goes, and gives the row that it had. Pages stay for those that come, as the places of rows do.
    pub fn remove(&mut self, hash: u32) -> Option<AllocIx> {
        let at = self.page_of(hash);
        let place = self.pages[at].place(hash)?;
        let page = &mut self.pages[at];
        page.hashes.swap_remove(place);
        Some(page.rows.swap_remove(place))
    }

    /// Makes two of a full page, for hashes that begin as this one. All hashes are different, so there is a bit more.
    fn divide(&mut self, at: usize, hash: u32) {
        let bits = self.pages[at].bits;
        if bits == self.bits {
            let mut twice = CowVec::default();
            for page in self.by_beginning.iter() {
                twice.push(*page);
                twice.push(*page);
            }
            self.by_beginning = twice;
            self.bits += 1;
        }
        let page = &mut self.pages[at];
        page.bits += 1;
        let mut other = Page { bits: page.bits, ..Page::default() };
        for place in (0..page.hashes.len()).rev() {
            if page.hashes[place] & (1 << (31 - bits)) != 0 {
                other.hashes.push(page.hashes.swap_remove(place));
                other.rows.push(page.rows.swap_remove(place));
            }
        }
        let new = self.pages.push(other) as u32;
        // Beginnings of its bits and a 1.
        let width = 1 << (self.bits - bits - 1);
        let first = (self.beginning(hash) & !(2 * width - 1)) + width;
        for beginning in first..first + width {
            self.by_beginning[beginning] = new;
        }
    }

    #[cfg(test)]
    pub fn rows(&self) -> impl Iterator<Item = &AllocIx> {
        self.pages.iter().flat_map(|page| &page.rows)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Whatever comes and goes, it is a map, and a clone stays as it was.
        #[test]
        fn it_is_a_map(
            steps in prop::collection::vec((any::<bool>(), any::<u32>()), 0..2_000), shift in 0u32..8, clone_at in 0usize..2_000,
        ) {
            let (mut pages, mut model, mut kept) = (Pages::default(), BTreeMap::new(), None);
            for (at, (comes, hash)) in steps.into_iter().enumerate() {
                // Also where many begin alike.
                let hash = hash.rotate_right(7) >> shift;
                let row = AllocIx(at as u32);
                if comes || at % 3 > 0 {
                    prop_assert_eq!(pages.insert(hash, row), model.insert(hash, row));
                } else {
                    let hash = model.range(hash..).next().map_or(hash, |(hash, _)| *hash);
                    prop_assert_eq!(pages.remove(hash), model.remove(&hash));
                }
                if at == clone_at {
                    kept = Some((pages.clone(), model.clone()));
                }
            }
            for (pages, model) in [(pages, model)].into_iter().chain(kept) {
                prop_assert_eq!(pages.rows().count(), model.len());
                for (hash, row) in &model {
                    prop_assert_eq!(pages.get(*hash), Some(*row));
                    prop_assert_eq!(pages.get(hash ^ 0x55), model.get(&(hash ^ 0x55)).copied());
                }
            }
        }
    }

    /// Pages are two thirds full.
    #[test]
    fn many_take_little_room() {
        let mut pages = Pages::default();
        for n in 0..100_000u32 {
            pages.insert(n.wrapping_mul(0x9e37_79b1).rotate_left(11).wrapping_mul(0x85eb_ca6b), AllocIx(n));
        }
        let size = pages.pages.len() * size_of::<Page>() + pages.by_beginning.len() * size_of::<u32>();
        assert!(size < 100_000 * 16, "{size} bytes");
    }
}
