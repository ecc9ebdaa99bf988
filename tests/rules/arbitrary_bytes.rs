//! What holds of any bytes, with bytes at random and with texts that look right. `fuzz/` looks further, with `cargo fuzz run`.

use proptest::prelude::*;

#[path = "../../fuzz/src/lib.rs"]
mod properties;

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn bytes(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
        properties::idset(&bytes);
        properties::hostlist(&bytes);
        properties::eventlog(&bytes);
        properties::record(&bytes);
    }

    // Bytes that look like the heads of lists, maps and variants of CBOR, with a few numbers and texts.
    #[test]
    fn almost_records(pieces in prop::collection::vec(
        prop_oneof![
            prop::sample::select(vec![&[0x00][..], &[0x82, 0x01], &[0x82, 0x02, 0x18, 0x40], &[0xbf], &[0xff], &[0xf6], &[0xf5]]),
            prop::sample::select(vec![&[0x81][..], &[0x82, 0x01, 0x81], &[0x83, 0x02], &[0x83, 0x03], &[0x80], &[0xa1], &[0x01, 0x61, 0x61]]),
            prop::sample::select(vec![&[0x65, 0x61, 0x70, 0x70, 0x2d, 0x31][..], &[0x9b, 0xff], &[0x1b, 0x7f], &[0x50], &[0x02], &[0x0b]]),
        ],
        0..24,
    )) {
        properties::record(&pieces.concat());
    }

    // RFC 22
    #[test]
    fn almost_idsets(text in "(\\[)?([0-9]{1,11}(-[0-9]{1,11})?[, -]{0,2}){0,6}(\\])?") {
        properties::idset(text.as_bytes());
    }

    // RFC 29
    #[test]
    fn almost_hostlists(text in "([a-z0-9.-]{0,4}(\\[[0-9]{1,4}(-[0-9]{1,5})?(,[0-9]{1,3})?\\]?)?[a-z]{0,2},?){0,5}") {
        properties::hostlist(text.as_bytes());
    }

    // RFC 18
    #[test]
    fn almost_eventlogs(
        lines in prop::collection::vec(
            (
                prop_oneof!["[0-9]{1,12}(\\.[0-9]{1,9})?", Just("-1".to_owned()), "[0-9]e[0-9]{1,3}", Just("\"1\"".to_owned())],
                "(restart|resource-define|drain|undrain|online|resource-update|[a-z\\\\\"]{0,4})",
                "(\\{(\"(idset|nodelist|reason|overwrite)\":(\"[0-9a-z,-]{0,6}\"|[0-9-]{1,3}),?){0,4}\\}|[0-9]|null|)",
                "[\\n }x]{0,2}",
            ),
            0..6,
        ),
    ) {
        let mut text = String::new();
        for (time, name, context, end) in lines {
            let context = if context.is_empty() { context } else { format!(",\"context\":{context}") };
            text.push_str(&format!("{{\"timestamp\":{time},\"name\":\"{name}\"{context}}}{end}\n"));
        }
        properties::eventlog(text.as_bytes());
        properties::eventlog(&text.as_bytes()[..text.len() / 2]);
    }
}
