//! The exposition as OpenMetrics 1.0, made from that of Prometheus.

use std::{collections::HashSet, fmt::Write as _};

use super::exemplars::Exemplars;

/// What a client that wants it accepts.
const ACCEPTED: &str = "application/openmetrics-text";
/// `Content-Type` of it.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// A client that accepts this wants it: it likes it no less than what else there is.
pub fn is_wanted(accepted: &str) -> bool {
    let quality = |wanted: &str| {
        let of = accepted.split(',').filter_map(|item| {
            let mut parts = item.split(';').map(str::trim);
            parts.next().filter(|kind| kind.eq_ignore_ascii_case(wanted))?;
            let quality = parts.find_map(|part| part.strip_prefix("q=").or_else(|| part.strip_prefix("Q=")));
            Some(quality.map_or(1.0, |quality| quality.parse::<f32>().unwrap_or(1.0)))
        });
        of.reduce(f32::max)
    };
    let plain = ["text/plain", "text/*", "*/*"].into_iter().find_map(quality).unwrap_or(0.0);
    quality(ACCEPTED).is_some_and(|open| open > 0.0 && open >= plain)
}

fn described(line: &str) -> Option<(&str, &str)> {
    line.strip_prefix("# TYPE ")?.split_once(' ')
}

/// Names of counters lose their `_total` in their descriptions. Counters without it are of unknown type, and so are those whose
/// name would be that of something else. The end is marked. Buckets of histograms show what was measured in a trace.
pub fn from(text: &str, exemplars: &Exemplars) -> String {
    let names: HashSet<&str> = text.lines().filter_map(described).map(|(name, _)| name).collect();
    let mut out = String::with_capacity(text.len() + 16);
    let mut help: Option<(&str, &str)> = None;
    // Histograms with further labels get no exemplars.
    let (mut histogram, mut bucket) = ("", 0);
    for line in text.lines() {
        if let Some((name, words)) = line.strip_prefix("# HELP ").and_then(|rest| rest.split_once(' ')) {
            help = Some((name, words));
        } else if let Some((name, kind)) = described(line) {
            let own = name.strip_suffix("_total").filter(|family| !names.contains(family));
            let (family, kind) = match (kind, own) {
                ("counter", Some(family)) => (family, "counter"),
                ("counter", None) | ("untyped", _) => (name, "unknown"),
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
    fn a_family_has_its_name_for_itself() {
        let text = "# HELP q Now.\n# TYPE q gauge\nq 1\n# HELP q_total Ended.\n# TYPE q_total counter\nq_total 3\n";
        let expected =
            "# HELP q Now.\n# TYPE q gauge\nq 1\n# HELP q_total Ended.\n# TYPE q_total unknown\nq_total 3\n# EOF\n";
        assert_eq!(from(text, &Exemplars::default()), expected);
    }

    #[test]
    fn who_likes_the_other_form_more_gets_that() {
        for wanted in [
            "application/openmetrics-text",
            "Application/OpenMetrics-Text; version=1.0.0; charset=utf-8",
            "text/plain, application/openmetrics-text;version=0.0.1",
            // As Prometheus asks.
            "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,text/plain;version=0.0.4;q=0.3,*/*;q=0.2",
            "application/openmetrics-text;q=0.4, text/*;q=0.3, */*",
        ] {
            assert!(is_wanted(wanted), "{wanted}");
        }
        for not in [
            "",
            "*/*",
            "text/plain",
            "application/openmetrics-text;q=0, text/plain",
            "application/openmetrics-text; Q=0.0",
            "application/openmetrics-text;q=0.5, text/plain",
            "application/openmetrics-text;q=0.5, */*",
            "application/openmetrics-text2",
        ] {
            assert!(!is_wanted(not), "{not}");
        }
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
