//! Where the commands find their server: contexts in a file of the user's, so that nobody has to type addresses.
//!
//! `~/.config/callboard/config.toml`, or what `CALLBOARD_CLIENT_CONFIG` names:
//!
//! ```toml
//! context = "prod"
//!
//! [contexts.prod]
//! server = ["https://board-1:9080", "https://board-2:9080"]
//! partition = "default"
//! token-file = "/home/ann/.config/callboard/prod.token"
//! ca = "/etc/ssl/own.pem"
//! ```
//!
//! A context is one server with what belongs to it: where another server is named, by `--server` or `CALLBOARD_SERVER`, no
//! context is used, so that a token goes to nobody else.

use std::{
    collections::BTreeMap,
    env,
    ffi::{OsStr, OsString},
    fs, io,
    path::{Path, PathBuf},
};

use clap::{Arg, Args, Command};
use serde::Deserialize;

use super::{client::trust::Trust, door::Door};

/// Which file, instead of the one in the home directory.
const FILE: &str = "CALLBOARD_CLIENT_CONFIG";
/// Which context.
const CONTEXT: &str = "CALLBOARD_CONTEXT";
/// Which server.
const SERVER: &str = "CALLBOARD_SERVER";
/// The token itself.
const TOKEN: &str = "CALLBOARD_TOKEN";

/// The option that names a context.
#[derive(Args, Clone, Debug, Default)]
pub struct ContextArg {
    /// Context of ~/.config/callboard/config.toml: a server with its partition, token and certificates
    #[arg(long, global = true, value_name = "NAME", env = "CALLBOARD_CONTEXT")]
    pub context: Option<String>,
}

/// The file.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Contexts {
    context: Option<String>,
    #[serde(default)]
    contexts: BTreeMap<String, Context>,
}

/// One server and what belongs to it.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Context {
    server: Option<Servers>,
    partition: Option<String>,
    token_file: Option<String>,
    ca: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(untagged)]
enum Servers {
    One(String),
    Many(Vec<String>),
}

/// What is said outside the file.
#[derive(Debug, Default)]
struct Said {
    context: Option<String>,
    server: bool,
    partition: bool,
    token: bool,
    token_file: bool,
    ca: bool,
}

impl Said {
    fn read(args: impl Iterator<Item = OsString>, var: impl Fn(&str) -> Option<OsString>) -> Said {
        let given = |name: &str| var(name).filter(|value| !value.is_empty());
        let mut said = Said {
            context: given(CONTEXT).map(|name| name.to_string_lossy().into_owned()),
            server: given(SERVER).is_some(),
            token: given(TOKEN).is_some(),
            ..Said::default()
        };
        let mut args = args.map(|arg| arg.to_string_lossy().into_owned()).take_while(|arg| arg != "--");
        while let Some(arg) = args.next() {
            match arg.split_once('=') {
                Some(("--context", name)) => said.context = Some(name.to_owned()),
                None if arg == "--context" => said.context = args.next().or(said.context),
                _ => {}
            }
            match arg.split('=').next() {
                Some("--server") => said.server = true,
                Some("--partition") => said.partition = true,
                Some("--token-file") => said.token_file = true,
                Some("--ca") => said.ca = true,
                _ => {}
            }
        }
        said
    }
}

/// Options with which another command asks what this call asked, where it said so: its context or server, its partition, and what it
/// shows and believes. Variables of the environment other than the server's are there for the next command too.
pub fn repeated(door: &Door) -> Vec<(&'static str, String)> {
    Said::read(env::args_os(), |name| env::var_os(name)).repeated(door)
}

impl Said {
    fn repeated(&self, door: &Door) -> Vec<(&'static str, String)> {
        let mut options = Vec::new();
        match &self.context {
            Some(context) => options.push(("--context", context.clone())),
            None if self.server => options.push(("--server", door.server.clone())),
            None => {}
        }
        if self.partition {
            options.push(("--partition", door.partition.clone()));
        }
        let Trust { token_file, ca } = &door.trust;
        let files = [("--token-file", self.token_file, token_file), ("--ca", self.ca, ca)];
        let said = files.into_iter().filter(|(_, is_said, _)| *is_said);
        options.extend(said.filter_map(|(name, _, file)| Some((name, file.as_ref()?.display().to_string()))));
        options
    }
}

/// The command line with what the context of this call says as defaults.
///
/// # Errors
/// The file cannot be read, or there is no such context.
pub fn apply(command: Command) -> Result<Command, String> {
    let said = Said::read(env::args_os(), |name| env::var_os(name));
    // What asks no server needs none, and a server may run as a user who cannot read any home directory.
    let Some(file) = file().filter(|_| is_asking(&command, env::args_os().skip(1))) else {
        return Ok(command);
    };
    Ok(match choose(&file, &said)? {
        Some(context) => with(command, &context, said.token),
        None => command,
    })
}

/// The command of this line, or one below it, asks a server.
fn is_asking(command: &Command, args: impl Iterator<Item = OsString>) -> bool {
    fn any(command: &Command) -> bool {
        asks_a_server(command) || command.get_subcommands().any(any)
    }

    // Without one it is a server.
    let mut found = None;
    for arg in args {
        let Some(named) = found.unwrap_or(command).find_subcommand(arg) else { continue };
        // It holds for those below it, too.
        if asks_a_server(named) {
            return true;
        }
        found = Some(named);
    }
    found.is_some_and(any)
}

fn asks_a_server(command: &Command) -> bool {
    let is_server = |arg: &Arg| arg.get_id() == "server" && arg.get_env() == Some(OsStr::new(SERVER));
    command.get_arguments().any(is_server)
}

fn file() -> Option<PathBuf> {
    let var = |name: &str| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    var(FILE).or_else(|| {
        let home = var("XDG_CONFIG_HOME").or_else(|| Some(var("HOME")?.join(".config")))?;
        Some(home.join("callboard").join("config.toml"))
    })
}

fn choose(file: &Path, said: &Said) -> Result<Option<Context>, String> {
    let shown = file.display();
    if said.context.is_none() && said.server {
        return Ok(None);
    }
    let text = match fs::read_to_string(file) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(format!("{shown}: cannot be read: {error}")),
    };
    let all: Contexts = toml::from_str(&text).map_err(|error| format!("{shown}: {}", error.to_string().trim()))?;
    let Some(name) = said.context.as_ref().or(all.context.as_ref()) else { return Ok(None) };
    let Some(context) = all.contexts.get(name) else {
        let names: Vec<&str> = all.contexts.keys().map(String::as_str).collect();
        let known =
            if names.is_empty() { "it has none".to_owned() } else { format!("there are: {}", names.join(", ")) };
        return Err(format!("{shown} has no context '{name}'; {known}"));
    };
    if said.context.is_some() && said.server && context.server.is_some() {
        return Err(format!("context '{name}' names a server, and --server or {SERVER} another: leave one out"));
    }
    Ok(Some(context.clone()))
}

/// The defaults of every command that asks a server.
fn with(command: Command, context: &Context, token: bool) -> Command {
    let names: Vec<String> = command.get_subcommands().map(|sub| sub.get_name().to_owned()).collect();
    let mut command =
        names.into_iter().fold(command, |command, name| command.mut_subcommand(name, |sub| with(sub, context, token)));
    if !asks_a_server(&command) {
        return command;
    }
    let server = context.server.clone().map(|servers| match servers {
        Servers::One(server) => server,
        Servers::Many(servers) => servers.join(","),
    });
    let token_file = context.token_file.clone().filter(|_| !token);
    for (id, value) in [
        ("server", server),
        ("partition", context.partition.clone()),
        ("token_file", token_file),
        ("ca", context.ca.clone()),
    ] {
        // What shows all partitions unless one is named is not narrowed by a context.
        let takes = |arg: &Arg| arg.get_id() == id && !arg.get_default_values().iter().any(|value| value.is_empty());
        if let Some(value) = value.filter(|_| command.get_arguments().any(takes)) {
            command = command.mut_arg(id, |arg| arg.default_value(value));
        }
    }
    command
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;
    use crate::cli::Cli;

    const TEXT: &str = "
        context = 'test'
        [contexts.test]
        server = 'board:9080'
        [contexts.prod]
        server = ['https://a', 'https://b']
        partition = 'gpu'
        token-file = '/t'
        ca = '/c'
    ";

    fn said(args: &[&str]) -> Said {
        Said::read(args.iter().map(OsString::from), |_| None)
    }

    fn chosen(args: &[&str]) -> Result<Option<Context>, String> {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), TEXT).unwrap();
        let shown = file.path().display().to_string();
        choose(file.path(), &said(args)).map_err(|error| error.replace(&shown, "FILE"))
    }

    #[test]
    fn the_one_that_is_named_else_that_of_the_file() {
        let server = |args: &[&str]| chosen(args).map(|context| context.and_then(|context| context.server));
        assert_eq!(server(&[]), Ok(Some(Servers::One("board:9080".into()))));
        let both = Some(Servers::Many(vec!["https://a".into(), "https://b".into()]));
        assert_eq!(server(&["apps", "--context", "prod"]), Ok(both.clone()));
        assert_eq!(server(&["apps", "--context=prod", "--", "--server"]), Ok(both));
        // A token goes to no other server.
        assert_eq!(server(&["apps", "--server", "x"]), Ok(None));
        let told = "context 'prod' names a server, and --server or CALLBOARD_SERVER another: leave one out";
        assert_eq!(server(&["--context=prod", "--server=x"]), Err(told.to_owned()));
        let told = "FILE has no context 'none'; there are: prod, test";
        assert_eq!(server(&["--context", "none"]), Err(told.to_owned()));
        let missing = Path::new("/no/such/file");
        assert_eq!(choose(missing, &Said::default()), Ok(None));
        assert!(choose(missing, &said(&["--context=a"])).unwrap_err().ends_with("has no context 'a'; it has none"));
    }

    #[test]
    fn what_it_says_are_defaults() {
        let context = chosen(&["--context", "prod"]).unwrap().unwrap();
        let command = with(Cli::command(), &context, false);
        let of = |words: &[&str]| {
            let matches = command.clone().try_get_matches_from(words).unwrap();
            let (_, matches) = matches.subcommand().unwrap();
            let text = |id: &str| matches.get_one::<String>(id).cloned().unwrap();
            (text("server"), text("partition"), matches.get_one::<PathBuf>("token_file").cloned())
        };
        let all = ("https://a,https://b".to_owned(), "gpu".to_owned(), Some(PathBuf::from("/t")));
        assert_eq!(of(&["callboard", "apps"]), all);
        assert_eq!(of(&["callboard", "resource", "list"]), all);
        assert_eq!(of(&["callboard", "apps", "--partition", "x"]).1, "x");
        assert_eq!(of(&["callboard", "status"]).1, "", "all of them");
        // A server that a command starts itself is none of these.
        let replay = command.clone().try_get_matches_from(["callboard", "replay"]).unwrap();
        assert_eq!(replay.subcommand().unwrap().1.get_one::<String>("server"), None);
    }

    #[test]
    fn only_what_asks_a_server_needs_a_context() {
        let asking = |line: &str| is_asking(&Cli::command(), line.split(' ').map(OsString::from));
        for line in ["apps", "resource --server x list", "resource list", "why app", "diagnose", "cluster config show"]
        {
            assert!(asking(line), "{line}");
        }
        for line in ["serve", "--http off", "--version", "token list --file apps", "validate x", "replay t", "man"] {
            assert!(!asking(line), "{line}");
        }
    }

    #[test]
    fn files_with_faults_are_told() {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), "contxt = 'a'\n").unwrap();
        let error = choose(file.path(), &Said::default()).unwrap_err();
        assert!(error.contains("unknown field `contxt`"), "{error}");
    }
}
