//! `Rare`: a value that is nothing for most rows, which then take no room for it.

use std::{
    fmt,
    ops::{Deref, DerefMut},
    sync::LazyLock,
};

use super::{
    app::{AskOrder, Gang, UsageHistory},
    coded::{Coded, Error, Reader, Writer},
    node::{Asked, Reservations},
    partition::Amount,
    resources::Resource,
    run::Run,
    types::AllocIx,
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

nothing!(Resource, Amount, Asked, [Asked; 2], UsageHistory, Gang, Reservations, Run<AskOrder, AllocIx>);

/// See the module. It takes its room when it is first written.
#[derive(Clone)]
pub struct Rare<T>(Option<Box<T>>);

/// As the value itself.
impl<T: Nothing + fmt::Debug> fmt::Debug for Rare<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        T::fmt(self, f)
    }
}

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

impl<T> Rare<T> {
    /// Changes what was written; what is nothing stays so.
    pub fn written<R>(&mut self, change: impl FnOnce(&mut T) -> R) -> Option<R> {
        self.0.as_deref_mut().map(change)
    }
}

impl Rare<Amount> {
    /// Nothing is in it. Asked for each type of each ask, so without a look at what stands for nothing.
    pub fn is_empty(&self) -> bool {
        self.0.as_ref().is_none_or(|sum| sum.is_empty())
    }

    /// Lets go of its room where nothing is left in it.
    pub fn trim(&mut self) {
        if self.0.as_ref().is_some_and(|sum| sum.is_empty()) {
            self.0 = None;
        }
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
        let value = T::read(from)?;
        Ok(if value.is_absent() { Rare(None) } else { value.into() })
    }

    fn is_absent(&self) -> bool {
        T::is_absent(self)
    }

    fn absent() -> Option<Self> {
        T::absent().map(|_| Rare(None))
    }
}
