//! Faults under load: leaders are killed, ended, stopped and cut off, etcd goes and comes back. What was acknowledged is answered, no line
//! comes twice or is missing, nothing is allocated twice, and the books of shim and server agree at the end.
//! `CALLBOARD_TEST_FAULTS=200` for more of them; the gaps between two lines are printed by kind.

use std::{
    collections::BTreeMap,
    path::Path,
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::{Duration, Instant},
};

use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use reqwest::Client;
use serde_json::{Value, json};

use crate::{
    cluster::{
        proxy::Proxy,
        rig::{self, Etcd, leads, session, start_with},
    },
    common::LIMIT,
    shim::server::{Lines, Server},
    wired::books::Books,
};

/// Bytes of log after which a snapshot is taken: several in a run.
const SNAPSHOT: &str = "300000";
/// Longer than a lease.
const STOPPED: Duration = Duration::from_secs(5);
/// Longer than a request to etcd may take.
const ETCD_GONE: Duration = Duration::from_secs(4);

/// The shim, and where it finds servers.
struct Shim {
    books: Mutex<Books>,
    /// When lines came, since the last fault.
    came: Mutex<Vec<Instant>>,
    urls: Mutex<Vec<String>>,
}

impl Shim {
    fn urls(&self) -> Vec<String> {
        self.urls.lock().expect("no panic").clone()
    }

    fn last(&self) -> u64 {
        self.books.lock().expect("no panic").last
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
async fn load(shim: &Shim) {
    let http = client();
    let turn = AtomicUsize::new(0);
    loop {
        let urls = shim.urls();
        let send = async |body: Value| {
            let done = post(&http, &urls[turn.load(SeqCst) % urls.len()], &body).await;
            if !done {
                turn.fetch_add(1, SeqCst);
            }
            Some(done)
        };
        Books::turn(&shim.books, send).await;
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Reads lines, at whichever server has them, for ever.
async fn follow(shim: &Shim) {
    let http = client();
    for turn in 0.. {
        let (urls, after) = (shim.urls(), shim.last());
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
                    shim.books.lock().expect("no panic").read(&line);
                    shim.came.lock().expect("no panic").push(Instant::now());
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
    /// Nothing goes through between leader and etcd, for longer than a lease, and connections stay open.
    Stall,
    /// Connections between leader and etcd break, and no others come about for a while.
    Cut,
    Etcd,
}

const FAULTS: [Fault; 6] = [Fault::Kill, Fault::Term, Fault::Stop, Fault::Stall, Fault::Cut, Fault::Etcd];

/// Waits until lines have come for a while again; gives the longest gap since then.
async fn gap(shim: &Shim, since: Instant) -> Duration {
    let flowing = async {
        loop {
            tokio::time::sleep(Duration::from_millis(50)).await;
            let came = shim.came.lock().expect("no panic");
            let late = came.iter().filter(|at| {
                since.elapsed() > STOPPED.max(ETCD_GONE) || at.duration_since(since) > Duration::from_secs(1)
            });
            if late.count() >= 20 {
                return;
            }
        }
    };
    tokio::time::timeout(LIMIT, flowing).await.expect("lines come again");
    let came = shim.came.lock().expect("no panic");
    let times = std::iter::once(since).chain(came.iter().copied());
    let next = times.clone().skip(1);
    times.zip(next).map(|(one, next)| next.saturating_duration_since(one)).max().unwrap_or_default()
}

fn start_at((dir, network): &(&Path, Proxy)) -> Server {
    start_with(&network.url(), dir, SNAPSHOT, &[])
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

async fn inject(
    fault: Fault,
    etcd: &mut Etcd,
    servers: &mut [Server],
    places: &[(&Path, Proxy)],
    shim: &Shim,
) -> Duration {
    let at = leader(servers).await;
    let tell = |servers: &[Server]| {
        *shim.urls.lock().expect("no panic") = servers.iter().map(|server| server.url("")).collect();
    };
    shim.came.lock().expect("no panic").clear();
    let since = Instant::now();
    match fault {
        Fault::Kill | Fault::Term => {
            if fault == Fault::Kill {
                servers[at].program.kill();
            } else {
                servers[at].program.signal("TERM");
            }
            let gap = gap(shim, since).await;
            let again = start_at(&places[at]);
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
        Fault::Stall | Fault::Cut => {
            let network = &places[at].1;
            if fault == Fault::Stall {
                network.stall();
            } else {
                network.cut();
            }
            tokio::time::sleep(STOPPED).await;
            network.pass();
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
    let count: usize = std::env::var("CALLBOARD_TEST_FAULTS").map_or(6, |count| count.parse().expect("a number"));
    let seed: u64 = rand::random();
    println!("seed {seed}");
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let (one, two) = (tempfile::tempdir().expect("a directory"), tempfile::tempdir().expect("a directory"));
    let places = [(one.path(), Proxy::to(&etcd.url())), (two.path(), Proxy::to(&etcd.url()))];
    let mut servers: Vec<Server> = places.iter().map(start_at).collect();
    session(&servers[0]).await;
    // Room for all of it.
    let node = json!({"nodes": [{"nodeID": "large", "action": "CREATE", "schedulableResource": {"resources": {"memory": {"value": 100_000_000}}}}]});
    assert_eq!(servers[0].send("POST", "/si/v1/rm/rm-1/nodes", &node).await.0, 202);
    let urls = servers.iter().map(|server| server.url("")).collect();
    let shim = Shim { books: Mutex::default(), came: Mutex::default(), urls: Mutex::new(urls) };
    let mut gaps: BTreeMap<Fault, Vec<Duration>> = BTreeMap::new();
    let faults = async {
        for nth in 0..count {
            tokio::time::sleep(Duration::from_millis(random.random_range(200..800))).await;
            // Each kind once, and then by chance.
            let fault = FAULTS.get(nth).copied().unwrap_or_else(|| FAULTS[random.random_range(0..FAULTS.len())]);
            let gap = inject(fault, &mut etcd, &mut servers, &places, &shim).await;
            println!("fault {nth}: {fault:?}, {gap:?}, {} lines", shim.last());
            gaps.entry(fault).or_default().push(gap);
        }
    };
    tokio::select! {
        () = faults => {}
        () = load(&shim) => {}
        () = follow(&shim) => {}
    }
    let settled = async {
        while !shim.books.lock().expect("no panic").is_settled() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        // To the last line: what was not acknowledged may have been taken all the same.
        loop {
            let at = leader(&servers).await;
            let last = leads(&servers[at]).await["lastSequence"].as_u64().expect("a number");
            if shim.last() == last {
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
    let books = shim.books.into_inner().expect("no panic");
    books.agree(server).await;
    for (fault, mut gaps) in gaps {
        gaps.sort();
        let at = |part: usize| gaps[(gaps.len() - 1) * part / 100];
        println!("{fault:?}: {} times, gap p50 {:?}, p99 {:?}, worst {:?}", gaps.len(), at(50), at(99), at(100));
    }
    println!("{count} faults, {} lines, {} asks acknowledged and placed", books.last, books.asked.len());
}
