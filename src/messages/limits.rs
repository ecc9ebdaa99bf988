//! What one request may bring. Shared by all doors, and changed while they are open.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::Relaxed},
};

use nix::sys::resource::{Resource, getrlimit, setrlimit};

use super::underway::Underway;

/// Largest body or message in bytes, where nothing else is said.
pub const BODY: usize = 8 << 20;
/// Most items of a request, where nothing else is said.
pub const ITEMS: usize = 100_000;

/// Connections that a door takes at most, whatever the process may open.
const CONNECTIONS: usize = 100_000;

/// Raises the limit of open files and connections as far as the system lets the process.
pub fn raise_descriptors() {
    if let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE)
        && soft < hard
    {
        // Where that is refused the limit stays.
        let _ = setrlimit(Resource::RLIMIT_NOFILE, hard, hard);
    }
}

/// Connections that may be open at a time at the HTTP doors and at the gRPC door: half and an eighth of the descriptors, so
/// that there are some left for files whoever connects.
pub fn connections() -> (usize, usize) {
    shares(descriptors())
}

/// Resource managers that may have a session at a time: a quarter of the descriptors, as each keeps a file of its log open.
pub fn sessions() -> usize {
    (descriptors() / 4).max(1)
}

fn shares(descriptors: usize) -> (usize, usize) {
    let share = |part: usize| (descriptors / part).clamp(1, CONNECTIONS);
    (share(2), share(8))
}

fn descriptors() -> usize {
    let (soft, _) = getrlimit(Resource::RLIMIT_NOFILE).unwrap_or((1_024, 1_024));
    usize::try_from(soft).unwrap_or(usize::MAX)
}

/// See the module.
#[derive(Debug)]
pub struct Limits {
    /// As the server was started.
    own_body: AtomicUsize,
    body: AtomicUsize,
    items: AtomicUsize,
    /// What has begun to come, at all doors.
    pub underway: Arc<Underway>,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { own_body: BODY.into(), body: BODY.into(), items: ITEMS.into(), underway: Arc::default() }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptors_are_left_for_files() {
        assert_eq!(shares(256), (128, 32));
        assert_eq!(shares(0), (1, 1));
        assert_eq!(shares(usize::MAX), (CONNECTIONS, CONNECTIONS));
    }
}
