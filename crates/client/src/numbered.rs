//! Requests with numbers, one after the other. What was sent under a number keeps it until its outcome is known: a server that has
//! taken a number takes nothing else under it, and would answer another request as if it had been applied.

use bytes::Bytes;
use hyper::Method;
use tokio::sync::Mutex;

use super::{
    Error, Result,
    http::{Api, FailOver},
    net::Body,
};

/// The numbered requests of a session.
#[derive(Default)]
pub(super) struct Numbered(Mutex<State>);

#[derive(Default)]
struct State {
    /// The last number that was applied.
    applied: u64,
    /// What was sent under the next number and may have been applied. It is here before it is sent, and so it is still here where
    /// its sender waits no longer.
    open: Option<Open>,
}

struct Open {
    path: String,
    body: Bytes,
    /// It was sent and not answered: a refusal that comes later may be one of its repetition only.
    in_doubt: bool,
}

impl Numbered {
    /// Sends a request, after what is left of those before it. One that is sent once more as it was is the same request.
    pub async fn post(&self, api: &Api, path: &str, body: Bytes) -> Result<()> {
        let mut state = self.0.lock().await;
        if let Some(first) = state.open.as_ref().filter(|open| open.path != path || open.body != body) {
            let (request, first) = (name(path), name(&first.path));
            state.deliver(api).await.map_err(|error| Error::Behind { request, first, reason: error.to_string() })?;
        }
        state.open.get_or_insert_with(|| Open { path: path.to_owned(), body, in_doubt: false });
        state.deliver(api).await
    }
}

impl State {
    /// Sends what is open until its outcome is known, or the patience is at its end.
    async fn deliver(&mut self, api: &Api) -> Result<()> {
        let Some(open) = &mut self.open else { return Ok(()) };
        let body = Body { number: Some(self.applied + 1), ..Body::json(open.body.clone()) };
        let mut fail_over = FailOver::default();
        loop {
            let was_in_doubt = open.in_doubt;
            // Until the answer is here, whatever becomes of whoever waits for it.
            open.in_doubt = true;
            let error = match api.send_body(Method::POST, &open.path, Some(body.clone())).await {
                Ok(_) => {
                    self.applied += 1;
                    self.open = None;
                    return Ok(());
                }
                Err(error) => error,
            };
            if is_settled(&error, was_in_doubt) {
                // It used up no number.
                self.open = None;
                return Err(error);
            }
            if !fail_over.goes_on(api, &error).await {
                return Err(Error::Unknown { request: name(&open.path), reason: error.to_string() });
            }
        }
    }
}

fn name(path: &str) -> String {
    format!("{} {path}", Method::POST)
}

/// It was not applied. A request that was sent before and not answered is known not to have been where what it says is refused, for a
/// number that was taken is not read again; that a token is not valid any more, for one, says nothing of the time before.
fn is_settled(error: &Error, was_in_doubt: bool) -> bool {
    let Error::Refused { status, .. } = error else { return false };
    match &**status {
        "400" | "409" | "413" | "415" | "422" => true,
        status => status.starts_with('4') && !was_in_doubt,
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::{Arc, Mutex},
        time::Duration,
    };

    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        net::{TcpListener, TcpStream},
    };

    use super::*;
    use crate::trust::Trust;

    /// Number and body of each request that came.
    type Came = Arc<Mutex<Vec<(String, String)>>>;

    /// What happens to a request.
    #[derive(Clone, Copy)]
    enum Fate {
        /// It is answered so.
        Answered(&'static str),
        /// The connection breaks.
        Lost,
        /// Nothing comes back.
        Silence,
    }

    /// Serves one request, and ends the connection.
    async fn serve(mut peer: TcpStream, came: Came, fates: Arc<Mutex<std::vec::IntoIter<Fate>>>) {
        let mut text = Vec::new();
        // Bodies of these tests end so, and heads of what has none as they all do.
        while !(text.ends_with(b"}") || text.starts_with(b"GET") && text.ends_with(b"\r\n\r\n")) {
            let mut piece = [0; 1024];
            match peer.read(&mut piece).await {
                Ok(read) if read > 0 => text.extend_from_slice(&piece[..read]),
                _ => return,
            }
        }
        let text = String::from_utf8(text).unwrap();
        let mut fate = Fate::Answered("200 OK");
        // What is not numbered asks whether it is there.
        if let Some((head, body)) = text.split_once("\r\n\r\n").filter(|_| text.starts_with("POST")) {
            let number = head.lines().find_map(|line| line.strip_prefix("x-callboard-seq: ")).unwrap();
            came.lock().unwrap().push((number.to_owned(), body.to_owned()));
            fate = fates.lock().unwrap().next().unwrap_or(Fate::Answered("202 Accepted"));
        }
        match fate {
            Fate::Answered(status) => {
                let answer = format!("HTTP/1.1 {status}\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{{}}");
                let _ = peer.write_all(answer.as_bytes()).await;
            }
            Fate::Lost => {}
            Fate::Silence => tokio::time::sleep(Duration::from_secs(600)).await,
        }
    }

    /// A server with two addresses that does this to one request after the other, and takes the rest.
    async fn server(fates: Vec<Fate>) -> (Api, Came) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let came = Came::default();
        let fates = Arc::new(Mutex::new(fates.into_iter()));
        let told = came.clone();
        tokio::spawn(async move {
            loop {
                let (peer, _) = listener.accept().await.unwrap();
                tokio::spawn(serve(peer, told.clone(), fates.clone()));
            }
        });
        (Api::new(&format!("{address},{address}"), &Trust::default()).unwrap(), came)
    }

    fn told(came: &Came) -> Vec<(String, String)> {
        came.lock().unwrap().clone()
    }

    fn all(wanted: &[(&str, &str)]) -> Vec<(String, String)> {
        wanted.iter().map(|(number, body)| ((*number).to_owned(), (*body).to_owned())).collect()
    }

    const FIRST: &str = r#"{"first":1}"#;
    const NEXT: &str = r#"{"next":1}"#;

    async fn post(numbered: &Numbered, api: &Api, body: &'static str) -> Result<()> {
        numbered.post(api, "/nodes", Bytes::from_static(body.as_bytes())).await
    }

    #[tokio::test]
    async fn what_was_not_answered_keeps_its_number_and_comes_before_the_next() {
        let (api, came) = server(vec![Fate::Answered("500 Broken"), Fate::Answered("500 Broken"), Fate::Lost]).await;
        let numbered = Numbered::default();
        let error = post(&numbered, &api, FIRST).await.unwrap_err();
        assert!(matches!(&error, Error::Unknown { request, .. } if request == "POST /nodes"), "{error}");
        let error = post(&numbered, &api, NEXT).await.unwrap_err();
        assert!(matches!(&error, Error::Behind { .. }), "{error}");
        assert_eq!(told(&came), all(&[("1", FIRST), ("1", FIRST)]), "the next was not sent");
        post(&numbered, &api, NEXT).await.unwrap();
        assert_eq!(told(&came)[2..], all(&[("1", FIRST), ("1", FIRST), ("2", NEXT)]));
    }

    #[tokio::test]
    async fn who_waits_no_longer_leaves_no_number_for_another() {
        let (api, came) = server(vec![Fate::Silence]).await;
        let numbered = Numbered::default();
        let sending = tokio::time::timeout(Duration::from_millis(500), post(&numbered, &api, FIRST));
        assert!(sending.await.is_err(), "it was not answered");
        post(&numbered, &api, NEXT).await.unwrap();
        assert_eq!(told(&came), all(&[("1", FIRST), ("1", FIRST), ("2", NEXT)]));
    }

    #[tokio::test]
    async fn a_request_that_its_sender_repeats_is_the_same() {
        let (api, came) = server(vec![Fate::Answered("500 Broken")]).await;
        let numbered = Numbered::default();
        post(&numbered, &api, FIRST).await.unwrap_err();
        post(&numbered, &api, FIRST).await.unwrap();
        post(&numbered, &api, FIRST).await.unwrap();
        assert_eq!(told(&came), all(&[("1", FIRST), ("1", FIRST), ("2", FIRST)]));
    }

    #[tokio::test]
    async fn what_is_refused_uses_up_no_number() {
        let fates = vec![Fate::Answered("400 Bad Request"), Fate::Answered("403 Forbidden"), Fate::Lost];
        let forbidden = vec![Fate::Answered("403 Forbidden"), Fate::Answered("400 Bad Request")];
        let (api, came) = server([fates, forbidden].concat()).await;
        let numbered = Numbered::default();
        for _ in 0..2 {
            let error = post(&numbered, &api, FIRST).await.unwrap_err();
            assert!(matches!(&error, Error::Refused { .. }), "{error}");
        }
        // It is not known what became of the first time.
        let error = post(&numbered, &api, NEXT).await.unwrap_err();
        assert!(matches!(&error, Error::Unknown { .. }), "{error}");
        // Nobody was told yet that it is refused.
        let error = post(&numbered, &api, FIRST).await.unwrap_err();
        assert!(matches!(&error, Error::Behind { .. }) && error.to_string().contains("(400)"), "{error}");
        post(&numbered, &api, FIRST).await.unwrap();
        let wanted = [("1", FIRST), ("1", FIRST), ("1", NEXT), ("1", NEXT), ("1", NEXT), ("1", FIRST)];
        assert_eq!(told(&came), all(&wanted));
    }
}
