//! Draws what the model has.

use ratatui::{
    Frame,
    layout::{Constraint, Layout, Rect},
    style::{Modifier, Style},
    text::{Line, Span},
    widgets::{Block, Clear, Paragraph, Row, Table, TableState, Wrap},
};

use super::model::{Model, View};

/// Widest column.
const WIDEST: u16 = 44;

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
        let longest = texts.iter().filter_map(|row| row.get(at)).map(|text| text.chars().count()).max().unwrap_or(0);
        u16::try_from(longest.max(heads[at].len())).unwrap_or(WIDEST).min(WIDEST)
    };
    let widths: Vec<Constraint> = (0..heads.len()).map(|at| Constraint::Length(width(at))).collect();
    let head = Row::new(heads.clone()).style(Style::default().add_modifier(Modifier::BOLD | Modifier::UNDERLINED));
    let table = Table::new(texts.into_iter().map(Row::new), widths)
        .header(head)
        .column_spacing(2)
        .row_highlight_style(Style::default().add_modifier(Modifier::REVERSED));
    let mut state = TableState::default().with_selected(model.position(&rows));
    frame.render_stateful_widget(table, area, &mut state);
}

#[cfg(test)]
mod tests {
    use ratatui::{Terminal, backend::TestBackend};
    use serde_json::Value;

    use super::*;
    use crate::cli::{
        lists::table::{Cell, Column, List, Row},
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
    fn a_screen() {
        let mut model = Model { headline: "default: 3 nodes, 2 asks wait".into(), ..Model::default() };
        assert!(screen(&mut model).contains("There are none."));
        let row = |name: &str, n: f64| Row {
            name: name.into(),
            cells: vec![Cell::text(name), Cell::number(n)],
            value: Value::Null,
        };
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
