//! The answer for people.

use std::{collections::BTreeSet, fmt::Write as _};

use crate::{
    cli::lists::table::{Cell, Column, List, Row},
    domain::words::plural,
    http::api::{
        board::why::{Figures, noun, shown},
        plan::view::Warning,
        whatif::view::{Amounts, ApplicationView, Both, WaitsView, WhatIf, WholeView},
    },
};

/// Writing to a string cannot fail.
pub fn told(answer: &WhatIf) -> String {
    let mut text = String::new();
    for Warning { line, column, message, .. } in &answer.warnings {
        let place = if *line == 0 { String::new() } else { format!("{line}:{column}: ") };
        let _ = writeln!(text, "warning: {place}{message}");
    }
    for refused in &answer.refused {
        let _ = writeln!(text, "refused: {}: {}", refused.what, refused.reason.replace('\n', " "));
    }
    if let Some(copy) = &answer.copy {
        let _ = writeln!(text, "{copy}");
    }
    let _ = writeln!(text, "Partition {}, {} ahead. {}", answer.partition, span(answer.seen_seconds), answer.ends);
    if !answer.complete {
        let _ = writeln!(
            text,
            "There was not enough time for all of {}: figures are those until then.",
            span(answer.for_seconds)
        );
    }
    if let Some(recorded) = &answer.recorded {
        let _ = writeln!(text, "Recorded from {} to {}.", recorded.from, recorded.to);
        let _ =
            writeln!(text, "As it was: {} placed; waits: {}.", plural(recorded.placed, "ask"), waits(&recorded.waits));
    }
    text.push('\n');
    text.push_str(&whole(answer));
    if answer.applications.is_empty() {
        text.push_str("\nNo application would fare otherwise.\n");
    } else {
        text.push_str("\nApplications that would fare otherwise (without → with):\n");
        text.push_str(&applications(answer).table(true, true));
        more(&mut text, answer.more_applications, "application");
        for app in answer.applications.iter().filter(|app| app.why.is_some()) {
            let _ = writeln!(text, "  {} waits: {}", app.application_id, app.why.as_deref().unwrap_or_default());
        }
    }
    if !answer.queues.is_empty() {
        text.push_str("\nQueues (without → with):\n");
        text.push_str(&queues(answer).table(true, true));
        more(&mut text, answer.more_queues, "queue");
    }
    text
}

fn more(text: &mut String, count: usize, what: &str) {
    if count > 0 {
        let _ = writeln!(text, "({} more)", plural(count, what));
    }
}

/// A time: `90s`, `5m`, `2h`.
fn span(seconds: f64) -> String {
    // A week at most.
    match seconds.round() as u64 {
        whole @ 0..=119 => format!("{whole}s"),
        whole if whole % 3600 == 0 => format!("{}h", whole / 3600),
        whole if whole % 60 == 0 => format!("{}m", whole / 60),
        whole => format!("{}m{}s", whole / 60, whole % 60),
    }
}

fn row(cells: Vec<Cell>) -> Row {
    Row { cells, value: serde_json::Value::Null }
}

fn whole(answer: &WhatIf) -> String {
    let Both { without, with } = &answer.whole;
    let mut rows: Vec<[String; 3]> = Vec::new();
    for (what, before, after) in [
        ("allocations", without.allocations, with.allocations),
        ("asks that wait", without.waiting, with.waiting),
        ("asks placed", without.placed, with.placed),
        ("preempted", without.preempted, with.preempted),
    ] {
        rows.push([what.to_owned(), before.to_string(), after.to_string()]);
    }
    let kinds: BTreeSet<&String> = without.capacity.keys().chain(with.capacity.keys()).collect();
    for kind in kinds {
        let of = |amounts: &Amounts| amounts.get(kind).copied().unwrap_or_default();
        let figures = [&without.used, &without.capacity, &with.used, &with.capacity].map(of);
        let told = Figures::of(kind, &figures, |_| true);
        let [before, all_before, after, all_after] = figures.map(|amount| told.told(amount));
        let name = format!("{} used", noun(kind, 0));
        rows.push([name.clone(), format!("{before} of {all_before}"), format!("{after} of {all_after}")]);
        if answer.seen_seconds > 0.0 {
            let told = Figures::of(kind, &[of(&without.average_used), of(&with.average_used)], |_| true);
            let average = |whole: &WholeView| {
                let (used, all) = (of(&whole.average_used), of(&whole.average_capacity));
                let percent = 100.0 * used as f64 / all.max(1) as f64;
                format!("{} ({percent:.1} %)", told.told(used))
            };
            rows.push([format!("{name} on average"), average(without), average(with)]);
        }
    }
    if answer.seen_seconds > 0.0 {
        rows.push(["waits of those placed".to_owned(), waits(&without.waits), waits(&with.waits)]);
    }
    let columns = ["", "WITHOUT", "WITH"].map(Column::new).to_vec();
    let rows = rows.into_iter().map(|cells| row(cells.map(Cell::text).to_vec())).collect();
    List { columns, rows, note: String::new() }.table(true, true)
}

/// Waits in a line.
fn waits(waits: &WaitsView) -> String {
    if waits.asks == 0 {
        return "none was placed".to_owned();
    }
    let [half, most, all] = [waits.p50_seconds, waits.p90_seconds, waits.longest_seconds].map(span);
    format!("half {half}, nine of ten {most}, all {all} at most")
}

/// What differs, or the one figure for both.
fn change(both: &Both<u64>) -> Cell {
    match both.without == both.with {
        true => Cell::text(both.with.to_string()),
        false => Cell::text(format!("{} → {}", both.without, both.with)),
    }
}

fn applications(answer: &WhatIf) -> List {
    let first = |seconds: Option<f64>| {
        seconds.map_or("never".to_owned(), |seconds| match seconds {
            0.0 => "at once".to_owned(),
            later => span(later),
        })
    };
    let effect = |app: &ApplicationView| {
        let mut parts = Vec::new();
        if app.new {
            parts.push("new".to_owned());
        }
        for (count, what) in [
            (app.placed_only.with, "more placed"),
            (app.placed_only.without, "no longer placed"),
            (app.sooner, "sooner"),
            (app.later, "later"),
        ] {
            if count > 0 {
                parts.push(format!("{count} {what}"));
            }
        }
        let Both { without, with } = &app.first_seconds;
        if without != with {
            parts.push(format!("first: {} → {}", first(*without), first(*with)));
        }
        let Both { without, with } = &app.state;
        if without != with && !app.new {
            let state = |state: &Option<String>| state.clone().unwrap_or_else(|| "ended".to_owned());
            parts.push(format!("{} → {}", state(without), state(with)));
        }
        parts.join(", ")
    };
    let columns = ["APPLICATION", "QUEUE", "USER", "ALLOCATIONS", "WAITING", "PREEMPTED", "EFFECT"];
    let rows = answer.applications.iter().map(|app| {
        row(vec![
            Cell::text(&app.application_id),
            Cell::text(&app.queue_name),
            Cell::text(&app.user),
            change(&app.allocations),
            change(&app.waiting),
            change(&app.preempted),
            Cell::text(effect(app)),
        ])
    });
    List { columns: columns.map(Column::new).to_vec(), rows: rows.collect(), note: String::new() }
}

fn queues(answer: &WhatIf) -> List {
    let amounts = |both: &Both<Amounts>| {
        let kinds: BTreeSet<&String> = both.without.keys().chain(both.with.keys()).collect();
        let of = |amounts: &Amounts, kind: &String| amounts.get(kind).copied().unwrap_or_default();
        let some = kinds.into_iter().map(|kind| (kind, of(&both.without, kind), of(&both.with, kind)));
        let one = |(kind, from, to): (&String, i64, i64)| {
            if from == to {
                return format!("{} {}", shown(kind, to), noun(kind, to));
            }
            let figures = Figures::of(kind, &[from, to], |_| true);
            format!("{} → {} {}", figures.told(from), figures.told(to), noun(kind, to))
        };
        let told: Vec<String> = some.filter(|(_, from, to)| (*from, *to) != (0, 0)).map(one).collect();
        Cell::text(if told.is_empty() { "0".to_owned() } else { told.join(", ") })
    };
    // A leaf only: others have no asks of their own.
    let queue_wait = |waits: &WaitsView| if waits.asks == 0 { "none".to_owned() } else { span(waits.p90_seconds) };
    let queue_waits = |waits: &Both<WaitsView>| match (queue_wait(&waits.without), queue_wait(&waits.with)) {
        _ if waits.without.asks + waits.with.asks == 0 => Cell::text(""),
        (without, with) if without == with => Cell::text(with),
        (without, with) => Cell::text(format!("{without} → {with}")),
    };
    let rows = answer.queues.iter().map(|queue| {
        let there = match (queue.there.without, queue.there.with) {
            (false, _) => " (new)",
            (_, false) => " (gone)",
            _ => "",
        };
        row(vec![
            Cell::text(format!("{}{there}", queue.queue_name)),
            change(&queue.running),
            amounts(&queue.used),
            amounts(&queue.pending),
            queue_waits(&queue.waits),
        ])
    });
    let columns = ["QUEUE", "RUNNING", "USED", "PENDING", "P90 WAIT"];
    List { columns: columns.map(Column::new).to_vec(), rows: rows.collect(), note: String::new() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::api::whatif::view::{QueueView, Refused, WholeView};

    #[test]
    fn an_answer_for_people() {
        let waited = |seconds| WaitsView { asks: 1, p90_seconds: seconds, ..WaitsView::default() };
        let amounts = |memory: i64| Amounts::from([("memory".to_owned(), memory << 30)]);
        let whole = |allocations, memory, of| WholeView {
            allocations,
            used: amounts(memory),
            capacity: amounts(of),
            ..WholeView::default()
        };
        let mut answer = WhatIf {
            partition: "default".into(),
            for_seconds: 7200.0,
            seen_seconds: 90.0,
            complete: false,
            ends: "Nothing ends by itself.".into(),
            recorded: None,
            copy: Some("# queue root.a\nmaxapplications: 2".into()),
            warnings: vec![Warning { line: 4, column: 2, rule: "CFG-07C".into(), message: "x does nothing".into() }],
            refused: vec![Refused { what: "app-9".into(), reason: "no\nplace".into() }],
            whole: Both { without: whole(1, 8, 16), with: whole(2, 16, 32) },
            applications: vec![ApplicationView {
                application_id: "app-1".into(),
                queue_name: "root.a".into(),
                user: "alice".into(),
                state: Both { without: Some("Accepted".into()), with: Some("Running".into()) },
                allocations: Both { without: 0, with: 1 },
                waiting: Both { without: 2, with: 1 },
                placed_only: Both { without: 0, with: 1 },
                first_seconds: Both { without: None, with: Some(0.0) },
                why: Some("Queue root.a is at its max.".into()),
                ..ApplicationView::default()
            }],
            more_applications: 0,
            queues: vec![QueueView {
                queue_name: "root.a".into(),
                there: Both { without: true, with: true },
                used: Both { without: amounts(8), with: amounts(16) },
                pending: Both { without: amounts(2), with: amounts(2) },
                running: Both { without: 1, with: 2 },
                waits: Both { without: waited(90.0), with: waited(30.0) },
            }],
            more_queues: 1,
        };
        let expected = "\
warning: 4:2: x does nothing
refused: app-9: no place
# queue root.a
maxapplications: 2
Partition default, 90s ahead. Nothing ends by itself.
There was not enough time for all of 2h: figures are those until then.
";
        let text = told(&answer);
        assert!(text.starts_with(expected), "{text}");
        for line in [
            "memory used",
            "8 GiB of 16 GiB",
            "1 more placed, first: never → at once, Accepted → Running",
            "  app-1 waits: Queue root.a is at its max.\n",
            "8 GiB → 16 GiB memory  2 GiB memory",
            "90s → 30s",
            "memory used on average",
            "waits of those placed",
            "(1 queue more)",
        ] {
            assert!(text.contains(line), "{line}\n{text}");
        }
        assert!(text.contains("none was placed"), "{text}");
        answer.queues[0].waits.without = WaitsView::default();
        assert!(told(&answer).contains("none → 30s"), "{}", told(&answer));
        answer.queues[0].pending = Both::default();
        answer.queues[0].used.with = Amounts::from([("memory".to_owned(), (8 << 30) + 1)]);
        let small = told(&answer);
        assert!(small.contains("8589934592 B → 8589934593 B memory  0 "), "{small}");
        answer.applications.clear();
        assert!(told(&answer).contains("No application would fare otherwise."));
        assert_eq!(
            (span(119.0), span(150.0), span(300.0), span(7200.0)),
            ("119s".into(), "2m30s".into(), "5m".into(), "2h".into())
        );
    }
}
