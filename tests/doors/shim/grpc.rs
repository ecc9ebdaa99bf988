//! API section 2.

use std::time::Duration;

use callboard::si::{
    ext::{self, Call, Reply, call, reply, scheduler_extension_client::SchedulerExtensionClient},
    v1::{self, scheduler_client::SchedulerClient},
};
use tokio::sync::mpsc::{Sender, channel};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Status, Streaming, transport::Channel};

use crate::shim::server::{CONFIG, LIMIT, Server};

type Requests<T> = Sender<T>;

async fn channel_to(server: &Server) -> Channel {
    Channel::from_shared(server.grpc()).expect("an address").connect().await.expect("connected")
}

async fn register(channel: &Channel, extra: &[(&str, &str)]) -> Result<(), Status> {
    let request = v1::RegisterResourceManagerRequest {
        rm_id: "rm-1".into(),
        config: CONFIG.into(),
        extra_config: extra.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect(),
        ..Default::default()
    };
    SchedulerClient::new(channel.clone()).register_resource_manager(request).await.map(|_| ())
}

fn node(id: &str) -> v1::NodeRequest {
    let memory = v1::Resource { resources: [("memory".to_owned(), v1::Quantity { value: 100 })].into() };
    v1::NodeRequest {
        rm_id: "rm-1".into(),
        nodes: vec![v1::NodeInfo {
            node_id: id.into(),
            action: 1,
            schedulable_resource: Some(memory),
            ..Default::default()
        }],
    }
}

fn app() -> v1::ApplicationRequest {
    let ugi = v1::UserGroupInformation { user: "u".into(), groups: vec![] };
    v1::ApplicationRequest {
        rm_id: "rm-1".into(),
        new: vec![v1::AddApplicationRequest {
            application_id: "app-1".into(),
            queue_name: "root.a".into(),
            ugi: Some(ugi),
            ..Default::default()
        }],
        ..Default::default()
    }
}

fn ask(key: &str) -> v1::AllocationRequest {
    let memory = v1::Resource { resources: [("memory".to_owned(), v1::Quantity { value: 10 })].into() };
    v1::AllocationRequest {
        rm_id: "rm-1".into(),
        allocations: vec![v1::Allocation {
            allocation_key: key.into(),
            application_id: "app-1".into(),
            resource_per_alloc: Some(memory),
            ..Default::default()
        }],
        ..Default::default()
    }
}

async fn nodes(channel: &Channel, first: v1::NodeRequest) -> (Requests<v1::NodeRequest>, Streaming<v1::NodeResponse>) {
    let (requests, outgoing) = channel_of(first).await;
    let stream = SchedulerClient::new(channel.clone()).update_node(outgoing).await.expect("opened");
    (requests, stream.into_inner())
}

async fn channel_of<T>(first: T) -> (Requests<T>, ReceiverStream<T>) {
    let (requests, outgoing) = channel(16);
    assert!(requests.send(first).await.is_ok(), "room");
    (requests, ReceiverStream::new(outgoing))
}

async fn next<T>(stream: &mut Streaming<T>) -> Result<Option<T>, Status> {
    tokio::time::timeout(LIMIT, stream.message()).await.expect("in time")
}

async fn ends<T: std::fmt::Debug>(stream: &mut Streaming<T>) -> Status {
    loop {
        match next(stream).await {
            Ok(Some(_)) => {}
            Ok(None) => panic!("ended well"),
            Err(status) => return status,
        }
    }
}

struct Extension {
    replies: Requests<Reply>,
    calls: Streaming<Call>,
}

impl Extension {
    async fn open(channel: &Channel, hello: ext::Hello) -> Extension {
        let first = Reply { id: 0, reply: Some(reply::Reply::Hello(hello)) };
        let (replies, outgoing) = channel_of(first).await;
        let calls = SchedulerExtensionClient::new(channel.clone()).callbacks(outgoing).await.expect("opened");
        Extension { replies, calls: calls.into_inner() }
    }

    async fn next(&mut self) -> (u64, call::Call) {
        let call = next(&mut self.calls).await.expect("no fault").expect("a call");
        (call.id, call.call.expect("not empty"))
    }

    async fn reply(&self, id: u64, reply: reply::Reply) {
        self.replies.send(Reply { id, reply: Some(reply) }).await.expect("open");
    }

    async fn done(&self, id: u64) {
        self.reply(id, reply::Reply::Done(ext::Done::default())).await;
    }
}

fn hello() -> ext::Hello {
    ext::Hello { rm_id: "rm-1".into(), ..Default::default() }
}

#[tokio::test]
async fn plain_streams_carry_their_kinds() {
    let server = Server::start(&[]);
    let channel = channel_to(&server).await;
    register(&channel, &[]).await.expect("registered");
    let (_nodes, mut node_answers) = nodes(&channel, node("n1")).await;
    assert_eq!(next(&mut node_answers).await.expect("no fault").expect("one").accepted[0].node_id, "n1");
    let mut client = SchedulerClient::new(channel.clone());
    let (_apps, outgoing) = channel_of(app()).await;
    let mut app_answers = client.update_application(outgoing).await.expect("opened").into_inner();
    assert_eq!(next(&mut app_answers).await.expect("no fault").expect("one").accepted[0].application_id, "app-1");
    // A first message that carries nothing else attaches.
    let (asks, outgoing) = channel_of(v1::AllocationRequest { rm_id: "rm-1".into(), ..Default::default() }).await;
    let mut allocations = client.update_allocation(outgoing).await.expect("opened").into_inner();
    asks.send(v1::AllocationRequest { rm_id: String::new(), ..ask("k1") }).await.expect("open");
    let new = next(&mut allocations).await.expect("no fault").expect("one").new;
    assert_eq!((new[0].allocation_key.as_str(), new[0].node_id.as_str()), ("k1", "n1"));
    let kinds: Vec<_> = {
        let info = server.get("/si/v1/rm/rm-1").await.1;
        info["streams"].as_array().expect("a list").iter().map(|stream| stream["kinds"][0].clone()).collect()
    };
    assert_eq!(kinds, ["allocation", "application", "node"]);
    // Wrong items do not end a stream, another resource manager does.
    asks.send(ask("")).await.expect("open");
    let rejected = next(&mut allocations).await.expect("no fault").expect("one").rejected_allocations;
    assert!(rejected[0].reason.contains("allocationKey is empty"));
    asks.send(v1::AllocationRequest { rm_id: "rm-2".into(), ..Default::default() }).await.expect("open");
    let status = ends(&mut allocations).await;
    assert_eq!(status.code(), Code::InvalidArgument);
    assert!(status.message().contains("rm-2"), "{status}");
}

#[tokio::test]
async fn statuses_of_plain_streams() {
    let server = Server::start(&[]);
    let channel = channel_to(&server).await;
    let (_open, mut unknown) = nodes(&channel, node("n1")).await;
    let status = ends(&mut unknown).await;
    assert_eq!(status.code(), Code::NotFound);
    assert_eq!(status.message(), "received NodeRequest, but RmID=\"rm-1\" not registered");
    let (_open, mut nameless) = nodes(&channel, v1::NodeRequest::default()).await;
    assert_eq!(ends(&mut nameless).await.code(), Code::InvalidArgument);
    let bad = register(&channel, &[("rm.gracePeriod", "x")]).await.expect_err("refused");
    assert_eq!(bad.code(), Code::InvalidArgument);

    register(&channel, &[("rm.gracePeriod", "1ms")]).await.expect("registered");
    let (_open, mut first) = nodes(&channel, node("n1")).await;
    next(&mut first).await.expect("no fault");
    let (open, mut second) = nodes(&channel, node("n2")).await;
    assert_eq!(ends(&mut first).await.code(), Code::Aborted, "replaced");
    next(&mut second).await.expect("no fault");
    register(&channel, &[("rm.gracePeriod", "1ms")]).await.expect("again");
    assert_eq!(ends(&mut second).await.code(), Code::Aborted, "another session");
    drop(open);
    let (open, mut third) = nodes(&channel, node("n3")).await;
    next(&mut third).await.expect("no fault");
    drop((open, third));
    server.until(|info| info["state"] == "Paused").await;
    let (_open, mut third) = nodes(&channel, node("n4")).await;
    server.until(|info| info["state"] == "Running").await;
    let mut extension = SchedulerExtensionClient::new(channel.clone());
    extension.unregister(ext::UnregisterRequest { rm_id: "rm-1".into() }).await.expect("stopped");
    assert_eq!(ends(&mut third).await.code(), Code::FailedPrecondition);
    let (_open, mut stopped) = nodes(&channel, node("n5")).await;
    assert_eq!(ends(&mut stopped).await.code(), Code::FailedPrecondition);
    let unknown = extension.unregister(ext::UnregisterRequest { rm_id: "rm-9".into() }).await;
    assert_eq!(unknown.expect_err("unknown").code(), Code::NotFound);
}

#[tokio::test]
async fn the_extension_waits_for_the_registration_and_orders_predicates_after_done() {
    let server = Server::start(&[]);
    let channel = channel_to(&server).await;
    let mut extension = Extension::open(&channel, hello()).await;
    assert!(matches!(extension.next().await, (0, call::Call::Ready(ext::Ready { sequence: 0, epoch: 0 }))));
    register(&channel, &[]).await.expect("registered");
    assert!(matches!(extension.next().await, (0, call::Call::Ready(ext::Ready { sequence: 0, epoch: 1 }))));
    assert_eq!(server.get("/si/v1/rm/rm-1").await.1["predicates"], "single");

    let (node_requests, mut node_answers) = nodes(&channel, node("n1")).await;
    let (id, accepted) = extension.next().await;
    assert!(matches!(accepted, call::Call::Node(_)), "not on the plain stream");
    extension.done(id).await;
    let mut client = SchedulerClient::new(channel.clone());
    let (_apps, outgoing) = channel_of(app()).await;
    let _app_answers = client.update_application(outgoing).await.expect("opened");
    let (id, accepted) = extension.next().await;
    assert!(matches!(accepted, call::Call::Application(_)));
    extension.done(id).await;
    let (asks, outgoing) = channel_of(ask("k1")).await;
    let _allocations = client.update_allocation(outgoing).await.expect("opened");
    let (mut question, mut open) = (None, None);
    while question.is_none() || open.is_none() {
        match extension.next().await {
            (id, call::Call::Predicates(args)) => {
                assert_eq!((args.allocation_key.as_str(), args.node_id.as_str()), ("k1", "n1"));
                extension.reply(id, reply::Reply::Predicates(ext::PredicatesReply::default())).await;
                question = Some(id);
            }
            (id, call::Call::Allocation(response)) => {
                assert_eq!(response.new[0].allocation_key, "k1");
                open = Some(id);
            }
            (id, _) => extension.done(id).await,
        }
    }
    // The shim has not said Done to k1: no further predicate call.
    asks.send(ask("k2")).await.expect("open");
    let early = tokio::time::timeout(Duration::from_millis(200), async {
        loop {
            match extension.next().await {
                (_, call::Call::Predicates(_)) => return,
                (id, _) => extension.done(id).await,
            }
        }
    });
    assert!(early.await.is_err(), "a predicate call before Done");
    extension.done(open.expect("seen")).await;
    loop {
        match extension.next().await {
            (id, call::Call::Predicates(args)) => {
                assert_eq!(args.allocation_key, "k2");
                extension.reply(id, reply::Reply::Predicates(ext::PredicatesReply { error: "taint".into() })).await;
                break;
            }
            (id, _) => extension.done(id).await,
        }
    }
    // When it closes, callbacks go back to the plain streams; a second later predicates count as fitting.
    drop(extension);
    server.until(|info| info["predicates"] == "off").await;
    node_requests.send(node("n2")).await.expect("open");
    loop {
        let answer = next(&mut node_answers).await.expect("no fault").expect("one");
        if answer.accepted.iter().any(|accepted| accepted.node_id == "n2") {
            break;
        }
    }
}

#[tokio::test]
async fn the_time_to_answer_begins_when_a_held_question_is_sent() {
    let server = Server::start(&["--set", "event.trackingEnabled=false"]);
    let channel = channel_to(&server).await;
    let mut extension = Extension::open(&channel, hello()).await;
    register(&channel, &[("shim.predicates.timeout", "1m")]).await.expect("registered");
    let (_nodes, _node_answers) = nodes(&channel, node("n1")).await;
    let mut client = SchedulerClient::new(channel.clone());
    let (_apps, outgoing) = channel_of(app()).await;
    let _app_answers = client.update_application(outgoing).await.expect("opened");
    let (asks, outgoing) = channel_of(ask("k1")).await;
    let _allocations = client.update_allocation(outgoing).await.expect("opened");
    let fits = || reply::Reply::Predicates(ext::PredicatesReply::default());
    let open = loop {
        match extension.next().await {
            (id, call::Call::Predicates(_)) => extension.reply(id, fits()).await,
            (id, call::Call::Allocation(_)) => break id,
            (id, _) => extension.done(id).await,
        }
    };
    let patience = async |time: &str| {
        let extra = [("shim.predicates.timeout".to_owned(), time.to_owned())].into();
        let change = v1::UpdateConfigurationRequest {
            rm_id: "rm-1".into(),
            config: CONFIG.into(),
            extra_config: extra,
            ..Default::default()
        };
        let mut client = SchedulerExtensionClient::new(channel.clone());
        client.update_configuration(change).await.expect("accepted");
    };
    patience("1s").await;
    let lines = server.get("/si/v1/rm/rm-1").await.1["lastSequence"].clone();
    asks.send(ask("k2")).await.expect("open");
    server.until(|info| info["lastSequence"] != lines).await;
    // What would be late by now, were it asked when its line was made.
    tokio::time::sleep(Duration::from_secs(2)).await;
    patience("1m").await;
    let log = server.get("/ws/v1/partition/default/application/app-1").await.1["requests"][0]["allocationLog"].clone();
    assert!(!log.to_string().contains("did not answer"), "{log}");
    extension.done(open).await;
    loop {
        match extension.next().await {
            (id, call::Call::Predicates(args)) => {
                assert_eq!(args.allocation_key, "k2");
                extension.reply(id, fits()).await;
            }
            (_, call::Call::Allocation(response)) => {
                assert_eq!(response.new[0].allocation_key, "k2");
                break;
            }
            (id, _) => extension.done(id).await,
        }
    }
}

#[tokio::test]
async fn the_extension_resumes_and_is_refused() {
    // Events would be lines of their own, each second.
    let server = Server::start(&["--set", "event.trackingEnabled=false"]);
    let channel = channel_to(&server).await;
    let resume = |after| ext::Hello { resume: true, resume_after: after, ..hello() };
    let code = async |hello: ext::Hello| {
        let mut extension = Extension::open(&channel, hello).await;
        ends(&mut extension.calls).await.code()
    };
    assert_eq!(code(resume(0)).await, Code::NotFound);
    assert_eq!(code(ext::Hello { rm_id: String::new(), ..hello() }).await, Code::InvalidArgument);
    register(&channel, &[("rm.bufferedCallbacks", "2")]).await.expect("registered");
    assert_eq!(code(resume(5)).await, Code::InvalidArgument);
    let mut first = Extension::open(&channel, resume(0)).await;
    assert!(matches!(first.next().await, (0, call::Call::Ready(ext::Ready { sequence: 0, epoch: 1 }))));
    let (requests, _answers) = nodes(&channel, node("n1")).await;
    for (n, id) in ["n2", "n3", "n4", "n5"].into_iter().enumerate() {
        let (seq, accepted) = first.next().await;
        assert!(matches!(accepted, call::Call::Node(_)));
        assert_eq!(seq, n as u64 + 1, "the id is the number of the line");
        first.done(seq).await;
        server.until(|info| info["deliveredSequence"] == seq).await;
        requests.send(node(id)).await.expect("open");
    }
    let mut second = Extension::open(&channel, resume(4)).await;
    assert_eq!(ends(&mut first.calls).await.code(), Code::Aborted);
    assert!(matches!(second.next().await, (0, call::Call::Ready(ext::Ready { sequence: 4, epoch: 1 }))));
    assert_eq!(second.next().await.0, 5);
    assert_eq!(code(resume(0)).await, Code::OutOfRange);
    second.replies.send(Reply::default()).await.expect("open");
    assert_eq!(ends(&mut second.calls).await.code(), Code::InvalidArgument);

    let mut client = SchedulerExtensionClient::new(channel.clone());
    let bad =
        v1::UpdateConfigurationRequest { rm_id: "rm-1".into(), config: "partitions: 7".into(), ..Default::default() };
    let refused = client.update_configuration(bad).await.expect_err("refused");
    assert_eq!(refused.code(), Code::InvalidArgument);
    assert!(refused.message().starts_with("update of configuration failed: "), "{refused}");
    let good = v1::UpdateConfigurationRequest { rm_id: "rm-1".into(), config: CONFIG.into(), ..Default::default() };
    client.update_configuration(good).await.expect("accepted");
    // With a key it is carried out once.
    let change = |config: &str, key: Option<&'static str>| {
        let (rm_id, config) = ("rm-1".to_owned(), config.to_owned());
        let mut request = tonic::Request::new(v1::UpdateConfigurationRequest { rm_id, config, ..Default::default() });
        if let Some(key) = key {
            request.metadata_mut().insert("idempotency-key", key.parse().expect("a key"));
        }
        request
    };
    let with_b = format!("{CONFIG}          - name: b\n");
    client.update_configuration(change(CONFIG, Some("one"))).await.expect("accepted");
    client.update_configuration(change(&with_b, None)).await.expect("accepted");
    client.update_configuration(change(CONFIG, Some("one"))).await.expect("accepted before");
    assert_eq!(server.get("/ws/v1/partition/default/queue/root.b").await.0, 200);
    for (config, key) in [(&*with_b, "one"), (CONFIG, " ")] {
        let refused = client.update_configuration(change(config, Some(key))).await.expect_err("refused");
        assert_eq!(refused.code(), Code::InvalidArgument, "{refused}");
    }
    client.update_configuration(change(CONFIG, Some("two"))).await.expect("accepted");
    client.unregister(ext::UnregisterRequest { rm_id: "rm-1".into() }).await.expect("stopped");
    assert_eq!(code(resume(0)).await, Code::FailedPrecondition);
}

#[tokio::test]
async fn the_end_of_the_server_is_unavailable() {
    let server = Server::start(&[]);
    let channel = channel_to(&server).await;
    register(&channel, &[]).await.expect("registered");
    let (_open, mut answers) = nodes(&channel, node("n1")).await;
    next(&mut answers).await.expect("no fault");
    let mut waiting = Extension::open(&channel, hello()).await;
    waiting.next().await;
    server.program.signal("TERM");
    assert_eq!(ends(&mut answers).await.code(), Code::Unavailable);
    assert_eq!(ends(&mut waiting.calls).await.code(), Code::Unavailable);
    assert_eq!(server.program.ended().await, Some(0));
}

#[tokio::test]
async fn health_and_reflection() {
    use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};
    use tonic_reflection::pb::v1::{
        ServerReflectionRequest, server_reflection_client::ServerReflectionClient,
        server_reflection_request::MessageRequest, server_reflection_response::MessageResponse,
    };
    let server = Server::start(&[]);
    let channel = channel_to(&server).await;
    for service in ["", "si.v1.Scheduler", "callboard.v1.SchedulerExtension"] {
        let request = HealthCheckRequest { service: service.into() };
        let answer = HealthClient::new(channel.clone()).check(request).await.expect("known").into_inner();
        assert_eq!(answer.status, 1, "SERVING: {service}");
    }
    let request = ServerReflectionRequest {
        host: String::new(),
        message_request: Some(MessageRequest::ListServices(String::new())),
    };
    let stream = ServerReflectionClient::new(channel).server_reflection_info(tokio_stream::once(request)).await;
    let answer = stream.expect("known").into_inner().message().await.expect("no fault").expect("one");
    let Some(MessageResponse::ListServicesResponse(list)) = answer.message_response else { panic!("{answer:?}") };
    let names: Vec<_> = list.service.into_iter().map(|service| service.name).collect();
    for name in ["si.v1.Scheduler", "callboard.v1.SchedulerExtension", "grpc.health.v1.Health"] {
        assert!(names.iter().any(|known| known == name), "{names:?}");
    }
}
