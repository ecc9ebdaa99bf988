//! `callboard token`: makes tokens.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, fchown},
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
};

use anyhow::{Context as _, anyhow, bail};
use clap::{Args, Subcommand};

use super::{Misused, out};
use crate::{
    access::{
        Digest, Role,
        line::{Grant, Proof},
        new_secret, tokens,
    },
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
    /// List the tokens of a file: names, roles, and the beginning of each digest
    List {
        /// The file of --tokens
        #[arg(long, value_name = "FILE", env = "CALLBOARD_TOKENS")]
        file: PathBuf,
    },
    /// Take tokens out of a file: a running server ends what is being answered to them within a second
    Revoke {
        /// Name of the token, or the beginning of its digest as `list` shows it
        name: String,
        /// The file of --tokens
        #[arg(long, value_name = "FILE", env = "CALLBOARD_TOKENS")]
        file: PathBuf,
        /// All tokens of this name, where there are several
        #[arg(long)]
        all: bool,
    },
}

#[derive(Args, Clone, Debug)]
struct NewArgs {
    /// What its holder may do: viewer reads, shim is a resource manager, operator does everything
    #[arg(long)]
    role: Role,
    /// What it is called in messages and logs
    #[arg(long, value_name = "TEXT", default_value = "unnamed", value_parser = name)]
    name: String,
    /// Resource managers that its holder may act for, separated by commas [default: all]
    #[arg(long, value_name = "ID,ID", value_delimiter = ',')]
    rms: Vec<String>,
    /// A shim that may change the configuration of its running session
    #[arg(long)]
    configures: bool,
    /// No token: a line for who shows a client certificate with this DNS name or URI (--tls-client-ca of the server)
    #[arg(long, value_name = "NAME")]
    certificate: Option<String>,
    /// Add the line to this file, which is made where it is missing, and print the token alone
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
}

/// Runs the command.
///
/// # Errors
/// Options that do not go together, no randomness, or a file that cannot be written.
pub fn run(args: &TokenArgs) -> anyhow::Result<ExitCode> {
    match &args.what {
        What::New(args) => new(args),
        What::List { file } => {
            out::print(list(file)?)?;
            whole(file)
        }
        What::Revoke { name, file, all } => {
            let gone = revoke(file, name, *all)?;
            out::print(format_args!("taken back: {}\n", gone.join(", ")))?;
            whole(file)
        }
    }
    .map(|()| ExitCode::SUCCESS)
}

/// A name is shown in tables, logs and answers.
fn name(text: &str) -> Result<String, String> {
    if text.is_empty() || text.chars().any(char::is_control) {
        return Err("a name has at least one character, and none that controls a terminal".to_owned());
    }
    Ok(text.to_owned())
}

/// Letters of a digest that name a token.
const SHORT: usize = 12;

/// The first letters of the digest, or the name of a certificate.
fn short(grant: &Grant) -> String {
    let proof = grant.proof.to_string();
    match proof.strip_prefix("sha256:") {
        Some(digest) => digest.chars().take(SHORT).collect(),
        None => proof,
    }
}

fn text(file: &Path) -> anyhow::Result<String> {
    fs::read_to_string(file).with_context(|| format!("--file {}", file.display()))
}

/// A server reads the file. It does not where a token is there twice, which listing and taking one of them back need not mind.
fn whole(file: &Path) -> anyhow::Result<()> {
    tokens::grants(file, &text(file)?).map(|_| ()).map_err(|error| anyhow!("no server reads it: {error}"))
}

fn list(file: &Path) -> anyhow::Result<String> {
    let mut rows = vec![["DIGEST", "ROLE", "NAME", "RESOURCE MANAGERS"].map(str::to_owned)];
    for (_, grant) in tokens::lines(file, &text(file)?).map_err(|error| anyhow!(error))? {
        let rms = match &grant.rms {
            Some(rms) => rms.join(","),
            None if grant.role == Role::Viewer => "-".to_owned(),
            None => "all".to_owned(),
        };
        let rms = if grant.configures { format!("{rms} (configures)") } else { rms };
        rows.push([short(&grant), grant.role.to_string(), grant.name.to_string(), rms]);
    }
    Ok(out::aligned(&rows, 4))
}

/// The file for one command alone, as long as this is held: of two that read it before either has written, the later one would
/// bring back what the other took out, or lose what it added. One that was replaced meanwhile is not the file any more.
fn alone(path: &Path) -> io::Result<File> {
    loop {
        let file = File::open(path)?;
        if let Err(error) = file.lock() {
            out::note(format_args!("callboard: {} cannot be locked, so change it one by one: {error}", path.display()));
            return Ok(file);
        }
        let (held, there) = (file.metadata()?, fs::metadata(path)?);
        if (held.dev(), held.ino()) == (there.dev(), there.ino()) {
            return Ok(file);
        }
    }
}

/// Takes the lines out, leaving all others as they are; gives what was taken back.
fn revoke(file: &Path, wanted: &str, all: bool) -> anyhow::Result<Vec<String>> {
    let named = || format!("--file {}", file.display());
    let _alone = alone(file).with_context(named)?;
    let text = text(file)?;
    tokens::lines(file, &text).map_err(|error| anyhow!(error))?;
    let matches = |line: &str| {
        let grant = Grant::read(line).ok().flatten()?;
        let digest = wanted.trim_start_matches("sha256:");
        let proof = grant.proof.to_string();
        let by_digest =
            digest.len() >= SHORT && proof.strip_prefix("sha256:").is_some_and(|known| known.starts_with(digest));
        (&*grant.name == wanted || by_digest || proof == wanted)
            .then(|| format!("{} ({}, {})", grant.name, grant.role, short(&grant)))
    };
    let gone: Vec<String> = text.lines().filter_map(matches).collect();
    match gone.len() {
        0 => bail!("{} has no token \"{wanted}\": callboard token list shows those that it has", file.display()),
        1 => {}
        _ if all => {}
        count => {
            bail!("{count} tokens are called \"{wanted}\": name one by its digest, or add --all: {}", gone.join(", "))
        }
    }
    // The file itself, where it is a link to one: servers may read it by another name.
    let file = &fs::canonicalize(file).with_context(named)?;
    let kept: String = text.lines().filter(|line| matches(line).is_none()).map(|line| format!("{line}\n")).collect();
    let was = fs::metadata(file).with_context(named)?;
    // Readable for whom it was before it takes its place: a server that cannot read it goes on with what was taken back.
    let replaced = files::replace_with(file, |new| {
        fchown(&*new, Some(was.uid()), Some(was.gid()))?;
        new.set_permissions(was.permissions())?;
        new.write_all(kept.as_bytes())
    });
    replaced.with_context(named)?;
    Ok(gone)
}

fn new(args: &NewArgs) -> anyhow::Result<()> {
    if let Some(name) = &args.certificate {
        let line = grant(args, Proof::Certificate((&**name).into()))?.line();
        return match &args.file {
            Some(file) => append(file, &line),
            None => {
                Grant::read(&line).map_err(|error| anyhow!("--certificate: {error}"))?;
                out::print(format_args!("line for the file:  {line}\n")).map_err(Into::into)
            }
        };
    }
    let secret = new_secret().map_err(|error| anyhow!(error))?;
    let line = grant(args, Proof::Token(Digest::of(secret.reveal())))?.line();
    match &args.file {
        Some(file) => {
            // The token first: one that nobody was told must not be let in, and one that is not let in yet can be made again.
            check(file, &line)?;
            out::print(format_args!("{}\n", secret.reveal()))?;
            append(file, &line)?;
        }
        None => out::print(format_args!("token (shown once): {}\nline for the file:  {line}\n", secret.reveal()))?,
    }
    Ok(())
}

fn grant(args: &NewArgs, proof: Proof) -> anyhow::Result<Grant> {
    if args.configures && args.role != Role::Shim {
        bail!(Misused(
            "--configures is for --role shim: an operator may change configurations anyway, a viewer never".into()
        ));
    }
    if args.rms.iter().any(String::is_empty) {
        bail!(Misused("--rms has an empty id".into()));
    }
    if !args.rms.is_empty() && args.role != Role::Shim {
        bail!(Misused(
            format!("--rms binds shims only: whoever has the role {} may do the same in all partitions", args.role)
                .into()
        ));
    }
    let rms = (!args.rms.is_empty()).then(|| args.rms.iter().map(|rm| Arc::from(&**rm)).collect());
    Ok(Grant { role: args.role, proof, name: (&*args.name).into(), rms, configures: args.configures })
}

/// The file can be added to, and this is what is written to its end. What is there has to be right, and also with the line: a
/// server that cannot read the file would go on with what it has, and the next one not start.
fn check(path: &Path, line: &str) -> anyhow::Result<(fs::File, String)> {
    let named = || format!("--file {}", path.display());
    let old = if path.try_exists().with_context(named)? { text(path)? } else { String::new() };
    tokens::grants(path, &old).map_err(|error| anyhow!(error))?;
    let broken = !old.is_empty() && !old.ends_with('\n');
    let more = format!("{}{line}\n", if broken { "\n" } else { "" });
    tokens::grants(path, &(old + &more))
        .map_err(|error| anyhow!("nothing was written, no server would read it: {error}"))?;
    let file = files::open_or_make(path, OpenOptions::new().append(true).mode(0o600)).with_context(named)?;
    Ok((file, more))
}

fn append(path: &Path, line: &str) -> anyhow::Result<()> {
    let named = || format!("--file {}", path.display());
    // It is there from here on.
    check(path, line)?;
    let _alone = alone(path).with_context(named)?;
    let (mut file, more) = check(path, line)?;
    // In one write, so that a server that reads meanwhile sees all of it or nothing.
    let written = file.write_all(more.as_bytes()).and_then(|()| file.sync_all());
    written.with_context(named)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, chown};

    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        args: TokenArgs,
    }

    fn new(more: &[&str]) -> anyhow::Result<Grant> {
        let What::New(args) = Command::try_parse_from(["token", "new"].iter().chain(more))?.args.what else {
            panic!("it is another command");
        };
        grant(&args, Proof::Token(Digest::of("x")))
    }

    #[test]
    fn options_become_a_line() {
        for bad in ["", "a\nb", "\u{1b}[31m"] {
            assert!(name(bad).is_err(), "{bad:?}");
        }
        let made = new(&["--role", "shim", "--name", "on call", "--rms", "a,b", "--configures"]).unwrap();
        assert_eq!(Grant::read(&made.line()), Ok(Some(made)));
        assert!(new(&[]).unwrap_err().to_string().contains("--role"));
        assert!(new(&["--role", "king"]).unwrap_err().to_string().contains("viewer, shim or operator"));
        assert!(new(&["--role", "viewer", "--configures"]).unwrap_err().to_string().contains("--role shim"));
        let bound = new(&["--role", "operator", "--rms", "a"]).unwrap_err().to_string();
        assert!(bound.starts_with("--rms binds shims only"), "{bound}");
        assert!(new(&["--role", "shim", "--rms", "a,,b"]).unwrap_err().to_string().contains("empty id"));
    }

    #[test]
    fn tokens_are_listed_and_taken_back() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("tokens");
        let line = |role: &str, name: &str, token: &str| {
            let mut made = new(&["--role", role, "--name", name]).unwrap();
            made.proof = Proof::Token(Digest::of(token));
            made.line() + "\n"
        };
        let text = format!(
            "# ours\n{}{}{}",
            line("operator", "alice", "1"),
            line("shim", "k8s", "2"),
            line("shim", "k8s", "3")
        );
        fs::write(&file, &text).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
        // As an administrator does for the user of the service; others may not.
        let group = chown(&file, None, Some(1)).map_or(fs::metadata(&file).unwrap().gid(), |()| 1);
        let shown = list(&file).unwrap();
        assert_eq!(shown.lines().count(), 4, "{shown}");
        assert!(!shown.contains(&Digest::of("1").to_string()), "a digest is not shown whole");
        assert!(revoke(&file, "bob", false).unwrap_err().to_string().contains("no token \"bob\""));
        assert!(revoke(&file, "k8s", false).unwrap_err().to_string().contains("2 tokens"));
        assert_eq!(fs::read_to_string(&file).unwrap(), text, "nothing was changed");
        let digest = short(&Grant::read(text.lines().nth(2).unwrap()).unwrap().unwrap());
        assert_eq!(revoke(&file, &digest, false).unwrap().len(), 1);
        assert_eq!(revoke(&file, "k8s", true).unwrap().len(), 1);
        assert_eq!(
            fs::read_to_string(&file).unwrap(),
            text.lines().take(2).map(|line| format!("{line}\n")).collect::<String>()
        );
        let after = fs::metadata(&file).unwrap();
        assert_eq!((after.permissions().mode() & 0o777, after.gid()), (0o640, group));
    }

    #[test]
    fn of_two_commands_at_a_time_the_later_one_goes_on_with_what_the_other_left() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("tokens");
        let line = |name: &str| {
            let mut made = new(&["--role", "viewer", "--name", name]).unwrap();
            made.proof = Proof::Token(Digest::of(name));
            made.line()
        };
        for name in ["a", "b"] {
            append(&file, &line(name)).unwrap();
        }
        let first = alone(&file).unwrap();
        let (more, of_threads) = (line("c"), file.clone());
        let others = std::thread::spawn(move || {
            revoke(&of_threads, "b", false).unwrap();
            append(&of_threads, &more).unwrap();
        });
        files::replace(&file, format!("{}\n", line("b")).as_bytes()).unwrap();
        drop(first);
        others.join().unwrap();
        assert_eq!(text(&file).unwrap(), format!("{}\n", line("c")), "a was taken back before");
    }

    #[test]
    fn lines_are_added_to_files_that_others_cannot_read() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("tokens");
        let line = |token: &str| {
            let mut made = new(&["--role", "viewer"]).unwrap();
            made.proof = Proof::Token(Digest::of(token));
            made.line()
        };
        append(&file, &line("one")).unwrap();
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        fs::write(&file, fs::read_to_string(&file).unwrap().trim_end()).unwrap();
        append(&file, &line("two")).unwrap();
        assert_eq!(tokens::grants(&file, &text(&file).unwrap()).unwrap().len(), 2);
        fs::write(&file, "nonsense\n").unwrap();
        assert!(append(&file, &line("three")).unwrap_err().to_string().contains("line 1"));
    }

    #[test]
    fn a_line_that_the_server_would_not_read_is_not_written() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("tokens");
        let certificate = |of: &str, name: &str| {
            let mut made = new(&["--role", "shim", "--name", name]).unwrap();
            made.proof = Proof::Certificate(of.into());
            made.line()
        };
        assert!(append(&file, &certificate("", "k8s")).unwrap_err().to_string().contains("is followed by a DNS name"));
        assert!(!file.exists());
        append(&file, &certificate("k8s.example", "k8s")).unwrap();
        let before = text(&file).unwrap();
        let error = append(&file, &certificate("K8S.example", "ops")).unwrap_err().to_string();
        for part in ["nothing was written", "\"ops\" is there twice", "line 1 has it as \"k8s\"", "token revoke"] {
            assert!(error.contains(part), "{error}");
        }
        assert_eq!(text(&file).unwrap(), before);
    }

    #[test]
    fn one_that_is_there_twice_is_listed_and_taken_back() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("tokens");
        let lines = "operator certificate:ops.example name=ann\nshim certificate:k8s.example name=k8s\n";
        fs::write(&file, format!("{lines}shim certificate:K8S.example name=late\n")).unwrap();
        assert_eq!(list(&file).unwrap().lines().count(), 4);
        assert!(whole(&file).unwrap_err().to_string().contains("no server reads it"));
        assert_eq!(revoke(&file, "late", false).unwrap().len(), 1);
        whole(&file).unwrap();
        assert_eq!(text(&file).unwrap(), lines);
    }
}
