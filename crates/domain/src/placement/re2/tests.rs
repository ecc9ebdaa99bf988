use proptest::prelude::*;
use regex::Regex;

use super::translate;

fn regex(text: &str) -> Regex {
    Regex::new(&translate(text).unwrap_or_else(|why| panic!("{text}: {why}"))).unwrap()
}

#[test]
fn means_what_re2_means() {
    // PLC-023: the expression, what it is found in, where it is not found; separated by spaces.
    for (text, found, other) in [
        // Classes neither nest nor are combined.
        ("[a&&b]", "a b a&b", "c"),
        ("[^a&&b]", "c", "a b &"),
        ("[a-z&&x]", "k &", "K -"),
        ("^[[a]b]$", "ab] [b]", "a b"),
        ("[a~~b]", "~ a", "-"),
        ("^[a[b]$", "[ a b", "]"),
        ("^[]a]$", "] a", "[ []a]"),
        ("^[^]a]$", "b", "] a"),
        ("^[--a]$", "- A", "b ,"),
        ("^[a-]$", "a -", "b"),
        ("^[a-c-e]$", "b - e", "d"),
        (r"^[\d-z]$", "4 - z", "a"),
        ("^[[:alpha:]-z]$", "a -", "1"),
        ("^[[:foo]$", "[ : f", "]"),
        (r"^[\x{D7FF}-\x{E000}]$", "\u{D7FF} \u{E000}", "a"),
        (r"^[^\x{D800}]$", "a", "ab"),
        // Only letters, digits and spaces of ASCII have short names.
        (r"^\w\d$", "a1", "é1 a٣"),
        (r"^[\w-]+$", "a-b", "été"),
        (r"^\W$", "é -", "a"),
        (r"^a\sb$", "a\tb", "a\u{a0}b a\u{b}b"),
        (r"\bk", "ék k", "ak"),
        (r"a\Bb", "ab", "a b"),
        (r"(?i)^\w$", "k \u{212A} \u{17F}", "é"),
        ("(?i)^[^k]$", "j", "K \u{212A}"),
        (r"^\pL\p{^Greek}\PN$", "абв", "1а1 αωα"),
        (r"^[\p{ Lowercase_letter }\p{lu}]$", "a A", "1"),
        (r"^\p{L}\P{Cs}$", "ab", "1"),
        (r"\p{Cs}|q", "q", "a"),
        // Quotations and other escapes.
        (r"^\Qa*\E$", "a*", "a aa"),
        (r"^\Qab\E*$", "a abb", "abab"),
        (r"^\Qa.b(", "a.b(", "axb("),
        (r"^a\0?\01?\x41\x{42}\103\_$", "aABC_", "ABC"),
        (r"^\x{D800}|\a\f\v\t\n\r|u$", "u", "a"),
        // Braces that begin no repetition.
        ("^{a}{,2}a{1$", "{a}{,2}a{1", "a"),
        ("^a{01}$", "a{01}", "a"),
        ("^(?:ab){2,3}?$", "abab", "ab"),
        // Repetitions of what has been repeated, where something ends it.
        ("^(a*)*b$", "b aab", "c"),
        ("^a+(?i)?b$", "b aaB", "A"),
        ("^a{0}b$", "b", "ab"),
        // Flags.
        ("^(?i:a)b(?i)c$", "AbC abc", "ABC"),
        ("^((?i)a|b)c$", "Bc Ac", "BC"),
        ("^(?ii)a(?-i)b(?)$", "Ab", "AB"),
        ("^(?sU-i:a.)+?$", "a\n", "A."),
        ("^a.$", "ab", "a\n"),
        ("(?m)^b$", "a\nb\nc", "ab"),
        ("^b$", "b", "b\n a\nb"),
        (r"\Aa\z|(?m:\Ab\z)", "a b", "a\nb a\n"),
        // Groups, also those of one name.
        ("^(?P<1>a)(?P<1>b)(?<_x>c)()$", "abc", "ab"),
        ("^(|a)(?:)$|q", "a q", "b"),
    ] {
        let regex = regex(text);
        for word in found.split(' ').filter(|word| !word.is_empty()) {
            assert!(regex.is_match(word), "{text} in {word:?}");
        }
        for word in other.split(' ').filter(|word| !word.is_empty()) {
            assert!(!regex.is_match(word), "{text} not in {word:?}");
        }
    }
}

#[test]
fn refuses_what_re2_refuses() {
    // PLC-023
    for (why, texts) in [
        ("repeats a repetition", "a++ a** a*+ a??? a{1}* x{2}{3}{4} (a)*?+ ^** [a]+{2}"),
        ("has nothing before it", "* (+) a|? {2} (?i)* (?i:*) \\Q\\E*"),
        (
            "1000 times",
            "x{1001} x{1001,} x{0,1001} (x{100}){100} ((x{10})*y{2}){101} (x*){9999999999} ((x{0}){1000}){2}",
        ),
        ("ends before it begins", "a{2,1} [z-a] [a--b] [a-[:alpha:]]"),
        ("is no group", "(?x)a (?u)a (?R)a (?=a) (?#a) (?-)a (?i-)a (?i-i-s)a (?P=n) (? (?i"),
        ("needs a name", "(?P<n-m>a) (?P<é>a) (?P<>a) (?P<n (?<=a) (?<!a)"),
        ("is no escape", r"\u0041 \Z \C \K \e \E \é \1 \18 \8 [\b] [\A] [\Qa] [a-\d]"),
        ("is no character", r"\x \x4 \x{} \x{110000} \x{+1} \x{41 \x4é"),
        ("names no class", "[[:foo:]] [[::]] [a[:]b:]] [[:Alpha:]]"),
        ("names no category", r"\p \p{ \p{é \p{} \pé \p{^} \p{^^L} \p{Script=Latin} \p{L&} \p{Grek} \p{Unknown}"),
        ("has no `]`", r"[ [a [] [^] [a- [a\] [[:alpha:]"),
        ("`)`", "( ) (a (a)) (?:"),
        ("nothing to escape", "\\ a\\ [\\"),
    ] {
        for text in texts.split(' ') {
            let refused = translate(text).expect_err(text);
            assert!(refused.contains(why), "{text}: {refused}");
        }
    }
}

/// An expression, to be written and to be matched.
#[derive(Clone, Debug)]
enum Tree {
    Char(char, u8),
    Set(Vec<char>, bool),
    Or(Vec<Tree>),
    Then(Vec<Tree>),
    Times(Box<Tree>, usize, usize),
}

/// All have a meaning somewhere in the syntax of one of the two.
const SIGNS: &str = "ab[]&-~^$|(){}?*+.\\#é";

fn sign() -> impl Strategy<Value = char> {
    prop::sample::select(SIGNS.chars().collect::<Vec<_>>())
}

fn tree() -> impl Strategy<Value = Tree> {
    let set = (prop::collection::vec(sign(), 1..5), any::<bool>()).prop_map(|(set, not)| Tree::Set(set, not));
    prop_oneof![(sign(), 0..5u8).prop_map(|(c, how)| Tree::Char(c, how)), set].prop_recursive(4, 16, 3, |inner| {
        let list = prop::collection::vec(inner.clone(), 1..4);
        let times = (inner, 0..3usize, 0..3usize);
        prop_oneof![
            list.clone().prop_map(Tree::Or),
            list.prop_map(Tree::Then),
            times.prop_map(|(of, least, more)| Tree::Times(Box::new(of), least, least + more)),
        ]
    })
}

impl Tree {
    fn text(&self) -> String {
        let join = |list: &[Tree], by: &str| list.iter().map(Tree::text).collect::<Vec<_>>().join(by);
        match self {
            Tree::Char(c, 0) => format!("\\Q{c}\\E"),
            Tree::Char(c, 1) => format!("\\x{{{:x}}}", u32::from(*c)),
            Tree::Char(c, 2) => format!("\\{:03o}", u32::from(*c)),
            Tree::Char(c, 3) => format!("(?P<c>[{c}])").replace("[^]", "\\^").replace("[\\]", "\\\\"),
            Tree::Char(c, _) => regex::escape(&c.to_string()),
            Tree::Set(set, not) => {
                // Where they stand they need no escape: `]` first, `-` last, `^` not first.
                let mut set: Vec<_> =
                    set.iter().map(|c| if *c == '\\' { "\\\\".to_owned() } else { c.to_string() }).collect();
                set.sort_by_key(|c| (c != "]", c == "-", c == "^"));
                set.dedup();
                match (set[0].as_str(), *not) {
                    ("^" | "-", false) => format!("[\\{}]", set.join("")),
                    (_, not) => format!("[{}{}]", if not { "^" } else { "" }, set.join("")),
                }
            }
            Tree::Or(list) => format!("({})", join(list, "|")),
            Tree::Then(list) => join(list, ""),
            Tree::Times(of, 0, 1) => format!("(?:{})?", of.text()),
            Tree::Times(of, least, most) => format!("(?i-i:{}){{{least},{most}}}", of.text()),
        }
    }

    /// Where it may end in `text`, which is from `at` on.
    fn ends(&self, text: &[char], at: usize) -> Vec<usize> {
        let after = |ends: Vec<usize>, of: &Tree| {
            let mut next: Vec<_> = ends.iter().flat_map(|at| of.ends(text, *at)).collect();
            next.sort_unstable();
            next.dedup();
            next
        };
        match self {
            Tree::Char(c, _) => text.get(at).filter(|found| *found == c).map(|_| at + 1).into_iter().collect(),
            Tree::Set(set, not) => {
                text.get(at).filter(|c| set.contains(c) != *not).map(|_| at + 1).into_iter().collect()
            }
            Tree::Or(list) => list.iter().flat_map(|of| of.ends(text, at)).collect(),
            Tree::Then(list) => list.iter().fold(vec![at], after),
            Tree::Times(of, least, most) => {
                let mut ends = (0..*least).fold(vec![at], |ends, _| after(ends, of));
                let mut all = ends.clone();
                for _ in *least..*most {
                    ends = after(ends, of);
                    all.extend(&ends);
                }
                all
            }
        }
    }
}

proptest! {
    #[test]
    fn agrees_with_a_plain_matcher(tree in tree(), words in prop::collection::vec(prop::collection::vec(sign(), 0..6), 1..20)) {
        let text = format!("^{}$", tree.text());
        let regex = regex(&text);
        for word in words {
            let found = tree.ends(&word, 0).contains(&word.len());
            let word: String = word.into_iter().collect();
            prop_assert_eq!(regex.is_match(&word), found, "{} in {}", &text, word);
        }
    }

    #[test]
    fn reads_any_text(parts in prop::collection::vec(prop_oneof![
        sign().prop_map(String::from),
        prop::sample::select(vec!["(?", "(?i", "(?P<", "[:", ":]", "[^", "\\Q", "\\E", "\\x{", "\\p{", "\\pL", "{2,", "12", "<", ">", "!", ",", ":", "\\0"])
            .prop_map(String::from),
        any::<char>().prop_map(String::from),
    ], 0..12)) {
        // What is accepted is one for the crate, but for scripts that nobody has.
        let text = parts.concat();
        if let Ok(translated) = translate(&text) {
            let read = Regex::new(&translated);
            prop_assert!(read.is_ok() || translated.contains("{sc="), "{} as {}: {:?}", text, translated, read);
        }
    }
}
