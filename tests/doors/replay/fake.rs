//! A scheduler that is just large enough to replay against: first fit, NDJSON stream, REST of queues and applications.
//! It can be told to break its stream and to answer 429, which a real one does only when it must.

use std::{
    collections::{BTreeMap, HashMap},
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering::SeqCst},
        mpsc,
    },
    time::Duration,
};

use actix_web::{App, HttpResponse, HttpServer, web};
use callboard::si::v1::{AllocationRequest, ApplicationRequest, NodeRequest, Resource};
use futures::StreamExt as _;
use serde_json::{Value, json};

type Amounts = BTreeMap<String, i64>;
/// Key, application, amounts, priority.
type Pending = (String, String, Amounts, i32);

/// How it misbehaves.
#[derive(Clone, Copy, Default)]
pub struct Faults {
    /// The stream ends after so many lines, each time.
    pub break_after: Option<usize>,
    /// Every n-th allocation request is answered 429 first.
    pub busy_every: Option<usize>,
    /// Everything takes so long, as on a busy machine, and a scheduling pass comes as late as a real one may: after the
    /// next request, where there is one already.
    pub slow: Option<Duration>,
    /// Accept the placements but never free anything in REST: the books then disagree.
    pub wrong_usage: bool,
}

#[derive(Default)]
struct State {
    lines: Vec<String>,
    nodes: Vec<(String, Amounts)>,
    queue_of_app: HashMap<String, String>,
    pending: Vec<Pending>,
    placed: HashMap<String, (usize, Amounts)>,
    used: Amounts,
    retry: bool,
}

/// A running fake.
pub struct Fake {
    /// Where.
    pub address: SocketAddr,
    /// Streams that were opened.
    pub streams: Arc<AtomicUsize>,
    /// Requests that were answered 429.
    pub refused: Arc<AtomicUsize>,
    /// Sessions that were ended.
    pub unregistered: Arc<AtomicUsize>,
}

struct Shared {
    state: Arc<Mutex<State>>,
    worker: Option<Mutex<mpsc::Sender<AllocationRequest>>>,
    faults: Faults,
    requests: AtomicUsize,
    streams: Arc<AtomicUsize>,
    refused: Arc<AtomicUsize>,
    unregistered: Arc<AtomicUsize>,
}

impl Fake {
    /// Starts one in a thread of its own, for the life of the test.
    pub fn start(faults: Faults) -> Fake {
        let (streams, refused, unregistered) = Default::default();
        let state = Arc::new(Mutex::new(State::default()));
        let shared = web::Data::new(Shared {
            worker: faults.slow.map(|pause| Mutex::new(slow_worker(state.clone(), pause))),
            state,
            faults,
            requests: AtomicUsize::new(0),
            streams: Arc::clone(&streams),
            refused: Arc::clone(&refused),
            unregistered: Arc::clone(&unregistered),
        });
        let (sender, address) = mpsc::channel();
        std::thread::spawn(move || {
            actix_web::rt::System::new().block_on(async move {
                let app = move || {
                    App::new()
                        .app_data(shared.clone())
                        .route("/si/v1/rm", web::post().to(|| async { HttpResponse::Ok().json(json!({})) }))
                        .route("/si/v1/rm/{rm}", web::get().to(status))
                        .route("/si/v1/rm/{rm}", web::delete().to(unregister))
                        .route("/si/v1/rm/{rm}/nodes", web::post().to(nodes))
                        .route("/si/v1/rm/{rm}/applications", web::post().to(applications))
                        .route("/si/v1/rm/{rm}/allocations", web::post().to(allocations))
                        .route("/si/v1/rm/{rm}/stream", web::get().to(stream))
                        .route("/ws/v1/partition/{p}/queues", web::get().to(queues))
                        .route("/api/v1/partition/{p}/application/{a}/explain", web::get().to(explain))
                };
                // Longer than a busy machine keeps a client from its next request, as the real one.
                let server =
                    HttpServer::new(app).workers(1).keep_alive(Duration::from_secs(100)).bind("127.0.0.1:0").unwrap();
                sender.send(server.addrs()[0]).unwrap();
                server.run().await.unwrap();
            });
        });
        Fake { address: address.recv().unwrap(), streams, refused, unregistered }
    }
}

/// Applies requests in order, each after a pause. A pass is put off until one more request was applied, or none came.
fn slow_worker(state: Arc<Mutex<State>>, pause: Duration) -> mpsc::Sender<AllocationRequest> {
    let (sender, requests) = mpsc::channel::<AllocationRequest>();
    std::thread::spawn(move || {
        while let Ok(request) = requests.recv() {
            std::thread::sleep(pause);
            state.lock().unwrap().apply(request);
            match requests.recv_timeout(pause) {
                Ok(next) => {
                    let mut state = state.lock().unwrap();
                    state.apply(next);
                    state.schedule();
                }
                Err(_) => state.lock().unwrap().schedule(),
            }
        }
    });
    sender
}

async fn status(shared: web::Data<Shared>) -> HttpResponse {
    let lines = shared.state.lock().unwrap().lines.len();
    HttpResponse::Ok().json(json!({"rmID": "rm", "state": "Running", "lastSequence": lines}))
}

async fn unregister(shared: web::Data<Shared>) -> HttpResponse {
    shared.unregistered.fetch_add(1, SeqCst);
    HttpResponse::Ok().json(json!({}))
}

async fn nodes(shared: web::Data<Shared>, body: web::Bytes) -> HttpResponse {
    let request: NodeRequest = serde_json::from_slice(&body).unwrap();
    let mut state = shared.state.lock().unwrap();
    let accepted: Vec<_> = request.nodes.iter().map(|node| json!({"nodeID": node.node_id})).collect();
    state.nodes.extend(request.nodes.into_iter().map(|n| (n.node_id, amounts(n.schedulable_resource))));
    state.say(json!({"node": {"accepted": accepted}}));
    HttpResponse::Accepted().json(json!({}))
}

async fn applications(shared: web::Data<Shared>, body: web::Bytes) -> HttpResponse {
    let request: ApplicationRequest = serde_json::from_slice(&body).unwrap();
    let mut state = shared.state.lock().unwrap();
    for app in &request.remove {
        assert!(state.queue_of_app.remove(&app.application_id).is_some(), "{} is unknown", app.application_id);
    }
    if !request.new.is_empty() {
        let accepted: Vec<_> = request.new.iter().map(|a| json!({"applicationID": a.application_id})).collect();
        state.queue_of_app.extend(request.new.into_iter().map(|a| (a.application_id, a.queue_name)));
        state.say(json!({"application": {"accepted": accepted}}));
    }
    HttpResponse::Accepted().json(json!({}))
}

async fn allocations(shared: web::Data<Shared>, body: web::Bytes) -> HttpResponse {
    let request: AllocationRequest = serde_json::from_slice(&body).unwrap();
    let mut state = shared.state.lock().unwrap();
    let number = shared.requests.fetch_add(1, SeqCst);
    if shared.faults.busy_every.is_some_and(|n| number % n == n - 1) && !std::mem::replace(&mut state.retry, true) {
        shared.requests.fetch_sub(1, SeqCst);
        shared.refused.fetch_add(1, SeqCst);
        return HttpResponse::TooManyRequests().insert_header(("Retry-After", "0")).json(json!({}));
    }
    state.retry = false;
    drop(state);
    match &shared.worker {
        // The channel lives as long as the server.
        Some(worker) => worker.lock().unwrap().send(request).unwrap(),
        None => {
            let mut state = shared.state.lock().unwrap();
            state.apply(request);
            state.schedule();
        }
    }
    HttpResponse::Accepted().json(json!({}))
}

impl State {
    fn say(&mut self, mut line: Value) {
        line["seq"] = json!(self.lines.len() + 1);
        self.lines.push(format!("{line}\n"));
    }

    fn book(&mut self, node: usize, needs: &Amounts, sign: i64) {
        for (name, need) in needs {
            *self.nodes[node].1.entry(name.clone()).or_default() -= sign * need;
            *self.used.entry(name.clone()).or_default() += sign * need;
        }
    }

    fn apply(&mut self, request: AllocationRequest) {
        for ask in request.allocations {
            if !self.queue_of_app.contains_key(&ask.application_id) {
                let (key, app) = (&ask.allocation_key, &ask.application_id);
                let rejected = json!({"allocationKey": key, "applicationID": app, "reason": "unknown application"});
                self.say(json!({"allocation": {"rejectedAllocations": [rejected]}}));
                continue;
            }
            self.pending.push((ask.allocation_key, ask.application_id, amounts(ask.resource_per_alloc), ask.priority));
        }
        for release in request.releases.into_iter().flat_map(|releases| releases.allocations_to_release) {
            let key = release.allocation_key;
            self.pending.retain(|(pending, ..)| *pending != key);
            if let Some((node, needs)) = self.placed.remove(&key) {
                self.book(node, &needs, -1);
                let released = json!({"allocationKey": key, "terminationType": "STOPPED_BY_RM"});
                self.say(json!({"allocation": {"released": [released]}}));
            }
        }
    }

    fn schedule(&mut self) {
        for (key, app, needs, priority) in std::mem::take(&mut self.pending) {
            let fits = |free: &Amounts| needs.iter().all(|(name, need)| free.get(name).is_some_and(|f| f >= need));
            match self.nodes.iter().position(|(_, free)| fits(free)) {
                Some(node) => {
                    self.book(node, &needs, 1);
                    let new = json!({"allocationKey": key, "applicationID": app, "nodeID": self.nodes[node].0});
                    self.say(json!({"allocation": {"new": [new]}}));
                    self.placed.insert(key, (node, needs));
                }
                None => self.pending.push((key, app, needs, priority)),
            }
        }
    }
}

async fn stream(shared: web::Data<Shared>, query: web::Query<HashMap<String, usize>>) -> HttpResponse {
    shared.streams.fetch_add(1, SeqCst);
    let last = shared.faults.break_after.map_or(usize::MAX, |lines| query["after"] + lines);
    let lines = futures::stream::unfold(query["after"], move |next| {
        let shared = shared.clone();
        async move {
            if next >= last {
                return None;
            }
            loop {
                let line = shared.state.lock().unwrap().lines.get(next).cloned();
                if let Some(line) = line {
                    return Some((line, next + 1));
                }
                tokio::time::sleep(Duration::from_micros(200)).await;
            }
        }
    });
    HttpResponse::Ok().streaming(lines.map(|line| Ok::<_, actix_web::Error>(web::Bytes::from(line))))
}

async fn queues(shared: web::Data<Shared>) -> HttpResponse {
    let mut state = shared.state.lock().unwrap();
    let mut used = state.used.clone();
    if shared.faults.wrong_usage {
        used.insert("vcore".into(), 1);
    }
    state.used.retain(|_, amount| *amount != 0);
    HttpResponse::Ok().json(json!({"queuename": "root", "allocatedResource": used}))
}

async fn explain(shared: web::Data<Shared>, path: web::Path<(String, String)>) -> HttpResponse {
    let state = shared.state.lock().unwrap();
    let asks = state.pending.iter().filter(|(_, owner, ..)| *owner == path.1);
    let group = |(_, _, needs, priority): &Pending| json!({"asks": 1, "resource": needs, "priority": priority, "reason": {"code": "nodes", "text": "No node has room."}});
    HttpResponse::Ok().json(json!({"applicationID": path.1, "waiting": asks.map(group).collect::<Vec<_>>()}))
}

fn amounts(resource: Option<Resource>) -> Amounts {
    resource.unwrap_or_default().resources.into_iter().map(|(name, quantity)| (name, quantity.value)).collect()
}
