//! What is wrong with a log at a start is said in plain words, the files are put aside, and the shim is told: nothing is lost in
//! silence, whatever was done to the files.

use std::{
    fs,
    path::{Path, PathBuf},
};

use callboard::{
    domain::types::Nanos,
    store::log::{self, Title, Writer},
};
use serde_json::Value;

use crate::{
    common::command,
    shim::server::Server,
    wired::rig::{application, asks, end, with_data},
};

const LOG: &str = "log/rm-1";

/// Three processes, each with a segment of its own, and a snapshot of the one that ended in an orderly way. Gives the last line.
async fn three(data: &Path) -> u64 {
    let mut server = with_data(data);
    server.register("rm-1", &[]).await;
    server.nodes(&["n1"]).await;
    application(&server, "app").await;
    place(&server, "a").await;
    server.program.kill();
    let server = with_data(data);
    place(&server, "b").await;
    assert_eq!(end(server).await, Some(0));
    let mut server = with_data(data);
    place(&server, "c").await;
    let last = server.get("/si/v1/rm/rm-1").await.1["lastSequence"].as_u64().expect("a number");
    server.program.kill();
    last
}

/// An ask, placed.
async fn place(server: &Server, key: &str) {
    let mut stream = server.stream("?after=0").await;
    asks(server, "app", &[key], 1).await;
    let has = |line: &Value| {
        let new = line["allocation"]["new"].as_array().cloned().unwrap_or_default();
        new.iter().any(|new| new["allocationKey"] == key)
    };
    while !has(&stream.next().await) {}
}

fn segments(data: &Path) -> Vec<PathBuf> {
    log::segments(&data.join(LOG)).expect("a log").into_iter().map(|(_, path)| path).collect()
}

fn copy(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).expect("a directory") {
        let path = entry.expect("an entry").path();
        let there = to.join(path.file_name().expect("a name"));
        if path.is_dir() {
            fs::create_dir_all(&there).expect("made");
            copy(&path, &there);
        } else {
            fs::copy(&path, &there).expect("copied");
        }
    }
}

/// A log of one record, by whoever this is.
fn written_by(data: &Path, change: impl FnOnce(Title) -> Title) {
    let dir = data.join(LOG);
    let title = change(log::title_of(&dir).expect("a title"));
    fs::remove_dir_all(&dir).expect("removed");
    let mut frame = Vec::new();
    log::seal(&mut frame, 5, 1, Nanos(1), b"a record");
    Writer::new(dir, title).write(1, &frame).expect("written");
}

/// What is done to a log, and what is said of it then.
type Wrong = (&'static str, fn(&Path), &'static str);

const ALL: [Wrong; 7] = [
    (
        "another server",
        |data| written_by(data, |title| Title { server: "another".to_owned(), ..title }),
        "it was written by another server (another, this one is ",
    ),
    ("a segment is missing", |data| fs::remove_file(&segments(data)[1]).expect("removed"), "are missing before it"),
    (
        "the newest segment is missing",
        |data| fs::remove_file(segments(data).pop().expect("a segment")).expect("removed"),
        "the newest segment is missing, and with it the records from ",
    ),
    (
        "the newest is missing behind a snapshot",
        |data| fs::remove_file(segments(data).pop().expect("a segment")).expect("removed"),
        "the newest segment is missing, and with it the records from ",
    ),
    (
        "a segment is cut short",
        |data| {
            let path = &segments(data)[1];
            let bytes = fs::read(path).expect("readable");
            fs::write(path, &bytes[..bytes.len() - 10]).expect("written");
        },
        "a record is damaged",
    ),
    (
        "a flipped bit",
        |data| {
            let path = segments(data).pop().expect("a segment");
            let mut bytes = fs::read(&path).expect("readable");
            let middle = bytes.len() / 2;
            bytes[middle] ^= 1;
            fs::write(&path, bytes).expect("written");
        },
        "a record is damaged",
    ),
    (
        "a snapshot without its log",
        |data| segments(data).iter().for_each(|path| fs::remove_file(path).expect("removed")),
        "there are snapshots, and the records behind them are missing",
    ),
];

#[tokio::test]
async fn whatever_is_wrong_with_a_log_is_said_and_the_shim_told() {
    let original = tempfile::tempdir().expect("a directory");
    let last = three(original.path()).await;
    for (what, wrong, said) in ALL {
        let dir = tempfile::tempdir().expect("a directory");
        copy(original.path(), dir.path());
        // Without what says all of it, the records have to.
        if what.contains("segment") {
            for (_, path) in log::snapshots(&dir.path().join(LOG)).expect("a log") {
                fs::remove_file(path).expect("removed");
            }
        }
        wrong(dir.path());
        let mut server = with_data(dir.path());
        let (status, answer) = server.get(&format!("/si/v1/rm/rm-1/stream?after={last}")).await;
        assert_eq!(status, 410, "{what}: {answer}");
        let text = answer["detail"].as_str().unwrap_or_default();
        assert!(text.contains(said) && text.contains("register again"), "{what}: {text}");
        assert!(text.contains(&dir.path().join(LOG).display().to_string()), "{what}: {text}");
        let program = server.program.log();
        assert!(program.contains("log-put-aside") && !program.contains("panicked"), "{what}: {program}");
        assert!(dir.path().join("log.damaged/rm-1").is_dir(), "{what}");
        // It goes on: the shim registers, and works.
        server.register("rm-1", &[]).await;
        server.nodes(&["n1"]).await;
        application(&server, "app").await;
        place(&server, "d").await;
        assert_eq!(server.get("/ws/v1/scheduler/healthcheck").await.1["Healthy"], true, "{what}");
        server.program.kill();
    }
}

/// All that is in a directory, by path.
fn contents(dir: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).expect("a directory") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            found.extend(contents(&path));
        } else {
            found.push((path.clone(), fs::read(&path).expect("readable")));
        }
    }
    found.sort();
    found
}

#[tokio::test]
async fn logs_of_a_later_release_are_left_to_it() {
    let later: [fn(Title) -> Title; 2] =
        [|title| Title { version: title.version + 1, ..title }, |title| Title { domain: title.domain + 1, ..title }];
    for later in later {
        let dir = tempfile::tempdir().expect("a directory");
        let mut server = with_data(dir.path());
        server.register("rm-1", &[]).await;
        server.program.kill();
        written_by(dir.path(), later);
        let log = dir.path().join("log");
        // But for the lock, which has the number of the process.
        let all = || {
            let mut all = contents(dir.path());
            all.retain(|(path, _)| !path.ends_with("callboard.lock"));
            all
        };
        let before = all();
        let data = dir.path().display().to_string();
        let mut command = command(&["serve", "--data", &data, "--http", "127.0.0.1:0", "--grpc", "off"]);
        let output = command.output().expect("it runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains("was written by a later release"), "{said}");
        assert!(said.contains(&log.display().to_string()) && said.contains("start that one"), "{said}");
        assert_eq!(all(), before, "nothing was touched");
    }
}

#[tokio::test]
async fn a_mark_that_is_gone_or_damaged_is_named() {
    for text in [None, Some("{")] {
        let dir = tempfile::tempdir().expect("a directory");
        let mut server = with_data(dir.path());
        server.register("rm-1", &[]).await;
        server.program.kill();
        let mark = dir.path().join("log/mark");
        match text {
            None => fs::remove_file(&mark).expect("removed"),
            Some(text) => fs::write(&mark, text).expect("written"),
        }
        let server = with_data(dir.path());
        let (status, answer) = server.get("/si/v1/rm/rm-1/stream").await;
        let detail = answer["detail"].as_str().unwrap_or_default();
        assert!(status == 410 && detail.contains("log/mark is missing or damaged"), "{answer}");
        let log = server.program.log();
        assert!(log.contains("log-mark-lost") && !log.contains("another server"), "{log}");
    }
}

#[tokio::test]
async fn a_copy_of_a_directory_knows_that_it_may_be_behind() {
    let original = tempfile::tempdir().expect("a directory");
    let mut server = with_data(original.path());
    server.register("rm-1", &[]).await;
    server.nodes(&["n1"]).await;
    application(&server, "app").await;
    place(&server, "a").await;
    let restored = tempfile::tempdir().expect("a directory");
    copy(original.path(), restored.path());
    // What came after it was made.
    place(&server, "b").await;
    server.program.kill();
    if fs::metadata(restored.path().join("log/mark")).expect("a mark").created().is_err() {
        return crate::common::skip("a copy", "the file system does not tell when a file was made");
    }
    let mut server = with_data(restored.path());
    let (status, answer) = server.get("/si/v1/rm/rm-1/stream").await;
    assert!(status == 410 && answer["detail"].as_str().is_some_and(|text| text.contains("is a copy")), "{answer}");
    assert!(server.program.log().contains("data-copied"));
    server.register("rm-1", &[]).await;
    server.nodes(&["n1"]).await;
    application(&server, "app").await;
    place(&server, "c").await;
    // From here on it is a directory like any other.
    server.program.kill();
    let server = with_data(restored.path());
    assert_eq!(server.get("/si/v1/rm/rm-1").await.1["state"], "Paused");
}
