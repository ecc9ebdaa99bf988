use proptest::{collection::vec, prelude::*};

use super::*;

/// What a reader that has everything up to `after` would be given.
fn after(buffer: &Buffer, after: u64, kind: Option<Kind>, entries: usize) -> Vec<u64> {
    seqs(&buffer.read(&mut buffer.cursor(after), kind, of(entries)))
}

/// So many entries.
fn of(entries: usize) -> Size {
    Size { entries, bytes: usize::MAX }
}

fn nodes(n: usize) -> Payload {
    Payload::Nodes { accepted: (0..n).map(|n| format!("n{n}").into()).collect(), rejected: vec![] }
}

fn apps(n: usize) -> Payload {
    Payload::Applications { accepted: (0..n).map(|n| format!("a{n}").into()).collect(), rejected: vec![] }
}

fn push(buffer: &mut Buffer, payload: Payload) -> u64 {
    buffer.push("[rm]default".into(), payload)
}

fn seqs(lines: &[Arc<Line>]) -> Vec<u64> {
    lines.iter().map(|line| line.seq).collect()
}

const BOUNDS: Bounds = Bounds { entries: 10, bytes: 1 << 20 };

#[test]
fn numbers_are_dense_from_one() {
    let mut buffer = Buffer::default();
    assert_eq!(buffer.last(), 0);
    assert_eq!([push(&mut buffer, nodes(1)), push(&mut buffer, apps(2))], [1, 2]);
    assert_eq!(after(&buffer, 0, None, 100), [1, 2]);
    assert_eq!(after(&buffer, 1, None, 100), [2]);
    assert_eq!(after(&buffer, 0, None, 1), [1], "one line at least, then no more than asked for");
    assert!(after(&buffer, 2, None, 100).is_empty());
}

#[test]
fn handed_lines_are_dropped_oldest_first_and_others_count_as_overflow() {
    let mut buffer = Buffer::default();
    for _ in 0..4 {
        push(&mut buffer, nodes(3));
    }
    assert!(!buffer.trim(BOUNDS, None), "12 entries wait, 10 are allowed");
    assert_eq!(buffer.hand(2, None), 6);
    assert_eq!(buffer.delivered(), 2);
    assert!(buffer.trim(BOUNDS, None));
    assert_eq!(buffer.entries(), 9, "one line is dropped, the other may still be asked for");
    assert!(buffer.can_resume(1) && !buffer.can_resume(0));
    assert_eq!(after(&buffer, 1, None, 100), [2, 3, 4]);
    assert_eq!(buffer.hand(2, None), 0, "credits come back once");
}

#[test]
fn lines_of_another_history_are_not_gone_on_from() {
    let mut buffer = Buffer::resumed(0, [], 3);
    buffer.hold_back();
    buffer.release(7);
    for _ in 0..4 {
        push(&mut buffer, nodes(1));
    }
    // Seven there are now, and nobody has had the last four.
    assert_eq!(buffer.resume(Some(3), true), Ok(3));
    let refused = buffer.resume(Some(7), true).expect_err("another seven");
    assert_eq!(refused.kind, RefusalKind::Gone);
    buffer.tell(6);
    assert_eq!(buffer.resume(Some(6), true), Ok(6));
    assert!(buffer.resume(Some(7), true).is_err());
    // Whoever has registered here may begin where it wants.
    assert_eq!(buffer.resume(Some(7), false), Ok(7));
}

#[test]
fn each_kind_has_its_own_reader() {
    let mut buffer = Buffer::default();
    for _ in 0..3 {
        push(&mut buffer, nodes(2));
        push(&mut buffer, apps(2));
    }
    assert_eq!(after(&buffer, 0, Some(Kind::Application), 100), [2, 4, 6]);
    assert_eq!(buffer.hand(4, Some(Kind::Application)), 4);
    assert_eq!(after(&buffer, 0, Some(Kind::Application), 100), [6]);
    assert_eq!(buffer.delivered(), 0, "the first line is of another kind");
    assert!(buffer.trim(BOUNDS, None));
    assert_eq!(buffer.entries(), 10, "a line was dropped behind one that waits");
    assert!(buffer.can_resume(2) && !buffer.can_resume(1));
    assert_eq!(buffer.hand(6, None), 8, "what no reader had yet");
    assert_eq!(buffer.delivered(), 6);
}

#[test]
fn bytes_are_bounded_too() {
    let mut buffer = Buffer::default();
    push(&mut buffer, nodes(1));
    assert!(!buffer.trim(Bounds { entries: 10, bytes: 10 }, None));
    buffer.hand(1, None);
    assert!(buffer.trim(Bounds { entries: 10, bytes: 10 }, None));
    assert_eq!((buffer.entries(), buffer.last(), buffer.oldest()), (0, 1, 1));
}

#[test]
fn ids_are_counted_among_the_bytes() {
    // Each may have 1,024 bytes, and belongs to nobody but the entry once its row is gone, or where there was none.
    let long: Arc<str> = "x".repeat(1_024).into();
    let none: Arc<str> = "".into();
    let rejected =
        |key: &Arc<str>, app: &Arc<str>| Rejected { key: key.clone(), app: app.clone(), reason: none.clone() };
    for (payload, ids) in [
        (Payload::RejectedAllocations(vec![rejected(&long, &long)]), 2),
        (Payload::Nodes { accepted: vec![long.clone()], rejected: vec![rejected(&long, &none)] }, 2),
        (Payload::Applications { accepted: vec![long.clone()], rejected: vec![rejected(&none, &long)] }, 2),
    ] {
        let bytes = weight(&payload);
        assert!((ids * 1_024..ids * 1_024 + 400).contains(&bytes), "{payload:?}");
    }
}

/// The same in the plainest words: every question looks at every line.
#[derive(Default)]
struct Naive {
    lines: Vec<NaiveLine>,
    dropped: u64,
}

struct NaiveLine {
    seq: u64,
    kind: Kind,
    size: Size,
    credits: usize,
    handed: bool,
    kept: bool,
}

impl Naive {
    fn push(&mut self, payload: &Payload) {
        let (seq, kind, size) = (self.lines.len() as u64 + 1, payload.kind(), Size::of(payload));
        self.lines.push(NaiveLine { seq, kind, size, credits: payload.credits(), handed: false, kept: true });
    }

    fn kept(&self) -> impl Iterator<Item = &NaiveLine> {
        self.lines.iter().filter(|line| line.kept)
    }

    fn last(&self) -> u64 {
        self.lines.len() as u64
    }

    fn read(&self, after: u64, kind: Option<Kind>, entries: usize) -> Vec<u64> {
        let wanted = |line: &&NaiveLine| line.seq > after && kind.is_none_or(|kind| kind == line.kind && !line.handed);
        let mut taken = 0;
        let lines = self.kept().filter(wanted).take_while(|line| {
            let more = taken < entries;
            taken += line.size.entries;
            more
        });
        lines.map(|line| line.seq).collect()
    }

    fn hand(&mut self, seq: u64, kind: Option<Kind>) -> usize {
        let mut credits = 0;
        for line in self.lines.iter_mut().filter(|line| line.seq <= seq && !line.handed) {
            if kind.is_none_or(|kind| kind == line.kind) {
                line.handed = true;
                credits += line.credits;
            }
        }
        credits
    }

    fn size(&self, of: impl Fn(&NaiveLine) -> bool) -> Size {
        let mut size = Size::default();
        self.kept().filter(|line| of(line)).for_each(|line| size.add(line.size));
        size
    }

    /// What a reader that has had the lines up to this one has still to read stays.
    fn trim(&mut self, bounds: Bounds, reader: Option<u64>) -> bool {
        let had = reader.unwrap_or(u64::MAX);
        while !self.size(|_| true).fits(bounds)
            && let Some(oldest) = self.lines.iter_mut().find(|line| line.kept && line.handed && line.seq <= had)
        {
            oldest.kept = false;
            self.dropped = self.dropped.max(oldest.seq);
        }
        self.size(|line| !line.handed).fits(bounds)
    }

    fn delivered(&self) -> u64 {
        self.lines.iter().find(|line| !line.handed).map_or(self.last(), |line| line.seq - 1)
    }

    fn oldest(&self) -> u64 {
        self.kept().next().map_or(self.last(), |line| line.seq - 1)
    }
}

#[test]
fn what_a_stream_that_came_back_has_still_to_read_is_not_dropped() {
    let mut buffer = Buffer::default();
    let bounds = Bounds { entries: 10, bytes: usize::MAX };
    for _ in 0..10 {
        push(&mut buffer, nodes(1));
    }
    buffer.hand(10, None);
    let mut cursor = buffer.cursor(buffer.resume(Some(3), false).expect("it is kept"));
    let mut read = seqs(&buffer.read(&mut cursor, None, of(2)));
    // A wave comes while it reads.
    for _ in 0..10 {
        push(&mut buffer, nodes(1));
        assert!(buffer.trim(bounds, Some(cursor)));
    }
    read.extend(seqs(&buffer.read(&mut cursor, None, of(100))));
    assert_eq!(read, (4..=20).collect::<Vec<_>>());
    assert!(buffer.hand(20, None) > 0 && buffer.trim(bounds, Some(cursor)));
    assert_eq!(buffer.entries(), 10);
}

#[derive(Clone, Debug)]
enum Step {
    Push(Kind, usize),
    /// A reader takes lines of about so many entries.
    Read(usize, usize),
    /// A part of what a reader was sent was handed to its socket, in hundredths.
    Hand(usize, u64),
    /// Another stream takes the place of a reader and resumes so many lines before the last.
    Resume(usize, u64),
    /// A reader of everything is there, or none.
    Trim(usize, bool),
}

/// Three plain readers and one of everything.
const READERS: [Option<Kind>; 4] = [Some(Kind::Allocation), Some(Kind::Application), Some(Kind::Node), None];

fn payload(kind: Kind, n: usize) -> Payload {
    match kind {
        Kind::Allocation => {
            let rejected = |n: usize| Rejected { key: format!("k{n}").into(), app: "a".into(), reason: "no".into() };
            Payload::RejectedAllocations((0..n).map(rejected).collect())
        }
        Kind::Application => apps(n),
        Kind::Node => nodes(n),
        Kind::Other => Payload::StateDump,
    }
}

fn step() -> impl Strategy<Value = Step> {
    let kind = prop::sample::select(&Kind::ALL[..]);
    prop_oneof![
        4 => (kind, 1..5usize).prop_map(|(kind, entries)| Step::Push(kind, entries)),
        3 => (0..4usize, 0..12usize).prop_map(|(reader, entries)| Step::Read(reader, entries)),
        3 => (0..4usize, 0..=100u64).prop_map(|(reader, part)| Step::Hand(reader, part)),
        1 => (0..4usize, 0..30u64).prop_map(|(reader, back)| Step::Resume(reader, back)),
        1 => (0..40usize, any::<bool>()).prop_map(|(entries, read)| Step::Trim(entries, read)),
    ]
}

proptest! {
    #[test]
    fn it_does_what_the_naive_one_does(steps in vec(step(), 1..300)) {
        let (mut buffer, mut naive) = (Buffer::default(), Naive::default());
        let mut cursors = [Cursor::default(); 4];
        let mut sent = [0u64; 4];
        for step in steps {
            match step {
                Step::Push(kind, entries) => {
                    naive.push(&payload(kind, entries));
                    prop_assert_eq!(push(&mut buffer, payload(kind, entries)), naive.last());
                }
                Step::Read(reader, entries) => {
                    let kind = READERS[reader];
                    prop_assert_eq!(
                        buffer.has_more(cursors[reader], kind),
                        !naive.read(sent[reader], kind, 1).is_empty()
                    );
                    let lines = seqs(&buffer.read(&mut cursors[reader], kind, of(entries)));
                    prop_assert_eq!(&lines, &naive.read(sent[reader], kind, entries));
                    sent[reader] = lines.last().copied().unwrap_or(sent[reader]);
                }
                Step::Hand(reader, part) => {
                    let (seq, kind) = (sent[reader] * part / 100, READERS[reader]);
                    prop_assert_eq!(buffer.hand(seq, kind), naive.hand(seq, kind));
                }
                Step::Resume(reader, back) => {
                    sent[reader] = buffer.last().saturating_sub(back);
                    cursors[reader] = buffer.cursor(sent[reader]);
                }
                Step::Trim(entries, read) => {
                    let bounds = Bounds { entries, bytes: entries * 180 };
                    let (cursor, had) = (read.then_some(cursors[3]), read.then_some(sent[3]));
                    prop_assert_eq!(buffer.trim(bounds, cursor), naive.trim(bounds, had));
                }
            }
            prop_assert_eq!(buffer.kept, naive.size(|_| true));
            prop_assert_eq!(buffer.waiting, naive.size(|line| !line.handed));
            prop_assert_eq!(buffer.delivered(), naive.delivered());
            prop_assert_eq!(buffer.oldest(), naive.oldest());
            for after in 0..=buffer.last() {
                prop_assert_eq!(buffer.can_resume(after), after >= naive.dropped);
            }
        }
    }
}

/// Looks at lines per line of a session, over the last thousand lines of so many: allocations are read at once, nodes by
/// a reader that is far behind, applications by nobody; or everything is read by one stream.
fn looks(age: usize, plain: bool) -> f64 {
    const MEASURED: usize = 1_000;
    let bounds = Bounds { entries: age / 2 + 2 * MEASURED, bytes: usize::MAX };
    let mut buffer = Buffer::default();
    let (mut fast, mut slow, mut all) = (Cursor::default(), Cursor::default(), Cursor::default());
    let mut before = 0;
    for n in 0..age + MEASURED {
        if n == age {
            before = buffer.looks();
        }
        push(&mut buffer, payload([Kind::Allocation, Kind::Application, Kind::Allocation, Kind::Node][n % 4], 1));
        if plain {
            let lines = buffer.read(&mut fast, Some(Kind::Allocation), of(100));
            if let Some(line) = lines.last() {
                buffer.hand(line.seq, Some(Kind::Allocation));
            }
            if n % 8 == 0
                && let Some(line) = buffer.read(&mut slow, Some(Kind::Node), of(1)).last()
            {
                buffer.hand(line.seq, Some(Kind::Node));
            }
            buffer.has_more(slow, Some(Kind::Node));
        } else if let Some(line) = buffer.read(&mut all, None, of(100)).last() {
            buffer.hand(line.seq, None);
        }
        assert!(buffer.trim(bounds, None));
        buffer.delivered();
        buffer.oldest();
    }
    (buffer.looks() - before) as f64 / MEASURED as f64
}

#[test]
fn a_line_costs_the_same_however_many_came_before_it() {
    for plain in [true, false] {
        let (young, old) = (looks(10_000, plain), looks(200_000, plain));
        assert!(old <= young * 1.1, "plain {plain}: {young} looks a line after 10,000 lines, {old} after 200,000");
        assert!(old < 50.0, "plain {plain}: {old}");
    }
}

#[test]
fn to_resume_far_back_costs_little_more_than_its_lines() {
    let mut buffer = Buffer::default();
    for n in 0..100_000 {
        push(&mut buffer, payload(Kind::ALL[n % 4], 1));
    }
    let before = buffer.looks();
    let mut cursor = buffer.cursor(50_000);
    assert_eq!(buffer.read(&mut cursor, None, of(10)).len(), 10);
    assert!(buffer.looks() - before < 200, "{}", buffer.looks() - before);
}

#[test]
fn bounds_have_room_for_what_waits_already() {
    let mut buffer = Buffer::default();
    for _ in 0..12 {
        buffer.push("p".into(), Payload::StateDump);
    }
    assert_eq!(buffer.widened(Bounds { entries: 1_000, bytes: 1 << 20 }), Bounds { entries: 1_000, bytes: 1 << 20 });
    let narrow = Bounds { entries: 1, bytes: 1 };
    assert!(!buffer.trim(narrow, None));
    assert!(buffer.trim(buffer.widened(narrow), None));
}
