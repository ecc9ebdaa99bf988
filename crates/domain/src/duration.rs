//! Durations as configuration and REST write them: `30s`, `1m0s`, `1h30m` (CFG-112, QUE-100).

use super::types::Nanos;

const UNITS: [(&str, i128); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000), // micro sign
    ("μs", 1_000), // Greek mu
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

/// Decimal numbers with units, after an optional sign; a bare `0` needs none. `None` for anything else, and for what
/// does not fit in 64 bits of nanoseconds.
pub fn parse(text: &str) -> Option<Nanos> {
    let (negative, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Some(Nanos::ZERO);
    }
    if rest.is_empty() {
        return None;
    }
    let mut sum: i128 = 0;
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (number, tail) = rest.split_at(end);
        let unit_end = tail.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(unit_end);
        let (_, unit) = UNITS.iter().find(|(name, _)| *name == unit)?;
        sum = sum.checked_add(scaled(number, *unit)?)?;
        rest = tail;
    }
    i64::try_from(if negative { -sum } else { sum }).ok().map(Nanos)
}

/// `number` × `unit`, digits beyond the nanosecond cut off.
fn scaled(number: &str, unit: i128) -> Option<i128> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && fraction.is_empty() || fraction.contains('.') {
        return None;
    }
    let whole: i128 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let mut total = whole.checked_mul(unit)?;
    // No unit has more than 13 decimal places above a nanosecond.
    let (mut numerator, mut denominator): (i128, i128) = (0, 1);
    for digit in fraction.bytes().take(18) {
        numerator = numerator * 10 + i128::from(digit - b'0');
        denominator *= 10;
    }
    total = total.checked_add(numerator.checked_mul(unit)? / denominator)?;
    Some(total)
}

/// The shortest usual form: `0s`, `1.5s`, `1m0s`, `1h0m0s`, `10ms`.
pub fn format(duration: Nanos) -> String {
    let nanos = i128::from(duration.0);
    let (sign, nanos) = if nanos < 0 { ("-", -nanos) } else { ("", nanos) };
    let text = match nanos {
        0 => "0s".to_owned(),
        1..=999 => format!("{nanos}ns"),
        1_000..=999_999 => format!("{}µs", decimal(nanos, 1_000)),
        1_000_000..=999_999_999 => format!("{}ms", decimal(nanos, 1_000_000)),
        _ => {
            let minutes = nanos / 60_000_000_000;
            let seconds = format!("{}s", decimal(nanos % 60_000_000_000, 1_000_000_000));
            match (minutes / 60, minutes % 60) {
                (0, 0) => seconds,
                (0, minutes) => format!("{minutes}m{seconds}"),
                (hours, minutes) => format!("{hours}h{minutes}m{seconds}"),
            }
        }
    };
    format!("{sign}{text}")
}

/// `amount` / `unit` without trailing zeros.
fn decimal(amount: i128, unit: i128) -> String {
    let digits = unit.ilog10() as usize;
    let fraction = format!("{:0digits$}", amount % unit);
    match fraction.trim_end_matches('0') {
        "" => (amount / unit).to_string(),
        fraction => format!("{}.{fraction}", amount / unit),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses() {
        // CFG-112
        for (text, nanos) in [
            ("0", 0),
            ("-0", 0),
            ("0s", 0),
            ("30s", 30_000_000_000),
            ("1m30s", 90_000_000_000),
            ("1.5h", 5_400_000_000_000),
            (".5s", 500_000_000),
            ("1.s", 1_000_000_000),
            ("-1s", -1_000_000_000),
            ("+2ms", 2_000_000),
            ("3us4ns", 3_004),
            ("1µs", 1_000),
            ("2562047h47m16.854775807s", i64::MAX),
        ] {
            assert_eq!(parse(text), Some(Nanos(nanos)), "{text}");
        }
        for bad in ["", "30", "s", "1x", "1 s", " 1s", "-", "1s-2s", "1..5s", ".s", "2562047h47m17s", "1S"] {
            assert_eq!(parse(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn formats() {
        // QUE-100
        for (nanos, text) in [
            (0, "0s"),
            (1, "1ns"),
            (1_500, "1.5µs"),
            (10_000_000, "10ms"),
            (1_500_000_000, "1.5s"),
            (30_000_000_000, "30s"),
            (60_000_000_000, "1m0s"),
            (3_600_000_000_000, "1h0m0s"),
            (90_061_000_000_000, "25h1m1s"),
            (-30_000_000_000, "-30s"),
            (i64::MIN, "-2562047h47m16.854775808s"),
        ] {
            assert_eq!(format(Nanos(nanos)), text);
        }
    }
}
