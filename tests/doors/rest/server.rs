//! A server on a free port, and a client that sees every byte.

use std::{collections::BTreeMap, net::SocketAddr, sync::Arc};

use actix::{Actor, Arbiter};
use actix_web::dev::ServerHandle;
use callboard::{
    actors::{directory::Listing, event::EventActor, topology::Topology},
    config,
    domain::event_settings::EventSettings,
    http::ws_v1::{self, RestState},
    metrics::Metrics,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use crate::in_process::serve;

pub struct Server {
    pub address: SocketAddr,
    pub state: Arc<RestState>,
    handle: ServerHandle,
}

impl Server {
    /// A server over these partitions.
    pub fn start(listing: Listing) -> Server {
        let events = EventActor::new(EventSettings::default()).start();
        let here = Arbiter::current();
        let topology = Topology::new(vec![here], Topology::launcher(), events, config::load("").unwrap());
        topology.directory.set(listing);
        let state = RestState::new(topology, Arc::new(Metrics::new().unwrap()));
        let state = Arc::new(state);
        let (address, handle) = serve(ws_v1::services(state.clone()));
        Server { address, state, handle }
    }

    /// Sends one request with these header lines and reads the answer to its end.
    pub async fn request(&self, method: &str, path: &str, headers: &[&str], body: &str) -> Answer {
        let mut socket = TcpStream::connect(self.address).await.unwrap();
        let mut request = format!("{method} {path} HTTP/1.1\r\nHost: board\r\nConnection: close\r\n");
        if !body.is_empty() {
            request += &format!("Content-Length: {}\r\n", body.len());
        }
        for header in headers {
            request += &format!("{header}\r\n");
        }
        request += &format!("\r\n{body}");
        socket.write_all(request.as_bytes()).await.unwrap();
        let mut bytes = Vec::new();
        socket.read_to_end(&mut bytes).await.unwrap();
        Answer::parse(&bytes)
    }

    pub async fn get(&self, path: &str) -> Answer {
        self.request("GET", path, &[], "").await
    }

    pub async fn stop(self) {
        self.handle.stop(false).await;
    }
}

#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: BTreeMap<String, String>,
    pub body: Vec<u8>,
}

impl Answer {
    fn parse(bytes: &[u8]) -> Answer {
        let end = bytes.windows(4).position(|w| w == b"\r\n\r\n").expect("no end of the headers");
        let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
        let mut lines = head.split("\r\n");
        let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
        let headers: BTreeMap<String, String> = lines
            .map(|line| line.split_once(": ").unwrap())
            .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
            .collect();
        let mut body = bytes[end + 4..].to_vec();
        if headers.get("transfer-encoding").is_some_and(|coding| coding == "chunked") {
            body = unchunked(&body);
        }
        Answer { status, headers, body }
    }

    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|e| panic!("{e}: {}", self.text()))
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }
}

fn unchunked(mut bytes: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    loop {
        let end = bytes.windows(2).position(|w| w == b"\r\n").expect("no chunk size");
        let size = usize::from_str_radix(std::str::from_utf8(&bytes[..end]).unwrap(), 16).unwrap();
        if size == 0 {
            return body;
        }
        body.extend_from_slice(&bytes[end + 2..end + 2 + size]);
        bytes = &bytes[end + 4 + size..];
    }
}
