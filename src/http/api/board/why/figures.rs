//! Amounts for people.

/// What follows an amount: the name of the type, or the unit.
pub fn noun(resource: &str, amount: i64) -> &str {
    match (resource, amount) {
        ("vcore", 1000) => "core",
        ("vcore", _) => "cores",
        _ => resource,
    }
}

/// How amounts of one type are told that stand side by side.
pub struct Figures<'a> {
    resource: &'a str,
    /// In this unit, exactly; else each in its own and rounded.
    bits: Option<u32>,
}

impl Figures<'_> {
    /// Rounded; but exact and in one unit where rounded ones would be in another order than these are, or alike though these differ, or
    /// where `holds`, which is given hundredths of what would be read, says that what is told of them would not hold.
    pub fn of<'a>(resource: &'a str, amounts: &[i64], holds: impl Fn(&[i128]) -> bool) -> Figures<'a> {
        let rounded = Figures { resource, bits: None };
        if !is_bytes(resource) {
            return rounded;
        }
        let read: Vec<i128> = amounts.iter().map(|n| hundredths(*n, unit(*n)) << unit(*n)).collect();
        let mut pairs = (0..amounts.len()).flat_map(|a| (0..a).map(move |b| (a, b)));
        if pairs.all(|(a, b)| amounts[a].cmp(&amounts[b]) == read[a].cmp(&read[b])) && holds(&read) {
            return rounded;
        }
        let most = amounts.iter().map(|amount| unit(*amount)).max().unwrap_or(0);
        let fits = |bits: &u32| amounts.iter().all(|amount| i128::from(*amount) * 100 % (1 << bits) == 0);
        let bits = (0..=most).rev().step_by(10).find(fits).unwrap_or(0);
        Figures { resource, bits: Some(bits) }
    }

    /// One of the amounts.
    pub fn told(&self, amount: i64) -> String {
        if is_bytes(self.resource) {
            bytes(amount, self.bits.unwrap_or_else(|| unit(amount)))
        } else if self.resource == "vcore" {
            decimal(amount.into(), 3)
        } else {
            amount.to_string()
        }
    }
}

/// An amount for people: bytes with a binary unit and up to two decimals, cores, or the plain number. For amounts that are compared
/// there is [`Figures`], and [`exact`] for those that somebody is to set.
pub fn shown(resource: &str, amount: i64) -> String {
    Figures { resource, bits: None }.told(amount)
}

/// An amount with all of its digits, bytes in the largest unit in which two decimals are enough.
pub fn exact(resource: &str, amount: i64) -> String {
    Figures::of(resource, &[amount], |read| read == [i128::from(amount) * 100]).told(amount)
}

/// There are binary units for it.
fn is_bytes(resource: &str) -> bool {
    resource == "memory" || resource == "ephemeral-storage" || resource.starts_with("hugepages-")
}

/// The largest binary unit that is not above an amount, as a power of two.
fn unit(amount: i64) -> u32 {
    (amount.unsigned_abs().max(1).ilog2() / 10 * 10).min(50)
}

/// Of a unit, rounded.
fn hundredths(amount: i64, bits: u32) -> i128 {
    (i128::from(amount) * 200 + (1 << bits)).div_euclid(2 << bits)
}

fn bytes(amount: i64, bits: u32) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    format!("{} {}", decimal(hundredths(amount, bits), 2), units[bits as usize / 10])
}

/// A number of so many decimals, without those at its end that are zero.
fn decimal(number: i128, digits: u32) -> String {
    let (sign, number, one) = (if number < 0 { "-" } else { "" }, number.unsigned_abs(), 10_u128.pow(digits));
    let text = format!("{sign}{}.{:0width$}", number / one, number % one, width = digits as usize);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}
