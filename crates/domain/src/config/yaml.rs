//! YAML text to a tree that knows where each part stands. The only place that names the YAML library.

use std::{
    borrow::Cow,
    collections::{HashMap, HashSet},
    sync::Arc,
};

use saphyr_parser::{Event, Marker, Parser, ScalarStyle, Tag};

/// Deeper nesting is refused, so that walking the tree cannot exhaust the stack. The deepest queue that is allowed takes 135.
const MAX_DEPTH: usize = 160;
/// Parts of a text: keys, values, lists and maps. A queue has ten to thirty.
pub const MAX_PARTS: usize = 300_000;
/// Parts that aliases may add by standing for others.
const MAX_ALIASED: usize = 100_000;
/// And the bytes of their texts.
const MAX_ALIASED_BYTES: usize = 1 << 20;

/// Where something stands in the text; lines and columns count from 1, 0 means nowhere.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct At {
    /// Line in the file, from 1 on.
    pub line: usize,
    /// Column, in characters.
    pub column: usize,
}

impl From<Marker> for At {
    fn from(marker: Marker) -> Self {
        At { line: marker.line(), column: marker.col() + 1 }
    }
}

/// One part of the text.
#[derive(Debug)]
pub struct Node {
    /// Where it begins.
    pub at: At,
    /// What it is.
    pub value: Value,
    /// Number of parts in it, itself included.
    size: usize,
    /// Bytes of the texts in it.
    bytes: usize,
}

impl Node {
    /// It is not nothing, as an entry of a list may be.
    pub fn is_there(&self) -> bool {
        !matches!(self.value, Value::Scalar(_, Kind::Null))
    }
}

/// A key and its value.
pub type Pair = (Arc<Node>, Arc<Node>);

/// See [`Node`].
#[derive(Debug)]
pub enum Value {
    /// A single value as written, and what it is taken for.
    Scalar(String, Kind),
    /// A list.
    List(Vec<Arc<Node>>),
    /// Keys and values in the order of the text.
    Map(Vec<Pair>),
}

/// What a single value is, by its looks and its tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The value `null`, in any of the ways that YAML has for it.
    Null,
    /// `true` or `false`.
    Bool,
    /// A whole number.
    Int,
    /// Another number.
    Float,
    /// Any other value, and whatever is in quotes.
    Text,
    /// `<<` without quotes: as a key it brings in other maps.
    Merge,
}

impl Value {
    /// Short name of the YAML type, as messages show it.
    pub fn tag(&self) -> &'static str {
        match self {
            Value::Scalar(_, Kind::Null) => "!!null",
            Value::Scalar(_, Kind::Bool) => "!!bool",
            Value::Scalar(_, Kind::Int) => "!!int",
            Value::Scalar(_, Kind::Float) => "!!float",
            Value::Scalar(_, Kind::Text) => "!!str",
            Value::Scalar(_, Kind::Merge) => "!!merge",
            Value::List(_) => "!!seq",
            Value::Map(_) => "!!map",
        }
    }
}

/// Why a text is not YAML: the message and where.
#[derive(Clone, Debug)]
pub struct SyntaxError {
    /// Where in the file it stands.
    pub at: At,
    /// What is wrong.
    pub message: String,
}

fn error<T>(at: impl Into<At>, message: impl Into<String>) -> Result<T, SyntaxError> {
    Err(SyntaxError { at: at.into(), message: message.into() })
}

/// Reads the first document of a text (CFG-004); `None` where there is none (CFG-003).
pub fn read(text: &str) -> Result<Option<Arc<Node>>, SyntaxError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let Some(content) = without_first_comments(text) else { return Ok(None) };
    // The parser keeps all that stands between one bracket and its end before it tells the first of it: a few hundred bytes for each.
    if content.bytes().filter(|byte| matches!(byte, b',' | b'[' | b'{' | b'\n')).count() > MAX_PARTS {
        return error(
            At::default(),
            format!("more than {MAX_PARTS} lines, commas and opening brackets, those in comments among them"),
        );
    }
    if let Some(at) = indented_by_tab(text) {
        return error(at, "found character that cannot start any token: a tab is no indentation");
    }
    let text = &*without_tabs(text);
    let mut parser = Parser::new_from_str(text);
    let mut tree = Tree::default();
    loop {
        let (event, span) = match parser.next_event() {
            None => return Ok(None),
            Some(Ok(event)) => event,
            Some(Err(e)) => return error(*e.marker(), e.info()),
        };
        let at = At::from(span.start);
        match event {
            Event::Nothing | Event::StreamStart | Event::DocumentStart(_) => {}
            Event::StreamEnd => return Ok(None),
            Event::DocumentEnd => {
                let ended = text.lines().nth(at.line.saturating_sub(1)).is_some_and(|line| line.starts_with("..."));
                return match parser.next_event() {
                    Some(Ok((Event::DocumentStart(false), span))) if !ended => {
                        error(span.start, "did not find expected <document start>")
                    }
                    Some(Err(e)) if !ended => error(*e.marker(), e.info()),
                    // Nobody reads a second document, nor what is wrong with it.
                    _ => Ok(tree.document),
                };
            }
            Event::Alias(anchor) => tree.alias(anchor, at)?,
            Event::Scalar(text, style, anchor, tag) => {
                let kind = kind(&text, style, tag.as_deref());
                let bytes = text.len();
                tree.add(Node { at, value: Value::Scalar(text.into_owned(), kind), size: 1, bytes }, anchor)?;
            }
            Event::SequenceStart(anchor, _) => tree.open(at, anchor, false)?,
            Event::MappingStart(anchor, _) => tree.open(at, anchor, true)?,
            Event::SequenceEnd | Event::MappingEnd => tree.close()?,
        }
    }
}

/// Where something stands behind the first document of a text: nobody reads it (CFG-004).
pub fn behind_first_document(text: &str) -> Option<At> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let (mut begun, mut over) = (false, false);
    for (number, line) in text.lines().enumerate() {
        let mark = |mark: &str| line.strip_prefix(mark).filter(|rest| rest.is_empty() || rest.starts_with([' ', '\t']));
        let (begins, ends) = (mark("---"), mark("..."));
        over |= begun && (begins.is_some() || ends.is_some());
        begun |= begins.is_some();
        let written = begins.or(ends).unwrap_or(line).trim_start_matches([' ', '\t']);
        if written.is_empty() || written.starts_with('#') || line.starts_with('%') && (over || !begun) {
            continue;
        }
        if over {
            return Some(At { line: number + 1, column: line[..line.len() - written.len()].chars().count() + 1 });
        }
        begun = true;
    }
    None
}

/// The text from the first line on that is not blank and no comment.
fn without_first_comments(text: &str) -> Option<&str> {
    let mut lines = text.split_inclusive(['\n', '\r']);
    let mut rest = text;
    loop {
        let line = lines.next()?;
        let written = line.trim_matches([' ', '\t', '\n', '\r']);
        if !written.is_empty() && !written.starts_with('#') {
            return Some(rest);
        }
        rest = &rest[line.len()..];
    }
}

/// Where the first line with something on it begins with a tab. The parser takes the rest for another document then.
fn indented_by_tab(text: &str) -> Option<At> {
    let (number, line) = text.lines().enumerate().find(|(_, line)| {
        let line = line.trim_start_matches([' ', '\t']);
        !line.is_empty() && !line.starts_with(['#', '%'])
    })?;
    let tab = line.find('\t').filter(|tab| line[..*tab].bytes().all(|byte| byte == b' '))?;
    Some(At { line: number + 1, column: tab + 1 })
}

/// The text with spaces for the tabs that stand between a key and its value, and before lines within brackets: YAML has them there,
/// the parser has not. Nothing else moves.
fn without_tabs(text: &str) -> Cow<'_, str> {
    if !text.contains(":\t") && !text.contains("\n\t") {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    // The quote or comment that is open, brackets that are, what came last but for spaces, and whether only spaces came since.
    let (mut within, mut depth, mut last, mut spaces) = (None, 0_usize, '\n', true);
    let mut escaped = false;
    for char in text.chars() {
        let mut char = char;
        match within {
            Some('#') if char == '\n' => within = None,
            Some('"') if escaped => escaped = false,
            Some('"') if char == '\\' => escaped = true,
            Some(quote) if quote == char => within = None,
            Some(_) => {}
            None => {
                let begins = spaces || matches!(last, '[' | '{' | ',');
                match char {
                    '\t' if last == ':' || depth > 0 && last == '\n' => char = ' ',
                    '"' | '\'' if begins => within = Some(char),
                    '#' if spaces => within = Some('#'),
                    '[' | '{' if begins || depth > 0 => depth += 1,
                    ']' | '}' => depth = depth.saturating_sub(1),
                    _ => {}
                }
            }
        }
        spaces = matches!(char, ' ' | '\t' | '\n');
        if !matches!(char, ' ' | '\t') {
            last = char;
        }
        out.push(char);
    }
    Cow::Owned(out)
}

/// A list or map that is being read.
struct Open {
    at: At,
    anchor: usize,
    map: bool,
    parts: Vec<Arc<Node>>,
}

#[derive(Default)]
struct Tree {
    open: Vec<Open>,
    anchors: HashMap<usize, Arc<Node>>,
    parts: usize,
    aliased: usize,
    aliased_bytes: usize,
    document: Option<Arc<Node>>,
}

impl Tree {
    fn open(&mut self, at: At, anchor: usize, map: bool) -> Result<(), SyntaxError> {
        if self.open.len() == MAX_DEPTH {
            return error(at, format!("nested deeper than {MAX_DEPTH} levels"));
        }
        self.open.push(Open { at, anchor, map, parts: Vec::new() });
        Ok(())
    }

    fn close(&mut self) -> Result<(), SyntaxError> {
        let Some(Open { at, anchor, map, parts }) = self.open.pop() else {
            return error(At::default(), "unbalanced end");
        };
        let size = 1 + parts.iter().map(|part| part.size).sum::<usize>();
        let bytes = parts.iter().map(|part| part.bytes).sum();
        let value = if map { Value::Map(pairs(parts)?) } else { Value::List(parts) };
        self.add(Node { at, value, size, bytes }, anchor)
    }

    fn add(&mut self, node: Node, anchor: usize) -> Result<(), SyntaxError> {
        self.parts += 1;
        if self.parts > MAX_PARTS {
            return error(node.at, format!("more than {MAX_PARTS} keys, values, lists and maps"));
        }
        let node = Arc::new(node);
        if anchor != 0 {
            self.anchors.insert(anchor, node.clone());
        }
        self.place(node);
        Ok(())
    }

    fn place(&mut self, node: Arc<Node>) {
        match self.open.last_mut() {
            Some(open) => open.parts.push(node),
            None => self.document = Some(node),
        }
    }

    fn alias(&mut self, anchor: usize, at: At) -> Result<(), SyntaxError> {
        let Some(node) = self.anchors.get(&anchor).cloned() else {
            return error(at, "anchor value contains itself");
        };
        self.aliased += node.size;
        self.aliased_bytes += node.bytes;
        if self.aliased > MAX_ALIASED || self.aliased_bytes > MAX_ALIASED_BYTES {
            return error(at, "document contains excessive aliasing");
        }
        self.place(node);
        Ok(())
    }
}

/// Pairs of keys and values, with what `<<` brings in put in place; own keys win over it.
fn pairs(parts: Vec<Arc<Node>>) -> Result<Vec<Pair>, SyntaxError> {
    let (mut pairs, mut merged) = (Vec::with_capacity(parts.len() / 2), Vec::new());
    let mut parts = parts.into_iter();
    while let (Some(key), Some(value)) = (parts.next(), parts.next()) {
        match &key.value {
            Value::Scalar(_, Kind::Merge) => merged.push(value),
            _ => pairs.push((key, value)),
        }
    }
    let mut own: HashSet<String> = match merged.is_empty() {
        true => HashSet::new(),
        false => pairs.iter().filter_map(|(key, _)| key.text().map(str::to_owned)).collect(),
    };
    for source in merged {
        match &source.value {
            Value::Map(more) => merge(&mut pairs, more, &mut own),
            Value::List(sources) => {
                for source in sources {
                    match &source.value {
                        Value::Map(more) => merge(&mut pairs, more, &mut own),
                        _ => return error(source.at, "map merge requires map or sequence of maps as the value"),
                    }
                }
            }
            Value::Scalar(..) => return error(source.at, "map merge requires map or sequence of maps as the value"),
        }
    }
    Ok(pairs)
}

fn merge(pairs: &mut Vec<Pair>, more: &[Pair], own: &mut HashSet<String>) {
    for (key, value) in more {
        if key.text().is_none_or(|key| own.insert(key.to_owned())) {
            pairs.push((key.clone(), value.clone()));
        }
    }
}

impl Node {
    fn text(&self) -> Option<&str> {
        match &self.value {
            Value::Scalar(text, _) => Some(text),
            _ => None,
        }
    }
}

fn kind(text: &str, style: ScalarStyle, tag: Option<&Tag>) -> Kind {
    match tag.filter(|tag| tag.is_yaml_core_schema()).map(|tag| tag.suffix.as_str()) {
        Some("null") => Kind::Null,
        Some("bool") => Kind::Bool,
        Some("int") => Kind::Int,
        Some("float") => Kind::Float,
        None if style == ScalarStyle::Plain => plain(text),
        _ => Kind::Text,
    }
}

/// What a value without quotes is taken for.
pub fn plain(text: &str) -> Kind {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => Kind::Null,
        "<<" => Kind::Merge,
        "true" | "True" | "TRUE" | "false" | "False" | "FALSE" => Kind::Bool,
        _ if integer(text).is_some() => Kind::Int,
        _ if float(text).is_some() => Kind::Float,
        _ => Kind::Text,
    }
}

/// Decimal, `0x`, `0o`, `0b` or with a leading 0 octal; `_` between digits.
pub fn integer(text: &str) -> Option<i128> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if !digits.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    let (radix, digits) = match digits.get(..2) {
        Some("0x" | "0X") => (16, &digits[2..]),
        Some("0o" | "0O") => (8, &digits[2..]),
        Some("0b" | "0B") => (2, &digits[2..]),
        Some(zero) if zero.starts_with('0') => (8, &digits[1..]),
        _ => (10, digits),
    };
    let number = i128::from_str_radix(&digits.replace('_', ""), radix).ok().filter(|number| *number >= 0)?;
    Some(if negative { -number } else { number })
}

/// A number with a fraction or an exponent, or one of the names of infinity and not-a-number.
pub fn float(text: &str) -> Option<f64> {
    let (sign, rest) = match text.strip_prefix('-') {
        Some(rest) => (-1.0, rest),
        None => (1.0, text.strip_prefix('+').unwrap_or(text)),
    };
    match rest {
        ".inf" | ".Inf" | ".INF" => return Some(sign * f64::INFINITY),
        ".nan" | ".NaN" | ".NAN" if rest.len() == text.len() => return Some(f64::NAN),
        _ => {}
    }
    let digits = rest.bytes().filter(u8::is_ascii_digit).count();
    let plausible = rest.bytes().all(|b| b.is_ascii_digit() || b"._eE+-".contains(&b));
    if digits == 0 || !plausible || !rest.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
        return None;
    }
    rest.replace('_', "").parse::<f64>().ok().map(|number| sign * number)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(text: &str) -> Vec<(String, String)> {
        let node = read(text).unwrap().unwrap();
        let scalar = |node: &Node| match &node.value {
            Value::Scalar(text, _) => text.clone(),
            other => other.tag().to_owned(),
        };
        match &node.value {
            Value::Map(pairs) => pairs.iter().map(|(key, value)| (scalar(key), scalar(value))).collect(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn positions() {
        let node = read("# comment\na:\n  - b: 1\n    c: [x, 'y']\n").unwrap().unwrap();
        let Value::Map(pairs) = &node.value else { panic!() };
        assert_eq!((pairs[0].0.at.line, pairs[0].0.at.column), (2, 1));
        let Value::List(items) = &pairs[0].1.value else { panic!() };
        let Value::Map(pairs) = &items[0].value else { panic!() };
        assert_eq!(items[0].at, At { line: 3, column: 5 });
        assert_eq!(pairs[1].0.at, At { line: 4, column: 5 });
        let Value::List(items) = &pairs[1].1.value else { panic!() };
        assert_eq!(items[1].at, At { line: 4, column: 12 });
    }

    #[test]
    fn no_document() {
        // CFG-003
        for text in ["\n", "# only a comment", "  \n# c\n\n", "\u{feff}"] {
            assert!(read(text).unwrap().is_none(), "{text:?}");
        }
    }

    #[test]
    fn first_document_only() {
        // CFG-004
        for text in ["a: 1\n---\nb: 2", "---\na: 1\n---\n[ broken", "a: 1\n...\n---\n{"] {
            assert_eq!(map(text), [("a".to_owned(), "1".to_owned())], "{text:?}");
        }
    }

    #[test]
    fn syntax_errors() {
        let refused = read("partitions:\n  - name: default\n   queues: [\n").unwrap_err();
        assert!(refused.at.line >= 2, "{refused:?}");
        for text in ["a: [", "a: *", "a: 'x", "a: b: c", "a:\n\tb: 1", "a: *missing", "}"] {
            assert!(read(text).is_err(), "{text:?}");
        }
        assert!(read(&"[".repeat(100_000)).is_err());
        assert!(read(&"- ".repeat(100_000)).is_err());
    }

    #[test]
    fn tabs() {
        // CFG-005: what a tab hides is never dropped without a word.
        let good = "partitions:\n- name: default\n";
        for wrong in [format!("\t{good}"), format!("# c\n\n \t{good}"), format!("\t{good}  limits: [\n")] {
            let refused = read(&wrong).unwrap_err();
            assert!(refused.message.contains("cannot start any token"), "{wrong:?}: {refused:?}");
        }
        for (text, value) in [
            ("a:\t10", "10"),
            ("a: \t 10", "10"),
            ("'a':\t10", "10"),
            ("{a:\t10}", "10"),
            ("{a:\n\t10\n\t}", "10"),
            ("a: 'b:\tc'", "b:\tc"),
            ("a: \"b\\\":\tc\"", "b\":\tc"),
            ("a: b # c:\td", "b"),
        ] {
            assert_eq!(map(text), [("a".to_owned(), value.to_owned())], "{text:?}");
        }
    }

    #[test]
    fn nothing_behind_the_first_document_is_dropped_without_a_word() {
        for wrong in ["{a: b} c: d\n", "{a: b}\nc: d\n", "[]\na: b\n"] {
            assert!(read(wrong).is_err(), "{wrong:?}");
        }
        for good in ["a: b\n---\nc: [", "a: b\n...\nc: [", "a: b\n...\n", "{a: b}\n# c\n", "--- {a: b}\n--- x\n"] {
            assert!(read(good).unwrap().is_some(), "{good:?}");
        }
    }

    #[test]
    fn a_text_has_so_many_parts() {
        let list = |parts: usize| format!("[{}]", "a,".repeat(parts));
        assert!(read(&list(MAX_PARTS - 1)).is_ok());
        let refused = read(&list(MAX_PARTS)).unwrap_err();
        let told = "more than 300000 lines, commas and opening brackets, those in comments among them";
        assert_eq!(refused.message, told);
        let refused = read(&"a: b\n".repeat(MAX_PARTS)).unwrap_err();
        assert_eq!(refused.message, "more than 300000 keys, values, lists and maps");
        // Comments before them are none.
        let comments = "# a, [b], {c}\r\n\n \t# d\n".repeat(MAX_PARTS);
        assert!(read(&comments).unwrap().is_none());
        assert!(read(&format!("{comments}a: b")).unwrap().is_some());
        assert!(read(&format!("# a\r{}", list(MAX_PARTS))).is_err());
    }

    #[test]
    fn many_keys_are_merged_in_no_time() {
        let keys = |from: usize| (from..from + 20_000).map(|n| format!("k{n}: 1,")).collect::<String>();
        let text = format!("a: &a {{{}}}\nb: {{<<: *a, {}}}", keys(0), keys(10_000));
        let begun = std::time::Instant::now();
        let node = read(&text).unwrap().unwrap();
        let Value::Map(pairs) = &node.value else { panic!() };
        let Value::Map(merged) = &pairs[1].1.value else { panic!() };
        assert_eq!(merged.len(), 30_000);
        // One look per pair would be 6·10⁸ of them.
        assert!(begun.elapsed().as_secs() < 5, "{:?}", begun.elapsed());
    }

    #[test]
    fn kinds() {
        for (text, kind) in [
            ("~", Kind::Null),
            ("", Kind::Null),
            ("true", Kind::Bool),
            ("yes", Kind::Text),
            ("10", Kind::Int),
            ("-1", Kind::Int),
            ("0x1F", Kind::Int),
            ("0b2", Kind::Text),
            ("1_000", Kind::Int),
            ("1.5", Kind::Float),
            ("1e3", Kind::Float),
            (".5", Kind::Float),
            (".inf", Kind::Float),
            ("-", Kind::Text),
            ("1.2.3", Kind::Text),
            ("10G", Kind::Text),
            ("infinity", Kind::Text),
        ] {
            assert_eq!(plain(text), kind, "{text:?}");
        }
        let node = read("[!!str 10, '10', !!int '10', \"~\"]").unwrap().unwrap();
        let Value::List(items) = &node.value else { panic!() };
        assert_eq!(items.iter().map(|n| n.value.tag()).collect::<Vec<_>>(), ["!!str", "!!str", "!!int", "!!str"]);
        assert_eq!((integer("010"), integer("0o10"), integer("+7"), integer("--7")), (Some(8), Some(8), Some(7), None));
    }

    #[test]
    fn aliases_and_merges() {
        assert_eq!(map("a: &x 1\nb: *x"), [("a".into(), "1".into()), ("b".into(), "1".into())]);
        let node = read("base: &b {x: 1, y: 2}\nuse: {<<: *b, y: 3}").unwrap().unwrap();
        let Value::Map(pairs) = &node.value else { panic!() };
        let Value::Map(used) = &pairs[1].1.value else { panic!() };
        assert_eq!(used.len(), 2);
        assert!(read("a: &x [*x]").unwrap_err().message.contains("contains itself"));
        assert!(read("a: &a {x: 1}\nb: {<<: 1}").is_err());
        assert_eq!(map("'<<': 1"), [("<<".into(), "1".into())]);
        let mut bomb = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
        for level in 1..10 {
            let many = vec![format!("*a{}", level - 1); 10].join(", ");
            bomb += &format!("a{level}: &a{level} [{many}]\n");
        }
        assert!(read(&bomb).unwrap_err().message.contains("excessive aliasing"));
        // A long text counts by its bytes.
        let long = format!("a: &a {}\nb: [{}]", "x".repeat(10_000), "*a,".repeat(1_000));
        assert!(read(&long).unwrap_err().message.contains("excessive aliasing"));
    }
}
