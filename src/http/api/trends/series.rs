//! Amounts over time: only changes are kept, so that what rests costs nothing.

use std::{
    collections::{BTreeMap, VecDeque},
    mem::take,
    sync::{Arc, Mutex, PoisonError},
};

use super::rows::{BYTES, Rows, SUBJECTS, VALUES, bytes};
use crate::domain::types::Nanos;

/// Changes that are kept, of everything together, beside the last one of each value: 24 bytes each.
const MOST: usize = 1_000_000;
/// And for how long.
const KEEP: Nanos = Nanos::from_secs(7 * 86_400);
/// For how long those of a partition that went: its resource manager may only register again.
const GONE: Nanos = Nanos::from_secs(60);

/// What is sampled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Measure {
    /// Amounts of resources that are allocated.
    Used,
    /// Amounts that wait.
    Pending,
    /// Amounts that a queue is guaranteed.
    Guaranteed,
    /// Amounts that a queue, user or group may have at most.
    Max,
    /// Asks that wait, by the code of their reason.
    Waiting,
}

impl Measure {
    /// Nothing of it is zero of it; else there is none.
    fn is_amount(self) -> bool {
        matches!(self, Measure::Used | Measure::Pending | Measure::Waiting)
    }
}

/// Whose usage is sampled.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Subject {
    /// A queue and those below it.
    Queue(Arc<str>),
    /// A user in a queue and those below it.
    User(Arc<str>, Arc<str>),
    /// A group in a queue and those below it.
    Group(Arc<str>, Arc<str>),
}

/// A measure of a resource type, or of a reason.
pub type Key = (Measure, Arc<str>);

/// Everything at one moment, by the internal name of the partition: the one that is shown may be given to another.
pub type Sample = BTreeMap<Arc<str>, Rows>;

/// Values in steps; `None` where it is not known, or where there is none.
pub type Steps = BTreeMap<Key, Vec<Option<i64>>>;

/// The changes of one value, oldest first.
type Series = VecDeque<(Nanos, Option<i64>)>;

/// What is read of a subject.
#[derive(Debug, Default)]
pub struct Told {
    /// From when on samples are known.
    pub since: Option<Nanos>,
    /// There are more subjects than have samples.
    pub left_out: bool,
    /// Of amounts the highest, of limits the last.
    pub steps: Steps,
}

/// What was sampled since the start of the server.
#[derive(Debug, Default)]
pub struct Trends(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept(BTreeMap<Arc<str>, Part>);

/// What is kept of a partition.
#[derive(Debug, Default)]
struct Part {
    rows: BTreeMap<Subject, BTreeMap<Key, Series>>,
    /// From when on everything is known.
    since: Nanos,
    /// Since when it is not there.
    gone: Option<Nanos>,
    left_out: bool,
    /// What its rows have, counted when a sample was taken.
    size: Size,
}

#[derive(Clone, Copy, Debug, Default)]
struct Size {
    subjects: usize,
    bytes: usize,
    values: usize,
    /// Beside the last one of each value.
    changes: usize,
}

impl Size {
    fn add(&mut self, other: Size) {
        self.subjects += other.subjects;
        self.bytes += other.bytes;
        self.values += other.values;
        self.changes += other.changes;
    }

    fn sub(&mut self, other: Size) {
        self.subjects -= other.subjects;
        self.bytes -= other.bytes;
        self.values -= other.values;
        self.changes -= other.changes;
    }

    /// More than a sample of one partition may have.
    fn is_too_much(&self) -> bool {
        self.subjects > SUBJECTS || self.bytes > BYTES || self.values > VALUES
    }

    fn of(subject: &Subject, row: &BTreeMap<Key, Series>) -> Size {
        let changes = row.values().map(|series| series.len().saturating_sub(1)).sum();
        Size { subjects: 1, bytes: bytes(subject, row.keys()), values: row.len(), changes }
    }
}

impl Trends {
    /// Takes a sample; what is not in it is not there any more.
    pub fn take(&self, sample: Sample, at: Nanos) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.take(sample, at);
        kept.forget(MOST, at);
    }

    /// The values of a subject in the steps that begin and end at these times.
    pub fn read(&self, partition: &str, subject: &Subject, times: &[Nanos]) -> Told {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(part) = kept.0.get(partition) else { return Told::default() };
        let row = part.rows.get(subject).into_iter().flatten();
        let steps = row.map(|(key, series)| (key.clone(), steps(key.0, series, times, part.since))).collect();
        Told { since: Some(part.since), left_out: part.left_out, steps }
    }
}

impl Kept {
    fn take(&mut self, mut sample: Sample, at: Nanos) {
        for (name, part) in &mut self.0 {
            let now = sample.remove(name);
            part.gone = if now.is_some() { None } else { part.gone.or(Some(at)) };
            part.take(now.unwrap_or_default(), at);
        }
        for (name, now) in sample {
            let mut part = Part { since: at, ..Part::default() };
            part.take(now, at);
            self.0.insert(name, part);
        }
    }

    /// Forgets what is old, and more where there is too much: of those that have most of it, so that nobody else loses anything.
    fn forget(&mut self, most: usize, now: Nanos) {
        self.0.retain(|_, part| part.gone.is_none_or(|gone| now.minus(gone) < GONE));
        let changes: usize = self.0.values().map(|part| part.size.changes).sum();
        let share = if changes > most { most / self.0.len() } else { usize::MAX };
        for part in self.0.values_mut() {
            let mut since = part.since.max(now.minus(KEEP));
            if part.size.changes > share {
                since = since.plus(Nanos(now.minus(since).0 / 4 + 1));
            }
            part.forget(since);
        }
    }
}

impl Part {
    fn take(&mut self, sample: Rows, at: Nanos) {
        self.set_back(at);
        self.left_out = sample.is_too_much();
        // Nothing is known of what may be left out: that would be taken for nothing.
        self.rows.retain(|subject, _| sample.has(subject) || !sample.is_out(subject, 0));
        let mut now = sample.rows();
        for (subject, row) in &mut self.rows {
            let mut now = now.remove(subject).unwrap_or_default();
            for (key, series) in row.iter_mut() {
                let value = now.remove(key);
                if series.back().is_none_or(|(_, last)| *last != value) {
                    series.push_back((at, value));
                }
            }
            row.extend(now.into_iter().map(|(key, value)| (key, Series::from([(at, Some(value))]))));
        }
        for (subject, now) in now {
            let row = now.into_iter().map(|(key, value)| (key, Series::from([(at, Some(value))]))).collect();
            self.rows.insert(subject, row);
        }
        self.count();
        self.leave_room();
    }

    /// What was sampled at times to come, before the clock was set back, would hide all that is until then.
    fn set_back(&mut self, at: Nanos) {
        self.since = self.since.min(at);
        for series in self.rows.values_mut().flat_map(BTreeMap::values_mut) {
            while series.back().is_some_and(|(last, _)| *last > at) {
                series.pop_back();
            }
        }
    }

    fn count(&mut self) {
        self.size = Size::default();
        for (subject, row) in &self.rows {
            self.size.add(Size::of(subject, row));
        }
    }

    /// What went makes room for what is there; what went first goes first.
    fn leave_room(&mut self) {
        if !self.size.is_too_much() {
            return;
        }
        let mut gone: Vec<(Nanos, Subject, Key)> = Vec::new();
        for (subject, row) in &self.rows {
            let last = row.iter().filter_map(|(key, series)| Some((key, series.back()?)));
            let went = last.filter(|(_, (_, value))| value.is_none());
            gone.extend(went.map(|(key, (at, _))| (*at, subject.clone(), key.clone())));
        }
        gone.sort_unstable();
        for (_, subject, key) in gone {
            if !self.size.is_too_much() {
                return;
            }
            let Some(row) = self.rows.get_mut(&subject) else { continue };
            self.size.sub(Size::of(&subject, row));
            row.remove(&key);
            if row.is_empty() {
                self.rows.remove(&subject);
            } else {
                self.size.add(Size::of(&subject, row));
            }
        }
    }

    /// Forgets what was before.
    fn forget(&mut self, since: Nanos) {
        if self.since == since {
            return;
        }
        self.since = since;
        for (subject, mut row) in take(&mut self.rows) {
            for series in row.values_mut() {
                // The last change before stays: it is the value from then on.
                while series.get(1).is_some_and(|(at, _)| *at <= since) {
                    series.pop_front();
                }
            }
            row.retain(|_, series| series.len() > 1 || series.front().is_some_and(|(_, value)| value.is_some()));
            if !row.is_empty() {
                self.rows.insert(subject, row);
            }
        }
        self.count();
    }
}

fn steps(measure: Measure, series: &Series, times: &[Nanos], since: Nanos) -> Vec<Option<i64>> {
    let mut points = series.iter().peekable();
    let mut present = None;
    times
        .windows(2)
        .map(|step| {
            while let Some((_, value)) = points.next_if(|(at, _)| *at <= step[0]) {
                present = *value;
            }
            let mut highest = present;
            while let Some((_, value)) = points.next_if(|(at, _)| *at <= step[1]) {
                present = *value;
                highest = highest.max(present);
            }
            let known = since <= step[1];
            let value = if measure.is_amount() { Some(highest.unwrap_or(0)) } else { present };
            value.filter(|_| known)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Nanos {
        Nanos::from_secs(seconds)
    }

    /// A sample with this queue of each of these partitions.
    fn sample(names: &[&str], queue: &str, amounts: &[(Measure, i64)]) -> Sample {
        let mut rows = Rows::default();
        for (measure, value) in amounts {
            rows.add(&Subject::Queue(queue.into()), 0, (*measure, "memory".into()), *value);
        }
        names.iter().map(|name| ((*name).into(), rows.clone())).collect()
    }

    fn queue(amounts: &[(Measure, i64)]) -> Sample {
        sample(&["default"], "root", amounts)
    }

    fn read(trends: &Trends, measure: Measure, times: &[i64]) -> Vec<Option<i64>> {
        let times: Vec<Nanos> = times.iter().map(|seconds| at(*seconds)).collect();
        let mut told = trends.read("default", &Subject::Queue("root".into()), &times);
        told.steps.remove(&(measure, "memory".into())).unwrap_or_default()
    }

    #[test]
    fn amounts_are_told_by_their_highest_and_limits_by_their_last() {
        let trends = Trends::default();
        trends.take(queue(&[(Measure::Pending, 5), (Measure::Max, 10)]), at(100));
        trends.take(queue(&[(Measure::Pending, 9), (Measure::Max, 10)]), at(110));
        trends.take(queue(&[(Measure::Max, 7)]), at(120));
        trends.take(queue(&[]), at(140));
        let times = [80, 90, 100, 130, 150, 160];
        // Nothing waits, that is zero; without a limit there is none; before the first sample nothing is known.
        assert_eq!(read(&trends, Measure::Pending, &times), [None, Some(5), Some(9), Some(0), Some(0)]);
        assert_eq!(read(&trends, Measure::Max, &times), [None, Some(10), Some(7), None, None]);
        assert_eq!(trends.read("other", &Subject::Queue("root".into()), &[at(0), at(1)]).steps, Steps::new());
    }

    #[test]
    fn a_clock_that_was_ahead_hides_nothing_when_it_is_set_back() {
        let trends = Trends::default();
        let month = 30 * 86_400;
        for (second, used) in [(100, 1), (110, 2), (month, 3), (month + 10, 4), (120, 5), (130, 6)] {
            trends.take(queue(&[(Measure::Used, used)]), at(second));
        }
        assert_eq!(read(&trends, Measure::Used, &[115, 120, 130, 140]), [Some(5), Some(6), Some(6)]);
    }

    #[test]
    fn what_rests_costs_nothing_and_what_is_old_is_forgotten() {
        let trends = Trends::default();
        for second in 0..1_000 {
            trends.take(queue(&[(Measure::Used, second), (Measure::Max, 10)]), at(second));
        }
        let mut kept = trends.0.lock().unwrap();
        assert_eq!(kept.0["default"].size.changes, 999);
        kept.forget(500, at(999));
        let part = kept.0.get_mut("default").unwrap();
        assert!(part.size.changes < 760 && part.since > at(249), "{part:?}");
        part.forget(at(900));
        assert_eq!(part.size.changes, 99);
        kept.take(queue(&[]), at(1_000));
        let part = kept.0.get_mut("default").unwrap();
        part.forget(at(1_001));
        assert!(part.rows.is_empty() && part.size.values == 0);
    }

    #[test]
    fn a_partition_with_too_much_loses_nothing_of_the_others() {
        let mut kept = Kept::default();
        for second in 0..100 {
            let mut both = sample(&["small", "large"], "root", &[(Measure::Used, 1)]);
            both.extend(sample(&["large"], "root", &[(Measure::Used, second)]));
            kept.take(both, at(second));
        }
        kept.forget(50, at(99));
        assert_eq!(kept.0["small"].since, at(0));
        assert!(kept.0["large"].since > at(20) && kept.0["large"].size.changes < 80);
        // Values that stay as they are, however many, do not count: nothing would be won.
        let (since, small) = (kept.0["large"].since, kept.0["large"].size.changes + 1);
        kept.forget(small, at(99));
        assert_eq!(kept.0["large"].since, since);
    }

    #[test]
    fn what_went_makes_room_for_what_is_there() {
        let trends = Trends::default();
        let name = |second: i64| format!("root.{second}{}", "x".repeat(BYTES / 10));
        for second in 0..50 {
            trends.take(sample(&["default"], &name(second), &[(Measure::Used, 1)]), at(second));
        }
        let steps = |second: i64| trends.read("default", &Subject::Queue(name(second).into()), &[at(0), at(1)]).steps;
        assert!(steps(0).is_empty() && !steps(49).is_empty() && !steps(45).is_empty());
        let mut kept = trends.0.lock().unwrap();
        assert!(!kept.0["default"].size.is_too_much() && kept.0["default"].rows.len() < 10);
        // Of a queue that stays, too: resource types whose names never repeat.
        for second in 50..100 {
            let mut rows = Rows::default();
            for kind in 0..200 {
                let kind = format!("{second}-{kind}{}", "x".repeat(BYTES / 1_000)).into();
                rows.add(&Subject::Queue("root".into()), 0, (Measure::Pending, kind), 1);
            }
            kept.take([("default".into(), rows)].into(), at(second));
        }
        let part = &kept.0["default"];
        assert!(!part.size.is_too_much() && part.rows[&Subject::Queue("root".into())].len() < 1_000);
    }

    #[test]
    fn what_a_partition_had_goes_with_it() {
        let trends = Trends::default();
        let kept = || trends.0.lock().unwrap().0.keys().map(ToString::to_string).collect::<Vec<_>>();
        let one = |names: &[&str]| sample(names, "root", &[(Measure::Used, 1)]);
        trends.take(one(&["[a]default", "[b]default"]), at(0));
        trends.take(one(&["[b]default"]), at(10));
        // It registers again.
        trends.take(one(&["[a]default", "[b]default"]), at(60));
        trends.take(one(&["[b]default"]), at(100));
        trends.take(one(&["[b]default"]), at(159));
        assert_eq!(kept(), ["[a]default", "[b]default"]);
        trends.take(one(&["[b]default"]), at(160));
        assert_eq!(kept(), ["[b]default"]);
    }
}
