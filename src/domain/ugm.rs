//! User and group manager of a partition: usage and limits (section 8 of the queue rules).

/// The manager.
#[derive(Clone, Debug, Default)]
pub struct Ugm {}
