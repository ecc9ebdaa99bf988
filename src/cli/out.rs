//! What commands print. Whoever closed the pipe has read enough: the command ends there and then, without a word, and with the
//! exit status of a tool that this ends (128 and the number of SIGPIPE).

use std::{
    fmt::Display,
    io::{self, Write},
    process,
};

use clap::ValueEnum;
use serde::de::DeserializeOwned;
use serde_json::Value;
use unicode_width::UnicodeWidthStr as _;

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
    done.map_err(|error| {
        if error.kind() == io::ErrorKind::BrokenPipe {
            process::exit(CLOSED);
        }
        io::Error::new(error.kind(), format!("the output cannot be written: {error}"))
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
    let _ = writeln!(io::stderr(), "{}", lines(&text.to_string()));
}

/// Says why a command fails whose outputs the caller chooses, and gives its exit status, which tells where nobody reads the errors.
pub fn fail(err: &mut dyn Write, error: &dyn Display) -> u8 {
    let _ = writeln!(err, "callboard: {error}");
    1
}

/// Columns with two spaces between: the first `left` of them begin at one place, the others end there.
pub fn aligned<R: AsRef<[String]>>(rows: &[R], left: usize) -> String {
    let mut widths: Vec<usize> = Vec::new();
    for row in rows.iter().map(R::as_ref) {
        widths.resize(widths.len().max(row.len()), 0);
        widths.iter_mut().zip(row).for_each(|(width, cell)| *width = cell.width().max(*width));
    }
    let padded = |(at, (cell, width)): (usize, (&String, &usize))| filled(cell, *width, at >= left);
    let line = |row: &R| row.as_ref().iter().zip(&widths).enumerate().map(padded).collect::<Vec<_>>().join("  ");
    rows.iter().map(|row| format!("{}\n", line(row).trim_end())).collect()
}

/// A text with spaces behind it, or before it where it `ends` its column: letters of some scripts take two of a terminal's places.
pub fn filled(text: &str, width: usize, ends: bool) -> String {
    let space = " ".repeat(width.saturating_sub(text.width()));
    if ends { space + text } else { text.to_owned() + &space }
}

/// A text of others, such as an id or a reason, on one line: what a terminal would obey becomes spaces.
pub fn line(text: &str) -> String {
    text.chars().map(|c| if is_obeyed(c) { ' ' } else { c }).collect()
}

/// The same of a text that may have several lines.
pub fn lines(text: &str) -> String {
    text.chars().map(|c| if is_obeyed(c) && c != '\n' { ' ' } else { c }).collect()
}

/// The same of JSON, or of YAML whose texts are as those of JSON: what is obeyed is within texts, and is written as an escape.
pub fn escaped(json: &str) -> String {
    let mut shown = String::with_capacity(json.len());
    for c in json.chars() {
        if is_obeyed(c) && c != '\n' { shown += &format!("\\u{:04x}", u32::from(c)) } else { shown.push(c) }
    }
    shown
}

/// Moves, or turns round what follows, so that a text is not read as it is.
pub fn is_obeyed(c: char) -> bool {
    let turns = matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    c.is_control() || turns
}

/// Reads an answer for people: all texts in it are as [`line`] makes them, and what is to be copied as [`lines`] does.
///
/// # Errors
/// It is not what was asked for.
pub fn answer<T: DeserializeOwned>(json: &str) -> serde_json::Result<T> {
    fn clean(value: &mut Value, shown: fn(&str) -> String) {
        match value {
            Value::String(text) => *text = shown(text),
            Value::Array(list) => list.iter_mut().for_each(|value| clean(value, shown)),
            Value::Object(fields) => {
                let fields_of = std::mem::take(fields).into_iter();
                fields.extend(fields_of.map(|(name, mut value)| {
                    clean(&mut value, if name == "copy" { lines } else { line });
                    (line(&name), value)
                }));
            }
            _ => {}
        }
    }

    let mut value = serde_json::from_str(json)?;
    clean(&mut value, line);
    serde_json::from_value(value)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn columns_are_in_line_whatever_the_script() {
        let rows = [["甲乙", "10", "x"], ["abc", "7", "é"]].map(|row| row.map(str::to_owned));
        assert_eq!(aligned(&rows, 1), "甲乙  10  x\nabc    7  é\n");
    }

    #[test]
    fn what_a_terminal_obeys_is_taken_out() {
        assert_eq!(line("a\u{1b}[2Jb\nc\u{9b}d"), "a [2Jb c d");
        assert_eq!(lines("a\r\nb\u{7}"), "a \nb ");
        assert_eq!(escaped("[\"a\u{9b}\u{202e}\u{7f}ö\"]\n"), "[\"a\\u009b\\u202e\\u007fö\"]\n");
        assert_eq!(line("root\u{202e}ab\u{2066}\u{200f}"), "root ab  ");
        let json = r#"{"a\u001b": ["x\ny", {"copy": "x\ny\u0007"}], "n": 7}"#;
        let read: BTreeMap<String, Value> = answer(json).unwrap();
        let expected = serde_json::json!({"a ": ["x y", {"copy": "x\ny "}], "n": 7});
        assert_eq!(serde_json::to_value(read).unwrap(), expected);
    }
}
