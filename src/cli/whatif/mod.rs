//! `callboard whatif`: what a change would do, before it is made.

mod document;
mod recorded;
mod told;

use std::{path::PathBuf, process::ExitCode};

use anyhow::bail;
use clap::Args;
use serde_json::Value;

use super::{
    Misused,
    client::http::segment,
    door::{Door, Error},
    flight::source::Moment,
    out::{self, Output},
};
use crate::{
    http::api::whatif::{
        request::{Application, NodeAdd, Quantity, QueueChange, Request},
        view::WhatIf,
    },
    si::decode,
};

/// Options of `callboard whatif`. What is given together is one change.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
A FILE has the same as the options, as YAML or JSON:

  nodeAdd: [{count: 10, like: n1}]
  nodeDrain: [n2, 'n[4-7]']
  queue: [{queue: root.a, set: {max.memory: 2Ti}}]
  submit:
  - {queue: root.a, user: alice, asks: [{count: 20, resource: {memory: 4Gi, vcore: 1}}]}
  for: 2h

Exit status: 0 nothing would fare worse; 1 the change or a part of it is refused, or the server cannot be asked; 2 the command line is wrong; 3 applications would fare worse")]
pub struct WhatIfArgs {
    /// The change, as YAML or JSON
    file: Option<PathBuf>,
    /// Nodes that come, such as 10:like=n1 for ten like n1; may be given several times
    #[arg(long, value_name = "COUNT:like=NODE", value_parser = node_add)]
    node_add: Vec<NodeAdd>,
    /// Nodes that are drained, such as n1,n2 or n[1-3]
    #[arg(long, value_name = "NODES")]
    node_drain: Vec<String>,
    /// Nodes that take allocations again, whoever drained them
    #[arg(long, value_name = "NODES")]
    node_undrain: Vec<String>,
    /// A setting of a queue, such as root.a:max.memory=2Ti; several with commas, and the option several times
    #[arg(long, value_name = "PATH:SETTING=VALUE", value_parser = queue)]
    queue: Vec<QueueChange>,
    /// An application that is submitted, as one entry of `submit` in a FILE; may be given several times
    #[arg(long, value_name = "FILE")]
    submit: Vec<PathBuf>,
    /// A configuration instead of the one in force
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// How far ahead is looked, such as 2h [default: 5m, or the whole flight]
    #[arg(long = "for", value_name = "TIME")]
    horizon: Option<String>,
    /// Ask no server, but run what `callboard flight export` wrote into this file once more, without the change and with it
    #[arg(long, value_name = "FLIGHT")]
    flight: Option<PathBuf>,
    /// The moment of the flight from which on the change holds: the number of a record, or a time; its beginning where it is left out
    #[arg(long, value_name = "INDEX|TIME", requires = "flight")]
    at: Option<Moment>,
    /// How it is printed
    #[arg(short, long, value_enum, default_value = "text")]
    output: Output,
    #[command(flatten)]
    door: Door,
}

/// Applications would fare worse.
const WORSE: u8 = 3;

fn node_add(text: &str) -> Result<NodeAdd, String> {
    let given = text.split_once(":like=").and_then(|(count, like)| Some((count.parse().ok()?, like)));
    match given {
        Some((count, like)) if count > 0 && !like.is_empty() => Ok(NodeAdd { count, like: like.to_owned() }),
        _ => Err(format!("'{text}' is not COUNT:like=NODE, such as 10:like=n1")),
    }
}

fn queue(text: &str) -> Result<QueueChange, String> {
    let fault = || format!("'{text}' is not PATH:SETTING=VALUE, such as root.a:max.memory=2Ti");
    // Names of queues may have colons, as may what follows in a setting (CFG-020): the last one before a setting ends the path.
    let (first, _) = text.split_once('=').ok_or_else(fault)?;
    let is_setting = |rest: &str| {
        rest == "maxapplications" || ["max.", "guaranteed.", "properties."].iter().any(|known| rest.starts_with(known))
    };
    let known = first.rmatch_indices(':').find(|(at, _)| is_setting(&first[at + 1..]));
    // One that nobody knows is named by the server.
    let at = known.map(|(at, _)| at).or_else(|| first.rfind(':')).ok_or_else(fault)?;
    let (queue, settings) = (&text[..at], &text[at + 1..]);
    let pair = |setting: &str| {
        let (name, value) = setting.split_once('=')?;
        Some((name.to_owned(), Quantity::Text(value.to_owned())))
    };
    let set = settings.split(',').map(|setting| pair(setting).ok_or_else(fault)).collect::<Result<_, _>>()?;
    Ok(QueueChange { queue: queue.to_owned(), set })
}

/// Runs the command; its help tells the exit status.
///
/// # Errors
/// No change is named, one cannot be read, or the server cannot be asked.
pub async fn run(args: &WhatIfArgs) -> anyhow::Result<ExitCode> {
    let request = request(args).map_err(anyhow::Error::msg)?;
    if request == Request::default() {
        let text = "no change is named: give a FILE, or options such as --node-add 10:like=n1 (--help lists them)";
        bail!(Misused(text.into()));
    }
    let (answer, json) = ask(args, request).await?;
    out::print(if args.output == Output::Json {
        out::escaped(&json) + "\n"
    } else {
        told::told(&out::answer(&json)?)
    })?;
    let worse = answer.applications.iter().any(|app| app.fares_worse());
    Ok(match (answer.refused.is_empty(), worse) {
        (false, _) => ExitCode::FAILURE,
        (true, true) => ExitCode::from(WORSE),
        (true, false) => ExitCode::SUCCESS,
    })
}

async fn ask(args: &WhatIfArgs, request: Request) -> Result<(WhatIf, String), Error> {
    if let Some(file) = &args.flight {
        let file = file.clone();
        let (at, partition) = (args.at, args.door.partition.clone());
        let run = tokio::task::spawn_blocking(move || recorded::run(&file, at, &partition, &request));
        let answer = run.await.map_err(|error| error.to_string()).flatten();
        let answer = answer.map_err(|text| Error { text, status: None })?;
        let json = serde_json::to_string(&answer).map_err(|error| Error { text: error.to_string(), status: None })?;
        return Ok((answer, json));
    }
    let path = format!("whatif?partition={}", segment(&args.door.partition));
    let broken = |what: String| Error { text: format!("the server sent what is no answer: {what}"), status: None };
    let json = args.door.post_to_server(&path, &request).await?.text().await;
    let json = json.map_err(|error| broken(error.to_string()))?;
    let answer = serde_json::from_str(&json).map_err(|error| broken(error.to_string()))?;
    Ok((answer, json))
}

/// The change that file and options make together.
fn request(args: &WhatIfArgs) -> Result<Request, String> {
    let mut request = Request::default();
    if let Some(file) = &args.file {
        let value = document::read(file)?;
        request = decode::from_value(&value).map_err(|fault| format!("{}: {}", file.display(), fault.detail))?;
    }
    request.node_add.extend(args.node_add.clone());
    request.node_drain.extend(args.node_drain.clone());
    request.node_undrain.extend(args.node_undrain.clone());
    request.queue.extend(args.queue.clone());
    for file in &args.submit {
        let value = document::read(file)?;
        let list = if value.is_array() { value } else { Value::Array(vec![value]) };
        let new: Vec<Application> =
            decode::from_value(&list).map_err(|fault| format!("{}: {}", file.display(), fault.detail))?;
        request.submit.extend(new);
    }
    if let Some(file) = &args.config {
        let name = file.display();
        let text = std::fs::read_to_string(file).map_err(|error| format!("{name}: cannot be read: {error}"))?;
        request.config = Some(text);
    }
    request.horizon = args.horizon.clone().or(request.horizon);
    Ok(request)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        args: WhatIfArgs,
    }

    fn parsed(words: &[&str]) -> Result<Request, String> {
        let command = Command::try_parse_from(["whatif"].iter().chain(words)).map_err(|error| error.to_string())?;
        request(&command.args)
    }

    #[test]
    fn options_and_a_file_are_one_change() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "nodeDrain: [n9]\nfor: 2h\nsubmit: [{asks: [{resource: {vcore: 1}}]}]\n").unwrap();
        let path = file.path().display().to_string();
        let made = parsed(&[
            &path,
            "--node-add",
            "10:like=n1",
            "--node-drain",
            "n1,n2",
            "--queue",
            "root.a:max.memory=2Ti,maxapplications=5",
        ])
        .unwrap();
        assert_eq!(made.node_add, [NodeAdd { count: 10, like: "n1".into() }]);
        assert_eq!(made.node_drain, ["n9", "n1,n2"]);
        let text = |text: &str| Quantity::Text(text.into());
        let set = BTreeMap::from([("max.memory".into(), text("2Ti")), ("maxapplications".into(), text("5"))]);
        assert_eq!(made.queue, [QueueChange { queue: "root.a".into(), set }]);
        assert_eq!(made.submit[0].asks[0].resource["vcore"], Quantity::Number(1));
        assert_eq!(made.horizon.as_deref(), Some("2h"));
        assert_eq!(parsed(&[&path, "--for", "10m"]).unwrap().horizon.as_deref(), Some("10m"));
    }

    #[test]
    fn names_of_queues_may_have_colons() {
        // CFG-020
        for (given, path, setting) in [
            ("root.team:a:max.memory=2Ti", "root.team:a", "max.memory"),
            ("root.a:max.b:c:maxapplications=5", "root.a:max.b:c", "maxapplications"),
            ("root.team:a:max.gpu:big=5", "root.team:a", "max.gpu:big"),
            ("root.a:properties.x:y=a:b=c", "root.a", "properties.x:y"),
            ("root.team:a:bogus=1", "root.team:a", "bogus"),
        ] {
            let made = queue(given).unwrap();
            assert_eq!((&*made.queue, made.set.keys().next().map(|name| &**name)), (path, Some(setting)), "{given}");
        }
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (words, told) in [
            (["--node-add", "10"], "'10' is not COUNT:like=NODE, such as 10:like=n1"),
            (["--node-add", "0:like=n1"], "'0:like=n1' is not COUNT:like=NODE"),
            (["--queue", "root.a"], "'root.a' is not PATH:SETTING=VALUE"),
            (["--queue", "root.a:max"], "'root.a:max' is not PATH:SETTING=VALUE"),
            (["--submit", "/no/such/file"], "/no/such/file: cannot be read"),
        ] {
            let error = parsed(&words).unwrap_err();
            assert!(error.contains(told), "{error}");
        }
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "nodeAdd: [{count: ten, like: n1}]\n").unwrap();
        let error = parsed(&[&file.path().display().to_string()]).unwrap_err();
        assert!(error.contains("nodeAdd[0].count: ") && error.contains("ten"), "{error}");
    }
}
