//! `/api/v1/partition/{p}/usage/history`: what users, groups or queues used over a while, as lines.
//!
//! A line is a share (`{"from":…,"to":…,"user":"alice","resourceSeconds":{"memory":"12.5"}}`), a time for which events are
//! missing (`{"gap":{"from":…,"to":…,"reason":"crash"}}`), or the last one: `{"since":…,"until":…,"complete":true,…}`, or
//! `{"closed":{"detail":…}}` where the answer broke off.

mod lines;
mod parameters;

use std::sync::Arc;

use actix::Addr;
use actix_web::{
    HttpRequest, HttpResponse,
    web::{Data, Path},
};
use bytes::Bytes;
use futures::Stream;

use self::parameters::Wanted;
use super::{
    events::sent::{place, sent},
    find_partition,
};
use crate::{
    actors::{directory::Directory, event::EventActor},
    domain::{
        types::Nanos,
        usage::{By, History, Question, UsagePiece},
    },
    http::{
        long::Asker,
        operation::{one_of, text},
        problem::Problem,
        route::{Access, Route},
    },
    messages::event::{ReadUsage, UsagePage},
};

/// Events that are asked for at a time.
const PAGE: usize = 8_192;
/// Lines that are made at a time, about.
const LINES: usize = 1_024;

/// Where the handler finds partitions and events.
pub struct UsageApi {
    /// Partitions by the name that REST shows.
    pub directory: Arc<Directory>,
    /// Their events.
    pub events: Addr<EventActor>,
    /// Those are of logs that several servers have.
    pub of_logs: bool,
}

/// The application's data has to hold a [`UsageApi`].
pub(super) fn routes() -> Vec<Route> {
    let since = "from this time on: RFC 3339, or 10m for ten minutes ago; left out: as far back as is known";
    let step = "in steps of this length, such as 1h; needs since, and there are 10,000 at most";
    vec![
        Access::Viewer
            .get("/api/v1/partition/{partition}/usage/history")
            .to(history, "What users, groups or queues used over a while")
            .required_query("by", one_of(&By::ALL.map(By::name)), "whose usage is told apart")
            .query("queue", text(), "of this queue and those below")
            .query("since", text(), since)
            .query("until", text(), "up to this time, now at the latest; left out: until now")
            .query("step", text(), step)
            .lines("A share, a gap, or as the last one how complete it is, in a line")
            .problems(&[400, 404, 503]),
    ]
}

async fn history(api: Data<UsageApi>, path: Path<String>, request: HttpRequest) -> Result<HttpResponse, Problem> {
    let (partition, registered) = partition(&api.directory, &path)?;
    let Wanted { by, queue, since, until, step } = Wanted::read(&request)?;
    let place = place(&request).await?;
    let missing = (!registered).then(|| {
        let shown = |since: Nanos| jiff::Timestamp::from_nanosecond(since.0.into()).unwrap_or_default();
        let since = since.map_or_else(String::new, |since| format!(" since {:.0}", shown(since)));
        format!("partition '{partition}' is not registered, and no event of the log{since} is of it")
    });
    let question = Question { partition, by, queue, since, until, step, of_logs: api.of_logs };
    let from_when = since.unwrap_or(Nanos(i64::MIN));
    let reading = Reading {
        events: api.events.clone(),
        asker: Asker::of(&request),
        history: Some(Box::new(History::new(question))),
        by,
        missing,
        since: from_when,
        from: None,
        told: true,
        read: false,
        done: false,
    };
    Ok(sent(reading.lines(), place))
}

/// The internal name of a partition, and whether it is registered. One that is not now, but was, goes by that name.
fn partition(directory: &Directory, name: &str) -> Result<(Arc<str>, bool), Problem> {
    match find_partition(&directory.get(), name) {
        Ok(entry) => Ok((entry.internal, true)),
        Err(_) if name.starts_with('[') && name.contains(']') => Ok((name.into(), false)),
        Err(problem) => Err(problem),
    }
}

/// An answer under way.
struct Reading {
    events: Addr<EventActor>,
    asker: Asker,
    /// Away while lines are made.
    history: Option<Box<History>>,
    by: By,
    /// What is told where the log does not know the partition; `None`: it is registered.
    missing: Option<String>,
    since: Nanos,
    /// The next id; `None` before the first page.
    from: Option<u64>,
    /// All lines of what was read were told.
    told: bool,
    /// Nothing is to be read any more.
    read: bool,
    done: bool,
}

impl Reading {
    fn lines(self) -> impl Stream<Item = Bytes> {
        futures::stream::unfold(self, async |mut reading| {
            let lines = reading.next().await?;
            Some((lines, reading))
        })
    }

    /// The next lines.
    async fn next(&mut self) -> Option<Bytes> {
        while !self.done {
            // A page at a time: others have their turn, and what waits for one holds no events.
            let turn = self.asker.wait().await;
            let Some(mut history) = self.history.take() else { break };
            if self.told && !self.read {
                if history.is_over() {
                    self.read = true;
                } else if let Err(detail) = self.page(&mut history).await {
                    return Some(self.close(&detail));
                }
                if self.read {
                    history.finish();
                }
            }
            let (by, read, missing) = (self.by, self.read, self.missing.clone());
            let made = turn.make(move || {
                let lines = history.lines(LINES);
                let (text, told) = (lines::text(by, &lines), lines.len() < LINES);
                let end = match missing.filter(|_| !history.is_known()) {
                    _ if !(told && read) => Vec::new(),
                    Some(missing) => lines::closed(&missing),
                    None => lines::end(by, &history),
                };
                (history, [text, end].concat(), told)
            });
            let text;
            (self.history, text, self.told) = match made.await {
                Ok((history, text, told)) => (Some(history), text, told),
                Err(broken) => return Some(self.close(&broken.to_string())),
            };
            self.done = self.told && self.read;
            if !text.is_empty() {
                return Some(text.into());
            }
        }
        None
    }

    /// Reads the next page.
    async fn page(&mut self, history: &mut History) -> Result<(), String> {
        let page = self.events.send(ReadUsage { from: self.from, since: self.since, events: PAGE }).await;
        let UsagePage { pieces, last } = match page {
            Ok(Ok(page)) => page,
            Ok(Err(error)) => return Err(error.to_string()),
            Err(_) => return Err("the scheduler is shutting down".to_owned()),
        };
        for piece in &pieces {
            history.take(piece);
            if let UsagePiece::Log(piece) = piece {
                self.from = Some(piece.end());
            }
        }
        // A page without events has points only, and what comes after them is at their place.
        if let (None, Some(UsagePiece::Point(point))) = (self.from, pieces.last()) {
            self.from = Some(point.id);
        }
        self.read = last || pieces.is_empty();
        Ok(())
    }

    fn close(&mut self, detail: &str) -> Bytes {
        self.done = true;
        lines::closed(detail).into()
    }
}
