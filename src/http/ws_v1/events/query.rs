//! Numbers in the query part of a request, read as the clients of `/ws/v1` know it (REST section 8, rows 30 to 44).

use std::fmt::Write as _;

use crate::http::ws_v1::url;

/// The first value of `key` as an unsigned number; `None` where it is missing or empty.
///
/// # Errors
/// The text that clients know for what is not a number (row 30).
pub fn number(query: &str, key: &str) -> Result<Option<u64>, String> {
    match url::query_value(query, key) {
        None => Ok(None),
        Some(text) if text.is_empty() => Ok(None),
        Some(text) => parse(&text).map(Some),
    }
}

fn parse(text: &str) -> Result<u64, String> {
    let mut number: u64 = 0;
    for byte in text.bytes() {
        let fault = |what: &str| format!("strconv.ParseUint: parsing {}: {what}", quoted(text));
        if !byte.is_ascii_digit() {
            return Err(fault("invalid syntax"));
        }
        number = number
            .checked_mul(10)
            .and_then(|number| number.checked_add(u64::from(byte - b'0')))
            .ok_or_else(|| fault("value out of range"))?;
    }
    Ok(number)
}

/// In quotes, with what cannot be printed escaped.
fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for character in text.chars() {
        // Writing to a string cannot fail.
        let _ = match character {
            '"' | '\\' => write!(out, "\\{character}"),
            '\u{7}' => write!(out, "\\a"),
            '\u{8}' => write!(out, "\\b"),
            '\u{c}' => write!(out, "\\f"),
            '\n' => write!(out, "\\n"),
            '\r' => write!(out, "\\r"),
            '\t' => write!(out, "\\t"),
            '\u{b}' => write!(out, "\\v"),
            _ if character < ' ' || character == '\u{7f}' => write!(out, "\\x{:02x}", u32::from(character)),
            _ if character.is_control() => write!(out, "\\u{:04x}", u32::from(character)),
            _ => write!(out, "{character}"),
        };
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    // REST section 8, rows 30 to 32, 42, 44
    #[test]
    fn numbers_and_their_errors() {
        for (query, expected) in [
            ("", Ok(None)),
            ("count", Ok(None)),
            ("count=", Ok(None)),
            ("start=1", Ok(None)),
            ("Count=1", Ok(None)),
            ("count=7", Ok(Some(7))),
            ("count=007", Ok(Some(7))),
            ("a=1&count=2&count=0", Ok(Some(2))),
            ("count=%32", Ok(Some(2))),
            ("c%6Funt=3", Ok(Some(3))),
            ("count=%zz", Ok(None)),
            ("count=%zz&count=4", Ok(Some(4))),
            ("count=%4", Ok(None)),
            ("count=5;x=1", Ok(None)),
            ("count=18446744073709551615", Ok(Some(u64::MAX))),
            ("count=18446744073709551616", Err("\"18446744073709551616\": value out of range")),
            ("count=99999999999999999999", Err("\"99999999999999999999\": value out of range")),
            ("count=99999999999999999999x", Err("\"99999999999999999999x\": value out of range")),
            ("count=abc", Err("\"abc\": invalid syntax")),
            ("count=-1", Err("\"-1\": invalid syntax")),
            ("count=1_0", Err("\"1_0\": invalid syntax")),
            ("count=+5", Err("\" 5\": invalid syntax")),
            ("count=%205", Err("\" 5\": invalid syntax")),
            ("count=%22%5C%0a%01", Err("\"\\\"\\\\\\n\\x01\": invalid syntax")),
        ] {
            let expected = expected.map_err(|text| format!("strconv.ParseUint: parsing {text}"));
            assert_eq!(number(query, "count"), expected, "{query}");
        }
    }
}
