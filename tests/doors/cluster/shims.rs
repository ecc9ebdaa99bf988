//! Two shims that ask and release at a steady rate while servers come and go: one over HTTP, one over gRPC with numbered requests.
//! Each goes on wherever it is taken.

use std::{
    collections::VecDeque,
    sync::Mutex,
    time::{Duration, Instant},
};

use callboard::si::{
    ext::{
        Ack, Call, Done, Hello, PredicatesBatchArgs, PredicatesBatchReply, PredicatesReply, PredicatesSeveralReply,
        Reply, Request, call::Call as Told, reply, request::Request as Asked,
        scheduler_extension_client::SchedulerExtensionClient,
    },
    v1,
};
use futures::{StreamExt as _, future::ready, stream};
use reqwest::Client;
use serde_json::Value;
use tokio::{
    sync::mpsc::{Sender, channel},
    time::{MissedTickBehavior, interval, timeout},
};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Status, Streaming, transport::Endpoint};

use crate::{shim::server::Lines, wired::books::Books};

/// Between two turns of a shim, of 20 asks each: with a build that is not this one, which is without optimisation, two shims make
/// 1,000 allocations a second.
fn pause() -> Duration {
    Duration::from_millis(if is_optimised() { 40 } else { 200 })
}

fn is_optimised() -> bool {
    std::env::var_os("CONFORMANCE_PROGRAM").is_some()
}

/// Asks that wait at most: where it is asked whether each fits, they take their time in a build without optimisation.
fn waiting() -> usize {
    if is_optimised() { 1_000 } else { 100 }
}

/// Lines come all the time: a connection on which none does for so long is of no use.
const SILENCE: Duration = Duration::from_millis(1_000);
/// Longest time until a server says whether it takes a stream.
const OPENING: Duration = Duration::from_millis(500);
/// Longest time until it answers a request.
const ANSWER: Duration = Duration::from_secs(1);
const CONNECT: Duration = Duration::from_millis(300);
/// Until it is tried again, at the next server.
const AGAIN: Duration = Duration::from_millis(10);
/// Requests over gRPC that are on their way at most.
const OPEN: usize = 200;
/// Requests over HTTP that are on their way at most: each takes as long as etcd does.
const HANDS: usize = 4;

/// A shim, and where it finds servers: URLs of their HTTP and gRPC doors.
pub struct Shim {
    pub rm: &'static str,
    pub books: Mutex<Books>,
    /// When lines came, since the last fault.
    pub came: Mutex<Vec<Instant>>,
    places: Mutex<Vec<(String, String)>>,
}

impl Shim {
    pub fn new(rm: &'static str, places: Vec<(String, String)>) -> Shim {
        Shim { rm, books: Mutex::default(), came: Mutex::default(), places: Mutex::new(places) }
    }

    pub fn find(&self, places: Vec<(String, String)>) {
        *self.places.lock().expect("no panic") = places;
    }

    fn places(&self) -> Vec<(String, String)> {
        self.places.lock().expect("no panic").clone()
    }

    pub fn last(&self) -> u64 {
        self.books.lock().expect("no panic").last
    }

    fn came(&self) {
        self.came.lock().expect("no panic").push(Instant::now());
    }
}

/// Follows redirects, and gives up on servers that are stopped.
fn client() -> Client {
    Client::builder().connect_timeout(CONNECT).build().expect("a client")
}

/// Asks and releases over HTTP, at whichever server takes it, until `ends`.
pub async fn ask_over_http(shim: &Shim, ends: impl Fn() -> bool) {
    let (http, turn) = (&client(), &std::sync::atomic::AtomicUsize::new(0));
    let mut ticks = interval(pause());
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let ticks = stream::poll_fn(|cx| ticks.poll_tick(cx).map(Some)).take_while(|_| ready(!ends()));
    let ask = |_| async move {
        let places = shim.places();
        let send = async |body: Value| {
            let (url, _) = &places[turn.load(std::sync::atomic::Ordering::SeqCst) % places.len()];
            let sent = http.post(format!("{url}/si/v1/rm/{}/allocations", shim.rm)).json(&body).timeout(ANSWER);
            let done = sent.send().await.is_ok_and(|answer| answer.status().as_u16() == 202);
            if !done {
                turn.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            }
            Some(done)
        };
        Books::turn(&shim.books, send).await;
    };
    ticks.for_each_concurrent(HANDS, ask).await;
}

/// Reads lines over HTTP, at whichever server has them, for ever.
pub async fn read_over_http(shim: &Shim) {
    let http = client();
    for turn in 0.. {
        let (places, after) = (shim.places(), shim.last());
        let url = format!("{}/si/v1/rm/{}/stream?after={after}", places[turn % places.len()].0, shim.rm);
        if let Ok(Ok(answer)) = timeout(OPENING, http.get(url).send()).await {
            let status = answer.status().as_u16();
            if status == 200 {
                let mut lines = Lines::of(answer);
                while let Ok(Some(text)) = timeout(SILENCE, lines.text()).await {
                    let line: Value = serde_json::from_str(&text).expect("a line");
                    if line["closing"].is_object() {
                        break;
                    }
                    shim.books.lock().expect("no panic").read(&line);
                    shim.came();
                }
            } else {
                assert!([307, 503].contains(&status), "{status}: {}", answer.text().await.unwrap_or_default());
            }
        }
        tokio::time::sleep(AGAIN).await;
    }
}

/// The numbered requests that no server has acknowledged.
#[derive(Default)]
struct Open {
    last: u64,
    requests: VecDeque<(u64, Request, Vec<String>)>,
}

impl Open {
    /// The next request.
    fn add(&mut self, shim: &Shim) -> Request {
        let mut books = shim.books.lock().expect("no panic");
        let (keys, gone) = books.next();
        let resource = v1::Resource { resources: [("memory".to_owned(), v1::Quantity { value: 10 })].into() };
        // Where an ask is constrained, none after it is placed before the shim has answered: each takes as long as a record.
        let constrained = self.last.is_multiple_of(5);
        let tags = |at: usize| {
            [("callboard.io/unconstrained".to_owned(), (!constrained || at > 0).to_string())].into_iter().collect()
        };
        let ask = |(at, key): (usize, &String)| v1::Allocation {
            allocation_key: key.clone(),
            allocation_tags: tags(at),
            application_id: "app".into(),
            partition_name: "default".into(),
            resource_per_alloc: Some(resource.clone()),
            ..Default::default()
        };
        let release = |key: &String| v1::AllocationRelease {
            partition_name: "default".into(),
            application_id: "app".into(),
            allocation_key: key.clone(),
            termination_type: v1::TerminationType::StoppedByRm.into(),
            ..Default::default()
        };
        let request = v1::AllocationRequest {
            allocations: keys.iter().enumerate().map(ask).collect(),
            releases: Some(v1::AllocationReleasesRequest {
                allocations_to_release: gone.iter().map(release).collect(),
            }),
            rm_id: String::new(),
        };
        // It is sent until it is acknowledged.
        books.releases(gone);
        self.last += 1;
        let request = Request { sequence: self.last, request: Some(Asked::Allocation(request)), ..Default::default() };
        self.requests.push_back((self.last, request.clone(), keys));
        request
    }

    fn acknowledged(&mut self, shim: &Shim, ack: &Ack) {
        assert!(ack.sequence <= self.last, "{ack:?} after request {}", self.last);
        while self.requests.front().is_some_and(|(number, ..)| *number <= ack.sequence)
            && let Some((_, _, keys)) = self.requests.pop_front()
        {
            shim.books.lock().expect("no panic").asked.extend(keys);
        }
        if let Some((number, ..)) = self.requests.front() {
            assert_eq!(*number, ack.sequence + 1, "what was acknowledged once stays so: {ack:?}");
        }
    }
}

/// Asks, releases and reads over gRPC, at whichever server takes it. Ends when `ends` says so and all requests are acknowledged,
/// and goes on reading.
pub async fn over_grpc(shim: &Shim, ends: impl Fn() -> bool, done: impl Fn()) {
    let mut open = Open::default();
    // Over this stream it is asked whether asks fit.
    shim.books.lock().expect("no panic").may_be_late = true;
    let mut hint: Option<String> = None;
    for turn in 0.. {
        let places = shim.places();
        let at = hint.take().unwrap_or_else(|| places[turn % places.len()].1.clone());
        match talk(shim, &at, &mut open, &ends, &done).await {
            // Another server leads, or none at present; or the connection broke.
            Err(told) if passes(&told) => {
                let leader = told.metadata().get("callboard-leader").and_then(|at| at.to_str().ok());
                hint = leader.map(|at| format!("http://{at}"));
            }
            Err(told) => panic!("{}: {told}", shim.rm),
            Ok(()) => {}
        }
        tokio::time::sleep(AGAIN).await;
    }
}

fn passes(told: &Status) -> bool {
    matches!(told.code(), Code::Unavailable | Code::Unknown | Code::Internal | Code::Cancelled | Code::DeadlineExceeded)
}

async fn opened<T>(call: impl Future<Output = Result<T, Status>>) -> Result<T, Status> {
    timeout(OPENING, call).await.unwrap_or_else(|_| Err(Status::deadline_exceeded("it says nothing")))
}

async fn stream_of<T>(first: T) -> (Sender<T>, ReceiverStream<T>) {
    let (to, outgoing) = channel(4 * OPEN);
    assert!(to.send(first).await.is_ok(), "room");
    (to, ReceiverStream::new(outgoing))
}

async fn talk(
    shim: &Shim,
    at: &str,
    open: &mut Open,
    ends: &impl Fn() -> bool,
    done: &impl Fn(),
) -> Result<(), Status> {
    let unreachable = |error: tonic::transport::Error| Status::unavailable(error.to_string());
    let endpoint = Endpoint::from_shared(at.to_owned()).map_err(unreachable)?.connect_timeout(CONNECT);
    let mut client =
        SchedulerExtensionClient::new(opened(async { endpoint.connect().await.map_err(unreachable) }).await?);
    // What came early comes again.
    shim.books.lock().expect("no panic").again();
    let hello = Hello {
        rm_id: shim.rm.into(),
        resume: true,
        resume_after: shim.last(),
        several_predicates: true,
        ..Default::default()
    };
    let (replies, outgoing) = stream_of(Reply { id: 0, reply: Some(reply::Reply::Hello(hello)) }).await;
    let mut calls: Streaming<Call> = opened(client.callbacks(outgoing)).await?.into_inner();
    let (requests, outgoing) = stream_of(Request { rm_id: shim.rm.into(), ..Default::default() }).await;
    let mut acks: Streaming<Ack> = opened(client.requests(outgoing)).await?.into_inner();
    let ended = || Status::unavailable("the stream ended");
    let first = opened(acks.message()).await?.ok_or_else(ended)?;
    open.acknowledged(shim, &first);
    for (_, request, _) in &open.requests {
        requests.send(request.clone()).await.map_err(|_| ended())?;
    }
    let mut ticks = interval(pause());
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut heard = Instant::now();
    loop {
        tokio::select! {
            call = calls.message() => {
                let call = call?.ok_or_else(ended)?;
                heard = Instant::now();
                read(shim, &call);
                if call.id != 0 {
                    let _ = replies.send(Reply { id: call.id, reply: Some(answer(&call)) }).await;
                }
            }
            ack = acks.message() => {
                open.acknowledged(shim, &ack?.ok_or_else(ended)?);
                if open.requests.is_empty() && ends() {
                    done();
                }
            }
            _ = ticks.tick() => {
                if ends() {
                    if open.requests.is_empty() {
                        done();
                    }
                } else if open.requests.len() < OPEN && shim.books.lock().expect("no panic").waiting() < waiting() {
                    let request = open.add(shim);
                    requests.send(request).await.map_err(|_| ended())?;
                }
                if heard.elapsed() > SILENCE && !ends() {
                    return Err(Status::unavailable("nothing comes any more"));
                }
            }
        }
    }
}

/// Everything fits.
fn answer(call: &Call) -> reply::Reply {
    let fits = |asked: &PredicatesBatchArgs| {
        let many = if asked.first_only { 1 } else { asked.node_ids.len() };
        PredicatesBatchReply { errors: vec![String::new(); many] }
    };
    match &call.call {
        Some(Told::Predicates(_)) => reply::Reply::Predicates(PredicatesReply::default()),
        Some(Told::PredicatesBatch(asked)) => reply::Reply::PredicatesBatch(fits(asked)),
        Some(Told::PredicatesSeveral(asked)) => {
            reply::Reply::PredicatesSeveral(PredicatesSeveralReply { answers: asked.asks.iter().map(fits).collect() })
        }
        _ => reply::Reply::Done(Done::default()),
    }
}

fn read(shim: &Shim, call: &Call) {
    let mut books = shim.books.lock().expect("no panic");
    match &call.call {
        Some(Told::Ready(_)) | None => return,
        Some(Told::Allocation(told)) => {
            if !books.line(call.sequence, false) {
                return;
            }
            assert!(told.rejected_allocations.is_empty(), "{told:?}");
            told.new.iter().for_each(|new| books.allocated(&new.allocation_key));
            told.released.iter().for_each(|released| books.released(&released.allocation_key));
        }
        Some(Told::Predicates(_) | Told::PredicatesBatch(_) | Told::PredicatesSeveral(_)) => {
            books.line(call.sequence, true);
        }
        Some(_) => {
            books.line(call.sequence, false);
        }
    }
    drop(books);
    shim.came();
}
