//! The exposition as OpenMetrics 1.0, made from that of Prometheus.

use std::fmt::Write as _;

use super::exemplars::Exemplars;

/// What a client that wants it accepts.
pub const ACCEPTED: &str = "application/openmetrics-text";
/// `Content-Type` of it.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Names of counters lose their `_total` in their descriptions, counters without it are of unknown type, and the end is marked.
/// Buckets of histograms show what was measured in a trace.
pub fn from(text: &str, exemplars: &Exemplars) -> String {
    let mut out = String::with_capacity(text.len() + 16);
    let mut help: Option<(&str, &str)> = None;
    // Histograms with further labels get no exemplars.
    let (mut histogram, mut bucket) = ("", 0);
    for line in text.lines() {
        if let Some((name, words)) = line.strip_prefix("# HELP ").and_then(|rest| rest.split_once(' ')) {
            help = Some((name, words));
        } else if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|rest| rest.split_once(' ')) {
            let (family, kind) = match (kind, name.strip_suffix("_total")) {
                ("counter", Some(family)) => (family, "counter"),
                ("counter", None) => (name, "unknown"),
                ("untyped", _) => (name, "unknown"),
                (kind, _) => (name, kind),
            };
            if let Some((_, words)) = help.take().filter(|(of, _)| *of == name) {
                let _ = writeln!(out, "# HELP {family} {words}");
            }
            let _ = writeln!(out, "# TYPE {family} {kind}");
        } else if !line.starts_with('#') && !line.is_empty() {
            out.push_str(line);
            if let Some((name, _)) = line.split_once("_bucket{le=") {
                bucket = if name == histogram { bucket + 1 } else { 0 };
                histogram = name;
                exemplars.write(histogram, bucket, &mut out);
            }
            out.push('\n');
        }
    }
    out.push_str("# EOF\n");
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_named_without_their_end() {
        let text = "# HELP a_total A.\n# TYPE a_total counter\na_total{x=\"1\"} 3\n# TYPE b counter\nb 1\n# TYPE c gauge\nc 2\n";
        let expected =
            "# HELP a A.\n# TYPE a counter\na_total{x=\"1\"} 3\n# TYPE b unknown\nb 1\n# TYPE c gauge\nc 2\n# EOF\n";
        assert_eq!(from(text, &Exemplars::default()), expected);
    }

    #[test]
    fn a_bucket_shows_its_last_measurement_in_a_trace() {
        let exemplars = Exemplars::default();
        let of = |trace: &str| crate::trace::Exemplar { trace: trace.into(), span: "s".into() };
        for (value, trace) in [(0.2, "first"), (0.25, "second"), (5.0, "large")] {
            exemplars.keep("h", &[0.1, 0.25, 1.0], value, of(trace));
        }
        let text =
            "h_bucket{le=\"0.1\"} 0\nh_bucket{le=\"0.25\"} 2\nh_bucket{le=\"1\"} 2\nh_bucket{le=\"+Inf\"} 3\nh_sum 5\n";
        let made = from(text, &exemplars);
        let lines: Vec<_> = made.lines().collect();
        assert_eq!((lines[0], lines[2]), ("h_bucket{le=\"0.1\"} 0", "h_bucket{le=\"1\"} 2"));
        assert!(lines[1].starts_with("h_bucket{le=\"0.25\"} 2 # {trace_id=\"second\",span_id=\"s\"} 0.25 "), "{made}");
        assert!(lines[3].starts_with("h_bucket{le=\"+Inf\"} 3 # {trace_id=\"large\",span_id=\"s\"} 5 "), "{made}");
    }
}
