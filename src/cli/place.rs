//! Where a command that follows the log of a server goes on. Ids are each server's own: at another server it goes on by time.

use std::collections::HashMap;

use jiff::Timestamp;

use super::out;

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct Place {
    /// The server that answered last; empty: none did.
    server: String,
    /// Lines that were printed last: when they happened, and each as it came.
    last: Option<(Timestamp, Vec<Vec<u8>>)>,
    /// What was printed last of the server before: how many lines say the same but for their ids.
    before: Option<(Timestamp, HashMap<Option<String>, usize>)>,
}

impl Place {
    /// This server answers. True: another one did before, and ids that it gave say nothing here.
    pub fn moves_to(&mut self, server: &str) -> bool {
        let before = std::mem::replace(&mut self.server, server.to_owned());
        if before.is_empty() || before == server {
            return false;
        }
        if let Some((time, lines)) = self.last.take() {
            let mut same = HashMap::new();
            for line in lines {
                *same.entry(without_id(&line)).or_default() += 1;
            }
            self.before = Some((time, same));
        }
        let from = self.since().map_or(String::new(), |time| format!(", and what follows is from {time} on"));
        out::note(format_args!("callboard: {server} answers now: its ids are its own{from}"));
        true
    }

    /// It goes on with what is of this time or later.
    pub fn since(&self) -> Option<Timestamp> {
        self.before.as_ref().map(|(time, _)| *time)
    }

    /// Takes note of a line; false where another server had it.
    pub fn is_new(&mut self, line: &[u8], at: Timestamp) -> bool {
        if let Some((time, known)) = &mut self.before {
            if at < *time {
                return false;
            }
            if at == *time
                && let Some(left) = known.get_mut(&without_id(line)).filter(|left| **left > 0)
            {
                *left -= 1;
                return false;
            }
        }
        match &mut self.last {
            Some((time, lines)) if *time == at => lines.push(line.to_owned()),
            last => *last = Some((at, vec![line.to_owned()])),
        }
        true
    }
}

fn without_id(line: &[u8]) -> Option<String> {
    let mut value: serde_json::Value = serde_json::from_slice(line).ok()?;
    value.as_object_mut()?.remove("id");
    Some(value.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_server_goes_on_by_time_and_repeats_nothing() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let mut place = Place::default();
        assert!(!place.moves_to("a"));
        for (line, second) in [(r#"{"id":7,"x":1}"#, 1), (r#"{"id":8,"x":1}"#, 2), (r#"{"id":9,"x":2}"#, 2)] {
            assert!(place.is_new(line.as_bytes(), at(second)));
        }
        assert!(!place.moves_to("a"));
        assert!(place.moves_to("b"));
        assert_eq!(place.since(), Some(at(2)));
        let new = |place: &mut Place, line: &str, second| place.is_new(line.as_bytes(), at(second));
        assert!(!new(&mut place, r#"{"id":1,"x":0}"#, 1), "older");
        assert!(!new(&mut place, r#"{"id":2,"x":1}"#, 2), "the same");
        assert!(new(&mut place, r#"{"id":3,"x":1}"#, 2), "which was there once");
        assert!(new(&mut place, r#"{"id":4,"x":3}"#, 2));
        // It ends before it has said more.
        assert!(place.moves_to("a") && place.moves_to("b"));
        assert_eq!(place.since(), Some(at(2)));
        assert!(!new(&mut place, r#"{"id":4,"x":3}"#, 2));
        assert!(new(&mut place, r#"{"id":5,"x":3}"#, 5));
    }
}
