//! What is accepted and does not do what it looks like is told in every answer about a configuration (SEEDS S34), and what a
//! session and an application came with is shown.

use callboard::si::v1::{self, scheduler_client::SchedulerClient};
use serde_json::{Value, json};
use tonic::transport::Channel;

use crate::{
    common,
    shim::server::{CONFIG, Server},
};

/// A policy that nobody knows at queue a, and one that is known in any spelling at b.
fn odd() -> String {
    let policy = |policy: &str| format!("            properties: {{application.sort.policy: {policy}}}\n");
    format!("{CONFIG}{}          - name: b\n{}", policy("fairest"), policy("FAIR"))
}

fn told(answer: &Value) -> Vec<(u64, String)> {
    let warnings = answer["warnings"].as_array().cloned().unwrap_or_default();
    let one = |warning: &Value| {
        (warning["line"].as_u64().unwrap_or(0), warning["message"].as_str().unwrap_or_default().to_owned())
    };
    warnings.iter().map(one).collect()
}

const WARNING: &str =
    "application.sort.policy cannot be `fairest` and counts as its default (properties of queue root.a)";

#[tokio::test]
async fn unknown_values_are_told_by_every_door() {
    let server = Server::start(&[]);
    let wanted = [(8, WARNING.to_owned())];
    let (status, answer) = server.send("POST", "/si/v1/rm", &json!({"rmID": "rm-1", "config": odd()})).await;
    assert_eq!((status, told(&answer)), (200, wanted.to_vec()), "{answer}");
    let (_, queue) = server.get("/ws/v1/partition/default/queue/root.b").await;
    assert_eq!(queue["sortingPolicy"], "fair", "{queue}");
    let (_, queue) = server.get("/ws/v1/partition/default/queue/root.a").await;
    assert_eq!(queue["sortingPolicy"], "fifo");

    let again = json!({"config": format!("{}          - name: c\n", odd())});
    let (status, answer) = server.send("PUT", "/si/v1/rm/rm-1/configuration", &again).await;
    assert_eq!((status, told(&answer)), (200, wanted.to_vec()), "{answer}");
    let (status, answer) = server.send_text("POST", "/ws/v1/validate-conf", &odd(), "text/plain").await;
    assert_eq!((status, &answer["allowed"], told(&answer)), (200, &true.into(), wanted.to_vec()), "{answer}");
    let (status, answer) = server.send_text("POST", "/api/v1/plan", &odd(), "application/yaml").await;
    assert_eq!((status, told(&answer)), (200, wanted.to_vec()), "{answer}");

    let channel = Channel::from_shared(server.grpc()).expect("an address").connect().await.expect("connected");
    let request = v1::RegisterResourceManagerRequest { rm_id: "rm-2".into(), config: odd(), ..Default::default() };
    let answer = SchedulerClient::new(channel).register_resource_manager(request).await.expect("taken");
    let told: Vec<_> =
        answer.metadata().get_all("callboard-warning").iter().map(|text| text.to_str().expect("text")).collect();
    assert_eq!(told, [format!("8:51: CFG-07C: {WARNING}")]);

    // Nothing to tell, nothing in the answer.
    let plain = json!({"config": CONFIG});
    assert_eq!(server.send("PUT", "/si/v1/rm/rm-1/configuration", &plain).await, (200, json!({})));
    let (_, answer) = server.send_text("POST", "/ws/v1/validate-conf", CONFIG, "text/plain").await;
    assert_eq!(answer, json!({"allowed": true}));
}

#[tokio::test]
async fn settings_that_cannot_be_read_are_told() {
    // CFG-110: they count as their defaults.
    let server = Server::start(&[]);
    let extra = json!({"event.ringBufferCapacity": "400_000", "event.trackingEnabled": "on", "event.maxStreams": "7", "no.such": "x"});
    let wanted = [
        r#"event.ringBufferCapacity: "400_000" is not a whole number above zero: it counts as the default (extraConfig)"#,
        r#"event.trackingEnabled: "on" is not one of true, false, 1, 0, t, f: it counts as the default (extraConfig)"#,
    ];
    let expected: Vec<_> = wanted.iter().map(|text| (0, text.to_string())).collect();
    let body = json!({"rmID": "rm-1", "config": CONFIG, "extraConfig": extra});
    let (status, answer) = server.send("POST", "/si/v1/rm", &body).await;
    assert_eq!((status, told(&answer)), (200, expected.clone()), "{answer}");
    assert_eq!(answer["warnings"][0]["rule"], "CFG-110");
    let (status, answer) = server.send("PUT", "/si/v1/rm/rm-1/configuration", &body).await;
    assert_eq!((status, told(&answer)), (200, expected), "{answer}");

    let channel = Channel::from_shared(server.grpc()).expect("an address").connect().await.expect("connected");
    let extra_config = [("log.level".to_owned(), "loud".to_owned())].into();
    let request = v1::RegisterResourceManagerRequest { rm_id: "rm-2".into(), extra_config, ..Default::default() };
    let answer = SchedulerClient::new(channel).register_resource_manager(request).await.expect("taken");
    let text = answer.metadata().get("callboard-warning").expect("told").to_str().expect("text");
    assert!(text.starts_with(r#"0:0: CFG-110: log.level: "loud" is not one of debug, info, "#), "{text}");
}

#[tokio::test]
async fn a_registration_whose_rules_cannot_be_built_says_so() {
    // CFG-098: it runs without any rule, and an update like it is refused.
    let server = Server::start(&[]);
    let config = CONFIG.replace(
        "    queues:\n      - name: root",
        "    placementrules: [{name: nosuch}]\n    queues:\n      - name: root",
    );
    let (status, answer) = server.send("POST", "/si/v1/rm", &json!({"rmID": "rm-1", "config": config})).await;
    assert_eq!(status, 200, "{answer}");
    let notes = told(&answer);
    assert!(notes[0].1.starts_with("unknown rule name specified nosuch"), "{answer}");
    // CFG-093: with the text in force an update changes only the extra configuration, and says the same.
    let again = json!({"config": config, "extraConfig": {"event.maxStreams": "7"}});
    let (status, answer) = server.send("PUT", "/si/v1/rm/rm-1/configuration", &again).await;
    assert_eq!((status, told(&answer)), (200, notes.clone()), "{answer}");
    let shown = reqwest::get(server.url("/ws/v1/config")).await.expect("an answer").text().await.expect("text");
    assert!(shown.contains("event.maxStreams: \"7\""), "{shown}");
    let (status, answer) = server.send_text("POST", "/api/v1/plan", &config, "application/yaml").await;
    assert_eq!((status, &answer["unchanged"], told(&answer)), (200, &true.into(), notes), "{answer}");
    let (status, answer) =
        server.send("PUT", "/si/v1/rm/rm-1/configuration", &json!({"config": format!("{config}# other\n")})).await;
    assert_eq!((status, &answer["errors"][0]["rule"]), (400, &"CFG-098".into()), "{answer}");
    // The list of a configuration that has thousands is cut.
    let many: String = (0..500).map(|n| format!("          - {{name: q{n}, properties: {{no.{n}: x}}}}\n")).collect();
    let (_, answer) =
        server.send("POST", "/si/v1/rm", &json!({"rmID": "rm-1", "config": format!("{CONFIG}{many}")})).await;
    let told = told(&answer);
    assert_eq!(told.len(), 101);
    assert_eq!(told[100].1, "400 more of these; callboard validate lists all");
}

#[tokio::test]
async fn an_update_tells_whom_it_strands_in_the_words_of_the_plan() {
    // CFG-102, PLC-053
    let server = Server::start(&[]);
    server.send("POST", "/si/v1/rm", &json!({"rmID": "rm-1", "config": CONFIG})).await;
    let new = |n: u32| {
        let user = json!({"user": "alice"});
        json!({"applicationID": format!("app-{n:02}"), "queueName": "root.a", "partitionName": "default", "ugi": user})
    };
    let apps: Vec<_> = (0..25).map(new).collect();
    assert_eq!(server.send("POST", "/si/v1/rm/rm-1/applications", &json!({"new": apps})).await.0, 202);
    let parent = format!("{CONFIG}            queues: [{{name: x}}]\n");
    let (_, plan) = server.send_text("POST", "/api/v1/plan", &parent, "application/yaml").await;
    let reason = plan["partitions"][0]["applications"][0]["reason"].as_str().expect("one is stranded").to_owned();
    let (status, answer) =
        server.send("PUT", "/si/v1/rm/rm-1/configuration", &json!({"rmID": "rm-1", "config": parent})).await;
    let told = told(&answer);
    assert_eq!((status, told.len()), (200, 21), "{answer}");
    let first = format!("application app-00 of user alice, New in queue root.a, would not be admitted: {reason}");
    assert_eq!(told[0], (0, first));
    assert_eq!(answer["warnings"][0]["rule"], "PLC-053");
    assert!(told[20].1.starts_with("5 more applications or quotas: "), "{answer}");
    // The same again changes nothing.
    let again = server.send("PUT", "/si/v1/rm/rm-1/configuration", &json!({"rmID": "rm-1", "config": parent})).await;
    assert_eq!(again, (200, json!({})));
}

#[tokio::test]
async fn policy_groups_and_tags_are_shown() {
    let server = Server::start(&[]);
    let register = json!({"rmID": "rm-1", "policyGroup": "queues", "config": CONFIG});
    assert_eq!(server.send("POST", "/si/v1/rm", &register).await, (200, json!({})));
    assert_eq!(server.get("/si/v1/rm/rm-1").await.1["policyGroup"], "queues");
    for (group, taken) in [("other", false), ("queues", true), ("", true)] {
        let update = json!({"policyGroup": group, "config": format!("{CONFIG}          - name: of-{group}\n")});
        let (status, answer) = server.send("PUT", "/si/v1/rm/rm-1/configuration", &update).await;
        assert_eq!(status == 200, taken, "{group}: {answer}");
        if !taken {
            let detail = answer["detail"].as_str().unwrap_or_default();
            assert!(detail.contains("\"other\"") && detail.contains("\"queues\""), "{answer}");
            let (_, queues) = server.get("/ws/v1/partition/default/queues").await;
            assert!(!queues.to_string().contains("of-other"), "nothing changed: {queues}");
        }
    }
    let app = json!({"new": [{"applicationID": "app-1", "queueName": "root.a", "ugi": {"user": "u"},
        "tags": {"namespace": "dev", "kubernetes.io/meta/note": "ü"}}]});
    let mut stream = server.stream("?after=0").await;
    server.send("POST", "/si/v1/rm/rm-1/applications", &app).await;
    while stream.next().await["application"]["accepted"].is_null() {}
    let (_, shown) = server.get("/api/v1/partition/default/application/app-1/explain").await;
    assert_eq!(shown["tags"], json!({"namespace": "dev", "kubernetes.io/meta/note": "ü"}), "{shown}");
}

#[tokio::test]
async fn what_helps_an_ask_whose_resource_manager_is_away_is_that_it_comes_back() {
    let server = Server::registered(&[("rm.gracePeriod", "1ms")]).await;
    server.until(|info| info["state"] == "Paused").await;
    server.nodes(&["n1"]).await;
    let app = json!({"applicationID": "app", "queueName": "root.a", "ugi": {"user": "u", "groups": ["g"]}});
    let ask = json!({"allocationKey": "k", "applicationID": "app", "resourcePerAlloc": {"resources": {"memory": {"value": 1}}}});
    for (kind, body) in [("applications", json!({"new": [app]})), ("allocations", json!({"allocations": [ask]}))] {
        assert_eq!(server.send("POST", &format!("/si/v1/rm/rm-1/{kind}"), &body).await.0, 202);
    }
    let path = "/api/v1/partition/default/application/app/explain";
    let told = common::answer(path, async || server.get(path).await.1, |told| !told["waiting"][0].is_null()).await;
    let (reason, remedy) = (&told["waiting"][0]["reason"], &told["waiting"][0]["advice"]["remedies"][0]);
    assert_eq!(
        (&reason["code"], &remedy["kind"], &remedy["who"]),
        (&json!("paused"), &json!("connect"), &json!("resourceManager")),
        "{told}"
    );
    // Where it is back, the ask is placed.
    let _stream = server.stream("?after=0").await;
    let path = "/ws/v1/partition/default/application/app";
    common::answer(path, async || server.get(path).await.1, |app| app["allocations"][0]["nodeId"] == "n1").await;
}
