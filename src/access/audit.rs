//! Who did what: a record for each change that somebody made or tried to make through a door, numbered without gaps, kept in
//! memory and handed to whoever writes it down. `docs/audit.md` is the user's side of it.
//!
//! What shims send all the time is summed up, and so is what was refused, and what a caller fails at again and again: none of
//! it may fill the log.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    fmt, io,
    net::IpAddr,
    ops::RangeInclusive,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, mpsc::Sender},
    time::{Duration, Instant},
};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use tokio::{sync::watch, time::timeout};

use super::{Caller, Role};
use crate::{messages::sparing::Sparing, trace::Trace};

/// Records that are kept in memory, for those who ask.
pub const KEPT: usize = 10_000;
/// Kinds of requests that are summed up apart in one interval. Further ones count for `others`.
const SUMS: usize = 1_000;
/// How many of them one caller may have: a shim has about ten. Its further ones count for its `others`.
const OF_CALLER: usize = 32;
/// How many of them all unknown callers may have together: anybody may be one, from however many addresses.
const OF_STRANGERS: usize = 64;
/// What fails of a caller in a minute, and by itself is noted. What is more is summed up.
const FAILED: u32 = 20;
/// The same for what a caller does that is no operator: a shim begins a session, and hardly ever another one.
const DONE: u32 = 60;
/// Who sent no token, or one that is not known.
const UNKNOWN: &str = "unknown";
/// What stands for kinds that are not told apart.
pub const OTHERS: &str = "others";
/// Bytes of a text that somebody sent.
const LONGEST: usize = 1_024;
/// Texts of a request that are kept: what it is about, and what came of it.
const TOLD: usize = 2;
/// The outcome of what nobody answered.
const UNANSWERED: &str = "unknown";
/// How long an answer waits at most for its record to be in a file.
const PATIENCE: Duration = Duration::from_secs(1);

/// What happened.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// `http`, `grpc`, `signal`, or `file`.
    pub door: String,
    /// Name of the token, or what else is known.
    pub who: String,
    /// Role of the token; empty where the server has none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub role: String,
    /// Address of the client.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub address: String,
    /// The request: method and path, or the name of a call.
    pub action: String,
    /// What of it matters: targets and reason of a drain, the resource manager that registered.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub detail: String,
    /// `done`, `refused` (not allowed) or `failed`; `unknown`: its client went before the answer, and it may have been carried out.
    pub outcome: String,
    /// HTTP or gRPC status.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub status: String,
    /// The trace that it is part of, where its sender said so.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub trace: String,
    /// How many of this kind there were; left out for one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
}

/// An entry with its number and time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// Dense, from 1, over restarts too.
    pub id: u64,
    /// RFC 3339, UTC.
    pub time: String,
    /// What happened.
    #[serde(flatten)]
    pub entry: Entry,
}

impl Record {
    /// The same without names, addresses and details: equal ones get equal stand-ins, as long as the process runs. `route`: the path
    /// of a request with its names in braces, where it is known.
    pub fn redacted(mut self, route: impl Fn(&str, &str) -> Option<&'static str>) -> Record {
        static SALT: OnceLock<uuid::Uuid> = OnceLock::new();
        let salt = SALT.get_or_init(uuid::Uuid::new_v4);
        let hidden = |kind: &str, text: &str| {
            let digest = Sha256::digest(format!("{salt}:{kind}:{text}"));
            format!("{kind}-{:02x}{:02x}{:02x}{:02x}", digest[0], digest[1], digest[2], digest[3])
        };
        self.entry.who = hidden("who", &self.entry.who);
        if !self.entry.address.is_empty() {
            self.entry.address = hidden("address", &self.entry.address);
        }
        if !self.entry.detail.is_empty() {
            self.entry.detail = hidden("detail", &self.entry.detail);
        }
        if let Some((method, path)) = self.entry.action.split_once(' ').filter(|(_, path)| path.starts_with('/')) {
            let shown =
                |(part, sent): (&'static str, &str)| match part.strip_prefix('{').and_then(|it| it.strip_suffix('}')) {
                    // What is summed up is told by its route.
                    Some(_) if sent.starts_with('{') => part.to_owned(),
                    Some(kind) => hidden(kind, sent),
                    None => part.to_owned(),
                };
            let told =
                route(method, path).map(|route| route.split('/').zip(path.split('/')).map(shown).collect::<Vec<_>>());
            // Of a path that is not known nobody knows what in it is a name.
            self.entry.action = format!("{method} {}", told.map_or(OTHERS.to_owned(), |told| told.join("/")));
        }
        self
    }
}

/// What a handler knows of a request and the door does not: read when the request has been answered.
#[derive(Clone, Debug, Default)]
pub struct Detail(Arc<Mutex<Vec<String>>>);

impl Detail {
    /// Says what of the request matters, or what came of it.
    pub fn tell(&self, text: impl Into<String>) {
        let mut text: String = text.into();
        if text.len() > LONGEST {
            text.truncate(text.floor_char_boundary(LONGEST));
            text.push('…');
        }
        // Nothing panics while it is held.
        let mut told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if told.len() < TOLD {
            told.push(text);
        }
    }

    fn text(&self) -> String {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).join("; ")
    }
}

/// What a door knows of a request.
#[derive(Clone, Debug)]
pub struct Request {
    /// `http` or `grpc`.
    pub door: &'static str,
    /// Who sent it.
    pub who: String,
    /// Role of the token.
    pub role: String,
    /// Where it came from.
    pub address: String,
    /// Method and path, or the name of the call.
    pub action: String,
    /// As what it is summed up unless it was carried out: one of a few that the door knows, whatever the caller makes up.
    pub kind: String,
    /// What the handler says.
    pub detail: Detail,
    /// The trace that it is part of.
    pub trace: Option<Trace>,
}

impl Request {
    /// A request by somebody who is known, or by nobody known.
    pub fn new(
        door: &'static str,
        caller: Option<&Caller>,
        address: Option<IpAddr>,
        action: String,
        kind: String,
    ) -> Request {
        let (who, role) = match caller {
            Some(Caller::Holder(grant)) => (grant.name.to_string(), grant.role.to_string()),
            Some(Caller::Anyone) => ("anyone".to_owned(), String::new()),
            None => (UNKNOWN.to_owned(), String::new()),
        };
        let address = address.map_or(String::new(), |address| address.to_canonical().to_string());
        let detail = Detail::default();
        let mut action = action;
        action.truncate(action.floor_char_boundary(LONGEST));
        Request { door, who, role, address, action, kind, detail, trace: None }
    }

    /// By what its sender is told from others: its name, or the address where there are no tokens.
    fn sender(&self) -> &str {
        if self.role.is_empty() { &self.address } else { &self.who }
    }

    fn entry(self, outcome: &str, status: String) -> Entry {
        Entry {
            door: self.door.to_owned(),
            who: self.who,
            role: self.role,
            address: self.address,
            action: self.action,
            detail: self.detail.text(),
            outcome: outcome.to_owned(),
            status,
            trace: self.trace.map(|trace| trace.id()).unwrap_or_default(),
            count: None,
        }
    }
}

/// A change that is under way. Where it is dropped before it was answered its client has gone, and what was handed to an actor by
/// then is carried out all the same: that is in the log too.
#[derive(Debug)]
pub struct Pending {
    audit: Arc<Audit>,
    asked: Option<Request>,
    /// By itself, not only counted.
    noted: bool,
    /// It was noted as one that goes on.
    told: bool,
}

impl Pending {
    /// Begins.
    pub fn new(audit: Arc<Audit>, asked: Request, noted: bool) -> Pending {
        Pending { audit, asked: Some(asked), noted, told: false }
    }

    /// Says what came of it.
    pub fn tell(&self, text: impl Into<String>) {
        if let Some(asked) = &self.asked {
            asked.detail.tell(text);
        }
    }

    /// It was answered. Gives the id of its record, where it has one. `kind`: see [`Request::kind`].
    pub fn answered(mut self, outcome: &str, status: String, kind: Option<String>) -> Option<u64> {
        let mut asked = self.asked.take()?;
        asked.kind = kind.unwrap_or(asked.kind);
        self.end(asked, outcome, status)
    }

    /// It is carried out for as long as its client wants, and is counted now. Of its end only one that is not well is counted then.
    pub fn goes_on(&mut self) {
        if let Some(asked) = self.asked.as_ref().filter(|_| !self.told) {
            self.audit.count(asked, "done");
        }
        self.told = true;
    }

    fn end(&self, asked: Request, outcome: &str, status: String) -> Option<u64> {
        if self.told && matches!(outcome, "done" | UNANSWERED) {
            return None;
        }
        if self.noted && outcome != "refused" {
            return self.audit.answered(asked, outcome, status);
        }
        self.audit.count(&asked, outcome);
        None
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        if let Some(asked) = self.asked.take() {
            self.end(asked, UNANSWERED, String::new());
        }
    }
}

/// What is in the files from an id on, which blocks.
pub struct Older {
    /// The first id that is in a file.
    pub begins: u64,
    /// One by one; what is damaged is left out.
    pub records: Box<dyn Iterator<Item = Record> + Send>,
}

/// Looks into the files from an id on, blocking.
pub type Files = Box<dyn Fn(u64) -> io::Result<Older> + Send + Sync>;

/// The log. Whoever changes something through a door is in it.
pub struct Audit {
    inner: Mutex<Inner>,
    /// Up to this one they can be read: what nobody could find after a kill is shown to nobody, unless the disk is at fault.
    newest: watch::Sender<u64>,
    standing: Mutex<Standing>,
    files: Option<Files>,
    /// These were noted by an earlier process, and are not there.
    lost: Option<RangeInclusive<u64>>,
}

/// How far the files of the log are behind.
#[derive(Clone, Debug, Default)]
pub struct Standing {
    /// Records that are in memory only.
    pub waiting: usize,
    /// Why the disk does not take them.
    pub failing: Option<Arc<str>>,
    /// The start found that these are missing.
    pub lost: Option<RangeInclusive<u64>>,
}

impl fmt::Debug for Audit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Audit").field("newest", &*self.newest.borrow()).finish_non_exhaustive()
    }
}

#[derive(Debug)]
struct Inner {
    next: u64,
    kept: VecDeque<Arc<Record>>,
    sums: BTreeMap<(String, String, String, String, String), u64>,
    /// How many of the sums are whose.
    kinds: HashMap<String, usize>,
    failed: Sparing,
    done: Sparing,
    writer: Option<Sender<Arc<Record>>>,
}

impl Inner {
    fn count(&mut self, request: &Request, outcome: &str) {
        // What nobody answered has no kind: that is told with the answer.
        let action = if matches!(outcome, "done" | UNANSWERED) { &request.action } else { &request.kind };
        let own = |who: &str, address: &str, action: &str| {
            let [who, address, action, outcome] = [who, address, action, outcome].map(str::to_owned);
            (request.door.to_owned(), who, address, action, outcome)
        };
        let mut key = own(&request.who, &request.address, action);
        if !self.sums.contains_key(&key) {
            let (whose, most) = match &*request.who {
                UNKNOWN => (UNKNOWN, OF_STRANGERS),
                _ => (request.sender(), OF_CALLER),
            };
            let kinds = self.kinds.entry(whose.to_owned()).or_default();
            if *kinds >= most {
                key = own(&request.who, "", OTHERS);
            } else {
                *kinds += 1;
            }
            if self.sums.len() >= SUMS && !self.sums.contains_key(&key) {
                key = own(OTHERS, "", OTHERS);
            }
        }
        *self.sums.entry(key).or_default() += 1;
    }
}

impl Default for Audit {
    fn default() -> Audit {
        Audit::resumed(Vec::new(), None)
    }
}

impl Audit {
    /// Goes on behind what was kept, oldest first. What comes is given to `writer`, which says when it is [`Audit::written`].
    pub fn resumed(kept: Vec<Record>, writer: Option<Sender<Arc<Record>>>) -> Audit {
        let next = kept.last().map_or(1, |last| last.id + 1);
        let kept = kept.into_iter().map(Arc::new).collect();
        Audit {
            inner: Mutex::new(Inner {
                next,
                kept,
                sums: BTreeMap::new(),
                kinds: HashMap::new(),
                failed: Sparing::new(FAILED),
                done: Sparing::new(DONE),
                writer,
            }),
            newest: watch::Sender::new(next - 1),
            standing: Mutex::default(),
            files: None,
            lost: None,
        }
    }

    /// The same, where ids up to this one were given: those behind what was kept are missing, and are not given again.
    pub fn given(mut self, last: u64) -> Audit {
        let inner = self.inner.get_mut().unwrap_or_else(PoisonError::into_inner);
        if inner.next <= last {
            self.lost = Some(inner.next..=last);
            inner.next = last + 1;
            self.newest.send_replace(last);
        }
        self
    }

    /// What an earlier process noted, and is missing behind all that is there of it.
    pub fn lost(&self) -> Option<RangeInclusive<u64>> {
        self.lost.clone()
    }

    /// The same, with files in which there is more than in memory.
    pub fn with_files(self, files: Files) -> Audit {
        Audit { files: Some(files), ..self }
    }

    /// What the files have from an id on, blocking; `None` where there are none.
    ///
    /// # Errors
    /// They cannot be read.
    pub fn older(&self, id: u64) -> io::Result<Option<Older>> {
        self.files.as_ref().map(|files| files(id)).transpose()
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        // Nothing panics while it is held; should it, what was noted is still right.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes one change.
    pub fn note(&self, entry: Entry) {
        let mut inner = self.inner();
        self.add(&mut inner, entry);
    }

    fn add(&self, inner: &mut Inner, entry: Entry) {
        let record = Arc::new(Record { id: inner.next, time: jiff::Timestamp::now().to_string(), entry });
        inner.next += 1;
        if inner.kept.len() == KEPT {
            inner.kept.pop_front();
        }
        inner.kept.push_back(record.clone());
        // A writer that is gone says nothing any more.
        if inner.writer.as_ref().is_none_or(|writer| writer.send(record.clone()).is_err()) {
            self.written(record.id);
        }
    }

    /// Records up to this one are in the files, or will never be.
    pub fn written(&self, id: u64) {
        self.newest.send_if_modified(|newest| {
            let more = id > *newest;
            *newest = id.max(*newest);
            more
        });
    }

    /// Records up to this one are in the files, or wait for them as this says.
    pub fn went(&self, id: u64, standing: &Standing) {
        *self.standing.lock().unwrap_or_else(PoisonError::into_inner) = standing.clone();
        self.written(id);
    }

    /// How it stands with the files.
    pub fn standing(&self) -> Standing {
        let standing = self.standing.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Standing { lost: self.lost(), ..standing }
    }

    /// The id of the last record that was noted.
    pub fn noted(&self) -> u64 {
        self.inner().next - 1
    }

    /// A change was answered. It is noted, unless its sender has had many that failed, or is no operator and had many at all. Gives
    /// the id of its record.
    pub fn answered(&self, request: Request, outcome: &str, status: String) -> Option<u64> {
        let mut inner = self.inner();
        let operator = request.role.is_empty() || request.role == Role::Operator.to_string();
        let noted = match outcome {
            "done" | UNANSWERED if operator => true,
            "done" | UNANSWERED => inner.done.say(request.sender(), Instant::now()).is_some(),
            _ => inner.failed.say(request.sender(), Instant::now()).is_some(),
        };
        if noted {
            self.add(&mut inner, request.entry(outcome, status));
            Some(inner.next - 1)
        } else {
            inner.count(&request, outcome);
            None
        }
    }

    /// The record is in a file, or the disk takes too long for it: who has been told that something is done finds it after a kill.
    pub async fn settled(&self, id: u64) {
        let _ = timeout(PATIENCE, self.newest().wait_for(|newest| *newest >= id)).await;
    }

    /// One more of what is only counted, until [`Audit::sum_up`].
    pub fn count(&self, request: &Request, outcome: &str) {
        self.inner().count(request, outcome);
    }

    /// Notes what was counted, a record for each kind.
    pub fn sum_up(&self) {
        let mut inner = self.inner();
        inner.kinds.clear();
        for ((door, who, address, action, outcome), count) in std::mem::take(&mut inner.sums) {
            let entry = Entry { door, who, address, action, outcome, count: Some(count), ..Entry::default() };
            self.add(&mut inner, entry);
        }
    }

    /// Records from this id on, `most` of them, and the oldest id that is kept.
    pub fn from(&self, id: u64, most: usize) -> (u64, Vec<Arc<Record>>) {
        let inner = self.inner();
        let oldest = inner.kept.front().map_or(inner.next, |record| record.id);
        // A line of a file that was damaged has left its id out.
        let skip = inner.kept.partition_point(|record| record.id < id);
        let newest = *self.newest.borrow();
        let readable = inner.kept.iter().skip(skip).take_while(|record| record.id <= newest);
        (oldest, readable.take(most).cloned().collect())
    }

    /// The id of the newest record that can be read, as it changes.
    pub fn newest(&self) -> watch::Receiver<u64> {
        self.newest.subscribe()
    }

    /// Lets the writer end, when it has written everything.
    pub fn close(&self) {
        self.sum_up();
        self.inner().writer = None;
    }
}

#[cfg(test)]
mod tests;
