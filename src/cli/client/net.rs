//! HTTP as the commands speak it: plain or encrypted, with a token where there is one.

use std::time::Duration;

use bytes::Bytes;
use futures::{Stream, stream};
use http_body_util::{BodyExt as _, Full};
use hyper::{
    HeaderMap, Method, Request, StatusCode, Uri,
    body::Incoming,
    header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue},
    http::uri::Scheme,
};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::{
    client::legacy::{Client as Pool, connect::HttpConnector},
    rt::TokioExecutor,
};
use rustls::RootCertStore;
use tokio::time::timeout;

use super::trust::{self, Trust};

/// How long it may take to reach a server.
const CONNECT: Duration = Duration::from_secs(30);

/// Why nothing came back, in a few words: the innermost cause, which says most.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Failed(pub String);

impl Failed {
    fn of(error: &(dyn std::error::Error + 'static)) -> Failed {
        let mut cause = error;
        while let Some(source) = cause.source() {
            cause = source;
        }
        let text = cause.to_string();
        let hint = if text.contains("UnknownIssuer") { "; --ca FILE names whom to believe" } else { "" };
        Failed(format!("{text}{hint}"))
    }
}

/// A client of one server. Clones share connections.
#[derive(Clone)]
pub struct Client {
    pool: Pool<HttpsConnector<HttpConnector>, Full<Bytes>>,
    authorization: Option<HeaderValue>,
}

impl Client {
    /// For the server at this address.
    ///
    /// # Errors
    /// It is no address, or a file of `trust` is wrong.
    pub fn new(base: &str, trust: &Trust) -> Result<Client, String> {
        let uri = base.parse::<Uri>().ok().filter(|uri| uri.authority().is_some());
        let scheme = uri.as_ref().and_then(Uri::scheme);
        let tls = match scheme {
            Some(scheme) if *scheme == Scheme::HTTPS => trust.tls()?,
            Some(scheme) if *scheme == Scheme::HTTP => trust::client(RootCertStore::empty())?,
            _ => return Err(format!("server \"{base}\" is not an address such as http://127.0.0.1:9080")),
        };
        let mut plain = HttpConnector::new();
        plain.enforce_http(false);
        plain.set_nodelay(true);
        plain.set_connect_timeout(Some(CONNECT));
        let connector = HttpsConnectorBuilder::new().with_tls_config(tls).https_or_http().enable_http1();
        let pool = Pool::builder(TokioExecutor::new()).build(connector.wrap_connector(plain));
        Ok(Client { pool, authorization: authorization(trust)? })
    }

    /// Sends a request and gives the answer as soon as its head is there.
    ///
    /// # Errors
    /// No answer came.
    pub async fn send(&self, method: Method, url: &str, body: Option<Body>) -> Result<Answer, Failed> {
        let mut request = Request::builder().method(method).uri(url);
        if let Some(authorization) = &self.authorization {
            request = request.header(AUTHORIZATION, authorization.clone());
        }
        if let Some(body) = &body {
            request = request.header(CONTENT_TYPE, body.kind);
        }
        let request = request
            .body(Full::new(body.map(|body| body.bytes).unwrap_or_default()))
            .map_err(|error| Failed::of(&error))?;
        let response = self.pool.request(request).await.map_err(|error| Failed::of(&error))?;
        let (head, body) = response.into_parts();
        Ok(Answer { status: head.status, headers: head.headers, body })
    }

    /// As [`Client::send`], given up after some time.
    ///
    /// # Errors
    /// No answer came, or not in time.
    pub async fn send_within(
        &self,
        limit: Duration,
        method: Method,
        url: &str,
        body: Option<Body>,
    ) -> Result<Answer, Failed> {
        let late = |_| Err(Failed(format!("no answer within {} s", limit.as_secs())));
        timeout(limit, self.send(method, url, body)).await.unwrap_or_else(late)
    }
}

/// The header with the token, which logs do not show.
///
/// # Errors
/// The token's file is wrong.
pub fn authorization(trust: &Trust) -> Result<Option<HeaderValue>, String> {
    let Some(token) = trust.token()? else { return Ok(None) };
    let value = HeaderValue::from_str(&format!("Bearer {}", token.reveal()));
    // Not the reason: it might show the token.
    let mut value = value.map_err(|_| "the token does not fit into a header".to_owned())?;
    value.set_sensitive(true);
    Ok(Some(value))
}

/// What a request carries.
#[derive(Clone, Debug)]
pub struct Body {
    /// Its type.
    pub kind: &'static str,
    /// Its text.
    pub bytes: Bytes,
}

impl Body {
    /// JSON.
    pub fn json(bytes: impl Into<Bytes>) -> Body {
        Body { kind: "application/json", bytes: bytes.into() }
    }
}

/// An answer whose body has not been read.
#[derive(Debug)]
pub struct Answer {
    /// Status.
    pub status: StatusCode,
    /// Headers.
    pub headers: HeaderMap,
    body: Incoming,
}

impl Answer {
    /// The next piece of the body; `None` at its end.
    ///
    /// # Errors
    /// The connection broke.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, Failed> {
        loop {
            match self.body.frame().await {
                None => return Ok(None),
                Some(Err(error)) => return Err(Failed::of(&error)),
                // What is not data are trailers.
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        return Ok(Some(data));
                    }
                }
            }
        }
    }

    /// The body as it comes.
    pub fn chunks(self) -> impl Stream<Item = Result<Bytes, Failed>> {
        stream::unfold(Some(self), async |answer| {
            let mut answer = answer?;
            match answer.chunk().await {
                Ok(None) => None,
                Ok(Some(chunk)) => Some((Ok(chunk), Some(answer))),
                Err(failed) => Some((Err(failed), None)),
            }
        })
    }

    /// The whole body as text.
    ///
    /// # Errors
    /// The connection broke.
    pub async fn text(self) -> Result<String, Failed> {
        let body = self.body.collect().await.map_err(|error| Failed::of(&error))?;
        Ok(String::from_utf8_lossy(&body.to_bytes()).into_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        let new = |base: &str| Client::new(base, &Trust::default()).err();
        assert_eq!(new("http://127.0.0.1:9080"), None);
        for wrong in ["board", "127.0.0.1:9080", "ftp://board", "http://", ""] {
            let expected = format!("server \"{wrong}\" is not an address such as http://127.0.0.1:9080");
            assert_eq!(new(wrong), Some(expected));
        }
    }
}
