//! `callboard cluster config`: what holds for all servers of a cluster.

use std::{collections::BTreeMap, fs, path::PathBuf};

use clap::{ArgGroup, Args, Subcommand};
use serde_json::{Map, Value};

use super::text;
use crate::{
    cli::{
        door::{Door, Error},
        out::{self, Output},
        plan,
    },
    domain::words::plural,
    http::api::{cluster::config::Changed, plan::view::Plan},
    messages::leaders::SharedConfig,
};

#[derive(Clone, Debug, Subcommand)]
pub(super) enum Command {
    /// Print the configuration that holds for all servers, or the settings
    Get {
        /// The settings, as KEY=VALUE in a line
        #[arg(long)]
        settings: bool,
        /// json: all of it, with who said so and when
        #[arg(short, long, default_value = "text")]
        output: Output,
    },
    /// Say what holds for all servers, also those that start later; it is planned first, and not done where applications or
    /// quotas would suffer
    Set(Set),
}

#[derive(Args, Clone, Debug)]
#[command(group = ArgGroup::new("change").args(["file", "settings", "unset", "no_config"]).required(true).multiple(true))]
pub(super) struct Set {
    /// Configuration of queues, for resource managers that bring none
    file: Option<PathBuf>,
    /// A setting of the whole server; may be repeated
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = pair)]
    settings: Vec<(String, String)>,
    /// A setting that does not hold for all any more; may be repeated
    #[arg(long, value_name = "KEY")]
    unset: Vec<String>,
    /// Each server uses its own configuration again
    #[arg(long, conflicts_with = "file")]
    no_config: bool,
    /// Only tell what it would do
    #[arg(long)]
    plan: bool,
    /// Also where applications would not be admitted, or quotas would stand below usage
    #[arg(long)]
    force: bool,
}

fn pair(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or_else(|| format!("\"{text}\" is not KEY=VALUE"))?;
    Ok((key.to_owned(), value.to_owned()))
}

const PATH: &str = "cluster/config";

pub(super) async fn run(door: &Door, command: &Command) -> Result<String, Error> {
    match command {
        Command::Get { settings, output } => {
            let text = text(door.get_of_server(PATH).await?).await?;
            if *output == Output::Json {
                return Ok(out::escaped(&text));
            }
            let config: SharedConfig = read(&text)?;
            Ok(if *settings { lines(&config.settings) } else { config.config.unwrap_or_default() })
        }
        Command::Set(set) => change(door, set).await,
    }
}

async fn change(door: &Door, set: &Set) -> Result<String, Error> {
    let mut body = Map::new();
    if let Some(file) = &set.file {
        let failed = |error| Error { text: format!("{}: cannot be read: {error}", file.display()), status: None };
        body.insert("config".to_owned(), fs::read_to_string(file).map_err(failed)?.into());
    } else if set.no_config {
        body.insert("config".to_owned(), Value::Null);
    }
    let mut settings: Map<String, Value> = set.unset.iter().map(|key| (key.clone(), Value::Null)).collect();
    settings.extend(set.settings.iter().map(|(key, value)| (key.clone(), value.as_str().into())));
    body.insert("settings".to_owned(), settings.into());
    let ask = async |how: &str, yes: bool| {
        let mut body = body.clone();
        body.insert(how.to_owned(), yes.into());
        read::<Changed>(&text(door.post_to_server(PATH, &body).await?).await?)
    };
    let planned = ask("plan", true).await?;
    let shown = out::lines(&planned.plans.iter().map(plan::table).collect::<String>());
    if set.plan {
        return Ok(shown);
    }
    if planned.plans.iter().any(Plan::has_consequences) && !set.force {
        // Where nobody reads it, the status still tells.
        let _ = out::print(shown);
        let text = "applications or quotas would suffer, and nothing was changed: --force where that is meant";
        return Err(Error { text: text.to_owned(), status: None });
    }
    // What came since then is not forced either.
    let done = ask("force", set.force).await?;
    let config = done.config.config.map_or("each server's own configuration".to_owned(), |text| {
        format!("a configuration of {} bytes", text.len())
    });
    Ok(format!("{shown}for all servers: {config}, {}\n", plural(done.config.settings.len(), "setting")))
}

fn lines(settings: &BTreeMap<String, String>) -> String {
    settings.iter().map(|(key, value)| format!("{key}={value}\n")).collect()
}

fn read<T: serde::de::DeserializeOwned>(text: &str) -> Result<T, Error> {
    serde_json::from_str(text)
        .map_err(|error| Error { text: format!("the answer is not understood: {error}"), status: None })
}
