//! The HTTP/JSON shim: one request after another, 429 honoured, callbacks read by a task of their own.

use std::time::Duration;

use bytes::Bytes;
use callboard_si::v1::{AllocationRequest, ApplicationRequest, NodeRequest, RegisterResourceManagerRequest};
use hyper::{Method, StatusCode, header::RETRY_AFTER};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use tokio::{
    sync::mpsc,
    time::{Instant, sleep},
};

use super::{
    Callbacks, Error, Result,
    net::{Answer, Body, Client, Failed, sentence},
    numbered::Numbered,
    stream,
    trust::Trust,
};

/// How long a request may take; registration of a large session included.
const REQUEST_PATIENCE: Duration = Duration::from_secs(120);
/// A server that asks for more patience than this is asked again all the same.
const LONGEST_RETRY: Duration = Duration::from_secs(30);
/// Pause before a request is sent again when the server gave none that can be read.
const SHORTEST_RETRY: Duration = Duration::from_millis(20);

/// How long it is tried to reach the leader, where there are several servers, from the first try on that failed.
pub(super) const FAIL_OVER: Duration = Duration::from_secs(30);
/// Until it is tried again.
const AGAIN: Duration = Duration::from_millis(50);

/// A resource manager that talks HTTP/JSON.
pub struct HttpShim {
    api: Api,
    path: String,
    /// Where there are several servers, requests are numbered, so that those are sent again whose answer was lost, and count once.
    numbered: Option<Numbered>,
    reader: tokio::task::JoinHandle<()>,
}

/// What `GET /si/v1/rm/{rmID}` tells and this client uses.
#[derive(Clone, Debug, Deserialize)]
pub struct Status {
    /// Life-cycle state.
    pub state: String,
}

impl HttpShim {
    /// Registers and opens the stream of callbacks from the first on.
    pub async fn register(
        base: &str,
        trust: &Trust,
        request: RegisterResourceManagerRequest,
    ) -> Result<(HttpShim, Callbacks)> {
        HttpShim::open(base, trust, "/si/v1/rm", request).await
    }

    /// As [`HttpShim::register`], for a shim that wants to be asked whether asks fit nodes.
    pub async fn register_to_be_asked(
        base: &str,
        trust: &Trust,
        request: RegisterResourceManagerRequest,
    ) -> Result<(HttpShim, Callbacks)> {
        HttpShim::open(base, trust, "/si/v1/rm?predicates=true", request).await
    }

    async fn open(
        base: &str,
        trust: &Trust,
        at: &str,
        request: RegisterResourceManagerRequest,
    ) -> Result<(HttpShim, Callbacks)> {
        let api = Api::new(base, trust)?;
        let path = rm_path(&request.rm_id);
        api.persistently(async || api.send(Method::POST, at, Some(&request)).await).await?;
        let (sender, callbacks) = mpsc::unbounded_channel();
        let reader = tokio::spawn(stream::read(api.clone(), path.clone(), sender));
        let numbered = api.client.has_several().then(Numbered::default);
        Ok((HttpShim { api, path, numbered, reader }, callbacks))
    }

    /// Sends a node request.
    pub async fn nodes(&self, request: NodeRequest) -> Result<()> {
        self.post("nodes", &request).await
    }

    /// Sends an application request.
    pub async fn applications(&self, request: ApplicationRequest) -> Result<()> {
        self.post("applications", &request).await
    }

    /// Sends an allocation request.
    pub async fn allocations(&self, request: AllocationRequest) -> Result<()> {
        self.post("allocations", &request).await
    }

    /// Where answers to questions are posted, from any task.
    pub fn answers(&self) -> (Api, String) {
        (self.api.clone(), format!("{}/answers", self.path))
    }

    /// Ends the session.
    pub async fn unregister(&self) -> Result<()> {
        self.reader.abort();
        self.api.send::<()>(Method::DELETE, &self.path, None).await.map(drop)
    }

    async fn post<T: Serialize>(&self, what: &str, request: &T) -> Result<()> {
        let path = format!("{}/{what}", self.path);
        match &self.numbered {
            None => self.api.send(Method::POST, &path, Some(request)).await.map(drop),
            Some(numbered) => numbered.post(&self.api, &path, json(&path, request)?).await,
        }
    }
}

impl Drop for HttpShim {
    fn drop(&mut self) {
        self.reader.abort();
    }
}

/// Path of a resource manager's endpoints, its id percent-encoded.
pub fn rm_path(rm: &str) -> String {
    format!("/si/v1/rm/{}", segment(rm))
}

/// A path segment or a value of a query, percent-encoded.
pub fn segment(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}

/// A name in a path of `/ws/v1`, where one with a slash is escaped twice.
pub fn named(text: &str) -> String {
    if text.contains('/') { segment(&segment(text)) } else { segment(text) }
}

/// The HTTP door of a server.
#[derive(Clone)]
pub struct Api {
    client: Client,
    base: String,
}

impl Api {
    /// For the server at `base`, such as `http://127.0.0.1:9080`.
    pub fn new(base: &str, trust: &Trust) -> Result<Api> {
        let base = base.trim_end_matches('/').to_owned();
        let base = if base.contains("://") { base } else { format!("http://{base}") };
        let client = Client::new(&base, trust).map_err(Error::Server)?;
        Ok(Api { client, base })
    }

    /// Life-cycle state of a resource manager.
    pub async fn status(&self, rm: &str) -> Result<Status> {
        self.get(&rm_path(rm)).await
    }

    /// Gets a JSON document.
    pub async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T> {
        let response = self.send::<()>(Method::GET, path, None).await?;
        let text = response.text().await.map_err(|e| self.unreachable(&format!("GET {path}"), &e))?;
        let mut json = serde_json::Deserializer::from_str(&text);
        // The deepest tree of queues, two levels of JSON each, is a little deeper than the reader's own limit.
        json.disable_recursion_limit();
        T::deserialize(&mut json).map_err(|e| Error::Malformed {
            reason: format!("GET {path}: {e}"),
            line: text.chars().take(200).collect(),
        })
    }

    /// Opens the stream of callbacks after `after`.
    pub(super) async fn stream(&self, rm_path: &str, after: u64) -> Result<Answer> {
        let path = format!("{rm_path}/stream?after={after}");
        let request = format!("GET {path}");
        let url = format!("{}{path}", self.base);
        let response = self.client.send(Method::GET, &url, None).await.map_err(|e| self.unreachable(&request, &e))?;
        if response.status.is_success() { Ok(response) } else { Err(refused(&request, response).await) }
    }

    /// Where there are several servers, does it again while none of them leads.
    async fn persistently(&self, work: impl AsyncFn() -> Result<Answer>) -> Result<Answer> {
        let mut fail_over = FailOver::default();
        loop {
            match work().await {
                Err(error) if fail_over.goes_on(self, &error).await => {}
                done => return done,
            }
        }
    }

    /// There are several servers.
    pub(super) fn has_several(&self) -> bool {
        self.client.has_several()
    }

    /// Sends one request. One that is answered 429 is sent again after the pause that the server asks for, and only
    /// then does this return, so that requests keep their order.
    pub async fn send<T: Serialize>(&self, method: Method, path: &str, body: Option<&T>) -> Result<Answer> {
        let body = body.map(|body| json(path, body)).transpose()?;
        self.send_body(method, path, body.map(Body::json)).await
    }

    pub(super) async fn send_body(&self, method: Method, path: &str, body: Option<Body>) -> Result<Answer> {
        let request = format!("{method} {path}");
        let url = format!("{}{path}", self.base);
        loop {
            let call = self.client.send_within(REQUEST_PATIENCE, method.clone(), &url, body.clone());
            let response = call.await.map_err(|e| self.unreachable(&request, &e))?;
            let status = response.status;
            if status.is_success() {
                return Ok(response);
            }
            if status != StatusCode::TOO_MANY_REQUESTS {
                return Err(refused(&request, response).await);
            }
            tokio::time::sleep(retry_after(&response)).await;
        }
    }

    pub(super) fn unreachable(&self, request: &str, error: &Failed) -> Error {
        Error::Unreachable { request: request.to_owned(), url: self.base.clone(), reason: error.to_string() }
    }
}

/// The patience of those who look for a leader.
#[derive(Default)]
pub(super) struct FailOver {
    /// One try may take longer than all of it, and is made again all the same: it begins with the first one that failed.
    end: Option<Instant>,
}

impl FailOver {
    /// After a pause it is worth another try; false: it is not, or the patience is at its end.
    pub async fn goes_on(&mut self, api: &Api, error: &Error) -> bool {
        if !api.has_several() || !error.may_pass() {
            return false;
        }
        let now = Instant::now();
        if now >= *self.end.get_or_insert(now + FAIL_OVER) {
            return false;
        }
        sleep(AGAIN).await;
        true
    }
}

fn json<T: Serialize>(path: &str, body: &T) -> Result<Bytes> {
    let text = serde_json::to_vec(body);
    Ok(text.map_err(|e| Error::Malformed { reason: e.to_string(), line: path.to_owned() })?.into())
}

fn retry_after(response: &Answer) -> Duration {
    let seconds = response.headers.get(RETRY_AFTER).and_then(|v| v.to_str().ok()).and_then(|v| v.trim().parse().ok());
    seconds.map_or(SHORTEST_RETRY, |s: u64| Duration::from_secs(s).clamp(SHORTEST_RETRY, LONGEST_RETRY))
}

async fn refused(request: &str, response: Answer) -> Error {
    let status = response.status;
    let text = response.text().await.unwrap_or_default();
    let detail = sentence(&text).unwrap_or_else(|| text.chars().take(400).collect());
    Error::Refused { request: request.to_owned(), status: status.as_u16().to_string(), detail }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_segments_are_encoded() {
        assert_eq!(segment("[rm-1]default"), "%5Brm-1%5Ddefault");
        assert_eq!(rm_path("a/b c"), "/si/v1/rm/a%2Fb%20c");
        assert_eq!(named("[rm-1]default"), "%5Brm-1%5Ddefault");
        assert_eq!(named("a/b"), "a%252Fb");
    }

    #[tokio::test]
    async fn patience_begins_with_the_first_try_that_failed() {
        let api = Api::new("127.0.0.1:1,127.0.0.1:2", &Trust::default()).unwrap();
        let failed = Error::Unreachable { request: String::new(), url: String::new(), reason: String::new() };
        // However long that took.
        let mut fail_over = FailOver::default();
        assert!(fail_over.goes_on(&api, &failed).await);
        fail_over.end = Some(Instant::now());
        assert!(!fail_over.goes_on(&api, &failed).await);
    }
}
