//! A request that is part of a trace: its answer says so at both doors, and the audit log has it.

use callboard::si::v1::{RegisterResourceManagerRequest, scheduler_client::SchedulerClient};
use tonic::{Request, transport::Channel};

use crate::access::rig::{CONFIG, LIMIT, Server, token};

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const SENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

/// Of the same trace, and another part of it.
fn is_answer(header: &str) -> bool {
    header.len() == SENT.len()
        && header.starts_with(&format!("00-{TRACE}-"))
        && header.ends_with("-01")
        && header != SENT
}

#[tokio::test]
async fn an_answer_names_the_trace_of_its_request() {
    let server = Server::start(&[]);
    for (caller, path, expected) in [
        ("none", "/livez", 200),
        ("none", "/ws/v1/clusters", 401),
        ("viewer", "/ws/v1/clusters", 200),
        ("viewer", "/nowhere", 404),
    ] {
        let url = format!("{}{path}", server.address("http"));
        let ask = async |header: &str| {
            let mut request = server.http.get(&url).timeout(LIMIT).header("traceparent", header);
            if caller != "none" {
                request = request.bearer_auth(token(caller));
            }
            let response = request.send().await.expect("an answer");
            assert_eq!(response.status(), expected, "{path}");
            response.headers().get("traceparent").map(|value| value.to_str().expect("a text").to_owned())
        };
        let told = ask(SENT).await.expect("the trace");
        assert!(is_answer(&told), "{path}: {told}");
        assert_eq!(ask("00-what-is-this-01").await, None, "{path}");
        assert!(!server.send(caller, "GET", path, None).await.headers().contains_key("traceparent"));
    }
    let url = format!("{}/api/v1/log/level", server.address("http"));
    let body = serde_json::json!({"level": "debug"});
    let request = server.http.post(url).bearer_auth(token("operator")).header("traceparent", SENT).json(&body);
    assert_eq!(request.send().await.expect("an answer").status(), 200);

    let channel = Channel::from_shared(server.address("grpc")).expect("an address").connect().await.expect("connected");
    let register = async |header: Option<&'static str>| {
        let message =
            RegisterResourceManagerRequest { rm_id: "rm-1".into(), config: CONFIG.into(), ..Default::default() };
        let mut request = Request::new(message);
        let value = format!("Bearer {}", token("shim")).parse().expect("a header");
        request.metadata_mut().insert("authorization", value);
        if let Some(header) = header {
            request.metadata_mut().insert("traceparent", header.parse().expect("a header"));
        }
        let answer =
            SchedulerClient::new(channel.clone()).register_resource_manager(request).await.expect("registered");
        answer.metadata().get("traceparent").map(|value| value.to_str().expect("a text").to_owned())
    };
    let told = register(Some(SENT)).await.expect("the trace");
    assert!(is_answer(&told), "{told}");
    assert_eq!(register(None).await, None);
    let audit = server.send("operator", "GET", "/api/v1/audit", None).await.text().await.expect("a text");
    let rows = audit.lines().filter(|line| line.contains(&format!("\"trace\":\"{TRACE}\"")));
    let rows: Vec<&str> = rows.collect();
    assert!(
        rows.len() == 2 && rows[0].contains("/api/v1/log/level") && rows[1].contains("RegisterResourceManager"),
        "{audit}"
    );
}
