//! The gRPC door: roles, resource managers, TLS.

use callboard::si::{
    ext::{
        self, Ack, Hello, Reply, UnregisterRequest, reply, request::Request as Kind,
        scheduler_extension_client::SchedulerExtensionClient,
    },
    v1::{
        NodeInfo, NodeRequest, RegisterResourceManagerRequest, UpdateConfigurationRequest,
        scheduler_client::SchedulerClient,
    },
};
use serde_json::{Value, json};
use tokio::sync::mpsc::{Sender, channel as queue};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{
    Code, Request, Status, Streaming,
    transport::{Certificate, Channel, ClientTlsConfig},
};
use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};

use crate::access::rig::{CALLERS, CONFIG, LIMIT, Server, certificate, checksum, line, standard, token};

async fn channel(server: &Server) -> Channel {
    Channel::from_shared(server.address("grpc")).unwrap().connect().await.unwrap()
}

fn from<T>(caller: &str, message: T) -> Request<T> {
    let mut request = Request::new(message);
    if caller != "none" {
        request.metadata_mut().insert("authorization", format!("Bearer {}", token(caller)).parse().unwrap());
    }
    request
}

fn registration(rm: &str) -> RegisterResourceManagerRequest {
    RegisterResourceManagerRequest { rm_id: rm.into(), config: CONFIG.into(), ..Default::default() }
}

async fn register(channel: &Channel, caller: &str, rm: &str) -> Result<(), Status> {
    let request = from(caller, registration(rm));
    SchedulerClient::new(channel.clone()).register_resource_manager(request).await.map(drop)
}

/// Opens a stream of nodes for this resource manager, and gives its end; none: a node is accepted there.
async fn nodes(channel: &Channel, caller: &str, rm: &str) -> Option<Code> {
    let node = NodeInfo { node_id: format!("n-{caller}"), action: 1, ..Default::default() };
    let first = NodeRequest { rm_id: rm.into(), nodes: vec![node] };
    let requests = futures::StreamExt::chain(tokio_stream::iter([first]), tokio_stream::pending());
    match SchedulerClient::new(channel.clone()).update_node(from(caller, requests)).await {
        Err(status) => Some(status.code()),
        Ok(response) => match tokio::time::timeout(LIMIT, response.into_inner().message()).await.expect("in time") {
            Err(status) => Some(status.code()),
            Ok(line) => {
                assert_eq!(line.expect("it does not end").accepted.len(), 1);
                None
            }
        },
    }
}

#[tokio::test]
async fn every_role_at_every_service() {
    let server = Server::start(&[]);
    let channel = channel(&server).await;
    register(&channel, "operator", "rm-1").await.unwrap();
    for caller in CALLERS {
        let denied = match caller {
            "none" | "unknown" => Some(Code::Unauthenticated),
            "viewer" => Some(Code::PermissionDenied),
            _ => None,
        };
        let code = register(&channel, caller, "rm-x").await.err().map(|status| status.code());
        assert_eq!(code, denied, "{caller}");
        assert_eq!(nodes(&channel, caller, "rm-1").await, denied, "{caller}");
        let mut extension = SchedulerExtensionClient::new(channel.clone());
        let gone = extension.unregister(from(caller, UnregisterRequest { rm_id: "nope".into() })).await.unwrap_err();
        assert_eq!(gone.code(), denied.unwrap_or(Code::NotFound), "{caller}");
        let change = UpdateConfigurationRequest { rm_id: "rm-1".into(), config: CONFIG.into(), ..Default::default() };
        let change = extension.update_configuration(from(caller, change)).await.err().map(|status| status.code());
        assert_eq!(change, denied.or((caller == "shim").then_some(Code::PermissionDenied)), "{caller}");
        let health = HealthClient::new(channel.clone()).check(from(caller, HealthCheckRequest::default())).await;
        assert!(health.is_ok(), "{caller}: a sign of life is for everybody");
    }
    let refused = register(&channel, "viewer", "rm-x").await.unwrap_err();
    assert_eq!(refused.message(), "this needs the role shim; the token \"viewer\" has the role viewer");
    assert!(!server.log().contains("secret-of"));
}

#[tokio::test]
async fn a_shim_acts_for_its_own_resource_managers_only() {
    let server = Server::start(&[]);
    let channel = channel(&server).await;
    register(&channel, "operator", "rm-1").await.unwrap();
    register(&channel, "second", "rm-2").await.unwrap();
    assert_eq!(register(&channel, "second", "rm-1").await.unwrap_err().code(), Code::PermissionDenied);
    assert_eq!(nodes(&channel, "second", "rm-1").await, Some(Code::PermissionDenied));
    assert_eq!(nodes(&channel, "second", "rm-2").await, None);
    let mut extension = SchedulerExtensionClient::new(channel.clone());
    let gone = extension.unregister(from("second", UnregisterRequest { rm_id: "rm-1".into() })).await;
    assert_eq!(gone.unwrap_err().code(), Code::PermissionDenied);
    let hello = Hello { rm_id: "rm-1".into(), ..Default::default() };
    let hello = tokio_stream::iter([Reply { reply: Some(reply::Reply::Hello(hello)), ..Default::default() }]);
    let mut calls = extension.callbacks(from("second", hello)).await.unwrap().into_inner();
    assert_eq!(calls.message().await.unwrap_err().code(), Code::PermissionDenied);
}

#[tokio::test]
async fn a_stream_ends_with_its_token() {
    let server = Server::start(&[]);
    let channel = channel(&server).await;
    register(&channel, "shim", "rm-1").await.unwrap();
    let first = NodeRequest { rm_id: "rm-1".into(), ..Default::default() };
    let requests = futures::StreamExt::chain(tokio_stream::iter([first]), tokio_stream::pending());
    let answer = SchedulerClient::new(channel).update_node(from("shim", requests)).await.unwrap();
    take_back(&server, "shim");
    let end = tokio::time::timeout(LIMIT, answer.into_inner().message()).await.expect("in time");
    assert_eq!(end.unwrap_err().code(), Code::Unauthenticated);
}

/// Without this token from now on.
fn take_back(server: &Server, caller: &str) {
    std::fs::write(server.tokens(), standard().replace(&line("shim", caller, ""), "")).unwrap();
    server.signal("HUP");
}

async fn ends<T>(stream: &mut Streaming<T>) -> Status {
    loop {
        match stream.message().await {
            Ok(message) => assert!(message.is_some(), "it ends with a status"),
            Err(status) => return status,
        }
    }
}

/// An open stream of numbered requests for `rm-1`.
async fn requests(channel: &Channel, caller: &str) -> (Sender<ext::Request>, Streaming<Ack>) {
    let (to, outgoing) = queue(4);
    to.send(ext::Request { rm_id: "rm-1".into(), ..Default::default() }).await.unwrap();
    let requests = from(caller, ReceiverStream::new(outgoing));
    let mut acks = SchedulerExtensionClient::new(channel.clone()).requests(requests).await.unwrap().into_inner();
    acks.message().await.unwrap().expect("the first");
    (to, acks)
}

#[tokio::test]
async fn nothing_that_comes_over_a_stream_is_read_once_its_token_was_taken_back() {
    let server = Server::start(&[]);
    let channel = channel(&server).await;
    register(&channel, "shim", "rm-1").await.unwrap();
    let node = |id: &str| NodeInfo { node_id: id.into(), action: 1, ..Default::default() };
    let (to_nodes, outgoing) = queue(4);
    to_nodes.send(NodeRequest { rm_id: "rm-1".into(), nodes: vec![node("n1")] }).await.unwrap();
    let plain = from("shim", ReceiverStream::new(outgoing));
    let mut plain = SchedulerClient::new(channel.clone()).update_node(plain).await.unwrap().into_inner();
    assert_eq!(plain.message().await.unwrap().expect("a line").accepted.len(), 1);
    let (to, mut acks) = requests(&channel, "shim").await;
    take_back(&server, "shim");
    for end in [
        tokio::time::timeout(LIMIT, ends(&mut acks)).await.expect("in time"),
        tokio::time::timeout(LIMIT, ends(&mut plain)).await.expect("in time"),
    ] {
        assert_eq!(end.code(), Code::Unauthenticated);
    }
    // Whoever sent may go on sending: a stream has two directions.
    let nodes = vec![node("n2")];
    let request = Some(Kind::Node(NodeRequest { nodes: nodes.clone(), ..Default::default() }));
    let _ = to.send(ext::Request { sequence: 1, request, ..Default::default() }).await;
    let _ = to_nodes.send(NodeRequest { rm_id: "rm-1".into(), nodes }).await;
    tokio::time::timeout(LIMIT, futures::future::join(to.closed(), to_nodes.closed())).await.expect("nobody reads");
    let nodes = server.send("viewer", "GET", "/ws/v1/partition/default/nodes", None).await;
    let nodes: Value = nodes.json().await.unwrap();
    assert_eq!(nodes.as_array().unwrap().len(), 1, "{nodes}");
}

#[tokio::test]
async fn configurations_of_a_stream_are_noted_each_by_itself() {
    let server = Server::start(&[]);
    let channel = channel(&server).await;
    register(&channel, "operator", "rm-1").await.unwrap();
    let configuration = |sequence, config: &str, extra: &[(&str, &str)]| {
        let extra_config = extra.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect();
        let message = UpdateConfigurationRequest { config: config.into(), extra_config, ..Default::default() };
        ext::Request { sequence, request: Some(Kind::Configuration(message)), ..Default::default() }
    };
    let applied = async |acks: &mut Streaming<Ack>, sequence| {
        let (mut refused, mut ignored) = (Vec::new(), Vec::new());
        loop {
            let ack = tokio::time::timeout(LIMIT, acks.message()).await.expect("in time").unwrap().expect("one more");
            refused.extend(ack.refused);
            ignored.extend(ack.ignored);
            if ack.sequence == sequence {
                return (refused, ignored);
            }
        }
    };
    let (to, mut acks) = requests(&channel, "configurer").await;
    to.send(configuration(1, CONFIG, &[("log.level", "debug"), ("rm.gracePeriod", "9s")])).await.unwrap();
    to.send(configuration(2, "partitions: 7", &[])).await.unwrap();
    let (refused, ignored) = applied(&mut acks, 2).await;
    assert_eq!(ignored, [ext::Ignored { sequence: 1, keys: vec!["log.level".into()] }]);
    assert_eq!((refused.len(), refused[0].sequence), (1, 2));
    let reason = refused[0].reason.clone();
    // One that may not.
    let (to, mut acks) = requests(&channel, "shim").await;
    to.send(configuration(3, CONFIG, &[])).await.unwrap();
    let (refused, ignored) = applied(&mut acks, 3).await;
    assert!(refused.iter().any(|refused| refused.sequence == 3 && refused.reason.contains("configures")));
    assert!(ignored.iter().all(|ignored| ignored.sequence == 1), "{ignored:?}");
    let records = server.send("operator", "GET", "/api/v1/audit", None).await.text().await.unwrap();
    let records = records.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    // What is counted is another matter.
    let of_stream = records.filter(|record| {
        record["count"].is_null() && record["action"].as_str().is_some_and(|action| action.contains("/Requests"))
    });
    let shown = of_stream.map(|record| json!([record["who"], record["outcome"], record["status"], record["detail"]]));
    assert_eq!(
        shown.collect::<Vec<_>>(),
        [
            json!(["configurer", "done", "Ok", format!("resource manager rm-1: request 1; checksum {}", checksum())]),
            json!(["configurer", "failed", "InvalidArgument", format!("resource manager rm-1: request 2; {reason}")]),
        ]
    );
    let metrics = server.send("viewer", "GET", "/metrics", None).await.text().await.unwrap();
    let refused = "callboard_requests_refused_total{door=\"grpc\",reason=\"role\"} 1";
    assert!(metrics.contains(refused), "{refused}");
}

#[tokio::test]
async fn tls_and_token_together() {
    let dir = tempfile::tempdir().unwrap();
    let [cert, key] = certificate(dir.path());
    let tokens = dir.path().join("tokens");
    std::fs::write(&tokens, standard()).unwrap();
    let tokens = tokens.display().to_string();
    let server = Server::start_in(dir, &["--tokens", &tokens, "--tls-cert", &cert, "--tls-key", &key]);
    let authority = Certificate::from_pem(std::fs::read(&cert).unwrap());
    let tls = ClientTlsConfig::new().ca_certificate(authority).domain_name("localhost");
    let endpoint = Channel::from_shared(server.address("grpc")).unwrap();
    let channel = endpoint.clone().tls_config(tls).unwrap().connect().await.unwrap();
    assert_eq!(register(&channel, "none", "rm-1").await.unwrap_err().code(), Code::Unauthenticated);
    register(&channel, "shim", "rm-1").await.unwrap();
    assert_eq!(nodes(&channel, "shim", "rm-1").await, None);
    // Without encryption, or without believing the certificate, nothing is said at all.
    let plain = Channel::from_shared(server.address("grpc").replace("https://", "http://")).unwrap();
    let plain = plain.connect().await.unwrap();
    assert!(register(&plain, "shim", "rm-1").await.is_err());
    let stranger = ClientTlsConfig::new().domain_name("localhost");
    assert!(endpoint.tls_config(stranger).unwrap().connect().await.is_err());
}
