//! The exposition as OpenMetrics 1.0, made from that of Prometheus.

use std::fmt::Write as _;

/// What a client that wants it accepts.
pub const ACCEPTED: &str = "application/openmetrics-text";
/// `Content-Type` of it.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Names of counters lose their `_total` in their descriptions, counters without it are of unknown type, and the end is marked.
pub fn from(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 16);
    let mut help: Option<(&str, &str)> = None;
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
        assert_eq!(from(text), expected);
    }
}
