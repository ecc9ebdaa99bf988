//! Answers: status, headers and the compression that REST 1.3 and 1.4 define.

use std::io::Write;

use actix_web::{
    HttpRequest, HttpResponse, HttpResponseBuilder,
    http::{
        Method, StatusCode,
        header::{self, HeaderValue},
    },
};
use bytes::Bytes;
use flate2::{Compression, write::GzEncoder};
use schemars::JsonSchema;
use serde::Serialize;
use tokio::task::spawn_blocking;

use super::{json, url};
use crate::{
    actors::directory::Unanswered,
    http::{long::Asker, origins::is_readable},
};

/// Bodies of at least this many bytes are compressed for clients that take it (REST 1.4).
pub const COMPRESS_FROM: usize = 1400;

/// Bodies of at least this many bytes are compressed on another thread: 1 ms of work.
const LONG: usize = 64 << 10;
/// And from this many on when it is their turn: many of them would leave nothing to others.
const VERY_LONG: usize = 1 << 20;

/// `Content-Type` of JSON.
pub const JSON: &str = "application/json; charset=UTF-8";

/// An answer that is not sent yet.
#[derive(Debug)]
pub struct Reply {
    /// HTTP status.
    pub status: StatusCode,
    /// `Content-Type`.
    pub content_type: &'static str,
    /// Whether browsers of other origins may read it.
    pub cors: bool,
    /// The body.
    pub body: Bytes,
}

/// Why a handler has no data: the error body of REST 2.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// HTTP status, repeated in the body.
    pub status: StatusCode,
    /// What is wrong.
    pub message: String,
}

impl Failure {
    /// The request cannot be understood (status 400).
    pub fn bad_request(message: impl Into<String>) -> Failure {
        Failure { status: StatusCode::BAD_REQUEST, message: message.into() }
    }

    /// What it asks for is not there (status 404).
    pub fn not_found(message: impl Into<String>) -> Failure {
        Failure { status: StatusCode::NOT_FOUND, message: message.into() }
    }
}

impl From<Unanswered> for Failure {
    fn from(why: Unanswered) -> Failure {
        Failure { status: StatusCode::SERVICE_UNAVAILABLE, message: why.to_string() }
    }
}

impl From<url::BadEscape> for Failure {
    fn from(bad: url::BadEscape) -> Failure {
        Failure::bad_request(bad.to_string())
    }
}

/// The answer.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "RestError")]
pub struct ErrorBody<'a> {
    status_code: u16,
    #[serde(skip_serializing_if = "str::is_empty")]
    message: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    description: &'a str,
}

impl Reply {
    /// A JSON document.
    pub fn json<T: Serialize + ?Sized>(value: &T) -> Reply {
        Reply::data(JSON, json::line(value))
    }

    /// A list.
    pub fn list<T: Serialize>(rows: impl Iterator<Item = T>) -> Reply {
        Reply::data(JSON, json::list(rows))
    }

    /// A document of this type, below `/ws/v1` readable for other origins.
    pub fn data(content_type: &'static str, body: impl Into<Bytes>) -> Reply {
        Reply { status: StatusCode::OK, content_type, cors: true, body: body.into() }
    }

    /// Plain text of the transport layer.
    pub fn plain(status: StatusCode, text: &str) -> Reply {
        Reply {
            status,
            content_type: "text/plain; charset=utf-8",
            cors: false,
            body: Bytes::copy_from_slice(text.as_bytes()),
        }
    }
}

impl From<Failure> for Reply {
    fn from(failure: Failure) -> Reply {
        let body = ErrorBody {
            status_code: failure.status.as_u16(),
            message: &failure.message,
            description: &failure.message,
        };
        Reply { status: failure.status, ..Reply::json(&body) }
    }
}

impl From<Result<Reply, Failure>> for Reply {
    fn from(result: Result<Reply, Failure>) -> Reply {
        result.unwrap_or_else(Reply::from)
    }
}

/// Sends an answer as [`send`] does; a long one is compressed on another thread.
pub async fn send_any(req: &HttpRequest, reply: Reply) -> HttpResponse {
    if reply.body.len() < LONG || !takes_gzip(req) {
        return send(req, reply);
    }
    let Reply { status, content_type, cors, body } = reply;
    let turn = if body.len() < VERY_LONG { None } else { Some(Asker::of(req).wait().await) };
    let compress = spawn_blocking(move || {
        let _turn = turn;
        gzip(&body)
    });
    match compress.await {
        Ok(Some(compressed)) => compressed_answer(begin(req, status, content_type, cors), compressed),
        // Writing to a vector cannot fail.
        _ => HttpResponse::InternalServerError().finish(),
    }
}

/// Sends an answer, compressed where the client takes it and it is worth it.
pub fn send(req: &HttpRequest, reply: Reply) -> HttpResponse {
    let mut response = begin(req, reply.status, reply.content_type, reply.cors);
    if reply.body.len() >= COMPRESS_FROM
        && takes_gzip(req)
        && let Some(compressed) = gzip(&reply.body)
    {
        return compressed_answer(response, compressed);
    }
    response.body(reply.body)
}

fn begin(req: &HttpRequest, status: StatusCode, content_type: &'static str, cors: bool) -> HttpResponseBuilder {
    let mut response = HttpResponse::build(status);
    response.insert_header((header::CONTENT_TYPE, HeaderValue::from_static(content_type)));
    if cors {
        for (name, value) in cors_headers(req) {
            response.insert_header((name, value));
        }
    } else if content_type.starts_with("text/plain; charset") {
        response.insert_header((header::X_CONTENT_TYPE_OPTIONS, "nosniff"));
    }
    response
}

/// Sends bytes that are ready, compressed or not. Pages of other origins may not read them.
pub fn send_made(req: &HttpRequest, content_type: &'static str, compressed: bool, body: Bytes) -> HttpResponse {
    let mut response = begin(req, StatusCode::OK, content_type, false);
    if compressed { compressed_answer(response, body) } else { response.body(body) }
}

fn compressed_answer(mut response: HttpResponseBuilder, body: impl Into<Bytes>) -> HttpResponse {
    response.insert_header((header::CONTENT_ENCODING, "gzip"));
    response.insert_header((header::VARY, "Accept-Encoding"));
    response.body(body.into())
}

/// The answer to OPTIONS: what the path takes, and that pages of other origins may read it, with a token too (REST quirk M).
pub fn preflight(req: &HttpRequest, allow: &'static str) -> HttpResponse {
    if !is_readable(req.method(), req.uri().path()) {
        return HttpResponse::Ok().insert_header((header::ALLOW, allow)).finish();
    }
    HttpResponse::Ok()
        .insert_header((header::ALLOW, allow))
        .insert_header((header::ACCESS_CONTROL_ALLOW_ORIGIN, "*"))
        .insert_header((header::ACCESS_CONTROL_ALLOW_METHODS, allow))
        .insert_header((
            header::ACCESS_CONTROL_ALLOW_HEADERS,
            "X-Requested-With,Content-Type,Accept,Origin,Authorization",
        ))
        .finish()
}

/// The headers that let pages of other origins read an answer (REST 1.3); none but for what is read below `/ws/v1`.
pub fn cors_headers(req: &HttpRequest) -> impl Iterator<Item = (header::HeaderName, &'static str)> + use<> {
    let headers = [
        (header::ACCESS_CONTROL_ALLOW_ORIGIN, "*"),
        (header::ACCESS_CONTROL_ALLOW_METHODS, "GET, OPTIONS"),
        (header::ACCESS_CONTROL_ALLOW_HEADERS, "X-Requested-With,Content-Type,Accept,Origin"),
    ];
    is_readable(req.method(), req.uri().path()).then_some(headers).into_iter().flatten()
}

/// A redirect to an encoded path; the query of the request is kept.
pub fn redirect(req: &HttpRequest, path: &str) -> HttpResponse {
    let location = match req.uri().query() {
        Some(query) => format!("{path}?{query}"),
        None => path.to_owned(),
    };
    if req.method() == Method::GET {
        let body = format!("<a href=\"{}\">Moved Permanently</a>.\n\n", url::html(&location));
        HttpResponse::MovedPermanently()
            .insert_header((header::LOCATION, location))
            .insert_header((header::CONTENT_TYPE, "text/html; charset=utf-8"))
            .body(body)
    } else {
        HttpResponse::TemporaryRedirect().insert_header((header::LOCATION, location)).finish()
    }
}

/// The first `gzip` of `Accept-Encoding` counts, unless its parameter is a quality of zero. `*` is not understood.
pub fn takes_gzip(req: &HttpRequest) -> bool {
    let accepted = req.headers().get(header::ACCEPT_ENCODING).and_then(|value| value.to_str().ok()).unwrap_or("");
    accepted
        .split(',')
        .find_map(|item| {
            let (token, parameter) = item.split_once(';').unwrap_or((item, ""));
            token.trim().eq_ignore_ascii_case("gzip").then(|| !is_zero_quality(parameter.trim()))
        })
        .unwrap_or(false)
}

/// `q=0` in any of the spellings of RFC 9110; the reference knows the shortest one only (REST quirk D).
fn is_zero_quality(parameter: &str) -> bool {
    let quality = parameter.strip_prefix("q=").or_else(|| parameter.strip_prefix("Q="));
    quality.is_some_and(|q| q.starts_with('0') && q[1..].chars().all(|c| c == '0' || c == '.'))
}

pub(super) fn gzip(body: &[u8]) -> Option<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::with_capacity(body.len() / 4), Compression::fast());
    encoder.write_all(body).ok()?;
    encoder.finish().ok()
}

#[cfg(test)]
mod tests {
    use actix_web::test::TestRequest;

    use super::*;

    // REST 2: the error body repeats the status, and escapes what it quotes.
    #[test]
    fn error_bodies() {
        let reply = Reply::from(Failure::not_found("Queue not found"));
        let body = "{\"status_code\":404,\"message\":\"Queue not found\",\"description\":\"Queue not found\"}\n";
        assert_eq!(reply.body, body);
        assert_eq!(reply.status, StatusCode::NOT_FOUND);
    }

    // REST 1.4: the token rules.
    #[test]
    fn gzip_tokens() {
        let takes = |accepted: &str| {
            takes_gzip(&TestRequest::default().insert_header((header::ACCEPT_ENCODING, accepted)).to_http_request())
        };
        for yes in
            ["gzip", "GZip", "br, gzip;q=0.5", "deflate , gzip ", "gzip;q=1.0", "gzip;", "gzip, gzip;q=0", "gzip;x=0"]
        {
            assert!(takes(yes), "{yes}");
        }
        for no in ["", "*", "br", "xgzip", "gzip;q=0", "gzip; q=0 , gzip", "gzip;q=0.0", "gzip;q=0.000"] {
            assert!(!takes(no), "{no}");
        }
        assert!(!takes_gzip(&TestRequest::default().to_http_request()));
    }

    // REST 1.4: from 1,400 bytes on, with the headers that say so.
    #[test]
    fn gzip_threshold() {
        let req = TestRequest::default().insert_header((header::ACCEPT_ENCODING, "gzip")).to_http_request();
        let sent = |bytes: usize| send(&req, Reply::data(JSON, vec![b'a'; bytes]));
        let raw = sent(COMPRESS_FROM - 1);
        assert!(raw.headers().get(header::CONTENT_ENCODING).is_none() && raw.headers().get(header::VARY).is_none());
        let compressed = sent(COMPRESS_FROM);
        assert_eq!(compressed.headers().get(header::CONTENT_ENCODING).unwrap(), "gzip");
        assert_eq!(compressed.headers().get(header::VARY).unwrap(), "Accept-Encoding");
    }
}
