//! What is said to etcd: reads, transactions, leases and watches, over its v3 interface.
//!
//! Members are spoken to one at a time; the next has its turn when one does not answer. A read is tried at each of them. A
//! transaction is sent once: whether one that was not answered came through is for the caller to find out.

use std::{
    fmt,
    pin::pin,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use arc_swap::{ArcSwap, ArcSwapOption};
use bytes::Bytes;
use tokio::{
    sync::mpsc,
    time::{sleep, timeout},
};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{
    Code, Request, Status, Streaming,
    metadata::{Ascii, MetadataValue},
    transport::Channel,
};

pub use self::access::Access;
use self::access::Certificates;
use self::wire::{
    AuthenticateRequest, CompactionRequest, Compare, DeleteRangeRequest, LeaseGrantRequest, LeaseKeepAliveRequest,
    LeaseKeepAliveResponse, LeaseRevokeRequest, PutRequest, RangeRequest, RequestOp, ResponseHeader, StatusRequest,
    TxnRequest, WatchCreateRequest, WatchRequest, WatchResponse, auth_client::AuthClient, compare, kv_client::KvClient,
    lease_client::LeaseClient, maintenance_client::MaintenanceClient, request_op, response_op,
    watch_client::WatchClient, watch_request,
};
pub use self::wire::{Event, KeyValue, event::EventType};

mod access;

/// Messages of etcd, as `proto/etcd/rpc.proto` describes them.
#[allow(clippy::all, missing_docs)]
pub mod wire {
    tonic::include_proto!("etcdserverpb");
}

/// How long a call may take.
pub const PATIENCE: Duration = Duration::from_secs(3);
/// A transaction that is not answered in this time may be lost with the member that led etcd: it is looked whether another leads.
const DOUBT: Duration = Duration::from_millis(500);

/// How often a call is sent again with a new token.
const TRIES: usize = 3;

/// Why a call failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Trouble {
    /// No member answered, or not in time. A transaction may have come through.
    #[error("etcd does not answer ({0})")]
    Silent(String),
    /// etcd refused.
    #[error("etcd refuses: {0}")]
    Refused(String),
    /// What was asked for is older than what etcd keeps.
    #[error("etcd has compacted what was asked for")]
    Compacted,
}

/// A condition of a transaction.
#[derive(Clone, Debug)]
pub struct If {
    /// The key.
    pub key: String,
    /// It was last changed at this revision; 0: it is not there.
    pub revision: i64,
}

/// A change of a transaction.
#[derive(Clone, Debug)]
pub enum Change {
    /// A value, with the lease with which it ends; 0: none.
    Put(String, Bytes, i64),
    /// All keys from one up to another.
    Delete(String, String),
}

impl Change {
    /// Deletes one key.
    pub fn delete(key: &str) -> Change {
        Change::Delete(key.to_owned(), format!("{key}\0"))
    }
}

/// What came of a transaction.
#[derive(Clone, Debug)]
pub struct Done {
    /// Its conditions held, and it was carried out.
    pub held: bool,
    /// The revision of etcd afterwards.
    pub revision: i64,
    /// Where they did not hold: the keys of the conditions as they are.
    pub found: Vec<KeyValue>,
}

/// Keys as they were at a revision.
#[derive(Clone, Debug)]
pub struct Found {
    /// The revision.
    pub revision: i64,
    /// In order of keys.
    pub keys: Vec<KeyValue>,
    /// There are more than were asked for.
    pub more: bool,
}

/// How etcd is.
#[derive(Clone, Debug, Default)]
pub struct State {
    /// Its version.
    pub version: String,
    /// Bytes of its database.
    pub bytes: u64,
    /// Why it takes no changes; `None`: it does.
    pub refuses: Option<Arc<str>>,
}

/// A model of etcd in the same process.
pub trait Model: Send + Sync {
    /// See [`Etcd::range`].
    ///
    /// # Errors
    /// See [`Trouble`].
    fn range(&self, from: &str, to: &str, revision: i64, limit: i64) -> Result<Found, Trouble>;

    /// See [`Etcd::txn`].
    ///
    /// # Errors
    /// See [`Trouble`].
    fn txn(&self, conditions: &[If], changes: Vec<Change>) -> Result<Done, Trouble>;
}

/// See the module.
pub struct Etcd {
    /// It is none.
    model: Option<Arc<dyn Model>>,
    access: Access,
    /// To the members, in their order.
    channels: ArcSwap<Vec<Channel>>,
    /// With which these were made.
    certificates: Mutex<Certificates>,
    present: AtomicUsize,
    /// The latest term of etcd's own log that an answer told: it grows when another member leads.
    term: AtomicU64,
    token: Token,
}

/// What etcd gave at the last sign-in; none: the next call signs in.
type Token = Arc<ArcSwapOption<MetadataValue<Ascii>>>;

impl fmt::Debug for Etcd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.access.members).finish()
    }
}

/// The key behind all keys that begin with this one.
pub fn behind(prefix: &str) -> String {
    // Keys are ASCII, and end in a letter, a digit or a slash.
    let mut end = prefix.to_owned();
    let last = end.pop().map_or('\0', |last| char::from(u8::try_from(last).unwrap_or(0x7e) + 1));
    end.push(last);
    end
}

impl Etcd {
    /// Connects when it is first needed, from within a runtime.
    ///
    /// # Errors
    /// A URL or a certificate is none.
    pub fn new(access: Access) -> Result<Arc<Etcd>, String> {
        let certificates = access.certificates()?;
        access.user()?;
        let channels = access.channels(&certificates)?;
        Ok(Arc::new(Etcd {
            model: None,
            channels: ArcSwap::from_pointee(channels),
            certificates: Mutex::new(certificates),
            access,
            present: AtomicUsize::new(0),
            term: AtomicU64::new(0),
            token: Token::default(),
        }))
    }

    /// Reads and transactions are those of a model.
    pub fn modelled(model: Arc<dyn Model>) -> Arc<Etcd> {
        Arc::new(Etcd {
            model: Some(model),
            access: Access::default(),
            channels: ArcSwap::default(),
            certificates: Mutex::default(),
            present: AtomicUsize::new(0),
            term: AtomicU64::new(0),
            token: Token::default(),
        })
    }

    /// Its members, for texts.
    pub fn names(&self) -> String {
        self.access.members.join(",")
    }

    fn member(&self) -> (usize, &str, Channel) {
        let at = self.present.load(Relaxed) % self.access.members.len();
        (at, &self.access.members[at], self.channels.load()[at].clone())
    }

    /// Certificates may have been replaced since connections were made: others are made with those that are there now.
    fn renew(&self) -> Result<(), String> {
        let found = self.access.certificates()?;
        let mut known = self.certificates.lock().unwrap_or_else(PoisonError::into_inner);
        if *known != found {
            self.channels.store(Arc::new(self.access.channels(&found)?));
            *known = found;
            tracing::info!("certificates for etcd were replaced");
        }
        Ok(())
    }

    fn request<T>(&self, message: T) -> Request<T> {
        let mut request = Request::new(message);
        if let Some(token) = self.token.load_full() {
            request.metadata_mut().insert("token", (*token).clone());
        }
        // A member that is cut off from the others says so instead of going on by itself.
        request.metadata_mut().insert("hasleader", MetadataValue::from_static("true"));
        request
    }

    /// One call to the present member. Where it does not answer, the next has its turn from then on.
    async fn once<T, F>(&self, call: impl Fn(Channel) -> F) -> Result<T, Trouble>
    where
        F: Future<Output = Result<T, Status>>,
    {
        let (at, url, channel) = self.member();
        let why = match self.signed(url, channel, call).await {
            Err(Trouble::Silent(why)) => why,
            done => return done,
        };
        let _ = self.present.compare_exchange(at, (at + 1) % self.access.members.len(), Relaxed, Relaxed);
        Err(Trouble::Silent(match self.renew() {
            Ok(()) => why,
            Err(unread) => format!("{why}; {unread}"),
        }))
    }

    /// One call to this member, as the user, where one is named.
    async fn signed<T, F>(&self, url: &str, channel: Channel, call: impl Fn(Channel) -> F) -> Result<T, Trouble>
    where
        F: Future<Output = Result<T, Status>>,
    {
        if self.access.user.is_some() && self.token.load().is_none() {
            self.sign_in(channel.clone()).await?;
        }
        let mut answer = timeout(PATIENCE, call(channel.clone())).await;
        let mut tries = 1;
        // What is refused for this was not carried out. Users may be changed again meanwhile.
        while matches!(&answer, Ok(Err(status)) if is_signed_out(status)) && self.access.user.is_some() && tries < TRIES
        {
            tries += 1;
            self.sign_in(channel.clone()).await?;
            answer = timeout(PATIENCE, call(channel.clone())).await;
        }
        match answer {
            Ok(answer) => answer.map_err(|status| trouble(url, &status)),
            Err(_) => Err(Trouble::Silent(format!("{url}: nothing within {} s", PATIENCE.as_secs()))),
        }
    }

    /// A call that may be made twice, at each member in turn.
    async fn read<T, F>(&self, call: impl Fn(Channel) -> F) -> Result<T, Trouble>
    where
        F: Future<Output = Result<T, Status>>,
    {
        let mut last = Trouble::Silent("no member is named".to_owned());
        for _ in 0..self.access.members.len() {
            match self.once(&call).await {
                Err(trouble @ Trouble::Silent(_)) => last = trouble,
                done => return done,
            }
        }
        Err(last)
    }

    async fn sign_in(&self, channel: Channel) -> Result<(), Trouble> {
        let Some((name, password)) = self.access.user().map_err(Trouble::Refused)? else { return Ok(()) };
        let (_, url, _) = self.member();
        let mut client = AuthClient::new(channel);
        let answer = timeout(PATIENCE, client.authenticate(AuthenticateRequest { name, password })).await;
        let answer = answer.map_err(|_| Trouble::Silent(format!("{url}: nothing within {} s", PATIENCE.as_secs())))?;
        let token = answer.map_err(|status| trouble(url, &status))?.into_inner().token;
        // The token itself belongs into no text.
        let token = token.parse().map_err(|_| Trouble::Refused(format!("{url}: its token does not fit a header")))?;
        self.token.store(Some(Arc::new(token)));
        Ok(())
    }

    /// Keys from one up to another: at a revision, 0 for the present one; so many at most, 0 for all.
    ///
    /// # Errors
    /// See [`Trouble`].
    pub async fn range(&self, from: &str, to: &str, revision: i64, limit: i64) -> Result<Found, Trouble> {
        if let Some(model) = &self.model {
            return model.range(from, to, revision, limit);
        }
        let wanted = RangeRequest {
            key: Bytes::copy_from_slice(from.as_bytes()),
            range_end: Bytes::copy_from_slice(to.as_bytes()),
            limit,
            revision,
            ..RangeRequest::default()
        };
        self.found(wanted).await
    }

    /// Keys from one up to another that were made after a revision.
    ///
    /// # Errors
    /// See [`Trouble`].
    pub async fn made_since(&self, from: &str, to: &str, revision: i64) -> Result<Found, Trouble> {
        let wanted = RangeRequest {
            key: Bytes::copy_from_slice(from.as_bytes()),
            range_end: Bytes::copy_from_slice(to.as_bytes()),
            min_create_revision: revision + 1,
            ..RangeRequest::default()
        };
        self.found(wanted).await
    }

    async fn found(&self, wanted: RangeRequest) -> Result<Found, Trouble> {
        let call = |channel| {
            let request = self.request(wanted.clone());
            async move { KvClient::new(channel).max_decoding_message_size(usize::MAX).range(request).await }
        };
        let answer = self.read(call).await?.into_inner();
        let revision = self.heard(answer.header);
        Ok(Found { revision, keys: answer.kvs, more: answer.more })
    }

    /// Carries out all changes where all conditions hold, else nothing.
    ///
    /// # Errors
    /// See [`Trouble`].
    pub async fn txn(&self, conditions: &[If], changes: Vec<Change>) -> Result<Done, Trouble> {
        if let Some(model) = &self.model {
            return model.txn(conditions, changes);
        }
        let bytes = |text: &str| Bytes::copy_from_slice(text.as_bytes());
        let compare = conditions.iter().map(|condition| Compare {
            result: compare::CompareResult::Equal.into(),
            target: compare::CompareTarget::Mod.into(),
            key: bytes(&condition.key),
            target_union: Some(compare::TargetUnion::ModRevision(condition.revision)),
        });
        let get = |condition: &If| RequestOp {
            request: Some(request_op::Request::RequestRange(RangeRequest {
                key: bytes(&condition.key),
                ..RangeRequest::default()
            })),
        };
        let change = |change| RequestOp {
            request: Some(match change {
                Change::Put(key, value, lease) => {
                    request_op::Request::RequestPut(PutRequest { key: key.into(), value, lease })
                }
                Change::Delete(from, to) => request_op::Request::RequestDeleteRange(DeleteRangeRequest {
                    key: from.into(),
                    range_end: to.into(),
                }),
            }),
        };
        let wanted = TxnRequest {
            compare: compare.collect(),
            success: changes.into_iter().map(change).collect(),
            failure: conditions.iter().map(get).collect(),
        };
        let call = |channel| {
            let request = self.request(wanted.clone());
            async move { KvClient::new(channel).txn(request).await }
        };
        let answer = self.unless_lost(conditions.first(), self.once(call)).await?.into_inner();
        let revision = self.heard(answer.header);
        let found = answer.responses.into_iter().filter_map(|response| match response.response {
            Some(response_op::Response::ResponseRange(range)) => Some(range.kvs),
            _ => None,
        });
        Ok(Done { held: answer.succeeded, revision, found: found.flatten().collect() })
    }

    /// Takes note of the head of an answer; gives its revision.
    fn heard(&self, header: Option<ResponseHeader>) -> i64 {
        let header = header.unwrap_or_default();
        self.term.fetch_max(header.raft_term, Relaxed);
        header.revision
    }

    /// Waits for a transaction with a condition, until another member leads etcd: what was on its way to the one before is not answered
    /// any more, whether it came through or not.
    async fn unless_lost<T>(
        &self,
        condition: Option<&If>,
        txn: impl Future<Output = Result<T, Trouble>>,
    ) -> Result<T, Trouble> {
        // With one member there is nobody else; what may be read is known of keys of conditions.
        let Some(condition) = condition.filter(|_| self.access.members.len() > 1) else { return txn.await };
        let mut txn = pin!(txn);
        let before = self.term.load(Relaxed);
        loop {
            let asked = async {
                sleep(DOUBT).await;
                let answered = timeout(DOUBT, self.range(&condition.key, "", 0, 0)).await;
                matches!(answered, Ok(Ok(_))) && self.term.load(Relaxed) > before
            };
            let led_by_another = tokio::select! {
                biased;
                done = &mut txn => return done,
                other = asked => other,
            };
            if led_by_another {
                return Err(Trouble::Silent(format!("{}: another member leads since", self.member().1)));
            }
        }
    }

    /// Makes a lease of so many seconds.
    ///
    /// # Errors
    /// See [`Trouble`].
    pub async fn grant(&self, seconds: i64) -> Result<i64, Trouble> {
        let call = |channel| {
            let request = self.request(LeaseGrantRequest { ttl: seconds, id: 0 });
            async move { LeaseClient::new(channel).lease_grant(request).await }
        };
        Ok(self.once(call).await?.into_inner().id)
    }

    /// Ends a lease, and with it what lives as long.
    ///
    /// # Errors
    /// See [`Trouble`].
    pub async fn revoke(&self, lease: i64) -> Result<(), Trouble> {
        let call = |channel| {
            let request = self.request(LeaseRevokeRequest { id: lease });
            async move { LeaseClient::new(channel).lease_revoke(request).await }
        };
        self.once(call).await.map(drop)
    }

    /// Opens the way on which a lease is kept alive.
    ///
    /// # Errors
    /// See [`Trouble`].
    pub async fn keep_alive(&self, lease: i64) -> Result<Alive, Trouble> {
        let call = |channel| {
            let (tell, told) = mpsc::channel(4);
            // etcd answers once the first message is there.
            let _ = tell.try_send(LeaseKeepAliveRequest { id: lease });
            let request = self.request(ReceiverStream::new(told));
            async move { Ok((tell, LeaseClient::new(channel).lease_keep_alive(request).await?)) }
        };
        let (tell, answers) = self.read(call).await?;
        Ok(Alive { lease, tell, answers: answers.into_inner(), first: true })
    }

    /// Watches all keys that begin with this one, from a revision on.
    ///
    /// # Errors
    /// See [`Trouble`].
    pub async fn watch(&self, prefix: &str, from: i64) -> Result<Watch, Trouble> {
        let create = WatchCreateRequest {
            key: Bytes::copy_from_slice(prefix.as_bytes()),
            range_end: behind(prefix).into(),
            start_revision: from,
            progress_notify: false,
        };
        let call = |channel| {
            let (tell, told) = mpsc::channel(1);
            let wanted =
                WatchRequest { request_union: Some(watch_request::RequestUnion::CreateRequest(create.clone())) };
            let _ = tell.try_send(wanted);
            let request = self.request(ReceiverStream::new(told));
            let mut client = WatchClient::new(channel).max_decoding_message_size(usize::MAX);
            async move { Ok((tell, client.watch(request).await?)) }
        };
        let (tell, answers) = self.read(call).await?;
        let (url, token) = (self.member().1.to_owned(), self.token.clone());
        Ok(Watch { _tell: tell, answers: answers.into_inner(), url, token })
    }

    /// Compacts: drops what was before a revision.
    ///
    /// # Errors
    /// See [`Trouble`].
    pub async fn compact(&self, revision: i64) -> Result<(), Trouble> {
        let wanted = CompactionRequest { revision, physical: false };
        let call = |channel| {
            let request = self.request(wanted);
            async move { KvClient::new(channel).compact(request).await }
        };
        match self.once(call).await {
            Ok(_) | Err(Trouble::Compacted) => Ok(()),
            Err(trouble) => Err(trouble),
        }
    }

    /// How it is, as one of its members says.
    ///
    /// # Errors
    /// See [`Trouble`].
    pub async fn status(&self) -> Result<State, Trouble> {
        let call = |channel| {
            let request = self.request(StatusRequest {});
            async move { MaintenanceClient::new(channel).status(request).await }
        };
        let answer = self.read(call).await?.into_inner();
        let bytes = u64::try_from(answer.db_size).unwrap_or(0);
        Ok(State { version: answer.version, bytes, refuses: answer.errors.iter().find_map(|alarm| refuses(alarm)) })
    }
}

/// Why etcd takes no changes, where it has an alarm for that.
fn refuses(alarm: &str) -> Option<Arc<str>> {
    let why = if alarm.contains("alarm:NOSPACE") {
        "etcd is out of space and takes no changes: compact and defragment it, then etcdctl alarm disarm"
    } else if alarm.contains("alarm:CORRUPT") {
        "a member of etcd is corrupt, and etcd takes no changes: etcdctl alarm list names it"
    } else {
        return None;
    };
    Some(why.into())
}

/// The token has expired, or is from before users or roles were changed.
fn is_signed_out(status: &Status) -> bool {
    let says = |why| status.message().contains(why);
    status.code() == Code::Unauthenticated || says("invalid auth token") || says("revision of auth store is old")
}

fn trouble(url: &str, status: &Status) -> Trouble {
    if status.code() == Code::OutOfRange && status.message().contains("compacted") {
        return Trouble::Compacted;
    }
    let text = format!("{url}: {}", innermost(status));
    match status.code() {
        Code::Unavailable
        | Code::DeadlineExceeded
        | Code::Cancelled
        | Code::Unknown
        | Code::Internal
        | Code::Aborted => Trouble::Silent(text),
        _ => Trouble::Refused(text),
    }
}

/// The text of the innermost error.
fn innermost(error: &(dyn std::error::Error + 'static)) -> String {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.downcast_ref::<Status>().map_or_else(|| cause.to_string(), |status| status.message().to_owned())
}

/// A lease that is kept alive.
pub struct Alive {
    lease: i64,
    tell: mpsc::Sender<LeaseKeepAliveRequest>,
    answers: Streaming<LeaseKeepAliveResponse>,
    /// Opening sent the first message.
    first: bool,
}

impl Alive {
    /// Keeps the lease alive. False: it is over.
    ///
    /// # Errors
    /// See [`Trouble`].
    pub async fn renew(&mut self) -> Result<bool, Trouble> {
        let silent = |why: String| Trouble::Silent(why);
        if !std::mem::take(&mut self.first) {
            let message = LeaseKeepAliveRequest { id: self.lease };
            self.tell.send(message).await.map_err(|_| silent("the connection broke".to_owned()))?;
        }
        match timeout(PATIENCE, self.answers.message()).await {
            Err(_) => Err(silent(format!("nothing within {} s", PATIENCE.as_secs()))),
            Ok(Err(status)) => Err(silent(innermost(&status))),
            Ok(Ok(None)) => Err(silent("the connection ended".to_owned())),
            Ok(Ok(Some(answer))) => Ok(answer.ttl > 0),
        }
    }
}

/// Changes as they are made.
pub struct Watch {
    /// Held, or etcd would take it for the end.
    _tell: mpsc::Sender<WatchRequest>,
    answers: Streaming<WatchResponse>,
    url: String,
    token: Token,
}

impl Watch {
    /// The next changes, in order, and the revision of etcd then.
    ///
    /// # Errors
    /// It ended, or what it should begin with was compacted.
    pub async fn next(&mut self) -> Result<(i64, Vec<Event>), Trouble> {
        match self.answers.message().await {
            Err(status) => Err(trouble(&self.url, &status)),
            Ok(None) => Err(Trouble::Silent(format!("{}: the watch ended", self.url))),
            Ok(Some(answer)) if answer.compact_revision > 0 => Err(Trouble::Compacted),
            Ok(Some(answer)) if answer.canceled => {
                // Releases of etcd differ in the text about a token that expired: the next call has a new one.
                self.token.store(None);
                Err(Trouble::Silent(format!("{}: the watch was ended: {}", self.url, answer.cancel_reason)))
            }
            Ok(Some(answer)) => Ok((answer.header.map_or(0, |header| header.revision), answer.events)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_prefix() {
        assert_eq!(behind("/callboard/"), "/callboard0");
        assert_eq!(behind("/a"), "/b");
    }

    #[tokio::test]
    async fn urls_that_are_none_are_named() {
        let of = |url: &str| Etcd::new(Access { members: vec![url.to_owned()], ..Access::default() });
        for wrong in ["127.0.0.1:2379", "http://", "ftp://x"] {
            assert!(of(wrong).unwrap_err().contains(wrong), "{wrong}");
        }
        assert_eq!(of("http://127.0.0.1:2379").unwrap().names(), "http://127.0.0.1:2379");
        assert!(Etcd::new(Access::default()).is_err());
    }
}
