//! Messages come in as bytes, of which nothing is made before they are counted.

use std::marker::PhantomData;

use bytes::{Buf as _, Bytes};
use prost::Message;
use tonic::{
    Status,
    codec::{Codec, DecodeBuf, Decoder},
};
use tonic_prost::{ProstCodec, ProstEncoder};

use crate::{
    decode::Malformed,
    intake::Fault,
    wire::{Fields, Value},
};

/// A message as it came.
#[derive(Clone, Debug, Default)]
pub struct Wire(pub Bytes);

/// Takes messages as they come, and sends those of protobuf.
#[derive(Clone, Copy, Debug)]
pub struct WireCodec<T>(PhantomData<T>);

impl<T> Default for WireCodec<T> {
    fn default() -> Self {
        WireCodec(PhantomData)
    }
}

impl<T: Message + Send + 'static> Codec for WireCodec<T> {
    type Encode = T;
    type Decode = Wire;
    type Encoder = ProstEncoder<T>;
    type Decoder = Whole;

    fn encoder(&mut self) -> Self::Encoder {
        // What comes in does not concern the encoder.
        ProstCodec::<T, ()>::default().encoder()
    }

    fn decoder(&mut self) -> Self::Decoder {
        Whole
    }
}

/// Hands out the bytes of a message, which are not copied.
#[derive(Clone, Copy, Debug)]
pub struct Whole;

impl Decoder for Whole {
    type Item = Wire;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<Wire>, Status> {
        Ok(Some(Wire(from.copy_to_bytes(from.remaining()))))
    }
}

impl Wire {
    /// The message `name`, of at most `entries` fields, those of the messages in fields of `inner` included, each so many
    /// levels deep.
    ///
    /// # Errors
    /// It is no message, or has more of them.
    pub fn message<T: Message + Default>(self, name: &str, inner: &[(u32, u32)], entries: usize) -> Result<T, Fault> {
        let mut found = 0;
        for field in Fields::of(&self.0) {
            let (number, value) = field?;
            let depth = inner.iter().find(|(inner, _)| *inner == number).map_or(0, |(_, depth)| *depth);
            found += count(&value, depth);
            if found > entries {
                return Err(Fault::Large(format!("{name} has more than {entries} entries in its lists and maps")));
            }
        }
        let detail = |error| format!("{name} is not protobuf: {error}");
        T::decode(self.0).map_err(|error| Malformed { field: None, detail: detail(error) }.cut().into())
    }
}

/// Fields of a value: itself, and those of the messages in it down to a depth.
fn count(value: &Value<'_>, depth: u32) -> usize {
    match value {
        Value::Bytes(bytes) if depth > 0 => {
            let inside = |field: Result<(u32, Value<'_>), _>| field.map_or(1, |(_, value)| count(&value, depth - 1));
            1 + Fields::of(bytes).map(inside).sum::<usize>()
        }
        _ => 1,
    }
}
