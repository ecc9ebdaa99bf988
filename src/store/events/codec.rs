//! Events as bytes: tables of the strings and resources of a frame, then a few bytes per event that refer to them.
//!
//! The events of one allocation share their strings and their resource, so equal pointers are looked for, not equal
//! text: that costs no hash of a string. The tables of pointers are of fixed size and forget on a collision, which costs
//! a string written twice and no search. Whole numbers are variable-length (seven bits per byte, lowest first), signed
//! ones in zigzag.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::domain::{
    event::{Change, Detail, Event, EventKind},
    resources::{Resource, ResourceType, clamp},
    types::Nanos,
};

/// Numbers of pointers that were met.
struct Known {
    slots: Vec<Slot>,
    /// Slots of other rounds are free.
    round: u32,
    count: u32,
}

#[derive(Clone, Copy, Default)]
struct Slot {
    pointer: usize,
    length: usize,
    round: u32,
    number: u32,
}

impl Known {
    const BITS: u32 = 13;

    fn clear(&mut self) {
        self.count = 0;
        self.round = self.round.wrapping_add(1);
        if self.round == 0 {
            self.slots.fill(Slot::default());
            self.round = 1;
        }
    }

    /// The number of a pointer, from 1, and whether it is new.
    fn number(&mut self, pointer: usize, length: usize) -> (u32, bool) {
        // Fibonacci hashing of the address, whose low bits are all the same.
        let hash = (pointer as u64 >> 3).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - Self::BITS);
        let slot = &mut self.slots[hash as usize];
        if slot.round == self.round && slot.pointer == pointer && slot.length == length {
            return (slot.number, false);
        }
        self.count += 1;
        *slot = Slot { pointer, length, round: self.round, number: self.count };
        (self.count, true)
    }
}

impl Default for Known {
    fn default() -> Known {
        Known { slots: vec![Slot::default(); 1 << Known::BITS], round: 0, count: 0 }
    }
}

/// Encodes events; keeps its buffers for the next frame.
#[derive(Default)]
pub struct Encoder {
    strings: Known,
    resources: Known,
    string_table: Vec<u8>,
    resource_table: Vec<u8>,
    rows: Vec<u8>,
}

impl Encoder {
    /// Appends the encoded events to `out`. Times are written as differences, the first one to `base`.
    pub fn encode<'a>(&mut self, events: impl Iterator<Item = &'a Event>, base: Nanos, out: &mut Vec<u8>) {
        self.strings.clear();
        self.resources.clear();
        self.string_table.clear();
        self.resource_table.clear();
        self.rows.clear();
        let mut last = base.0;
        let mut count = 0;
        for event in events {
            count += 1;
            let object = self.text(&event.object);
            let reference = self.text(&event.reference);
            let message = self.text(&event.message);
            let partition = self.text(&event.partition);
            let resource = event.resource.as_ref().map_or(0, |resource| self.resource(resource));
            self.rows.push((event.kind as u8) << 4 | event.change as u8);
            unsigned(&mut self.rows, event.detail as u64);
            for index in [object, reference, message, partition, resource] {
                unsigned(&mut self.rows, u64::from(index));
            }
            signed(&mut self.rows, event.at.0.wrapping_sub(last));
            last = event.at.0;
        }
        unsigned(out, u64::from(self.strings.count));
        out.extend_from_slice(&self.string_table);
        unsigned(out, u64::from(self.resources.count));
        out.extend_from_slice(&self.resource_table);
        unsigned(out, count);
        out.extend_from_slice(&self.rows);
    }

    /// Number of a string, 0 for the empty one.
    fn text(&mut self, text: &str) -> u32 {
        if text.is_empty() {
            return 0;
        }
        let (number, new) = self.strings.number(text.as_ptr() as usize, text.len());
        if new {
            unsigned(&mut self.string_table, text.len() as u64);
            self.string_table.extend_from_slice(text.as_bytes());
        }
        number
    }

    /// Number of a resource, from 1.
    fn resource(&mut self, resource: &Arc<Resource>) -> u32 {
        let (number, new) = self.resources.number(Arc::as_ptr(resource) as usize, 0);
        if new {
            amounts(&mut self.resource_table, resource);
        }
        number
    }
}

/// What is wrong with bytes that should be events. Their checksum is right, so another program wrote them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Malformed(pub &'static str);

/// Reads what [`Encoder::encode`] wrote.
pub fn decode(bytes: &[u8], base: Nanos) -> Result<Vec<Event>, Malformed> {
    let mut input = Input { rest: bytes };
    let mut strings: Vec<Arc<str>> = vec![Arc::from("")];
    for _ in 0..input.count()? {
        strings.push(input.text()?.into());
    }
    let mut resources = vec![None];
    for _ in 0..input.count()? {
        resources.push(Some(Arc::new(input.amounts()?)));
    }
    let kinds = by_number(EventKind::ALL.iter().map(|kind| (*kind as i32, *kind)));
    let changes = by_number(Change::ALL.iter().map(|change| (*change as i32, *change)));
    let details = by_number(Detail::ALL.iter().map(|detail| (*detail as i32, *detail)));
    let count = input.count()?;
    let mut events = Vec::with_capacity(count);
    let mut at = base.0;
    for _ in 0..count {
        let head = input.byte()?;
        let detail = input.unsigned()?;
        let mut text = || {
            let index = input.unsigned()?;
            let text = usize::try_from(index).ok().and_then(|index| strings.get(index));
            text.cloned().ok_or(Malformed("a string that is not in the table"))
        };
        let (object, reference, message, partition) = (text()?, text()?, text()?, text()?);
        let resource = input.unsigned()?;
        let resource = usize::try_from(resource).ok().and_then(|index| resources.get(index));
        at = at.wrapping_add(input.signed()?);
        events.push(Event {
            kind: *kinds.get(&i32::from(head >> 4)).ok_or(Malformed("an unknown type"))?,
            object,
            reference,
            change: *changes.get(&i32::from(head & 15)).ok_or(Malformed("an unknown change"))?,
            detail: i32::try_from(detail)
                .ok()
                .and_then(|number| details.get(&number).copied())
                .ok_or(Malformed("an unknown detail"))?,
            message: message.into(),
            resource: resource.ok_or(Malformed("a resource that is not in the table"))?.clone(),
            at: Nanos(at),
            partition,
        });
    }
    if !input.rest.is_empty() {
        return Err(Malformed("more bytes than events"));
    }
    Ok(events)
}

fn by_number<T>(pairs: impl Iterator<Item = (i32, T)>) -> FxHashMap<i32, T> {
    pairs.collect()
}

/// Appends a whole number.
pub fn unsigned(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Appends a signed number.
pub fn signed(out: &mut Vec<u8>, number: i64) {
    unsigned(out, ((number << 1) ^ (number >> 63)) as u64);
}

/// Appends the amounts of a resource.
pub fn amounts(out: &mut Vec<u8>, resource: &Resource) {
    unsigned(out, resource.len() as u64);
    for (kind, amount) in resource.iter() {
        unsigned(out, kind.name().len() as u64);
        out.extend_from_slice(kind.name().as_bytes());
        signed(out, clamp(amount));
    }
}

/// Bytes that are still to be read.
pub struct Input<'a> {
    /// What has not been read of them.
    pub rest: &'a [u8],
}

impl<'a> Input<'a> {
    /// A byte.
    pub fn byte(&mut self) -> Result<u8, Malformed> {
        let (first, rest) = self.rest.split_first().ok_or(Malformed("fewer bytes than events"))?;
        self.rest = rest;
        Ok(*first)
    }

    /// A whole number.
    pub fn unsigned(&mut self) -> Result<u64, Malformed> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(Malformed("a number of more than 64 bits"))
    }

    /// A signed number.
    pub fn signed(&mut self) -> Result<i64, Malformed> {
        let number = self.unsigned()?;
        Ok((number >> 1) as i64 ^ -((number & 1) as i64))
    }

    /// A number of things that follow, each of at least one byte, so that no number makes a reader allocate too much.
    pub fn count(&mut self) -> Result<usize, Malformed> {
        self.count_plus(0)
    }

    /// As [`Input::count`], of a number that is larger by `more`.
    pub fn count_plus(&mut self, more: usize) -> Result<usize, Malformed> {
        let count = self.unsigned()?;
        let fits = |count: &usize| *count <= self.rest.len() + more;
        usize::try_from(count).ok().filter(fits).ok_or(Malformed("too large a number"))
    }

    /// What [`amounts`] appended.
    pub fn amounts(&mut self) -> Result<Resource, Malformed> {
        let mut resource = Resource::new();
        for _ in 0..self.count()? {
            let name = self.text()?;
            let amount = self.signed()?;
            if let Some(kind) = ResourceType::new(name) {
                resource.set(kind, i128::from(amount));
            }
        }
        Ok(resource)
    }

    /// A text with its length before it.
    pub fn text(&mut self) -> Result<&'a str, Malformed> {
        let length = self.count()?;
        self.text_of(length)
    }

    /// A text of a length.
    pub fn text_of(&mut self, length: usize) -> Result<&'a str, Malformed> {
        let (text, rest) = self.rest.split_at_checked(length).ok_or(Malformed("fewer bytes than events"))?;
        self.rest = rest;
        std::str::from_utf8(text).map_err(|_| Malformed("text that is not UTF-8"))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// As text, since events have no equality; with the states of a resource told apart.
    fn shown(events: &[Event]) -> Vec<String> {
        events.iter().map(|event| format!("{event:?}")).collect()
    }

    fn encoded(events: &[Event], base: Nanos) -> Vec<u8> {
        let mut out = Vec::new();
        Encoder::default().encode(events.iter(), base, &mut out);
        out
    }

    prop_compose! {
        fn any_event()(
            kind in 0..EventKind::ALL.len(), change in 0..Change::ALL.len(), detail in 0..Detail::ALL.len(),
            object in ".{0,40}", reference in ".{0,8}", message in ".{0,8}",
            amounts in proptest::option::of(proptest::collection::vec((0..4usize, any::<i64>()), 0..4)),
            partition in "(\\[rm\\])?default|", at in any::<i64>(),
        ) -> Event {
            let names = ["memory", "vcore", "example.com/gpu", "pods"];
            Event {
                kind: EventKind::ALL[kind],
                object: object.into(),
                reference: reference.into(),
                change: Change::ALL[change],
                detail: Detail::ALL[detail],
                message: message.into(),
                resource: amounts.map(|amounts| {
                    let named: Vec<_> = amounts.iter().map(|(name, amount)| (names[*name], *amount)).collect();
                    Arc::new(Resource::of(&named))
                }),
                at: Nanos(at),
                partition: partition.into(),
            }
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(events in proptest::collection::vec(any_event(), 0..20), base: i64) {
            let mut twice = events.clone();
            twice.extend(events);
            let read = decode(&encoded(&twice, Nanos(base)), Nanos(base)).unwrap();
            prop_assert_eq!(shown(&read), shown(&twice));
        }

        #[test]
        fn other_bytes_are_refused_without_harm(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = decode(&bytes, Nanos::ZERO);
        }

        #[test]
        fn a_part_is_refused(events in proptest::collection::vec(any_event(), 1..5), cut in 1..50usize) {
            let bytes = encoded(&events, Nanos::ZERO);
            prop_assert!(decode(&bytes[..bytes.len() - cut.min(bytes.len())], Nanos::ZERO).is_err());
        }
    }

    #[test]
    fn shared_strings_are_written_once() {
        let text = |text: &str| Arc::<str>::from(text);
        let event = Event {
            kind: EventKind::App,
            object: text("application-1"),
            reference: text("key-1"),
            change: Change::Add,
            detail: Detail::AppAlloc,
            message: "".into(),
            resource: Some(Arc::new(Resource::of(&[("memory", 10)]))),
            at: Nanos(7),
            partition: text("[rm-1]default"),
        };
        let one = encoded(std::slice::from_ref(&event), event.at).len();
        let many = encoded(&vec![event.clone(); 101], event.at).len();
        assert_eq!(many - one, 100 * 9, "nine bytes for an event whose strings are known");
    }
}
