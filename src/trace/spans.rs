//! Spans by the library of OpenTelemetry.

use std::{
    borrow::Cow,
    sync::{Arc, OnceLock},
    time::Duration,
};

use arc_swap::ArcSwap;
use opentelemetry::{
    Array, Context, Key, KeyValue, Value,
    trace::{
        Span as _, SpanBuilder, SpanContext, SpanId, SpanKind, Status, TraceContextExt as _, TraceFlags, TraceId,
        TraceState, Tracer as _, TracerProvider as _,
    },
};
use opentelemetry_sdk::{
    Resource,
    resource::{ResourceDetector as _, SdkProvidedResourceDetector},
    trace::{Sampler, SdkTracer, SdkTracerProvider, Span as SdkSpan, SpanProcessor},
};

use super::{Exemplar, Sampling, Side, Trace};

/// How long sending what is left to the collector may take when the server ends.
const PATIENCE: Duration = Duration::from_millis(500);

/// Where traces begin. Until a collector is named there are none.
#[derive(Debug, Default)]
pub struct Traces(OnceLock<Source>);

#[derive(Debug)]
struct Source {
    provider: SdkTracerProvider,
    tracer: Arc<SdkTracer>,
    sampling: ArcSwap<Sampling>,
}

/// Something that is being done for a traced request. It ends when it is dropped.
pub struct Span {
    tracer: Arc<SdkTracer>,
    span: SdkSpan,
}

impl std::fmt::Debug for Span {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Span({})", self.trace())
    }
}

/// A place in a trace, from which more may be begun.
#[derive(Clone, Debug)]
pub struct Point {
    tracer: Arc<SdkTracer>,
    at: SpanContext,
}

impl Traces {
    /// From now on there are traces, whose spans this takes. A second call changes nothing.
    pub fn start(&self, processor: impl SpanProcessor + 'static) {
        // A name from the environment comes first, of two OTEL_SERVICE_NAME: alone the library would take that in OTEL_RESOURCE_ATTRIBUTES.
        let named = SdkProvidedResourceDetector.detect().get(&Key::from_static_str("service.name"));
        let named = named.filter(|name| !name.as_str().starts_with("unknown_service"));
        let resource = Resource::builder()
            .with_attribute(KeyValue::new("service.version", env!("CARGO_PKG_VERSION")))
            .with_service_name(named.unwrap_or_else(|| "callboard".into()))
            .build();
        // Whether a request is traced is decided in `begin`: every span that is made is kept.
        let provider = SdkTracerProvider::builder()
            .with_sampler(Sampler::AlwaysOn)
            .with_resource(resource)
            .with_span_processor(processor)
            .build();
        let tracer = Arc::new(provider.tracer("callboard"));
        let _ = self.0.set(Source { provider, tracer, sampling: ArcSwap::from_pointee(Sampling::one_in(0)) });
    }

    /// There is a collector.
    pub fn is_on(&self) -> bool {
        self.0.get().is_some()
    }

    /// Which requests are traced, from now on.
    pub fn sample(&self, sampling: Sampling) {
        if let Some(source) = self.0.get() {
            source.sampling.store(Arc::new(sampling));
        }
    }

    /// A request came in; `came` is the trace that its header names. `None`: it is not traced.
    pub fn begin(&self, came: Option<&Trace>, name: impl FnOnce() -> Cow<'static, str>) -> Option<Span> {
        let source = self.0.get()?;
        let sampling = source.sampling.load();
        let wanted = match came {
            Some(trace) if sampling.by_caller => trace.is_sampled(),
            _ => rand::random_bool(sampling.share),
        };
        wanted.then(|| {
            let parent = came.map_or_else(Context::new, |trace| Context::new().with_remote_span_context(remote(trace)));
            begin(&source.tracer, &parent, name(), SpanKind::Server)
        })
    }

    /// Sends what waits for the collector, for half a second at most.
    pub fn end(&self) {
        if let Some(source) = self.0.get() {
            let _ = source.provider.shutdown_with_timeout(PATIENCE);
        }
    }
}

fn begin(tracer: &Arc<SdkTracer>, parent: &Context, name: Cow<'static, str>, kind: SpanKind) -> Span {
    let span = tracer.build_with_context(SpanBuilder::from_name(name).with_kind(kind), parent);
    Span { tracer: tracer.clone(), span }
}

fn remote(trace: &Trace) -> SpanContext {
    let (id, part) = (TraceId::from(trace.number()), SpanId::from(trace.part()));
    SpanContext::new(id, part, TraceFlags::SAMPLED, true, TraceState::default())
}

impl Span {
    /// The place of this span, for spans within it.
    pub fn point(&self) -> Point {
        Point { tracer: self.tracer.clone(), at: self.span.span_context().clone() }
    }

    /// As a header says it.
    pub fn trace(&self) -> Trace {
        let at = self.span.span_context();
        let (trace, part) =
            (u128::from_be_bytes(at.trace_id().to_bytes()), u64::from_be_bytes(at.span_id().to_bytes()));
        Trace::sampled(trace, part)
    }

    /// Sets an attribute.
    pub fn text(&mut self, key: &'static str, value: impl Into<String>) {
        self.span.set_attribute(KeyValue::new(key, value.into()));
    }

    /// Sets an attribute that is a number.
    pub fn number(&mut self, key: &'static str, value: u64) {
        self.span.set_attribute(KeyValue::new(key, signed(value)));
    }

    /// Sets an attribute that is a list of numbers.
    pub fn numbers(&mut self, key: &'static str, values: Vec<u64>) {
        let values = Value::Array(Array::I64(values.into_iter().map(signed).collect()));
        self.span.set_attribute(KeyValue::new(key, values));
    }

    /// Links it to a place in another trace.
    pub fn link(&mut self, to: &Point) {
        self.span.add_link(to.at.clone(), Vec::new());
    }

    /// It did not go well.
    pub fn fail(&mut self, why: &str) {
        self.span.set_status(Status::error(why.to_owned()));
    }
}

impl Point {
    /// Begins a span there.
    pub fn child(&self, name: &'static str, side: Side) -> Span {
        let kind = match side {
            Side::Inside => SpanKind::Internal,
            Side::Callback => SpanKind::Producer,
        };
        let parent = Context::new().with_remote_span_context(self.at.clone());
        begin(&self.tracer, &parent, name.into(), kind)
    }

    /// As OpenMetrics shows it beside a measurement.
    pub fn exemplar(&self) -> Exemplar {
        Exemplar { trace: self.at.trace_id().to_string(), span: self.at.span_id().to_string() }
    }
}

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use opentelemetry_sdk::{
        error::OTelSdkResult,
        trace::{SpanData, SpanExporter},
    };

    use super::*;

    /// Keeps what it gets.
    #[derive(Clone, Debug, Default)]
    struct Kept(Arc<Mutex<Vec<SpanData>>>);

    impl SpanExporter for Kept {
        async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
            self.0.lock().unwrap().extend(batch);
            Ok(())
        }
    }

    fn kept() -> (Traces, Kept) {
        let (traces, kept) = (Traces::default(), Kept::default());
        traces.start(opentelemetry_sdk::trace::SimpleSpanProcessor::new(kept.clone()));
        (traces, kept)
    }

    #[test]
    fn only_what_is_wanted_is_traced() {
        let (traces, kept) = kept();
        let sampled = Trace::read("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01").unwrap();
        let not = Trace::read("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00").unwrap();
        assert!(Traces::default().begin(Some(&sampled), || "x".into()).is_none(), "without a collector");
        assert!(traces.begin(None, || "x".into()).is_none() && traces.begin(Some(&not), || "x".into()).is_none());
        let span = traces.begin(Some(&sampled), || "x".into()).unwrap();
        assert!(span.trace().id() == sampled.id() && span.trace() != sampled);
        let child = span.point().child("y", Side::Inside);
        drop((child, span));
        traces.sample(Sampling::one_in(1));
        drop(traces.begin(None, || "z".into()).unwrap());
        assert!(traces.begin(Some(&not), || "x".into()).is_none(), "the caller decides for its trace");
        traces.sample(Sampling { share: 0.0, by_caller: false });
        assert!(traces.begin(Some(&sampled), || "x".into()).is_none(), "where it is asked");
        let spans = kept.0.lock().unwrap();
        let names: Vec<_> = spans.iter().map(|span| &*span.name).collect();
        assert_eq!(names, ["y", "x", "z"]);
        assert_eq!(spans[0].parent_span_id, spans[1].span_context.span_id());
        assert_eq!(spans[1].parent_span_id.to_string(), "00f067aa0ba902b7");
        assert_ne!(spans[2].span_context.trace_id(), spans[1].span_context.trace_id());
    }

    #[test]
    fn one_in_some_is_taken() {
        let (traces, _) = kept();
        traces.sample(Sampling::one_in(10));
        let taken = (0..10_000).filter(|_| traces.begin(None, || "x".into()).is_some()).count();
        assert!((800..1_200).contains(&taken), "{taken}");
    }
}
