//! An amount that only the books change.

use std::ops::Deref;

use crate::{
    coded::{Coded, Error, Reader, Writer},
    resources::Resource,
};

/// See the module. Memory in bytes, vcore in milli-units.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Amount(Resource);

impl Amount {
    /// A copy to go on with.
    pub fn value(&self) -> Resource {
        self.0.clone()
    }

    pub(super) fn add(&mut self, more: &Resource) {
        self.0.add(more);
    }

    pub(super) fn sub(&mut self, less: &Resource) {
        self.0.sub(less);
    }

    /// Types of which nothing is left go.
    pub(super) fn prune(&mut self) {
        self.0.prune();
    }

    /// Adds or takes away, and keeps no type of which nothing is left.
    pub(super) fn count(&mut self, amount: &Resource, more: bool) {
        if more {
            self.add(amount);
        } else {
            self.sub(amount);
        }
        self.prune();
    }

    pub(super) fn set(&mut self, amount: Resource) {
        self.0 = amount;
    }
}

impl Deref for Amount {
    type Target = Resource;

    fn deref(&self) -> &Resource {
        &self.0
    }
}

impl PartialEq<Resource> for Amount {
    fn eq(&self, other: &Resource) -> bool {
        self.0 == *other
    }
}

impl PartialEq<Amount> for Resource {
    fn eq(&self, other: &Amount) -> bool {
        *self == other.0
    }
}

impl Coded for Amount {
    fn write(&self, to: &mut Writer) {
        self.0.write(to);
    }

    fn read(from: &mut Reader) -> Result<Self, Error> {
        Resource::read(from).map(Amount)
    }

    fn is_absent(&self) -> bool {
        self.0.is_absent()
    }

    fn absent() -> Option<Self> {
        Resource::absent().map(Amount)
    }
}
