//! Servers whose files were damaged, or cannot be used: what they say, where, and that drains hold.

use std::{
    fs,
    os::unix::{
        fs::{PermissionsExt as _, chown},
        process::CommandExt as _,
    },
    path::{Path, PathBuf},
};

use serde_json::{Value, json};

use crate::{
    common::{self, Program, command, serve},
    shim::server::Server,
    wired::rig::{end, until, with_data},
};

const STATUS: &str = "/api/v1/partition/default/resource/status";

/// Nobody in particular, who may write nothing of root's.
const NOBODY: u32 = 65_534;

async fn drain(server: &Server, what: &str, host: &str) -> (u16, Value) {
    let path = format!("/api/v1/partition/default/resource/{what}");
    server.send("POST", &path, &json!({"targets": host, "reason": "disk"})).await
}

/// Drained hosts.
async fn drained(server: &Server) -> Vec<String> {
    let status = server.get(STATUS).await.1;
    let entries = status["drained"].as_array().expect("a status").iter();
    entries.map(|entry| entry["nodelist"].as_str().expect("hosts").to_owned()).collect()
}

/// A session with three nodes, which are there when this ends.
async fn begin(server: &Server) {
    server.register("rm-1", &[("health.checkInterval", "1s")]).await;
    server.nodes(&["n1", "n2", "n3"]).await;
    until(server, STATUS, |status| status["online"]["nodelist"] == "n[1-3]").await;
}

fn journal(data: &Path) -> PathBuf {
    data.join("journal/%5Brm-1%5Ddefault")
}

/// A directory in which `n1` and `n2` are drained, and `n3` was. Its server was killed.
async fn with_drains() -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a directory");
    let mut server = with_data(dir.path());
    begin(&server).await;
    for (what, host) in [("drain", "n1"), ("drain", "n3"), ("drain", "n2"), ("undrain", "n3")] {
        assert_eq!(drain(&server, what, host).await, (200, json!({})));
    }
    server.program.kill();
    dir
}

/// The health check, when it was made and says this.
async fn health(server: &Server, healthy: bool) -> Value {
    let ask = async || {
        let answer = server.http.get(server.url("/ws/v1/scheduler/healthcheck")).send().await.expect("an answer");
        answer.json::<Value>().await.expect("JSON")
    };
    common::answer("health", ask, |health| health["Healthy"] == healthy).await
}

#[tokio::test]
async fn damage_of_a_journal_is_told_everywhere_until_an_operator_has_settled_it() {
    let dir = with_drains().await;
    let journal = journal(dir.path());
    let log = journal.join("resource.eventlog");
    let sound = fs::read_to_string(&log).expect("a log");
    let files = || fs::read_dir(&journal).expect("a directory").map(|file| file.expect("a file").path());
    let all: Vec<_> = files().map(|path| (path.clone(), fs::read(path).expect("read"))).collect();
    let damages: [(&str, &dyn Fn()); 4] = [
        ("line 2 damaged", &|| fs::write(&log, sound.replacen("n1", "n7", 1)).expect("written")),
        ("line 5 missing", &|| fs::write(&log, &sound[..sound.len() - 9]).expect("written")),
        ("resource.eventlog: missing", &|| fs::remove_file(&log).expect("removed")),
        ("resource.eventlog.copy: missing", &|| {
            fs::remove_file(journal.join("resource.eventlog.copy")).expect("removed");
        }),
    ];
    for (told, damage) in damages {
        // As it was before the server that looked at it wrote more.
        files().collect::<Vec<_>>().iter().for_each(|path| fs::remove_file(path).expect("removed"));
        all.iter().for_each(|(path, bytes)| fs::write(path, bytes).expect("written"));
        damage();

        let server = with_data(dir.path());
        assert!(server.program.log().contains(told), "{told}: {}", server.program.log());
        // Before anybody has registered.
        let found = health(&server, false).await;
        let checks = found["HealthChecks"].as_array().expect("checks");
        let check = checks.iter().find(|check| check["Name"] == "Resource journal").expect("the check");
        let diagnosis = check["DiagnosisMessage"].as_str().expect("a text");
        assert!(check["Succeeded"] == false && diagnosis.contains(told), "{told}: {diagnosis}");
        begin(&server).await;
        assert_eq!(drained(&server).await, ["n1", "n2"], "{told}");
        let status = server.get(STATUS).await.1;
        assert!(status["faults"].to_string().contains(told), "{told}: {}", status["faults"]);
        let scrape = server.get("/ws/v1/metrics").await.1;
        let metric = "callboard_resource_journal_faults{partition=\"default\"} ";
        let faults = scrape.as_str().and_then(|text| text.lines().find_map(|line| line.strip_prefix(metric)));
        assert!(faults.is_some_and(|count| count != "0"), "{told}: {faults:?}");
        // A plain reader finds nothing but lines of JSON.
        let lines = fs::read_to_string(&log).expect("a log");
        assert!(lines.lines().all(|line| serde_json::from_str::<Value>(line).is_ok()), "{lines}");
        assert!(lines.starts_with(&sound) && lines.ends_with('\n'), "{lines}");
        assert_eq!(end(server).await, Some(0));

        // It is told again by the next server, until somebody has looked.
        let server = with_data(dir.path());
        begin(&server).await;
        assert!(server.get(STATUS).await.1["faults"].to_string().contains(told), "{told}");
        fs::remove_file(journal.join("resource.damage")).expect("there");
        assert_eq!(server.get(STATUS).await.1["faults"], json!([]), "{told}");
        health(&server, true).await;
        assert_eq!(drained(&server).await, ["n1", "n2"], "{told}");
    }
}

/// What a start that fails says.
fn refused(args: &[&str]) -> String {
    refused_as(command(args))
}

fn refused_as(mut command: std::process::Command) -> String {
    let output = command.output().expect("it runs");
    assert!(!output.status.success() && output.stdout.is_empty(), "{output:?}");
    let text = String::from_utf8_lossy(&output.stderr);
    text.lines().last().unwrap_or_default().to_owned()
}

#[tokio::test]
async fn what_is_in_the_way_is_named_or_gone_around() {
    let dir = with_drains().await;
    // A clean end, so that all files are there: events are written in the background.
    let server = with_data(dir.path());
    begin(&server).await;
    assert_eq!(end(server).await, Some(0));
    let data = dir.path().to_str().expect("a path");
    let args = ["serve", "--data", data, "--http", "127.0.0.1:0", "--grpc", "off"];
    // A directory where a file should be, or the other way round: the start fails, and says which.
    for name in ["callboard.lock", "events/mark", "events/00000000000000000000.events", "events"] {
        let (path, aside) = (dir.path().join(name), dir.path().join("aside"));
        fs::rename(&path, &aside).expect("moved");
        if name == "events" { fs::write(&path, "") } else { fs::create_dir(&path) }.expect("made");
        let text = refused(&args);
        assert!(text.contains(path.to_str().expect("a path")) || text.contains(name), "{name}: {text}");
        if name == "events" { fs::remove_file(&path) } else { fs::remove_dir(&path) }.expect("removed");
        fs::rename(&aside, &path).expect("moved");
    }
    // In the journal it is gone around, and told.
    for name in ["resource.eventlog", "resource.eventlog.copy", "resource.R", "resource.R.copy"] {
        let path = journal(dir.path()).join(name);
        fs::remove_file(&path).expect("removed");
        fs::create_dir(&path).expect("made");
        let mut server = with_data(dir.path());
        begin(&server).await;
        assert_eq!(drained(&server).await, ["n1", "n2"], "{name}");
        let faults = server.get(STATUS).await.1["faults"].to_string();
        assert!(faults.contains(&format!("{name}: ")) && faults.contains("no drain or undrain is lost"), "{faults}");
        server.program.kill();
        fs::remove_file(journal(dir.path()).join("resource.damage")).expect("there");
    }
    // Without a place for it nothing more is drained, and the reason is told.
    let (journals, aside) = (dir.path().join("journal"), dir.path().join("aside"));
    fs::rename(&journals, &aside).expect("moved");
    fs::write(&journals, "").expect("written");
    let mut server = with_data(dir.path());
    begin(&server).await;
    let (status, problem) = drain(&server, "drain", "n3").await;
    assert!(status == 503 && problem["detail"].as_str().is_some_and(|text| text.contains("/journal/")), "{problem}");
    server.program.kill();
}

#[tokio::test]
async fn a_journal_of_a_later_release_is_in_force_and_left_alone() {
    let dir = with_drains().await;
    let copy = journal(dir.path()).join("resource.eventlog.copy");
    let title = "callboard copy of resource.eventlog, version 2";
    let later = format!("{title} {:08x}\nwhat nobody knows\n", crc32fast::hash(title.as_bytes()));
    fs::write(&copy, &later).expect("written");
    let mut server = with_data(dir.path());
    begin(&server).await;
    assert_eq!(drained(&server).await, ["n1", "n2"]);
    let (status, problem) = drain(&server, "drain", "n3").await;
    let text = problem["detail"].as_str().expect("a detail");
    assert!(status == 503 && text.contains("format version 2") && text.contains("start the release"), "{problem}");
    health(&server, false).await;
    server.program.kill();
    assert_eq!(fs::read_to_string(&copy).expect("there"), later);
}

/// The program as somebody who may not do everything.
fn as_nobody(args: &[&str], program: &Path) -> std::process::Command {
    let mut ordinary = serve(args);
    if nix::unistd::geteuid().is_root() {
        // Where this program lies others may not be able to go.
        let mut command = std::process::Command::new(program);
        command.args(ordinary.get_args()).uid(NOBODY).gid(NOBODY).current_dir("/");
        command.stdin(std::process::Stdio::null()).stdout(std::process::Stdio::piped());
        command.stderr(std::process::Stdio::piped());
        ordinary = command;
    }
    ordinary
}

#[tokio::test]
async fn files_that_may_not_be_read_or_written_are_named() {
    let root = nix::unistd::geteuid().is_root();
    let dir = with_drains().await;
    let apart = tempfile::tempdir().expect("a directory");
    let program = apart.path().join("program");
    fs::hard_link(env!("CARGO_BIN_EXE_callboard"), &program)
        .or_else(|_| fs::copy(env!("CARGO_BIN_EXE_callboard"), &program).map(drop))
        .expect("linked");
    let mode = |path: &Path, mode: u32| fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("changed");
    mode(apart.path(), 0o755);
    // Everything is nobody's, as a service's files are its own.
    let mut folders = vec![dir.path().to_owned()];
    let mut files = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a directory") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path.clone())
            } else {
                files.push(path.clone())
            }
            if root {
                chown(&path, Some(NOBODY), Some(NOBODY)).expect("changed");
            }
        }
    }
    if root {
        chown(dir.path(), Some(NOBODY), Some(NOBODY)).expect("changed");
    }
    let data = dir.path().to_str().expect("a path");
    let args = ["--data", data, "--grpc", "off"];
    let start = || {
        let program = Program::try_start(as_nobody(&args, &program)).expect("starts");
        Server { program, http: reqwest::Client::new() }
    };
    // A resource manager's log that cannot be read costs its session, and keeps no server from starting (`wired::restart`).
    let log = dir.path().join("log");
    for file in files.iter().filter(|file| file.parent() == Some(&log) || !file.starts_with(&log)) {
        let name = file.file_name().and_then(|name| name.to_str()).expect("a name");
        mode(file, 0);
        if *file == log.join("kept") {
            // It is only about names and settings, and keeps no server from starting. It is replaced.
            let mut server = start();
            begin(&server).await;
            assert_eq!(drained(&server).await, ["n1", "n2"]);
            server.program.kill();
            continue;
        }
        if file.starts_with(dir.path().join("journal")) {
            // It can be replaced, since the directory is its own.
            let mut server = start();
            begin(&server).await;
            assert_eq!(drained(&server).await, ["n1", "n2"], "{name}");
            let faults = server.get(STATUS).await.1["faults"].to_string();
            assert!(faults.contains(&format!("{name}: cannot be read: Permission denied")), "{faults}");
            server.program.kill();
            fs::remove_file(journal(dir.path()).join("resource.damage")).expect("there");
        } else {
            let text = refused_as(as_nobody(&args, &program));
            assert!(text.contains(name) && text.contains("Permission denied"), "{name}: {text}");
            mode(file, 0o600);
        }
    }
    // Directories in which nothing can be made.
    for (folder, names) in [(dir.path().join("events"), "events"), (dir.path().to_owned(), data)] {
        mode(&folder, 0);
        let text = refused_as(as_nobody(&args, &program));
        assert!(text.contains(names) && text.contains("Permission denied"), "{folder:?}: {text}");
        mode(&folder, 0o700);
    }
    mode(&journal(dir.path()), 0o500);
    let mut server = start();
    begin(&server).await;
    assert_eq!(drained(&server).await, ["n1", "n2"]);
    server.program.kill();
    mode(&journal(dir.path()), 0o700);
}

/// What operators drained and stopped is in the log of the session, too: files that are gone take nothing back.
#[tokio::test]
async fn drains_and_orders_outlive_their_files_where_the_session_goes_on() {
    let dir = with_drains().await;
    let mut server = with_data(dir.path());
    let stop = "/api/v1/partition/default/queue/root.a/stop";
    assert_eq!(server.send("POST", stop, &json!({"reason": "billing"})).await.0, 200);
    server.program.kill();
    let journal = journal(dir.path());
    for file in ["resource.eventlog", "resource.eventlog.copy", "queue.orders", "queue.orders.copy"] {
        fs::remove_file(journal.join(file)).expect("removed");
    }
    for start in 0..2 {
        let mut server = with_data(dir.path());
        until(&server, STATUS, |status| status["drained"].to_string().contains("n1")).await;
        let mut hosts = drained(&server).await.join(",");
        hosts.retain(|letter| !"[]".contains(letter));
        assert!(matches!(&*hosts, "n1,n2" | "n1-2"), "{hosts}");
        let queue = server.get("/api/v1/partition/default/queue/root.a").await.1;
        assert_eq!(queue["order"]["reason"], "billing", "{queue}");
        let faults = server.get(STATUS).await.1["faults"].to_string();
        for told in ["resource.eventlog and its copy are missing", "queue.orders and its copy are missing"] {
            assert!(faults.contains(told), "{start}: {faults}");
        }
        health(&server, false).await;
        server.program.kill();
    }
    fs::remove_file(journal.join("resource.damage")).expect("it is there");
    let server = with_data(dir.path());
    health(&server, true).await;
    assert_eq!(server.get(STATUS).await.1["faults"], json!([]));
    for file in ["resource.eventlog", "resource.eventlog.copy", "queue.orders", "queue.orders.copy"] {
        assert!(journal.join(file).exists(), "{file} is there again");
    }
}

/// As long as files cannot be read, what the log of the session knows holds; when they can, they are.
#[tokio::test]
async fn drains_and_orders_hold_while_their_files_cannot_be_read() {
    let dir = with_drains().await;
    let mut server = with_data(dir.path());
    let stop = "/api/v1/partition/default/queue/root.a/stop";
    assert_eq!(server.send("POST", stop, &json!({"reason": "billing"})).await.0, 200);
    server.program.kill();
    let journal = journal(dir.path());
    let files = ["resource.eventlog", "resource.eventlog.copy", "queue.orders", "queue.orders.copy"];
    for file in files {
        fs::rename(journal.join(file), dir.path().join(file)).expect("moved");
        fs::create_dir(journal.join(file)).expect("made");
    }
    let server = with_data(dir.path());
    let nodes = async || {
        let all = server.get("/ws/v1/partition/default/nodes").await.1;
        let of = |node: &Value| (node["nodeID"].to_string(), node["schedulable"] == true);
        all.as_array().expect("nodes").iter().map(of).collect::<std::collections::BTreeMap<_, _>>()
    };
    let expected =
        [("\"n1\"", false), ("\"n2\"", false), ("\"n3\"", true)].map(|(id, free)| (id.to_owned(), free)).into();
    health(&server, false).await;
    assert_eq!(nodes().await, expected);
    assert_eq!(server.get("/api/v1/partition/default/queue/root.a").await.1["order"]["reason"], "billing");
    assert_eq!(drain(&server, "drain", "n3").await.0, 503);
    for file in files {
        fs::remove_dir(journal.join(file)).expect("removed");
        fs::rename(dir.path().join(file), journal.join(file)).expect("moved");
    }
    health(&server, true).await;
    assert_eq!(nodes().await, expected);
    assert_eq!(server.get("/api/v1/partition/default/queue/root.a").await.1["order"]["reason"], "billing");
    assert_eq!(drain(&server, "drain", "n3").await, (200, json!({})));
    assert_eq!(server.get(STATUS).await.1["faults"], json!([]));
}

/// The end of a log is missed also where nobody else knows what was in it.
#[tokio::test]
async fn a_log_that_lost_its_end_in_both_files_is_told() {
    let dir = with_drains().await;
    fs::remove_dir_all(dir.path().join("log")).expect("removed");
    let journal = journal(dir.path());
    for file in ["resource.eventlog", "resource.eventlog.copy"] {
        fs::remove_file(journal.join(file)).expect("removed");
    }
    let server = with_data(dir.path());
    begin(&server).await;
    let faults = server.get(STATUS).await.1["faults"].to_string();
    assert!(faults.contains("at their end") && faults.contains("may be lost"), "{faults}");
}

/// What a journal lacks at its end, and the session knows, holds.
#[tokio::test]
async fn drains_outlive_the_end_of_their_log_where_the_session_goes_on() {
    let dir = with_drains().await;
    let journal = journal(dir.path());
    for file in ["resource.eventlog", "resource.eventlog.copy"] {
        let text = fs::read_to_string(journal.join(file)).expect("a log");
        let end = text.match_indices('\n').rev().nth(2).expect("lines").0;
        fs::write(journal.join(file), &text[..=end]).expect("written");
    }
    for _ in 0..2 {
        let mut server = with_data(dir.path());
        // The undrain of n3 is lost, too; that a node is drained is what does no harm.
        let nodes = |all: &Value| {
            all.as_array().is_some_and(|all| all.len() == 3 && all.iter().all(|node| node["schedulable"] == false))
        };
        until(&server, "/ws/v1/partition/default/nodes", nodes).await;
        let faults = server.get(STATUS).await.1["faults"].to_string();
        for told in
            ["lack 2 lines at their end", "may be lost", "the log of the session knows 1 host that operators drained"]
        {
            assert!(faults.contains(told), "{told}: {faults}");
        }
        health(&server, false).await;
        server.program.kill();
    }
    fs::remove_file(journal.join("resource.damage")).expect("it is there");
    let server = with_data(dir.path());
    assert_eq!(drain(&server, "undrain", "n2").await, (200, json!({})));
    assert_eq!(server.get(STATUS).await.1["faults"], json!([]));
}

/// A journal that is gone as a whole is told as long as damage is: until an operator has settled it.
#[tokio::test]
async fn a_journal_that_is_gone_is_told_until_an_operator_has_settled_it() {
    for gone in ["journal", "journal/%5Brm-1%5Ddefault"] {
        let dir = with_drains().await;
        fs::remove_dir_all(dir.path().join(gone)).expect("removed");
        for start in 0..2 {
            let mut server = with_data(dir.path());
            health(&server, false).await;
            until(&server, STATUS, |status| status["faults"].to_string().contains("are missing")).await;
            let faults = server.get(STATUS).await.1["faults"].to_string();
            assert!(!faults.contains("No such file"), "{start}: {faults}");
            assert!(journal(dir.path()).join("resource.damage").exists(), "{start}");
            let shown = command(&["status", "--server", &server.url("")]).output().expect("it runs");
            let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
            assert!(shown.contains("default: resource journal: ") && shown.contains("are missing"), "{shown}");
            let overview = server.get("/api/v1/overview").await.1;
            assert!(overview["partitions"][0]["faults"].to_string().contains("are missing"), "{overview}");
            server.program.kill();
        }
        fs::remove_file(journal(dir.path()).join("resource.damage")).expect("it is there");
        let server = with_data(dir.path());
        health(&server, true).await;
        assert!(!drained(&server).await.is_empty());
        assert!(server.get("/api/v1/overview").await.1["partitions"][0].get("faults").is_none());
    }
}

#[tokio::test]
async fn a_data_directory_that_goes_under_a_running_server_is_told_until_it_is_back() {
    let dir = tempfile::tempdir().expect("a directory");
    let (data, aside) = (dir.path().join("data"), dir.path().join("aside"));
    let server = with_data(&data);
    begin(&server).await;
    let told = async |healthy| {
        let shown = health(&server, healthy).await;
        let all = shown["HealthChecks"].as_array().expect("checks").iter();
        let failed = all.filter(|check| check["Succeeded"] == false);
        failed.map(|check| format!("{}: {}", check["Name"], check["DiagnosisMessage"])).collect::<Vec<_>>().join("\n")
    };
    assert_eq!(told(true).await, "");
    fs::rename(&data, &aside).expect("moved");
    let gone = told(false).await;
    assert!(gone.contains("Data directory") && gone.contains("data: gone while the server uses it"), "{gone}");
    fs::rename(&aside, &data).expect("moved");
    assert_eq!(told(true).await, "");
    // A segment of a log, which is written on.
    fs::remove_dir_all(data.join("log/rm-1")).expect("removed");
    let gone = told(false).await;
    assert!(gone.contains("Data directory") && gone.contains("log/rm-1/"), "{gone}");
}
