//! Files whose names outlive a crash of the machine: a directory is flushed after something in it was made, renamed or
//! removed. What makes, renames or removes files that outlive the process does it here.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write},
    path::{Path, PathBuf},
};

use sha2::{Digest as _, Sha256};

/// Makes a directory, and those above it, where they are missing.
///
/// # Errors
/// One cannot be made, or is no directory.
pub fn make_dir(dir: &Path) -> io::Result<()> {
    if dir.is_dir() {
        return Ok(());
    }
    if let Some(above) = dir.parent().filter(|above| !above.as_os_str().is_empty()) {
        make_dir(above)?;
    }
    match fs::create_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && dir.is_dir() => {}
        made => made?,
    }
    flush_names_at(dir)
}

/// Opens a file that is made where it is missing.
///
/// # Errors
/// It can be neither opened nor made.
pub fn open_or_make(path: &Path, options: &OpenOptions) -> io::Result<File> {
    match options.clone().create(false).create_new(false).open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let file = options.clone().create(true).open(path)?;
            flush_names_at(path)?;
            Ok(file)
        }
        opened => opened,
    }
}

/// Replaces a file: it holds the old bytes or the new ones at any time.
///
/// # Errors
/// Writing failed; the old file is there as it was.
pub fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    replace_with(path, |file| file.write_all(bytes))
}

/// The same, with what `write` writes.
///
/// # Errors
/// Writing failed; the old file is there as it was.
pub fn replace_with<T>(path: &Path, write: impl FnOnce(&mut File) -> io::Result<T>) -> io::Result<T> {
    let mut name = path.as_os_str().to_owned();
    name.push(".new");
    let fresh = PathBuf::from(name);
    let made = || -> io::Result<T> {
        let mut file = File::create(&fresh)?;
        let written = write(&mut file)?;
        file.sync_data()?;
        fs::rename(&fresh, path)?;
        Ok(written)
    };
    let written = made();
    if written.is_err() {
        // On a full disk there is room for others then; where it was never made there is nothing to remove.
        let _ = fs::remove_file(&fresh);
    }
    let written = written?;
    flush_names_at(path)?;
    Ok(written)
}

/// Replaces a file, and waits for no disk: when the machine stops, either may be there, or nothing that can be read.
///
/// # Errors
/// Writing failed; the old file is there as it was.
pub fn replace_unflushed(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut name = path.as_os_str().to_owned();
    name.push(".new");
    fs::write(&name, bytes)?;
    fs::rename(&name, path)
}

/// Moves a directory to a place in which nothing is kept: what was there goes.
///
/// # Errors
/// It could not be moved.
pub fn move_dir(dir: &Path, place: &Path) -> io::Result<()> {
    if let Some(above) = place.parent() {
        make_dir(above)?;
    }
    match fs::remove_dir_all(place) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    fs::rename(dir, place)?;
    flush_names_at(place)?;
    flush_names_at(dir)
}

/// Gives what is at a path a second name, which it keeps when it is replaced. Where that is not possible (a directory is in
/// the way, or the file system knows no links) it loses the first one.
///
/// # Errors
/// It could not be named so.
pub fn keep_as(path: &Path, other: &Path) -> io::Result<()> {
    fs::hard_link(path, other).or_else(|_| fs::rename(path, other))?;
    flush_names_at(other)
}

/// Whether so many bytes can be written now beside a directory.
///
/// # Errors
/// They cannot.
pub fn try_room(dir: &Path, bytes: usize) -> io::Result<()> {
    let mut path = dir.as_os_str().to_owned();
    path.push(".room");
    let written = File::create(&path).and_then(|mut file| {
        file.write_all(&vec![0; bytes])?;
        file.sync_data()
    });
    match fs::remove_file(&path) {
        Err(error) if written.is_ok() => Err(error),
        _ => written,
    }
}

/// Removes a file.
///
/// # Errors
/// It cannot be removed.
pub fn remove(path: &Path) -> io::Result<()> {
    fs::remove_file(path)?;
    flush_names_at(path)
}

/// Removes what is in a directory of files that were never whole: of a process that was killed while it wrote them. Nobody reads
/// it, and the next file may have another name.
///
/// # Errors
/// One cannot be removed.
pub fn sweep(dir: &Path) -> io::Result<()> {
    let entries = match fs::read_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        let path = entry?.path();
        if path.extension().is_some_and(|end| end == "new") && path.is_file() {
            fs::remove_file(&path)?;
        }
    }
    Ok(())
}

/// A text as a file of one line has it: with its checksum, which tells a flipped bit from another text.
pub fn checked(text: &str) -> String {
    format!("{text} {:08x}\n", crc32fast::hash(text.as_bytes()))
}

/// The text of a line, its newline left out, where the checksum behind it is right.
pub fn text_of(line: &str) -> Option<&str> {
    let (text, sum) = line.rsplit_once(' ')?;
    (format!("{:08x}", crc32fast::hash(text.as_bytes())) == sum).then_some(text)
}

/// A name for a file: names are at most 255 bytes long, so of a longer one the beginning, and the SHA-256 of what it stands for.
pub fn name_of(mut name: String, whole: &str) -> String {
    if name.len() > 200 {
        name.truncate(130);
        name.push('~');
        for byte in Sha256::digest(whole.as_bytes()) {
            name.push_str(&format!("{byte:02x}"));
        }
    }
    name
}

/// Flushes the directory in which a path is. Some file systems cannot, and do without.
///
/// # Errors
/// The disk refused.
pub fn flush_names_at(path: &Path) -> io::Result<()> {
    let above = path.parent().filter(|above| !above.as_os_str().is_empty());
    match File::open(above.unwrap_or(Path::new(".")))?.sync_all() {
        Err(error) if matches!(error.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported) => Ok(()),
        flushed => flushed,
    }
}

/// What is short is short for the moment, such as descriptors or memory: nothing is wrong with the file.
pub fn is_passing(error: &io::Error) -> bool {
    use nix::errno::Errno;
    let passing = [Errno::EMFILE, Errno::ENFILE, Errno::ENOMEM, Errno::EAGAIN, Errno::EINTR];
    error.raw_os_error().is_some_and(|code| passing.contains(&Errno::from_raw(code)))
        || error.kind() == io::ErrorKind::OutOfMemory
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_are_made_at_any_depth_and_what_is_in_the_way_is_told() {
        let dir = tempfile::tempdir().unwrap();
        make_dir(&dir.path().join("a/b/c")).unwrap();
        make_dir(&dir.path().join("a/b/c")).unwrap();
        assert!(dir.path().join("a/b/c").is_dir());
        fs::write(dir.path().join("file"), "").unwrap();
        assert!(make_dir(&dir.path().join("file")).is_err());
        assert!(make_dir(&dir.path().join("file/below")).is_err());
    }

    #[test]
    fn a_file_is_replaced_whole_or_not_at_all() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        replace(&path, b"one").unwrap();
        keep_as(&path, &dir.path().join("aside")).unwrap();
        replace(&path, b"two").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"two");
        assert_eq!(fs::read(dir.path().join("aside")).unwrap(), b"one");
        fs::create_dir(dir.path().join("file.new")).unwrap();
        assert!(replace(&path, b"three").is_err());
        assert_eq!(fs::read(&path).unwrap(), b"two");
        // A directory has no second name.
        keep_as(&dir.path().join("file.new"), &dir.path().join("moved")).unwrap();
        assert!(dir.path().join("moved").is_dir() && !dir.path().join("file.new").exists());
        remove(&path).unwrap();
        assert!(!path.exists() && remove(&path).is_err());
    }
}
