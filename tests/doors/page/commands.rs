//! What the commands that ask a running server print, held to snapshots (`tests/fixtures/cli`; `WRITE_SNAPSHOTS=1` writes them
//! anew). Ages are left out of them.

use std::{env, fs, path::Path, process::Command};

use super::{cluster::busy, server::Server};

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
        (&["apps"][..], "callboard: partition 'default' not found; there are none\n"),
        (&["why", "app"], "callboard: partition 'default' not found; there are none\n"),
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
    let empty = run(url, &["status"], &[]);
    assert_eq!(empty.1, "There are none.\nNo resource manager is registered: there are no partitions yet.\n");
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
    // One that is named is asked alone.
    let (status, _, err) = run(gone, &["rms"], &[("CALLBOARD_CLIENT_CONFIG", path)]);
    assert!(status == 1 && err.contains("127.0.0.1:1 cannot be reached"), "{err}");
}
