//! Writing: CBOR into one buffer, which is used again and again.

use std::{collections::BTreeMap, hash::Hasher as _, ops::Range, sync::Arc};

use minicbor::Encoder;
use rustc_hash::FxHasher;

use super::Coded as _;
use crate::resources::{Resource, ResourceType};

/// Texts from this many bytes on are numbered.
pub(super) const NUMBERED: usize = 4;
/// Types that are looked for one by one; those after them in a map.
const FEW: usize = 8;

/// What was written before, by a hash of its bytes: a look-up may miss, which costs bytes and nothing else.
struct Seen {
    slots: Box<[Slot]>,
    /// Number of the next.
    next: u64,
    /// Numbers before this are of an earlier record.
    base: u64,
}

#[derive(Clone)]
struct Slot {
    number: u64,
    /// Where its bytes are in the buffer.
    at: Range<usize>,
}

impl Seen {
    fn new(slots: usize) -> Seen {
        Seen { slots: vec![Slot { number: u64::MAX, at: 0..0 }; slots].into(), next: 0, base: 0 }
    }

    fn slot(&mut self, value: &[u8]) -> &mut Slot {
        let mut hash = FxHasher::default();
        hash.write(value);
        // The upper bits of this hash are the good ones.
        let at = (hash.finish() >> 32) as usize % self.slots.len();
        &mut self.slots[at]
    }

    fn find(&mut self, value: &[u8], bytes: &[u8]) -> Option<u64> {
        let (base, next) = (self.base, self.next);
        let slot = self.slot(value);
        let here = (base..next).contains(&slot.number) && bytes.get(slot.at.clone()) == Some(value);
        here.then(|| slot.number - base)
    }

    fn add(&mut self, at: Range<usize>, bytes: &[u8]) {
        let number = self.next;
        self.next += 1;
        *self.slot(&bytes[at.clone()]) = Slot { number, at: at.clone() };
    }
}

/// See the module.
pub(crate) struct Writer {
    bytes: Vec<u8>,
    texts: Seen,
    vectors: Seen,
    types: Vec<ResourceType>,
    more_types: BTreeMap<ResourceType, u64>,
}

impl Writer {
    /// For records of some commands.
    pub fn small() -> Writer {
        Writer::sized(256)
    }

    /// For a whole partition.
    pub fn large() -> Writer {
        Writer::sized(16_384)
    }

    fn sized(slots: usize) -> Writer {
        Writer {
            bytes: Vec::new(),
            texts: Seen::new(slots),
            vectors: Seen::new(slots),
            types: Vec::new(),
            more_types: BTreeMap::new(),
        }
    }

    /// Begins anew, in the same buffer.
    pub fn begin(&mut self) {
        self.bytes.clear();
        self.texts.base = self.texts.next;
        self.vectors.base = self.vectors.next;
        self.types.clear();
        self.more_types.clear();
    }

    /// What was written since [`Writer::begin`].
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Gives the buffer away.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// The buffer as it is, for what is no CBOR: the head of a file.
    pub fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    fn encoder(&mut self) -> Encoder<&mut Vec<u8>> {
        Encoder::new(&mut self.bytes)
    }

    // Memory takes everything that is written to it: there is no result to look at.

    pub fn uint(&mut self, value: u64) {
        let _ = self.encoder().u64(value);
    }

    pub fn int(&mut self, value: i64) {
        let _ = self.encoder().i64(value);
    }

    /// A whole number, larger ones as sixteen bytes.
    pub fn wide(&mut self, value: i128) {
        match i64::try_from(value) {
            Ok(value) => self.int(value),
            Err(_) => {
                let _ = self.encoder().bytes(&value.to_be_bytes());
            }
        }
    }

    pub fn float(&mut self, value: f64) {
        let _ = self.encoder().f64(value);
    }

    pub fn bool(&mut self, value: bool) {
        let _ = self.encoder().bool(value);
    }

    pub fn null(&mut self) {
        let _ = self.encoder().null();
    }

    pub fn open_map(&mut self) {
        let _ = self.encoder().begin_map();
    }

    pub fn close_map(&mut self) {
        let _ = self.encoder().end();
    }

    pub fn array(&mut self, len: usize) {
        let _ = self.encoder().array(len as u64);
    }

    pub fn pairs(&mut self, len: usize) {
        let _ = self.encoder().map(len as u64);
    }

    pub fn variant(&mut self, number: u64, values: usize) {
        if values > 0 {
            self.array(values + 1);
        }
        self.uint(number);
    }

    /// A text that comes once: it gets no number.
    pub fn text_once(&mut self, text: &str) {
        let _ = self.encoder().str(text);
    }

    /// A text, by number where it came before.
    pub fn text(&mut self, text: &str) {
        if text.len() < NUMBERED {
            return self.text_once(text);
        }
        match self.texts.find(text.as_bytes(), &self.bytes) {
            Some(number) => self.uint(number),
            None => {
                self.text_once(text);
                let end = self.bytes.len();
                self.texts.add(end - text.len()..end, &self.bytes);
            }
        }
    }

    /// A vector that others may share, by number where it came before.
    pub fn shared_vector(&mut self, vector: &Arc<Resource>) {
        let start = self.bytes.len();
        Resource::write(vector, self);
        if vector.is_empty() {
            return;
        }
        match self.vectors.find(&self.bytes[start..], &self.bytes[..start]) {
            Some(number) => {
                self.bytes.truncate(start);
                self.uint(number);
            }
            None => self.vectors.add(start..self.bytes.len(), &self.bytes),
        }
    }

    /// A resource type: its name, and its number from then on.
    pub fn kind(&mut self, kind: &ResourceType) {
        let known = self.types.iter().position(|known| known == kind).map(|at| at as u64);
        match known.or_else(|| self.more_types.get(kind).copied()) {
            Some(number) => self.uint(number),
            None => {
                self.text_once(kind.name());
                if self.types.len() < FEW {
                    self.types.push(kind.clone());
                } else {
                    let number = (self.types.len() + self.more_types.len()) as u64;
                    self.more_types.insert(kind.clone(), number);
                }
            }
        }
    }
}
