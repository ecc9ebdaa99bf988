//! Faults under load: leaders are killed, ended and stopped, etcd goes and comes back. What was acknowledged is answered, no line
//! comes twice or is missing, nothing is allocated twice, and the books of shim and server agree at the end.
//! `CALLBOARD_TEST_FAULTS=200` for more of them; the gaps between two lines are printed by kind.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    sync::Mutex,
    time::{Duration, Instant},
};

use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use reqwest::Client;
use serde_json::{Value, json};

use crate::{
    cluster::rig::{self, Etcd, leads, session, start},
    common::LIMIT,
    shim::server::{Lines, Server},
};

/// Bytes of log after which a snapshot is taken: several in a run.
const SNAPSHOT: &str = "300000";
/// Longer than a lease.
const STOPPED: Duration = Duration::from_secs(5);
/// Longer than a request to etcd may take.
const ETCD_GONE: Duration = Duration::from_secs(4);

#[derive(Default)]
struct Shim {
    last: u64,
    asked: BTreeSet<String>,
    held: BTreeSet<String>,
    ever: BTreeSet<String>,
    releasing: BTreeSet<String>,
    round: u64,
    /// When lines came, since the last fault.
    came: Vec<Instant>,
    urls: Vec<String>,
}

impl Shim {
    fn read(&mut self, line: &Value) {
        let seq = line["seq"].as_u64().expect("a number");
        assert_eq!(seq, self.last + 1, "line by line: {line}");
        self.last = seq;
        self.came.push(Instant::now());
        let key = |value: &Value| value["allocationKey"].as_str().expect("a key").to_owned();
        for new in line["allocation"]["new"].as_array().into_iter().flatten() {
            assert!(self.ever.insert(key(new)), "{new} was allocated twice");
            self.held.insert(key(new));
        }
        for released in line["allocation"]["released"].as_array().into_iter().flatten() {
            assert!(self.held.remove(&key(released)), "{released} is not held");
            self.releasing.remove(&key(released));
        }
        assert!(line["allocation"]["rejectedAllocations"].is_null(), "{line}");
    }

    fn is_settled(&self) -> bool {
        self.releasing.is_empty() && self.asked.iter().all(|key| self.ever.contains(key))
    }

    fn urls(shim: &Mutex<Shim>) -> Vec<String> {
        shim.lock().expect("no panic").urls.clone()
    }
}

/// Follows redirects, and gives up on servers that are stopped.
fn client() -> Client {
    Client::builder().connect_timeout(Duration::from_millis(300)).build().expect("a client")
}

async fn post(http: &Client, url: &str, body: &Value) -> bool {
    let sent = http.post(format!("{url}/si/v1/rm/rm-1/allocations")).json(body).timeout(Duration::from_secs(1));
    sent.send().await.is_ok_and(|answer| answer.status().as_u16() == 202)
}

/// Asks and releases, at whichever server takes it, for ever.
async fn load(shim: &Mutex<Shim>) {
    let http = client();
    let mut turn = 0;
    loop {
        let urls = Shim::urls(shim);
        let url = &urls[turn % urls.len()];
        let (round, gone) = {
            let mut shim = shim.lock().expect("no panic");
            shim.round += 1;
            let free = shim.held.iter().filter(|key| !shim.releasing.contains(*key)).take(10).cloned();
            (shim.round, free.collect::<Vec<_>>())
        };
        let keys: Vec<String> = (0..20).map(|n| format!("r{round}k{n}")).collect();
        let ask = |key: &String| {
            json!({"allocationKey": key, "applicationID": "app", "partitionName": "default",
                "resourcePerAlloc": {"resources": {"memory": {"value": 10}}}})
        };
        if post(&http, url, &json!({"allocations": keys.iter().map(ask).collect::<Vec<_>>()})).await {
            shim.lock().expect("no panic").asked.extend(keys);
        } else {
            turn += 1;
        }
        let release = |key: &String| json!({"partitionName": "default", "applicationID": "app", "allocationKey": key, "terminationType": "STOPPED_BY_RM"});
        let releases = gone.iter().map(release).collect::<Vec<_>>();
        if !releases.is_empty() && post(&http, url, &json!({"releases": {"allocationsToRelease": releases}})).await {
            let mut shim = shim.lock().expect("no panic");
            let open: Vec<_> = gone.into_iter().filter(|key| shim.held.contains(key)).collect();
            shim.releasing.extend(open);
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Reads lines, at whichever server has them, for ever.
async fn follow(shim: &Mutex<Shim>) {
    let http = client();
    for turn in 0.. {
        let urls = Shim::urls(shim);
        let after = shim.lock().expect("no panic").last;
        let url = format!("{}/si/v1/rm/rm-1/stream?after={after}", urls[turn % urls.len()]);
        let opened = tokio::time::timeout(Duration::from_secs(1), http.get(url).send()).await;
        if let Ok(Ok(answer)) = opened {
            let status = answer.status().as_u16();
            if status == 200 {
                let mut lines = Lines::of(answer);
                // A server that is stopped says nothing: lines come all the time here.
                while let Ok(Some(text)) = tokio::time::timeout(Duration::from_secs(1), lines.text()).await {
                    let line: Value = serde_json::from_str(&text).expect("a line");
                    if line["closing"].is_object() {
                        break;
                    }
                    shim.lock().expect("no panic").read(&line);
                }
            } else {
                assert!([307, 503].contains(&status), "{status}: {}", answer.text().await.unwrap_or_default());
            }
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Fault {
    Kill,
    Term,
    Stop,
    Etcd,
}

const FAULTS: [Fault; 4] = [Fault::Kill, Fault::Term, Fault::Stop, Fault::Etcd];

/// Waits until lines have come for a while again; gives the longest gap since then.
async fn gap(shim: &Mutex<Shim>, since: Instant) -> Duration {
    let flowing = async {
        loop {
            tokio::time::sleep(Duration::from_millis(50)).await;
            let shim = shim.lock().expect("no panic");
            let late = shim.came.iter().filter(|at| {
                since.elapsed() > STOPPED.max(ETCD_GONE) || at.duration_since(since) > Duration::from_secs(1)
            });
            if late.count() >= 20 {
                return;
            }
        }
    };
    tokio::time::timeout(LIMIT, flowing).await.expect("lines come again");
    let shim = shim.lock().expect("no panic");
    let times = std::iter::once(since).chain(shim.came.iter().copied());
    let next = times.clone().skip(1);
    times.zip(next).map(|(one, next)| next.saturating_duration_since(one)).max().unwrap_or_default()
}

async fn leader(servers: &[Server]) -> usize {
    let end = Instant::now() + LIMIT;
    loop {
        for (at, server) in servers.iter().enumerate() {
            let asked = server.http.get(server.url("/si/v1/rm/rm-1")).timeout(Duration::from_secs(1)).send().await;
            if asked.is_ok_and(|answer| answer.status().as_u16() == 200) {
                return at;
            }
        }
        assert!(
            Instant::now() < end,
            "nobody leads: {}",
            servers.iter().map(|server| server.program.log_tail()).collect::<String>()
        );
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn inject(fault: Fault, etcd: &mut Etcd, servers: &mut [Server], dirs: &[&Path], shim: &Mutex<Shim>) -> Duration {
    let at = leader(servers).await;
    let tell = |servers: &[Server]| {
        shim.lock().expect("no panic").urls = servers.iter().map(|server| server.url("")).collect();
    };
    let since = {
        let mut shim = shim.lock().expect("no panic");
        shim.came.clear();
        Instant::now()
    };
    match fault {
        Fault::Kill | Fault::Term => {
            if fault == Fault::Kill {
                servers[at].program.kill();
            } else {
                servers[at].program.signal("TERM");
            }
            let gap = gap(shim, since).await;
            let again = start(etcd, dirs[at], SNAPSHOT);
            let before = std::mem::replace(&mut servers[at], again);
            tell(servers);
            if fault == Fault::Term {
                assert_eq!(before.program.ended().await, Some(0));
            }
            gap
        }
        Fault::Stop => {
            servers[at].program.signal("STOP");
            tokio::time::sleep(STOPPED).await;
            servers[at].program.signal("CONT");
            gap(shim, since).await
        }
        Fault::Etcd => {
            etcd.kill();
            tokio::time::sleep(ETCD_GONE).await;
            etcd.again();
            // From its return.
            gap(shim, since).await.saturating_sub(ETCD_GONE)
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn faults_lose_nothing_that_was_acknowledged() {
    let Some(mut etcd) = rig::etcd("faults_lose_nothing_that_was_acknowledged") else { return };
    let count: usize = std::env::var("CALLBOARD_TEST_FAULTS").map_or(5, |count| count.parse().expect("a number"));
    let seed: u64 = rand::random();
    println!("seed {seed}");
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let (one, two) = (tempfile::tempdir().expect("a directory"), tempfile::tempdir().expect("a directory"));
    let dirs = [one.path(), two.path()];
    let mut servers: Vec<Server> = dirs.iter().map(|dir| start(&etcd, dir, SNAPSHOT)).collect();
    session(&servers[0]).await;
    // Room for all of it.
    let node = json!({"nodes": [{"nodeID": "large", "action": "CREATE", "schedulableResource": {"resources": {"memory": {"value": 100_000_000}}}}]});
    assert_eq!(servers[0].send("POST", "/si/v1/rm/rm-1/nodes", &node).await.0, 202);
    let urls = servers.iter().map(|server| server.url("")).collect();
    let shim = Mutex::new(Shim { urls, ..Shim::default() });
    let mut gaps: BTreeMap<Fault, Vec<Duration>> = BTreeMap::new();
    let faults = async {
        for nth in 0..count {
            tokio::time::sleep(Duration::from_millis(random.random_range(200..800))).await;
            // Each kind once, and then by chance.
            let fault = FAULTS.get(nth).copied().unwrap_or_else(|| FAULTS[random.random_range(0..FAULTS.len())]);
            let gap = inject(fault, &mut etcd, &mut servers, &dirs, &shim).await;
            println!("fault {nth}: {fault:?}, {gap:?}, {} lines", shim.lock().expect("no panic").last);
            gaps.entry(fault).or_default().push(gap);
        }
    };
    tokio::select! {
        () = faults => {}
        () = load(&shim) => {}
        () = follow(&shim) => {}
    }
    let settled = async {
        while !shim.lock().expect("no panic").is_settled() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        // To the last line: what was not acknowledged may have been taken all the same.
        loop {
            let at = leader(&servers).await;
            let last = leads(&servers[at]).await["lastSequence"].as_u64().expect("a number");
            if shim.lock().expect("no panic").last == last {
                return at;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let at = tokio::select! {
        at = tokio::time::timeout(LIMIT, settled) => at.expect("everything that was acknowledged is answered"),
        () = follow(&shim) => unreachable!("it goes on for ever"),
    };
    let server = &servers[at];
    let health = server.get("/ws/v1/scheduler/healthcheck").await.1;
    assert_eq!(health["Healthy"], true, "{health}");
    let shim = shim.into_inner().expect("no panic");
    let app = server.get("/ws/v1/partition/default/application/app").await.1;
    let there = app["allocations"].as_array().into_iter().flatten();
    let there: BTreeSet<String> = there.map(|one| one["allocationKey"].as_str().expect("a key").to_owned()).collect();
    assert_eq!(there, shim.held, "the server and the shim know of the same allocations");
    for (fault, mut gaps) in gaps {
        gaps.sort();
        let at = |part: usize| gaps[(gaps.len() - 1) * part / 100];
        println!("{fault:?}: {} times, gap p50 {:?}, p99 {:?}, worst {:?}", gaps.len(), at(50), at(99), at(100));
    }
    println!("{count} faults, {} lines, {} asks acknowledged and placed", shim.last, shim.asked.len());
}
