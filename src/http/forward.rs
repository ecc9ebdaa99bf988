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

use super::problem::Problem;
use crate::messages::leaders::Leader;

/// How long it may take to reach a server.
const CONNECT: Duration = Duration::from_secs(2);
/// A server whose machine acknowledges nothing for so long is gone: how long it takes to answer is another matter.
const SILENCE: Duration = Duration::from_secs(20);
/// Says that a request was sent on: it is not sent on once more.
const FORWARDED: &str = "callboard-forwarded";
/// What belongs to one connection, or was judged here already (where a page comes from).
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
/// Bytes that are read at once of a WebSocket.
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

    /// Sends it on, with what its body was, and gives the answer.
    pub async fn send(&self, leader: &Leader, request: &HttpRequest, body: Bytes) -> HttpResponse {
        let answer = match self.ask(leader, request, body, false).await {
            Ok(answer) => answer,
            Err(problem) => return problem.error_response(),
        };
        let (head, body) = answer.into_parts();
        let mut told = begin(head.status.as_u16(), &head.headers);
        let pieces = body.into_data_stream();
        told.streaming(pieces.map(|piece| piece.map_err(io::Error::other)))
    }

    /// Opens a WebSocket there, and passes on what comes from both sides until one of them ends.
    pub async fn tunnel(&self, leader: &Leader, request: &HttpRequest, mut payload: Payload) -> HttpResponse {
        let answer = match self.ask(leader, request, Bytes::new(), true).await {
            Ok(answer) => answer,
            Err(problem) => return problem.error_response(),
        };
        let (status, headers) = (answer.status(), answer.headers().clone());
        if status.as_u16() != StatusCode::SWITCHING_PROTOCOLS.as_u16() {
            let body = answer.into_body().collect().await.map(|body| body.to_bytes()).unwrap_or_default();
            return begin(status.as_u16(), &headers).body(body);
        }
        let upgraded = match hyper::upgrade::on(answer).await {
            Ok(upgraded) => TokioIo::new(upgraded),
            Err(error) => return unreachable(leader, &error).error_response(),
        };
        let (reads, mut writes) = tokio::io::split(upgraded);
        rt::spawn(async move {
            while let Some(Ok(piece)) = payload.next().await {
                if writes.write_all(&piece).await.is_err() {
                    break;
                }
            }
            // Where the other side is gone, there is nobody to tell.
            let _ = writes.shutdown().await;
        });
        let mut told = begin(status.as_u16(), &headers);
        told.upgrade("websocket").streaming(pieces(reads))
    }

    async fn ask(
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
