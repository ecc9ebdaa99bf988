//! `/api/v1/partition/{p}/usage/history`: what users, groups or queues used over a while, as lines.
//!
//! A line is a share (`{"from":…,"to":…,"user":"alice","resourceSeconds":{"memory":"12.5"}}`), a time for which events are
//! missing (`{"gap":{"from":…,"to":…,"reason":"crash"}}`), or the last one: `{"since":…,"until":…,"complete":true,…}`, or
//! `{"closed":{"detail":…}}` where the answer broke off.

mod lines;
mod parameters;

use std::{convert::Infallible, sync::Arc};

use actix::Addr;
use actix_web::{
    HttpRequest, HttpResponse,
    http::header,
    web::{Data, Path},
};
use bytes::Bytes;
use futures::Stream;

use self::parameters::Wanted;
use super::find_partition;
use crate::{
    actors::{directory::Directory, event::EventActor},
    domain::{
        types::Nanos,
        usage::{By, History, Question, UsagePiece},
    },
    http::{
        operation::{one_of, text},
        problem::Problem,
        route::{Access, Route},
    },
    messages::event::{ReadUsage, UsagePage},
};

/// Events that are asked for at a time.
const PAGE: usize = 8_192;

/// Where the handler finds partitions and events.
pub struct UsageApi {
    /// Partitions by the name that REST shows.
    pub directory: Arc<Directory>,
    /// Their events.
    pub events: Addr<EventActor>,
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
    let partition = partition(&api.directory, &path)?;
    let Wanted { by, queue, since, until, step } = Wanted::read(&request)?;
    let question = Question { partition, by, queue, since, until, step };
    let from_when = since.unwrap_or(Nanos(i64::MIN));
    let reading = Reading {
        events: api.events.clone(),
        history: History::new(question),
        by,
        since: from_when,
        from: None,
        done: false,
    };
    Ok(HttpResponse::Ok()
        .insert_header((header::CONTENT_TYPE, "application/x-ndjson"))
        .insert_header((header::CACHE_CONTROL, "no-store"))
        .streaming(reading.lines()))
}

/// The internal name of a partition. One that is not registered now, but was, goes by that name.
fn partition(directory: &Directory, name: &str) -> Result<Arc<str>, Problem> {
    match find_partition(&directory.get(), name) {
        Ok(entry) => Ok(entry.internal),
        Err(_) if name.starts_with('[') && name.contains(']') => Ok(name.into()),
        Err(problem) => Err(problem),
    }
}

/// An answer under way.
struct Reading {
    events: Addr<EventActor>,
    history: History,
    by: crate::domain::usage::By,
    since: Nanos,
    /// The next id; `None` before the first page.
    from: Option<u64>,
    done: bool,
}

impl Reading {
    fn lines(self) -> impl Stream<Item = Result<Bytes, Infallible>> {
        futures::stream::unfold(self, async |mut reading| {
            let lines = reading.next().await?;
            Some((Ok(lines), reading))
        })
    }

    /// The next lines.
    async fn next(&mut self) -> Option<Bytes> {
        while !self.done {
            let page = self.events.send(ReadUsage { from: self.from, since: self.since, events: PAGE }).await;
            let UsagePage { pieces, last } = match page {
                Ok(Ok(page)) => page,
                Ok(Err(error)) => return Some(self.close(&error.to_string())),
                Err(_) => return Some(self.close("the scheduler is shutting down")),
            };
            for piece in &pieces {
                self.history.take(piece);
                if let UsagePiece::Log(piece) = piece {
                    self.from = Some(piece.end());
                }
            }
            // A page without events has points only, and what comes after them is at their place.
            if let (None, Some(UsagePiece::Point(point))) = (self.from, pieces.last()) {
                self.from = Some(point.id);
            }
            self.done = last || pieces.is_empty() || self.history.is_over();
            if self.done {
                self.history.finish();
            }
            let mut lines = lines::text(self.by, &self.history.lines());
            if self.done {
                lines.extend_from_slice(&lines::end(self.by, &self.history));
            }
            if !lines.is_empty() {
                return Some(lines.into());
            }
        }
        None
    }

    fn close(&mut self, detail: &str) -> Bytes {
        self.done = true;
        lines::closed(detail).into()
    }
}
