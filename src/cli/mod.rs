//! The subcommands of the program, one folder or file each.

pub mod bench;
pub mod client;
pub mod door;
pub mod journal;
pub mod replay;
pub mod resource;
pub mod serve;
pub mod validate;

use std::{path::PathBuf, process::ExitCode};

use clap::{Parser, Subcommand};

use self::serve::ServeArgs;

/// The command line.
#[derive(Debug, Parser)]
#[command(name = "callboard", version, about = "A resource scheduler that resource managers register with")]
#[command(args_conflicts_with_subcommands = true)]
pub struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    serve: ServeArgs,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve resource managers (the default)
    Serve(ServeArgs),
    /// Check a configuration file
    Validate {
        /// The file
        file: PathBuf,
    },
}

impl Cli {
    /// Runs what was asked for.
    pub fn run(self) -> ExitCode {
        match self.command {
            None => serve::run(self.serve),
            Some(Command::Serve(args)) => serve::run(args),
            Some(Command::Validate { file }) => validate::run(&file),
        }
    }
}
