//! What in a text is a secret, wherever it came from: tokens, digests, passwords, also those of addresses, and keys.

use std::{borrow::Cow, sync::LazyLock};

use regex::{Captures, Regex};

static SECRET: LazyLock<Regex> = LazyLock::new(|| {
    made(
        r#"(?ix) (?<word> bearer\ + | sha256: | password[=:\ ]+ | \b[a-z0-9_-]*(?: passw(?: or )? d | passphrase | secret | token | [_-]key | apikey ) (?: :\ * | = ) ) [^\s",&;]+
        | cbt_[a-z0-9_-]+
        | \b eyJ[a-z0-9_-]+ \. [a-z0-9_-]+ \. [a-z0-9_-]*
        | -----BEGIN[\s\S]*?-----END[^-]*-----
        | (?<scheme> :// ) [^/@\s"\\]+ @"#,
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
        format!("{before}{}{after}", stand_in(&found[0]))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_found_in_texts() {
        for (text, shown) in [
            ("Authorization: Bearer cbt_abc, x", "Authorization: Bearer (secret), x"),
            ("see http://root:PW@h:1/x and http://h/a@b", "see http://(secret)@h:1/x and http://h/a@b"),
            ("password=PW CBT_abc sha256:9f", "password=(secret) (secret) sha256:(secret)"),
            (
                "passwd=PW DB_PASSWORD: PW, AWS_SECRET_KEY=PW",
                "passwd=(secret) DB_PASSWORD: (secret), AWS_SECRET_KEY=(secret)",
            ),
            ("GET /x?token=PW&a=1 api-key:PW", "GET /x?token=(secret)&a=1 api-key:(secret)"),
            ("with eyJhbGciOiJub25lIn0.eyJzdWIiOiJhIn0.c2ln, x", "with (secret), x"),
            ("the token \"ann\" keys=[\"log.level\"] key=\"k\"", "the token \"ann\" keys=[\"log.level\"] key=\"k\""),
            ("-----BEGIN PRIVATE KEY-----\nMII\n-----END PRIVATE KEY-----", "(secret)"),
            ("nothing of the kind: a@b", "nothing of the kind: a@b"),
        ] {
            assert_eq!(hidden(text, |_| "(secret)".to_owned()), shown);
        }
    }
}
