//! The domain as bytes: what the log and its snapshots consist of.
//!
//! The format is CBOR (RFC 8949), so that any tool for it shows what is in a record. Three shapes are used, and their numbers are the
//! format:
//!
//! - *map*: a row with many fields that are mostly empty: field numbers, ascending, each with its value. A field that is empty, zero,
//!   false or not set is left out, and one that is missing reads as that. A number once given is never given again.
//! - *list*: a small row: its values in order. New ones come at the end and may be missing.
//! - *variants*: one of several, by number: the number alone, or a list of the number and the values that belong to it.
//!
//! What is read must be known in full: a field, value or variant that is not known was written by a later version, and is refused.
//!
//! Texts of four bytes or more, shared resource vectors and resource types are numbered as they first come, and written by number from
//! then on; the numbers begin anew with each [`Writer::begin`]. Nothing of it depends on an address or on the process.

mod plain;
mod reader;
mod writer;

use std::sync::Arc;

use crate::resources::Types;

pub(crate) use plain::{Apart, Deltas, Once, Plain, Skip};
pub use reader::Names;
pub(crate) use reader::Reader;
pub(crate) use writer::Writer;

/// Why bytes are not what they should be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("at byte {at}: {what}")]
pub struct Error {
    /// Position of the fault, from 0.
    pub at: usize,
    /// What is wrong there.
    pub what: String,
}

/// What can be written and read back.
pub(crate) trait Coded: Sized {
    /// Writes it.
    fn write(&self, to: &mut Writer);
    /// Reads it back.
    fn read(from: &mut Reader) -> Result<Self, Error>;
    /// It reads back where nothing is written.
    fn is_absent(&self) -> bool {
        false
    }
    /// What a missing field is; `None` where it must be there.
    fn absent() -> Option<Self> {
        None
    }
    /// Writes what others may share.
    fn write_shared(shared: &Arc<Self>, to: &mut Writer) {
        Self::write(shared, to);
    }
    /// Reads what others may share.
    fn read_shared(from: &mut Reader) -> Result<Arc<Self>, Error> {
        Self::read(from).map(Arc::new)
    }
}

/// A way to write a field.
pub(crate) trait As<T> {
    /// Writes it.
    fn write(value: &T, to: &mut Writer);
    /// Reads it back.
    fn read(from: &mut Reader) -> Result<T, Error>;
    /// It reads back where nothing is written.
    fn is_absent(value: &T) -> bool;
    /// What a missing field is.
    fn absent() -> Option<T>;
}

/// The way to write a field: as told, else as its type is written.
macro_rules! way {
    () => {
        $crate::coded::Plain
    };
    ($way:ident) => {
        $way
    };
}
pub(crate) use way;

/// Fields by number; see the module. `as` names another way to write a field. Every field of the type has to be named. What is named after
/// `parts` is a part of a field, with a number of its own; fields that follow it come after `then`. Of a field that is `gone` its type is
/// left: earlier versions wrote it.
macro_rules! map {
    (
        $name:ident { $($number:literal $field:ident $(as $way:ident)?),+ $(,)? }
        $(
            parts { $($place:literal $of:ident.$part:ident),+ $(,)? }
            then { $($later:literal $more:ident $(as $how:ident)?),+ $(,)? }
        )*
        $(gone { $($old:literal $type:ty),+ $(,)? })?
    ) => {
        impl $crate::coded::Coded for $name {
            fn write(&self, to: &mut $crate::coded::Writer) {
                let $name { $($field,)+ $($($more,)+)* } = self;
                to.open_map();
                $(if !<$crate::coded::way!($($way)?) as $crate::coded::As<_>>::is_absent($field) {
                    to.uint($number);
                    <$crate::coded::way!($($way)?) as $crate::coded::As<_>>::write($field, to);
                })+
                $(
                    $(if !$crate::coded::Coded::is_absent(&$of.$part) {
                        to.uint($place);
                        $crate::coded::Coded::write(&$of.$part, to);
                    })+
                    $(if !<$crate::coded::way!($($how)?) as $crate::coded::As<_>>::is_absent($more) {
                        to.uint($later);
                        <$crate::coded::way!($($how)?) as $crate::coded::As<_>>::write($more, to);
                    })+
                )*
                to.close_map();
            }

            fn read(from: &mut $crate::coded::Reader) -> Result<Self, $crate::coded::Error> {
                $(let mut $field = None;)+
                $($(let mut $more = None;)+)*
                #[allow(unused_mut)]
                let mut parts: Vec<Box<dyn FnOnce(&mut $name)>> = Vec::new();
                let mut last = 0;
                from.open_map(stringify!($name))?;
                while let Some(number) = from.field(stringify!($name), &mut last)? {
                    match number {
                        $($number => $field = Some(<$crate::coded::way!($($way)?) as $crate::coded::As<_>>::read(from)?),)+
                        $(
                            $($place => {
                                let part = $crate::coded::Coded::read(from)?;
                                parts.push(Box::new(move |whole| whole.$of.$part = part));
                            })+
                            $($later => $more = Some(<$crate::coded::way!($($how)?) as $crate::coded::As<_>>::read(from)?),)+
                        )*
                        $($($old => drop(<$type as $crate::coded::Coded>::read(from)?),)+)?
                        _ => return Err(from.unknown(stringify!($name), "field", number)),
                    }
                }
                #[allow(unused_mut)]
                let mut whole = $name { $($field: match $field {
                    Some(value) => value,
                    None => <$crate::coded::way!($($way)?) as $crate::coded::As<_>>::absent()
                        .ok_or_else(|| from.missing(stringify!($name), stringify!($field)))?,
                },)+ $($($more: match $more {
                    Some(value) => value,
                    None => <$crate::coded::way!($($how)?) as $crate::coded::As<_>>::absent()
                        .ok_or_else(|| from.missing(stringify!($name), stringify!($more)))?,
                },)+)* };
                parts.into_iter().for_each(|put| put(&mut whole));
                Ok(whole)
            }
        }
    };
}
pub(crate) use map;

/// Values in order; see the module. `as` names another way to write one. Every field of the type has to be named.
macro_rules! list {
    ($name:ident { $($field:ident $(as $way:ident)?),+ $(,)? }) => {
        impl $crate::coded::Coded for $name {
            fn write(&self, to: &mut $crate::coded::Writer) {
                let $name { $($field),+ } = self;
                to.array([$(stringify!($field)),+].len());
                $(<$crate::coded::way!($($way)?) as $crate::coded::As<_>>::write($field, to);)+
            }

            fn read(from: &mut $crate::coded::Reader) -> Result<Self, $crate::coded::Error> {
                let mut left = from.open_list()?;
                $(let $field = from.value::<$crate::coded::way!($($way)?), _>(stringify!($name), stringify!($field), &mut left)?;)+
                from.close_list(stringify!($name), left)?;
                Ok($name { $($field),+ })
            }
        }
    };
}
pub(crate) use list;

/// One of several by number; see the module. Every variant and each of its values has to be named.
macro_rules! variants {
    ($name:ident { $($number:literal $variant:ident $(($($value:ident),+))? $({ $($field:ident),+ $(,)? })?),+ $(,)? }) => {
        impl $crate::coded::Coded for $name {
            fn write(&self, to: &mut $crate::coded::Writer) {
                match self {
                    $($name::$variant $(($($value),+))? $({ $($field),+ })? => {
                        let values: &[&str] = &[$($(stringify!($value)),+)? $($(stringify!($field)),+)?];
                        to.variant($number, values.len());
                        $($($crate::coded::Coded::write($value, to);)+)?
                        $($($crate::coded::Coded::write($field, to);)+)?
                    })+
                }
            }

            fn read(from: &mut $crate::coded::Reader) -> Result<Self, $crate::coded::Error> {
                #[allow(unused_mut)]
                let (number, mut left) = from.variant(stringify!($name))?;
                let read = match number {
                    $($number => {
                        $($(let $value = from.value::<$crate::coded::Plain, _>(stringify!($variant), stringify!($value), &mut left)?;)+)?
                        $($(let $field = from.value::<$crate::coded::Plain, _>(stringify!($variant), stringify!($field), &mut left)?;)+)?
                        $name::$variant $(($($value),+))? $({ $($field),+ })?
                    })+
                    _ => return Err(from.unknown(stringify!($name), "variant", number)),
                };
                from.close_list(stringify!($name), left)?;
                Ok(read)
            }
        }
    };
}
pub(crate) use variants;

/// One value as bytes.
pub(crate) fn bytes_of(value: &impl Coded) -> Vec<u8> {
    let mut to = Writer::small();
    value.write(&mut to);
    to.into_bytes()
}

/// The value that these bytes are, and nothing after it.
pub(crate) fn value_of<T: Coded>(bytes: &[u8], types: &Types) -> Result<T, Error> {
    read_all(Reader::new(bytes, types))
}

/// The value that a reader has, and nothing after it.
pub(crate) fn read_all<T: Coded>(mut from: Reader) -> Result<T, Error> {
    let value = T::read(&mut from)?;
    if from.is_done() { Ok(value) } else { Err(from.fail("something follows that does not belong here")) }
}
