//! The data directory: one server at a time.

use std::{
    fs::{self, File, OpenOptions, TryLockError},
    io::{Read as _, Write as _},
    path::Path,
};

use anyhow::{Context as _, bail};

const LOCK: &str = "callboard.lock";

/// Makes the directory where it is missing, and locks it as long as the file is open.
pub fn lock(dir: &Path) -> anyhow::Result<File> {
    let named = |what: &str| format!("--data {}: {what}", dir.display());
    fs::create_dir_all(dir).with_context(|| named("cannot be made"))?;
    let path = dir.join(LOCK);
    let open = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path);
    let mut file = open.with_context(|| named("cannot be written to"))?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let mut owner = String::new();
            let _ = file.read_to_string(&mut owner);
            let owner = owner.trim();
            let owner = if owner.is_empty() { String::new() } else { format!(" (process {owner})") };
            bail!("{}", named(&format!("another server{owner} uses it: end that one, or choose another directory")));
        }
        Err(TryLockError::Error(error)) => return Err(error).with_context(|| named("cannot be locked")),
    }
    file.set_len(0)
        .and_then(|()| writeln!(file, "{}", std::process::id()))
        .with_context(|| named("cannot be written to"))?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_server_at_a_time() {
        let dir = tempfile::tempdir().expect("a directory");
        let first = lock(dir.path()).expect("free");
        let second = format!("{:#}", lock(dir.path()).expect_err("taken"));
        assert!(second.contains(&format!("(process {})", std::process::id())), "{second}");
        drop(first);
        assert!(lock(dir.path()).is_ok());
    }

    #[test]
    fn what_is_no_directory() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let error = format!("{:#}", lock(file.path()).expect_err("refused"));
        assert!(error.contains(&file.path().display().to_string()), "{error}");
    }
}
