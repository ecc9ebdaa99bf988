//! `POST /api/v1/plan` and `callboard plan`: what a configuration would do, and that asking does nothing.

use std::fs;

use serde_json::{Value, json};

use crate::{
    shim::server::{CONFIG, Server, command},
    wired::rig::{application, asks},
};

const NEW: &str = "partitions:\n  - name: default\n    queues:\n      - name: root\n        submitacl: nobody\n        queues:\n          \
                   - name: a\n            submitacl: v\n            resources: {max: {memory: 15}}\n          - name: b\n  - name: second\n    \
                   queues: []\n";

/// `rm-1` with an application of `u` in `root.a` that uses 20 of memory.
async fn busy() -> Server {
    let server = Server::registered(&[]).await;
    server.nodes(&["n1"]).await;
    application(&server, "app-1").await;
    asks(&server, "app-1", &["k1"], 20).await;
    let mut stream = server.stream("?after=0").await;
    while stream.next().await["allocation"]["new"][0]["allocationKey"] != "k1" {}
    server
}

async fn plan(server: &Server, query: &str, text: &str) -> (u16, Value) {
    server.send_text("POST", &format!("/api/v1/plan{query}"), text, "application/yaml").await
}

/// Everything that shows the configuration and the queues.
async fn state(server: &Server) -> Vec<Value> {
    let mut state = Vec::new();
    for path in ["/ws/v1/config", "/ws/v1/partition/default/queues", "/ws/v1/partitions", "/ws/v1/events/batch"] {
        state.push(server.get(path).await.1);
    }
    state
}

#[tokio::test]
async fn a_plan_tells_everything_and_touches_nothing() {
    let server = busy().await;
    let before = state(&server).await;
    let (status, body) = plan(&server, "", NEW).await;
    assert_eq!((status, &body["rmID"], &body["unchanged"]), (200, &json!("rm-1"), &json!(false)), "{body}");
    let [first, second] = &body["partitions"].as_array().expect("a list")[..] else { panic!("{body}") };
    assert_eq!(
        (&first["partition"], &first["change"], &first["settings"]),
        (&json!("default"), &json!("kept"), &json!([]))
    );
    assert_eq!(
        first["queues"],
        json!([
            {"queueName": "root", "change": "changed", "applications": 0,
             "settings": [{"setting": "submitacl", "from": "*", "to": "nobody"}]},
            {"queueName": "root.a", "change": "changed", "applications": 1, "settings": [
                {"setting": "resources.max.memory", "from": null, "to": "15"}, {"setting": "submitacl", "from": null, "to": "v"}]},
            {"queueName": "root.b", "change": "added", "applications": 0,
             "settings": [{"setting": "parent", "from": null, "to": "false"}]},
        ])
    );
    let reason = "failed to place application app-1: application rejected: no placement rule matched";
    let app =
        json!({"applicationID": "app-1", "queueName": "root.a", "user": "u", "state": "Running", "reason": reason});
    assert_eq!(first["applications"], json!([app]));
    assert_eq!(first["exceeded"], json!([{"queueName": "root.a", "what": "memory", "limit": 15, "used": 20}]));
    assert_eq!((&second["partition"], &second["change"]), (&json!("second"), &json!("added")));
    // One that goes.
    let (_, body) = plan(&server, "?rm=rm-1", "partitions: []").await;
    assert_eq!(body["partitions"][0]["change"], "removed");
    assert_eq!(body["partitions"][0]["applications"][0]["reason"], "its partition would be removed");
    // CFG-093
    let (_, body) = plan(&server, "", CONFIG).await;
    assert_eq!((&body["unchanged"], &body["partitions"]), (&json!(true), &json!([])));
    assert_eq!(state(&server).await, before);
    // What was told is what happens.
    let update = json!({"rmID": "rm-1", "config": NEW});
    assert_eq!(server.send("PUT", "/si/v1/rm/rm-1/configuration", &update).await.0, 200);
    let (_, queues) = server.get("/ws/v1/partition/default/queues").await;
    assert_eq!(
        (&queues["children"][0]["maxResource"]["memory"], &queues["children"][1]["queuename"]),
        (&json!(15), &json!("root.b"))
    );
}

#[tokio::test]
async fn bad_requests_say_what_is_wrong() {
    let server = Server::start(&[]);
    let (status, problem) = plan(&server, "", NEW).await;
    assert_eq!(
        (status, problem["detail"].as_str()),
        (404, Some("no resource manager is registered: there is nothing to compare with"))
    );
    server.register("rm-1", &[]).await;
    let before = state(&server).await;
    // All faults with their places.
    let text = "partitions:\n  - queues:\n      - name: a b\n      - name: c\n        submitacl: a  b\n";
    let (status, problem) = plan(&server, "", text).await;
    assert_eq!((status, &problem["field"]), (400, &json!("config")));
    let places: Vec<_> =
        problem["errors"].as_array().expect("errors").iter().map(|e| (&e["line"], &e["column"], &e["rule"])).collect();
    assert_eq!(places, [(&json!(3), &json!(15), &json!("CFG-020")), (&json!(5), &json!(20), &json!("CFG-031"))]);
    let rules = "partitions: [{queues: [], placementrules: [{name: nosuch}]}]";
    assert_eq!(plan(&server, "", rules).await.1["errors"][0]["rule"], "CFG-098");
    for (query, status, detail) in [
        ("?rm=nobody", 404, "resource manager \"nobody\" is not registered; there are: rm-1"),
        ("?x=1", 400, "unknown query parameter x=1; known: rm"),
    ] {
        let (answer, problem) = plan(&server, query, NEW).await;
        assert_eq!((answer, problem["detail"].as_str()), (status, Some(detail)), "{query}");
    }
    assert_eq!(server.get("/api/v1/plan").await.0, 405);
    assert_eq!(state(&server).await, before);
    server.register("rm-2", &[]).await;
    let (status, problem) = plan(&server, "", NEW).await;
    assert_eq!((status, &problem["field"]), (400, &json!("rm")), "{problem}");
    assert_eq!(plan(&server, "?rm=rm-2", NEW).await.1["rmID"], "rm-2");
}

/// Runs `callboard plan`; gives its exit status and what it prints, where the file is called FILE.
async fn run(server: &Server, text: &str, more: &[&str]) -> (i32, String, String) {
    let file = tempfile::NamedTempFile::new().expect("a file");
    fs::write(file.path(), text).expect("written");
    let (path, url) = (file.path().display().to_string(), server.url(""));
    let output = command(&[&["plan", "--config", &path, "--server", &url], more].concat()).output().expect("runs");
    let shown = |bytes: &[u8]| String::from_utf8_lossy(bytes).replace(&path, "FILE").replace(&url, "URL");
    (output.status.code().expect("it ended by itself"), shown(&output.stdout), shown(&output.stderr))
}

#[tokio::test]
async fn the_command_prints_a_table_and_tells_by_its_status() {
    let server = busy().await;
    let (status, out, err) = run(&server, NEW, &[]).await;
    let table = "\
partition default would change
  changed   root
            submitacl: * → nobody
  changed   root.a  1 application
            resources.max.memory: – → 15
            submitacl: – → v
  added     root.b
            parent: – → false
applications that would not be admitted
  app-1  root.a  u  Running  failed to place application app-1: application rejected: no placement rule matched
quotas that would stand below usage
  root.a  memory 15, used 20
partition second would be added
";
    assert!(out.starts_with(table) && err.is_empty() && status == 3, "{status}\n{out}{err}");
    let last = "rm-1: 4 queues differ, 1 application would not be admitted, 1 quota would stand below usage\n";
    assert!(out.ends_with(last), "{out}");
    let (status, out, _) = run(&server, CONFIG, &[]).await;
    assert_eq!((status, out.as_str()), (0, "rm-1: this configuration is in force, nothing would change\n"));
    let (status, out, _) = run(&server, &format!("{CONFIG}          - name: b\n"), &[]).await;
    assert!(status == 0 && out.contains("added     root.b"), "{status} {out}");
    let many: String = (0..6_000).map(|n| format!("          - name: q{n}\n")).collect();
    let (status, out, _) = run(&server, &format!("{CONFIG}{many}"), &[]).await;
    assert!(status == 0 && out.contains(" more queues, applications and quotas, which the server does not list\n"));
    let (status, out, _) = run(&server, NEW, &["--json", "--rm", "rm-1"]).await;
    let plan: Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!((status, &plan["rmID"]), (3, &json!("rm-1")));
}

#[tokio::test]
async fn the_command_tells_refusals_from_failures() {
    let server = Server::registered(&[]).await;
    let text = "partitions:\n  - queues:\n      - name: a b\n      - name: c\n        submitacl: a  b\n";
    let (status, out, err) = run(&server, text, &[]).await;
    let lines: Vec<_> = out.lines().collect();
    assert!(status == 1 && lines.len() == 2 && err.is_empty(), "{status} {out} {err}");
    assert!(lines[0].starts_with("FILE:3:15: CFG-020: ") && lines[1].starts_with("FILE:5:20: CFG-031: "), "{out}");
    let (status, out, _) = run(&server, text, &["--json"]).await;
    let problem: Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!((status, problem["errors"].as_array().map(Vec::len)), (1, Some(2)));
    let (status, out, err) = run(&server, CONFIG, &["--rm", "rm 9"]).await;
    assert_eq!((status, out.as_str()), (2, ""));
    assert_eq!(err, "callboard: resource manager \"rm 9\" is not registered; there are: rm-1\n");
    let failed = |file: &str, server: &str| {
        let output = command(&["plan", "--config", file, "--server", server]).output().expect("runs");
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    // What a write that was cut leaves is no plan: a server that reads it again refuses it.
    for nothing in ["", "# none\n"] {
        let (status, out, err) = run(&server, nothing, &[]).await;
        assert!(status == 1 && out.is_empty() && err.starts_with("callboard: FILE: there is nothing in it"), "{err}");
    }
    let file = tempfile::NamedTempFile::new().expect("a file");
    fs::write(file.path(), CONFIG).expect("written");
    let (status, err) = failed(&file.path().display().to_string(), "http://127.0.0.1:9");
    assert!(
        status == Some(2) && err.contains("http://127.0.0.1:9 cannot be reached (--server names another)"),
        "{err}"
    );
    let (status, err) = failed("/no/such/file", &server.url(""));
    assert!(status == Some(2) && err.contains("/no/such/file: cannot be read"), "{err}");
}
