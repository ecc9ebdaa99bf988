//! The applications of a partition, those that wait first, each with the reason of its first ask.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use super::why::Reason;
use crate::{
    domain::{
        app::App,
        partition::{Explainer, Waiting},
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

/// What of the applications is wanted.
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
}

impl Wanted {
    /// Reads a query.
    pub fn read(query: &str) -> Result<Wanted, Problem> {
        const KNOWN: [&str; 8] = ["list", "queue", "user", "state", "reason", "text", "waiting", "limit"];
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
        let limit = match value("limit").as_str() {
            "" => LIMIT,
            text => text.parse().ok().filter(|limit| (1..=MOST).contains(limit)).ok_or_else(|| {
                Problem::field("limit", format!("limit is '{text}'; it may be a number from 1 to {MOST}"))
            })?,
        };
        Ok(Wanted {
            list,
            queue: value("queue").to_lowercase(),
            user: value("user"),
            state,
            code: value("reason"),
            text: value("text").to_lowercase(),
            waiting,
            limit,
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

/// An application and what of it waits.
struct Found<'a> {
    app: &'a App,
    waiting: Vec<Waiting>,
    reasons: Vec<Reason>,
}

/// Lists applications; those that wait come first, the one that has waited longest at the top, then the latest.
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
        let fits = wanted.code.is_empty() || reasons.iter().any(|reason| reason.code == wanted.code);
        if fits && !(wanted.waiting && waiting.is_empty()) {
            found.push(Found { app, waiting, reasons });
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
        let since = since(&found.waiting);
        (since.is_none(), since, std::cmp::Reverse(found.app.submission))
    });
    let matched = found.len();
    let code = &wanted.code;
    let applications = found.into_iter().take(wanted.limit).map(|found| row(found, code)).collect();
    ListView { partition: &view.shown, matched, total, applications }
}

fn since(waiting: &[Waiting]) -> Option<Nanos> {
    waiting.iter().map(|waiting| waiting.since).min()
}

fn row<'a>(found: Found<'a>, code: &str) -> Row<'a> {
    let Found { app, waiting, reasons } = found;
    let [real, placeholders] = app.placed();
    let distinct: BTreeMap<&str, ()> = reasons.iter().map(|reason| (&*reason.text, ())).collect();
    let count = distinct.len();
    let first = reasons.iter().position(|reason| code.is_empty() || reason.code == code).unwrap_or(0);
    Row {
        id: &app.id,
        queue_name: &app.queue_path,
        user: &app.user,
        state: app.state.name(),
        submitted: time_text(app.submission),
        finished: app.finished.map(time_text),
        allocations: app.placements(),
        placeholders: app.gang.placeholders - app.asked[1].count as u32,
        used: Amounts::from(&real.plus(&placeholders)),
        asks: waiting.iter().map(|waiting| waiting.asks).sum(),
        pending: Amounts::from(&app.waiting()),
        waiting_since: since(&waiting).map(time_text),
        reason: reasons.into_iter().nth(first),
        reasons: count,
        message: app.rejected.as_deref(),
    }
}
