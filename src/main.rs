//! The program `callboard`.

use std::process::ExitCode;

use callboard::cli::Cli;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    // The kernel clears a new huge page at once, and everything waits meanwhile: 5 ms in a virtual machine. A kernel that knows
    // no such pages refuses, and clears none.
    #[cfg(target_os = "linux")]
    let _ = nix::sys::prctl::set_thp_disable(true);
    match Cli::read() {
        Ok(cli) => cli.run(),
        Err(error) => {
            eprintln!("callboard: {error}");
            ExitCode::from(2)
        }
    }
}
