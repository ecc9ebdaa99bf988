//! Quantities as the configuration writes them: `10`, `500m`, `2Gi` (RES-001–RES-005).

use std::fmt;

/// Why a text is no quantity (RES-004).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// Not digits with an optional suffix.
    Quantity,
    /// The suffix is unknown, or not one of this resource type.
    Suffix,
    /// The amount does not fit in 64 bits.
    Overflow,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Error::Quantity => "invalid quantity",
            Error::Suffix => "invalid suffix",
            Error::Overflow => "invalid quantity: overflow",
        })
    }
}

impl std::error::Error for Error {}

/// The amount of a resource type as it is stored: `vcore` in milli-units, every other type as given (RES-003).
pub fn parse(kind: &str, text: &str) -> Result<i64, Error> {
    let text = text.trim();
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, suffix) = text.split_at(digits);
    let suffix = suffix.trim_start();
    // What looks like a suffix, right or wrong (RES-004).
    let mut letters = suffix.bytes();
    let is_suffix = letters.next().is_none_or(|unit| b"mkKMGTPE".contains(&unit))
        && letters.next().is_none_or(|binary| binary == b'i')
        && letters.next().is_none();
    if number.is_empty() || !is_suffix {
        return Err(Error::Quantity);
    }
    let factor = factor(suffix, kind == "vcore").ok_or(Error::Suffix)?;
    let number: i64 = number.parse().map_err(|_| Error::Overflow)?;
    i64::try_from(i128::from(number) * factor).map_err(|_| Error::Overflow)
}

/// An amount as the configuration writes it, with the largest suffix that says it exactly; [`parse`] reads it again.
pub fn written(kind: &str, amount: i64) -> String {
    if kind == "vcore" {
        return if amount % 1000 == 0 { (amount / 1000).to_string() } else { format!("{amount}m") };
    }
    // Types other than these are plain counts.
    if kind != "memory" && kind != "ephemeral-storage" && !kind.starts_with("hugepages-") {
        return amount.to_string();
    }
    let units = [("Ei", 60), ("Pi", 50), ("Ti", 40), ("Gi", 30), ("Mi", 20), ("Ki", 10)];
    let exact = units.into_iter().find(|(_, bits)| amount != 0 && amount % (1 << bits) == 0);
    exact.map_or_else(|| amount.to_string(), |(unit, bits)| format!("{}{unit}", amount >> bits))
}

/// What a suffix multiplies by; the milli suffix exists for `vcore` only (RES-002, RES-003).
fn factor(suffix: &str, milli: bool) -> Option<i128> {
    if suffix == "m" {
        return milli.then_some(1);
    }
    let (letters, base) = match suffix.strip_suffix('i') {
        Some(letters) => ("KMGTPE".find(letters).filter(|_| letters.len() == 1)?, 1024_i128),
        None if suffix.is_empty() => return Some(if milli { 1000 } else { 1 }),
        None => ("kMGTPE".find(suffix).filter(|_| suffix.len() == 1)?, 1000),
    };
    let exponent = u32::try_from(letters).ok()? + 1;
    Some(base.pow(exponent) * if milli { 1000 } else { 1 })
}

#[cfg(test)]
mod tests {
    use super::{Error::*, parse};

    #[test]
    fn grammar() {
        // RES-001
        assert_eq!(parse("memory", " 25  k "), Ok(25_000));
        assert_eq!(parse("memory", "0"), Ok(0)); // RES-005
        for bad in ["", "-1", "+1", "1.5", "1e3", "1_000", "k", "1 k k", "1k1", "٣", "100u", "1i", "1kM", "1x", "1MGi"]
        {
            assert_eq!(parse("memory", bad), Err(Quantity), "{bad:?}");
        }
    }

    #[test]
    fn suffixes() {
        // RES-002
        for (text, amount) in [("1k", 1_000), ("1Ki", 1024), ("2M", 2_000_000), ("1Gi", 1 << 30), ("1Ei", 1 << 60)] {
            assert_eq!(parse("memory", text), Ok(amount), "{text}");
        }
        for bad in ["1K", "1ki", "1mi"] {
            assert_eq!(parse("memory", bad), Err(Suffix), "{bad}");
        }
    }

    #[test]
    fn vcore_is_stored_in_milli() {
        // RES-003
        for (text, amount) in [("10", 10_000), ("500m", 500), ("2k", 2_000_000), ("2Ki", 2_048_000)] {
            assert_eq!(parse("vcore", text), Ok(amount), "{text}");
        }
        for kind in ["memory", "cpu", "vcores"] {
            assert_eq!(parse(kind, "500m"), Err(Suffix), "{kind}");
        }
    }

    #[test]
    fn amounts_are_written_as_they_are_read() {
        for (kind, amount, text) in [
            ("memory", 3 << 29, "1536Mi"),
            ("memory", 1 << 40, "1Ti"),
            ("memory", 1000, "1000"),
            ("memory", 0, "0"),
            ("memory", i64::MAX, "9223372036854775807"),
            ("vcore", 2500, "2500m"),
            ("vcore", 3000, "3"),
            ("nvidia.com/gpu", 4096, "4096"),
        ] {
            assert_eq!(super::written(kind, amount), text);
            assert_eq!(parse(kind, text), Ok(amount), "{text}");
        }
    }

    #[test]
    fn limits_of_64_bits() {
        // RES-004
        assert_eq!(parse("memory", "9223372036854775807"), Ok(i64::MAX));
        assert_eq!(parse("memory", "9223372036854775808"), Err(Overflow));
        assert_eq!(parse("memory", "1000E"), Err(Overflow));
        assert_eq!(parse("memory", "7E"), Ok(7_000_000_000_000_000_000));
        assert_eq!(parse("memory", "8Ei"), Err(Overflow));
        assert_eq!(parse("vcore", "7E"), Err(Overflow));
        assert_eq!(parse("vcore", "9223372036854775"), Ok(9_223_372_036_854_775_000));
        assert_eq!(parse("vcore", "9223372036854776"), Err(Overflow));
        assert_eq!(parse("memory", &"9".repeat(100)), Err(Overflow));
    }
}
