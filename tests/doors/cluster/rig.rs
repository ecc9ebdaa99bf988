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

/// A running member; killed when it is dropped.
pub struct Etcd {
    child: Child,
    dir: tempfile::TempDir,
    scheme: &'static str,
    client: u16,
    peer: u16,
    /// Its name, and who belongs to it.
    name: String,
    members: String,
    more: Vec<String>,
}

/// Whether `etcd` is there; where it is not, that is said.
pub fn is_installed(test: &str) -> bool {
    let there = Command::new("etcd").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    let there = there.is_ok_and(|status| status.success());
    if !there {
        common::skip(test, "etcd (Debian: etcd-server) is not installed");
    }
    there
}

/// Where `etcd` is not installed, says so and gives nothing.
pub fn etcd(test: &str) -> Option<Etcd> {
    is_installed(test).then(|| Etcd::with("http", &[]))?
}

fn free() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("bound").port()
}

impl Etcd {
    /// One alone, with more options.
    pub fn with(scheme: &'static str, more: &[&str]) -> Option<Etcd> {
        // A port that was free may be taken by then.
        (0..10).find_map(|_| {
            let (client, peer) = (free(), free());
            let members = format!("default=http://127.0.0.1:{peer}");
            let mut etcd = Etcd::start(scheme, ("default", &members), client, peer, more);
            etcd.is_up().then_some(etcd)
        })
    }

    /// Three that belong together.
    pub fn three() -> Vec<Etcd> {
        let ports: Vec<(u16, u16)> = (0..3).map(|_| (free(), free())).collect();
        let of = |(nth, (_, peer)): (usize, &(u16, u16))| format!("m{nth}=http://127.0.0.1:{peer}");
        let members = ports.iter().enumerate().map(of).collect::<Vec<_>>().join(",");
        let start = |(nth, (client, peer)): (usize, &(u16, u16))| {
            Etcd::start("http", (&format!("m{nth}"), &members), *client, *peer, &[])
        };
        let mut all: Vec<Etcd> = ports.iter().enumerate().map(start).collect();
        assert!(all.iter_mut().all(Etcd::is_up), "three members of etcd start");
        all
    }

    fn start(scheme: &'static str, (name, members): (&str, &str), client: u16, peer: u16, more: &[&str]) -> Etcd {
        let dir = tempfile::tempdir().expect("a directory");
        let more: Vec<String> = more.iter().map(|option| (*option).to_owned()).collect();
        let (name, members) = (name.to_owned(), members.to_owned());
        let child = member(dir.path(), scheme, (&name, &members), client, peer, &more);
        Etcd { child, dir, scheme, client, peer, name, members, more }
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
        format!("{}://127.0.0.1:{}", self.scheme, self.client)
    }

    /// It is gone at once.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// It is there again, with what it had.
    pub fn again(&mut self) {
        let who = (&*self.name, &*self.members);
        self.child = member(self.dir.path(), self.scheme, who, self.client, self.peer, &self.more);
        assert!(self.is_up(), "etcd starts again");
    }

    /// Has `etcdctl` do something.
    pub fn ctl(&self, args: &[&str]) {
        etcdctl(&self.url(), args);
    }

    /// Saves a backup, as the manual says.
    pub fn back_up(&self, file: &Path) {
        self.ctl(&["snapshot", "save", &file.display().to_string()]);
    }

    /// What was there before a backup was saved is there again, and nothing else.
    pub fn restore(&mut self, file: &Path) {
        self.kill();
        std::fs::remove_dir_all(self.dir.path().join("etcd")).expect("removed");
        let (data, peer) = (self.dir.path().join("etcd"), format!("http://127.0.0.1:{}", self.peer));
        let data = data.display().to_string();
        let of = ["--name", &self.name, "--initial-cluster", &self.members, "--initial-advertise-peer-urls", &peer];
        let file = file.display().to_string();
        self.ctl(&[&["snapshot", "restore", &file, "--data-dir", &data][..], &of[..]].concat());
        self.again();
    }

    /// Its keys, by `etcdctl`.
    pub fn keys(&self) -> Vec<String> {
        let told = etcdctl(&self.url(), &["get", "--prefix", "/callboard/", "--keys-only"]);
        told.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect()
    }
}

/// What `etcdctl` prints. It has a minute: on a busy machine its own five seconds pass.
pub fn etcdctl(url: &str, args: &[&str]) -> String {
    let patient = [("ETCDCTL_API", "3"), ("ETCDCTL_COMMAND_TIMEOUT", "60s"), ("ETCDCTL_DIAL_TIMEOUT", "60s")];
    let told = Command::new("etcdctl").envs(patient).args(["--endpoints", url]).args(args).output();
    let told = told.expect("etcdctl comes with etcd");
    assert!(told.status.success(), "{args:?}: {told:?}");
    String::from_utf8(told.stdout).expect("text")
}

impl Drop for Etcd {
    fn drop(&mut self) {
        self.kill();
    }
}

fn member(dir: &Path, scheme: &str, (name, members): (&str, &str), client: u16, peer: u16, more: &[String]) -> Child {
    let (client, peer) = (format!("{scheme}://127.0.0.1:{client}"), format!("http://127.0.0.1:{peer}"));
    let mut etcd = Command::new("etcd");
    etcd.args(["--name", name, "--data-dir"]).arg(dir.join("etcd"));
    etcd.args(["--listen-client-urls", &client, "--advertise-client-urls", &client]);
    etcd.args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer]);
    etcd.args(["--initial-cluster", members]).args(more);
    // Tests need what is written only as long as the machine runs.
    etcd.args(["--unsafe-no-fsync"]).env("ETCD_UNSUPPORTED_ARCH", std::env::consts::ARCH);
    etcd.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    etcd.spawn().expect("etcd starts")
}

/// A server on this etcd that takes a snapshot after so many bytes of log.
pub fn start(etcd: &Etcd, data: &Path, snapshot: &str) -> Server {
    start_with(&etcd.url(), data, snapshot, &[])
}

/// Two servers: the first has a session, and the second follows it. The directories are kept as long as they are.
pub async fn two(etcd: &Etcd) -> ([tempfile::TempDir; 2], Server, Server) {
    let dirs = [(); 2].map(|()| tempfile::tempdir().expect("a directory"));
    let [leader, other] = [0, 1].map(|nth| start(etcd, dirs[nth].path(), NEVER));
    session(&leader).await;
    follows(&other).await;
    (dirs, leader, other)
}

/// As [`start`], at these addresses and with more options.
pub fn start_with(etcd: &str, data: &Path, snapshot: &str, more: &[&str]) -> Server {
    started(serve(etcd, data, snapshot, more))
}

/// So long a server counts as alive in tests that say nothing of it: on a busy machine it may not be heard of for a while.
const LEASE: &str = "10s";

/// The command that starts it.
pub fn serve(etcd: &str, data: &Path, snapshot: &str, more: &[&str]) -> Command {
    let data = data.display().to_string();
    let lease = if more.contains(&"--cluster-lease") { &[][..] } else { &["--cluster-lease", LEASE] };
    let mut command = common::serve(&[&["--data", &data, "--cluster", etcd], lease, more].concat());
    command.env("CALLBOARD_TEST_SNAPSHOT_BYTES", snapshot).env("RUST_LOG", "info,callboard::cluster=debug");
    command
}

/// A server that is started by this command.
pub fn started(command: Command) -> Server {
    let program = Program::try_start(command).unwrap_or_else(|why| panic!("{why}"));
    Server { program, http: straight() }
}

/// A server that does not read what others lead, until the file goes.
pub fn started_unread(etcd: &Etcd, data: &Path) -> (Server, tempfile::NamedTempFile) {
    let reads = tempfile::NamedTempFile::new().expect("a file");
    let mut command = serve(&etcd.url(), data, NEVER, &[]);
    command.env("CALLBOARD_TEST_READ_WAITS", reads.path());
    (started(command), reads)
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

/// Whichever of these servers leads `rm-1`, as soon as one does.
pub async fn leader_of(servers: &[Server]) -> &Server {
    let who = async || {
        for (nth, server) in servers.iter().enumerate() {
            if server.get("/si/v1/rm/rm-1").await.0 == 200 {
                return Some(nth);
            }
        }
        None
    };
    let who = common::answer("who leads", who, Option::is_some).await;
    &servers[who.expect("one of them")]
}

/// `rm-1` with two nodes and an application; each is answered in a line.
pub async fn session(server: &Server) {
    server.register("rm-1", &[]).await;
    server.nodes(&["n1", "n2"]).await;
    crate::wired::rig::application(server, "app").await;
}

/// Asks for one unit each.
pub async fn ask(server: &Server, keys: &[&str]) {
    crate::wired::rig::asks(server, "app", keys, 1).await;
}

/// Asks for one unit until that is taken: etcd may be away for a moment.
pub async fn ask_until_taken(server: &Server, key: &str) {
    let body = json!({"allocations": [{"allocationKey": key, "applicationID": "app", "partitionName": "default",
        "resourcePerAlloc": {"resources": {"memory": {"value": 1}}}}]});
    let taken = async || server.send("POST", "/si/v1/rm/rm-1/allocations", &body).await.0;
    common::answer("an ask", taken, |status| *status == 202).await;
}

/// Waits until this server knows that another one leads `rm-1`.
pub async fn follows(server: &Server) {
    let ask = async || server.get("/si/v1/rm/rm-1").await.0;
    common::answer("/si/v1/rm/rm-1", ask, |status| *status == 307).await;
}

/// Waits until this server has heard that the other one follows `rm-1`.
pub async fn said_to_follow(server: &Server, other: &Server) {
    let asked = async || server.get("/api/v1/cluster").await.1;
    let follows = |row: &Value| {
        let mut all = row["follows"].as_array().into_iter().flatten();
        row["http"] == other.url("") && all.any(|follow| follow["rmID"] == "rm-1" && follow["fault"].is_null())
    };
    common::answer("who follows", asked, |status| status["servers"].as_array().into_iter().flatten().any(follows))
        .await;
}

/// Waits until this server sees so many servers.
pub async fn sees(server: &Server, many: usize) {
    let there = async || server.get("/api/v1/cluster").await.1;
    common::answer("the cluster", there, |status| status["servers"].as_array().map(Vec::len) == Some(many)).await;
}

/// Runs a command of the program, which succeeds.
pub fn run(args: &[&str]) -> String {
    let told = common::command(args).output().expect("runs");
    assert!(told.status.success(), "{told:?}");
    String::from_utf8(told.stdout).expect("text")
}

/// The keys of new allocations in lines, in order.
pub fn allocated(lines: &[Value]) -> Vec<String> {
    let new = lines.iter().flat_map(|line| line["allocation"]["new"].as_array().into_iter().flatten());
    new.map(|new| new["allocationKey"].as_str().expect("a key").to_owned()).collect()
}
