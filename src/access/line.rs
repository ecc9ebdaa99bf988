//! A line of the tokens file: `ROLE sha256:HEX [name=TEXT] [rms=ID,ID] [configures]`.
//!
//! Blanks and commas inside a value are written as `%20` and `%2C`.

use std::{fmt, sync::Arc};

use super::{Digest, Role};

/// What a token grants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// What its holder is.
    pub role: Role,
    /// Digest of the token.
    pub digest: Digest,
    /// What it is called in messages and logs.
    pub name: Arc<str>,
    /// Resource managers that its holder may act for; `None` for all.
    pub rms: Option<Arc<[Arc<str>]>>,
    /// A shim that may change the configuration of its running session.
    pub configures: bool,
}

impl Grant {
    /// Reads a line; `None` where it is empty or a comment.
    ///
    /// # Errors
    /// What is wrong with it. The digest is never repeated.
    pub fn read(line: &str) -> Result<Option<Grant>, String> {
        let line = line.split('#').next().unwrap_or_default();
        let mut words = line.split_whitespace();
        let Some(role) = words.next() else { return Ok(None) };
        let role: Role = role.parse()?;
        let digest: Digest = words.next().unwrap_or_default().parse()?;
        let mut grant = Grant { role, digest, name: "unnamed".into(), rms: None, configures: false };
        for word in words {
            match word.split_once('=') {
                Some(("name", name)) if !name.is_empty() => grant.name = decoded(name)?.into(),
                Some(("rms", rms)) if !rms.is_empty() => {
                    let ids: Result<Vec<Arc<str>>, String> =
                        rms.split(',').map(|id| Ok(Arc::from(decoded(id)?))).collect();
                    grant.rms = Some(ids?.into());
                }
                None if word == "configures" => grant.configures = true,
                _ => return Err(format!("\"{word}\" is none of name=TEXT, rms=ID,ID and configures")),
            }
        }
        Ok(Some(grant))
    }
}

impl fmt::Display for Grant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} name={}", self.role, self.digest, encoded(&self.name))?;
        if let Some(rms) = &self.rms {
            let ids: Vec<String> = rms.iter().map(|id| encoded(id)).collect();
            write!(f, " rms={}", ids.join(","))?;
        }
        if self.configures {
            f.write_str(" configures")?;
        }
        Ok(())
    }
}

fn encoded(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_whitespace() || matches!(c, '%' | ',' | '#') {
            let mut bytes = [0; 4];
            c.encode_utf8(&mut bytes).bytes().for_each(|byte| out.push_str(&format!("%{byte:02X}")));
        } else {
            out.push(c);
        }
    }
    out
}

fn decoded(text: &str) -> Result<String, String> {
    let fault = || format!("\"{text}\": % is followed by the two hexadecimal digits of a byte of UTF-8");
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            out.push(byte);
            continue;
        }
        let mut digit = || char::from(bytes.next().unwrap_or(b' ')).to_digit(16).ok_or_else(fault);
        // Two digits of four bits.
        out.push((digit()? << 4 | digit()?) as u8);
    }
    String::from_utf8(out).map_err(|_| fault())
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEX: &str = "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

    fn fault(line: &str) -> String {
        Grant::read(line).unwrap_err()
    }

    #[test]
    fn a_line_is_read_as_it_is_written() {
        let grant = Grant {
            role: Role::Shim,
            digest: Digest::of("abc"),
            name: "one, two # 100%".into(),
            rms: Some(["rm-1".into(), "a,b c".into()].into()),
            configures: true,
        };
        let text = format!("shim {HEX} name=one%2C%20two%20%23%20100%25 rms=rm-1,a%2Cb%20c configures");
        assert_eq!(grant.to_string(), text);
        assert_eq!(Grant::read(&text), Ok(Some(grant)));
        let plain = Grant::read(&format!("\tviewer  {HEX}  # for the board")).unwrap().unwrap();
        assert_eq!((plain.role, &*plain.name, plain.rms, plain.configures), (Role::Viewer, "unnamed", None, false));
        assert_eq!([Grant::read(""), Grant::read("  # a comment")], [Ok(None), Ok(None)]);
    }

    #[test]
    fn faults_are_named_and_show_no_digest() {
        assert!(fault(&format!("admin {HEX}")).contains("role \"admin\" does not exist: choose viewer"));
        assert!(fault("viewer").contains("64 hexadecimal digits"));
        assert!(fault(&format!("viewer {HEX}0")).contains("64 hexadecimal digits"));
        assert!(fault(&format!("viewer {HEX} rm=a")).contains("\"rm=a\" is none of"));
        assert!(fault(&format!("viewer {HEX} name=")).contains("\"name=\" is none of"));
        assert!(fault(&format!("viewer {HEX} name=%zz")).contains("two hexadecimal digits"));
        assert!(!fault(&format!("viewer {HEX} x")).contains("ba78"));
    }
}
