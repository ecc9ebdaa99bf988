//! A numbered request of the extension, read from the wire: what it holds stays bytes, of which nothing is made before they are
//! counted.

use super::{
    decode::Malformed,
    intake::{Fault, Request},
    wire::{Fields, Value},
};

/// `callboard.v1.Request`.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Numbered<'a> {
    /// Resource manager, empty where it is not given.
    pub rm: String,
    /// Session, 0 where it is not given.
    pub epoch: u64,
    /// Its number, 0 where it has none.
    pub sequence: u64,
    /// The trace that it is part of (W3C `traceparent`), empty where none is told.
    pub trace: &'a str,
    /// What it asks for, as bytes.
    pub holds: Option<(Holds, &'a [u8])>,
}

/// What a numbered request may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holds {
    /// One of the requests that the other doors have too.
    Request(Request),
    /// `UpdateConfigurationRequest`.
    Configuration,
    /// Signs of life of nodes.
    Heartbeat,
}

impl<'a> Numbered<'a> {
    /// Reads the frame.
    ///
    /// # Errors
    /// It is no message, holds several requests, or one without a number, or a number without a request.
    pub fn read(message: &'a [u8]) -> Result<Numbered<'a>, Fault> {
        let mut read = Numbered::default();
        for field in Fields::of(message) {
            let (holds, bytes) = match field? {
                (1, Value::Bytes(rm)) => {
                    let rm = std::str::from_utf8(rm).map_err(|_| fault("rm_id", "rm_id is not UTF-8".to_owned()))?;
                    read.rm = rm.to_owned();
                    continue;
                }
                (2, Value::Number(epoch)) => {
                    read.epoch = epoch;
                    continue;
                }
                (3, Value::Number(sequence)) => {
                    read.sequence = sequence;
                    continue;
                }
                (4, Value::Bytes(bytes)) => (Holds::Request(Request::Applications), bytes),
                (5, Value::Bytes(bytes)) => (Holds::Request(Request::Nodes), bytes),
                (6, Value::Bytes(bytes)) => (Holds::Request(Request::Allocations), bytes),
                (7, Value::Bytes(bytes)) => (Holds::Configuration, bytes),
                (8, Value::Bytes(bytes)) => (Holds::Heartbeat, bytes),
                (9, Value::Bytes(trace)) => {
                    // One that cannot be read counts as missing.
                    read.trace = std::str::from_utf8(trace).unwrap_or_default();
                    continue;
                }
                _ => continue,
            };
            if read.holds.replace((holds, bytes)).is_some() {
                return Err(fault(
                    "request",
                    "a Request holds one of its kinds, and this one holds several".to_owned(),
                ));
            }
        }
        match (read.sequence, read.holds) {
            (0, Some(_)) => Err(fault("sequence", "a request needs a sequence number, the first is 1".to_owned())),
            (0, None) | (_, Some(_)) => Ok(read),
            (sequence, None) => Err(fault(
                "request",
                format!(
                    "request {sequence} is empty: it needs one of application, node, allocation, configuration, heartbeat"
                ),
            )),
        }
    }
}

fn fault(field: &str, detail: String) -> Fault {
    Malformed { field: Some(field.to_owned()), detail }.into()
}

#[cfg(test)]
mod tests {
    use prost::Message as _;

    use super::*;
    use crate::{
        ext::{self, request::Request as Kind},
        v1,
    };

    fn detail(message: &ext::Request) -> String {
        match Numbered::read(&message.encode_to_vec()).expect_err("refused") {
            Fault::Malformed(malformed) => malformed.detail,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_frame_is_read_and_its_content_left_alone() {
        let node = v1::NodeRequest { rm_id: "rm".into(), ..Default::default() };
        let request = ext::Request {
            rm_id: "rm".into(),
            epoch: 3,
            sequence: 300,
            request: Some(Kind::Node(node.clone())),
            traceparent: "00-a".into(),
        };
        let bytes = request.encode_to_vec();
        let read = Numbered::read(&bytes).expect("valid");
        assert_eq!((read.rm.as_str(), read.epoch, read.sequence), ("rm", 3, 300));
        assert_eq!(read.holds, Some((Holds::Request(Request::Nodes), &*node.encode_to_vec())));
        assert_eq!(Numbered::read(b""), Ok(Numbered::default()));
    }

    #[test]
    fn faults_are_told() {
        let heartbeat = || Some(Kind::Heartbeat(ext::Heartbeat::default()));
        let unnumbered = ext::Request { request: heartbeat(), ..Default::default() };
        assert!(detail(&unnumbered).contains("needs a sequence number"));
        let empty = ext::Request { sequence: 7, ..Default::default() };
        assert!(detail(&empty).starts_with("request 7 is empty"));
        let mut two = ext::Request { sequence: 7, request: heartbeat(), ..Default::default() }.encode_to_vec();
        two.extend_from_slice(&[0x22, 0]);
        assert!(
            matches!(Numbered::read(&two), Err(Fault::Malformed(Malformed { field: Some(field), .. })) if field == "request")
        );
        assert!(Numbered::read(b"\x0a\x01\xff").is_err(), "not UTF-8");
        assert!(Numbered::read(b"\x22\x05").is_err(), "cut off");
    }
}
