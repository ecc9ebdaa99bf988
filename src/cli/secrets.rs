//! What in a text is a secret, wherever it came from: tokens, digests, passwords, also those of addresses, and keys.

use std::{borrow::Cow, sync::LazyLock};

use regex::{Captures, Regex};

/// A value may be in quotes, which may themselves be in a text in quotes: a backslash stands before each of these. One that is in
/// none ends with white space or the text that it is in: a comma, `&` or `;` may be a part of it. Each alternative takes what it
/// has looked at, so that the time is that of the length.
static SECRET: LazyLock<Regex> = LazyLock::new(|| {
    made(
        r#"(?ix)
        (?<word> \b (?: bearer | basic ) \ +
          | sha256:
          | (?: passw(?: or )?d | pwd | passphrase | secret | token | [_-]key | apikey ) \\*["']? [\ \t]* [:=]+ >? [\ \t]*
          | password \ + )
        (?<value> \\+ " (?: [^"\\\n] | \\{3,} " | \\ [^"\n] )+ \\* "?
          | " (?: [^"\\\n] | \\ . )+ "?
          | ' (?: [^'\\\n] | \\ . | '' )+ '?
          | [\w:]* [(\[]+ (?: \\* " [^"\n]* " (?: , [\ \t]* )? )+
          | (?: [^\s"\\] | \\ [^"\s] )+ )
        | cbt_[a-z0-9_-]+
        | \b eyJ[a-z0-9_-]{8,} (?: \. [a-z0-9_-]* )*
        | -----BEGIN [^-]* -* (?: [^-] | - [^-] )* (?: -----END [^-]* ----- )?
        | (?<scheme> :// ) [^/\s"\\]+ @"#,
    )
});

/// An expression that stands in the code, and that a test makes.
pub fn made(expression: &str) -> Regex {
    Regex::new(expression).unwrap_or_else(|error| unreachable!("{error}"))
}

/// The text with this in the place of each secret; the secrets themselves are given.
pub fn hidden(text: &str, stand_in: impl Fn(&str) -> String) -> Cow<'_, str> {
    SECRET.replace_all(text, |found: &Captures<'_>| {
        let before = found.name("word").or(found.name("scheme")).map_or("", |before| before.as_str());
        let after = if found.name("scheme").is_some() { "@" } else { "" };
        let (open, close) = found.name("value").map_or(("", ""), |value| match quotes(value.as_str()) {
            ("", _) => ("", closing(&text[..value.start()], value.as_str())),
            quotes => quotes,
        });
        format!("{before}{open}{}{close}{after}", stand_in(&found[0]))
    })
}

/// The quotes that a value is in: they stay, so that JSON is JSON afterwards.
fn quotes(value: &str) -> (&str, &str) {
    let Some(at) = value.find(|c| c != '\\').filter(|at| value[*at..].starts_with(['"', '\''])) else {
        return ("", "");
    };
    let (open, rest) = value.split_at(at + 1);
    let close = [open, &open[at..]].into_iter().find(|close| rest.ends_with(close));
    (open, close.unwrap_or_default())
}

/// So far before a value is looked for what it closes.
const NEAR: usize = 1_000;

/// The brackets and commas that a value without quotes ends with, where a bracket was opened before it: they stay, so that YAML is YAML afterwards.
fn closing<'v>(before: &str, value: &'v str) -> &'v str {
    let end = &value[value.trim_end_matches([',', '}', ']']).len()..];
    let near = &before[before.floor_char_boundary(before.len().saturating_sub(NEAR))..];
    let is_open = || near.matches(['{', '[']).count() > near.matches(['}', ']']).count();
    if !end.is_empty() && is_open() { end } else { "" }
}

/// Whether what has this name is a secret.
pub fn is_named(name: &str) -> bool {
    SECRET.is_match(&format!("{name}=x"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> Cow<'_, str> {
        hidden(text, |_| "(secret)".to_owned())
    }

    #[test]
    fn secrets_are_found_in_texts() {
        for (text, left) in [
            ("Authorization: Bearer cbt_abc x", "Authorization: Bearer (secret) x"),
            ("Authorization: Basic dXNlcjpQVw== x", "Authorization: Basic (secret) x"),
            ("see http://root:PW@h:1/x and http://h/a@b", "see http://(secret)@h:1/x and http://h/a@b"),
            ("http://u:p@PW@x/", "http://(secret)@x/"),
            ("password=PW CBT_abc sha256:9f", "password=(secret) (secret) sha256:(secret)"),
            (
                "passwd=PW, DB_PASSWORD: PW, AWS_SECRET_KEY=PW",
                "passwd=(secret) DB_PASSWORD: (secret) AWS_SECRET_KEY=(secret)",
            ),
            (
                "GET /x?token=PW&a=1 api-key:PW password:\tPW x",
                "GET /x?token=(secret) api-key:(secret) password:\t(secret) x",
            ),
            ("password=a,PW password=x;PW", "password=(secret) password=(secret)"),
            ("Server=h;Uid=u;Pwd=PW pwd: PW x", "Server=h;Uid=u;Pwd=(secret) pwd: (secret) x"),
            ("with eyJhbGciOiJub25lIn0.eyJzdWIiOiJhIn0.c2ln, x", "with (secret), x"),
            (
                "properties: {api.token: PW, a: {token: PW}, b: 1}",
                "properties: {api.token: (secret), a: {token: (secret)}, b: 1}",
            ),
            ("{\n  api.token: PW}\nx", "{\n  api.token: (secret)}\nx"),
            ("password=PW}] x", "password=(secret) x"),
            ("-----BEGIN PRIVATE KEY-----\nMII\n-----END PRIVATE KEY-----\nx", "(secret)\nx"),
            ("-----BEGIN PRIVATE KEY-----\nMII, cut off", "(secret)"),
        ] {
            assert_eq!(shown(text), left);
        }
    }

    #[test]
    fn secrets_are_found_in_quotes() {
        for (text, left) in [
            (
                r#"x password="PW" and token="a PW" {"client_secret":"PW"}"#,
                r#"x password="(secret)" and token="(secret)" {"client_secret":"(secret)"}"#,
            ),
            (
                r#"DB_PASSWORD="PW" token: "PW" api_key="PW" TOKEN="PW""#,
                r#"DB_PASSWORD="(secret)" token: "(secret)" api_key="(secret)" TOKEN="(secret)""#,
            ),
            (
                r#"passphrase="a b" AWS_SECRET_ACCESS_KEY="a/b+c" password='a PW' password=>"PW""#,
                r#"passphrase="(secret)" AWS_SECRET_ACCESS_KEY="(secret)" password='(secret)' password=>"(secret)""#,
            ),
            (r#"{"password":"a\"PW","next":"kept"}"#, r#"{"password":"(secret)","next":"kept"}"#),
            (r#"{"password": "", "next": "kept"}"#, r#"{"password": "", "next": "kept"}"#),
            (r#"{"message":"password=PW","next":1}"#, r#"{"message":"password=(secret)","next":1}"#),
            (r#"{"Authorization":"Bearer PW","next":1}"#, r#"{"Authorization":"Bearer (secret)","next":1}"#),
            // Within a text in quotes.
            (r#"message="password=\"PW\" x" y"#, r#"message="password=\"(secret)\" x" y"#),
            (r#"{\"access_token\":\"a\\\"PW\",\"b\":1}"#, r#"{\"access_token\":\"(secret)\",\"b\":1}"#),
            (r#"token=Some("a PW") token=["PW", "PW"] x"#, "token=(secret)) token=(secret)] x"),
            ("password=\"PW, cut off\nx", "password=\"(secret)\nx"),
        ] {
            assert_eq!(shown(text), left);
        }
    }

    #[test]
    fn what_is_none_stays() {
        for text in [
            "queue root.a max memory=10G, nodes cpu-r07-n[01-20] nvidia.com/gpu=2",
            r#"{"allocationKey":"a-1","nodeID":"n1","resource":{"memory":10,"nvidia.com/gpu":1},"tags":{"a":"b"}}"#,
            r#"the token "ann" keys=["log.level"] key="k" tokens=true"#,
            "nothing of the kind: a@b -- --tls-key FILE",
        ] {
            assert!(matches!(shown(text), Cow::Borrowed(left) if left == text), "{}", shown(text));
        }
        assert!(is_named("shim.API_KEY") && is_named("dbPassword") && !is_named("http.requestsPerSecond"));
    }
}
