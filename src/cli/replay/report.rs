//! The report of a replay: one HTML file with its plots inside, readable in light and in dark.

use std::fmt::Write;

use anyhow::Result;

use super::{
    plot::{Curve, Plot},
    record::Sample,
    summary::{Summary, ranked},
    trace::{Millis, Trace},
};

const STYLE: &str = "
:root { color-scheme: light dark; --ink: #1b1f24; --paper: #ffffff; --faint: #6b7280; --rule: #d5d9df; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e8eb; --paper: #15181c; --faint: #9aa3ad; --rule: #333a42; } }
body { color: var(--ink); background: var(--paper); font: 16px/1.5 system-ui, sans-serif; max-width: 62rem;
  margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.6rem; } h2 { font-size: 1.15rem; margin-top: 2rem; }
table { border-collapse: collapse; } td, th { padding: .25rem .9rem .25rem 0; text-align: left; vertical-align: top; }
th { font-weight: 600; border-bottom: 1px solid var(--rule); } td.number { text-align: right; }
svg { width: 100%; height: auto; color: var(--ink); } .note { color: var(--faint); }";

/// The report as HTML.
pub fn html(trace: &Trace, summary: &Summary, samples: &[Sample], queues: &[String]) -> Result<String> {
    let mut page = String::new();
    let title = format!("Replay of {}", escape(&summary.trace));
    write!(
        page,
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width\"><title>{title}</title><style>{STYLE}</style></head><body>\n\
         <h1>{title}</h1>\n"
    )?;
    if !summary.complete {
        page.push_str("<p class=\"note\">The replay was interrupted; this is what happened until then.</p>\n");
    }
    facts(&mut page, summary)?;

    let end = samples.first().map_or(0, |first| first.at.0) + summary.trace_ms;
    let capacity = trace.capacity();
    let percent = |used: i64, at: usize| 100.0 * used as f64 / capacity[at].max(1) as f64;
    let curves = (0..trace.types.len()).filter(|at| capacity[*at] > 0).map(|at| Curve {
        name: trace.types[at].name().to_owned(),
        points: samples.iter().map(|s| (s.at.0, percent(s.used[at], at))).collect(),
    });
    section(
        &mut page,
        "Utilisation",
        "Used part of the cluster, per resource.",
        &Plot::percent(curves.collect(), end),
    )?;

    // The share of a queue is that of the resource of which it has most (QUE-033, RES-062: the dominant one).
    let share = |sample: &Sample, queue: usize| {
        let used = &sample.by_queue[queue];
        (0..used.len()).filter(|at| capacity[*at] > 0).map(|at| percent(used[at], at)).fold(0.0, f64::max)
    };
    let curves = queues.iter().enumerate().map(|(at, queue)| Curve {
        name: format!("root.{queue}"),
        points: samples.iter().map(|s| (s.at.0, share(s, at))).collect(),
    });
    let note = "Part of the cluster that each queue uses, of the resource of which it uses the largest part.";
    section(&mut page, "Queue shares", note, &Plot::percent(curves.collect(), end))?;

    let waiting =
        Curve { name: "asks".to_owned(), points: samples.iter().map(|s| (s.at.0, s.waiting as f64)).collect() };
    section(&mut page, "Waiting asks", "Asks that were made and not placed yet.", &Plot::count(vec![waiting], end))?;

    for (title, reasons) in [
        ("Why asks had to wait", &summary.had_to_wait),
        ("Why asks were never placed", &summary.never_placed),
        ("What was refused", &summary.refused),
        ("Placements that the server took back", &summary.taken_back),
    ] {
        if reasons.is_empty() {
            continue;
        }
        writeln!(page, "<h2>{title}</h2>\n<table><tr><th>Asks</th><th>Reason</th></tr>")?;
        for (reason, count) in ranked(reasons) {
            writeln!(page, "<tr><td class=\"number\">{count}</td><td>{}</td></tr>", escape(&reason))?;
        }
        page.push_str("</table>\n");
    }
    page.push_str("</body></html>\n");
    Ok(page)
}

fn facts(page: &mut String, summary: &Summary) -> Result<()> {
    let [half, most, all] = summary.wait_ms.map(Millis);
    let mut rows = vec![
        ("Nodes".to_owned(), summary.nodes.to_string()),
        ("Trace time".to_owned(), Millis(summary.trace_ms).to_string()),
        ("Applications".to_owned(), summary.applications.to_string()),
        ("Asks".to_owned(), summary.asks.to_string()),
        ("Placed".to_owned(), summary.placed.to_string()),
        ("Ended before a place was found".to_owned(), summary.withdrawn.to_string()),
        ("Still waiting".to_owned(), summary.waiting.to_string()),
        ("Had to wait".to_owned(), summary.waited.to_string()),
        ("Wait, trace time".to_owned(), format!("half at most {half}, 99 % at most {most}, longest {all}")),
        ("Wait of the largest tenth of asks".to_owned(), format!("90 % at most {}", Millis(summary.wait_large_ms))),
    ];
    rows.extend(summary.speed.map(|speed| ("Speed".to_owned(), speed.to_string())));
    for used in &summary.resources {
        let text = format!("{:.1} % on average, {:.1} % at the peak, of {}", used.average, used.peak, used.capacity);
        rows.push((format!("Used {}", used.name), text));
    }
    rows.extend(summary.disagreement.clone().map(|text| ("The books do not agree".to_owned(), text)));
    page.push_str("<table>\n");
    for (name, value) in rows {
        writeln!(page, "<tr><td>{}</td><td>{}</td></tr>", escape(&name), escape(&value))?;
    }
    page.push_str("</table>\n");
    Ok(())
}

fn section(page: &mut String, title: &str, note: &str, plot: &Plot) -> Result<()> {
    writeln!(page, "<h2>{title}</h2>\n<p class=\"note\">{note}</p>\n{}", plot.svg()?)?;
    Ok(())
}

/// Text as HTML shows it.
fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
