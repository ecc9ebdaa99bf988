//! `callboard ready`: is a server alive, and are requests welcome? For probes, of containers that have nothing but the program.

use std::process::ExitCode;

use anyhow::{anyhow, bail};
use clap::Args;
use hyper::Method;

use super::{
    client::{
        net::{Client, Failed},
        trust::Trust,
    },
    context::ContextArg,
    url,
};

/// Says whether a server takes requests, by its exit status
#[derive(Args, Clone, Debug)]
pub struct ReadyArgs {
    /// Address of the server, as host:port or URL; several, separated by commas, are tried in turn
    #[arg(long, value_name = "URL", value_parser = url::option, env = "CALLBOARD_SERVER", default_value = "http://127.0.0.1:9080")]
    pub server: String,
    /// Only whether it lives: it answers, and is not shutting down
    #[arg(long)]
    pub alive: bool,
    #[command(flatten)]
    pub context: ContextArg,
    #[command(flatten)]
    pub trust: Trust,
}

/// Runs the command.
///
/// # Errors
/// The server cannot be reached, or what is still waited for.
pub async fn run(args: &ReadyArgs) -> anyhow::Result<ExitCode> {
    let server = args.server.trim_end_matches('/');
    let path = if args.alive { "livez" } else { "readyz" };
    let unreachable = |error: Failed| anyhow!(error.of_server(server));
    let client = Client::new(server, &args.trust).map_err(anyhow::Error::msg)?;
    let answer = client.send(Method::GET, &format!("{server}/{path}"), None).await.map_err(unreachable)?;
    if answer.status.is_success() {
        return Ok(ExitCode::SUCCESS);
    }
    bail!("{server} is not ready: {}", answer.text().await.map_err(unreachable)?.trim())
}
