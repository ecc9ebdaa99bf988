//! What one request may bring. Shared by all doors, and changed while they are open.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Largest body or message in bytes, where nothing else is said.
pub const BODY: usize = 8 << 20;
/// Most items of a request, where nothing else is said.
pub const ITEMS: usize = 100_000;

/// See the module.
#[derive(Debug)]
pub struct Limits {
    /// As the server was started.
    own_body: AtomicUsize,
    body: AtomicUsize,
    items: AtomicUsize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { own_body: BODY.into(), body: BODY.into(), items: ITEMS.into() }
    }
}

impl Limits {
    /// Those that the server is started with: `http.maxBodyBytes` and `rm.maxItems`.
    pub fn start(&self, body: usize, items: usize) {
        self.own_body.store(body, Relaxed);
        self.body.store(body, Relaxed);
        self.items.store(items, Relaxed);
    }

    /// `http.maxBodyBytes` as it is set now; `None`: as the server was started.
    pub fn set_body(&self, body: Option<usize>) {
        self.body.store(body.unwrap_or_else(|| self.own_body.load(Relaxed)), Relaxed);
    }

    /// Largest body of a request over HTTP, frame of a WebSocket and message over gRPC, in bytes.
    pub fn body(&self) -> usize {
        self.body.load(Relaxed)
    }

    /// Most items of a request; a resource manager may be content with fewer.
    pub fn items(&self) -> usize {
        self.items.load(Relaxed)
    }
}
