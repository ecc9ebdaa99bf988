//! What is checked of parameters, and in which words it is refused (REST 4 and 8).

use super::{reply::Failure, url};
use crate::domain::{
    names::{INVALID_QUEUE_NAME, is_group_name, is_queue_name, is_user_name},
    types::AppState,
};

/// Statuses of active applications that a client may filter by, in the order in which an error lists them.
const ACTIVE: [AppState; 6] =
    [AppState::New, AppState::Accepted, AppState::Running, AppState::Completing, AppState::Failing, AppState::Resuming];

/// Undoes the second escaping of queue, user and group names, where `+` is a space (REST 1.2).
pub fn unescape(param: &str) -> Result<String, Failure> {
    Ok(url::decode_query(param)?.into_owned())
}

/// Every part of a queue path is a queue name (CFG-020). No path at all is one that nobody has (REST 1.2).
pub fn queue_name(path: &str) -> Result<(), Failure> {
    if path.is_empty() || path.split('.').all(is_queue_name) {
        Ok(())
    } else {
        Err(Failure::bad_request(INVALID_QUEUE_NAME))
    }
}

/// A user name of this form may exist.
pub fn user_name(name: &str) -> Result<(), Failure> {
    if is_user_name(name) { Ok(()) } else { Err(Failure::bad_request("Invalid user name")) }
}

/// A group name of this form may exist.
pub fn group_name(name: &str) -> Result<(), Failure> {
    if is_group_name(name) { Ok(()) } else { Err(Failure::bad_request("Invalid group name")) }
}

/// Lists of applications that a partition keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AppList {
    /// Live ones.
    Active,
    /// Refused ones.
    Rejected,
    /// Ended ones, failed ones too.
    Completed,
}

/// The list of a partition that a `:state` names, in any letter case.
pub fn app_list(state: &str) -> Result<AppList, Failure> {
    match state.to_ascii_lowercase().as_str() {
        "active" => Ok(AppList::Active),
        "rejected" => Ok(AppList::Rejected),
        "completed" => Ok(AppList::Completed),
        _ => Err(Failure::bad_request("Only following application states are allowed: active, rejected, completed")),
    }
}

/// A queue has the list of active applications only.
pub fn queue_app_list(state: &str) -> Result<(), Failure> {
    if state.eq_ignore_ascii_case("active") {
        Ok(())
    } else {
        Err(Failure::bad_request("Only following application states are allowed: active"))
    }
}

/// The `status` of a query: none, or one that active applications can have.
pub fn active_status(query: &str) -> Result<Option<AppState>, Failure> {
    let wanted = url::query_value(query, "status").unwrap_or_default().to_lowercase();
    if wanted.is_empty() {
        return Ok(None);
    }
    ACTIVE.into_iter().find(|state| state.name().eq_ignore_ascii_case(&wanted)).map(Some).ok_or_else(|| {
        let names: Vec<String> = ACTIVE.iter().map(|state| state.name().to_ascii_lowercase()).collect();
        Failure::bad_request(format!("Only following active statuses are allowed: {}", names.join(",")))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    // REST rows 6, 9, 100 and 101 of the captured errors: 64 characters a part, no empty part.
    #[test]
    fn queue_names() {
        for good in ["", "root", "ROOT.Prod", "root.a/b", "root.@recovery@", &format!("root.{}", "a".repeat(64))] {
            assert!(queue_name(good).is_ok(), "{good}");
        }
        for bad in [
            ".",
            "root..a",
            "root.",
            "root.bad!name",
            "root.prod x",
            "root.ü",
            &format!("root.{}", "a".repeat(65)),
            "a\n",
        ] {
            assert_eq!(queue_name(bad), Err(Failure::bad_request(INVALID_QUEUE_NAME)), "{bad}");
        }
    }

    // REST 4, routes 18 to 21, and row 28.
    #[test]
    fn user_and_group_names() {
        for good in ["alice", "_x", "user@domain.com", "a/b", "ok$", "a#b:c"] {
            assert!(user_name(good).is_ok(), "{good}");
        }
        for bad in ["", "1bad", "a b", "a$b", "*"] {
            assert!(user_name(bad).is_err(), "{bad}");
        }
        assert!(group_name("dev.ops_1:x-y").is_ok());
        for bad in ["", "1bad", "a@b", "*", "x$"] {
            assert!(group_name(bad).is_err(), "{bad}");
        }
    }

    // REST rows 18 to 24.
    #[test]
    fn states_and_statuses() {
        assert_eq!(app_list("ACTIVE"), Ok(AppList::Active));
        assert!(app_list("bogus").is_err() && app_list("").is_err());
        assert!(queue_app_list("Active").is_ok() && queue_app_list("rejected").is_err());
        assert_eq!(active_status("status=rUnning"), Ok(Some(AppState::Running)));
        assert_eq!(active_status("status="), Ok(None));
        assert_eq!(active_status(""), Ok(None));
        let text = "Only following active statuses are allowed: new,accepted,running,completing,failing,resuming";
        assert_eq!(active_status("status=completed"), Err(Failure::bad_request(text)));
    }
}
