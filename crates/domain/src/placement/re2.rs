//! Regular expressions in the syntax of RE2, written anew in that of the regex crate (PLC-023).
//!
//! The crate has the same operators and flags, but reads some texts otherwise: it nests and combines character classes, repeats repetitions,
//! and takes `\w` and `\b` for those of Unicode. What comes out here can be read in one way only: each part has the flags that hold for it, and
//! groups have no names. Whether something matches does not depend on which match is preferred, so `U` and lazy repetitions are read, and left out.
//!
//! The syntax is that of <https://github.com/google/re2/wiki/Syntax>. Where the reference takes more (groups of one name, names of properties in
//! any case and with spaces), that is taken too, and its limit of repetitions holds.

/// How often a part may be repeated, as often as what it is a part of.
const MOST_REPETITIONS: u32 = 1_000;
/// Matches no character. Neither does half of a surrogate pair, which is in no text.
const NONE: &str = r"[^\x00-\x{10FFFF}]";
/// Matches each character.
const ALL: &str = "(?s:.)";
/// Classes in brackets and colons.
const POSIX: [&str; 14] = [
    "alnum", "alpha", "ascii", "blank", "cntrl", "digit", "graph", "lower", "print", "punct", "space", "upper", "word",
    "xdigit",
];
/// Values of `\p{…}` that are not scripts, as they are compared.
const CATEGORIES: &str = "any ascii assigned c cc cf cn co l lc ll lm lo lt lu m mc me mn n nd nl no p pc pd pe pf pi po ps s sc sk sm so z zl zp zs \
    casedletter closepunctuation cntrl combiningmark connectorpunctuation control currencysymbol dashpunctuation decimalnumber digit \
    enclosingmark finalpunctuation format initialpunctuation letter letternumber lineseparator lowercaseletter mark mathsymbol \
    modifierletter modifiersymbol nonspacingmark number openpunctuation other otherletter othernumber otherpunctuation othersymbol \
    paragraphseparator privateuse punct punctuation separator spaceseparator spacingmark symbol titlecaseletter unassigned uppercaseletter";
/// Scripts whose name has four letters: others of that length are short forms, which RE2 does not have.
const SHORT_SCRIPTS: [&str; 9] = ["ahom", "cham", "kawi", "lisu", "miao", "modi", "newa", "thai", "toto"];

/// The same expression for the regex crate, or what is wrong with it.
pub fn translate(text: &str) -> Result<String, String> {
    let mut of = Translation { text, ..Translation::default() };
    while let Some(c) = of.take() {
        of.part(c)?;
    }
    if of.groups.is_empty() { Ok(of.out) } else { Err("a `)` is missing".to_owned()) }
}

#[derive(Default)]
struct Translation<'a> {
    text: &'a str,
    /// What of it is read.
    at: usize,
    out: String,
    flags: Flags,
    /// Those that are open.
    groups: Vec<Group>,
    /// What a repetition is for.
    last: Option<Part>,
    /// Where the latest repetition ends in the text.
    repeated: usize,
    /// Most repetitions of a part of the group, without `last`.
    times: u32,
}

#[derive(Clone, Copy, Default)]
struct Flags {
    fold: bool,
    lines: bool,
    newline: bool,
}

/// What holds again behind an open group.
struct Group {
    start: usize,
    flags: Flags,
    times: u32,
}

#[derive(Clone, Copy)]
struct Part {
    /// Where it begins in what is written.
    start: usize,
    times: u32,
    is_repetition: bool,
}

impl<'a> Translation<'a> {
    fn part(&mut self, c: char) -> Result<(), String> {
        let from = self.at - c.len_utf8();
        match c {
            '(' => self.open(from)?,
            ')' => self.close()?,
            '|' => {
                self.settle();
                self.out.push('|');
            }
            '*' | '+' | '?' => self.repeat(from, &c.to_string(), 1, None)?,
            '{' => match braces(self.rest()) {
                Some(inside) => self.counted(from, inside)?,
                None => self.literal('{'.into()),
            },
            '[' => self.class(from)?,
            '.' => self.put(if self.flags.newline { ALL } else { "." }),
            '^' => self.put(if self.flags.lines { "(?m:^)" } else { "^" }),
            '$' => self.put(if self.flags.lines { "(?m:$)" } else { "$" }),
            '\\' => self.escape(from)?,
            _ => self.literal(c.into()),
        }
        Ok(())
    }

    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn take(&mut self) -> Option<char> {
        let c = self.rest().chars().next()?;
        self.at += c.len_utf8();
        Some(c)
    }

    fn eat(&mut self, text: &str) -> bool {
        let found = self.rest().starts_with(text);
        if found {
            self.at += text.len();
        }
        found
    }

    fn fault<T>(&self, from: usize, what: &str) -> Result<T, String> {
        Err(format!("`{}` {what}", &self.text[from..self.at]))
    }

    /// The latest part will not be repeated any more.
    fn settle(&mut self) {
        if let Some(part) = self.last.take() {
            self.times = self.times.max(part.times);
        }
    }

    fn put(&mut self, part: &str) {
        self.settle();
        self.last = Some(Part { start: self.out.len(), times: 1, is_repetition: false });
        self.out.push_str(part);
    }

    fn put_folded(&mut self, part: &str) {
        if self.flags.fold { self.put(&format!("(?i:{part})")) } else { self.put(part) }
    }

    fn literal(&mut self, code: u32) {
        match char::from_u32(code) {
            Some(c) => self.put_folded(&regex::escape(c.encode_utf8(&mut [0; 4]))),
            None => self.put(NONE),
        }
    }

    fn open(&mut self, from: usize) -> Result<(), String> {
        let flags = self.flags;
        if self.eat("?P<") || self.eat("?<") {
            let name = self.rest().split_once('>').map_or("", |(name, _)| name);
            if name.is_empty() || !name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') {
                return self.fault(from, "needs a name of letters, digits and `_`, and a `>`");
            }
            self.at += name.len() + 1;
        } else if self.eat("?") && !self.set_flags(from)? {
            return Ok(());
        }
        self.settle();
        self.groups.push(Group { start: self.out.len(), flags, times: self.times });
        self.times = 1;
        self.out.push_str("(?:");
        Ok(())
    }

    /// Whether a group begins behind the flags.
    fn set_flags(&mut self, from: usize) -> Result<bool, String> {
        let (mut on, mut any) = (true, true);
        loop {
            match self.take() {
                Some('i') => self.flags.fold = on,
                Some('m') => self.flags.lines = on,
                Some('s') => self.flags.newline = on,
                Some('U') => {}
                Some('-') if on => {
                    (on, any) = (false, false);
                    continue;
                }
                Some(end @ (':' | ')')) if any => return Ok(end == ':'),
                _ => return self.fault(from, "is no group: the flags are i, m, s and U"),
            }
            any = true;
        }
    }

    fn close(&mut self) -> Result<(), String> {
        self.settle();
        let Some(group) = self.groups.pop() else {
            return Err("a `)` has no `(`".to_owned());
        };
        self.out.push(')');
        self.last = Some(Part { start: group.start, times: self.times, is_repetition: false });
        (self.flags, self.times) = (group.flags, group.times);
        Ok(())
    }

    fn counted(&mut self, from: usize, inside: &str) -> Result<(), String> {
        self.at += inside.len() + 1;
        let number = |digits: &str| digits.parse().ok().filter(|number: &u32| *number <= MOST_REPETITIONS);
        let (least, most) = inside.split_once(',').unwrap_or((inside, inside));
        let (Some(least), Some(most)) =
            (number(least), if most.is_empty() { Some(None) } else { number(most).map(Some) })
        else {
            return self.fault(from, "is more than 1000 times");
        };
        if most.is_some_and(|most| most < least) {
            return self.fault(from, "ends before it begins");
        }
        let most_text = most.map_or(String::new(), |most| most.to_string());
        self.repeat(from, &format!("{{{least},{most_text}}}"), least, most)
    }

    /// `most` is `None` where there is no end.
    fn repeat(&mut self, from: usize, written: &str, least: u32, most: Option<u32>) -> Result<(), String> {
        let Some(mut part) = self.last else {
            return self.fault(from, "has nothing before it to repeat");
        };
        if self.repeated == from {
            return self.fault(from, "repeats a repetition, which has to be in parentheses");
        }
        part.times = if most == Some(0) { 1 } else { part.times * most.unwrap_or(least).max(1) };
        if part.times > MOST_REPETITIONS {
            return self.fault(from, "makes more than 1000 times with the repetitions inside");
        }
        self.eat("?");
        self.repeated = self.at;
        if part.is_repetition {
            self.out.insert_str(part.start, "(?:");
            self.out.push(')');
        }
        self.out.push_str(written);
        self.last = Some(Part { is_repetition: true, ..part });
        Ok(())
    }

    fn escape(&mut self, from: usize) -> Result<(), String> {
        if self.eat("Q") {
            let quoted = self.rest().split_once("\\E");
            let (quoted, end) = quoted.map_or((self.rest(), ""), |(quoted, _)| (quoted, "\\E"));
            self.at += quoted.len() + end.len();
            quoted.chars().for_each(|c| self.literal(c.into()));
        } else if let Some(place) = ["A", "z"].into_iter().find(|place| self.eat(place)) {
            self.put(&format!("\\{place}"));
        } else if let Some(place) = ["b", "B"].into_iter().find(|place| self.eat(place)) {
            self.put(&format!("(?-u:\\{place})"));
        } else if let Some(set) = self.set(from)? {
            self.put_folded(&set);
        } else {
            let code = self.code(from)?;
            self.literal(code);
        }
        Ok(())
    }

    /// An escape that stands for several characters, behind the backslash.
    fn set(&mut self, from: usize) -> Result<Option<String>, String> {
        let Some(c) = self.rest().chars().next().filter(|c| "dDsSwWpP".contains(*c)) else {
            return Ok(None);
        };
        self.at += 1;
        let not = if c.is_ascii_uppercase() { "^" } else { "" };
        let set = match c.to_ascii_lowercase() {
            'd' => "0-9",
            's' => r"\t\n\f\r ",
            'w' => "0-9A-Za-z_",
            _ => return self.property(from, c == 'P').map(Some),
        };
        Ok(Some(format!("[{not}{set}]")))
    }

    fn property(&mut self, from: usize, not: bool) -> Result<String, String> {
        let start = self.at;
        let name = match self.rest().strip_prefix('{') {
            Some(behind) => behind.split_once('}').map_or("", |(name, _)| {
                self.at += name.len() + 2;
                name
            }),
            None => {
                self.take();
                &self.text[start..self.at]
            }
        };
        let (not, name) = name.strip_prefix('^').map_or((not, name), |name| (!not, name));
        let compared = name.replace(['_', '-', ' '], "").to_ascii_lowercase();
        if compared.is_empty() || !compared.bytes().all(|b| b.is_ascii_lowercase()) {
            return self.fault(from, "names no category or script");
        }
        let p = if not { 'P' } else { 'p' };
        match compared.as_str() {
            "cs" | "surrogate" => Ok(if not { r"[\x00-\x{10FFFF}]" } else { NONE }.to_owned()),
            category if CATEGORIES.split_whitespace().any(|known| known == category) => {
                Ok(format!("\\{p}{{gc={category}}}"))
            }
            "unknown" | "katakanaorhiragana" => self.fault(from, "names no category or script"),
            script if script.len() == 4 && !SHORT_SCRIPTS.contains(&script) => {
                self.fault(from, "names no category or script")
            }
            script => Ok(format!("\\{p}{{sc={script}}}")),
        }
    }

    /// An escape that stands for one character, behind the backslash.
    fn code(&mut self, from: usize) -> Result<u32, String> {
        let start = self.at;
        let Some(c) = self.take() else {
            return Err("a `\\` at the end has nothing to escape".to_owned());
        };
        let code = match c {
            'a' => 0x07,
            't' => 0x09,
            'n' => 0x0A,
            'v' => 0x0B,
            'f' => 0x0C,
            'r' => 0x0D,
            'x' => match self.hexadecimal() {
                Some(code) => code,
                None => return self.fault(from, "is no character: write \\x7F, or \\x{10FFFF}"),
            },
            '0'..='7' => {
                let more = self.rest().bytes().take(2).take_while(|b| matches!(b, b'0'..=b'7')).count();
                if c != '0' && more == 0 {
                    return self.fault(from, "is no escape: there are no references to groups");
                }
                self.at += more;
                self.text[start..self.at].bytes().fold(0, |code, digit| code * 8 + u32::from(digit - b'0'))
            }
            c if c.is_ascii() && !c.is_ascii_alphanumeric() => c.into(),
            _ => return self.fault(from, "is no escape of RE2"),
        };
        Ok(code)
    }

    fn hexadecimal(&mut self) -> Option<u32> {
        let (digits, end) =
            if self.eat("{") { (self.rest().split_once('}')?.0, 1) } else { (self.rest().get(..2)?, 0) };
        let is_number = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_hexdigit());
        let code = u32::from_str_radix(digits, 16).ok().filter(|code| is_number && *code <= char::MAX.into())?;
        self.at += digits.len() + end;
        Some(code)
    }

    fn class(&mut self, from: usize) -> Result<(), String> {
        let not = if self.eat("^") { "^" } else { "" };
        let (start, mut set) = (self.at, String::new());
        while self.at == start || !self.eat("]") {
            let at = self.at;
            let Some(c) = self.take() else {
                return self.fault(from, "has no `]`");
            };
            let named = self.rest().strip_prefix(':').filter(|_| c == '[').and_then(|rest| rest.split_once(":]"));
            if let Some((name, _)) = named {
                self.at += name.len() + 3;
                if !POSIX.contains(&name.strip_prefix('^').unwrap_or(name)) {
                    return self.fault(at, "names no class");
                }
                set.push_str(&self.text[at..self.at]);
                continue;
            }
            if c == '\\'
                && let Some(escaped) = self.set(at)?
            {
                set.push_str(&escaped);
                continue;
            }
            let low = self.member(c, at)?;
            let mut high = low;
            if self.rest().starts_with('-') && !matches!(self.rest()[1..].chars().next(), None | Some(']')) {
                self.eat("-");
                let at = self.at;
                if let Some(c) = self.take() {
                    high = self.member(c, at)?;
                }
            }
            if high < low {
                return self.fault(at, "ends before it begins");
            }
            // The crate does not know halves of surrogate pairs.
            for (low, high) in [(low, high.min(0xD7FF)), (low.max(0xE000), high)] {
                if low <= high {
                    set.push_str(&format!("\\x{{{low:X}}}-\\x{{{high:X}}}"));
                }
            }
        }
        match (set.as_str(), not) {
            ("", "") => self.put(NONE),
            ("", _) => self.put(ALL),
            _ => self.put_folded(&format!("[{not}{set}]")),
        }
        Ok(())
    }

    fn member(&mut self, c: char, at: usize) -> Result<u32, String> {
        if c == '\\' { self.code(at) } else { Ok(c.into()) }
    }
}

/// What is between braces that make a repetition: `3`, `3,`, `3,5`. Others, those with zeros in front too, stand for themselves.
fn braces(behind: &str) -> Option<&str> {
    let (inside, _) = behind.split_once('}')?;
    let (least, most) = inside.split_once(',').unwrap_or((inside, "0"));
    let is_number =
        |digits: &str| digits.bytes().all(|b| b.is_ascii_digit()) && (digits.len() == 1 || !digits.starts_with('0'));
    (!least.is_empty() && is_number(least) && is_number(most)).then_some(inside)
}

#[cfg(test)]
mod tests;
