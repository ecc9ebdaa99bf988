//! `callboard ready`: is a server alive, and are requests welcome? For probes, of containers that have nothing but the program.

use std::process::ExitCode;

use clap::Args;
use hyper::Method;

use super::{
    client::{net::Client, trust::Trust},
    out,
};

/// Says whether a server takes requests, by its exit status
#[derive(Args, Clone, Debug)]
pub struct ReadyArgs {
    /// Address of the server
    #[arg(long, value_name = "URL", env = "CALLBOARD_SERVER", default_value = "http://127.0.0.1:9080")]
    pub server: String,
    /// Only whether it lives: it answers, and is not shutting down
    #[arg(long)]
    pub alive: bool,
    #[command(flatten)]
    pub trust: Trust,
}

/// Runs the command: status 0 for yes, else 1 with what is being waited for.
pub async fn run(args: ReadyArgs) -> ExitCode {
    match ask(&args).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(text) => {
            out::note(format_args!("callboard: {text}"));
            ExitCode::FAILURE
        }
    }
}

async fn ask(args: &ReadyArgs) -> Result<(), String> {
    let server = args.server.trim_end_matches('/');
    let path = if args.alive { "livez" } else { "readyz" };
    let unreachable = |error| format!("{server} cannot be reached (--server names another): {error}");
    let client = Client::new(server, &args.trust)?;
    let answer = client.send(Method::GET, &format!("{server}/{path}"), None).await.map_err(unreachable)?;
    if answer.status.is_success() {
        return Ok(());
    }
    Err(format!("{server} is not ready: {}", answer.text().await.map_err(unreachable)?.trim()))
}
