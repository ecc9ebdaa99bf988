//! Faults under load: leaders are killed, ended, stopped and cut off, members of etcd go and come back, disks are full. Two shims, one
//! over HTTP and one over gRPC, ask all the time: for 1,000 allocations a second with `CONFORMANCE_PROGRAM`, an optimised build. What was acknowledged is answered, no line comes twice or is missing,
//! nothing is allocated twice, and the books of shims and servers agree at the end.
//! `CALLBOARD_TEST_FAULTS=200` for more of them; the gaps between two lines are printed by kind.

use std::{
    collections::BTreeMap,
    env,
    fs::File,
    io::Write as _,
    path::{Path, PathBuf},
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    time::{Duration, Instant},
};

use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use serde_json::{Value, json};
use tokio::task::spawn_blocking;

use crate::{
    cluster::{
        proxy::Proxy,
        rig::{self, Etcd, start_with},
        shims::{self, Shim},
    },
    common::LIMIT,
    shim::server::Server,
};

/// Bytes of log after which a snapshot is taken: several in a run.
const SNAPSHOT: &str = "2000000";
/// As they are used.
const LEASE: &[&str] = &["--cluster-lease", "2s"];
/// Longer than that.
const STOPPED: Duration = Duration::from_secs(5);
/// Longer than a request to etcd may take; in long runs ten times as much.
const ETCD_GONE: Duration = Duration::from_secs(4);
const ETCD_GONE_LONG: Duration = Duration::from_secs(30);
/// Where the data of servers are on small disks.
const DISKS: &str = "CALLBOARD_TEST_SMALL_DISKS";
const TEST: &str = "cluster::faults::faults_lose_nothing_that_was_acknowledged";

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Fault {
    Kill,
    Term,
    Stop,
    /// Nothing goes through between leader and etcd, for longer than a lease, and connections stay open.
    Stall,
    /// Connections between leader and etcd break, and no others come about for a while.
    Cut,
    /// A member of etcd is killed, and comes back.
    Member,
    /// All of etcd is gone for a while.
    Etcd,
    /// The disk of those who follow is full, and the leader is killed.
    Disk,
}

const FAULTS: [Fault; 8] =
    [Fault::Kill, Fault::Term, Fault::Stop, Fault::Stall, Fault::Cut, Fault::Member, Fault::Disk, Fault::Etcd];

/// A server's place: its data, and its way to each member of etcd.
struct Place {
    data: PathBuf,
    network: Vec<Proxy>,
}

impl Place {
    fn start(&self) -> Server {
        let etcd = self.network.iter().map(Proxy::url).collect::<Vec<_>>().join(",");
        start_with(&etcd, &self.data, SNAPSHOT, LEASE)
    }
}

struct World {
    members: Vec<Etcd>,
    servers: Vec<Server>,
    places: Vec<Arc<Place>>,
    shims: Vec<Arc<Shim>>,
    small_disks: bool,
    etcd_gone: Duration,
}

/// Since when lines may be missing, and when the fault was over.
struct Injected {
    since: Instant,
    over: Instant,
}

impl World {
    fn places_of(servers: &[Server]) -> Vec<(String, String)> {
        servers.iter().map(|server| (server.url(""), server.grpc())).collect()
    }

    /// How each server sees the cluster; those that do not answer are left out.
    async fn status(&self) -> Vec<Value> {
        let mut all = Vec::new();
        for server in &self.servers {
            let asked = server.http.get(server.url("/api/v1/cluster")).timeout(Duration::from_secs(1)).send().await;
            if let Ok(answer) = asked
                && let Ok(status) = answer.json().await
            {
                all.push(status);
            }
        }
        all
    }

    /// Waits until each resource manager is led by one server and followed by the other; gives who leads the first.
    async fn settled(&self) -> usize {
        let end = Instant::now() + LIMIT;
        loop {
            let status = self.status().await;
            let role = |status: &Value, rm: &str| {
                let mut groups = status["resourceManagers"].as_array().into_iter().flatten();
                let group = groups.find(|group| group["rmID"] == rm);
                group.map(|group| group["role"].as_str().unwrap_or_default().to_owned()).unwrap_or_default()
            };
            let is_settled = |rm: &str| {
                let mut roles: Vec<_> = status.iter().map(|status| role(status, rm)).collect();
                roles.sort();
                roles == ["follows", "leads"]
            };
            if self.shims.iter().all(|shim| is_settled(shim.rm))
                && let Some(at) = status.iter().position(|status| role(status, self.shims[0].rm) == "leads")
            {
                return at;
            }
            assert!(
                Instant::now() < end,
                "nobody leads, or nobody follows: {status:?}\n{}",
                self.servers.iter().map(|server| server.program.log_tail()).collect::<String>()
            );
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    fn clear(&self) {
        self.shims.iter().for_each(|shim| shim.came.lock().expect("no panic").clear());
    }

    /// Waits until lines have come for a while again; gives the longest gap since then.
    async fn gap(&self, injected: &Injected) -> Duration {
        let late = injected.over.max(injected.since + Duration::from_secs(1));
        let flowing = async {
            for shim in &self.shims {
                while shim.came.lock().expect("no panic").iter().filter(|at| **at > late).count() < 5 {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
            }
        };
        tokio::time::timeout(LIMIT, flowing).await.unwrap_or_else(|_| {
            let logs = self.servers.iter().map(|server| server.program.log_tail()).collect::<Vec<_>>().join("\n--\n");
            panic!("lines do not come again\n{logs}")
        });
        let of = |shim: &Arc<Shim>| {
            let came = shim.came.lock().expect("no panic");
            let came = came.iter().copied().filter(|at| *at > injected.since);
            let times: Vec<Instant> = std::iter::once(injected.since).chain(came).collect();
            let gaps = times.windows(2).map(|pair| pair[1].saturating_duration_since(pair[0]));
            gaps.max().unwrap_or_default()
        };
        self.shims.iter().map(of).max().unwrap_or_default()
    }

    async fn start_again(&mut self, at: usize, ends: bool) {
        let before = self.servers.remove(at);
        if ends {
            assert_eq!(before.program.ended().await, Some(0));
        }
        let place = self.places[at].clone();
        let again = spawn_blocking(move || place.start()).await.expect("no panic");
        self.servers.insert(at, again);
        let places = World::places_of(&self.servers);
        self.shims.iter().for_each(|shim| shim.find(places.clone()));
    }

    async fn inject(&mut self, fault: Fault, random: &mut ChaCha8Rng) -> (Injected, Duration) {
        let at = self.settled().await;
        self.clear();
        let since = Instant::now();
        match fault {
            Fault::Kill | Fault::Term | Fault::Disk => {
                let full = (fault == Fault::Disk).then(|| fill(&self.places[1 - at].data));
                let since = Instant::now();
                if fault == Fault::Term {
                    self.servers[at].program.signal("TERM");
                } else {
                    self.servers[at].program.kill();
                }
                let injected = Injected { since, over: since };
                let gap = self.gap(&injected).await;
                if let Some(filler) = full {
                    let _ = std::fs::remove_file(filler);
                }
                self.start_again(at, fault == Fault::Term).await;
                (injected, gap)
            }
            Fault::Stop => {
                self.servers[at].program.signal("STOP");
                tokio::time::sleep(STOPPED).await;
                self.servers[at].program.signal("CONT");
                self.over(since).await
            }
            Fault::Stall | Fault::Cut => {
                for way in &self.places[at].network {
                    if fault == Fault::Stall { way.stall() } else { way.cut() }
                }
                tokio::time::sleep(STOPPED).await;
                self.places[at].network.iter().for_each(Proxy::pass);
                self.over(since).await
            }
            Fault::Member => {
                let nth = random.random_range(0..self.members.len());
                self.members[nth].kill();
                tokio::time::sleep(Duration::from_secs(2)).await;
                self.members[nth].again();
                self.over(since).await
            }
            Fault::Etcd => {
                self.members.iter_mut().for_each(Etcd::kill);
                tokio::time::sleep(self.etcd_gone).await;
                // From its return.
                self.members.iter_mut().for_each(Etcd::again);
                let since = Instant::now();
                let injected = Injected { since, over: since };
                let gap = self.gap(&injected).await;
                (injected, gap)
            }
        }
    }

    async fn over(&self, since: Instant) -> (Injected, Duration) {
        let injected = Injected { since, over: Instant::now() };
        let gap = self.gap(&injected).await;
        (injected, gap)
    }
}

/// Leaves no room on the disk where this is.
fn fill(data: &Path) -> PathBuf {
    let filler = data.join("filler");
    let mut file = File::create(&filler).expect("a file");
    let mut piece = vec![0; 1 << 20];
    while !piece.is_empty() {
        if file.write_all(&piece).is_err() {
            piece.truncate(piece.len() / 2);
        }
    }
    filler
}

/// Runs this test again where two small disks are mounted for it alone; `None`: that is not allowed.
fn on_small_disks(path: &Path) -> Option<bool> {
    let script = "mkdir \"$1/a\" \"$1/b\" && mount -t tmpfs -o size=300m tmpfs \"$1/a\" && mount -t tmpfs -o size=300m tmpfs \"$1/b\" \
        && touch \"$1/mounted\" || exit 1; exec \"$2\" --exact \"$3\" --nocapture";
    let program = env::current_exe().expect("a test program");
    ["-rm", "-m"].iter().find_map(|flags| {
        let mut unshare = Command::new("unshare");
        let test = unshare.args([flags, "sh", "-c", script, "sh"]).args([path, &*program]).arg(TEST).env(DISKS, path);
        // A long one tells how it goes.
        let passed = if env::var_os("CALLBOARD_TEST_FAULTS").is_some() {
            test.status().ok()?.success()
        } else {
            let output = test.output().ok()?;
            println!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
            output.status.success()
        };
        path.join("mounted").exists().then_some(passed)
    })
}

/// Registers, and makes room for all of it.
pub async fn session(server: &Server, rm: &str) {
    server.register(rm, &[]).await;
    let node = json!({"nodes": [{"nodeID": "large", "action": "CREATE", "schedulableResource": {"resources": {"memory": {"value": 100_000_000}}}}]});
    assert_eq!(server.send("POST", &format!("/si/v1/rm/{rm}/nodes"), &node).await.0, 202);
    let app = json!({"applicationID": "app", "queueName": "root.a", "partitionName": "default", "ugi": {"user": "u", "groups": ["g"]}});
    assert_eq!(server.send("POST", &format!("/si/v1/rm/{rm}/applications"), &json!({"new": [app]})).await.0, 202);
}

#[tokio::test(flavor = "multi_thread")]
async fn faults_lose_nothing_that_was_acknowledged() {
    if !rig::is_installed("faults_lose_nothing_that_was_acknowledged") {
        return;
    }
    let count: usize = env::var("CALLBOARD_TEST_FAULTS").map_or(FAULTS.len(), |count| count.parse().expect("a number"));
    let disks = tempfile::tempdir().expect("a directory");
    let disks = match env::var_os(DISKS) {
        Some(disks) => Some(PathBuf::from(disks)),
        None => match on_small_disks(disks.path()) {
            Some(passed) => return assert!(passed, "see above"),
            // Without full disks, then.
            None => None,
        },
    };
    let seed: u64 = rand::random();
    println!("seed {seed}");
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let data = [tempfile::tempdir().expect("a directory"), tempfile::tempdir().expect("a directory")];
    let members = Etcd::three();
    let place = |(nth, name): (usize, &str)| {
        let data = disks.as_ref().map_or_else(|| data[nth].path().to_owned(), |disks| disks.join(name).join("data"));
        Arc::new(Place { data, network: members.iter().map(|member| Proxy::to(&member.url())).collect() })
    };
    let places: Vec<Arc<Place>> = ["a", "b"].into_iter().enumerate().map(place).collect();
    let servers: Vec<Server> = places.iter().map(|place| place.start()).collect();
    for rm in ["rm-1", "rm-2"] {
        session(&servers[0], rm).await;
    }
    let shims: Vec<_> =
        ["rm-1", "rm-2"].map(|rm| Arc::new(Shim::new(rm, World::places_of(&servers)))).into_iter().collect();
    let (ends, acknowledged) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let ended = |ends: &Arc<AtomicBool>| {
        let ends = ends.clone();
        move || ends.load(SeqCst)
    };
    let (one, two) = (shims[0].clone(), shims[1].clone());
    let (end_of_one, end_of_two, all) = (ended(&ends), ended(&ends), acknowledged.clone());
    let reads = one.clone();
    let runtime = tokio::runtime::Handle::current();
    std::thread::spawn(move || runtime.block_on(shims::ask_over_http(&one, end_of_one)));
    let mut reading = tokio::spawn(async move { shims::read_over_http(&reads).await });
    let mut talking = tokio::spawn(async move { shims::over_grpc(&two, end_of_two, || all.store(true, SeqCst)).await });
    let etcd_gone = if count > FAULTS.len() { ETCD_GONE_LONG } else { ETCD_GONE };
    let mut world = World { members, servers, places, shims, small_disks: disks.is_some(), etcd_gone };
    let mut gaps: BTreeMap<Fault, Vec<Duration>> = BTreeMap::new();
    let faults = async {
        for nth in 0..count {
            tokio::time::sleep(Duration::from_millis(random.random_range(200..800))).await;
            // Each kind once, and then by chance; all of etcd, which takes long, less often.
            let chance = FAULTS[random.random_range(0..3 * FAULTS.len() - 2) / 3];
            let fault = FAULTS.get(nth).copied().unwrap_or(chance);
            if fault == Fault::Disk && !world.small_disks {
                continue;
            }
            let began = Instant::now();
            let (injected, gap) = world.inject(fault, &mut random).await;
            let (ready, lines) = (injected.since.duration_since(began), world.shims.iter().map(|shim| shim.last()));
            println!("fault {nth}: {fault:?}, {gap:?}, lines {:?}, ready after {ready:?}", lines.collect::<Vec<_>>());
            gaps.entry(fault).or_default().push(gap);
        }
        world.settled().await;
        ends.store(true, SeqCst);
        let settled = async {
            let is_settled = |shim: &Arc<Shim>| shim.books.lock().expect("no panic").is_settled();
            while !world.shims.iter().all(is_settled) || !acknowledged.load(SeqCst) {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            // To the last line: what was not acknowledged may have been taken all the same.
            for shim in &world.shims {
                while leader(&world.servers, shim.rm).await.1 != shim.last() {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
            }
        };
        if tokio::time::timeout(LIMIT, settled).await.is_err() {
            for shim in &world.shims {
                let last = leader(&world.servers, shim.rm).await.1;
                println!("{}: of {last} lines {}", shim.rm, shim.books.lock().expect("no panic").missing());
            }
            panic!("everything that was acknowledged is answered, and every line read: {acknowledged:?}");
        }
        for shim in &world.shims {
            let (at, _) = leader(&world.servers, shim.rm).await;
            let books = shim.books.lock().expect("no panic").clone();
            books.agree(&world.servers[at], &format!("%5B{}%5Ddefault", shim.rm)).await;
            println!("{}: {} lines, {} asks acknowledged and placed", shim.rm, books.last, books.asked.len());
        }
    };
    tokio::select! {
        () = faults => {}
        ended = &mut reading => panic!("no lines are read any more: {ended:?}"),
        ended = &mut talking => panic!("nothing is said over gRPC any more: {ended:?}"),
    }
    reading.abort();
    talking.abort();
    for (fault, mut gaps) in gaps {
        gaps.sort();
        let at = |part: usize| gaps[(gaps.len() - 1) * part / 100];
        println!("{fault:?}: {} times, gap p50 {:?}, p99 {:?}, worst {:?}", gaps.len(), at(50), at(99), at(100));
    }
}

/// Who leads a resource manager, and the number of its last line.
async fn leader(servers: &[Server], rm: &str) -> (usize, u64) {
    let end = Instant::now() + LIMIT;
    loop {
        for (at, server) in servers.iter().enumerate() {
            let (status, info) = server.get(&format!("/si/v1/rm/{rm}")).await;
            if status == 200 {
                return (at, info["lastSequence"].as_u64().expect("a number"));
            }
        }
        assert!(Instant::now() < end, "nobody leads {rm}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
