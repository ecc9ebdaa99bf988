//! Traces: a request from its door through the session, the partition and the events to the callback, as spans that are sent to a
//! collector (OpenTelemetry). `docs/traces.md` is the user's side of it.
//!
//! Whoever answers a request begins a [`Span`]; what it leads to elsewhere hangs on the [`Point`] of it, which goes along with
//! messages. Without a collector there is neither, and without the feature `otlp` there cannot be: then a span has no value.

pub mod header;
#[cfg(feature = "otlp")]
mod spans;
#[cfg(not(feature = "otlp"))]
#[path = "trace/without.rs"]
mod spans;

pub use self::{
    header::{HEADER, Trace},
    spans::{Point, Span, Traces},
};

/// Which requests are traced.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sampling {
    /// The share of requests that are traced where their caller does not decide, from 0 (none) to 1 (all).
    pub share: f64,
    /// The caller decides for a request that is part of a trace already; else that is a request as any other.
    pub by_caller: bool,
}

impl Sampling {
    /// One in `number` of the requests that are part of no trace begins one; 0: none does.
    pub fn one_in(number: u64) -> Sampling {
        Sampling { share: if number == 0 { 0.0 } else { 1.0 / number as f64 }, by_caller: true }
    }
}

/// What a span is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Work on a request inside this server.
    Inside,
    /// A line handed to a stream.
    Callback,
}

/// The traces of a stream's messages: a message names its trace or may begin one, which is linked to that of the call which
/// opened the stream.
#[derive(Clone, Debug, Default)]
pub struct Stream(pub Option<Point>);

impl Stream {
    /// A message came, with a header of its own or none.
    pub fn message(&self, traces: &Traces, header: Option<&str>, name: &'static str) -> Option<Span> {
        let mut span = traces.begin(header.and_then(Trace::read).as_ref(), || name.into())?;
        if let Some(opened) = &self.0 {
            span.link(opened);
        }
        Some(span)
    }
}

/// The trace and the span that a measurement was made in, as OpenMetrics shows them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exemplar {
    /// The trace in hexadecimal digits.
    pub trace: String,
    /// The span in hexadecimal digits.
    pub span: String,
}
