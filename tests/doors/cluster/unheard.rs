//! A server that has not heard of a resource manager yet, which registered at another one just now.

use callboard::si::{
    ext::{self, Hello, Reply, reply, scheduler_extension_client::SchedulerExtensionClient},
    v1::{self, scheduler_client::SchedulerClient},
};
use futures::future::join_all;
use serde_json::{Value, json};
use tonic::{Status, Streaming, transport::Channel};

use crate::{
    cluster::{
        rig::{self, NEVER, session, start},
        two::led_at,
    },
    common,
    shim::server::Server,
};

/// A server that does not hear of what others lead.
fn late(etcd: &rig::Etcd, data: &std::path::Path) -> Server {
    let mut command = rig::serve(&etcd.url(), data, NEVER, &[]);
    command.env("CALLBOARD_TEST_WATCH_WAITS", data);
    rig::started(command)
}

/// How it answers.
async fn answer(server: &Server, method: &str, path: &str, body: &Value) -> (u16, Option<String>, Option<String>) {
    let sent = server.http.request(method.parse().expect("a method"), server.url(path)).json(body).send().await;
    let sent = sent.expect("an answer");
    let header = |name: &str| sent.headers().get(name).map(|value| value.to_str().expect("text").to_owned());
    (sent.status().as_u16(), header("location"), header("retry-after"))
}

/// It knows what there was when it began.
async fn is_open(server: &Server) {
    common::answer("/si/v1/rm/nobody", async || server.get("/si/v1/rm/nobody").await.0, |status| *status == 404).await;
}

async fn refused<T>(stream: Result<tonic::Response<Streaming<T>>, Status>) -> Status {
    match stream {
        Ok(stream) => stream.into_inner().message().await.err().expect("refused"),
        Err(status) => status,
    }
}

/// Reads from etcd so far.
async fn reads(etcd: &rig::Etcd) -> u64 {
    let told = reqwest::get(format!("{}/metrics", etcd.url())).await.expect("an answer").text().await.expect("text");
    let is_read = |line: &&str| line.starts_with("grpc_server_handled_total{") && line.contains("\"Range\"");
    let counts = told.lines().filter(is_read).filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok());
    counts.sum::<f64>() as u64
}

#[tokio::test]
async fn who_registered_at_another_server_just_now_is_sent_there() {
    let Some(mut etcd) = rig::etcd("who_registered_at_another_server_just_now_is_sent_there") else { return };
    let (one, two) = (tempfile::tempdir().expect("a directory"), tempfile::tempdir().expect("a directory"));
    let (leader, late) = (start(&etcd, one.path(), NEVER), late(&etcd, two.path()));
    is_open(&late).await;
    session(&leader).await;
    let path = "/si/v1/rm/rm-1/allocations";
    assert_eq!(answer(&late, "POST", path, &json!({"allocations": []})).await, (307, Some(leader.url(path)), None));
    leader.register("rm-2", &[]).await;
    let path = "/si/v1/rm/rm-2/stream?after=0";
    assert_eq!(answer(&late, "GET", path, &Value::Null).await, (307, Some(leader.url(path)), None));
    leader.register("rm-3", &[]).await;
    let registration = json!({"rmID": "rm-3"});
    assert_eq!(answer(&late, "POST", "/si/v1/rm", &registration).await, (307, Some(leader.url("/si/v1/rm")), None));
    // Over gRPC each kind of stream, and each call.
    let at = leader.grpc().trim_start_matches("http://").to_owned();
    let channel = Channel::from_shared(late.grpc()).expect("a URL").connect().await.expect("there");
    for (nth, rm) in ["rm-4", "rm-5", "rm-6", "rm-7", "rm-8"].into_iter().enumerate() {
        leader.register(rm, &[]).await;
        let rm_id = rm.to_owned();
        let mut extension = SchedulerExtensionClient::new(channel.clone());
        let told = match nth {
            0 => {
                let request = v1::NodeRequest { rm_id, ..Default::default() };
                refused(SchedulerClient::new(channel.clone()).update_node(tokio_stream::iter([request])).await).await
            }
            1 => {
                let request = ext::Request { rm_id, ..Default::default() };
                refused(extension.requests(tokio_stream::iter([request])).await).await
            }
            2 => {
                let hello = Hello { rm_id, resume: true, ..Default::default() };
                let hello = Reply { id: 0, reply: Some(reply::Reply::Hello(hello)) };
                refused(extension.callbacks(tokio_stream::iter([hello])).await).await
            }
            3 => {
                let request = v1::UpdateConfigurationRequest { rm_id, ..Default::default() };
                extension.update_configuration(request).await.expect_err("refused")
            }
            _ => extension.unregister(ext::UnregisterRequest { rm_id }).await.expect_err("refused"),
        };
        assert_eq!((told.code(), led_at(&told)), (tonic::Code::Unavailable, at.clone()), "{rm}: {told}");
    }
    // Nobody knows these, and etcd is hardly asked.
    let before = reads(&etcd).await;
    let began = std::time::Instant::now();
    let asked = (0..400).map(async |nth| {
        let path = format!("/si/v1/rm/unknown-{nth}");
        // Where etcd is slow it is told to try again.
        common::answer(&path, async || late.get(&path).await.0, |status| *status != 503).await
    });
    assert!(join_all(asked).await.into_iter().all(|status| status == 404));
    let (asked, most) = (reads(&etcd).await - before, 5 + began.elapsed().as_millis() as u64 / 25);
    assert!(asked <= most, "{asked} reads, in {:?}", began.elapsed());
    // Where etcd cannot say, nobody is told that there is none; who is known to be elsewhere is sent there.
    etcd.kill();
    let (status, _, again) = answer(&late, "GET", "/si/v1/rm/rm-9", &Value::Null).await;
    assert_eq!((status, again.as_deref()), (503, Some("1")));
    assert_eq!(answer(&late, "GET", "/si/v1/rm/rm-1", &Value::Null).await.0, 307);
    let request = v1::NodeRequest { rm_id: "rm-9".into(), ..Default::default() };
    let told = refused(SchedulerClient::new(channel).update_node(tokio_stream::iter([request])).await).await;
    assert_eq!(told.code(), tonic::Code::Unavailable, "{told}");
}
