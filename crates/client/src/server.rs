//! A server of one's own: `callboard serve --ephemeral` as a child process on free ports, stopped by its id.

use std::{
    collections::VecDeque,
    ffi::OsStr,
    path::Path,
    process::Stdio,
    sync::{Arc, Mutex},
    time::Duration,
};

use nix::{
    sys::signal::{self, Signal},
    unistd::Pid,
};
use tokio::{
    io::{AsyncBufReadExt, AsyncRead, BufReader},
    process::{Child, Command},
    time::timeout,
};

use super::{Error, Result};

const START_PATIENCE: Duration = Duration::from_secs(30);
const STOP_PATIENCE: Duration = Duration::from_secs(10);
/// Log lines kept for the case that the server fails.
const LOG_LINES: usize = 20;

/// A running child server. Dropping it ends it at once.
pub struct Server {
    child: Child,
    pid: u32,
    /// Base URL of its HTTP door.
    pub http: String,
    /// URL of its gRPC door.
    pub grpc: String,
    log: Log,
}

type Log = Arc<Mutex<VecDeque<String>>>;

impl Server {
    /// Starts this very program as a server, with `more` arguments, and waits for its ready line.
    pub async fn start(more: &[&str]) -> Result<Server> {
        let program =
            std::env::current_exe().map_err(|e| Error::Server(format!("own program file cannot be found: {e}")))?;
        Server::start_program(&program, more).await
    }

    /// Starts `program serve --ephemeral --end-with-stdin` with `more` arguments and waits for its ready line.
    pub async fn start_program(program: &Path, more: &[&str]) -> Result<Server> {
        let name = program.display();
        let mut command = Command::new(program);
        for (name, _) in std::env::vars_os().filter(|(name, _)| is_of_a_server(name)) {
            command.env_remove(name);
        }
        let mut child = command
            // Named addresses, since the environment may name those of another server.
            .args(["serve", "--ephemeral", "--end-with-stdin", "--grpc", "127.0.0.1:0"])
            // What it is to measure may leave whoever connects little time; the doors are on the loopback.
            .args(["--first-request-timeout", "60s"])
            .args(if more.contains(&"--http") { &[][..] } else { &["--http", "127.0.0.1:0"] })
            .args(more)
            // Held open and never written to: however this process ends, the server ends after it.
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // A Ctrl-C in the terminal is for the parent, which unregisters first and then ends the server.
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .map_err(|e| Error::Server(format!("{name} cannot be started: {e}")))?;
        let pid = child.id().unwrap_or(0);
        let log = Log::default();
        if let Some(stderr) = child.stderr.take() {
            tokio::spawn(keep(stderr, log.clone()));
        }
        let stdout = child.stdout.take().ok_or_else(|| Error::Server(format!("{name} has no standard output")))?;
        let mut lines = BufReader::new(stdout).lines();
        let ready = async {
            while let Ok(Some(line)) = lines.next_line().await {
                if let Some(rest) = line.strip_prefix("callboard ready ") {
                    return Some(rest.to_owned());
                }
            }
            None
        };
        let ready = match timeout(START_PATIENCE, ready).await {
            Ok(Some(ready)) => ready,
            Ok(None) => {
                let status = child.wait().await.map_or_else(|e| e.to_string(), |status| status.to_string());
                return Err(Error::Server(format!("the server ended before it was ready ({status}){}", tail(&log))));
            }
            Err(_) => {
                let secs = START_PATIENCE.as_secs();
                return Err(Error::Server(format!("the server was not ready within {secs} s{}", tail(&log))));
            }
        };
        // The pipe has to be read on, or a server that writes to it would block.
        tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        let (http, grpc) = addresses(&ready)
            .ok_or_else(|| Error::Server(format!("the server's ready line names no HTTP address: {ready}")))?;
        Ok(Server { child, pid, http, grpc, log })
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Its last log lines, to be shown beneath an error; empty where it logged nothing.
    pub fn log(&self) -> String {
        tail(&self.log)
    }

    /// Asks it to end, waits for that, and ends it by force where it does not.
    pub async fn stop(mut self) -> Result<()> {
        // A process that could not be asked has ended by itself.
        if let Some(pid) = self.child.id().and_then(|pid| i32::try_from(pid).ok()) {
            let _ = signal::kill(Pid::from_raw(pid), Signal::SIGTERM);
        }
        if timeout(STOP_PATIENCE, self.child.wait()).await.is_err() {
            self.child.kill().await.map_err(|e| Error::Server(format!("server {} does not end: {e}", self.pid)))?;
        }
        Ok(())
    }
}

/// What the environment says of a server is meant for another one: this one would take part in its cluster, or keep its limits.
fn is_of_a_server(name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    name == "DISABLE_RESERVATION" || name.starts_with("CALLBOARD_") && !name.starts_with("CALLBOARD_TEST_")
}

async fn keep(stderr: impl AsyncRead + Unpin, log: Log) {
    let mut lines = BufReader::new(stderr).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        let mut log = log.lock().unwrap_or_else(|e| e.into_inner());
        if log.len() == LOG_LINES {
            log.pop_front();
        }
        log.push_back(line);
    }
}

fn tail(log: &Log) -> String {
    let log = log.lock().unwrap_or_else(|e| e.into_inner());
    log.iter().fold(String::new(), |text, line| text + "\n  server: " + line)
}

/// HTTP and gRPC URL of a ready line; a door that is off has no address.
fn addresses(ready: &str) -> Option<(String, String)> {
    let value = |name: &str| ready.split_ascii_whitespace().find_map(|part| part.strip_prefix(name));
    let url = |text: &str| if text.contains("://") { text.to_owned() } else { format!("http://{text}") };
    Some((url(value("http=")?), value("grpc=").map(url).unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_settings_of_another_server_are_left_out() {
        let left_out = ["CALLBOARD_CLUSTER", "CALLBOARD_OIDC_ISSUER", "CALLBOARD_RM_MAX_ITEMS", "DISABLE_RESERVATION"];
        assert!(left_out.iter().all(|name| is_of_a_server(OsStr::new(name))));
        assert!(
            ["CALLBOARD_TEST_READ_MILLIS", "PATH", "RUST_LOG"].iter().all(|name| !is_of_a_server(OsStr::new(name)))
        );
    }

    #[test]
    fn addresses_come_from_the_ready_line() {
        let (http, grpc) = addresses("http=127.0.0.1:4001 grpc=127.0.0.1:4002 data=memory").unwrap();
        assert_eq!((http.as_str(), grpc.as_str()), ("http://127.0.0.1:4001", "http://127.0.0.1:4002"));
        assert_eq!(addresses("http=http://127.0.0.1:1").unwrap().0, "http://127.0.0.1:1");
        assert!(addresses("grpc=127.0.0.1:1").is_none());
    }
}
