//! Messages come in as bytes, of which nothing is made before they are counted.

use std::marker::PhantomData;

use bytes::{Buf as _, Bytes};
use prost::Message;
use tonic::{
    Status,
    codec::{Codec, DecodeBuf, Decoder},
};
use tonic_prost::{ProstCodec, ProstEncoder};

use crate::si::{decode::Malformed, intake::Fault, wire::Fields};

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
    /// The message `name`, of at most `entries` fields, those of the message in field `inner` included.
    ///
    /// # Errors
    /// It is no message, or has more of them.
    pub fn message<T: Message + Default>(self, name: &str, inner: u32, entries: usize) -> Result<T, Fault> {
        let mut found = 0;
        for field in Fields::of(&self.0) {
            found += match field? {
                (number, crate::si::wire::Value::Bytes(bytes)) if number == inner => 1 + Fields::of(bytes).count(),
                _ => 1,
            };
            if found > entries {
                return Err(Fault::Large(format!("{name} has more than {entries} entries in its lists and maps")));
            }
        }
        let detail = |error| format!("{name} is not protobuf: {error}");
        T::decode(self.0).map_err(|error| Malformed { field: None, detail: detail(error) }.cut().into())
    }
}
