//! The one ordered stream of requests (`callboard.v1.SchedulerExtension/Requests`): numbers, acknowledgements, lost connections.

use callboard::si::{
    ext::{Ack, Heartbeat, Request, request::Request as Kind, scheduler_extension_client::SchedulerExtensionClient},
    v1::{self, scheduler_client::SchedulerClient},
};
use serde_json::json;
use tokio::sync::mpsc::{Sender, channel};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Status, Streaming, transport::Channel};

use crate::shim::server::{CONFIG, LIMIT, Server};

/// An open stream over a connection of its own.
struct Requests {
    to: Sender<Request>,
    acks: Streaming<Ack>,
    channel: Channel,
}

impl Requests {
    async fn open(server: &Server, first: Request) -> Result<Requests, Status> {
        let channel = Channel::from_shared(server.grpc()).expect("an address").connect().await.expect("connected");
        let (to, outgoing) = channel_of(first).await;
        let acks = SchedulerExtensionClient::new(channel.clone()).requests(outgoing).await?.into_inner();
        Ok(Requests { to, acks, channel })
    }

    async fn send(&self, request: Request) {
        self.to.send(request).await.expect("open");
    }

    async fn ack(&mut self) -> Result<Ack, Status> {
        let ack = tokio::time::timeout(LIMIT, self.acks.message()).await.expect("in time")?;
        Ok(ack.expect("one more"))
    }

    /// Everything up to this number is applied.
    async fn up_to(&mut self, sequence: u64) -> Ack {
        let mut before = 0;
        loop {
            let ack = self.ack().await.expect("no fault");
            assert!(ack.sequence >= before && ack.sequence <= sequence, "{ack:?}");
            before = ack.sequence;
            if ack.sequence == sequence {
                return ack;
            }
        }
    }

    /// How it ends.
    async fn ends(mut self) -> Status {
        loop {
            match self.ack().await {
                Ok(_) => {}
                Err(status) => return status,
            }
        }
    }
}

async fn channel_of(first: Request) -> (Sender<Request>, ReceiverStream<Request>) {
    // Each is sent by itself.
    let (to, outgoing) = channel(1);
    to.send(first).await.expect("room");
    (to, ReceiverStream::new(outgoing))
}

fn opening() -> Request {
    Request { rm_id: "rm-1".into(), ..Default::default() }
}

fn numbered(sequence: u64, kind: Kind) -> Request {
    Request { sequence, request: Some(kind), ..opening() }
}

fn memory(value: i64) -> Option<v1::Resource> {
    Some(v1::Resource { resources: [("memory".to_owned(), v1::Quantity { value })].into() })
}

fn node(id: &str) -> Kind {
    let node =
        v1::NodeInfo { node_id: id.into(), action: 1, schedulable_resource: memory(1_000_000), ..Default::default() };
    Kind::Node(v1::NodeRequest { nodes: vec![node], rm_id: String::new() })
}

fn app(id: &str) -> Kind {
    let ugi = v1::UserGroupInformation { user: "u".into(), groups: vec![] };
    let new = v1::AddApplicationRequest {
        application_id: id.into(),
        queue_name: "root.a".into(),
        ugi: Some(ugi),
        ..Default::default()
    };
    Kind::Application(v1::ApplicationRequest { new: vec![new], ..Default::default() })
}

fn ask(app: &str, key: &str) -> Kind {
    let ask = v1::Allocation {
        allocation_key: key.into(),
        application_id: app.into(),
        resource_per_alloc: memory(10),
        ..Default::default()
    };
    Kind::Allocation(v1::AllocationRequest { allocations: vec![ask], ..Default::default() })
}

fn configuration(config: &str) -> Kind {
    Kind::Configuration(v1::UpdateConfigurationRequest { config: config.into(), ..Default::default() })
}

#[tokio::test]
async fn requests_of_all_kinds_are_taken_in_order_and_acknowledged() {
    let server = Server::registered(&[]).await;
    let mut lines = server.stream("").await;
    let mut requests = Requests::open(&server, opening()).await.expect("opened");
    let first = requests.ack().await.expect("at once");
    assert_eq!((first.sequence, first.epoch), (0, 1));
    assert!(first.credits > 0 && first.max_items == 100_000 && first.max_bytes == 8 << 20, "{first:?}");
    let more = CONFIG.to_owned() + "          - name: b\n";
    let of_b = match app("app-2") {
        Kind::Application(mut request) => {
            request.new[0].queue_name = "root.b".into();
            Kind::Application(request)
        }
        _ => unreachable!("an application"),
    };
    let kinds = [
        node("n1"),
        app("app-1"),
        ask("app-1", "k1"),
        configuration("partitions: nonsense"),
        configuration(&more),
        of_b,
        ask("app-2", "k2"),
        Kind::Heartbeat(Heartbeat { node_ids: vec!["n1".into(), "unknown".into()] }),
    ];
    for (at, kind) in kinds.into_iter().enumerate() {
        requests.send(numbered(at as u64 + 1, kind)).await;
    }
    let mut refused = Vec::new();
    loop {
        let ack = requests.ack().await.expect("no fault");
        refused.extend(ack.refused);
        if ack.sequence == 8 {
            break;
        }
    }
    assert_eq!(refused.len(), 1);
    assert!(refused[0].sequence == 4 && !refused[0].reason.is_empty(), "{refused:?}");
    let mut placed = Vec::new();
    while placed.len() < 2 {
        let line = lines.next().await;
        assert!(!line.to_string().contains("rejected"), "{line}");
        let new = line["allocation"]["new"].as_array().cloned().unwrap_or_default();
        placed.extend(new.iter().map(|new| new["allocationKey"].as_str().expect("a key").to_owned()));
    }
    assert_eq!(placed, ["k1", "k2"]);
    // Without a number: how far is it? Whoever comes back learns it, and what was refused.
    requests.send(opening()).await;
    assert_eq!(requests.ack().await.expect("asked for").sequence, 8);
    let mut again = Requests::open(&server, opening()).await.expect("opened");
    let first = again.ack().await.expect("at once");
    assert_eq!((first.sequence, first.refused[0].sequence), (8, 4));
    let status = requests.ends().await;
    assert_eq!(status.code(), Code::Aborted);
    assert!(status.message().contains("another stream of requests took its place"), "{status}");
}

#[tokio::test]
async fn what_is_sent_again_after_lost_connections_is_applied_once() {
    let server = Server::registered(&[]).await;
    let mut lines = server.stream("").await;
    let mut all = vec![node("n1"), app("app-1")];
    all.extend((0..300).map(|n| ask("app-1", &format!("k{n}"))));
    let last = all.len() as u64;
    let mut round = 0_usize;
    loop {
        let mut requests = Requests::open(&server, opening()).await.expect("opened");
        let acked = requests.ack().await.expect("at once").sequence;
        if acked == last {
            break;
        }
        // Some that were acknowledged come again, and the connection is cut in the middle of what is new.
        let from = acked.saturating_sub(3) as usize;
        let to = (acked as usize + 40).min(all.len());
        for (at, kind) in all.iter().enumerate().take(to).skip(from) {
            requests.send(numbered(at as u64 + 1, kind.clone())).await;
        }
        if round.is_multiple_of(2) {
            requests.up_to(to as u64).await;
        }
        drop(requests);
        round += 1;
    }
    assert!(round > 7, "{round}");
    let mut placed = Vec::new();
    while placed.len() < 300 {
        let line = lines.next().await;
        assert!(!line.to_string().contains("rejected"), "{line}");
        let new = line["allocation"]["new"].as_array().cloned().unwrap_or_default();
        placed.extend(new.iter().map(|new| new["allocationKey"].as_str().expect("a key").to_owned()));
    }
    let wanted: Vec<String> = (0..300).map(|n| format!("k{n}")).collect();
    assert_eq!(placed, wanted, "each once, in order");
}

#[tokio::test]
async fn small_requests_that_wait_end_no_connection() {
    let server = Server::registered(&[("rm.bufferedCallbacks", "100")]).await;
    let mut requests = Requests::open(&server, opening()).await.expect("opened");
    let mut sequence = 0;
    let mut next = async |kind: Kind| {
        sequence += 1;
        let request = numbered(sequence, kind);
        requests.to.send(request).await.expect("open");
        sequence
    };
    let placed = |key: String| match ask("app-1", &key) {
        Kind::Allocation(mut request) => {
            request.allocations[0].node_id = "n1".into();
            Kind::Allocation(request)
        }
        _ => unreachable!("an allocation"),
    };
    next(node("n1")).await;
    next(app("app-1")).await;
    // Nobody reads what is said of these, and so one of them waits, and all that follows behind it.
    for n in 0..200 {
        next(placed(format!("k{n}"))).await;
    }
    server.until(|info| info["buffered"].as_u64() > Some(70)).await;
    let mut last = 0;
    for _ in 0..12_000 {
        last = next(Kind::Heartbeat(Heartbeat { node_ids: vec!["n1".into()] })).await;
    }
    // Its answer comes when all of that has arrived.
    let mut other = SchedulerClient::new(requests.channel.clone());
    other.register_resource_manager(v1::RegisterResourceManagerRequest::default()).await.expect_err("without a name");
    let mut lines = server.stream("").await;
    tokio::spawn(async move { while lines.text().await.is_some() {} });
    requests.up_to(last).await;
}

#[tokio::test]
async fn bad_requests_are_told_with_a_status_and_use_up_no_number() {
    let server = Server::registered(&[("rm.maxItems", "2")]).await;
    let status = async |first: Request, then: Option<Request>| match Requests::open(&server, first).await {
        Ok(requests) => {
            if let Some(then) = then {
                requests.send(then).await;
            }
            requests.ends().await
        }
        Err(status) => status,
    };
    let check = |told: Status, code: Code, text: &str| {
        assert!(told.code() == code && told.message().contains(text), "{told}: not {code} {text}");
    };
    check(status(Request::default(), None).await, Code::InvalidArgument, "has to name the resource manager");
    let unknown = Request { rm_id: "rm-9".into(), ..Default::default() };
    check(status(unknown, None).await, Code::NotFound, "received Request, but RmID=\"rm-9\" not registered");
    let other = Request { epoch: 7, ..opening() };
    check(status(other, None).await, Code::Aborted, "epoch 7 is not that of resource manager \"rm-1\", which is 1");
    let then = |request: Request| status(opening(), Some(request));
    check(then(numbered(2, node("n1"))).await, Code::OutOfRange, "request 2 came where 1 is the next");
    check(then(Request { sequence: 1, ..opening() }).await, Code::InvalidArgument, "request 1 is empty");
    check(then(numbered(0, node("n1"))).await, Code::InvalidArgument, "needs a sequence number");
    check(then(Request { epoch: 2, ..numbered(1, node("n1")) }).await, Code::Aborted, "epoch 2 is not that");
    let renamed = Request { rm_id: "rm-2".into(), ..numbered(1, node("n1")) };
    check(then(renamed).await, Code::InvalidArgument, "rmID \"rm-2\" on a stream");
    let inner = Kind::Node(v1::NodeRequest { rm_id: "rm-2".into(), ..Default::default() });
    check(then(numbered(1, inner)).await, Code::InvalidArgument, "request 1: rmID \"rm-2\" on a stream");
    let nodes = ["a", "b", "c"].map(|id| match node(id) {
        Kind::Node(request) => request.nodes,
        _ => Vec::new(),
    });
    let many = Kind::Node(v1::NodeRequest { nodes: nodes.concat(), ..Default::default() });
    check(then(numbered(1, many)).await, Code::ResourceExhausted, "request 1: the request has more than 2 items");
    // None of these was taken.
    let mut requests = Requests::open(&server, numbered(1, node("n1"))).await.expect("opened");
    requests.up_to(1).await;
}

#[tokio::test]
async fn a_stream_ends_with_its_session() {
    let server = Server::registered(&[]).await;
    let mut requests = Requests::open(&server, Request { epoch: 1, ..opening() }).await.expect("opened");
    requests.send(numbered(1, node("n1"))).await;
    requests.up_to(1).await;
    server.register("rm-1", &[]).await;
    let status = requests.ends().await;
    assert_eq!(status.code(), Code::Aborted);
    assert_eq!(
        status.message(),
        "epoch 1 is not that of resource manager \"rm-1\", which is 2: it was registered again"
    );
    // The numbers of the new session begin anew.
    let mut requests = Requests::open(&server, Request { epoch: 2, ..numbered(1, node("n1")) }).await.expect("opened");
    requests.up_to(1).await;
    assert_eq!(server.delete("/si/v1/rm/rm-1").await.0, 200);
    let status = requests.ends().await;
    assert_eq!(status.code(), Code::FailedPrecondition);
    assert!(status.message().contains("is Stopped"), "{status}");
}

#[tokio::test]
async fn credits_are_told_and_nothing_beyond_them_is_lost() {
    let server = Server::registered(&[("rm.itemsInFlight", "5")]).await;
    let mut requests = Requests::open(&server, opening()).await.expect("opened");
    assert_eq!(requests.ack().await.expect("at once").credits, 5);
    for n in 1..=200 {
        requests.send(numbered(n, node(&format!("n{n}")))).await;
    }
    let ack = requests.up_to(200).await;
    assert_eq!(ack.credits, 5);
    let nodes = server.get("/ws/v1/partition/default/nodes").await.1;
    assert_eq!(nodes.as_array().map(Vec::len), Some(200));
    // The peer has nothing more to say: it gets what is left, and a good end.
    let Requests { to, mut acks, channel: _channel } = requests;
    to.send(numbered(201, node("last"))).await.expect("open");
    drop(to);
    let mut last = 0;
    while let Some(ack) = tokio::time::timeout(LIMIT, acks.message()).await.expect("in time").expect("a good end") {
        last = ack.sequence;
    }
    assert_eq!(last, 201);
}

#[tokio::test]
async fn an_application_and_its_ask_over_two_plain_streams_of_a_connection_come_in_the_order_of_arrival() {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    const APPS: usize = 2_000;
    let server = Server::registered(&[("rm.itemsInFlight", "100")]).await;
    let mut lines = server.stream("").await;
    let room = json!({"resources": {"memory": {"value": "1000000"}}});
    let node = json!({"nodes": [{"nodeID": "n1", "action": "CREATE", "schedulableResource": room}]});
    assert_eq!(server.send("POST", "/si/v1/rm/rm-1/nodes", &node).await.0, 202);
    let address = server.grpc().replace("http://", "");
    let mut socket = tokio::net::TcpStream::connect(&address).await.expect("connected");
    let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    // Windows as large as they may be, so that the server's answers come without asking.
    frame(&mut bytes, 4, 0, 0, &[0, 4, 0x7f, 0xff, 0xff, 0xff]);
    frame(&mut bytes, 8, 0, 0, &0x7fff_0000_u32.to_be_bytes());
    for (stream, method) in [(1, "UpdateAllocation"), (3, "UpdateApplication")] {
        let path = format!("/si.v1.Scheduler/{method}");
        let fields = [
            (":method", "POST"),
            (":scheme", "http"),
            (":path", path.as_str()),
            (":authority", address.as_str()),
            ("content-type", "application/grpc"),
            ("te", "trailers"),
        ];
        frame(&mut bytes, 1, 4, stream, &headers(&fields));
    }
    let attach = v1::AllocationRequest { rm_id: "rm-1".into(), ..Default::default() };
    message(&mut bytes, 1, &attach);
    for n in 0..APPS {
        let (Kind::Application(mut new), Kind::Allocation(mut asks)) =
            (app(&format!("app-{n}")), ask(&format!("app-{n}"), &format!("k{n}")))
        else {
            unreachable!("as made")
        };
        (new.rm_id, asks.rm_id) = ("rm-1".into(), "rm-1".into());
        message(&mut bytes, 3, &new);
        message(&mut bytes, 1, &asks);
    }
    let (mut from, mut to) = socket.split();
    let mut answers = vec![0; 1 << 16];
    let write = async {
        // In pieces of all sizes.
        for piece in bytes.chunks(10_007) {
            to.write_all(piece).await.expect("open");
            tokio::task::yield_now().await;
        }
        tokio::time::sleep(LIMIT).await;
    };
    let read = async { while from.read(&mut answers).await.is_ok_and(|read| read > 0) {} };
    let placed = async {
        let mut placed = 0;
        while placed < APPS {
            let line = lines.next().await;
            assert!(line["allocation"].get("rejectedAllocations").is_none_or(|list| list == &json!([])), "{line}");
            placed += line["allocation"]["new"].as_array().map_or(0, Vec::len);
        }
    };
    tokio::select! {
        () = write => panic!("not placed in time"),
        () = read => panic!("the connection was closed"),
        () = placed => {}
    }
    // As the server says itself.
    let app = server.get("/ws/v1/partition/default/queue/root.a/applications").await.1;
    assert_eq!(app.as_array().map(Vec::len), Some(APPS));
}

/// A frame of HTTP/2.
fn frame(to: &mut Vec<u8>, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
    to.extend_from_slice(&(payload.len() as u32).to_be_bytes()[1..]);
    to.extend_from_slice(&[kind, flags]);
    to.extend_from_slice(&stream.to_be_bytes());
    to.extend_from_slice(payload);
}

/// Fields without compression.
fn headers(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut block = Vec::new();
    for (name, value) in fields {
        block.push(0);
        for text in [name, value] {
            block.push(text.len() as u8);
            block.extend_from_slice(text.as_bytes());
        }
    }
    block
}

/// A message of gRPC in a frame.
fn message(to: &mut Vec<u8>, stream: u32, message: &impl prost::Message) {
    let message = message.encode_to_vec();
    let mut payload = vec![0];
    payload.extend_from_slice(&(message.len() as u32).to_be_bytes());
    payload.extend_from_slice(&message);
    frame(to, 0, 0, stream, &payload);
}
