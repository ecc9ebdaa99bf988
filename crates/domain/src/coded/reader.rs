//! Reading: whatever the bytes are, there is an answer and no panic, and no more memory is taken than they justify.

use std::sync::Arc;

use minicbor::{Decoder, data::Type, decode};

use super::{As, Coded, Error, writer::NUMBERED};
use crate::resources::{Resource, ResourceType, TypeError, Types};

/// Rows in rows: twice as deep as queues and rules can be.
const DEEPEST: usize = 200;
/// Rows for which room is made before they are read.
const ROOM: usize = 128;

/// See the module.
pub(crate) struct Reader<'a> {
    from: Decoder<'a>,
    texts: Vec<Arc<str>>,
    vectors: Vec<Arc<Resource>>,
    types: Vec<ResourceType>,
    known: &'a Types,
    names: Option<&'a Names<'a>>,
    depth: usize,
    /// By table, one more than the largest index of a row that was read.
    rows: [usize; TABLES],
}

/// Tables of which rows have an index: see `row_index!` in [`types`](crate::types).
const TABLES: usize = 5;

/// Other texts for some.
pub type Names<'a> = dyn Fn(&str) -> Option<Arc<str>> + 'a;

impl<'a> Reader<'a> {
    /// Reads what one [`Writer`](super::Writer) wrote. Resource types are those that the resource manager knows.
    pub fn new(bytes: &'a [u8], known: &'a Types) -> Reader<'a> {
        let (texts, vectors, types) = (Vec::new(), Vec::new(), Vec::new());
        Reader { from: Decoder::new(bytes), texts, vectors, types, known, names: None, depth: 0, rows: [0; TABLES] }
    }

    /// Texts are read as others.
    pub fn with_names(self, names: &'a Names<'a>) -> Reader<'a> {
        Reader { names: Some(names), ..self }
    }

    /// The index of a row was read.
    pub fn note_row(&mut self, table: usize, ix: u32) {
        self.rows[table] = self.rows[table].max(ix as usize + 1);
    }

    /// Whoever follows an index finds a row in each table.
    pub fn are_rows_there(&self, rows: [usize; TABLES]) -> Result<(), Error> {
        match self.rows.iter().zip(rows).find(|(read, there)| *read > there) {
            Some((read, there)) => Err(self.fail(format!("row {} is named of a table that has {there}", read - 1))),
            None => Ok(()),
        }
    }

    /// Nothing is left.
    pub fn is_done(&self) -> bool {
        self.from.position() >= self.from.input().len()
    }

    fn left(&self) -> usize {
        self.from.input().len().saturating_sub(self.from.position())
    }

    /// A fault at this place.
    pub fn fail(&self, what: impl Into<String>) -> Error {
        Error { at: self.from.position(), what: what.into() }
    }

    fn take<T>(&mut self, read: impl FnOnce(&mut Decoder<'a>) -> Result<T, decode::Error>) -> Result<T, Error> {
        let at = self.from.position();
        read(&mut self.from).map_err(|error| {
            let what = if error.is_end_of_input() { "it ends too early".to_owned() } else { error.to_string() };
            Error { at: error.position().unwrap_or(at), what }
        })
    }

    pub fn unknown(&self, of: &str, what: &str, number: u64) -> Error {
        self.fail(format!(
            "{what} {number} of {of} is not known here: it was written by a later version, or is damaged"
        ))
    }

    pub fn missing(&self, of: &str, field: &str) -> Error {
        self.fail(format!("{of} has no {field}"))
    }

    pub fn uint(&mut self) -> Result<u64, Error> {
        self.take(Decoder::u64)
    }

    pub fn int(&mut self) -> Result<i64, Error> {
        self.take(Decoder::i64)
    }

    pub fn wide(&mut self) -> Result<i128, Error> {
        if self.kind_ahead()? != Type::Bytes {
            return self.int().map(i128::from);
        }
        let bytes = self.take(Decoder::bytes)?;
        let bytes = bytes.try_into().map_err(|_| self.fail("a large number has sixteen bytes"))?;
        Ok(i128::from_be_bytes(bytes))
    }

    pub fn float(&mut self) -> Result<f64, Error> {
        self.take(Decoder::f64)
    }

    pub fn bool(&mut self) -> Result<bool, Error> {
        self.take(Decoder::bool)
    }

    fn kind_ahead(&mut self) -> Result<Type, Error> {
        self.take(|from| from.datatype())
    }

    /// Takes a null, where there is one.
    pub fn null(&mut self) -> Result<bool, Error> {
        let null = self.kind_ahead()? == Type::Null;
        if null {
            self.from.set_position(self.from.position() + 1);
        }
        Ok(null)
    }

    fn deeper(&mut self) -> Result<(), Error> {
        self.depth += 1;
        if self.depth > DEEPEST { Err(self.fail(format!("nested deeper than {DEEPEST} levels"))) } else { Ok(()) }
    }

    pub fn open_map(&mut self, of: &str) -> Result<(), Error> {
        let at = self.from.position();
        match self.take(Decoder::map)? {
            None => self.deeper(),
            Some(_) => Err(Error { at, what: format!("{of} is written without a count of its fields") }),
        }
    }

    /// The number of the next field; `None` at the end of the map.
    pub fn field(&mut self, of: &str, last: &mut u64) -> Result<Option<u64>, Error> {
        if self.kind_ahead()? == Type::Break {
            self.from.set_position(self.from.position() + 1);
            self.depth -= 1;
            return Ok(None);
        }
        let number = self.uint()?;
        if number <= *last {
            return Err(self.fail(format!("field {number} of {of} comes after field {last}")));
        }
        *last = number;
        Ok(Some(number))
    }

    /// Number of elements; never more than there are bytes.
    fn count(
        &mut self,
        read: impl FnOnce(&mut Decoder<'a>) -> Result<Option<u64>, decode::Error>,
    ) -> Result<usize, Error> {
        let at = self.from.position();
        let count = self.take(read)?.ok_or_else(|| Error { at, what: "a count is missing".to_owned() })?;
        match usize::try_from(count) {
            Ok(count) if count <= self.left() => Ok(count),
            _ => Err(Error { at, what: format!("{count} elements are announced, and {} bytes are left", self.left()) }),
        }
    }

    /// The head of a list, with the number of its values.
    pub fn array(&mut self) -> Result<usize, Error> {
        self.count(Decoder::array)
    }

    /// The head of a map with a number of entries.
    pub fn pairs(&mut self) -> Result<usize, Error> {
        self.count(Decoder::map)
    }

    pub fn open_list(&mut self) -> Result<usize, Error> {
        let left = self.array()?;
        self.deeper()?;
        Ok(left)
    }

    /// The next value of a list or variant; one that is missing at its end is empty.
    pub fn value<W: As<T>, T>(&mut self, of: &str, field: &str, left: &mut usize) -> Result<T, Error> {
        if *left == 0 {
            return W::absent().ok_or_else(|| self.missing(of, field));
        }
        *left -= 1;
        W::read(self)
    }

    pub fn close_list(&mut self, of: &str, left: usize) -> Result<(), Error> {
        self.depth -= 1;
        match left {
            0 => Ok(()),
            _ => Err(self.fail(format!("{of} has {left} values more than are known here: a later version wrote it"))),
        }
    }

    /// The number of a variant, and how many values belong to it.
    pub fn variant(&mut self, of: &str) -> Result<(u64, usize), Error> {
        let values = match self.kind_ahead()? {
            Type::Array => self.array()?.checked_sub(1).ok_or_else(|| self.fail(format!("{of} has no number")))?,
            _ => 0,
        };
        self.deeper()?;
        Ok((self.uint()?, values))
    }

    pub fn text_once(&mut self) -> Result<&'a str, Error> {
        self.take(Decoder::str)
    }

    /// A text as it is to be read.
    pub fn named(&self, text: &str) -> Arc<str> {
        self.names.and_then(|names| names(text)).unwrap_or_else(|| text.into())
    }

    pub fn text(&mut self) -> Result<Arc<str>, Error> {
        if self.kind_ahead()? == Type::String {
            let written = self.text_once()?;
            let text = self.named(written);
            if written.len() >= NUMBERED {
                self.texts.push(text.clone());
            }
            return Ok(text);
        }
        let number = self.uint()?;
        nth(&self.texts, number).ok_or_else(|| self.fail(format!("there is no text {number}")))
    }

    pub fn shared_vector(&mut self) -> Result<Arc<Resource>, Error> {
        if self.kind_ahead()? == Type::Array {
            let vector = Arc::new(Resource::read(self)?);
            if !vector.is_empty() {
                self.vectors.push(vector.clone());
            }
            return Ok(vector);
        }
        let number = self.uint()?;
        nth(&self.vectors, number).ok_or_else(|| self.fail(format!("there is no resource vector {number}")))
    }

    pub fn kind(&mut self) -> Result<ResourceType, Error> {
        if self.kind_ahead()? != Type::String {
            let number = self.uint()?;
            return nth(&self.types, number).ok_or_else(|| self.fail(format!("there is no resource type {number}")));
        }
        let name = self.text_once()?;
        let kind = match self.known.get(name) {
            // It was taken in when it came: it stays.
            Err(TypeError::Full(_)) => ResourceType::new(name),
            known => known.ok(),
        };
        let kind = kind.ok_or_else(|| self.fail(TypeError::long(name).to_string()))?;
        self.types.push(kind.clone());
        Ok(kind)
    }

    /// Rows one after the other, with little room made for those that may not come.
    pub fn each<T: Coded>(&mut self) -> Result<Vec<T>, Error> {
        let count = self.array()?;
        let mut rows = Vec::with_capacity(count.min(ROOM));
        for _ in 0..count {
            rows.push(T::read(self)?);
        }
        Ok(rows)
    }
}

fn nth<T: Clone>(known: &[T], number: u64) -> Option<T> {
    known.get(usize::try_from(number).ok()?).cloned()
}
