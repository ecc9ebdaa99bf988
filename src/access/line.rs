//! A line of the tokens file: `ROLE [sum=HEX] sha256:HEX|certificate:NAME [name=TEXT] [rms=ID,ID] [configures]`.
//!
//! Blanks and commas inside a value are written as `%20` and `%2C`. The sum is the CRC-32 of the other words with a blank
//! between them: damage of a line that has one never gives rights that nobody gave. It stands early, so that a line that was
//! cut has lost the digest or has it.

use std::{fmt, str::FromStr, sync::Arc};

use super::{Digest, Role, secret::PREFIX};

/// What a caller shows of who it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Proof {
    /// A token of this digest.
    Token(Digest),
    /// A client certificate that names this, as DNS name or URI.
    Certificate(Arc<str>),
    /// A token of the issuer, good until then: seconds since 1970.
    Issued(u64),
}

/// How a name of a certificate begins in a line.
const CERTIFICATE: &str = "certificate:";

/// Whether a name of a certificate is a DNS name, and no URI.
fn is_dns(name: &str) -> bool {
    !name.contains(':')
}

impl Proof {
    /// A client certificate with this name shows it.
    pub fn is_certificate_for(&self, name: &str) -> bool {
        match self {
            Proof::Certificate(known) if is_dns(known) => known.eq_ignore_ascii_case(name),
            Proof::Certificate(known) => **known == *name,
            _ => false,
        }
    }
}

impl FromStr for Proof {
    type Err = String;

    fn from_str(text: &str) -> Result<Proof, String> {
        match text.strip_prefix(CERTIFICATE) {
            Some("") => Err(format!("{CERTIFICATE} is followed by a DNS name or URI of a client certificate")),
            Some(name) => {
                let name = decoded(name)?;
                // A DNS name is the same however it is written (RFC 4343); a URI, which has a colon, is not.
                let name = if is_dns(&name) { name.to_ascii_lowercase() } else { name };
                Ok(Proof::Certificate(name.into()))
            }
            None => text.parse().map(Proof::Token),
        }
    }
}

impl fmt::Display for Proof {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Proof::Token(digest) => digest.fmt(f),
            Proof::Certificate(name) => write!(f, "{CERTIFICATE}{}", encoded(name)),
            Proof::Issued(_) => f.write_str("issued"),
        }
    }
}

/// What a token, or a client certificate, grants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// What its holder is.
    pub role: Role,
    /// What its holder shows.
    pub proof: Proof,
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
    /// What is wrong with it. The digest is never repeated, nor is a token that stands there by mistake: what is told is in logs.
    pub fn read(line: &str) -> Result<Option<Grant>, String> {
        let told = "a token itself stands in the line, where only its digest may: take it out, and make a new one, as \
                    whoever has read the file knows it";
        Grant::parse(line).map_err(|fault| if fault.contains(PREFIX) { told.to_owned() } else { fault })
    }

    fn parse(line: &str) -> Result<Option<Grant>, String> {
        let mut words: Vec<&str> = line.split_whitespace().take_while(|word| !word.starts_with('#')).collect();
        if let Some(at) = words.iter().position(|word| word.starts_with("sum=")) {
            let said = words.remove(at);
            if said != sum(&words.join(" ")) {
                return Err(
                    "the line does not fit its sum=: it is damaged, or was changed by hand; make the token anew, or \
                     take the word sum=… out of a line that is as you want it"
                        .to_owned(),
                );
            }
        }
        let mut words = words.into_iter();
        let Some(role) = words.next() else { return Ok(None) };
        let role: Role = role.parse()?;
        let proof: Proof = words.next().unwrap_or_default().parse()?;
        let mut grant = Grant { role, proof, name: "unnamed".into(), rms: None, configures: false };
        let mut said = Vec::new();
        for word in words {
            let key = word.split_once('=').map_or(word, |(key, _)| key);
            if said.contains(&key) {
                return Err(format!("{key} is there twice: say it once, rms=ID,ID with all resource managers"));
            }
            said.push(key);
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
        match grant.rms {
            Some(_) if role != Role::Shim => Err(format!("rms= binds shims only: a token of the role {role} has none")),
            _ => Ok(Some(grant)),
        }
    }
}

fn sum(words: &str) -> String {
    format!("sum={:08x}", crc32fast::hash(words.as_bytes()))
}

impl Grant {
    /// The line for the file.
    pub fn line(&self) -> String {
        let words = self.to_string();
        let sum = sum(&words);
        let (role, rest) = words.split_once(' ').unwrap_or((&words, ""));
        format!("{role} {sum} {rest}")
    }
}

/// The words of a line, without a sum.
impl fmt::Display for Grant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} name={}", self.role, self.proof, encoded(&self.name))?;
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
    if text.contains('#') {
        return Err(format!("\"{text}\": # is written as %23, and a comment follows a blank"));
    }
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
            proof: Proof::Token(Digest::of("abc")),
            name: "one, two # 100%".into(),
            rms: Some(["rm-1".into(), "a,b c".into()].into()),
            configures: true,
        };
        let text = format!("shim {HEX} name=one%2C%20two%20%23%20100%25 rms=rm-1,a%2Cb%20c configures");
        assert_eq!(grant.to_string(), text);
        assert_eq!(Grant::read(&text), Ok(Some(grant)));
        let plain = Grant::read(&format!("\tviewer  {HEX}  # for the board")).unwrap().unwrap();
        assert_eq!((plain.role, &*plain.name, plain.rms, plain.configures), (Role::Viewer, "unnamed", None, false));
        let certificate = Grant::read("operator certificate:spiffe://prod/ops name=ops").unwrap().unwrap();
        assert_eq!(certificate.proof, Proof::Certificate("spiffe://prod/ops".into()));
        assert_eq!(Grant::read(&certificate.line()), Ok(Some(certificate.clone())));
        assert!(certificate.proof.is_certificate_for("spiffe://prod/ops"));
        assert!(!certificate.proof.is_certificate_for("spiffe://prod/Ops"), "a URI is taken by case");
        let dns = Grant::read("shim certificate:K8s.Prod.Example").unwrap().unwrap();
        assert_eq!(dns.proof, Proof::Certificate("k8s.prod.example".into()), "the same twice is found");
        assert!(["k8s.prod.example", "k8S.prod.EXAMPLE"].iter().all(|name| dns.proof.is_certificate_for(name)));
        assert!(!dns.proof.is_certificate_for("k8s.prod.example.org"));
        assert!(fault("operator certificate: name=ops").contains("followed by a DNS name or URI"));
        assert_eq!([Grant::read(""), Grant::read("  # a comment")], [Ok(None), Ok(None)]);
    }

    #[test]
    fn damage_of_a_line_gives_no_rights() {
        let made = Grant {
            role: Role::Shim,
            proof: Proof::Token(Digest::of("abc")),
            name: "a board".into(),
            rms: Some(["rm-1".into(), "rm-2".into()].into()),
            configures: false,
        };
        let line = made.line();
        assert!(line.starts_with("shim sum=") && line.ends_with("name=a%20board rms=rm-1,rm-2"), "{line}");
        assert_eq!(Grant::read(&line), Ok(Some(made.clone())));
        assert_eq!(Grant::read(&format!("  {}  # mine", line.replace(' ', "   "))), Ok(Some(made.clone())));
        for at in 0..line.len() {
            assert!(!matches!(Grant::read(&line[..at]), Ok(Some(_))), "{}", &line[..at]);
            for bit in 0..8 {
                let mut bytes = line.clone().into_bytes();
                bytes[at] ^= 1 << bit;
                let Ok(text) = String::from_utf8(bytes) else { continue };
                // Blanks of another kind change nothing.
                if let Ok(Some(read)) = Grant::read(&text) {
                    assert_eq!(read, made, "{text}");
                }
            }
        }
        let changed = line.replace("rm-2", "rm-3");
        assert!(fault(&changed).contains("take the word sum=… out"), "{}", fault(&changed));
        let by_hand: Vec<&str> = changed.split(' ').filter(|word| !word.starts_with("sum=")).collect();
        assert!(matches!(Grant::read(&by_hand.join(" ")), Ok(Some(_))));
    }

    #[test]
    fn faults_are_named_and_show_no_digest() {
        assert!(fault(&format!("admin {HEX}")).contains("role \"admin\" does not exist: choose viewer"));
        assert!(fault("viewer").contains("64 hexadecimal digits"));
        assert!(fault(&format!("viewer {HEX}0")).contains("64 hexadecimal digits"));
        assert!(fault(&format!("viewer {HEX} rm=a")).contains("\"rm=a\" is none of"));
        assert!(fault(&format!("viewer {HEX} name=")).contains("\"name=\" is none of"));
        assert!(fault(&format!("viewer {HEX} name=a name=b")).contains("name is there twice"));
        assert!(fault(&format!("shim {HEX} rms=a rms=b")).contains("rms is there twice"));
        assert!(fault(&format!("viewer {HEX} name=%zz")).contains("two hexadecimal digits"));
        assert!(fault(&format!("viewer {HEX} name=a#b")).contains("# is written as %23"));
        assert!(!fault(&format!("viewer {HEX} x")).contains("ba78"));
        for line in
            ["cbt_SECRET".to_owned(), format!("viewer {HEX} cbt_SECRET"), format!("viewer {HEX} name=%cbt_SECRET")]
        {
            assert!(fault(&line).contains("a token itself") && !fault(&line).contains("SECRET"), "{line}");
        }
    }
}
