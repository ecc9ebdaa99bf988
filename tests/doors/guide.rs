//! Pages of `docs/` that show a session are run as they stand: the `sh` blocks of a page one after the other in one shell,
//! and what each prints is the `text` block below it, in which `…` stands for anything: within a line, or as a line.

use std::{
    fs,
    net::TcpListener,
    path::Path,
    process::{self, Stdio},
    sync::atomic::{AtomicU16, Ordering},
    time::Duration,
};

use tokio::process::Command;

/// Longest time that a page may take.
const LIMIT: Duration = Duration::from_secs(240);
/// What a block prints behind its own output.
const END: &str = "--- end of a block ---";

macro_rules! pages {
    ($($name:ident: $page:literal,)*) => {
        $(
            #[tokio::test]
            async fn $name() {
                run($page).await;
            }
        )*
        const PAGES: &[&str] = &[$($page),*];
    };
}

pages! {
    acl: "acl.md",
    first_session: "first-session.md",
    limits: "limits.md",
    placement: "placement.md",
    tutorial_fair_shares: "tutorials/fair-shares.md",
    tutorial_first_cluster: "tutorials/first-cluster.md",
    tutorial_gangs: "tutorials/gangs.md",
    tutorial_preemption: "tutorials/preemption.md",
    tutorial_teams: "tutorials/teams.md",
    tutorial_tls: "tutorials/tls.md",
}

#[test]
fn every_page_with_a_session_is_run() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs");
    let mut folders = vec![docs.clone()];
    while let Some(folder) = folders.pop() {
        for path in fs::read_dir(&folder).expect("docs can be listed").map(|entry| entry.expect("an entry").path()) {
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|end| end == "md")
                && fs::read_to_string(&path).expect("a page can be read").contains("\n```sh\n")
            {
                let name = path.strip_prefix(&docs).expect("below docs").to_string_lossy().into_owned();
                assert!(PAGES.contains(&&*name), "{name} has a session in `sh` that is not run");
            }
        }
    }
}

/// A port for a server that is told its address: below those that the system gives out by itself, so that nobody else gets
/// it in between.
fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let begin = u16::try_from(process::id() % 1_000).unwrap_or_default() * 10;
    loop {
        let port = 20_000 + (begin + NEXT.fetch_add(1, Ordering::Relaxed)) % 10_000;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

async fn run(page: &str) {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs");
    let text = fs::read_to_string(docs.join(page)).expect("the page can be read");
    let blocks = blocks(&text);
    let folder = tempfile::tempdir().expect("a folder");
    fs::copy(docs.join("tutorials/shim.py"), folder.path().join("shim.py")).expect("the shim can be copied");
    let address = format!("127.0.0.1:{}", free_port());
    // Whatever still runs at the end is ended with it, and only that.
    let mut script = "set -e\ntrap 'kill $(jobs -p) 2> /dev/null || true' EXIT\n".to_owned();
    for (shell, _) in &blocks {
        script += &shell.replace("127.0.0.1:9080", &address);
        script += &format!("\necho '{END}'\n");
    }
    let script = script.replace("python3 shim.py", &format!("python3 shim.py --server http://{address}"));
    let program = Path::new(env!("CARGO_BIN_EXE_callboard")).parent().expect("a folder of programs");
    let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap_or_default());
    let mut shell = Command::new("bash");
    shell.args(["-c", &script]).current_dir(&folder).env("PATH", path).env_remove("RUST_LOG");
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("CALLBOARD_")) {
        shell.env_remove(name);
    }
    let shell = shell.stdin(Stdio::null()).kill_on_drop(true).output();
    let done = tokio::time::timeout(LIMIT, shell).await.expect("a page ends").expect("bash runs");
    let (printed, errors) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    assert!(done.status.success(), "{page}: {}\n{printed}\n{errors}", done.status);
    let parts: Vec<&str> = printed.split(&format!("{END}\n")).collect();
    assert_eq!(parts.len(), blocks.len() + 1, "{page}: {printed}");
    for ((shell, wanted), got) in blocks.iter().zip(parts) {
        if let Some(wanted) = wanted {
            let (wanted, got): (Vec<_>, Vec<_>) = (wanted.lines().collect(), got.lines().collect());
            assert!(
                fits(&wanted, &got),
                "{page}:\n{shell}\nprints\n{}\nand not\n{}",
                got.join("\n"),
                wanted.join("\n")
            );
        }
    }
}

/// The `sh` blocks of a page, each with the `text` block that follows before anything else is run.
fn blocks(text: &str) -> Vec<(&str, Option<&str>)> {
    let parts = text.split("\n```sh\n").skip(1).filter_map(|part| part.split_once("\n```\n"));
    parts
        .map(|(shell, rest)| (shell, rest.strip_prefix("```text\n").and_then(|rest| Some(rest.split_once("\n```")?.0))))
        .collect()
}

fn fits(wanted: &[&str], got: &[&str]) -> bool {
    match (wanted, got) {
        ([], got) => got.is_empty(),
        (["…", rest @ ..], got) => (0..=got.len()).any(|from| fits(rest, &got[from..])),
        ([line, rest @ ..], [first, more @ ..]) => line_fits(line, first) && fits(rest, more),
        (_, []) => false,
    }
}

fn line_fits(wanted: &str, got: &str) -> bool {
    let Some((begin, rest)) = wanted.split_once('…') else {
        return wanted == got;
    };
    let Some(left) = got.strip_prefix(begin) else {
        return false;
    };
    left.char_indices().map(|(at, _)| at).chain([left.len()]).any(|at| line_fits(rest, &left[at..]))
}

#[test]
fn anything_stands_for_anything() {
    assert!(line_fits("…a…c", "xabc") && !line_fits("a…", "xa") && line_fits("a", "a"));
    assert!(fits(&["…", "b"], &["x", "y", "b"]) && !fits(&["b", "…"], &["x", "b"]) && fits(&["…"], &[]));
}
