//! `callboard demo`: what it says to try works, and however it ends, its server ends with it.

use std::{
    io::{BufRead as _, BufReader, Read as _},
    net::{TcpStream, ToSocketAddrs as _},
    path::Path,
    process::{Child, Command, ExitStatus, Stdio},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use crate::common::{LIMIT, command};

/// A running demo. It is told to end, so that it ends its server; should that fail, it ends by itself.
pub struct Demo {
    child: Child,
    /// URL of its page.
    pub address: String,
    /// What it says at its begin.
    welcome: Vec<String>,
    said: Option<JoinHandle<String>>,
}

impl Demo {
    pub fn start() -> Demo {
        let mut demo = command(&["demo", "--http", "127.0.0.1:0", "--seconds", "120"]);
        let mut child = demo.stderr(Stdio::null()).spawn().expect("the demo starts");
        let mut said = BufReader::new(child.stdout.take().expect("piped"));
        let mut welcome: Vec<String> = Vec::new();
        while !welcome.last().is_some_and(|line| line.starts_with("Ctrl-C")) {
            let mut line = String::new();
            let read = said.read_line(&mut line).expect("the demo can be read");
            assert!(read > 0, "the demo ended: {welcome:?}");
            welcome.push(line.trim_end().to_owned());
        }
        let address = welcome.iter().find_map(|line| line.trim().strip_prefix("page")?.trim().strip_suffix('/'));
        let address = address.expect("the demo says where its page is").to_owned();
        let said = thread::spawn(move || {
            let mut rest = String::new();
            let _ = said.read_to_string(&mut rest);
            rest
        });
        Demo { child, address, welcome, said: Some(said) }
    }

    fn tell(&self, signal: Signal) {
        let pid = i32::try_from(self.child.id()).map(Pid::from_raw).expect("a process");
        let _ = kill(pid, signal);
    }

    /// Tells it to end; gives how it did, and what it said after its welcome.
    fn end(mut self, signal: Signal) -> (ExitStatus, String) {
        self.tell(signal);
        let status = self.child.wait().expect("it ends");
        (status, self.said.take().expect("once").join().expect("it was read"))
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        self.tell(Signal::SIGINT);
        let _ = self.child.wait();
    }
}

/// Waits until nothing listens there.
fn until_closed(address: &str) {
    let begin = Instant::now();
    let host = address.trim_start_matches("http://");
    while host.to_socket_addrs().expect("an address").any(|at| TcpStream::connect_timeout(&at, LIMIT).is_ok()) {
        assert!(begin.elapsed() < LIMIT, "something still listens at {address}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// What a command prints, however it ends; of one that goes on, its first line.
fn tried(shell: &str, folder: &Path) -> (bool, String) {
    let mut sh = Command::new("sh");
    sh.args(["-c", &format!("exec {shell} 2>&1")]).current_dir(folder).stdin(Stdio::null()).stdout(Stdio::piped());
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("CALLBOARD_")) {
        sh.env_remove(name);
    }
    let mut child = sh.spawn().expect("sh runs");
    let mut out = BufReader::new(child.stdout.take().expect("piped"));
    let mut printed = String::new();
    if shell.ends_with(" -f") {
        let read = out.read_line(&mut printed);
        let _ = child.kill();
        let _ = child.wait();
        return (read.is_ok(), printed);
    }
    out.read_to_string(&mut printed).expect("it can be read");
    (child.wait().expect("it ends").success(), printed)
}

#[test]
fn what_a_demo_says_to_try_works_and_shows_what_it_says() {
    let demo = Demo::start();
    let folder = tempfile::tempdir().expect("a folder");
    let shells: Vec<&str> = demo.welcome.iter().filter_map(|line| line.strip_prefix("       ")).collect();
    // A word of what each shows; the one that saves the configuration prints nothing.
    let shown = ["larger than every node", "userQuota", "cpu-r07-n20", " ", "", "demo: 0 queues differ"];
    assert_eq!(shells.len(), shown.len(), "{shells:?}");
    for (shell, shown) in shells.into_iter().zip(shown) {
        let begin = Instant::now();
        // The rack is drained, and the limit reached, a while after the begin.
        loop {
            let (done, printed) = tried(shell, folder.path());
            if done && printed.contains(shown) {
                break;
            }
            assert!(begin.elapsed() < LIMIT, "{shell}\nprints, with {done}, and without `{shown}`\n{printed}");
            thread::sleep(Duration::from_millis(200));
        }
    }
}

#[test]
fn a_demo_that_is_asked_to_end_says_what_there_was_and_ends_its_server() {
    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        let demo = Demo::start();
        let address = demo.address.clone();
        let (status, said) = demo.end(signal);
        assert!(status.success(), "{signal}: {status}");
        assert!(said.contains("applications ended"), "{signal}: {said}");
        until_closed(&address);
    }
}

#[test]
fn a_demo_that_is_killed_leaves_no_server() {
    let demo = Demo::start();
    let address = demo.address.clone();
    let (status, _) = demo.end(Signal::SIGKILL);
    assert!(!status.success(), "{status}");
    until_closed(&address);
}
