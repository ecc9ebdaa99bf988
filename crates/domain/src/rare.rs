//! `Rare`: a value that is nothing for most rows, which then take no room for it.

use std::{
    ops::{Deref, DerefMut},
    sync::LazyLock,
};

use super::{
    app::UsageHistory,
    coded::{Coded, Error, Reader, Writer},
    node::Asked,
    partition::Amount,
    resources::Resource,
};

/// What can be nothing.
pub trait Nothing: Default + 'static {
    /// Nothing, to be read.
    fn nothing() -> &'static Self;
}

macro_rules! nothing {
    ($($kind:ty),+ $(,)?) => {$(
        impl Nothing for $kind {
            fn nothing() -> &'static Self {
                static NOTHING: LazyLock<$kind> = LazyLock::new(<$kind>::default);
                &NOTHING
            }
        }
    )+};
}

nothing!(Resource, Amount, Asked, [Asked; 2], UsageHistory);

/// See the module. It takes its room when it is first written.
#[derive(Clone, Debug)]
pub struct Rare<T>(Option<Box<T>>);

impl<T> Default for Rare<T> {
    fn default() -> Self {
        Rare(None)
    }
}

impl<T> From<T> for Rare<T> {
    fn from(value: T) -> Self {
        Rare(Some(Box::new(value)))
    }
}

impl<T: Nothing> Deref for Rare<T> {
    type Target = T;

    fn deref(&self) -> &T {
        match &self.0 {
            Some(value) => value,
            None => T::nothing(),
        }
    }
}

impl<T: Nothing> DerefMut for Rare<T> {
    fn deref_mut(&mut self) -> &mut T {
        self.0.get_or_insert_default()
    }
}

/// As the value itself.
impl<T: Nothing + Coded> Coded for Rare<T> {
    fn write(&self, to: &mut Writer) {
        T::write(self, to);
    }

    fn read(from: &mut Reader) -> Result<Self, Error> {
        Ok(Rare::from(T::read(from)?))
    }

    fn is_absent(&self) -> bool {
        T::is_absent(self)
    }

    fn absent() -> Option<Self> {
        T::absent().map(|_| Rare(None))
    }
}
