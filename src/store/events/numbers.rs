//! Which ids events have in the logs of their resource managers, beside the events: a line for each place from which they are
//! counted (see `actors::event::numbers`). Without it events are as they were, and nobody reads them by those ids.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write},
    path::{Path, PathBuf},
    sync::Arc,
};

use serde::{Deserialize, Serialize};

use crate::store::files;

/// A line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Row {
    /// The resource manager.
    pub rm: Arc<str>,
    /// From `at` on its events are counted from this id; `None`: they are not counted any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<u64>,
    /// The id of an event in the log of the server.
    pub at: u64,
}

/// The file.
#[derive(Debug)]
pub struct Numbers {
    path: PathBuf,
    /// Made when it is needed.
    file: Option<File>,
    unsynced: bool,
}

impl Numbers {
    /// That of a directory, and what is in it. What is no line of it is passed over: a kill may have cut the last one.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn open(directory: &Path) -> io::Result<(Numbers, Vec<Row>)> {
        let path = directory.join("numbers");
        let rows = match fs::read(&path) {
            Ok(bytes) => {
                bytes.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok()).collect()
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(error),
        };
        Ok((Numbers { path, file: None, unsynced: false }, rows))
    }

    /// For messages.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Adds lines, or has these instead of all that there are.
    ///
    /// # Errors
    /// They are to be written again.
    pub fn write(&mut self, rows: &[Row], instead: bool) -> io::Result<()> {
        // The first may follow what a kill has cut.
        let mut bytes = if self.file.is_none() && !instead { b"\n".to_vec() } else { Vec::new() };
        for row in rows {
            serde_json::to_writer(&mut bytes, row)?;
            bytes.push(b'\n');
        }
        if instead {
            self.file = None;
            return files::replace(&self.path, &bytes);
        }
        if self.file.is_none() {
            self.file = Some(files::open_or_make(&self.path, OpenOptions::new().append(true))?);
        }
        if let Some(file) = &mut self.file {
            let written = file.write_all(&bytes);
            self.unsynced = true;
            if written.is_err() {
                // What has come of it is cut off from the next.
                self.file = None;
            }
            written?;
        }
        Ok(())
    }

    /// The file, where something in it is to be flushed.
    ///
    /// # Errors
    /// There are too many open files.
    pub fn unsynced(&mut self) -> io::Result<Option<File>> {
        let file = self.file.as_ref().filter(|_| self.unsynced).map(File::try_clone).transpose()?;
        self.unsynced = false;
        Ok(file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read_behind_what_a_kill_has_cut_too() {
        let directory = tempfile::tempdir().unwrap();
        let row = |rm: &str, id, at| Row { rm: rm.into(), id, at };
        let (first, odd, last) = (row("rm-1", Some(0), 0), row("\"ü\n/", None, 7), row("rm-1", Some(9), 12));
        let (mut numbers, rows) = Numbers::open(directory.path()).unwrap();
        assert_eq!(rows, []);
        numbers.write(std::slice::from_ref(&first), false).unwrap();
        numbers.write(std::slice::from_ref(&odd), false).unwrap();
        assert!(numbers.unsynced().unwrap().is_some() && numbers.unsynced().unwrap().is_none());
        let whole = fs::read(numbers.path()).unwrap();
        fs::write(numbers.path(), [&whole[..], b"{\"rm\":\"rm"].concat()).unwrap();
        let (mut numbers, rows) = Numbers::open(directory.path()).unwrap();
        assert_eq!(rows, [first.clone(), odd.clone()]);
        numbers.write(std::slice::from_ref(&last), false).unwrap();
        assert_eq!(Numbers::open(directory.path()).unwrap().1, [first, odd, last.clone()]);
        numbers.write(std::slice::from_ref(&last), true).unwrap();
        numbers.write(std::slice::from_ref(&last), false).unwrap();
        assert_eq!(Numbers::open(directory.path()).unwrap().1, [last.clone(), last.clone()]);
        // A full disk took a part.
        numbers.file = Some(OpenOptions::new().append(true).open("/dev/full").unwrap());
        assert!(numbers.write(std::slice::from_ref(&last), false).is_err());
        let whole = fs::read(numbers.path()).unwrap();
        fs::write(numbers.path(), [&whole[..], b"{\"rm\":\"rm"].concat()).unwrap();
        numbers.write(std::slice::from_ref(&last), false).unwrap();
        assert_eq!(Numbers::open(directory.path()).unwrap().1, [last.clone(), last.clone(), last]);
    }
}
