//! The gRPC door: roles, resource managers, TLS.

use callboard::si::{
    ext::{Hello, Reply, UnregisterRequest, reply, scheduler_extension_client::SchedulerExtensionClient},
    v1::{
        NodeInfo, NodeRequest, RegisterResourceManagerRequest, UpdateConfigurationRequest,
        scheduler_client::SchedulerClient,
    },
};
use tonic::{
    Code, Request, Status,
    transport::{Certificate, Channel, ClientTlsConfig},
};
use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};

use crate::access::rig::{CALLERS, CONFIG, LIMIT, Server, certificate, line, standard, token};

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
    std::fs::write(server.tokens(), standard().replace(&line("shim", "shim", ""), "")).unwrap();
    server.signal("HUP");
    let end = tokio::time::timeout(LIMIT, answer.into_inner().message()).await.expect("in time");
    assert_eq!(end.unwrap_err().code(), Code::Unauthenticated);
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
