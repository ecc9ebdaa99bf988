//! `GET /api/v1/audit`: who did what, as NDJSON.

use std::{collections::VecDeque, io, sync::Arc, time::Duration};

use actix_web::{
    HttpRequest, HttpResponse,
    http::StatusCode,
    web::{Bytes, Data},
};
use futures::stream;
use serde_json::json;
use tokio::{sync::watch, task::spawn_blocking};

use crate::{
    access::{
        Audit,
        audit::{Older, Record},
    },
    actors::topology::Topology,
    http::{
        doors::Doors,
        operation::{count, yes_or_no},
        problem::Problem,
        route::{Access, Route},
        routes,
        shim::query,
    },
};

/// How long an answer waits for what is being written.
const PATIENCE: Duration = Duration::from_secs(2);

/// Records that are looked up at a time.
const BATCH: usize = 256;

/// The application's data has to hold the [`Doors`].
pub(super) fn routes() -> Vec<Route> {
    vec![
        Access::Operator
            .get("/api/v1/audit")
            .to(audit, "Who did what, oldest first")
            .query(
                "from",
                count(),
                "first id, also of those that are in files only; left out: the oldest that is kept in memory",
            )
            .query("follow", yes_or_no(), "go on with new records, for ever")
            .query("redact", yes_or_no(), "without names, addresses and details")
            .lines("A record in a line with its id, a gap, or as the last one where to go on, or that the server ends")
            .problems(&[400]),
    ]
}

async fn audit(request: HttpRequest, doors: Data<Doors>) -> Result<HttpResponse, Problem> {
    let parameters = query::parameters(&request, &["from", "follow", "redact"])?;
    let from = match query::one(&parameters, "from") {
        None => 0,
        Some(text) => {
            text.parse().map_err(|_| Problem::field("from", format!("from={text} is not the id of a record")))?
        }
    };
    let (follow, redact) = (query::yes(&parameters, "follow")?, query::yes(&parameters, "redact")?);
    let log = doors.audit.clone();
    // What was only counted until now belongs to what is asked for.
    log.sum_up();
    let mut newest = log.newest();
    let last = last_written(&mut newest, log.noted()).await;
    if from > last + 1 {
        // Of a server that began anew: whoever waits for that record would miss those until then.
        let detail = format!("record {from} does not exist yet: the next one is {}", last + 1);
        return Err(Problem::field("from", detail));
    }
    let topology = doors.topology.clone();
    let ready = VecDeque::new();
    // Whoever names no id asks for what is in memory.
    let files = from > 0;
    let reader =
        Reader { newest, log, topology, next: from.max(1), follow, redact, ready, ended: false, files, older: None };
    let lines = stream::unfold(reader, |mut reader| async move {
        let line = reader.line().await?;
        Some((Ok::<_, std::convert::Infallible>(line), reader))
    });
    Ok(HttpResponse::build(StatusCode::OK).content_type("application/x-ndjson").streaming(lines))
}

/// The last record that can be read, when those up to `noted` are written; where the disk hangs, the last one that is.
async fn last_written(newest: &mut watch::Receiver<u64>, noted: u64) -> u64 {
    let _ = tokio::time::timeout(PATIENCE, newest.wait_for(|newest| *newest >= noted)).await;
    *newest.borrow()
}

struct Reader {
    log: Arc<Audit>,
    newest: watch::Receiver<u64>,
    /// Says when the server ends.
    topology: Arc<Topology>,
    next: u64,
    follow: bool,
    redact: bool,
    ready: VecDeque<Bytes>,
    ended: bool,
    /// It reads files too.
    files: bool,
    /// Where it is in them.
    older: Option<Older>,
}

impl Reader {
    /// The next line; at the end `{"next": ID}`, or `{"closed": {"next": ID, "detail": …}}` where the server ends before that.
    async fn line(&mut self) -> Option<Bytes> {
        loop {
            if let Some(line) = self.ready.pop_front() {
                return Some(line);
            }
            if self.ended {
                return None;
            }
            self.look().await;
            if !self.ready.is_empty() {
                continue;
            }
            if !self.follow {
                self.ended = true;
                return Some(text(&json!({"next": self.next})));
            }
            // An empty line says that the server is there.
            tokio::select! {
                // What there is comes before the last line.
                biased;
                changed = self.newest.changed() => changed.ok()?,
                () = self.topology.ends() => {
                    self.ended = true;
                    return Some(text(&json!({"closed": {"next": self.next, "detail": "the server is shutting down"}})));
                }
                () = tokio::time::sleep(std::time::Duration::from_secs(10)) => return Some(Bytes::from_static(b"\n")),
            }
        }
    }

    /// What is missing before this one.
    fn gap(&mut self, before: u64, reason: &str) {
        let gap = json!({"gap": {"from": self.next, "to": before - 1, "reason": reason}});
        self.ready.push_back(text(&gap));
        self.next = before;
    }

    /// Why nothing is there before this one: it was kept no longer, or the start missed it.
    fn reason(&self, before: u64) -> &'static str {
        match self.log.lost() {
            Some(lost) if lost.contains(&self.next) && before <= lost.end() + 1 => "damage",
            _ => "retention",
        }
    }

    async fn look(&mut self) {
        // Before it is looked what there is: the end of what was lost.
        let newest = *self.newest.borrow();
        let (mut oldest, mut records) = self.log.from(self.next, BATCH);
        if self.next < oldest && self.files {
            self.look_into_files(oldest).await;
            (oldest, records) = self.log.from(self.next, BATCH);
        }
        if self.next < oldest && self.ready.is_empty() {
            self.gap(oldest, self.reason(oldest));
        }
        if self.next >= oldest {
            records.iter().for_each(|record| self.take(record));
            if records.is_empty() && self.next <= newest {
                self.gap(newest + 1, "damage");
            }
        }
    }

    /// The next records that memory does not have.
    async fn look_into_files(&mut self, oldest: u64) {
        let (log, next, before) = (self.log.clone(), self.next, self.older.take());
        let read = move || -> io::Result<Option<(Older, Vec<Record>)>> {
            let older = before.map_or_else(|| log.older(next), |before| Ok(Some(before)))?;
            Ok(older.map(|mut older| {
                let records = older.records.by_ref().take(BATCH).collect();
                (older, records)
            }))
        };
        let read = spawn_blocking(read).await.map_err(io::Error::other).and_then(|read| read);
        let (older, records) = match read {
            Ok(Some(read)) => read,
            Ok(None) => return,
            Err(error) => {
                tracing::error!(code = "audit-damaged", %error, "the files of the audit log cannot be read");
                return;
            }
        };
        if self.next < older.begins {
            let begins = older.begins.min(oldest);
            self.gap(begins, self.reason(begins));
        }
        records.iter().take_while(|record| record.id < oldest).for_each(|record| self.take(record));
        if records.last().is_some_and(|last| last.id + 1 < oldest) {
            self.older = Some(older);
        } else if self.next < oldest {
            self.gap(oldest, "damage");
        }
    }

    fn take(&mut self, record: &Record) {
        if self.next < record.id {
            self.gap(record.id, "damage");
        }
        self.next = record.id + 1;
        // A follower that falls behind is as good as one that has named where it is.
        self.files = true;
        let record = record.clone();
        self.ready.push_back(if self.redact { text(&record.redacted(route)) } else { text(&record) });
    }
}

/// The path of a request with its names in braces.
fn route(method: &str, path: &str) -> Option<&'static str> {
    routes::find(&method.parse().ok()?, path).map(|route| route.place.path)
}

fn text(line: &impl serde::Serialize) -> Bytes {
    let mut text = serde_json::to_vec(line).unwrap_or_default();
    text.push(b'\n');
    text.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_disk_that_hangs_does_not_hide_what_is_written() {
        let (writer, mut newest) = watch::channel(3);
        assert_eq!(last_written(&mut newest, 5).await, 3);
        writer.send_replace(5);
        assert_eq!(last_written(&mut newest, 5).await, 5);
    }
}
