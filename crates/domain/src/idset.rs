//! Sets of execution target ranks in the notation of RFC 22, such as `0-3,7`.
//!
//! A set is kept as its ranges, so `0-2147483647` costs as much as `5`.

use std::fmt;

/// The largest id that a set can hold.
pub const MAX_ID: u32 = i32::MAX as u32;

/// A set of ids from 0 to [`MAX_ID`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct IdSet {
    /// Inclusive, ascending, with at least one id missing between two of them.
    ranges: Vec<(u32, u32)>,
}

/// Why a text is no id set: position in characters from 1, and what is wrong there.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("idset '{text}': character {position}: {what}")]
pub struct Error {
    /// The text.
    pub text: String,
    /// Position of the fault, from 1.
    pub position: usize,
    /// What is wrong.
    pub what: String,
}

impl IdSet {
    /// The empty set.
    pub fn new() -> IdSet {
        IdSet::default()
    }

    /// `0` up to `count - 1`, cut at [`MAX_ID`].
    pub fn first(count: u32) -> IdSet {
        let ranges = if count == 0 { Vec::new() } else { vec![(0, (count - 1).min(MAX_ID))] };
        IdSet { ranges }
    }

    /// Reads the notation of RFC 22: ascending ids and ranges `lo-hi` with `hi > lo`, at most one pair of brackets around all.
    ///
    /// # Errors
    /// What is wrong, and where: an id that is not decimal, has a leading zero, is above [`MAX_ID`] or does not ascend;
    /// an empty element; a range that does not ascend; brackets that are not one pair around the whole.
    pub fn parse(text: &str) -> Result<IdSet, Error> {
        let fail = |byte: usize, what: String| Error {
            text: text.to_owned(),
            position: text.get(..byte).map_or(byte, |before| before.chars().count()) + 1,
            what,
        };
        let (inner, offset) = match (text.strip_prefix('['), text.strip_suffix(']')) {
            (None, None) => (text, 0),
            (Some(_), Some(_)) if text.len() > 1 => (&text[1..text.len() - 1], 1),
            (Some(_), _) => return Err(fail(0, "'[' is not closed at the end".to_owned())),
            (None, Some(_)) => return Err(fail(text.len() - 1, "']' without '[' at the beginning".to_owned())),
        };
        if let Some(at) = inner.find(['[', ']']) {
            return Err(fail(offset + at, "brackets may only surround the whole set, once".to_owned()));
        }
        let mut set = IdSet::new();
        if inner.is_empty() {
            return Ok(set);
        }
        let mut at = offset;
        for element in inner.split(',') {
            let (low, high) = match element.split_once('-') {
                None => {
                    let id = parse_id(element).map_err(|what| fail(at, what))?;
                    (id, id)
                }
                Some((low, high)) => {
                    let first = parse_id(low).map_err(|what| fail(at, what))?;
                    let last = parse_id(high).map_err(|what| fail(at + low.len() + 1, what))?;
                    if last <= first {
                        return Err(fail(at, format!("range '{element}' does not ascend")));
                    }
                    (first, last)
                }
            };
            if set.ranges.last().is_some_and(|(_, last)| low <= *last) {
                return Err(fail(at, format!("'{element}' is out of order: ids must ascend")));
            }
            set.append(low, high);
            at += element.len() + 1;
        }
        Ok(set)
    }

    /// Adds a range behind the last one.
    fn append(&mut self, low: u32, high: u32) {
        match self.ranges.last_mut() {
            Some((_, last)) if *last + 1 == low => *last = high,
            _ => self.ranges.push((low, high)),
        }
    }

    /// Adds an id; one above [`MAX_ID`] is left out. Cheapest in ascending order.
    pub fn insert(&mut self, id: u32) {
        if id > MAX_ID {
            return;
        }
        let at = self.ranges.partition_point(|(_, last)| *last < id);
        if self.ranges.get(at).is_some_and(|(first, _)| *first <= id) {
            return;
        }
        let joins_left = at > 0 && self.ranges[at - 1].1 + 1 == id;
        let joins_right = self.ranges.get(at).is_some_and(|(first, _)| id + 1 == *first);
        match (joins_left, joins_right) {
            (true, true) => {
                self.ranges[at - 1].1 = self.ranges[at].1;
                self.ranges.remove(at);
            }
            (true, false) => self.ranges[at - 1].1 = id,
            (false, true) => self.ranges[at].0 = id,
            (false, false) => self.ranges.insert(at, (id, id)),
        }
    }

    /// It holds the id.
    pub fn contains(&self, id: u32) -> bool {
        let at = self.ranges.partition_point(|(_, last)| *last < id);
        self.ranges.get(at).is_some_and(|(first, _)| *first <= id)
    }

    /// Number of ids.
    pub fn len(&self) -> u64 {
        self.ranges.iter().map(|(first, last)| u64::from(last - first) + 1).sum()
    }

    /// No ids.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// The largest id.
    pub fn last(&self) -> Option<u32> {
        self.ranges.last().map(|(_, last)| *last)
    }

    /// All ids, ascending. Lazy: a huge set is no reason not to look at its first ids.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.ranges.iter().flat_map(|(first, last)| *first..=*last)
    }

    /// What is in either.
    pub fn union(&self, other: &IdSet) -> IdSet {
        let mut all: Vec<_> = self.ranges.iter().chain(&other.ranges).copied().collect();
        all.sort_unstable();
        let mut set = IdSet::new();
        for (first, last) in all {
            match set.ranges.last_mut() {
                Some((_, end)) if first <= end.saturating_add(1) => *end = last.max(*end),
                _ => set.ranges.push((first, last)),
            }
        }
        set
    }

    /// What is in both.
    pub fn intersection(&self, other: &IdSet) -> IdSet {
        let (mut here, mut there) = (self.ranges.iter().peekable(), other.ranges.iter().peekable());
        let mut set = IdSet::new();
        while let (Some((a_first, a_last)), Some((b_first, b_last))) = (here.peek(), there.peek()) {
            let (first, last) = ((*a_first).max(*b_first), (*a_last).min(*b_last));
            if first <= last {
                set.append(first, last);
            }
            if a_last < b_last {
                here.next();
            } else {
                there.next();
            }
        }
        set
    }

    /// What is in this one and not in the other.
    pub fn difference(&self, other: &IdSet) -> IdSet {
        let mut set = IdSet::new();
        for (first, last) in &self.ranges {
            let mut from = *first;
            let mut done = false;
            let behind = other.ranges.partition_point(|(_, cut_last)| cut_last < first);
            for (cut_first, cut_last) in &other.ranges[behind..] {
                if cut_first > last {
                    break;
                }
                if *cut_first > from {
                    set.append(from, cut_first - 1);
                }
                from = cut_last + 1;
                if from > *last {
                    done = true;
                    break;
                }
            }
            if !done {
                set.append(from, *last);
            }
        }
        set
    }
}

fn parse_id(text: &str) -> Result<u32, String> {
    if text.is_empty() {
        return Err("an id is missing".to_owned());
    }
    if !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(format!("'{text}' is not a decimal number"));
    }
    if text.len() > 1 && text.starts_with('0') {
        return Err(format!("'{text}' has a leading zero"));
    }
    text.parse::<u32>()
        .ok()
        .filter(|id| *id <= MAX_ID)
        .ok_or_else(|| format!("'{text}' is above the largest id, {MAX_ID}"))
}

impl fmt::Display for IdSet {
    /// The canonical form: ascending, ranges for two or more neighbours, no brackets, empty for the empty set.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (first, last)) in self.ranges.iter().enumerate() {
            let comma = if at == 0 { "" } else { "," };
            if first == last {
                write!(f, "{comma}{first}")?;
            } else {
                write!(f, "{comma}{first}-{last}")?;
            }
        }
        Ok(())
    }
}

impl FromIterator<u32> for IdSet {
    fn from_iter<I: IntoIterator<Item = u32>>(ids: I) -> IdSet {
        let mut set = IdSet::new();
        for id in ids {
            set.insert(id);
        }
        set
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_fault_is_named_with_its_position() {
        // RFC 22
        for (text, position, what) in [
            ("1,1", 3, "'1' is out of order: ids must ascend"),
            ("0-3,7-", 7, "an id is missing"),
            ("0-4294967295", 3, "'4294967295' is above the largest id, 2147483647"),
            ("4294967296", 1, "'4294967296' is above the largest id, 2147483647"),
            ("1,,2", 3, "an id is missing"),
            ("01", 1, "'01' has a leading zero"),
            ("5-3", 1, "range '5-3' does not ascend"),
            ("[1", 1, "'[' is not closed at the end"),
            ("1]", 2, "']' without '[' at the beginning"),
            ("[1],2", 1, "'[' is not closed at the end"),
            ("[0],[1]", 3, "brackets may only surround the whole set, once"),
            ("1,ä", 3, "'ä' is not a decimal number"),
        ] {
            let error = IdSet::parse(text).unwrap_err();
            assert_eq!((error.position, error.what.as_str()), (position, what), "{text}");
        }
    }

    #[test]
    fn huge_ranges_cost_nothing() {
        let all = IdSet::parse("0-2147483647").unwrap();
        assert_eq!(all.len(), 1 << 31);
        assert_eq!(all.ranges.len(), 1);
        let some = IdSet::parse("5,7-9").unwrap();
        assert_eq!(all.difference(&some).to_string(), "0-4,6,10-2147483647");
        assert_eq!(all.intersection(&some), some);
        assert_eq!(all.union(&some), all);
        assert!(some.difference(&all).is_empty());
        assert_eq!(all.iter().take(3).collect::<Vec<_>>(), [0, 1, 2]);
        let mut last = IdSet::new();
        last.insert(MAX_ID);
        last.insert(MAX_ID + 1);
        assert_eq!(last.to_string(), "2147483647");
        assert!(last.contains(MAX_ID) && !last.contains(MAX_ID + 1));
    }

    fn of(ids: &BTreeSet<u32>) -> IdSet {
        ids.iter().copied().collect()
    }

    proptest! {
        #[test]
        fn what_is_written_reads_back(ids in prop::collection::btree_set(0_u32..200, 0..60)) {
            let set = of(&ids);
            prop_assert_eq!(IdSet::parse(&set.to_string()).unwrap(), set.clone());
            prop_assert_eq!(set.iter().collect::<BTreeSet<_>>(), ids.clone());
            prop_assert_eq!(set.len(), ids.len() as u64);
        }

        #[test]
        fn insertion_order_does_not_matter(ids in prop::collection::vec(0_u32..100, 0..60)) {
            let set: IdSet = ids.iter().copied().collect();
            prop_assert_eq!(set, of(&ids.iter().copied().collect()));
        }

        #[test]
        fn set_operations_are_those_of_sets(
            a in prop::collection::btree_set(0_u32..100, 0..50),
            b in prop::collection::btree_set(0_u32..100, 0..50),
        ) {
            let (x, y) = (of(&a), of(&b));
            prop_assert_eq!(x.union(&y), of(&a.union(&b).copied().collect()));
            prop_assert_eq!(x.intersection(&y), of(&a.intersection(&b).copied().collect()));
            prop_assert_eq!(x.difference(&y), of(&a.difference(&b).copied().collect()));
        }

        #[test]
        fn any_text_is_read_or_refused(text in "[0-9,\\-\\[\\]a ]{0,24}|.{0,12}") {
            if let Ok(set) = IdSet::parse(&text) {
                prop_assert_eq!(IdSet::parse(&set.to_string()).unwrap(), set);
            }
        }
    }
}
