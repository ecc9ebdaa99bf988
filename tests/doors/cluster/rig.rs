//! An etcd of its own for each test, and servers on it.

use std::{
    net::{SocketAddr, TcpListener, TcpStream},
    path::Path,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use reqwest::Client;
use serde_json::{Value, json};

use crate::{
    common::{self, LIMIT, Program},
    shim::server::Server,
};

/// A running member, alone; killed when it is dropped.
pub struct Etcd {
    child: Child,
    dir: tempfile::TempDir,
    client: u16,
    peer: u16,
}

/// Where `etcd` is not installed, says so and gives nothing.
pub fn etcd(test: &str) -> Option<Etcd> {
    let there = Command::new("etcd").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    if !there.is_ok_and(|status| status.success()) {
        common::skip(test, "etcd (Debian: etcd-server) is not installed");
        return None;
    }
    // A port that was free may be taken by then.
    (0..10).find_map(|_| Etcd::start())
}

fn free() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("bound").port()
}

impl Etcd {
    fn start() -> Option<Etcd> {
        let dir = tempfile::tempdir().expect("a directory");
        let (client, peer) = (free(), free());
        let child = run(dir.path(), client, peer);
        let mut etcd = Etcd { child, dir, client, peer };
        etcd.is_up().then_some(etcd)
    }

    fn is_up(&mut self) -> bool {
        let addr: SocketAddr = ([127, 0, 0, 1], self.client).into();
        let end = Instant::now() + LIMIT;
        while Instant::now() < end {
            if TcpStream::connect(addr).is_ok() {
                return true;
            }
            if self.child.try_wait().is_ok_and(|ended| ended.is_some()) {
                return false;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        false
    }

    /// As servers are told of it.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.client)
    }

    /// It is gone at once.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// It is there again, with what it had.
    pub fn again(&mut self) {
        self.child = run(self.dir.path(), self.client, self.peer);
        assert!(self.is_up(), "etcd starts again");
    }

    /// Its keys, by `etcdctl`.
    pub fn keys(&self) -> Vec<String> {
        let mut asked = Command::new("etcdctl");
        asked.env("ETCDCTL_API", "3").args([
            "--endpoints",
            &self.url(),
            "get",
            "--prefix",
            "/callboard/",
            "--keys-only",
        ]);
        let told = asked.output().expect("etcdctl comes with etcd");
        assert!(told.status.success(), "{told:?}");
        String::from_utf8_lossy(&told.stdout).lines().filter(|line| !line.is_empty()).map(str::to_owned).collect()
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        self.kill();
    }
}

fn run(dir: &Path, client: u16, peer: u16) -> Child {
    let (client, peer) = (format!("http://127.0.0.1:{client}"), format!("http://127.0.0.1:{peer}"));
    let mut etcd = Command::new("etcd");
    etcd.arg("--data-dir").arg(dir.join("etcd"));
    etcd.args(["--listen-client-urls", &client, "--advertise-client-urls", &client]);
    etcd.args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer]);
    etcd.args(["--initial-cluster", &format!("default={peer}")]);
    // Tests need what is written only as long as the machine runs.
    etcd.args(["--unsafe-no-fsync"]).env("ETCD_UNSUPPORTED_ARCH", std::env::consts::ARCH);
    etcd.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    etcd.spawn().expect("etcd starts")
}

/// A server on this etcd that takes a snapshot after so many bytes of log.
pub fn start(etcd: &Etcd, data: &Path, snapshot: &str) -> Server {
    let data = data.display().to_string();
    let mut command = common::serve(&["--data", &data, "--cluster", &etcd.url()]);
    command.env("CALLBOARD_TEST_SNAPSHOT_BYTES", snapshot);
    let program = Program::try_start(command).unwrap_or_else(|why| panic!("{why}"));
    Server { program, http: straight() }
}

/// Goes nowhere else than it is told to.
pub fn straight() -> Client {
    Client::builder().redirect(reqwest::redirect::Policy::none()).build().expect("a client")
}

/// More than any test writes.
pub const NEVER: &str = "1000000000";

/// Waits until this server leads `rm-1`.
pub async fn leads(server: &Server) -> Value {
    let ask = async || server.get("/si/v1/rm/rm-1").await;
    let (_, info) = common::answer("/si/v1/rm/rm-1", ask, |(status, _)| *status == 200).await;
    info
}

/// `rm-1` with two nodes and an application; each is answered in a line.
pub async fn session(server: &Server) {
    server.register("rm-1", &[]).await;
    server.nodes(&["n1", "n2"]).await;
    let app = json!({"applicationID": "app", "queueName": "root.a", "partitionName": "default", "ugi": {"user": "u", "groups": ["g"]}});
    assert_eq!(server.send("POST", "/si/v1/rm/rm-1/applications", &json!({"new": [app]})).await.0, 202);
}

/// Asks for one unit each.
pub async fn ask(server: &Server, keys: &[&str]) {
    crate::wired::rig::asks(server, "app", keys, 1).await;
}

/// The keys of new allocations in lines, in order.
pub fn allocated(lines: &[Value]) -> Vec<String> {
    let new = lines.iter().flat_map(|line| line["allocation"]["new"].as_array().into_iter().flatten());
    new.map(|new| new["allocationKey"].as_str().expect("a key").to_owned()).collect()
}
