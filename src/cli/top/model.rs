//! What `callboard top` shows, and what keys change of it: no terminal and no server in here.

use std::cmp::Ordering;

use serde_json::Value;

use crate::cli::lists::{
    rows,
    table::{Cell, Column, List, Row},
};

/// A view.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum View {
    /// Applications, those that wait first
    #[default]
    Apps,
    /// Queues
    Queues,
    /// Users
    Users,
    /// Nodes
    Nodes,
}

impl View {
    /// All, in the order of their tabs.
    pub const ALL: [View; 4] = [View::Apps, View::Queues, View::Users, View::Nodes];

    /// Its title.
    pub const fn title(self) -> &'static str {
        match self {
            View::Apps => "Applications",
            View::Queues => "Queues",
            View::Users => "Users",
            View::Nodes => "Nodes",
        }
    }

    fn at(self) -> usize {
        View::ALL.iter().position(|view| *view == self).unwrap_or_default()
    }
}

/// A key, as far as it means something here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// A letter.
    Char(char),
    /// One row up.
    Up,
    /// One row down.
    Down,
    /// A page up.
    PageUp,
    /// A page down.
    PageDown,
    /// To the first.
    Home,
    /// To the last.
    End,
    /// To the next view.
    Tab,
    /// To the one before.
    BackTab,
    /// Opens what is chosen.
    Enter,
    /// Closes, or takes back.
    Esc,
    /// Takes a letter back.
    Backspace,
}

/// What a key leads to, beyond what the model does itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wish {
    /// Nothing beyond what the model did.
    Nothing,
    /// The end.
    Quit,
    /// The list of the view is to be read now.
    Read,
    /// Why this application waits.
    Why(String),
    /// What is on this node.
    Node(String),
}

/// A text over the list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Panel {
    /// What stands above it.
    pub title: String,
    /// The text, line by line.
    pub text: String,
    /// Lines that are above the first one that is shown.
    pub scroll: u16,
}

/// See the module.
#[derive(Debug, Default)]
pub struct Model {
    /// The view.
    pub view: View,
    /// A line about the whole partition.
    pub headline: String,
    /// Its list as the server told it.
    pub list: List,
    /// Which column it is sorted by; `None`: as the server does.
    pub sort: Option<usize>,
    /// From the largest.
    pub down: bool,
    /// Only rows with this in them.
    pub filter: String,
    /// The filter is being typed.
    pub typing: bool,
    /// Only applications of this queue, user (drilled down to).
    pub within: Option<(View, String)>,
    /// The chosen row, by name.
    pub chosen: Option<String>,
    /// A text over the list.
    pub panel: Option<Panel>,
    /// What went wrong last.
    pub fault: String,
    /// Rows of a page.
    pub page: usize,
}

impl Model {
    /// The rows that are shown, in their order.
    pub fn rows(&self) -> Vec<&Row> {
        let wanted = self.filter.to_lowercase();
        let has = |row: &&Row| {
            wanted.is_empty() || row.cells.iter().any(|cell| cell.shown().to_lowercase().contains(&wanted))
        };
        let mut rows: Vec<&Row> = self.list.rows.iter().filter(has).collect();
        if let Some(at) = self.sort {
            rows.sort_by(|a, b| {
                let order = match (a.cells.get(at), b.cells.get(at)) {
                    (Some(a), Some(b)) => a.order(b),
                    _ => Ordering::Equal,
                };
                if self.down { order.reverse() } else { order }
            });
        }
        rows
    }

    /// Where the chosen row is among those that are shown.
    pub fn position(&self, rows: &[&Row]) -> Option<usize> {
        let chosen = self.chosen.as_ref()?;
        rows.iter().position(|row| row.name() == chosen)
    }

    /// The server answered.
    pub fn take(&mut self, list: List) {
        self.list = list;
        self.fault.clear();
        let rows = self.rows();
        if self.position(&rows).is_none() {
            self.chosen = rows.first().map(|row| row.name().to_owned());
        }
    }

    /// A key was pressed.
    pub fn press(&mut self, key: Key) -> Wish {
        if self.typing {
            return self.typed(key);
        }
        if let Some(panel) = &mut self.panel {
            let page = u16::try_from(self.page).unwrap_or(u16::MAX);
            let last = u16::try_from(panel.text.lines().count().saturating_sub(1)).unwrap_or(u16::MAX);
            match key {
                Key::Esc | Key::Enter => self.panel = None,
                Key::Char('q') => return Wish::Quit,
                Key::Up => panel.scroll = panel.scroll.saturating_sub(1),
                Key::Down => panel.scroll = (panel.scroll + 1).min(last),
                Key::PageUp => panel.scroll = panel.scroll.saturating_sub(page),
                Key::PageDown => panel.scroll = panel.scroll.saturating_add(page).min(last),
                Key::Home => panel.scroll = 0,
                Key::End => panel.scroll = last,
                _ => {}
            }
            return Wish::Nothing;
        }
        match key {
            Key::Char('q') => return Wish::Quit,
            Key::Char('/') => self.typing = true,
            Key::Char('s') => self.sort_next(),
            Key::Char('r') => self.down = !self.down,
            Key::Char(digit @ '1'..='4') => return self.go(View::ALL[digit as usize - '1' as usize]),
            Key::Tab => return self.go(View::ALL[(self.view.at() + 1) % 4]),
            Key::BackTab => return self.go(View::ALL[(self.view.at() + 3) % 4]),
            Key::Up => self.step(-1),
            Key::Down => self.step(1),
            Key::PageUp => self.step(-(self.page as isize)),
            Key::PageDown => self.step(self.page as isize),
            Key::Home => self.step(isize::MIN / 2),
            Key::End => self.step(isize::MAX / 2),
            Key::Enter => return self.open(),
            Key::Esc => return self.back(),
            _ => {}
        }
        Wish::Nothing
    }

    fn typed(&mut self, key: Key) -> Wish {
        match key {
            Key::Enter => self.typing = false,
            Key::Esc => {
                self.typing = false;
                self.filter.clear();
            }
            Key::Backspace => drop(self.filter.pop()),
            Key::Char(letter) => self.filter.push(letter),
            _ => {}
        }
        Wish::Nothing
    }

    fn go(&mut self, view: View) -> Wish {
        if view == self.view && self.within.is_none() {
            return Wish::Nothing;
        }
        self.view = view;
        self.within = None;
        self.leave();
        Wish::Read
    }

    /// Nothing of another view stays.
    fn leave(&mut self) {
        (self.list, self.sort, self.down, self.chosen) = (List::default(), None, false, None);
        self.filter.clear();
    }

    fn sort_next(&mut self) {
        let columns = self.list.columns.len();
        self.sort = match self.sort {
            None if columns > 0 => Some(0),
            Some(at) if at + 1 < columns => Some(at + 1),
            _ => None,
        };
    }

    fn step(&mut self, by: isize) {
        let rows = self.rows();
        let Some(last) = rows.len().checked_sub(1) else { return };
        let at = self.position(&rows).unwrap_or(0).saturating_add_signed(by).min(last);
        self.chosen = Some(rows[at].name().to_owned());
    }

    /// What is below the chosen row.
    fn open(&mut self) -> Wish {
        let rows = self.rows();
        let Some(name) = self.position(&rows).map(|at| rows[at].name().to_owned()) else { return Wish::Nothing };
        match self.view {
            View::Apps => Wish::Why(name),
            View::Nodes => Wish::Node(name),
            View::Queues | View::Users => {
                self.within = Some((self.view, name));
                self.view = View::Apps;
                self.leave();
                Wish::Read
            }
        }
    }

    fn back(&mut self) -> Wish {
        if !self.filter.is_empty() {
            self.filter.clear();
            return Wish::Nothing;
        }
        let Some((view, name)) = self.within.take() else { return Wish::Nothing };
        self.view = view;
        self.leave();
        self.chosen = Some(name);
        Wish::Read
    }
}

/// Users with what they use in all queues, from the server's list.
pub fn users(answer: &Value) -> List {
    let columns = ["USER", "RUNNING", "USED", "LIMITS"].map(Column::new).to_vec();
    let mut list = List { columns, ..List::default() };
    for user in answer.as_array().into_iter().flatten() {
        let name = user["userName"].as_str().unwrap_or_default();
        let whole = &user["queues"];
        let used = rows::amount(&whole["resourceUsage"]);
        let running = whole["runningApplications"].as_array().map_or(0, Vec::len);
        let mut limits = Vec::new();
        limited(whole, &mut limits);
        list.rows.push(Row {
            cells: vec![
                Cell::text(name),
                Cell::number(running as f64),
                Cell::by(crate::cli::human::amounts(&used), used.get("memory").copied().unwrap_or_default() as f64),
                Cell::text(limits.join(", ")),
            ],
            value: user.clone(),
        });
    }
    list
}

/// Queues in which a user has a limit.
fn limited(queue: &Value, found: &mut Vec<String>) {
    let amounts = queue["maxResources"].as_object().is_some_and(|max| !max.is_empty());
    if amounts || queue["maxApplications"].as_u64().unwrap_or_default() > 0 {
        found.push(queue["queuePath"].as_str().unwrap_or_default().to_owned());
    }
    queue["children"].as_array().into_iter().flatten().for_each(|child| limited(child, found));
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn list(names: &[&str]) -> List {
        let row = |(at, name): (usize, &&str)| Row {
            cells: vec![Cell::text(*name), Cell::number(10.0 - at as f64)],
            value: Value::Null,
        };
        List {
            columns: vec![Column::new("NAME"), Column::new("N")],
            rows: names.iter().enumerate().map(row).collect(),
            note: String::new(),
        }
    }

    fn model() -> Model {
        let mut model = Model { page: 2, ..Model::default() };
        model.take(list(&["b", "a", "d", "c"]));
        model
    }

    fn shown(model: &Model) -> Vec<String> {
        model.rows().iter().map(|row| row.name().to_owned()).collect()
    }

    #[test]
    fn rows_are_chosen_sorted_and_filtered() {
        let mut model = model();
        assert_eq!(model.chosen.as_deref(), Some("b"));
        for (key, chosen) in [
            (Key::Down, "a"),
            (Key::PageDown, "c"),
            (Key::Down, "c"),
            (Key::Home, "b"),
            (Key::Up, "b"),
            (Key::End, "c"),
            (Key::PageUp, "a"),
        ] {
            assert_eq!((model.press(key), model.chosen.as_deref()), (Wish::Nothing, Some(chosen)), "{key:?}");
        }
        model.press(Key::Char('s'));
        assert_eq!(shown(&model), ["a", "b", "c", "d"]);
        model.press(Key::Char('r'));
        assert_eq!(shown(&model), ["d", "c", "b", "a"]);
        model.press(Key::Char('s'));
        assert_eq!(shown(&model), ["b", "a", "d", "c"], "by number, from the largest");
        model.press(Key::Char('s'));
        assert_eq!(model.sort, None);
        for key in [Key::Char('/'), Key::Char('x'), Key::Backspace, Key::Char('D')] {
            model.press(key);
        }
        assert_eq!(shown(&model), ["d"]);
        model.press(Key::Enter);
        assert!(!model.typing && model.filter == "D");
        model.press(Key::Esc);
        assert_eq!(shown(&model).len(), 4);
        // What is chosen stays, wherever it is then; what went gives way.
        model.take(list(&["a", "e"]));
        assert_eq!(model.chosen.as_deref(), Some("a"));
        model.take(list(&["e"]));
        assert_eq!(model.chosen.as_deref(), Some("e"));
        model.take(list(&[]));
        assert_eq!(
            (model.chosen.clone(), model.press(Key::Down), model.press(Key::Enter)),
            (None, Wish::Nothing, Wish::Nothing)
        );
    }

    #[test]
    fn what_is_below_is_opened_and_left_again() {
        let mut model = model();
        assert_eq!(model.press(Key::Enter), Wish::Why("b".into()));
        assert_eq!(model.press(Key::Char('2')), Wish::Read);
        model.take(list(&["root", "root.a"]));
        model.press(Key::Down);
        assert_eq!(model.press(Key::Enter), Wish::Read);
        assert_eq!((model.view, model.within.clone()), (View::Apps, Some((View::Queues, "root.a".into()))));
        assert_eq!(model.press(Key::Esc), Wish::Read);
        assert_eq!((model.view, model.chosen.as_deref()), (View::Queues, Some("root.a")));
        model.press(Key::BackTab);
        assert_eq!(model.view, View::Apps);
        model.press(Key::BackTab);
        model.take(list(&["n1"]));
        assert_eq!((model.view, model.press(Key::Enter)), (View::Nodes, Wish::Node("n1".into())));
        assert_eq!((model.press(Key::Tab), model.view), (Wish::Read, View::Apps));
        model.panel = Some(Panel { title: "t".into(), text: "1\n2\n3\n4".into(), scroll: 0 });
        for (key, scroll) in
            [(Key::Down, 1), (Key::PageDown, 3), (Key::Down, 3), (Key::Up, 2), (Key::Home, 0), (Key::End, 3)]
        {
            model.press(key);
            assert_eq!(model.panel.as_ref().unwrap().scroll, scroll, "{key:?}");
        }
        model.press(Key::Esc);
        assert_eq!((model.panel.clone(), model.press(Key::Char('q'))), (None, Wish::Quit));
    }

    #[test]
    fn users_are_told_with_their_limits() {
        let answer = json!([{"userName": "eve", "queues": {"queuePath": "root", "resourceUsage": {"vcore": 2000},
            "runningApplications": ["a", "b"], "children": [{"queuePath": "root.a", "maxResources": {"vcore": 3000}}]}}]);
        let list = users(&answer);
        let cells: Vec<String> = list.rows[0].cells.iter().map(Cell::shown).collect();
        assert_eq!((list.rows[0].name(), cells), ("eve", ["eve", "2", "2 cores", "root.a"].map(String::from).to_vec()));
    }
}
