//! Ordered lists of host names in the notation of RFC 29, such as `node[1-4],login`.
//!
//! Order and repeats are kept: in the list of an instance the n-th host is that of rank n. A list is kept as its
//! ranges, so what a text can claim costs no more memory than the text.

use std::fmt::{self, Write as _};

/// The most hosts that one range may stand for.
pub const MAX_RANGE: u64 = 1 << 20;

/// Longest name beside the numbers in brackets, in bytes.
const MAX_NAME: usize = 253;

/// Most digits of a number, leading zeros included: those of the largest.
const MAX_DIGITS: usize = 20;

/// An ordered list of host names.
#[derive(Clone, Debug, Default)]
pub struct HostList {
    items: Vec<Item>,
}

/// Hosts `prefix` + number + `suffix`, for all numbers from `first` to `last`.
#[derive(Clone, Debug)]
struct Item {
    prefix: String,
    suffix: String,
    number: Option<Number>,
}

#[derive(Clone, Copy, Debug)]
struct Number {
    first: u64,
    last: u64,
    /// Digits of `first`, leading zeros included; larger numbers may have more.
    width: usize,
}

/// Why a text is no host list: position in characters from 1, and what is wrong there.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("hostlist '{text}': character {position}: {what}")]
pub struct Error {
    /// The text.
    pub text: String,
    /// Position of the fault, from 1.
    pub position: usize,
    /// What is wrong.
    pub what: String,
}

/// A fault at a byte of the text.
type Fault = (usize, String);

impl HostList {
    /// An empty list.
    pub fn new() -> HostList {
        HostList::default()
    }

    /// Reads the notation of RFC 29: expressions `prefix[list]suffix` separated by commas, each part optional. An empty
    /// expression stands for nothing. Leading zeros of the first element of a bracket pad the others too.
    ///
    /// # Errors
    /// What is wrong, and where: characters that are not printable ASCII, brackets that are unbalanced, nested, empty
    /// or a second pair, numbers that are none, have more than 20 digits or do not fit 64 bits, ranges that descend or exceed
    /// [`MAX_RANGE`].
    pub fn parse(text: &str) -> Result<HostList, Error> {
        let mut list = HostList::new();
        let mut start = 0;
        let mut open = false;
        for (at, c) in text.char_indices() {
            match c {
                '[' => open = true,
                ']' => open = false,
                ',' if !open => {
                    list.expression(&text[start..at], start).map_err(|fault| error(text, fault))?;
                    start = at + 1;
                }
                _ => {}
            }
        }
        list.expression(&text[start..], start).map_err(|fault| error(text, fault))?;
        Ok(list)
    }

    fn expression(&mut self, text: &str, offset: usize) -> Result<(), Fault> {
        if let Some((at, c)) = text.char_indices().find(|(_, c)| !c.is_ascii_graphic()) {
            return Err((offset + at, format!("{c:?} cannot be part of a host name")));
        }
        let (Some(open), Some(close)) = (text.find('['), text.find(']')) else {
            return match text.find(['[', ']']) {
                Some(at) => Err((offset + at, "brackets are not balanced".to_owned())),
                None if text.is_empty() => Ok(()),
                None => {
                    self.push(text);
                    Ok(())
                }
            };
        };
        if close < open {
            return Err((offset + close, "']' comes before '['".to_owned()));
        }
        let (prefix, inner, suffix) = (&text[..open], &text[open + 1..close], &text[close + 1..]);
        if let Some(at) = inner.find('[') {
            return Err((offset + open + 1 + at, "brackets cannot be nested".to_owned()));
        }
        if let Some(at) = suffix.find(['[', ']']) {
            return Err((offset + close + 1 + at, "a second pair of brackets is not allowed".to_owned()));
        }
        // Each element keeps both.
        if prefix.len() + suffix.len() > MAX_NAME {
            return Err((offset, format!("a name of more than {MAX_NAME} bytes cannot have brackets")));
        }
        let mut at = offset + open + 1;
        let mut padding = None;
        for element in inner.split(',') {
            let mut number = parse_element(element, at)?;
            let padding = *padding.get_or_insert(if element.starts_with('0') { number.width } else { 1 });
            number.width = number.width.max(padding);
            self.items.push(Item { prefix: prefix.to_owned(), suffix: suffix.to_owned(), number: Some(number) });
            at += element.len() + 1;
        }
        Ok(())
    }

    /// Adds a host at the end. The name is taken as it is; see [`safe_name`] for names from elsewhere.
    pub fn push(&mut self, name: &str) {
        let digits = name.bytes().rev().take_while(u8::is_ascii_digit).count();
        let (prefix, tail) = name.split_at(name.len() - digits);
        // A tail that fits no number is part of the name.
        let (prefix, number) = match tail.parse() {
            Ok(value) if digits <= MAX_DIGITS => (prefix, Some(Number { first: value, last: value, width: digits })),
            _ => (name, None),
        };
        if let (Some(number), Some(Item { prefix: last_prefix, suffix, number: Some(last) })) =
            (number, self.items.last_mut())
            && last_prefix == prefix
            && suffix.is_empty()
            && last.followed_by(number)
        {
            last.last = number.last;
            return;
        }
        self.items.push(Item { prefix: prefix.to_owned(), suffix: String::new(), number });
    }

    /// Number of hosts, repeats included.
    pub fn len(&self) -> u64 {
        self.items.iter().map(|item| item.number.map_or(1, |n| n.last - n.first + 1)).fold(0, u64::saturating_add)
    }

    /// No hosts.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// All names in order, made one at a time.
    pub fn iter(&self) -> impl Iterator<Item = String> + '_ {
        self.items.iter().flat_map(|item| {
            let numbers = item.number.map_or(0..=0, |n| n.first..=n.last);
            numbers.map(move |value| match item.number {
                Some(Number { width, .. }) => format!("{}{value:0width$}{}", item.prefix, item.suffix),
                None => format!("{}{}", item.prefix, item.suffix),
            })
        })
    }
}

impl Number {
    /// `next` continues this range without a change of padding.
    fn followed_by(self, next: Number) -> bool {
        self.last.checked_add(1) == Some(next.first)
            && next.last - self.first < MAX_RANGE
            && next.width == self.width.max(digits(next.first))
    }
}

/// Number of decimal digits.
fn digits(value: u64) -> usize {
    value.checked_ilog10().map_or(1, |log| log as usize + 1)
}

fn error(text: &str, (byte, what): Fault) -> Error {
    let position = text.get(..byte).map_or(byte, |before| before.chars().count()) + 1;
    Error { text: text.to_owned(), position, what }
}

fn parse_element(text: &str, at: usize) -> Result<Number, Fault> {
    let number = |text: &str, at: usize| -> Result<u64, Fault> {
        if text.is_empty() {
            return Err((at, "a number is missing".to_owned()));
        }
        if !text.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err((at, format!("'{text}' is not a decimal number")));
        }
        if text.len() > MAX_DIGITS {
            return Err((at, format!("a number of {} digits: at most {MAX_DIGITS} are allowed", text.len())));
        }
        text.parse().map_err(|_| (at, format!("'{text}' does not fit 64 bits")))
    };
    let Some((low, high)) = text.split_once('-') else {
        let value = number(text, at)?;
        return Ok(Number { first: value, last: value, width: text.len() });
    };
    let first = number(low, at)?;
    let last = number(high, at + low.len() + 1)?;
    if last < first {
        return Err((at, format!("range '{text}' descends")));
    }
    if last - first >= MAX_RANGE {
        return Err((at, format!("range '{text}' is larger than {MAX_RANGE} hosts")));
    }
    Ok(Number { first, last, width: low.len() })
}

impl fmt::Display for HostList {
    /// The compressed form: neighbours of the same prefix share one pair of brackets, in list order. A new pair begins where
    /// the padding changes, so that readers who pad by the first element and readers who pad each by itself agree.
    /// Hosts with a suffix, or a name that may have no brackets, are written out.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut comma = "";
        let mut at = 0;
        while let Some(item) = self.items.get(at) {
            f.write_str(comma)?;
            comma = ",";
            let Some(first) = item.number.filter(|_| item.suffix.is_empty() && item.prefix.len() <= MAX_NAME) else {
                write_out(f, item)?;
                at += 1;
                continue;
            };
            let group = self.group(at, first);
            at += group.taken;
            match group.numbers.as_slice() {
                [one] if one.first == one.last => write!(f, "{}{:0width$}", item.prefix, one.first, width = one.width)?,
                numbers => {
                    write!(f, "{}[", item.prefix)?;
                    for (ix, n) in numbers.iter().enumerate() {
                        let comma = if ix == 0 { "" } else { "," };
                        write!(f, "{comma}{:0width$}", n.first, width = n.width)?;
                        if n.last > n.first {
                            write!(f, "-{:0width$}", n.last, width = n.width)?;
                        }
                    }
                    f.write_char(']')?;
                }
            }
        }
        Ok(())
    }
}

/// Ranges that share a pair of brackets, and how many items they came from.
struct Group {
    numbers: Vec<Number>,
    taken: usize,
}

impl HostList {
    fn group(&self, start: usize, first: Number) -> Group {
        let prefix = &self.items[start].prefix;
        let padding = if first.width > digits(first.first) { first.width } else { 1 };
        let mut numbers: Vec<Number> = Vec::new();
        let mut taken = 0;
        for item in &self.items[start..] {
            let Some(number) = item.number.filter(|_| item.suffix.is_empty() && item.prefix == *prefix) else { break };
            if number.width != padding.max(digits(number.first)) {
                break;
            }
            taken += 1;
            match numbers.last_mut() {
                Some(last) if last.followed_by(number) => last.last = number.last,
                _ => numbers.push(number),
            }
        }
        Group { numbers, taken }
    }
}

fn write_out(f: &mut fmt::Formatter<'_>, item: &Item) -> fmt::Result {
    let one = HostList { items: vec![item.clone()] };
    for (ix, host) in one.iter().enumerate() {
        let comma = if ix == 0 { "" } else { "," };
        write!(f, "{comma}{host}")?;
    }
    Ok(())
}

impl<S: AsRef<str>> FromIterator<S> for HostList {
    fn from_iter<I: IntoIterator<Item = S>>(names: I) -> HostList {
        let mut list = HostList::new();
        for name in names {
            list.push(name.as_ref());
        }
        list
    }
}

/// A name that may stand in a host list: bytes that RFC 29 does not allow in one, and `%`, become `%` and two hex digits.
pub fn safe_name(name: &str) -> String {
    let mut safe = String::with_capacity(name.len());
    for byte in name.bytes() {
        if byte.is_ascii_graphic() && !matches!(byte, b',' | b'[' | b']' | b'%') {
            safe.push(char::from(byte));
        } else {
            // Writing to a string cannot fail.
            let _ = write!(safe, "%{byte:02X}");
        }
    }
    safe
}

/// The name of which [`safe_name`] made this one.
pub fn plain_name(safe: &str) -> String {
    let mut plain = Vec::with_capacity(safe.len());
    let mut rest = safe.as_bytes();
    while let Some((byte, after)) = rest.split_first() {
        let digits = after.get(..2).filter(|_| *byte == b'%').and_then(|digits| std::str::from_utf8(digits).ok());
        match digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(escaped) => {
                plain.push(escaped);
                rest = &after[2..];
            }
            None => {
                plain.push(*byte);
                rest = after;
            }
        }
    }
    String::from_utf8(plain).unwrap_or_else(|_| safe.to_owned())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn hosts(text: &str) -> Vec<String> {
        HostList::parse(text).unwrap().iter().collect()
    }

    #[test]
    fn a_long_name_is_not_repeated_for_each_number() {
        let list = |name: usize| HostList::parse(&format!("{}[{}1]", "x".repeat(name), "1,".repeat(100_000)));
        assert!(list(253).is_ok());
        assert!(list(254).unwrap_err().to_string().contains("a name of more than 253 bytes cannot have brackets"));
    }

    #[test]
    fn long_names_and_numbers_are_written_as_they_are_read() {
        let long = "x".repeat(300);
        let zeros = "0".repeat(70_000);
        for names in [[format!("{long}1"), format!("{long}2")], [format!("n{zeros}1"), format!("n{zeros}2")]] {
            let list: HostList = names.iter().collect();
            assert_eq!(hosts(&list.to_string()), names);
        }
        assert_eq!(hosts("n[00000000000000000001-2]").len(), 2);
        let refused = HostList::parse(&format!("n[{zeros}1]")).unwrap_err();
        assert_eq!(refused.what, "a number of 70001 digits: at most 20 are allowed");
    }

    #[test]
    fn a_fault_is_named_with_its_position() {
        // RFC 29
        for (text, position, what) in [
            ("foo bar", 4, "' ' cannot be part of a host name"),
            ("föö[1-2]", 2, "'ö' cannot be part of a host name"),
            ("a,foo[2-1]", 7, "range '2-1' descends"),
            ("foo[]", 5, "a number is missing"),
            ("foo[1-]", 7, "a number is missing"),
            ("foo[1,3", 4, "brackets are not balanced"),
            ("foo]", 4, "brackets are not balanced"),
            ("foo]1[", 4, "']' comes before '['"),
            ("foo[[1-2]]", 5, "brackets cannot be nested"),
            ("r[1-2]n[1-2]", 8, "a second pair of brackets is not allowed"),
            ("foo[0-1048576]", 5, "range '0-1048576' is larger than 1048576 hosts"),
            ("foo[18446744073709551616]", 5, "'18446744073709551616' does not fit 64 bits"),
            ("foo[+1]", 5, "'+1' is not a decimal number"),
        ] {
            let error = HostList::parse(text).unwrap_err();
            assert_eq!((error.position, error.what.as_str()), (position, what), "{text}");
        }
    }

    #[test]
    fn leading_zeros_of_the_first_element_pad_the_others() {
        // RFC 29, where Flux keeps a width per element
        assert_eq!(hosts("[005,4,11-13]"), ["005", "004", "011", "012", "013"]);
        assert_eq!(hosts("x[1,01]"), ["x1", "x01"]);
    }

    #[test]
    fn a_change_of_padding_starts_a_new_bracket() {
        let list: HostList = ["n1", "n2", "n01", "n02", "n3"].into_iter().collect();
        assert_eq!(list.to_string(), "n[1-2],n[01-02],n3");
    }

    #[test]
    fn what_a_text_claims_costs_no_memory() {
        let text = format!("n[{}]", vec!["0-1048575"; 1000].join(","));
        let list = HostList::parse(&text).unwrap();
        assert_eq!(list.len(), 1000 << 20);
        assert_eq!(list.iter().nth(2).unwrap(), "n2");
        assert_eq!(HostList::parse("a18446744073709551615,a0").unwrap().to_string(), "a[18446744073709551615,0]");
    }

    #[test]
    fn names_from_elsewhere_are_made_safe() {
        assert_eq!(safe_name("node-1.example.com"), "node-1.example.com");
        assert_eq!(safe_name("a,b [c]%ö"), "a%2Cb%20%5Bc%5D%25%C3%B6");
    }

    proptest! {
        #[test]
        fn what_is_written_reads_back(names in prop::collection::vec("(a|b|c-)?(x1y)?[0-9]{0,3}", 0..20)) {
            let names: Vec<String> = names.into_iter().filter(|name| !name.is_empty()).collect();
            let list: HostList = names.iter().collect();
            prop_assert_eq!(list.len(), names.len() as u64);
            prop_assert_eq!(list.iter().collect::<Vec<_>>(), names.clone());
            prop_assert_eq!(hosts(&list.to_string()), names);
        }

        #[test]
        fn any_text_is_read_or_refused(text in "[a0-9,\\-\\[\\]]{0,24}|.{0,12}") {
            if let Ok(list) = HostList::parse(&text) && list.len() < 5000 {
                let names: Vec<String> = list.iter().collect();
                prop_assert_eq!(hosts(&list.to_string()), names);
            }
        }

        #[test]
        fn safe_names_are_names(name in ".{1,12}") {
            prop_assert_eq!(hosts(&safe_name(&name)), [safe_name(&name)]);
        }
    }
}
