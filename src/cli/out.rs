//! What commands print. Whoever closed the pipe has read enough: the command ends there and then, without a word, and with the
//! exit status of a tool that this ends (128 and the number of SIGPIPE).

use std::{
    fmt::Display,
    io::{self, Write},
    process,
};

use clap::ValueEnum;

/// Exit status of a command whose output nobody reads any more.
pub const CLOSED: i32 = 141;

/// How an answer is printed: the option `--output` of commands that know no other forms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// For people
    #[value(alias = "table")]
    Text,
    /// The answer of the server
    Json,
}

/// The standard output; see the module.
#[derive(Debug)]
pub struct Out(io::Stdout);

/// The standard output; see the module.
pub fn stdout() -> Out {
    Out(io::stdout())
}

fn open<T>(done: io::Result<T>) -> io::Result<T> {
    done.inspect_err(|error| {
        if error.kind() == io::ErrorKind::BrokenPipe {
            process::exit(CLOSED);
        }
    })
}

impl Write for Out {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        open(self.0.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        open(self.0.flush())
    }
}

/// Prints a text, all of it.
///
/// # Errors
/// It cannot be written for another reason than that nobody reads it.
pub fn print(text: impl Display) -> io::Result<()> {
    let mut out = stdout();
    write!(out, "{text}")?;
    out.flush()
}

/// Says something beside the output; where nobody reads it, the output and the status still tell.
pub fn note(text: impl Display) {
    let _ = writeln!(io::stderr(), "{text}");
}
