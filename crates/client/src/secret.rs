//! A token, which nothing shows by accident.

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
