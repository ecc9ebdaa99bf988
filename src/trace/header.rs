//! W3C trace context: a request that is part of a trace says so in `traceparent`, and its answer names the part that was done
//! here, in the same trace. The audit log has the trace.

use std::fmt;

/// The header, and the metadata of gRPC.
pub const HEADER: &str = "traceparent";

/// A part of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trace {
    trace: u128,
    part: u64,
    sampled: bool,
}

impl Trace {
    /// Reads the header; `None` where it is malformed, which counts as missing. What later versions add at the end is ignored.
    pub fn read(header: &str) -> Option<Trace> {
        let mut fields = header.trim().splitn(5, '-');
        let mut field = |digits: usize| {
            let text = fields.next()?;
            let hex = text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
            (text.len() == digits && hex).then(|| u128::from_str_radix(text, 16).ok()).flatten()
        };
        let (version, trace, part, flags) = (field(2)?, field(32)?, field(16)?, field(2)?);
        let ends = fields.next().is_none();
        let valid = version != 0xff && trace != 0 && part != 0 && (ends || version > 0);
        // Sixteen digits.
        valid.then_some(Trace { trace, part: part as u64, sampled: flags & 1 == 1 })
    }

    /// A part of a trace whose spans are kept.
    pub fn sampled(trace: u128, part: u64) -> Trace {
        Trace { trace, part, sampled: true }
    }

    /// Its sender keeps the spans of the trace.
    pub fn is_sampled(&self) -> bool {
        self.sampled
    }

    /// What all parts of the trace have in common, as a number.
    pub fn number(&self) -> u128 {
        self.trace
    }

    /// This part of the trace.
    pub fn part(&self) -> u64 {
        self.part
    }

    /// A part of the same trace that is done here.
    pub fn here(self) -> Trace {
        Trace { part: rand::random::<u64>().max(1), ..self }
    }

    /// What all parts of the trace have in common.
    pub fn id(&self) -> String {
        format!("{:032x}", self.trace)
    }
}

impl fmt::Display for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "00-{:032x}-{:016x}-{:02x}", self.trace, self.part, u8::from(self.sampled))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_read_as_the_standard_has_it() {
        let text = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        let trace = Trace::read(text).unwrap();
        assert_eq!((trace.to_string(), trace.id()), (text.to_owned(), "4bf92f3577b34da6a3ce929d0e0e4736".to_owned()));
        let (here, there) = (trace.here(), trace.here());
        assert!(here.id() == trace.id() && here != trace && here != there && here.sampled);
        let later = "cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-02-what-will-be";
        assert_eq!(Trace::read(later).unwrap(), Trace { sampled: false, ..trace });
        for wrong in [
            "",
            "00",
            "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more",
            "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
            "00-4bf92f3577b34da6a3ce929d0e0e473-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-1",
            "00-+bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        ] {
            assert_eq!(Trace::read(wrong), None, "{wrong}");
        }
    }
}
