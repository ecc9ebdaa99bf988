//! Who is let in: tokens and roles before every call (`docs/access.md`).

use std::{
    error::Error as _,
    future::Future,
    net::IpAddr,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use futures::future::BoxFuture;
use http_body::{Body as HttpBody, Frame, SizeHint};
use tokio::time::{Sleep, sleep};
use tonic::{
    Code, Extensions, Status,
    body::Body,
    codegen::{Service, http},
    server::NamedService,
};
use tower_layer::Layer;

use super::{
    incoming::Connection,
    paced::Arrived,
    room::{Call, Ticket},
};
use crate::{
    access::{
        Audit, Caller, Denied, Rates, Role, Tokens,
        audit::{self, Pending},
        caller::bearer,
        rates,
        tokens::Lease,
    },
    actors::topology::{Sender, Topology},
    metrics::{RATE, Refused},
    trace::{self, Span, Trace},
};

/// A stream that has neither answered nor ended by then is in the audit log as one that goes on.
const PATIENCE: Duration = Duration::from_secs(10);

/// What every call is checked with before a service sees it.
#[derive(Clone)]
pub struct Guard {
    /// Who is let in; `None`: everybody.
    pub tokens: Option<Arc<Tokens>>,
    /// Counts those who are refused.
    pub refused: Refused,
    /// Who changed what.
    pub audit: Arc<Audit>,
    /// Says whether the server is still starting: nobody is let in then.
    pub topology: Arc<Topology>,
    /// How many calls a caller may make.
    pub rates: Arc<Rates>,
}

impl<S> Layer<S> for Guard {
    type Service = Guarded<S>;

    fn layer(&self, inner: S) -> Guarded<S> {
        Guarded { inner, guard: self.clone() }
    }
}

/// A service that only those reach who may call it.
#[derive(Clone)]
pub struct Guarded<S> {
    inner: S,
    guard: Guard,
}

impl<S: NamedService> NamedService for Guarded<S> {
    const NAME: &'static str = S::NAME;
}

/// The role that a call takes; `None`: it is for everybody.
fn need(path: &str) -> Option<Role> {
    match path.split('/').nth(1).unwrap_or_default() {
        // A sign of life, without data.
        "grpc.health.v1.Health" => None,
        // The descriptions are public, but tell nobody more than has to be known.
        service if service.starts_with("grpc.reflection.") => Some(Role::Viewer),
        _ => Some(Role::Shim),
    }
}

/// The calls that change something; whether each is noted in the audit log by itself (`true`), or only counted.
const CHANGES: [(&str, bool); 8] = [
    ("/callboard.v1.SchedulerExtension/Callbacks", false),
    ("/callboard.v1.SchedulerExtension/Requests", false),
    ("/callboard.v1.SchedulerExtension/Unregister", true),
    ("/callboard.v1.SchedulerExtension/UpdateConfiguration", true),
    ("/si.v1.Scheduler/RegisterResourceManager", true),
    ("/si.v1.Scheduler/UpdateAllocation", false),
    ("/si.v1.Scheduler/UpdateApplication", false),
    ("/si.v1.Scheduler/UpdateNode", false),
];

/// How a call is kept in the audit log: its name, and whether by itself (`true`), or only counted; `None`: it changes nothing.
fn change(path: &str) -> Option<(&'static str, bool)> {
    let known = CHANGES.iter().find(|(known, _)| *known == path).copied();
    // Whoever asks for what is not there may make up any name.
    known.or_else(|| (need(path) == Some(Role::Shim)).then_some((audit::OTHERS, false)))
}

impl<S> Service<http::Request<Body>> for Guarded<S>
where
    S: Service<http::Request<Body>, Response = http::Response<Body>> + Clone + Send + 'static,
    S::Future: Send,
{
    type Response = http::Response<Body>;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<http::Response<Body>, S::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, mut request: http::Request<Body>) -> Self::Future {
        let header = request.headers().get(trace::HEADER).and_then(|header| header.to_str().ok());
        let came = header.and_then(Trace::read);
        let span = begin(&self.guard.topology, came.as_ref(), request.uri().path());
        let Some(trace) = span.as_ref().map(Span::trace).or(came.map(Trace::here)) else {
            return self.answer(request, None);
        };
        if let Some(span) = &span {
            request.extensions_mut().insert(span.point());
        }
        let answer = self.answer(request, Some(trace));
        Box::pin(async move {
            let mut response = answer.await?;
            if let Some(mut span) = span {
                match code(response.headers()) {
                    Some(code) => span.number(STATUS, code as u64),
                    None => response = response.map(|body| Body::new(Spanned { body, span: Some(span) })),
                }
            }
            // Hexadecimal digits: always a header.
            if let Ok(value) = http::HeaderValue::from_str(&trace.to_string()) {
                response.headers_mut().insert(trace::HEADER, value);
            }
            Ok(response)
        })
    }
}

/// Says where a request of a page comes from.
const SITE: http::HeaderName = http::HeaderName::from_static("sec-fetch-site");

/// The attribute of a span that has the status.
const STATUS: &str = "rpc.grpc.status_code";

/// The status, which is at the front of a call that fails before it begins to answer, and at the end of others.
fn code(headers: &http::HeaderMap) -> Option<Code> {
    Status::from_header_map(headers).map(|status| status.code())
}

/// What came of a call, as the audit log has it.
fn outcome(code: Code) -> &'static str {
    match code {
        Code::Ok => "done",
        Code::PermissionDenied | Code::Unauthenticated => "refused",
        _ => "failed",
    }
}

/// The span of a call that is traced. Calls that everybody may make, such as health checks, never are.
fn begin(topology: &Topology, came: Option<&Trace>, path: &str) -> Option<Span> {
    if !topology.traces.is_on() || need(path).is_none() {
        return None;
    }
    let mut span = topology.traces.begin(came, || path.trim_start_matches('/').to_owned().into())?;
    span.text("rpc.system", "grpc");
    Some(span)
}

impl<S> Guarded<S> {
    fn answer(
        &mut self,
        mut request: http::Request<Body>,
        trace: Option<Trace>,
    ) -> BoxFuture<'static, Result<http::Response<Body>, S::Error>>
    where
        S: Service<http::Request<Body>, Response = http::Response<Body>> + Clone + Send + 'static,
        S::Future: Send,
    {
        let need = need(request.uri().path());
        if need.is_some() && self.guard.topology.opening().is_some() {
            let mut later = self.clone();
            return Box::pin(async move {
                match later.guard.topology.admits().await {
                    Ok(()) => later.answer(request, trace).await,
                    Err(opening) => refuse(Status::unavailable(opening)).await,
                }
            });
        }
        let connection = request.extensions().get::<Connection>();
        let shown = connection.map(|connection| connection.shown.clone()).unwrap_or_default();
        let address = connection.and_then(|connection| connection.address);
        let asked = |caller: Option<&Caller>, name: &str| audit::Request {
            trace,
            ..audit::Request::new("grpc", caller, address, name.to_owned(), name.to_owned())
        };
        let change = change(request.uri().path());
        // Counted, so that whoever guesses tokens does not fill the log.
        let count_refused = |caller: Option<&Caller>| {
            if let Some((name, _)) = change {
                self.guard.audit.count(&asked(caller, name), "refused");
            }
        };
        if let Some(stranger) = strange(request.headers(), self.guard.tokens.is_some()) {
            self.guard.refused.grpc("origin");
            count_refused(None);
            return Box::pin(async move { Ok(stranger) });
        }
        let caller = match need {
            None => Caller::Anyone,
            Some(role) => {
                let header = request.headers().get(http::header::AUTHORIZATION);
                let token = header.and_then(|header| header.to_str().ok()).and_then(bearer);
                let caller = Caller::identify(self.guard.tokens.as_deref(), token, &shown);
                // Whoever guesses tokens is known by the address.
                let who = caller.as_ref().unwrap_or(&Caller::Anyone);
                if let Err(wait) = self.guard.rates.admit(|| who.key(address)) {
                    self.guard.refused.grpc(RATE);
                    count_refused(caller.as_ref().ok());
                    return refuse(too_many(&who.identity(address), wait));
                }
                let known = caller.as_ref().ok().cloned();
                match caller.and_then(|caller| caller.needs(role).map(|()| caller)) {
                    Ok(caller) => caller,
                    Err(denied) => {
                        count_refused(known.as_ref());
                        tracing::debug!(path = request.uri().path(), "{denied}");
                        self.guard.refused.grpc(denied.reason());
                        return refuse(denied.into());
                    }
                }
            }
        };
        let ticket = connection.and_then(|connection| connection.ticket.as_ref());
        let call = match ticket {
            // Who may call anything keeps its connection by any call.
            Some(ticket) if need.is_some() || self.guard.tokens.is_none() => match ticket.admit(|| caller.key(address))
            {
                Ok(call) => Some(call),
                Err(open) => {
                    self.guard.refused.grpc(RATE);
                    count_refused(Some(&caller));
                    return refuse(too_many_connections(&caller.identity(address), open));
                }
            },
            ticket => ticket.map(Ticket::welcome),
        };
        let asked = change.map(|(name, noted)| (noted, asked(Some(&caller), name)));
        let lease = caller.lease(self.guard.tokens.as_ref(), &shown);
        if let Some(lease) = caller.lease(self.guard.tokens.as_ref(), &shown) {
            // What a stream brings is its caller's as well: nothing of it is read once the right to it has ended.
            let of_client = |body| Leased { body, lease: Some(lease), ended: false, sent: Sent::Requests };
            request = request.map(|body| Body::new(of_client(body)));
        }
        match &asked {
            Some((true, asked)) => drop(request.extensions_mut().insert(asked.detail.clone())),
            Some((false, asked)) => {
                let (audit, refused) = (self.guard.audit.clone(), self.guard.refused.clone());
                request.extensions_mut().insert(Changes(Some(Arc::new((audit, refused, asked.clone())))));
            }
            None => {}
        }
        request.extensions_mut().insert(caller);
        let noted = asked.as_ref().is_some_and(|(noted, _)| *noted);
        let configures = asked.as_ref().is_some_and(|(_, asked)| asked.action.ends_with("/UpdateConfiguration"));
        let audit = self.guard.audit.clone();
        let pending = asked.map(|(noted, asked)| Pending::new(self.guard.audit.clone(), asked, noted));
        let (answer, refused) = (self.inner.call(request), self.guard.refused.clone());
        Box::pin(async move {
            let response = answer.await?;
            let mut opened = None;
            match (pending, code(response.headers())) {
                // What is only counted is streams: what comes of one is known later.
                (Some(pending), None) if !noted => {
                    let patience = Some(Box::pin(sleep(PATIENCE)));
                    opened = Some(Box::new(Opened { pending: Some(pending), patience }));
                }
                (Some(pending), code) => {
                    let code = code.unwrap_or(Code::Ok);
                    if let Some(status) = Status::from_header_map(response.headers()).filter(|_| code != Code::Ok) {
                        pending.tell(status.message());
                    }
                    let noted = pending.answered(outcome(code), format!("{code:?}"), None);
                    if let Some(id) = noted.filter(|_| configures && code == Code::Ok) {
                        audit.settled(id).await;
                    }
                }
                (None, _) => {}
            }
            if let Some(reason) = denied(response.extensions()) {
                refused.grpc(reason);
            }
            let sent = Sent::Answers { refused, opened, _call: call };
            Ok(response.map(|body| Body::new(Leased { body, lease, ended: false, sent })))
        })
    }
}

/// The answer to a request that is no gRPC call, or that a page sends while there are no tokens: a page of any origin can have a
/// browser send one.
fn strange(headers: &http::HeaderMap, tokens: bool) -> Option<http::Response<Body>> {
    let text = |name| headers.get(name).map(|value: &http::HeaderValue| value.to_str().unwrap_or("?"));
    let kind = text(http::header::CONTENT_TYPE).and_then(|kind| kind.strip_prefix("application/grpc"));
    if !kind.is_some_and(|rest| rest.is_empty() || rest.starts_with(['+', ';'])) {
        let mut answer = http::Response::new(Body::empty());
        *answer.status_mut() = http::StatusCode::UNSUPPORTED_MEDIA_TYPE;
        return Some(answer);
    }
    let page = text(http::header::ORIGIN).is_some() || text(SITE).is_some_and(|site| site != "none");
    let told = "this server has no tokens, and takes nothing from pages over gRPC: start it with --tokens";
    (page && !tokens).then(|| Status::permission_denied(told).into_http())
}

/// Answers a call with this status.
fn refuse<E>(refusal: Status) -> BoxFuture<'static, Result<http::Response<Body>, E>> {
    let refusal = refusal.into_http();
    Box::pin(async move { Ok(refusal) })
}

/// The refusal of a caller that has so many connections open.
fn too_many_connections(who: &str, open: usize) -> Status {
    Status::resource_exhausted(format!(
        "{who} has {open} connections open, half of those that this server takes: close some of them, a connection takes \
         256 calls at a time"
    ))
}

/// The refusal of a caller that has sent too many, with when the next may come.
fn too_many(who: &str, wait: Duration) -> Status {
    let mut status = Status::resource_exhausted(rates::told(who, wait));
    status.metadata_mut().insert("retry-after", rates::seconds(wait).into());
    status
}

/// The requests that have arrived over the connection of this one and are not handed in.
pub fn arrived(extensions: &Extensions) -> Arc<Arrived> {
    extensions.get::<Connection>().map(|connection| connection.arrived.clone()).unwrap_or_default()
}

/// The caller as [`Guarded`] found it.
///
/// # Errors
/// It is not known: nobody is let in without.
pub fn caller(extensions: &Extensions) -> Result<Caller, Status> {
    extensions.get::<Caller>().cloned().ok_or_else(|| Denied::NoToken.into())
}

fn origin(extensions: &Extensions) -> (&Caller, Option<IpAddr>) {
    let address = extensions.get::<Connection>().and_then(|connection| connection.address);
    (extensions.get::<Caller>().unwrap_or(&Caller::Anyone), address)
}

/// Who sends a configuration.
pub fn sender(extensions: &Extensions) -> Sender {
    let (caller, address) = origin(extensions);
    Sender { name: caller.identity(address), tenant: caller.is_tenant() }
}

/// What the caller is counted by.
pub fn key(extensions: &Extensions) -> Arc<str> {
    let (caller, address) = origin(extensions);
    caller.key(address).into()
}

/// The trace that the messages of a stream belong to.
pub fn traced(extensions: &Extensions) -> trace::Stream {
    trace::Stream(extensions.get::<trace::Point>().cloned())
}

/// Notes changes that come over a stream, each by itself.
#[derive(Clone, Default)]
pub struct Changes(Option<Arc<(Arc<Audit>, Refused, audit::Request)>>);

/// What notes the changes that come over a stream.
pub fn changes(extensions: &Extensions) -> Changes {
    extensions.get::<Changes>().cloned().unwrap_or_default()
}

impl Changes {
    /// A change of this kind begins: it is noted also where the stream ends before it was answered.
    pub fn begin(&self, what: &str, detail: String) -> Option<Pending> {
        let (audit, _, stream) = self.0.as_deref()?;
        let request = Changes::one(stream, what);
        request.detail.tell(detail);
        Some(Pending::new(audit.clone(), request, true))
    }

    /// It was carried out, or failed. Waits until the audit log has written down what was carried out.
    pub async fn note(&self, pending: Option<Pending>, code: Code, came: String) {
        let (Some((audit, ..)), Some(pending)) = (self.0.as_deref(), pending) else { return };
        pending.tell(came);
        let outcome = if code == Code::Ok { "done" } else { "failed" };
        if let Some(id) = pending.answered(outcome, format!("{code:?}"), None).filter(|_| code == Code::Ok) {
            audit.settled(id).await;
        }
    }

    /// A change of this kind was not allowed: it is counted, as refused calls are.
    pub fn refuse(&self, what: &str, denied: &Denied) {
        let Some((audit, refused, stream)) = self.0.as_deref() else { return };
        audit.count(&Changes::one(stream, what), "refused");
        refused.grpc(denied.reason());
    }

    fn one(stream: &audit::Request, what: &str) -> audit::Request {
        let action = format!("{} {what}", stream.action);
        audit::Request { kind: action.clone(), action, detail: audit::Detail::default(), ..stream.clone() }
    }
}

/// What the audit log is told of a call.
pub fn detail(extensions: &Extensions) -> audit::Detail {
    extensions.get::<audit::Detail>().cloned().unwrap_or_default()
}

impl From<Denied> for Status {
    fn from(denied: Denied) -> Status {
        let code = if denied.is_unknown() { Code::Unauthenticated } else { Code::PermissionDenied };
        let mut status = Status::new(code, denied.to_string());
        status.set_source(Arc::new(denied));
        status
    }
}

/// Why a handler refused a call before it began to answer, as metrics name it.
fn denied(answer: &http::Extensions) -> Option<&'static str> {
    let source = answer.get::<Status>()?.source()?;
    source.downcast_ref().map(Denied::reason)
}

/// A body that ends when its caller is no longer let in.
struct Leased {
    body: Body,
    /// `None`: the right never ends.
    lease: Option<Lease>,
    /// It was.
    ended: bool,
    sent: Sent,
}

/// Whose body it is.
enum Sent {
    /// The client's.
    Requests,
    /// Ours; counts what was refused on the way. With it the call ends.
    Answers { refused: Refused, opened: Option<Box<Opened>>, _call: Option<Call> },
}

impl Leased {
    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        if let Some(lease) = &mut self.lease
            && let Poll::Ready(why) = lease.poll_ended(context)
        {
            self.ended = true;
            let status = Status::unauthenticated(why);
            if let Sent::Requests = self.sent {
                return Poll::Ready(Some(Err(status)));
            }
            let mut trailers = http::HeaderMap::new();
            return Poll::Ready(Some(status.add_header(&mut trailers).map(|()| Frame::trailers(trailers))));
        }
        Pin::new(&mut self.body).poll_frame(context)
    }
}

/// A stream in the audit log: first as one that goes on, where it takes long, then with the status that it ends with.
struct Opened {
    pending: Option<Pending>,
    patience: Option<Pin<Box<Sleep>>>,
}

impl Opened {
    fn look(&mut self, next: &Poll<Option<Result<Frame<Bytes>, Status>>>, context: &mut Context<'_>) {
        if next.is_pending() {
            let patience = self.patience.as_mut().map(|patience| patience.as_mut().poll(context));
            if patience.is_none_or(|patience| patience.is_pending()) {
                return;
            }
        }
        self.patience = None;
        match status_of(next) {
            Some(code) => {
                if let Some(pending) = self.pending.take() {
                    pending.answered(outcome(code), format!("{code:?}"), None);
                }
            }
            None => {
                if let Some(pending) = &mut self.pending {
                    pending.goes_on();
                }
            }
        }
    }
}

/// The status that a body ends with, where this is its end.
fn status_of(next: &Poll<Option<Result<Frame<Bytes>, Status>>>) -> Option<Code> {
    match next {
        Poll::Ready(Some(Ok(frame))) => frame.trailers_ref().map(|trailers| code(trailers).unwrap_or(Code::Ok)),
        Poll::Ready(Some(Err(status))) => Some(status.code()),
        Poll::Ready(None) => Some(Code::Ok),
        Poll::Pending => None,
    }
}

/// A body of a call that is traced: its status comes at its end, and with that the span ends.
struct Spanned {
    body: Body,
    span: Option<Span>,
}

impl HttpBody for Spanned {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let next = Pin::new(&mut self.body).poll_frame(context);
        if let Some(code) = status_of(&next)
            && let Some(mut span) = self.span.take()
        {
            span.number(STATUS, code as u64);
        }
        next
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for Spanned {
    fn drop(&mut self) {
        // Its client went before the end.
        if let Some(span) = &mut self.span {
            span.number(STATUS, Code::Cancelled as u64);
        }
    }
}

impl HttpBody for Leased {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        if self.ended {
            return Poll::Ready(None);
        }
        let next = self.poll_next(context);
        if let Sent::Answers { refused, opened, .. } = &mut self.sent {
            if let Poll::Ready(Some(Ok(frame))) = &next
                && frame.trailers_ref().and_then(code) == Some(Code::PermissionDenied)
            {
                // A stream names its resource manager when it has begun; there is nothing else that it could be refused for.
                refused.grpc("resource_manager");
            }
            if let Some(opened) = opened {
                opened.look(&next, context);
            }
        }
        next
    }

    fn is_end_stream(&self) -> bool {
        self.ended || self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_call_takes() {
        assert_eq!(need("/grpc.health.v1.Health/Check"), None);
        assert_eq!(need("/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"), Some(Role::Viewer));
        assert_eq!(need("/si.v1.Scheduler/UpdateNode"), Some(Role::Shim));
        assert_eq!(need("/callboard.v1.SchedulerExtension/Callbacks"), Some(Role::Shim));
        assert_eq!(need("/nowhere"), Some(Role::Shim));
        let change = |path| change(path).map(|(name, noted)| (name == path, noted));
        assert_eq!(change("/si.v1.Scheduler/RegisterResourceManager"), Some((true, true)));
        assert_eq!(change("/si.v1.Scheduler/UpdateNode"), Some((true, false)));
        assert_eq!(change("/made.up/RegisterResourceManager"), Some((false, false)));
        assert_eq!(change("/grpc.health.v1.Health/Check"), None);
    }

    #[test]
    fn what_a_page_can_send_is_no_call() {
        let answer = |pairs: &[(&'static str, &str)], tokens| {
            let header = |(name, value): &(&'static str, &str)| (name.parse().unwrap(), value.parse().unwrap());
            strange(&pairs.iter().map(header).collect(), tokens)
                .map(|answer| (answer.status().as_u16(), code(answer.headers())))
        };
        for kind in ["application/grpc", "application/grpc+proto", "application/grpc;charset=utf-8"] {
            assert_eq!(answer(&[("content-type", kind), ("sec-fetch-site", "none")], false), None, "{kind}");
        }
        for tokens in [false, true] {
            assert_eq!(answer(&[], tokens), Some((415, None)));
            for kind in ["text/plain", "application/json", "application/grpc-web", "application/grpcx"] {
                assert_eq!(answer(&[("content-type", kind)], tokens), Some((415, None)), "{kind}");
            }
        }
        for page in [("origin", "https://evil.example"), ("origin", "null"), ("sec-fetch-site", "same-origin")] {
            let call = [("content-type", "application/grpc"), page];
            assert_eq!(answer(&call, false), Some((200, Some(Code::PermissionDenied))), "{page:?}");
            assert_eq!(answer(&call, true), None, "no page has a token: {page:?}");
        }
    }

    #[test]
    fn every_call_of_the_scheduler_has_its_name_in_the_audit_log() {
        let described = <prost_types::FileDescriptorSet as prost::Message>::decode(crate::si::DESCRIPTORS).unwrap();
        let mut calls = Vec::new();
        for file in &described.file {
            for service in &file.service {
                let path = |call| format!("/{}.{}/{call}", file.package(), service.name());
                calls.extend(service.method.iter().map(|method| path(method.name())));
            }
        }
        calls.sort();
        assert_eq!(calls, CHANGES.map(|(name, _)| name));
    }
}
