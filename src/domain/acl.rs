//! Access lists of queues (section 7.1 of the queue rules).

use std::{collections::BTreeSet, sync::Arc};

/// Who may do something on a queue; empty: nobody.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Acl {
    /// Everybody.
    pub everyone: bool,
    /// User names.
    pub users: BTreeSet<Arc<str>>,
    /// Group names.
    pub groups: BTreeSet<Arc<str>>,
}

impl Acl {
    /// Everyone, then the user, then any of the groups (ACL-010).
    pub fn allows(&self, user: &str, groups: &[Arc<str>]) -> bool {
        self.everyone || self.users.contains(user) || groups.iter().any(|group| self.groups.contains(group))
    }
}
