//! Tokens and their digests.
//!
//! A token is 256 random bits, so a plain SHA-256 keeps it as safe as a slow hash would: there is nothing to guess that
//! is more likely than anything else. Slow hashes protect what people choose.

use std::{fmt, str::FromStr};

pub use callboard_client::secret::Secret;
use rand::{TryRng as _, rngs::SysRng};
use sha2::{Digest as _, Sha256};
use subtle::{Choice, ConstantTimeEq};

/// How every token begins, so that it is known for what it is where it should not be.
pub(super) const PREFIX: &str = "cbt_";
const BYTES: usize = 32;
const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// A new token, from the randomness of the operating system.
///
/// # Errors
/// The operating system has none to give.
pub fn new_secret() -> Result<Secret, String> {
    let mut bytes = [0_u8; BYTES];
    SysRng.try_fill_bytes(&mut bytes).map_err(|error| format!("no randomness from the system: {error}"))?;
    let mut text = String::from(PREFIX);
    // Six bits a character; the last one of three has two bits of padding.
    let mut bits = 0_u32;
    let mut held = 0;
    for byte in bytes {
        bits = bits << 8 | u32::from(byte);
        held += 8;
        while held >= 6 {
            held -= 6;
            text.push(char::from(ALPHABET[(bits >> held & 63) as usize]));
        }
    }
    if held > 0 {
        text.push(char::from(ALPHABET[(bits << (6 - held) & 63) as usize]));
    }
    Secret::given(&text)
}

/// SHA-256 of a token, written as `sha256:` and 64 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Digest([u8; 32]);

impl Digest {
    /// Of this text.
    pub fn of(text: &str) -> Digest {
        Digest(Sha256::digest(text.as_bytes()).into())
    }
}

impl ConstantTimeEq for Digest {
    fn ct_eq(&self, other: &Digest) -> Choice {
        self.0.ct_eq(&other.0)
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("sha256:")?;
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Digest(…)")
    }
}

impl FromStr for Digest {
    type Err = String;

    fn from_str(text: &str) -> Result<Digest, String> {
        let fault = || "a digest is sha256: and 64 hexadecimal digits, as `callboard token new` prints it".to_owned();
        let digits = text.strip_prefix("sha256:").filter(|digits| digits.len() == 64).ok_or_else(fault)?;
        let mut digest = [0; 32];
        for (byte, pair) in digest.iter_mut().zip(digits.as_bytes().chunks(2)) {
            for digit in pair {
                let value = char::from(*digit).to_digit(16).ok_or_else(fault)?;
                // Less than 16.
                *byte = *byte << 4 | value as u8;
            }
        }
        Ok(Digest(digest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_long_and_differ() {
        let (one, other) = (new_secret().unwrap(), new_secret().unwrap());
        assert_ne!(one, other);
        assert_eq!(one.reveal().len(), 47);
        assert!(one.reveal().strip_prefix(PREFIX).unwrap().bytes().all(|byte| ALPHABET.contains(&byte)));
        assert_eq!(Secret::given(one.reveal()), Ok(one));
    }

    #[test]
    fn nothing_shows_a_digest_by_accident() {
        assert_eq!(format!("{:?}", Digest::of("abc")), "Digest(…)");
    }

    #[test]
    fn digests_are_read_as_they_are_written() {
        let digest = Digest::of("abc");
        let text = "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(digest.to_string(), text);
        assert_eq!(text.parse(), Ok(digest));
        assert_eq!(text.to_uppercase().replacen("SHA256", "sha256", 1).parse(), Ok(digest));
        for wrong in ["", "sha256:", &text[7..], &text[..70], &text.replace("ba", "zz"), "sha512:00"] {
            assert!(wrong.parse::<Digest>().unwrap_err().contains("64 hexadecimal digits"), "{wrong}");
        }
    }
}
