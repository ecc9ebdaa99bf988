//! Collecting the faults of a configuration: the first decides the text of the refusal, all are listed.

use super::{Fault, Refused, yaml::At};

/// What was found so far.
#[derive(Debug, Default)]
pub struct Faults {
    first: Option<String>,
    list: Vec<Fault>,
}

impl Faults {
    /// Notes a fault: `text` is that of the reference, `detail` names the thing, the value and the way out.
    pub fn add(&mut self, at: At, rule: &'static str, text: impl Into<String>, detail: impl AsRef<str>) {
        let text = text.into();
        let message = match detail.as_ref() {
            "" => text.clone(),
            detail => format!("{text} ({detail})"),
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
    }

    /// Number of faults so far.
    pub fn count(&self) -> usize {
        self.list.len()
    }

    /// The text of the refusal is this one.
    pub fn set_message(&mut self, text: String) {
        self.first = Some(text);
    }

    /// The refusal, where there is any fault.
    pub fn refusal(self) -> Result<(), Refused> {
        match self.first {
            Some(message) => Err(Refused { message, faults: self.list }),
            None => Ok(()),
        }
    }

    /// The faults alone.
    pub fn into_list(self) -> Vec<Fault> {
        self.list
    }
}
