//! Who belongs to which groups: plain functions that may block, for `spawn_blocking` (ACL-040–ACL-046).

pub mod ldap;

use std::{ffi::CString, sync::Arc};

use nix::{
    errno::Errno,
    unistd::{Gid, Group, User, getgrouplist},
};

use crate::domain::{group_cache::Groups, types::Nanos};

/// Why the groups of a user are not known.
#[derive(Debug, PartialEq, thiserror::Error)]
pub enum Error {
    /// There is no such user.
    #[error("user '{0}' not found: add it to the user database, or submit with groups")]
    UnknownUser(Arc<str>),
    /// The user database could not be read.
    #[error("user database failed for user '{user}': {cause}")]
    Database {
        /// The user.
        user: Arc<str>,
        /// What the system says.
        cause: Errno,
    },
    /// The groups of the user are not known, though the user is.
    #[error("groups of user '{user}' not found: {cause}")]
    NoGroups {
        /// The user.
        user: Arc<str>,
        /// What the system says.
        cause: Errno,
    },
}

/// No resolver: the user belongs to one group of its own name (ACL-040).
pub fn none(user: &str) -> Groups {
    [Arc::from(user)].into()
}

/// The user database of the operating system (ACL-043). Blocks: it may be a directory in the network.
pub fn os(user: &str) -> Result<Groups, Error> {
    let database = |cause| Error::Database { user: user.into(), cause };
    let name = CString::new(user).map_err(|_| Error::UnknownUser(user.into()))?;
    let found = User::from_name(user).map_err(database)?.ok_or_else(|| Error::UnknownUser(user.into()))?;
    let ids = getgrouplist(&name, found.gid).map_err(|cause| Error::NoGroups { user: user.into(), cause })?;
    let name_of = |id: u32| Group::from_gid(Gid::from_raw(id)).ok().flatten().map(|group| group.name);
    Ok(names(found.gid.as_raw(), ids.into_iter().map(Gid::as_raw), name_of))
}

/// The fixed users `testuser1` to `testuser5` and `invalid-gid-user` (ACL-044): ids of groups below 1000 have no name, the others
/// are called `group<id>`; the groups of `testuser5` cannot be listed.
pub fn test(user: &str) -> Result<Groups, Error> {
    let (primary, ids): (u32, &[u32]) = match user {
        "testuser1" => (1000, &[1001]),
        "testuser2" => (100, &[1001, 1002]),
        "testuser3" => (1001, &[1002, 1001, 1003]),
        "testuser4" => (901, &[901, 1001, 902]),
        "testuser5" => return Err(Error::NoGroups { user: user.into(), cause: Errno::ENOENT }),
        "invalid-gid-user" => (u32::MAX, &[1001]),
        _ => return Err(Error::UnknownUser(user.into())),
    };
    let name_of = |id| (1000..u32::MAX).contains(&id).then(|| format!("group{id}"));
    Ok(names(primary, ids.iter().copied(), name_of))
}

/// What is answered while a failure is cached (ACL-042).
pub fn cached_failure(failed: Nanos) -> String {
    // Nanoseconds in an i64 end in 2262, within the calendar; the number is shown should that ever change.
    let shown = jiff::Timestamp::from_second(failed.as_secs())
        .map_or_else(|_| failed.as_secs().to_string(), |at| at.strftime("%Y-%m-%d %H:%M:%S +0000 UTC").to_string());
    format!("user resolution failed, cached data returned: {shown}")
}

/// The primary group first, then the others in the order of the list, each once; an id without a name is its own name (ACL-043).
fn names(primary: u32, ids: impl IntoIterator<Item = u32>, name_of: impl Fn(u32) -> Option<String>) -> Groups {
    let mut all = vec![primary];
    for id in ids {
        if !all.contains(&id) {
            all.push(id);
        }
    }
    all.into_iter().map(|id| name_of(id).unwrap_or_else(|| id.to_string()).into()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(groups: Groups) -> String {
        groups.join(" ")
    }

    // ACL-040
    #[test]
    fn without_a_resolver() {
        assert_eq!(shown(none("alice")), "alice");
    }

    // ACL-034, ACL-043 (test idea 115): primary first and once, ids that have no name stand for themselves.
    #[test]
    fn primary_group_first() {
        let name_of = |id| (id != 7).then(|| format!("g{id}"));
        assert_eq!(shown(names(5, [6, 5, 7, 6], name_of)), "g5 g6 7");
        assert_eq!(shown(names(7, [7], name_of)), "7");
    }

    // ACL-044
    #[test]
    fn test_users() {
        assert_eq!(test("testuser1").map(shown), Ok("group1000 group1001".into()));
        assert_eq!(test("testuser2").map(shown), Ok("100 group1001 group1002".into()));
        assert_eq!(test("testuser3").map(shown), Ok("group1001 group1002 group1003".into()));
        assert_eq!(test("testuser4").map(shown), Ok("901 group1001 902".into()));
        assert!(matches!(test("testuser5"), Err(Error::NoGroups { .. })));
        assert!(test("invalid-gid-user").is_ok());
        assert_eq!(test("testuser6"), Err(Error::UnknownUser("testuser6".into())));
    }

    // ACL-043: root exists everywhere, its primary group has the id 0.
    #[test]
    fn users_of_the_system() {
        let groups = os("root").expect("root is a user");
        let primary = Group::from_gid(Gid::from_raw(0)).ok().flatten().map_or("0".into(), |group| group.name);
        assert_eq!(*groups[0], *primary);
        let error = os("no such user").expect_err("a blank is in no user name");
        assert_eq!(
            error.to_string(),
            "user 'no such user' not found: add it to the user database, or submit with groups"
        );
        assert_eq!(os("nul\0nul"), Err(Error::UnknownUser("nul\0nul".into())));
    }

    // ACL-042
    #[test]
    fn text_of_a_cached_failure() {
        let text = cached_failure(Nanos::from_secs(1_700_000_000));
        assert_eq!(text, "user resolution failed, cached data returned: 2023-11-14 22:13:20 +0000 UTC");
        assert!(cached_failure(Nanos(i64::MAX)).ends_with("UTC"));
    }
}
