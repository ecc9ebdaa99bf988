//! Checksum of a configuration text (CFG-080–CFG-082).

use sha2::{Digest, Sha256};

const KEY: &str = "checksum: ";
const DIGITS: usize = 64;

/// Uppercase hexadecimal SHA-256 of the text without the checksums that it holds.
pub fn of(text: &str) -> String {
    Sha256::digest(without(text)).iter().map(|byte| format!("{byte:02X}")).collect()
}

/// The text without every `checksum: ` that 64 hexadecimal digits, or the end of the line, follow. Anything else after
/// those letters is ordinary text and counts (CFG-082).
fn without(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(KEY) {
        let (before, found) = rest.split_at(at);
        kept.push_str(before);
        let after = &found[KEY.len()..];
        let digits = after.bytes().take(DIGITS).take_while(u8::is_ascii_hexdigit).count();
        if digits == DIGITS || after.is_empty() || after.starts_with(['\n', '\r']) {
            rest = &after[digits..];
        } else {
            kept.push_str(KEY);
            rest = after;
        }
    }
    kept + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn embedded_checksums_do_not_count() {
        // CFG-080, test idea 29
        let (config, extra) = ("partitions: []\n", "# more\n");
        let sum = of("x");
        assert_eq!(sum.len(), 64);
        let plain = of(&format!("{config}{extra}"));
        for text in [
            format!("{config}checksum: {sum}{extra}"),
            format!("checksum: {sum}{config}{extra}"),
            format!("{config}{extra}checksum: {sum}"),
            format!("checksum: {}{config}{extra}checksum: {sum}", sum.to_lowercase()),
            format!("{config}{extra}checksum: "),
        ] {
            assert_eq!(of(&text), plain, "{text}");
        }
    }

    #[test]
    fn any_other_difference_counts() {
        // CFG-082
        assert_ne!(of("a: 1\n"), of("a: 1\n\n"));
        assert_ne!(of("# the checksum: one\n"), of("# the checksum: two\n"));
        assert_eq!(of(""), "E3B0C44298FC1C149AFBF4C8996FB92427AE41E4649B934CA495991B7852B855");
    }
}
