//! What the commands that ask a running server print, held to snapshots (`tests/fixtures/cli`; `WRITE_SNAPSHOTS=1` writes them
//! anew). Ages are left out of them.

use std::{
    env, fs,
    io::Read as _,
    path::Path,
    process::{Command, Stdio},
};

use super::{cluster::busy, server::Server};
use crate::common::skip;

/// Runs the program; gives its exit status, what it printed, and its errors.
fn run(server: &str, words: &[&str], vars: &[(&str, &str)]) -> (i32, String, String) {
    let mut program = Command::new(env!("CARGO_BIN_EXE_callboard"));
    program.args(words).env_remove("CALLBOARD_SERVER").env("HOME", "/nonexistent").env_remove("XDG_CONFIG_HOME");
    if !server.is_empty() {
        program.args(["--server", server]);
    }
    let done = program.envs(vars.iter().copied()).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (done.status.code().unwrap(), text(done.stdout), text(done.stderr))
}

/// Without ages, and without the spaces that they make.
fn steady(text: &str) -> String {
    let mut lines = String::new();
    for line in text.lines() {
        let mut words: Vec<&str> = Vec::new();
        for cell in line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()) {
            let digits = cell.trim_end_matches(['s', 'm', 'h', 'd']);
            let age = digits.len() + 1 == cell.len() && digits.bytes().all(|byte| byte.is_ascii_digit());
            words.push(if age { "AGE" } else { cell });
        }
        lines.push_str(words.join("  ").trim_end());
        lines.push('\n');
    }
    lines
}

fn snapshot(name: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/cli").join(format!("{name}.txt"));
    if env::var_os("WRITE_SNAPSHOTS").is_some() {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
    }
    let there = fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(text, there, "{name}: WRITE_SNAPSHOTS=1 writes it anew");
}

#[tokio::test]
async fn lists() {
    let mut server = Server::start();
    busy(&mut server).await;
    let url = server.address().to_owned();
    for (name, words) in [
        ("status", &["status"][..]),
        ("apps", &["apps", "--sort", "application"]),
        ("apps-wide", &["apps", "--user", "alice", "-o", "wide"]),
        ("apps-waiting", &["apps", "--waiting", "--reason", "userQuota", "-o", "name"]),
        ("queues", &["queues"]),
        ("queues-below", &["queues", "--queue", "root.prod", "-o", "wide"]),
        ("nodes", &["nodes", "--sort", "-node"]),
        ("nodes-none", &["nodes", "--state", "drained"]),
        ("rms", &["rms", "-o", "name"]),
    ] {
        let (status, out, err) = run(&url, words, &[("NO_COLOR", "1")]);
        assert_eq!((status, &*err), (0, ""), "{words:?}");
        snapshot(name, &steady(&out));
    }
    let (_, json, _) = run(&url, &["apps", "-o", "json", "--state", "running"], &[]);
    let apps: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert!(apps.as_array().unwrap().iter().all(|app| app["state"] == "Running") && json.contains("calm"), "{json}");
    let (_, yaml, _) = run(&url, &["rms", "-o", "yaml"], &[]);
    assert!(yaml.contains("rmID: \"rm-1\"\n") && yaml.contains("- buffered: "), "{yaml}");
}

#[tokio::test]
async fn errors_name_the_way_out() {
    let server = Server::start();
    let url = &server.url;
    for (words, expected) in [
        (
            &["apps"][..],
            "callboard: partition 'default' not found; there are none: no resource manager is registered (callboard status tells more)\n",
        ),
        (
            &["why", "app"],
            "callboard: partition 'default' not found; there are none: no resource manager is registered (callboard status tells more)\n",
        ),
        (
            &["status", "--sort", "size"],
            "callboard: there is no column 'size' to sort by; there are: partition, state, rm, rm-state, nodes, drained, apps, \
             allocations, used, waiting, pending, rm-why\n",
        ),
    ] {
        assert_eq!(run(url, words, &[]), (1, String::new(), expected.to_owned()), "{words:?}");
    }
    let (status, _, err) = run("127.0.0.1:1", &["nodes"], &[]);
    assert!(
        status == 1 && err.starts_with("callboard: 127.0.0.1:1 cannot be reached (--server names another): "),
        "{err}"
    );
    let (status, _, err) = run("", &["nodes", "--context", "prod"], &[]);
    assert!(status == 2 && err.ends_with("/config.toml has no context 'prod'; it has none\n"), "{err}");
    let (status, out, err) = run("", &["log", "info", "--data", "/no/such/directory"], &[]);
    assert_eq!((status, &*out), (1, ""));
    assert!(err.starts_with("callboard: --data /no/such/directory: its logs cannot be read: "), "{err}");
    let (status, out, err) = run(url, &["events", "--object", "nobody"], &[]);
    assert_eq!((status, &*out, &*err), (0, "", "callboard: no events match\n"));
    let empty = run(url, &["status"], &[]);
    assert_eq!(empty.1, "There are none.\nNo resource manager is registered: there are no partitions yet.\n");
}

#[tokio::test]
async fn what_is_not_there_is_told() {
    let mut server = Server::start();
    busy(&mut server).await;
    let url = server.address().to_owned();
    for (words, states) in [
        (&["nodes", "--state", "bogus"][..], "ready, drained, reserved, torpid, offline"),
        (&["apps", "--state", "bogus"], "New, Accepted, Running, Rejected, "),
        (&["apps", "--reason", "bogus"], "stopped, noNodes, "),
        (&["queues", "--state", "bogus"], "Active, Draining, Stopped"),
        (&["rms", "--state", "bogus"], "init, Running, Paused, Stopped"),
    ] {
        let (status, out, err) = run(&url, words, &[]);
        assert!(status == 2 && out.is_empty() && err.contains(&format!("[possible values: {states}")), "{err}");
    }
    let no_queue = "callboard: queue 'root.nope' not found in partition 'default'\n".to_owned();
    for words in [&["apps", "--queue", "root.nope"][..], &["queues", "--queue", "root.nope"]] {
        assert_eq!(run(&url, words, &[]), (1, String::new(), no_queue.clone()), "{words:?}");
    }
    let missing = "callboard: partition 'nope' not found; there are: default, other\n".to_owned();
    for words in ["status", "rms"] {
        assert_eq!(run(&url, &[words, "--partition", "nope"], &[]), (1, String::new(), missing.clone()), "{words}");
        for name in ["default", "[rm-1]default"] {
            let (status, out, _) = run(&url, &[words, "--partition", name, "-o", "name"], &[]);
            assert!(status == 0 && out.lines().count() == 1, "{words} {name}: {out}");
        }
    }
    let calm = run(&url, &["apps", "--queue", "root.prod", "--user", "nobody"], &[]);
    assert_eq!(calm, (0, "There are none.\n".to_owned(), String::new()));
    assert_eq!(run(&url, &["queues", "--partition", "nope"], &[]), (1, String::new(), missing));
    // A reason without its option is no queue, and no other queue is stopped.
    let (status, _, err) = run(&url, &["queue", "stop", "root.prod", "because"], &[]);
    let expected = "callboard: queue 'because' not found in partition 'default'; a reason is given with -r REASON\n\
                    callboard: no queue was told anything\n";
    assert_eq!((status, &*err), (1, expected));
    let (_, shown, _) = run(&url, &["queue", "show", "root.prod"], &[]);
    assert!(shown.starts_with("root.prod Active"), "{shown}");
}

/// What a command draws on a terminal, until a signal ends it; with its exit status.
fn drawn(words: &str, signal: &str) -> (String, Option<i32>) {
    let dir = tempfile::tempdir().unwrap();
    let pid = dir.path().join("pid");
    let line = format!("echo $$ > {}; exec {} {words}", pid.display(), env!("CARGO_BIN_EXE_callboard"));
    let mut script = Command::new("script");
    script.args(["-qec", &line, "/dev/null"]).env("TERM", "xterm").env("HOME", "/nonexistent");
    let mut script = script.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut out = script.stdout.take().unwrap();
    let (mut drawn, mut bytes) = (String::new(), [0; 4096]);
    while !drawn.contains(ALTERNATE) {
        let read = out.read(&mut bytes).unwrap();
        assert!(read > 0, "it ended: {drawn}");
        drawn.push_str(&String::from_utf8_lossy(&bytes[..read]));
    }
    let pid = fs::read_to_string(pid).unwrap();
    assert!(Command::new("kill").args([&format!("-{signal}"), pid.trim()]).status().unwrap().success());
    let mut rest = Vec::new();
    out.read_to_end(&mut rest).unwrap();
    (drawn + &String::from_utf8_lossy(&rest), script.wait().unwrap().code())
}

/// The terminal shows another screen, until it is told `ALTERNATE` with an `l` at the end.
const ALTERNATE: &str = "\u{1b}[?1049h";

#[tokio::test]
async fn a_terminal_is_left_as_it_was() {
    if Command::new("script").arg("--version").output().is_err() {
        return skip("a_terminal_is_left_as_it_was", "script is not installed");
    }
    let server = Server::start();
    for (signal, status) in [("TERM", 143), ("HUP", 129)] {
        let words = format!("top --server {}", server.url);
        let (drawn, code) = tokio::task::spawn_blocking(move || drawn(&words, signal)).await.unwrap();
        let (on, off) = (drawn.rfind(ALTERNATE), drawn.rfind(&ALTERNATE.replace('h', "l")));
        assert!(on < off, "{signal}: {drawn:?}");
        assert_eq!(code, Some(status), "{signal}");
    }
}

#[tokio::test]
async fn contexts_name_servers() {
    let server = Server::start();
    let file = tempfile::NamedTempFile::new().unwrap();
    let gone = "127.0.0.1:1";
    let text = format!("context = 'here'\n[contexts.here]\nserver = ['{gone}', '{}']\n", server.address());
    fs::write(file.path(), text).unwrap();
    let path = file.path().to_str().unwrap();
    let (status, out, err) = run("", &["rms"], &[("CALLBOARD_CLIENT_CONFIG", path)]);
    assert_eq!((status, &*out), (0, "There are none.\n"), "{err}");
    let bundle = tempfile::tempdir().unwrap();
    let log = bundle.path().join("log");
    fs::write(&log, "a line\n").unwrap();
    let (to, log) = (bundle.path().join("bundle").display().to_string(), log.display().to_string());
    for words in [&["ready"][..], &["audit"], &["diagnose", "--out", &to, "--log", &log]] {
        let words = [words, &["--context", "here"]].concat();
        let (status, _, err) = run("", &words, &[("CALLBOARD_CLIENT_CONFIG", path)]);
        assert_eq!(status, 0, "{words:?}: {err}");
    }
    // One that is named is asked alone.
    let (status, _, err) = run(gone, &["rms"], &[("CALLBOARD_CLIENT_CONFIG", path)]);
    assert!(status == 1 && err.contains("127.0.0.1:1 cannot be reached"), "{err}");
}
