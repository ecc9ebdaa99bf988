//! `callboard settings`: what a running server goes by.

use std::process::ExitCode;

use clap::Args;

use super::{
    door::{Door, Error},
    out::{self, Output},
};
use crate::{
    http::api::settings::{Manager, Row, Shown},
    messages::settings::ServerOption,
};

/// Shows the settings of a running server: its options, those of the whole server, and those of each resource manager.
#[derive(Args, Clone, Debug)]
pub struct SettingsArgs {
    #[command(flatten)]
    pub door: Door,
    /// Form of the output
    #[arg(short, long, default_value = "text")]
    pub output: Output,
    /// Only what was set, and is not as it would be without
    #[arg(long)]
    pub changed: bool,
}

impl Row {
    /// It is not as it would be without what was set.
    fn is_changed(&self) -> bool {
        self.unreadable.is_some()
            || self.default.as_deref().map_or(self.set, |default| self.value.as_deref() != Some(default))
    }
}

/// Prints them.
///
/// # Errors
/// There is no answer.
pub async fn run(args: &SettingsArgs) -> anyhow::Result<ExitCode> {
    out::print(shown(args).await?)?;
    Ok(ExitCode::SUCCESS)
}

async fn shown(args: &SettingsArgs) -> Result<String, Error> {
    let broken = |why: String| Error { text: format!("the server sent what are no settings: {why}"), status: None };
    let text = args.door.get_of_server("settings").await?.text().await.map_err(|error| broken(error.to_string()))?;
    if args.output == Output::Json {
        return Ok(out::escaped(&text));
    }
    let answer = out::answer(&text).map_err(|error| broken(error.to_string()))?;
    Ok(tables(&answer, args.changed))
}

fn tables(Shown { options, server, resource_managers }: &Shown, changed: bool) -> String {
    let mut text = String::new();
    let options =
        options.iter().filter(|row| !changed || row.set).map(|ServerOption { name, value, default, set, .. }| {
            let remark = default.as_ref().filter(|_| *set).map(|default| format!("default {default}"));
            [format!("--{name}"), value.clone().unwrap_or_default(), remark.unwrap_or_default()]
        });
    section(&mut text, "OPTION", options);
    section(&mut text, "SERVER", server.iter().filter(|row| !changed || row.is_changed()).map(columns));
    for Manager { rm, settings } in resource_managers {
        let rows = settings.iter().filter(|row| !changed || row.is_changed()).map(columns);
        section(&mut text, &format!("RESOURCE MANAGER {rm}"), rows);
    }
    text
}

fn columns(row: &Row) -> [String; 3] {
    let Row { key, value, default, unreadable, .. } = row;
    let value = value.clone().unwrap_or_else(|| "as started".to_owned());
    let remark = match (unreadable, default) {
        (Some(bad), _) => format!("\"{bad}\" cannot be read"),
        (None, Some(default)) if *default != value && !default.is_empty() => format!("default {default}"),
        _ => String::new(),
    };
    [key.clone(), value, remark]
}

fn section(text: &mut String, title: &str, rows: impl Iterator<Item = [String; 3]>) {
    let mut all = vec![[title, "", ""].map(str::to_owned)];
    all.extend(rows);
    if all.len() == 1 {
        return;
    }
    if !text.is_empty() {
        text.push('\n');
    }
    text.push_str(&out::aligned(&all, 3));
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_was_set_shows_beside_its_default() {
        let setting = |mut row: serde_json::Value| {
            (row["type"], row["live"], row["description"]) = ("word".into(), true.into(), "".into());
            row
        };
        let server = [
            json!({"key": "log.level", "value": "warn", "default": "info", "set": true}),
            json!({"key": "event.maxStreams", "value": "100", "default": "100", "set": true, "unreadable": "many"}),
            json!({"key": "http.maxBodyBytes", "value": null, "set": false}),
        ];
        let of_manager = json!({"key": "rm.gracePeriod", "value": "30s", "default": "30s", "set": true});
        let answer = json!({
            "options": [
                {"name": "data", "type": "DIR", "value": "/d", "default": "./callboard-data", "set": true, "description": ""},
                {"name": "ephemeral", "type": "flag", "value": "false", "default": "false", "set": false, "description": ""},
                {"name": "tokens", "type": "FILE", "value": null, "set": false, "description": ""},
            ],
            "server": server.map(setting),
            "resourceManagers": [{"rmID": "rm-1", "settings": [setting(of_manager)]}],
        });
        let answer = serde_json::from_value(answer).unwrap();
        let expected = "OPTION\n--data       /d     default ./callboard-data\n--ephemeral  false\n--tokens\n\nSERVER\nlog.level          warn        default info\n\
                        event.maxStreams   100         \"many\" cannot be read\nhttp.maxBodyBytes  as started\n\n\
                        RESOURCE MANAGER rm-1\nrm.gracePeriod         30s\n";
        assert_eq!(tables(&answer, false), expected);
        let changed = tables(&answer, true);
        assert!(changed.starts_with("OPTION\n--data  /d  default ./callboard-data\n\nSERVER\nlog.level"), "{changed}");
        assert!(!changed.contains("RESOURCE MANAGER") && !changed.contains("maxBodyBytes"), "{changed}");
    }
}
