//! The data directory: one server at a time.

use std::{
    fs::{File, OpenOptions, TryLockError},
    io::Write as _,
    path::Path,
    sync::Arc,
};

use anyhow::{Context as _, bail};

use crate::store::{files, place::Place};

const LOCK: &str = "callboard.lock";

/// A directory that is locked as long as this is there. Both the directory itself and a file in it are: the file is what
/// earlier releases look at, and all that there is on file systems where directories cannot be locked; the directory
/// keeps a second server out where somebody has removed the file.
#[derive(Debug)]
pub struct Lock {
    _directory: File,
    _file: File,
    place: Arc<Place>,
}

impl Lock {
    /// To look what is gone of it.
    pub fn look(&self) -> Arc<dyn Fn() -> Vec<String> + Send + Sync> {
        let place = self.place.clone();
        Arc::new(move || place.look())
    }
}

/// Makes the directory where it is missing, and locks it.
pub fn lock(dir: &Path) -> anyhow::Result<Lock> {
    let named = |what: &str| format!("--data {}: {what}", dir.display());
    files::make_dir(dir).with_context(|| named("cannot be made"))?;
    let directory = File::open(dir).with_context(|| named("cannot be opened"))?;
    let path = dir.join(LOCK);
    let taken = || {
        let owner = std::fs::read_to_string(&path).unwrap_or_default();
        let owner = owner.trim();
        let owner = if owner.is_empty() { String::new() } else { format!(" (process {owner})") };
        named(&format!("another server{owner} uses it: end that one, or choose another directory"))
    };
    match directory.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => bail!("{}", taken()),
        Err(TryLockError::Error(error)) => {
            tracing::warn!(code = "data-lock", %error, "the data directory cannot be locked itself: {} has to stay", path.display());
        }
    }
    let mut file = files::open_or_make(&path, OpenOptions::new().read(true).write(true))
        .with_context(|| named(&format!("{LOCK} cannot be written to")))?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => bail!("{}", taken()),
        Err(TryLockError::Error(error)) => {
            return Err(error).with_context(|| named(&format!("{LOCK} cannot be locked")));
        }
    }
    file.set_len(0)
        .and_then(|()| writeln!(file, "{}", std::process::id()))
        .with_context(|| named(&format!("{LOCK} cannot be written to")))?;
    let place = Place::of(dir, &[path]).with_context(|| named("cannot be looked at"))?;
    Ok(Lock { _directory: directory, _file: file, place: Arc::new(place) })
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
        // Whether the file is there or not, or another one.
        std::fs::remove_file(dir.path().join(LOCK)).expect("removed");
        let second = format!("{:#}", lock(dir.path()).expect_err("taken"));
        assert!(second.contains("another server uses it"), "{second}");
        std::fs::write(dir.path().join(LOCK), "").expect("written");
        assert!(lock(dir.path()).is_err());
        drop(first);
        assert!(lock(dir.path()).is_ok());
    }

    #[test]
    fn a_server_of_an_earlier_release_is_respected() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join(LOCK);
        std::fs::write(&path, "17\n").expect("written");
        let file = File::open(&path).expect("there");
        file.try_lock().expect("free");
        let refused = format!("{:#}", lock(dir.path()).expect_err("taken"));
        assert!(refused.contains("(process 17)"), "{refused}");
    }

    #[test]
    fn what_is_no_directory() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let error = format!("{:#}", lock(file.path()).expect_err("refused"));
        assert!(error.contains(&file.path().display().to_string()), "{error}");
        let dir = tempfile::tempdir().expect("a directory");
        std::fs::create_dir(dir.path().join(LOCK)).expect("made");
        let error = format!("{:#}", lock(dir.path()).expect_err("refused"));
        assert!(error.contains(LOCK) && error.contains(&dir.path().display().to_string()), "{error}");
    }
}
