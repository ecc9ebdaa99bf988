//! `callboard demo`: however it ends, its server ends with it.

use std::{
    io::{BufRead as _, BufReader, Read as _},
    net::{TcpStream, ToSocketAddrs as _},
    process::{Child, ExitStatus, Stdio},
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
    said: Option<JoinHandle<String>>,
}

impl Demo {
    pub fn start() -> Demo {
        let mut demo = command(&["demo", "--http", "127.0.0.1:0", "--seconds", "120"]);
        let mut child = demo.stderr(Stdio::null()).spawn().expect("the demo starts");
        let mut said = BufReader::new(child.stdout.take().expect("piped"));
        let address = said.by_ref().lines().map_while(Result::ok).find_map(|line| {
            let at = line.find("http://127.0.0.1:")?;
            Some(line[at..].split_whitespace().next()?.trim_end_matches(['/', '.', ',']).to_owned())
        });
        let said = thread::spawn(move || {
            let mut rest = String::new();
            let _ = said.read_to_string(&mut rest);
            rest
        });
        Demo { child, address: address.expect("the demo says where its page is"), said: Some(said) }
    }

    fn tell(&self, signal: Signal) {
        let pid = i32::try_from(self.child.id()).map(Pid::from_raw).expect("a process");
        let _ = kill(pid, signal);
    }

    /// Tells it to end; gives how it did, and what it said from its address on.
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
