//! Amounts over time: only changes are kept, so that what rests costs nothing.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Mutex, PoisonError},
};

use crate::domain::types::Nanos;

/// Changes that are kept, of everything together: 24 bytes each, and beside them what each series has of its own.
const MOST: usize = 1_000_000;
/// And for how long.
const KEEP: Nanos = Nanos::from_secs(7 * 86_400);

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
    Queue(String),
    /// A user in a queue and those below it.
    User(String, String),
    /// A group in a queue and those below it.
    Group(String, String),
}

/// A measure of a resource type, or of a reason.
pub type Key = (Measure, String);

/// Everything at one moment, by the partition as shown.
pub type Sample = BTreeMap<(String, Subject), BTreeMap<Key, i64>>;

/// Values in steps; `None` where it is not known, or where there is none.
pub type Steps = BTreeMap<Key, Vec<Option<i64>>>;

/// The changes of one value, oldest first.
type Series = VecDeque<(Nanos, Option<i64>)>;

/// What was sampled since the start of the server.
#[derive(Debug, Default)]
pub struct Trends(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    rows: BTreeMap<(String, Subject), BTreeMap<Key, Series>>,
    /// From when on everything is known; `None` before the first sample.
    since: Option<Nanos>,
    points: usize,
}

impl Trends {
    /// Takes a sample; what is not in it is not there any more.
    pub fn take(&self, sample: Sample, at: Nanos) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.since.get_or_insert(at);
        kept.take(sample, at);
        kept.forget(at.minus(KEEP), MOST, at);
    }

    /// From when on samples are known, and the values of a subject in the steps that begin and end at these times: of
    /// amounts the highest, of limits the last.
    pub fn read(&self, partition: &str, subject: &Subject, times: &[Nanos]) -> (Option<Nanos>, Steps) {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let row = kept.rows.get(&(partition.to_owned(), subject.clone()));
        let steps =
            row.into_iter().flatten().map(|(key, series)| (key.clone(), steps(key.0, series, times, kept.since)));
        (kept.since, steps.collect())
    }
}

impl Kept {
    fn take(&mut self, mut sample: Sample, at: Nanos) {
        for (subject, row) in &mut self.rows {
            let mut now = sample.remove(subject).unwrap_or_default();
            for (key, series) in row.iter_mut() {
                let value = now.remove(key);
                if series.back().is_none_or(|(_, last)| *last != value) {
                    series.push_back((at, value));
                    self.points += 1;
                }
            }
            self.points += now.len();
            row.extend(now.into_iter().map(|(key, value)| (key, Series::from([(at, Some(value))]))));
        }
        for (subject, now) in sample {
            self.points += now.len();
            let row = now.into_iter().map(|(key, value)| (key, Series::from([(at, Some(value))]))).collect();
            self.rows.insert(subject, row);
        }
    }

    /// Forgets what was before `oldest`, and more where there are too many points.
    fn forget(&mut self, oldest: Nanos, most: usize, now: Nanos) {
        let Some(since) = self.since else { return };
        let mut since = since.max(oldest);
        if self.points > most {
            since = since.plus(Nanos(now.minus(since).0 / 4 + 1));
        } else if self.since == Some(since) {
            return;
        }
        self.since = Some(since);
        for row in self.rows.values_mut() {
            for series in row.values_mut() {
                // The last change before stays: it is the value from then on.
                while series.get(1).is_some_and(|(at, _)| *at <= since) {
                    series.pop_front();
                }
            }
            row.retain(|_, series| series.len() > 1 || series.front().is_some_and(|(_, value)| value.is_some()));
        }
        self.rows.retain(|_, row| !row.is_empty());
        self.points = self.rows.values().flat_map(BTreeMap::values).map(VecDeque::len).sum();
    }
}

fn steps(measure: Measure, series: &Series, times: &[Nanos], since: Option<Nanos>) -> Vec<Option<i64>> {
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
            let known = since.is_some_and(|since| since <= step[1]);
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

    fn queue(amounts: &[(Measure, i64)]) -> Sample {
        let row = amounts.iter().map(|(measure, value)| ((*measure, "memory".to_owned()), *value)).collect();
        [(("default".to_owned(), Subject::Queue("root".to_owned())), row)].into()
    }

    fn read(trends: &Trends, measure: Measure, times: &[i64]) -> Vec<Option<i64>> {
        let times: Vec<Nanos> = times.iter().map(|seconds| at(*seconds)).collect();
        let (_, mut steps) = trends.read("default", &Subject::Queue("root".to_owned()), &times);
        steps.remove(&(measure, "memory".to_owned())).unwrap_or_default()
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
        assert_eq!(trends.read("other", &Subject::Queue("root".to_owned()), &[at(0), at(1)]).1, Steps::new());
    }

    #[test]
    fn what_rests_costs_nothing_and_what_is_old_is_forgotten() {
        let trends = Trends::default();
        for second in 0..1_000 {
            trends.take(queue(&[(Measure::Used, second), (Measure::Max, 10)]), at(second));
        }
        let mut kept = trends.0.lock().unwrap();
        assert_eq!(kept.points, 1_001);
        kept.forget(at(0), 500, at(999));
        assert!(kept.points < 760 && kept.since > Some(at(249)), "{} {:?}", kept.points, kept.since);
        kept.forget(at(900), 5_000, at(999));
        assert_eq!((kept.points, kept.since), (101, Some(at(900))));
        kept.take(Sample::new(), at(1_000));
        kept.forget(at(1_001), 5_000, at(1_001));
        assert!(kept.rows.is_empty() && kept.points == 0);
    }
}
