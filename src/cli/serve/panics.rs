//! What a panic means: in a door one failed request, on the arbiter of partitions or of control the end of the process.

use std::{
    cell::Cell,
    io::{self, Write as _},
    panic, process, thread,
};

use jiff::Timestamp;
use serde_json::json;

use super::log::Format;

thread_local! {
    static CRITICAL: Cell<bool> = const { Cell::new(false) };
}

/// Marks this thread: a panic on it is a broken invariant.
pub fn critical() {
    CRITICAL.set(true);
}

/// Installs the hook. It says what broke as the log says things.
pub fn install(format: Format) {
    panic::set_hook(Box::new(move |info| {
        let payload = info.payload();
        let text = payload.downcast_ref::<&str>().copied();
        let what = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message");
        let place = info.location().map(ToString::to_string).unwrap_or_default();
        if CRITICAL.get() {
            // Not by the log, which may be what broke.
            let _ = writeln!(io::stderr(), "{}", last_words(format, &format!("broken invariant at {place}: {what}")));
            process::abort();
        }
        let thread = thread::current();
        tracing::error!(code = "panic", thread = thread.name().unwrap_or("unnamed"), place, "panic: {what}");
    }));
}

fn last_words(format: Format, broken: &str) -> String {
    let next = "the process ends; the next one goes on from the log, or resource managers register again";
    match format {
        Format::Text => format!("callboard: {broken}\ncallboard: {next}"),
        Format::Json => {
            let (timestamp, message) = (Timestamp::now().to_string(), format!("{broken}: {next}"));
            json!({"timestamp": timestamp, "level": "ERROR", "code": "panic", "message": message}).to_string()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_words_are_in_the_form_of_the_log() {
        let json = last_words(Format::Json, "a\n\"b\"");
        let read: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert!(!json.contains('\n') && read["code"] == "panic", "{json}");
        assert!(read["message"].as_str().unwrap().starts_with("a\n\"b\": the process ends"), "{json}");
        assert!(last_words(Format::Text, "a").starts_with("callboard: a\ncallboard: the process ends"));
    }
}
