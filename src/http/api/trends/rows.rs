//! A sample of one partition. It has so many subjects, bytes of names and values at most, while it is made, too: there may be as
//! many users in each queue of a long path as there are applications. Queues come first, then users and groups, both from the
//! root down, and of one level those that use most.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
};

use super::series::{Key, Subject};

/// Subjects of a partition.
pub const SUBJECTS: usize = 20_000;
/// Bytes of the names in them.
pub const BYTES: usize = 8 << 20;
/// Values of all of them.
pub const VALUES: usize = 200_000;
/// Values of one of them.
const WIDTH: usize = 256;

/// The values of a subject.
pub type Row = BTreeMap<Key, i64>;

/// The lowest come first: of people, levels below the root, what is used, of all there is.
type Rank = (bool, usize, Reverse<u64>, Subject);

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct Rows {
    rows: BTreeMap<Subject, Row>,
    ranks: BTreeSet<Rank>,
    bytes: usize,
    values: usize,
    /// The first of those that are left out.
    out: Option<Rank>,
    /// One has more values than there is room for.
    cut: bool,
}

impl Rows {
    /// Adds to a value of a subject, which uses this share.
    pub fn add(&mut self, subject: &Subject, share: u64, key: Key, value: i64) {
        if self.is_out(subject, share) {
            return;
        }
        let row = self.rows.entry(subject.clone()).or_insert_with(|| {
            self.ranks.insert(rank(subject, share));
            self.bytes += bytes(subject, []);
            Row::new()
        });
        if let Some(sum) = row.get_mut(&key) {
            *sum = sum.saturating_add(value);
        } else if row.len() < WIDTH {
            self.bytes += key.1.len();
            row.insert(key, value);
            self.values += 1;
        } else {
            self.cut = true;
        }
        while self.rows.len() > SUBJECTS || self.bytes > BYTES || self.values > VALUES {
            let Some(last) = self.ranks.pop_last() else { return };
            let row = self.rows.remove(&last.3).unwrap_or_default();
            self.bytes -= bytes(&last.3, row.keys());
            self.values -= row.len();
            self.out = Some(last);
        }
    }

    /// There is no room for it, nor for what comes behind it.
    pub fn is_out(&self, subject: &Subject, share: u64) -> bool {
        self.out.as_ref().is_some_and(|out| rank(subject, share) >= *out)
    }

    /// There is a row of it.
    pub fn has(&self, subject: &Subject) -> bool {
        self.rows.contains_key(subject)
    }

    /// Something is left out.
    pub fn is_too_much(&self) -> bool {
        self.out.is_some() || self.cut
    }

    /// Those that are not left out.
    pub fn rows(self) -> BTreeMap<Subject, Row> {
        self.rows
    }
}

/// Bytes of the names of a row, as if nobody else had them.
pub fn bytes<'a>(subject: &Subject, keys: impl IntoIterator<Item = &'a Key>) -> usize {
    let own = match subject {
        Subject::Queue(queue) => queue.len(),
        Subject::User(name, queue) | Subject::Group(name, queue) => name.len() + queue.len(),
    };
    keys.into_iter().fold(own, |sum, (_, name)| sum + name.len())
}

fn rank(subject: &Subject, share: u64) -> Rank {
    let (is_person, queue) = match subject {
        Subject::Queue(queue) => (false, queue),
        Subject::User(_, queue) | Subject::Group(_, queue) => (true, queue),
    };
    (is_person, queue.matches('.').count(), Reverse(share), subject.clone())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::http::api::trends::series::Measure;

    #[test]
    fn those_who_use_most_are_kept_within_bounds_from_the_root_down() {
        let (mut rows, memory): (Rows, Arc<str>) = (Rows::default(), "memory".into());
        let mut paths: Vec<Arc<str>> = vec!["root".into()];
        for level in 0..62 {
            paths.push(format!("{}.{level}{}", paths[level], "q".repeat(60)).into());
        }
        let user = |at: u64, level: usize| Subject::User(format!("user{at}").into(), paths[level].clone());
        for path in &paths {
            rows.add(&Subject::Queue(path.clone()), 0, (Measure::Used, memory.clone()), 1);
        }
        // Twice, as usage and what is pending are told one after the other.
        for _ in 0..2 {
            for at in 0..1_000 {
                for level in 0..paths.len() {
                    rows.add(&user(at, level), at, (Measure::Used, memory.clone()), 1);
                }
            }
        }
        assert!(rows.bytes <= BYTES && rows.ranks.len() == rows.rows.len() && rows.rows.len() > 5_000);
        assert!(rows.is_too_much());
        let rows = rows.rows();
        assert!(paths.iter().all(|path| rows.contains_key(&Subject::Queue(path.clone()))));
        assert!((0..1_000).all(|at| rows[&user(at, 0)][&(Measure::Used, memory.clone())] == 2));
        let deepest = (0..paths.len()).rev().find(|level| rows.contains_key(&user(999, *level))).unwrap();
        assert!(deepest > 3 && !rows.contains_key(&user(0, deepest)) && !rows.contains_key(&user(999, 62)));
        // Values count, too, of one subject as of all.
        let mut wide = Rows::default();
        for (at, kind) in (0..2_000).flat_map(|at| (0..300).map(move |kind| (at, kind))) {
            wide.add(&user(at, 0), at, (Measure::Used, format!("kind{kind}").into()), 1);
        }
        assert!(wide.is_too_much());
        let lengths: Vec<usize> = wide.rows().values().map(Row::len).collect();
        assert!(lengths.iter().all(|length| *length <= WIDTH) && lengths.iter().sum::<usize>() <= VALUES);
    }
}
