//! Who is let in: tokens and roles before every handler (`docs/access.md`).

use std::{
    borrow::Cow,
    future::poll_fn,
    pin::Pin,
    rc::Rc,
    task::{Context, Poll},
    time::Duration,
};

use actix_web::{
    Error, FromRequest, HttpMessage as _, HttpRequest, HttpResponse, ResponseError as _,
    body::{BodySize, BoxBody, MessageBody},
    dev::{self, ResponseHead, ServiceRequest, ServiceResponse},
    error::InternalError,
    http::{
        ConnectionType, Method, StatusCode,
        header::{self, HeaderName, HeaderValue},
    },
    middleware::Next,
    web::{Bytes, Data},
};

use super::{
    doors::Doors,
    problem::Problem,
    room::Seat,
    route::Access,
    routes,
    shim::body::discard,
    ws_v1::{
        reply::{self, Failure},
        url,
    },
};
use crate::{
    access::{
        Caller, Denied, Role,
        audit::{self, Detail, Pending},
        caller::bearer,
        certificate::Shown,
        rates,
        tokens::Lease,
    },
    metrics::RATE,
    trace::{self, Span, Trace},
};

/// How a browser, which cannot set headers there, sends its token with a WebSocket: as one of the protocols it offers.
pub const PROTOCOL: &str = "callboard.bearer.";

/// What a request takes.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Need {
    Nothing,
    Role(Role),
    /// To act for a resource manager, and to configure it.
    Shim {
        rm: Option<String>,
        configure: bool,
    },
}

/// What a request to this path, as it came, takes. What is not known here takes a role all the same.
fn need(method: &Method, raw: &str) -> Need {
    match routes::access(method, raw) {
        Access::Open => Need::Nothing,
        Access::Viewer => Need::Role(Role::Viewer),
        Access::Operator => Need::Role(Role::Operator),
        access @ (Access::Shim | Access::Configure) => {
            let rm = raw.split('/').nth(4).filter(|rm| !rm.is_empty());
            let rm = rm.map(|rm| url::decode_path(rm).unwrap_or(Cow::Borrowed(rm)).into_owned());
            Need::Shim { rm, configure: access == Access::Configure }
        }
    }
}

/// What has no data: everybody may have it.
pub fn is_open(method: &Method, raw: &str) -> bool {
    need(method, raw) == Need::Nothing
}

fn allowed(caller: &Caller, need: &Need) -> Result<(), Denied> {
    match need {
        Need::Nothing => Ok(()),
        Need::Role(role) => caller.needs(*role),
        Need::Shim { rm, configure } => {
            if *configure {
                caller.configures()?
            } else {
                caller.needs(Role::Shim)?
            }
            rm.as_deref().map_or(Ok(()), |rm| caller.acts_for(rm))
        }
    }
}

/// How a request is kept in the audit log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Record {
    /// Not at all: it changes nothing.
    None,
    /// Summed up: it is part of what a shim sends all the time, or was refused.
    Counted,
    /// By itself, except what was refused.
    Noted,
}

fn record(method: &Method, need: &Need, raw: &str) -> Record {
    let reads = matches!(*method, Method::GET | Method::HEAD);
    match need {
        Need::Role(Role::Operator) if !reads => Record::Noted,
        // By its WebSocket a shim sends requests.
        Need::Shim { .. } if reads => match routes::find(method, raw) {
            Some(route) if route.place.path.ends_with("/ws") => Record::Counted,
            _ => Record::None,
        },
        Need::Shim { rm, configure } => {
            if rm.is_none() || *configure || *method == Method::DELETE {
                Record::Noted
            } else {
                Record::Counted
            }
        }
        _ => Record::None,
    }
}

/// As what a request is summed up: the route, of which there are not many, whatever stands in its path.
fn kind(request: &HttpRequest) -> String {
    let method = match *request.method() {
        Method::GET | Method::HEAD | Method::POST | Method::PUT | Method::DELETE | Method::PATCH | Method::OPTIONS => {
            request.method().as_str()
        }
        _ => audit::OTHERS,
    };
    format!("{method} {}", request.match_pattern().as_deref().unwrap_or(audit::OTHERS))
}

/// What came of a request, as the audit log has it.
fn outcome(status: StatusCode) -> &'static str {
    match status.as_u16() {
        401 | 403 => "refused",
        // Another server was named, which keeps what comes of it.
        300.. => "failed",
        _ => "done",
    }
}

/// A change that was turned away before anything saw it is counted, so that whoever guesses tokens does not fill the audit log.
pub fn count_refused(request: &ServiceRequest, doors: &Doors, caller: Option<&Caller>) {
    let (method, path) = (request.method(), request.uri().path());
    if record(method, &need(method, path), path) != Record::None {
        let asked = audit::Request { kind: kind(request.request()), ..asked(request, caller) };
        doors.audit.count(&asked, "refused");
    }
}

fn asked(request: &ServiceRequest, caller: Option<&Caller>) -> audit::Request {
    let address = request.peer_addr().map(|address| address.ip());
    let action = format!("{} {}", request.method(), request.uri().path());
    // What is carried out, as most is, is told with its path.
    audit::Request::new("http", caller, address, action, String::new())
}

/// What the audit log says of a request.
pub fn note(request: &HttpRequest, text: impl Into<String>) {
    if let Some(detail) = request.extensions().get::<Detail>() {
        detail.tell(text);
    }
}

/// An operator's change is told when it is written down, so that a kill loses no record of what somebody was told. What shims
/// send does not wait.
fn waits(need: &Need) -> bool {
    matches!(need, Need::Role(Role::Operator) | Need::Shim { configure: true, .. })
}

/// Middleware: lets a request through with its [`Caller`], or refuses it in the form of errors that its door has. An answer to a
/// request that is part of a trace says so.
pub async fn guard(
    request: ServiceRequest,
    next: Next<impl MessageBody + 'static>,
) -> Result<ServiceResponse<BoxBody>, Error> {
    let header = request.headers().get(trace::HEADER).and_then(|header| header.to_str().ok());
    let came = header.and_then(Trace::read);
    let mut span = begin(&request, came.as_ref());
    let trace = span.as_ref().map(Span::trace).or(came.map(Trace::here));
    if let Some(span) = &span {
        request.extensions_mut().insert(span.point());
    }
    let mut response = guarded(request, next, trace).await.inspect_err(|error| {
        ended(&mut span, error.as_response_error().status_code());
    })?;
    ended(&mut span, response.status());
    // Hexadecimal digits: always a header.
    if let Some(value) = trace.and_then(|trace| HeaderValue::from_str(&trace.to_string()).ok()) {
        response.headers_mut().insert(HeaderName::from_static(trace::HEADER), value);
    }
    Ok(response)
}

/// The span of a request that is traced. What is for everybody, such as a sign of life, never is.
fn begin(request: &ServiceRequest, came: Option<&Trace>) -> Option<Span> {
    let traces = &request.app_data::<Data<Doors>>()?.topology.traces;
    if !traces.is_on() || need(request.method(), request.uri().path()) == Need::Nothing {
        return None;
    }
    // By the list of routes, as those of `/ws/v1` are found by their own router.
    let route = || routes::find(request.method(), request.uri().path()).map(|route| route.place.path);
    let name = || match route() {
        Some(route) => format!("{} {route}", request.method()).into(),
        None => request.method().to_string().into(),
    };
    let mut span = traces.begin(came, name)?;
    if let Some(route) = route() {
        span.text("http.route", route);
    }
    span.text("http.request.method", request.method().as_str());
    span.text("url.path", request.uri().path());
    Some(span)
}

fn ended(span: &mut Option<Span>, status: StatusCode) {
    if let Some(span) = span {
        span.number("http.response.status_code", status.as_u16().into());
        if status.is_server_error() {
            span.fail(status.canonical_reason().unwrap_or_default());
        }
    }
}

async fn guarded(
    mut request: ServiceRequest,
    next: Next<impl MessageBody + 'static>,
    trace: Option<Trace>,
) -> Result<ServiceResponse<BoxBody>, Error> {
    // Without the doors' data nobody is let in.
    let Some(doors) = request.app_data::<Data<Doors>>().cloned() else {
        return Err(Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "the doors are not set up").into());
    };
    let need = need(request.method(), request.uri().path());
    if need != Need::Nothing
        && let Err(opening) = doors.topology.admits().await
    {
        let payload = request.take_payload();
        let response = refused(request.request(), payload, StatusCode::SERVICE_UNAVAILABLE, opening).await;
        return Ok(request.into_response(response));
    }
    let kept = record(request.method(), &need, request.uri().path());
    let shown = request.conn_data::<Shown>().cloned().unwrap_or_default();
    let identify = |request: &HttpRequest| Caller::identify(doors.tokens.as_deref(), token(request), &shown);
    let caller = match &need {
        Need::Nothing => Ok(Caller::Anyone),
        _ => {
            let caller = identify(request.request());
            let address = request.peer_addr().map(|address| address.ip());
            // Whoever guesses tokens is known by the address.
            let who = caller.as_ref().unwrap_or(&Caller::Anyone);
            let seat = request.conn_data::<Rc<Seat>>().filter(|_| caller.is_ok());
            if let Some(full) = seat.and_then(|seat| seat.admit(|| who.key(address)).err()) {
                doors.refused.http(RATE);
                count_refused(&request, &doors, caller.as_ref().ok());
                let (detail, payload) = (full.told(&who.identity(address)), request.take_payload());
                let mut response = refused(request.request(), payload, full.status(), detail).await;
                response.head_mut().set_connection_type(ConnectionType::Close);
                return Ok(request.into_response(response));
            }
            if let Err(wait) = doors.rates.admit(|| who.key(address)) {
                doors.refused.http(RATE);
                count_refused(&request, &doors, caller.as_ref().ok());
                let (who, payload) = (who.identity(address), request.take_payload());
                let mut response = too_many(request.request(), payload, &who, wait).await;
                close_unless_known(caller.is_ok(), &doors, response.head_mut());
                return Ok(request.into_response(response));
            }
            caller
        }
    };
    let known = caller.as_ref().ok().cloned();
    let caller = match caller.and_then(|caller| allowed(&caller, &need).map(|()| caller)) {
        Ok(caller) => caller,
        Err(denied) => {
            tracing::debug!(method = %request.method(), path = request.path(), "{denied}");
            doors.refused.http(denied.reason());
            count_refused(&request, &doors, known.as_ref());
            let payload = request.take_payload();
            let mut response = refusal(request.request(), payload, &denied).await;
            close_unless_known(!denied.is_unknown(), &doors, response.head_mut());
            return Ok(request.into_response(response));
        }
    };
    let mut lease = caller.lease(doors.tokens.as_ref(), &shown);
    let asked = (kept != Record::None).then(|| audit::Request { trace, ..asked(&request, Some(&caller)) });
    if let Some(asked) = asked.as_ref().filter(|_| kept == Record::Noted) {
        request.extensions_mut().insert(asked.detail.clone());
    }
    request.extensions_mut().insert(caller);
    let pending = asked.map(|asked| Pending::new(doors.audit.clone(), asked, kept == Record::Noted));
    let call = next.call(request);
    let answer = match &mut lease {
        None => call.await,
        // What waits, or whose body is still coming, ends with the right to it. A change that was begun by then may be carried out:
        // as of a client that went, the audit log has it as unknown.
        Some(lease) => tokio::select! {
            biased;
            why = poll_fn(|context| lease.poll_ended(context)) => {
                doors.refused.http(Denied::Unknown.reason());
                let mut response = Problem::new(StatusCode::UNAUTHORIZED, why).error_response();
                challenge(&mut response, &Denied::Unknown);
                return Err(InternalError::from_response(why, response).into());
            }
            answer = call => answer,
        },
    };
    let mut response = match (answer, pending) {
        (Ok(response), Some(pending)) => {
            let status = response.status();
            let (outcome, kind) = (outcome(status), (status.as_u16() >= 400).then(|| kind(response.request())));
            if let Some(problem) = response.response().error().and_then(|error| error.as_error::<Problem>()) {
                pending.tell(&*problem.detail);
            }
            let noted = pending.answered(outcome, status.as_str().to_owned(), kind);
            if let Some(id) = noted.filter(|_| outcome == "done" && waits(&need)) {
                doors.audit.settled(id).await;
            }
            response
        }
        (Err(error), Some(pending)) => {
            let status = error.as_response_error().status_code();
            if let Some(problem) = error.as_error::<Problem>() {
                pending.tell(&*problem.detail);
            }
            pending.answered(outcome(status), status.as_str().to_owned(), Some(audit::OTHERS.to_owned()));
            return Err(error);
        }
        (answered, None) => answered?,
    };
    close_unless_known(need != Need::Nothing, &doors, response.response_mut().head_mut());
    // What only the handler could tell: for whom it is.
    let problem = response.response().error().and_then(|error| error.as_error::<Problem>());
    if let Some(reason) = problem.and_then(|problem| problem.denied) {
        doors.refused.http(reason);
    }
    Ok(match lease {
        // A token that is taken back ends what is still being answered.
        Some(lease) if response.response().body().size() == BodySize::Stream => {
            response.map_body(|_, body| BoxBody::new(Leased { body: BoxBody::new(body), lease }))
        }
        _ => response.map_into_boxed_body(),
    })
}

/// Where there are tokens, who has shown none keeps no connection open: its place goes to who waits for it.
fn close_unless_known(known: bool, doors: &Doors, head: &mut ResponseHead) {
    if !known && doors.tokens.is_some() {
        head.set_connection_type(ConnectionType::Close);
    }
}

/// The token of a request.
fn token(request: &HttpRequest) -> Option<&str> {
    let text = |name| request.headers().get(name).and_then(|value: &HeaderValue| value.to_str().ok());
    if let Some(header) = text(header::AUTHORIZATION) {
        return bearer(header);
    }
    text(header::SEC_WEBSOCKET_PROTOCOL)?.split(',').find_map(|offered| offered.trim().strip_prefix(PROTOCOL))
}

/// A request is refused before any handler sees it, in the form that clients of this path expect.
pub async fn refused(
    request: &HttpRequest,
    payload: dev::Payload,
    status: StatusCode,
    message: String,
) -> HttpResponse {
    if !request.headers().contains_key(header::UPGRADE) {
        // So that the answer is read before the connection ends.
        discard(payload).await;
    }
    let path = url::decode_path(request.uri().path()).unwrap_or_default();
    if path.starts_with("/ws/") || path.starts_with("/debug") {
        reply::send(request, Failure { status, message }.into())
    } else {
        Problem::new(status, message).error_response()
    }
}

/// 429, with when the next request may come.
async fn too_many(request: &HttpRequest, payload: dev::Payload, who: &str, wait: Duration) -> HttpResponse {
    let mut response = refused(request, payload, StatusCode::TOO_MANY_REQUESTS, rates::told(who, wait)).await;
    response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(rates::seconds(wait)));
    response
}

/// 401 or 403.
async fn refusal(request: &HttpRequest, payload: dev::Payload, denied: &Denied) -> HttpResponse {
    let status = if denied.is_unknown() { StatusCode::UNAUTHORIZED } else { StatusCode::FORBIDDEN };
    let mut response = refused(request, payload, status, denied.to_string()).await;
    challenge(&mut response, denied);
    response
}

/// What a client is to show.
fn challenge(response: &mut HttpResponse, denied: &Denied) {
    // Names of roles and fixed words only: always a header.
    if let Ok(challenge) = HeaderValue::from_str(&denied.challenge()) {
        response.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
    }
}

impl From<Denied> for Problem {
    fn from(denied: Denied) -> Problem {
        let status = if denied.is_unknown() { StatusCode::UNAUTHORIZED } else { StatusCode::FORBIDDEN };
        Problem { denied: Some(denied.reason()), ..Problem::new(status, denied.to_string()) }
    }
}

/// The caller as [`guard`] found it; without it nobody is let in.
impl FromRequest for Caller {
    type Error = Problem;
    type Future = std::future::Ready<Result<Caller, Problem>>;

    fn from_request(request: &HttpRequest, _: &mut dev::Payload) -> Self::Future {
        let caller = request.extensions().get::<Caller>().cloned();
        std::future::ready(caller.ok_or_else(|| Denied::NoToken.into()))
    }
}

/// A body that breaks off when the right to it ends.
struct Leased {
    body: BoxBody,
    lease: Lease,
}

impl MessageBody for Leased {
    type Error = Box<dyn std::error::Error>;

    fn size(&self) -> BodySize {
        self.body.size()
    }

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, Self::Error>>> {
        if let Poll::Ready(why) = self.lease.poll_ended(context) {
            return Poll::Ready(Some(Err(why.into())));
        }
        Pin::new(&mut self.body).poll_next(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shim(rm: Option<&str>, configure: bool) -> Need {
        Need::Shim { rm: rm.map(str::to_owned), configure }
    }

    #[test]
    fn outcomes() {
        let outcomes = [200, 307, 401, 403, 404, 503].map(|status| outcome(StatusCode::from_u16(status).unwrap()));
        assert_eq!(outcomes, ["done", "failed", "refused", "refused", "failed", "failed"]);
    }

    #[test]
    fn what_is_audited() {
        let (get, post, put, delete) = (Method::GET, Method::POST, Method::PUT, Method::DELETE);
        for (method, path, expected) in [
            (&get, "/api/v1/audit", Record::None),
            (&post, "/api/v1/plan", Record::None),
            (&post, "/ws/v1/validate-conf", Record::None),
            (&post, "/api/v1/partition/p/resource/drain", Record::Noted),
            (&post, "/si/v1/rm", Record::Noted),
            (&put, "/si/v1/rm/a/configuration", Record::Noted),
            (&delete, "/si/v1/rm/a", Record::Noted),
            (&post, "/si/v1/rm/a/allocations", Record::Counted),
            (&get, "/si/v1/rm/a/ws", Record::Counted),
            (&get, "/si/v1/rm/a/%77s", Record::Counted),
            (&delete, "/si/v1/rm/ws", Record::Noted),
            (&get, "/si/v1/rm/ws", Record::None),
            (&get, "/si/v1/rm/a/stream", Record::None),
        ] {
            assert_eq!(record(method, &need(method, path), path), expected, "{method} {path}");
        }
    }

    #[test]
    fn what_a_request_takes() {
        let (get, post) = (Method::GET, Method::POST);
        for (method, path, expected) in [
            (&get, "/", Need::Nothing),
            (&get, "/healthz", Need::Nothing),
            (&get, "/readyz", Need::Nothing),
            (&get, "/page/main.js", Need::Nothing),
            (&get, "/page/nowhere.js", Need::Role(Role::Viewer)),
            (&get, "/api/docs", Need::Nothing),
            (&Method::OPTIONS, "/debug/stack", Need::Nothing),
            (&get, "/ws/v1/clusters", Need::Role(Role::Viewer)),
            (&post, "/ws/v1/validate-conf", Need::Role(Role::Viewer)),
            (&get, "/nowhere", Need::Role(Role::Viewer)),
            (&get, "/debug/fullstatedump", Need::Role(Role::Operator)),
            (&get, "/%64ebug/fullstatedump", Need::Role(Role::Operator)),
            (&get, "/debug", Need::Role(Role::Viewer)),
            (&post, "/api/v1/nowhere", Need::Role(Role::Viewer)),
            (&Method::DELETE, "/debug/stack", Need::Role(Role::Operator)),
            (&get, "/api/v1/partition/a%2Fb/resource/drain", Need::Role(Role::Operator)),
            (&get, "/api/v1/events", Need::Role(Role::Viewer)),
            (&get, "/api/v1/audit", Need::Role(Role::Operator)),
            (&post, "/api/v1/partition/p/resource/drain", Need::Role(Role::Operator)),
            (&post, "/api/v1/partition/p/resource/expiration", Need::Role(Role::Operator)),
            (&post, "/%61pi/v1/partition/p/resource/drain", Need::Role(Role::Operator)),
            (&Method::DELETE, "/api/v1/openapi.json", Need::Nothing),
            (&post, "/api/v1/plan", Need::Role(Role::Viewer)),
            (&post, "/api/v1/whatif", Need::Role(Role::Viewer)),
            (&get, "/si/v1/rm", shim(None, false)),
            (&post, "/si/v1/rm/rm-1/nodes", shim(Some("rm-1"), false)),
            (&post, "/%73i/v1/rm/a%2Fb/nodes", shim(Some("a/b"), false)),
            (&Method::PUT, "/si/v1/rm/rm-1/configuration", shim(Some("rm-1"), true)),
            (&Method::DELETE, "/si/v1/rm/rm%2D1", shim(Some("rm-1"), false)),
            (&post, "/si/v1/rm/rm%zz/nodes", shim(Some("rm%zz"), false)),
        ] {
            assert_eq!(need(method, path), expected, "{method} {path}");
        }
    }
}
