//! `callboard validate FILE`: is this configuration accepted, and what is wrong with it?

use std::{
    fs,
    io::{self, Write},
    path::Path,
    process::ExitCode,
};

use super::out;
use crate::config;

/// Checks a file as an update of the configuration would. Exit status 0 where it is accepted, else 1.
///
/// Faults go to stdout, one per line, as `file:line:column: rule: message`; warnings, and why a file cannot be read, to
/// stderr.
pub fn run(file: &Path) -> ExitCode {
    match check(file, &mut out::stdout(), &mut io::stderr().lock()) {
        Ok(true) => ExitCode::SUCCESS,
        // Where nobody reads the output, the status still tells.
        Ok(false) | Err(_) => ExitCode::FAILURE,
    }
}

fn check(file: &Path, out: &mut impl Write, err: &mut impl Write) -> io::Result<bool> {
    let name = file.display();
    let text = match fs::read_to_string(file) {
        Ok(text) => text,
        Err(e) => {
            writeln!(err, "{name}: cannot be read: {e}")?;
            return Ok(false);
        }
    };
    let checked = config::load(&text).and_then(|config| {
        for warning in &config.warnings {
            // As below: the faults matter, not whether the warnings can be written.
            let _ = writeln!(err, "{name}:{}:{}: warning: {}", warning.line, warning.column, warning.message);
        }
        config.check_rules()
    });
    match checked {
        Ok(()) => Ok(true),
        Err(refused) => {
            for fault in &refused.faults {
                writeln!(out, "{name}:{fault}")?;
            }
            Ok(false)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(text: &[u8]) -> (bool, String, String) {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), text).unwrap();
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let accepted = check(file.path(), &mut out, &mut err).unwrap();
        let name = file.path().display().to_string();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap().replace(&name, "FILE");
        (accepted, text(out), text(err))
    }

    #[test]
    fn accepted() {
        assert_eq!(checked(b"partitions: [{queues: []}]"), (true, String::new(), String::new()));
        let (accepted, out, err) = checked(b"partitions: [{queues: [{name: root, submitacl: 'a,1b'}]}]");
        assert_eq!((accepted, out.as_str()), (true, ""));
        assert!(err.starts_with("FILE:1:48: warning: ") && err.contains("`1b`"), "{err}");
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
        assert!(!check(Path::new("/no/such/file"), &mut out, &mut err).unwrap());
        assert!(String::from_utf8(err).unwrap().starts_with("/no/such/file: cannot be read: "));
    }
}
