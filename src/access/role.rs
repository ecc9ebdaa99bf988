//! Roles, each of which may do what those before it may.

use std::{fmt, str::FromStr};

/// What the holder of a token is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// Reads `/ws/v1` and `/api/v1`.
    Viewer,
    /// A resource manager: the doors of shims as well.
    Shim,
    /// Everything: writes and `/debug` as well.
    Operator,
}

impl Role {
    /// All of them, from the least to the most.
    pub const ALL: [Role; 3] = [Role::Viewer, Role::Shim, Role::Operator];

    /// The name in files and messages.
    pub const fn name(self) -> &'static str {
        match self {
            Role::Viewer => "viewer",
            Role::Shim => "shim",
            Role::Operator => "operator",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Role {
    type Err = String;

    fn from_str(text: &str) -> Result<Role, String> {
        let found = Role::ALL.into_iter().find(|role| role.name() == text);
        found.ok_or_else(|| format!("role \"{text}\" does not exist: choose viewer, shim or operator"))
    }
}
