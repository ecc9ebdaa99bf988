//! A server of its own for each scenario: the built program on a free loopback port, nothing on disk.

use crate::common::{Program, serve};

/// A running server. Dropping it kills the process.
pub struct Server {
    /// Its HTTP door, as `http://127.0.0.1:PORT`.
    pub base: String,
    program: Program,
}

impl Server {
    /// Starts one and waits for its ready line.
    pub async fn start() -> Result<Server, String> {
        let started = tokio::task::spawn_blocking(|| Program::try_start(serve(&["--grpc", "off"])));
        let program = started.await.map_err(|error| error.to_string())??;
        Ok(Server { base: program.address("http"), program })
    }

    /// How the process ended, where it did.
    pub fn ended(&mut self) -> Option<String> {
        self.program.ended_with().map(|status| format!("the server ended: {status}"))
    }

    /// The last lines of its log.
    pub fn log_tail(&self) -> String {
        self.program.log_tail()
    }
}
