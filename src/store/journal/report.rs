//! `resource.damage`: what was found damaged, until an operator removes the file. It is what makes damage known that was mended
//! at a start: the next start finds everything in order.

use std::{fs, io, path::Path};

use crate::store::files;

/// Name of the file in its directory.
pub const FILE: &str = "resource.damage";
/// Lines that are shown at most.
const SHOWN: usize = 100;

/// What it says.
///
/// # Errors
/// It cannot be opened at present.
pub fn read(dir: &Path) -> io::Result<Vec<String>> {
    let path = dir.join(FILE);
    let text = match fs::read(&path) {
        Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        // Without a directory there is none; that is told elsewhere.
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Ok(Vec::new());
        }
        Err(error) if files::is_passing(&error) => return Err(error),
        Err(error) => return Ok(vec![format!("{} cannot be read: {error}", path.display())]),
    };
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    if lines.len() > SHOWN {
        let more = lines.len() - SHOWN;
        lines.truncate(SHOWN);
        lines.push(format!("and {more} more in {}", path.display()));
    }
    Ok(lines)
}

/// It is there: an operator has to look at something. Where that cannot be told, it is.
pub fn is_there(dir: &Path) -> bool {
    match dir.join(FILE).symlink_metadata() {
        Ok(_) => true,
        Err(error) => !matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory),
    }
}

/// Adds lines. The directory is made where it is what is missing.
///
/// # Errors
/// It cannot be written; it is as it was.
pub fn add(dir: &Path, lines: &[String]) -> io::Result<()> {
    files::make_dir(dir)?;
    let path = dir.join(FILE);
    let mut bytes = match fs::read(&path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        Err(error) => return Err(error),
    };
    if bytes.last().is_some_and(|last| *last != b'\n') {
        bytes.push(b'\n');
    }
    for line in lines {
        bytes.extend_from_slice(line.as_bytes());
        bytes.push(b'\n');
    }
    files::replace(&path, &bytes)
}
