//! What a list looks like: columns for people, or what the server said as JSON, YAML or names.

use std::cmp::Ordering;

use clap::ValueEnum;
use serde_json::Value;
use unicode_width::UnicodeWidthStr as _;

use super::yaml;
use crate::cli::out;

/// How a list is printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Columns
    #[default]
    Table,
    /// More columns
    Wide,
    /// What the server said, as JSON
    Json,
    /// The same as YAML
    Yaml,
    /// Names alone, one in a line
    Name,
}

/// A column.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    /// Its name, in capitals.
    pub head: &'static str,
    /// Only shown where all are.
    pub wide: bool,
    /// Where there is no room for all, those of the highest rank go first, and those of rank 0 stay.
    pub rank: u8,
}

impl Column {
    /// One that is always shown.
    pub const fn new(head: &'static str) -> Column {
        Column { head, wide: false, rank: 0 }
    }

    /// One that is shown where there is room.
    pub const fn wide(head: &'static str) -> Column {
        Column { head, wide: true, rank: u8::MAX }
    }

    /// One that is always shown, but for where there is no room: see [`Column::rank`].
    pub const fn less(head: &'static str, rank: u8) -> Column {
        Column { head, wide: false, rank }
    }
}

/// What stands in a column, and what it is sorted by.
#[derive(Clone, Debug, PartialEq)]
pub struct Cell {
    text: String,
    key: Option<f64>,
}

impl Cell {
    /// A text, sorted as such.
    pub fn text(text: impl Into<String>) -> Cell {
        Cell { text: text.into(), key: None }
    }

    /// A number.
    pub fn number(number: f64) -> Cell {
        Cell { text: number.to_string(), key: Some(number) }
    }

    /// A text that is sorted by a number.
    pub fn by(text: impl Into<String>, key: f64) -> Cell {
        Cell { text: text.into(), key: Some(key) }
    }

    /// As it stands in a table: on one line, and with a dash for nothing.
    pub fn shown(&self) -> String {
        let text = out::line(&self.text);
        if text.is_empty() { "-".to_owned() } else { text }
    }
}

impl Cell {
    /// Where it stands beside another one of its column.
    pub fn order(&self, other: &Cell) -> Ordering {
        match (self.key, other.key) {
            (Some(a), Some(b)) => a.total_cmp(&b),
            _ => self.text.cmp(&other.text),
        }
    }
}

/// A row.
#[derive(Clone, Debug)]
pub struct Row {
    /// In the order of the columns; the first is what it is called.
    pub cells: Vec<Cell>,
    /// What the server said of it.
    pub value: Value,
}

impl Row {
    /// What it is called.
    pub fn name(&self) -> &str {
        &self.cells[0].text
    }
}

/// A list.
#[derive(Clone, Debug, Default)]
pub struct List {
    /// Its columns.
    pub columns: Vec<Column>,
    /// Its rows.
    pub rows: Vec<Row>,
    /// What is said after a table.
    pub note: String,
}

impl List {
    /// Sorts by a column, named in any case; with a `-` before it from the end.
    ///
    /// # Errors
    /// There is no such column: names those that there are.
    pub fn sort(&mut self, by: &str) -> Result<(), String> {
        let (name, down) = by.strip_prefix('-').map_or((by, false), |name| (name, true));
        let at = self.columns.iter().position(|column| column.head.eq_ignore_ascii_case(name)).ok_or_else(|| {
            let names: Vec<String> = self.columns.iter().map(|column| column.head.to_lowercase()).collect();
            format!("there is no column '{name}' to sort by; there are: {}", names.join(", "))
        })?;
        self.rows.sort_by(|a, b| {
            let order = a.cells[at].order(&b.cells[at]);
            if down { order.reverse() } else { order }
        });
        Ok(())
    }

    /// The list as it is printed.
    pub fn shown(&self, format: Format) -> String {
        match format {
            Format::Table | Format::Wide => {
                format!("{}{}", self.table(format == Format::Wide, true), out::lines(&self.note))
            }
            Format::Json | Format::Yaml => {
                let rows = Value::Array(self.rows.iter().map(|row| row.value.clone()).collect());
                out::escaped(&if format == Format::Json { format!("{rows:#}\n") } else { yaml::document(&rows) })
            }
            Format::Name => self.rows.iter().fold(String::new(), |text, row| text + &out::line(row.name()) + "\n"),
        }
    }

    /// What is said beside the output, where that is for programs; tables have it below.
    pub fn beside(&self, format: Format) -> &str {
        match format {
            Format::Table | Format::Wide => "",
            Format::Json | Format::Yaml | Format::Name => self.note.trim_end(),
        }
    }

    /// Columns that end at the same place; numbers end, texts begin there. A text that is longer than most pushes its own row
    /// alone.
    pub fn table(&self, wide: bool, header: bool) -> String {
        if self.rows.is_empty() {
            return "There are none.\n".to_owned();
        }
        let shown: Vec<usize> = (0..self.columns.len()).filter(|at| wide || !self.columns[*at].wide).collect();
        let mut lines: Vec<Vec<String>> = Vec::new();
        if header {
            lines.push(shown.iter().map(|at| self.columns[*at].head.to_owned()).collect());
        }
        lines.extend(self.rows.iter().map(|row| shown.iter().map(|at| row.cells[*at].shown()).collect()));
        let width = |at: usize| lines.iter().map(|line: &Vec<String>| line[at].width()).max().unwrap_or(0).min(WIDEST);
        let widths: Vec<usize> = (0..shown.len()).map(width).collect();
        let right = |at: usize| {
            let mut cells = self.rows.iter().map(|row| &row.cells[shown[at]]);
            let number = |cell: &Cell| cell.text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'%');
            cells.clone().any(|cell| !cell.text.is_empty()) && cells.all(|cell| cell.key.is_some() && number(cell))
        };
        let rights: Vec<bool> = (0..shown.len()).map(right).collect();
        let mut text = String::new();
        for line in &lines {
            let mut row = String::new();
            for (at, cell) in line.iter().enumerate() {
                row += &out::filled(cell, widths[at], rights[at]);
                row += "  ";
            }
            text.push_str(row.trim_end());
            text.push('\n');
        }
        text
    }
}

/// Of a column: names of Kubernetes fit.
const WIDEST: usize = 63;

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_long_name_widens_its_own_row_alone() {
        let (long, mut list) = ("x".repeat(1_000), list());
        let short: usize = list.table(false, true).lines().map(str::len).sum();
        list.rows.push(Row { cells: vec![Cell::text(&*long); 4], value: json!({}) });
        let table = list.table(false, true);
        let rest: usize = table.lines().filter(|line| !line.contains(&long)).map(str::len).sum();
        assert!(rest < short + 3 * 4 * (WIDEST + 2), "{table}");
    }

    fn list() -> List {
        let row = |name: &str, asks: f64| Row {
            cells: vec![Cell::text(name), Cell::number(asks), Cell::by("", asks), Cell::text("a\tb")],
            value: json!({"name": name, "asks": asks}),
        };
        let columns = vec![Column::new("NAME"), Column::new("ASKS"), Column::new("AGE"), Column::wide("MORE")];
        List { columns, rows: vec![row("b", 2.0), row("app-10", 10.0)], note: "two\n".to_owned() }
    }

    #[test]
    fn columns_are_aligned() {
        let expected = "NAME    ASKS  AGE\nb          2  -\napp-10    10  -\ntwo\n";
        assert_eq!(list().shown(Format::Table), expected);
        assert!(list().shown(Format::Wide).starts_with("NAME    ASKS  AGE  MORE\nb          2  -    a b\n"));
        assert_eq!(list().shown(Format::Name), "b\napp-10\n");
        // A script gets the list alone, and whoever started it hears that there is more.
        assert_eq!(
            [Format::Name, Format::Json, Format::Yaml].map(|format| list().beside(format).to_owned()),
            ["two"; 3]
        );
        assert_eq!(list().beside(Format::Wide), "");
        let mut odd = list();
        odd.rows[0].cells[0] = Cell::text("b\u{1b}[2J\u{202e}c");
        assert_eq!(odd.shown(Format::Name), "b [2J c\napp-10\n");
        assert_eq!(list().shown(Format::Yaml), "- asks: 2.0\n  name: \"b\"\n- asks: 10.0\n  name: \"app-10\"\n");
        assert_eq!(List::default().shown(Format::Table), "There are none.\n");
        assert_eq!(List::default().shown(Format::Json), "[]\n");
    }

    #[test]
    fn sorted_by_a_column() {
        let mut list = list();
        let names = |list: &List| list.shown(Format::Name);
        list.sort("-asks").unwrap();
        assert_eq!(names(&list), "app-10\nb\n");
        list.sort("asks").unwrap();
        assert_eq!(names(&list), "b\napp-10\n");
        list.sort("Name").unwrap();
        assert_eq!(names(&list), "app-10\nb\n");
        let error = list.sort("size").unwrap_err();
        assert_eq!(error, "there is no column 'size' to sort by; there are: name, asks, age, more");
    }
}
