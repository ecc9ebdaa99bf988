//! How a resource manager begins that nobody knew, as the clients of this project begin it: a stream that waits, then a registration.

use callboard::si::{
    ext::{Hello, Reply, reply, scheduler_extension_client::SchedulerExtensionClient},
    v1::{RegisterResourceManagerRequest, scheduler_client::SchedulerClient},
};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;

use crate::{
    cluster::rig::{self, NEVER, start},
    common,
    shim::server::{CONFIG, Server},
};

async fn channel(server: &Server) -> Channel {
    Channel::from_shared(server.grpc()).expect("a URL").connect().await.expect("there")
}

async fn role(server: &Server, rm: &str) -> Value {
    let status = server.get("/api/v1/cluster").await.1;
    let mut groups = status["resourceManagers"].as_array().into_iter().flatten();
    groups.find(|group| group["rmID"] == rm).map_or(Value::Null, |group| group["role"].clone())
}

#[tokio::test]
async fn one_that_is_led_and_was_never_registered_outlives_a_stream_that_waited() {
    let Some(etcd) = rig::etcd("one_that_is_led_and_was_never_registered_outlives_a_stream_that_waited") else {
        return;
    };
    let dir = tempfile::tempdir().expect("a directory");
    let server = start(&etcd, dir.path(), NEVER);
    // As one leaves it whose leader was killed in the first moment of a registration.
    let head = json!({"version": 1, "domain": callboard::domain::DOMAIN_VERSION, "rm": "rm-1", "server": "", "epoch": 1, "index": 0,
        "first": 1, "last": 0, "bytes": 0, "snapshots": []});
    etcd.ctl(&["put", "/callboard/heads/rm-1", &head.to_string()]);
    common::answer("the role", async || role(&server, "rm-1").await, |role| role == "leads").await;
    let channel = channel(&server).await;
    let (tell, told) = mpsc::channel(1);
    let hello = Hello { rm_id: "rm-1".into(), ..Default::default() };
    tell.send(Reply { id: 0, reply: Some(reply::Reply::Hello(hello)) }).await.expect("sent");
    let waits =
        SchedulerExtensionClient::new(channel.clone()).callbacks(ReceiverStream::new(told)).await.expect("opened");
    let known = async || server.get("/si/v1/rm/rm-1").await.1;
    common::answer("the stream", known, |info| info["streams"].to_string().contains("grpc")).await;
    drop((waits, tell));
    // Its end is heard before the registration, or after it: it changes nothing.
    common::answer("its end", known, |info| !info["streams"].to_string().contains("grpc")).await;
    let register = RegisterResourceManagerRequest { rm_id: "rm-1".into(), config: CONFIG.into(), ..Default::default() };
    SchedulerClient::new(channel).register_resource_manager(register).await.expect("registered");
    assert_eq!(server.get("/si/v1/rm/rm-1").await.1["epoch"], 1);
}
