//! `callboard validate FILE`: is this configuration accepted, and what is wrong with it?

use std::{
    fs,
    io::{self, Read, Write},
    path::Path,
    process::ExitCode,
};

use super::out;
use crate::{
    config,
    domain::{conf::QueueConf, words::plural},
};

/// Checks a file, or with `-` the standard input, as an update of the configuration would. Exit status 0 where it is
/// accepted, which a line says, else 1.
///
/// Faults go to stdout, one per line, as `file:line:column: rule: message`; warnings, and why a file cannot be read, to
/// stderr.
///
/// # Errors
/// What is to be told cannot be written.
pub fn run(file: &Path) -> anyhow::Result<ExitCode> {
    let accepted = check(file, &mut io::stdin(), &mut out::stdout(), &mut io::stderr().lock())?;
    Ok(if accepted { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn check(file: &Path, input: &mut impl Read, out: &mut impl Write, err: &mut impl Write) -> io::Result<bool> {
    let piped = file == Path::new("-");
    let name = if piped { "standard input".to_owned() } else { file.display().to_string() };
    let read = match piped {
        true => {
            let mut text = String::new();
            input.read_to_string(&mut text).map(|_| text)
        }
        false => fs::read_to_string(file),
    };
    let text = match read {
        Ok(text) => text,
        Err(e) => {
            writeln!(err, "callboard: {name}: cannot be read: {e}")?;
            return Ok(false);
        }
    };
    let checked = config::load(&text).and_then(|config| {
        for warning in &config.warnings {
            // As below: the faults matter, not whether the warnings can be written.
            let _ = writeln!(err, "{name}:{}:{}: warning: {}", warning.line, warning.column, warning.message);
        }
        config.check_rules().map(|()| config)
    });
    match checked {
        Ok(config) => {
            let queues: u64 = config.partitions.iter().map(|partition| queues(&partition.root)).sum();
            let partitions = plural(config.partitions.len() as u64, "partition");
            let queues = plural(queues, "queue");
            let empty = if text.is_empty() { " (it is empty, and stands for the built-in default)" } else { "" };
            writeln!(out, "{name}: accepted: {partitions}, {queues}{empty}")?;
            Ok(true)
        }
        Err(refused) => {
            for fault in &refused.faults {
                writeln!(out, "{name}:{fault}")?;
            }
            Ok(false)
        }
    }
}

/// What a server says that is to read such a file again.
pub(super) const NOTHING: &str = "there is nothing in it, as a write that was cut leaves it: write the whole configuration, or start the server \
     without --config for the built-in default";

/// A text without a word in it, but for comments.
pub(super) fn says_nothing(text: &str) -> bool {
    text.lines().map(str::trim).all(|line| line.is_empty() || line.starts_with('#'))
}

/// A queue and those below it.
fn queues(queue: &QueueConf) -> u64 {
    1 + queue.children.iter().map(queues).sum::<u64>()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(text: &[u8]) -> (bool, String, String) {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), text).unwrap();
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let accepted = check(file.path(), &mut io::empty(), &mut out, &mut err).unwrap();
        let name = file.path().display().to_string();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap().replace(&name, "FILE");
        (accepted, text(out), text(err))
    }

    #[test]
    fn accepted() {
        let told = "FILE: accepted: 1 partition, 1 queue\n";
        assert_eq!(checked(b"partitions: [{queues: []}]"), (true, told.into(), String::new()));
        let (accepted, out, _) = checked(b"");
        let told = "FILE: accepted: 1 partition, 1 queue (it is empty, and stands for the built-in default)\n";
        assert_eq!((accepted, &*out), (true, told));
        let told = "FILE: accepted: 1 partition, 1 queue\n";
        let (accepted, out, err) = checked(b"partitions: [{queues: [{name: root, submitacl: 'a,1b'}]}]");
        assert_eq!((accepted, out.as_str()), (true, told));
        assert!(err.starts_with("FILE:1:48: warning: ") && err.contains("`1b`"), "{err}");
    }

    #[test]
    fn what_says_nothing() {
        assert!(["", "\n \n", "# partitions: []", " # a\n\t\n#b"].into_iter().all(says_nothing));
        assert!(!["~", "partitions: []", "# a\n{}"].into_iter().any(says_nothing));
    }

    #[test]
    fn every_fault_with_its_place() {
        let text = b"partitions:\n  - queues:\n      - name: a b\n      - name: c\n        submitacl: a  b\n";
        let (accepted, out, _) = checked(text);
        assert!(!accepted);
        let lines: Vec<_> = out.lines().collect();
        assert_eq!(lines.len(), 2, "{out}");
        assert!(lines[0].starts_with("FILE:3:15: CFG-020: invalid queue name"), "{out}");
        assert!(lines[1].starts_with("FILE:5:20: CFG-031: multiple spaces found in ACL: 'a  b'"), "{out}");
    }

    #[test]
    fn rules_that_cannot_be_built() {
        // CFG-098
        let (accepted, out, _) = checked(b"partitions: [{queues: [], placementrules: [{name: nosuch}]}]");
        assert!(!accepted && out.contains("CFG-098: unknown rule name specified nosuch"), "{out}");
    }

    #[test]
    fn unreadable_files() {
        let (accepted, _, err) = checked(b"\xff");
        assert!(!accepted && err.contains("cannot be read"), "{err}");
        let (mut out, mut err) = (Vec::new(), Vec::new());
        assert!(!check(Path::new("/no/such/file"), &mut io::empty(), &mut out, &mut err).unwrap());
        assert!(String::from_utf8(err).unwrap().starts_with("callboard: /no/such/file: cannot be read: "));
    }

    #[test]
    fn the_standard_input() {
        let read = |text: &'static [u8]| {
            let (mut input, mut out) = (text, Vec::new());
            let accepted = check(Path::new("-"), &mut input, &mut out, &mut Vec::new()).unwrap();
            (accepted, String::from_utf8(out).unwrap())
        };
        let text = b"partitions: [{name: default, queues: [{name: root, queues: [{name: a}, {name: b}]}]}]";
        assert_eq!(read(text), (true, "standard input: accepted: 1 partition, 3 queues\n".into()));
        let (accepted, out) = read(b"partitions: [{queues: [{name: a b}]}]");
        assert!(!accepted && out.starts_with("standard input:1:"), "{out}");
    }
}
