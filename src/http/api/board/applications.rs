//! The applications of a partition, those that wait first, each with the reason of its first ask.

use std::{cmp::Reverse, collections::BTreeSet};

use schemars::JsonSchema;
use serde::Serialize;

use super::why::{CODES, Reason};
use crate::{
    domain::{
        app::App,
        partition::{Explainer, Waiting},
        resources::{MEMORY, Resource},
        types::{AppIx, AppState, Nanos},
    },
    http::{
        problem::Problem,
        shim::query,
        ws_v1::{
            View,
            checks::{AppList, app_list},
            json::{Amounts, unset},
            state::now,
            time_text,
        },
    },
    messages::rm::Halt,
};

/// Applications that are listed where no number is given, and at most.
const LIMIT: usize = 1_000;
const MOST: usize = 10_000;

/// What they can be sorted by, as the columns of `callboard apps`.
const COLUMNS: [(&str, Column); 12] = [
    ("application", |found, _| Cell::Text(&found.app.id)),
    ("queue", |found, _| Cell::Text(&found.app.queue_path)),
    ("user", |found, _| Cell::Text(&found.app.user)),
    ("state", |found, _| Cell::Text(found.app.state.name())),
    ("age", |found, at| Cell::Number(at.minus(found.app.submission).0.into())),
    ("allocations", |found, _| Cell::Number(found.app.placements().into())),
    ("used", |found, _| memory(&found.used())),
    ("asks", |found, _| Cell::Number(found.asks().into())),
    ("waits", |found, at| Cell::Number(found.since().map_or(-1, |since| at.minus(since).0.into()))),
    ("reason", |found, _| Cell::Text(found.reason().map_or("", |reason| reason.code))),
    ("pending", |found, _| memory(&found.app.waiting())),
    ("why", |found, _| {
        Cell::Text(found.reason().map_or(found.app.rejected.as_deref().unwrap_or(""), |reason| &reason.text))
    }),
];

/// Names of what they can be sorted by.
pub fn columns() -> [&'static str; 12] {
    COLUMNS.map(|(name, _)| name)
}

/// What a column has of an application at this time.
type Column = for<'a> fn(&'a Found<'_>, Nanos) -> Cell<'a>;

/// See [`Column`].
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Cell<'a> {
    Text(&'a str),
    Number(i128),
}

fn memory<'a>(amounts: &Resource) -> Cell<'a> {
    Cell::Number(amounts.amount(&MEMORY))
}

/// Which applications are wanted, in which order.
#[derive(Debug)]
pub struct Wanted {
    list: AppList,
    queue: String,
    user: String,
    state: String,
    code: String,
    text: String,
    waiting: bool,
    limit: usize,
    /// Whether the largest comes first.
    sort: Option<(Column, bool)>,
}

impl Wanted {
    /// Reads a query.
    pub fn read(query: &str) -> Result<Wanted, Problem> {
        const KNOWN: [&str; 9] = ["list", "queue", "user", "state", "reason", "text", "waiting", "limit", "sort"];
        let given = query::read(query, &KNOWN, &[])?;
        let value = |name: &str| query::one(&given, name).unwrap_or_default().to_owned();
        let list = match value("list").as_str() {
            "" => AppList::Active,
            list => app_list(list).map_err(|_| {
                Problem::field("list", format!("list is '{list}'; it may be active, completed or rejected"))
            })?,
        };
        let waiting = match value("waiting").as_str() {
            "" | "false" => false,
            "true" => true,
            other => return Err(Problem::field("waiting", format!("waiting is '{other}'; it may be true or false"))),
        };
        let state = value("state");
        if !state.is_empty() && !AppState::ALL.iter().any(|known| known.name().eq_ignore_ascii_case(&state)) {
            let known = AppState::ALL.map(AppState::name).join(", ");
            return Err(Problem::field("state", format!("state is '{state}'; it may be one of {known}")));
        }
        let code = value("reason");
        if !code.is_empty() && !CODES.contains(&&*code) {
            let text = format!("reason is '{code}'; it may be one of {}", CODES.join(", "));
            return Err(Problem::field("reason", text));
        }
        let limit = match value("limit").as_str() {
            "" => LIMIT,
            text => text.parse().ok().filter(|limit| (1..=MOST).contains(limit)).ok_or_else(|| {
                Problem::field("limit", format!("limit is '{text}'; it may be a number from 1 to {MOST}"))
            })?,
        };
        let sort = value("sort");
        let (column, down) = sort.strip_prefix('-').map_or((&*sort, false), |column| (column, true));
        let known = COLUMNS.iter().find(|(known, _)| known.eq_ignore_ascii_case(column));
        if known.is_none() && !sort.is_empty() {
            let known = columns().join(", ");
            let text = format!("sort is '{sort}'; it may be one of {known}, with a - before it from the largest");
            return Err(Problem::field("sort", text));
        }
        Ok(Wanted {
            list,
            queue: value("queue").to_lowercase(),
            user: value("user"),
            state,
            code,
            text: value("text").to_lowercase(),
            waiting,
            limit,
            sort: known.map(|(_, column)| (*column, down)),
        })
    }

    fn wants(&self, app: &App) -> bool {
        let below =
            |path: &str| path == self.queue || path.strip_prefix(&self.queue).is_some_and(|p| p.starts_with('.'));
        let has = |text: &str| text.to_lowercase().contains(&self.text);
        (self.queue.is_empty() || below(&app.queue_path))
            && (self.user.is_empty() || *app.user == *self.user)
            && (self.state.is_empty() || app.state.name().eq_ignore_ascii_case(&self.state))
            && (self.text.is_empty() || has(&app.id) || has(&app.queue_path) || has(&app.user))
    }
}

/// The answer.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ApplicationsInShort")]
pub struct ListView<'a> {
    partition: &'a str,
    /// Applications that match, also those beyond the limit.
    matched: usize,
    /// Applications of the list.
    total: usize,
    applications: Vec<Row<'a>>,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ApplicationInShort")]
#[serde(rename_all = "camelCase")]
struct Row<'a> {
    #[serde(rename = "applicationID")]
    id: &'a str,
    queue_name: &'a str,
    user: &'a str,
    state: &'static str,
    submitted: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    finished: Option<String>,
    allocations: u64,
    #[serde(skip_serializing_if = "unset")]
    placeholders: u32,
    #[serde(skip_serializing_if = "Amounts::is_empty")]
    used: Amounts,
    /// Asks that wait.
    #[serde(skip_serializing_if = "unset")]
    asks: u64,
    #[serde(skip_serializing_if = "Amounts::is_empty")]
    pending: Amounts,
    #[serde(skip_serializing_if = "Option::is_none")]
    waiting_since: Option<String>,
    /// Of the first ask.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<Reason>,
    /// How many different reasons its asks have.
    #[serde(skip_serializing_if = "unset")]
    reasons: usize,
    /// Why it was refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<&'a str>,
}

/// An application with its asks that wait.
struct Found<'a> {
    app: &'a App,
    waiting: Vec<Waiting>,
    reasons: Vec<Reason>,
    /// Which of them is shown.
    first: usize,
}

impl Found<'_> {
    /// The one that is shown.
    fn reason(&self) -> Option<&Reason> {
        self.reasons.get(self.first)
    }

    fn asks(&self) -> u64 {
        self.waiting.iter().map(|waiting| waiting.asks).sum()
    }

    fn since(&self) -> Option<Nanos> {
        self.waiting.iter().map(|waiting| waiting.since).min()
    }

    fn used(&self) -> Resource {
        let [real, placeholders] = self.app.placed();
        real.plus(&placeholders)
    }
}

/// Lists applications; where they are not sorted otherwise those that wait come first, the one that has waited longest at the top, then the latest.
pub fn list<'a>(view: &'a View, wanted: &Wanted, halt: Option<&Halt>) -> ListView<'a> {
    let partition = view.partition();
    let mut explainer = Explainer::new(partition);
    let at = now();
    let mut found: Vec<Found> = Vec::new();
    let mut total = 0;
    let mut take = |app: &'a App, ix: Option<AppIx>| {
        total += 1;
        if !wanted.wants(app) {
            return;
        }
        let waiting = ix.map(|ix| explainer.application(ix, at)).unwrap_or_default();
        let reasons: Vec<Reason> = waiting.iter().map(|waiting| Reason::of(waiting, halt)).collect();
        let first = reasons.iter().position(|reason| wanted.code.is_empty() || reason.code == wanted.code);
        if (wanted.code.is_empty() || first.is_some()) && !(wanted.waiting && waiting.is_empty()) {
            found.push(Found { app, waiting, reasons, first: first.unwrap_or(0) });
        }
    };
    match wanted.list {
        AppList::Active => {
            for ix in partition.app_by_id.values() {
                if let Some(app) = partition.apps.get(*ix) {
                    take(app, Some(*ix));
                }
            }
        }
        AppList::Completed => partition.terminated.values().for_each(|app| take(app, None)),
        AppList::Rejected => partition.rejected.values().for_each(|app| take(app, None)),
    }
    found.sort_by_key(|found| {
        let since = found.since();
        (since.is_none(), since, Reverse(found.app.submission))
    });
    let matched = found.len();
    let mut order: Vec<usize> = (0..matched).collect();
    if let Some((column, down)) = wanted.sort {
        // Once each: what an application has is a sum.
        let cells: Vec<Cell> = found.iter().map(|found| column(found, at)).collect();
        order.sort_by(|a, b| {
            let order = cells[*a].cmp(&cells[*b]);
            if down { order.reverse() } else { order }
        });
    }
    let applications = order.into_iter().take(wanted.limit).map(|place| row(&mut found[place])).collect();
    ListView { partition: &view.shown, matched, total, applications }
}

/// The row of an application; its reasons are taken.
fn row<'a>(found: &mut Found<'a>) -> Row<'a> {
    let reasons = std::mem::take(&mut found.reasons);
    let distinct: BTreeSet<&str> = reasons.iter().map(|reason| &*reason.text).collect();
    let count = distinct.len();
    let app = found.app;
    Row {
        id: &app.id,
        queue_name: &app.queue_path,
        user: &app.user,
        state: app.state.name(),
        submitted: time_text(app.submission),
        finished: app.finished.map(time_text),
        allocations: app.placements(),
        placeholders: app.gang.placeholders - app.asked[1].count as u32,
        used: Amounts::from(&found.used()),
        asks: found.asks(),
        pending: Amounts::from(&app.waiting()),
        waiting_since: found.since().map(time_text),
        reason: reasons.into_iter().nth(found.first),
        reasons: count,
        message: app.rejected.as_deref(),
    }
}
