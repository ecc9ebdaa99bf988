//! Outcomes as text for a terminal and as Markdown for the documentation.

use std::{fmt::Write, iter};

use super::{beside::Read, measure::Outcome, shapes::ShapeId};
use crate::{cli::out, domain::words::plural};

const TITLES: [&str; 9] =
    ["shape", "nodes", "asks", "allocations/s", "per CPU-s", "p50 ms", "p99 ms", "p99.9 ms", "peak memory"];

fn cells(outcome: &Outcome) -> [String; 9] {
    [
        format!("{} {}", outcome.shape, outcome.about),
        grouped(outcome.nodes as f64),
        grouped(outcome.asks as f64),
        rate(outcome),
        outcome.allocations_per_cpu_second.map_or("–".into(), grouped),
        millis(outcome.latency_ms.p50),
        millis(outcome.latency_ms.p99),
        millis(outcome.latency_ms.p999),
        outcome.peak_rss_bytes.map_or("–".into(), |bytes| format!("{} MB", grouped(bytes as f64 / 1e6))),
    ]
}

/// The median, and the range of all runs where there are several.
fn rate(outcome: &Outcome) -> String {
    let [slowest, fastest] = outcome.allocations_per_second_range.map(grouped);
    let median = grouped(outcome.allocations_per_second);
    if outcome.runs == 1 { median } else { format!("{median} ({slowest}–{fastest})") }
}

/// What has to be known to read the figures.
fn circumstances(outcome: &Outcome) -> String {
    let runs = match outcome.runs {
        1 => "one run each".to_owned(),
        runs => format!("median of {runs} runs each, range in brackets"),
    };
    let share = match outcome.depth.as_str() {
        "core" => "CPU figures include the making of the asks",
        _ => "CPU and memory are the server's alone",
    };
    format!("{} depth, callboard {}, {}; {runs}; {share}", outcome.depth, outcome.version, outcome.machine)
}

/// A table for a terminal, with what has to be said beneath it.
pub fn text(outcomes: &[Outcome]) -> String {
    let rows: Vec<[String; 9]> = iter::once(TITLES.map(str::to_owned)).chain(outcomes.iter().map(cells)).collect();
    let mut text = out::aligned(&rows, 1);
    for outcome in outcomes.iter().filter(|outcome| outcome.generator_was_the_bottleneck) {
        let share = 100.0 * outcome.generator_cpu_share.unwrap_or(0.0);
        let _ = writeln!(
            text,
            "{}: the load generator set the pace ({share:.0} % of a core); the server could do more.",
            outcome.shape
        );
    }
    for line in besides(outcomes).into_iter().chain(against_limit(outcomes)) {
        let _ = writeln!(text, "{line}");
    }
    if let Some(outcome) = outcomes.first() {
        let _ = writeln!(text, "\n{}", circumstances(outcome));
    }
    text
}

/// What was read beside shapes, a line each.
fn besides(outcomes: &[Outcome]) -> Vec<String> {
    let line = |outcome: &Outcome, read: &Read| {
        let mut line = format!("{} {}: {}, {} answers", outcome.shape, outcome.about, read.what, read.answers);
        if read.latency_ms.p99 > 0.0 {
            let _ = write!(line, ", p50 {} ms, p99 {} ms", millis(read.latency_ms.p50), millis(read.latency_ms.p99));
        }
        if read.begun_anew > 0 {
            let _ = write!(line, ", {} had fallen behind and began anew", plural(read.begun_anew, "stream"));
        }
        line
    };
    outcomes.iter().flat_map(|outcome| outcome.beside.iter().map(move |read| line(outcome, read))).collect()
}

/// Processor time of an allocation as a multiple of the bare work, where that was measured in the same run.
fn against_limit(outcomes: &[Outcome]) -> Option<String> {
    let bare = outcomes.iter().find(|outcome| outcome.shape == ShapeId::Limit.name())?.allocations_per_cpu_second?;
    let others = outcomes.iter().filter(|outcome| outcome.shape != ShapeId::Limit.name() && outcome.allocations > 0);
    let ratio = |outcome: &Outcome| {
        Some(format!("{} {:.1}", outcome.shape, bare / outcome.allocations_per_cpu_second.filter(|rate| *rate > 0.0)?))
    };
    let ratios: Vec<String> = others.filter_map(ratio).collect();
    (!ratios.is_empty())
        .then(|| format!("Processor time of an allocation by that of the bare work: {}.", ratios.join(", ")))
}

/// The same as Markdown.
pub fn markdown(outcomes: &[Outcome]) -> String {
    let mut text = format!("| {} | bytes per allocation |\n", TITLES.join(" | "));
    text.push_str("| --- |");
    text.push_str(&" ---: |".repeat(TITLES.len()));
    text.push('\n');
    for outcome in outcomes {
        let bytes = outcome.bytes_per_allocation.map_or("–".into(), grouped);
        let mark = if outcome.generator_was_the_bottleneck { " (generator-bound)" } else { "" };
        let mut cells = cells(outcome);
        cells[3].push_str(mark);
        let _ = writeln!(text, "| {} | {bytes} |", cells.join(" | "));
    }
    for line in besides(outcomes) {
        let _ = write!(text, "\n- {line}");
    }
    if let Some(line) = against_limit(outcomes) {
        let _ = write!(text, "\n\n{line}");
    }
    if let Some(outcome) = outcomes.first() {
        let _ = writeln!(text, "\n\n{}.", circumstances(outcome));
    }
    text
}

/// Puts `section` into `document` between the marks of `name`; appends it where the marks are missing.
pub fn replace_section(document: &str, name: &str, section: &str) -> String {
    let (begin, end) = (format!("<!-- bench:{name}:begin -->"), format!("<!-- bench:{name}:end -->"));
    let block = format!("{begin}\n{}\n{end}", section.trim_end());
    match (document.find(&begin), document.find(&end)) {
        (Some(from), Some(to)) if from < to => {
            format!("{}{block}{}", &document[..from], &document[to + end.len()..])
        }
        _ => format!("{}\n\n{block}\n", document.trim_end()),
    }
}

/// A whole number with its thousands apart.
fn grouped(value: f64) -> String {
    let digits = format!("{:.0}", value.max(0.0));
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

fn millis(value: f64) -> String {
    if value >= 100.0 { format!("{value:.0}") } else { format!("{value:.2}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped() {
        assert_eq!([0.0, 999.0, 1000.0, 1_234_567.4].map(grouped), ["0", "999", "1,000", "1,234,567"]);
    }

    #[test]
    fn sections_are_replaced_in_place() {
        let first = replace_section("# Performance\n", "core", "table 1\n");
        assert_eq!(first, "# Performance\n\n<!-- bench:core:begin -->\ntable 1\n<!-- bench:core:end -->\n");
        let more = replace_section(&(first + "\nmore\n"), "core", "table 2");
        assert_eq!(more, "# Performance\n\n<!-- bench:core:begin -->\ntable 2\n<!-- bench:core:end -->\n\nmore\n");
    }
}
