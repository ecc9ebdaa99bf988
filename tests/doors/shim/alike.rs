//! Random conversations of a shim, held over HTTP and over gRPC: a server tells the same through both doors.

use callboard::si::v1::{self, scheduler_client::SchedulerClient};
use serde_json::{Value, json};
use tokio::sync::mpsc::{Sender, channel};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Streaming, transport::Channel};

use crate::shim::server::{LIMIT, Lines, Server};

/// A leaf with a max, a fair one, and one whose user has a limit.
const CONFIG: &str = "
partitions:
  - name: default
    queues:
      - name: root
        submitacl: '*'
        queues:
          - {name: a, resources: {max: {memory: 120}}}
          - {name: b, properties: {application.sort.policy: fair}}
          - {name: c, limits: [{limit: '', users: [alice], maxresources: {memory: 60}}]}
";

const KINDS: [&str; 3] = ["node", "application", "allocation"];

/// Splitmix64: the same conversation for a seed, everywhere.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % end
    }

    fn of<'a>(&mut self, choices: &[&'a str]) -> &'a str {
        choices[self.below(choices.len() as u64) as usize]
    }
}

fn memory(amount: u64) -> Value {
    json!({"resources": {"memory": {"value": amount.to_string()}}})
}

/// One request: its kind and its body, sensible and senseless.
fn request(random: &mut Random) -> (&'static str, Value) {
    match random.below(10) {
        0 | 1 => {
            let action = random.of(&[
                "CREATE",
                "CREATE",
                "CREATE_DRAIN",
                "UPDATE",
                "DRAIN_NODE",
                "DRAIN_TO_SCHEDULABLE",
                "DECOMISSION",
                "UNKNOWN_ACTION_FROM_RM",
            ]);
            let id = format!("n{}", random.below(4));
            let capacity = memory([0, 50, 100, 100][random.below(4) as usize]);
            ("node", json!({"nodes": [{"nodeID": id, "action": action, "schedulableResource": capacity}]}))
        }
        2 | 3 => {
            let id = format!("app-{}", random.below(4));
            if random.below(6) == 0 {
                return ("application", json!({"remove": [{"applicationID": id}]}));
            }
            let mut app = json!({"applicationID": id, "queueName": random.of(&["root.a", "root.b", "root.c", "root.c", "root.none"]),
                "ugi": {"user": random.of(&["alice", "bob"]), "groups": [random.of(&["dev", "ops"])]}});
            if random.below(3) == 0 {
                app["placeholderAsk"] = memory(20 + 70 * random.below(3));
                app["gangSchedulingStyle"] = random.of(&["Soft", "hard", "", "wild"]).into();
            }
            ("application", json!({"new": [app]}))
        }
        4..=7 => {
            let asks = (0..=random.below(6)).map(|_| {
                let group = random.of(&["", "tg", "tg"]);
                json!({"allocationKey": format!("k{}", random.below(30)), "applicationID": format!("app-{}", random.below(4)),
                    "resourcePerAlloc": memory(random.below(5) * 10), "priority": random.below(3), "taskGroupName": group,
                    "placeholder": random.below(2) == 0, "originator": random.below(12) == 0,
                    "nodeID": if random.below(12) == 0 { "n1" } else { "" },
                    "allocationTags": if random.below(4) == 0 { json!({"kubernetes.io/label/x": "y"}) } else { json!({}) }})
            });
            ("allocation", json!({"allocations": asks.collect::<Vec<_>>()}))
        }
        _ => {
            let kind = random.of(&[
                "UNKNOWN_TERMINATION_TYPE",
                "STOPPED_BY_RM",
                "STOPPED_BY_RM",
                "STOPPED_BY_RM",
                "TIMEOUT",
                "SCHEDULING_FAILED_ON_RM",
            ]);
            let key = if random.below(10) == 0 { String::new() } else { format!("k{}", random.below(30)) };
            (
                "allocation",
                json!({"releases": {"allocationsToRelease": [
                {"applicationID": format!("app-{}", random.below(4)), "allocationKey": key, "terminationType": kind}]}}),
            )
        }
    }
}

/// A door of a server, and what was told through it: for each kind one list, in order.
struct Told {
    door: Door,
    told: [Vec<Value>; 3],
    /// Marks that were sent of each kind, and those of them that are answered.
    marks: usize,
    seen: [usize; 3],
}

enum Door {
    Http { server: Server, lines: Lines },
    Grpc { _server: Server, streams: Box<Streams> },
}

struct Streams {
    nodes: (Sender<v1::NodeRequest>, Streaming<v1::NodeResponse>),
    applications: (Sender<v1::ApplicationRequest>, Streaming<v1::ApplicationResponse>),
    allocations: (Sender<v1::AllocationRequest>, Streaming<v1::AllocationResponse>),
}

fn parsed<T: serde::de::DeserializeOwned>(body: Value) -> T {
    serde_json::from_value(body).expect("a request")
}

async fn next<T: serde::Serialize>(stream: &mut Streaming<T>) -> Value {
    let message = tokio::time::timeout(LIMIT, stream.message()).await.expect("in time").expect("no fault");
    serde_json::to_value(message.expect("open")).expect("JSON")
}

/// Opens a stream, whose first request names the resource manager.
macro_rules! open {
    ($channel:expr, $call:ident) => {{
        let (requests, outgoing) = channel(16);
        requests.send(parsed(json!({"rmID": "rm-1"}))).await.expect("room");
        let answer = SchedulerClient::new($channel.clone()).$call(ReceiverStream::new(outgoing)).await;
        (requests, answer.expect("opened").into_inner())
    }};
}

impl Told {
    async fn http() -> Told {
        let server = Server::start(&[]);
        let (status, answer) = server.send("POST", "/si/v1/rm", &registration()).await;
        assert_eq!(status, 200, "{answer}");
        let lines = server.stream("?after=0").await;
        Told { door: Door::Http { server, lines }, told: Default::default(), marks: 0, seen: [0; 3] }
    }

    async fn grpc() -> Told {
        let server = Server::start(&[]);
        let channel = Channel::from_shared(server.grpc()).expect("an address").connect().await.expect("connected");
        let request: v1::RegisterResourceManagerRequest = parsed(registration());
        SchedulerClient::new(channel.clone()).register_resource_manager(request).await.expect("taken");
        let streams = Box::new(Streams {
            nodes: open!(channel, update_node),
            applications: open!(channel, update_application),
            allocations: open!(channel, update_allocation),
        });
        Told { door: Door::Grpc { _server: server, streams }, told: Default::default(), marks: 0, seen: [0; 3] }
    }

    async fn send(&mut self, kind: &str, mut body: Value) {
        match &mut self.door {
            Door::Http { server, .. } => {
                let (status, answer) = server.send("POST", &format!("/si/v1/rm/rm-1/{kind}s"), &body).await;
                assert_eq!(status, 202, "{answer}");
            }
            Door::Grpc { streams, .. } => {
                body["rmID"] = "rm-1".into();
                match kind {
                    "node" => streams.nodes.0.send(parsed(body)).await.expect("open"),
                    "application" => streams.applications.0.send(parsed(body)).await.expect("open"),
                    _ => streams.allocations.0.send(parsed(body)).await.expect("open"),
                }
            }
        }
    }

    /// The next message: over gRPC of this kind, over HTTP of any.
    async fn next(&mut self, kind: usize) -> (usize, Value) {
        match &mut self.door {
            Door::Http { lines, .. } => loop {
                let mut line = lines.next().await;
                if let Some(kind) = KINDS.iter().position(|kind| !line[kind].is_null()) {
                    return (kind, line[KINDS[kind]].take());
                }
            },
            Door::Grpc { streams, .. } => {
                let message = match kind {
                    0 => next(&mut streams.nodes.1).await,
                    1 => next(&mut streams.applications.1).await,
                    _ => next(&mut streams.allocations.1).await,
                };
                (kind, message)
            }
        }
    }

    /// Reads until something of each kind was answered that was sent after everything else; and again until that happened twice
    /// without any news, as what is scheduled may follow such an answer.
    async fn settle(&mut self) {
        let mut quiet = 0;
        while quiet < 2 {
            let before = self.told.iter().map(Vec::len).sum::<usize>();
            self.mark().await;
            quiet = if self.told.iter().map(Vec::len).sum::<usize>() == before { quiet + 1 } else { 0 };
        }
    }

    async fn mark(&mut self) {
        self.marks += 1;
        let mark = format!("mark-{}", self.marks);
        self.send("node", json!({"nodes": [{"nodeID": mark, "action": "UPDATE"}]})).await;
        self.send(
            "application",
            json!({"new": [{"applicationID": mark, "queueName": "root.none", "ugi": {"user": "u"}}]}),
        )
        .await;
        self.send(
            "allocation",
            json!({"allocations": [{"allocationKey": mark, "applicationID": "nobody", "resourcePerAlloc": memory(1)}]}),
        )
        .await;
        for kind in 0..KINDS.len() {
            while self.seen[kind] < self.marks {
                let (kind, message) = self.next(kind).await;
                self.keep(kind, message);
            }
        }
    }

    /// Entries are kept one by one, as one message may hold what another server tells in two, without marks and times.
    fn keep(&mut self, kind: usize, message: Value) {
        let is_mark = |entry: &Value| {
            let id = |name| entry[name].as_str().is_some_and(|id: &str| id.starts_with("mark-"));
            id("nodeID") || id("applicationID") || id("allocationKey")
        };
        for (list, entries) in message.as_object().into_iter().flatten() {
            for entry in entries.as_array().into_iter().flatten() {
                if is_mark(entry) {
                    self.seen[kind] += 1;
                    continue;
                }
                let mut entry = entry.clone();
                entry["list"] = list.clone().into();
                entry.as_object_mut().expect("an entry").remove("stateTransitionTimestamp");
                self.told[kind].push(entry);
            }
        }
    }

    /// What a shim does that was told to release something.
    async fn confirm(&mut self, from: usize) {
        let own = |entry: &&Value| entry["list"] == "released" && entry["terminationType"] != "STOPPED_BY_RM";
        let names = ["applicationID", "allocationKey", "terminationType"];
        let released: Vec<Value> = self.told[2][from..]
            .iter()
            .filter(own)
            .map(|entry| names.iter().map(|name| (name.to_string(), entry[name].clone())).collect())
            .collect();
        if !released.is_empty() {
            self.send("allocation", json!({"releases": {"allocationsToRelease": released}})).await;
            self.settle().await;
        }
    }
}

fn registration() -> Value {
    // Reservations come with time, and so does what is sent again: on each side at another moment.
    json!({"rmID": "rm-1", "config": CONFIG, "extraConfig": {"rm.reservations": "false", "rm.resendAfter": "1h"}})
}

async fn conversation(mut told: Told, seed: u64) -> [Vec<Value>; 3] {
    let mut random = Random(seed);
    for n in 0..3 {
        told.send(
            "node",
            json!({"nodes": [{"nodeID": format!("n{n}"), "action": "CREATE", "schedulableResource": memory(100)}]}),
        )
        .await;
    }
    // Short, as an application that has nothing left is Completed after 30 s.
    for _ in 0..40 {
        let (kind, body) = request(&mut random);
        let from = told.told[2].len();
        told.send(kind, body).await;
        told.settle().await;
        if random.below(2) == 0 {
            told.confirm(from).await;
        }
    }
    told.told
}

#[tokio::test]
async fn http_and_grpc_tell_the_same() {
    let mut told = std::collections::BTreeMap::<String, usize>::new();
    for seed in 1..=12 {
        let (http, grpc) = tokio::join!(async { conversation(Told::http().await, seed).await }, async {
            conversation(Told::grpc().await, seed).await
        });
        for (kind, (http, grpc)) in KINDS.iter().zip(http.iter().zip(&grpc)) {
            let differs = http.iter().zip(grpc).position(|(http, grpc)| http != grpc);
            let place = differs.unwrap_or(http.len().min(grpc.len()));
            let after =
                |all: &[Value]| all[place..].iter().take(3).map(Value::to_string).collect::<Vec<_>>().join("\n  ");
            assert!(http == grpc, "seed {seed}, {kind} {place}:\nHTTP\n  {}\ngRPC\n  {}", after(http), after(grpc));
        }
        for entry in http.iter().flatten() {
            *told.entry(entry["list"].to_string()).or_default() += 1;
        }
    }
    assert!(told.len() == 6 && told.values().all(|times| *times > 20), "conversations about nothing: {told:?}");
}
