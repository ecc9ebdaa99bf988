//! Measurements of traced requests: of each bucket the last one, with its trace, as OpenMetrics shows it.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    sync::{Mutex, PoisonError},
    time::{SystemTime, UNIX_EPOCH},
};

use crate::trace::Exemplar;

/// By the name of the histogram, for each of its buckets.
#[derive(Debug, Default)]
pub struct Exemplars(Mutex<BTreeMap<&'static str, Vec<Option<Kept>>>>);

#[derive(Clone, Debug)]
struct Kept {
    of: Exemplar,
    value: f64,
    at: SystemTime,
}

impl Exemplars {
    /// A measurement in a trace; `bounds` are those of the buckets.
    pub fn keep(&self, histogram: &'static str, bounds: &[f64], value: f64, of: Exemplar) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let buckets = all.entry(histogram).or_insert_with(|| vec![None; bounds.len() + 1]);
        buckets[bounds.partition_point(|bound| *bound < value)] = Some(Kept { of, value, at: SystemTime::now() });
    }

    /// Adds those of a bucket to its line.
    pub(super) fn write(&self, histogram: &str, bucket: usize, out: &mut String) {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(Some(Kept { of, value, at })) = all.get(histogram).and_then(|buckets| buckets.get(bucket)) {
            let at = at.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
            let _ = write!(out, " # {{trace_id=\"{}\",span_id=\"{}\"}} {value} {at:.3}", of.trace, of.span);
        }
    }
}
