//! The program `callboard`.

use std::process::ExitCode;

use callboard::cli::Cli;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    match Cli::read() {
        Ok(cli) => cli.run(),
        Err(error) => {
            eprintln!("callboard: {error}");
            ExitCode::from(2)
        }
    }
}
