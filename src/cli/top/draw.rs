//! Draws what the model has.

use ratatui::{
    Frame,
    layout::{Constraint, Layout, Rect},
    style::{Modifier, Style},
    text::{Line, Span},
    widgets::{Block, Clear, Paragraph, Row, Table, TableState, Wrap},
};
use unicode_width::UnicodeWidthStr as _;

use super::model::{Model, View};
use crate::cli::lists::table::Column;

/// Widest column.
const WIDEST: u16 = 44;
/// Between two columns.
const SPACE: u16 = 2;

/// Draws all; tells the model how many rows a page has.
pub fn draw(frame: &mut Frame, model: &mut Model) {
    let [head, tabs, body, foot] =
        Layout::vertical([Constraint::Length(1), Constraint::Length(1), Constraint::Min(3), Constraint::Length(1)])
            .areas(frame.area());
    let bold = Style::default().add_modifier(Modifier::BOLD);
    frame.render_widget(Paragraph::new(model.headline.as_str()).style(bold), head);
    frame.render_widget(Paragraph::new(tab_line(model)), tabs);
    model.page = usize::from(body.height.saturating_sub(1)).max(1);
    rows(frame, model, body);
    if let Some(panel) = &model.panel {
        frame.render_widget(Clear, body);
        let block = Block::bordered().title(format!(" {} ", panel.title));
        let text = Paragraph::new(panel.text.as_str()).wrap(Wrap { trim: false }).scroll((panel.scroll, 0));
        frame.render_widget(text.block(block), body);
    }
    frame.render_widget(Paragraph::new(foot_line(model)), foot);
}

fn tab_line(model: &Model) -> Line<'static> {
    let mut spans = Vec::new();
    for (at, view) in View::ALL.into_iter().enumerate() {
        let style = match view == model.view {
            true => Style::default().add_modifier(Modifier::REVERSED),
            false => Style::default(),
        };
        spans.push(Span::styled(format!(" {} {} ", at + 1, view.title()), style));
        spans.push(Span::raw(" "));
    }
    if let Some((of, name)) = &model.within {
        let what = if *of == View::Queues { "in queue" } else { "of user" };
        spans.push(Span::raw(format!("{what} {name} ")));
    }
    Line::from(spans)
}

fn foot_line(model: &Model) -> String {
    if model.typing {
        return format!("/{}▏ Enter keeps the filter, Esc takes it away", model.filter);
    }
    if !model.fault.is_empty() {
        return model.fault.clone();
    }
    if model.panel.is_some() {
        return "↑↓ scroll  Esc close  q quit".to_owned();
    }
    let filter = if model.filter.is_empty() { String::new() } else { format!("  filter: {}", model.filter) };
    let order = model.sort.and_then(|at| model.list.columns.get(at));
    let by = order.map_or(String::new(), |column| {
        format!("  by {}{}", column.head.to_lowercase(), if model.down { ", from the largest" } else { "" })
    });
    format!("Tab view  ↑↓ choose  Enter open  / filter  s sort  r reverse  q quit{by}{filter}")
}

fn rows(frame: &mut Frame, model: &Model, area: Rect) {
    let rows = model.rows();
    if rows.is_empty() {
        frame.render_widget(Paragraph::new("There are none."), area);
        return;
    }
    let heads: Vec<&str> = model.list.columns.iter().map(|column| column.head).collect();
    let texts: Vec<Vec<String>> = rows.iter().map(|row| row.cells.iter().map(|cell| cell.shown()).collect()).collect();
    let width = |at: usize| {
        let longest = texts.iter().filter_map(|row| row.get(at)).map(|text| text.width()).max().unwrap_or(0);
        u16::try_from(longest.max(heads[at].len())).unwrap_or(WIDEST).min(WIDEST)
    };
    let widths: Vec<u16> = (0..heads.len()).map(width).collect();
    let shown = fitting(&model.list.columns, &widths, area.width);
    // Where even these have no room, the name of a row keeps it longest.
    let scarce = taken(&shown, &widths) > area.width.into();
    let room = |(place, at): (usize, &usize)| match place {
        0 if scarce => Constraint::Min(widths[*at]),
        _ => Constraint::Length(widths[*at]),
    };
    let head = Row::new(shown.iter().map(|at| heads[*at]));
    let head = head.style(Style::default().add_modifier(Modifier::BOLD | Modifier::UNDERLINED));
    let line = |row: Vec<String>| Row::new(shown.iter().filter_map(|at| row.get(*at).cloned()).collect::<Vec<_>>());
    let table = Table::new(texts.into_iter().map(line), shown.iter().enumerate().map(room))
        .header(head)
        .column_spacing(SPACE)
        .row_highlight_style(Style::default().add_modifier(Modifier::REVERSED));
    let mut state = TableState::default().with_selected(model.position(&rows));
    frame.render_stateful_widget(table, area, &mut state);
}

/// The columns that there is room for: of the others those of the highest rank go, the last ones first.
fn fitting(columns: &[Column], widths: &[u16], room: u16) -> Vec<usize> {
    let mut shown: Vec<usize> = (0..columns.len()).collect();
    while taken(&shown, widths) > room.into() {
        let least = shown.iter().copied().filter(|at| columns[*at].rank > 0).max_by_key(|at| (columns[*at].rank, *at));
        let Some(least) = least else { break };
        shown.retain(|at| *at != least);
    }
    shown
}

fn taken(shown: &[usize], widths: &[u16]) -> u32 {
    let wide: u32 = shown.iter().map(|at| u32::from(widths[*at]) + u32::from(SPACE)).sum();
    wide.saturating_sub(SPACE.into())
}

#[cfg(test)]
mod tests {
    use ratatui::{Terminal, backend::TestBackend};
    use serde_json::Value;

    use super::*;
    use crate::cli::{
        lists::{
            rows,
            table::{Cell, List, Row},
        },
        top::model::Panel,
    };

    fn screen(model: &mut Model) -> String {
        let mut terminal = Terminal::new(TestBackend::new(60, 8)).unwrap();
        terminal.draw(|frame| draw(frame, model)).unwrap();
        let buffer = terminal.backend().buffer().clone();
        let line = |y: u16| (0..60).map(|x| buffer[(x, y)].symbol()).collect::<String>().trim_end().to_owned();
        (0..8).map(line).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn what_has_no_room_is_left_out_and_names_are_whole() {
        let app = |id: &str| {
            serde_json::json!({"applicationID": id, "queueName": "root.research", "user": "alice", "state": "Accepted",
            "allocations": 12, "used": {"memory": 8589934592_i64, "vcore": 12000}, "asks": 3, "reason": {"code": "nodes", "text": "No node has room."}})
        };
        let answer =
            serde_json::json!({"matched": 2, "applications": [app("training-large-0001"), app("training-large-0002")]});
        let mut model = Model::default();
        model.take(rows::applications(&answer, jiff::Timestamp::UNIX_EPOCH));
        let text = screen(&mut model);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[2], "APPLICATION          QUEUE          STATE     ASKS  REASON", "{text}");
        assert_eq!(lines[3], "training-large-0001  root.research  Accepted  3     nodes", "{text}");
        let widths = [30, 20, 5];
        let columns = [Column::new("A"), Column::less("B", 1), Column::new("C")];
        assert_eq!(fitting(&columns, &widths, 59), [0, 1, 2]);
        assert_eq!((fitting(&columns, &widths, 58), fitting(&columns, &widths, 7)), (vec![0, 2], vec![0, 2]));
    }

    #[test]
    fn a_screen() {
        let mut model = Model { headline: "default: 3 nodes, 2 asks wait".into(), ..Model::default() };
        assert!(screen(&mut model).contains("There are none."));
        let row = |name: &str, n: f64| Row { cells: vec![Cell::text(name), Cell::number(n)], value: Value::Null };
        model.take(List {
            columns: vec![Column::new("APPLICATION"), Column::new("ASKS")],
            rows: vec![row("etl", 3.0), row("a-long-name", 0.0)],
            note: String::new(),
        });
        let expected = "\
default: 3 nodes, 2 asks wait
 1 Applications   2 Queues   3 Users   4 Nodes
APPLICATION  ASKS
etl          3
a-long-name  0


Tab view  ↑↓ choose  Enter open  / filter  s sort  r reverse";
        assert_eq!(screen(&mut model), expected);
        assert_eq!(model.page, 4);
        model.panel = Some(Panel { title: "etl".into(), text: "Queue root.a is at its max.".into(), scroll: 0 });
        let text = screen(&mut model);
        assert!(
            text.contains("etl") && text.contains("│Queue root.a is at its max.") && text.ends_with("q quit"),
            "{text}"
        );
        model.panel = None;
        (model.typing, model.filter) = (true, "et".into());
        assert!(screen(&mut model).contains("/et▏"));
        (model.typing, model.fault) = (false, "no answer".into());
        assert!(screen(&mut model).ends_with("no answer"));
    }
}
