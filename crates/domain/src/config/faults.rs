//! Collecting the faults of a configuration: the first decides the text of the refusal, all are listed.

use super::{Fault, Refused, yaml::At};
use crate::names::shorten;

/// Faults that are listed; more are counted.
const LISTED: usize = 1_000;
/// Bytes of a text that are told: it may quote what was written.
const TOLD: usize = 1_000;

/// What was found so far.
#[derive(Debug, Default)]
pub struct Faults {
    first: Option<String>,
    list: Vec<Fault>,
    more: usize,
}

/// The beginning of a text that is too long to be told.
pub fn cut(mut text: String) -> String {
    shorten(&mut text, TOLD);
    text
}

impl Faults {
    /// Notes a fault: `text` is that of the reference, `detail` names the thing, the value and the way out.
    pub fn add(&mut self, at: At, rule: &'static str, text: impl Into<String>, detail: impl AsRef<str>) {
        if self.list.len() == LISTED {
            self.more += 1;
            return;
        }
        let text = cut(text.into());
        let message = match detail.as_ref() {
            "" => text.clone(),
            detail => cut(format!("{text} ({detail})")),
        };
        self.first.get_or_insert(text);
        let fault = Fault { line: at.line, column: at.column, rule, message };
        // Some checks look at a value twice, in the order in which clients know the texts.
        let again = |other: &Fault| (other.line, other.column, other.rule) == (fault.line, fault.column, fault.rule);
        if !self.list.iter().any(|other| again(other) && other.message == fault.message) {
            self.list.push(fault);
        }
    }

    /// Takes over the faults of `other`, except those at places where there is one already: they only follow from it.
    pub fn append(&mut self, other: Faults) {
        if self.first.is_none() {
            self.first = other.first;
        }
        let known: Vec<_> = self.list.iter().map(|fault| (fault.line, fault.column)).collect();
        self.list.extend(other.list.into_iter().filter(|fault| !known.contains(&(fault.line, fault.column))));
        self.more += other.more;
    }

    /// Number of faults so far.
    pub fn count(&self) -> usize {
        self.list.len() + self.more
    }

    /// The text of the refusal is this one.
    pub fn set_message(&mut self, text: String) {
        self.first = Some(text);
    }

    /// The refusal, where there is any fault.
    pub fn refusal(mut self) -> Result<(), Refused> {
        match self.first.take() {
            Some(message) => Err(Refused { message, faults: self.into_list() }),
            None => Ok(()),
        }
    }

    /// The faults alone.
    pub fn into_list(mut self) -> Vec<Fault> {
        if self.more > 0 {
            let message = format!("{} more are not listed", self.more);
            self.list.push(Fault { line: 0, column: 0, rule: "", message });
        }
        self.list
    }
}
