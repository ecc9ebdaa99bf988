//! `callboard log-level`: what the log of a running server tells.

use std::process::ExitCode;

use clap::Args;
use serde_json::json;

use super::{
    door::{Door, Error},
    out,
};
use crate::http::api::log_level::Shown;

/// Options of `callboard log-level`.
#[derive(Args, Clone, Debug)]
pub struct LogLevelArgs {
    #[command(flatten)]
    door: Door,
    /// The new level, or `reset` for what the environment or the settings say; left out: show it
    #[arg(value_parser = ["debug", "info", "warn", "error", "reset"])]
    level: Option<String>,
}

/// Runs the command.
///
/// # Errors
/// The server cannot be asked, or refuses the level.
pub async fn run(args: &LogLevelArgs) -> anyhow::Result<ExitCode> {
    let Shown { level, operator, environment } = ask(args).await?;
    match environment {
        Some(filter) => out::print(format_args!("{filter} (RUST_LOG)\n"))?,
        None => out::print(format_args!("{level}{}\n", if operator { " (set by an operator)" } else { "" }))?,
    }
    Ok(ExitCode::SUCCESS)
}

async fn ask(args: &LogLevelArgs) -> Result<Shown, Error> {
    const PATH: &str = "log/level";
    let answer = match args.level.as_deref() {
        None => args.door.get_of_server(PATH).await?,
        Some(level) => {
            let level = Some(level).filter(|level| *level != "reset");
            args.door.post_to_server(PATH, &json!({ "level": level })).await?
        }
    };
    let text = answer.text().await.map_err(|error| Error { text: error.to_string(), status: None })?;
    out::answer(&text).map_err(|error| Error { text: format!("the answer is not understood: {error}"), status: None })
}
