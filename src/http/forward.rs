//! Requests that another server takes, sent on to it: those of pages and WebSockets, whose senders follow no redirects to other
//! hosts; those of all others where that is wanted (`--forward`).

use std::{io, sync::Arc, time::Duration};

use actix_web::{
    HttpRequest, HttpResponse, ResponseError as _,
    http::{StatusCode, header},
    rt,
    web::{Bytes, Payload},
};
use futures::{Stream, StreamExt as _, stream};
use http_body_util::{BodyExt as _, Full};
use hyper::{Request, Response, body::Incoming};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::{TokioExecutor, TokioIo},
};
use rustls::ClientConfig;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};

use self::there::There;
use super::problem::{LEADER, Problem};
use crate::{actors::topology::Topology, messages::leaders::Leader};

mod there;

/// How long it may take to reach a server.
const CONNECT: Duration = Duration::from_secs(2);
/// A server whose machine acknowledges nothing for so long is gone: how long it takes to answer is another matter.
const SILENCE: Duration = Duration::from_secs(20);
/// Says that a request was sent on: it is not sent on once more.
const FORWARDED: &str = "callboard-forwarded";
/// Headers that belong to one connection, or were judged here already (where a page comes from).
const OWN: [&str; 11] = [
    "connection",
    "keep-alive",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "proxy-connection",
    "host",
    "content-length",
    "origin",
    "expect",
];
/// Bytes of a WebSocket that are read at once.
const PIECE: usize = 16 << 10;

/// See the module.
pub struct Forward {
    pool: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    always: bool,
}

impl Forward {
    /// `always`: all requests are sent on.
    pub fn new(tls: ClientConfig, always: bool) -> Forward {
        let mut plain = HttpConnector::new();
        plain.enforce_http(false);
        plain.set_nodelay(true);
        plain.set_connect_timeout(Some(CONNECT));
        plain.set_keepalive(Some(SILENCE / 2));
        plain.set_keepalive_interval(Some(SILENCE / 4));
        #[cfg(target_os = "linux")]
        plain.set_tcp_user_timeout(Some(SILENCE));
        let connector = HttpsConnectorBuilder::new().with_tls_config(tls).https_or_http().enable_http1();
        Forward { pool: Client::builder(TokioExecutor::new()).build(connector.wrap_connector(plain)), always }
    }

    /// This request is sent on; else its sender is told where to.
    pub fn takes(&self, request: &HttpRequest) -> bool {
        let has = |name: &str| request.headers().contains_key(name);
        !has(FORWARDED) && (self.always || has("sec-fetch-mode") || is_websocket(request))
    }

    /// Sends it on, with what its body was, and gives the answer, as far as that server is there.
    pub async fn send(
        &self,
        topology: &Arc<Topology>,
        leader: &Leader,
        request: &HttpRequest,
        body: Bytes,
    ) -> HttpResponse {
        let (answer, there) = match self.ask(topology, leader, request, body, false).await {
            Ok(answer) => answer,
            Err(problem) => return problem.error_response(),
        };
        let (head, body) = answer.into_parts();
        let mut told = begin(head.status.as_u16(), &head.headers);
        let pieces = body.into_data_stream().map(|piece| piece.map_err(io::Error::other));
        told.streaming(there.pieces(pieces, there::Last::of(request.path(), &head.headers)))
    }

    /// Opens a WebSocket there, and passes on what comes from both sides until one of them ends, or that server is gone.
    pub async fn tunnel(
        &self,
        topology: &Arc<Topology>,
        leader: &Leader,
        request: &HttpRequest,
        mut payload: Payload,
    ) -> HttpResponse {
        let (answer, there) = match self.ask(topology, leader, request, Bytes::new(), true).await {
            Ok(answer) => answer,
            Err(problem) => return problem.error_response(),
        };
        let (status, headers) = (answer.status(), answer.headers().clone());
        if status.as_u16() != StatusCode::SWITCHING_PROTOCOLS.as_u16() {
            return match there.during(answer.into_body().collect()).await {
                Ok(body) => begin(status.as_u16(), &headers).body(body.map(|body| body.to_bytes()).unwrap_or_default()),
                Err(problem) => problem.error_response(),
            };
        }
        let upgraded = match hyper::upgrade::on(answer).await {
            Ok(upgraded) => TokioIo::new(upgraded),
            Err(error) => return unreachable(leader, &error).error_response(),
        };
        let (reads, mut writes) = tokio::io::split(upgraded);
        let inward = there.clone();
        rt::spawn(async move {
            let passed_on = async {
                while let Some(Ok(piece)) = payload.next().await {
                    if writes.write_all(&piece).await.is_err() {
                        break;
                    }
                }
                // Where the other side is gone, there is nobody to tell.
                let _ = writes.shutdown().await;
            };
            // One that hangs takes nothing, for ever.
            let _ = inward.during(passed_on).await;
        });
        let mut told = begin(status.as_u16(), &headers);
        told.upgrade("websocket").streaming(there.pieces(Box::pin(pieces(reads)), there::Last::socket()))
    }

    /// Its sender follows no redirect, so this server does where the other has just handed over, once.
    async fn ask(
        &self,
        topology: &Arc<Topology>,
        leader: &Leader,
        request: &HttpRequest,
        body: Bytes,
        upgrade: bool,
    ) -> Result<(Response<Incoming>, There), Problem> {
        let moved = |answer: &Response<Incoming>| answer.status().as_u16() == StatusCode::TEMPORARY_REDIRECT.as_u16();
        let there = There::new(topology.clone(), &leader.http, true);
        let answer = there.during(self.ask_once(leader, request, body.clone(), upgrade)).await??;
        if !moved(&answer) {
            return Ok((answer, there));
        }
        if let Some(http) = answer.headers().get(LEADER).and_then(|at| at.to_str().ok()) {
            let next = Leader { http: http.to_owned(), grpc: String::new() };
            let there = There::new(topology.clone(), &next.http, false);
            let answer = there.during(self.ask_once(&next, request, body, upgrade)).await??;
            if !moved(&answer) {
                return Ok((answer, there));
            }
        }
        let detail = format!("the server at {} does not lead any more: try again", leader.http);
        Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, detail))
    }

    async fn ask_once(
        &self,
        leader: &Leader,
        request: &HttpRequest,
        body: Bytes,
        upgrade: bool,
    ) -> Result<Response<Incoming>, Problem> {
        let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
        let url = format!("{}{path}", leader.http.trim_end_matches('/'));
        let mut sent = Request::builder().method(request.method().as_str()).uri(url).header(FORWARDED, "1");
        for (name, value) in request.headers() {
            let name = name.as_str();
            if !OWN.contains(&name) && !name.starts_with("sec-fetch-") {
                sent = sent.header(name, value.as_bytes());
            }
        }
        if upgrade {
            sent = sent.header("connection", "Upgrade").header("upgrade", "websocket");
        }
        let sent = sent.body(Full::new(body)).map_err(|error| unreachable(leader, &error))?;
        self.pool.request(sent).await.map_err(|error| unreachable(leader, &error))
    }
}

/// It asks for a WebSocket.
pub fn is_websocket(request: &HttpRequest) -> bool {
    let value = request.headers().get(header::UPGRADE).and_then(|value| value.to_str().ok());
    value.is_some_and(|value| value.eq_ignore_ascii_case("websocket"))
}

fn unreachable(leader: &Leader, error: &dyn std::error::Error) -> Problem {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    let detail = format!("the server that leads, {}, cannot be reached from this one: {cause}", leader.http);
    Problem { leader: Some(Arc::new(leader.clone())), ..Problem::new(StatusCode::SERVICE_UNAVAILABLE, detail) }
}

fn begin(status: u16, headers: &hyper::HeaderMap) -> actix_web::HttpResponseBuilder {
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_GATEWAY);
    let mut answer = HttpResponse::build(status);
    for (name, value) in headers {
        if !OWN.contains(&name.as_str()) {
            answer.append_header((name.as_str(), value.as_bytes()));
        }
    }
    answer
}

fn pieces(reads: impl AsyncRead + Unpin) -> impl Stream<Item = io::Result<Bytes>> {
    stream::unfold(reads, async |mut reads| {
        let mut piece = Vec::with_capacity(PIECE);
        match reads.read_buf(&mut piece).await {
            Ok(0) => None,
            Ok(_) => Some((Ok(Bytes::from(piece)), reads)),
            Err(error) => Some((Err(error), reads)),
        }
    })
}

#[cfg(test)]
mod tests {
    use actix_web::{App, HttpServer, body::to_bytes, test::TestRequest, web};

    use super::*;

    /// A server that sends everybody elsewhere, or answers with what it was told.
    fn server(elsewhere: Option<String>) -> String {
        let answer = move |body: Bytes| {
            let elsewhere = elsewhere.clone();
            async move {
                match elsewhere {
                    Some(leader) => HttpResponse::TemporaryRedirect().insert_header((LEADER, leader)).finish(),
                    None => HttpResponse::Ok().body(body),
                }
            }
        };
        let server = HttpServer::new(move || App::new().default_service(web::to(answer.clone()))).workers(1);
        let server = server.bind(("127.0.0.1", 0)).unwrap();
        let at = format!("http://{}", server.addrs()[0]);
        rt::spawn(server.run());
        at
    }

    #[actix_web::test]
    async fn who_has_just_handed_over_is_not_the_last_to_be_asked() {
        let tls = callboard_client::trust::client(rustls::RootCertStore::empty()).unwrap();
        let forward = Forward::new(tls, true);
        let topology = crate::actors::rm::tests::topology();
        let leads = server(None);
        let once = server(Some(leads.clone()));
        let twice = server(Some(once.clone()));
        let request = TestRequest::post().uri("/si/v1/rm/rm-1/nodes").to_http_request();
        for (at, status) in [(&leads, 200), (&once, 200), (&twice, 503)] {
            let leader = Leader { http: at.clone(), grpc: String::new() };
            let answer = forward.send(&topology, &leader, &request, Bytes::from_static(b"said")).await;
            assert_eq!(answer.status().as_u16(), status, "{at}");
            let told = to_bytes(answer.into_body()).await.unwrap();
            assert_eq!(&told[..] == b"said", status == 200, "{told:?}");
        }
    }
}
