//! Escapes in paths and queries as the clients of `/ws/v1` know them, which differ from what actix-web does.

use std::borrow::Cow;

pub use callboard_client::http::segment;

/// A percent sign that is not followed by two hexadecimal digits; holds the text from it on, at most three bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadEscape(pub Vec<u8>);

impl std::fmt::Display for BadEscape {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "invalid URL escape {}", quoted(&self.0))
    }
}

/// Decodes the percent escapes of a path; `+` stays as it is. Bytes that are no UTF-8 become U+FFFD.
pub fn decode_path(raw: &str) -> Result<Cow<'_, str>, BadEscape> {
    decode(raw, false)
}

/// The same path without needless escapes: letters, digits, `-`, `.`, `_` and `~` as they are (RFC 3986, 6.2.2.2).
pub fn plain(raw: &str) -> Cow<'_, str> {
    let mut parts = raw.split('%');
    let Some(first) = parts.next().filter(|first| first.len() < raw.len()) else { return Cow::Borrowed(raw) };
    let mut out = first.to_owned();
    for part in parts {
        let code = part.get(..2).and_then(|hex| u8::from_str_radix(hex, 16).ok());
        match code {
            Some(byte) if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) => {
                out.push(char::from(byte));
                out.push_str(&part[2..]);
            }
            _ => {
                out.push('%');
                out.push_str(part);
            }
        }
    }
    Cow::Owned(out)
}

/// Decodes the percent escapes of a query part, where `+` is a space.
pub fn decode_query(raw: &str) -> Result<Cow<'_, str>, BadEscape> {
    decode(raw, true)
}

fn decode(raw: &str, plus_is_space: bool) -> Result<Cow<'_, str>, BadEscape> {
    if !(raw.contains('%') || plus_is_space && raw.contains('+')) {
        return Ok(Cow::Borrowed(raw));
    }
    let bytes = raw.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        match bytes[at] {
            b'%' => {
                let digit = |n: usize| bytes.get(at + n).and_then(|b| char::from(*b).to_digit(16));
                let (Some(high), Some(low)) = (digit(1), digit(2)) else {
                    return Err(BadEscape(bytes[at..bytes.len().min(at + 3)].to_vec()));
                };
                out.push((high * 16 + low) as u8);
                at += 3;
                continue;
            }
            b'+' if plus_is_space => out.push(b' '),
            byte => out.push(byte),
        }
        at += 1;
    }
    Ok(Cow::Owned(match String::from_utf8(out) {
        Ok(text) => text,
        Err(invalid) => String::from_utf8_lossy(invalid.as_bytes()).into_owned(),
    }))
}

/// What a parameter names: as it stands, else with a second escaping undone where that gives a slash, which no parameter has
/// otherwise (REST 1.2).
pub fn named<T>(param: &str, find: impl Fn(&str) -> Option<T>) -> Option<T> {
    find(param).or_else(|| decode_path(param).ok().filter(|name| name.contains('/')).and_then(|name| find(&name)))
}

/// Encodes a decoded path for a `Location` header.
pub fn encode_path(path: &str) -> String {
    let mut out = String::with_capacity(path.len());
    for byte in path.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => out.push(char::from(byte)),
            b'-' | b'_' | b'.' | b'~' | b'$' | b'&' | b'+' | b',' | b'/' | b':' | b';' | b'=' | b'@' => {
                out.push(char::from(byte));
            }
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

/// The path without empty, `.` and `..` segments; a trailing slash stays.
pub fn clean_path(path: &str) -> String {
    let mut kept: Vec<&str> = Vec::new();
    for segment in path.split('/') {
        match segment {
            "" | "." => {}
            ".." => drop(kept.pop()),
            name => kept.push(name),
        }
    }
    let mut clean = String::from("/");
    clean.push_str(&kept.join("/"));
    let directory = path.ends_with('/') || path.ends_with("/.") || path.ends_with("/..");
    if directory && clean.len() > 1 {
        clean.push('/');
    }
    clean
}

/// The value of a query parameter: the first one of that name. Pairs with a bad escape or a semicolon do not count
/// (REST row 44).
pub fn query_value<'q>(query: &'q str, name: &str) -> Option<Cow<'q, str>> {
    query.split('&').filter(|pair| !pair.is_empty() && !pair.contains(';')).find_map(|pair| {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        let value = decode_query(value).ok()?;
        (decode_query(key).ok()? == name).then_some(value)
    })
}

/// Text for HTML: the five characters that mean something there.
pub fn html(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&#34;"),
            '\'' => out.push_str("&#39;"),
            other => out.push(other),
        }
    }
    out
}

/// Bytes in double quotes, with what is not printable as `\xNN`.
fn quoted(bytes: &[u8]) -> String {
    let mut out = String::from("\"");
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '"' => out.push_str("\\\""),
                '\\' => out.push_str("\\\\"),
                '\n' => out.push_str("\\n"),
                '\r' => out.push_str("\\r"),
                '\t' => out.push_str("\\t"),
                c if (c as u32) < 0x20 || c as u32 == 0x7f => out.push_str(&format!("\\x{:02x}", c as u32)),
                c => out.push(c),
            }
        }
        for byte in chunk.invalid() {
            out.push_str(&format!("\\x{byte:02x}"));
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    // REST 1.2: the router sees decoded paths; a bad escape is named with at most three bytes.
    #[test]
    fn decodes_paths_and_queries() {
        assert_eq!(decode_path("root%2Eprod").as_deref(), Ok("root.prod"));
        assert_eq!(decode_path("a+b%25zz").as_deref(), Ok("a+b%zz"));
        assert_eq!(decode_query("a+b").as_deref(), Ok("a b"));
        let text = |raw: &str| decode_query(raw).map_err(|e| e.to_string()).unwrap_err();
        assert_eq!(text("root%zz9"), "invalid URL escape \"%zz\"");
        assert_eq!(text("root%z"), "invalid URL escape \"%z\"");
        assert_eq!(text("root%"), "invalid URL escape \"%\"");
        assert_eq!(text("%\"\n"), "invalid URL escape \"%\\\"\\n\"");
        assert_eq!(text("%ü"), "invalid URL escape \"%ü\"");
        assert_eq!(text("%aü"), "invalid URL escape \"%a\\xc3\"");
        assert_eq!(decode_path("%ff").as_deref(), Ok("\u{fffd}"));
    }

    #[test]
    fn undoes_needless_escapes_alone() {
        assert_eq!(plain("/%61pi/v1/partition/%5Brm%5D%64/x%2Fy/%7e"), "/api/v1/partition/%5Brm%5Dd/x%2Fy/~");
        assert_eq!(plain("/a%zz%4%ü%"), "/a%zz%4%ü%");
    }

    // REST 1.2: `//`, `.` and `..` are cleaned away.
    #[test]
    fn cleans_paths() {
        assert_eq!(clean_path("/ws//v1/./clusters"), "/ws/v1/clusters");
        assert_eq!(clean_path("/ws/v1/x/../clusters/"), "/ws/v1/clusters/");
        assert_eq!(clean_path("/../.."), "/");
        assert_eq!(clean_path("//"), "/");
    }

    // REST row 42 (first value), row 44 (malformed pairs are dropped), row 43 (presence).
    #[test]
    fn reads_queries() {
        assert_eq!(query_value("count=2&count=0", "count").as_deref(), Some("2"));
        assert_eq!(query_value("count=%zz", "count"), None);
        assert_eq!(query_value("count=5;x=1", "count"), None);
        assert_eq!(query_value("count=+5", "count").as_deref(), Some(" 5"));
        assert_eq!(query_value("subtree", "subtree").as_deref(), Some(""));
        assert_eq!(query_value("", "subtree"), None);
        assert_eq!(query_value("a=1&%73ubtree=false", "subtree").as_deref(), Some("false"));
    }

    #[test]
    fn encodes_locations() {
        assert_eq!(encode_path("/ws/v1/partition/a b/queue/x%"), "/ws/v1/partition/a%20b/queue/x%25");
        assert_eq!(html("/a?x=1&y='2'<\">"), "/a?x=1&amp;y=&#39;2&#39;&lt;&#34;&gt;");
    }
}
