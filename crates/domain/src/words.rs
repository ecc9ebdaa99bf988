//! Counts as people say them.

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_not_several() {
        assert_eq!([0, 1, 2].map(|n: usize| plural(n, "ask")), ["0 asks", "1 ask", "2 asks"]);
        assert_eq!([either(&1_u64, "is", "are"), either(&2_i64, "is", "are")], ["is", "are"]);
    }
}
