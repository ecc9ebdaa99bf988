//! Access lists of queues (section 7.1 of the queue rules).

use std::{cell::OnceCell, collections::BTreeSet, fmt, sync::Arc};

use super::coded::list;
use super::names::is_user_name;

/// Who may do something on a queue; empty: nobody.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Acl {
    /// Everybody may.
    pub everyone: bool,
    /// User names.
    pub users: BTreeSet<Arc<str>>,
    /// Group names.
    pub groups: BTreeSet<Arc<str>>,
}

/// The text has more than a user list, one space and a group list (ACL-004, CFG-031).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TooManySpaces(pub String);

impl fmt::Display for TooManySpaces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "multiple spaces found in ACL: '{}'", self.0)
    }
}

impl std::error::Error for TooManySpaces {}

impl Acl {
    /// Reads `users[ groups]`: lists separated by commas, one space between; `*` is everybody (ACL-001–ACL-006).
    ///
    /// Names that nobody can have are left out ([`Acl::dropped`] lists them), so that they grant nothing (ACL-005). A
    /// user or a group may be called anything that a user may be called.
    pub fn parse(text: &str) -> Result<Acl, TooManySpaces> {
        if text.trim() == "*" {
            return Ok(Acl::everyone());
        }
        let Some((users, groups)) = lists(text) else {
            return Err(TooManySpaces(text.to_owned()));
        };
        if users == "*" || groups == "*" {
            return Ok(Acl::everyone());
        }
        let names = |list: &str| list.split(',').filter(|name| is_user_name(name)).map(Arc::from).collect();
        Ok(Acl { everyone: false, users: names(users), groups: names(groups) })
    }

    /// The names in `text` that [`Acl::parse`] leaves out.
    pub fn dropped(text: &str) -> Vec<&str> {
        match lists(text) {
            Some((users, groups)) if text.trim() != "*" && users != "*" && groups != "*" => {
                let named = users.split(',').chain(groups.split(','));
                named.filter(|name| !name.is_empty() && !is_user_name(name)).collect()
            }
            _ => Vec::new(),
        }
    }

    /// What follows a list of users that ends with a comma: whoever wrote `a, b` most likely meant two users.
    pub fn groups_after_a_comma(text: &str) -> Option<&str> {
        let (users, groups) = lists(text)?;
        (users.ends_with(',') && !groups.is_empty()).then_some(groups)
    }

    /// The list that allows everybody.
    pub fn everyone() -> Acl {
        Acl { everyone: true, ..Acl::default() }
    }

    /// Everyone, then the user, then any of the groups (ACL-010).
    pub fn allows(&self, user: &str, groups: &Groups<'_>) -> bool {
        self.everyone || self.users.contains(user) || groups.are_among(&self.groups)
    }
}

/// The groups of a user, to be compared with many lists of groups.
#[derive(Clone, Debug, Default)]
pub struct Groups<'a> {
    list: &'a [Arc<str>],
    /// Made when they are first compared with a shorter list.
    set: OnceCell<BTreeSet<&'a str>>,
}

impl<'a> Groups<'a> {
    /// These.
    pub fn new(list: &'a [Arc<str>]) -> Groups<'a> {
        Groups { list, set: OnceCell::new() }
    }

    /// One of them is in the list. It costs a look for each of the shorter of both.
    pub fn are_among(&self, names: &BTreeSet<Arc<str>>) -> bool {
        if self.list.len() <= names.len() {
            return self.list.iter().any(|group| names.contains(group));
        }
        let set = || self.set.get_or_init(|| self.list.iter().map(|group| &**group).collect());
        names.iter().any(|name| set().contains(&**name))
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<str>> {
        self.list.iter()
    }
}

/// The two lists; `None` where there are more.
fn lists(text: &str) -> Option<(&str, &str)> {
    let mut parts = text.split(' ');
    let users = parts.next().unwrap_or_default();
    let groups = parts.next().unwrap_or_default();
    parts.next().is_none().then_some((users, groups))
}

list!(Acl { everyone, users, groups });

#[cfg(test)]
mod tests {
    use super::*;

    fn names(list: &[&str]) -> BTreeSet<Arc<str>> {
        list.iter().map(|name| Arc::from(*name)).collect()
    }

    #[test]
    fn texts() {
        // ACL-001–ACL-005, test idea 109
        for (text, users, groups) in [
            ("", &[][..], &[][..]),
            (" ", &[], &[]),
            ("u,u", &["u"], &[]),
            ("alice,bob", &["alice", "bob"], &[]),
            (" dev,ops", &[], &["dev", "ops"]),
            ("carol dev", &["carol"], &["dev"]),
            ("#bad,ok", &["ok"], &[]),
            ("a,*", &["a"], &[]),
            ("svc$ g", &["svc$"], &["g"]),
            ("a ", &["a"], &[]),
        ] {
            let acl = Acl::parse(text).unwrap();
            assert_eq!((acl.everyone, acl.users, acl.groups), (false, names(users), names(groups)), "{text:?}");
        }
        for text in ["*", " * ", "* g", "u *", " *", "*  "] {
            assert_eq!(Acl::parse(text), Ok(Acl::everyone()), "{text:?}");
        }
    }

    #[test]
    fn names_of_other_systems() {
        // ACL-006: what a user may be called can be granted access.
        let acl = Acl::parse("system:serviceaccount:ns:sa,https://issuer#1 dotted.group,system:authenticated").unwrap();
        assert_eq!(acl.users, names(&["https://issuer#1", "system:serviceaccount:ns:sa"]));
        assert_eq!(acl.groups, names(&["dotted.group", "system:authenticated"]));
        assert_eq!(Acl::dropped("#user1,user2 g!,h"), ["#user1", "g!"]);
        assert_eq!(Acl::dropped("a,* g"), ["*"]);
        assert_eq!(Acl::groups_after_a_comma("a, b,c"), Some("b,c"));
        assert!(["a,b c", "a,", "a, ", " b", "*"].iter().all(|text| Acl::groups_after_a_comma(text).is_none()));
        assert!(Acl::dropped("*").is_empty() && Acl::dropped(" dev").is_empty());
    }

    #[test]
    fn too_many_parts() {
        // ACL-004, CFG-031
        for text in ["users groups extra", "a  b", "  ", " u g", "a b "] {
            let refused = Acl::parse(text).unwrap_err().to_string();
            assert_eq!(refused, format!("multiple spaces found in ACL: '{text}'"));
        }
    }

    #[test]
    fn order_of_the_questions() {
        // ACL-007, ACL-010
        let acl = Acl::parse("alice dev").unwrap();
        let groups = |list: &[&str]| list.iter().map(|g| Arc::from(*g)).collect::<Vec<Arc<str>>>();
        let allows = |acl: &Acl, user: &str, of: &[&str]| acl.allows(user, &Groups::new(&groups(of)));
        assert!(allows(&acl, "alice", &[]));
        assert!(allows(&acl, "bob", &["x", "dev"]) && allows(&acl, "bob", &["dev"]));
        assert!(!allows(&acl, "Alice", &["DEV"]) && !allows(&acl, "bob", &["x", "y"]));
        assert!(!allows(&acl, "dev", &["alice"]));
        assert!(!allows(&Acl::default(), "alice", &[]) && allows(&Acl::everyone(), "", &[]));
    }
}
