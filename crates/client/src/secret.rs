//! What nothing shows by accident: a token, and the user and password of an address.

use std::fmt;

/// A token as its holder has it. It is printed by [`Secret::reveal`] only.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// What somebody else made.
    ///
    /// # Errors
    /// It is empty, or holds what no header can: blanks, control characters, other letters than those of ASCII.
    pub fn given(text: &str) -> Result<Secret, String> {
        if text.is_empty() {
            return Err("the token is empty".to_owned());
        }
        if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err("the token holds blanks or other characters that a header cannot hold".to_owned());
        }
        Ok(Secret(text.to_owned()))
    }

    /// The text itself.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// Addresses, with commas between several, without `user:password@`.
pub fn without_user(text: &str) -> String {
    let bare = |address: &str| {
        let (scheme, rest) = address.split_at(address.find("://").map_or(0, |at| at + "://".len()));
        let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
        // A `/` within a password makes an address that nobody can read, and that is shown when that is told.
        let port = authority.rsplit_once(':').map_or("", |(_, port)| port);
        let is_whole = authority.contains('@') || port.bytes().all(|byte| byte.is_ascii_digit() || byte == b']');
        let user = if is_whole { authority } else { rest };
        format!("{scheme}{}", &rest[user.rfind('@').map_or(0, |at| at + 1)..])
    };
    text.split(',').map(bare).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_shows_a_secret_by_accident() {
        let secret = Secret::given("cbt_abc").unwrap();
        assert_eq!((secret.reveal(), &*format!("{secret:?}")), ("cbt_abc", "Secret(…)"));
    }

    #[test]
    fn what_no_header_can_hold_is_refused() {
        for wrong in ["", "a b", "a\n", "tökén"] {
            assert!(Secret::given(wrong).is_err(), "{wrong:?}");
        }
    }
}
