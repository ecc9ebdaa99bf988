//! The HTTP door as the simulated resource manager sees it.

use reqwest::{Client, Method, RequestBuilder, Response};
use serde_json::Value;

/// A client of one server.
#[derive(Clone)]
pub struct Http {
    client: Client,
    base: String,
}

/// Status and body of an answer.
pub struct Answer {
    pub status: u16,
    pub body: Vec<u8>,
}

impl Http {
    /// A client for the server at `base`. Proxies of the environment are left alone: the server is on this machine.
    pub fn new(base: &str) -> Result<Http, String> {
        let client = Client::builder().no_proxy().build().map_err(|e| format!("no HTTP client: {e}"))?;
        Ok(Http { client, base: base.to_owned() })
    }

    fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.client.request(method, format!("{}{path}", self.base))
    }

    /// The answer of a GET.
    pub async fn get(&self, path: &str, accept: Option<&str>) -> Result<Answer, String> {
        answer(with_accept(self.request(Method::GET, path), accept)).await
    }

    /// The answer of a POST of plain text.
    pub async fn post_text(&self, path: &str, body: &str, accept: Option<&str>) -> Result<Answer, String> {
        answer(with_accept(self.request(Method::POST, path), accept).body(body.to_owned())).await
    }

    /// The answer of a POST of JSON.
    pub async fn post(&self, path: &str, body: &Value) -> Result<Answer, String> {
        answer(self.request(Method::POST, path).json(body)).await
    }

    /// The answer of a PUT of JSON.
    pub async fn put(&self, path: &str, body: &Value) -> Result<Answer, String> {
        answer(self.request(Method::PUT, path).json(body)).await
    }

    /// An answer that goes on: its lines are still to be read.
    pub async fn open(&self, path: &str) -> Result<Lines, String> {
        let response = self.request(Method::GET, path).send().await.map_err(|e| format!("GET {path}: {e}"))?;
        Ok(Lines { status: response.status().as_u16(), response, buffer: Vec::new() })
    }
}

fn with_accept(request: RequestBuilder, accept: Option<&str>) -> RequestBuilder {
    match accept {
        Some(accept) => request.header("Accept", accept),
        None => request,
    }
}

async fn answer(request: RequestBuilder) -> Result<Answer, String> {
    let response = request.send().await.map_err(|e| format!("no answer: {e:?}"))?;
    let status = response.status().as_u16();
    let body = response.bytes().await.map_err(|e| format!("half an answer: {e:?}"))?;
    Ok(Answer { status, body: body.to_vec() })
}

impl Answer {
    /// The body as JSON, where it is.
    pub fn json(&self) -> Option<Value> {
        serde_json::from_slice(&self.body).ok()
    }

    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// Why the call was refused; `None` where it was not.
    pub fn refusal(&self) -> Option<String> {
        if self.status < 300 {
            return None;
        }
        const FIELDS: [&str; 6] = ["message", "Message", "error", "reason", "detail", "Description"];
        let text = match self.json() {
            Some(Value::Object(map)) => FIELDS.iter().find_map(|key| map.get(*key)?.as_str()).map(str::to_owned),
            Some(Value::String(text)) => Some(text),
            _ => None,
        };
        Some(text.unwrap_or_else(|| self.text().trim().to_owned()))
    }
}

/// The lines of an answer that goes on.
pub struct Lines {
    pub status: u16,
    response: Response,
    buffer: Vec<u8>,
}

impl Lines {
    /// The next line that is not empty; `None` at the end. Nothing is lost where the future is dropped.
    pub async fn next(&mut self) -> Result<Option<Vec<u8>>, String> {
        loop {
            while let Some(end) = self.buffer.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.buffer.drain(..=end).collect();
                let line = line.trim_ascii();
                if !line.is_empty() {
                    return Ok(Some(line.to_vec()));
                }
            }
            match self.response.chunk().await.map_err(|e| format!("the stream broke: {e:?}"))? {
                Some(chunk) => self.buffer.extend_from_slice(&chunk),
                None => {
                    let rest = std::mem::take(&mut self.buffer);
                    let rest = rest.trim_ascii();
                    return Ok((!rest.is_empty()).then(|| rest.to_vec()));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(status: u16, body: &str) -> Option<String> {
        Answer { status, body: body.as_bytes().to_vec() }.refusal()
    }

    #[test]
    fn the_text_of_a_refusal() {
        assert_eq!(refusal(202, "{}"), None);
        assert_eq!(refusal(400, r#"{"title": "bad", "detail": "no such queue"}"#), Some("no such queue".to_owned()));
        assert_eq!(refusal(400, r#""plain""#), Some("plain".to_owned()));
        assert_eq!(refusal(503, " busy\n"), Some("busy".to_owned()));
    }
}
