//! Callbacks of requests that are traced: each is a span that ends when a stream has its line.

use std::collections::VecDeque;

use super::buffer::Buffer;
use crate::{messages::rm::Kind, trace::Span};

/// So many are waited for at most: the oldest end too early.
const MOST: usize = 256;

/// See the module.
#[derive(Debug, Default)]
pub struct Traced(VecDeque<(u64, Kind, Span)>);

impl Traced {
    /// They say of what is in the lines up to this one of their kind, 0: of none.
    pub fn wait(&mut self, spans: Vec<(Kind, Span)>, lines: [u64; Kind::ALL.len()]) {
        for (kind, mut span) in spans {
            let line = lines[kind as usize];
            if line > 0 {
                span.number("callboard.line", line);
                if self.0.len() >= MOST {
                    self.0.pop_front();
                }
                self.0.push_back((line, kind, span));
            }
        }
    }

    /// Those whose lines were handed out end.
    pub fn collect(&mut self, buffer: &Buffer) {
        if !self.0.is_empty() {
            self.0.retain(|(line, kind, _)| *line > buffer.handed(*kind));
        }
    }

    /// The first line of a kind that is waited for; `None` for any kind.
    pub fn awaited(&self, kind: Option<Kind>) -> Option<u64> {
        self.0.iter().find(|(_, of, _)| kind.is_none_or(|kind| kind == *of)).map(|(line, ..)| *line)
    }
}
