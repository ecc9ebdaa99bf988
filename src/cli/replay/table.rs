//! Reads CSV files with a header line; every error names file, line and column.

use std::{
    fs::File,
    io::Read,
    path::{Path, PathBuf},
};

use csv::StringRecord;

/// No amount or time of a trace is larger, in base units (8 TiB), so that the sum of a million of them fits in an i64.
pub const LARGEST: i64 = 1 << 43;

/// A fault of a trace file.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file cannot be read.
    #[error("{file}: {reason}")]
    File {
        /// Name of the trace file.
        file: String,
        /// Why, as it is shown to people.
        reason: String,
    },
    /// A line cannot be read.
    #[error("{file}:{line}: {reason}")]
    Line {
        /// Name of the trace file.
        file: String,
        /// Line from 1.
        line: u64,
        /// What is wrong.
        reason: String,
    },
    /// A value cannot be read.
    #[error("{file}:{line}: column {column}: {reason}")]
    Value {
        /// Name of the trace file.
        file: String,
        /// Line from 1.
        line: u64,
        /// Column name.
        column: String,
        /// What is wrong.
        reason: String,
    },
}

/// A CSV file, row by row.
pub struct Table {
    file: PathBuf,
    columns: Vec<String>,
    reader: csv::Reader<Box<dyn Read>>,
}

/// One row.
pub struct Row<'t> {
    file: &'t Path,
    columns: &'t [String],
    line: u64,
    record: StringRecord,
}

impl Table {
    /// Opens a file whose header has at least these columns.
    pub fn open(file: &Path, needed: &[&str]) -> Result<Table, Error> {
        let reader = File::open(file).map_err(|e| Error::File { file: name(file), reason: e.to_string() })?;
        Table::read(file, Box::new(reader), needed)
    }

    /// Reads from anything; `file` is the name for errors. Lines that begin with `#` are comments.
    pub fn read(file: &Path, reader: Box<dyn Read>, needed: &[&str]) -> Result<Table, Error> {
        let mut reader =
            csv::ReaderBuilder::new().comment(Some(b'#')).trim(csv::Trim::All).flexible(true).from_reader(reader);
        let header = reader.headers().map_err(|e| fault(file, &e))?;
        let columns: Vec<String> = header.iter().map(|c| c.trim_start_matches('\u{feff}').to_owned()).collect();
        let line = header.position().map_or(1, csv::Position::line);
        if let Some(missing) = needed.iter().find(|needed| !columns.iter().any(|column| column == *needed)) {
            let reason = format!("is missing; the file has: {}", columns.join(", "));
            return Err(Error::Value { file: name(file), line, column: (*missing).to_owned(), reason });
        }
        Ok(Table { file: file.to_owned(), columns, reader })
    }

    /// Calls `each` for every row.
    pub fn rows(mut self, mut each: impl FnMut(&Row<'_>) -> Result<(), Error>) -> Result<(), Error> {
        let mut record = StringRecord::new();
        while self.reader.read_record(&mut record).map_err(|e| fault(&self.file, &e))? {
            let line = record.position().map_or(0, csv::Position::line);
            let row = Row { file: &self.file, columns: &self.columns, line, record: std::mem::take(&mut record) };
            if row.record.len() != self.columns.len() {
                let reason = format!("has {} values, the header has {}", row.record.len(), self.columns.len());
                return Err(Error::Line { file: name(&self.file), line, reason });
            }
            each(&row)?;
            record = row.record;
        }
        Ok(())
    }
}

impl Row<'_> {
    /// The text of a column, empty where nothing is written.
    pub fn text(&self, column: &str) -> &str {
        self.columns.iter().position(|c| c == column).and_then(|at| self.record.get(at)).unwrap_or("")
    }

    /// The text of a column that must not be empty.
    pub fn name(&self, column: &str) -> Result<&str, Error> {
        let text = self.text(column);
        if text.is_empty() { Err(self.fault(column, "is empty")) } else { Ok(text) }
    }

    /// A whole number from 0.
    pub fn count(&self, column: &str) -> Result<i64, Error> {
        let text = self.text(column);
        let value = text.parse::<i64>().ok().filter(|value| *value >= 0);
        let value = value.ok_or_else(|| self.fault(column, &format!("{text:?} is not a whole number from 0")))?;
        self.bounded(column, value, 1)
    }

    /// A whole number from 0, times `unit`; empty counts as 0.
    pub fn amount(&self, column: &str, unit: i64) -> Result<i64, Error> {
        if self.text(column).is_empty() {
            return Ok(0);
        }
        let value = self.count(column)?;
        self.bounded(column, value, unit)
    }

    /// A decimal number from 0, times `unit`, rounded; `None` where empty.
    pub fn decimal(&self, column: &str, unit: i64) -> Result<Option<i64>, Error> {
        let text = self.text(column);
        if text.is_empty() {
            return Ok(None);
        }
        let value = text.parse::<f64>().ok().filter(|value| value.is_finite() && *value >= 0.0);
        let value = value.ok_or_else(|| self.fault(column, &format!("{text:?} is not a number from 0")))?;
        let scaled = (value * unit as f64).round();
        if scaled > LARGEST as f64 {
            return Err(self.fault(column, &format!("{text:?} is too large")));
        }
        Ok(Some(scaled as i64))
    }

    /// A fault of this row's column.
    pub fn fault(&self, column: &str, reason: &str) -> Error {
        Error::Value { file: name(self.file), line: self.line, column: column.to_owned(), reason: reason.to_owned() }
    }

    fn bounded(&self, column: &str, value: i64, unit: i64) -> Result<i64, Error> {
        let scaled = value.checked_mul(unit).filter(|scaled| *scaled <= LARGEST);
        scaled.ok_or_else(|| self.fault(column, &format!("{value} is too large")))
    }
}

fn name(file: &Path) -> String {
    file.display().to_string()
}

fn fault(file: &Path, error: &csv::Error) -> Error {
    match error.position() {
        Some(position) => {
            let reason = match error.kind() {
                csv::ErrorKind::Utf8 { err, .. } => format!("is not UTF-8 text: {err}"),
                _ => error.to_string(),
            };
            Error::Line { file: name(file), line: position.line(), reason }
        }
        None => Error::File { file: name(file), reason: error.to_string() },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &'static str, needed: &[&str]) -> Result<Vec<i64>, String> {
        let table = Table::read(Path::new("t.csv"), Box::new(text.as_bytes()), needed).map_err(|e| e.to_string())?;
        let mut values = Vec::new();
        table
            .rows(|row| {
                values.push(row.amount("n", 1000)?);
                Ok(())
            })
            .map_err(|e| e.to_string())?;
        Ok(values)
    }

    #[test]
    fn values_are_read_with_their_unit() {
        assert_eq!(read("# made up\nn,m\n1,x\n,y\n", &["n", "m"]), Ok(vec![1000, 0]));
    }

    #[test]
    fn errors_name_file_line_and_column() {
        let message = |text, needed: &[&str]| read(text, needed).unwrap_err();
        assert_eq!(message("m\n1\n", &["n"]), "t.csv:1: column n: is missing; the file has: m");
        assert_eq!(message("n\n1\n-2\n", &["n"]), r#"t.csv:3: column n: "-2" is not a whole number from 0"#);
        assert_eq!(message("n\n1\nabc\n", &["n"]), r#"t.csv:3: column n: "abc" is not a whole number from 0"#);
        assert_eq!(message("n\n1,2\n", &["n"]), "t.csv:2: has 2 values, the header has 1");
        assert_eq!(message("n\n9223372036854775807\n", &["n"]), "t.csv:2: column n: 9223372036854775807 is too large");
        let missing = Table::open(Path::new("/nowhere/t.csv"), &[]).err().map(|e| e.to_string()).unwrap_or_default();
        assert!(missing.starts_with("/nowhere/t.csv: "), "{missing}");
    }
}
