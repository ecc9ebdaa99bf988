//! How the commands that ask a running server reach its `/api/v1`.

use clap::Args;
use hyper::{HeaderMap, Method};
use jiff::{Timestamp, fmt::rfc2822};
use serde::{Deserialize, Serialize};

use super::{
    client::{
        http::segment,
        net::{Answer, Body, Client, Failed, sentence},
        trust::Trust,
    },
    context::ContextArg,
    out, url,
};
use crate::http::{api::plan::view::Warning, past::MOMENT};

/// Which server, and which of its partitions.
#[derive(Args, Clone, Debug)]
pub struct Door {
    /// Address of the server, as host:port or URL; several, separated by commas, are tried in turn
    #[arg(long, global = true, value_name = "URL", value_parser = url::option, env = "CALLBOARD_SERVER", default_value = "http://127.0.0.1:9080")]
    pub server: String,
    /// Partition
    #[arg(long, global = true, value_name = "NAME", default_value = "default")]
    pub partition: String,
    #[command(flatten)]
    pub context: ContextArg,
    #[command(flatten)]
    pub trust: Trust,
}

/// Why a request failed: the text for people, and the HTTP status where there is one.
#[derive(Debug, thiserror::Error)]
#[error("{}", out::lines(text))]
pub struct Error {
    /// What went wrong.
    pub text: String,
    /// Status of the answer.
    pub status: Option<u16>,
}

/// What time it is in an answer: the moment that it shows, where that is the past; else what the server's clock says, from which
/// that of this machine may differ.
pub fn now_of(headers: &HeaderMap) -> Timestamp {
    let text = |name: &str| headers.get(name)?.to_str().ok();
    let moment = text(MOMENT).and_then(|moment| moment.split_once("time=")?.1.parse().ok());
    let clock = || rfc2822::parse(text("date")?).ok().map(|zoned| zoned.timestamp());
    moment.or_else(clock).unwrap_or_else(Timestamp::now)
}

impl Door {
    /// GET of a path below the partition, such as `resource/status`.
    ///
    /// # Errors
    /// The server cannot be reached, or its answer is an error.
    pub async fn get(&self, path: &str) -> Result<Answer, Error> {
        self.send(Method::GET, &self.url(path), None).await
    }

    /// As [`Door::get`]; the error comes with whether a server was there, which may be again.
    ///
    /// # Errors
    /// The server cannot be reached, or its answer is an error.
    pub async fn get_if_there(&self, path: &str) -> Result<Answer, (Error, bool)> {
        self.try_send(Method::GET, &self.url(path), None).await
    }

    /// GET of a path below `/api/v1`, such as `log/level`.
    ///
    /// # Errors
    /// The server cannot be reached, or its answer is an error.
    pub async fn get_of_server(&self, path: &str) -> Result<Answer, Error> {
        self.send(Method::GET, &self.url_of_server(path), None).await
    }

    /// POST of a JSON body to a path below `/api/v1`.
    ///
    /// # Errors
    /// The server cannot be reached, or its answer is an error.
    pub async fn post_to_server(&self, path: &str, body: &impl Serialize) -> Result<Answer, Error> {
        self.send(Method::POST, &self.url_of_server(path), Some(json_of(body)?)).await
    }

    /// POST of a JSON body to a path below the partition.
    ///
    /// # Errors
    /// The server cannot be reached, or its answer is an error.
    pub async fn post(&self, path: &str, body: &impl Serialize) -> Result<Answer, Error> {
        self.send(Method::POST, &self.url(path), Some(json_of(body)?)).await
    }

    /// The JSON document at a path of the server, such as `/api/v1/overview`.
    ///
    /// # Errors
    /// The server cannot be reached, or its answer is an error, or no JSON.
    pub async fn value_at(&self, path: &str) -> Result<serde_json::Value, Error> {
        self.value_and_now(path).await.map(|(value, _)| value)
    }

    /// As [`Door::value_at`], with what time it is in that answer ([`now_of`]).
    ///
    /// # Errors
    /// The server cannot be reached, or its answer is an error, or no JSON.
    pub async fn value_and_now(&self, path: &str) -> Result<(serde_json::Value, Timestamp), Error> {
        let url = format!("{}{path}", self.server.trim_end_matches('/'));
        let answer = self.send(Method::GET, &url, None).await?;
        let now = now_of(&answer.headers);
        let text = answer.text().await.map_err(|error| self.unreachable(&error))?;
        let mut json = serde_json::Deserializer::from_str(&text);
        // The deepest tree of queues, two levels of JSON each, is a little deeper than the reader's own limit.
        json.disable_recursion_limit();
        let broken = |error| Error { text: format!("{} sent what is no JSON: {error}", self.server), status: None };
        serde_json::Value::deserialize(&mut json).map(|value| (value, now)).map_err(broken)
    }

    fn url(&self, path: &str) -> String {
        self.url_of_server(&format!("partition/{}/{path}", segment(&self.partition)))
    }

    fn url_of_server(&self, path: &str) -> String {
        format!("{}/api/v1/{path}", self.server.trim_end_matches('/'))
    }

    async fn send(&self, method: Method, url: &str, body: Option<Body>) -> Result<Answer, Error> {
        self.try_send(method, url, body).await.map_err(|(error, _)| error)
    }

    async fn try_send(&self, method: Method, url: &str, body: Option<Body>) -> Result<Answer, (Error, bool)> {
        let failed = |error: Failed| (self.unreachable(&error), error.was_there);
        let client = Client::new(&self.server, &self.trust).map_err(|text| (Error { text, status: None }, false))?;
        let answer = client.send(method, url, body).await.map_err(failed)?;
        let status = answer.status;
        if status.is_success() {
            return Ok(answer);
        }
        let text = answer.text().await.map_err(failed)?;
        let text = refusal(&text).unwrap_or_else(|| format!("{} answers {status}: {}", self.server, text.trim()));
        Err((Error { text, status: Some(status.as_u16()) }, false))
    }

    fn unreachable(&self, error: &Failed) -> Error {
        Error { text: error.of_server(&self.server), status: None }
    }
}

/// What an error answer says, with all faults of a configuration where it names them.
fn refusal(answer: &str) -> Option<String> {
    #[derive(Default, Deserialize)]
    struct Faults {
        #[serde(default)]
        errors: Vec<Warning>,
    }

    let mut told = sentence(answer)?;
    let Faults { errors } = serde_json::from_str(answer).unwrap_or_default();
    for Warning { line, column, rule, message } in errors {
        told += &format!("\n  {line}:{column}: {rule}: {message}");
    }
    Some(told)
}

fn json_of(body: &impl Serialize) -> Result<Body, Error> {
    let body = serde_json::to_vec(body).map_err(|error| Error { text: error.to_string(), status: None })?;
    Ok(Body::json(body))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_an_answer_is_that_of_what_it_shows() {
        let mut headers = HeaderMap::new();
        headers.insert("date", "Sat, 21 Nov 2026 02:13:05 GMT".parse().unwrap());
        assert_eq!(now_of(&headers).to_string(), "2026-11-21T02:13:05Z");
        headers.insert(MOMENT, "index=7; time=2026-11-20T01:00:00.5Z".parse().unwrap());
        assert_eq!(now_of(&headers).to_string(), "2026-11-20T01:00:00.5Z");
        let before = Timestamp::now();
        assert!(now_of(&HeaderMap::new()) >= before);
    }

    #[tokio::test]
    async fn a_server_that_is_not_there_is_named() {
        let (server, partition) = ("http://127.0.0.1:9/".to_owned(), "[rm-1]a b".to_owned());
        let door = Door { server, partition, context: ContextArg::default(), trust: Trust::default() };
        assert_eq!(door.url("x"), "http://127.0.0.1:9/api/v1/partition/%5Brm-1%5Da%20b/x");
        let error = door.get("resource/status").await.unwrap_err().to_string();
        assert!(error.starts_with("http://127.0.0.1:9/ cannot be reached (--server names another): "), "{error}");
    }

    #[test]
    fn faults_of_a_configuration_are_told_with_their_places() {
        let answer =
            r#"{"detail":"it is refused","errors":[{"line":4,"column":9,"rule":"CFG-050","message":"no (queue a)"}]}"#;
        assert_eq!(refusal(answer).unwrap(), "it is refused\n  4:9: CFG-050: no (queue a)");
        assert_eq!(refusal(r#"{"detail":"it is gone"}"#).unwrap(), "it is gone");
        assert_eq!(refusal("nothing of the kind"), None);
    }
}
