//! What holds of any bytes: the fuzz targets and `tests/arbitrary_bytes.rs` both check it.

use callboard::{
    domain::{
        Partition,
        hostlist::HostList,
        idset::IdSet,
        log::{Beginning, Reader, Writer},
        resources::Types,
    },
    store::eventlog::{Record, scan},
};

/// Names that are looked at in a list, which may be of billions.
const LOOK: usize = 10_000;

/// RFC 22: a text is refused, or what it says is written in one way that says the same.
pub fn idset(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let Ok(set) = IdSet::parse(text) else { return };
    let written = set.to_string();
    let again = IdSet::parse(&written).expect("what is written is read");
    assert_eq!(again, set);
    assert_eq!(again.to_string(), written);
    assert_eq!(set.iter().take(LOOK).count() as u64, set.len().min(LOOK as u64));
    let mut last = None;
    for id in set.iter().take(LOOK) {
        assert!(set.contains(id) && last.is_none_or(|last| last < id), "ids come once, in order");
        last = Some(id);
    }
    let empty = IdSet::new();
    assert_eq!(set.union(&empty), set);
    assert_eq!(set.difference(&set), empty);
    assert_eq!(set.intersection(&set), set);
}

/// RFC 29: a text is refused, or what is written of it says the same.
pub fn hostlist(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let Ok(list) = HostList::parse(text) else { return };
    let written = list.to_string();
    let again = HostList::parse(&written).expect("what is written is read");
    assert_eq!(again.len(), list.len());
    assert!(again.iter().take(LOOK).eq(list.iter().take(LOOK)));
    assert_eq!(list.iter().take(LOOK).count() as u64, list.len().min(LOOK as u64));
}

/// RFC 18: every line is an event or a fault with its number, and a torn end is left out.
pub fn eventlog(bytes: &[u8]) {
    let mut last = 0;
    let whole = scan(bytes, |line, record: Result<Record, String>| {
        assert!(line > last, "lines come in order");
        last = line;
        if let Ok(record) = record {
            let again = Record::parse(record.json.as_bytes()).expect("what is written is read");
            assert_eq!((again.json, again.name), (record.json.clone(), record.name.clone()));
            // What the journal makes of it, or why nothing.
            let _ = record.past();
        }
    })
    .expect("memory can be read");
    let end = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    assert_eq!(whole, end as u64);
}

/// Steps of a log are read, or refused with the place; what was read is written and reads again as it is. No bytes that a partition
/// did not write are one.
pub fn record(bytes: &[u8]) {
    let types = Types::default();
    let (mut writer, mut steps) = (Writer::new(), 0);
    for step in Reader::new(bytes, &types) {
        match step {
            Ok(step) => {
                writer.step(&step);
                steps += 1;
            }
            Err(error) => assert!(error.at <= bytes.len() && !error.what.is_empty(), "{error}"),
        }
    }
    let again = Reader::new(writer.bytes(), &types).map(|step| step.expect("what is written is read"));
    assert_eq!(again.count(), steps);
    let _ = Beginning::decode(bytes, &types);
    assert!(Partition::load(bytes, &types).is_err());
}
