//! The group resolver `ldap` with a real directory server, and submissions that wait for it (ACL-045, ACL-046, SEEDS S15).
//! Without Debian's package `slapd` these tests say that they are skipped, and fail where `CI` is `true`.

mod slapd;

use std::{net::TcpListener, path::Path, sync::Arc};

use callboard::actors::resolvers::ldap::look_up;
use serde_json::{Value, json};

use crate::{
    common,
    ldap::slapd::{PASSWORD, Slapd, installed, secrets},
    shim::server::{Lines, Server},
};

/// What is found of these users: groups, or why not.
fn found(dir: &Path, users: &[&str]) -> Vec<String> {
    let users: Vec<Arc<str>> = users.iter().map(|user| Arc::from(*user)).collect();
    let answers = look_up(dir, &users).answers.into_iter().map(|answer| match answer {
        Ok(groups) => groups.join("|"),
        Err(why) => why.to_string(),
    });
    let answers: Vec<String> = answers.collect();
    assert!(!answers.iter().any(|answer| answer.contains(PASSWORD)), "a secret is told: {answers:?}");
    answers
}

#[test]
fn groups_of_a_directory() {
    let Some(program) = installed("groups_of_a_directory") else { return };
    let slapd = Slapd::start(&program, None).expect("without TLS it always starts");
    let dir = secrets(slapd.port, &[]);
    let url = format!("ldap://127.0.0.1:{}", slapd.port);
    assert_eq!(
        found(dir.path(), &["alice", "bob", "carol"]),
        ["alice|dev|data, science", "bob|ops|odd", "carol"],
        "the user first, then its groups in the order of the directory"
    );
    // The name is escaped: a star finds the user of that name alone, a parenthesis breaks nothing.
    let none = |user: &str| {
        format!("groups of user '{user}' not found: directory {url} has no such user below 'dc=example,dc=org'")
    };
    assert_eq!(
        found(dir.path(), &["a*", "star*", "x)(uid=alice", "nobody", "alice"]),
        [none("a*"), "star*|dev".into(), none("x)(uid=alice"), none("nobody"), "alice|dev|data, science".into()]
    );
    // The attribute is the configured one, in any case, asked for where ReturnAttr leaves it out.
    let other = secrets(slapd.port, &[("GroupAttr", "MEMBEROF"), ("ReturnAttr", "sn")]);
    assert_eq!(found(other.path(), &["bob"]), ["bob|ops|odd"]);
    let other = secrets(slapd.port, &[("GroupAttr", "sn")]);
    assert_eq!(found(other.path(), &["bob"]), ["bob"]);
    // What the directory refuses is told with its reason.
    let wrong = secrets(slapd.port, &[("BindPassword", "wrong")]);
    let told = &found(wrong.path(), &["alice"])[0];
    assert!(told.contains(&format!("directory {url}: cannot bind as 'cn=reader,dc=example,dc=org'")), "{told}");
    assert!(told.contains("invalidCredentials"), "{told}");
    let wrong = secrets(slapd.port, &[("BaseDN", "dc=nowhere")]);
    let told = &found(wrong.path(), &["alice"])[0];
    assert!(told.contains("cannot search below 'dc=nowhere'") && told.contains("noSuchObject"), "{told}");
    let wrong = secrets(slapd.port, &[("Filter", "(&(uid=%s)(cn)=)")]);
    assert!(found(wrong.path(), &["alice"])[0].contains("filter parse error"));
    // It is gone.
    drop(slapd);
    let told = &found(dir.path(), &["alice"])[0];
    assert!(told.contains(&format!("directory {url}: cannot connect: ")) && told.contains("refused"), "{told}");
}

#[test]
fn groups_over_tls() {
    let Some(program) = installed("groups_over_tls") else { return };
    let Some(slapd) = Slapd::start(&program, Some("groups_over_tls")) else { return };
    let tls =
        |host: &str, insecure: &str| secrets(slapd.port, &[("SSL", "true"), ("Insecure", insecure), ("Host", host)]);
    // Nobody vouches for the certificate.
    let told = &found(tls("localhost", "false").path(), &["alice"])[0];
    assert!(told.contains("cannot connect") && told.to_lowercase().contains("certificate"), "{told}");
    assert_eq!(found(tls("localhost", "true").path(), &["alice"]), ["alice|dev|data, science"]);
    assert_eq!(found(tls("127.0.0.1", "true").path(), &["bob"]), ["bob|ops|odd"]);
    assert!(slapd.certificate().is_file());
}

const CONFIG: &str = "partitions:\n  - name: default\n    usergroupresolver: {type: ldap}\n    queues:\n      - name: root\n        queues:\n          \
                      - name: a\n            submitacl: ' dev'\n";

/// A server with these settings, and `rm-1` registered.
async fn registered(dir: &Path) -> Server {
    let server = Server::start(&["--ldap-secrets", &dir.display().to_string()]);
    let (status, body) = server.send("POST", "/si/v1/rm", &json!({"rmID": "rm-1", "config": CONFIG})).await;
    assert_eq!(status, 200, "{body}");
    server
}

async fn submit(server: &Server, apps: &[(&str, Value)]) {
    let app = |(id, ugi): &(&str, Value)| json!({"applicationID": id, "queueName": "root.a", "partitionName": "default", "ugi": ugi});
    let body = json!({"new": apps.iter().map(app).collect::<Vec<_>>()});
    let (status, body) = server.send("POST", "/si/v1/rm/rm-1/applications", &body).await;
    assert_eq!(status, 202, "{body}");
}

/// The next line about applications.
async fn answer(stream: &mut Lines) -> Value {
    loop {
        let line = stream.next().await;
        if line["application"].is_object() {
            return line;
        }
    }
}

#[tokio::test]
async fn submissions_are_admitted_by_the_groups_of_the_directory() {
    let test = "submissions_are_admitted_by_the_groups_of_the_directory";
    let Some(program) = installed(test) else { return };
    let slapd = Slapd::start(&program, None).expect("without TLS it always starts");
    let dir = secrets(slapd.port, &[]);
    let server = registered(dir.path()).await;
    let mut stream = server.stream("?after=0").await;
    let user = |name: &str| json!({"user": name});
    submit(&server, &[("one", user("alice")), ("two", user("bob")), ("three", user("eve"))]).await;
    let line = answer(&mut stream).await;
    assert_eq!(line["application"]["accepted"], json!([{"applicationID": "one"}]), "{line}");
    let rejected = |line: &Value| {
        let list = line["application"]["rejected"].as_array().cloned().unwrap_or_default();
        let told =
            |entry: &Value| format!("{}: {}", entry["applicationID"].as_str().unwrap_or_default(), entry["reason"]);
        list.iter().map(told).collect::<Vec<_>>()
    };
    let told = rejected(&line);
    assert!(told[0].starts_with("two: ") && told[0].contains("no placement rule matched"), "{told:?}");
    assert!(told[1].starts_with("three: ") && told[1].contains("has no such user"), "{told:?}");
    // Answers are kept: with the directory gone the known go on, a failure is told from the cache, others fail.
    drop(slapd);
    submit(&server, &[("four", user("alice")), ("five", user("eve")), ("six", user("carol"))]).await;
    let line = answer(&mut stream).await;
    assert_eq!(line["application"]["accepted"], json!([{"applicationID": "four"}]), "{line}");
    let told = rejected(&line);
    assert!(
        told[0].contains("five: ") && told[0].contains("user resolution failed, cached data returned: "),
        "{told:?}"
    );
    assert!(told[1].contains("six: ") && told[1].contains("cannot connect"), "{told:?}");
    // Groups that come with a submission need nobody.
    submit(&server, &[("seven", json!({"user": "carol", "groups": ["dev"]}))]).await;
    assert_eq!(answer(&mut stream).await["application"]["accepted"], json!([{"applicationID": "seven"}]));
}

#[tokio::test]
async fn a_silent_directory_holds_up_nothing_else() {
    // It takes connections and says nothing.
    let silent = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let dir = secrets(silent.local_addr().expect("bound").port(), &[]);
    let server = registered(dir.path()).await;
    let mut stream = server.stream("?after=0").await;
    submit(&server, &[("known", json!({"user": "u", "groups": ["dev"]}))]).await;
    assert_eq!(answer(&mut stream).await["application"]["accepted"], json!([{"applicationID": "known"}]));
    server.nodes(&["n1"]).await;
    let drain = json!({"targets": "n1", "reason": "disk", "overwrite": 1});
    // Its journal has to hear of it first.
    let drains = async || server.send("POST", "/api/v1/partition/default/resource/drain", &drain).await.0 < 300;
    common::until(drains).await;
    let undrain = json!({"targets": "n1"});
    let (status, body) = server.send("POST", "/api/v1/partition/default/resource/undrain", &undrain).await;
    assert!(status < 300, "{status} {body}");
    submit(&server, &[("waits", json!({"user": "alice"}))]).await;
    // Reads, plans and another resource manager are answered meanwhile: before the directory's time is over.
    let meanwhile = async {
        assert_eq!(server.get("/ws/v1/partition/default/queues").await.0, 200);
        assert_eq!(server.get("/api/v1/partition/default/demand").await.0, 200);
        // What operators say holds at once.
        assert!(server.send("POST", "/api/v1/partition/default/resource/drain", &drain).await.0 < 300);
        let (_, nodes) = server.get("/ws/v1/partition/default/nodes").await;
        assert_eq!(nodes[0]["schedulable"], false, "{nodes}");
        server.register("rm-2", &[]).await;
    };
    let line = match futures::future::select(Box::pin(meanwhile), Box::pin(answer(&mut stream))).await {
        futures::future::Either::Left(((), answered)) => answered.await,
        futures::future::Either::Right((line, _)) => panic!("they waited for the directory: {line}"),
    };
    let told = line["application"]["rejected"][0]["reason"].as_str().unwrap_or_default();
    assert!(told.contains("cannot bind") && told.contains("no answer within 5s"), "{line}");
    // It is left alone for a while: the next user does not make everybody wait again.
    submit(&server, &[("other", json!({"user": "bob"}))]).await;
    let line = answer(&mut stream).await;
    let told = line["application"]["rejected"][0]["reason"].as_str().unwrap_or_default();
    assert!(told.starts_with("groups of user 'bob' not found: ") && told.contains("it is asked again in "), "{line}");
}

#[tokio::test]
async fn who_waits_for_something_needs_no_credits_of_the_shim() {
    let silent = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let (dir, data) = (secrets(silent.local_addr().expect("bound").port(), &[]), tempfile::tempdir().expect("made"));
    let [dir, data] = [&dir, &data].map(|dir| dir.path().display().to_string());
    let server = Server::start(&["--data", &data, "--ldap-secrets", &dir]);
    let one = json!({"rmID": "rm-1", "config": CONFIG, "extraConfig": {"rm.itemsInFlight": "1"}});
    let (status, body) = server.send("POST", "/si/v1/rm", &one).await;
    assert_eq!(status, 200, "{body}");
    server.nodes(&["n1"]).await;
    let waits = async {
        let nothing = json!({"new": []});
        // The only credit is that of the submission which waits for the directory.
        common::until(async || server.send("POST", "/si/v1/rm/rm-1/applications", &nothing).await.0 == 429).await;
        let (_, waited) = server.get("/api/v1/partition/default/node/n1/wait?for=empty&timeout=1s").await;
        assert_eq!(waited["met"], true, "{waited}");
    };
    futures::future::join(submit(&server, &[("one", json!({"user": "alice"}))]), waits).await;
}

#[tokio::test]
async fn a_submission_whose_partition_goes_while_it_waits_is_rejected() {
    let silent = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let dir = secrets(silent.local_addr().expect("bound").port(), &[]);
    let server = registered(dir.path()).await;
    let mut stream = server.stream("?after=0").await;
    submit(&server, &[("waits", json!({"user": "alice"}))]).await;
    submit(&server, &[("behind", json!({"user": "u", "groups": ["dev"]}))]).await;
    let other = CONFIG.replace("name: default", "name: other");
    let (status, body) = server.send("PUT", "/si/v1/rm/rm-1/configuration", &json!({"config": other})).await;
    assert_eq!(status, 200, "{body}");
    let mut rejected = Vec::new();
    while rejected.len() < 2 {
        let line = answer(&mut stream).await;
        let list = line["application"]["rejected"].as_array().cloned().unwrap_or_default();
        rejected.extend(list.iter().map(|entry| entry["applicationID"].as_str().unwrap_or_default().to_owned()));
    }
    assert_eq!(rejected, ["waits", "behind"]);
}

/// What a server logs with these settings when `rm-1` registers, up to the line that says so.
async fn logged(dir: &Path, until: &str) -> String {
    let config = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(config.path(), CONFIG).expect("written");
    let (config, dir) = (config.path().display().to_string(), dir.display().to_string());
    let server = Server::start(&["--grpc", "off", "--config", &config, "--ldap-secrets", &dir]);
    let (status, body) = server.send("POST", "/si/v1/rm", &json!({"rmID": "rm-1"})).await;
    assert_eq!(status, 200, "{body}");
    common::until(async || server.program.log().contains(until)).await;
    server.program.log()
}

#[tokio::test]
async fn bad_settings_are_told_at_once_and_secrets_never() {
    let dir = secrets(0, &[]);
    let log = logged(dir.path(), "usergroupresolver ldap: ").await;
    assert!(log.contains("LDAP setting Port in") && log.contains("is '0': it has to be a number"), "{log}");
    assert!(!log.contains(PASSWORD), "{log}");
}
