//! What is in etcd: names of keys below the prefix, and the values that are JSON.
//!
//! | key | value |
//! | --- | --- |
//! | `servers/<id>`, with a lease | [`Server`] |
//! | `loads/<id>`, with the same lease | how that server follows what others lead: a list of `FollowStatus` |
//! | `drains/<id>` | that server is to lead nothing: `Drain` |
//! | `config` | what holds for all servers: `SharedConfig` |
//! | `heads/<rm>` | [`Head`] |
//! | `log/<rm>/<number>` | frames of the log, at most [`PART`] bytes; a longer frame is cut into several |
//! | `carries/<rm>`, with a lease | whoever puts that log into etcd; there is no head yet |
//! | `snap/<rm>/<index>/<number>` | a snapshot in parts of at most [`PART`] bytes |
//!
//! `<rm>` is the id of the resource manager as [`log::name`] writes it.

use serde::{Deserialize, Serialize};

use super::etcd::behind;
use crate::store::log::{self, Place};

/// Bytes of a value; etcd takes 1.5 MiB in a request.
pub const PART: usize = 512 << 10;
/// Version of what is in etcd that this release writes, and the newest that it reads.
pub const VERSION: u32 = 1;

/// A server that is alive.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Server {
    /// Its id.
    pub id: String,
    /// Base URL of its HTTP door; empty where there is none.
    pub http: String,
    /// Host and port of its gRPC door; empty where there is none.
    pub grpc: String,
    /// Its release.
    pub version: String,
    /// The version of its rules.
    pub domain: u32,
    /// Its process, by a random name: a copy of a data directory has all the rest. Earlier releases say nothing of it.
    #[serde(default)]
    pub process: String,
}

impl Server {
    /// As a value.
    pub fn json(&self) -> Vec<u8> {
        // A structure of texts has a JSON text.
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// It can be reached. The command that takes a log out of etcd has a key too, and cannot.
    pub fn has_door(&self) -> bool {
        !self.http.is_empty() || !self.grpc.is_empty()
    }
}

/// How the log of a resource manager is. Who leads it writes it with every change; that its revision is the one that was
/// written last is the condition of every change.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Head {
    /// Version of all of it.
    pub version: u32,
    /// Version of the rules by which the records were made.
    pub domain: u32,
    /// The resource manager.
    pub rm: String,
    /// Who leads; empty: nobody, it was handed over.
    pub server: String,
    /// Counts those who led.
    pub epoch: u64,
    /// Who is to lead next, where it was handed over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
    /// Index of the newest record.
    pub index: u64,
    /// The oldest value of the log that counts.
    pub first: u64,
    /// The newest; later values do not count.
    pub last: u64,
    /// Bytes of log and snapshots.
    pub bytes: u64,
    /// Oldest first.
    pub snapshots: Vec<Snap>,
}

/// A snapshot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snap {
    /// Where it stands.
    #[serde(flatten)]
    pub place: Place,
    /// Its parts.
    pub parts: u64,
    /// Its bytes.
    pub bytes: u64,
}

/// Names of keys.
#[derive(Clone, Debug)]
pub struct Keys {
    prefix: String,
}

/// What names of keys begin with, below a prefix.
const KINDS: [&str; 8] = ["servers", "loads", "drains", "config", "heads", "log", "carries", "snap"];

/// Why keys cannot be below this prefix: they would be among those of a cluster with a shorter one.
///
/// # Errors
/// The part of it that is a name of keys.
pub fn check_prefix(prefix: &str) -> Result<(), String> {
    let kind = prefix.split('/').find(|part| KINDS.contains(part));
    kind.map_or(Ok(()), |kind| {
        Err(format!("\"{kind}\" is how keys of a cluster are named that has what is before it as its prefix: choose another name"))
    })
}

/// What a key is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key<'a> {
    /// A server, by its id.
    Server(&'a str),
    /// How a server follows, by its id.
    Load(&'a str),
    /// A server that is to lead nothing, by its id.
    Drain(&'a str),
    /// What holds for all servers.
    Config,
    /// The head of a log, by the name of the resource manager.
    Head(&'a str),
    /// A value of a log.
    Log(&'a str, u64),
}

impl Keys {
    /// Below this prefix.
    pub fn new(prefix: &str) -> Keys {
        Keys { prefix: format!("{}/", prefix.trim_end_matches('/')) }
    }

    /// What all of them begin with.
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// The name of a resource manager in keys.
    pub fn name(rm: &str) -> String {
        log::name(rm)
    }

    /// All servers, from and up to.
    pub fn servers(&self) -> (String, String) {
        all(format!("{}servers/", self.prefix))
    }

    /// A server.
    pub fn server(&self, id: &str) -> String {
        format!("{}servers/{id}", self.prefix)
    }

    /// How all servers follow, from and up to.
    pub fn loads(&self) -> (String, String) {
        all(format!("{}loads/", self.prefix))
    }

    /// How a server follows.
    pub fn load(&self, id: &str) -> String {
        format!("{}loads/{id}", self.prefix)
    }

    /// All servers that are to lead nothing, from and up to.
    pub fn drains(&self) -> (String, String) {
        all(format!("{}drains/", self.prefix))
    }

    /// A server that is to lead nothing.
    pub fn drain(&self, id: &str) -> String {
        format!("{}drains/{id}", self.prefix)
    }

    /// What holds for all servers.
    pub fn config(&self) -> String {
        format!("{}config", self.prefix)
    }

    /// All heads, from and up to.
    pub fn heads(&self) -> (String, String) {
        all(format!("{}heads/", self.prefix))
    }

    /// The head of a log.
    pub fn head(&self, name: &str) -> String {
        format!("{}heads/{name}", self.prefix)
    }

    /// That a log is put into etcd.
    pub fn carry(&self, name: &str) -> String {
        format!("{}carries/{name}", self.prefix)
    }

    /// A value of a log.
    pub fn log(&self, name: &str, number: u64) -> String {
        format!("{}log/{name}/{number:020}", self.prefix)
    }

    /// All values of a log, from and up to.
    pub fn logs(&self, name: &str) -> (String, String) {
        all(format!("{}log/{name}/", self.prefix))
    }

    /// A part of a snapshot.
    pub fn snap(&self, name: &str, index: u64, part: u64) -> String {
        format!("{}snap/{name}/{index:020}/{part:06}", self.prefix)
    }

    /// All snapshots, from and up to.
    pub fn snaps(&self, name: &str) -> (String, String) {
        all(format!("{}snap/{name}/", self.prefix))
    }

    /// Reads a key; `None` for those that concern nobody who watches.
    pub fn read<'a>(&self, key: &'a [u8]) -> Option<Key<'a>> {
        let mut parts = str::from_utf8(key).ok()?.strip_prefix(&self.prefix)?.split('/');
        if parts.clone().eq(["config"]) {
            return Some(Key::Config);
        }
        let (kind, name, number) = (parts.next()?, parts.next()?, parts.next());
        match (kind, number) {
            ("servers", None) => Some(Key::Server(name)),
            ("loads", None) => Some(Key::Load(name)),
            ("drains", None) => Some(Key::Drain(name)),
            ("heads", None) => Some(Key::Head(name)),
            ("log", Some(number)) => Some(Key::Log(name, number.parse().ok()?)),
            _ => None,
        }
    }
}

fn all(prefix: String) -> (String, String) {
    let end = behind(&prefix);
    (prefix, end)
}

impl Head {
    /// Reads a value.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn read(value: &[u8]) -> Result<Head, String> {
        let head: Head = serde_json::from_slice(value).map_err(|error| format!("its head cannot be read: {error}"))?;
        if head.version > VERSION {
            return Err(format!(
                "it has format version {}, and this server reads up to {VERSION}: start the release that wrote it",
                head.version
            ));
        }
        Ok(head)
    }

    /// As a value.
    pub fn json(&self) -> Vec<u8> {
        // A structure of texts and numbers has a JSON text.
        serde_json::to_vec(self).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_read_as_they_are_named() {
        let keys = Keys::new("/callboard/prod/");
        let name = Keys::name("RM/1");
        // Only in a directory something else has that name.
        assert_eq!(Keys::name("mark"), "mark");
        assert_eq!(keys.read(keys.head(&name).as_bytes()), Some(Key::Head(&name)));
        assert_eq!(keys.read(keys.log(&name, 17).as_bytes()), Some(Key::Log(&name, 17)));
        assert_eq!(keys.read(keys.server("a-b").as_bytes()), Some(Key::Server("a-b")));
        assert_eq!(keys.read(keys.load("a-b").as_bytes()), Some(Key::Load("a-b")));
        assert_eq!(keys.read(keys.drain("a-b").as_bytes()), Some(Key::Drain("a-b")));
        assert_eq!(keys.read(keys.config().as_bytes()), Some(Key::Config));
        assert_eq!(keys.read(keys.snap(&name, 3, 4).as_bytes()), None);
        assert_eq!(keys.read(b"/other/heads/x"), None);
        // By number, as etcd orders them.
        assert!(keys.log(&name, 9) < keys.log(&name, 10) && keys.snap(&name, 9, 99) < keys.snap(&name, 10, 0));
        let (from, to) = keys.logs("a");
        assert!(from < keys.log("a", 0) && keys.log("a", u64::MAX) < to && keys.log("a-1", 0) < from);
    }

    #[test]
    fn a_prefix_among_the_keys_of_another_cluster_is_refused() {
        for sound in ["/callboard", "/one/two", "", "/", "noslash", "/headsets/x", "/my-config"] {
            assert_eq!(check_prefix(sound), Ok(()), "{sound}");
        }
        // `config` of this one would be the head of a resource manager to the other, for example.
        for kind in KINDS {
            for wrong in [format!("/one/{kind}"), format!("/one/{kind}/two"), format!("{kind}/")] {
                assert!(check_prefix(&wrong).unwrap_err().contains(&format!("\"{kind}\"")), "{wrong}");
            }
        }
        // All kinds of keys are among them.
        let keys = Keys::new("/one");
        let all = [keys.server("x"), keys.load("x"), keys.drain("x"), keys.config(), keys.head("x")];
        let more = [keys.log("x", 1), keys.carry("x"), keys.snap("x", 1, 1)];
        for key in all.iter().chain(&more) {
            assert!(check_prefix(key).is_err(), "{key}");
        }
    }

    #[test]
    fn a_head_of_a_later_release_is_refused() {
        let head = Head { version: VERSION, rm: "rm".into(), server: "s".into(), ..Head::default() };
        assert_eq!(Head::read(&head.json()), Ok(head.clone()));
        let later = Head { version: VERSION + 1, ..head };
        assert!(Head::read(&later.json()).unwrap_err().contains("start the release that wrote it"));
        assert!(Head::read(b"{").is_err());
    }
}
