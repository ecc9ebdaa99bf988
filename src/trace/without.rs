//! Traces of a program that was built without the feature `otlp`: nobody can begin one.
#![allow(missing_docs)]

use std::borrow::Cow;

use super::{Exemplar, Sampling, Side, Trace};

/// Nobody begins traces.
#[derive(Debug, Default)]
pub struct Traces;

/// Never made.
#[derive(Debug)]
pub struct Span(Trace);

/// Never made.
#[derive(Clone, Debug)]
pub struct Point(Trace);

impl Traces {
    pub fn is_on(&self) -> bool {
        false
    }

    pub fn sample(&self, _sampling: Sampling) {}

    pub fn begin(&self, _came: Option<&Trace>, _name: impl FnOnce() -> Cow<'static, str>) -> Option<Span> {
        None
    }

    pub fn end(&self) {}
}

impl Span {
    pub fn point(&self) -> Point {
        Point(self.0)
    }

    pub fn trace(&self) -> Trace {
        self.0
    }

    pub fn text(&mut self, _key: &'static str, _value: impl Into<String>) {}

    pub fn number(&mut self, _key: &'static str, _value: u64) {}

    pub fn numbers(&mut self, _key: &'static str, _values: Vec<u64>) {}

    pub fn link(&mut self, _to: &Point) {}

    pub fn fail(&mut self, _why: &str) {}
}

impl Point {
    pub fn child(&self, _name: &'static str, _side: Side) -> Span {
        Span(self.0)
    }

    pub fn exemplar(&self) -> Exemplar {
        Exemplar { trace: self.0.id(), span: String::new() }
    }
}
