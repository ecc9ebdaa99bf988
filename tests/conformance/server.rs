//! A server of its own for each scenario: the built program on a free loopback port, nothing on disk.

use std::{
    env,
    ffi::OsString,
    fs::File,
    io::{Read, Seek, SeekFrom},
    process::Stdio,
    time::Duration,
};

use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::{Child, Command},
    time::timeout,
};

/// How long a server may take until it is ready.
const START: Duration = Duration::from_secs(60);

/// A running server. Dropping it kills the process.
pub struct Server {
    /// Its HTTP door, as `http://127.0.0.1:PORT`.
    pub base: String,
    child: Child,
    log: File,
}

impl Server {
    /// Starts one and waits for its ready line.
    pub async fn start() -> Result<Server, String> {
        let log = tempfile::tempfile().map_err(|e| format!("no file for the server's log: {e}"))?;
        let stderr = log.try_clone().map_err(|e| format!("no file for the server's log: {e}"))?;
        let mut child = Command::new(program())
            .args(["serve", "--http", "127.0.0.1:0", "--ephemeral"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(stderr)
            .kill_on_drop(true)
            .spawn()
            .map_err(|e| format!("the server does not start: {e}"))?;
        let stdout = child.stdout.take().ok_or("the server has no standard output")?;
        let mut server = Server { base: String::new(), child, log };
        let mut lines = BufReader::new(stdout).lines();
        let ready = async {
            while let Ok(Some(line)) = lines.next_line().await {
                if let Some(address) = http_address(&line) {
                    return Some(address.to_owned());
                }
            }
            None
        };
        match timeout(START, ready).await {
            Ok(Some(address)) => server.base = format!("http://{address}"),
            Ok(None) => return Err(format!("the server ended before it was ready\n{}", server.log_tail())),
            Err(_) => return Err(format!("the server was not ready after {START:?}\n{}", server.log_tail())),
        }
        // Whatever else it prints must not fill the pipe.
        tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        Ok(server)
    }

    /// How the process ended, where it did.
    pub fn ended(&mut self) -> Option<String> {
        self.child.try_wait().ok().flatten().map(|status| format!("the server ended: {status}"))
    }

    /// The last lines of its log.
    pub fn log_tail(&mut self) -> String {
        let mut bytes = Vec::new();
        let read = self.log.seek(SeekFrom::Start(0)).and_then(|_| self.log.read_to_end(&mut bytes));
        if let Err(e) = read {
            return format!("its log cannot be read: {e}");
        }
        let text = String::from_utf8_lossy(&bytes);
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(10)..].join("\n")
    }
}

/// The program to replay on: the built one, unless the environment names another.
fn program() -> OsString {
    env::var_os("CONFORMANCE_PROGRAM").unwrap_or_else(|| env!("CARGO_BIN_EXE_callboard").into())
}

/// The address in `callboard ready http=127.0.0.1:9080 grpc=… data=…`.
fn http_address(line: &str) -> Option<&str> {
    let mut words = line.strip_prefix("callboard ready ")?.split_whitespace();
    words.find_map(|word| word.strip_prefix("http=")).map(|address| address.trim_start_matches("http://"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ready_line_names_the_door() {
        assert_eq!(http_address("callboard ready http=127.0.0.1:9080 grpc=off data=none"), Some("127.0.0.1:9080"));
        assert_eq!(http_address("something else http=127.0.0.1:9080"), None);
    }
}
