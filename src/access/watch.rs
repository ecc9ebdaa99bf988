//! Notices changed files.
//!
//! Asking for the state of a few files each second costs nothing, and works on every file system, with files that are
//! replaced by renaming, and with mounted directories whose content is switched by a symbolic link.

use std::{
    fs::Metadata,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    time::Duration,
};

use tokio::{
    fs,
    time::{MissedTickBehavior, interval},
};

/// Between two looks.
const EVERY: Duration = Duration::from_secs(1);

/// What tells one content of a file from another: device, number, length, times of the last change of the content and of anything
/// else. That of the content alone stays where a file that nobody could read is given to the server's user.
type Print = Option<(u64, u64, u64, [i64; 4])>;

/// Files as they were.
#[derive(Clone, Debug, Default)]
pub struct Watched(Vec<(PathBuf, Print)>);

impl Watched {
    /// These files as they are now. Whoever looks before reading them misses no change.
    pub fn look<'a>(files: impl IntoIterator<Item = &'a Path>) -> Watched {
        Watched(files.into_iter().map(|file| (file.to_owned(), std::fs::metadata(file).ok().map(print))).collect())
    }

    /// Calls `changed` whenever one of the files has changed, for ever. A file that is gone has not: there is nothing to
    /// read.
    pub async fn follow(mut self, mut changed: impl AsyncFnMut()) {
        let mut ticks = interval(EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let mut news = false;
            for (file, known) in &mut self.0 {
                let now = fs::metadata(file).await.ok().map(print);
                if now.is_some() && now != *known {
                    (*known, news) = (now, true);
                }
            }
            if news {
                changed().await;
            }
        }
    }
}

fn print(data: Metadata) -> (u64, u64, u64, [i64; 4]) {
    let times = [data.mtime(), data.mtime_nsec(), data.ctime(), data.ctime_nsec()];
    (data.dev(), data.ino(), data.len(), times)
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt as _};

    use super::*;

    #[test]
    fn a_file_that_can_be_read_from_now_on_has_changed() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("tokens");
        fs::write(&file, "").unwrap();
        let mut seen = print(fs::metadata(&file).unwrap());
        for mode in [0o000, 0o600] {
            // Times of files are as coarse as the clock of the kernel.
            let now = loop {
                fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
                let now = print(fs::metadata(&file).unwrap());
                if now != seen {
                    break now;
                }
                std::thread::yield_now();
            };
            assert_eq!((now.2, &now.3[..2]), (seen.2, &seen.3[..2]));
            seen = now;
        }
    }
}
