//! Counts as people say them, and addresses as they may be shown.

use std::fmt::Display;

/// A number of things: `1 ask`, `2 asks`.
pub fn plural<N: Display + PartialEq + From<u8>>(count: N, what: &str) -> String {
    let s = either(&count, "", "s");
    format!("{count} {what}{s}")
}

/// The word for one, or that for several: `is` or `are`.
pub fn either<'a, N: PartialEq + From<u8>>(count: &N, one: &'a str, several: &'a str) -> &'a str {
    if *count == N::from(1) { one } else { several }
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
    fn one_is_not_several() {
        assert_eq!([0, 1, 2].map(|n: usize| plural(n, "ask")), ["0 asks", "1 ask", "2 asks"]);
        assert_eq!([either(&1_u64, "is", "are"), either(&2_i64, "is", "are")], ["is", "are"]);
    }
}
