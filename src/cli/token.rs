//! `callboard token`: makes tokens.

use std::{
    fs::{self, OpenOptions},
    io::Write as _,
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
};

use anyhow::{Context as _, anyhow, bail};
use clap::{Args, Subcommand};

use super::out;
use crate::{
    access::{Digest, Role, Secret, Tokens, line::Grant},
    store::files,
};

/// Make tokens
#[derive(Args, Clone, Debug)]
pub struct TokenArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand, Clone, Debug)]
enum What {
    /// Make a token: prints it, once, and the line for the file of --tokens
    New(NewArgs),
}

#[derive(Args, Clone, Debug)]
struct NewArgs {
    /// What its holder may do: viewer reads, shim is a resource manager, operator does everything
    #[arg(long)]
    role: Role,
    /// What it is called in messages and logs
    #[arg(long, value_name = "TEXT", default_value = "unnamed", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    name: String,
    /// Resource managers that its holder may act for, separated by commas [default: all]
    #[arg(long, value_name = "ID,ID", value_delimiter = ',')]
    rms: Vec<String>,
    /// A shim that may change the configuration of its running session
    #[arg(long)]
    configures: bool,
    /// Add the line to this file, which is made where it is missing, and print the token alone
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
}

/// Runs the command.
///
/// # Errors
/// Options that do not go together, no randomness, or a file that cannot be written.
pub fn run(args: &TokenArgs) -> anyhow::Result<ExitCode> {
    let What::New(args) = &args.what;
    let secret = Secret::generate().map_err(|error| anyhow!(error))?;
    let line = grant(args, Digest::of(secret.reveal()))?.line();
    match &args.file {
        Some(file) => {
            // The token first: one that nobody was told must not be let in, and one that is not let in yet can be made again.
            check(file)?;
            out::print(format_args!("{}\n", secret.reveal()))?;
            append(file, &line)?;
        }
        None => out::print(format_args!("token (shown once): {}\nline for the file:  {line}\n", secret.reveal()))?,
    }
    Ok(ExitCode::SUCCESS)
}

fn grant(args: &NewArgs, digest: Digest) -> anyhow::Result<Grant> {
    if args.configures && args.role != Role::Shim {
        bail!("--configures is for --role shim: an operator may change configurations anyway, a viewer never");
    }
    if args.rms.iter().any(String::is_empty) {
        bail!("--rms has an empty id");
    }
    let rms = (!args.rms.is_empty()).then(|| args.rms.iter().map(|rm| Arc::from(&**rm)).collect());
    Ok(Grant { role: args.role, digest, name: (&*args.name).into(), rms, configures: args.configures })
}

/// The file can be added to. What is there has to be right, or nobody would notice before the server does.
fn check(file: &Path) -> anyhow::Result<fs::File> {
    let named = || format!("--file {}", file.display());
    if file.try_exists().with_context(named)? {
        Tokens::open(file).map_err(|error| anyhow!(error))?;
    }
    files::open_or_make(file, OpenOptions::new().append(true).mode(0o600)).with_context(named)
}

fn append(path: &Path, line: &str) -> anyhow::Result<()> {
    let named = || format!("--file {}", path.display());
    let mut file = check(path)?;
    let broken = fs::read(path).with_context(named)?.last().is_some_and(|last| *last != b'\n');
    // In one write, so that a server that reads meanwhile sees all of it or nothing.
    let text = format!("{}{line}\n", if broken { "\n" } else { "" });
    file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).with_context(named)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        args: TokenArgs,
    }

    fn new(more: &[&str]) -> anyhow::Result<Grant> {
        let What::New(args) = Command::try_parse_from(["token", "new"].iter().chain(more))?.args.what;
        grant(&args, Digest::of("x"))
    }

    #[test]
    fn options_become_a_line() {
        let made = new(&["--role", "shim", "--name", "on call", "--rms", "a,b", "--configures"]).unwrap();
        assert_eq!(Grant::read(&made.line()), Ok(Some(made)));
        assert!(new(&[]).unwrap_err().to_string().contains("--role"));
        assert!(new(&["--role", "king"]).unwrap_err().to_string().contains("viewer, shim or operator"));
        assert!(new(&["--role", "viewer", "--configures"]).unwrap_err().to_string().contains("--role shim"));
        assert!(new(&["--role", "shim", "--rms", "a,,b"]).unwrap_err().to_string().contains("empty id"));
    }

    #[test]
    fn lines_are_added_to_files_that_others_cannot_read() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("tokens");
        let line = |token: &str| {
            let mut made = new(&["--role", "viewer"]).unwrap();
            made.digest = Digest::of(token);
            made.line()
        };
        append(&file, &line("one")).unwrap();
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        fs::write(&file, fs::read_to_string(&file).unwrap().trim_end()).unwrap();
        append(&file, &line("two")).unwrap();
        assert_eq!(Tokens::open(&file).unwrap().len(), 2);
        fs::write(&file, "nonsense\n").unwrap();
        assert!(append(&file, &line("three")).unwrap_err().to_string().contains("line 1"));
    }
}
