//! Whose limits may have more room than before: so that of many who wait for theirs only those are looked at again.

use std::{collections::VecDeque, fmt, sync::Arc};

use super::Who;

/// Users and groups that are remembered; who looked before them looks at all.
const KEPT: usize = 512;

/// See the module. Not kept over a restart: then everything is looked at.
#[derive(Clone, Default)]
pub struct Freed {
    /// Users and groups whose limits have more room, in the order in which that came about.
    names: VecDeque<(Who, Arc<str>)>,
    /// Number of the next one.
    next: u64,
}

impl fmt::Debug for Freed {
    /// What it remembers spares looks, and is no part of what is so.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Freed")
    }
}

impl Freed {
    /// The limits of this user or group have more room.
    pub(super) fn note(&mut self, who: Who, name: &Arc<str>) {
        self.names.push_back((who, name.clone()));
        if self.names.len() > KEPT {
            self.names.pop_front();
        }
        self.next += 1;
    }

    /// Anybody's may have.
    pub(super) fn anybody(&mut self) {
        self.names.clear();
        self.next += 1;
    }

    /// To be asked with the next time.
    pub fn now(&self) -> u64 {
        self.next
    }

    /// Users and groups whose limits have more room since then; `None`: anybody's may have.
    pub fn since(&self, then: u64) -> Option<impl Iterator<Item = &(Who, Arc<str>)>> {
        let new = usize::try_from(self.next - then).ok().filter(|new| *new <= self.names.len())?;
        Some(self.names.range(self.names.len() - new..))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn since(freed: &Freed, then: u64) -> Option<Vec<&str>> {
        Some(freed.since(then)?.map(|(_, name)| &**name).collect())
    }

    #[test]
    fn who_looked_long_ago_looks_at_all() {
        let mut freed = Freed::default();
        assert_eq!(since(&freed, 0), Some(vec![]));
        freed.note(Who::User, &"a".into());
        let then = freed.now();
        freed.note(Who::Group, &"b".into());
        freed.note(Who::User, &"a".into());
        assert_eq!((since(&freed, 0), since(&freed, then)), (Some(vec!["a", "b", "a"]), Some(vec!["b", "a"])));
        freed.anybody();
        assert_eq!((since(&freed, then), since(&freed, freed.now())), (None, Some(vec![])));
        let then = freed.now();
        for user in 0..=KEPT {
            freed.note(Who::User, &user.to_string().into());
        }
        assert_eq!(since(&freed, then), None, "more came than are remembered");
        assert_eq!(since(&freed, then + 1).map(|all| all.len()), Some(KEPT));
    }
}
