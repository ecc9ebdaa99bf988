//! Numbers, texts and collections.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use smallvec::SmallVec;

use super::{As, Coded, Error, Reader, Writer};
use crate::{
    cow::CowVec,
    resources::{Resource, ResourceType},
    run::Run,
    sorted::Sorted,
    types::AllocIx,
};

/// As its type is written.
pub(crate) struct Plain;

impl<T: Coded> As<T> for Plain {
    fn write(value: &T, to: &mut Writer) {
        value.write(to);
    }

    fn read(from: &mut Reader) -> Result<T, Error> {
        T::read(from)
    }

    fn is_absent(value: &T) -> bool {
        value.is_absent()
    }

    fn absent() -> Option<T> {
        T::absent()
    }
}

/// A text that is not expected again, such as the key of an allocation: it gets no number.
pub(crate) struct Once;

impl As<Arc<str>> for Once {
    fn write(value: &Arc<str>, to: &mut Writer) {
        to.text_once(value);
    }

    fn read(from: &mut Reader) -> Result<Arc<str>, Error> {
        let text = from.text_once()?;
        Ok(from.named(text))
    }

    fn is_absent(value: &Arc<str>) -> bool {
        value.is_empty()
    }

    fn absent() -> Option<Arc<str>> {
        Some(Arc::default())
    }
}

/// Not written: whoever reads makes it anew.
pub(crate) struct Skip;

impl<T: Default> As<T> for Skip {
    fn write(_: &T, _: &mut Writer) {}

    fn read(from: &mut Reader) -> Result<T, Error> {
        Err(from.fail("a field that is never written"))
    }

    fn is_absent(_: &T) -> bool {
        true
    }

    fn absent() -> Option<T> {
        Some(T::default())
    }
}

/// A vector that is shared here, and was not when it was first written: each in full.
pub(crate) struct Apart;

impl As<Option<Arc<Resource>>> for Apart {
    fn write(value: &Option<Arc<Resource>>, to: &mut Writer) {
        match value {
            Some(vector) => Resource::write(vector, to),
            None => to.null(),
        }
    }

    fn read(from: &mut Reader) -> Result<Option<Arc<Resource>>, Error> {
        Ok(Option::<Resource>::read(from)?.map(Arc::new))
    }

    fn is_absent(value: &Option<Arc<Resource>>) -> bool {
        value.is_none()
    }

    fn absent() -> Option<Option<Arc<Resource>>> {
        Some(None)
    }
}

/// Ascending rows, each as its distance from the one before.
pub(crate) struct Deltas;

impl As<Run<AllocIx, ()>> for Deltas {
    fn write(value: &Run<AllocIx, ()>, to: &mut Writer) {
        to.array(value.len());
        let mut last = 0;
        for row in value.keys() {
            to.uint(u64::from(row.0 - last));
            last = row.0;
        }
    }

    fn read(from: &mut Reader) -> Result<Run<AllocIx, ()>, Error> {
        let (mut rows, mut last) = (Run::new(), 0_u32);
        for _ in 0..from.array()? {
            let row = last.checked_add(u32::read(from)?);
            last = row.ok_or_else(|| from.fail("a row beyond all tables"))?;
            rows.insert(AllocIx(last), ());
        }
        if let Some(last) = rows.keys().next_back() {
            from.note_row(AllocIx::TABLE, last.0);
        }
        Ok(rows)
    }

    fn is_absent(value: &Run<AllocIx, ()>) -> bool {
        value.is_empty()
    }

    fn absent() -> Option<Run<AllocIx, ()>> {
        Some(Run::new())
    }
}

macro_rules! numbers {
    ($($kind:ty, $write:ident, $wide:ty, $name:literal);+ $(;)?) => {$(
        impl Coded for $kind {
            fn write(&self, to: &mut Writer) {
                to.$write(*self as $wide);
            }

            fn read(from: &mut Reader) -> Result<Self, Error> {
                let read = from.$write()?;
                <$kind>::try_from(read).map_err(|_| from.fail(format!("{read} is no number of {}", $name)))
            }

            fn is_absent(&self) -> bool {
                *self == 0
            }

            fn absent() -> Option<Self> {
                Some(0)
            }
        }
    )+};
}

numbers! {
    u32, uint, u64, "32 bits";
    u64, uint, u64, "64 bits";
    usize, uint, u64, "this machine";
    i32, int, i64, "32 bits";
    i64, int, i64, "64 bits";
    i128, wide, i128, "128 bits";
}

impl Coded for bool {
    fn write(&self, to: &mut Writer) {
        to.bool(*self);
    }

    fn read(from: &mut Reader) -> Result<Self, Error> {
        from.bool()
    }

    fn is_absent(&self) -> bool {
        !self
    }

    fn absent() -> Option<Self> {
        Some(false)
    }
}

impl Coded for f64 {
    fn write(&self, to: &mut Writer) {
        to.float(*self);
    }

    fn read(from: &mut Reader) -> Result<Self, Error> {
        from.float()
    }
}

impl Coded for Arc<str> {
    fn write(&self, to: &mut Writer) {
        to.text(self);
    }

    fn read(from: &mut Reader) -> Result<Self, Error> {
        from.text()
    }

    fn is_absent(&self) -> bool {
        self.is_empty()
    }

    fn absent() -> Option<Self> {
        Some(Arc::default())
    }
}

impl Coded for String {
    fn write(&self, to: &mut Writer) {
        to.text(self);
    }

    fn read(from: &mut Reader) -> Result<Self, Error> {
        from.text().map(|text| text.to_string())
    }

    fn is_absent(&self) -> bool {
        self.is_empty()
    }

    fn absent() -> Option<Self> {
        Some(String::new())
    }
}

impl<T: Coded> Coded for Reverse<T> {
    fn write(&self, to: &mut Writer) {
        self.0.write(to);
    }

    fn read(from: &mut Reader) -> Result<Self, Error> {
        T::read(from).map(Reverse)
    }
}

impl<T: Coded> Coded for Arc<T> {
    fn write(&self, to: &mut Writer) {
        T::write_shared(self, to);
    }

    fn read(from: &mut Reader) -> Result<Self, Error> {
        T::read_shared(from)
    }

    fn is_absent(&self) -> bool {
        T::is_absent(self)
    }

    fn absent() -> Option<Self> {
        T::absent().map(Arc::new)
    }
}

impl<T: Coded> Coded for Box<T> {
    fn write(&self, to: &mut Writer) {
        T::write(self, to);
    }

    fn read(from: &mut Reader) -> Result<Self, Error> {
        T::read(from).map(Box::new)
    }
}

impl<T: Coded> Coded for Option<T> {
    fn write(&self, to: &mut Writer) {
        match self {
            Some(value) => value.write(to),
            None => to.null(),
        }
    }

    fn read(from: &mut Reader) -> Result<Self, Error> {
        if from.null()? { Ok(None) } else { T::read(from).map(Some) }
    }

    fn is_absent(&self) -> bool {
        self.is_none()
    }

    fn absent() -> Option<Self> {
        Some(None)
    }
}

/// An answer without content, or why not.
impl Coded for Result<(), Arc<str>> {
    fn write(&self, to: &mut Writer) {
        match self {
            Ok(()) => to.null(),
            Err(why) => why.write(to),
        }
    }

    fn read(from: &mut Reader) -> Result<Self, Error> {
        if from.null()? { Ok(Ok(())) } else { Arc::read(from).map(Err) }
    }
}

impl Coded for Resource {
    fn write(&self, to: &mut Writer) {
        to.array(2 * self.len());
        for (kind, amount) in self.iter() {
            to.kind(kind);
            to.wide(amount);
        }
    }

    fn read(from: &mut Reader) -> Result<Self, Error> {
        let values = from.array()?;
        if values % 2 == 1 {
            return Err(from.fail("a resource type without an amount"));
        }
        let mut vector = Resource::new();
        for _ in 0..values / 2 {
            let kind = from.kind()?;
            vector.set(kind, from.wide()?);
        }
        Ok(vector)
    }

    fn is_absent(&self) -> bool {
        self.is_empty()
    }

    fn absent() -> Option<Self> {
        Some(Resource::new())
    }

    fn write_shared(shared: &Arc<Self>, to: &mut Writer) {
        to.shared_vector(shared);
    }

    fn read_shared(from: &mut Reader) -> Result<Arc<Self>, Error> {
        from.shared_vector()
    }
}

impl Coded for ResourceType {
    fn write(&self, to: &mut Writer) {
        to.kind(self);
    }

    fn read(from: &mut Reader) -> Result<Self, Error> {
        from.kind()
    }
}

macro_rules! tuples {
    ($($count:literal $($part:ident $at:tt),+);+ $(;)?) => {$(
        impl<$($part: Coded),+> Coded for ($($part,)+) {
            fn write(&self, to: &mut Writer) {
                to.array($count);
                $(self.$at.write(to);)+
            }

            fn read(from: &mut Reader) -> Result<Self, Error> {
                match from.array()? {
                    $count => Ok(($($part::read(from)?,)+)),
                    other => Err(from.fail(format!("{other} values where there should be {}", $count))),
                }
            }
        }
    )+};
}

tuples! {
    2 A 0, B 1;
    3 A 0, B 1, C 2;
    4 A 0, B 1, C 2, D 3;
}

/// As many as there are: one more than were written is empty.
impl<T: Coded, const N: usize> Coded for [T; N] {
    fn write(&self, to: &mut Writer) {
        to.array(N);
        self.iter().for_each(|value| value.write(to));
    }

    fn read(from: &mut Reader) -> Result<Self, Error> {
        let mut rows = from.each::<T>()?;
        while rows.len() < N {
            rows.push(T::absent().ok_or_else(|| from.fail(format!("there should be {N} values")))?);
        }
        rows.try_into().map_err(|_| from.fail(format!("there should be {N} values")))
    }

    fn is_absent(&self) -> bool {
        self.iter().all(T::is_absent)
    }

    fn absent() -> Option<Self> {
        let values: Vec<T> = std::iter::from_fn(T::absent).take(N).collect();
        values.try_into().ok()
    }
}

macro_rules! collections {
    ($([$($bound:tt)*] $collection:ty, $item:ty);+ $(;)?) => {$(
        impl<$($bound)*> Coded for $collection {
            fn write(&self, to: &mut Writer) {
                to.array(self.len());
                self.iter().for_each(|item| item.write(to));
            }

            fn read(from: &mut Reader) -> Result<Self, Error> {
                Ok(from.each::<$item>()?.into_iter().collect())
            }

            fn is_absent(&self) -> bool {
                self.len() == 0
            }

            fn absent() -> Option<Self> {
                Some(std::iter::empty::<$item>().collect())
            }
        }
    )+};
}

collections! {
    [T: Coded] Vec<T>, T;
    [T: Coded] Arc<[T]>, T;
    [T: Coded, const N: usize] SmallVec<[T; N]>, T;
    [T: Coded + Ord] BTreeSet<T>, T;
    [T: Coded + Ord + Clone] imbl::OrdSet<T>, T;
}

macro_rules! maps {
    ($([$($bound:tt)*] $map:ty);+ $(;)?) => {$(
        impl<$($bound)*> Coded for $map {
            fn write(&self, to: &mut Writer) {
                to.pairs(self.len());
                for (key, value) in self.iter() {
                    key.write(to);
                    value.write(to);
                }
            }

            fn read(from: &mut Reader) -> Result<Self, Error> {
                let mut map = Self::new();
                for _ in 0..from.pairs()? {
                    let key = K::read(from)?;
                    map.insert(key, V::read(from)?);
                }
                Ok(map)
            }

            fn is_absent(&self) -> bool {
                self.is_empty()
            }

            fn absent() -> Option<Self> {
                Some(Self::new())
            }
        }
    )+};
}

maps! {
    [K: Coded + Ord, V: Coded] BTreeMap<K, V>;
    [K: Coded + Ord, V: Coded] Sorted<K, V>;
    [K: Coded + Ord + Clone, V: Coded + Clone] imbl::OrdMap<K, V>;
    [K: Coded + Ord + Clone, V: Coded + Copy] Run<K, V>;
}

impl<T: Coded + Clone, const N: usize> Coded for CowVec<T, N> {
    fn write(&self, to: &mut Writer) {
        to.array(self.len());
        self.iter().for_each(|row| row.write(to));
    }

    fn read(from: &mut Reader) -> Result<Self, Error> {
        let mut rows = CowVec::default();
        for _ in 0..from.array()? {
            rows.push(T::read(from)?);
        }
        Ok(rows)
    }

    fn is_absent(&self) -> bool {
        self.is_empty()
    }

    fn absent() -> Option<Self> {
        Some(CowVec::default())
    }
}
