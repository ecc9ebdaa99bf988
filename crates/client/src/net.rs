//! HTTP as the commands speak it: plain or encrypted, with a token where there is one.

use std::{
    error::Error as _,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use futures::{
    Stream,
    future::{Either, pending, select},
    stream,
};
use http_body_util::{BodyExt as _, Full};
use hyper::{
    HeaderMap, Method, Request, StatusCode, Uri,
    body::Incoming,
    header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue, LOCATION},
    http::uri::Scheme,
};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::{
    client::legacy::{self as pool, Client as Pool, connect::HttpConnector},
    rt::TokioExecutor,
};
use rustls::RootCertStore;
use serde::Deserialize;
use tokio::time::{sleep, timeout};

use super::trust::{self, Trust};

/// How long it may take to reach a server.
const CONNECT: Duration = Duration::from_secs(30);

/// A server that does not answer is asked so often whether it is there,
const BEAT: Duration = Duration::from_millis(if cfg!(test) { 50 } else { 3_000 });
/// and may take so long to say so where there are others,
const PATIENCE: Duration = Duration::from_secs(4);
/// and so long where there is no other.
const ALONE: Duration = Duration::from_secs(if cfg!(test) { 1 } else { 20 });

/// Why nothing came back.
#[derive(Clone, Debug, Default, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct Failed {
    /// In a few words: the innermost cause, which says most.
    pub text: String,
    /// A server that speaks HTTP was there, and may be again.
    pub was_there: bool,
}

impl Failed {
    fn of(error: &(dyn std::error::Error + 'static), was_there: bool) -> Failed {
        let text = innermost(error);
        let hints = [
            ("UnknownIssuer", "; --ca FILE names whom to believe"),
            // Another authority of the same name is believed than the one that signed it.
            ("BadSignature", "; --ca FILE names whom to believe"),
            // What `openssl req -x509` makes unless it is told otherwise.
            ("CaUsedAsEndEntity", " (the server shows the certificate of an authority, not its own)"),
            // What a server without TLS answers, to one who reads it as TLS; and the other way round.
            ("InvalidContentType", " (does it speak TLS? try http://)"),
            ("invalid HTTP version parsed", " (does it speak TLS? try https://)"),
        ];
        let hint = hints.into_iter().find(|(told, _)| text.contains(told)).map_or("", |(_, hint)| hint);
        Failed { text: format!("{text}{hint}"), was_there }
    }

    fn of_request(error: &pool::Error) -> Failed {
        // A port that is another's answers, too.
        let is_foreign = |source: &(dyn std::error::Error + 'static)| {
            source.downcast_ref::<hyper::Error>().is_some_and(hyper::Error::is_parse)
        };
        Failed::of(error, !error.is_connect() && !error.source().is_some_and(is_foreign))
    }

    /// What is told of a server that this keeps from being asked. Where the fault is at this end, no other server helps.
    pub fn of_server(&self, server: &str) -> String {
        match self.text.contains("Too many open files") {
            true => format!("{server} cannot be asked: {self}; ulimit -n tells how many this process may open"),
            false => format!("{server} cannot be reached (--server names another): {self}"),
        }
    }

    /// No answer came in this time.
    pub fn late(limit: Duration) -> Failed {
        Failed { text: format!("no answer within {limit:?}"), was_there: false }
    }
}

/// The cause that an error began with.
pub fn innermost(error: &(dyn std::error::Error + 'static)) -> String {
    error.source().map_or_else(|| error.to_string(), innermost)
}

/// What the body of a refusal says to people: the detail of a problem, or the message of `/ws/v1`; `None` where it is neither.
pub fn sentence(body: &str) -> Option<String> {
    #[derive(Deserialize)]
    struct Refusal {
        #[serde(alias = "message")]
        detail: String,
    }
    serde_json::from_str(body).ok().map(|Refusal { detail }| detail)
}

/// Servers of a cluster that send a request to each other, at most.
const HOPS: usize = 4;

/// Port of a server that is named without one, and without a scheme.
const PORT: u16 = 9080;

type Connections = Pool<HttpsConnector<HttpConnector>, Full<Bytes>>;

/// Where a server says that it is there. A process that hangs keeps its connections: it is left, or waited for no longer.
#[derive(Debug)]
struct Watch {
    pool: Connections,
    url: String,
    patience: Duration,
}

impl Watch {
    async fn hangs(&self) -> Failed {
        loop {
            sleep(BEAT).await;
            let Ok(request) = Request::get(&*self.url).body(Full::default()) else { return pending().await };
            if timeout(self.patience, self.pool.request(request)).await.is_err() {
                return Failed { text: "it takes connections and answers nothing".to_owned(), was_there: true };
            }
        }
    }
}

/// What comes of it, however long that takes, unless the server hangs.
async fn unless_it_hangs<T>(watch: Option<&Watch>, work: impl Future<Output = T>) -> Result<T, Failed> {
    let Some(watch) = watch else { return Ok(work.await) };
    match select(pin!(work), pin!(watch.hangs())).await {
        Either::Left((done, _)) => Ok(done),
        Either::Right((failed, _)) => Err(failed),
    }
}

/// A client of one server, which may have several addresses. Clones share connections.
#[derive(Clone)]
pub struct Client {
    /// How the server was named; the addresses that it is tried at.
    given: String,
    bases: Vec<String>,
    /// The one that answered last.
    good: Arc<AtomicUsize>,
    pool: Connections,
    authorization: Option<HeaderValue>,
}

impl Client {
    /// For the server at this address; several, separated by commas, are tried one after the other. Without a scheme it is
    /// spoken to in plain HTTP, and without a port as well at 9080.
    ///
    /// # Errors
    /// It is no address, or a file of `trust` is wrong.
    pub fn new(server: &str, trust: &Trust) -> Result<Client, String> {
        Ok(Client { authorization: authorization(trust)?, ..Client::without_token(server, trust)? })
    }

    /// The same for somebody who must not see the token.
    ///
    /// # Errors
    /// It is no address, or a file of `trust` is wrong.
    pub fn without_token(server: &str, trust: &Trust) -> Result<Client, String> {
        let given = server.trim_end_matches('/').to_owned();
        let bases = server.split(',').map(base).collect::<Result<Vec<String>, String>>()?;
        let tls = match bases.iter().any(|base| base.starts_with("https:")) {
            true => trust.tls()?,
            false => trust::client(RootCertStore::empty())?,
        };
        let mut plain = HttpConnector::new();
        plain.enforce_http(false);
        plain.set_nodelay(true);
        plain.set_connect_timeout(Some(CONNECT));
        let connector = HttpsConnectorBuilder::new().with_tls_config(tls).https_or_http().enable_http1();
        let pool = Pool::builder(TokioExecutor::new()).build(connector.wrap_connector(plain));
        Ok(Client { given, bases, good: Arc::default(), pool, authorization: None })
    }

    /// Several addresses were named.
    pub fn has_several(&self) -> bool {
        self.bases.len() > 1
    }

    /// The address that answered last.
    pub fn answered(&self) -> &str {
        &self.bases[self.good.load(Ordering::Relaxed)]
    }

    /// Sends a request and gives the answer as soon as its head is there. `url` begins with the server as it was named. Where
    /// there are several addresses, the next is tried when one cannot be connected to, or hangs and got nothing that changes anything. Where another server of the same cluster
    /// leads, it is sent there.
    ///
    /// # Errors
    /// No answer came.
    pub async fn send(&self, method: Method, url: &str, body: Option<Body>) -> Result<Answer, Failed> {
        let mut answer = self.send_to_one(method.clone(), url, body.clone()).await?;
        for _ in 0..HOPS {
            let Some(elsewhere) = self.elsewhere(&answer) else { break };
            answer = self.send_to(method.clone(), &elsewhere, body.clone()).await.map_err(|(error, _)| error)?;
            let at = self
                .bases
                .iter()
                .position(|base| elsewhere.strip_prefix(base).is_some_and(|path| path.starts_with('/')));
            if let Some(at) = at.filter(|_| answer.status != StatusCode::TEMPORARY_REDIRECT) {
                self.good.store(at, Ordering::Relaxed);
            }
        }
        Ok(answer)
    }

    /// Where the server says that the request is to be sent. What is encrypted stays so.
    fn elsewhere(&self, answer: &Answer) -> Option<String> {
        let is_moved =
            answer.status == StatusCode::TEMPORARY_REDIRECT && answer.headers.contains_key("callboard-leader");
        let to = answer.headers.get(LOCATION).filter(|_| is_moved)?.to_str().ok()?;
        let in_clear = !to.starts_with("https://") && self.bases.iter().any(|base| base.starts_with("https://"));
        (!in_clear).then(|| to.to_owned())
    }

    async fn send_to_one(&self, method: Method, url: &str, body: Option<Body>) -> Result<Answer, Failed> {
        let path = url.strip_prefix(&*self.given).unwrap_or(url).trim_start_matches('/');
        let first = self.good.load(Ordering::Relaxed);
        let mut failed = Failed::default();
        for nth in 0..self.bases.len() {
            let at = (first + nth) % self.bases.len();
            let url = format!("{}/{path}", self.bases[at]);
            match self.send_to(method.clone(), &url, body.clone()).await {
                Ok(answer) => {
                    self.good.store(at, Ordering::Relaxed);
                    return Ok(answer);
                }
                Err((error, true)) => failed = error,
                // It may have got the request: it is not made twice. What is asked next begins elsewhere.
                Err((error, false)) => {
                    self.good.store((at + 1) % self.bases.len(), Ordering::Relaxed);
                    return Err(error);
                }
            }
        }
        Err(failed)
    }

    /// The error comes with whether the request may be made elsewhere.
    async fn send_to(&self, method: Method, url: &str, body: Option<Body>) -> Result<Answer, (Failed, bool)> {
        // What has a number counts once.
        let harmless = method.is_safe() || body.as_ref().is_some_and(|body| body.number.is_some());
        let server = url.splitn(4, '/').take(3).collect::<Vec<_>>().join("/");
        let patience = if self.has_several() { PATIENCE } else { ALONE };
        let watch = Some(Watch { pool: self.pool.clone(), url: format!("{server}/livez"), patience });
        let mut request = Request::builder().method(method).uri(url);
        if let Some(authorization) = &self.authorization {
            request = request.header(AUTHORIZATION, authorization.clone());
        }
        if let Some(body) = &body {
            request = request.header(CONTENT_TYPE, body.kind);
            if let Some(number) = body.number {
                request = request.header("x-callboard-seq", number);
            }
        }
        let request = request
            .body(Full::new(body.map(|body| body.bytes).unwrap_or_default()))
            .map_err(|error| (Failed::of(&error, false), false))?;
        let response = unless_it_hangs(watch.as_ref(), self.pool.request(request)).await;
        let response = response
            .map_err(|hangs| (hangs, harmless))?
            .map_err(|error| (Failed::of_request(&error), error.is_connect()))?;
        let (head, body) = response.into_parts();
        Ok(Answer { status: head.status, headers: head.headers, body, watch })
    }

    /// Sends a request as it is, without a token.
    ///
    /// # Errors
    /// No answer came.
    pub async fn pass(&self, request: Request<Full<Bytes>>) -> Result<Answer, Failed> {
        let (head, body) = self.pool.request(request).await.map_err(|error| Failed::of_request(&error))?.into_parts();
        Ok(Answer { status: head.status, headers: head.headers, body, watch: None })
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
        timeout(limit, self.send(method, url, body)).await.unwrap_or_else(|_| Err(Failed::late(limit)))
    }
}

/// An address with its scheme and port.
fn base(given: &str) -> Result<String, String> {
    let given = given.trim();
    let bare = given.trim_end_matches('/');
    let with_scheme = if given.contains("://") { bare.to_owned() } else { format!("http://{bare}") };
    let wrong = || format!("server \"{given}\" is not an address such as http://127.0.0.1:9080, or host:9080");
    let uri = with_scheme.parse::<Uri>().ok().filter(|uri| uri.authority().is_some()).ok_or_else(wrong)?;
    match uri.scheme() {
        Some(scheme) if *scheme == Scheme::HTTP || *scheme == Scheme::HTTPS => {}
        _ => return Err(wrong()),
    }
    let named = given.contains("://") || uri.port().is_some();
    Ok(if named { with_scheme } else { format!("{with_scheme}:{PORT}") })
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
    /// The number of the request in its session, where it has one: sent again, it counts once.
    pub number: Option<u64>,
}

impl Body {
    /// A JSON text without a number.
    pub fn json(bytes: impl Into<Bytes>) -> Body {
        Body { kind: "application/json", bytes: bytes.into(), number: None }
    }
}

/// An answer whose body has not been read.
#[derive(Debug)]
pub struct Answer {
    /// Status of the HTTP answer.
    pub status: StatusCode,
    /// Headers of the HTTP answer.
    pub headers: HeaderMap,
    body: Incoming,
    watch: Option<Watch>,
}

impl Answer {
    /// The next piece of the body; `None` at its end.
    ///
    /// # Errors
    /// The connection broke.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, Failed> {
        loop {
            match unless_it_hangs(self.watch.as_ref(), self.body.frame()).await? {
                None => return Ok(None),
                Some(Err(error)) => return Err(Failed::of(&error, true)),
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
        self.text_up_to(usize::MAX).await
    }

    /// The same of somebody who is not trusted with so much memory: `most` bytes at most.
    ///
    /// # Errors
    /// The connection broke, or there is more.
    pub async fn text_up_to(mut self, most: usize) -> Result<String, Failed> {
        let mut text = Vec::new();
        while let Some(chunk) = self.chunk().await? {
            if chunk.len() > most - text.len() {
                return Err(Failed { text: format!("the answer has more than {most} bytes"), was_there: true });
            }
            text.extend_from_slice(&chunk);
        }
        Ok(String::from_utf8_lossy(&text).into_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_told_as_it_was_given() {
        assert_eq!(Failed::late(Duration::from_millis(300)).text, "no answer within 300ms");
    }

    #[test]
    fn addresses() {
        for (given, at) in [
            ("http://127.0.0.1:9080", "http://127.0.0.1:9080"),
            ("http://board/", "http://board"),
            ("https://board", "https://board"),
            ("board", "http://board:9080"),
            ("board:80", "http://board:80"),
            ("[::1]", "http://[::1]:9080"),
        ] {
            assert_eq!(base(given), Ok(at.to_owned()));
        }
        for wrong in ["ftp://board", "http://", "", "a b"] {
            let error = base(wrong).unwrap_err();
            assert!(error.starts_with(&format!("server \"{wrong}\" is not an address such as ")), "{error}");
            assert_eq!(Client::new(wrong, &Trust::default()).err(), Some(error));
        }
    }

    #[tokio::test]
    async fn the_next_address_is_tried_where_there_is_no_connection() {
        use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let (gone, there) = (nobody.local_addr().unwrap(), listener.local_addr().unwrap());
        drop(nobody);
        let answering = tokio::spawn(async move {
            for _ in 0..2 {
                let (mut peer, _) = listener.accept().await.unwrap();
                let mut request = [0; 1024];
                let read = peer.read(&mut request).await.unwrap();
                assert!(request[..read].starts_with(b"GET /x HTTP/1.1"));
                peer.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok").await.unwrap();
            }
        });
        let server = format!("{gone},{there}");
        let client = Client::new(&server, &Trust::default()).unwrap();
        for _ in 0..2 {
            let answer = client.send(Method::GET, &format!("{server}/x"), None).await.unwrap();
            assert_eq!(answer.text().await.unwrap(), "ok");
        }
        answering.await.unwrap();
        let client = Client::new(&gone.to_string(), &Trust::default()).unwrap();
        assert!(client.send(Method::GET, &format!("{gone}/x"), None).await.is_err());
    }

    #[tokio::test]
    async fn a_server_that_hangs_is_left_for_the_next() {
        use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

        // The system takes its connections, as for a process that is stopped.
        let hangs = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (stopped, there) = (hangs.local_addr().unwrap(), listener.local_addr().unwrap());
        let answering = tokio::spawn(async move {
            loop {
                let (mut peer, _) = listener.accept().await.unwrap();
                let mut request = [0; 1024];
                let _ = peer.read(&mut request).await.unwrap();
                peer.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok").await.unwrap();
            }
        });
        let server = format!("{stopped},{there}");
        let url = format!("{server}/x");
        let client = Client::new(&server, &Trust::default()).unwrap();
        assert_eq!(client.send(Method::GET, &url, None).await.unwrap().text().await.unwrap(), "ok");
        assert_eq!(client.answered(), format!("http://{there}"));
        let numbered = Body { number: Some(1), ..Body::json("{}") };
        let client = Client::new(&server, &Trust::default()).unwrap();
        assert!(client.send(Method::POST, &url, Some(numbered)).await.is_ok());
        // What it may have done is not done twice; what comes then goes elsewhere.
        let client = Client::new(&server, &Trust::default()).unwrap();
        let failed = client.send(Method::POST, &url, Some(Body::json("{}"))).await.unwrap_err();
        assert_eq!(failed.text, "it takes connections and answers nothing");
        assert!(client.send(Method::POST, &url, Some(Body::json("{}"))).await.is_ok());
        answering.abort();
        // Where there is no other it is not waited for without end either.
        let url = format!("http://{stopped}");
        let client = Client::new(&url, &Trust::default()).unwrap();
        let failed = client.send(Method::GET, &url, None).await.unwrap_err();
        assert_eq!(failed.text, "it takes connections and answers nothing");
    }
}
