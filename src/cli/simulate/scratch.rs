//! Directories that worlds write to. They go with whoever made them, or with the next run, where that was killed.

use std::{
    fs::File,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering::SeqCst},
};

use anyhow::{Context as _, bail};

const NAME: &str = "callboard-simulate-";

/// A directory that goes when it is not needed any more.
pub struct Scratch {
    /// Where it is.
    pub path: PathBuf,
    /// Locked as long as it is used: the lock of a process that was killed is gone.
    _used: File,
}

impl Scratch {
    /// In memory where there is a file system for that: worlds write and flush a great deal.
    ///
    /// # Errors
    /// None can be made.
    pub fn new() -> anyhow::Result<Scratch> {
        let shared = Path::new("/dev/shm");
        let base = if shared.is_dir() { shared.to_owned() } else { std::env::temp_dir() };
        Scratch::within(&base)
    }

    fn within(base: &Path) -> anyhow::Result<Scratch> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        remove_unused(base);
        for _ in 0..100 {
            let path = base.join(format!("{NAME}{}-{}", std::process::id(), NUMBER.fetch_add(1, SeqCst)));
            crate::store::files::make_dir(&path).with_context(|| format!("{} cannot be made", path.display()))?;
            let lock = || -> std::io::Result<File> {
                let dir = File::open(&path)?;
                dir.lock()?;
                Ok(dir)
            };
            // One that begins at the same time may have taken it for a folder that nobody uses, before it was locked.
            if let Ok(used) = lock()
                && path.is_dir()
            {
                return Ok(Scratch { path, _used: used });
            }
        }
        bail!("no folder can be kept in {}", base.display())
    }

    /// Nothing is in it any more.
    pub fn clear(&self) {
        // What is not there need not go.
        for entry in std::fs::read_dir(&self.path).into_iter().flatten().flatten() {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

/// Removes the folders of processes that ended without doing so. Folders of others, and what cannot be removed, stay.
fn remove_unused(base: &Path) {
    for entry in std::fs::read_dir(base).into_iter().flatten().flatten() {
        let (name, path) = (entry.file_name(), entry.path());
        if name.to_str().is_some_and(|name| name.starts_with(NAME))
            && let Ok(dir) = File::open(&path)
            && dir.try_lock().is_ok()
        {
            let _ = std::fs::remove_dir_all(&path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_that_nobody_uses_go_and_others_stay() {
        let base = tempfile::tempdir().expect("a folder");
        let left = base.path().join("callboard-simulate-1-0");
        std::fs::create_dir_all(left.join("log")).expect("made");
        std::fs::create_dir(base.path().join("other")).expect("made");
        let first = Scratch::within(base.path()).expect("made");
        assert!(!left.exists(), "whoever made it is gone");
        let second = Scratch::within(base.path()).expect("made");
        assert!(first.path.is_dir() && base.path().join("other").is_dir());
        std::fs::create_dir_all(first.path.join("log/damaged")).expect("made");
        first.clear();
        assert_eq!(std::fs::read_dir(&first.path).expect("it is there").count(), 0);
        let was = first.path.clone();
        drop(first);
        assert!(!was.exists() && second.path.is_dir());
    }
}
