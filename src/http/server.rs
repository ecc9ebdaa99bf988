//! One listener for all HTTP doors.

use std::{fmt, io, net::SocketAddr, panic::AssertUnwindSafe, rc::Rc, sync::Arc, time::Duration};

use actix_http::{HttpServiceBuilder, Protocol, Request, Response};
use actix_service::{Service, ServiceFactory, ServiceFactoryExt as _, apply_fn_factory, fn_service, map_config};
use actix_tls::accept::{
    TlsError, max_concurrent_tls_connect,
    rustls_0_23::{Acceptor, TlsStream},
};
use actix_web::{
    App, Error, HttpRequest, HttpResponse,
    body::{BodySize, BoxBody, MessageBody},
    dev::{AppConfig, Extensions, Payload, Server, ServiceRequest, ServiceResponse},
    http::{
        ConnectionType, Method, StatusCode, Version,
        header::{self, HeaderValue},
    },
    middleware::{Next, from_fn},
    rt::net::TcpStream,
    web,
};
use futures::FutureExt as _;
use rustls::ServerConfig;
use socket2::{Domain, Socket, TcpKeepalive, Type};

use super::{
    doors::Doors,
    guard, long,
    operation::text,
    origins,
    paced::{Pace, Paced, UnderWay},
    past,
    problem::{LEADER, Problem},
    room::{self, Room},
    route::{Access, Route, register},
    routes, standby,
    turns::{self, Connection, InTurns, REQUEST, is_long},
    untaken::UNTAKEN,
};
use crate::{
    access::certificate::Shown,
    messages::{limits, ready::Ready},
    metrics::RATE,
};

/// How the listener is set up.
#[derive(Clone, Debug)]
pub struct Listen {
    /// Address; port 0 takes any that is free.
    pub addr: SocketAddr,
    /// Worker threads.
    pub workers: usize,
    /// A connection whose first request has not come by then is closed.
    pub patience: Duration,
    /// How connections are encrypted; without it they are not.
    pub tls: Option<ServerConfig>,
}

/// A peer that has not acknowledged anything for so long is gone. One that reads nothing has as long: the system counts the time
/// in which it takes nothing, though it acknowledges that it was asked.
const SILENCE: Duration = Duration::from_secs(120);
/// A peer from which nothing came for so long is asked whether it is there, and then so often.
const ASKED_AFTER: Duration = Duration::from_secs(10);
const ASKED_EACH: Duration = Duration::from_secs(5);
/// Bytes that the system takes before it can send them. It takes megabytes otherwise, and more only when a third of these has gone:
/// who reads slowly would not be told from who reads nothing.
#[cfg(target_os = "linux")]
const AHEAD: u32 = 128 << 10;
/// How long a connection stays open between requests: longer than the 90 s after which the HTTP libraries of Go and Rust
/// drop an idle one, so that no request meets the end of its connection.
const IDLE: Duration = Duration::from_secs(100);

/// Connections that the system keeps until they are taken.
const BACKLOG: i32 = 1024;

/// Binds the listener and gives the server, which runs when it is polled, with the address that was bound.
///
/// `others` adds the data of the handlers, and the service for paths of no route.
pub fn bind<F>(listen: Listen, doors: Arc<Doors>, others: F) -> io::Result<(Server, SocketAddr)>
where
    F: Fn(&mut web::ServiceConfig) + Clone + Send + 'static,
{
    let app = move || {
        let app = App::new()
            .app_data(web::Data::from(doors.clone()))
            .wrap(from_fn(standby::gate))
            .wrap(from_fn(catch_panic))
            .wrap(from_fn(in_pieces))
            .wrap(from_fn(guard::guard))
            .wrap(from_fn(origins::gate))
            .wrap(from_fn(past::gate))
            .wrap(from_fn(in_turn))
            .configure(|config| register(config, routes::all()))
            .service(web::resource("/si/v1{rest:(/.*)?}").to(not_found))
            .service(web::resource("/api/v1{rest:(/.*)?}").to(not_found))
            .configure(others.clone());
        map_config(app, |()| AppConfig::default())
    };
    let socket = listening(listen.addr)?;
    let bound = socket.local_addr()?;
    let room = Room::new(limits::connections().0, listen.workers);
    // Each connection has its place before it is encrypted, and goes when that is needed: nothing else bounds how many begin.
    max_concurrent_tls_connect(room.each());
    let server = Server::build().workers(listen.workers).disable_signals().shutdown_timeout(1);
    // Of each worker.
    let server = server.max_concurrent_connections(room.each());
    let signal = server.graceful_shutdown_signal();
    let ends = move || {
        let signal = signal.clone();
        async move { signal.notified().await }
    };
    let patience = listen.patience;
    // Not HttpServer: it shows a connection when that is encrypted, and one that never is would have no place.
    let server = match listen.tls {
        Some(tls) => server.listen("https", socket, move || {
            let http = http(patience, &ends).on_connect_ext(|io: &Paced<TlsStream<TcpStream>>, extensions| {
                let (stream, connection) = io.get_ref().get_ref();
                extensions.insert(Shown::of(connection.peer_certificates()));
                introduce(stream, io.pace(), extensions);
            });
            let mut begins = Acceptor::new(tls.clone());
            begins.set_handshake_timeout(patience);
            let begins = begins.map_init_err(|_| ()).map_err(TlsError::into_service_error);
            let begins = begins.and_then(fn_service(async |io: TlsStream<TcpStream>| {
                let peer = at_once(io.get_ref().0);
                Ok((Paced::new(io), Protocol::Http1, peer))
            }));
            seated(begins.and_then(http.finish(app()).map_err(TlsError::Service)), room.clone())
        })?,
        None => server.listen("http", socket, move || {
            let http = http(patience, &ends).on_connect_ext(|io: &Paced<TcpStream>, extensions| {
                introduce(io.get_ref(), io.pace(), extensions);
            });
            let begins = fn_service(async |io: TcpStream| {
                let peer = at_once(&io);
                Ok((Paced::new(io), Protocol::Http1, peer))
            });
            seated(begins.and_then(http.finish(app())), room.clone())
        })?,
    };
    Ok((server.run(), bound))
}

/// How connections are served; `ends` tells them when the server does.
fn http<T, S, F>(patience: Duration, ends: &(impl Fn() -> F + Clone + 'static)) -> HttpServiceBuilder<T, S>
where
    S: ServiceFactory<Request, Config = (), Error: Into<Response<BoxBody>> + 'static, InitError: fmt::Debug>,
    S::Service: Service<Request, Future: 'static>,
    F: Future<Output = ()> + 'static,
{
    HttpServiceBuilder::default()
        .graceful_shutdown_signal(ends.clone())
        .client_request_timeout(patience)
        .client_disconnect_timeout(Duration::from_secs(1))
        .keep_alive(IDLE)
        // A peer that closed its side has gone, also while nothing is sent to it.
        .h1_allow_half_closed(false)
}

/// What is written is sent at once. Gives the address of the peer.
fn at_once(stream: &TcpStream) -> Option<SocketAddr> {
    // Without it the connection still works.
    let _ = stream.set_nodelay(true);
    stream.peer_addr().ok()
}

fn listening(addr: SocketAddr) -> io::Result<std::net::TcpListener> {
    let socket = Socket::new(Domain::for_address(addr), Type::STREAM, None)?;
    // What an earlier process had open keeps nobody from the port.
    socket.set_reuse_address(true)?;
    socket.bind(&addr.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

/// What serves connections, each of which has its place from when it has come until it ends.
fn seated<S>(
    service: S,
    room: Arc<Room>,
) -> impl ServiceFactory<TcpStream, Config = (), Response = (), Error = S::Error, InitError = S::InitError>
where
    S: ServiceFactory<TcpStream, Config = (), Response = ()>,
{
    apply_fn_factory(service, move |stream: TcpStream, service: &S::Service| {
        watch(&stream);
        let place = room.seat(&stream);
        let served = service.call(stream);
        async move {
            let served = served.await;
            drop(place);
            served
        }
    })
}

/// 404 for a path that nothing is at.
pub async fn not_found(request: HttpRequest) -> Problem {
    Problem::new(StatusCode::NOT_FOUND, format!("there is nothing at {}", request.path()))
}

/// Whether the server is there, and whether it is ready.
pub(super) fn routes() -> Vec<Route> {
    fn lives(route: Route) -> Route {
        route.answer(200, "text/plain", text()).problems(&[503])
    }
    fn bare(route: Route) -> Route {
        route.answer(200, "text/plain", text()).bare(503)
    }
    vec![
        lives(Access::Open.get("/healthz").to(alive, "A sign of life: the server answers, and is not shutting down")),
        bare(Access::Open.at(Method::HEAD, "/healthz").to(alive, "The same without a body")),
        lives(Access::Open.get("/livez").to(alive, "The same")),
        bare(Access::Open.at(Method::HEAD, "/livez").to(alive, "The same without a body")),
        Access::Open
            .get("/readyz")
            .to(ready, "Whether requests are welcome, and what is still waited for")
            .gives::<Ready>(200)
            .gives::<Ready>(503),
        Access::Open.at(Method::HEAD, "/readyz").to(ready, "The same without a body").bare(200).bare(503),
    ]
}

/// A sign of life, for whoever restarts processes: the server answers, and is not shutting down.
async fn alive(doors: web::Data<Doors>) -> Result<&'static str, Problem> {
    if doors.topology.is_closing() {
        return Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, "the scheduler is shutting down"));
    }
    Ok("ok\n")
}

/// Whether requests are welcome: all that has to come before is there. What is being waited for is told.
async fn ready(doors: web::Data<Doors>) -> HttpResponse {
    let ready = doors.topology.ready.look(doors.topology.is_closing());
    let mut answer = if ready.ready { HttpResponse::Ok() } else { HttpResponse::ServiceUnavailable() };
    answer.json(ready)
}

/// What the requests of a connection can look at.
fn introduce(stream: &TcpStream, pace: Rc<Pace>, extensions: &mut Extensions) {
    extensions.insert(pace);
    extensions.insert(Connection::of(stream));
    if let Some(seat) = room::seat_of(stream) {
        extensions.insert(seat);
    }
}

/// Ends a connection whose peer does not acknowledge what is sent to it, and lets those who send notice what it reads.
fn watch(stream: &TcpStream) {
    let socket = socket2::SockRef::from(stream);
    // Without it the connection still works; only a silent peer is noticed later.
    #[cfg(target_os = "linux")]
    let _ = (socket.set_tcp_user_timeout(Some(SILENCE)), socket.set_tcp_notsent_lowat(AHEAD));
    let _ = socket.set_tcp_keepalive(&TcpKeepalive::new().with_time(ASKED_AFTER).with_interval(ASKED_EACH));
}

/// A call that another server takes is sent there with its path.
fn locate<B>(answer: &mut ServiceResponse<B>) {
    let leader = answer.headers().get(LEADER).and_then(|leader| leader.to_str().ok());
    let path = answer.request().uri().path_and_query().map_or("/", |path| path.as_str());
    let location = leader.map(|leader| format!("{}{path}", leader.trim_end_matches('/')));
    if let Some(location) = location.and_then(|location| HeaderValue::try_from(location).ok()) {
        answer.headers_mut().insert(header::LOCATION, location);
    }
}

/// How an answer is sent. HTTP/1.0 knows no chunks: one of unknown length ends with its connection.
async fn in_pieces(
    request: ServiceRequest,
    next: Next<impl MessageBody + Unpin>,
) -> Result<ServiceResponse<impl MessageBody>, Error> {
    let old = request.version() < Version::HTTP_11;
    let mut answer = next.call(request).await?;
    if answer.status() == StatusCode::TEMPORARY_REDIRECT {
        locate(&mut answer);
    }
    if old && answer.response().body().size() == BodySize::Stream {
        let head = answer.response_mut().head_mut();
        head.no_chunking(true);
        head.set_connection_type(ConnectionType::Close);
    }
    Ok(within_bounds(answer).await)
}

/// A long text counts for its caller until it is taken. There may be too much of that already: then it is refused, though it is
/// made, since its length was not known before, and only few are made at a time.
async fn within_bounds<B: MessageBody>(answer: ServiceResponse<B>) -> ServiceResponse<InTurns<B>> {
    let (request, response) = answer.into_parts();
    let (response, body) = response.into_parts();
    let long = matches!(body.size(), BodySize::Sized(bytes) if is_long(bytes));
    let text = match if long { body.try_into_bytes() } else { Err(body) } {
        Ok(text) => text,
        Err(body) => return ServiceResponse::new(request, response.set_body(InTurns::new(body))),
    };
    let (caller, address) = long::caller(&request);
    let full = match UNTAKEN.hold(&caller.key(address), &text) {
        Ok(held) => {
            let connection = request.conn_data::<Connection>().copied();
            let body = InTurns::long(text, held, move || connection.into_iter().for_each(Connection::end));
            return ServiceResponse::new(request, response.set_body(body));
        }
        Err(full) => full,
    };
    if let Some(doors) = request.app_data::<web::Data<Doors>>() {
        doors.refused.http(RATE);
    }
    let told = full.told(&caller.identity(address));
    let refused = guard::refused(&request, Payload::None, full.status(), told).await;
    // A few words in one piece.
    let refused = refused.map_body(|_, body| InTurns::short(body.try_into_bytes().unwrap_or_default()));
    ServiceResponse::new(request, refused)
}

/// Requests that are sent without waiting are read, and answered, one after the other whenever their connection has its turn: after
/// some of them others have theirs.
async fn in_turn(
    mut request: ServiceRequest,
    next: Next<impl MessageBody + Unpin>,
) -> Result<ServiceResponse<impl MessageBody>, Error> {
    let under_way = UnderWay::begin(&mut request);
    turns::give_way(REQUEST).await;
    let answer = next.call(request).await?;
    Ok(UnderWay::answered(under_way, answer))
}

/// A panic in a door is answered, and costs no other request.
async fn catch_panic(
    request: ServiceRequest,
    next: Next<impl MessageBody>,
) -> Result<ServiceResponse<impl MessageBody>, Error> {
    let path = request.path().to_owned();
    match AssertUnwindSafe(next.call(request)).catch_unwind().await {
        Ok(answer) => answer,
        Err(_) => {
            tracing::error!(code = "handler-panicked", path, "a request handler panicked");
            Err(Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "an internal fault: the request was not handled")
                .into())
        }
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use tokio::{io::AsyncReadExt as _, net::TcpListener};

    use super::*;

    #[tokio::test]
    async fn a_peer_that_reads_nothing_for_a_while_is_not_taken_for_one_that_has_gone() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap();
        let (_peer, accepted) = tokio::join!(tokio::net::TcpStream::connect(addr), listener.accept());
        let stream = accepted.unwrap().0;
        watch(&stream);
        let socket = socket2::SockRef::from(&stream);
        assert!(socket.tcp_user_timeout().unwrap() >= Some(Duration::from_secs(120)));
        // Nor is one that has gone, while nothing is sent to it, kept for the two hours of the system.
        assert!(socket.keepalive().unwrap() && socket.tcp_keepalive_time().unwrap() == ASKED_AFTER);
        assert_eq!(socket.tcp_keepalive_interval().unwrap(), ASKED_EACH);
    }

    #[tokio::test]
    async fn who_reads_slowly_is_seen_to_read() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (peer, accepted) = tokio::join!(TcpStream::connect(listener.local_addr().unwrap()), listener.accept());
        let (mut peer, stream) = (peer.unwrap(), accepted.unwrap().0);
        watch(&stream);
        let takes_more = async || tokio::time::timeout(Duration::from_millis(50), stream.writable()).await.is_ok();
        while takes_more().await {
            let _ = stream.try_write(&[0; 64 << 10]);
        }
        for _ in 0..3 {
            let mut read = 0;
            while !takes_more().await {
                read += peer.read(&mut [0; 16 << 10]).await.unwrap();
                assert!(read < 512 << 10, "so much was read, and nobody would notice");
            }
            while stream.try_write(&[0; 64 << 10]).is_ok() {}
        }
    }
}
