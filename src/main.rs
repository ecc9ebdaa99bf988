//! The program `callboard`.

use std::process::ExitCode;

use callboard::cli::Cli;
use clap::Parser as _;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    Cli::parse().run()
}
