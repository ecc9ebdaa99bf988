//! `callboard completions` and `callboard man`: what shells and readers want to know of the commands, from the commands themselves.

use std::process::ExitCode;

use clap::{Args, Command, CommandFactory as _};
use clap_complete::Shell;

use super::{Cli, Misused, out};

/// Options of `callboard completions`.
#[derive(Args, Clone, Debug)]
pub struct CompletionsArgs {
    /// The shell
    shell: Shell,
}

/// Options of `callboard man`.
#[derive(Args, Clone, Debug)]
pub struct ManArgs {
    /// The command, such as `resource drain`; without one the page of the program
    command: Vec<String>,
}

/// Prints what a shell reads.
///
/// # Errors
/// It cannot be written.
pub fn completions(args: &CompletionsArgs) -> anyhow::Result<ExitCode> {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "callboard", &mut text);
    out::print(String::from_utf8_lossy(&text))?;
    Ok(ExitCode::SUCCESS)
}

/// Prints a page for `man`.
///
/// # Errors
/// There is no such command, or it cannot be written.
pub fn man(args: &ManArgs) -> anyhow::Result<ExitCode> {
    let mut text = Vec::new();
    clap_mangen::Man::new(find(&args.command)?).render(&mut text)?;
    out::print(String::from_utf8_lossy(&text))?;
    Ok(ExitCode::SUCCESS)
}

fn find(words: &[String]) -> anyhow::Result<Command> {
    let mut command = Cli::command();
    command.build();
    let mut name = "callboard".to_owned();
    for word in words {
        let next = command.find_subcommand(word).cloned();
        command = next.ok_or_else(|| {
            let known: Vec<&str> = command.get_subcommands().map(Command::get_name).collect();
            let known =
                if known.is_empty() { "it has none".to_owned() } else { format!("there are: {}", known.join(", ")) };
            anyhow::Error::new(Misused(format!("{name} has no command '{word}'; {known}").into()))
        })?;
        name = format!("{name} {word}");
    }
    let version = Cli::command().get_version().unwrap_or_default().to_owned();
    Ok(command.name(name.replace(' ', "-")).version(version))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shell_completes_every_command() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let mut text = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "callboard", &mut text);
            let text = String::from_utf8(text).unwrap();
            for command in Cli::command().get_subcommands() {
                assert!(text.contains(command.get_name()), "{shell}: {}", command.get_name());
            }
        }
    }

    #[test]
    fn every_command_has_a_page() {
        let page = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            let mut text = Vec::new();
            find(&words).map(|command| {
                clap_mangen::Man::new(command).render(&mut text).unwrap();
                String::from_utf8(text).unwrap()
            })
        };
        assert!(page(&[]).unwrap().contains(".SH SUBCOMMANDS"));
        let drain = page(&["resource", "drain"]).unwrap();
        assert!(drain.contains(".TH callboard-resource-drain 1"), "{drain}");
        assert!(drain.contains(concat!("callboard-resource-drain ", env!("CARGO_PKG_VERSION"))), "{drain}");
        let error = page(&["resource", "nosuch"]).unwrap_err().to_string();
        assert!(error.starts_with("callboard resource has no command 'nosuch'; there are: status, list"), "{error}");
    }
}
